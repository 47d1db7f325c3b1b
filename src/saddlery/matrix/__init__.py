"""Data matrices: normalised once at the border, then read as stacks of rows or of columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from saddlery.errors import InputError
from saddlery.matrix.vectors import (
    DenseVectors,
    SparseVectors,
    combine,
    combine_few,
    combine_of,
    count_positions,
    dots,
    dots_of,
    filter_vectors,
    square_norms,
    take_vectors,
    transpose,
    transpose_tiles,
    weighted_square_norms,
    weighted_squares_of,
)

__all__ = ["ROOM", "Matrix", "SparseVectors", "as_matrix", "count_nonzero", "dense_stack", "filtered", "room_like", "sparse_stack"]

SHORT = 24  # entries: loops over shorter rows spend their time on beginning and ending
ROOM = 30_000_000  # entries: larger data are not copied for the sake of speed alone
SPARSE_SIZE, SPARSE_SHARE = 5000, 25  # a factor of so many numbers is looked at: less than 1 in 25 not zero makes it sparse,
SPARSE_HELD = 10  # or 1 in 10 where the vectors of sparse data that this takes are there (mnist: 45 -> 12 ms)
SCAN = 3.0  # entries of sparse rows that are passed over in the time that it takes to copy one
SAMPLE = 400  # rows that are looked at to see how columns relate
TILED = 200_000  # entries: larger arrays are transposed in tiles (5000 x 2000: 51 -> 22 ms), smaller ones need no kernel for it
FEW_ENTRIES = 200_000  # so few are transposed here, without SciPy's checks
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
    gathered = 0.0  # what it took to gather columns from rows so far, in entries

    def __init__(self, values: Any):
        self.values = values
        self.shape: tuple[int, int] = values.shape
        self.is_sparse: bool = sp.issparse(values)
        self.nnz: int = int(values.nnz) if self.is_sparse else int(np.prod(values.shape))

    def __repr__(self) -> str:
        kind = self.values.format.upper() if self.is_sparse else "dense"
        return f"Matrix({self.shape[0]} x {self.shape[1]}, {kind}, {self.values.dtype}, {self.nnz} entries)"

    @cached_property
    def csr(self) -> Any:
        """Sparse X by rows, as SciPy has it."""
        return self.values.tocsr()

    @cached_property
    def csc(self) -> Any:
        """Sparse X by columns, as SciPy has it."""
        return self.values.tocsc()

    @cached_property
    def rows(self) -> Vectors:
        """X as a stack of rows."""
        return sparse_stack(self.csr) if self.is_sparse else dense_stack(self.values)

    @cached_property
    def cols(self) -> Vectors:
        """X as a stack of columns."""
        if self.is_sparse and self.nnz <= FEW_ENTRIES and "csc" not in self.__dict__ and self.values.format == "csr":
            out = room_like(self.rows, self.nnz, self.shape[1], self.shape[0])
            transpose(self.rows, *out[:3])
            return out
        if self.is_sparse:
            return sparse_stack(self.csc)
        if self.nnz < TILED or self.values.flags.f_contiguous:
            return dense_stack(self.values.T)
        values = np.empty(self.nnz, dtype=self.values.dtype)
        transpose_tiles(self.rows, self.shape[0], values)
        return DenseVectors(values, self.shape[0])

    @cached_property
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

    def lends_columns(self, entries: int) -> bool:
        """Whether columns that hold so many entries are read from the stack of columns, not gathered from rows.

        Who has rows pays for that stack when most columns are asked for, or as much was spent on gathering them before: at most
        twice the best choice (20,000 x 50,000 in CSR, l1 logistic at 0.01: 90 -> 72 ms; dense 5000 x 2000: 713 -> 335). Each "no"
        is counted as a gathering.
        """
        if not self.has("cols") and 2 * entries < self.nnz:
            self.gathered += entries + (self.nnz / SCAN if self.is_sparse else 0.0)
            return self.gathered >= self.nnz and self.nnz <= ROOM
        return True

    @property
    def _blas(self) -> bool:
        """Whether NumPy multiplies at once; float32 it would first copy as float64, so our loops serve there."""
        return not self.is_sparse and self.values.dtype == np.float64

    def matvec(self, w: np.ndarray) -> np.ndarray:
        """X w, in float64; w is (d,), or (d, k) and then possibly sparse."""
        if w.ndim == 2:
            return self._times(w, transposed=False)
        few = self.has("cols") and self._are_few(int(np.count_nonzero(w)))
        if self._blas and not few:
            return self.values @ w
        out = np.zeros(self.shape[0])
        if self.by_columns or few or not self.has("rows"):
            combine(self.cols, w, out)
        else:
            dots(self.rows, w, out)
        return out

    def _are_few(self, weights: int) -> bool:
        """Whether so many weights are few among the columns, and among those that have entries (rcv1, 1000 rows: 230 -> 50 us)."""
        return 4 * weights < self.shape[1] and (not self.is_sparse or 4 * weights < self.used_columns)

    @cached_property
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

    @cached_property
    def by_columns(self) -> bool:
        """Whether products go over columns: rows are short, columns are not (w8a, X'a: 0.97 -> 0.38 ms; the conversion takes 2)."""
        n, d = self.shape
        return self.is_sparse and self.nnz < SHORT * n and d < n and self.nnz <= ROOM

    @cached_property
    def alignment(self) -> float:
        """How far columns of sparse data correlate: |X p|^2 / sum_ij x_ij^2 p_j^2 on some rows, p the sum of others.

        It is 1 where entries have random signs, and about as large as rows have entries where all are positive.
        """
        n = self.shape[0]
        index = np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)
        rows = self.rows if self.has("rows") else sparse_stack(self.values[index].tocsr())
        index = index if self.has("rows") else np.arange(len(index))
        p, along = np.zeros(self.shape[1]), np.empty(len(index) // 2)
        combine_of(rows, index[::2].copy(), np.ones(len(index) - len(along)), p)
        others = index[1::2].copy()
        dots_of(rows, others, p, along)
        p *= p
        size = weighted_squares_of(rows, others, p)
        return float(along @ along) / size if size > 0.0 else 1.0

    @cached_property
    def row_square_norms(self) -> np.ndarray:
        """||x_i||^2 for every row."""
        out = np.zeros(self.shape[0])
        square_norms(self.rows, out)
        return out

    @cached_property
    def col_square_norms(self) -> np.ndarray:
        """||x^j||^2 for every column."""
        out = np.zeros(self.shape[1])
        square_norms(self.cols, out)
        return out

    def products_of(self, columns: np.ndarray, a: np.ndarray) -> np.ndarray:
        """x^j . a for some columns j."""
        out = np.empty(len(columns))
        dots_of(self.cols, columns, a, out)
        return out

    def weighted_col_square_norms(self, weights: np.ndarray) -> np.ndarray:
        """sum_i weights_i x_ij^2 for every column."""
        out = np.empty(self.shape[1])
        weighted_square_norms(self.cols, weights, out)
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
        whole: Any = self.rows
        rows = room_like(whole, int((whole.starts[index + 1] - whole.starts[index]).sum()), len(index), self.shape[1])
        take_vectors(whole, index, *rows[:3])  # without SciPy's checks
        out = Matrix(_as_csr(rows))
        out.__dict__["rows"] = rows
        if with_columns and "cols" in self.__dict__ and 2 * len(index) > self.shape[0] and (np.diff(index) > 0).all():
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


def _as_csr(rows: SparseVectors) -> Any:
    """Rows with sorted positions as SciPy has them."""
    out = sp.csr_array((len(rows.starts) - 1, rows.length), dtype=rows.values.dtype)
    short = len(rows.values) <= np.iinfo(rows.indices.dtype).max
    out.data, out.indices, out.indptr = rows.values, rows.indices, rows.starts.astype(rows.indices.dtype) if short else rows.starts
    out.has_sorted_indices = out.has_canonical_format = True
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
    return SparseVectors(values.data, values.indices.astype(kind, copy=False), values.indptr.astype(np.int64), int(length))


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
    _refuse_non_finite(values)
    return Matrix(values)


def _as_sparse(X: Any) -> Any:
    if X.ndim != 2:
        raise InputError(f"X must have two dimensions (rows and columns), not {X.ndim}")
    if X.dtype.kind == "c":
        raise InputError("X holds complex numbers: give real ones")
    values = X if X.format in ("csr", "csc") else X.tocsr()
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    if not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()
    return values


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


def _refuse_non_finite(values: Any) -> None:
    """Name the row and the column of the first entry that is not finite."""
    data = values.data if sp.issparse(values) else values
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(data.sum(dtype=np.float64)) or np.isfinite(data).all():
            return
    if sp.issparse(values):
        coo = values.tocoo()
        where = np.flatnonzero(~np.isfinite(coo.data))[0]
        row, col, value = coo.row[where], coo.col[where], coo.data[where]
    else:
        row, col = np.argwhere(~np.isfinite(values))[0]
        value = values[row, col]
    name = "NaN" if np.isnan(value) else "infinity"
    raise InputError(f"X contains {name} at row {row}, column {col}: impute or remove it before fitting")
