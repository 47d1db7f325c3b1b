"""Data matrices: normalised once at the border, then read as stacks of rows or of columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from saddlery.errors import InputError
from saddlery.kept import kept
from saddlery.matrix import relations
from saddlery.matrix.held_columns import LOCK, HeldColumns
from saddlery.matrix.vectors import (
    DenseVectors,
    SparseVectors,
    add_two,
    add_weighted_squares,
    add_with_squares,
    combine,
    combine_few,
    combine_of,
    count_positions,
    disorder,
    dots,
    dots_of,
    filter_vectors,
    leave_out_zeros,
    scatter,
    square_norms,
    take_vectors,
    transpose_tiles,
    weighted_square_norms,
)

__all__ = [
    "ROOM",
    "Matrix",
    "SparseVectors",
    "as_matrix",
    "count_nonzero",
    "dense_stack",
    "filtered",
    "room_like",
    "sparse_stack",
    "turned",
]

SHORT = 24  # entries: loops over shorter rows spend their time on beginning and ending
ROOM = 30_000_000  # entries: larger data are not copied for the sake of speed alone
SPARSE_SIZE, SPARSE_SHARE = 5000, 25  # a factor of so many numbers is looked at: less than 1 in 25 not zero makes it sparse,
SPARSE_HELD = 10  # or 1 in 10 where the vectors of sparse data that this takes are there (mnist: 45 -> 12 ms)
SCAN = 5.0  # entries of sparse rows that are passed over in the time that it takes to copy one
NEAR = 0.08  # share of dense columns: so many are copied from rows in the time that a product with all takes
# Share of the entries that is copied on suspicion: it spares a look through all rows (20,000 x 50,000, lasso at 0.1: 17 -> 15 ms).
FORESEEN = 0.08
WORTH_LEAVING, MANY, MOSTLY = 200_000, 128, 0.75  # entries, columns and share of zeros of dense data that are better off sparse
TILED = 200_000  # entries: larger arrays are transposed in tiles (5000 x 2000: 51 -> 22 ms), smaller ones need no kernel for it
WIDE = 256  # columns of C-ordered arrays whose squares are summed in the time that it takes to read them
COPIED = 512  # rows or columns of float32 data that are copied at a time for a product with several vectors
Vectors = DenseVectors | SparseVectors


class Matrix:
    """The data X (n rows, d columns): two stacks of vectors over the same numbers.

    `rows` and `cols` are made when first asked for and kept: what arrives in CSR or C order has its rows for free and
    pays one conversion for its columns; CSC and F order the other way round. Make one with :func:`as_matrix`.

    Parameters
    ----------
    values : ndarray or CSR or CSC matrix
        Normalised data: float32 or float64, finite, sparse indices sorted and without duplicates.
    """

    compiled = True  # whether kernels may loop over all of it; see matrix/partial.py
    gathered = 0.0  # what it took to copy columns from rows so far, in entries

    def __init__(self, values: Any):
        self.values = values
        self.shape: tuple[int, int] = values.shape
        self.is_sparse: bool = sp.issparse(values)
        self.nnz: int = int(values.nnz if self.is_sparse else values.size)

    def __repr__(self) -> str:
        kind = self.values.format.upper() if self.is_sparse else "dense"
        return f"Matrix({self.shape[0]} x {self.shape[1]}, {kind}, {self.values.dtype}, {self.nnz} entries)"

    @kept
    def csr(self) -> Any:
        """Sparse X by rows, as SciPy has it."""
        return self.values if self.values.format == "csr" else _as_scipy(self.rows, sp.csr_array)

    @kept
    def csc(self) -> Any:
        """Sparse X by columns, as SciPy has it."""
        return self.values if self.values.format == "csc" else _as_scipy(self.cols, sp.csc_array)

    @kept
    def rows(self) -> Vectors:
        """X as a stack of rows."""
        if not self.is_sparse:
            return dense_stack(self.values)
        if self.values.format == "csr":
            return sparse_stack(self.values)
        counts = np.zeros(self.shape[0], dtype=np.int64)
        count_positions(self.cols, counts)
        return turned(self.cols, counts)

    @kept
    def single_rows(self) -> Vectors:
        """The rows in single precision; indices are shared. All classes and strengths of a fit read the same copy."""
        if not self.is_sparse:
            return dense_stack(np.ascontiguousarray(self.values, dtype=np.float32))
        rows: Any = self.rows
        return rows._replace(values=rows.values.astype(np.float32))

    @kept
    def cols(self) -> Vectors:
        """X as a stack of columns."""
        if self.is_sparse:
            return sparse_stack(self.values) if self.values.format == "csc" else turned(self.rows, self.col_counts)
        if self.nnz < TILED or self.values.flags.f_contiguous:
            return dense_stack(self.values.T)
        values = np.empty(self.nnz, dtype=self.values.dtype)
        transpose_tiles(self.rows, self.shape[0], values)
        return DenseVectors(values, self.shape[0])

    def lean(self) -> Matrix:
        """Dense data that are mostly zeros as sparse ones; all others as they are. For who reads whole rows again and again.

        (10,000 x 780 digits as an array, l2 of 1 / n: hinge 3.0 -> 0.28 s, squared hinge 570 -> 371 ms; the copy takes 26.)
        """
        worth = not self.is_sparse and self.compiled and WORTH_LEAVING <= self.nnz <= ROOM and self.shape[1] >= MANY
        return self._sparse if worth and self._zeros >= MOSTLY else self

    @kept
    def _zeros(self) -> float:
        """The share of zeros of dense data, in some rows."""
        return relations.share_of_zeros(self.values)

    @kept
    def _sparse(self) -> Matrix:
        room = np.count_nonzero(self.values) + 1
        values, indices = np.empty(room, dtype=self.values.dtype), np.empty(room, dtype=np.int32)
        starts = np.empty(self.shape[0] + 1, dtype=np.int64)
        leave_out_zeros(self.rows, values, indices, starts)
        return Matrix(_as_scipy(SparseVectors(values[:-1], indices[:-1], starts, self.shape[1]), sp.csr_array))

    @kept
    def held(self) -> HeldColumns:
        """Columns that were copied from rows, for :meth:`lend`."""
        return HeldColumns(self.rows, self.shape[1])

    @kept
    def col_counts(self) -> np.ndarray:
        """Number of stored entries of every column."""
        if not self.is_sparse:
            return np.full(self.shape[1], self.shape[0])
        if isinstance(known := self.__dict__.get("cols"), SparseVectors):
            return np.diff(known.starts)
        if self.values.format == "csr":
            out = np.zeros(self.shape[1], dtype=np.int64)
            count_positions(self.rows, out)  # (mnist: 17 -> 3 ms of np.bincount)
            return out
        return np.diff(self.values.indptr)

    def count_entries(self, columns: np.ndarray) -> int:
        """Number of stored entries of some columns."""
        return int(self.col_counts[columns].sum()) if self.is_sparse else len(columns) * self.shape[0]

    def has(self, stack: str) -> bool:
        """Whether a stack is there already or costs nothing to make."""
        if stack in self.__dict__:
            return True
        natural = "rows" if (self.values.format == "csr" if self.is_sparse else self.values.flags.c_contiguous) else "cols"
        return stack == natural

    def lend(self, columns: np.ndarray) -> tuple[Vectors, np.ndarray]:
        """A stack that holds these columns, and where they are in it.

        Who has rows copies what was not asked for before (matrix/held_columns.py). All columns are made once most are missing, or
        as much was spent on copying: at most twice the best choice. Large data are never copied as a whole unless most of it is
        asked for at once, and then keep no more than that.
        """
        if self.has("cols"):
            return self.cols, columns
        with LOCK:
            missing = self.held.missing(columns)
            if len(missing) and self._turns(self.count_entries(missing)):
                _ = self.cols
                del self.held
                return self.cols, columns
            if len(missing):
                if self.nnz > ROOM:
                    self.held.clear()
                    missing = columns
                self.held.hold(missing, self.col_counts)
            return self.held.lend(columns)

    def _lent_before(self, columns: np.ndarray) -> tuple[Vectors, np.ndarray] | None:
        """As :meth:`lend`, if nothing must be copied for it."""
        with LOCK:
            return None if len(self.held.missing(columns)) else self.held.lend(columns)

    def foresee(self, columns: np.ndarray, likely: np.ndarray) -> None:
        """Copy these columns together with others that are likely to be asked for next, if any must be copied and these are few."""
        if self.has("cols") or self.nnz > ROOM or len(self.held.missing(columns)) == 0:
            return
        likely = self.held.missing(likely)
        if self.count_entries(likely) <= FORESEEN * self.nnz:
            self.lend(np.union1d(columns, likely))

    def _turns(self, entries: int) -> bool:
        """Whether all columns are made, now that some with so many entries are missing; each "no" is counted as a copy of these."""
        if 2 * entries >= self.nnz:
            return True
        self.gathered += entries + (self.nnz / SCAN if self.is_sparse else 0.0)
        return self.gathered >= self.nnz and self.nnz <= ROOM

    def is_near(self, columns: np.ndarray) -> bool:
        """Whether products with these columns cost less than a product with all rows does."""
        if self.has("cols"):
            return True
        if "held" not in self.__dict__:
            return False
        missing = self.count_entries(self.held.missing(columns))
        if self.is_sparse:  # to find them costs as much as the product
            return missing == 0
        return missing == 0 or (missing <= NEAR * self.nnz and self.nnz <= ROOM)

    @property
    def _blas(self) -> bool:
        """Whether NumPy multiplies at once; float32 it would first copy as float64, so our loops serve there."""
        return not self.is_sparse and self.values.dtype == np.float64

    def matvec(self, w: np.ndarray) -> np.ndarray:
        """X w, in float64; w is (d,), or (d, k) and then possibly sparse."""
        if w.ndim == 2:
            return self._times(w, transposed=False)
        few: Any = self._are_few(int(np.count_nonzero(w)))
        out = np.zeros(self.shape[0])
        if few and "held" in self.__dict__ and (lent := self._lent_before(used := np.flatnonzero(w))) is not None:
            combine_of(*lent, w[used], out)  # (20,000 x 50,000, 326 columns: 1.8 -> 0.6 ms)
            return out
        few = few and self.has("cols")
        if self._blas and not few:
            return self.values @ w
        if self.by_columns or few or not self.has("rows"):
            combine(self.cols, w, out)
        else:
            dots(self.rows, w, out)
        return out

    def _are_few(self, weights: int) -> bool:
        """Whether so many weights are few among the columns, and among those that have entries (rcv1, 1000 rows: 230 -> 50 us)."""
        if self.is_sparse and self.has("cols"):
            return 4 * weights < self.used_columns
        return 4 * weights < self.shape[1]

    @kept
    def used_columns(self) -> int:
        """The number of columns of sparse data that have entries."""
        starts = self.cols.starts  # type: ignore[union-attr]
        return int(np.count_nonzero(starts[1:] != starts[:-1]))

    def rmatvec(self, a: np.ndarray) -> np.ndarray:
        """X' a, in float64; a is (n,) or (n, k)."""
        if a.ndim == 2:
            return self._times(a, transposed=True)
        if self._blas:
            return self.values.T @ a
        out = np.zeros(self.shape[1])
        if self.by_columns or not self.has("rows"):
            dots(self.cols, a, out)
        else:
            combine(self.rows, a, out)
        return out

    @property
    def _reads_rows(self) -> bool:
        """Whether X'a is summed over sparse rows, so that a second sum on the way costs little."""
        return self.is_sparse and self.has("rows") and not self.by_columns

    def rmatvec_with_norms(self, a: np.ndarray) -> np.ndarray:
        """X' a; if rows are read, the norms of columns are known afterwards, too."""
        if not self._reads_rows or "col_square_norms" in self.__dict__:
            return self.rmatvec(a)
        both = np.zeros((self.shape[1], 2))
        add_with_squares(self.rows, a, both)
        self.__dict__["col_square_norms"] = both[:, 1].copy()
        return both[:, 0].copy()

    def rmatvec_of_two(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """X' a and X' b, in one pass where that is cheaper."""
        if not self._reads_rows:
            return self.rmatvec(a), self.rmatvec(b)
        both = np.zeros((self.shape[1], 2))
        add_two(self.rows, a, b, both)
        return both[:, 0].copy(), both[:, 1].copy()

    def _times(self, w: Any, transposed: bool) -> np.ndarray:
        """X w or X' w for several vectors: by BLAS or SciPy, or if most entries of w are zero, one vector of X for each."""
        values = self.values.T if transposed else self.values
        side = "rows" if transposed else "cols"
        share = SPARSE_HELD if self.is_sparse and self.has(side) else SPARSE_SHARE
        few = w.size >= SPARSE_SIZE and not sp.issparse(w) and np.count_nonzero(w) < w.size // share
        if few and (self.has(side) or self.nnz <= ROOM):
            out = np.zeros((w.shape[1], values.shape[0]))
            combine_few(self.rows if transposed else self.cols, np.ascontiguousarray(w), out)
            return np.ascontiguousarray(out.T)
        if self._blas:
            return values @ w
        if self.is_sparse:
            product = values @ w
            return product.toarray() if sp.issparse(product) else product
        out = np.zeros((values.shape[0], w.shape[1]))
        for first in range(0, values.shape[1], COPIED):  # a copy in float64 of some columns, not of all data
            block = slice(first, first + COPIED)
            out += values[:, block].astype(np.float64) @ w[block]
        return out

    @kept
    def by_columns(self) -> bool:
        """Whether products go over columns: rows are short, columns are not (w8a, X'a: 0.97 -> 0.38 ms; the conversion takes 2)."""
        n, d = self.shape
        return self.is_sparse and self.nnz < SHORT * n and d < n and self.nnz <= ROOM

    @kept
    def alignment(self) -> float:
        """How far columns correlate; see :func:`saddlery.matrix.relations.alignment`."""
        return relations.alignment(self)

    @kept
    def overlap(self) -> float:
        """How far rows of dense data are in each other's way; see :func:`saddlery.matrix.relations.overlap`."""
        return relations.overlap(self)

    @kept
    def row_square_norms(self) -> np.ndarray:
        """||x_i||^2 for every row."""
        out = np.zeros(self.shape[0])
        square_norms(self.rows, out)
        return out

    @kept
    def col_square_norms(self) -> np.ndarray:
        """||x^j||^2 for every column."""
        out = np.zeros(self.shape[1])
        if self.has("cols"):
            square_norms(self.cols, out)
        else:
            add_weighted_squares(self.rows, np.ones(self.shape[0]), out)
        return out

    def products_of(self, columns: np.ndarray, a: np.ndarray) -> np.ndarray:
        """x^j . a for some columns j."""
        out = np.empty(len(columns))
        stack, at = self.lend(columns)
        dots_of(stack, at, a, out)
        return out

    def weighted_col_square_norms(self, weights: np.ndarray) -> np.ndarray:
        """sum_i weights_i x_ij^2 for every column."""
        out = np.zeros(self.shape[1])
        if self.has("cols"):
            weighted_square_norms(self.cols, weights, out)
        else:
            add_weighted_squares(self.rows, weights, out)
        return out

    def left_product(self, weights: Any) -> np.ndarray:
        """weights X for sparse weights of shape (k, n)."""
        product = weights @ self.values
        return np.asarray(product.toarray() if self.is_sparse else product, dtype=np.float64)

    def row_parts(self, rng: np.random.Generator | None = None) -> Iterator[tuple[slice, Matrix]]:
        """All rows, some at a time, for loops that serve larger data too (matrix/partial.py): here one part, which is all."""
        yield slice(0, self.shape[0]), self

    def col_parts(self, rng: np.random.Generator | None = None) -> Iterator[tuple[slice, Matrix]]:
        """All columns, some at a time: here one part, which is all."""
        yield slice(0, self.shape[1]), self

    def take_rows(self, index: np.ndarray, with_columns: bool = True) -> Matrix:
        """The rows of `index` as a matrix of their own; if asked for, most of them by columns, too, where those are at hand."""
        if not self.is_sparse:
            return Matrix(np.ascontiguousarray(self.values.take(index, axis=0)))
        ascending = bool((np.diff(index) > 0).all())
        if ascending and not self.has("rows"):  # (ijcnn1 by columns, 5 % of the rows: 3.2 -> 0.9 ms)
            return _from_columns(filtered(self.cols, index, self.nnz))
        whole: Any = self.rows
        rows = room_like(whole, int((whole.starts[index + 1] - whole.starts[index]).sum()), len(index), self.shape[1])
        take_vectors(whole, index, *rows[:3])  # without SciPy's checks
        out = Matrix(_as_scipy(rows, sp.csr_array))
        out.__dict__["rows"] = rows
        if with_columns and "cols" in self.__dict__ and 2 * len(index) > self.shape[0] and ascending:
            out.__dict__["cols"] = filtered(self.cols, index, out.nnz)
        return out

    def product_on(self, columns: np.ndarray, W: np.ndarray) -> np.ndarray:
        """X W for weights of a few columns only, of shape (len(columns), k)."""
        if not self.is_sparse:
            return self.values[:, columns] @ W
        part = filtered(self.rows, columns, self.count_entries(columns))
        return sp.csr_array((part.values, part.indices, part.starts), shape=(self.shape[0], len(columns))) @ W

    def take_cols(self, index: np.ndarray) -> Matrix:
        """The columns of `index` as a matrix of their own, whose stack of columns is free."""
        return Matrix(self.csc[:, index] if self.is_sparse else np.asfortranarray(self.values[:, index]))


def room_like(like: Any, entries: int, count: int, length: int) -> SparseVectors:
    """Room for `count` sparse vectors of that length, of the kind of others; their starts are 0."""
    values, indices = np.empty(entries, dtype=like.values.dtype), np.empty(entries, dtype=like.indices.dtype)
    return SparseVectors(values, indices, np.zeros(count + 1, dtype=np.int64), length)


def turned(stack: Any, counts: np.ndarray) -> SparseVectors:
    """A sparse stack read the other way, where `counts` are the entries at each position (ijcnn1: 2.5 -> 1.0 ms of SciPy's)."""
    entries = len(stack.values)
    out = room_like(stack, entries, len(counts), len(stack.starts) - 1)
    np.cumsum(counts, out=out.starts[1:])
    # Half the room for where to write next, and half the misses (20,000 x 50,000, 2 million entries: 14.9 -> 13.0 ms).
    scatter(stack, out.starts[:-1].astype(np.int32 if entries < 2**31 else np.int64), out.values, out.indices)
    return out


def _as_scipy(vectors: Any, kind: Any) -> Any:
    """Rows (`kind` is sp.csr_array) or columns (sp.csc_array) with sorted positions as SciPy has them."""
    shape = (len(vectors.starts) - 1, vectors.length)
    out = kind(shape if kind is sp.csr_array else shape[::-1], dtype=vectors.values.dtype)
    short = len(vectors.values) <= np.iinfo(vectors.indices.dtype).max
    starts = vectors.starts.astype(vectors.indices.dtype) if short else vectors.starts
    out.data, out.indices, out.indptr = vectors.values, vectors.indices, starts
    out.has_sorted_indices = out.has_canonical_format = True
    return out


def _from_columns(cols: SparseVectors) -> Matrix:
    """The matrix of sparse columns, in as much memory as they need."""
    entries = int(cols.starts[-1])
    cols = cols._replace(values=cols.values[:entries].copy(), indices=cols.indices[:entries].copy())
    out = Matrix(_as_scipy(cols, sp.csc_array))
    out.__dict__["cols"] = cols
    return out


def filtered(vectors: Any, index: np.ndarray, entries: int) -> SparseVectors:
    """Sparse vectors restricted to some positions, in ascending order (news20 by columns, four fifths of the rows: 8 -> 2.2 ms)."""
    place = np.full(vectors.length, -1, dtype=vectors.indices.dtype)
    place[index] = np.arange(len(index), dtype=place.dtype)
    room = room_like(vectors, entries + 1, len(vectors.starts) - 1, len(index))
    filter_vectors(vectors, place, *room[:3])
    return room._replace(values=room.values[:-1], indices=room.indices[:-1])


def count_nonzero(values: Any) -> int:
    """The number of entries that are not zero, of an array or of a sparse one.

    Examples
    --------
    >>> count_nonzero(sp.csr_array([[0.0, 2.0]]))
    1
    """
    return int(values.count_nonzero() if sp.issparse(values) else np.count_nonzero(values))


def dense_stack(values: np.ndarray) -> DenseVectors:
    """The rows of an array as a stack; copied only if they are not contiguous."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return DenseVectors(flat, values.shape[1])


def sparse_stack(values: Any) -> SparseVectors:
    """The rows of a CSR or the columns of a CSC matrix as a stack."""
    length = values.shape[1] if values.format == "csr" else values.shape[0]
    # Row pointers are always int64 and indices int32 (where they fit): one compiled variant instead of four.
    kind = np.int32 if max(values.shape) < 2**31 else np.int64
    starts = values.indptr.astype(np.int64)
    data, indices = values.data[: starts[-1]], values.indices[: starts[-1]]  # SciPy allows room behind the last entry
    return SparseVectors(data, indices.astype(kind, copy=False), starts, int(length))


def as_matrix(X: Any) -> Matrix:
    """Normalise data: finite float32 or float64, CSR, CSC or a contiguous array, sorted, no duplicates.

    Parameters
    ----------
    X : array-like, sparse matrix, Matrix or features on demand
        The data, n rows and d columns. Nothing is copied that is in shape already. A store (:func:`saddlery.open_store`) is a
        Matrix. An object with `shape`, `row(i)` and `column(j)` is asked for its rows and columns as they are needed
        (:class:`~saddlery.matrix.fetched.FeaturesOnDemand`).

    Returns
    -------
    Matrix

    Examples
    --------
    >>> as_matrix([[1, 2], [3, 4]])
    Matrix(2 x 2, dense, float64, 4 entries)
    """
    if isinstance(X, Matrix):
        return X
    if callable(getattr(X, "row", None)) and callable(getattr(X, "column", None)):
        from saddlery.matrix.fetched import FetchedMatrix  # it stands on this file

        return FetchedMatrix(X)
    values = _as_sparse(X) if sp.issparse(X) else _as_dense(X)
    if values.shape[0] == 0 or values.shape[1] == 0:
        raise InputError(f"X has shape {values.shape}: give at least one row and one column")
    known = {}
    if sp.issparse(values):
        values, stack = _in_order(values)
        known["rows" if values.format == "csr" else "cols"] = stack
    matrix = Matrix(values)
    matrix.__dict__.update(known)
    if not matrix.is_sparse and matrix.nnz >= TILED and (matrix.shape[1] >= WIDE or values.flags.f_contiguous):
        squares = matrix.col_square_norms  # which say it, too, and will be asked for (5000 x 2000: 6.5 -> 3.8 ms for both)
        finite = bool(np.isfinite(squares).all()) or bool(np.isfinite(values).all())
    else:
        # Squares may be too large, of float32 soon; a sum costs twice as much on small data (8192 x 12: 28 -> 12 us).
        data: Any = values.data if matrix.is_sparse else values.reshape(-1, order="A")
        with np.errstate(over="ignore", invalid="ignore"):
            finite = math.isfinite(data.dot(data)) or bool(np.isfinite(data).all())
    if not finite:
        _name_non_finite(values)
    return matrix


def _as_sparse(X: Any) -> Any:
    if X.ndim != 2:
        raise InputError(f"X must have two dimensions (rows and columns), not {X.ndim}")
    if X.dtype.kind == "c":
        raise InputError("X holds complex numbers: give real ones")
    values = X if X.format in ("csr", "csc") else X.tocsr()
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    return values


def _in_order(values: Any) -> tuple[Any, SparseVectors]:
    """Sparse data with sorted indices and no duplicates, and their stack."""
    stack = sparse_stack(values)
    if found := disorder(stack):
        if not values.has_canonical_format:
            values = values.copy()
            values.sum_duplicates()
            stack = sparse_stack(values)
            found = disorder(stack)
        if found == 2:
            raise InputError("X has indices outside of its shape: build it with indices from 0 and below the number it has")
    return values, stack


def _as_dense(X: Any) -> np.ndarray:
    try:
        values = np.asarray(X)
    except ValueError as error:
        raise InputError(f"X is not a table of numbers: {error}") from error
    if values.ndim != 2:
        raise InputError(f"X must have two dimensions (rows and columns), not {values.ndim}: use X.reshape(-1, 1) for one column")
    if values.dtype.kind == "c":
        raise InputError("X holds complex numbers: give real ones")
    if values.dtype not in (np.float32, np.float64):
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"X must hold numbers: {error}; encode categories first") from error
    if not (values.flags.c_contiguous or values.flags.f_contiguous) or not values.dtype.isnative:
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    return values


def _name_non_finite(values: Any) -> NoReturn:
    """Name the row and the column of the first entry that is not finite."""
    if sp.issparse(values):
        coo = values.tocoo()
        where = np.flatnonzero(~np.isfinite(coo.data))[0]
        row, col, value = coo.row[where], coo.col[where], coo.data[where]
    else:
        row, col = np.argwhere(~np.isfinite(values))[0]
        value = values[row, col]
    name = "NaN" if np.isnan(value) else "infinity"
    raise InputError(f"X contains {name} at row {row}, column {col}: impute or remove it before fitting")
