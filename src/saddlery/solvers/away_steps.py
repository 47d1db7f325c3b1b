"""Frank-Wolfe with an active set of atoms: away steps, pairwise steps, blended pairwise steps.

All three keep w as a convex combination of atoms and may take weight away from an atom, which plain Frank-Wolfe cannot; on
polytopes that makes convergence linear. With g the gradient, v the atom of the oracle, a and l the worst and the best atom in use:

    away       towards v or away from a, whichever slope is steeper          w + t (v - w)  or  w + t (w - a)
    pairwise   from a to v                                                   w + t (v - a)
    blended    from a to l if that is at least as steep as towards v         w + t (l - a)  or  w + t (v - w)

Blended steps ask for a new atom only where the old ones do not help. Step sizes are adaptive: the quadratic bound is kept in the
space of margins, where one number L serves the loss.

=========  ==================================================================
here       meaning
=========  ==================================================================
shares     weights of the atoms in use, which sum to one
Xta        gradient g = X'(s l'(z))
bound      estimate L of the curvature of the loss in the space of margins
=========  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.penalties.base import atom_buffers, best_atom
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["AwayStepsFW", "BlendedPairwiseFW", "PairwiseFW"]

LEAST_SHARE = 1e-12  # an atom with less is dropped
RESUM = 20  # steps after which w and its margins are summed anew from the atoms


class _Atom:
    """An atom in use: its entries and its share."""

    def __init__(self, index: np.ndarray, value: np.ndarray, share: float):
        self.index, self.value, self.share = index, value, share

    @property
    def key(self) -> bytes:
        return self.index.tobytes() + self.value.tobytes()

    def add_to(self, w: np.ndarray, factor: float) -> None:
        w[self.index] += factor * self.value

    def slope(self, gradient: np.ndarray) -> float:
        return float(gradient[self.index] @ self.value)


class _State(State):
    def __init__(self, problem: Any):
        self.atoms: dict[bytes, _Atom] = {}
        self.w, self.Xw = np.zeros(problem.d), np.zeros(problem.n)
        self.a, self.Xta, self.value = np.zeros(problem.n), np.zeros(problem.d), 0.0
        self.bound = problem.loss.smoothness
        self.steps = self.oracle_calls = self.sample_gradients = 0

    @property
    def counts(self) -> dict[str, float]:
        return {"sample_gradients": self.sample_gradients, "oracle_calls": self.oracle_calls, "atoms": len(self.atoms)}


@dataclass(frozen=True)
class AwayStepsFW(Solver):
    """Frank-Wolfe with away steps: smooth losses on any set with a linear oracle, no intercept. An epoch is one step."""

    name = "away_fw"
    paper = "Guelat & Marcotte 1986; Lacoste-Julien & Jaggi 2015"
    needs = Needs(loss=("value", "slope", "conjugate"), penalty=("atom",), smooth=True, constraint=True, no_intercept=True)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        """At the best corner: a start point has no atoms, so only its gradient serves."""
        state = _State(problem)
        w = problem.first_point().w if start is None else start.w
        self._look(problem, state, w, problem.margins(w))
        atom = self._oracle(problem, state)
        atom.share = 1.0
        state.atoms[atom.key] = atom
        self._resum(problem, state)
        self._look(problem, state, state.w, state.Xw)
        return state

    def step(self, problem: Any, state: _State) -> None:
        best = self._oracle(problem, state)
        worst = max(state.atoms.values(), key=lambda atom: atom.slope(state.Xta))
        gains, losses, most = self._direction(state, best, worst)
        along = np.zeros(problem.d)
        for atom, factor in [*gains, *((atom, -factor) for atom, factor in losses)]:
            atom.add_to(along, factor)
        size = self._step_size(problem, state, along, most)
        for atom, factor in gains:
            state.atoms.setdefault(atom.key, atom).share += size * factor
        for atom, factor in losses:
            atom.share -= size * factor
        if size == most:  # a drop step: the share is zero but for rounding
            for atom, _ in losses:
                if atom.share <= 1e-9:
                    atom.share = 0.0
        state.atoms = {key: atom for key, atom in state.atoms.items() if atom.share > LEAST_SHARE}
        state.steps += 1
        if state.steps % RESUM == 0:
            self._resum(problem, state)
        self._look(problem, state, state.w, state.Xw)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, 0.0, state.a, state.Xw, state.Xta, state.value, fresh=True)

    def resync(self, problem: Any, state: _State) -> None:
        self._resum(problem, state)
        self._look(problem, state, state.w, state.Xw)

    # -- pieces

    def _direction(self, state: _State, best: _Atom, worst: _Atom) -> tuple[list[Any], list[Any], float]:
        """What gains share and what loses it, for a step of size 1, and the longest step."""
        here = float(state.Xta @ state.w)
        if here - best.slope(state.Xta) >= worst.slope(state.Xta) - here or worst.share >= 1.0:
            return [(best, 1.0)], [(atom, atom.share) for atom in state.atoms.values()], 1.0
        gains = [(atom, atom.share) for atom in state.atoms.values()]
        return gains, [(worst, 1.0)], worst.share / (1.0 - worst.share)

    def _oracle(self, problem: Any, state: _State) -> _Atom:
        index, value = atom_buffers(problem.penalty, problem.d)
        count, _ = best_atom(problem.penalty, state.Xta, index, value)
        state.oracle_calls += 1
        atom = _Atom(index[:count].copy(), value[:count].copy(), 0.0)
        return state.atoms.get(atom.key, atom)

    def _look(self, problem: Any, state: _State, w: np.ndarray, Xw: np.ndarray) -> None:
        """Value, slopes and gradient at w."""
        state.value, state.a = problem.loss_value(Xw), problem.slopes(Xw)
        state.Xta = problem.matrix.rmatvec(problem.s * state.a)
        state.sample_gradients += problem.n
        state.accesses += problem.size

    def _step_size(self, problem: Any, state: _State, along: np.ndarray, most: float) -> float:
        """The minimum of slope t + L t^2 ||X along||^2 / 2 up to `most`, where L is raised until that bounds the loss; moves w."""
        slope = float(state.Xta @ along)
        Xalong = problem.margins(along)
        state.accesses += float(problem.matrix.col_counts[np.flatnonzero(along)].sum())
        bend = float(problem.s @ (Xalong * Xalong))
        if slope >= 0.0 or bend == 0.0:
            return 0.0
        state.bound *= 0.8
        while True:
            size = min(most, -slope / (state.bound * bend))
            Xw = state.Xw + size * Xalong
            bound = state.value + size * slope + 0.5 * state.bound * size * size * bend
            if problem.loss_value(Xw) <= bound + 1e-15 * abs(bound) or state.bound >= problem.loss.smoothness:
                break
            state.bound = min(1.5 * state.bound, problem.loss.smoothness)
        state.w, state.Xw = state.w + size * along, Xw
        return size

    def _resum(self, problem: Any, state: _State) -> None:
        """w and its margins from the atoms, whose shares are made to sum to one."""
        total = sum(atom.share for atom in state.atoms.values())
        state.w = np.zeros(problem.d)
        for atom in state.atoms.values():
            atom.share /= total
            atom.add_to(state.w, atom.share)
        state.Xw = problem.margins(state.w)
        state.accesses += float(problem.matrix.col_counts[np.flatnonzero(state.w)].sum())


@dataclass(frozen=True)
class PairwiseFW(AwayStepsFW):
    """Frank-Wolfe with pairwise steps: weight moves from the worst atom in use to the oracle's. An epoch is one step."""

    name = "pairwise_fw"
    paper = "Lacoste-Julien & Jaggi 2015"

    def _direction(self, state: _State, best: _Atom, worst: _Atom) -> tuple[list[Any], list[Any], float]:
        return [(best, 1.0)], [(worst, 1.0)], worst.share


@dataclass(frozen=True)
class BlendedPairwiseFW(AwayStepsFW):
    """Blended pairwise Frank-Wolfe: among the atoms in use as long as that pays, else towards a new one. An epoch is one step."""

    name = "blended_pairwise_fw"
    paper = "Tsuji, Tanaka & Pokutta 2022"

    def _direction(self, state: _State, best: _Atom, worst: _Atom) -> tuple[list[Any], list[Any], float]:
        here = float(state.Xta @ state.w)
        local = min(state.atoms.values(), key=lambda atom: atom.slope(state.Xta))
        if worst.slope(state.Xta) - local.slope(state.Xta) >= here - best.slope(state.Xta):
            return [(local, 1.0)], [(worst, 1.0)], worst.share
        return [(best, 1.0)], [(atom, atom.share) for atom in state.atoms.values()], 1.0
