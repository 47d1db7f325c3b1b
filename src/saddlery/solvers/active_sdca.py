"""SDCA on active rows and columns: the greedy, working-set use of the doubly-greedy idea that works best in practice.

Each round *searches* (complete v, w = map(v), margins and the gap of every row), then *sweeps* over a compact copy of the rows
that carry the gap and the columns that carry the model, until that sub-problem's gap is a twentieth of the whole one:

    gap = sum_i s_i gap_i,   gap_i = l(z_i) + l*(a_i) - z_i a_i >= 0        (Fenchel equality in g holds by w = map(v))
    A_x  <-  A_x and the largest |w_j| outside, at most max(200, |A_x|) new ones; now and then drop |v_j| < threshold / 2
    A_y  <-  rows with gap_i > gap / 100, and those at no bound

:class:`DualSearch` holds one such dual problem; ``proximal_point`` drives it too, with a proximal term in the penalty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.matrix import Matrix
from saddlery.matrix.partial import PartialMatrix
from saddlery.parts import kernel
from saddlery.penalties.base import map_each
from saddlery.point import Point
from saddlery.solvers import balance
from saddlery.solvers.at_once import CertifiedPoints
from saddlery.solvers.balance import (
    LIFT,
    NONE,
    Offset,
    add_products,
    common_part,
    mark_free,
    offset_around,
    settle,
    starting_intercept,
)
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.dual_epochs import IN_CACHE, dual_epoch_in_parts, dual_epochs, dual_steps, gap_at_end, new_seed
from saddlery.solvers.dual_face import climb
from saddlery.solvers.sdca import starting_dual
from saddlery.solvers.small_ascent import EPOCHS, MOST, SHARE, Ascended, ascend_at_once, is_small_ascent

__all__ = ["ActiveSDCA", "DualSearch", "block_of"]


FIRST_EPOCHS = 4  # over blocks of more than half the rows
BELOW, WITHIN = 0.5, 6.0  # share of the tolerance to aim at, from so many times the usual goal on
NEAR_PEAK, NEARER = 0.01, 1e-4  # relative gaps below which exact moves are tried; the second where data are in cache


@kernel
def row_gaps(loss, y, s, z, a, out):
    """out_i = l(z_i) + l*(a_i) - z_i a_i; returns sum_i s_i out_i."""
    total = 0.0
    for i in range(y.shape[0]):
        if s[i] > 0.0:
            out[i] = loss.value(y[i], z[i]) + loss.conjugate(y[i], a[i]) - z[i] * a[i]
            total += s[i] * out[i]
        else:
            out[i] = 0.0
    return total


class DualSearch:
    """A dual problem with linear term: max_a -G*(v) - sum_i s_i l*(a_i), v = origin - X'(s a), G strongly convex.

    Parameters
    ----------
    problem : LinearProblem
        Data and loss.
    penalty : part
        Its ``coordinate_map`` is the gradient of G*.
    mu : float
        Strong convexity of G.
    a : array of shape (n,)
        Dual point to start from.
    origin : array of shape (d,), optional
        Linear term; zero by default.
    b : float
        The intercept to start from, if there is one.
    end : Ascended, optional
        What is known at `a`.
    """

    def __init__(
        self, problem: Any, penalty: Any, mu: float, a: np.ndarray, origin: Any = None, b: float = 0.0, end: Ascended | None = None
    ):
        self.penalty, self.mu, self.a = penalty, mu, a
        self.origin = np.zeros(problem.d) if origin is None else origin
        self.b, self.excess = b, float(problem.s @ a) if problem.fit_intercept else 0.0
        self.sigma = self.least = balance.SHARE * float(problem.matrix.row_square_norms.mean() or 1.0) / mu
        self.columns = np.zeros(problem.d, dtype=bool)
        self.searches = 0
        self.row_gap = np.zeros(problem.n)
        self.gap = 0.0
        if end is None:
            self.complete(problem)
        else:
            _, self.v, self.w, self.Xw, self.row_gap, self.gap = end
            self.searches = 1

    def complete(self, problem: Any) -> float:
        """Compute v and the search data from a alone; returns the number of entries read."""
        self.v = self.origin - problem.matrix.rmatvec(problem.s * self.a)
        return problem.matrix.nnz + self.search(problem)

    def search(self, problem: Any) -> float:
        """w = map(v), margins, gaps of all rows; returns the number of entries read."""
        self.w = np.empty(problem.d)
        map_each(self.penalty, self.v, self.w)
        self.Xw = problem.margins(self.w)
        self.gap = row_gaps(problem.loss, problem.y, problem.s, self.Xw + self.b, self.a, self.row_gap)
        self.gap += abs(self.excess)  # what it may cost to balance
        self.searches += 1
        return float(problem.matrix.nnz if self.columns.all() else problem.matrix.col_counts[self.w != 0.0].sum())

    def choose_columns(self, threshold: float) -> np.ndarray | None:
        """Grow the active columns by the largest weights outside; drop the hopeless every fifth search. None stands for all."""
        if threshold == 0.0:
            self.columns[:] = True
        else:
            if self.searches % 5 == 0:
                self.columns &= np.abs(self.v) >= 0.5 * threshold
            outside = np.flatnonzero((self.w != 0.0) & ~self.columns)
            room = max(200, int(self.columns.sum()))
            if len(outside) > room:
                outside = outside[np.argpartition(-np.abs(self.w[outside]), room - 1)[:room]]
            self.columns[outside] = True
        return None if self.columns.all() else np.flatnonzero(self.columns)

    def choose_rows(self, problem: Any) -> np.ndarray:
        """The rows that carry the gap; of losses with kinks also those at no bound, which must move with them.

        w8a, hinge: 51 -> 24 rounds, 166 -> 89 ms.
        """
        chosen = self.row_gap > 0.01 * self.gap
        if not getattr(problem.loss, "curvature_is_smooth", False):
            mark_free(problem.loss, problem.y, self.a, chosen)
        rows = np.flatnonzero(chosen)
        return rows if len(rows) else np.arange(problem.n)

    def has_faces(self, problem: Any, block: Matrix) -> bool:
        """Whether the dual is a parabola between bounds, and near enough to its peak for bounds to be about right.

        Exact moves end what epochs do not (5000 x 2000, hinge: 24 -> 6 s; a9a: 139 -> 92 ms).
        """
        near = self.gap <= (NEARER if block.nnz < IN_CACHE else NEAR_PEAK) * problem.scale
        return near and block.compiled and hasattr(problem.loss, "conjugate_bend") and getattr(self.penalty, "is_round", False)

    def sweep(
        self, problem: Any, rng: np.random.Generator, threshold: float, max_epochs: int, share: float, end: float = 0.0
    ) -> float:
        """Epochs over the active block until its gap is `share` of the whole one; completes v. Returns the entries read.

        Exact moves, if it comes to them, go on to the gap `end`.
        """
        columns = self.choose_columns(threshold)
        rows = self.choose_rows(problem)
        matrix = block_of(problem.matrix, rows, columns)
        y, s, a = problem.y[rows], problem.s[rows], self.a[rows]
        v = self.v.copy() if columns is None else self.v[columns]
        offset = self.offset(problem, matrix, y, s, a, v)
        steps = dual_steps(matrix.row_square_norms, s, self.mu, offset.numbers[3] - 2.0 * offset.along)
        read = float(matrix.nnz)
        if 2 * len(rows) > problem.n or not matrix.compiled:  # most of them will be settled soon: look before they have cost much
            max_epochs = min(max_epochs, FIRST_EPOCHS)
        here, goal = (a, v, offset.numbers, offset.along), share * self.gap
        if matrix.compiled and matrix.nnz < IN_CACHE:  # all in one call
            data = (matrix.rows, y, s, steps, np.arange(len(rows)), new_seed(rng))
            count, _, expected = dual_epochs(problem.loss, self.penalty, *data, *here, math.inf, goal, max_epochs)
            read += 2.0 * count * matrix.nnz
        else:
            met, expected = math.inf, math.inf
            while max_epochs > 0 and expected > goal:
                before, met = met, dual_epoch_in_parts(problem.loss, self.penalty, matrix, y, s, steps, rng, *here)
                expected, max_epochs, read = gap_at_end(problem.loss, met, before), max_epochs - 1, read + 2.0 * matrix.nnz
        if expected > goal and self.has_faces(problem, matrix):
            read += 2.0 * matrix.nnz / len(rows) * climb(problem.loss, matrix, y, s, a, v, offset, self.mu, end)
        if problem.fit_intercept:
            self.leave(problem, matrix, y, s, a, v, offset)
        moves = a - self.a[rows]
        self.a[rows] = a
        if columns is None:  # v was kept current for all of them
            self.v = v
            return read
        change = np.zeros(problem.n)
        change[rows] = -s * moves
        add_products(problem.matrix, change, self.v)
        return read + 0.5 * problem.matrix.nnz

    def offset(self, problem: Any, matrix: Matrix, y: Any, s: Any, a: Any, v: Any) -> Offset:
        """The intercept as an ascent on a block sees it."""
        if not problem.fit_intercept:
            return NONE
        m = None
        if matrix.compiled and getattr(self.penalty, "is_round", False):
            m = common_part(problem.loss, matrix, y, s, a)
        return offset_around(self.b, float(problem.s @ self.a), self.sigma, matrix, m, v, self.mu)

    def leave(self, problem: Any, matrix: Matrix, y: Any, s: Any, a: Any, v: Any, offset: Offset) -> None:
        """Balance the block, and take the intercept from it; where no row has room for it, sigma was too small to move b."""
        if settle(problem.loss, matrix, y, s, a, v, offset):
            self.sigma = max(self.sigma / LIFT, self.least)
        else:
            self.sigma *= LIFT
        self.excess = float(offset.numbers[0])
        self.b = offset.b


def block_of(matrix: Matrix, rows: np.ndarray, columns: np.ndarray | None) -> Matrix:
    """A compact copy of some rows and columns (None: of all); the matrix itself when that is all of it.

    Of data that are read in parts a copy is made if there is room for it, else the block is read in parts too.
    """
    n, d = matrix.shape
    columns = None if columns is None or len(columns) == d else columns
    if len(rows) == n and columns is None:
        return matrix
    if isinstance(matrix, PartialMatrix):
        part = matrix.select(None if len(rows) == n else rows, columns)
        return part.compact() if matrix.holds(part.nnz) else part
    if not matrix.is_sparse:
        return Matrix(np.ascontiguousarray(matrix.values[rows] if columns is None else matrix.values[np.ix_(rows, columns)]))
    block = matrix if len(rows) == n else matrix.take_rows(rows, with_columns=False)
    return block if columns is None else Matrix(block.csr[:, columns])


class _State(State):
    def __init__(self, problem: Any, a: np.ndarray, b: float, rng: np.random.Generator, end: Ascended | None = None):
        self.rng = rng
        self.dual = DualSearch(problem, problem.penalty, problem.penalty.strong_convexity, a, b=b, end=end)
        self.foresee(problem)

    def foresee(self, problem: Any) -> None:
        """Each search sums up the gap."""
        self.expected_gap = self.dual.gap / (problem.scale or 1.0)


@dataclass(frozen=True)
class ActiveSDCA(Solver):
    """Dual coordinate ascent on the rows and columns that matter; for any loss, strongly convex penalties, intercept or not.

    Parameters
    ----------
    max_sweeps : int
        Most epochs over one active block.
    share : float
        The block is left when its gap is this share of the whole one.
    """

    max_sweeps: int = MOST
    share: float = SHARE

    name = "active_sdca"
    paper = "Lei et al. 2017, active sets with SDCA steps (docs/errata.md)"
    needs = Needs(
        loss=("dual_prox", "value", "conjugate"),
        penalty=("coordinate_map",),
        strongly_convex=True,
        partial=True,
    )

    epochs_at_once = EPOCHS

    def has_points(self, problem: Any, count: int) -> bool:
        return count == 1 and is_small_ascent(problem) and (self.max_sweeps, self.share) == (MOST, SHARE)

    def points(self, problem: Any, factors: np.ndarray, tol: float, rng: np.random.Generator) -> CertifiedPoints:
        """The solution on small data; ends where faces of the dual are to be climbed."""
        return ascend_at_once(problem, tol, rng, True, self._state_at)

    def _state_at(self, problem: Any, end: Ascended, rng: np.random.Generator) -> _State:
        return _State(problem, end.a, 0.0, rng, end)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        if start is not None:
            return _State(problem, starting_dual(problem, start), start.b, rng)
        if problem.fit_intercept and problem.penalty.threshold > 0.0:  # its gradient tells which columns matter
            return _State(problem, problem.constant_dual.copy(), problem.constant, rng)
        return _State(problem, np.zeros(problem.n), starting_intercept(problem), rng)

    def step(self, problem: Any, state: _State) -> None:
        dual = state.dual
        tol = state.tol * problem.scale
        goals = (self._share(dual.gap, tol), BELOW * tol)
        state.accesses += dual.sweep(problem, state.rng, problem.penalty.threshold, self.max_sweeps, *goals)
        state.accesses += dual.complete(problem) if dual.searches % 20 == 0 else dual.search(problem)
        state.foresee(problem)

    def _share(self, gap: float, tol: float) -> float:
        """The share of the gap to leave: that of the solver; or, where the tolerance is near, what is surely below it.

        To go further gains nothing, and to stop shortly before takes a round more (news20, hinge to 1e-6: 85 -> 62 ms).
        """
        ends = BELOW * tol / gap if gap > 0.0 else 0.0
        return min(ends, BELOW) if ends * WITHIN >= self.share else self.share

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.dual.w, state.dual.b, state.dual.a, state.dual.Xw, -state.dual.v, exact=True)

    def resync(self, problem: Any, state: _State) -> None:
        state.accesses += state.dual.complete(problem)
