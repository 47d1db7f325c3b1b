"""Stochastic Frank-Wolfe with growing batches (SFW): a rival in Lu & Freund's comparison.

Iteration k = 1, 2, ..., with a new batch B of m_k rows:

    c = (n / m_k) sum_{i in B} s_i l'(x_i.w) x_i,   w <- (1 - t) w + t argmin_u c.u + g(u),   t = 2 / (k + 1)

========  ==================================  =============================================================
here      meaning                             letters of Hazan & Luo 2016, Theorem 3
========  ==================================  =============================================================
w, u      iterate and atom                    w_k, v_k
m_k       rows of a batch: growth k^2         (G (k + 1) / (L D))^2; at most n / 2 as in Lu & Freund
t         step                                gamma_k = 2 / (k + 1)
========  ==================================  =============================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.point import Point
from saddlery.solvers.frank_wolfe_steps import FrankWolfeState, GrowingBatches, epoch_batches, run_sampled_steps

__all__ = ["SFW"]


class _State(FrankWolfeState):
    """w and the last sampled gradient c."""

    def __init__(self, problem: Any, start: Point | None, rng: np.random.Generator):
        super().__init__(problem, start, rng)
        self.anchor, self.center, self.c = np.zeros(problem.n), np.zeros(problem.d), np.zeros(problem.d)


@dataclass(frozen=True)
class SFW(GrowingBatches):
    """Stochastic Frank-Wolfe with growing batches, for smooth losses and bounded penalties, without intercept.

    An epoch draws about n rows; once the batches have n / 2 rows, it has two iterations.

    Parameters
    ----------
    growth : float
        Iteration k draws ``growth * k**2`` rows, at most n / 2.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0, 0.0], [0.0, 1.0]], [1, -1], "logistic", sd.penalties.L1Ball(2.0))
    >>> solution = sd.solve(problem, "sfw", tol=0.1)
    >>> solution.trace[-1].counts["oracle_calls"] > 0
    True
    """

    name = "sfw"
    paper = "Hazan & Luo 2016; rival in Lu & Freund 2020"

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, start, rng)

    def step(self, problem: Any, state: _State) -> None:
        batches = epoch_batches(lambda k: self.growth * k * k, state.iterations + 1, state.order.size)
        k = state.iterations + np.arange(1.0, 1.0 + len(batches))
        run_sampled_steps(problem, state, batches, np.ones(len(k)), 2.0 / (k + 1.0))
