"""Squared loss with few columns: once the d x d matrix X'SX is known, no strength of the penalty needs the data again.

The objective is a quadratic model that holds everywhere, so its minimiser on the Gram matrix is the solution:

    min_w  1/2 w'Gw - c.w + g(w)          G = X'SX,  c = X'Sy          (both of centred columns if there is an intercept)

This is what glmnet calls covariance updates, here with exact solves on the support. One pass makes G; the certificate is computed
from the data, and should rounding have left a gap, a step corrects the solution by its true gradient (iterative refinement). Along
a path only the last two lines are repeated, and all its points are certified by the same two matrix products.

=========  ==================================================================
here       meaning
=========  ==================================================================
gram       G
q          gradient of the loss at w: G w - c
mean       column means, which the intercept makes up for: b = constant - mean.w
=========  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.gram_model import SMALL_FACE, minimise, solve_multiples, worst_violation
from saddlery.solvers.streamed_block import make_block

__all__ = ["Covariance"]

ACCURACY = 1e-12  # of the solution on the Gram matrix, relative to the first violation
ROUNDING = 1e-15  # what the gradient is known to, relative to its size at zero
CANCELLED = 1e-6  # share of a column's second moment below which its variance is not to be computed as a difference
ROWS = 4096  # rows that are centred at a time


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, gram: np.ndarray, mean: np.ndarray | None, w: np.ndarray, q: np.ndarray, accesses: float):
        self.gram, self.mean, self.w, self.q, self.accesses = gram, mean, w, q, accesses


@dataclass(frozen=True)
class Covariance(Solver):
    """Coordinate descent and exact solves on the Gram matrix of all columns; the solution is there before the first epoch."""

    name = "covariance"
    paper = "glmnet's covariance updates (Friedman, Hastie, Tibshirani 2010, section 2.2), with exact solves on the support"
    needs = Needs(
        loss=("value", "slope", "conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        quadratic=True,
        most_columns=5000,
        partial=True,
    )
    random = False

    def init(self, problem: Any, start: Point | None, rng: Any = None) -> _State:
        gram, mean = _moments(problem)
        state = _State(gram, mean, np.zeros(problem.d), problem.constant_gradient.copy(), 2.0 * problem.matrix.nnz)
        if start is not None and start.w.any():
            state.w = start.w
            self._true_gradient(problem, state)
        self._descend(problem, state)
        return state

    def follow(self, problem: Any, state: _State) -> _State:
        """The same matrix serves every penalty."""
        state.accesses, state.stalled, state.relative_gap = 0.0, False, float("inf")
        self._descend(problem, state)
        return state

    def points(self, problem: Any, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and intercepts under the penalty times each factor, each the start of the next; not certified yet."""
        gram, mean = _moments(problem)
        W = np.zeros((len(factors), problem.d))
        state = _State(gram, mean, np.zeros(problem.d), problem.constant_gradient.copy(), 0.0)
        if problem.d <= SMALL_FACE:
            solve_multiples(problem.penalty, factors, gram, state.w, state.q, ACCURACY, _rounding(problem), W)
        else:
            for w, factor in zip(W, factors, strict=True):
                self._descend(problem.with_penalty(problem.penalty.scaled(factor)), state)
                w[:] = state.w
        b = np.full(len(factors), problem.constant)
        return W, b if mean is None else b - W @ mean

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, problem.constant - (float(state.mean @ state.w) if state.mean is not None else 0.0), None)

    def step(self, problem: Any, state: _State) -> None:
        """Solve again from the gradient that the data have at w: what rounding took is given back."""
        before = state.w.copy()
        self._true_gradient(problem, state)
        self._descend(problem, state)
        state.stalled = bool(np.array_equal(before, state.w))

    def _true_gradient(self, problem: Any, state: _State) -> None:
        point = self.point(problem, state)
        a = problem.slopes(problem.margins(state.w), point.b)
        state.q = problem.gradient(a)
        if state.mean is not None:
            state.q -= float(problem.s @ a) * state.mean
        state.accesses += 2.0 * problem.matrix.nnz

    def _descend(self, problem: Any, state: _State) -> None:
        violation = worst_violation(problem.penalty, state.w, state.q)
        tol = max(ACCURACY * violation, _rounding(problem))
        if violation > tol:
            minimise(problem.penalty, state.gram, state.w, state.q, 0, tol)


def _rounding(problem: Any) -> float:
    """What a component of the gradient is known to."""
    return ROUNDING * float(np.abs(problem.constant_gradient).max())


def _moments(problem: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """X'SX, of centred columns where there is an intercept, and then the column means, too."""
    mean = problem.gradient(np.ones(problem.n)) if problem.fit_intercept else None
    s, values = problem.s, problem.matrix.values if problem.matrix.compiled else None  # None: read in parts
    plain = not problem.matrix.is_sparse and s.min() == s.max()
    if mean is None and plain and values is not None and values.dtype == np.float64:
        gram = values.T @ values
        gram *= s[0]
        return gram, None
    if mean is not None and values is not None and not problem.matrix.is_sparse:
        return _centred(problem, mean), mean
    block = make_block(problem, np.arange(problem.d), gram_form=True, exact=True)
    block.update_gram(s)
    gram = block.gram[: problem.d, : problem.d]
    if mean is None:
        return gram, None
    raw = gram.diagonal().copy()
    gram = gram - np.outer(mean, mean)
    if values is not None and (gram.diagonal() < CANCELLED * raw).any():
        return _centred(problem, mean), mean
    return gram, mean


def _centred(problem: Any, mean: np.ndarray) -> np.ndarray:
    """sum_i s_i (x_i - mean)(x_i - mean)', some rows at a time: differences of large numbers are taken before they are squared."""
    gram = np.zeros((problem.d, problem.d))
    values = problem.matrix.csr if problem.matrix.is_sparse else problem.matrix.values
    for first in range(0, problem.n, ROWS):
        part = values[first : first + ROWS]
        block = (part.toarray() if problem.matrix.is_sparse else part) - mean
        block *= np.sqrt(problem.s[first : first + ROWS])[:, None]
        gram += block.T @ block
    return gram
