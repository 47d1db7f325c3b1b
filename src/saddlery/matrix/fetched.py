"""Features on demand: X is any object that can give one row or one column when it is asked for.

Such features are computed, or fetched from far away, only where they are drawn. What came is checked, counted and kept in a small
cache, so that a column which is drawn again (heavy weights are) costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from saddlery.errors import InputError
from saddlery.matrix.partial import PartialMatrix

__all__ = ["FeaturesOnDemand", "FetchedMatrix", "gives_features"]

CACHE_BYTES = 64_000_000
BULK = 4  # a request for more than this part of the cache is a pass over the data and leaves the cache as it is


@runtime_checkable
class FeaturesOnDemand(Protocol):
    """What X must be able to do if its entries are made when they are asked for.

    ``row(i)`` and ``column(j)`` must agree: ``row(i)[j] == column(j)[i]``, always, also when asked twice. Two more verbs are used
    where they are there: ``rows(index)`` and ``columns(index)`` give several at once, an array with one row for each index and an
    array with one *column* for each; a remote source then answers one request instead of many. An attribute ``dtype`` says float32
    where the numbers are (float64 otherwise).

    Examples
    --------
    >>> import numpy as np
    >>> class Products:
    ...     shape = (4, 3)
    ...     def row(self, i):
    ...         return i * np.arange(3.0)
    ...     def column(self, j):
    ...         return np.arange(4.0) * j
    >>> X = FetchedMatrix(Products())
    >>> X.matvec(np.array([1.0, 0.0, 1.0]))
    array([0., 2., 4., 6.])
    """

    shape: tuple[int, int]

    def row(self, i: int) -> Any:
        """Row i: d numbers."""
        ...

    def column(self, j: int) -> Any:
        """Column j: n numbers."""
        ...


def gives_features(X: Any) -> bool:
    """Whether X has the verbs of :class:`FeaturesOnDemand`.

    Examples
    --------
    >>> gives_features([[1.0, 2.0]])
    False
    """
    return callable(getattr(X, "row", None)) and callable(getattr(X, "column", None)) and hasattr(X, "shape")


class _Side:
    """The rows, or the columns: how to get them, what was asked for, and those that are kept."""

    def __init__(self, one: Callable[[int], Any], several: Callable[[np.ndarray], Any] | None, word: str, length: int, room: int):
        self.one, self.several, self.word, self.length, self.room = one, several, word, length, room
        self.kept: OrderedDict[int, np.ndarray] = OrderedDict()
        self.asked = self.fetched = 0

    def get(self, index: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The vectors of `index`, one behind the other."""
        self.asked += len(index)
        if self.room == 0 or len(index) * BULK > self.room:
            return self._fetch(index, dtype)
        missing = np.array(sorted({int(i) for i in index} - self.kept.keys()), dtype=np.int64)
        if len(missing):
            self.kept.update(zip(missing.tolist(), self._fetch(missing, dtype), strict=True))
        out = np.empty((len(index), self.length), dtype)
        for at, i in enumerate(index.tolist()):
            out[at] = self.kept[i]
            self.kept.move_to_end(i)
        while len(self.kept) > self.room:
            self.kept.popitem(last=False)
        return out

    def _fetch(self, index: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Ask the source; its own exceptions pass."""
        self.fetched += len(index)
        if self.several is not None:
            values = self._checked(self.several(index), (len(index), self.length), f"{self.word}s(index)", dtype)
            for at, i in enumerate(index.tolist()):
                self._refuse_non_finite(values[at], i)
            return values
        out = np.empty((len(index), self.length), dtype)
        for at, i in enumerate(index.tolist()):
            out[at] = self._checked(self.one(i), (self.length,), f"{self.word}({i})", dtype)
            self._refuse_non_finite(out[at], i)
        return out

    def _checked(self, values: Any, shape: tuple[int, ...], call: str, dtype: np.dtype) -> np.ndarray:
        try:
            out = np.asarray(values)
            if self.word == "column" and len(shape) == 2:
                out = out.T
            out = out.astype(dtype, order="C", copy=False) if out.dtype.kind in "fiub" else np.empty(0)
        except ValueError as error:
            raise InputError(f"X.{call} is no array of numbers: {error}") from error
        if out.shape != shape:
            wanted = shape[::-1] if self.word == "column" else shape
            raise InputError(f"X.{call} gave {_described(values)}: it must give real numbers of shape {wanted}")
        return out

    def _refuse_non_finite(self, values: np.ndarray, i: int) -> None:
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            name = "NaN" if np.isnan(values[at]) else "infinity"
            row, column = (i, at) if self.word == "row" else (at, i)
            raise InputError(f"X.{self.word}({i}) contains {name} at row {row}, column {column}: impute it where features are made")


def _described(values: Any) -> str:
    shape = getattr(values, "shape", None)
    kind = getattr(values, "dtype", type(values).__name__)
    return f"{type(values).__name__}" if shape is None else f"an array of shape {tuple(shape)} and type {kind}"


class FetchedMatrix(PartialMatrix):
    """X as an object that gives its rows and columns on demand, with a cache.

    Estimators and problems wrap such an object by themselves; wrap it yourself to choose the size of the cache or read the counts.

    Parameters
    ----------
    source : FeaturesOnDemand
        Has `shape`, `row(i)` and `column(j)`.
    cache_bytes : int, default=64_000_000
        Room for rows and columns that were asked for last, shared evenly; 0 keeps none, and then every draw is a call.
    block_bytes : int, default=64_000_000
        Room for one block of rows where a product needs all of them (exact certificates, predictions).

    Attributes
    ----------
    counts : dict
        ``rows`` and ``columns`` that were asked of this matrix, ``rows_fetched`` and ``columns_fetched`` that the source was asked
        for, and ``entries`` and ``entries_fetched``, the numbers in them. These are counted here and know nothing of the solver.
    """

    def __init__(self, source: Any, cache_bytes: int = CACHE_BYTES, block_bytes: int = 64_000_000):
        if not gives_features(source):
            raise InputError(f"{type(source).__name__} cannot give features: it needs shape, row(i) and column(j)")
        try:
            n, d = (int(length) for length in source.shape)
        except (TypeError, ValueError) as error:
            raise InputError(f"the shape of X is {source.shape!r}: it must be (rows, columns)") from error
        if n < 1 or d < 1:
            raise InputError(f"X has shape {(n, d)}: give at least one row and one column")
        if cache_bytes < 0 or block_bytes < 1:
            raise InputError("cache_bytes must be 0 or more, block_bytes 1 or more")
        dtype = np.dtype(np.float32 if np.dtype(getattr(source, "dtype", None) or np.float64) == np.float32 else np.float64)
        super().__init__((n, d), n * d, False, dtype, block_bytes)
        self.source = source
        self._rows = _Side(source.row, getattr(source, "rows", None), "row", d, cache_bytes // 2 // (d * dtype.itemsize))
        self._cols = _Side(source.column, getattr(source, "columns", None), "column", n, cache_bytes // 2 // (n * dtype.itemsize))

    def read_rows(self, index: np.ndarray) -> np.ndarray:
        """The rows of `index`."""
        return self._rows.get(index, self.dtype)

    def read_cols(self, index: np.ndarray) -> np.ndarray:
        """The columns of `index`."""
        return self._cols.get(index, self.dtype).T

    @property
    def counts(self) -> dict[str, int]:
        """What was asked for, and what the source was asked for; see the class."""
        (n, d), rows, cols = self.shape, self._rows, self._cols
        return {
            "rows": rows.asked,
            "columns": cols.asked,
            "entries": rows.asked * d + cols.asked * n,
            "rows_fetched": rows.fetched,
            "columns_fetched": cols.fetched,
            "entries_fetched": rows.fetched * d + cols.fetched * n,
        }

    def check_agreement(self, count: int = 3, random_state: Any = 0) -> None:
        """Compare `count` random rows with as many columns where they cross, and refuse a source that contradicts itself."""
        rng = np.random.default_rng(random_state)
        rows = rng.choice(self.shape[0], min(count, self.shape[0]), replace=False)
        cols = rng.choice(self.shape[1], min(count, self.shape[1]), replace=False)
        by_rows, by_cols = self.read_rows(rows)[:, cols], self.read_cols(cols)[rows]
        differ = np.argwhere(~np.isclose(by_rows, by_cols, rtol=1e-6, atol=0.0))
        if len(differ):
            i, j = rows[differ[0][0]], cols[differ[0][1]]
            one, other = by_rows[tuple(differ[0])], by_cols[tuple(differ[0])]
            raise InputError(f"X.row({i})[{j}] is {one}, but X.column({j})[{i}] is {other}: rows and columns must agree")
