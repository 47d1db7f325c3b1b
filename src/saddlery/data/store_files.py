"""The growing files of a store in the making: numbers with checksums, and targets whose final type shows at the end only."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from saddlery.data.base import whole_numbers
from saddlery.errors import InputError
from saddlery.matrix.store import CHECKED

__all__ = ["NUMBERS", "TEXT", "Appender", "Targets", "finish_targets"]

NUMBERS, TEXT = "targets.numbers", "targets.text"  # beside the store, until it is done
KINDS = {"b": "<i8", "i": "<i8", "u": "<i8", "f": "<f8"}


class Appender:
    """A file that only grows, with a checksum for each block of it.

    Parameters
    ----------
    path : Path
        The file; cut to the length that the journal vouches for.
    dtype : data type
        Of its numbers.
    about : dict, optional
        What :meth:`sync` returned last.
    """

    def __init__(self, path: Path, dtype: Any, about: dict[str, Any] | None):
        self.path, self.dtype = path, np.dtype(dtype)
        self.size = 0 if about is None else int(about["bytes"])
        self.checksums = [] if about is None else list(about["crc32"])
        self.handle = open(path, "r+b" if path.exists() else "w+b", buffering=0)  # noqa: SIM115
        self.handle.truncate(self.size)
        self.handle.seek(self.size)

    def append(self, values: np.ndarray | bytes) -> None:
        """Write numbers, or text, behind what is there."""
        if isinstance(values, bytes):
            view = memoryview(values)
        else:
            view = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1).data.cast("B")
        done = 0
        while done < len(view):
            room = CHECKED - self.size % CHECKED
            count = self.handle.write(view[done : done + room]) or 0
            piece = view[done : done + count]
            if self.size % CHECKED:
                self.checksums[-1] = zlib.crc32(piece, self.checksums[-1])
            elif count:
                self.checksums.append(zlib.crc32(piece))
            self.size += count
            done += count

    def sync(self) -> dict[str, Any]:
        """Bring the file to the disk; returns what a journal must know of it."""
        os.fsync(self.handle.fileno())
        return {"dtype": self.dtype.str, "bytes": self.size, "crc32": list(self.checksums)}

    def close(self) -> None:
        self.handle.close()


class Targets:
    """Raw targets, appended chunk by chunk: numbers of 8 bytes each, or one line of JSON for each text.

    Parameters
    ----------
    folder : Path
        Where the raw file is.
    journal : dict
        Where its kind is kept, under ``"targets"``: "b", "i", "f", "U", or "none".
    files : dict
        The open files, to which that of the targets is added.
    """

    def __init__(self, folder: Path, journal: dict[str, Any], files: dict[str, Appender]):
        self.folder, self.journal, self.files = folder, journal, files
        self.kind = journal.get("targets")
        for name in (NUMBERS, TEXT):
            about = journal["files"].get(name)
            if about is not None:
                self.files[name] = Appender(folder / name, about["dtype"], about)
            else:
                (folder / name).unlink(missing_ok=True)

    def append(self, y: np.ndarray | None) -> None:
        """The targets of a chunk."""
        kind = "none" if y is None else self._kind(y)
        if self.kind is None:
            self.kind = self.journal["targets"] = kind
        if kind != self.kind:
            raise InputError(f"targets change their type from chunk to chunk ({self.kind!r}, then {kind!r}): give one type")
        if y is None:
            return
        if kind == "f" and not np.isfinite(y).all():
            row = self.journal["rows"] + int(np.flatnonzero(~np.isfinite(y))[0])
            raise InputError(f"y contains NaN or infinity at row {row}: remove that row or give its target")
        if kind == "U":
            self._file(TEXT, "|u1").append("".join(json.dumps(str(text)) + "\n" for text in y.tolist()).encode())
        else:
            self._file(NUMBERS, KINDS[kind]).append(y.astype(KINDS[kind]))

    def _kind(self, y: np.ndarray) -> str:
        if y.dtype.kind in "OUST":
            return "U"
        if y.dtype.kind not in KINDS:
            raise InputError(f"targets of type {y.dtype} cannot be stored: give numbers, truth values or text")
        if y.dtype.kind == "u" and y.dtype.itemsize == 8 and y.max(initial=0) >= 2**63:
            raise InputError("targets of 2^63 and more cannot be stored: give them as text")
        return "i" if y.dtype.kind == "u" else y.dtype.kind

    def _file(self, name: str, dtype: str) -> Appender:
        if name not in self.files:
            self.files[name] = Appender(self.folder / name, dtype, None)
        return self.files[name]


def finish_targets(work: Path, folder: Path, journal: dict[str, Any], style: str, room: int) -> dict[str, Any] | None:
    """Write the final targets; returns what the description says of them, None if there are none."""
    kind = journal.get("targets")
    if kind in (None, "none"):
        return None
    labels: dict[str, int] | None = None
    if kind == "U" and style == "text" and _are_numbers(work / TEXT):
        parts = lambda: _text_numbers(work / TEXT)  # noqa: E731
        dtype = "<i8" if all(_whole(part) for part in parts()) else "<f8"
    elif kind == "U":
        labels = {}
        for text in _texts(work / TEXT):
            labels.setdefault(text, len(labels))
        order = sorted(labels)
        labels = {text: code for code, text in enumerate(order)}
        found = labels
        parts = lambda: _batches(found[text] for text in _texts(work / TEXT))  # noqa: E731
        dtype = "<i4" if len(labels) < 2**31 else "<i8"
    else:
        raw = np.dtype(KINDS[kind])
        parts = lambda: _raw_numbers(work / NUMBERS, raw, room // 8)  # noqa: E731
        whole = kind == "f" and style == "whole" and all(_whole(part) for part in parts())
        dtype = "|b1" if kind == "b" else ("<i8" if whole else KINDS[kind])
    (folder / "targets").unlink(missing_ok=True)
    out = Appender(folder / "targets", dtype, None)
    try:
        for part in parts():
            out.append(part.astype(dtype))
        about = out.sync()
    finally:
        out.close()
    return {"file": about, "labels": None if labels is None else list(labels)}


def _whole(part: np.ndarray) -> bool:
    return whole_numbers(part).dtype.kind == "i"


def _texts(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for line in file:
            yield json.loads(line)


def _batches(numbers: Iterator[float], size: int = 100_000) -> Iterator[np.ndarray]:
    batch: list[float] = []
    for number in numbers:
        batch.append(number)
        if len(batch) == size:
            yield np.array(batch)
            batch = []
    if batch:
        yield np.array(batch)


def _are_numbers(path: Path) -> bool:
    """Whether all texts are numbers; finite ones then, or they are refused."""
    try:
        for row, text in enumerate(_texts(path)):
            if not np.isfinite(float(text)):
                _infinite(path, row, text)
    except InputError:
        raise
    except ValueError:
        return False
    return True


def _infinite(path: Path, row: int, text: str) -> None:
    for other in _texts(path):  # among words "nan" is a word
        float(other)
    raise InputError(f"the target of row {row + 1} is {text!r}: every row needs a finite target")


def _text_numbers(path: Path) -> Iterator[np.ndarray]:
    return _batches(float(text) for text in _texts(path))


def _raw_numbers(path: Path, dtype: np.dtype, count: int) -> Iterator[np.ndarray]:
    with path.open("rb") as file:
        while content := file.read(max(count, 1024) * dtype.itemsize):
            yield np.frombuffer(content, dtype=dtype)
