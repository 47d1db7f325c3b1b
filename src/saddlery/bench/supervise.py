"""The parent of workers: when a peer crashes its process or hangs in it, that is noted, and the cell goes on without that fit."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saddlery.bench.log import OURS, RAW, REFERENCE
from saddlery.bench.tasks import Cell

__all__ = ["Supervisor", "environment"]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS")
DEATHS = 12  # of one worker's processes on one cell, after which the cell is given up
OUR_PATIENCE = 900.0  # seconds: ours keep to their budgets, but may compile, and are never the ones to blame for a hang
POLL = 0.2  # seconds


def environment(threads: int) -> dict[str, str]:
    """The variables of a process with so many threads: libraries read them when they are imported."""
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}


@dataclass(frozen=True)
class Supervisor:
    """Runs workers until all cells have a result.

    A worker writes ``NAME.json`` for each of its cells when it is done, and what it is doing meanwhile to ``NAME.partial``, see
    :class:`saddlery.bench.log.Log`.

    Parameters
    ----------
    folder : Path
        Where these files are; the output of workers is in ``worker.log``.
    command : callable
        The command line of a worker for some cells, which share their data.
    threads : int
        In the environment of workers.
    patience : float
        Seconds that a single fit of a peer may take before the worker is killed.
    tell : callable
        Called with the result of each cell.
    now : callable
        Called with a cell and what it is doing, some times a second.
    """

    folder: Path
    command: Callable[[Sequence[Cell]], list[str]]
    threads: int = 1
    patience: float = 120.0
    tell: Callable[[dict[str, Any]], Any] = lambda result: None
    now: Callable[[Cell, dict[str, Any]], Any] = lambda cell, event: None

    def run(self, cells: Sequence[Cell]) -> None:
        """Start a worker for each data set, and another one whenever it dies."""
        todo, deaths = list(cells), dict.fromkeys(cells, 0)
        while todo:
            batch = [cell for cell in todo if cell.data == todo[0].data]
            before = {cell: self._stamp(cell) for cell in batch}
            why = self._watch(batch)
            undone = [cell for cell in batch if self._stamp(cell) == before[cell]]
            todo = [cell for cell in todo if cell not in batch or cell in undone]
            if undone:
                current = undone[0]
                deaths[current] += 1
                if not self._blame(current, why) or deaths[current] >= DEATHS:
                    result = {"cell": current.name, "error": f"{why}: {self._last_words()}"}
                    self._result(current).write_text(json.dumps(result) + "\n")
                    todo.remove(current)
                    self.tell(result)

    def _result(self, cell: Cell) -> Path:
        return self.folder / f"{cell.file}.json"

    def _partial(self, cell: Cell) -> Path:
        return self.folder / f"{cell.file}.partial"

    def _stamp(self, cell: Cell) -> int:
        path = self._result(cell)
        return path.stat().st_mtime_ns if path.exists() else 0

    def _watch(self, batch: list[Cell]) -> str:
        """Run a worker to its end, or to the end of its patience; says how it ended."""
        waiting = {cell: self._stamp(cell) for cell in batch}

        def tell_news() -> None:
            for cell in [cell for cell, stamp in waiting.items() if self._stamp(cell) != stamp]:
                del waiting[cell]
                self.tell(json.loads(self._result(cell).read_text()))

        with (self.folder / "worker.log").open("a") as output:  # some peers print, and a crash leaves its traces here
            worker = subprocess.Popen(
                self.command(batch),
                env=environment(self.threads),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
            try:
                while worker.poll() is None:
                    time.sleep(POLL)
                    tell_news()
                    hung = [cell for cell in waiting if self._is_stuck(cell)]
                    if hung:
                        return f"killed after {self.patience:.0f} s in one fit"
            finally:
                if worker.poll() is None:
                    worker.kill()
                    worker.wait()
        tell_news()
        return f"crashed (exit {worker.returncode})"

    def _is_stuck(self, cell: Cell) -> bool:
        """Whether the cell is under way and has been silent for too long."""
        event = self._last_event(cell)
        if event is None:
            return False
        self.now(cell, event)
        silent = time.time() - self._partial(cell).stat().st_mtime
        return silent > (max(self.patience, OUR_PATIENCE) if _is_ours(event) else self.patience)

    def _last_event(self, cell: Cell) -> dict[str, Any] | None:
        try:
            lines = self._partial(cell).read_text().splitlines()
            return json.loads(lines[-1]) if lines else None
        except (FileNotFoundError, ValueError):  # done meanwhile, or a line that is being written
            return None

    def _blame(self, cell: Cell, why: str) -> bool:
        """Note in the log of a cell which fit the worker died in; False if it was not a peer's."""
        event = self._last_event(cell)
        if event is None or event["event"] != "start" or _is_ours(event):
            return False
        with self._partial(cell).open("a") as handle:
            handle.write(json.dumps({"event": "died", "solver": event["solver"], "setting": event["setting"], "why": why}) + "\n")
        return True

    def _last_words(self) -> str:
        lines = (self.folder / "worker.log").read_text(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it said nothing")


def _is_ours(event: dict[str, Any]) -> bool:
    return event["solver"] in (OURS, RAW, REFERENCE) or event["event"] == "done"
