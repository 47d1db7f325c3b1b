"""Newton's method for few columns, from begin to end in one compiled function, for one strength of the penalty or a path of them.

On small data (270 x 13, say) a Newton step takes nine microseconds, a few calls from Python as long. All columns are in the model,
so that there is nothing to choose between steps:

    min_v  q.(v - u) + 1/2 (v - u)'G(v - u) + g(v)        q = C r,  G = C diag(h) C',  r_i = s_i l'(z_i),  h_i ~ s_i l''(z_i)

is solved by coordinate descent with exact solves on the support, and after a full step the slopes of the model,
a + (h / s) C'(v - u), are the dual point: nearer to feasibility than those of the loss, they save the last step. Certificates are
computed on the way, with the kernels of the problem: the primal value from margins of the final weights, the dual value from
X'(s a) of the final dual point.

Under f times the penalty all is divided by f: then weights s / f stand in for s, and the penalty is what it was.

=========  ==================================================================
here       meaning
=========  ==================================================================
C          the columns of X, one behind the other, and a column of ones if there is an intercept
u          the weights w, and the intercept behind them
z          margins C'u
a, r, h    slopes l'(z), weighted slopes s a, weighted curvatures s l''(z)
q          gradient of the loss, then of the model
=========  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.penalties.base import sum_values
from saddlery.point import Point
from saddlery.problems.row_sums import balance, best_multiple, clip_to_domain, primal_value
from saddlery.solvers.at_once import CertifiedPoints
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.gram_model import solve_small_model, worst_violation
from saddlery.solvers.newton_search import balancing_shift, expand_at, model_slopes, search_along
from saddlery.solvers.small_columns import add_columns, columns_of, dots_with_columns, weighted_gram
from saddlery.solvers.small_rounds import copy_into

__all__ = ["SmallNewton"]

COLUMNS = 64  # most: with more, working sets are worth their trouble
STEPS = 30  # most of them in one go
FACES = 100  # that are solved for a model at most
CALM = 0.1  # share of the last violation below which steps converge fast, and their models are worth solving to the end
ROUGH, FINE = 1e-2, 1e-7  # shares of its first violation to which a model is solved: at most and at least
PROVES = 0.1  # share of tolerance times threshold: a violation that costs the dual value no more than that share of the tolerance
LEAST_FLOOR = 1e-6  # of curvatures, after a step that failed
IDLE = 3  # steps in a row without a fall after which rounding is all that is left
ONE = np.ones(1)


@kernel(only_inside=True)
def prove(loss, penalty, C, y, s, free, levels, facts, dual, weighted, Xta, terms):
    """Balance the dual point; returns the multiple t that makes it feasible, and the dual value there."""
    if free:
        balance(loss, y, s, dual, levels)
        clip_to_domain(loss, y, dual, dual)  # rounding may have left it by a hair
    for i in range(y.shape[0]):
        weighted[i] = s[i] * dual[i]
    dots_with_columns(loss, C[: Xta.shape[0]], weighted, Xta)
    return best_multiple(loss, penalty, y, s, dual, Xta, facts[3], facts[0], facts[1], terms)


@kernel(only_inside=True)
def newton_on_all(loss, penalty, C, y, s, free, levels, facts, scale, most, u, z, a, r, h, dual, value, floor):
    """At most so many Newton steps, until the relative gap is the one asked for; weights, margins, slopes, curvatures and the dual
    point follow.

    Returns the loss, the floor of curvatures, the number of steps, whether there is no further progress, and the multiple of the
    dual point that is feasible, with its value.
    """
    threshold, l2, smoothness, _, tol = facts
    size, n = C.shape
    w, every = u[: size - free], np.arange(size - free)
    q, origin, move, trial, slope = np.empty(size), np.empty(size), np.empty(size), np.empty(w.shape[0]), np.empty(size)
    gram, system, face, Xta = np.empty((size, size)), np.empty((size, size)), np.empty(size, np.int64), np.empty(w.shape[0])
    new_z, new_a, new_r, new_h = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    along, weighted, bent = np.empty(n), np.empty(n), np.empty(n)
    last, idle, round_l2 = math.inf, 0, l2 if threshold == 0.0 else -1.0
    sweeps = max(6, size // 4) if threshold > 0.0 else 1  # before a face is solved, which costs as much as some of them
    # A model that is wrong is not worth more faces than it took to make it (208 x 60, l1 logistic at 0.01: 0.67 -> 0.44 ms).
    faces, last_violation = max(1, n // (4 * size)), math.inf
    done, stuck, over, multiple, lower = 0, False, False, 1.0, -math.inf
    while not over:
        full = False
        dots_with_columns(loss, C, r, q)
        violation = worst_violation(penalty, w, q[: w.shape[0]])
        if free:
            violation = max(violation, abs(q[size - 1]))
        size_of_w = sum_values(penalty, w)
        primal = value + size_of_w
        idle = 0 if primal < last - 1e-15 * abs(primal) else idle + 1
        stuck, last = violation == 0.0 or idle == IDLE, primal
        over = stuck or (size_of_w == 0.0 and violation <= PROVES * tol * threshold)  # zero is good enough, and stays that
        if not over:
            for i in range(n):
                bent[i] = max(h[i], floor * smoothness * s[i])
            weighted_gram(loss, C, bent, gram)
            for j in range(size):
                origin[j] = move[j] = u[j]
            accuracy = min(ROUGH * violation, max(PROVES * tol * threshold, FINE * violation))
            faces = FACES if violation <= CALM * last_violation < math.inf else min(FACES, faces)
            solve_small_model(penalty, gram, move, q, free, threshold, l2, accuracy, sweeps, faces, face, system, slope)
            last_violation, faces = violation, 2 * faces
            for j in range(size):
                move[j] -= origin[j]
            add_columns(loss, C, move, along)
            length, there, penalty_there = search_along(
                loss,
                penalty,
                y,
                s,
                z,
                along,
                0.0,
                0.0,
                r,
                value,
                every,
                origin,
                move,
                round_l2,
                w,
                trial,
                new_z,
                new_a,
                new_r,
                new_h,
            )
            done += 1
            if length == 0.0:
                stuck, floor = floor == 1.0, min(1.0, max(100.0 * floor, LEAST_FLOOR))
            else:
                floor = min(1.0, 10.0 * floor) if length < 0.25 else max(1e-9, 0.1 * floor) if length >= 1.0 else floor
                value, size_of_w, full = there, penalty_there, length == 1.0
                if free:
                    u[size - 1] += length * move[size - 1]
                if full:  # the model holds there, and so does its dual point (bodyfat, huber with l2, balanced: 0.7 -> 0.2 ms)
                    shift = balancing_shift(loss, y, s, a, bent, along, 0.0) if free else 0.0
                    model_slopes(loss, y, s, a, bent, along, shift, dual, weighted)
                for i in range(n):
                    z[i], a[i], r[i], h[i] = new_z[i], new_a[i], new_r[i], new_h[i]
            over = stuck or done == most
        if full or over:  # in one place, since each would be compiled
            if not full:
                copy_into(loss, a, dual)
            multiple, lower = prove(loss, penalty, C, y, s, free, levels, facts, dual, weighted, Xta, new_z)
            over = over or value + size_of_w - lower <= tol * scale
    return value, floor, done, stuck, multiple, lower


@kernel
def newton_path(loss, penalty, cols, y, s, free, levels, facts, scale, factors, most, floor, u, z, W, duals, out):
    """Solutions and their certificates under f times the penalty for each factor f, each from the one before.

    A row of `out` has a primal and a dual value, the nonzeros, the intercept and the number of steps. A scale of 0 says that the
    start is the best constant model, whose loss is the scale. Ends where a gap is not the one asked for; returns the number of
    strengths, the scale, the floor of curvatures, and whether there is no further progress.
    """
    n, d = y.shape[0], W.shape[1]
    C, tol, old, stuck = cols.values.reshape((d + free, n)), facts[4], factors[0], False
    a, r, h, terms, weights = np.empty(n), np.empty(n), np.empty(n), np.empty(n), s / old
    value = expand_at(loss, y, weights, z, z, 0.0, 0.0, terms, a, r, h)
    scale = scale if scale > 0.0 else old * value
    for k in range(factors.shape[0]):
        f, dual, w = factors[k], duals[k], u[:d]
        if k > 0:
            value *= old / f
            for i in range(n):
                weights[i] = s[i] / f
                r[i] *= old / f
                h[i] *= old / f
            old = f
        value, floor, steps, stuck, multiple, lower = newton_on_all(
            loss, penalty, C, y, weights, free, levels, facts, scale / f, most, u, z, a, r, h, dual, value, floor
        )
        add_columns(loss, C, u, terms)
        copy_into(loss, terms, z)
        primal = primal_value(loss, penalty, y, weights, z, 0.0, w, terms)
        out[k, 0], out[k, 1], out[k, 2], out[k, 3], out[k, 4] = f * primal, f * lower, 0.0, u[d] if free else 0.0, steps
        for j in range(d):
            W[k, j] = w[j]
            out[k, 2] += w[j] != 0.0
        for i in range(n):
            dual[i] *= multiple
        if not f * (primal - lower) <= tol * scale:
            return k + 1, scale, floor, stuck
    return factors.shape[0], scale, floor, stuck


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, start: Point | None):
        d, n, free = problem.d, problem.n, int(problem.fit_intercept)
        self.cols, self.u, self.z = columns_of(problem.matrix, free), np.zeros(d + free), np.empty(n)
        if start is None:
            self.u[d:] = problem.constant
            self.z.fill(problem.constant)
        else:
            self.u[:d], self.u[d:] = start.w, start.b
            np.dot(self.u, self.cols.values.reshape(d + free, n), out=self.z)
        self.dual: np.ndarray | None = None
        # Where curvature jumps between 0 and 1 a floor keeps steps finite; smooth curvature only needs to stay positive.
        self.floor = 1e-9 if getattr(problem.loss, "curvature_is_smooth", False) else 1e-3
        self.accesses = problem.matrix.nnz


@dataclass(frozen=True)
class SmallNewton(Solver):
    """Proximal Newton on all columns at once, compiled as a whole: for smooth losses and few columns."""

    name = "small_newton"
    paper = "proximal Newton (Lee, Sun & Saunders 2014), exact solves on the support; see docs/solvers.md"
    needs = Needs(
        loss=("value", "slope", "curvature", "conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        smooth=True,
        most_columns=COLUMNS,
    )
    random = False
    epochs_at_once = STEPS

    def init(self, problem: Any, start: Point | None, rng: Any = None) -> _State:
        return _State(problem, start)

    def follow(self, problem: Any, state: _State) -> _State:
        """The state for another penalty: all of it stays."""
        state.accesses, state.stalled, state.relative_gap = 0.0, False, float("inf")
        return state

    def has_points(self, problem: Any, count: int) -> bool:
        return True

    def points(self, problem: Any, factors: np.ndarray, tol: float, rng: Any = None) -> CertifiedPoints:
        """The solutions of a path, or one; ends where one does not reach the tolerance in one go."""
        state = self.init(problem, None)
        state.tol = tol
        return self._go(problem, state, factors, STEPS, 0.0)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.u[: problem.d], float(state.u[-1]) if problem.fit_intercept else 0.0, state.dual)

    def step(self, problem: Any, state: _State) -> None:
        _, _, values, scale, *_ = self._go(problem, state, ONE, 1, problem.scale)
        state.expected_gap = (values[0, 0] - values[0, 1]) / scale

    def epochs(self, problem: Any, state: _State, count: int, goal: float) -> int:
        """At most so many steps in one call, until the gap is at most the goal; returns their number.

        Colon, 62 rows rotated into their span, logistic: seven calls become one (2.0 -> 1.5 ms).
        """
        tol, state.tol = state.tol, goal / (problem.scale or 1.0)
        steps = self._go(problem, state, ONE, count, problem.scale).epochs
        state.tol = tol
        return sum(steps or ())

    def _go(self, problem: Any, state: _State, factors: np.ndarray, most: int, scale: float) -> CertifiedPoints:
        """At most so many Newton steps for each strength."""
        m, loss, penalty = len(factors), problem.loss, problem.penalty
        W, duals, out = np.empty((m, problem.d)), np.empty((m, problem.n)), np.empty((m, 5))
        bend = getattr(loss, "conjugate_curvature", None) or 0.0
        facts = (penalty.threshold, penalty.strong_convexity, loss.smoothness, bend, state.tol)
        free = int(problem.fit_intercept)
        levels = problem.levels if free else W
        data = (loss, penalty, state.cols, problem.y, problem.s, free, levels, facts, scale, factors, most)
        m, scale, state.floor, state.stalled = newton_path(*data, state.floor, state.u, state.z, W, duals, out)
        steps = out[:m, 4].astype(np.int64).tolist()
        state.dual = duals[m - 1]
        state.accesses += 4.0 * sum(steps) * problem.matrix.nnz / m
        return CertifiedPoints(W[:m], out[:m, 3], out[:m, :3], scale, state, duals[:m], steps)
