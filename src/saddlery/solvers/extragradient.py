"""Extragradient with Bregman steps of adaptive length, for games.

From the pair z = (x, y) an iteration looks ahead, and steps again from where it was with the gradients of the place it looked at:

    z1 = prox_z(step G(z))        z2 = prox_z(step G(z1))        G = (gradient of x, minus gradient of y)

with the regularisers of the players inside of the prox. The step is accepted when

    step <G(z1) - G(z), z1 - z2> <= D(z1, z) + D(z2, z1)        D = balance D_x + D_y / balance

and then grows by 1.1, else it is halved: no constant of the game is needed. With regularisers the last iterate converges linearly;
without them the mean of the z1, weighted by their steps, has a gap of order 1 / t. Both are judged, and the better is offered to
the certificate. Now and then the mean begins anew, and so do the iterates where it is ahead of them, which makes the rate linear on
matrix games (Applegate et al. 2021). The balance is 1, but for players of different geometries, where it is adapted then.

======  ===========================  =====================================================
here    meaning                      letters of Shi, Zhang & Yu (2017)
======  ===========================  =====================================================
x, y    points of the players        alpha, beta (F-score); d, w (boosting)
step    length of a step             eta
G       signed gradient              G, the gradient of K
D       divergence of both players   Delta
======  ===========================  =====================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry.players import NoPart, average_in, turn_of
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["Extragradient", "Place", "ascent", "better_of", "descent", "place_at", "proxed"]

LARGER, SMALLER = 1.1, 0.5
LEAST_STEP = 1e-18  # in units of the first: below it, no step is accepted in floating point
RESTART = 0.2  # a new beginning when the gap has fallen by this factor since the last,
LONG = 0.36  # or when so large a share of all iterations lies behind it
AHEAD = 0.7  # the mean is where to begin if its gap is so much smaller
TINY, WIDEST = 1e-24, 1e4
STILL = 20  # iterations without a move beyond rounding, after which there will be none


class Place(NamedTuple):
    """Both players: their states, their points, and the gradients of the coupling there."""

    u: Any
    v: Any
    x: np.ndarray
    y: np.ndarray
    gx: np.ndarray
    gy: np.ndarray


def place_at(problem: Any, u: Any, v: Any) -> Place:
    """The place of two states."""
    one, two = problem.players
    x, y = one.point(u), two.point(v)
    return Place(u, v, x, y, *problem.gradients(x, y))


def descent(player: Any, gradient: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient with the part of the regulariser that the player's prox leaves out."""
    slope = player.slope(x)
    return gradient if isinstance(slope, float) and slope == 0.0 else gradient + slope


def ascent(player: Any, gradient: np.ndarray, y: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The same for the maximiser, whose gradient has the other sign; written to `room`."""
    np.negative(gradient, out=room)
    return descent(player, room, y)


def proxed(player: Any, spare: Any, state: Any, gradient: np.ndarray, step: float) -> Any:
    """prox, in the memory of a spare state if there is one: new memory may cost more than the step itself."""
    return player.prox(state, gradient, step) if spare is None else player.prox_into(spare, state, gradient, step)


def better_of(problem: Any, points: list[Point]) -> tuple[Point, list[float]]:
    """The best primal part and the best dual part of several points in one, and the gap of each."""
    values = [problem.evaluate(point) for point in points]
    primals, duals = [value for value, _ in values], [best.value for _, best in values]
    first, second = points[int(np.argmin(primals))], points[int(np.argmax(duals))]
    return first._replace(dual=second.dual, Xta=second.Xta), [p - d for p, d in zip(primals, duals, strict=True)]


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """<a - b, c - d>."""
    return float(turn_of(NoPart(), a.reshape(-1), b.reshape(-1), c.reshape(-1), d.reshape(-1)))


def _is_near(x: np.ndarray, other: np.ndarray) -> bool:
    """Whether two points are the same but for rounding."""
    return float(np.abs(x - other).sum()) <= 1e-15 * float(np.abs(x).sum())


class _State(State):
    def __init__(self, now: Place, step: float):
        self.now, self.step, self.first_step = now, step, step
        self.shown = self.anchor = now  # of the one the arrays were handed out, at the other the mean began
        self.balance = 1.0
        self.mean: Any = None
        self.spares: list[Any] = []
        self.room = np.empty_like(now.gy)
        self.weight = 0.0
        self.judged: Any = None
        self.use_mean = False
        self.began_gap, self.began = math.inf, 0
        self.epochs, self.next_look = 0, 1
        self.iterations = self.restarts = self.rejected = self.still = 0
        self.pairs = 1

    @property
    def counts(self) -> dict[str, float]:
        return {
            "iterations": self.iterations,
            "pairs": self.pairs,
            "rejected": self.rejected,
            "restarts": self.restarts,
            "step": self.step,
        }


@dataclass(frozen=True)
class Extragradient(Solver):
    """Bregman extragradient with an adaptive step: the default for games, with nothing to tune.

    Parameters
    ----------
    step_size : float, default=1.0
        The step that is tried first.
    iterations : int, default=5
        Iterations in an epoch, each of two pairs of products, and one more for each step that was too long.
    restarts : bool, default=True
        Whether to begin anew from the mean where it is better than the last iterate.
    """

    step_size: float = 1.0
    iterations: int = 5
    restarts: bool = True

    name = "extragradient"
    paper = "Korpelevich 1976; Nemirovski 2004; Shi, Zhang & Yu 2017"
    needs = Needs(kind=("game", "fscore"), partial=True)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        if not 0.0 < self.step_size < math.inf or self.iterations < 1:
            raise InputError("step_size must be a positive number, and iterations 1 or more")
        states = []
        for player, given in zip(problem.players, (None, None) if start is None else problem.players_at(start), strict=True):
            states.append(player.start() if given is None else player.state_at(given))
        state = _State(place_at(problem, *states), self.step_size)
        state.judged = problem.pair(state.now.x, state.now.y, state.now.gx, state.now.gy)
        state.accesses += problem.pair_cost
        return state

    def step(self, problem: Any, state: _State) -> None:
        for _ in range(self.iterations):
            if not state.stalled:
                self._iterate(problem, state)
        state.epochs += 1
        state.shown = state.now
        if state.epochs >= state.next_look:
            self._look(problem, state)
        elif state.use_mean:
            state.judged = problem.pair(*(item.copy() for item in state.mean))
        else:
            state.judged = problem.pair(*state.now[2:])

    def point(self, problem: Any, state: _State) -> Point:
        return state.judged

    # -- pieces

    def _iterate(self, problem: Any, state: _State) -> None:
        now = state.now
        while True:
            ahead = self._with_gradients(problem, state, self._move(problem, state, now, now))
            then = self._move(problem, state, now, ahead)
            if self._accepts(problem, state, now, ahead, then):
                break
            state.spares += [(ahead.u, ahead.v), (then.u, then.v)]
            state.step *= SMALLER
            state.rejected += 1
            if state.step < LEAST_STEP * state.first_step:
                state.stalled = True
                return
        self._average(state, ahead)
        state.still = state.still + 1 if _is_near(then.x, now.x) and _is_near(then.y, now.y) else 0
        state.stalled = state.still >= STILL
        state.spares.append((ahead.u, ahead.v))
        if now is not state.shown and now is not state.anchor:
            state.spares.append((now.u, now.v))
        state.now = self._with_gradients(problem, state, then)
        state.iterations += 1
        state.step *= LARGER

    def _move(self, problem: Any, state: _State, now: Place, at: Place) -> Place:
        """prox of step G, from the place `now` with the gradients of the place `at`, which the new place still has."""
        one, two = problem.players
        spare_u, spare_v = state.spares.pop() if state.spares else (None, None)
        u = proxed(one, spare_u, now.u, descent(one, at.gx, at.x), state.step / state.balance)
        v = proxed(two, spare_v, now.v, ascent(two, at.gy, at.y, state.room), state.step * state.balance)
        return Place(u, v, one.point(u), two.point(v), at.gx, at.gy)

    def _with_gradients(self, problem: Any, state: _State, place: Place) -> Place:
        """A place with the gradients there, which are counted."""
        state.pairs += 1
        state.accesses += problem.pair_cost
        gx, gy = problem.gradients(place.x, place.y)
        return place._replace(gx=gx, gy=gy)

    def _average(self, state: _State, ahead: Place) -> None:
        """Take a place into the mean, with the weight of its step."""
        if state.mean is None or state.weight == 0.0:
            state.mean = tuple(item.copy() for item in ahead[2:])
        state.weight += state.step
        for mean, item in zip(state.mean, ahead[2:], strict=True):
            average_in(NoPart(), mean.reshape(-1), item.reshape(-1), state.step / state.weight)

    def _accepts(self, problem: Any, state: _State, now: Place, ahead: Place, then: Place) -> bool:
        one, two = problem.players
        turn = 0.0
        for player, sign, g, g0, x, x0, x2 in (
            (one, 1.0, ahead.gx, now.gx, ahead.x, now.x, then.x),
            (two, -1.0, ahead.gy, now.gy, ahead.y, now.y, then.y),
        ):
            turn += sign * _turn(g, g0, x, x2)
            slope = player.slope(x) - player.slope(x0)
            turn += 0.0 if isinstance(slope, float) else float(np.vdot(slope, x - x2))
        if not math.isfinite(turn):
            return False
        moved_x = one.divergence(ahead.u, now.u) + one.divergence(then.u, ahead.u)
        moved_y = two.divergence(ahead.v, now.v) + two.divergence(then.v, ahead.v)
        return state.step * turn <= state.balance * moved_x + moved_y / state.balance

    def _look(self, problem: Any, state: _State) -> None:
        """Judge the last iterate and the mean, offer what is best of both, and begin anew where that pays."""
        points = [problem.pair(*state.now[2:]), problem.pair(*(item.copy() for item in state.mean))]
        state.judged, (last, mean) = better_of(problem, points)
        state.use_mean = mean < last
        wait = 1 if state.use_mean else state.epochs  # where the mean is ahead it is looked at often, else seldom
        state.next_look = state.epochs + max(1, min(wait, 8))
        gap = min(last, mean)
        fell = gap <= RESTART * state.began_gap or state.iterations - state.began >= LONG * state.iterations
        if not self.restarts or not fell:
            return
        if mean < AHEAD * last:
            one, two = problem.players
            state.now = place_at(problem, one.state_at(state.mean[0].copy()), two.state_at(state.mean[1].copy()))
            state.pairs += 1
            state.accesses += problem.pair_cost
            state.restarts += 1
        self._rebalance(problem, state)
        state.mean, state.weight, state.anchor = tuple(item.copy() for item in state.now[2:]), 0.0, state.now
        state.began_gap, state.began = gap, state.iterations

    def _rebalance(self, problem: Any, state: _State) -> None:
        """Let the player that has further to go make longer steps, by the ratio of both distances since the last beginning.

        Only where distances are of different kinds: else 1 did as well or better on all games that were tried.
        """
        one, two = problem.players
        if one.geometry == two.geometry:
            return
        x, y = one.divergence(state.now.u, state.anchor.u), two.divergence(state.now.v, state.anchor.v)
        if x > TINY and y > TINY:
            state.balance = min(max(math.sqrt(state.balance * math.sqrt(y / x)), 1.0 / WIDEST), WIDEST)
