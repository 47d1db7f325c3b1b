"""Frank-Wolfe with a table of gradients (SAG-FW): GSFW with the table refreshed at the iterate itself, which makes it fast.

The finite-sum method of Negiar et al. with batches. A table holds a slope a_i for each row, and c = X'(s a). Iteration i:

    u = argmin_u c.u + g(u),   w <- (1 - t) w + t u with t = 2 / (i + 2)
    for the rows j of a batch:  a_j <- l'(x_j.w),   c += s_j (change of a_j) x_j

No rate is proven for these steps with batches. The certificate needs none: any table of slopes is dual feasible, and it
comes for free.

========  ==================================  =============================
here      meaning                             letters of Negiar et al. 2020
========  ==================================  =============================
w, u      iterate and atom                    w_t, s_t
a, c      table, its gradient X'(s a)         alpha_t, r_t
========  ==================================  =============================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Solver
from saddlery.solvers.frank_wolfe_steps import SAMPLING, FrankWolfeState, batch_size, draw, move_to_atom

__all__ = ["SagFW"]


@kernel(fast_sums=True)
def table_steps(loss, penalty, rows, y, s, order, draws, steps, a, c, v, scale, index, value):
    """One iteration of the method for each row of `draws`, whose numbers choose the batch. Returns scale and entries read."""
    reads = 0
    for i in range(steps.shape[0]):
        count = penalty.atom(c, index, value)
        scale = move_to_atom(penalty, v, scale, steps[i], index, value, count)
        for k in range(draws.shape[1]):
            j = draw(rows, order, k, draws[i, k])
            slope = loss.slope(y[j], scale * rows.dot(j, v))
            rows.axpy(j, s[j] * (slope - a[j]), c)
            a[j] = slope
            reads += 2 * (rows.last(j) - rows.first(j))
    return scale, reads


class _State(FrankWolfeState):
    """w, the table a, and c = X'(s a)."""

    def __init__(self, problem: Any, start: Point | None, rng: np.random.Generator, batch: int | None):
        super().__init__(problem, start, rng)
        self.batch = batch_size(batch, self.order.size)
        self.a = problem.slopes(problem.margins(self.v) if self.v.any() else np.zeros(problem.n))
        self.c = problem.matrix.rmatvec(problem.s * self.a)
        self.accesses += (1 + bool(self.v.any())) * problem.matrix.nnz
        self.initial_gradients = self.sample_gradients = self.order.size


@dataclass(frozen=True)
class SagFW(Solver):
    """Frank-Wolfe with a table of gradients, for smooth losses and bounded penalties, without intercept.

    An epoch draws about n rows. A start fills the table; the first iteration forgets its w.

    Parameters
    ----------
    batch : int, optional
        Rows of a batch; by default one in a hundred.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0, 0.0], [0.0, 1.0]], [1, -1], "logistic", sd.penalties.L1Ball(2.0))
    >>> sd.solve(problem, "sag_fw", tol=1e-3).status
    <Status.CONVERGED: 'certified to the tolerance'>
    """

    name = "sag_fw"
    paper = "Negiar et al. 2020, with the batches of Lu & Freund 2020"
    needs = SAMPLING

    batch: int | None = None

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, start, rng, self.batch)

    def step(self, problem: Any, state: _State) -> None:
        i = state.iterations + np.arange(-(-state.order.size // state.batch), dtype=np.float64)
        draws = state.rng.random((len(i), state.batch))
        state.scale, reads = table_steps(
            problem.loss, problem.penalty, problem.matrix.rows, problem.y, problem.s, state.order, draws, 2.0 / (i + 2.0),
            state.a, state.c, state.v, state.scale, state.index, state.value,
        )  # fmt: skip
        state.accesses += reads
        state.iterations += len(i)
        state.oracle_calls += len(i)
        state.sample_gradients += draws.size

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, 0.0, state.a, Xta=state.c)

    def resync(self, problem: Any, state: _State) -> None:
        state.c = problem.matrix.rmatvec(problem.s * state.a)
