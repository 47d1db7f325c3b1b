"""Copies of some of the columns of the data: as sparse rows, as sparse columns, or as an array with a column in each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.matrix import SparseVectors, filtered, room_like
from saddlery.matrix.vectors import take_vectors, transpose
from saddlery.parts import kernel

__all__ = [
    "dense_columns",
    "sparse_cols",
    "sparse_rows",
    "spread",
    "spread_columns",
    "transposed",
]

COLUMNS_FROM = 3.0  # share of the entries, as 1 to so many, below which columns are gathered and not filtered from all rows


# --------------------------------------------------------------------------- kernels


@kernel
def spread_rows(rows, place, out):
    """out[place[j], i] = x_ij, where `out` holds zeros at first; a place of -1 is the last row, which nobody reads."""
    for i in range(out.shape[1]):
        for p in range(rows.first(i), rows.last(i)):
            out[place[rows.position(i, p)], i] = rows.entry(p)


@kernel
def spread_columns(cols, W, out):
    """out[k, i] = x_ij with j = W[k], from sparse columns, where `out` holds zeros at first."""
    for k in range(W.shape[0]):
        for p in range(cols.first(W[k]), cols.last(W[k])):
            out[k, cols.position(W[k], p)] = cols.entry(p)


# --------------------------------------------------------------------------- copies


def _places(d: int, W: np.ndarray) -> np.ndarray:
    place = np.full(d, -1, dtype=np.int32)
    place[W] = np.arange(len(W), dtype=np.int32)
    return place


def transposed(stack: SparseVectors, entries: int) -> SparseVectors:
    """Columns of the data that were copied, as rows, or rows as columns."""
    out = room_like(stack, entries, stack.length, len(stack.starts) - 1)
    transpose(stack, *out[:3])
    return out


def sparse_rows(matrix: Any, W: np.ndarray, entries: int) -> SparseVectors:
    """Rows restricted to W: filtered from all rows, or made of columns where W holds few of the entries."""
    if len(W) == matrix.shape[1]:
        return matrix.rows
    if COLUMNS_FROM * entries < matrix.nnz or not matrix.has("rows"):
        return transposed(sparse_cols(matrix, W, entries), entries)
    return filtered(matrix.rows, W, entries)


def sparse_cols(matrix: Any, W: np.ndarray, entries: int) -> SparseVectors:
    """Columns of the data, one behind the other."""
    if len(W) == matrix.shape[1]:
        return matrix.cols
    stack, at = matrix.lend(W)
    out = room_like(stack, entries, len(W), matrix.shape[0])
    take_vectors(stack, at, *out[:3])
    return out


def spread(matrix: Any, W: np.ndarray) -> np.ndarray:
    """Columns of sparse data as a dense array of shape (m, n)."""
    if COLUMNS_FROM * matrix.count_entries(W) >= matrix.nnz and not matrix.has("cols"):
        out = np.zeros((len(W) + 1, matrix.shape[0]))
        spread_rows(matrix.rows, _places(matrix.shape[1], W), out)
        return out[:-1]
    out = np.zeros((len(W), matrix.shape[0]))
    spread_columns(*matrix.lend(W), out)  # (news20, 2 columns: 1.7 -> 0.05 ms)
    return out


def dense_columns(matrix: Any, W: np.ndarray) -> np.ndarray:
    """Columns of dense data as an array of shape (m, n) in double precision."""
    n, d = matrix.shape
    if len(W) == d:
        return (matrix.cols.values.reshape(d, n) if matrix.has("cols") else matrix.values.T).astype(np.float64, copy=False)
    stack, at = matrix.lend(W)
    return stack.values[: len(stack.values) // n * n].reshape(-1, n)[at].astype(np.float64, copy=False)
