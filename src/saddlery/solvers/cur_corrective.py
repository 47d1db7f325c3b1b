"""Frank-Wolfe for the CUR problem: an exact oracle, then the best weights of all atoms (fully corrective) or a line search.

With Z = M W M, A = Z - M and the gradient G = M' A M' / (n d), a step takes the atom argmin <G, W> over the CUR set and minimises
the loss over the convex hull of zero and all atoms so far: a quadratic program in their weights, whose Gram matrix holds the
products of their margins M W_k M. Atoms of weight 0 are dropped. The oracle's own bound certifies, so that a check costs nothing
more.

=========  =========================================  ==================================================
here       meaning                                    letters of Lu & Freund (2020)
=========  =========================================  ==================================================
W          weights, d x n                             beta
A          residual, the dual point                   w
Xta        gradient M' A M' / (n d)                   d
atom       linear oracle at Xta                       beta tilde
=========  =========================================  ==================================================

The loss is dense and the oracle costs more than the gradient, so that sampling entries, as the paper's method would, saves nothing
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.point import Point
from saddlery.solvers.atom_weights import best_weights
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["CURCorrective"]

EPS = float(np.finfo(float).eps)


class _State(State):
    """Atoms with weights, all that is known of W = sum of both, and the next atom."""

    def __init__(self, problem: Any, atoms: np.ndarray, weights: np.ndarray):
        self.atoms, self.weights = atoms, weights
        self.margins = np.array([problem.margins(atom) for atom in atoms]).reshape(len(atoms), problem.n, problem.d)
        self.gram = np.tensordot(self.margins, self.margins, ((1, 2), (1, 2))) / problem.size
        self.linear = np.tensordot(self.margins, problem.M, 2) / problem.size
        self.oracle_calls = 0
        self.look(problem)

    def look(self, problem: Any) -> None:
        """W from atoms and weights, its products, and the oracle there."""
        self.W, self.Z = np.tensordot(self.weights, self.atoms, 1), np.tensordot(self.weights, self.margins, 1)
        self.A = self.Z - problem.M
        self.value = problem.mean_square(self.A) / 2.0
        self.Xta = problem.gradient(self.A)
        self.atom, shared = problem.penalty.best_response(self.Xta)
        self.bound = problem.penalty.radius * shared.bound
        self.oracle_calls += 1
        self.accesses += 4 * problem.size

    @property
    def counts(self) -> dict[str, float]:
        return {"oracle_calls": self.oracle_calls, "atoms": len(self.atoms)}


@dataclass(frozen=True)
class CURCorrective(Solver):
    """Frank-Wolfe over the atoms of the CUR set, with an exact oracle and corrective steps; an epoch is one oracle.

    Parameters
    ----------
    step_rule : {"corrective", "line_search"}
        The best weights of all atoms, or the best point between W and the new atom.
    """

    step_rule: str = "corrective"

    name = "cur_corrective"
    paper = "Lu & Freund 2020, Example 1.3; fully corrective Frank-Wolfe"
    needs = Needs(kind="cur", loss=("slope", "conjugate"), penalty=("linear_oracle", "conjugate"))

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        if self.step_rule not in ("corrective", "line_search"):
            raise InputError(f"step_rule must be 'corrective' or 'line_search', not {self.step_rule!r}")
        atoms, weights = np.zeros((0, problem.d, problem.n)), np.zeros(0)
        if start is not None and start.w.any():  # any point of the set may serve as an atom
            atoms, weights = problem.penalty.shrink(start.w)[None], np.ones(1)
        return _State(problem, atoms, weights)

    def step(self, problem: Any, state: _State) -> None:
        margins = problem.margins(state.atom)
        products = np.tensordot(state.margins, margins, 2) / problem.size
        square, linear = problem.mean_square(margins), float(np.vdot(margins, problem.M)) / problem.size
        state.atoms, state.margins = np.concatenate([state.atoms, state.atom[None]]), np.concatenate([state.margins, margins[None]])
        state.gram = np.block([[state.gram, products[:, None]], [products[None, :], np.array([[square]])]])
        state.linear = np.append(state.linear, linear)
        if self.step_rule == "corrective":
            weights = best_weights(state.gram, state.linear, np.append(state.weights, 0.0))
        else:
            weights = _between(state.gram, state.linear, state.weights)
        kept = weights > 0.0
        state.atoms, state.margins, state.weights = state.atoms[kept], state.margins[kept], weights[kept]
        state.gram, state.linear = state.gram[np.ix_(kept, kept)], state.linear[kept]
        before = state.value
        state.look(problem)
        state.stalled = bool(before - state.value <= EPS * problem.scale)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.W, 0.0, state.A, Xw=state.Z, Xta=state.Xta, fresh=True, aux=state.bound)

    def resync(self, problem: Any, state: _State) -> None:
        state.margins = np.array([problem.margins(atom) for atom in state.atoms])


def _between(gram: np.ndarray, linear: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The best weights between those of now (the last atom has none yet) and the last atom alone."""
    move = np.append(-weights, 1.0)
    now = np.append(weights, 0.0)
    bend = float(move @ gram @ move)
    slope = float(move @ (linear - gram @ now))
    return now + (min(max(slope / bend, 0.0), 1.0) if bend > 0.0 else 0.0) * move
