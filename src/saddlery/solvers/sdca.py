"""Proximal stochastic dual coordinate ascent (SDCA): the baseline "DualRCD" of the doubly-greedy paper.

With v = -X'(s a) and w = argmax_w v.w - g(w), one step takes a row i, forms z_i = x_i.w on the fly and maximises a quadratic
lower bound of the dual in a_i alone: a prox of l* with step tau_i = mu / (s_i ||x_i||^2). No step is tuned and D never falls.

=========  ===================================  =================================
here       meaning                              letters of the paper
=========  ===================================  =================================
a          dual point, one number a row         y
v          -X'(s a)                             -z / n
w          primal point, map of v               x-bar(y), eq. (9) divided by mu
mu         strong convexity of the penalty      mu
tau_i      mu / (s_i ||x_i||^2)                 eta_i / n with eta_i = n^2 mu / ||a_i||^2
=========  ===================================  =================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.matrix import Matrix
from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["SDCA", "dual_epoch", "dual_epoch_in_parts", "dual_steps", "starting_dual"]


@kernel(fast_sums=True)
def dual_epoch(loss, penalty, rows, y, s, steps, order, a, v, intercept):
    """For rows i in order: a_i = prox of tau_i l* at a_i + tau_i z_i, then v -= s_i da_i x_i (paper's (13), row by row).

    `intercept` is [v_b, sigma]: with sigma > 0 there is an intercept b = v_b sigma, a coordinate of its own.
    """
    for k in range(order.shape[0]):
        i = order[k]
        if s[i] == 0.0:
            continue
        z = intercept[0] * intercept[1]
        for p in range(rows.first(i), rows.last(i)):
            z += rows.entry(p) * penalty.coordinate_map(v[rows.position(i, p)])
        if steps[i] > 0.0:
            move = loss.dual_prox(y[i], a[i] + steps[i] * z, steps[i]) - a[i]
        else:  # an empty row: z = 0 whatever w is
            move = loss.slope(y[i], 0.0) - a[i]
        if move != 0.0:
            a[i] += move
            change = -s[i] * move
            intercept[0] += change
            for p in range(rows.first(i), rows.last(i)):
                v[rows.position(i, p)] += change * rows.entry(p)


def dual_epoch_in_parts(
    loss: Any, penalty: Any, matrix: Matrix, y: Any, s: Any, steps: Any, rng: np.random.Generator, a: Any, v: Any, intercept: Any
) -> None:
    """One epoch over all rows in random order; of data that are read in parts, over the rows of one part after the other."""
    for part, block in matrix.row_parts(rng):
        order = rng.permutation(part.stop - part.start)
        dual_epoch(loss, penalty, block.rows, y[part], s[part], steps[part], order, a[part], v, intercept)


def dual_steps(square_norms: np.ndarray, s: np.ndarray, mu: float, sigma: float = 0.0) -> np.ndarray:
    """tau_i = 1 / (s_i (||x_i||^2 / mu + sigma)); 0 marks rows without entries or weight."""
    curvature = s * (square_norms / mu + sigma)
    return np.divide(1.0, curvature, out=np.zeros_like(curvature), where=curvature > 0.0)


def starting_dual(problem: Any, start: Point | None) -> np.ndarray:
    """The dual point to start from: the one given, the slopes at the weights given, or zero."""
    if start is None:
        return np.zeros(problem.n)
    if start.dual is not None:
        return problem.dual_point(start.dual).a
    return problem.slopes(problem.margins(start.w), start.b) if start.w.any() else np.zeros(problem.n)


class _State(State):
    def __init__(self, problem: Any, a: np.ndarray, rng: np.random.Generator):
        self.a, self.rng = a, rng
        self.v = -problem.matrix.rmatvec(problem.s * a) if a.any() else np.zeros(problem.d)
        self.steps = dual_steps(problem.matrix.row_square_norms, problem.s, problem.penalty.strong_convexity)


@dataclass(frozen=True)
class SDCA(Solver):
    """Proximal stochastic dual coordinate ascent over random permutations of the rows.

    For any loss, strongly convex penalties, no intercept.
    """

    name = "sdca"
    paper = "Shalev-Shwartz & Zhang 2013; baseline of Lei et al. 2017"
    needs = Needs(
        loss=("dual_prox", "slope", "conjugate"), penalty=("coordinate_map",), strongly_convex=True, no_intercept=True, partial=True
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, starting_dual(problem, start), rng)

    def step(self, problem: Any, state: _State) -> None:
        dual_epoch_in_parts(
            problem.loss,
            problem.penalty,
            problem.matrix,
            problem.y,
            problem.s,
            state.steps,
            state.rng,
            state.a,
            state.v,
            np.zeros(2),
        )
        state.accesses += 2 * problem.matrix.nnz

    def point(self, problem: Any, state: _State) -> Point:
        return Point(problem.penalty.dual_map(state.v), 0.0, state.a, Xta=-state.v)

    def resync(self, problem: Any, state: _State) -> None:
        state.v = -problem.matrix.rmatvec(problem.s * state.a)
