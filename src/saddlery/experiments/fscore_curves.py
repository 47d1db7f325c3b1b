"""What the two F-score figures of Shi, Zhang and Yu (2017) share: methods, tables, notes and the four panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from saddlery.experiments.base import Chart, Column, Experiment, Outcome, Record, Results, Row, Run, Series, Table
from saddlery.experiments.papers import BREGMAN

__all__ = ["FScoreFigure"]

MODULE = "saddlery.experiments.fscore_runs"
PAPER = BREGMAN.citation
FLOOR = 1e-10
MARKS = [1e-1, 1e-2, 1e-4, 1e-6]
COMPARED = 1e-4  # the mark that the notes speak of


def methods(entropy: float, euclid: float, length: int) -> dict[str, dict[str, Any]]:
    """The methods of the figures, with the paper's steps and scheme, and this library's choices."""
    print_entropy = {"step_size": entropy, "epoch_length": length, "scheme": "rows"}
    print_euclid = {"step_size": euclid, "epoch_length": length, "scheme": "rows"}
    accelerated = {**print_euclid, "step_size": 3.0 * euclid, "catalyst": 1.0, "probabilities": "norms"}
    return {
        "Entropy, saddle": {"geometry": "entropy", "solver": "breg_svrg", "options": print_entropy},
        "Entropy, convex": {"geometry": "entropy", "solver": "breg_svrg", "options": {**print_entropy, "form": "convex"}},
        "Euclid, saddle": {"geometry": "euclidean", "solver": "breg_svrg", "options": print_euclid},
        "Euclid, accelerated": {"geometry": "euclidean", "solver": "breg_svrg", "options": accelerated},
        "Euclid, convex": {"geometry": "euclidean", "solver": "breg_svrg", "options": {**print_euclid, "form": "convex"}},
        "Entropy, saddle, step by sweep": {"geometry": "entropy", "solver": "breg_svrg", "options": {}},
        "Saddlery default": {"geometry": "entropy", "solver": "extragradient", "options": {"iterations": 1}},
    }


class FScoreFigure(Experiment):
    """Base of both figures: `number` of the figure, and its settings."""

    number: ClassVar[int]
    full: ClassVar[dict[str, Any]]
    quick: ClassVar[dict[str, Any]]

    def settings(self, quick: bool) -> dict[str, Any]:
        return {**self.full, **(self.quick if quick else {})}

    def _sources(self, settings: dict[str, Any], data: Sequence[str]) -> list[str]:
        return list(data) if settings.get("data") else [""]

    def runs(self, settings: dict[str, Any], data: Sequence[str]) -> list[Run]:
        shared = {name: settings[name] for name in ("train", "test", "alpha", "smoothing", "seed")}
        runs = []
        for name in self._sources(settings, data):
            where = f"figure {self.number}"
            best = {**shared, "tol": settings["tol"]}
            runs.append(Run(f"optimum of {where}", f"{MODULE}:optimum", best, name, ("extragradient",)))
            for method, chosen in settings["methods"].items():
                arguments = {**shared, "most_passes": settings["most_passes"], "most_seconds": settings["most_seconds"], **chosen}
                cost = 10.0 if chosen["geometry"] == "euclidean" else 3.0
                runs.append(Run(f"{method}, {where}", f"{MODULE}:curve", arguments, name, (chosen["solver"],), cost))
        return runs

    def outcome(self, settings: dict[str, Any], results: Results) -> Outcome:
        if results.missing:
            return Outcome([], [f"{name}: not available." for name in results.missing])
        best = self._optimum(settings, results)
        rows, ends = [], []
        for method in settings["methods"]:
            record = self._curve(settings, results, method)
            keys = [record.key, best.key]
            rows.append(Row([method, *(_first(record, best, mark, "passes") for mark in MARKS)], keys))
            seconds = [_first(record, best, mark, "seconds") for mark in MARKS]
            last = (_gap(record, best, -1), record.result["score"][-1], record.result["step"])
            ends.append(Row([method, *seconds, *last], keys))
        columns = tuple(Column(f"gap {mark:g}", "{:.1f}") for mark in MARKS)
        timed = tuple(Column(f"gap {mark:g}", "{:.2f}") for mark in MARKS)
        more = (Column("last gap", "{:.1e}"), Column("test F", "{:.3f}"), Column("step", "{:.1e}"))
        return Outcome(
            [
                Table("Effective passes until the primal gap", (Column("method"), *columns), rows),
                Table(
                    "Seconds of the processor until the primal gap, and the end of each run",
                    (Column("method"), *timed, *more),
                    ends,
                ),
            ],
            self._notes(settings, results),
            self._charts(settings, results),
        )

    def _notes(self, settings: dict[str, Any], results: Results) -> list[str]:
        best = self._optimum(settings, results)
        entropy, euclid, quick = (
            _words(self._curve(settings, results, method), best)
            for method in ("Entropy, saddle", "Euclid, saddle", "Euclid, accelerated")
        )
        found = best.result
        return [
            f"The optimum lies between {found['lower']:.8f} and {found['upper']:.8f} (the constant 1 included), proved in "
            f"{found['iterations']:.0f} iterations of extragradient; test F {found['score']:.3f}. It depends on the rows drawn.",
            f"Primal gap of {COMPARED:g} with the paper's steps: entropy {entropy}, Euclid {euclid}, Euclid accelerated {quick}.",
            "A pair of full gradients is one pass, a step of variance reduction 2 / n of one, (29) of the paper. This leaves out "
            "the steps' own cost, which is most of the time, and all that the convex forms compute besides.",
        ]

    def _charts(self, settings: dict[str, Any], results: Results) -> list[Chart]:
        """The primal gap and F on the test rows, against passes and against time."""
        best = self._optimum(settings, results)
        charts = []
        for what, column in (("Primal gap", "gap"), ("F on the test rows", "score")):
            for unit, words in (("passes", "effective passes"), ("seconds", "seconds of the processor")):
                lines = []
                for method in settings["methods"]:
                    record = self._curve(settings, results, method)
                    x = [max(value, 1e-3) for value in record.result["seconds"]] if unit == "seconds" else record.result["passes"]
                    gaps = [min(max(_gap(record, best, at), FLOOR), 1e3) for at in range(len(x))]
                    y = gaps if column == "gap" else record.result["score"]
                    lines.append(Series(method, x, y, [record.key, best.key] if column == "gap" else [record.key]))
                charts.append(Chart(what, words, what, lines, log_x=unit == "seconds", log_y=column == "gap"))
        return charts

    def _optimum(self, settings: dict[str, Any], results: Results) -> Record:
        return results.of(self._name(settings), tol=settings["tol"])[0]

    def _curve(self, settings: dict[str, Any], results: Results, method: str) -> Record:
        return results.of(self._name(settings), **settings["methods"][method])[0]

    @staticmethod
    def _name(settings: dict[str, Any]) -> str:
        return settings["data"][0] if settings.get("data") else ""


def _gap(record: Record, best: Record, at: int) -> float:
    value = record.result["upper"][at] - best.result["lower"]
    return max(value, 0.0) if math.isfinite(value) else math.inf


def _first(record: Record, best: Record, mark: float, unit: str) -> float | None:
    """Passes or seconds until the primal gap is at most `mark`; None if it never is."""
    places = (at for at in range(len(record.result["passes"])) if _gap(record, best, at) <= mark)
    at = next(places, None)
    return None if at is None else float(record.result[unit][at])


def _words(record: Record, best: Record) -> str:
    passes = _first(record, best, COMPARED, "passes")
    return f"not reached (last gap {_gap(record, best, -1):.1e})" if passes is None else f"after {passes:.1f} passes"
