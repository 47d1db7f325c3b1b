"""Blocks of columns that are not sparse, whose Gram matrix grows with them and serves for many steps.

To form X_W' diag(h) X_W takes as long as ten steps that use it (400 columns of 5000 rows: 11 and 1 ms). So it is kept while h
moves: a step on an old matrix from the true gradient (a *chord*) still leaves little more than the share by which h has moved.
Columns that join a block add their products with the others, and the matrix is formed again once that is cheaper than the steps it
spares. It is kept in single precision, as are the columns it is made of; the products that certificates rest on read the data
themselves, in double (5000 x 2000, logistic at 0.1: 78 -> 38 ms; 60,000 x 780 pixels at 0.01: 330 -> 205 ms).
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from saddlery.matrix import ROOM as ROOM_TO_TURN
from saddlery.solvers.bent_rows import BentRows
from saddlery.solvers.working_block import MAX_GRAM, ColumnProducts, is_array

__all__ = ["GrowingBlock", "grows"]

LEAST = 50_000  # numbers in a block: the matrix of fewer is formed in no time, in double precision
JUMPS = 64  # columns from which on such a block serves where curvature jumps
MOST_NEW = 0.5  # share of new columns from which on a matrix is formed again
FALL = 100.0  # by which steps shall shrink the violation
COLUMNS_A_STEP = 40.0  # columns that make forming the matrix a step dearer
SAME, STRICT = 0.01, 0.1  # shares by which h may have moved in any case, the second where rounds gain little or rows are few
NOTHING = 1e-8  # of the largest root: rows of less may not tell products
RAISED = 2e-6  # of the diagonal: what rounding may have taken from convexity
ROOM, SPARE = 8_000_000, 64  # numbers for which there is room at once; else that of a half more columns, and these

NONE = np.zeros((0, 0))


def grows(problem: Any, entries: int, m: int) -> bool:
    """Whether such a block serves: m columns in memory that are not sparse, and curvature that moves.

    Where it jumps, rows without any are left out (60,000 x 780 pixels, squared hinge at 0.01: 550 -> 330 ms), but few columns are
    better weighted anew.
    """
    loss, matrix = problem.loss, problem.matrix
    if problem.n * m < LEAST or (m < JUMPS and not getattr(loss, "curvature_is_smooth", False)):
        return False
    moves = not getattr(loss, "curvature_is_constant", False)
    return moves and matrix.compiled and problem.penalty.threshold > 0.0 and is_array(problem, entries, m)


class GrowingBlock(ColumnProducts):
    """The columns W of a problem's data, as ``working_block.WorkingBlock`` in Gram form.

    Parameters
    ----------
    problem : LinearProblem
        Whose columns.
    W : array of int
        Which columns.

    Attributes
    ----------
    weights : array of shape (n,)
        The h of which the Gram matrix is made.
    quick : bool
        Whether the scaled columns tell products as well: there are all rows of dense data, and none is scaled to nothing.
    left : float
        Share of the violation that the last step on this matrix left, to be set by the solver: the next will leave as much.
    """

    model = None

    def __init__(self, problem: Any, W: np.ndarray):
        self.matrix, self.n, self.intercept = problem.matrix, problem.n, int(problem.fit_intercept)
        self.W = np.empty(0, dtype=np.int64)
        self.cols: Any = None
        self.at = self.W  # where the columns are in `cols`
        self.rows: BentRows | None = None
        self.scaled = np.empty(0, dtype=np.float32)  # the columns of the Gram matrix, one behind the other
        self.base, self.gram, self.formed, self.factor = NONE, NONE, 0, 1.0
        self.base_weights, self.sampled, self.left = np.zeros(self.n), False, 0.0
        self.weights, self.quick = self.base_weights, False
        self.grow(W)

    def __deepcopy__(self, memo: Any) -> GrowingBlock:
        other = copy.copy(self)  # the data are shared; other arrays are replaced, never changed in place, but for
        other.scaled = self.scaled.copy()
        return other

    @property
    def m(self) -> int:
        """How many columns there are."""
        return len(self.W)

    @property
    def entries(self) -> int:
        """How many numbers they hold."""
        return self.matrix.count_entries(self.W)

    def grow(self, new: np.ndarray) -> None:
        """Hold these columns, too."""
        self.W = np.concatenate([self.W, new])
        if self.matrix.is_sparse and self.matrix.nnz <= ROOM_TO_TURN:
            # Such blocks grow in each round, and to look through all rows so often costs more than to turn them once.
            self.cols, self.at = self.matrix.cols, self.W  # (60,000 x 780 pixels by rows, logistic at 0.01: 315 -> 265 ms)
        else:
            self.cols, self.at = self.matrix.lend(self.W)

    def shrink(self, keep: np.ndarray, gram: bool) -> None:
        """Hold the columns at these places only, with or without their Gram matrix."""
        if not gram or self.formed < self.m:
            self.formed = 0
        else:
            places = np.append(keep, self.m) if self.intercept else keep
            self.base, self.gram = self.base[places[:, None], places], NONE
            self.scaled = self._scaled(self.m)[keep].reshape(-1)
            self.formed = len(keep)
        self.W, self.at = self.W[keep], self.at[keep]

    def quick_product(self, u: np.ndarray) -> np.ndarray:
        """X_W u in single precision, from the scaled columns (400 columns of 5000 rows: 0.9 -> 0.2 ms)."""
        assert self.rows is not None
        return (u.astype(np.float32) @ self._scaled(self.m) / self.rows.roots).astype(np.float64)

    def quick_transposed(self, r: np.ndarray) -> np.ndarray:
        """X_W' r in the same way."""
        assert self.rows is not None
        return (self._scaled(self.m) @ (r.astype(np.float32) / self.rows.roots)).astype(np.float64)

    def update_gram(self, h: np.ndarray, rows: np.ndarray | None = None, strictly: bool = False) -> None:
        """Bring the Gram matrix near enough to the weights h; with `rows`, a mask, from these rows only if there is none."""
        if self.worth_forming(h, self.m, rows is not None, strictly):
            self._form(h, rows)
        elif self.formed < self.m:
            self._append()
        self._fit(h)

    def _fit(self, h: np.ndarray) -> None:
        """Take the multiple of the matrix that is nearest: where curvature falls, it mostly falls everywhere.

        (5000 x 2000, logistic at 0.1: a step leaves 26 % of the violation, not 35.)
        """
        factor = float(h.sum()) / max(float(self.base_weights.sum()), 1e-300)
        if len(self.gram) != len(self.base) or abs(factor - self.factor) > SAME * self.factor:
            self.gram, self.weights, self.factor = factor * self.base, factor * self.base_weights, factor

    def worth_forming(self, h: np.ndarray, m: int, rough: bool = False, strictly: bool = False) -> bool:
        """Whether steps on what is there would cost more, if the block has m columns, or it has too few of them."""
        if (self.sampled and not rough) or m - self.formed > MOST_NEW * m:
            return True
        total = max(float(h.sum()), 1e-300)
        factor = total / max(float(self.base_weights.sum()), 1e-300)
        moved = float(np.abs(h - factor * self.base_weights).sum()) / total
        if moved <= (STRICT if strictly or self.sampled else SAME):
            return False
        left = max(moved, self.left)
        steps = math.log(FALL) / -math.log(left) if left < 1.0 else math.inf
        return strictly or steps > 2.0 + m / COLUMNS_A_STEP

    def _scaled(self, columns: int) -> np.ndarray:
        """The scaled columns as an array."""
        assert self.rows is not None
        return self.scaled[: columns * self.rows.count].reshape(columns, self.rows.count)

    def _room(self) -> np.ndarray:
        """Room for the scaled columns and some more: memory that is not written to costs nothing, but to move there does."""
        most = MAX_GRAM if MAX_GRAM * self.n <= ROOM else self.m + self.m // 2 + SPARE
        return np.empty(max(self.m, most) * self.n, dtype=np.float32)

    def _form(self, h: np.ndarray, sample: np.ndarray | None) -> None:
        self.rows, self.base_weights, self.sampled, self.left = BentRows(h, sample), h, sample is not None, 0.0
        if len(self.scaled) < self.m * self.n:
            self.scaled = self._room()
        roots = self.rows.roots
        self.quick = self.rows.used is None and not self.matrix.is_sparse and roots.min() > NOTHING * roots.max()
        squares, rest = self.rows.scale(self.cols, self.at, self.scaled)
        scaled = self._scaled(self.m)
        self._place(scaled @ scaled.T, 0, squares, rest)

    def _append(self) -> None:
        """Products of the new columns with all, for the weights of the others."""
        assert self.rows is not None
        old, count = self.formed, self.rows.count
        if len(self.scaled) < self.m * count:
            scaled = self._room()
            scaled[: old * count] = self.scaled[: old * count]
            self.scaled = scaled
        squares, rest = self.rows.scale(self.cols, self.at[old:], self.scaled[old * count :])
        self._place(self._scaled(self.m) @ self._scaled(self.m)[old:].T, old, squares, rest)

    def _place(self, products: np.ndarray, old: int, squares: np.ndarray, rest: np.ndarray) -> None:
        """Products of all columns with those from `old` on into the Gram matrix, which has the others."""
        m, size = self.m, self.m + self.intercept
        gram = np.empty((size, size))
        gram[:old, :old] = self.base[:old, :old]
        gram[:m, old:m] = products
        gram[old:m, :old] = products[:old].T
        spots = np.arange(old, m)
        gram[spots, spots] += rest + RAISED * squares
        self.base, self.formed, self.gram = gram, m, NONE
        if self.intercept:
            assert self.rows is not None  # of these alone, as the rest: a border of all rows would not fit where they are a sample
            gram[m, :m] = gram[:m, m] = self._scaled(m) @ self.rows.roots
            gram[m, m] = self.rows.total
