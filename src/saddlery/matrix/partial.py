"""Data that are read in parts: files larger than memory, features computed when they are asked for.

A subclass has two verbs, `read_rows` and `read_cols`; products, norms and counts follow from them, block by block. No kernel can
loop over such data as a whole, so `compiled` is False and `rows` and `cols` refuse; what `take_rows` and `take_cols` return is an
ordinary matrix in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from saddlery.errors import UnsupportedError
from saddlery.matrix import Matrix

__all__ = ["PartialMatrix"]

BLOCK_BYTES = 64_000_000


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
    """

    compiled = False

    def __init__(self, shape: tuple[int, int], nnz: int, is_sparse: bool, dtype: Any, block_bytes: int = BLOCK_BYTES):
        self.shape, self.nnz, self.is_sparse = shape, int(nnz), bool(is_sparse)
        self.dtype = np.dtype(dtype)
        self.block_bytes = int(block_bytes)

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

    def take_rows(self, index: np.ndarray) -> Matrix:
        """The rows of `index` as a matrix in memory."""
        return Matrix(self.read_rows(np.asarray(index, dtype=np.int64)))

    def take_cols(self, index: np.ndarray) -> Matrix:
        """The columns of `index` as a matrix in memory."""
        return Matrix(self.read_cols(np.asarray(index, dtype=np.int64)))

    def row_blocks(self) -> Iterator[tuple[np.ndarray, Matrix]]:
        """All rows in order: indices and the matrix of each block, at most `block_bytes` large."""
        per_row = max(1.0, self.nnz / self.shape[0]) * (self.dtype.itemsize + 4 * self.is_sparse)
        count = max(1, int(self.block_bytes / per_row))
        for first in range(0, self.shape[0], count):
            index = np.arange(first, min(first + count, self.shape[0]))
            yield index, self.take_rows(index)

    def matvec(self, w: np.ndarray) -> np.ndarray:
        """X w, block by block; columns alone if few entries of w are not zero."""
        support = np.flatnonzero(np.any(w != 0.0, axis=1) if w.ndim == 2 else w)
        out = np.zeros((self.shape[0], *w.shape[1:]))
        if len(support) < self.shape[1] // 4:
            per_column = max(1.0, self.nnz / self.shape[1]) * (self.dtype.itemsize + 4 * self.is_sparse)
            count = max(1, int(self.block_bytes / per_column))
            for first in range(0, len(support), count):
                chosen = support[first : first + count]
                out += self.take_cols(chosen).matvec(w[chosen])
            return out
        for index, block in self.row_blocks():
            out[index] = block.matvec(w)
        return out

    def rmatvec(self, a: np.ndarray) -> np.ndarray:
        """X' a, block by block."""
        out = np.zeros((self.shape[1], *a.shape[1:]))
        for index, block in self.row_blocks():
            out += block.rmatvec(a[index])
        return out

    @cached_property
    def _norms(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared norms of all rows and all columns, in one pass."""
        rows, cols = np.empty(self.shape[0]), np.zeros(self.shape[1])
        for index, block in self.row_blocks():
            rows[index] = block.row_square_norms
            cols += block.col_square_norms
        return rows, cols

    @property
    def row_square_norms(self) -> np.ndarray:  # type: ignore[override]
        """||x_i||^2 for every row."""
        return self._norms[0]

    @property
    def col_square_norms(self) -> np.ndarray:  # type: ignore[override]
        """||x^j||^2 for every column."""
        return self._norms[1]

    @property
    def rows(self) -> Any:  # type: ignore[override]
        """Not there as a whole."""
        raise UnsupportedError(f"{self!r} is read in parts: take rows of it, or use a solver that does")

    @property
    def cols(self) -> Any:  # type: ignore[override]
        """Not there as a whole."""
        raise UnsupportedError(f"{self!r} is read in parts: take columns of it, or use a solver that does")

    def has(self, stack: str) -> bool:
        """Neither stack is there as a whole."""
        return False
