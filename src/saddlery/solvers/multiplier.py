"""A ball as a penalty: the multiplier mu for which the penalised solution lies on the border, found by root search.

With size(w) <= radius the constraint, the penalised problem

    min_{w,b}  sum_i s_i l(y_i, x_i.w + b) + g(w) + mu h(w)          h(w) = ||w||_1 or ||w||^2 / 2

has the solution of the constrained one for one mu >= 0, and the size of its solution falls with mu. Each epoch solves it for one
mu by the solver that `auto` has for it (any loss, so the hinge is served), from where the last one ended. Between a solution w-
inside the ball and a solution w+ outside lies a point of size `radius`, and between their dual points another dual point: these
two are judged. Their gap falls with the square of the bracket, so few values of mu are enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["Multiplier"]

FIRST = 0.1  # the first mu, as a share of one that is surely too large
MOST_SHARE, LEAST_SHARE = 0.2, 0.01  # of the certified gap, to which the penalised problems are solved


class _End(NamedTuple):
    """The solution for one mu."""

    mu: float
    size: float
    w: np.ndarray
    b: float
    a: np.ndarray
    Xw: np.ndarray
    Xta: np.ndarray
    tol: float = 0.0  # to which it was solved


class _State(State):
    def __init__(self, top: _End, rng: np.random.Generator):
        self.top, self.rng = top, rng
        self.inside: _End = top  # mu too large
        self.outside: _End | None = None  # mu too small
        self.last: Any = None  # Solution of the last penalised problem
        self.share, self.last_gap = MOST_SHARE, math.inf
        self.mix = Point(top.w, top.b, top.a, top.Xw, top.Xta, fresh=True)
        self.side, self.solves, self.inner_epochs = 0, 0, 0
        self.kept = 1.0  # Illinois rule: the weight of an end that stays

    @property
    def counts(self) -> dict[str, float]:
        return {"penalised_solves": self.solves, "inner_epochs": self.inner_epochs}


@dataclass(frozen=True)
class Multiplier(Solver):
    """Root search for the multiplier of a ball, by penalised problems: any loss, l1 and l2 balls with or without a penalty.

    An epoch is one penalised problem.
    """

    name = "multiplier"
    paper = "Lagrangian relaxation; More & Sorensen 1983 for the root search"
    needs = Needs(loss=("value", "slope", "conjugate"), penalty=("relaxed", "size"))

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        gradient = problem.constant_gradient
        mu = problem.penalty.largest_multiplier(gradient)
        zero, Xw = np.zeros(problem.d), np.zeros(problem.n)
        state = _State(_End(mu, 0.0, zero, problem.constant, problem.constant_dual, Xw, gradient), rng)
        state.accesses += problem.size
        return state

    def step(self, problem: Any, state: _State) -> None:
        """Solve the penalised problem for the next mu and judge what lies between the ends."""
        from saddlery.solvers.loop import Handover, solve

        penalty, radius = problem.penalty, problem.penalty.radius
        # What is solved too loosely hides the sign of size - radius: when a step gains little, solve better, old ends too.
        gap = min(state.relative_gap, 0.15)
        gains = state.relative_gap <= 0.5 * state.last_gap
        state.share = min(MOST_SHARE, 2.0 * state.share) if gains else max(LEAST_SHARE, 0.3 * state.share)
        state.last_gap, tol = state.relative_gap, max(state.share * gap, 1e-15)
        loose = self._loosest(state)
        mu = self._next(problem, state) if gains or loose.tol <= 2.0 * tol else loose.mu
        start = None if state.last is None else Handover(state.last)
        relaxed = problem.with_penalty(penalty.relaxed(mu))
        solution = state.last = solve(relaxed, tol=tol, max_epochs=2000, start=start, random_state=state.rng)
        state.solves += 1
        state.inner_epochs += solution.epochs
        Xw, Xta = problem.margins(solution.w), problem.matrix.rmatvec(problem.s * solution.dual)
        state.accesses += solution.passes * problem.size + 2 * problem.size
        end = _End(mu, penalty.size(solution.w), solution.w, solution.b, solution.dual, Xw, Xta, tol)
        side = 1 if end.size > radius else -1
        state.kept = 0.5 * state.kept if state.side == side else 1.0
        state.side = side
        if side > 0:
            state.outside = end
            if state.inside.mu <= mu:
                state.inside = state.top
        else:
            state.inside = end
            if state.outside is not None and state.outside.mu >= mu:
                state.outside = None
        state.mix = self._between(problem, state)

    def point(self, problem: Any, state: _State) -> Point:
        return state.mix

    # -- pieces

    def _loosest(self, state: _State) -> _End:
        """The end that was solved worst."""
        return state.inside if state.outside is None or state.inside.tol > state.outside.tol else state.outside

    def _next(self, problem: Any, state: _State) -> float:
        """Regula falsi on 1 / size(mu), which is nearly straight, in the Illinois form; before there is a bracket, smaller mu."""
        inside, outside, radius = state.inside, state.outside, problem.penalty.radius
        if outside is None:
            if problem.penalty.threshold + problem.penalty.strong_convexity > 0.0 and state.solves == 0:
                return 0.0  # perhaps the penalty alone keeps w inside
            return FIRST * inside.mu
        low, high = outside.mu, inside.mu
        if inside.size == 0.0 or low == 0.0:
            return math.sqrt(low * high) if low > 0.0 else 0.5 * high
        miss_out, miss_in = 1.0 / outside.size - 1.0 / radius, 1.0 / inside.size - 1.0 / radius
        if state.side > 0:
            miss_in *= state.kept
        else:
            miss_out *= state.kept
        share = -miss_out / (miss_in - miss_out)
        mu = low + min(max(share, 1e-3), 1.0 - 1e-3) * (high - low)
        return mu

    def _between(self, problem: Any, state: _State) -> Point:
        """The point of size `radius` between the two ends, and the dual point between theirs, as far along."""
        inside, outside, radius = state.inside, state.outside, problem.penalty.radius
        if outside is None:
            return Point(inside.w, inside.b, inside.a, inside.Xw, inside.Xta, fresh=True)
        t = (radius - inside.size) / (outside.size - inside.size)  # sizes are convex: no larger than the radius there
        w, b, Xw = (inside[k] + t * (outside[k] - inside[k]) for k in (2, 3, 5))
        a, Xta = (inside[k] + t * (outside[k] - inside[k]) for k in (4, 6))
        size = problem.penalty.size(w)
        if size > radius:  # rounding
            w, Xw = w * (radius / size), Xw * (radius / size)
        return Point(w, b, a, Xw, Xta)  # products of a mix: the last certificate computes them from the data
