"""Consensus ADMM for the CUR problem: the loss, the budget of the rows and the budget of the columns take turns.

Each of the three is easy alone: the loss has a closed-form prox in the basis of the singular vectors of M, and the projection onto
one budget is a clipping. With f(W) = ||M W M - M||^2 / (2 n d), M = left diag(sigma) right', and scaled multipliers U, V, one
iteration is

    W  = argmin f(W) + rho/2 ||W - X + U||^2 + rho/2 ||W - Y + V||^2           (a division of each entry of right' W left)
    X  = projection of W + U onto sum_i max_j |X_ij| <= radius,     U += W - X
    Y  = projection of W + V onto sum_j max_i |Y_ij| <= radius,     V += W - Y

with over-relaxation, and a rho that balances the primal and the dual residuals after 1, 2, 4, 8, ... epochs. W clipped to the caps
of the rows of X and of the columns of Y obeys both budgets exactly and has their zero rows and columns: that is the primal point.
Its dual is the residual of W itself.

=========  ===============================================  ==================================================
here       meaning                                          letters of Boyd et al. (2011), section 7.1
=========  ===============================================  ==================================================
W, X, Y    the consensus and its two copies                 z, x_1, x_2
U, V       scaled multipliers                               u_1, u_2
rho        penalty of disagreement                          rho
=========  ===============================================  ==================================================

Beside `cur_corrective` it does not need an atom for every pattern of signs: where the optimum is a mix of many, it is faster by
orders of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.penalties.row_budget import project_rows
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["CURSplitting"]

ITERATIONS = 10  # in an epoch
FIRST_RHO = 0.2  # times the ratio of the sizes of gradient and weights
MOST = 5.0  # by which rho changes at once
EPS = float(np.finfo(float).eps)


class _State(State):
    """`Y` and `V` are held transposed, so that both projections go over rows."""

    def __init__(self, problem: Any, W: np.ndarray, rho: float):
        self.W, self.X, self.Y = W, W.copy(), np.ascontiguousarray(W.T)
        gradient = problem.gradient(problem.margins(W) - problem.M)
        self.U = -gradient / (2.0 * rho)  # at the optimum -gradient = rho (U + V)
        self.V = np.ascontiguousarray(self.U.T)
        self.row_caps, self.column_caps = np.abs(W).max(axis=1), np.abs(W).max(axis=0)
        self.rho, self.epochs = rho, 0
        sizes = problem.factors.sizes
        self.curvature = np.square(np.multiply.outer(sizes, sizes)) / problem.size
        self.target = np.diag(sizes**3) / problem.size  # right' M' M M' left / (n d)

    @property
    def counts(self) -> dict[str, float]:
        return {"iterations": self.epochs * ITERATIONS}


@dataclass(frozen=True)
class CURSplitting(Solver):
    """Consensus ADMM between the loss, the budget of the rows and the budget of the columns; an epoch is ten iterations.

    Parameters
    ----------
    relaxation : float
        Over-relaxation, between 1 and 2.
    """

    relaxation: float = 1.7

    name = "cur_splitting"
    paper = "Boyd et al. 2011 for the problem of Lu & Freund 2020, Example 1.3"
    needs = Needs(kind="cur", loss=("slope", "conjugate"), penalty=("linear_oracle", "conjugate"))

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        gradient = problem.gradient(-problem.M)
        penalty = problem.penalty
        atom = penalty.linear_oracle(gradient)
        size = float(np.linalg.norm(atom))
        rho = FIRST_RHO * float(np.linalg.norm(gradient)) / size if size > 0.0 else 1.0
        W = penalty.shrink(start.w) if start is not None else _first_weights(problem, gradient, atom)
        state = _State(problem, W, rho)
        state.accesses += 8 * problem.size
        return state

    def step(self, problem: Any, state: _State) -> None:
        left, _, right = problem.factors
        penalty = problem.penalty
        for _ in range(ITERATIONS):
            old_X, old_Y = state.X.copy(), state.Y.copy()
            middle = 0.5 * (state.X - state.U + (state.Y - state.V).T)
            inside = right.T @ middle @ left
            change = (state.target - state.curvature * inside) / (2.0 * state.rho + state.curvature)
            state.W = middle + right @ change @ left.T
            state.row_caps = self._agree(penalty, state.W, state.X, state.U)
            state.column_caps = self._agree(penalty, state.W.T, state.Y, state.V)
        state.epochs += 1
        state.accesses += 4 * ITERATIONS * problem.size
        primal = np.hypot(np.linalg.norm(state.W - state.X), np.linalg.norm(state.W.T - state.Y))
        moved = np.hypot(np.linalg.norm(state.X - old_X), np.linalg.norm(state.Y - old_Y))
        size, force = np.linalg.norm(state.W), np.linalg.norm(state.U + state.V.T)
        state.stalled = bool(primal <= EPS * size and moved <= EPS * size)
        if state.epochs & (state.epochs - 1) == 0:  # a power of two
            _balance_residuals(state, primal / max(size, EPS * EPS), moved / max(force, EPS * EPS))

    def _agree(self, penalty: Any, W: np.ndarray, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Move a copy X of W and its multiplier U; returns the caps of the rows of X."""
        U += self.relaxation * W + (1.0 - self.relaxation) * X
        caps = project_rows(penalty, U, X)
        U -= X
        return caps

    def point(self, problem: Any, state: _State) -> Point:
        caps = np.minimum.outer(state.row_caps, state.column_caps)
        return Point(np.clip(state.W, -caps, caps), 0.0, problem.margins(state.W) - problem.M)


def _first_weights(problem: Any, gradient: np.ndarray, atom: np.ndarray) -> np.ndarray:
    """The pseudo-inverse of M if it obeys the budgets; else the best multiple of the first atom."""
    inverse = problem.feasible_inverse()
    if inverse is not None:
        return inverse
    bend = problem.mean_square(problem.margins(atom))
    step = min(1.0, -float(np.vdot(gradient, atom)) / bend) if bend > 0.0 else 0.0
    return step * atom


def _balance_residuals(state: _State, primal: float, dual: float) -> None:
    """Change rho by the root of the ratio of the relative residuals; the multipliers rho U, rho V stay what they are."""
    if primal > 0.0 and dual > 0.0:
        factor = min(max(np.sqrt(primal / dual), 1.0 / MOST), MOST)
        state.rho *= factor
        state.U /= factor
        state.V /= factor
