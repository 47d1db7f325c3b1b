"""Data files in chunks of rows, for files that are larger than memory.

A reader whose module has ``open_source(path, *, target, n_features) -> Source`` is read in chunks; of others the file is read as a
whole and then cut. A chunk says where the next one begins, so that a conversion that was interrupted goes on there.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from saddlery.data import DEFAULT_FORMAT, format_of, read_data
from saddlery.errors import InputError
from saddlery.matrix import as_matrix
from saddlery.matrix.partial import PartialMatrix
from saddlery.registry import READERS

__all__ = ["Chunk", "Source", "source_of"]

ENDS = 65_536  # bytes at both ends of a file that tell it from others


class Chunk(NamedTuple):
    """Some rows: data, targets (or None), where the next chunk begins (JSON), and the share of the source that is read by then."""

    X: Any
    y: np.ndarray | None
    position: Any
    done: float | None


@dataclass
class Source:
    """Rows that come in chunks.

    Attributes
    ----------
    name, feature_names
        As those of :class:`~saddlery.data.Data`.
    sparse : bool
        Whether chunks are CSR.
    chunks : callable
        ``chunks(position, room, rows)`` yields chunks from a position on (None: the beginning), each about `room` bytes large while
        it is read, and of at most `rows` rows if that is given.
    targets : {"keep", "whole", "text"}
        Whether targets stay as they are, become whole numbers if all are, or are text of what may be numbers.
    columns, rows : int or None
        Numbers of columns and rows, where they are known in advance.
    dtype : str
        The type that X would have in memory.
    identity : dict or None
        What tells this source from others; None for one that cannot be read twice.
    modified : int or None
        When a file was changed last.
    """

    name: str
    sparse: bool
    chunks: Callable[[Any, int, int | None], Iterator[Chunk]]
    feature_names: list[str] | None = None
    targets: str = "keep"
    columns: int | None = None
    rows: int | None = None
    dtype: str = "float64"
    identity: dict[str, Any] | None = None
    modified: int | None = None


def source_of(source: Any, target: Any, n_features: int | None, format: str | None, room: int) -> Source:
    """A source from the name of a file, from (X, y), from X alone, or from an iterable of (X, y)."""
    if isinstance(source, str | os.PathLike):
        return _file_source(Path(source), target, n_features, format, room)
    if format is not None or target is not None or n_features is not None:
        raise InputError("target, n_features and format are about files: leave them out for data in memory")
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], PartialMatrix):
        return _stream_source(_parts(*source))
    if isinstance(source, PartialMatrix):
        return _stream_source(_parts(source, getattr(source, "y", None)))
    if isinstance(source, tuple) and len(source) == 2:
        return array_source(*source)
    if isinstance(source, np.ndarray) or sp.issparse(source):
        return array_source(source, None)
    if isinstance(source, Iterable) and not isinstance(source, list):
        return _stream_source(iter(source))
    raise InputError(f"cannot convert a {type(source).__name__}: give a file, an array, (X, y), or an iterator of (X, y)")


def _file_source(path: Path, target: Any, n_features: int | None, format: str | None, room: int) -> Source:
    if not path.is_file():
        read_data(path, target=target, n_features=n_features, format=format)  # for its refusals
    chosen = format or format_of(path)
    module = sys.modules[READERS.get(chosen or DEFAULT_FORMAT).__module__]
    if hasattr(module, "open_source"):
        source = module.open_source(path, target=target, n_features=n_features, room=room)
    else:
        data = read_data(path, target=target, n_features=n_features, format=format)
        source = array_source(data.X, data.y, data.name, data.feature_names)
    source.identity = {**_identity(path), "format": chosen, "target": target, "n_features": n_features}
    source.modified = path.stat().st_mtime_ns
    return source


def _identity(path: Path) -> dict[str, Any]:
    """Name, size, and a checksum of both ends of a file."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        check = zlib.crc32(handle.read(ENDS))
        handle.seek(max(0, size - ENDS))
        check = zlib.crc32(handle.read(ENDS), check)
    return {"file": path.name, "bytes": size, "crc32_of_ends": check}


def array_source(X: Any, y: Any, name: str = "data", feature_names: list[str] | None = None) -> Source:
    """Rows of data in memory.

    Examples
    --------
    >>> source = array_source(np.eye(5), None)
    >>> [chunk.X.shape for chunk in source.chunks(2, 100, None)]
    [(2, 5), (1, 5)]
    """
    values = as_matrix(X).values
    values = values.tocsr() if sp.issparse(values) else values
    y = None if y is None else np.asarray(y)
    n, d = values.shape
    if y is not None and y.shape != (n,):
        raise InputError(f"y has shape {y.shape}, but X has {n} rows: give one target for each row")

    def chunks(position: Any, room: int, rows: int | None) -> Iterator[Chunk]:
        per_row = 8.0 * (2.0 * values.nnz / n if sp.issparse(values) else d)
        step = rows or max(1, int(room / max(1.0, per_row)))
        for first in range(position or 0, n, step):
            last = min(first + step, n)
            yield Chunk(values[first:last], None if y is None else y[first:last], last, last / n)

    pieces = (values.data, values.indices, values.indptr) if sp.issparse(values) else (values,)
    identity = {"array": [n, d], "crc32": [_checksum(piece) for piece in (*pieces, *(() if y is None else (y,)))]}
    return Source(name, sp.issparse(values), chunks, feature_names, "keep", d, n, values.dtype.name, identity)


def _checksum(values: np.ndarray) -> int:
    """A checksum of all numbers, or texts, of an array."""
    if values.dtype.kind == "O":
        return zlib.crc32("\n".join(map(repr, values.tolist())).encode())
    check, step = 0, max(1, 2**24 // max(1, values[:1].nbytes))
    for first in range(0, len(values), step):  # whatever the order in memory
        check = zlib.crc32(np.ascontiguousarray(values[first : first + step]).reshape(-1).view(np.uint8).data, check)
    return check


def _stream_source(stream: Iterator[Any]) -> Source:
    """Rows from an iterator of (X, y), or of X. The first chunk is looked at: it tells the kind of data."""
    try:
        first = _pair(next(stream))
    except StopIteration:
        raise InputError("the iterator gives no chunks: give at least one row") from None
    d = first[0].shape[1]

    def chunks(position: Any, room: int, rows: int | None) -> Iterator[Chunk]:
        count = 0
        pair: tuple[Any, Any] | None = first
        while pair is not None:
            X, y = pair
            if X.shape[1] != d:
                raise InputError(f"a chunk has {X.shape[1]} columns, but the first one has {d}")
            count += X.shape[0]
            yield Chunk(X, y, count, None)
            following = next(stream, None)
            pair = None if following is None else _pair(following)

    return Source("data", sp.issparse(first[0]), chunks, None, "keep", d, None, first[0].dtype.name)


def _parts(matrix: PartialMatrix, y: Any) -> Iterator[tuple[Any, Any]]:
    """The rows of data that are read in parts, such as another store or some rows of it."""
    if y is not None and len(y) != matrix.shape[0]:
        raise InputError(f"y has {len(y)} values, but X has {matrix.shape[0]} rows: give one target for each row")
    for part, block in matrix.row_parts():
        yield block.values, None if y is None else np.asarray(y)[part]


def _pair(chunk: Any) -> tuple[Any, np.ndarray | None]:
    X, y = chunk if isinstance(chunk, tuple) and len(chunk) == 2 else (chunk, None)
    values = as_matrix(X).values
    y = None if y is None else np.asarray(y)
    if y is not None and y.shape != (values.shape[0],):
        raise InputError(f"a chunk has targets of shape {y.shape} for {values.shape[0]} rows: give one target for each row")
    return (values.tocsr() if sp.issparse(values) else values), y
