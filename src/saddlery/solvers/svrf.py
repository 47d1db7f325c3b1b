"""Stochastic variance-reduced Frank-Wolfe (SVRF): a rival in Lu & Freund's comparison.

Round r = 1, 2, ... takes the full gradient at a snapshot w_0, then 2^(r + 3) - 2 iterations k = 1, 2, ..., with new batches B
of m_k rows:

    c = X'(s l'(X w_0)) + (n / m_k) sum_{i in B} s_i (l'(x_i.w) - l'(x_i.w_0)) x_i
    w <- (1 - t) w + t argmin_u c.u + g(u),   t = 2 / (k + 1)

The slopes at the snapshot are kept, so a row of a batch counts as one sample gradient.

========  =======================================  =============================================================
here      meaning                                  letters of Hazan & Luo 2016, Algorithm 1
========  =======================================  =============================================================
w, w_0    iterate and snapshot                     x_k, w_{t-1}
m_k       rows of a batch: growth (k + 1)          96 (k + 1); at most n / 2 as in Lu & Freund
r         round                                    t, with N_t = 2^(t + 3) - 2 iterations
========  =======================================  =============================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.point import Point
from saddlery.solvers.frank_wolfe_steps import FrankWolfeState, GrowingBatches, epoch_batches, run_sampled_steps

__all__ = ["SVRF"]


def round_length(r: int) -> int:
    """Iterations of round r."""
    return 2 ** (r + 3) - 2


class _State(FrankWolfeState):
    """w, the slopes at the snapshot (`anchor`) with their gradient (`center`), round and iteration of the round."""

    def __init__(self, problem: Any, start: Point | None, rng: np.random.Generator):
        super().__init__(problem, start, rng)
        self.c = np.zeros(problem.d)
        self.round, self.inner = 1, 0
        self.take_snapshot(problem)
        self.initial_gradients = self.sample_gradients

    def take_snapshot(self, problem: Any) -> None:
        self.anchor = problem.slopes(problem.margins(self.v))
        self.center = problem.matrix.rmatvec(problem.s * self.anchor)
        self.accesses += 2 * problem.matrix.nnz
        self.sample_gradients += self.order.size


@dataclass(frozen=True)
class SVRF(GrowingBatches):
    """Stochastic variance-reduced Frank-Wolfe, for smooth losses and bounded penalties, without intercept.

    An epoch draws about n rows or ends a round.

    Parameters
    ----------
    growth : float
        Iteration k of a round draws ``growth * (k + 1)`` rows, at most n / 2.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0, 0.0], [0.0, 1.0]], [1, -1], "logistic", sd.penalties.L1Ball(2.0))
    >>> sd.solve(problem, "svrf", tol=1e-2).status
    <Status.CONVERGED: 'certified to the tolerance'>
    """

    name = "svrf"
    paper = "Hazan & Luo 2016; rival in Lu & Freund 2020"

    growth: float = 96.0

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, start, rng)

    def step(self, problem: Any, state: _State) -> None:
        if state.inner == round_length(state.round):
            state.round, state.inner = state.round + 1, 0
            state.take_snapshot(problem)
        left = round_length(state.round) - state.inner
        batches = epoch_batches(lambda k: self.growth * (k + 1), state.inner + 1, state.order.size, left)
        k = state.inner + np.arange(1.0, 1.0 + len(batches))
        run_sampled_steps(problem, state, batches, np.ones(len(k)), 2.0 / (k + 1.0))
        state.inner += len(batches)
