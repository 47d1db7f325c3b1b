"""Runs experiments: finds data, takes from the records what is there, computes the rest, writes and returns what they show.

Everything is written below one folder: ``records/`` holds a JSON file for each run, and each experiment has a folder of its name
with ``result.json`` (all values, each row with the files of its records), ``result.md``, and ``figure.png`` and ``figure.svg`` if
it draws; what a quick run shows has a folder of its own, so that it never replaces what took long.
A record is written as soon as its run is done, so that a harness that was killed and is started again goes on where it was.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from saddlery.experiments import data as data_sets
from saddlery.experiments.base import Chart, Experiment, Outcome, Record, Results, Run
from saddlery.experiments.pictures import picture, thin
from saddlery.experiments.progress import Progress
from saddlery.experiments.records import Store, key_of, versions
from saddlery.experiments.sources import sources_digest
from saddlery.files import write_atomically
from saddlery.registry import EXPERIMENTS

__all__ = ["Plan", "Report", "plan", "reproduce"]

RECORDS = "records"
NO_MATPLOTLIB = "The picture is not drawn, because matplotlib is missing: pip install 'saddlery[plot]'."


@dataclass
class Plan:
    """What an experiment wants: its settings, its runs, and the data sets that are there and that are not."""

    name: str
    experiment: Experiment
    settings: dict[str, Any]
    runs: list[Run]
    files: dict[str, Path]
    missing: list[str]
    quick: bool = False

    @property
    def folder(self) -> str:
        """The folder of its files."""
        return f"{self.name}-quick" if self.quick else self.name

    @property
    def is_possible(self) -> bool:
        """Whether there is anything to run: an experiment does with the data sets that it finds."""
        return bool(self.runs)


@dataclass
class Report:
    """What came out of an experiment and where it was written."""

    name: str
    title: str
    paper: str
    outcome: Outcome
    files: list[Path]
    content: dict[str, Any] = field(repr=False)


def plan(names: Sequence[str], data: Path, quick: bool = False) -> list[Plan]:
    """What the named experiments want, and whether it is there; computes nothing.

    Parameters
    ----------
    names : sequence of str
        Registered experiments.
    data : path
        The folder of the data files.
    quick : bool
        Ask for less of everything.
    """
    plans = []
    for name in names:
        experiment: Experiment = EXPERIMENTS.get(name)()
        settings = experiment.settings(quick)
        found = {item: data_sets.find(data, item) for item in settings.get("data", ())}
        files = {item: path for item, path in found.items() if path is not None}
        runs = experiment.runs(settings, list(files))
        plans.append(Plan(name, experiment, settings, runs, files, [item for item in found if item not in files], quick))
    return plans


def reproduce(
    plans: Sequence[Plan], output: Path, command: str = "", progress: Callable[[int, float], Progress] = Progress
) -> list[Report]:
    """Run what is not in the records yet, and write what each experiment shows as soon as its runs are done.

    Parameters
    ----------
    plans : sequence of Plan
        From :func:`plan`; those without runs are passed over.
    output : path
        The folder to write to; records found there are used.
    command : str
        What asked for it, for the records.
    progress : callable
        ``progress(runs, cost)`` gives the context manager that shows how far it is.
    """
    possible = [item for item in plans if item.is_possible]
    runner = _Runner(Store(output / RECORDS), command)
    todo = {}
    for item in possible:
        for run in item.runs:
            key = runner.key(run, item.files)
            if runner.store.get(run, key) is None:
                todo[key] = run.cost
    with progress(len(todo), sum(todo.values())) as bar:
        return [_report(item, runner, output, bar) for item in possible]


class _Runner:
    """Gives the record of a run: from the store, or by computing it. Keeps the last data set that was read."""

    def __init__(self, store: Store, command: str):
        self.store, self.command = store, command
        self.digests: dict[Path, str] = {}
        self.loaded: tuple[str, Any] = ("", None)

    def key(self, run: Run, files: dict[str, Path]) -> str:
        return key_of(run, self._digest(files[run.data]) if run.data else "")

    def record(self, run: Run, files: dict[str, Path], bar: Progress) -> Record:
        key = self.key(run, files)
        known = self.store.get(run, key)
        if known is not None:
            return known
        report = bar.start(run.label, run.cost)
        data = self._data(run, files)
        module, name = run.function.split(":")
        began = time.perf_counter()
        result = getattr(import_module(module), name)(data, report, **run.settings)
        seconds = time.perf_counter() - began
        path = files.get(run.data)
        record = Record(
            key=key,
            label=run.label,
            function=run.function,
            settings=dict(run.settings),
            seed=run.settings.get("seed"),
            data={} if path is None else {"name": run.data, "file": path.name, "sha256": self._digest(path)},
            sources=sources_digest(module, run.solvers),
            result=result,
            seconds=round(seconds, 3),
            finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            command=self.command,
            versions=versions(),
        )
        self.store.put(run, record)
        bar.finish(seconds)
        return record

    def _digest(self, path: Path) -> str:
        if path not in self.digests:
            self.digests[path] = data_sets.file_digest(path)
        return self.digests[path]

    def _data(self, run: Run, files: dict[str, Path]) -> Any:
        if run.data and self.loaded[0] != run.data:
            self.loaded = (run.data, data_sets.load(files[run.data], run.data))
        return self.loaded[1] if run.data else None


def _report(item: Plan, runner: _Runner, output: Path, bar: Progress) -> Report:
    """Run an experiment, and write what it shows."""
    pairs = [(run, runner.record(run, item.files, bar)) for run in item.runs]
    results = Results(pairs, item.missing)
    outcome = item.experiment.outcome(item.settings, results)
    folder = output / item.folder
    folder.mkdir(parents=True, exist_ok=True)
    pictures = _draw(outcome, folder)
    places = {record.key: f"{RECORDS}/{runner.store.path(run, record.key).name}" for run, record in pairs}
    content = {
        "experiment": item.name,
        "title": item.experiment.title,
        "paper": item.experiment.paper,
        "command": runner.command,
        "quick": item.quick,
        "versions": versions(),
        "settings": item.settings,
        "missing": item.missing,
        "tables": [_table_content(table, places) for table in outcome.tables],
        "notes": outcome.notes,
        "charts": [_chart_content(chart, places) for chart in outcome.charts],
        "figures": [path.name for path in pictures],
        "records": list(places.values()),
    }
    files = [folder / "result.md", folder / "result.json", *pictures]
    write_atomically(files[0], _markdown(item, outcome, pictures).encode())
    write_atomically(files[1], (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    return Report(item.name, item.experiment.title, item.experiment.paper, outcome, files, content)


def _draw(outcome: Outcome, folder: Path) -> list[Path]:
    if not outcome.charts:
        return []
    try:
        figure = picture(outcome.charts)
    except ImportError as error:
        if error.name is None or not error.name.startswith("matplotlib"):
            raise
        outcome.notes.append(NO_MATPLOTLIB)
        return []
    paths = [folder / "figure.png", folder / "figure.svg"]
    for path in paths:
        figure.savefig(path)
    return paths


def _table_content(table: Any, places: dict[str, str]) -> dict[str, Any]:
    heads = [column.head for column in table.columns]
    rows = [
        {"values": dict(zip(heads, row.values, strict=True)), "records": [places[key] for key in dict.fromkeys(row.keys)]}
        for row in table.rows
    ]
    return {"title": table.title, "columns": heads, "rows": rows, "texts": table.texts()}


def _chart_content(chart: Chart, places: dict[str, str]) -> dict[str, Any]:
    """A chart as JSON can hold it: lines thinned to what the eye can see, each with its records."""
    lines = []
    for line in chart.series:
        kept = thin(line, chart.log_x)
        columns = {name: getattr(kept, name) for name in ("x", "y", "low", "high")}
        points = {name: [float(value) for value in values] for name, values in columns.items() if values is not None}
        records = [places[key] for key in dict.fromkeys(line.keys)]
        lines.append({"name": line.name, "dashed": line.dashed, **points, "records": records})
    return {**chart._asdict(), "series": lines}


def _markdown(item: Plan, outcome: Outcome, pictures: list[Path]) -> str:
    lines = [f"# {item.experiment.title}", "", f"{item.experiment.paper}.", ""]
    for table in outcome.tables:
        lines += [f"## {table.title}", "", "| " + " | ".join(column.head for column in table.columns) + " |"]
        lines.append("|" + "|".join("---" if at < table.left else "---:" for at in range(len(table.columns))) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in table.texts()]
        lines.append("")
    lines += [f"- {note}" for note in outcome.notes]
    lines += ["", *(f"![{item.experiment.title}]({path.name})" for path in pictures if path.suffix == ".png")]
    return "\n".join(lines).rstrip() + "\n"
