"""Stochastic primal-dual coordinate method (SPDC, batch 1): a baseline of the doubly-greedy paper.

Sample a row i uniformly; with u = X'(s a) and the extrapolated point xt:

    a_i' = prox of sigma_i l* at a_i + sigma_i x_i.xt,                     sigma_i = sigma / (n s_i)
    w'   = prox of tau g at w - tau (u + n s_i (a_i' - a_i) x_i),          note the factor n: the sampled row stands for all
    u   += s_i (a_i' - a_i) x_i,     xt = w' + theta (w' - w)

tau = sqrt(gamma / (n mu)) / (2R), sigma = sqrt(n mu / gamma) / (2R), theta = 1 - 1 / (n + 2R sqrt(n / (mu gamma))), with R the
largest row norm and 1 / gamma the smoothness of n s_i l. Each step costs O(d): dense, as printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.sdca import starting_dual

__all__ = ["SPDC"]


@kernel(fast_sums=True)
def primal_dual_steps(loss, penalty, rows, y, s, n, order, sigma, tau, theta, a, u, w, extrapolated):
    """One step for each row in order, of n rows in all; formulas at the top of the file."""
    for k in range(order.shape[0]):
        i = order[k]
        if s[i] == 0.0:
            continue
        step = sigma / (n * s[i])
        move = loss.dual_prox(y[i], a[i] + step * rows.dot(i, extrapolated), step) - a[i]
        a[i] += move
        for p in range(rows.first(i), rows.last(i)):  # u carries the sampled row n-fold during the primal step
            u[rows.position(i, p)] += n * s[i] * move * rows.entry(p)
        for j in range(w.shape[0]):
            trial = penalty.coordinate_prox(w[j] - tau * u[j], tau)
            extrapolated[j] = trial + theta * (trial - w[j])
            w[j] = trial
        for p in range(rows.first(i), rows.last(i)):
            u[rows.position(i, p)] -= (n - 1) * s[i] * move * rows.entry(p)


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, a: np.ndarray, rng: np.random.Generator):
        self.w, self.a, self.rng = w, a, rng
        self.extrapolated = w.copy()
        self.u = problem.matrix.rmatvec(problem.s * a)


@dataclass(frozen=True)
class SPDC(Solver):
    """Stochastic primal-dual coordinate method; smooth losses, strongly convex penalties, no intercept."""

    name = "spdc"
    paper = "Zhang & Xiao 2015; baseline of Lei et al. 2017"
    needs = Needs(
        loss=("dual_prox", "conjugate"),
        penalty=("coordinate_prox",),
        smooth=True,
        strongly_convex=True,
        no_intercept=True,
        partial=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w = np.zeros(problem.d) if start is None else start.w
        return _State(problem, w, starting_dual(problem, start), rng)

    def step(self, problem: Any, state: _State) -> None:
        n, mu = problem.n, problem.penalty.strong_convexity
        gamma = 1.0 / (problem.loss.smoothness * n * float(problem.s.max()))
        radius = float(np.sqrt(problem.matrix.row_square_norms.max()))
        if radius == 0.0:
            radius = 1.0
        tau, sigma = np.sqrt(gamma / (n * mu)) / (2.0 * radius), np.sqrt(n * mu / gamma) / (2.0 * radius)
        theta = 1.0 - 1.0 / (n + 2.0 * radius * np.sqrt(n / (mu * gamma)))
        for part, block in problem.matrix.row_parts(state.rng):
            size = part.stop - part.start
            order = state.rng.integers(size, size=size)
            primal_dual_steps(
                problem.loss, problem.penalty, block.rows, problem.y[part], problem.s[part], n, order,
                sigma, tau, theta, state.a[part], state.u, state.w, state.extrapolated,
            )  # fmt: skip
        state.accesses += 2 * problem.matrix.nnz

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, 0.0, state.a, Xta=state.u)

    def resync(self, problem: Any, state: _State) -> None:
        state.u = problem.matrix.rmatvec(problem.s * state.a)
