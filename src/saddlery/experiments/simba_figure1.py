"""Figure 1 of Hazan, Koren and Srebro (2011): test error against feature accesses, where it should win and where it should not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlery.experiments.base import Chart, Column, Experiment, Outcome, Record, Results, Row, Run, Series, Table
from saddlery.experiments.papers import SIMBA

__all__ = ["PAPER", "SimbaFigure1"]

PAPER = SIMBA.citation
FUNCTION = "saddlery.experiments.simba_runs:curve"
CLAIM = 100.0  # times fewer accesses than Pegasos, says the paper
FLOOR = 1e-6  # smaller errors are drawn there
COUNTS = {"dense": "all", "nonzero": "stored"}
METHODS: dict[str, dict[str, Any]] = {
    "simba": {"method": "simba", "options": {"eta": 1.5}},
    "simba, paper's form": {"method": "simba", "options": {"form": "budget"}},
    "pegasos": {"method": "pegasos", "options": {}},
    "subsample": {"method": "subsample", "options": {}},
}
OURS, RIVALS = ("simba", "simba, paper's form"), ("pegasos", "subsample")
ALPHAS = [1e-5, 1e-4, 1e-3]


def _passes(first: float, last: float, count: int) -> list[float]:
    return [float(f"{share:.3g}") for share in np.geomspace(first, last, count)]


PROBLEMS: dict[str, dict[str, Any]] = {
    "news20": {
        "data": "news20",
        "source": {"train": 8000, "unit_rows": True},
        "passes": _passes(0.003, 10.0, 15),
        "longest": {"simba, paper's form": 0.3, "subsample": 1.0},
        "values": {"simba": [0.2, 0.5], "simba, paper's form": [0.01], "pegasos": ALPHAS, "subsample": ALPHAS},
        "targets": [0.2, 0.15, 0.12, 0.105],
    },
    "a9a": {
        "data": "a9a",
        "source": {"train": 20_000, "unit_rows": False},
        "passes": _passes(0.003, 10.0, 15),
        "longest": {"subsample": 1.0},
        "values": {"simba": [0.4, 0.5], "simba, paper's form": [0.03, 0.1], "pegasos": ALPHAS, "subsample": ALPHAS},
        "targets": [0.2, 0.18, 0.16, 0.155],
    },
    "topics, n = d = 12,000": {
        "data": "",
        "source": {"n": 12_000, "common": 2, "rare": 14, "mass": 0.01, "in_memory": True},
        "passes": _passes(0.001, 3.0, 15),
        "longest": {"simba": 0.2, "simba, paper's form": 0.2, "subsample": 1.0},
        "values": {"simba": [0.001, 0.005], "simba, paper's form": [1e-4, 1e-3], "pegasos": [1e-4, 1e-3], "subsample": [1e-4]},
        "targets": [1e-3, 1e-4, 1e-5],
    },
    "topics on demand, n = d = 50,000": {
        "data": "",
        "source": {"n": 50_000, "common": 2, "rare": 24, "mass": 0.004, "in_memory": False},
        "passes": _passes(0.001, 2.0, 14),
        "longest": {"simba": 0.06, "pegasos": 1.2, "subsample": 0.1},
        "values": {"simba": [0.001], "pegasos": [1e-4], "subsample": [1e-4]},
        "targets": [1e-3, 1e-4, 1e-5],
    },
}
FULL: dict[str, Any] = {"data": ["news20", "a9a"], "seeds": list(range(10)), "methods": METHODS, "problems": PROBLEMS}
SMALL = {**PROBLEMS["topics, n = d = 12,000"], "source": {"n": 1500, "common": 2, "rare": 6, "mass": 0.02, "in_memory": True}}
QUICK: dict[str, Any] = {
    "data": ["a9a"],
    "seeds": [0, 1, 2],
    "methods": METHODS,
    "problems": {
        "a9a": {**PROBLEMS["a9a"], "passes": _passes(0.003, 1.0, 8)},
        "topics, n = d = 1,500": SMALL,
    },
}


class SimbaFigure1(Experiment):
    """See the module."""

    title = "Sublinear SVM: test error against feature accesses"
    paper = f"{PAPER}, Figure 1"

    def settings(self, quick: bool) -> dict[str, Any]:
        return QUICK if quick else FULL

    def runs(self, settings: dict[str, Any], data: Sequence[str]) -> list[Run]:
        runs = []
        for name, problem in settings["problems"].items():
            if problem["data"] and problem["data"] not in data:
                continue
            for method, chosen in settings["methods"].items():
                longest = problem.get("longest", {}).get(method, math.inf)
                passes = [share for share in problem["passes"] if share <= longest]
                shared = {"source": problem["source"], **chosen, "passes": passes}
                solvers = (chosen["method"] if chosen["method"] != "subsample" else "sdca",)
                for value in problem["values"].get(method, []):
                    for seed in settings["seeds"]:
                        label = f"{method} {value:g} on {name}, seed {seed}"
                        cost = passes[-1] * problem.get("cost", 1.0)
                        runs.append(Run(label, FUNCTION, {**shared, "value": value, "seed": seed}, problem["data"], solvers, cost))
        return runs

    def outcome(self, settings: dict[str, Any], results: Results) -> Outcome:
        notes = [f"{name}: not available." for name in results.missing]
        notes.append(
            "Reads are counted with zeros (a row is d entries, a column n) and by what is stored; dense data have one count. "
            "A pass is all entries of X, in the same count. The trade-off of each method is the one with the lowest mean error, "
            "chosen on the test rows, as in the paper. Errors on topics are expectations in closed form."
        )
        tables, rows = [], []
        for name, problem in settings["problems"].items():
            lines = _lines(settings, results, name)
            if lines:
                tables.append(_errors(name, problem, lines))
                for count in _counts(lines):
                    rows += _reached(name, problem["targets"], lines, count)
                    notes.append(_judged(name, problem["targets"], lines, count))
        columns = [
            Column("data"),
            Column("reads"),
            Column("error", "{:g}"),
            *(Column(method, "{:.3g}") for method in settings["methods"]),
        ]
        columns += [Column(f"{rival} / simba", "{}") for rival in RIVALS]
        title = "Passes until the mean error is at most so large, and how many times fewer simba takes"
        return Outcome([Table(title, tuple(columns), rows, left=2), *tables], notes, _charts(settings, results))


class _Line(NamedTuple):
    """One method on one problem with its best trade-off: errors at the marks, over the seeds."""

    method: str
    value: float
    records: list[Record]

    def column(self, name: str) -> np.ndarray:
        """Seeds by marks."""
        return np.array([record.result[name] for record in self.records])

    @property
    def mean(self) -> np.ndarray:
        return self.column("error").mean(axis=0)

    @property
    def deviation(self) -> np.ndarray:
        return self.column("error").std(axis=0, ddof=1 if len(self.records) > 1 else 0)

    @property
    def keys(self) -> list[str]:
        return [record.key for record in self.records]

    def size(self, count: str) -> float:
        """Entries of a pass."""
        first = self.records[0].result
        return float(first["n"] * first["d"] if count == "dense" else first["nnz"])

    def passes(self, count: str) -> np.ndarray:
        """What was read by then, on average over the seeds."""
        return self.column(count).mean(axis=0) / self.size(count)

    def until(self, error: float, count: str) -> float:
        """Passes until the mean error is at most so large; infinity if it never is."""
        hits = np.flatnonzero(self.mean <= error)
        return float(self.passes(count)[hits[0]]) if len(hits) else math.inf


def _lines(settings: dict[str, Any], results: Results, name: str) -> dict[str, _Line]:
    """The line of each method that was run on a problem."""
    problem = settings["problems"][name]
    lines = {}
    for method, chosen in settings["methods"].items():
        found = [
            _Line(method, value, records)
            for value in problem["values"].get(method, [])
            if (records := results.of(problem["data"], source=problem["source"], value=value, **chosen))
        ]
        if found:
            lines[method] = min(found, key=lambda line: float(line.mean.min()))
    return lines


def _charts(settings: dict[str, Any], results: Results) -> list[Chart]:
    """Mean error with a band of one deviation, for each way of counting."""
    charts = []
    for name in settings["problems"]:
        lines = _lines(settings, results, name)
        for count in _counts(lines) if lines else ():
            words = f"{name}: {COUNTS[count]} entries counted" if len(_counts(lines)) > 1 else name
            series = []
            for method, line in lines.items():
                middle, spread = np.maximum(line.mean, FLOOR), line.deviation
                low = np.maximum(middle - spread, FLOOR / 2)
                series.append(Series(method, line.passes(count), middle, line.keys, low, middle + spread))
            charts.append(Chart(words, "passes over the data", "test error", series))
    return charts


def _counts(lines: dict[str, _Line]) -> list[str]:
    """The ways to count that differ."""
    first = next(iter(lines.values()))
    return ["dense"] if first.size("dense") == first.size("nonzero") else ["dense", "nonzero"]


def _errors(name: str, problem: dict[str, Any], lines: dict[str, _Line]) -> Table:
    shown = range(0, len(problem["passes"]), 2)
    rows = []
    for line in lines.values():
        cells = [_cell(line.mean[at], line.deviation[at]) if at < len(line.mean) else None for at in shown]
        rows.append(Row([line.method, line.value, *cells], line.keys))
    columns = (Column("method"), Column("slack or alpha", "{:g}"), *(Column(f"{problem['passes'][at]:g}") for at in shown))
    return Table(f"{name}: test error (and deviation) after so many passes, zeros counted", columns, rows)


def _cell(mean: float, deviation: float) -> str:
    return f"{mean:.2g} ({deviation:.1g})" if mean >= FLOOR else "0"


def _reached(name: str, targets: Sequence[float], lines: dict[str, _Line], count: str) -> list[Row]:
    rows = []
    for target in targets:
        passes = [line.until(target, count) for line in lines.values()]
        cells = dict(zip(lines, passes, strict=True))
        shown = [cells[method] if cells.get(method, math.inf) < math.inf else None for method in METHODS]
        factors = [_factor(lines, rival, target, count) for rival in RIVALS]
        keys = [key for line in lines.values() for key in line.keys]
        rows.append(Row([name, COUNTS[count], target, *shown, *factors], keys))
    return rows


def _best_of_ours(lines: dict[str, _Line], target: float, count: str) -> float:
    return min((lines[method].until(target, count) for method in OURS if method in lines), default=math.inf)


def _factor(lines: dict[str, _Line], rival: str, target: float, count: str) -> str | None:
    """How many times fewer reads than a rival; a bound where one of the two never got there."""
    if rival not in lines:
        return None
    ours, theirs = _best_of_ours(lines, target, count), lines[rival].until(target, count)
    last = {
        "ours": max(lines[method].passes(count)[-1] for method in OURS if method in lines),
        "theirs": lines[rival].passes(count)[-1],
    }
    if math.isinf(ours) and math.isinf(theirs):
        return None
    if math.isinf(theirs):
        return f"> {last['theirs'] / ours:.2g}" if last["theirs"] > ours else None
    if math.isinf(ours):
        return f"< {theirs / last['ours']:.2g}"
    return f"{theirs / ours:.2g}"


def _judged(name: str, targets: Sequence[float], lines: dict[str, _Line], count: str) -> str:
    """Whether simba reaches the best error of Pegasos with a hundredth of its reads, which is what the paper says."""
    ways = len(_counts(lines))
    what = f"{name} ({COUNTS[count]} entries counted)" if ways > 1 else name
    pegasos = lines["pegasos"]
    factors = []
    for target in targets:
        ours, theirs = _best_of_ours(lines, target, count), pegasos.until(target, count)
        if math.isfinite(theirs):
            factors.append((theirs / ours if math.isfinite(ours) else 0.0, target))
    if not factors:
        return f"{what}: Pegasos reaches none of the errors, so nothing can be said about the claim."
    best, where = max(factors)
    holds = "holds" if best >= CLAIM else "does not hold"
    return f"{what}: '100 times fewer' {holds}; the largest factor over Pegasos is {best:.2g}, at an error of {where:g}."
