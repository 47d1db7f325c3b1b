"""Augmented Lagrangian with prox_newton inside: Newton's method for losses without curvature (the hinge).

A proximal term in the *dual* rounds the corners of the loss. Around a centre c (one number a row) with width gamma,

    phi_i(z) = max_a  a z - l*(a) - gamma / 2 (a - c_i)^2,      phi_i' = a_i(z) = prox of l* / gamma at c_i + z / gamma

is smooth, so ``prox_newton`` solves min_w sum_i s_i phi_i(x_i.w + b) + g(w) in a few steps; then c = a(z) and gamma shrinks. This
is the proximal point method on the dual, equally the method of multipliers on z = Xw + b: it converges for any gamma, faster the
smaller gamma is, and for piecewise linear losses in finitely many steps. The dual point of a sub-problem serves the problem itself.

=========  ==================================================================
here       meaning
=========  ==================================================================
c          centre: the dual point of the last sub-problem
gamma      width over which corners are rounded, in units of the margin
=========  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.losses.base import loss
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.prox_newton import ProxNewton

__all__ = ["AugmentedNewton"]

EASY = 8  # rounds up to which a sub-problem was easy
HARD = 100  # rounds after which a sub-problem is left as it is, for one with rounder corners
LEAST = 1e-7  # width


@loss
class Rounded(NamedTuple):
    """A loss of signs rounded around a centre: phi above. Its target is y (1 + p), which holds both y and the centre c = -y p."""

    loss: Any
    gamma: float

    @property
    def smoothness(self) -> float:
        return 1.0 / self.gamma

    @property
    def targets(self) -> str:
        return "signs"

    def value(self, y, z):
        sign = 1.0 if y > 0.0 else -1.0
        c = sign - y
        a = self.loss.dual_prox(sign, c + z / self.gamma, 1.0 / self.gamma)
        return a * z - self.loss.conjugate(sign, a) - 0.5 * self.gamma * (a - c) * (a - c)

    def slope(self, y, z):
        sign = 1.0 if y > 0.0 else -1.0
        return self.loss.dual_prox(sign, sign - y + z / self.gamma, 1.0 / self.gamma)

    def curvature(self, y, z):
        sign = 1.0 if y > 0.0 else -1.0
        a = self.loss.dual_prox(sign, sign - y + z / self.gamma, 1.0 / self.gamma)
        return 1.0 / self.gamma if self.loss.dual_lower(sign) < a < self.loss.dual_upper(sign) else 0.0

    def conjugate(self, y, a):
        sign = 1.0 if y > 0.0 else -1.0
        c = sign - y
        return self.loss.conjugate(sign, a) + 0.5 * self.gamma * (a - c) * (a - c)

    def dual_prox(self, y, a, step):
        sign = 1.0 if y > 0.0 else -1.0
        shrink = 1.0 / (1.0 + step * self.gamma)
        return self.loss.dual_prox(sign, (a + step * self.gamma * (sign - y)) * shrink, step * shrink)

    def dual_lower(self, y):
        return self.loss.dual_lower(1.0 if y > 0.0 else -1.0)

    def dual_upper(self, y):
        return self.loss.dual_upper(1.0 if y > 0.0 else -1.0)


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, b: float, c: np.ndarray, gamma: float, rng: np.random.Generator):
        self.w, self.b, self.c, self.gamma, self.rng = w, b, c, gamma, rng
        self.rounds = 0
        self.a: Any = None
        self.Xta: Any = None
        self.inner: Any = None

    def recentre(self, problem: Any, newton: ProxNewton) -> None:
        """The sub-problem around c, started from (w, b)."""
        self.sub = problem.with_loss(Rounded(problem.loss, self.gamma), problem.y - self.c)
        if self.inner is None:
            self.inner = newton.init(self.sub, Point(self.w, self.b, None), self.rng)
        else:
            newton.resume(self.sub, self.inner)
        if problem.penalty.strong_convexity > 0.0 and problem.d <= problem.n / 4:
            self.inner.floor = 0.0  # the penalty keeps the model convex, and rows on flat parts need not be read
        self.rounds = 0
        self.accesses += 2 * problem.matrix.nnz


@dataclass(frozen=True)
class AugmentedNewton(Solver):
    """Method of multipliers with Newton steps inside, for the hinge: any separable penalty, intercept or not.

    Parameters
    ----------
    gamma : float
        First width of the rounded corners.
    shrink : float
        Factor by which the width shrinks when a sub-problem was easy.
    accuracy : float
        A sub-problem is left when its gap is this share of the certified one.
    """

    gamma: float = 1.0
    shrink: float = 0.2
    accuracy: float = 0.1

    name = "augmented_newton"
    paper = "Rockafellar 1976, on the dual; semi-smooth Newton inside"
    needs = Needs(
        loss=("dual_prox", "conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        signs=True,
        kinks=True,
        partial=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w, b = (np.zeros(problem.d), problem.constant) if start is None else (start.w, start.b)
        c = np.zeros(problem.n) if start is None or start.dual is None else problem.dual_point(start.dual).a
        gamma = self.gamma if start is None or start.dual is None else self.gamma * self.shrink**2
        state = _State(problem, w, b, c, gamma, rng)
        state.recentre(problem, ProxNewton(sample_start=False))
        if start is not None and start.dual is not None:
            state.a, state.Xta = c, None
        return state

    def step(self, problem: Any, state: _State) -> None:
        newton, inner = ProxNewton(sample_start=False), state.inner
        before = inner.accesses
        newton.step(state.sub, inner)
        state.rounds += 1
        point = newton.point(state.sub, inner)
        primal, dual = state.sub.evaluate(point)
        gap = (primal - dual.value) / (problem.scale or 1.0)  # as in certificates
        inner.relative_gap = gap
        state.w, state.b, state.a, state.Xta = inner.w, inner.b, dual.a, dual.Xta
        state.accesses += inner.accesses - before
        if gap <= self.accuracy * state.relative_gap or inner.stalled or state.rounds >= HARD:
            state.c = dual.a.copy()
            # Corners that are too sharp cost Newton more steps than they spare (10 x 15, separable, alpha 0.001: 27 -> 0.2 s).
            change = self.shrink if state.rounds <= EASY else np.sqrt(self.shrink) if state.rounds < HARD else 1.0 / self.shrink
            state.gamma = min(max(change * state.gamma, LEAST), self.gamma)
            state.recentre(problem, newton)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.a, state.inner.Xw, state.Xta)
