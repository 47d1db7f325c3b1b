"""How far the runs are and how long they will take: a bar on a terminal, a line for each finished run elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

__all__ = ["Progress"]


class Progress:
    """Counts runs by their costs; a context manager.

    Parameters
    ----------
    runs : int
        How many there will be.
    cost : float
        What they will cost together, in any unit.
    file : text stream, optional
        Where to write; standard error by default, so that standard output stays free for results.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> with Progress(1, 2.0, file=out) as progress:
    ...     report = progress.start("counting", 2.0)
    ...     report(0.5)
    ...     progress.finish(0.25)
    >>> out.getvalue()
    '1/1  counting  0.2 s\\n'
    """

    def __init__(self, runs: int, cost: float, file: TextIO | None = None):
        self.runs, self.cost = runs, max(cost, 1e-300)
        self.file = sys.stderr if file is None else file
        self.done, self.spent, self.label = 0, 0.0, ""
        self.bar: Any = None
        self.task: Any = None
        self.began = time.monotonic()

    def __enter__(self) -> Progress:
        if self.runs and self.file.isatty():
            from rich import progress
            from rich.console import Console

            columns = (
                progress.BarColumn(bar_width=30),
                progress.TaskProgressColumn(),
                progress.TimeRemainingColumn(),
                progress.TextColumn("left  {task.description}", markup=False),
            )
            self.bar = progress.Progress(*columns, console=Console(file=self.file), transient=True, speed_estimate_period=600.0)
            self.task = self.bar.add_task("", total=self.cost)
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def start(self, label: str, cost: float) -> Callable[[float], None]:
        """A run begins; the answer is to be called with the share of it that is done."""
        self.label, self.current = label, cost
        if self.bar is not None:
            self.bar.update(self.task, description=f"{self.done + 1}/{self.runs}  {label}", completed=self.spent)

        def report(share: float) -> None:
            if self.bar is not None:
                self.bar.update(self.task, completed=self.spent + cost * min(share, 1.0))

        return report

    def finish(self, seconds: float) -> None:
        """The run is done."""
        self.done, self.spent = self.done + 1, self.spent + self.current
        if self.bar is not None:
            self.bar.update(self.task, completed=self.spent)
            return
        left = (time.monotonic() - self.began) * (self.cost - self.spent) / max(self.spent, 1e-300)
        rest = f", about {_clock(left)} left" if self.done < self.runs else ""
        print(f"{self.done}/{self.runs}  {self.label}  {seconds:.1f} s{rest}", file=self.file, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
