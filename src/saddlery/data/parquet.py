"""Parquet tables: one target column, all others numbers. Read by pyarrow (``saddlery[frames]``), a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from saddlery.data.base import TARGET_NAMES, Data, data_name
from saddlery.errors import InputError, unknown_name

__all__ = ["SUFFIXES", "open_source", "read"]

SUFFIXES = (".parquet", ".pq")
INDEX = "__index_level_"  # columns that pandas writes for the labels of rows
PARSED = 4  # copies of a batch while it is read


def read(path: Path, *, target: str | bool | None = None, n_features: int | None = None) -> Data:
    """Read a Parquet file; see :func:`saddlery.read_data`."""
    with _open(path) as file:
        features, at, dtype = _columns(path, file, target, n_features)
        if not file.metadata.num_rows:
            raise InputError(f"{path} holds no rows: give at least one")
        table = _guarded(path, lambda: file.read([*features, *([at] if at is not None else [])]))
        X = _matrix(path, table, features, dtype, 0)
        y = None if at is None else _targets(path, table, at, 0)
    return Data(X, y, features, data_name(path, SUFFIXES))


def open_source(path: Path, *, target: Any = None, n_features: int | None = None, room: int = 0) -> Any:
    """The file in chunks; see :mod:`saddlery.data.chunks`. A position is the number of rows that were read."""
    from saddlery.data.chunks import Chunk, Source

    with _open(path) as file:
        features, at, dtype = _columns(path, file, target, n_features)
        total = file.metadata.num_rows

    def chunks(position: Any, room: int, rows: int | None) -> Iterator[Chunk]:
        done = int(position or 0)
        step = rows or max(1, room // (8 * (len(features) + 1) * PARSED))
        with _open(path) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            ends = np.cumsum(sizes)
            group = int(np.searchsorted(ends, done, side="right"))
            skip = done - (int(ends[group - 1]) if group else 0)
            names = [*features, *([at] if at is not None else [])]
            batches = iter(file.iter_batches(batch_size=step, columns=names, row_groups=list(range(group, len(sizes)))))
            while (batch := _guarded(path, lambda: next(batches, None))) is not None:
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                batch, skip = batch.slice(skip), 0
                y = None if at is None else _targets(path, batch, at, done)
                X = _matrix(path, batch, features, dtype, done)
                done += batch.num_rows
                yield Chunk(X, y, done, done / max(total, 1))

    return Source(data_name(path, SUFFIXES), False, chunks, features, "keep", len(features), total, dtype.name)


def _open(path: Path) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'saddlery[frames]'") from error
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return _guarded(path, lambda: pyarrow.parquet.ParquetFile(path))


def _guarded(path: Path, read: Any) -> Any:
    """Call, and turn what pyarrow says of damaged files into our error."""
    import pyarrow

    try:
        return read()
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{path} is not a whole Parquet file ({' '.join(str(error).split())}): write it again") from error


def _columns(path: Path, file: Any, target: Any, n_features: int | None) -> tuple[list[str], str | None, np.dtype]:
    """The names of the features, that of the target, and the type of X."""
    import pyarrow

    schema = file.schema_arrow
    names = [name for name in schema.names if not name.startswith(INDEX)]
    if len(set(names)) < len(names):
        raise InputError(f"{path} has two columns of the same name: give every column a name of its own")
    at: str | None
    if isinstance(target, str):
        if target not in names:
            raise unknown_name(f"target column of {path}", target, names)
        at = target
    else:
        at = next((name for name in TARGET_NAMES if name in names), None)
        if at is None and target is not False:
            raise InputError(f"{path} has no column named {', '.join(TARGET_NAMES)}: name the target column")
    features = [name for name in names if name != at]
    if not features:
        raise InputError(f"{path} holds no feature columns: give at least one")
    if n_features is not None and n_features != len(features):
        raise InputError(f"{path} has {len(features)} feature columns, not n_features = {n_features}")
    kinds = pyarrow.types
    for name in features:
        kind = schema.field(name).type
        if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)):
            raise InputError(f"{path}: column {name!r} holds {kind}, which is no number: encode or remove it")
    single = all(schema.field(name).type == pyarrow.float32() for name in features)
    return features, at, np.dtype(np.float32 if single else np.float64)


def _matrix(path: Path, table: Any, features: list[str], dtype: np.dtype, before: int) -> np.ndarray:
    out = np.empty((table.num_rows, len(features)), dtype=dtype)
    for column, name in enumerate(features):
        values = table.column(name)
        if values.null_count:
            row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise InputError(f"{path}: column {name!r} has a missing value in row {before + row + 1}: impute it or remove the row")
        out[:, column] = values.to_numpy(zero_copy_only=False) if hasattr(values, "type") else values
        if not np.isfinite(out[:, column]).all():
            row = int(np.flatnonzero(~np.isfinite(out[:, column]))[0])
            raise InputError(
                f"{path}: column {name!r} holds a number that is not finite in row {before + row + 1}: encode or remove it"
            )
    return out


def _targets(path: Path, table: Any, name: str, before: int) -> np.ndarray:
    values = table.column(name)
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"{path}: column {name!r} has no target in row {before + row + 1}: every row needs a target")
    y = np.array(values.to_pylist()) if values.type.id == _dictionary() else values.to_numpy(zero_copy_only=False)
    return y.astype(str) if y.dtype.kind == "O" else y


def _dictionary() -> int:
    import pyarrow

    return pyarrow.dictionary(pyarrow.int32(), pyarrow.string()).id
