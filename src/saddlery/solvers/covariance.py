"""Squared loss with few columns: once the d x d matrix X'SX is known, no strength of the penalty needs the data again.

The objective is a quadratic model that holds everywhere, so its minimiser on the Gram matrix is the solution:

    min_w  1/2 w'Gw - c.w + g(w)          G = X'SX,  c = X'Sy          (both of centred columns if there is an intercept)

This is what glmnet calls covariance updates, here with exact solves on the support. One pass makes G, and G
makes the solutions and certificates for all strengths of the penalty (solvers/moments.py). Where rounding keeps these from the
tolerance, certificates are computed from the data, and steps correct the solution by its true gradient (iterative refinement).

=========  ==================================================================
here       meaning
=========  ==================================================================
moments    G, c and the rest
q          gradient of the loss at w: G w - c
mean       column means, which the intercept makes up for: b = constant - mean.w
=========  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.point import Point
from saddlery.solvers.at_once import CertifiedPoints
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.moments import Moments, certified_values, descend, minimise_moments, moments_of

__all__ = ["Covariance"]


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, moments: Moments, w: np.ndarray, q: np.ndarray, accesses: float):
        self.moments, self.w, self.q, self.accesses = moments, w, q, accesses


@dataclass(frozen=True)
class Covariance(Solver):
    """Coordinate descent and exact solves on the Gram matrix of all columns; the solution is there before the first epoch."""

    name = "covariance"
    from_moments = True
    paper = "glmnet's covariance updates (Friedman, Hastie, Tibshirani 2010, section 2.2), with exact solves on the support"
    needs = Needs(
        loss=("value", "slope", "conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        squared=True,
        most_columns=5000,
        partial=True,
    )
    random = False

    def init(self, problem: Any, start: Point | None, rng: Any = None) -> _State:
        moments = moments_of(problem)
        state = _State(moments, np.zeros(problem.d), -moments.c, 2.0 * problem.matrix.nnz)
        if start is not None and start.w.any():
            state.w = start.w
            self._true_gradient(problem, state)
        descend(moments, problem.penalty, state.w, state.q)
        return state

    def follow(self, problem: Any, state: _State) -> _State:
        """The same matrix serves every penalty."""
        state.accesses, state.stalled, state.relative_gap = 0.0, False, float("inf")
        descend(state.moments, problem.penalty, state.w, state.q)
        return state

    def has_points(self, problem: Any, count: int) -> bool:
        return True

    def points(self, problem: Any, factors: np.ndarray, tol: float = 0.0, rng: Any = None) -> CertifiedPoints:
        """Solutions under the penalty times each factor, certified as far as the moments tell; the state is that of the last."""
        moments = moments_of(problem)
        W, q = minimise_moments(moments, problem.penalty, factors, tol)
        values = certified_values(moments, problem.penalty, factors, W)
        state = _State(moments, W[-1].copy(), q, 2.0 * problem.matrix.nnz)
        return CertifiedPoints(W, moments.intercepts(W), values, 0.5 * moments.yy, state)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, float(state.moments.intercepts(state.w[None, :])[0]), None)

    def step(self, problem: Any, state: _State) -> None:
        """Solve again from the gradient that the data have at w: what rounding took is given back."""
        before = state.w.copy()
        self._true_gradient(problem, state)
        descend(state.moments, problem.penalty, state.w, state.q)
        state.stalled = bool(np.array_equal(before, state.w))

    def _true_gradient(self, problem: Any, state: _State) -> None:
        point = self.point(problem, state)
        a = problem.slopes(problem.margins(state.w), point.b)
        state.q = problem.gradient(a)
        if state.moments.mean is not None:
            state.q -= float(problem.s @ a) * state.moments.mean
        state.accesses += 2.0 * problem.matrix.nnz
