"""Stochastic conditional gradient sliding (SCGS): accelerated steps whose projections are done by Frank-Wolfe.

Iteration k = 1, 2, ..., with a new batch of m_k rows and the gradient c sampled at z:

    z = (1 - g_k) w + g_k x,   x <- nearly argmin_v c.v + b_k / 2 ||v - x||^2 + g(v),   w <- (1 - g_k) w + g_k x

The middle step runs Frank-Wolfe with exact steps until its gap is at most eta_k; each of its atoms is an oracle call.

==============  ============================================  =====================================================
here            meaning                                       letters of Lan & Zhou 2016, Algorithm 4
==============  ============================================  =====================================================
w, x, z         averaged point, prox centre, middle point     y_k, x_k, z_k
g_k, b_k        3 / (k + 2), 4 L / (k + 2)                    gamma_k, beta_k
eta_k           L D^2 / (k (k + 1))                           eta_k
m_k             rows of a batch: growth k^3                   B_k; at most n / 2 as in Lu & Freund
L               smoothness times lambda_max(X' diag(s) X)     L
D               distance of two opposite atoms                D_X, the diameter; exact for balls and the simplex
==============  ============================================  =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.frank_wolfe_steps import (
    FrankWolfeState,
    GrowingBatches,
    epoch_batches,
    largest_eigenvalue,
    sampled_gradient,
    spread,
)

__all__ = ["SCGS"]


@kernel(fast_sums=True)
def slide(penalty, gradient, curvature, tol, most, center, x, level, c, index, value, u):
    """x <- nearly argmin_v gradient.v + curvature / 2 ||v - center||^2 + g(v): Frank-Wolfe until its gap is at most `tol`.

    `level` is g(x), or the chord above it. Returns the number of atoms and the new level.
    """
    calls, step = 0, 1.0
    while step > 0.0 and calls < most:
        calls += 1
        for j in range(x.shape[0]):
            c[j] = gradient[j] + curvature * (x[j] - center[j])
        count = penalty.atom(c, index, value)
        spread(penalty, index, value, count, u)
        low = penalty.atom_value(value, count)
        gap, length = level - low, 0.0
        for j in range(x.shape[0]):
            u[j] -= x[j]
            gap -= c[j] * u[j]
            length += u[j] * u[j]
        step = min(1.0, gap / (curvature * length)) if gap > tol else 0.0
        for j in range(x.shape[0]):
            x[j] += step * u[j]
            u[j] = 0.0
        level += step * (low - level)
    return calls, level


class _State(FrankWolfeState):
    """The averaged point w (as v), the prox centre x with g(x), and the constants L and D."""

    def __init__(self, problem: Any, start: Point | None, rng: np.random.Generator):
        super().__init__(problem, start, rng)
        self.x, self.level = self.v.copy(), problem.penalty.value(self.v)
        self.c, self.u, self.anchor = np.zeros(problem.d), np.zeros(problem.d), np.zeros(problem.n)
        top, passes = largest_eigenvalue(problem)
        self.accesses += passes * problem.matrix.nnz
        self.L = problem.loss.smoothness * top
        far = 1e8 * rng.standard_normal(problem.d)  # so long that the set alone decides, not a penalty on it
        self.D = float(np.linalg.norm(problem.penalty.linear_oracle(far) - problem.penalty.linear_oracle(-far)))


@dataclass(frozen=True)
class SCGS(GrowingBatches):
    """Stochastic conditional gradient sliding, for smooth losses and bounded penalties, without intercept.

    An epoch draws about n rows; once the batches have n / 2 rows, it has two iterations.

    Parameters
    ----------
    growth : float
        Iteration k draws ``growth * k**3`` rows, at most n / 2.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0, 0.0], [0.0, 1.0]], [1, -1], "logistic", sd.penalties.L1Ball(2.0))
    >>> solution = sd.solve(problem, "scgs", tol=0.1)
    >>> solution.trace[-1].counts["oracle_calls"] > 0
    True
    """

    name = "scgs"
    paper = "Lan & Zhou 2016; rival in Lu & Freund 2020"

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, start, rng)

    def step(self, problem: Any, state: _State) -> None:
        for batch in epoch_batches(lambda k: self.growth * k**3, state.iterations + 1, state.order.size):
            state.iterations += 1
            k, draws, gradient = state.iterations, state.rng.random(batch), np.zeros(problem.d)
            share, curvature, tol = 3.0 / (k + 2.0), 4.0 * state.L / (k + 2.0), state.L * state.D**2 / (k * (k + 1.0))
            z = (1.0 - share) * state.v + share * state.x
            state.accesses += sampled_gradient(
                problem.loss, problem.matrix.rows, problem.y, problem.s, state.order, draws, state.anchor, z, 1.0, gradient
            )
            most = 100 * k + 100  # with D the diameter, 24 k are enough
            calls, state.level = slide(
                problem.penalty, gradient, curvature, tol, most, state.x.copy(), state.x, state.level,
                state.c, state.index, state.value, state.u,
            )  # fmt: skip
            state.v += share * (state.x - state.v)
            state.oracle_calls += calls
            state.sample_gradients += int(batch)
