"""Composite saddle-point mirror descent of Babichev, Ostrovskii and Bach (2019), for k classes at once with an l1 penalty or ball.

Both players step from the same iterate, each in the geometry of its set, and the average of all iterates is the answer:

    W+ = argmin_W <Xta, W> + alpha ||W||_1 + D_W(W, W_t) / (2 gamma Omega_W)      over the ball of radius R        (MD), (24)
    V+ = argmin_V sum_i s_i (l*(V_i - Y_i) - V_i.S_i) + D_V(V, V_t) / (2 gamma Omega_V)                            (MD), (25)

The theoretical step of Theorem 2.1 is hundreds of times too small in practice, so the default is a multiple of it. It is the
paper's baseline: :mod:`saddlery.solvers.mirror_prox` and :mod:`saddlery.solvers.pdhg` are faster to every accuracy.

============  ==============================================  ====================================================
here          meaning                                         letters of the paper
============  ==============================================  ====================================================
W, A          primal and dual point                           U+ - U- (split form (10)), V - Y
S, Xta        X W, X'(s A)                                    XU, X'(V - Y) / n
radius        bound on the size of W                          R_*
gamma         step                                            gamma, Theorem 2.1
primal        1x1: entropy of the split ball; 1x2: powers     (18)-(20); Appendix E, Table 2
dual          2x1: entropy of the rows; 2x2: Euclidean        (16), (17); Appendix E, Table 2
coupling      max_j sqrt(sum_i s_i x_ij^2)                    sqrt(n) L_{U,V} of (27), Proposition E.1
============  ==============================================  ====================================================

The potentials of the dual are weighted by s, so that weights cancel from its steps; Omega_V is then the paper's divided by n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry import BlockPower, RowEntropy, RowEuclidean, SignedEntropy
from saddlery.matrix.vectors import weighted_square_norms
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.saddle_pair import SaddlePair, gap_of

__all__ = ["MirrorDescent", "coupling", "first_radius", "strength"]

PRIMAL = {"1x1": SignedEntropy, "1x2": BlockPower}
DUAL = {"2x1": RowEntropy, "2x2": RowEuclidean}
NAMED = {"theory": 1.0, "tuned": 64.0}  # multiples of the theoretical step: 16 is slow and 256 goes astray on some problems
SHRINK = 0.5  # a bound on the radius that is smaller by this factor is worth a new start


def strength(penalty: Any) -> float:
    """alpha of the l1 norm in a penalty; 0 for a ball alone."""
    return float(penalty.threshold)


def first_radius(problem: Any, radius: float | None) -> float:
    """A ball that holds the optimum: the penalty's own, and P(0) / alpha, since alpha ||W||_1 <= P(W) <= P(0) there."""
    if radius is not None:
        if not 0.0 < radius < math.inf:
            raise InputError(f"radius must be a positive number, not {radius!r}")
        return radius
    alpha, own = strength(problem.penalty), getattr(problem.penalty, "radius", math.inf)
    return min(own, problem.scale / alpha) if alpha > 0.0 else own


def coupling(problem: Any) -> float:
    """max_j sqrt(sum_i s_i x_ij^2): the norm of W -> X W in all four geometries (Proposition E.1)."""
    squares = np.empty(problem.d)
    weighted_square_norms(problem.matrix.cols, problem.s, squares)
    return math.sqrt(float(squares.max()))


class _State(State):
    def __init__(self, radius: float, norm: float):
        self.radius, self.norm, self.gamma = radius, norm, 0.0
        self.u: Any = None
        self.v: Any = None
        self.now: Any = None
        self.mean: Any = None
        self.iterations = self.since = self.starts = 0
        self.least = math.inf

    @property
    def counts(self) -> dict[str, float]:
        return {"iterations": self.iterations, "radius": self.radius, "step": self.gamma}


@dataclass(frozen=True)
class MirrorDescent(Solver):
    """Saddle-point mirror descent (Babichev, Ostrovskii & Bach 2019): the deterministic baseline for l1 with k classes at once.

    Expect a gap of a tenth after some hundred iterations and a hundredth after thousands.

    Parameters
    ----------
    primal : {"1x1", "1x2"}
        Norm of W: the sum of all absolute values, or the sum of the Euclidean lengths of its rows. "1x2" needs an l1 penalty:
        an l1 ball is one of the norm 1x1.
    dual : {"2x1", "2x2"}
        Norm of the dual: entropy or Euclidean geometry in each row.
    step_size : {"tuned", "theory"} or float
        Step size: that of Theorem 2.1 for `horizon` iterations, 64 times that, which served on all problems tried, or another
        multiple of it.
    horizon : int
        Number T of iterations that the theoretical step is made for.
    radius : float, optional
        Radius of the ball; by default the penalty's own, or P(0) / alpha, which is made smaller when a better objective value
        P(W) shows that P(W) / alpha is enough. With a radius that is too small the certificate stays open.
    iterations : int
        Iterations in an epoch, each two passes over the data.
    """

    primal: str = "1x1"
    dual: str = "2x1"
    step_size: str | float = "tuned"
    horizon: int = 1000
    radius: float | None = None
    iterations: int = 10

    name = "mirror_descent"
    paper = "Babichev, Ostrovskii & Bach 2019, (MD)"
    needs = Needs(
        kind="multiclass",
        loss=("row_value", "row_slope", "row_conjugate", "row_dual_prox", "row_entropy_prox"),
        penalty=("value", "conjugate"),
        l1=True,
        no_intercept=True,
        dense_weights=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        named = self.step_size if isinstance(self.step_size, str) else "theory"
        for name, value, known in (("primal", self.primal, PRIMAL), ("dual", self.dual, DUAL), ("step_size", named, NAMED)):
            if value not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}, not {value!r}")  # type: ignore[arg-type]
        if self.primal == "1x2" and getattr(problem.penalty, "bounded", False):
            raise InputError("primal='1x2' is for an l1 penalty: in an l1 ball use primal='1x1'")
        state = _State(first_radius(problem, self.radius), coupling(problem))
        state.accesses += problem.size
        self._begin(problem, state)
        return state

    def step(self, problem: Any, state: _State) -> None:
        self._advance(problem, state, self.iterations)
        state.least = min(state.least, gap_of(problem, state.mean)[1])
        alpha = strength(problem.penalty)
        if self.radius is None and alpha > 0.0 and state.least / alpha <= SHRINK * state.radius:
            state.radius = state.least / alpha  # alpha ||W*||_1 <= P(W*) <= P(W)
            self._begin(problem, state)

    def point(self, problem: Any, state: _State) -> Point:
        return state.mean.copy().point()

    # -- pieces

    def _geometry(self, problem: Any, state: _State) -> tuple[Any, Any]:
        shape = (problem.d, problem.k)
        return (
            PRIMAL[self.primal](problem.loss, shape, state.radius, strength(problem.penalty)),
            DUAL[self.dual](problem),
        )

    def _begin(self, problem: Any, state: _State) -> None:
        """Both players at the centre of their sets (Init)."""
        primal, dual = self._geometry(problem, state)
        state.u, state.v = primal.start(), dual.start()
        W, A = primal.weights(state.u), dual.slopes(state.v)
        state.now = SaddlePair(W, np.zeros(problem.k), A, np.zeros((problem.n, problem.k)), problem.gradient(A))
        state.mean, state.since = state.now.copy(), 1
        state.starts += 1
        state.accesses += problem.size

    def _advance(self, problem: Any, state: _State, count: int) -> None:
        primal, dual = self._geometry(problem, state)
        multiple = NAMED[self.step_size] if isinstance(self.step_size, str) else self.step_size
        size = state.norm * math.sqrt(5.0 * self.horizon * primal.omega * dual.omega)
        state.gamma = multiple / size if size > 0.0 else 1.0  # Theorem 2.1
        for _ in range(count):
            now = state.now
            state.u = primal.step(state.u, now.Xta, state.gamma)
            state.v = dual.step(state.v, now.Xw, state.gamma)
            W, A = primal.weights(state.u), dual.slopes(state.v)
            state.now = SaddlePair(W, now.b, A, problem.margins(W), problem.gradient(A))
            state.since += 1
            state.mean = state.mean.average_in(problem.loss, state.now, 1.0 / state.since)
        state.iterations += count
        state.accesses += 2 * count * problem.size
