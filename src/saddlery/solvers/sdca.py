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

from saddlery.matrix import Matrix
from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.problems.row_sums import best_intercept
from saddlery.solvers.balance import NONE, offset_around
from saddlery.solvers.base import Needs, Solver, State

__all__ = [
    "SDCA",
    "dual_epoch",
    "dual_epoch_in_parts",
    "dual_epochs",
    "dual_steps",
    "gap_at_end",
    "new_seed",
    "random_order",
    "row_order",
    "single_rows",
    "starting_dual",
    "swept_once",
]

JUDGED = 1024  # rows of an epoch whose gap is looked at, about
IN_CACHE = 1_000_000  # entries that are read in any order as fast
# Where gaps fall fast, to less than so much of what an epoch met, one that is expected within so many times the tolerance is
# brought there by the rows that were not visited for longest, this share of all: it falls to a quarter by that, of losses with
# kinks to half (over 21 tolerances, text of 5000 x 30,000: 4.05 -> 3.83 epochs with logistic loss, 5.76 -> 5.51 with squared
# hinge).
FAST, REACH, LEG = 0.4, 3.0, 0.3
# Dense rows that do not fit into caches are read in single precision after the first epoch, until gaps are so small that rounded
# rows have another solution (1000 x 5000: 4.2 -> 2.7 ms an epoch, for a copy of 4 ms; squared hinge to 1e-6: 138 -> 118 ms). Sums
# stay in double precision, and certificates are computed from the data as they are.
SINGLE, LARGE = 1e-7, 1e50  # the second: squared norms of rows, or their inverse, from which on entries may be lost
# Sigma: this share of the mean of ||x_i||^2 / mu, so that steps are hardly shorter, but at least so many times 1 / smoothness, with
# which c makes most of its way in one move where l2 is strong (5000 x 3000 counts, squared hinge, l2 of 100 / n: 80 -> 7 epochs).
# It grows while the sum that is left costs more than the rows do: where weights can do what an intercept does, c has a long way to
# go (a9a, logistic, l2 of 100 / n: 250 -> 52 ms; mushrooms: 78 -> 10 ms).
SHARE, LEAST_TIMES, GROWS = 0.03, 10.0, 4.0
# Steps of losses with kinks are so many times as long as the bound asks for (successive over-relaxation; below 2 the dual still
# rises): most rows end at bounds or on a parabola whose other rows follow. (1000 x 5000, epochs to 1e-3 and 1e-6 of the optimum:
# hinge 32 -> 24 to the first, squared hinge 14 and 22 -> 12 and 17; rcv1, hinge: 13 -> 9 ms; logistic loss would need 10 % more.)
LONGER = 1.3
TOGETHER, LARGEST_GROUP, LEAST_GROUPS = 2048, 16, 64  # entries and rows that are visited one after the other; groups of them


@kernel(fast_sums=True)
def dual_epoch(loss, penalty, rows, y, s, steps, order, a, v, intercept, along):
    """For rows i in order: a_i = prox of tau_i l* at a_i + tau_i z_i, then v -= s_i da_i x_i (paper's (13), row by row).

    `intercept` and `along` are the offset of a free intercept (balance.py), or zeros. Returns the sum of the gaps
    s_i (l(z_i) + l*(a_i) - z_i a_i) that the rows had when they were met (of some of them, raised, if there are many).
    """
    every, met, free = 1 + order.shape[0] // JUDGED, 0.0, intercept[3] > 0.0
    for k in range(order.shape[0]):
        i = order[k]
        if s[i] == 0.0:
            continue
        z = intercept[2] - intercept[1] - (intercept[3] - along[i]) * intercept[0] if free else 0.0
        for p in range(rows.first(i), rows.last(i)):
            z += rows.entry(p) * penalty.coordinate_map(v[rows.position(i, p)])
        if k % every == 0:
            met += s[i] * (loss.value(y[i], z) + loss.conjugate(y[i], a[i]) - z * a[i])
        if steps[i] > 0.0:
            move = loss.dual_step(y[i], a[i], z, steps[i]) - a[i]
        else:  # an empty row: z = 0 whatever w is
            move = loss.slope(y[i], 0.0) - a[i]
        if move != 0.0:
            a[i] += move
            change = -s[i] * move
            if free:
                intercept[0] -= change
                intercept[1] += change * along[i]
            for p in range(rows.first(i), rows.last(i)):
                v[rows.position(i, p)] += change * rows.entry(p)
    return met * every


@kernel
def gap_at_end(loss, met, before):
    """The gap to expect after an epoch whose rows met `met` and those of the epoch before it `before`.

    If gaps fall by r from epoch to epoch, evenly, the mean over an epoch is (r - 1) / log(r) times that at its end.
    """
    share = met / before if before < math.inf else 0.5
    return -met * share * math.log(share) / (1.0 - share) if 0.0 < share < 1.0 else met


@kernel
def shuffle(rows, order, seed):
    """Put the order at random (Fisher and Yates), by draws of a xorshift generator whose state is seed[0]."""
    x = seed[0]
    for k in range(order.shape[0] - 1, 0, -1):
        x ^= x >> np.uint64(12)
        x ^= x << np.uint64(25)
        x ^= x >> np.uint64(27)
        j = np.int64((x >> np.uint64(32)) * np.uint64(k + 1) >> np.uint64(32))
        order[k], order[j] = order[j], order[k]
    seed[0] = x


@kernel
def dual_epochs(loss, penalty, rows, y, s, steps, order, seed, a, v, intercept, along, met, goal, most):
    """At most so many epochs, until the gap is expected to be at a goal; how many, what was met last, and what is expected."""
    count, expected = 0, math.inf
    while count < most and expected > goal:
        shuffle(rows, order, seed)
        before, met = met, dual_epoch(loss, penalty, rows, y, s, steps, order, a, v, intercept, along)
        expected = gap_at_end(loss, met, before)
        count += 1
    return count, met, expected


def new_seed(rng: np.random.Generator) -> np.ndarray:
    """A state for the draws of `shuffle`."""
    return np.array([rng.bit_generator.random_raw() | 1], dtype=np.uint64)


def row_order(rng: np.random.Generator, matrix: Matrix) -> np.ndarray:
    """The rows in random order; see :func:`random_order`."""
    return random_order(rng, matrix.rows, matrix.shape[0], matrix.nnz)


def random_order(rng: np.random.Generator, vectors: Any, n: int, entries: int) -> np.ndarray:
    """Vectors in random order; of data larger than a cache, short neighbours stay together (20,000 x 50,000: 8.8 -> 3.9 ms).

    Where reading is cheap they do not, as neighbours that are alike make epochs less worth (w8a, hinge: 186 -> 383 ms).
    """
    group = int(min(TOGETHER * n // max(entries, 1), LARGEST_GROUP, n // LEAST_GROUPS))
    if group <= 1 or entries < IN_CACHE:
        order = np.arange(n)
        shuffle(vectors, order, new_seed(rng))
        return order
    starts = rng.permutation((n + group - 1) // group) * group
    order = (starts[:, None] + np.arange(group)).ravel()
    return order if n % group == 0 else order[order < n]


def dual_epoch_in_parts(
    loss: Any, penalty: Any, matrix: Matrix, y: Any, s: Any, steps: Any, rng: np.random.Generator, a: Any, v: Any, *offset: Any
) -> float:
    """One epoch over all rows in random order; of data that are read in parts, over the rows of one part after the other.

    Returns the gap as it was met on the way.
    """
    met, (numbers, along) = 0.0, offset
    for part, block in matrix.row_parts(rng):
        order, here = row_order(rng, block), along[part] if numbers[3] > 0.0 else along
        met += dual_epoch(loss, penalty, block.rows, y[part], s[part], steps[part], order, a[part], v, numbers, here)
    return met


def single_rows(matrix: Matrix) -> Any:
    """The rows in single precision; indices are shared."""
    if not matrix.is_sparse:
        return Matrix(np.ascontiguousarray(matrix.values, dtype=np.float32)).rows
    rows = matrix.rows
    return rows._replace(values=rows.values.astype(np.float32))


def dual_steps(square_norms: np.ndarray, s: np.ndarray, mu: float, more: Any = 0.0, longer: float = 1.0) -> np.ndarray:
    """tau_i = longer / (s_i (||x_i||^2 / mu + more_i)); 0 marks rows without entries or weight."""
    curvature = s * (square_norms / mu + more)
    return np.divide(longer, curvature, out=np.zeros_like(curvature), where=curvature > 0.0)


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
    def __init__(self, problem: Any, a: np.ndarray, b: float, rng: np.random.Generator):
        self.a, self.rng = a, rng
        self.v = -problem.matrix.rmatvec(problem.s * a) if a.any() else np.zeros(problem.d)
        norms, mu = problem.matrix.row_square_norms, problem.penalty.strong_convexity
        self.offset = NONE
        if problem.fit_intercept:
            sigma = max(SHARE * float(problem.s @ norms) / mu, LEAST_TIMES / problem.loss.smoothness)
            self.offset = offset_around(b, float(problem.s @ a), sigma, problem.matrix, None, self.v, mu)
        self.longer = 1.0 if getattr(problem.loss, "curvature_is_smooth", False) else LONGER
        self.steps = dual_steps(norms, problem.s, mu, self.offset.numbers[3], self.longer)
        self.expected_gap = float("inf")
        self.met = float("inf")
        self.order = np.arange(0)  # of the rows in the last epoch
        self.single: Any = None  # the rows in single precision, while epochs read these
        self.may_be_single = not ((norms > 0.0) & ((norms < 1.0 / LARGE) | (norms > LARGE))).any()

    def rows(self, problem: Any) -> Any:
        """The rows that the next epoch reads; v is made anew where these are the data again."""
        matrix, gap = problem.matrix, self.expected_gap
        if matrix.is_sparse or matrix.nnz < IN_CACHE or matrix.values.dtype != np.float64 or not self.may_be_single:
            return matrix.rows
        if len(self.order) and gap is not None and min(gap, self.relative_gap) > SINGLE:
            if self.single is None:
                self.single = single_rows(matrix)
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
    """

    name = "sdca"
    paper = "Shalev-Shwartz & Zhang 2013; baseline of Lei et al. 2017"
    needs = Needs(
        loss=("dual_prox", "slope", "conjugate"),
        penalty=("coordinate_map",),
        strongly_convex=True,
        smooth_with_intercept=True,
        partial=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, starting_dual(problem, start), problem.constant if start is None else start.b, rng)

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
