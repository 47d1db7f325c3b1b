"""NumPy archives: arrays ``X`` and ``y``, or pieces of a sparse matrix (``data``, ``indices``, ``indptr``, ``shape``) and ``y``.

The pieces are those of :func:`scipy.sparse.save_npz`; an array ``feature_names`` is used where there is one. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from saddlery.data.base import TARGET_NAMES, Data, data_name
from saddlery.errors import InputError, unknown_name

__all__ = ["SUFFIXES", "open_source", "read"]

SUFFIXES = (".npz",)
PIECES = ("data", "indices", "indptr", "shape")


def read(path: Path, *, target: str | bool | None = None, n_features: int | None = None) -> Data:
    """Read an npz archive; see :func:`saddlery.read_data`."""
    arrays = _load(path)
    X = _matrix(path, arrays)
    if n_features is not None and n_features != X.shape[1]:
        raise InputError(f"{path} has {X.shape[1]} columns, not n_features = {n_features}")
    names = arrays.get("feature_names")
    if names is not None and names.shape != (X.shape[1],):
        raise InputError(f"{path} has {names.size} feature_names for {X.shape[1]} columns: give one for each")
    features = None if names is None else [str(name) for name in names]
    return Data(X, _targets(path, arrays, target, X.shape[0]), features, data_name(path, SUFFIXES))


def _load(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as handle:  # opened here, because NumPy leaves the file open when the archive is damaged
            archive = np.load(handle, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(f"{path} holds one array without a name: save X and y with numpy.savez")
            return {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise InputError(f"{path} is not a whole npz archive ({error}): save it again with numpy.savez") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not an npz archive of plain arrays: save numbers and strings with numpy.savez") from error


def _matrix(path: Path, arrays: dict[str, np.ndarray]) -> Any:
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise InputError(f"{path}: X has shape {X.shape} and type {X.dtype}: give a matrix of numbers")
        return X
    if not all(name in arrays for name in PIECES):
        raise InputError(f"{path} holds {', '.join(arrays) or 'nothing'}: give X, or {', '.join(PIECES)} of a sparse matrix")
    kind = arrays.get("format", np.array("csr")).item()
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if kind not in ("csr", "csc"):
        raise InputError(f"{path} holds a sparse matrix in the format {kind}: save it as csr or csc")
    make = sp.csr_array if kind == "csr" else sp.csc_array
    try:
        matrix = make((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"].tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} holds pieces that make no sparse matrix: {error}") from error
    return sp.csr_array(matrix)


def _targets(path: Path, arrays: dict[str, np.ndarray], target: str | bool | None, n: int) -> np.ndarray | None:
    if isinstance(target, str):
        if target not in arrays:
            raise unknown_name(f"target array of {path}", target, arrays)
        name = target
    else:
        found = [name for name in TARGET_NAMES if name in arrays]
        if not found and target is False:
            return None
        if not found:
            raise InputError(f"{path} has no array y: add it, or name the target array, one of {', '.join(arrays)}")
        name = found[0]
    y = arrays[name]
    if y.shape != (n,):
        raise InputError(f"{path}: {name} has shape {y.shape}, but there are {n} rows: give one target for each row")
    return y


# --------------------------------------------------------------------------- in chunks


class _Member:
    """One array of the archive, read from its beginning on."""

    def __init__(self, handle: IO[bytes]):
        self.handle = handle
        version = np.lib.format.read_magic(handle)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, self.fortran, self.dtype = header(handle)
        self.width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def skip(self, count: int) -> None:
        """Leave out so many entries of the first axis."""
        self.handle.seek(self.handle.tell() + count * self.width)

    def read(self, count: int) -> np.ndarray:
        """The next entries of the first axis."""
        content = self.handle.read(count * self.width)
        if len(content) != count * self.width:
            raise EOFError("it ends early")
        return np.frombuffer(content, dtype=self.dtype).reshape(count, *self.shape[1:])


@contextlib.contextmanager
def _members(path: Path, *names: str) -> Iterator[list[_Member]]:
    """Some arrays of the archive, opened at the same time."""
    try:
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(path))
            yield [_Member(stack.enter_context(archive.open(f"{name}.npy"))) for name in names]
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise InputError(f"{path} is not a whole npz archive ({error}): save it again with numpy.savez") from error


def open_source(path: Path, *, target: Any = None, n_features: int | None = None, room: int = 0) -> Any:
    """The archive in chunks of rows; see :mod:`saddlery.data.chunks`. A position is the number of rows that were read.

    X in C order and CSR are read as they lie in the archive; other orders must fit into memory.
    """
    from saddlery.data.chunks import Source

    with _zip(path) as archive:
        sizes = {Path(info.filename).stem: info.file_size for info in archive.infolist()}
    small = _lazily(path, [name for name in sizes if name not in ("X", "data", "indices")])
    kind = _kind_of(path, sizes, small)
    if kind == "whole":
        if 3 * sum(sizes.values()) > room:
            raise InputError(f"{path} holds X by columns and must fit into max_memory: save it in C order, or as csr")
        data = read(path, target=target, n_features=n_features)
        from saddlery.data.chunks import array_source

        return array_source(data.X, data.y, data.name, data.feature_names)
    with _members(path, "X" if kind == "dense" else "data") as (member,):
        n, d = member.shape if kind == "dense" else small["shape"].tolist()
        shape, dtype = (int(n), int(d)), member.dtype
    if kind == "dense" and dtype.kind not in "fiub":
        raise InputError(f"{path}: X has shape {shape} and type {dtype}: give a matrix of numbers")
    if n_features is not None and n_features != shape[1]:
        raise InputError(f"{path} has {shape[1]} columns, not n_features = {n_features}")
    names = small.get("feature_names")
    if names is not None and names.shape != (shape[1],):
        raise InputError(f"{path} has {names.size} feature_names for {shape[1]} columns: give one for each")
    y = _targets(path, small, target, shape[0])
    features = None if names is None else [str(name) for name in names]
    chunks = _dense_chunks(path, shape, y) if kind == "dense" else _sparse_chunks(path, shape, small["indptr"], y)
    single = "float32" if dtype == np.float32 else "float64"
    return Source(data_name(path, SUFFIXES), kind == "sparse", chunks, features, "keep", shape[1], shape[0], single)


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is not a whole npz archive ({error}): save it again with numpy.savez") from error


def _lazily(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """Some arrays of the archive as a whole: those with one number for each row or column."""
    try:
        with path.open("rb") as handle:
            archive = np.load(handle, allow_pickle=False)
            return {name: archive[name] for name in names}
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        raise InputError(f"{path} is not an npz archive of plain arrays ({error}): save it again with numpy.savez") from error


def _kind_of(path: Path, sizes: dict[str, int], small: dict[str, np.ndarray]) -> str:
    """Whether X can be read by rows as it lies in the archive, and how."""
    if "X" in sizes:
        with _members(path, "X") as (member,):
            return "whole" if member.fortran or len(member.shape) != 2 else "dense"
    if not all(name in sizes for name in PIECES):
        raise InputError(f"{path} holds {', '.join(sizes) or 'nothing'}: give X, or {', '.join(PIECES)} of a sparse matrix")
    kind = small.get("format", np.array("csr")).item()
    return "sparse" if kind in ("csr", b"csr") else "whole"


def _dense_chunks(path: Path, shape: tuple[int, int], y: np.ndarray | None) -> Any:
    from saddlery.data.chunks import Chunk

    def chunks(position: Any, room: int, rows: int | None) -> Iterator[Chunk]:
        first, step = int(position or 0), rows or max(1, room // (24 * max(shape[1], 1)))
        with _members(path, "X") as (member,):
            member.skip(first)
            while first < shape[0]:
                last = min(first + step, shape[0])
                X = member.read(last - first)
                yield Chunk(X, None if y is None else y[first:last], last, last / shape[0])
                first = last

    return chunks


def _sparse_chunks(path: Path, shape: tuple[int, int], starts: np.ndarray, y: np.ndarray | None) -> Any:
    from saddlery.data.chunks import Chunk

    starts = starts.astype(np.int64)
    if len(starts) != shape[0] + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise InputError(f"{path} holds pieces that make no sparse matrix: indptr does not fit the shape {shape}")

    def chunks(position: Any, room: int, rows: int | None) -> Iterator[Chunk]:
        first = int(position or 0)
        with _members(path, "data", "indices") as members:
            for member in members:
                member.skip(int(starts[first]))
            while first < shape[0]:
                last = int(np.searchsorted(starts, starts[first] + max(1, room // 48), side="right")) - 1
                last = min(max(last, first + 1), first + (rows or shape[0]), shape[0])
                data, indices = (member.read(int(starts[last] - starts[first])) for member in members)
                try:
                    X = sp.csr_array((data, indices, starts[first : last + 1] - starts[first]), shape=(last - first, shape[1]))
                    X.check_format(full_check=True)
                except (ValueError, TypeError) as error:
                    raise InputError(f"{path} holds pieces that make no sparse matrix: {error}") from error
                yield Chunk(X, None if y is None else y[first:last], last, last / shape[0])
                first = last

    return chunks
