"""Accelerated projected gradient: smooth losses with anything that has a prox, intercept or not.

Not a Frank-Wolfe method: it projects. It is here for sets whose atoms are many or dense (boxes, groups, k-support balls), where
corrective steps have nothing to hold on to. Around the extrapolated point v, with margins z and gradient q = X'(s l'(z)),

    w+ = prox(v - step q, step)      v+ = w+ + (t - 1) / t+ (w+ - w)      t+ = (1 + sqrt(1 + 4 t^2)) / 2

The step grows by itself and is halved until the quadratic bound holds; extrapolation starts anew when it leads uphill
(O'Donoghue & Candes 2015). Margins are linear, so those of v cost no pass. The slopes at v are the dual point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["ProjectedGradient"]


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, b: float, step: float):
        self.w, self.b, self.step = w, b, step
        self.Xw = problem.margins(w) if w.any() else np.zeros(problem.n)
        self.v, self.vb, self.Xv, self.t = self.w, self.b, self.Xw, 1.0
        self.a, self.Xta = np.zeros(problem.n), np.zeros(problem.d)
        self.idle = 0
        self.sample_gradients = 0

    @property
    def counts(self) -> dict[str, float]:
        return {"sample_gradients": self.sample_gradients}


@dataclass(frozen=True)
class ProjectedGradient(Solver):
    """Accelerated projected gradient with restarts: smooth losses, any penalty or constraint with a prox. An epoch is one step."""

    name = "projected_gradient"
    paper = "Beck & Teboulle 2009; O'Donoghue & Candes 2015"
    needs = Needs(loss=("value", "slope", "conjugate"), penalty=("prox",), smooth=True)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        point = problem.first_point() if start is None else start
        w = point.w if math.isfinite(problem.penalty.value(point.w)) else problem.penalty.prox(point.w, 1.0)
        norm = float(problem.s @ problem.matrix.row_square_norms) + problem.fit_intercept  # a bound: the trace
        state = _State(problem, w, point.b, 1.0 / max(problem.loss.smoothness * norm, 1e-300))
        state.accesses += problem.size * bool(w.any())
        self._look(problem, state)
        return state

    def step(self, problem: Any, state: _State) -> None:
        problem_b = problem.fit_intercept
        slope = float(problem.s @ state.a)
        value = problem.loss_value(state.Xv, state.vb)
        state.step *= 1.25
        while True:
            w = problem.penalty.prox(state.v - state.step * state.Xta, state.step)
            b = state.vb - state.step * slope * problem_b
            Xw = problem.margins(w)
            state.accesses += problem.size
            move, shift = w - state.v, b - state.vb
            bound = value + float(state.Xta @ move) + slope * shift + (float(move @ move) + shift * shift) / (2.0 * state.step)
            if problem.loss_value(Xw, b) <= bound + 1e-15 * abs(bound) or state.step < 1e-300:
                break
            state.step *= 0.5
        uphill = float(move @ (w - state.w)) + shift * (b - state.b) < 0.0  # the last move and the gradient step disagree
        still = not move.any() and shift == 0.0
        t = 1.0 if uphill else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t * state.t))
        share = 0.0 if uphill else (state.t - 1.0) / t
        state.v, state.vb, state.Xv = w + share * (w - state.w), b + share * (b - state.b), Xw + share * (Xw - state.Xw)
        state.w, state.b, state.Xw, state.t = w, b, Xw, t
        state.idle = state.idle + 1 if still else 0
        state.stalled = state.idle >= 5
        self._look(problem, state)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.a, state.Xw, state.Xta, fresh=True)

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw = problem.margins(state.w)
        state.v, state.vb, state.Xv, state.t = state.w, state.b, state.Xw, 1.0
        self._look(problem, state)

    def _look(self, problem: Any, state: _State) -> None:
        """Slopes and gradient at the extrapolated point."""
        state.a = problem.slopes(state.Xv, state.vb)
        state.Xta = problem.matrix.rmatvec(problem.s * state.a)
        state.sample_gradients += problem.n
        state.accesses += problem.size
