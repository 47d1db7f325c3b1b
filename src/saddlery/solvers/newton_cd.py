"""Newton's method by sweeps over the columns: one sweep for a model, for smooth losses where columns hardly correlate.

    model at w:   sum_i r_i t_i + h_i t_i^2 / 2 + g(w + p),      t = X p,   r_i = s_i l'(z_i),   h_i = s_i l''(z_i)

A sweep minimises the model over one weight after the other and keeps its slopes r + h t; the margins of the move follow from them,
t = (slopes - r) / h, so that neither they nor exponentials are needed inside: an epoch reads each column once, adds to its rows
once, and then expands the loss anew in n numbers. Gauss and Seidel's method is as fast as columns are independent: sparse features
with signs, such as hashed ones, take two to four sweeps, those of words or indicators, all positive, take tens
(:attr:`saddlery.matrix.Matrix.alignment`). The slopes at the end are the dual point.

=========  ==================================================================
here       meaning
=========  ==================================================================
Xw         margins z, by increments
a, r, h    slopes l'(z), weighted slopes s a, weighted curvatures s l''(z)
model      a table of two columns: slopes of the model, and its curvatures
=========  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.problems.row_sums import best_intercept
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.dual_epochs import random_order
from saddlery.solvers.newton_search import expand_at, search_along

__all__ = ["NewtonCD", "sweep_columns"]

FLAT = 1e-3  # times the smoothness: no row has less curvature in a model, so that margins follow from slopes
SLOW = 0.3  # share of a gap that a sweep leaves: from then on, columns are visited in random order
LONGER, LONGEST = 1.05, 1.1  # steps, times those to the minimum (20,000 x 50,000 to 1e-6: 4 -> 3 sweeps); the second where a sweep
LEFT = 0.1  # leaves such a share of the gap: both near 2 / (1 + sqrt(1 - sqrt(share))), which is best for ordered matrices (Young)


@kernel
def begin_model(loss, s, r, h, least, model):
    """The table of slopes and curvatures, of which none but those of rows without weight is less than least s_i."""
    for i in range(s.shape[0]):
        model[i, 0] = r[i]
        model[i, 1] = h[i] if h[i] > least * s[i] else least * s[i]


@kernel(fast_sums=True)
def sweep_columns(penalty, cols, order, stretch, model, w):
    """For columns j in order: w_j += stretch (argmin of the model - w_j), then slopes += h_i x_ij dw_j.

    Slopes and curvatures of a row lie side by side, in the same line of the cache (20,000 x 50,000: 4.9 -> 4.5 ms). Returns the sum
    of the gaps g_j(w_j) + g_j*(-q_j) + w_j q_j that the weights had when they were met, q_j = sum_i slope_i x_ij.
    """
    met = 0.0
    for k in range(order.shape[0]):
        j = order[k]
        slope, bend = 0.0, 0.0
        for p in range(cols.first(j), cols.last(j)):
            i, x = cols.position(j, p), cols.entry(p)
            slope += x * model[i, 0]
            bend += x * x * model[i, 1]
        old = w[j]
        met += penalty.coordinate_value(old) + penalty.coordinate_conjugate(-slope) + old * slope
        if bend > 0.0:
            move = stretch * (penalty.coordinate_prox(old - slope / bend, 1.0 / bend) - old)
        else:  # an empty column: the penalty alone
            move = penalty.coordinate_map(0.0) - old
        if move != 0.0:
            w[j] = old + move
            for p in range(cols.first(j), cols.last(j)):
                i = cols.position(j, p)
                model[i, 0] += move * cols.entry(p) * model[i, 1]
    return met


@kernel
def margins_of_move(loss, r, model, out):
    """out_i = t_i = (slope_i - r_i) / h_i."""
    for i in range(out.shape[0]):
        out[i] = (model[i, 0] - r[i]) / model[i, 1] if model[i, 1] > 0.0 else 0.0


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, b: float, rng: np.random.Generator):
        n = problem.n
        self.w, self.b, self.rng = w, b, rng
        self.Xw = problem.margins(w) if w.any() else np.zeros(n)
        self.a, self.r, self.h, self.along = np.empty((4, n))
        self.spare = [np.empty(n) for _ in range(4)]
        self.model = np.empty((n, 2))
        self.order = np.arange(problem.d)
        self.value = 0.0
        self.met = self.expected_gap = float("inf")
        self.idle, self.shuffled, self.at_zero = 0, False, False
        self.stretch = LONGER if getattr(problem.penalty, "is_round", False) else 1.0  # others have zeros to be met


@dataclass(frozen=True)
class NewtonCD(Solver):
    """Newton steps whose models are minimised by one sweep of coordinate descent; smooth losses, strongly convex penalties."""

    name = "newton_cd"
    paper = "Friedman, Hastie & Tibshirani 2010; Yuan, Ho & Lin 2012, with a new model for every sweep"
    needs = Needs(
        loss=("value", "slope", "curvature", "conjugate"),
        penalty=("coordinate_prox", "coordinate_map", "coordinate_conjugate"),
        smooth=True,
        strongly_convex=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w, b = (np.zeros(problem.d), problem.constant) if start is None else (start.w, start.b)
        state = _State(problem, w, b, rng)
        self._expand(problem, state)
        state.at_zero = start is None
        return state

    def _expand(self, problem: Any, state: _State) -> None:
        """The loss, its slopes and curvatures at the present point, after the intercept was set to its optimum."""
        if problem.fit_intercept:
            state.b = best_intercept(problem.loss, problem.y, problem.s, state.Xw, state.b)
        new = (state.spare[0], state.a, state.r, state.h)
        state.value = expand_at(problem.loss, problem.y, problem.s, state.Xw, state.Xw, 0.0, state.b, *new)

    def step(self, problem: Any, state: _State) -> None:
        before = state.value + problem.penalty.value(state.w)
        origin, state.at_zero = state.w.copy(), False
        begin_model(problem.loss, problem.s, state.r, state.h, FLAT * problem.loss.smoothness, state.model)
        if state.shuffled:
            state.order = random_order(state.rng, problem.matrix.cols, problem.d, problem.matrix.nnz)
        met = sweep_columns(problem.penalty, problem.matrix.cols, state.order, state.stretch, state.model, state.w)
        margins_of_move(problem.loss, state.r, state.model, state.along)
        state.accesses += 2 * problem.matrix.nnz
        size = self._search(problem, state, origin)
        if problem.fit_intercept:
            self._expand(problem, state)
        share = met / state.met
        state.met, state.expected_gap = met, met * share / (problem.scale or 1.0) if share > 0.0 else float("inf")
        state.shuffled = state.shuffled or share > SLOW
        if share > LEFT and state.stretch > 1.0:
            state.stretch = LONGEST
        after = state.value + problem.penalty.value(state.w)
        state.idle = 0 if size > 0.0 and after < before - 1e-15 * abs(before) else state.idle + 1
        state.stalled = state.idle >= 5

    def _search(self, problem: Any, state: _State, origin: np.ndarray) -> float:
        """Go from the origin towards w as far as it pays; returns the size of the step."""
        penalty = problem.penalty
        move = state.w - origin
        l2 = penalty.strong_convexity if getattr(penalty, "is_round", False) else -1.0
        data = (problem.loss, penalty, problem.y, problem.s, state.Xw, state.along, state.b, 0.0, state.r, state.value)
        weights = (np.arange(problem.d), origin, move, l2, state.w, np.empty(problem.d))
        size, value, _ = search_along(*data, *weights, *state.spare)
        if size > 0.0:
            new, state.spare = state.spare, [state.Xw, state.a, state.r, state.h]
            state.Xw, state.a, state.r, state.h = new
            state.value = value
        else:
            state.w[:] = origin
        return size

    def point(self, problem: Any, state: _State) -> Point:
        if state.at_zero:  # no slopes yet: a dual point of zeros is as good, and its products are known
            return Point(state.w, state.b, np.zeros(problem.n), state.Xw, np.zeros(problem.d), state.value)
        return Point(state.w, state.b, None)  # margins and slopes are computed from the data: that is what proves them

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw = problem.margins(state.w)
        self._expand(problem, state)
