"""Writing a store: rows in chunks, then columns in panels, in bounded memory, so that it can be killed at any moment.

All files only grow. After each chunk the files are brought to the disk, and then a journal that says how long they are, what their
checksums are and where the source goes on; it is replaced as a whole. Whoever starts again cuts the files to the lengths of the
journal and goes on: the result does not depend on where chunks ended, so it is the same to the byte. Work is done in
``NAME.partial``; the store is moved to its place as the last step.

    rows     chunks of the source are appended to rows.* and to the raw targets
    columns  rows.* are read once for each panel of columns that fits into memory; the panel is appended to cols.*
    done     targets get their final type, store.json is written, the directory is moved
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from saddlery.data.chunks import source_of
from saddlery.data.store_writer import LOCK, Progress, Writer, description_of, read_journal, remove_work
from saddlery.errors import InputError
from saddlery.matrix.store import DESCRIPTION, VERSION, as_bytes

__all__ = ["convert"]

DEFAULT_MEMORY = 10**9
LEAST_MEMORY = 16_000_000
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def convert(
    source: Any,
    path: str | os.PathLike[str],
    *,
    target: Any = None,
    n_features: int | None = None,
    format: str | None = None,
    dtype: str = "keep",
    layout: str = "keep",
    max_memory: Any = None,
    chunk_rows: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write data as a store, by rows and by columns, for :func:`saddlery.open_store`.

    It may be killed at any moment and started again with the same arguments: it goes on where it was, and the store is the same to
    the byte. Only a whole store is ever seen at `path`.

    Parameters
    ----------
    source : str, path, array, sparse matrix, store, (X, y), or iterator of (X, y)
        A file that :func:`saddlery.read_data` reads, or data in memory, or chunks of rows of data that nobody has as a whole, or
        (some rows of) another store. An iterator or a store cannot go on where it was: it starts again.
    path : str or path
        The directory to be made.
    target, n_features, format
        As for :func:`saddlery.read_data`.
    dtype : {"keep", "float32", "float64"}
        The type of the numbers; ``"keep"`` takes that of the source.
    layout : {"keep", "dense", "sparse"}
        Whether zeros are stored; ``"keep"`` does as the source does.
    max_memory : int or str, optional
        Bytes that the conversion may use for data, 1 GB by default; more means fewer passes.
    chunk_rows : int, optional
        Most rows of a chunk; by default as many as `max_memory` allows.
    force : bool
        Replace a store that is there, and give up one that was begun from another source or with other options.
    progress : callable, optional
        Called after each chunk with the name of the stage, the share of it that is done (None if not known), and the rows so far.

    Returns
    -------
    Path
        The directory.

    Examples
    --------
    >>> import numpy as np, tempfile, saddlery as sd
    >>> def rows():
    ...     for k in range(3):
    ...         yield np.full((2, 4), k, dtype=np.float32), np.array([k, -k])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sd.open_store(sd.convert(rows(), folder + "/store")).values.sum()
    np.float32(24.0)
    """
    if dtype not in ("keep", "float32", "float64") or layout not in ("keep", "dense", "sparse"):
        raise InputError("dtype must be 'keep', 'float32' or 'float64', and layout 'keep', 'dense' or 'sparse'")
    memory = DEFAULT_MEMORY if max_memory is None else as_bytes(max_memory)
    if memory < LEAST_MEMORY:
        raise InputError(f"max_memory={max_memory!r} is too little to convert: give at least {LEAST_MEMORY:,} bytes")
    if chunk_rows is not None and chunk_rows < 1:
        raise InputError(f"chunk_rows must be positive, not {chunk_rows!r}")
    place = Path(path)
    rows = source_of(source, target, n_features, format, memory // 4)
    options = {"dtype": rows.dtype if dtype == "keep" else dtype, "sparse": rows.sparse if layout == "keep" else layout == "sparse"}
    options["dtype"] = options["dtype"] if options["dtype"] in ("float32", "float64") else "float64"
    work = Path(f"{os.path.normpath(place)}.partial")
    about = {"source": rows.identity, "modified": rows.modified, **options}
    journal = _begin(place, work, about, force)
    if journal is None:
        return place
    with _locked(work):
        writer = Writer(place, work, rows, journal, memory, chunk_rows, progress)
        try:
            writer.run()
        except InputError:  # the source must change, so there is nothing to go on with
            shutil.rmtree(work)
            raise
        except OSError as error:
            if error.errno not in FULL:
                raise
            needed = writer.needed()
            shutil.rmtree(work)
            raise OSError(
                error.errno,
                f"no room for the store at {place}: it needs about {needed:,} bytes in all; what was written of it was removed, "
                "nothing else was touched: free that much, or choose another disk",
            ) from error
        finally:
            writer.close()
    return place


def _begin(place: Path, work: Path, about: dict[str, Any], force: bool) -> dict[str, Any] | None:
    """The journal to go on with, a new one, or None if the store is there already."""
    if not place.resolve().parent.is_dir():
        raise InputError(f"{place} cannot be written: the directory {place.resolve().parent} does not exist")
    old, again = read_journal(work), about["source"] is not None
    if old is not None and old["about"] == about and again:
        if (work / "store").exists():
            return old
        if old["stage"] == "done" and place.exists():  # killed after the move
            _discard(work)
            return None
    if place.exists() or place.is_symlink():
        same = _is_same(place, about)
        if same and not force:
            _discard(work)
            return None
        if not force:
            raise InputError(
                f"{place} is there already, made from another source (or an older state of it) or with other options: "
                "force (--force) to replace it"
            )
    if old is not None and again and not force:
        raise InputError(
            f"{work} was begun from another source or with other options: give the same, or force (--force) to begin anew"
        )
    _discard(work)
    (work / "store").mkdir(parents=True)
    return {"version": VERSION, "about": about, "stage": "rows", "position": None, "rows": 0, "columns": 0, "nnz": 0, "files": {}}


def _is_same(place: Path, about: dict[str, Any]) -> bool:
    """Whether at the place is the very store that is asked for, not older than its source; what is no store is refused."""
    found = description_of(place)
    asked = (about["source"], about["dtype"], "sparse" if about["sparse"] else "dense")
    newer = about["modified"] is not None and about["modified"] > (place / DESCRIPTION).stat().st_mtime_ns
    return about["source"] is not None and not newer and (found["source"], found["dtype"], found["kind"]) == asked


def _discard(work: Path) -> None:
    """Remove what an earlier conversion has left, unless it is still at work."""
    if (work / LOCK).is_file():
        with _locked(work):
            pass
    remove_work(work)


@contextlib.contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Nobody else works there meanwhile, where the system can tell; the lock of a killed process is no lock."""
    with (work / LOCK).open("wb") as handle:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(f"another process is writing to {work}: wait for it, or stop it") from error
        yield
