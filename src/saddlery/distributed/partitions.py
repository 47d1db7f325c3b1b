"""From Dask collections or a Parquet path to partitions that rounds can visit, and what must be known of all of them first."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from saddlery.distributed.blocks import Block, PartitionError, Reading, Source, encode_labels, make_block
from saddlery.distributed.rounds import Meter, Visitor, make_pool
from saddlery.errors import InputError

__all__ = ["Collections", "Partitions", "as_collections", "is_path"]

MOST_CLASSES = 1000  # labels: more are numbers that were meant for a regressor


def is_path(X: Any) -> bool:
    """Whether X is a path and no data."""
    return isinstance(X, str | os.PathLike)


class Collections(NamedTuple):
    """Delayed partitions of X, y and the weights, and what is known of them before any is read."""

    X: list[Any]
    y: list[Any] | None
    weights: list[Any] | None
    columns: tuple[Any, Any] = (None, None)  # names of y and the weights inside the tables of X
    features: Any = None  # names of the features
    places: tuple[str, ...] = ()  # files, one for each partition
    nbytes: float = math.nan  # size in memory, if it is known
    lengths: tuple[float, ...] = ()  # rows of the partitions, NaN where unknown


# --------------------------------------------------------------------------- reading


def as_collections(X: Any, y: Any = None, sample_weight: Any = None) -> Collections:
    """Partitions by rows of a dask array, a dask data frame or a Parquet path, with the targets and weights that belong to them.

    Parameters
    ----------
    X : dask array, dask data frame, or path of a Parquet file or directory
        Data. Blocks of an array may be sparse.
    y : dask array or series, array, or the name of a column of X
        Targets, in the partitions of X.
    sample_weight : the same, optional
        Weights.
    """
    import dask.array as da

    places: tuple[str, ...] = ()
    if is_path(X):
        X, places = _read_parquet(os.fspath(X))
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise InputError(f"X must have two dimensions (rows and columns), not {X.ndim}")
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        sparse = type(X._meta).__module__.startswith("scipy")
        nbytes = math.nan if sparse or np.isnan(X.shape[0]) else float(X.nbytes)
        y = _along_array(y, X, "y")
        weights = _along_array(sample_weight, X, "sample_weight")
        return Collections(_delayed(X), y, weights, nbytes=nbytes, lengths=tuple(map(float, X.chunks[0])))
    names = list(X.columns)
    columns = []
    for what, value in (("y", y), ("sample_weight", sample_weight)):
        is_name = isinstance(value, str) or (value is not None and np.ndim(value) == 0 and not hasattr(value, "to_delayed"))
        if is_name and value not in names:
            raise InputError(f"{what}={value!r} is no column of X: its columns are {', '.join(map(str, names[:20]))}")
        columns.append(value if is_name else None)
    features = [name for name in names if name not in columns]
    strange = [name for name in features if X.dtypes[name].kind not in "fiub"]
    if strange:
        raise InputError(f"column {strange[0]!r} of X does not hold numbers: encode or drop it first")
    y = None if columns[0] is not None else _along_frame(y, X.npartitions, "y")
    weights = None if columns[1] is not None else _along_frame(sample_weight, X.npartitions, "sample_weight")
    named = np.array(features, dtype=object) if all(isinstance(name, str) for name in features) else None
    return Collections(_delayed(X), y, weights, (columns[0], columns[1]), named, places, lengths=(math.nan,) * X.npartitions)


def _is_future(task: Any) -> bool:
    return type(task).__name__ == "Future"


def _delayed(collection: Any) -> list[Any]:
    """Its partitions. Dask's optimisation loses blocks that are on the workers already, so these are taken as they are."""
    persisted = any(map(_is_future, dict(collection.__dask_graph__()).values()))
    parts = collection.to_delayed(optimize_graph=not persisted)
    return list(np.ravel(parts)) if isinstance(parts, np.ndarray) else list(parts)


def _read_parquet(path: str) -> tuple[Any, tuple[str, ...]]:
    import dask.dataframe as dd

    files = _parquet_files(path)
    try:
        table = dd.read_parquet(path)
    except Exception as error:  # a footer that cannot be read: say whose
        number, name = next(((k, name) for k, name in enumerate(files) if not _has_footer(name)), (0, path))
        raise PartitionError(f"partition {number} ({name}) cannot be read: {error}", number) from None
    return table, tuple(files) if len(files) == table.npartitions else ()


def _parquet_files(path: str) -> list[str]:
    if "://" in path:  # Dask and fsspec know how to find these
        return []
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if name.endswith((".parquet", ".parq")))
        if not names:
            raise InputError(f"{path} holds no Parquet files: their names must end in .parquet")
        return [os.path.join(path, name) for name in names]
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist: give a Parquet file, or a directory of them")
    return [path]


def _has_footer(name: str) -> bool:
    import pyarrow
    import pyarrow.parquet

    try:
        pyarrow.parquet.read_metadata(name)
    except (OSError, pyarrow.ArrowException):
        return False
    return True


def _along_array(values: Any, X: Any, what: str) -> list[Any] | None:
    """Partitions of y or the weights that go with the blocks of X."""
    import dask.array as da

    if values is None:
        return None
    if isinstance(values, str):
        raise InputError(f"{what}={values!r} names a column, but X is an array: give the values, or X as a data frame")
    if hasattr(values, "npartitions") and not isinstance(values, da.Array):
        return _along_frame(values, X.numblocks[0], what)
    rows = X.chunks[0]
    unknown = any(np.isnan(rows))
    if not isinstance(values, da.Array):
        values = np.asarray(values)
        if unknown:
            raise InputError(f"the blocks of X have unknown sizes, so {what} must be a Dask collection with the same blocks")
        _check_length(values.shape[:1], X.shape[0], what)
        return _delayed(da.from_array(values, chunks=(rows, *((size,) for size in values.shape[1:]))))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not unknown and not any(np.isnan(values.chunks[0])):
        _check_length(values.shape, X.shape[0], what)
        return _delayed(values.rechunk((rows,)))
    if values.numblocks[0] != len(rows):
        raise InputError(f"{what} has {values.numblocks[0]} blocks and X {len(rows)}: with unknown sizes they must be the same")
    return _delayed(values)


def _check_length(shape: tuple[int, ...], n: int, what: str) -> None:
    if shape != (n,):
        raise InputError(f"{what} has shape {shape}, but X has {n} rows: give one value for each row")


def _along_frame(values: Any, count: int, what: str) -> list[Any] | None:
    if values is None:
        return None
    if not hasattr(values, "to_delayed"):
        raise InputError(f"{what} must be a Dask collection with the partitions of X, or the name of one of its columns")
    parts = _delayed(values)
    if len(parts) != count:
        raise InputError(f"{what} has {len(parts)} partitions and X {count}: they must be the same")
    return parts


def _sources(given: Collections) -> tuple[list[Source], bool]:
    """A source for each partition, and whether each can be read without reading others."""
    from dask.optimization import cull

    graph: dict[Any, Any] = {}
    for parts in (given.X, given.y, given.weights):
        for part in parts or ():
            if part.key not in graph:  # most share one graph
                graph.update(part.dask)
    sources, total = [], 0
    for number in range(len(given.X)):
        y, weights = (None if parts is None else parts[number].key for parts in (given.y, given.weights))
        keys = (given.X[number].key, y, weights)
        own, _ = cull(graph, [key for key in keys if key is not None])
        total += len(own)
        place = given.places[number] if given.places else ""
        sources.append(Source(number, dict(own), keys, given.columns, None, place))
    return sources, total <= 2 * len(graph) and not any(map(_is_future, graph.values()))


# --------------------------------------------------------------------------- what must be known of all partitions


class Inspect(Visitor):
    """Rows, columns, entries, bytes and labels of each partition, and sums of its weights."""

    def __init__(self, labels: bool):
        self.labels = labels

    def visit(self, block: Block, extra: Any) -> Any:
        weights = np.ones(block.n) if block.weights is None else block.weights
        found, numbers = None, (0.0, 0.0, True)
        if not self.labels:
            try:
                y = block.targets.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise PartitionError(
                    f"partition {block.number}: y must hold numbers ({error}): use LinearClassifier for labels", block.number
                ) from None
            numbers = (float(weights @ y), float(weights @ (y > 0.0)), bool((np.abs(y) == 1.0).all()))
        else:
            counted = block.targets[weights > 0.0]
            classes, codes = np.unique(counted, return_inverse=True)
            if len(classes) > MOST_CLASSES:
                raise PartitionError(
                    f"partition {block.number}: y holds more than {MOST_CLASSES} classes: use LinearRegressor for numbers",
                    block.number,
                )
            if classes.dtype.kind == "f" and (classes != np.round(classes)).any():
                raise PartitionError(
                    f"partition {block.number}: y holds numbers that are no labels (Unknown label type): use "
                    f"LinearRegressor for them",
                    block.number,
                )
            found = (classes, np.bincount(codes, weights[weights > 0.0], minlength=len(classes)))
        return {
            "n": block.n,
            "d": block.matrix.shape[1],
            "nnz": block.matrix.nnz,
            "bytes": block.nbytes,
            "total": float(weights.sum()),
            "squares": float(weights @ block.matrix.row_square_norms),
            "classes": found,
            "numbers": numbers,
        }


class Partitions:
    """All partitions of a data set, ready for rounds.

    Parameters
    ----------
    X, y, sample_weight
        See :func:`as_collections`.
    labels : bool
        Whether y holds labels of classes, and not numbers.
    keep : bool, optional
        Whether partitions stay in memory between rounds; by default if they take less than two fifths of it. Otherwise each
        round reads them again, one at a time for each thread.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None, labels: bool = False, keep: bool | None = None):
        given = as_collections(X, y, sample_weight)
        sources, independent = _sources(given)
        self.features, self.places, self.meter = given.features, [source.place for source in sources], Meter()
        self.pool = make_pool(sources)
        fits = given.nbytes <= self.pool.room if keep is None else keep  # False where the size is not known
        self.kept = bool(fits or not independent)
        if self.kept:
            self._hold(given, sources)
        facts = self._inspected(labels)
        if not self.kept and keep is None and sum(fact["bytes"] for fact in facts) <= self.pool.room:
            self.kept = True
            self._hold(given, sources)
        self._summarise(facts, labels)
        if self.kept:  # from here on each lives with its owner
            self.pool.change(encode_labels, self.classes)
        elif labels:
            self.pool.items = [source.with_classes(self.classes) for source in sources]
        self.lengths = [fact["n"] for fact in facts]

    def _hold(self, given: Collections, sources: Sequence[Source]) -> None:
        from dask import delayed

        make = delayed(make_block, pure=False)
        parts = []
        for source in sources:
            k = source.number
            y, weights = (None if values is None else values[k] for values in (given.y, given.weights))
            name = f"saddlery-block-{k}-{id(self):x}"
            parts.append(make(k, given.X[k], y, weights, given.columns, source.place, dask_key_name=name))
        with _named_partitions(parts, self.places, self.pool):
            self.pool.hold(parts)

    def _inspected(self, labels: bool) -> list[dict[str, Any]]:
        with _named_partitions(None, self.places, self.pool):
            _, facts = self.pool.run(self.meter, Inspect, labels)
        empty = {
            "n": 0,
            "d": None,
            "nnz": 0,
            "bytes": 0,
            "total": 0.0,
            "squares": 0.0,
            "classes": None,
            "numbers": (0.0, 0.0, True),
        }
        return [empty if fact is None else fact for fact in facts]

    def _summarise(self, facts: list[dict[str, Any]], labels: bool) -> None:
        widths = {fact["d"]: number for number, fact in reversed(list(enumerate(facts))) if fact["n"]}
        if not widths:
            raise InputError("X has no rows: give at least one")
        if len(widths) > 1:
            (d, first), (other, number), *_ = sorted(widths.items(), key=lambda item: item[1])
            raise PartitionError(f"partition {number} has {other} columns, but partition {first} has {d}", number)
        self.d = next(iter(widths))
        if self.d == 0:
            raise InputError("X has no columns: give at least one")
        self.n, self.nnz = (sum(fact[name] for fact in facts) for name in ("n", "nnz"))
        self.total = math.fsum(fact["total"] for fact in facts)
        if self.total == 0.0:
            raise InputError("all sample weights are zero: at least one row must have a positive weight")
        self.mean_square = math.fsum(fact["squares"] for fact in facts) / self.total
        self.mean = math.fsum(fact["numbers"][0] for fact in facts) / self.total
        self.positive_share = math.fsum(fact["numbers"][1] for fact in facts) / self.total
        self.all_signs = all(fact["numbers"][2] for fact in facts)
        self.classes: Any = None
        if labels:
            found = [fact["classes"] for fact in facts if fact["classes"] is not None]
            self.classes = np.unique(np.concatenate([classes for classes, _ in found]))
            self.class_totals = np.zeros(len(self.classes))
            for classes, totals in found:
                self.class_totals[np.searchsorted(self.classes, classes)] += totals

    def run(self, make: Callable[[Any], Visitor], common: Any, meter: Meter, extras: Any = None, only: Any = None) -> Any:
        """One round; see :meth:`~saddlery.distributed.rounds.Pool.run`."""
        return self.pool.run(meter, make, common, extras, only)

    def lazily(self, function: Callable[..., Any], common: Any, extras: Sequence[Any] | None) -> Any:
        """A dask array of one number for each row: ``function(block, common, extra)`` of each partition."""
        import dask.array as da
        from dask import delayed

        call = delayed(partial(_call, function), pure=False)
        shared = delayed(common)
        pieces = []
        for number, item in enumerate(self.pool.items):
            extra = None if extras is None else extras[number]
            if self.lengths[number]:
                value = call(item if hasattr(item, "key") else delayed(item, traverse=False), shared, extra)
                pieces.append(da.from_delayed(value, shape=(self.lengths[number],), dtype=np.float64))
        return da.concatenate(pieces)

    def reading(self, positive: int | None = None, factors: Any = None) -> Reading:
        """How one problem reads targets and weights."""
        total = self.total if factors is None else float(self.class_totals @ factors)
        return Reading(total, positive, None if factors is None else np.asarray(factors, dtype=np.float64))


def _call(function: Any, item: Any, common: Any, extra: Any) -> Any:
    from saddlery.distributed.blocks import load_block

    return function(load_block(item) if isinstance(item, Source) else item, common, extra)


class _named_partitions:
    """Turns the error of a reader into one that names the partition."""

    def __init__(self, parts: Any, places: Sequence[str], pool: Any):
        self.parts, self.places, self.pool = parts, places, pool

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if error is None or isinstance(error, InputError) or not isinstance(error, Exception):
            return
        number = self._failed()
        if number is not None:
            place = f" ({self.places[number]})" if number < len(self.places) and self.places[number] else ""
            raise PartitionError(f"partition {number}{place} cannot be read: {error}", number) from None

    def _failed(self) -> int | None:
        for number, item in enumerate(self.pool.items):
            if getattr(item, "status", "") == "error":
                return number
        for number, part in enumerate(self.parts or ()):
            try:
                part.compute(scheduler="synchronous")
            except Exception:  # the one that we look for
                return number
        return None
