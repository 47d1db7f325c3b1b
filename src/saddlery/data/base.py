"""What all readers share: the record they return, compressed files, targets from numbers."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from saddlery.errors import InputError

__all__ = ["COMPRESSED", "TARGET_NAMES", "Data", "data_name", "open_bytes", "whole_numbers"]

COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
TARGET_NAMES = ("target", "y", "label")


@dataclass(frozen=True, eq=False)
class Data:
    """What a data file holds.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n, d)
        The data.
    y : ndarray of shape (n,) or None
        Targets: whole numbers, floats or strings; None if the file has none.
    feature_names : list of str or None
        Names of the columns, where the file has them.
    name : str
        Name of the file without suffixes.
    """

    X: Any
    y: np.ndarray | None
    feature_names: list[str] | None
    name: str

    def __repr__(self) -> str:
        n, d = self.X.shape
        kind = "dense" if isinstance(self.X, np.ndarray) else f"CSR with {self.X.nnz} entries"
        return f"Data({self.name}: {n} x {d}, {kind}{', no targets' if self.y is None else ''})"


def data_name(path: Path, suffixes: tuple[str, ...]) -> str:
    """The name of the file without the suffixes of compression and format."""
    name = path.stem if path.suffix.lower() in COMPRESSED else path.name
    return Path(name).stem if Path(name).suffix.lower() in suffixes else name


@contextmanager
def open_bytes(path: Path, raw: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open a plain or compressed file; damage found while it is read becomes an :class:`InputError`.

    `raw` is the same file opened already: where it is read shows how far one has come, in compressed files too.
    """
    opener = COMPRESSED.get(path.suffix.lower())
    try:
        if opener is None:
            with nullcontext(raw) if raw is not None else path.open("rb") as handle:
                yield handle
        else:
            with opener(path if raw is None else raw, "rb") as handle:
                yield handle
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path} is damaged or not what its suffix says: {error}; fetch it again") from error
    except OSError as error:
        if error.errno is None:  # gzip and bz2 say so of damaged data; errors of the system have a number
            raise InputError(f"{path} is damaged or not what its suffix says: {error}; fetch it again") from error
        raise


def whole_numbers(y: np.ndarray) -> np.ndarray:
    """`y` as int64 if it holds whole numbers only, so that the label 1 stays 1 and does not become 1.0."""
    return y.astype(np.int64) if np.all(y == np.rint(y)) and np.all(np.abs(y) < 2**53) else y
