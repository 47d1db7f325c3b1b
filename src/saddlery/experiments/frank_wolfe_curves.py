"""How P - P* falls with the calls that are made: what Figures 1 and 2 of Lu and Freund (2020) have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from saddlery.experiments.base import Chart, Column, Experiment, Outcome, Results, Row, Run, Series, Table
from saddlery.experiments.frank_wolfe import Curve, curves_of, optimum_of, runs_of, settings_of

__all__ = ["GapFigure"]

OURS = ("SAG-FW", "Saddlery default")
RIVALS = ("SFW", "SVRF", "SCGM", "SCGS")
METHODS = ("GSFW", *RIVALS, *OURS)
FLOOR = 1e-9  # below, the difference of two objectives says nothing worth drawing


class GapFigure(Experiment):
    """P - P* and the proved gap against calls of one kind.

    Attributes
    ----------
    axis, what : str
        Name of the counter, and its name for people.
    marks : tuple of float
        Where the table reads the curves: in passes over the data for sample gradients, else in calls.
    """

    axis: ClassVar[str]
    what: ClassVar[str]
    marks: ClassVar[tuple[float, ...]]

    def settings(self, quick: bool) -> dict[str, Any]:
        return settings_of(quick, METHODS)

    def runs(self, settings: dict[str, Any], data: Sequence[str]) -> list[Run]:
        return runs_of(settings, data, seeds=1)

    def outcome(self, settings: dict[str, Any], results: Results) -> Outcome:
        there = [name for name in settings["data"] if name not in results.missing]
        rows, claims = [], []
        for data in there:
            unit = optimum_of(results, data).result["n"] if self.axis == "sample_gradients" else 1
            curves = {method: curves_of(settings, results, data, method)[0] for method in settings["methods"]}
            for method, curve in curves.items():
                keys = [curve.record.key, optimum_of(results, data).key]
                errors = [self._error(curve, mark * unit, settings["tol"]) for mark in self.marks]
                rows.append(Row([data, method, *errors], keys))
            claims.append(f"{data}: {self._claim(curves)}")
        unit_name = "passes" if self.axis == "sample_gradients" else "calls"
        columns = [Column("data"), Column("method"), *(Column(f"{mark:,g} {unit_name}", "{:.1e}") for mark in self.marks)]
        notes = [f"{data}: not available." for data in results.missing]
        notes += ["Solid: P - P*. Dashed: the gap that the method has proved by then, which bounds P - P* without knowing P*."]
        notes += [
            "Curves begin where a solver has done its first step, most often a pass over the data. The full gradient that GSFW and "
            "SAG-FW start with is not counted, as in the paper; those of SVRF and of the default are.",
            "Numbers are the smallest P - P* up to there: most curves go up and down, and rounds of SVRF begin with a full step.",
            "The paper sees GSFW ahead of the other four after a while. Here, where the shorter of two runs ends:",
            *claims,
        ]
        charts = [self._chart(settings, results, data) for data in there]
        return Outcome([Table(f"P - P* after so many {self.what}", tuple(columns), rows, left=2)], notes, charts)

    def _error(self, curve: Curve, calls: float, tol: float) -> float | None:
        """The smallest P - P* seen within so many calls; None if the run ended before and might have gone further."""
        within = getattr(curve, self.axis) <= calls
        ended = within.all() and curve.gap[-1] > tol
        return max(float(curve.error[within].min()), 0.0) if within.any() and not ended else None

    def _claim(self, curves: dict[str, Curve]) -> str:
        """Whether GSFW is ahead of each rival in the end, which is what the paper sees in its figure."""
        behind: list[str] = []
        ahead: list[str] = []
        for method in RIVALS:
            pair = (curves["GSFW"], curves[method])
            calls = min(getattr(curve, self.axis)[-1] for curve in pair)
            ours, theirs = (float(curve.error[getattr(curve, self.axis) <= calls].min()) for curve in pair)
            (behind if ours < theirs else ahead).append(f"{method} ({ours:.0e} against {theirs:.0e})")
        holds = f"GSFW is ahead of {', '.join(behind)}" if behind else ""
        fails = f"not (yet) ahead of {', '.join(ahead)}" if ahead else ""
        return f"{'; '.join(part for part in (holds, fails) if part)}."

    def _chart(self, settings: dict[str, Any], results: Results, data: str) -> Chart:
        """P - P* (solid) and the proved gap (dashed) of every method."""
        lines = []
        for method in settings["methods"]:
            curve = curves_of(settings, results, data, method)[0]
            calls, keys = getattr(curve, self.axis), [curve.record.key, optimum_of(results, data).key]
            for values, dashed in ((curve.error, False), (curve.gap, True)):
                shown = (calls > 0) & (values > 0)
                lines.append(Series(method, calls[shown], values[shown].clip(FLOOR), keys, dashed=dashed))
        return Chart(data, self.what, "P - P* (solid), proved gap (dashed)", lines)
