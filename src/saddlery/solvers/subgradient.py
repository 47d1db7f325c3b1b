"""Stochastic subgradient method with a shrinking step (SSM), the primal baseline of the paper, for k classes at once.

A step draws a row i with probability s_i, moves along the slope a of its loss and shrinks all weights:

    W <- soft(W - g_t x_i a', g_t alpha),     g_t = reach / (G sqrt(t + 1)),     G^2 = 2 sum_i s_i ||x_i||^2

Shrinking is put off until the row of W is read, in the same sweep that makes the margins, so a step costs O(nnz(x_i) k). The answer
is the average of snapshots, the t-th with weight t. There is no dual point of its own: the certificate takes the slopes at the
average, which for the hinge says little, whereas its objective value is not bad.

============  ==============================================  ====================================================
here          meaning                                         letters of the paper
============  ==============================================  ====================================================
W, a          weights, slope of a row                         U, V_j - Y_j at the best class
reach         guess of the length of the solution             D
============  ==============================================  ====================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["Subgradient"]

SNAPSHOTS = 10  # of an epoch that enter the average


@kernel(fast_sums=True)
def catch_up(loss, w, amount):
    """w = soft(w, amount)."""
    for m in range(w.shape[0]):
        rest = abs(w[m]) - amount
        w[m] = math.copysign(rest, w[m]) if rest > 0.0 else 0.0


@kernel(fast_sums=True)
def subgradient_steps(loss, rows, codes, draws, first, reach, alpha, W, b, free, shrunk, pending, z, a):
    """Steps for the drawn rows; shrunk_j of the `pending` amount has been applied to row j of W. Returns the pending amount.

    `free` is 1 if there are intercepts, else 0; z and a are room for the margins and the slope of a row.
    """
    for t in range(draws.shape[0]):
        i = draws[t]
        step = reach / math.sqrt(first + t + 1.0)
        z[:] = 0.0
        for p in range(rows.first(i), rows.last(i)):
            j, x = rows.position(i, p), rows.entry(p)
            catch_up(loss, W[j], pending - shrunk[j])
            shrunk[j] = pending
            for m in range(z.shape[0]):
                z[m] += x * W[j, m]
        loss.row_slope(codes[i], z, b, a)
        for p in range(rows.first(i), rows.last(i)):
            j, x = rows.position(i, p), rows.entry(p)
            for m in range(z.shape[0]):
                W[j, m] -= step * x * a[m]
        for m in range(z.shape[0]):
            b[m] -= free * step * a[m]
        pending += step * alpha
    return pending


class _State(State):
    def __init__(self, W: np.ndarray, b: np.ndarray, reach: float, rng: np.random.Generator):
        self.W, self.b, self.reach, self.rng = W, b, reach, rng
        self.mean_W, self.mean_b = W.copy(), b.copy()
        self.steps = self.snapshots = 0

    @property
    def counts(self) -> dict[str, float]:
        return {"steps": self.steps}


@dataclass(frozen=True)
class Subgradient(Solver):
    """Stochastic subgradient method (SSM): a primal baseline for l1 with k classes at once.

    Expect an objective value that is right to a tenth after some hundred epochs, and no certificate to speak of.

    Parameters
    ----------
    reach : float, optional
        Guess of the length of the solution, in the Frobenius norm, that sets the step; sqrt(k) / 10 by default.
    """

    reach: float | None = None

    name = "subgradient"
    paper = "Babichev, Ostrovskii & Bach 2019, Section 5 (SSM)"
    needs = Needs(
        kind="multiclass",
        loss=("row_value", "row_slope", "row_conjugate"),
        penalty=("coordinate_prox",),
        l1=True,
        dense_weights=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        point = problem.first_point() if start is None else start
        W = point.w.toarray() if hasattr(point.w, "toarray") else np.array(point.w)
        size = math.sqrt(2.0 * float(problem.s @ problem.matrix.row_square_norms)) or 1.0
        reach = 0.1 * math.sqrt(problem.k) if self.reach is None else self.reach
        state = _State(W, np.array(point.b, dtype=np.float64), reach / size, rng)
        state.accesses += problem.size
        return state

    def step(self, problem: Any, state: _State) -> None:
        """As many draws as there are rows."""
        alpha, rows = float(problem.penalty.threshold), problem.matrix.rows
        draws = np.searchsorted(np.cumsum(problem.s)[:-1], state.rng.random(problem.n), side="right")
        z, a, shrunk = np.empty(problem.k), np.empty(problem.k), np.empty(problem.d)
        for part in np.array_split(draws, min(SNAPSHOTS, problem.n)):
            shrunk[:] = 0.0
            pending = subgradient_steps(
                problem.loss, rows, problem.codes, part, state.steps, state.reach, alpha, state.W, state.b,
                float(problem.fit_intercept), shrunk, 0.0, z, a,
            )  # fmt: skip
            for j in range(problem.d):
                catch_up(problem.loss, state.W[j], pending - shrunk[j])
            state.steps += len(part)
            state.snapshots += 1
            share = 2.0 / (state.snapshots + 1.0)
            state.mean_W += share * (state.W - state.mean_W)
            state.mean_b += share * (state.b - state.mean_b)
        state.accesses += 2 * problem.size

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.mean_W.copy(), state.mean_b.copy(), None)
