"""A table that grows while a fit runs: one row for each certificate, or one for each of several fits."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from saddlery.solvers.base import Record

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["LiveTable"]

# name, width in plain text, format
COLUMNS: tuple[tuple[str, int, Callable[[Record], str]], ...] = (
    ("epoch", 6, lambda r: f"{r.epoch:d}"),
    ("seconds", 9, lambda r: f"{r.seconds:.3f}"),
    ("primal", 14, lambda r: f"{r.primal:.8g}"),
    ("dual", 14, lambda r: f"{r.dual:.8g}"),
    ("gap", 9, lambda r: f"{r.gap:.2e}"),
    ("relative gap", 12, lambda r: f"{r.relative_gap:.2e}"),
    ("non-zeros", 9, lambda r: f"{r.nonzeros:d}"),
)


class LiveTable:
    """Show the certificates of a run while it runs: a callback for :func:`saddlery.solve` and a context manager.

    On a terminal the table is redrawn in place; elsewhere (a file, a pipe, a log) each line is written once, in aligned columns.
    One fit fills the table with its history. Several fits, such as the classes of one-vs-rest in threads, have one row each:
    give every one its own callback by :meth:`labelled`.

    Parameters
    ----------
    title : str
        Line above the table.
    tol : float, optional
        Tolerance of the fits: records that reach it are shown at once, and in green on a terminal.
    file : text stream, optional
        Where to write; standard error by default, so that standard output stays free for results.
    every : float
        Least number of seconds between two plain lines of the same fit. Its first and its last record are always shown.

    Examples
    --------
    >>> import sys
    >>> from saddlery.solvers.base import Record
    >>> with LiveTable(file=sys.stdout) as table:
    ...     table(Record(0, 0.0, 1.0, 0.6931, 0.0, 0.6931, 1.0, 0))
    ...     table(Record(3, 0.25, 4.0, 0.4012, 0.4011, 1e-4, 1.4e-4, 7))
     epoch   seconds         primal           dual       gap relative gap non-zeros
         0     0.000         0.6931              0  6.93e-01     1.00e+00         0
         3     0.250         0.4012         0.4011  1.00e-04     1.40e-04         7
    """

    def __init__(self, title: str = "", tol: float | None = None, file: TextIO | None = None, every: float = 0.1):
        self.title, self.tol, self.every = title, tol, every
        self.file = sys.stderr if file is None else file
        self._lock = threading.RLock()
        self._live: Any = None
        self._console: Any = None
        self._records: dict[str, list[Record]] = {}
        self._shown_at: dict[str, float] = {}
        self._pending: dict[str, Record] = {}
        self._label_width = 0

    # -- callbacks

    def __call__(self, record: Record, label: str = "") -> None:
        """Take the next record of the fit called `label`; never asks the solver to stop."""
        with self._lock:
            self._records.setdefault(label, []).append(record)
            if self._live is None:
                self._write_plain(record, label)

    def labelled(self, label: Any) -> Callable[[Record], None]:
        """A callback for one of several fits."""
        name = str(label)

        def callback(record: Record) -> None:
            self(record, name)

        return callback

    # -- context

    def __enter__(self) -> LiveTable:
        if self.file.isatty():
            from rich.console import Console
            from rich.live import Live

            self._console = Console(file=self.file)
            self._live = Live(console=self._console, get_renderable=self._table, refresh_per_second=8, redirect_stdout=False)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)  # draws once more
            self._live = None
        with self._lock:
            for label, record in list(self._pending.items()):
                self._write_line(record, label)
            self._pending.clear()
            self.file.flush()

    def _reached(self, record: Record) -> bool:
        return self.tol is not None and record.relative_gap <= self.tol

    # -- plain lines

    def _write_plain(self, record: Record, label: str) -> None:
        now = time.monotonic()
        if not self._reached(record) and now - self._shown_at.get(label, -float("inf")) < self.every:
            self._pending[label] = record  # shown at the end if nothing newer comes
            return
        self._shown_at[label] = now
        self._pending.pop(label, None)
        self._write_line(record, label)

    def _write_line(self, record: Record, label: str) -> None:
        """One line in one write, so that lines of several threads and processes stay whole."""
        text = ""
        if not self._label_width:  # the first line settles the width of the labels
            self._label_width = max(len(label) + 2, 12) if label else 1
            head = "fit".ljust(self._label_width) if label else ""
            names = head + " ".join(name.rjust(width) for name, width, _ in COLUMNS)
            text = (f"{self.title}\n" if self.title else "") + names + "\n"
        cells = " ".join(show(record).rjust(width) for _, width, show in COLUMNS)
        prefix = label.ljust(self._label_width) if self._label_width > 1 else ""
        self.file.write(f"{text}{prefix}{cells}\n")

    # -- the table on a terminal

    def _table(self) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            several = len(self._records) > 1
            rows, left_out = self._latest() if several else self._history()
            title = Text(self.title) if self.title else None
            table = Table(title=title, title_justify="left", caption=left_out or None, box=SIMPLE_HEAD, padding=0, pad_edge=False)
            if several:
                table.add_column("fit", no_wrap=True)
            for name, _, _ in COLUMNS:
                table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)  # two lines fit 80 columns
            for label, record in rows:
                cells = [show(record) for _, _, show in COLUMNS]
                table.add_row(*([Text(label)] if several else []), *cells, style="green" if self._reached(record) else None)
        return table

    def _room(self) -> int:
        """Rows that fit on the terminal beside title, head and caption."""
        return max(5, self._console.height - 8)

    def _history(self) -> tuple[list[tuple[str, Record]], str]:
        """The first and the newest records of the one fit, as many as the terminal has lines."""
        records = [(label, record) for label, found in self._records.items() for record in found]
        extra = len(records) - self._room()
        if extra <= 0:
            return records, ""
        return [records[0], *records[extra + 1 :]], f"{extra} earlier rows are not shown"

    def _latest(self) -> tuple[list[tuple[str, Record]], str]:
        """The newest record of each fit; the least certified ones if there are too many for the terminal."""
        latest = [(label, found[-1]) for label, found in self._records.items()]
        extra = len(latest) - self._room()
        if extra <= 0:
            return latest, ""
        latest.sort(key=lambda item: -item[1].relative_gap)
        return latest[:-extra], f"{extra} fits with smaller gaps are not shown"
