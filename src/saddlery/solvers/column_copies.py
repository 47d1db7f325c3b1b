"""Copies of some of the columns of the data: as sparse rows, as sparse columns, or as an array with a column in each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.matrix import SparseVectors, filtered, room_like
from saddlery.matrix.vectors import take_vectors, transpose
from saddlery.parts import kernel

__all__ = [
    "dense_columns",
    "gather_columns",
    "gathered_array",
    "gathered_cols",
    "sparse_cols",
    "sparse_rows",
    "spread",
    "spread_columns",
    "spread_gathered",
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


@kernel
def gather_columns(rows, W, out):
    """out[k, i] = x_ij with j = W[k], from dense rows, in tiles that stay in cache."""
    n = out.shape[1]
    for low in range(0, n, 32):
        high = min(low + 32, n)
        for k in range(W.shape[0]):
            for i in range(low, high):
                out[k, i] = rows.entry(rows.first(i) + W[k])


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
    """Rows restricted to W: filtered from all rows, or from the columns where W holds few of the entries and columns are there."""
    if len(W) == matrix.shape[1]:
        return matrix.rows
    few = COLUMNS_FROM * entries < matrix.nnz
    if (few and matrix.lends_columns(entries)) or not matrix.has("rows"):
        return transposed(sparse_cols(matrix, W, entries), entries)
    return filtered(matrix.rows, W, entries)


def sparse_cols(matrix: Any, W: np.ndarray, entries: int) -> SparseVectors:
    """Columns of the data, copied from columns."""
    if len(W) == matrix.shape[1]:
        return matrix.cols
    out = room_like(matrix.cols, entries, len(W), matrix.shape[0])
    take_vectors(matrix.cols, W, *out[:3])
    return out


def gathered_cols(matrix: Any, W: np.ndarray, entries: int) -> SparseVectors:
    """Columns of the data, gathered from rows."""
    return transposed(filtered(matrix.rows, W, entries), entries)


def spread(matrix: Any, W: np.ndarray) -> np.ndarray:
    """Columns of sparse data as a dense array of shape (m, n)."""
    entries = matrix.count_entries(W)
    if COLUMNS_FROM * entries >= matrix.nnz or not matrix.lends_columns(entries):
        return spread_gathered(matrix, W)
    out = np.zeros((len(W), matrix.shape[0]))
    spread_columns(matrix.cols, W, out)  # (news20, 2 columns: 1.7 -> 0.05 ms)
    return out


def spread_gathered(matrix: Any, W: np.ndarray) -> np.ndarray:
    """The same, gathered from rows."""
    out = np.zeros((len(W) + 1, matrix.shape[0]))
    spread_rows(matrix.rows, _places(matrix.shape[1], W), out)
    return out[:-1]


def dense_columns(matrix: Any, W: np.ndarray) -> np.ndarray:
    """Columns of dense data as an array of shape (m, n) in double precision."""
    n, d = matrix.shape
    if len(W) == d:
        return (matrix.cols.values.reshape(d, n) if matrix.has("cols") else matrix.values.T).astype(np.float64, copy=False)
    if matrix.lends_columns(len(W) * n):
        return matrix.cols.values.reshape(d, n)[W].astype(np.float64, copy=False)
    return gathered_array(matrix, W)


def gathered_array(matrix: Any, W: np.ndarray) -> np.ndarray:
    """The same, gathered from rows."""
    out = np.empty((len(W), matrix.shape[0]))
    gather_columns(matrix.rows, W, out)
    return out
