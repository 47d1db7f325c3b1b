"""What a worker sees: one partition as a block of rows, and where it is read from. Nothing here knows the cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from saddlery.errors import InputError
from saddlery.matrix import Matrix, as_matrix

__all__ = ["Block", "PartitionError", "Reading", "Source", "encode_labels", "load_block", "make_block"]


class PartitionError(InputError):
    """A partition cannot be used; `number` says which."""

    def __init__(self, message: str, number: int = -1):
        super().__init__(message)
        self.number = number

    def __reduce__(self) -> Any:
        return PartitionError, (str(self), self.number)


class Reading(NamedTuple):
    """How the targets and weights of a block are read by one problem.

    `positive` is the class that counts as +1 (None: targets are numbers, or signs already), `factors` multiply the weights of each
    class, `total` is the sum of all weights of all partitions: weights are divided by it, so that they sum to one over all rows.
    """

    total: float
    positive: int | None = None
    factors: Any = None


@dataclass(frozen=True)
class Block:
    """The rows of one partition.

    Attributes
    ----------
    number : int
        Which partition.
    matrix : Matrix
        Its rows; may be empty.
    targets : array
        Labels as they came, class numbers from 0 (-1: a class without weight), or numbers.
    weights : array or None
        Weights as they came; None: all 1.
    """

    number: int
    matrix: Matrix
    targets: np.ndarray
    weights: np.ndarray | None

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.matrix.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        values = self.matrix.values
        stored = values.data.nbytes + values.indices.nbytes + values.indptr.nbytes if sp.issparse(values) else values.nbytes
        return int(stored + self.targets.nbytes)

    def y(self, reading: Reading) -> np.ndarray:
        """The targets as a loss takes them."""
        if reading.positive is None:
            return self.targets.astype(np.float64, copy=False)
        return np.where(self.targets == reading.positive, 1.0, -1.0)

    def s(self, reading: Reading) -> np.ndarray:
        """The weights of the rows as shares of all partitions."""
        if reading.factors is None:
            return np.full(self.n, 1.0 / reading.total) if self.weights is None else self.weights / reading.total
        factors = np.where(self.targets >= 0, np.asarray(reading.factors)[self.targets], 0.0) / reading.total
        return factors if self.weights is None else self.weights * factors


@dataclass(frozen=True)
class Source:
    """How to read a partition: a small graph of tasks that stands on its own.

    Attributes
    ----------
    number : int
        Which partition.
    graph : dict
        Dask tasks.
    keys : tuple
        Of X, of y and of the weights (or None).
    columns : tuple
        Names of the columns that hold y and the weights in a table; None for those that are given apart.
    classes : array or None
        Labels to turn into numbers.
    place : str
        The file, if it is known.
    """

    number: int
    graph: dict[Any, Any]
    keys: tuple[Any, Any, Any]
    columns: tuple[Any, Any] = (None, None)
    classes: Any = None
    place: str = ""

    def with_classes(self, classes: Any) -> Source:
        """The same partition, its labels turned into numbers."""
        return replace(self, classes=classes)


def load_block(source: Source) -> Block:
    """Read a partition in this thread."""
    from dask import get

    try:
        wanted = [key for key in source.keys if key is not None]
        values = dict(zip(wanted, get(source.graph, wanted), strict=True))
    except Exception as error:  # whatever a reader raises: the partition is what the user can look at
        where = f" ({source.place})" if source.place else ""
        raise PartitionError(f"partition {source.number}{where} cannot be read: {error}", source.number) from None
    X, y, weights = (None if key is None else values[key] for key in source.keys)
    block = make_block(source.number, X, y, weights, source.columns, source.place)
    return encode_labels(block, source.classes)


def make_block(number: int, X: Any, y: Any, weights: Any, columns: tuple[Any, Any] = (None, None), place: str = "") -> Block:
    """A block from what Dask computed for a partition: arrays, sparse matrices or tables; checked."""
    name = f"partition {number} ({place})" if place else f"partition {number}"
    if any(column is not None for column in columns):
        missing = [column for column in columns if column is not None and column not in X.columns]
        if missing:
            raise PartitionError(f"{name} has no column {missing[0]!r}", number)
        y = X[columns[0]] if columns[0] is not None else y
        weights = X[columns[1]] if columns[1] is not None else weights
        X = X.drop(columns=[column for column in columns if column is not None])
    try:
        values = X.to_numpy() if hasattr(X, "to_numpy") else X
        matrix = as_matrix(values) if values.shape[0] else _empty(values)
    except InputError as error:
        raise PartitionError(f"{name}: {error}", number) from None
    targets = np.zeros(matrix.shape[0]) if y is None else _column(y)
    s = None if weights is None else np.asarray(_column(weights), dtype=np.float64)
    for what, column in (("y", targets), ("sample_weight", s)):
        if column is not None and column.shape != (matrix.shape[0],):
            raise PartitionError(f"{name} has {matrix.shape[0]} rows of X, but {what} of shape {column.shape} there", number)
    if targets.dtype.kind == "c":
        raise PartitionError(f"{name}: y holds complex numbers, give real ones or labels", number)
    if targets.dtype.kind == "f" and not np.isfinite(targets).all():
        row = np.flatnonzero(~np.isfinite(targets))[0]
        raise PartitionError(f"{name}: y contains NaN or infinity at its row {row}: remove that row or give its target", number)
    if targets.dtype.kind == "O" and any(value is None or (isinstance(value, float) and np.isnan(value)) for value in targets):
        raise PartitionError(f"{name}: y has a missing label: remove that row or give its target", number)
    if s is not None and not (np.isfinite(s).all() and (s >= 0.0).all()):
        raise PartitionError(f"{name}: sample_weight must hold finite numbers of 0 or more", number)
    return Block(number, matrix, targets, s)


def _empty(values: Any) -> Matrix:
    return Matrix(sp.csr_array(values.shape) if sp.issparse(values) else np.zeros(values.shape))


def _column(values: Any) -> np.ndarray:
    values = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def encode_labels(block: Block, classes: Any) -> Block:
    """The block with labels turned into numbers, if there are classes; labels that are no class (no row has weight) become -1."""
    if classes is None:
        return block
    place = np.searchsorted(classes, block.targets)
    codes = np.where(classes[np.minimum(place, len(classes) - 1)] == block.targets, place, -1)
    return replace(block, targets=codes.astype(np.int64))
