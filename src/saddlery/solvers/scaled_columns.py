"""The columns that sweeps of a Newton step go over: C = diag(sqrt(h)) X_W, or X_W itself if all h are equal.

Sweeps over dense columns are as fast as memory is, and what they solve may be rounded: the next step begins from the true gradient.
So dense columns are copied in 16 bits, as multiples of a step that is right for the largest entry of each (5000 x 2000 lasso at
0.01 to 1e-6: 75 -> 50 ms). Columns whose entries differ too much in size for that show in rounds that gain little; then the copy is
made in single precision. So it is where few rows have nearly all curvature, of those rows alone (bent_rows.py).

Sparse columns are copied in single precision, with positions in 16 bits where rows are few enough: half the memory of what is in
double precision, in which they are copied where rounds gain little (news20, logistic at 0.001: a sweep 0.50 -> 0.41 ms, the copy
1.1 -> 0.6 ms). Rows that hardly bend stay: what tells rare columns apart may be there alone, and models without crawl.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.matrix import DenseVectors, SparseVectors, dense_stack
from saddlery.matrix.vectors import RoundedVectors, combine_of, dots_of
from saddlery.parts import kernel
from saddlery.solvers.bent_rows import BentRows

__all__ = ["DenseCopies", "ScaledColumns"]

STILL = 0.02  # share of the curvature: while no more than this moved, scaled columns serve on
STEPS = 32767.0  # of a column up to its largest entry
SHORT = 1 << 16  # rows that 16 bits can number
TINY, HUGE = 1e-30, 1e30  # square norms of columns beyond which single precision may lose them
CENTRED = {True: 1e-6, False: 1e-10}  # least share of a square norm that centring leaves, single precision or not: below is noise
TILE = 64  # rows and columns that are read at a time where the data are stored by rows: these stay in cache


# --------------------------------------------------------------------------- kernels


@kernel(fast_sums=True)
def scale_sparse(vectors, at, roots, values, indices, starts, squares):
    """The vectors `at` of a sparse stack, each entry times the root of its row; and their square norms."""
    count = 0
    for k in range(at.shape[0]):
        first = vectors.first(at[k])
        starts[k] = count
        total = 0.0
        for p in range(vectors.last(at[k]) - first):
            i = vectors.position(at[k], first + p)
            value = values.dtype.type(roots[i] * vectors.entry(first + p))
            values[np.uint64(count + p)] = value
            indices[np.uint64(count + p)] = i
            total += 1.0 * value * value
        count += vectors.last(at[k]) - first
        squares[k] = total
    starts[at.shape[0]] = count


@kernel(fast_sums=True)
def scale_dense(vectors, at, roots, places, values, squares):
    """The vectors `at` of a dense stack to their places, each entry times the root of its row; and their square norms."""
    length = roots.shape[0]
    for k in range(at.shape[0]):
        start, to = np.uint64(at[k]) * np.uint64(length), np.uint64(places[k]) * np.uint64(length)
        total: Any = 0.0
        for i in range(length):
            value = np.float32(roots[i] * vectors.entry(start + np.uint64(i)))
            values[to + np.uint64(i)] = value
            total += 1.0 * value * value
        squares[places[k]] = total


@kernel
def step_above(vectors, eighth):
    """The step of a column from the sum of the eighth powers of its entries: the root bounds the largest. 0 if it is lost."""
    return math.sqrt(math.sqrt(math.sqrt(eighth))) / STEPS if eighth < math.inf else 0.0


@kernel(inline=True)
def scaled_entry(vectors, roots, even, i, p):
    """An entry of row i times the root of that, which is 1 if all rows are `even`."""
    return 1.0 * vectors.entry(p) if even else roots[i] * vectors.entry(p)


@kernel(fast_sums=True)
def round_columns(vectors, at, roots, even, places, values, steps, squares):
    """The vectors `at` of a dense stack to their places, times the roots of rows, as multiples of steps; and their square norms.

    To find the largest entry takes longer than to sum powers, which is vector code (2000 columns of 5000: 9 -> 5 ms in all).
    """
    length = roots.shape[0]
    for k in range(at.shape[0]):
        start, to = np.uint64(at[k]) * np.uint64(length), np.uint64(places[k]) * np.uint64(length)
        eighth = 0.0
        for i in range(length):
            value = scaled_entry(vectors, roots, even, np.uint64(i), start + np.uint64(i))
            value *= value
            value *= value
            eighth += value * value
        step = step_above(vectors, eighth)
        inverse = 1.0 / step if step > 0.0 else 0.0
        total = np.float32(0.0)
        for i in range(length):
            value = scaled_entry(vectors, roots, even, np.uint64(i), start + np.uint64(i))
            whole = np.int16(np.rint(inverse * value))
            values[to + np.uint64(i)] = whole
            total += np.float32(whole) * np.float32(whole)
        steps[places[k]], squares[places[k]] = step, step * step * total


@kernel(fast_sums=True)
def round_rows(rows, roots, even, values, steps, squares):
    """The same from a stack of rows, all columns, in tiles that stay in cache."""
    n, m = roots.shape[0], steps.shape[0]
    inverses = np.zeros(m)
    for i in range(n):
        for k in range(m):
            value = scaled_entry(rows, roots, even, np.uint64(i), np.uint64(i * m + k))
            value *= value
            value *= value
            inverses[k] += value * value
    for k in range(m):
        steps[k], squares[k] = step_above(rows, inverses[k]), 0.0
        inverses[k] = 1.0 / steps[k] if steps[k] > 0.0 else 0.0
    for low in range(0, n, TILE):
        for first in range(0, m, TILE):
            for i in range(low, min(low + TILE, n)):
                for k in range(first, min(first + TILE, m)):
                    value = scaled_entry(rows, roots, even, np.uint64(i), np.uint64(i * m + k))
                    whole = np.int16(np.rint(inverses[k] * value))
                    values[np.uint64(k * n + i)] = whole
                    squares[k] += np.float32(whole) * np.float32(whole)
    for k in range(m):
        squares[k] *= steps[k] * steps[k]


# --------------------------------------------------------------------------- the columns of the model


class ScaledColumns:
    """The columns C of the model; see the top of the file.

    Scaled once a step: the alternative, to multiply by h in each update of each sweep, takes a third longer.

    Parameters
    ----------
    block : WorkingBlock
        The columns X_W.
    h : array of shape (n,)
        Weights of the rows.
    coarse : bool
        Whether 16 bits do for dense columns, and single precision for sparse ones.

    Attributes
    ----------
    sums, pull : array of shape (m,), float
        What centres the columns where there is an intercept, and zeros where there is none: C'roots, and 1 / sum_i roots_i^2.
    curvatures : array of shape (m,)
        Of the model along each column, centred if there is an intercept.
    """

    def __init__(self, block: Any, h: np.ndarray, coarse: bool = True):
        self.curvatures: np.ndarray = np.empty(block.m)
        self._scale(block, h, coarse)
        self.sums, self.pull = np.zeros(block.m), 0.0
        if block.intercept and self.total > 0.0:
            self.sums, self.pull = self.dots(np.arange(block.m), self.roots), self.weight / self.total
            centred = self.curvatures - self.weight * self.pull * np.square(self.sums)
            self.curvatures = np.maximum(centred, CENTRED[self.single] * self.curvatures)

    def _scale(self, block: Any, h: np.ndarray, coarse: bool) -> None:
        self.h, self.even, self.coarse = h.copy(), bool(h.min() == h.max()), coarse
        self.dense = self.single = block.dense  # single: whether t is in single precision
        self.rest, self.bent = np.zeros(block.m), len(h)  # parts of the diagonal that C has not; how many rows bend
        self.weight, self.total = float(h[0]) if self.even else 1.0, float(h.sum())
        self.cols, self.at = block.cols, block.at
        if self.dense and not self.even:
            rows = BentRows(h, sweeps=block.sweeps)
            self.bent = rows.bent
            if rows.used is not None:
                self._take(block, rows)
                return
        roots = np.ones(len(h)) if self.even else np.sqrt(h)
        self.roots = roots.astype(np.float32) if self.dense else roots
        if self.dense:
            self.cols, self.at, squares = block.copies.columns(block, roots, self.even, coarse)
            self.curvatures = self.weight * squares
        elif self.even:
            self.curvatures = self.weight * block.square_norms
        else:
            self._copy_sparse(block)

    def _copy_sparse(self, block: Any) -> None:
        """Sparse columns times the roots of rows, in single precision where that does."""
        self.single, self.curvatures = self.coarse, np.empty(block.m)
        kinds = (np.float32, np.uint16 if block.n <= SHORT else np.int32) if self.single else (np.float64, np.int32)
        self.roots = np.sqrt(self.h).astype(kinds[0])
        values, indices, starts = block.copies.room(block.entries, block.m, *kinds)
        scale_sparse(block.cols, block.at, self.roots, values, indices, starts, self.curvatures)
        if self.single and not _fits(self.curvatures):
            self.coarse = False
            self._copy_sparse(block)
            return
        self.cols, self.at = SparseVectors(values, indices, starts, block.n), np.arange(block.m)

    def _take(self, block: Any, rows: BentRows) -> None:
        """The columns on some rows only."""
        values, source = block.room(block.n * block.m, np.float32)[0], (block.cols, block.at)
        if block.cols is None:
            source = (dense_stack(np.ascontiguousarray(block.array)), np.arange(block.m))
        self.roots, self.total = rows.roots, rows.total
        self.cols, self.at = DenseVectors(values[: block.m * rows.count], rows.count), np.arange(block.m)
        self.curvatures, self.rest = rows.scale(*source, values)

    def serves(self, h: np.ndarray, coarse: bool) -> bool:
        """Whether these columns, made for other weights, are near enough to those for h."""
        return coarse == self.coarse and float(np.abs(h - self.h).sum()) <= STILL * float(h.sum())

    def margins(self, t: np.ndarray) -> np.ndarray | None:
        """X_W (u - u0) from t, unless that is rounded or lost."""
        if self.single or not (self.even or self.roots.min() > 0.0):
            return None
        return t if self.even else t / self.roots

    def rebase(self, q: np.ndarray, t: np.ndarray, drift: np.ndarray) -> float:
        """Bring the gradient q to where t is, which becomes zero, as does the drift; returns by how much the slope of b rose."""
        rise = self.weight * float(drift[0])
        q += self.weight * self.dots(np.arange(len(self.at)), t) - self.pull * rise * self.sums
        t[:], drift[:] = 0.0, 0.0
        return rise

    def combine(self, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """C values, where `values` are those of some columns."""
        out = np.zeros(len(self.roots), dtype=self.roots.dtype)
        combine_of(self.cols, self.at[columns], values, out)
        return out

    def dots(self, columns: np.ndarray, x: np.ndarray) -> np.ndarray:
        """C'x on some columns."""
        out = np.empty(len(columns))
        dots_of(self.cols, self.at[columns], x, out)
        return out


def _fits(squares: np.ndarray) -> bool:
    """Whether columns of these square norms can be held in single precision."""
    return bool((squares < HUGE).all() and ((squares > TINY) | (squares == 0.0)).all())


class DenseCopies:
    """Dense columns for sweeps, each copied when it is first asked for: in 16 bits, or in single precision.

    Where rows keep their weights, a column is copied once for all rounds and all strengths of a path. Room that is not used is not
    taken from memory either.

    Parameters
    ----------
    n, count : int
        Length and number of the columns that there may be.
    """

    def __init__(self, n: int, count: int):
        self.n, self.coarse = n, True
        self.values: Any = np.empty(0)
        self.roots: Any = None  # of the weights of rows
        self.steps, self.squares, self.there = np.empty(count), np.empty(count), np.zeros(count, dtype=bool)
        self.sparse: Any = (np.empty(0), np.empty(0, dtype=np.int32))

    def room(self, entries: int, m: int, kind: Any, index: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Room for sparse columns, the same each time if it can be: values, positions and starts.

        Memory that is new costs as much as what is written there.
        """
        values, indices = self.sparse
        if len(values) < entries or values.dtype != kind or indices.dtype != index:
            most = entries + entries // 2
            self.sparse = (np.empty(most, dtype=kind), np.empty(most, dtype=index))
        return (*self.sparse, np.empty(m + 1, dtype=np.int64))

    def columns(self, block: Any, roots: np.ndarray, even: bool, coarse: bool) -> tuple[Any, np.ndarray, np.ndarray]:
        """The columns of a block times the roots of rows: a stack that holds them, where they are in it, and their square norms."""
        if not len(self.values) or coarse != self.coarse:
            self.coarse, self.roots = coarse, None
            self.values = np.empty(len(self.steps) * self.n, dtype=np.int16 if coarse else np.float32)
        if self.roots is None or not np.array_equal(roots, self.roots):
            self.roots = roots
            self.there[:] = False
        missing = np.flatnonzero(~self.there[block.places])
        if len(missing):
            self._copy(block, missing, even)
            self.there[block.places] = True
        stack = RoundedVectors(self.values, self.steps, self.n) if coarse else DenseVectors(self.values, self.n)
        return stack, block.places, self.squares[block.places]

    def _copy(self, block: Any, missing: np.ndarray, even: bool) -> None:
        places = block.places[missing]
        if block.cols is not None:
            source = (block.cols, block.at[missing])
        elif block.array.flags.c_contiguous or not (self.coarse and len(missing) == len(self.steps)):
            source = (dense_stack(np.ascontiguousarray(block.array)), missing)
        else:
            round_rows(dense_stack(block.array.T), self.roots, even, self.values, self.steps, self.squares)
            return
        if self.coarse:
            round_columns(*source, self.roots, even, places, self.values, self.steps, self.squares)
        else:
            scale_dense(*source, self.roots, places, self.values, self.squares)
