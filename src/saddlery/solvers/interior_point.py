"""A primal-dual interior point method for the hinge with l2 on data with few columns.

With slacks xi and surpluses t of the margins, the problem is a quadratic programme,

    min_{w,b}  alpha/2 |w|^2 + sum_i s_i xi_i        y_i (x_i.w + b) + xi_i - t_i = 1,   xi_i >= 0,  t_i >= 0

whose multipliers p_i of the rows lie between 0 and s_i. The method follows the central path p_i t_i = (s_i - p_i) xi_i = mu to
mu = 0 with Mehrotra's predictor and corrector. A step solves one system with as many unknowns as there are columns,

    (alpha I + X' diag(h) X) dw = ...,      h_i = 1 / (xi_i / (s_i - p_i) + t_i / p_i)

so ten to forty steps give any accuracy, however correlated the columns are and however many rows are at the margin: that is where
dual ascent crawls (digits, 1797 x 64, 8 or not: 20 ms by active_sdca, 138 by augmented_newton, 7 here).

=========  ==================================================================
here       meaning
=========  ==================================================================
v          w, and b as last component if there is an intercept
p          multipliers of the rows; the dual point is a_i = -y_i p_i / s_i
m          margins y_i (x_i.w + b)
mu         mean of the products p t and (s - p) xi
=========  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.matrix.vectors import DenseVectors
from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.at_once import CertifiedPoints
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.gram_model import SMALL_FACE, factorise, solve_factorised
from saddlery.solvers.small_columns import add_columns, columns_of, dots_with_columns, weighted_gram

__all__ = ["InteriorPoint"]

BEFORE_WALL = 0.99  # share of the way to the nearest wall that a step goes
STEPS = 4  # steps of an epoch
EPOCHS = 20  # most of them in one go
LOST = 3  # epochs in a row without a fall of the gap after which rounding has won
EPS = float(np.finfo(float).eps)  # the objective at w = 0 is 1


# --------------------------------------------------------------------------- kernels


@kernel
def signed_products(loss, C, y, p, signed, out):
    """out = C (y p)."""
    for i in range(p.shape[0]):
        signed[i] = y[i] * p[i]
    dots_with_columns(loss, C, signed, out)


@kernel
def complete_direction(loss, s, p, xi, t, dm, h, rho, dp, dxi, dt):
    """The moves of p, xi and t that belong to the move dm of the margins; rho is what the complementarity of a row still lacks.

    On entry dxi and dt are the right-hand sides of beta dxi - xi dp = . and p dt + t dp = ., with beta = s - p.
    """
    for i in range(p.shape[0]):
        dp[i] = h[i] * (rho[i] - dm[i])
        dxi[i] = (dxi[i] + xi[i] * dp[i]) / (s[i] - p[i])
        dt[i] = (dt[i] - t[i] * dp[i]) / p[i]


@kernel
def longest_step(loss, s, p, xi, t, dp, dxi, dt):
    """The largest step, up to 1, that leaves p in [0, s] and xi and t nonnegative."""
    size = 1.0
    for i in range(p.shape[0]):
        if dp[i] < 0.0:
            size = min(size, -p[i] / dp[i])
        elif dp[i] > 0.0:
            size = min(size, (s[i] - p[i]) / dp[i])
        if dxi[i] < 0.0:
            size = min(size, -xi[i] / dxi[i])
        if dt[i] < 0.0:
            size = min(size, -t[i] / dt[i])
    return size


@kernel(fast_sums=True)
def mean_product(loss, s, p, xi, t, dp, dxi, dt, size):
    """mu after a step of this size."""
    total = 0.0
    for i in range(p.shape[0]):
        q = p[i] + size * dp[i]
        total += q * (t[i] + size * dt[i]) + (s[i] - q) * (xi[i] + size * dxi[i])
    return total / (2 * p.shape[0])


@kernel
def move_margins(loss, C, y, dv, out):
    """out = y C'dv."""
    add_columns(loss, C, dv, out)
    for i in range(y.shape[0]):
        out[i] *= y[i]


@kernel(fast_sums=True)
def slack_gap(loss, s, p, m, v, g, l2, d):
    """P(w, b) - D(p), if sum_i y_i p_i = 0 or there is no intercept."""
    primal, dual, square, norm = 0.0, 0.0, 0.0, 0.0
    for i in range(p.shape[0]):
        primal += s[i] * max(0.0, 1.0 - m[i])
        dual += p[i]
    for j in range(d):
        square += v[j] * v[j]
        norm += g[j] * g[j]
    return primal + 0.5 * l2 * square - dual + 0.5 * norm / l2


@kernel
def interior_steps(loss, cols, y, s, l2, free, most, tol, v, p, xi, t, m):
    """Up to `most` steps, or to a gap of `tol`; all of v, p, xi, t and m move. Returns their number and the gap before the last."""
    n, size, gap = y.shape[0], v.shape[0], math.inf
    d, C = size - free, cols.values.reshape((size, n))
    g, rest, dv, system = np.empty(size), np.empty(size), np.empty(size), np.empty((size, size))
    signed, h, rho, dm, dp, dxi, dt = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for step in range(most):
        signed_products(loss, C, y, p, signed, g)
        gap = slack_gap(loss, s, p, m, v, g, l2, d)
        if gap <= max(tol, EPS):
            return step, gap
        for i in range(n):
            h[i] = 1.0 / (xi[i] / (s[i] - p[i]) + t[i] / p[i])
            dp[i] = dxi[i] = dt[i] = 0.0
        for j in range(size):
            rest[j] = g[j] - l2 * v[j] if j < d else g[j]
        weighted_gram(loss, C, h, system)
        for j in range(d):
            system[j, j] += l2
        factorise(loss, system, size)
        mu, target = mean_product(loss, s, p, xi, t, dp, dxi, dt, 0.0), 0.0
        for corrected in range(2):  # the predictor aims at mu = 0 and tells how much of mu it is wise to keep
            for i in range(n):
                second, beta = dp[i], s[i] - p[i]
                lack_xi = target - beta * xi[i] + second * dxi[i]
                lack_t = target - p[i] * t[i] - second * dt[i]
                rho[i] = lack_t / p[i] - lack_xi / beta
                signed[i] = y[i] * h[i] * rho[i]
                dxi[i], dt[i] = lack_xi, lack_t
            dots_with_columns(loss, C, signed, dv)
            for j in range(size):
                dv[j] += rest[j]
            solve_factorised(loss, system, size, dv)
            move_margins(loss, C, y, dv, dm)
            complete_direction(loss, s, p, xi, t, dm, h, rho, dp, dxi, dt)
            length = longest_step(loss, s, p, xi, t, dp, dxi, dt)
            if corrected == 0:
                share = mean_product(loss, s, p, xi, t, dp, dxi, dt, length) / mu
                target = share * share * share * mu
        length = min(1.0, BEFORE_WALL * length)
        if not math.isfinite(length * dv.sum()):  # rounding has won
            return step, gap
        for j in range(size):
            v[j] += length * dv[j]
        for i in range(n):
            p[i] += length * dp[i]
            xi[i] += length * dxi[i]
            t[i] += length * dt[i]
            m[i] += length * dm[i]
    return most, gap


# --------------------------------------------------------------------------- the solver


class _State(State):
    """Where the solver stands; see the table at the top of the file. `used` are the rows with a weight."""

    def __init__(self, problem: Any, w: np.ndarray, b: float):
        self.used = np.arange(problem.n) if problem.equal_weights else np.flatnonzero(problem.s)
        self.cols = columns_of(problem.matrix, int(problem.fit_intercept))
        if len(self.used) < problem.n:
            self.cols = DenseVectors(self.cols.values.reshape(-1, problem.n)[:, self.used].reshape(-1), len(self.used))
        self.v = np.append(w, b) if problem.fit_intercept else w.copy()
        self.m = problem.y * (problem.margins(w) + b)
        m, s = self.m[self.used], problem.s[self.used]
        self.m, self.p, self.xi = m, 0.5 * s, np.maximum(1.0 - m, 0.0) + 1.0
        self.t = self.xi - (1.0 - m)
        self.gap, self.lost = float("inf"), 0


@dataclass(frozen=True)
class InteriorPoint(Solver):
    """Mehrotra's predictor-corrector method on the slack form of the SVM; for at most 127 columns, as a dense array."""

    name = "interior_point"
    paper = "Mehrotra (1992); for SVMs Ferris and Munson (2002)"
    needs = Needs(
        loss=("value", "slope", "conjugate"),
        penalty=("coordinate_value",),
        hinge=True,
        strongly_convex=True,
        rotates=True,
        most_columns=SMALL_FACE - 1,
    )
    random = False
    epochs_at_once = EPOCHS

    def has_points(self, problem: Any, count: int) -> bool:
        return count == 1

    def points(self, problem: Any, factors: np.ndarray, tol: float, rng: Any = None) -> CertifiedPoints:
        """The solution, without certificates on the way: on small data these cost as much as the steps."""
        state = self.init(problem, None)
        state.tol = tol
        epochs = math.ceil(self._go(problem, state, EPOCHS * STEPS) / STEPS)
        point = self.point(problem, state)
        primal, dual = problem.evaluate(point)
        values = np.array([[primal, dual.value, problem.nonzeros(point.w)]])
        return CertifiedPoints(
            point.w[None, :].copy(), np.array([point.b]), values, problem.scale, state, dual.a[None, :], [epochs]
        )

    def init(self, problem: Any, start: Point | None, rng: Any = None) -> _State:
        w, b = (np.zeros(problem.d), 0.0) if start is None else (start.w, start.b)
        return _State(problem, w, b)

    def step(self, problem: Any, state: _State) -> None:
        self._go(problem, state, STEPS)

    def _go(self, problem: Any, state: _State, most: int) -> int:
        """At most so many steps; returns how many."""
        data = (problem.y, problem.s) if len(state.used) == problem.n else (problem.y[state.used], problem.s[state.used])
        l2, free = problem.penalty.strong_convexity, int(problem.fit_intercept)
        where = (state.v, state.p, state.xi, state.t, state.m)
        count, gap = interior_steps(problem.loss, state.cols, *data, l2, free, most, 0.5 * state.tol * problem.scale, *where)
        state.accesses += (4.0 + problem.d / 16.0) * count * problem.d * len(state.used)
        state.lost = 0 if gap < state.gap else state.lost + 1
        state.gap = min(gap, state.gap)
        state.stalled = state.lost >= LOST or count == 0  # where no step was taken, none will be: certified by now, or never
        return count

    def point(self, problem: Any, state: _State) -> Point:
        a = np.zeros(problem.n)
        a[state.used] = -problem.y[state.used] * np.clip(state.p / problem.s[state.used], 0.0, 1.0)
        w, b = state.v[: problem.d], float(state.v[problem.d]) if problem.fit_intercept else 0.0
        return Point(w, b, a)
