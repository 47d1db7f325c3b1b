"""Columns scaled by the roots of curvatures, dense and in single precision, without the rows that hardly bend.

Where classes are told apart well, most rows have next to no curvature (5000 x 2000, logistic at 0.001: a third of them has 98 % of
it), so models made of the others cost as much less. Of the rows that are left out models keep their part of the diagonal: no
weight is freer than it was, and a column that lives on such rows alone is no free direction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.matrix import SparseVectors
from saddlery.parts import kernel

__all__ = ["BentRows"]

FLAT = 0.03  # times the mean curvature: rows of less are left out
MOST_ROWS = 0.85  # share of the rows above which all are taken
PICKED = 1.0  # sweeps over rows that are spared, which picking the others must be worth


@kernel(fast_sums=True)
def scale_all_rows(vectors, at, roots, values, squares):
    """values_k = roots * v_j for j = at[k], each behind the last; and their square norms."""
    length = roots.shape[0]
    for k in range(at.shape[0]):
        start, first = np.uint64(at[k]) * np.uint64(length), np.uint64(k) * np.uint64(length)
        total = roots.dtype.type(0.0)
        for i in range(length):
            value = roots.dtype.type(roots[i] * vectors.entry(start + np.uint64(i)))
            values[first + np.uint64(i)] = value
            total += value * value
        squares[k] = total


@kernel(fast_sums=True)
def scale_some_rows(vectors, at, h, used, roots, values, squares, rest):
    """The same of the used rows only; squares_k = sum_i h_i v_ij^2 over all rows, or that of the used ones if it is larger.

    What used rows do not have of it goes to `rest`.
    """
    length, count = h.shape[0], roots.shape[0]
    for k in range(at.shape[0]):
        start, first = np.uint64(at[k]) * np.uint64(length), np.uint64(k) * np.uint64(count)
        total, kept = h.dtype.type(0.0), h.dtype.type(0.0)
        for i in range(length):
            entry = h.dtype.type(vectors.entry(start + np.uint64(i)))
            total += h[i] * entry * entry
        for p in range(count):
            value = h.dtype.type(roots[p] * vectors.entry(start + np.uint64(used[p])))
            values[first + np.uint64(p)] = value
            kept += value * value
        squares[k], rest[k] = max(total, kept), max(total - kept, h.dtype.type(0.0))


@kernel
def spread_some_rows(vectors, at, h, place, roots, values, squares, rest):
    """The same of sparse vectors, where row i goes to place[i], and nowhere if that is negative; `values` is dense again."""
    count = roots.shape[0]
    for k in range(at.shape[0]):
        first = np.uint64(k) * np.uint64(count)
        for p in range(count):
            values[first + np.uint64(p)] = 0.0
        total, kept = 0.0, 0.0
        for p in range(vectors.first(at[k]), vectors.last(at[k])):
            i, entry = vectors.position(at[k], p), vectors.entry(p)
            total += h[i] * entry * entry
            if place[i] >= 0:
                value = roots[place[i]] * entry
                values[first + np.uint64(place[i])] = value
                kept += value * value
        squares[k], rest[k] = max(total, kept), max(total - kept, 0.0)


class BentRows:
    """The rows of which a model is made, and the roots of their weights.

    Parameters
    ----------
    h : array of shape (n,)
        Curvatures.
    sample : mask of shape (n,), optional
        Rows to be taken at most, for a rough model; their weights are raised for the others.
    sweeps : float
        How often the scaled columns will be read, as far as that is known: if seldom, all rows are taken.

    Attributes
    ----------
    roots : array of shape (count,) in float32
        Roots of the weights of the rows that are used.
    total : float
        Sum of these weights.
    bent : int
        How many rows bend, whether others are used or not.
    """

    def __init__(self, h: np.ndarray, sample: np.ndarray | None = None, sweeps: float = math.inf):
        bent = h > FLAT * h.mean() if sample is None else sample & (h > 0.0)
        factor = 1.0 if sample is None else len(h) / max(int(np.count_nonzero(sample)), 1)
        used = np.flatnonzero(bent)
        spared = 1.0 - len(used) / len(h)
        worth = sample is not None or (spared >= 1.0 - MOST_ROWS and sweeps * spared >= PICKED)
        self.used, self.bent = used if worth else None, len(used)
        kept = factor * (h if self.used is None else h[used])
        self.h, self.roots, self.total = h.astype(np.float32), np.sqrt(kept).astype(np.float32), float(kept.sum())

    @property
    def count(self) -> int:
        """How many rows are used."""
        return len(self.roots)

    def scale(self, vectors: Any, at: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The vectors `at` of a stack on these rows, one behind the other in `out`.

        Returns the diagonal of the model, and the part of it that the scaled columns do not have.
        """
        squares, rest = np.empty(len(at)), np.zeros(len(at))
        if isinstance(vectors, SparseVectors):
            place = np.arange(len(self.h), dtype=np.int32)
            if self.used is not None:
                place[:] = -1
                place[self.used] = np.arange(self.count, dtype=np.int32)
            spread_some_rows(vectors, at, self.h, place, self.roots, out, squares, rest)
        elif self.used is None:
            scale_all_rows(vectors, at, self.roots, out, squares)
        else:
            scale_some_rows(vectors, at, self.h, self.used, self.roots, out, squares, rest)
        return squares, rest
