"""Columns of data that came by rows, copied when they are first asked for and kept.

Fits that select read few columns, mostly the same in each round (60,000 x 780 pixels, l1 logistic at 0.1: a quarter of the entries
in all). So nobody need turn all data, and no column is gathered twice. Slots are given out in the order of asking, and room for
more is kept behind them: what was lent out before stays where it is.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from saddlery.matrix.vectors import DenseVectors, SparseVectors
from saddlery.parts import kernel

__all__ = ["HeldColumns", "gather_columns"]

CHUNK = 1024  # entries that are looked through at a time
LINE = 8  # rows that are read at a time: a line of cache of each column is written at once
SPARE = 1.5  # room is made for so many times what is asked for; what is not used is not taken from memory either
LOCK = threading.Lock()  # two threads that fit the same data may ask at the same time


@kernel
def gather_sparse(rows, wanted, cursor, values, indices, kept):
    """The entries of the wanted columns j to `values` from cursor[j] on, and their rows to `indices`.

    Entries are first looked through without a branch, their positions going to `kept`, some at a time: few are wanted, and a branch
    that is guessed wrongly takes as long as ten entries (60,000 x 780 pixels, 14 columns: 26 -> 10 ms).
    """
    row, total = 0, rows.starts[rows.starts.shape[0] - 1]
    for low in range(0, total, CHUNK):
        count = 0
        for p in range(low, min(low + CHUNK, total)):
            kept[np.uint64(count)] = p
            count += wanted[np.uint64(rows.indices[np.uint64(p)])]
        for k in range(count):
            p = kept[np.uint64(k)]
            while p >= rows.starts[np.uint64(row + 1)]:
                row += 1
            j = np.uint64(rows.indices[np.uint64(p)])
            to = cursor[j]
            values[np.uint64(to)] = rows.values[np.uint64(p)]
            indices[np.uint64(to)] = row
            cursor[j] = to + 1


@kernel
def gather_columns(rows, W, out):
    """out[k, i] = x_ij with j = W[k], from dense rows, a line of cache at a time (500 of 2000 columns of 5000: 8.6 -> 5.0 ms)."""
    n, length = out.shape[1], np.uint64(rows.length)
    even = n - n % LINE
    for low in range(0, even, LINE):
        start = np.uint64(low) * length
        for k in range(W.shape[0]):
            first = start + np.uint64(W[k])
            for i in range(LINE):
                out[np.uint64(k), np.uint64(low + i)] = rows.values[first + np.uint64(i) * length]
    for i in range(even, n):
        for k in range(W.shape[0]):
            out[k, i] = rows.values[np.uint64(i) * length + np.uint64(W[k])]


class HeldColumns:
    """See the top of the file.

    Parameters
    ----------
    rows : DenseVectors or SparseVectors
        The data by rows.
    d : int
        How many columns they have.

    Examples
    --------
    >>> from saddlery.matrix import as_matrix
    >>> held = HeldColumns(as_matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).rows, 3)
    >>> held.hold(np.array([2]), np.array([2, 2, 2]))
    >>> stack, at = held.lend(np.array([2]))
    >>> stack.values[:2].tolist(), at.tolist()
    ([3.0, 6.0], [0])
    """

    def __init__(self, rows: Any, d: int):
        self.rows, self.d = rows, d
        self.n = len(rows.starts) - 1 if isinstance(rows, SparseVectors) else len(rows.values) // max(d, 1)
        self.clear()

    def clear(self) -> None:
        """Hold nothing; what was lent out stays with those who have it."""
        self.place = np.full(self.d, -1, dtype=np.int64)
        self.count, self.entries = 0, 0
        self.starts = np.zeros(1, dtype=np.int64)
        self.values = np.empty(0, dtype=self.rows.values.dtype)
        self.indices = np.empty(0, dtype=np.int32)

    def missing(self, columns: np.ndarray) -> np.ndarray:
        """Which of these are not held yet."""
        return columns[self.place[columns] < 0]

    def lend(self, columns: np.ndarray) -> tuple[Any, np.ndarray]:
        """A stack that holds these columns, which must be held, and where they are in it."""
        if isinstance(self.rows, SparseVectors):
            stack: Any = SparseVectors(self.values, self.indices, self.starts, self.n)
        else:
            stack = DenseVectors(self.values, self.n)
        return stack, self.place[columns]

    def hold(self, columns: np.ndarray, counts: np.ndarray) -> None:
        """Copy these columns, none of which is held yet; `counts` are the entries of all columns."""
        if isinstance(self.rows, SparseVectors):
            self._copy_sparse(columns, counts[columns])
        else:
            first, entries = self.entries, self.entries + len(columns) * self.n
            self._make_room(entries)
            gather_columns(self.rows, columns, self.values[first:entries].reshape(len(columns), self.n))
            self.entries = entries
        self.place[columns] = np.arange(self.count, self.count + len(columns))
        self.count += len(columns)

    def _copy_sparse(self, columns: np.ndarray, counts: np.ndarray) -> None:
        ends = self.entries + np.cumsum(counts)
        self._make_room(int(ends[-1]))
        wanted, cursor = np.zeros(self.d, dtype=bool), np.empty(self.d, dtype=np.int64)
        wanted[columns] = True
        cursor[columns] = ends - counts
        gather_sparse(self.rows, wanted, cursor, self.values, self.indices, np.empty(CHUNK, dtype=np.int64))
        self.starts, self.entries = np.concatenate([self.starts, ends]), int(ends[-1])

    def _make_room(self, entries: int) -> None:
        if entries > len(self.values):
            room = min(int(SPARE * entries) + LINE, max(entries, self._all()))
            self.values = _longer(self.values, room, self.entries)
            if isinstance(self.rows, SparseVectors):
                self.indices = _longer(self.indices.astype(self.rows.indices.dtype, copy=False), room, self.entries)

    def _all(self) -> int:
        return int(self.rows.starts[-1]) if isinstance(self.rows, SparseVectors) else self.n * self.d


def _longer(old: np.ndarray, size: int, used: int) -> np.ndarray:
    """A longer array that begins with what is used of the old one."""
    out = np.empty(size, dtype=old.dtype)
    out[:used] = old[:used]
    return out
