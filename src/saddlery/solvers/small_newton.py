"""Newton's method for few columns, from begin to end in one compiled function.

On small data (270 x 13, say) a Newton step takes ten microseconds, a call from Python nearly as long. All columns are in the model,
so that there is nothing to choose between steps:

    min_u  q.(u - w) + 1/2 (u - w)'G(u - w) + g(u)        q = X'r,  G = X' diag(h) X,  r_i = s_i l'(z_i),  h_i ~ s_i l''(z_i)

is solved by coordinate descent with exact solves on the support, and after a full step the slopes of the model,
a + (h / s) X (u - w), are the dual point: nearer to feasibility than those of the loss, they save the last step. The gap in the
kernel only says when to stop; certificates are the problem's, from the data.

=========  ==================================================================
here       meaning
=========  ==================================================================
Xw, b      margins z = Xw + b
a, r, h    slopes l'(z), weighted slopes s a, weighted curvatures s l''(z)
q          gradient of the loss, then of the model; its last component is that of a free intercept
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
from saddlery.solvers.at_once import CertifiedPoints
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.gram_model import solve_small_model, worst_violation
from saddlery.solvers.newton_search import balancing_shift, expand_at, model_slopes, search_along
from saddlery.solvers.small_rounds import copy_into, gap_of

__all__ = ["SmallNewton"]

COLUMNS = 64  # most: with more, working sets are worth their trouble
STEPS = 30  # most of them in one go
SWEEPS, FACES = 16, 100  # sweeps before a face is solved, which costs as much as some of them; and how often
ROUGH, FINE = 1e-2, 1e-7  # shares of its first violation to which a model is solved: at most and at least
PROVES = 0.1  # share of tolerance times threshold: a violation that costs the dual value no more than that share of the tolerance
LEAST_FLOOR = 1e-6  # of curvatures, after a step that failed
IDLE = 3  # steps in a row without a fall after which rounding is all that is left


@kernel(fast_sums=True)
def gradient_of_rows(loss, rows, r, out):
    """out = X'r, and the sum of r behind it if there is room."""
    n, d = rows.shape
    for j in range(out.shape[0]):
        out[j] = 0.0
    for i in range(n):
        row = rows[i]
        for j in range(d):
            out[j] += r[i] * row[j]
    if out.shape[0] > d:
        for i in range(n):
            out[d] += r[i]


@kernel(fast_sums=True)
def margins_of_rows(loss, rows, u, out):
    """out_i = x_i.u."""
    for i in range(rows.shape[0]):
        row, total = rows[i], 0.0
        for j in range(rows.shape[1]):
            total += row[j] * u[j]
        out[i] = total


@kernel(fast_sums=True)
def weighted_gram(loss, rows, h, scaled, products, gram):
    """G = X' diag(h) X, by way of diag(sqrt h) X; its last row and column are X'h and the sum of h if there is room for them."""
    n, d = rows.shape
    for i in range(n):
        root, row, out = math.sqrt(h[i]), rows[i], scaled[i]
        for j in range(d):
            out[j] = root * row[j]
    np.dot(scaled.T, scaled, products)
    for j in range(d):
        for k in range(d):
            gram[j, k] = products[j, k]
    if gram.shape[0] > d:
        gradient_of_rows(loss, rows, h, gram[d])
        for j in range(d):
            gram[j, d] = gram[d, j]


@kernel
def newton_on_all(loss, penalty, rows, y, s, free, facts, most, w, Xw, a, r, h, dual, b, value, floor):
    """At most so many Newton steps, until the relative gap is the one asked for; weights, margins, slopes, curvatures and the dual
    point follow.

    Returns b, the loss, the floor of curvatures, the number of steps, whether there is no further progress, and the relative gap
    as far as it is known.
    """
    threshold, l2, smoothness, bend, scale, tol = facts
    n, d = rows.shape
    size, every = d + free, np.empty(d, np.int64)
    q, origin, u, move, trial, slope = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(d), np.empty(size)
    gram, system, products, face = np.empty((size, size)), np.empty((size, size)), np.empty((d, d)), np.empty(size, np.int64)
    scaled, Xta = np.empty((n, d)), np.empty(d)
    new_z, new_a, new_r, new_h = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    along, weighted, bent = np.empty(n), np.empty(n), np.empty(n)
    for j in range(d):
        every[j] = j
    last, idle, round_l2, sweeps = math.inf, 0, l2 if threshold == 0.0 else -1.0, SWEEPS if threshold > 0.0 else 1
    done, stuck, full, gap = 0, False, False, math.inf
    while done < most and not stuck and gap > tol:
        gradient_of_rows(loss, rows, r, q)
        for j in range(d):
            origin[j] = w[j]
        violation = worst_violation(penalty, w, q[:d])
        if free:
            origin[d], violation = b, max(violation, abs(q[d]))
        size_of_w = sum_values(penalty, w)
        if size_of_w == 0.0 and violation <= PROVES * tol * threshold:  # zero is good enough, and stays that
            break
        primal = value + size_of_w
        idle = 0 if primal < last - 1e-15 * abs(primal) else idle + 1
        stuck, last = violation == 0.0 or idle == IDLE, primal
        if stuck:
            break
        for i in range(n):
            bent[i] = max(h[i], floor * smoothness * s[i])
        weighted_gram(loss, rows, bent, scaled, products, gram)
        copy_into(loss, origin, u)
        accuracy = min(ROUGH * violation, max(PROVES * tol * threshold, FINE * violation))
        solve_small_model(penalty, gram, u, q, free, threshold, l2, accuracy, sweeps, FACES, face, system, slope)
        for j in range(size):
            move[j] = u[j] - origin[j]
        margins_of_rows(loss, rows, move, along)
        shift = move[d] if free else 0.0
        length, there, penalty_there = search_along(
            loss, penalty, y, s, Xw, along, b, shift, r, value, every, origin, move, round_l2, w, trial, new_z, new_a, new_r, new_h
        )
        done, full, gap = done + 1, length == 1.0, math.inf
        if length == 0.0:
            stuck, floor = floor == 1.0, min(1.0, max(100.0 * floor, LEAST_FLOOR))
            continue
        floor = min(1.0, 10.0 * floor) if length < 0.25 else max(1e-9, 0.1 * floor) if length >= 1.0 else floor
        b, value = b + length * shift, there
        if full:  # the model holds there, and so does its dual point
            if free:  # (bodyfat, huber with l2: 0.7 -> 0.2 ms)
                shift = balancing_shift(loss, y, s, a, bent, along, shift)
            model_slopes(loss, y, s, a, bent, along, shift, dual, weighted)
            gradient_of_rows(loss, rows, weighted, Xta)
            gap = gap_of(loss, penalty, y, s, value + penalty_there, dual, Xta, bend, threshold, l2, new_z) / scale
        for i in range(n):
            Xw[i] += length * along[i]
            a[i], r[i], h[i] = new_a[i], new_r[i], new_h[i]
    if not full or stuck:
        copy_into(loss, a, dual)
    return b, value, floor, done, stuck, gap


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, w: np.ndarray, b: float):
        n = problem.n
        self.rows = _dense_rows(problem.matrix)
        self.w, self.b, self.dual = w, b, np.empty(n)
        self.Xw = self.rows @ w if w.any() else np.zeros(n)
        self.a, self.r, self.h = np.empty(n), np.empty(n), np.empty(n)
        self.value = expand_at(problem.loss, problem.y, problem.s, self.Xw, self.Xw, 0.0, b, np.empty(n), self.a, self.r, self.h)
        self.dual[:] = self.a
        # Where curvature jumps between 0 and 1 a floor keeps steps finite; smooth curvature only needs to stay positive.
        self.floor = 1e-9 if getattr(problem.loss, "curvature_is_smooth", False) else 1e-3
        self.accesses = problem.matrix.nnz


def _dense_rows(matrix: Any) -> np.ndarray:
    """The rows as an array of float64 in C order."""
    values = matrix.values.toarray() if matrix.is_sparse else matrix.values
    return np.ascontiguousarray(values, dtype=np.float64)


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
        w, b = (np.zeros(problem.d), problem.constant) if start is None else (start.w, start.b)
        return _State(problem, w, b)

    def follow(self, problem: Any, state: _State) -> _State:
        """The state for another penalty: all of it stays."""
        state.accesses, state.stalled, state.relative_gap = 0.0, False, float("inf")
        return state

    def has_points(self, problem: Any, count: int) -> bool:
        return True

    def points(self, problem: Any, factors: np.ndarray, tol: float) -> CertifiedPoints:
        """The solutions of a path, or one; ends where one does not reach the tolerance in one go."""
        m, _ = len(factors), (problem.scale, problem._dual_at_zero)  # shared by all strengths
        W, b, values, duals = np.zeros((m, problem.d)), np.zeros(m), np.empty((m, 3)), np.empty((m, problem.n))
        state = self.init(problem, None)
        state.tol, steps = tol, []
        for k, factor in enumerate(factors.tolist()):
            single = problem if factor == 1.0 else problem.with_penalty(problem.penalty.scaled(factor))
            steps.append(self._steps(single, state, STEPS))
            primal, dual = single.evaluate(self.point(single, state))
            W[k], b[k], duals[k], values[k] = state.w, state.b, dual.a, (primal, dual.value, np.count_nonzero(state.w))
            if not primal - dual.value <= tol * problem.scale:
                m = k + 1
                break
        state.accesses /= m
        return CertifiedPoints(W[:m], b[:m], values[:m], problem.scale, state, duals[:m], steps)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.dual)

    def step(self, problem: Any, state: _State) -> None:
        self._steps(problem, state, 1)

    def _steps(self, problem: Any, state: _State, most: int) -> int:
        """At most so many Newton steps; returns how many were taken."""
        loss, penalty = problem.loss, problem.penalty
        bend = getattr(loss, "conjugate_curvature", None) or 0.0
        facts = (penalty.threshold, penalty.strong_convexity, loss.smoothness, bend, problem.scale, state.tol)
        data = (loss, penalty, state.rows, problem.y, problem.s, int(problem.fit_intercept))
        where = (state.w, state.Xw, state.a, state.r, state.h, state.dual, state.b, state.value, state.floor)
        state.b, state.value, state.floor, steps, state.stalled, state.expected_gap = newton_on_all(*data, facts, most, *where)
        state.accesses += 4.0 * steps * problem.matrix.nnz
        return int(steps)
