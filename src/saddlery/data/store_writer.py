"""The writer of a store: rows in chunks, columns in panels, and the move to its place; see :mod:`saddlery.data.store`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from saddlery.data.chunks import Source
from saddlery.data.store_files import NUMBERS, TEXT, Appender, Targets, finish_targets
from saddlery.errors import InputError
from saddlery.files import sync_folder, write_atomically
from saddlery.matrix.store import CHECKED, DESCRIPTION, FORMAT, VERSION, files_of, read_at, read_description, seal

__all__ = ["LOCK", "Progress", "Writer", "description_of", "read_journal", "remove_work"]

LARGEST_CHUNK = 256_000_000  # bytes: a killed conversion loses no more than about this
PIECE = 4096  # bytes: shorter pieces of rows are not read one by one
JOURNAL, LOCK = "journal.json", "lock"
OURS = {JOURNAL, LOCK, NUMBERS, TEXT, "store", "replaced"}  # what a directory of work may hold
Progress = Callable[[str, float | None, int], Any]


def description_of(place: Path) -> dict[str, Any]:
    try:
        return read_description(place)
    except (InputError, OSError) as error:
        raise InputError(f"{place} is there already and is no store, so it is not replaced: choose another place") from error


def read_journal(work: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((work / JOURNAL).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("version") == VERSION and "about" in found else None


def remove_work(work: Path) -> None:
    """Remove a directory of work; one that no conversion has made is refused. The journal goes last."""
    if not work.exists():
        return
    names = {entry.name for entry in work.iterdir()} if work.is_dir() else {""}
    if not all(name in OURS or name.startswith(f".{JOURNAL}.") for name in names) or (JOURNAL in names and not read_journal(work)):
        raise InputError(f"{work} is in the way and was not made by a conversion: move it, or choose another place")
    for name in sorted(names - {JOURNAL}):
        (shutil.rmtree if (work / name).is_dir() else os.unlink)(work / name)
    (work / JOURNAL).unlink(missing_ok=True)
    work.rmdir()


class Writer:
    """One conversion; see the top of the file."""

    def __init__(
        self,
        place: Path,
        work: Path,
        source: Source,
        journal: dict[str, Any],
        memory: int,
        chunk_rows: int | None,
        progress: Progress | None,
    ):
        self.place, self.work, self.source, self.journal = place, work, source, journal
        self.memory, self.chunk_rows, self.progress = memory, chunk_rows, progress
        self.folder = work / "store"
        self.sparse = bool(journal["about"]["sparse"])
        self.dtype = np.dtype(journal["about"]["dtype"]).newbyteorder("<")
        self.files: dict[str, Appender] = {}
        self.done: float | None = None

    def run(self) -> None:
        """All stages that the journal has not behind it."""
        self._clean()
        if self.journal["stage"] == "rows":
            self._write_rows()
            self._advance("columns")
        if self.journal["stage"] == "columns":
            self._write_columns()
            self._advance("done")
        self._finish()

    def close(self) -> None:
        """Close all files."""
        for file in self.files.values():
            file.close()
        self.files = {}

    def needed(self) -> int:
        """Bytes that the whole store takes, as far as can be told."""
        journal = self.journal
        rows = sum(about["bytes"] for name, about in journal["files"].items() if name.startswith("rows."))
        if journal["stage"] == "rows":
            known = self.source.rows is not None and self.source.columns is not None and not self.sparse
            if known:
                rows = int(self.source.rows) * int(self.source.columns) * self.dtype.itemsize  # type: ignore[arg-type]
            else:
                rows = int(sum(file.size for name, file in self.files.items() if name.startswith("rows.")) / (self.done or 1.0))
        return 2 * rows + 16 * int(journal["rows"])

    # -- stages

    def _clean(self) -> None:
        """Remove drafts that a killed process has left."""
        for draft in self.work.glob(f".{JOURNAL}.*"):
            draft.unlink()
        for draft in self.folder.glob(f".{DESCRIPTION}.*") if self.folder.exists() else ():
            draft.unlink()

    def _advance(self, stage: str) -> None:
        self.close()
        self.journal["stage"] = stage
        self._save()

    def _save(self) -> None:
        """Bring the files to the disk, and then the journal that vouches for them."""
        for name, file in self.files.items():
            self.journal["files"][name] = file.sync()
        write_atomically(self.work / JOURNAL, json.dumps(self.journal).encode())
        sync_folder(self.work)

    def _open(self, *names: tuple[str, Any]) -> None:
        for name, dtype in names:
            self.files[name] = Appender(self.folder / name, dtype, self.journal["files"].get(name))

    def _tell(self, stage: str, done: float | None) -> None:
        if self.progress is not None:
            self.progress(stage, done, int(self.journal["rows"]))

    def _write_rows(self) -> None:
        source, journal = self.source, self.journal
        if not self.sparse and source.columns is None:
            source.columns = self._count_columns()
        indices = np.dtype("<i8" if (source.columns or 0) >= 2**31 else "<i4")
        if self.sparse:
            self._open(("rows.values", self.dtype), ("rows.indices", indices), ("rows.starts", "<i8"))
            if not self.files["rows.starts"].size:
                self.files["rows.starts"].append(np.zeros(1, dtype="<i8"))
        else:
            self._open(("rows.values", self.dtype))
        targets = Targets(self.work, journal, self.files)
        if not self.sparse and source.rows is not None:
            self._refuse_without_room(self.needed() - sum(file.size for file in self.files.values()))
        for chunk in source.chunks(journal["position"], min(self.memory // 4, LARGEST_CHUNK), self.chunk_rows):
            self.done = chunk.done
            targets.append(chunk.y)
            self._append(self._normalised(chunk.X), indices)
            journal["rows"] += chunk.X.shape[0]
            journal["position"] = chunk.position
            self._save()
            self._tell("rows", chunk.done)
        if not journal["rows"]:
            raise InputError("the source holds no rows: give at least one")
        journal["columns"] = source.columns or journal["columns"]
        if not journal["columns"]:
            raise InputError("the source holds no entries: give n_features (--n-features)")

    def _refuse_without_room(self, size: int) -> None:
        """Better now than after an hour; others may still fill the disk later."""
        if shutil.disk_usage(self.work).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _count_columns(self) -> int:
        """The number of columns of a sparse source, by reading it once."""
        most = 0
        for chunk in self.source.chunks(None, min(self.memory // 4, LARGEST_CHUNK), self.chunk_rows):
            most = max(most, chunk.X.shape[1])
            self._tell("columns counted", chunk.done)
        return max(most, 1)

    def _normalised(self, X: Any) -> Any:
        """A chunk in the type and layout of the store; refuses what is not finite by its row."""
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        with np.errstate(over="ignore"):
            if self.sparse:
                X = sp.csr_array(X)
                values = X.data.astype(self.dtype, copy=False)
            elif sp.issparse(X):
                wide = sp.csr_array((X.data.astype(self.dtype), X.indices, X.indptr), shape=(X.shape[0], self.source.columns))
                X = values = wide.toarray()
            else:
                X = values = np.ascontiguousarray(X, dtype=self.dtype)
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values.reshape(-1)))[0])
            row = int(np.searchsorted(X.indptr, at, side="right")) - 1 if self.sparse else at // X.shape[1]
            raise InputError(
                f"X holds a number that is not finite (or too large for {self.dtype.name}) in row {self.journal['rows'] + row}: "
                "impute or remove it"
            )
        return sp.csr_array((values, X.indices, X.indptr), shape=X.shape, copy=False) if self.sparse else X

    def _append(self, X: Any, indices: np.dtype) -> None:
        files, journal = self.files, self.journal
        if not self.sparse:
            files["rows.values"].append(X)
            journal["nnz"] += X.size
            return
        most = int(X.indices.max(initial=-1))
        if most > np.iinfo(indices).max:
            raise InputError(f"the source has a column {most + 1}, which is too large: give n_features (--n-features)")
        files["rows.values"].append(X.data)
        files["rows.indices"].append(X.indices.astype(indices))
        files["rows.starts"].append((X.indptr[1:] + np.int64(journal["nnz"])).astype("<i8"))
        journal["nnz"] += int(X.nnz)
        journal["columns"] = max(journal["columns"], most + 1)

    def _write_columns(self) -> None:
        n, d = self.journal["rows"], self.journal["columns"]
        written = sum(about["bytes"] for name, about in self.journal["files"].items() if name.startswith("cols."))
        whole = sum(about["bytes"] for name, about in self.journal["files"].items() if name.startswith("rows."))
        self._refuse_without_room(whole - written)
        done = int(self.journal.get("panel", 0))
        if self.sparse:
            self._open(("cols.values", self.dtype), ("cols.indices", "<i8" if n >= 2**31 else "<i4"), ("cols.starts", "<i8"))
            if not self.files["cols.starts"].size:
                self.files["cols.starts"].append(np.zeros(1, dtype="<i8"))
            panels = self._sparse_panels(n, d, done)
        else:
            self._open(("cols.values", self.dtype))
            panels = self._dense_panels(n, d, done)
        for last in panels:
            self.journal["panel"] = last
            self._save()
            self._tell("columns", last / d)

    def _dense_panels(self, n: int, d: int, first: int) -> Iterator[int]:
        """Panels of columns, transposed: pieces of each row where they are long enough, else all rows in blocks."""
        width = self.dtype.itemsize
        count = max(1, min(self.memory // (2 * n * width), max(LARGEST_CHUNK // (n * width), PIECE // width)))
        with (self.folder / "rows.values").open("rb", buffering=0) as rows:
            while first < d:
                last = min(first + count, d)
                panel = np.empty((last - first, n), dtype=self.dtype)
                whole = (last - first) * width < PIECE  # read all of the rows
                length = d if whole else last - first
                height = max(1, min(n, self.memory // (8 * length * width)))
                buffer = np.empty((height, length), dtype=self.dtype)
                for at in range(0, n, height):
                    part = buffer[: min(height, n - at)]
                    if whole or length == d:
                        read_at(rows, part, at * d * width)
                    else:
                        for i in range(len(part)):
                            read_at(rows, part[i], ((at + i) * d + first) * width)
                    panel[:, at : at + len(part)] = (part[:, first:last] if whole else part).T
                self.files["cols.values"].append(panel)
                first = last
                yield last

    def _sparse_panels(self, n: int, d: int, first: int) -> Iterator[int]:
        """Panels of columns that hold as many entries as fit: each reads all rows once and puts its entries in their places."""
        folder, nnz = self.folder, int(self.journal["nnz"])
        index = self.files_dtype("rows.indices")
        step = max(1, self.memory // 64)
        counts = np.zeros(d, dtype=np.int64)
        with (folder / "rows.indices").open("rb", buffering=0) as file:
            for at in range(0, nnz, step):
                part = np.empty(min(step, nnz - at), dtype=index)
                read_at(file, part, at * index.itemsize)
                counts += np.bincount(part, minlength=d)
        ends = np.cumsum(counts)
        most = max(1, self.memory // (4 * (self.dtype.itemsize + 8)))
        while first < d:
            before = int(ends[first - 1]) if first else 0
            last = min(d, max(first + 1, int(np.searchsorted(ends, before + most, side="right"))))
            size = int(ends[last - 1]) - before
            values, rows = np.empty(size, dtype=self.dtype), np.empty(size, dtype=self.files["cols.indices"].dtype)
            fill = ends[first:last] - counts[first:last] - before
            for at, block in self._row_blocks(n, d, step, index):
                part = block[:, first:last].tocsc() if (first, last) != (0, d) else block.tocsc()
                own = np.diff(part.indptr)
                places = np.repeat(fill - part.indptr[:-1], own) + np.arange(part.nnz)
                values[places], rows[places] = part.data, part.indices + at
                fill += own
            self.files["cols.values"].append(values)
            self.files["cols.indices"].append(rows)
            self.files["cols.starts"].append(ends[first:last].astype("<i8"))
            first = last
            yield last

    def files_dtype(self, name: str) -> np.dtype:
        """The type of the numbers in a file that is written."""
        return np.dtype(self.journal["files"][name]["dtype"])

    def _row_blocks(self, n: int, d: int, step: int, index: np.dtype) -> Iterator[tuple[int, Any]]:
        """All rows that were written, about `step` entries at a time."""
        with contextlib.ExitStack() as stack:
            names = ("rows.values", "rows.indices", "rows.starts")
            values, indices, pointers = (stack.enter_context((self.folder / name).open("rb", buffering=0)) for name in names)
            at = 0
            while at < n:
                starts = np.empty(min(step, n - at) + 1, dtype="<i8")
                read_at(pointers, starts, 8 * at)
                count = max(1, int(np.searchsorted(starts, starts[0] + step, side="right")) - 1)
                starts = starts[: count + 1]
                size = int(starts[-1] - starts[0])
                data, columns = np.empty(size, dtype=self.dtype), np.empty(size, dtype=index)
                read_at(values, data, int(starts[0]) * self.dtype.itemsize)
                read_at(indices, columns, int(starts[0]) * index.itemsize)
                block = sp.csr_array((data, columns, starts - starts[0]), shape=(count, d), copy=False)
                yield at, block
                at += count

    def _finish(self) -> None:
        """Final targets, the description, and the move to the place."""
        journal = self.journal
        if self.folder.exists() and not (self.folder / DESCRIPTION).exists():
            about = finish_targets(self.work, self.folder, journal, self.source.targets, min(self.memory, LARGEST_CHUNK))
            files = {name: journal["files"][name] for name in files_of(self.sparse)}
            if about is not None:
                files["targets"] = about.pop("file")
            description = {
                "format": FORMAT,
                "version": VERSION,
                "name": self.source.name,
                "shape": [journal["rows"], journal["columns"]],
                "nnz": journal["nnz"],
                "dtype": self.dtype.name,
                "kind": "sparse" if self.sparse else "dense",
                "checksum_block": CHECKED,
                "files": files,
                "targets": about,
                "feature_names": self.source.feature_names,
                "source": journal["about"]["source"],
            }
            write_atomically(self.folder / DESCRIPTION, json.dumps(seal(description), indent=1).encode())
            sync_folder(self.folder)
        if self.folder.exists():
            if self.place.exists():
                description_of(self.place)  # refuses what is no store
                os.replace(self.place, self.work / "replaced")
            os.replace(self.folder, self.place)
            sync_folder(self.place.resolve().parent)
        remove_work(self.work)
        self._tell("done", 1.0)
