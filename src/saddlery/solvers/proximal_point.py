"""Proximal point outer loop around active SDCA: for the hinge with pure l1, and with l2 so weak that dual ascent crawls.

Dual coordinate ascent needs a strongly convex penalty. An outer step provides it: around a centre c

    min_{w,b}  P(w, b) + ||w - c||^2 / (2 sigma)

whose dual point also serves the original problem once repaired (scaled); of an intercept the dual ascent takes care (balance.py).
The outer sequence converges for any sigma > 0, and in finitely many steps when loss and penalty are piecewise linear; sigma grows
while the sub-problems stay easy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.parts import part
from saddlery.point import Point
from saddlery.solvers.active_sdca import DualSearch
from saddlery.solvers.balance import starting_intercept
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.sdca import starting_dual

__all__ = ["ProximalPoint"]


@part
class Proximal(NamedTuple):
    """The penalty g_j(w) + w^2 / (2 sigma): its map is a prox of g_j. The centre enters as a linear term."""

    penalty: Any
    sigma: float

    def coordinate_map(self, u):
        return self.penalty.coordinate_prox(self.sigma * u, self.sigma)

    @property
    def is_round(self) -> bool:
        return getattr(self.penalty, "is_round", False)  # its map is linear then: w = v / mu


class _State(State):
    def __init__(self, problem: Any, centre: np.ndarray, centre_b: float, a: np.ndarray, sigma: float, rng: np.random.Generator):
        self.rng, self.sigma, self.rounds = rng, sigma, 0
        self.centre, self.centre_b = centre, centre_b
        self.recentre(problem, a)

    def recentre(self, problem: Any, a: np.ndarray) -> None:
        """A new sub-problem around the centre, from the dual point a."""
        self.rounds = 0
        self.dual = DualSearch(
            problem,
            Proximal(problem.penalty, self.sigma),
            problem.penalty.strong_convexity + 1.0 / self.sigma,
            a,
            self.centre / self.sigma,
            self.centre_b,
        )


@dataclass(frozen=True)
class ProximalPoint(Solver):
    """Proximal point method with active dual coordinate ascent inside: any loss, any separable penalty, intercept or not.

    Parameters
    ----------
    conditioning : float
        First sigma, as the largest s_i ||x_i||^2 sigma: how ill-conditioned the first sub-problem may be.
    accuracy : float
        A sub-problem is left when its gap is this share of the certified one.
    """

    conditioning: float = 10.0
    accuracy: float = 0.1

    name = "proximal_point"
    paper = "Rockafellar 1976 around active SDCA"
    needs = Needs(loss=("dual_prox", "value", "conjugate"), penalty=("coordinate_prox",), partial=True)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        norms = problem.matrix.row_square_norms + problem.fit_intercept
        top = float(np.max(problem.s * norms))
        sigma = self.conditioning / top if top > 0.0 else 1.0
        w, b = (np.zeros(problem.d), starting_intercept(problem)) if start is None else (start.w, start.b)
        a = starting_dual(problem, start)
        return _State(problem, w, b, a, sigma, rng)

    def step(self, problem: Any, state: _State) -> None:
        dual = state.dual
        state.accesses += dual.sweep(problem, state.rng, problem.penalty.threshold, 20, 0.05)
        state.accesses += dual.search(problem)
        state.rounds += 1
        solved = dual.gap <= self.accuracy * max(state.relative_gap, 1e-16) * (problem.scale or 1.0)
        if solved or state.rounds >= 15:
            if solved and state.rounds <= 2:
                state.sigma *= 2.0
            elif state.rounds > 6:  # too hard: a smaller sigma makes easier sub-problems, and more of them
                state.sigma *= 0.5
            state.centre, state.centre_b = dual.w, dual.b
            columns = dual.columns
            state.recentre(problem, dual.a)
            state.dual.columns = columns
            state.accesses += 2 * problem.matrix.nnz

    def point(self, problem: Any, state: _State) -> Point:
        dual = state.dual
        return Point(dual.w, dual.b if problem.fit_intercept else 0.0, dual.a, dual.Xw, dual.origin - dual.v)

    def resync(self, problem: Any, state: _State) -> None:
        state.accesses += state.dual.complete(problem)
