"""Figure 1 of Babichev, Ostrovskii and Bach (2019): gap and primal accuracy against time at n = d = k = 1000, for all methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from saddlery.experiments.base import Chart, Column, Experiment, Outcome, Record, Results, Row, Run, Series, Table
from saddlery.experiments.sublinear_table1 import PAPER

__all__ = ["SublinearFigure1"]

FUNCTION = "saddlery.experiments.sublinear_runs:trajectory"
FLOOR = 1e-6  # below, a difference of two values says nothing worth drawing
METHODS: dict[str, dict[str, Any]] = {
    "Algorithm 1": {"solver": "sublinear", "options": {}},
    "SMD, partial sampling": {"solver": "stochastic_mirror_descent", "options": {"sampling": "partial"}},
    "mirror descent": {"solver": "mirror_descent", "options": {}},
    "mirror prox": {"solver": "mirror_prox", "options": {}},
    "subgradient": {"solver": "subgradient", "options": {}},
    "pdhg": {"solver": "pdhg", "options": {}},
    "Saddlery default": {"solver": "auto", "options": {}},
}
FULL: dict[str, Any] = {
    "n": 1000,
    "alpha": 1e-3,
    "most_seconds": 60.0,
    "tol": 1e-3,
    "methods": METHODS,
    "seeds": {"Algorithm 1": [0, 1, 2]},
    "marks": [0.5, 0.2, 0.1, 0.03, 0.01],
}
QUICK: dict[str, Any] = {"n": 200, "most_seconds": 4.0}


class SublinearFigure1(Experiment):
    """See the module."""

    title = "All methods for k classes at once: gap and primal accuracy against time"
    paper = f"{PAPER}, Figure 1"

    def settings(self, quick: bool) -> dict[str, Any]:
        return {**FULL, **(QUICK if quick else {})}

    def runs(self, settings: dict[str, Any], data: Sequence[str]) -> list[Run]:
        shared = {name: settings[name] for name in ("n", "alpha", "most_seconds", "tol")}
        runs = []
        for method, chosen in settings["methods"].items():
            for seed in settings["seeds"].get(method, [0]):
                label = f"{method} at n = d = k = {settings['n']}, seed {seed}"
                arguments = {**shared, **chosen, "seed": seed}
                runs.append(Run(label, FUNCTION, arguments, solvers=(chosen["solver"],), cost=settings["most_seconds"]))
        return runs

    def outcome(self, settings: dict[str, Any], results: Results) -> Outcome:
        best, bound = _best(results)
        rows, last = [], []
        for method in settings["methods"]:
            records = _records(settings, results, method)
            keys = [record.key for record in records]
            times = [median(_first(record, mark) for record in records) for mark in settings["marks"]]
            rows.append(Row([method, *(seconds if seconds < math.inf else None for seconds in times)], keys))
            gaps = median(record.result["primal"][-1] - record.result["dual"][-1] for record in records)
            accuracy = median(record.result["primal"][-1] - best for record in records)
            spent = median(record.result["seconds"][-1] for record in records)
            last.append(Row([method, records[0].result["name"], gaps, accuracy, spent], keys))
        marks = tuple(Column(f"gap {mark:g}", "{:.2f}") for mark in settings["marks"])
        ends = (
            Column("method"),
            Column("solver"),
            Column("gap", "{:.3g}"),
            Column("P - best P", "{:.2g}"),
            Column("seconds", "{:.1f}"),
        )
        return Outcome(
            [
                Table("Seconds of the processor until a gap is proved, median over seeds", (Column("method"), *marks), rows),
                Table("Where the runs end, median over seeds", ends, last, left=2),
            ],
            _notes(settings, results, best, bound),
            _charts(settings, results, best),
        )


def _charts(settings: dict[str, Any], results: Results, best: float) -> list[Chart]:
    """The proved gap, and the distance of the primal value to the best one of all runs, against time."""
    gaps, errors = [], []
    for method in settings["methods"]:
        record = _records(settings, results, method)[0]
        primal, dual = record.result["primal"], record.result["dual"]
        seconds = [max(value, 1e-3) for value in record.result["seconds"]]
        gaps.append(Series(method, seconds, [max(p - d, FLOOR) for p, d in zip(primal, dual, strict=True)], [record.key]))
        keys = [record.key, *(other.key for _, other in results.pairs)]  # the best value may come from any of them
        errors.append(Series(method, seconds, [max(p - best, FLOOR) for p in primal], keys))
    axis = "seconds of the processor"
    return [Chart("Proved gap", axis, "P - D", gaps), Chart("Primal accuracy", axis, "P - best P", errors)]


def _records(settings: dict[str, Any], results: Results, method: str) -> list[Record]:
    chosen = settings["methods"][method]
    return results.of("", solver=chosen["solver"], options=chosen["options"])


def _best(results: Results) -> tuple[float, float]:
    """The best primal and the best dual value of all runs."""
    records = [record for _, record in results.pairs]
    return min(record.result["primal"][-1] for record in records), max(record.result["dual"][-1] for record in records)


def _first(record: Record, mark: float) -> float:
    """Seconds until the gap is at most `mark`; infinity if it never is."""
    values = zip(record.result["seconds"], record.result["primal"], record.result["dual"], strict=True)
    return next((seconds for seconds, primal, dual in values if primal - dual <= mark), math.inf)


def _notes(settings: dict[str, Any], results: Results, best: float, bound: float) -> list[str]:
    ours = _records(settings, results, "Algorithm 1")
    notes = [
        f"P(0) = 1, and the optimum lies between {bound:.4f} and {best:.4f}; a gap of 1 is worth nothing.",
        "Solvers are told the problem only: no radius, no step. The paper gives R = ||U*||_1 = k and the steps of its theorems, "
        "and has one run for each number of steps; here each curve is one run, and its values are the best up to there.",
    ]
    for method in settings["methods"]:
        if method == "Algorithm 1":
            continue
        rival = _records(settings, results, method)
        ahead = [mark for mark in settings["marks"] if _earlier(ours, rival, mark)]
        behind = [mark for mark in settings["marks"] if _earlier(rival, ours, mark)]
        parts = [f"earlier at gaps {', '.join(map('{:g}'.format, ahead))}"] if ahead else []
        parts += [f"later at gaps {', '.join(map('{:g}'.format, behind))}"] if behind else []
        if parts:
            notes.append(f"Algorithm 1 against {method}: {'; '.join(parts)}.")
    return notes


def _earlier(ones: list[Record], others: list[Record], mark: float) -> bool:
    return median(_first(record, mark) for record in ones) < median(_first(record, mark) for record in others)
