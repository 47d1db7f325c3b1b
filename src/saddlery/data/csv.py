"""CSV with a header: one target column, all others numbers. Commas, semicolons or tabs, quotes as usual."""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from saddlery.data.base import TARGET_NAMES, Data, data_name, open_bytes, whole_numbers
from saddlery.errors import InputError, unknown_name

__all__ = ["SUFFIXES", "column_names", "open_source", "read"]

SUFFIXES = (".csv", ".tsv")
PARSED = 4  # bytes that a byte of numbers may take while it is parsed, and copies of it


class _Rows(NamedTuple):
    """Parsed rows: numbers one behind the other, targets as text, and the number of lines read so far."""

    values: array[float]
    targets: list[str]
    line: int


def read(path: Path, *, target: str | bool | None = None, n_features: int | None = None) -> Data:
    """Read CSV; see :func:`saddlery.read_data`."""
    with _open_text(path) as text:
        names, delimiter = _header(path, text)
        at = _target_column(path, names, target)
        rows = next(_read_rows(path, text, delimiter, names, at), _Rows(array("d"), [], 1))
    features = _features(path, names, at, n_features)
    X = _as_table(rows, len(features))
    if not X.size:
        raise InputError(f"{path} holds no {'rows' if features else 'feature columns'}: give at least one")
    y = None if at is None else _as_targets(path, rows.targets, names[at])
    return Data(X, y, features, data_name(path, SUFFIXES))


def _features(path: Path, names: list[str], at: int | None, n_features: int | None) -> list[str]:
    features = [name for column, name in enumerate(names) if column != at]
    if n_features is not None and n_features != len(features):
        raise InputError(f"{path} has {len(features)} feature columns, not n_features = {n_features}")
    return features


def _as_table(rows: _Rows, width: int) -> np.ndarray:
    if width and len(rows.values):
        return np.frombuffer(rows.values, dtype=np.float64).reshape(-1, width)
    return np.empty((len(rows.targets), width))


def open_source(path: Path, *, target: Any = None, n_features: int | None = None, room: int = 0) -> Any:
    """The file in chunks; see :mod:`saddlery.data.chunks`. A position is the number of lines that were read."""
    from saddlery.data.chunks import Chunk, Source

    with _open_text(path) as text:
        names, delimiter = _header(path, text)
    at = _target_column(path, names, target)
    features, size = _features(path, names, at, n_features), max(path.stat().st_size, 1)
    if not features:
        raise InputError(f"{path} holds no feature columns: give at least one")

    def chunks(position: Any, room: int, rows: int | None) -> Iterator[Chunk]:
        step = rows or max(1, room // (8 * len(names) * PARSED))
        with path.open("rb") as raw, _open_text(path, raw) as text:
            for _ in range(position or 1):  # the header, and what was read before
                text.readline()
            for part in _read_rows(path, text, delimiter, names, at, position or 1, step):
                y = None if at is None else np.array(part.targets)
                yield Chunk(_as_table(part, len(features)), y, part.line, min(1.0, raw.tell() / size))

    return Source(data_name(path, SUFFIXES), False, chunks, features, "text", len(features))


def column_names(path: Path) -> list[str]:
    """The names of all columns, from the header alone."""
    with _open_text(path) as text:
        return _header(path, text)[0]


@contextmanager
def _open_text(path: Path, raw: IO[bytes] | None = None) -> Iterator[io.TextIOWrapper]:
    with open_bytes(path, raw) as handle, io.TextIOWrapper(handle, encoding="utf-8-sig", newline="") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 text: save it as CSV in UTF-8") from error
        except csv.Error as error:
            raise InputError(f"{path} is not CSV: {error}") from error


def _header(path: Path, text: io.TextIOWrapper) -> tuple[list[str], str]:
    """The names of the columns and the delimiter, which is the one that the first line has most of."""
    line = text.readline()
    delimiter = max(",;\t", key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter, strict=True), [])]
    if not any(names):
        raise InputError(f"{path} holds no header: the first line must name the columns")
    if "" in names or len(set(names)) < len(names):
        twice = next(name for column, name in enumerate(names) if not name or name in names[:column])
        raise InputError(f"{path}:1: the column name {twice!r} is empty or comes twice: give every column a name of its own")
    return names, delimiter


def _target_column(path: Path, names: list[str], target: str | bool | None) -> int | None:
    """The place of the target column, or None for a file that needs none."""
    if isinstance(target, str):
        if target not in names:
            raise unknown_name(f"target column of {path}", target, names)
        return names.index(target)
    found = [name for name in TARGET_NAMES if name in names]
    if found:
        return names.index(found[0])
    if target is False:
        return None
    raise InputError(f"{path} has no column named {', '.join(TARGET_NAMES)}: name the target column, one of {_listed(names)}")


def _read_rows(
    path: Path,
    text: io.TextIOWrapper,
    delimiter: str,
    names: list[str],
    at: int | None,
    before: int = 1,
    most: int | None = None,
) -> Iterator[_Rows]:
    """Rows from line `before` on, at most so many at a time; any cell that is not a finite number is refused by line and column."""
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    values, targets, count = array("d"), [], 0
    for row in reader:
        if not row:
            continue  # a blank line
        line = reader.line_num + before
        if len(row) != len(names):
            raise InputError(f"{path}:{line}: {len(row)} cells, but the header names {len(names)} columns")
        if at is not None:
            targets.append(row.pop(at).strip())
            if not targets[-1]:
                raise InputError(f"{path}:{line}: column {names[at]!r} is empty: every row needs a target")
        try:
            numbers = list(map(float, row))
        except ValueError:
            _refuse(path, line, row, names, at)
        if not math.isfinite(sum(numbers)) and not all(map(math.isfinite, numbers)):
            _refuse(path, line, row, names, at)
        values.extend(numbers)
        count += 1
        if count == most:
            yield _Rows(values, targets, line)
            values, targets, count = array("d"), [], 0
    if count:
        yield _Rows(values, targets, reader.line_num + before)


def _refuse(path: Path, line: int, row: list[str], names: list[str], at: int | None) -> NoReturn:
    """Name the first cell of the row that is not a finite number."""
    features = [name for column, name in enumerate(names) if column != at]
    for name, cell in zip(features, row, strict=True):
        if cell.strip().lower() in ("", "na", "n/a", "nan", "null", "none", "?"):
            raise InputError(f"{path}:{line}: column {name!r} has a missing value: impute it or remove the row")
        try:
            finite = math.isfinite(float(cell))
        except ValueError:
            finite = False
        if not finite:
            raise InputError(f"{path}:{line}: column {name!r} holds {cell!r}, which is not a finite number: encode or remove it")
    raise AssertionError(f"{path}:{line}: no cell is at fault")


def _as_targets(path: Path, texts: list[str], name: str) -> np.ndarray:
    """Targets as numbers if all are numbers, else as strings."""
    try:
        y = np.array(list(map(float, texts)))
    except ValueError:
        return np.array(texts)
    if not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise InputError(f"{path}: the target {name!r} of row {row + 1} is {texts[row]!r}: every row needs a finite target")
    return whole_numbers(y)


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 20 else ", ".join(names[:20]) + f" and {len(names) - 20} more"
