"""DGPD with active sets, Algorithm 2 of Lei, Yen, Wu, Dhillon & Ravikumar (ICML 2017), corrected.

A search adds the columns with the largest |wbar_j| (10) and the rows with the largest moves (12) to the active sets and drops
those at zero; then a few rounds update all active weights at once (11) and all active dual numbers at once (13) on a compact copy.

Read literally, (13) moves all a_i from the same w: that is proximal gradient ascent on the restricted dual, safe for

    tau <= mu / sigma_max(diag(s)^(1/2) X[A_y, A_x])^2          (the paper's eta is n tau)

The largest singular value comes from the power method; tau is halved when the restricted dual falls and grows by a fifth when it
rises. `grow=1` adds one row and one column a search, as printed; the default doubles the sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.matrix import Matrix
from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.problems.row_sums import conjugate_terms
from saddlery.solvers.active_sdca import add_products, block_of
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.sdca import starting_dual

__all__ = ["DGPDActive"]


@kernel
def simultaneous_update(loss, y, z, a, tau, out):
    """out_i = prox of tau l* at a_i + tau z_i, all from the same margins (13)."""
    for i in range(y.shape[0]):
        out[i] = loss.dual_prox(y[i], a[i] + tau * z[i], tau)


def _top_eigenvalue(matrix: Matrix, s: np.ndarray, rng: np.random.Generator, iterations: int = 20) -> float:
    """sigma_max^2 of diag(s)^(1/2) X by the power method, raised by a tenth because it is approached from below."""
    direction = rng.standard_normal(matrix.shape[1])
    value = 0.0
    for _ in range(iterations):
        norm = float(np.linalg.norm(direction))
        if norm == 0.0:
            return 0.0
        direction = matrix.rmatvec(s * matrix.matvec(direction / norm))
        value = float(np.linalg.norm(direction))
    return 1.1 * value


class _State(State):
    def __init__(self, problem: Any, a: np.ndarray, rng: np.random.Generator):
        self.a, self.rng = a, rng
        self.v = -problem.matrix.rmatvec(problem.s * a)
        self.rows, self.columns = a != 0.0, np.zeros(problem.d, dtype=bool)
        self.tau = 1.0


@dataclass(frozen=True)
class DGPDActive(Solver):
    """Doubly greedy primal-dual coordinate descent with active sets; smooth losses, strongly convex penalties, no intercept.

    Parameters
    ----------
    rounds : int
        Rounds of simultaneous updates for each search (the paper's experiments: 5).
    grow : int
        Rows and columns that join at each search; 0 doubles the sets.
    """

    rounds: int = 5
    grow: int = 0

    name = "dgpd_active"
    paper = "Lei et al. 2017, Algorithm 2"
    needs = Needs(
        loss=("dual_prox", "conjugate"),
        penalty=("coordinate_map",),
        smooth=True,
        strongly_convex=True,
        no_intercept=True,
        partial=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, starting_dual(problem, start), rng)

    def step(self, problem: Any, state: _State) -> None:
        self._search(problem, state)
        rows, columns = np.flatnonzero(state.rows), np.flatnonzero(state.columns)
        block = block_of(problem.matrix, rows, columns)
        y, s = problem.y[rows], problem.s[rows]
        top = _top_eigenvalue(block, s, state.rng)
        tau = problem.penalty.strong_convexity / top if top > 0.0 else 1.0
        a = self._rounds(problem, block, y, s, state.a[rows], state.v[columns], tau)
        change = np.zeros(problem.n)
        change[rows] = -s * (a - state.a[rows])
        state.a[rows] = a
        add_products(problem.matrix, change, state.v)
        state.tau = tau
        state.accesses += problem.matrix.nnz + (40.0 + 2.0 * self.rounds) * block.nnz

    def _search(self, problem: Any, state: _State) -> None:
        """Kick out zeros, then add columns by |wbar_j| (10) and rows by their moves (12)."""
        wbar = problem.penalty.dual_map(state.v)
        state.columns &= wbar != 0.0
        state.rows &= state.a != 0.0
        _add_largest(state.columns, np.abs(wbar), self.grow)
        Xw = problem.margins(np.where(state.columns, wbar, 0.0))
        moved = np.empty(problem.n)
        simultaneous_update(problem.loss, problem.y, Xw, state.a, state.tau, moved)
        _add_largest(state.rows, problem.s * np.abs(moved - state.a), self.grow)

    def _rounds(self, problem: Any, block: Matrix, y: Any, s: Any, a: np.ndarray, v: np.ndarray, tau: float) -> np.ndarray:
        """Simultaneous updates on the block with the ascent check; returns the new dual numbers."""
        trial, terms = np.empty_like(a), np.empty_like(a)

        def value(at: np.ndarray, v_at: np.ndarray) -> float:
            conjugate_terms(problem.loss, y, s, at, 1.0, terms)
            return -float(terms.sum()) - problem.penalty.conjugate(v_at)

        current = value(a, v)
        for _ in range(self.rounds):
            simultaneous_update(problem.loss, y, block.matvec(problem.penalty.dual_map(v)), a, tau, trial)
            v_trial = v - block.rmatvec(s * (trial - a))
            new = value(trial, v_trial)
            if new >= current:
                a, v, current, tau, trial = trial, v_trial, new, 1.2 * tau, np.empty_like(a)
            else:
                tau *= 0.5
        return a

    def point(self, problem: Any, state: _State) -> Point:
        return Point(problem.penalty.dual_map(state.v), 0.0, state.a, Xta=-state.v)

    def resync(self, problem: Any, state: _State) -> None:
        state.v = -problem.matrix.rmatvec(problem.s * state.a)


def _add_largest(active: np.ndarray, score: np.ndarray, grow: int) -> None:
    """Add the `grow` best coordinates outside (0: as many as are inside, at least 200), as long as their score is not zero."""
    outside = np.flatnonzero(~active & (score > 0.0))
    room = grow or max(200, int(active.sum()))
    if len(outside) > room:
        outside = outside[np.argpartition(-score[outside], room - 1)[:room]]
    active[outside] = True
