"""Multiclass hinge with l1, elastic net or l2: proximal Newton on a smoothed loss whose temperature tau falls to zero.

The smooth loss tau lse((z + 1 - Y) / tau) - z_y exceeds the hinge by tau times the entropy of its softmax V at most, and V is
feasible for the dual of the hinge, so that certificates are those of the hinge at every step. When the gap consists of smoothing
mostly, tau falls to 0.3 tau. The optimum moves then, by what a linear system says in advance: with tau log V = z + 1 - Y + const
linearised, the first step uses V of the old tau and the gradient

    X'( s (V - Y + (tau - tau') / tau'  V (log V - <V, log V>)) )

(digits at 0.1 alpha_max to 1e-6: 63 Newton steps and 78 halvings without it, 46 and 1 with it). The rest, and the letters, are in
multiclass_newton.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from saddlery.losses.multiclass_hinge import MulticlassHinge
from saddlery.point import Point
from saddlery.solvers.multiclass_newton import MulticlassNewton, _State
from saddlery.solvers.multiclass_rows import RowNeeds
from saddlery.solvers.multiclass_sdca import MulticlassSDCA

__all__ = ["MulticlassSmoothed"]

COOLING = 0.3  # factor of tau
MOSTLY = 1.5  # the gap in units of the smoothing below which tau falls
COLDEST = 1e-12
WARMEST_END = 1e-6  # lowest tau of a warm start
GOOD_START = 0.01  # relative gap to which dual ascent is run first, where it can be
EPOCHS = 10  # of it between two looks at the gap
MOST_BLOCKS = 20
FLAT = 1e-9  # V (1 - V) of rows that have no curvature


@dataclass(frozen=True)
class MulticlassSmoothed(MulticlassNewton):
    """Smoothed proximal Newton for the multiclass hinge with l1, elastic net or l2, with or without intercepts.

    Parameters
    ----------
    continuation : bool
        Come down to the strength of the penalty in steps of 5.
    sample : bool
        Start tall problems from a part of the rows.
    form : {"auto", "gram", "columns"}
        Form of the models; "auto" takes "gram" for dense data and for dense columns of sparse data.
    """

    margin: ClassVar[float] = 1.0
    precision: ClassVar[type] = np.float64
    samples_models: ClassVar[bool] = False
    name = "multiclass_smoothed"
    paper = "Nesterov smoothing with proximal Newton steps and a predictor; see docs/solvers.md"
    needs = RowNeeds(
        kind="multiclass",
        only=(MulticlassHinge,),
        row_loss=("row_slope", "row_conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        if start is not None:
            primal, dual = problem.evaluate(start)
            state = self._warm(problem, start, rng, primal - dual.value)
            state.given = Point(start.w, start.b, dual.a, None, dual.Xta)
            return state
        if problem.fit_intercept or problem.penalty.strong_convexity == 0.0:
            return super().init(problem, start, rng)
        # Epochs of dual ascent come to a per cent or so faster than tau can fall (letter with l2: 1.4 -> 0.7 s).
        ascent = MulticlassSDCA()
        rows = ascent.init(problem, None, rng)
        point, gap = problem.first_point(), problem.scale
        for _ in range(MOST_BLOCKS):
            for _ in range(EPOCHS):
                ascent.step(problem, rows)
            before, point = gap, ascent.point(problem, rows)
            primal, dual = problem.evaluate(point)
            gap = primal - dual.value
            if gap <= GOOD_START * problem.scale or gap > 0.7 * before:
                break
        state = self._warm(problem, point, rng, gap)
        state.accesses += rows.accesses
        return state

    def _warm(self, problem: Any, start: Point, rng: np.random.Generator, gap: float) -> _State:
        """The state at a point with a known gap: tau is the largest for which there is less smoothing than that."""
        state = super().init(problem, start, rng)
        while state.tau > WARMEST_END and self._smoothing(state) > gap:
            state.tau *= 0.5
            self._started(problem, state)
        return state

    def point(self, problem: Any, state: _State) -> Point:
        return super().point(problem, state) if state.given is None else state.given  # a start that is solved is known as such

    def step(self, problem: Any, state: _State) -> None:
        state.given = None
        super().step(problem, state)

    def _round(self, problem: Any, state: _State) -> bool:
        if len(state.strengths) == 1 and state.gap * problem.scale <= MOSTLY * self._smoothing(state) and state.tau > COLDEST:
            return self._cool(problem, state)
        return super()._round(problem, state)

    def _smoothing(self, state: _State) -> float:
        """tau times the mean entropy of V."""
        return state.smooth - float(np.vdot(state.G, state.w)) - float(state.slope @ state.b) - state.against

    def _cool(self, problem: Any, state: _State) -> bool:
        """Lower tau, with a Newton step from where the linearised optimum of the new tau is expected."""
        tau, state.tau = state.tau, COOLING * state.tau
        logs = np.log(np.maximum(state.V, 1e-300))
        bend = state.V * (logs - (state.V * logs).sum(axis=0)) * ((tau - state.tau) / state.tau)
        weighted = problem.s[:, None] * (state.A + bend.T)
        state.slope = weighted.sum(axis=0)
        self._multiply_slopes(problem, state, np.ascontiguousarray(weighted))
        penalty, violation = self._next_penalty(problem, state)
        state.gram, state.pairs = None, self._working_set(problem, state, penalty)
        b, T = state.b, state.T
        self._take(state, self._sums(problem, state, T, 0.0, b, state.spare))
        self._newton_step(problem, state, penalty, violation)
        if state.T is T:  # no step was taken: V must follow tau all the same
            self._take(state, self._sums(problem, state, T, 0.0, b, [state.spare[0], state.V]))
        state.gram, state.violation = None, np.inf
        if problem.fit_intercept:
            self._balance(problem, state)
        self._judge(problem, state)
        return True

    def _take(self, state: _State, sums: tuple[float, float]) -> None:
        state.smooth, state.value = sums

    def _active_rows(self, state: _State) -> Any:
        chosen = np.flatnonzero((state.V * (1.0 - state.V)).max(axis=0) > FLAT)
        return chosen if 2 * len(chosen) < state.V.shape[1] else None

    def _estimate(self, problem: Any, state: _State) -> float:
        """The relative gap of the hinge, with the best of a few scales of the dual point."""
        penalty = problem.penalty
        state.against = -float(problem.s @ state.A[np.arange(problem.n), problem.codes])
        primal = state.value + penalty.value(state.w)
        l1, l2 = penalty.threshold, penalty.strong_convexity
        share = min(1.0, l1 / state.top) if state.top > 0.0 else 1.0
        dual = share * state.against
        if l2 > 0.0:
            dual = max(dual, state.against - 0.5 / l2 * state.excess)
        if l1 == 0.0 and state.excess > 0.0:
            best = min(1.0, state.against * l2 / state.excess)
            dual = max(dual, best * state.against - 0.5 * best * best / l2 * state.excess)
        return (primal - dual) / problem.scale
