"""Stochastic conditional gradient with momentum (SCGM, also SCG): a rival in Lu & Freund's comparison.

Iteration t = 1, 2, ..., with a batch B of b rows:

    c <- (1 - rho_t) c + rho_t (n / b) sum_{i in B} s_i l'(x_i.w) x_i,   w <- (1 - step_t) w + step_t argmin_u c.u + g(u)

========  ==============================  =======================================================
here      meaning                         letters of Mokhtari, Hassani & Karbasi 2020
========  ==============================  =======================================================
w, u, c   iterate, atom, momentum         x_t, v_t, d_t
rho_t     4 / (t + 8)^(2/3)               rho_t
step_t    2 / (t + 1), or 1 / (t + 1)     gamma_t = 1 / (t + 1); twice as long is faster in practice
========  ==============================  =======================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.point import Point
from saddlery.solvers.base import Solver
from saddlery.solvers.frank_wolfe_steps import SAMPLING, FrankWolfeState, batch_size, run_sampled_steps

__all__ = ["SCGM"]


class _State(FrankWolfeState):
    """w and the momentum c."""

    def __init__(self, problem: Any, start: Point | None, rng: np.random.Generator, batch: int | None):
        super().__init__(problem, start, rng)
        self.batch = batch_size(batch, self.order.size)
        self.anchor, self.center, self.c = np.zeros(problem.n), np.zeros(problem.d), np.zeros(problem.d)


@dataclass(frozen=True)
class SCGM(Solver):
    """Stochastic conditional gradient with momentum, for smooth losses and bounded penalties, without intercept.

    Parameters
    ----------
    batch : int, optional
        Rows of a batch; by default one in a hundred.
    step_factor : float
        The step is ``step_factor / (t + 1)``: 2, or 1 as in the paper.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0, 0.0], [0.0, 1.0]], [1, -1], "logistic", sd.penalties.L1Ball(2.0))
    >>> sd.solve(problem, "scgm", tol=1e-2).status
    <Status.CONVERGED: 'certified to the tolerance'>
    """

    name = "scgm"
    paper = "Mokhtari, Hassani & Karbasi 2020; rival in Lu & Freund 2020"
    needs = SAMPLING

    batch: int | None = None
    step_factor: float = 2.0

    def __post_init__(self) -> None:
        if not 0.0 < self.step_factor <= 2.0:
            raise InputError(f"step_factor must be above 0 and at most 2, not {self.step_factor!r}")

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, start, rng, self.batch)

    def step(self, problem: Any, state: _State) -> None:
        t = state.iterations + np.arange(1.0, 1.0 + -(-state.order.size // state.batch))
        run_sampled_steps(
            problem, state, np.full(len(t), state.batch), 4.0 / (t + 8.0) ** (2.0 / 3.0), self.step_factor / (t + 1.0)
        )

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.v, 0.0, None)
