"""Stochastic variance reduction with Bregman steps, for games: Algorithms 1 and 2 of Shi, Zhang & Yu (2017).

An epoch computes the full gradients at a snapshot z~ and then makes m steps, each from a few entries of the data,

    v = G(z~) + (B_k(z) - B_k(z~)) / p_k        z <- argmin step (<v, z> + R(z)) + D(z, z_old)

where B_k is the part of the gradient that belongs to the draw k. The next snapshot is the mean of the z of the epoch with the
weights (1 + step mu)^t; the iterates go on from the last z, not from there. In the convex form the minimiser always is the best
response to the maximiser, which costs a product at every step: it shows how much better the estimates could be, and is not meant
to be fast.

The theory's step is mu / (45 L^2), some eight orders too small in practice. Without a given step a few are tried for some epochs
each, from large to small, and the step is halved whenever the gap at the snapshots no longer falls.

Errors of the print: the text on boosting omits the factors 1 / p_k; the listing of Algorithm 2 has the weights (1 + step mu)^t,
which is right only if the smooth part has no curvature of its own, as here.

===============  ======================================  =====================================
here             meaning                                 letters of the paper
===============  ======================================  =====================================
x, y; x~, y~     points of the players, snapshot         x, y; x~, y~
step             length of a step                        eta
length           steps in an epoch                       m
mu               strength of the regularisers            1, by scaling
catalyst         pull towards a centre                   tau
===============  ======================================  =====================================
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry.players import NoPart, average_in
from saddlery.point import Point
from saddlery.problems.games import Snapshot
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.extragradient import ascent, descent, proxed

__all__ = ["BregSVRG"]

SHARE = 0.25  # of the entries that the full gradients read: what the steps of an epoch read
SHORTEST = 10  # steps in an epoch
LARGEST, FACTOR, MOST_TRIALS = 4.0, 0.25, 16  # the sweep: the first step that is tried, the next ones, and how many
TRIAL_EPOCHS, RISE = 3, 1.5
# The step is halved if the least gap of some epochs is not smaller by this factor than that of as many before.
PROGRESS, LEAST_PATIENCE, MOST_PATIENCE = 0.9, 4, 50
LEAST_STEP = 1e-14


class _State(State):
    def __init__(self, u: Any, v: Any, snapshot: Snapshot, rng: np.random.Generator):
        self.u, self.v, self.snapshot, self.rng = u, v, snapshot, rng
        self.centre = (u, v)
        self.judged: Any = None
        self.step, self.length = 0.0, 0
        self.gap = math.inf
        self.gaps: list[float] = []
        self.epochs = self.steps = self.trials = 0
        self.effective = 0.0

    @property
    def counts(self) -> dict[str, float]:
        return {
            "steps": self.steps,
            "effective_passes": self.effective,
            "trials": self.trials,
            "step": self.step,
        }


@dataclass(frozen=True)
class BregSVRG(Solver):
    """Variance-reduced stochastic steps in the geometry of the players.

    Parameters
    ----------
    step_size : float, optional
        Length of the steps. Without it a few are tried, and the best is halved whenever it stops to make progress; a given one
        is kept.
    epoch_length : int, optional
        Steps between two full gradients; by default the steps of an epoch read a quarter of what these do.
    scheme : str, optional
        Which terms are drawn together: by default the first of ``problem.schemes``; for a Game ``"independent"`` (a row for the one
        player, a column for the other) or ``"entries"`` (a single entry for both).
    probabilities : {"uniform", "norms"}
        Equal probabilities, or such that are proportional to Euclidean norms.
    form : {"saddle", "convex"}
        Whether both players make steps, or the maximiser alone while the minimiser answers at its best.
    catalyst : float, default=0.0
        Strength of the pull towards a centre, the snapshot of some epochs ago; it makes a weakly regularised game look like a
        sequence of strongly regularised ones.
    catalyst_epochs : int, default=5
        Epochs between two changes of the centre.
    """

    step_size: float | None = None
    epoch_length: int | None = None
    scheme: str | None = None
    probabilities: str = "uniform"
    form: str = "saddle"
    catalyst: float = 0.0
    catalyst_epochs: int = 5

    name: ClassVar[str] = "breg_svrg"
    paper: ClassVar[str] = "Shi, Zhang & Yu 2017, Algorithms 1 and 2"
    needs: ClassVar[Needs] = Needs(kind=("game", "fscore"))

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        self._check(problem)
        given = (None, None) if start is None else problem.players_at(start)
        u, v = (
            player.start() if point is None else player.state_at(point)
            for player, point in zip(problem.players, given, strict=True)
        )
        state = _State(u, v, self._snapshot(problem, problem.players[0].point(u), problem.players[1].point(v)), rng)
        state.accesses += problem.pair_cost
        state.length = self.epoch_length or self._default_length(problem)
        self._judge(problem, state)
        if self.step_size is None:
            self._sweep(problem, state)
        else:
            state.step = float(self.step_size)
        return state

    def step(self, problem: Any, state: _State) -> None:
        self._epoch(problem, state)
        if self.catalyst > 0.0 and state.epochs % self.catalyst_epochs == 0:
            state.centre = tuple(
                player.state_at(x) for player, x in zip(problem.players, (state.snapshot.x, state.snapshot.y), strict=True)
            )
        if self.step_size is not None:
            return
        state.gaps.append(state.gap)
        half = len(state.gaps) // 2
        if half >= self._patience(problem, state):
            if min(state.gaps[half:]) > PROGRESS * min(state.gaps[:half]):
                state.step *= 0.5
                state.stalled = state.step < LEAST_STEP
            state.gaps = []

    def point(self, problem: Any, state: _State) -> Point:
        return state.judged

    # -- pieces

    def _check(self, problem: Any) -> None:
        if self.form not in ("saddle", "convex"):
            raise InputError(f"form must be 'saddle' or 'convex', not {self.form!r}")
        if self.step_size is not None and not 0.0 < self.step_size < math.inf:
            raise InputError(f"step_size must be a positive number, not {self.step_size!r}")
        if self.epoch_length is not None and self.epoch_length < 1:
            raise InputError(f"epoch_length must be 1 or more, not {self.epoch_length!r}")
        if not self.catalyst >= 0.0 or self.catalyst_epochs < 1:
            raise InputError("catalyst must be 0 or more, and catalyst_epochs 1 or more")
        if self.form == "convex" and problem.players[0].strength == 0.0:
            raise InputError("form='convex' needs a minimiser with a regulariser: without one its best response jumps")

    def _sampling(self, problem: Any) -> Any:
        return problem.sampling(self.scheme or problem.schemes[0], self.probabilities)

    def _default_length(self, problem: Any) -> int:
        return max(SHORTEST, math.ceil(SHARE * problem.pair_cost / self._sampling(problem).cost))

    def _snapshot(self, problem: Any, x: np.ndarray, y: np.ndarray) -> Snapshot:
        """The full gradients at a pair; in the convex form x is the best response to y."""
        if self.form == "convex":
            gx = problem.gradient_x(x, y)
            x = problem.players[0].response(-gx)
            return Snapshot(x, y, gx, problem.gradient_y(x, y))
        return Snapshot(x, y, *problem.gradients(x, y))

    def _judge(self, problem: Any, state: _State) -> None:
        """The gap at the snapshot."""
        state.judged = problem.pair(*state.snapshot)
        primal, dual = problem.evaluate(state.judged)
        gap = primal - dual.value
        state.gap = gap if math.isfinite(gap) else math.inf

    def _epoch(self, problem: Any, state: _State) -> None:
        """m steps, and the next snapshot."""
        one, two = problem.players
        sampling = self._sampling(problem)
        draws = sampling.draw(state.rng, state.length)
        share = 1.0 / (1.0 + state.step * self.catalyst)
        rho = 1.0 + state.step * (min(one.strength, two.strength) + self.catalyst)
        u, v, snapshot = state.u, state.v, state.snapshot
        x, y = one.point(u), two.point(v)
        mean_x, mean_y, weight = np.zeros_like(x), np.zeros_like(y), 0.0
        spare_u = spare_v = None
        room, length = np.empty_like(y), share * state.step
        for t in range(state.length):
            old_u, old_v = u, v
            if self.form == "convex":
                x = one.response(-problem.gradient_x(x, y))
                vy = sampling.gradient_y(draws, t, x, y, snapshot)
            else:
                vx, vy = sampling.gradients(draws, t, x, y, snapshot)
                u = proxed(one, spare_u, self._pulled(one, u, state.centre[0], share), descent(one, vx, x), length)
            v = proxed(two, spare_v, self._pulled(two, v, state.centre[1], share), ascent(two, vy, y, room), length)
            x, y = (x if self.form == "convex" else one.point(u)), two.point(v)
            if t > 0 and self.form == "saddle":  # the states of the last step but one: made here, and seen by nobody
                spare_u, spare_v = old_u, old_v
            elif t > 0:
                spare_v = old_v
            weight = 1.0 + weight / rho  # sum of rho^(s - t) over s <= t: never too large a number
            average_in(NoPart(), mean_x.reshape(-1), x.reshape(-1), 1.0 / weight)
            average_in(NoPart(), mean_y.reshape(-1), y.reshape(-1), 1.0 / weight)
        state.u, state.v, state.snapshot = u, v, self._snapshot(problem, mean_x, mean_y)
        state.accesses += problem.pair_cost + state.length * (sampling.cost + (problem.cost_x if self.form == "convex" else 0.0))
        state.effective += 1.0 + state.length * sampling.cost / problem.size
        state.steps += state.length
        state.epochs += 1
        self._judge(problem, state)

    def _patience(self, problem: Any, state: _State) -> int:
        """Epochs in which the regularisers bring down errors by a factor of about e: games that turn in circles need that long."""
        rate = state.step * state.length * (min(player.strength for player in problem.players) + self.catalyst)
        return max(LEAST_PATIENCE, min(MOST_PATIENCE, math.ceil(1.0 / rate) if rate > 1.0 / MOST_PATIENCE else MOST_PATIENCE))

    def _pulled(self, player: Any, state: Any, centre: Any, share: float) -> Any:
        return state if self.catalyst == 0.0 else player.blend(centre, state, share)

    def _sweep(self, problem: Any, state: _State) -> None:
        """Try LARGEST, FACTOR LARGEST, ... from the start for some epochs each, and go on with the best, where it has got to.

        A step is too large if the gap rises by more than RISE. Of the others that with the least gap is taken; after two that are
        worse the search ends. The trials share their draws.
        """
        seed, start, best, worse = int(state.rng.integers(2**63)), state.gap, None, 0
        for k in range(MOST_TRIALS):
            trial = copy.copy(state)
            trial.rng, trial.step = np.random.default_rng(seed), LARGEST * FACTOR**k
            for _ in range(TRIAL_EPOCHS):
                self._epoch(problem, trial)
                if trial.gap > RISE * start:
                    break
            for name in ("accesses", "effective", "steps"):
                setattr(state, name, getattr(trial, name))
            state.trials += 1
            if trial.gap > RISE * start:
                continue
            if best is None or trial.gap < best.gap:
                best, worse = trial, 0
            else:
                worse += 1
            if worse == 2:
                break
        chosen = trial if best is None else best
        state.u, state.v, state.snapshot, state.judged = chosen.u, chosen.v, chosen.snapshot, chosen.judged
        state.step, state.gap = chosen.step, chosen.gap
