"""How P - P* falls with the calls that are made: what Figures 1 and 2 of Lu and Freund (2020) have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from saddlery.experiments.base import Column, Experiment, Outcome, Results, Row, Run, Table
from saddlery.experiments.frank_wolfe import PAPER, Curve, curves_of, optimum_of, runs_of, settings_of

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
        rows, fastest = [], []
        for data in there:
            unit = optimum_of(results, data).result["n"] if self.axis == "sample_gradients" else 1
            curves = {method: curves_of(settings, results, data, method)[0] for method in settings["methods"]}
            for method, curve in curves.items():
                keys = [curve.record.key, optimum_of(results, data).key]
                rows.append(Row([data, method, *(self._error(curve, mark * unit) for mark in self.marks)], keys))
            fastest.append((data, *self._last_comparison(curves)))
        unit_name = "passes" if self.axis == "sample_gradients" else "calls"
        columns = [Column("data"), Column("method"), *(Column(f"{mark:,g} {unit_name}", "{:.1e}") for mark in self.marks)]
        notes = [f"{data}: not available." for data in results.missing]
        notes += ["Solid: P - P*. Dashed: the gap that the method has proved by then, which bounds P - P* without knowing P*."]
        notes += [_sentence(*item) for item in fastest]
        return Outcome([Table(f"P - P* after so many {self.what}", tuple(columns), rows, left=2)], notes)

    def _error(self, curve: Curve, calls: float) -> float | None:
        """The smallest P - P* seen within so many calls; None if the run ended before."""
        within = getattr(curve, self.axis) <= calls
        return float(curve.error[within].min()) if within.any() and not within.all() else None

    def _last_comparison(self, curves: dict[str, Curve]) -> tuple[str, float, float]:
        """GSFW's P - P* and the best of its rivals', where the shortest of their runs ends."""
        five = {method: curve for method, curve in curves.items() if method not in OURS}
        calls = min(getattr(curve, self.axis)[-1] for curve in five.values())
        errors = {method: float(curve.error[getattr(curve, self.axis) <= calls].min()) for method, curve in five.items()}
        best = min((method for method in errors if method != "GSFW"), key=lambda method: errors[method])
        return best, errors["GSFW"], errors[best]

    def draw(self, settings: dict[str, Any], results: Results) -> Any:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        from saddlery.report.displays import COLOURS

        there = [name for name in settings["data"] if name not in results.missing]
        picture = Figure(figsize=(max(4.2 * len(there), 6.4), 4.8), layout="constrained", dpi=120)
        for ax, data in zip(picture.subplots(1, len(there), sharey=True, squeeze=False)[0], there, strict=True):
            for method, colour in zip(settings["methods"], COLOURS, strict=False):
                curve = curves_of(settings, results, data, method)[0]
                calls = getattr(curve, self.axis)
                for values, style in ((curve.error, "-"), (curve.gap, "--")):
                    shown = (calls > 0) & (values > 0)
                    ax.plot(calls[shown], values[shown].clip(FLOOR), style, color=colour, linewidth=1.6 if style == "-" else 0.9)
            ax.set(xscale="log", yscale="log", xlabel=self.what, title=data)
            ax.grid(True, which="major", color="#999999", alpha=0.3, linewidth=0.6)
            ax.spines[["top", "right"]].set_visible(False)
        picture.axes[0].set_ylabel("P - P* (solid), proved gap (dashed)")
        lines = [Line2D([], [], color=colour) for colour in COLOURS[: len(settings["methods"])]]
        picture.legend(lines, list(settings["methods"]), loc="outside lower center", ncols=len(lines), frameon=False)
        return picture


def _sentence(data: str, rival: str, gsfw: float, best: float) -> str:
    if gsfw < best:
        return f"{data}: as in the paper, GSFW is ahead of the other four in the end: {gsfw:.1e} against {best:.1e} of {rival}."
    return f"{data}: other than in the paper, {rival} is ahead of GSFW in the end: {best:.1e} against {gsfw:.1e}."
