"""The default for the CUR problem: corrective Frank-Wolfe while it makes good progress, then splitting from there.

With a small radius the optimum is a mix of a few atoms, which `cur_corrective` finds exactly after about as many oracles. With a
larger one it is a mix of very many, and `cur_splitting` is faster by orders of magnitude. Which it is shows in the first gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.cur_corrective import CURCorrective
from saddlery.solvers.cur_splitting import CURSplitting

__all__ = ["CURHybrid"]

STRETCH = 5  # oracles after which the progress is judged
PROGRESS = 0.25  # the gap must have come down to this share of what it was


class _State(State):
    """The state of the solver whose turn it is; `before` is the gap at the last judgement, infinite at first."""

    def __init__(self, inner: State, splitting: bool):
        self.inner, self.splitting = inner, splitting
        self.epochs, self.before, self.gap, self.spent = 0, np.inf, np.inf, 0.0
        self.earlier: dict[str, float] = {}
        self.accesses = inner.accesses

    @property
    def counts(self) -> dict[str, float]:
        return {"oracle_calls": 0, "atoms": 0, "iterations": 0} | self.earlier | self.inner.counts


@dataclass(frozen=True)
class CURHybrid(Solver):
    """Corrective Frank-Wolfe as long as five atoms divide the gap by four, then splitting.

    Parameters
    ----------
    corrective, splitting : Solver
        The two, with their options.
    """

    corrective: Any = field(default_factory=CURCorrective)
    splitting: Any = field(default_factory=CURSplitting)

    name = "cur_hybrid"
    paper = "fully corrective Frank-Wolfe, then Boyd et al. 2011, for Lu & Freund 2020, Example 1.3"
    needs = Needs(kind="cur", loss=("slope", "conjugate"), penalty=("linear_oracle", "conjugate"))

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        inverse = problem.feasible_inverse()
        if inverse is not None:  # it is optimal: nothing to choose between
            return _State(self.splitting.init(problem, start or Point(inverse, 0.0, None), rng), True)
        return _State(self.corrective.init(problem, start, rng), False)

    def step(self, problem: Any, state: _State) -> None:
        state.epochs += 1
        inner: Any = state.inner
        (self.splitting if state.splitting else self.corrective).step(problem, inner)
        state.accesses = state.spent + inner.accesses
        if state.splitting:
            state.stalled = inner.stalled
            return
        state.gap = min(state.gap, float(np.vdot(inner.Xta, inner.W)) + inner.bound)
        judged = state.epochs % STRETCH == 0
        if inner.stalled or (judged and state.gap > PROGRESS * state.before):
            state.spent, state.earlier, state.splitting = state.accesses, inner.counts, True
            state.inner = self.splitting.init(problem, Point(inner.W, 0.0, None), np.random.default_rng(0))
        elif judged:
            state.before = state.gap

    def point(self, problem: Any, state: _State) -> Point:
        return (self.splitting if state.splitting else self.corrective).point(problem, state.inner)

    def resync(self, problem: Any, state: _State) -> None:
        (self.splitting if state.splitting else self.corrective).resync(problem, state.inner)
