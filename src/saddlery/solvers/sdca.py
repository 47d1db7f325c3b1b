"""Proximal stochastic dual coordinate ascent (SDCA): the baseline "DualRCD" of the doubly-greedy paper.

With v = -X'(s a) and w = argmax_w v.w - g(w), one step takes a row i, forms z_i = x_i.w on the fly and maximises a quadratic
lower bound of the dual in a_i alone: a prox of l* with step tau_i = mu / (s_i ||x_i||^2). No step is tuned and D never falls.

A free intercept asks for sum_i s_i a_i = 0, and the method of multipliers finds it beside the weights (balance.py; Hestenes 1969,
Powell 1969): epochs see the intercept b = c - sigma sum_i s_i a_i, and its centre c moves there after each. Where the loss is
smooth, the sum is a smooth function of c, and one epoch for each c is enough: as many epochs as without an intercept, or a few more
(news20, smooth hinge with l2: 8 -> 9 epochs, where Newton's method takes 210 ms and this 30).

=========  ===================================  =================================
here       meaning                              letters of the paper
=========  ===================================  =================================
a          dual point, one number a row         y
v          -X'(s a)                             -z / n
w          primal point, map of v               x-bar(y), eq. (9) divided by mu
mu         strong convexity of the penalty      mu
tau_i      mu / (s_i ||x_i||^2)                 eta_i / n with eta_i = n^2 mu / ||a_i||^2
offset     the intercept, as epochs see it      (none)
=========  ===================================  =================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.point import Point
from saddlery.problems.row_sums import best_intercept
from saddlery.solvers.at_once import CertifiedPoints
from saddlery.solvers.balance import NONE, offset_around
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.dual_epochs import (
    FAST,
    IN_CACHE,
    LEG,
    LONGER,
    REACH,
    dual_epoch,
    dual_epoch_in_parts,
    dual_epochs,
    dual_steps,
    fits_single,
    gap_at_end,
    new_seed,
    row_order,
    stretch_of,
)
from saddlery.solvers.small_ascent import EPOCHS, Ascended, ascend_at_once, is_small_ascent

__all__ = ["SDCA", "starting_dual", "swept_once"]

# Dense rows that do not fit into caches are read in single precision after the first epoch, until gaps are so small that rounded
# rows have another solution (1000 x 5000: 4.2 -> 2.7 ms an epoch, for a copy of 4 ms; squared hinge to 1e-6: 138 -> 118 ms). Sums
# stay in double precision, and certificates are computed from the data as they are.
SINGLE, LARGE = 1e-7, 1e50  # the second: squared norms of rows, or their inverse, from which on entries may be lost
# Sigma: this share of the mean of ||x_i||^2 / mu, so that steps are hardly shorter, but at least so many times 1 / smoothness, with
# which c makes most of its way in one move where l2 is strong (5000 x 3000 counts, squared hinge, l2 of 100 / n: 80 -> 7 epochs).
# It grows while the sum that is left costs more than the rows do: where weights can do what an intercept does, c has a long way to
# go (a9a, logistic, l2 of 100 / n: 250 -> 52 ms; mushrooms: 78 -> 10 ms).
SHARE, LEAST_TIMES, GROWS = 0.03, 10.0, 4.0


def starting_dual(problem: Any, start: Point | None) -> np.ndarray:
    """The dual point to start from: the one given, the slopes at the weights given, or zero."""
    if start is None:
        return np.zeros(problem.n)
    if start.dual is not None:
        return problem.dual_point(start.dual).a
    return problem.slopes(problem.margins(start.w), start.b) if start.w.any() else np.zeros(problem.n)


def swept_once(problem: Any, rng: np.random.Generator) -> Point:
    """The point after one epoch from zero; with an intercept it has the margins, too."""
    solver = SDCA()
    state = solver.init(problem, None, rng)
    solver.step(problem, state)
    return solver.point(problem, state)


class _State(State):
    def __init__(self, problem: Any, a: np.ndarray, b: float, rng: np.random.Generator, longer: float, v: np.ndarray | None = None):
        self.a, self.rng = a, rng
        if v is None:
            v = -problem.matrix.rmatvec(problem.s * a) if a.any() else np.zeros(problem.d)
        self.v = v
        norms, mu = problem.matrix.row_square_norms, problem.penalty.strong_convexity
        self.offset = NONE
        if problem.fit_intercept:
            sigma = max(SHARE * float(problem.s @ norms) / mu, LEAST_TIMES / problem.loss.smoothness)
            self.offset = offset_around(b, float(problem.s @ a), sigma, problem.matrix, None, self.v, mu)
        self.longer = stretch_of(problem.loss, longer)
        self.steps = dual_steps(norms, problem.s, mu, self.offset.numbers[3], self.longer)
        self.single: Any = None  # the rows in single precision, while epochs read these
        self.may_be_single = fits_single(norms, LARGE)
        self.expected_gap = float("inf")
        self.met = float("inf")
        self.order = np.arange(0)  # of the rows in the last epoch

    def rows(self, problem: Any) -> Any:
        """The rows that the next epoch reads; v is made anew where these are the data again."""
        matrix, gap = problem.matrix, self.expected_gap
        if matrix.is_sparse or matrix.nnz < IN_CACHE or matrix.values.dtype != np.float64 or not self.may_be_single:
            return matrix.rows
        if len(self.order) and gap is not None and min(gap, self.relative_gap) > SINGLE:
            if self.single is None:
                self.single = matrix.single_rows
            return self.single
        if self.single is not None:
            self.single, self.v = None, -matrix.rmatvec(problem.s * self.a)
        return matrix.rows

    def recentre(self, problem: Any, met: float) -> float:
        """Move the centre to b after an epoch whose rows met such a gap; returns about what the sum of s_i a_i costs."""
        if not problem.fit_intercept:
            return 0.0
        numbers, total = self.offset.numbers, float(problem.s @ self.a)
        cost, numbers[0], numbers[2] = float(numbers[3]) * total * total, total, self.offset.b
        if cost > met:
            numbers[3:] *= GROWS
            norms, mu = problem.matrix.row_square_norms, problem.penalty.strong_convexity
            self.steps = dual_steps(norms, problem.s, mu, numbers[3], self.longer)
        return cost

    def foresee(self, loss: Any, met: float, scale: float) -> None:
        """Expect a gap from those that the rows of the last two epochs had when they were met."""
        self.met, self.expected_gap = met, gap_at_end(loss, met, self.met) / (scale or 1.0)

    def has_last_leg(self, scale: float) -> bool:
        """Whether a part of an epoch is expected to be enough."""
        gap = self.expected_gap
        return gap is not None and self.tol < gap <= REACH * self.tol and gap * scale <= FAST * self.met


@dataclass(frozen=True)
class SDCA(Solver):
    """Proximal stochastic dual coordinate ascent over random permutations of the rows.

    For any loss and strongly convex penalties; with an intercept for smooth losses.

    Parameters
    ----------
    longer : float
        Steps of losses with kinks, in units of the paper's: 1 for its method to the letter, and below 2.
    """

    longer: float = LONGER

    name = "sdca"
    paper = "Shalev-Shwartz & Zhang 2013; baseline of Lei et al. 2017"
    needs = Needs(
        loss=("dual_prox", "slope", "conjugate"),
        penalty=("coordinate_map",),
        strongly_convex=True,
        smooth_with_intercept=True,
        partial=True,
    )

    epochs_at_once = EPOCHS

    def has_points(self, problem: Any, count: int) -> bool:
        return count == 1 and is_small_ascent(problem) and self.longer == LONGER

    def points(self, problem: Any, factors: np.ndarray, tol: float, rng: np.random.Generator) -> CertifiedPoints:
        """The solution on small data."""
        return ascend_at_once(problem, tol, rng, False, self._state_at)

    def _state_at(self, problem: Any, end: Ascended, rng: np.random.Generator) -> _State:
        return _State(problem, end.a, 0.0, rng, self.longer, end.v)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        b = problem.constant if start is None else start.b
        return _State(problem, starting_dual(problem, start), b, rng, self.longer)

    def step(self, problem: Any, state: _State) -> None:
        parts, numbers = (problem.loss, problem.penalty), (problem.y, problem.s, state.steps)
        rows = state.rows(problem) if problem.matrix.compiled else None
        here = (state.a, state.v, *state.offset)
        if rows is None:
            met = dual_epoch_in_parts(*parts, problem.matrix, *numbers, state.rng, *here)
        elif state.has_last_leg(problem.scale):
            dual_epoch(*parts, rows, *numbers, state.order[: math.ceil(LEG * problem.n)], *here)
            state.expected_gap, state.met = state.tol, float("inf")
            state.accesses += 2 * LEG * problem.matrix.nnz
            return
        else:
            state.order = row_order(state.rng, problem.matrix)
            met = dual_epoch(*parts, rows, *numbers, state.order, *here)
        state.foresee(problem.loss, met + state.recentre(problem, met), problem.scale)
        state.accesses += 2 * problem.matrix.nnz

    def epochs(self, problem: Any, state: _State, count: int, goal: float) -> int:
        """At most `count` epochs over small data in one call, fewer if the gap is expected to fall to a goal; returns how many."""
        order, seed = np.arange(problem.n), new_seed(state.rng)
        most, done, expected = 1 if problem.fit_intercept else count, 0, math.inf
        while done < count and expected > goal:
            data = (problem.matrix.rows, problem.y, problem.s, state.steps, order, seed)
            here = (state.a, state.v, *state.offset, state.met, goal, most)
            epochs, state.met, expected = dual_epochs(problem.loss, problem.penalty, *data, *here)
            expected += state.recentre(problem, state.met)
            done += epochs
        state.expected_gap = expected / (problem.scale or 1.0)
        state.accesses += 2 * done * problem.matrix.nnz
        return done

    def point(self, problem: Any, state: _State) -> Point:
        ends = state.expected_gap is not None and state.expected_gap <= state.tol  # then the loop wants X'(s a) from the data
        w, Xta = problem.penalty.dual_map(state.v), None if ends or state.single is not None else -state.v
        if not problem.fit_intercept:
            return Point(w, 0.0, state.a, Xta=Xta)
        Xw = problem.margins(w)
        return Point(w, best_intercept(problem.loss, problem.y, problem.s, Xw, state.offset.b), state.a, Xw, Xta, exact=True)

    def resync(self, problem: Any, state: _State) -> None:
        state.v, state.single = -problem.matrix.rmatvec(problem.s * state.a), None
