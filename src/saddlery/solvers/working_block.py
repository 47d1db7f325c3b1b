"""Compact copies of the columns that a working set names, and the weighted Gram matrix on them.

A block has one of three shapes, whichever is cheapest to work on:

* *rows*: sparse rows restricted to W, for Gram matrices of sparse data;
* *cols*: columns, for sweeps over them; dense ones are swept over in a rounded copy (scaled_columns.py);
* *array*: a dense array, for Gram matrices of dense data and of sparse data whose chosen columns are not sparse: there BLAS is
  faster; and for sweeps, where dense data have only rows at hand.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg.blas

from saddlery.kept import kept
from saddlery.matrix.vectors import combine, combine_of, dots, dots_of, square_norms_of
from saddlery.parts import kernel
from saddlery.solvers.column_copies import dense_columns, sparse_rows, spread
from saddlery.solvers.scaled_columns import DenseCopies

__all__ = [
    "COPY",
    "LOOSE",
    "MAX_GRAM",
    "ColumnProducts",
    "WorkingBlock",
    "add_gram",
    "correlates",
    "gram_is_cheaper",
    "is_array",
    "mirror",
    "sweeps_expected",
]

MAX_GRAM = 500  # columns: sweeping over a larger Gram matrix costs more than sweeping over sparse data
MOST_GRAM = 2500  # columns, where sweeps crawl
CORRELATED = (
    10.0  # alignment of dense columns from which on they do (1 if entries have random signs, 222 on isolet, 31 with 20 factors)
)
NOT_SPARSE = 0.25  # share of non-zeros from which on columns are worked on as a dense array
DENSE_ROOM = 32_000_000  # numbers in such an array, or two fifths of the non-zeros of X if that is more
SINGLE_FROM = 30_000_000  # products: Gram matrices of arrays that take more are computed in single precision
WORTH_SWEEPS = 2e6  # multiply-adds of a Gram matrix above which sparse columns are swept over first
COPY, SWEEP = 10.0, 2.1  # multiply-adds: what it takes to copy an entry by rows, and to sweep over one of a sparse column
SWEEP_DENSE, COPY_DENSE = 0.25, 5.0  # or of a dense column in 16 bits, the copy included; and to copy and weight it in full
LOOSE = 0.1  # rows whose weight moved by less than this share are left alone in the Gram matrix


# --------------------------------------------------------------------------- kernels


@kernel(fast_sums=True)
def add_gram(rows, weights, gram):
    """gram += sum_i weights_i x_i x_i', lower triangle, for rows with a weight that is not zero."""
    for i in range(weights.shape[0]):
        if weights[i] != 0.0:
            first = rows.first(i)
            for p in range(first, rows.last(i)):
                scaled = weights[i] * rows.entry(p)
                k = rows.position(i, p)
                for q in range(first, p + 1):
                    gram[k, rows.position(i, q)] += scaled * rows.entry(q)


@kernel(fast_sums=True)
def add_diagonal(rows, h, out):
    """out_j += sum_i h_i x_ij^2, from rows."""
    for i in range(h.shape[0]):
        for p in range(rows.first(i), rows.last(i)):
            value = 1.0 * rows.entry(p)
            out[rows.position(i, p)] += h[i] * value * value


@kernel
def mirror(rows, gram, size):
    """Copy the lower triangle of the first `size` rows and columns to the upper one."""
    for k in range(size):
        for j in range(k):
            gram[j, k] = gram[k, j]


# --------------------------------------------------------------------------- the choice


def gram_is_cheaper(problem: Any, entries: int, m: int, swept: float, epochs: int = 0, crawls: bool = False) -> bool:
    """Whether forming the Gram matrix costs less than sweeping over the columns will, or than it has cost already.

    Costs are in units of one multiply-add on data in cache (0.7 ns). How many sweeps a problem needs is not known before, so a
    typical number is assumed; when more were paid for in vain, the Gram matrix is formed after all: at most twice the best choice.
    Few sweeps suffice for sparse columns, which are nearly orthogonal (20,000 x 50,000 lasso at 0.01: 64 -> 46 ms). Along a path
    the `epochs` of earlier models tell (20 such lassos: 220 -> 160 ms; on news20 that Gram matrices are better).

    Where columns correlate and their number comes near that of rows, sweeps `crawl` and exact solves on the support must help
    (1000 x 3000 with correlations of 0.3, lasso at 0.01: never -> 0.3 s): these are paid for by sweeps in vain, too. Where dense
    columns have much in common that is known before (isolet, lasso at 0.01: 136 -> 43 ms).
    """
    alike = correlates(problem)
    if m > (MOST_GRAM if crawls or alike else MAX_GRAM):
        return False
    if is_array(problem, entries, m):
        form = problem.n * m * m / 48.0 + (COPY_DENSE * entries if swept_in_few_bits(problem) else 0.0)
    else:
        form = 0.78 * entries * (entries / problem.n) * (3.0 if m > 400 else 1.0)
    expected = sweeps_expected(problem, form, epochs) * entries if m <= MAX_GRAM or alike else 0.0
    return form + 5.0 * m * m + m**3 / 50.0 <= max(expected, swept)


def sweeps_expected(problem: Any, form: float, epochs: int) -> float:
    """What sweeps will cost for each entry, where forming the Gram matrix costs `form`."""
    if problem.d <= problem.n / 4:
        return 200.0  # tall data correlate more, and sweeps go over more rows
    if problem.matrix.is_sparse and epochs > 0:
        return SWEEP * (epochs + 1) * (1.0 if getattr(problem.loss, "curvature_is_constant", False) else 2.0) - COPY
    if form <= WORTH_SWEEPS:
        return 60.0
    if problem.matrix.is_sparse:
        return 12.0
    return 12.0 * SWEEP_DENSE if swept_in_few_bits(problem) and not correlates(problem) else 60.0


def correlates(problem: Any) -> bool:
    """Whether dense columns have so much in common that sweeps over them crawl."""
    return not problem.matrix.is_sparse and problem.matrix.compiled and problem.matrix.alignment >= CORRELATED


def swept_in_few_bits(problem: Any) -> bool:
    """Whether one rounded copy of columns serves all sweeps over them."""
    return not problem.matrix.is_sparse and getattr(problem.loss, "curvature_is_constant", False)


def is_array(problem: Any, entries: int, m: int) -> bool:
    """Whether a block of these columns in Gram form is a dense array."""
    if not problem.matrix.is_sparse:
        return True
    numbers = problem.n * m
    return entries > NOT_SPARSE * numbers and numbers <= max(DENSE_ROOM, 0.4 * problem.matrix.nnz)


# --------------------------------------------------------------------------- the block


class ColumnProducts:
    """Products with the columns that a stack `cols` holds at the places `at`: for blocks in Gram form."""

    gram_form = True
    array = None
    n: int
    cols: Any
    at: np.ndarray

    def product(self, u: np.ndarray) -> np.ndarray:
        """X_W u."""
        out = np.zeros(self.n)
        combine_of(self.cols, self.at, u, out)
        return out

    def transposed(self, r: np.ndarray) -> np.ndarray:
        """X_W' r."""
        out = np.empty(len(self.at))
        dots_of(self.cols, self.at, r, out)
        return out


class WorkingBlock:
    """The columns W of a problem's data; see the top of the file.

    Parameters
    ----------
    problem : LinearProblem
        Whose columns.
    W : array of int
        Which columns, in ascending order.
    gram_form : bool
        Whether a Gram matrix is wanted, or columns to sweep over.
    exact : bool
        Whether one step on the Gram matrix shall be the solution, so that it must not be rounded.
    copies : DenseCopies, optional
        Of all columns of the data, for those of this block to be looked for and added.
    """

    def __init__(self, problem: Any, W: np.ndarray, gram_form: bool, exact: bool = False, copies: DenseCopies | None = None):
        matrix = problem.matrix
        self.W, self.m, self.n, self.gram_form = W, len(W), problem.n, gram_form
        self.at, self.slab = W, problem.n  # where the columns are in `cols`; how many rows are weighted at a time
        self.intercept = int(problem.fit_intercept)
        self.exact, self.s = exact, problem.s
        self.entries = matrix.count_entries(W) if self.m < problem.d else matrix.nnz
        self.array: Any = None  # shape (m, n), in either order
        self.rows: Any = None
        self.cols: Any = None  # a stack that holds the columns, or None if products go over rows
        self._room: tuple[Any, ...] = ()
        self.model: Any = None  # the scaled columns of the last model in residual form, where they may serve on
        self.sweeps = math.inf  # over the columns of that model
        self.rate = 1.0  # by which each of them shortened the next
        if gram_form and is_array(problem, self.entries, self.m):
            self.array = spread(matrix, W) if matrix.is_sparse else dense_columns(matrix, W)
        elif gram_form:
            self.cols = matrix.cols if matrix.by_columns else None  # for products; rows are for the Gram matrix only
            self.rows = sparse_rows(matrix, W, self.entries)
        elif self.m == problem.d and swept_in_few_bits(problem) and not matrix.has("cols"):  # each column is read once
            self.array = dense_columns(matrix, W)
        else:
            self.cols, self.at = matrix.lend(W)
            if matrix.is_sparse and "col_square_norms" in vars(matrix):  # as they are once columns were screened
                vars(self)["square_norms"] = matrix.col_square_norms[W]
        self.dense = not matrix.is_sparse
        # Copies of dense columns for sweeps, and their places there: of those of this block, or of all as the owner wishes.
        self.copies = DenseCopies(self.n, self.m) if copies is None else copies
        self.places: np.ndarray = np.arange(self.m) if copies is None else W
        self.gram = np.zeros((0, 0))
        self.weights = np.zeros(self.n)
        self.sampled = False

    @kept
    def square_norms(self) -> np.ndarray:
        """||x^j||^2 of the columns, where `cols` holds them."""
        out = np.empty(self.m)
        square_norms_of(self.cols, self.at, out)
        return out

    def room(self, entries: int, kind: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Room for a copy of sparse columns, the same each time: values, positions and starts."""
        if not self._room:
            self._room = (np.empty(entries, dtype=kind), np.empty(entries, dtype=np.int32), np.empty(self.m + 1, dtype=np.int64))
        return self._room

    def product(self, u: np.ndarray) -> np.ndarray:
        """X_W u."""
        if self.array is not None:
            return u @ self.array
        out = np.zeros(self.n)
        if self.cols is not None:
            combine_of(self.cols, self.at, u, out)
        else:
            dots(self.rows, u, out)
        return out

    def transposed(self, r: np.ndarray) -> np.ndarray:
        """X_W' r."""
        if self.array is not None:
            return self.array @ r
        out = np.zeros(self.m)
        if self.cols is not None:
            dots_of(self.cols, self.at, r, out)
        else:
            combine(self.rows, r, out)
        return out

    def update_gram(self, h: np.ndarray, rows: np.ndarray | None = None, strictly: bool = False) -> None:
        """Bring the Gram matrix near the weights h.

        With `rows`, a mask of a part of the rows, from these only (their weights raised, the diagonal exact): a rough model for
        steps that will be replaced anyway. Otherwise from all rows, and exactly if `strictly`; if not, rows are left alone whose
        weight moved by less than a tenth of itself, or of that of a row of mean curvature, since they were last added.
        """
        if rows is not None:
            raised = np.where(rows, h * (len(h) / max(int(np.count_nonzero(rows)), 1)), 0.0)
            self._set(raised)
            self._set_border(raised)  # which must fit the rest
            self._set_diagonal(h)
            self.weights, self.sampled = h, True
            return
        if self.gram.shape[0] == 0 or self.sampled:
            self._set(h)
            self.weights, self.sampled = h, False
        else:
            change = h - self.weights
            if not strictly:
                change[np.abs(change) <= LOOSE * np.maximum(self.weights, self.s * h.sum())] = 0.0
            moved = np.count_nonzero(change)
            if moved == 0:
                return
            self.weights = self.weights + change
            if self.array is not None and 3 * moved > self.n:
                self._set(self.weights)
            else:
                self._add(change)
        self._set_border(self.weights)

    def _set_border(self, weights: np.ndarray) -> None:
        """The row and column of the intercept."""
        if self.intercept:
            m = self.m
            self.gram[m, :m] = self.gram[:m, m] = self.transposed(weights)
            self.gram[m, m] = weights.sum()

    def _set(self, weights: np.ndarray) -> None:
        """gram = X_W' diag(weights) X_W, with room for the intercept."""
        m, size = self.m, self.m + self.intercept
        if self.array is None or self.slab < self.n:
            self.gram = np.zeros((size, size))
            self._add(weights)
            return
        product = self._array_gram(self.array, weights)
        self.gram = np.empty((size, size)) if self.intercept else product
        if self.intercept:  # whose row and column follow
            self.gram[:m, :m] = product

    def _add(self, weights: np.ndarray) -> None:
        """gram += X_W' diag(weights) X_W."""
        if self.array is None:
            add_gram(self.rows, weights, self.gram)
            mirror(self.rows, self.gram, self.m)
            return
        for first in range(0, self.n, self.slab):
            part = slice(first, first + self.slab)
            self.gram[: self.m, : self.m] += self._array_gram(self.array[:, part], weights[part])

    def _array_gram(self, array: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """array diag(weights) array'."""
        if 2 * np.count_nonzero(weights) <= len(weights):
            used = np.flatnonzero(weights)
            array, weights = array[:, used], weights[used]
        if weights.min(initial=0.0) < 0.0:
            return (array * weights) @ array.T
        if self.m * array.size < SINGLE_FROM or self.exact:
            scaled = array * np.sqrt(weights)
            return scaled @ scaled.T  # a product with itself: BLAS computes one half
        return _single_gram(array, weights)

    def _set_diagonal(self, h: np.ndarray) -> None:
        """The exact diagonal, if that is larger: no step is then longer than the exact model would allow along one coordinate."""
        exact = np.zeros(self.m)
        if self.array is None:
            add_diagonal(self.rows, h, exact)
        else:
            exact = np.square(self.array) @ h
        spots = np.arange(self.m)
        self.gram[spots, spots] = np.maximum(self.gram[spots, spots], exact)


def _single_gram(array: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """X_W' diag(weights) X_W in single precision; the diagonal is raised by what rounding may have taken from convexity."""
    scaled = (array * np.sqrt(weights)).astype(np.float32, copy=False)
    if scaled.flags.c_contiguous:
        upper = scipy.linalg.blas.ssyrk(1.0, scaled.T, trans=1)
    else:
        upper = scipy.linalg.blas.ssyrk(1.0, np.asfortranarray(scaled))
    gram = np.triu(upper).astype(np.float64)
    diagonal = gram.diagonal().copy()
    gram += gram.T
    np.fill_diagonal(gram, diagonal * (1.0 + 2e-6))
    return gram
