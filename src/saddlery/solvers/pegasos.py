"""Pegasos: stochastic subgradient steps for the SVM (Shalev-Shwartz, Singer & Srebro 2007), the rival of the sublinear SVM.

Step t draws a row i with the law s and moves w <- (1 - 1/t) w - l'(y_i, x_i.w) x_i / (alpha t). With u = alpha t w this is
u -= l'(...) x_i: no decay loop, the cost is that of a row. After T steps w = u / (alpha T) belongs to the dual point a_i =
(sum of the slopes drawn at row i) / (T s_i), which clipped to the domain of l* gives the certificate.

=========  ======================================  =========================
here       meaning                                 letters of the paper
=========  ======================================  =========================
alpha      strength of the l2 penalty              lambda
u          alpha t w                               -
t          step                                    t, eta_t = 1 / (lambda t)
=========  ======================================  =========================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.reads import Reads

__all__ = ["Pegasos", "pegasos_steps"]

BLOCK_BYTES = 16_000_000  # of rows that are taken at a time from data read in parts
EPOCH = 100_000_000  # entries that an epoch reads at most


@kernel(fast_sums=True)
def pegasos_steps(loss, rows, y, order, where, alpha, t, u, slopes):
    """For rows i in order, which are vectors `where` of the stack: u -= l'(y_i, x_i.u / (alpha (t - 1))) x_i; w is 0 at t = 1."""
    for k in range(order.shape[0]):
        i, at = order[k], where[k]
        z = rows.dot(at, u) / (alpha * t) if t > 0.0 else 0.0
        slope = loss.slope(y[i], z)
        if slope != 0.0:
            rows.axpy(at, -slope, u)
            slopes[i] += slope
        t += 1.0


@dataclass(frozen=True)
class BoundedNeeds(Needs):
    """Only losses whose slopes are bounded: steps of length 1 / (alpha t) would not do for others."""

    def missing(self, problem: Any) -> list[str]:
        phrases = super().missing(problem)
        if problem.kind in self.kinds and not all(map(math.isfinite, self._range(problem.loss))):
            phrases.append("a loss with bounded slopes, such as hinge or logistic")
        return phrases

    def _range(self, loss: Any) -> tuple[float, float]:
        return float(loss.dual_lower(1.0)), float(loss.dual_upper(-1.0))


class _State(State):
    def __init__(self, problem: Any, rng: np.random.Generator):
        self.rng, self.t = rng, 0
        self.u, self.slopes = np.zeros(problem.d), np.zeros(problem.n)
        self.reads = Reads(problem.matrix.shape, problem.matrix.is_sparse)
        self.law = None if np.ptp(problem.s) == 0.0 else np.cumsum(problem.s)

    @property
    def counts(self) -> dict[str, float]:
        return {"iterations": float(self.t), **self.reads.counts}

    def draw(self, count: int) -> np.ndarray:
        """Rows with the law s."""
        if self.law is None:
            return self.rng.integers(len(self.slopes), size=count)
        return np.minimum(np.searchsorted(self.law, self.rng.random(count) * self.law[-1], side="right"), len(self.law) - 1)


@dataclass(frozen=True)
class Pegasos(Solver):
    """Stochastic subgradient steps with rates 1 / (alpha t), the last point returned; also on data that are read in parts.

    Losses of signs with bounded slopes (the hinge is the paper's), l2 penalty, no intercept.
    """

    name = "pegasos"
    paper = "Shalev-Shwartz, Singer & Srebro 2007"
    needs = BoundedNeeds(
        loss=("slope", "dual_lower", "dual_upper"), penalty=("value",), signs=True, rotates=True, no_intercept=True, partial=True
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, rng)

    def step(self, problem: Any, state: _State) -> None:
        matrix = problem.matrix
        per_row = max(matrix.nnz / problem.n, 1.0)
        room = min(state.access_limit - state.accesses, EPOCH)
        left = min(problem.n, max(1, math.ceil(room / per_row)))
        block = left if matrix.compiled else max(1, int(BLOCK_BYTES / (8.0 * per_row)))
        while left > 0 and state.accesses < state.access_limit:
            order = state.draw(min(left, block))
            if matrix.compiled:
                rows, where = matrix.rows, order
                state.reads.count_rows(matrix, order)
            else:
                rows, where = state.reads.take_rows(matrix, order).rows, np.arange(len(order))
            alpha = problem.penalty.strong_convexity
            pegasos_steps(problem.loss, rows, problem.y, order, where, alpha, float(state.t), state.u, state.slopes)
            state.t += len(order)
            state.accesses = state.reads.total
            left -= len(order)

    def point(self, problem: Any, state: _State) -> Point:
        if not state.t:
            return Point(np.zeros(problem.d), 0.0, np.zeros(problem.n))
        a = np.divide(state.slopes, state.t * problem.s, out=np.zeros(problem.n), where=problem.s > 0.0)
        return Point(state.u / (problem.penalty.strong_convexity * state.t), 0.0, a)
