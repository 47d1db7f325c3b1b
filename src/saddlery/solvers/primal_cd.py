"""Randomised primal coordinate descent: the baseline "PrimalRCD" of the doubly-greedy paper.

    w_j = prox of g_j / L_j at w_j - x^j.(s l'(z)) / L_j,     L_j = smoothness x sum_i s_i x_ij^2,     then Xw += dw_j x^j

The penalty's curvature is inside the prox, so L_j holds that of the loss only. An intercept is set to its optimum after each sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.problems.row_sums import best_intercept
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["PrimalCD"]


@kernel(fast_sums=True)
def primal_epoch(loss, penalty, cols, y, s, curvatures, order, w, Xw, b):
    """For columns j in order: the proximal step above, with the slopes computed on the fly."""
    for k in range(order.shape[0]):
        j = order[k]
        if curvatures[j] <= 0.0:
            continue
        gradient = 0.0
        for p in range(cols.first(j), cols.last(j)):
            i = cols.position(j, p)
            gradient += s[i] * loss.slope(y[i], Xw[i] + b) * cols.entry(p)
        move = penalty.coordinate_prox(w[j] - gradient / curvatures[j], 1.0 / curvatures[j]) - w[j]
        if move != 0.0:
            w[j] += move
            cols.axpy(j, move, Xw)


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, b: float, rng: np.random.Generator):
        self.w, self.b, self.rng = w, b, rng
        if problem.matrix.compiled:
            _ = problem.matrix.cols  # first: norms by columns and by rows differ in rounding, and so would a second run
        self.Xw = problem.margins(w)
        self.curvatures = problem.matrix.weighted_col_square_norms(problem.s * problem.loss.smoothness)


@dataclass(frozen=True)
class PrimalCD(Solver):
    """Proximal coordinate descent over random permutations of the columns; smooth losses, any separable penalty."""

    name = "primal_cd"
    paper = "Richtarik & Takac 2014; baseline of Lei et al. 2017"
    needs = Needs(loss=("slope", "conjugate"), penalty=("coordinate_prox",), smooth=True, partial=True)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w, b = (np.zeros(problem.d), problem.constant) if start is None else (start.w, start.b)
        return _State(problem, w, b, rng)

    def step(self, problem: Any, state: _State) -> None:
        loss, y, s = problem.loss, problem.y, problem.s
        for part, block in problem.matrix.col_parts(state.rng):
            order = state.rng.permutation(part.stop - part.start)
            curvatures, w = state.curvatures[part], state.w[part]
            primal_epoch(loss, problem.penalty, block.cols, y, s, curvatures, order, w, state.Xw, state.b)
        if problem.fit_intercept:
            state.b = best_intercept(loss, y, s, state.Xw, state.b)
        state.accesses += 2 * problem.matrix.nnz

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, None, state.Xw)

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw = problem.margins(state.w)
