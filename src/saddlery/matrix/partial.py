"""Data that are read in parts: files larger than memory, features computed when they are asked for.

A subclass has two verbs, `read_rows` and `read_cols`; products, norms and counts follow from them, block by block. No kernel can
loop over such data as a whole, so `compiled` is False and `rows`, `cols` and `values` refuse; what `take_rows` and `take_cols`
return is an ordinary matrix in memory. Solvers either use products, or loop over `row_parts` and `col_parts`, of which a matrix in
memory has one: itself. `select` is some rows and columns without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from saddlery.errors import UnsupportedError
from saddlery.matrix import Matrix
from saddlery.matrix.vectors import add_weighted_squares

__all__ = ["PartialMatrix", "Selection"]

BLOCK_BYTES = 64_000_000
FEW = 4  # a product reads single columns or rows if fewer than one in so many have a factor that is not zero


class PartialMatrix(Matrix):
    """A matrix of which only some rows or columns are in memory at a time.

    Parameters
    ----------
    shape : tuple of int
        Rows and columns.
    nnz : int
        Stored entries; rows times columns if dense.
    is_sparse : bool
        Whether parts come as CSR and CSC.
    dtype : data type
        float32 or float64.
    block_bytes : int
        Room for one block of a product.
    room : int, optional
        Room for copies that a solver keeps for longer; four blocks by default.
    """

    compiled = False

    def __init__(
        self,
        shape: tuple[int, int],
        nnz: int,
        is_sparse: bool,
        dtype: Any,
        block_bytes: int = BLOCK_BYTES,
        room: int | None = None,
    ):
        self.shape, self.nnz, self.is_sparse = shape, int(nnz), bool(is_sparse)
        self.dtype = np.dtype(dtype)
        self.block_bytes = int(block_bytes)
        self.room = 4 * self.block_bytes if room is None else int(room)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]}, {kind}, {self.dtype}, {self.nnz} entries)"

    # -- the two verbs of a subclass

    def read_rows(self, index: np.ndarray) -> Any:
        """The rows of `index`: a C-ordered array of shape (len(index), d), or CSR."""
        raise NotImplementedError

    def read_cols(self, index: np.ndarray) -> Any:
        """The columns of `index`: an F-ordered array of shape (n, len(index)), or CSC."""
        raise NotImplementedError

    # -- what follows from them

    def take_rows(self, index: np.ndarray, with_columns: bool = True) -> Matrix:
        """The rows of `index` as a matrix in memory."""
        return Matrix(self.read_rows(np.asarray(index, dtype=np.int64)))

    def take_cols(self, index: np.ndarray) -> Matrix:
        """The columns of `index` as a matrix in memory."""
        return Matrix(self.read_cols(np.asarray(index, dtype=np.int64)))

    @property
    def entry_bytes(self) -> int:
        """Bytes that an entry takes in memory."""
        return self.dtype.itemsize + 4 * self.is_sparse

    def cuts(self, axis: int) -> np.ndarray:
        """Where the rows (0) or columns (1) are cut, so that no part is larger than `block_bytes` (on average, if sparse)."""
        length = self.shape[axis]
        count = max(1, int(self.block_bytes / (max(1.0, self.nnz / length) * self.entry_bytes)))
        return np.append(np.arange(0, length, count), length)

    def row_parts(self, rng: np.random.Generator | None = None) -> Iterator[tuple[slice, Matrix]]:
        """All rows, some at a time: where they are and the matrix of them; in random order if a generator is given."""
        for part in _shuffled(self.cuts(0), rng):
            yield part, self.take_rows(np.arange(part.start, part.stop))

    def col_parts(self, rng: np.random.Generator | None = None) -> Iterator[tuple[slice, Matrix]]:
        """All columns, some at a time; in random order if a generator is given."""
        for part in _shuffled(self.cuts(1), rng):
            yield part, self.take_cols(np.arange(part.start, part.stop))

    def row_blocks(self) -> Iterator[tuple[np.ndarray, Matrix]]:
        """All rows in order: indices and the matrix of each block, at most `block_bytes` large."""
        for part, block in self.row_parts():
            yield np.arange(part.start, part.stop), block

    def slabs(self, columns: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """The given columns, some rows at a time: where the rows are, and an array or CSR of shape (rows, columns)."""
        for part, block in self.row_parts():
            yield part, block.values[:, columns]

    def select(self, rows: np.ndarray | None = None, columns: np.ndarray | None = None) -> Selection:
        """Some rows and columns (None: all) without a copy."""
        return Selection(self, rows, columns)

    def holds(self, entries: float, bytes_each: float | None = None) -> bool:
        """Whether a copy of so many entries may be kept in memory."""
        return entries * (self.entry_bytes if bytes_each is None else bytes_each) <= self.room

    def _few(self, support: np.ndarray, axis: int) -> Iterator[np.ndarray]:
        """Some rows or columns, as many at a time as a block holds."""
        count = max(1, int(self.block_bytes / (max(1.0, self.nnz / self.shape[axis]) * self.entry_bytes)))
        for first in range(0, len(support), count):
            yield support[first : first + count]

    def matvec(self, w: np.ndarray) -> np.ndarray:
        """X w, block by block; columns alone if few entries of w are not zero."""
        support = np.flatnonzero(np.any(w != 0.0, axis=1) if w.ndim == 2 else w)
        out = np.zeros((self.shape[0], *w.shape[1:]))
        if FEW * len(support) < self.shape[1]:
            for chosen in self._few(support, 1):
                out += self.take_cols(chosen).matvec(w[chosen])
            return out
        for part, block in self.row_parts():
            out[part] = block.matvec(w)
        return out

    def rmatvec(self, a: np.ndarray) -> np.ndarray:
        """X' a, block by block; rows alone if few entries of a are not zero."""
        support = np.flatnonzero(np.any(a != 0.0, axis=1) if a.ndim == 2 else a)
        out = np.zeros((self.shape[1], *a.shape[1:]))
        if FEW * len(support) < self.shape[0]:
            for chosen in self._few(support, 0):
                out += self.take_rows(chosen).rmatvec(a[chosen])
            return out
        for part, block in self.row_parts():
            out += block.rmatvec(a[part])
        return out

    def products_of(self, columns: np.ndarray, a: np.ndarray) -> np.ndarray:
        """x^j . a for some columns j, as many at a time as a block holds."""
        parts = [self.take_cols(chosen).rmatvec(a) for chosen in self._few(columns, 1)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def left_product(self, weights: Any) -> np.ndarray:
        """weights X for sparse weights of shape (k, n), block by block."""
        out = np.zeros((weights.shape[0], self.shape[1]))
        for part, block in self.row_parts():
            out += block.left_product(weights[:, part.start : part.stop])
        return out

    @cached_property
    def _norms(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared norms of all rows and all columns, in one pass."""
        rows, cols = np.empty(self.shape[0]), np.zeros(self.shape[1])
        for part, block in self.row_parts():
            rows[part] = block.row_square_norms
            add_weighted_squares(block.rows, np.ones(block.shape[0]), cols)
        return rows, cols

    @property
    def row_square_norms(self) -> np.ndarray:  # type: ignore[override]
        """||x_i||^2 for every row."""
        return self._norms[0]

    @property
    def col_square_norms(self) -> np.ndarray:  # type: ignore[override]
        """||x^j||^2 for every column."""
        return self._norms[1]

    def weighted_col_square_norms(self, weights: np.ndarray) -> np.ndarray:
        """sum_i weights_i x_ij^2 for every column."""
        out = np.zeros(self.shape[1])
        for part, block in self.row_parts():
            add_weighted_squares(block.rows, weights[part], out)
        return out

    @cached_property
    def col_counts(self) -> np.ndarray:
        """Number of stored entries of every column."""
        if not self.is_sparse:
            return np.full(self.shape[1], self.shape[0])
        out = np.zeros(self.shape[1], dtype=np.int64)
        for _, block in self.row_parts():
            out += block.col_counts
        return out

    def _refuse(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self!r} is read in parts: take {what} of it, or use a solver that does")

    @property
    def values(self) -> Any:
        """Not there as a whole."""
        raise self._refuse("rows or columns")

    @property
    def rows(self) -> Any:  # type: ignore[override]
        """Not there as a whole."""
        raise self._refuse("rows")

    @property
    def cols(self) -> Any:  # type: ignore[override]
        """Not there as a whole."""
        raise self._refuse("columns")

    @property
    def by_columns(self) -> bool:  # type: ignore[override]
        """Products are the business of this class."""
        return False

    def has(self, stack: str) -> bool:
        """Neither stack is there as a whole."""
        return False


class Selection(PartialMatrix):
    """Some rows and columns of data that are read in parts, themselves read in parts.

    Parameters
    ----------
    parent : PartialMatrix
        Whose rows and columns.
    rows, columns : array of int, optional
        Which ones; None for all.
    """

    def __init__(self, parent: PartialMatrix, rows: np.ndarray | None = None, columns: np.ndarray | None = None):
        self.parent, self.row_index, self.col_index = parent, rows, columns
        n = parent.shape[0] if rows is None else len(rows)
        d = parent.shape[1] if columns is None else len(columns)
        nnz = n * d if not parent.is_sparse else int(parent.nnz * (n / parent.shape[0]) * (d / parent.shape[1]))  # about
        super().__init__((n, d), nnz, parent.is_sparse, parent.dtype, parent.block_bytes, parent.room)

    def read_rows(self, index: np.ndarray) -> Any:
        values = self.parent.read_rows(index if self.row_index is None else self.row_index[index])
        return values if self.col_index is None else _c_ordered(values[:, self.col_index])

    def read_cols(self, index: np.ndarray) -> Any:
        values = self.parent.read_cols(index if self.col_index is None else self.col_index[index])
        return values if self.row_index is None else _f_ordered(values[self.row_index])

    def cuts(self, axis: int) -> np.ndarray:
        """As those of the parent: whole rows (columns) are read before they are narrowed."""
        length, parent = self.shape[axis], self.parent
        count = max(1, int(self.block_bytes / (max(1.0, parent.nnz / parent.shape[axis]) * self.entry_bytes)))
        return np.append(np.arange(0, length, count), length)

    def compact(self) -> Matrix:
        """All of it in memory, in C order or as CSR; read in parts, so that no more than a block is there beside it."""
        import scipy.sparse as sp

        if self.is_sparse:
            return Matrix(sp.vstack([block.values for _, block in self.row_parts()], format="csr"))
        out = np.empty(self.shape, dtype=self.dtype)
        if self.col_index is not None and self.row_index is None:
            for part, slab in self.parent.slabs(self.col_index):
                out[part] = slab
            return Matrix(out)
        for part, block in self.row_parts():
            out[part] = block.values
        return Matrix(out)

    @property
    def row_square_norms(self) -> np.ndarray:  # type: ignore[override]
        """Those of the parent, where the columns are all."""
        if self.col_index is not None:
            return self._norms[0]
        return self.parent.row_square_norms if self.row_index is None else self.parent.row_square_norms[self.row_index]


def _shuffled(cuts: np.ndarray, rng: np.random.Generator | None) -> Iterator[slice]:
    order = range(len(cuts) - 1) if rng is None else rng.permutation(len(cuts) - 1)
    for k in order:
        yield slice(int(cuts[k]), int(cuts[k + 1]))


def _c_ordered(values: Any) -> Any:
    return np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values


def _f_ordered(values: Any) -> Any:
    return np.asfortranarray(values) if isinstance(values, np.ndarray) else values
