"""Mirror prox with an adaptive step, for k classes at once with an l1 penalty or ball.

From the pair w = (W, V) an iteration looks ahead and steps again from where it was, with the operator of the place it looked at:

    w~ = prox_w(gamma G(w))        w+ = prox_w(gamma G(w~))        G = (X'(s A), -X W)

in the entropy geometry of mirror descent (paper's (18)-(25)), with the balanced distance D = D_W / (2 Omega_W) + D_V / (2 Omega_V)
of (21). The average of the w~, weighted by gamma, is the answer; its gap falls like 1 / t. A step is accepted when

    gamma <G(w~) - G(w), w~ - w+> <= D(w~, w) + D(w+, w~)

and then grows by 1.2, else it shrinks by 0.7: steps some hundred times the theoretical 1 / L are accepted. The paper's experiments
give this method the step of mirror descent, of order 1 / sqrt(T), which is not its own.

============  ==============================================  ====================================================
here          meaning                                         letters of the paper
============  ==============================================  ====================================================
W, A          primal and dual point                           U+ - U-, V - Y
radius        bound on the l1 norm of W                       R_*
gamma         step                                            gamma; theory: 1 / (2 L_{U,V} sqrt(Omega_U Omega_V))
============  ==============================================  ====================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry import RowEntropy, SignedEntropy
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.mirror_descent import SHRINK, coupling, first_radius, strength
from saddlery.solvers.saddle_pair import SaddlePair, gap_of

__all__ = ["MirrorProx"]

FIRST = 50.0  # multiple of the theoretical step that is tried first
LARGER, SMALLER = 1.2, 0.7


class _Place(NamedTuple):
    """Both players in the coordinates of their geometries, and as a pair with products."""

    u: Any
    v: np.ndarray
    pair: SaddlePair


class _State(State):
    def __init__(self, radius: float, norm: float):
        self.radius, self.norm, self.gamma = radius, norm, 0.0
        self.now: Any = None
        self.mean: Any = None
        self.judged: Any = None
        self.weight = 0.0
        self.iterations = self.operators = 0
        self.least = math.inf

    @property
    def counts(self) -> dict[str, float]:
        return {"iterations": self.iterations, "operators": self.operators, "radius": self.radius, "step": self.gamma}


@dataclass(frozen=True)
class MirrorProx(Solver):
    """Mirror prox with an adaptive step: the best of the mirror methods for l1 with k classes at once.

    Parameters
    ----------
    step_size : {"adaptive", "theory"}
        An accepted step grows and a refused one shrinks, or the constant step of the theory.
    radius : float, optional
        Radius of the l1 ball; by default the penalty's own, or P(0) / alpha, which is made smaller when a better objective value
        P(W) shows that P(W) / alpha is enough. With a radius that is too small the certificate stays open.
    iterations : int
        Iterations in an epoch, each four passes over the data or more.
    """

    step_size: str = "adaptive"
    radius: float | None = None
    iterations: int = 5

    name = "mirror_prox"
    paper = "Nemirovski 2004; Babichev, Ostrovskii & Bach 2019, Remark 2.4"
    needs = Needs(
        kind="multiclass",
        loss=("row_value", "row_slope", "row_conjugate", "row_entropy_prox"),
        penalty=("value", "conjugate"),
        l1=True,
        no_intercept=True,
        dense_weights=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        if self.step_size not in ("adaptive", "theory"):
            raise InputError(f"step_size must be 'adaptive' or 'theory', not {self.step_size!r}")
        state = _State(first_radius(problem, self.radius), coupling(problem))
        state.accesses += problem.size
        self._begin(problem, state)
        return state

    def step(self, problem: Any, state: _State) -> None:
        for _ in range(self.iterations):
            self._iterate(problem, state)
        gaps = [gap_of(problem, pair) for pair in (state.now.pair, state.mean)]
        state.judged = state.now.pair if gaps[0][0] <= gaps[1][0] else state.mean.copy()
        state.least = min(state.least, gaps[0][1], gaps[1][1])
        alpha = strength(problem.penalty)
        if self.radius is None and alpha > 0.0 and state.least / alpha <= SHRINK * state.radius:
            state.radius = state.least / alpha  # alpha ||W*||_1 <= P(W*) <= P(W)
            self._begin(problem, state)

    def point(self, problem: Any, state: _State) -> Point:
        return state.judged.point()

    # -- pieces

    def _geometry(self, problem: Any, state: _State) -> tuple[SignedEntropy, RowEntropy]:
        alpha = strength(problem.penalty)
        return SignedEntropy(problem.loss, (problem.d, problem.k), state.radius, alpha), RowEntropy(problem)

    def _begin(self, problem: Any, state: _State) -> None:
        """Both players at the centre of their sets, and the first step."""
        primal, dual = self._geometry(problem, state)
        u, v = primal.start(), dual.start()
        W, A = primal.weights(u), dual.slopes(v)
        pair = SaddlePair(W, np.zeros(problem.k), A, np.zeros((problem.n, problem.k)), problem.gradient(A))
        state.now = _Place(u, v, pair)
        state.judged, state.mean, state.weight = state.judged or pair, pair.copy(), 0.0
        lipschitz = 2.0 * state.norm * math.sqrt(primal.omega * dual.omega)
        theory = 1.0 / lipschitz if lipschitz > 0.0 else 1.0
        state.gamma = theory if self.step_size == "theory" else max(state.gamma, FIRST * theory)
        state.accesses += problem.size

    def _move(self, problem: Any, state: _State, place: _Place, pair: SaddlePair, gamma: float) -> _Place:
        """prox of gamma G(pair) at a place."""
        primal, dual = self._geometry(problem, state)
        u, v = primal.step(place.u, pair.Xta, gamma), dual.step(place.v, pair.Xw, gamma)
        W, A = primal.weights(u), dual.slopes(v)
        state.operators += 1
        state.accesses += 2 * problem.size
        return _Place(u, v, SaddlePair(W, pair.b, A, problem.margins(W), problem.gradient(A)))

    def _iterate(self, problem: Any, state: _State) -> None:
        while True:
            gamma, now = state.gamma, state.now
            ahead = self._move(problem, state, now, now.pair, gamma)
            then = self._move(problem, state, now, ahead.pair, gamma)
            if self.step_size == "theory" or self._accepts(problem, state, now, ahead, then, gamma):
                break
            state.gamma *= SMALLER
        state.weight += gamma
        if state.weight == gamma:
            state.mean = ahead.pair.copy()
        else:
            state.mean = state.mean.average_in(problem.loss, ahead.pair, gamma / state.weight)
        state.now = then
        state.iterations += 1
        if self.step_size == "adaptive":
            state.gamma *= LARGER

    def _accepts(self, problem: Any, state: _State, now: _Place, ahead: _Place, then: _Place, gamma: float) -> bool:
        """gamma <G(w~) - G(w), w~ - w+> <= D(w~, w) + D(w+, w~)."""
        primal, dual = self._geometry(problem, state)
        turn = float(np.vdot(ahead.pair.Xta - now.pair.Xta, ahead.pair.w - then.pair.w))
        rows = np.einsum("ij,ij->i", ahead.pair.Xw - now.pair.Xw, ahead.pair.a - then.pair.a)
        turn -= float(problem.s @ rows)
        near = primal.divergence(ahead.u, ahead.pair.w, now.u) + dual.divergence(ahead.v, now.v)
        far = primal.divergence(then.u, then.pair.w, ahead.u) + dual.divergence(then.v, ahead.v)
        return gamma * turn <= 0.5 * (near + far)
