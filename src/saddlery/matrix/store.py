"""The store: data on disk by rows and by columns, read in parts by explicit requests. docs/store.md describes the format.

Nothing is mapped into memory: under a limit of the address space a map larger than the limit cannot be made. Runs of neighbouring
rows or columns are one request; of several runs the system is told all before the first is waited for.
"""

from __future__ import annotations

import json
import os
import re
import threading
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from saddlery.errors import InputError
from saddlery.matrix import Matrix
from saddlery.matrix.partial import PartialMatrix

__all__ = ["CHECKED", "FORMAT", "VERSION", "LoadedStore", "Store", "files_of", "open_store", "read_at", "read_description", "seal"]

FORMAT, VERSION = "saddlery-store", 1
DESCRIPTION = "store.json"
CHECKED = 16 * 2**20  # bytes of a file that share a checksum
LARGEST_BLOCK = 64_000_000  # bytes: larger requests are not faster
COPIES = 3  # a store is loaded if so many copies of it fit: solvers may want it by rows and by columns, and products
LEAST_MEMORY = 1_000_000
AT_MOST = 2**30  # bytes of one request
AT_ONCE = 256  # runs that are announced to the system before the first is read


UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def as_bytes(size: Any, what: str = "max_memory") -> int:
    """A number of bytes from a number or from text such as ``"2GB"`` or ``"512MiB"``.

    Examples
    --------
    >>> as_bytes("1.5 GB"), as_bytes("2GiB"), as_bytes(10**6)
    (1500000000, 2147483648, 1000000)
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?)?b?\s*", size.lower())
        if match is None:
            raise InputError(f"{what}={size!r} is not a size: give bytes, or text such as '2GB' or '512MiB'")
        number, unit = match.groups()
        return int(float(number) * UNITS[unit or ""])
    try:
        value = int(size)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what}={size!r} is not a size: give bytes, or text such as '2GB' or '512MiB'") from error
    if value <= 0:
        raise InputError(f"{what} must be positive, not {size!r}")
    return value


# --------------------------------------------------------------------------- the description


def files_of(sparse: bool) -> tuple[str, ...]:
    """The names of the files that hold X."""
    parts = ("values", "indices", "starts") if sparse else ("values",)
    return tuple(f"{order}.{part}" for order in ("rows", "cols") for part in parts)


def seal(description: dict[str, Any]) -> dict[str, Any]:
    """The description with the checksum of itself."""
    plain = {name: value for name, value in description.items() if name != "crc32"}
    return {**plain, "crc32": zlib.crc32(json.dumps(plain, sort_keys=True, ensure_ascii=True).encode())}


def read_description(path: Path) -> dict[str, Any]:
    """What ``store.json`` says, checked."""
    if not path.exists():
        raise FileNotFoundError(2, "there is no such store", str(path))
    place = path / DESCRIPTION
    if not place.is_file():
        raise InputError(f"{path} is no store: it has no {DESCRIPTION}; make one by 'saddlery convert DATA {path.name}'")
    try:
        found = json.loads(place.read_bytes())
    except ValueError as error:
        raise InputError(f"{place} is damaged ({error}): convert the data again") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{place} does not describe a store of saddlery: give a directory written by 'saddlery convert'")
    if found.get("version") != VERSION:
        raise InputError(
            f"{path} has version {found.get('version')!r} of the format, but this saddlery reads {VERSION}: "
            "upgrade it, or convert the data again"
        )
    if seal(found) != found:
        raise InputError(
            f"{place} was damaged or changed after it was written: its checksum does not match; convert the data again"
        )
    return found


# --------------------------------------------------------------------------- files


def read_at(handle: Any, out: np.ndarray, first: int) -> None:
    """Fill a contiguous array from byte `first` of a file on."""
    view, done = out.reshape(-1).data.cast("B"), 0
    while done < len(view):
        if hasattr(os, "preadv"):
            count = os.preadv(handle.fileno(), [view[done : done + AT_MOST]], first + done)
        else:
            handle.seek(first + done)
            count = handle.readinto(view[done : done + AT_MOST])
        if not count:
            raise InputError(f"{handle.name} ended early: it was changed while it was read")
        done += count


class _File:
    """One file of a store, read at any place by any thread."""

    def __init__(self, path: Path, about: dict[str, Any]):
        self.path, self.dtype, self.size = path, np.dtype(about["dtype"]), int(about["bytes"])
        self.checksums = about["crc32"]
        try:
            size = path.stat().st_size
        except FileNotFoundError as error:
            raise InputError(f"{path} is missing: the store is not whole; convert the data again") from error
        if size != self.size:
            raise InputError(f"{path} has {size:,} bytes in place of {self.size:,}: the store is damaged; convert the data again")
        self.handle = open(path, "rb", buffering=0)  # noqa: SIM115
        self.scattered = open(path, "rb", buffering=0)  # noqa: SIM115
        self.lock = threading.Lock()
        if hasattr(os, "posix_fadvise"):  # two views of the file: one read ahead of, one not
            os.posix_fadvise(self.scattered.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def close(self) -> None:
        self.handle.close()
        self.scattered.close()

    def announce(self, runs: list[tuple[int, int]]) -> None:
        """Say that these runs (first byte, bytes) will be read soon."""
        if hasattr(os, "posix_fadvise"):
            for first, count in runs:
                os.posix_fadvise(self.scattered.fileno(), first, count, os.POSIX_FADV_WILLNEED)

    def read_into(self, out: np.ndarray, first: int, scattered: bool = False) -> None:
        """Fill a contiguous array from byte `first` on."""
        if hasattr(os, "preadv"):
            read_at(self.scattered if scattered else self.handle, out, first)
        else:  # one at a time, where the system knows no reads at a place
            with self.lock:
                read_at(self.handle, out, first)

    def read(self, first: int, count: int) -> np.ndarray:
        """`count` numbers from number `first` on."""
        out = np.empty(count, dtype=self.dtype)
        self.read_into(out, first * self.dtype.itemsize)
        return out

    def verify(self) -> None:
        """Read all of it; refuse if a block does not have its checksum."""
        buffer = np.empty(min(CHECKED, max(self.size, 1)), dtype=np.uint8)
        for block, first in enumerate(range(0, self.size, CHECKED)):
            part = buffer[: min(CHECKED, self.size - first)]
            self.read_into(part, first)
            if zlib.crc32(part.data) != self.checksums[block]:
                last = min(first + CHECKED, self.size) - 1
                raise InputError(
                    f"{self.path} is damaged in block {block} (bytes {first:,} to {last:,}): its checksum does not match; "
                    "convert the data again"
                )


def _native(values: np.ndarray) -> np.ndarray:
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _runs(index: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Runs of consecutive numbers: where each begins in `index`, its first number, its length."""
    edges = np.flatnonzero(np.diff(index) != 1) + 1
    for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(index)], strict=True):
        yield first, int(index[first]), last - first


# --------------------------------------------------------------------------- the matrix


class Store(PartialMatrix):
    """Data in a store, read in parts; made by :func:`open_store`.

    Attributes
    ----------
    y : array of shape (n,) or None
        Targets: numbers, truth values or strings.
    feature_names : list of str or None
        Names of the columns.
    name : str
        Name of the data.
    path : Path
        The directory.
    bytes_read : int
        Bytes of X that were read so far.
    """

    def __init__(self, path: Path, about: dict[str, Any], max_memory: int):
        sparse = about["kind"] == "sparse"
        super().__init__(
            (int(about["shape"][0]), int(about["shape"][1])),
            int(about["nnz"]),
            sparse,
            about["dtype"],
            min(LARGEST_BLOCK, max_memory // 8),
            max_memory // 2,
        )
        self.path, self.about, self.max_memory = path, about, max_memory
        self.name, self.feature_names = str(about["name"]), about["feature_names"]
        self.bytes_read = 0
        self.lock = threading.Lock()
        names = [*files_of(sparse), *(["targets"] if about["targets"] is not None else [])]
        self.files: dict[str, _File] = {}
        try:
            for name in names:
                self.files[name] = _File(path / name, about["files"][name])
        except KeyError as error:
            raise InputError(f"{path / DESCRIPTION} does not mention {error}: convert the data again") from error
        if sparse:
            self.starts = [_native(self.files[f"{order}.starts"].read(0, 1 + length)) for order, length in self._orders()]

    def _orders(self) -> Iterator[tuple[str, int]]:
        return zip(("rows", "cols"), self.shape, strict=True)

    def __reduce__(self) -> Any:
        return _reopen, (self.path, self.max_memory)

    def __deepcopy__(self, memo: Any) -> Store:
        return self

    def close(self) -> None:
        """Close the files; the matrix cannot be read any more."""
        for file in self.files.values():
            file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        for file in getattr(self, "files", {}).values():
            file.close()

    @cached_property
    def y(self) -> np.ndarray | None:
        """Targets of the rows."""
        about = self.about["targets"]
        if about is None:
            return None
        file = self.files["targets"]
        values = _native(file.read(0, file.size // file.dtype.itemsize))
        return values if about["labels"] is None else np.array(about["labels"])[values]

    def verify(self) -> None:
        """Read everything and compare with the checksums; the first block that differs is named."""
        for file in self.files.values():
            file.verify()

    def load(self) -> LoadedStore:
        """All of it in memory."""
        index = np.arange(self.shape[0])
        return LoadedStore(self.read_rows(index), self)

    # -- reading

    def read_rows(self, index: np.ndarray) -> Any:
        """The rows of `index`: a C-ordered array, or CSR."""
        if not self.is_sparse:
            return self._read_dense("rows.values", index, self.shape[1])
        values, indices, starts = self._read_sparse(0, index)
        return _canonical(sp.csr_array((values, indices, starts), shape=(len(index), self.shape[1]), copy=False))

    def read_cols(self, index: np.ndarray) -> Any:
        """The columns of `index`: an F-ordered array, or CSC."""
        if not self.is_sparse:
            return self._read_dense("cols.values", index, self.shape[0]).T
        values, indices, starts = self._read_sparse(1, index)
        return _canonical(sp.csc_array((values, indices, starts), shape=(self.shape[0], len(index)), copy=False))

    def _read_dense(self, name: str, index: np.ndarray, length: int) -> np.ndarray:
        file, width = self.files[name], self.dtype.itemsize
        out = np.empty((len(index), length), dtype=file.dtype)
        runs = [(out[at : at + count], first * length * width) for at, first, count in _runs(index)] if len(index) else []
        self._read_runs(file, runs)
        return _native(out)

    def _read_sparse(self, axis: int, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        starts, order = self.starts[axis], ("rows", "cols")[axis]
        counts = starts[index + 1] - starts[index]
        places = np.concatenate([[0], np.cumsum(counts)])
        out = []
        for part in ("values", "indices"):
            file = self.files[f"{order}.{part}"]
            array = np.empty(int(places[-1]), dtype=file.dtype)
            width = file.dtype.itemsize
            runs = [
                (array[places[at] : places[at + count]], int(starts[first]) * width)
                for at, first, count in (_runs(index) if len(index) else [])
            ]
            self._read_runs(file, [run for run in runs if len(run[0])])
            out.append(_native(array))
        kind = np.int32 if places[-1] < 2**31 and out[1].dtype == np.int32 else np.int64
        return out[0], out[1].astype(kind, copy=False), places.astype(kind)

    def _read_runs(self, file: _File, runs: list[tuple[np.ndarray, int]]) -> None:
        scattered = len(runs) > 1
        for at, (out, first) in enumerate(runs):
            if scattered and at % AT_ONCE == 0:
                file.announce([(place, part.nbytes) for part, place in runs[at : at + AT_ONCE]])
            file.read_into(out, first, scattered)
        with self.lock:
            self.bytes_read += sum(out.nbytes for out, _ in runs)

    def slabs(self, columns: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """The given columns, some rows at a time; of dense data only these columns are read."""
        if self.is_sparse:
            yield from super().slabs(columns)
            return
        n, width, file = self.shape[0], self.dtype.itemsize, self.files["cols.values"]
        height = max(1, self.block_bytes // max(1, 4 * len(columns) * width))  # they are copied in double precision
        for first in range(0, n, height):
            part = slice(first, min(first + height, n))
            out = np.empty((len(columns), part.stop - first), dtype=file.dtype)
            self._read_runs(file, [(out[k], (int(j) * n + first) * width) for k, j in enumerate(columns)])
            yield part, _native(out).T

    @cached_property
    def col_counts(self) -> np.ndarray:
        """Number of stored entries of every column."""
        return np.diff(self.starts[1]) if self.is_sparse else np.full(self.shape[1], self.shape[0])

    def cuts(self, axis: int) -> np.ndarray:
        """Where the rows (0) or columns (1) are cut, so that no part is larger than `block_bytes`, but for single vectors."""
        if not self.is_sparse:
            return super().cuts(axis)
        starts, cuts, most = self.starts[axis], [0], max(1, self.block_bytes // self.entry_bytes)
        while cuts[-1] < self.shape[axis]:
            stop = int(np.searchsorted(starts, starts[cuts[-1]] + most, side="right")) - 1
            cuts.append(max(cuts[-1] + 1, min(stop, cuts[-1] + self._longest(axis))))
        return np.array(cuts)

    def _longest(self, axis: int) -> int:
        """Vectors of a part: its pointers take room too."""
        return max(1, self.block_bytes // 8)


class LoadedStore(Matrix):
    """A store that was read as a whole: an ordinary matrix, with targets and names."""

    def __init__(self, values: Any, store: Store):
        super().__init__(values)
        self.y, self.feature_names, self.name, self.path = store.y, store.feature_names, store.name, store.path
        self.dtype = values.dtype


def _canonical(values: Any) -> Any:
    """Stored indices are sorted and without duplicates: SciPy need not look."""
    values.has_sorted_indices = values.has_canonical_format = True
    return values


def _reopen(path: Path, max_memory: int) -> Any:
    return open_store(path, max_memory, load=False)


def _default_memory() -> int:
    """A quarter of the memory of the machine; 1 GB where that is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, ValueError, OSError):
        return 10**9


def open_store(
    path: str | os.PathLike[str], max_memory: Any = None, verify: bool = False, load: bool | None = None
) -> Store | LoadedStore:
    """Open data that were written by :func:`saddlery.convert`: what it returns is used wherever X is.

    Parameters
    ----------
    path : str or path
        The directory.
    max_memory : int or str, optional
        Bytes that data may take in memory, or text such as ``"2GB"``: blocks that are read, copies that solvers keep. Vectors of
        n or d numbers come on top, a few dozen of them. By default a quarter of the memory of the machine.
    verify : bool
        Read everything once and compare it with the checksums. Sizes of files are compared in any case.
    load : bool, optional
        Whether to read all into memory at once. By default if three copies of it fit into `max_memory`: all solvers then run
        at full speed.

    Returns
    -------
    Store or LoadedStore
        A matrix with ``y``, ``feature_names``, ``name``, ``shape`` and ``dtype``.

    Examples
    --------
    >>> import numpy as np, tempfile, saddlery as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = sd.convert((np.eye(3), np.array(["a", "b", "a"])), folder + "/store")
    ...     with sd.open_store(path, load=False) as store:
    ...         print(store, store.y, store.read_cols(np.array([1])).ravel())
    Store(3 x 3, dense, float64, 9 entries) ['a' 'b' 'a'] [0. 1. 0.]
    """
    path = Path(path)
    about = read_description(path)
    limit = _default_memory() if max_memory is None else as_bytes(max_memory)
    if limit < LEAST_MEMORY:
        raise InputError(f"max_memory={max_memory!r} is too little: give at least {LEAST_MEMORY:,} bytes")
    store = Store(path, about, limit)
    if verify:
        store.verify()
    fits = COPIES * store.nnz * store.entry_bytes <= limit
    if load or (load is None and fits):
        with store:
            return store.load()
    return store
