"""Reading rows and columns of X and counting it: all entries read, and the distinct ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.matrix import Matrix

__all__ = ["Reads"]

ROOM = 400_000_000  # entries in memory: smaller data get a copy by columns, whose columns are read seven times as fast


class Reads:
    """What was read of a matrix of n rows and d columns so far.

    Attributes
    ----------
    rows, columns : float
        How many were read, each time counted.
    total : float
        Entries: d for a row and n for a column of dense data, stored ones for sparse data.
    """

    def __init__(self, shape: tuple[int, int], is_sparse: bool):
        self.shape, self.is_sparse = shape, is_sparse
        self.row_flags, self.col_flags = np.zeros(shape[0], dtype=bool), np.zeros(shape[1], dtype=bool)
        self.rows = self.columns = self.total = 0.0
        self.stored = 0.0  # distinct stored entries of sparse data

    def take_rows(self, matrix: Matrix, index: np.ndarray) -> Matrix:
        """Rows in memory, counted."""
        taken = matrix.take_rows(index)
        self.rows += len(index)
        self.total += taken.nnz
        if self.is_sparse:
            self.stored += _new_entries(taken.csr, index, self.row_flags, self.col_flags)
        self.row_flags[index] = True
        return taken

    def count_rows(self, matrix: Matrix, index: np.ndarray) -> None:
        """Count rows that kernels read where they lie, if no columns are read."""
        self.rows += len(index)
        if self.is_sparse:
            counts = np.diff(matrix.csr.indptr)
            self.total += float(counts[index].sum())
            new = np.unique(index)
            self.stored += float(counts[new[~self.row_flags[new]]].sum())
        else:
            self.total += float(len(index) * self.shape[1])
        self.row_flags[index] = True

    def take_cols(self, matrix: Matrix, index: np.ndarray) -> Matrix:
        """Columns in memory, counted."""
        if matrix.compiled and not matrix.is_sparse and (matrix.has("cols") or matrix.nnz <= ROOM):
            taken = Matrix(matrix.cols.values.reshape(matrix.shape[1], matrix.shape[0])[index].T)
        else:
            taken = matrix.take_cols(index)
        self.columns += len(index)
        self.total += taken.nnz
        if self.is_sparse:
            self.stored += _new_entries(taken.csc, index, self.col_flags, self.row_flags)
        self.col_flags[index] = True
        return taken

    @property
    def counts(self) -> dict[str, float]:
        """Rows, columns, entries and distinct entries; of sparse data also what dense ones would have cost."""
        (n, d), r, c = self.shape, int(self.row_flags.sum()), int(self.col_flags.sum())
        dense, dense_distinct = self.rows * d + self.columns * n, float(r * d + c * n - r * c)
        distinct = self.stored if self.is_sparse else dense_distinct
        counts = {"rows": self.rows, "columns": self.columns, "accesses": self.total, "distinct_accesses": distinct}
        return {**counts, "dense_accesses": dense, "dense_distinct_accesses": dense_distinct}


def _new_entries(taken: Any, index: np.ndarray, flags: np.ndarray, crossing: np.ndarray) -> int:
    """Stored entries of vectors that were not read before and do not lie on a crossing vector that was."""
    first = np.unique(index, return_index=True)[1]
    first = first[~flags[index[first]]]
    starts = taken.indptr
    return sum(int(np.count_nonzero(~crossing[taken.indices[starts[k] : starts[k + 1]]])) for k in first)
