"""Figure 1 of Shi, Zhang and Yu (2017): boosting with entropies on adult, primal gap and test accuracy against effective passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saddlery.experiments.base import Column, Experiment, Outcome, Record, Results, Row, Run, Table

__all__ = ["LPBoostFigure1"]

MODULE = "saddlery.experiments.boosting_runs"
ENTROPY = {"step_size": 1e-3, "epoch_length": 651}  # the paper's, 651 = 32561 / 50
EUCLID = {"step_size": 1e-6, "epoch_length": 651}
METHODS: dict[str, dict[str, Any]] = {
    "Entropy, saddle": {"geometry": "entropy", "solver": "breg_svrg", "options": ENTROPY},
    "Entropy, convex": {"geometry": "entropy", "solver": "breg_svrg", "options": {**ENTROPY, "form": "convex"}},
    "Euclid, saddle": {"geometry": "euclidean", "solver": "breg_svrg", "options": EUCLID},
    "Euclid, accelerated": {
        "geometry": "euclidean",
        "solver": "breg_svrg",
        "options": {**EUCLID, "probabilities": "norms", "catalyst": 0.01},
    },
    "Euclid, convex": {"geometry": "euclidean", "solver": "breg_svrg", "options": {**EUCLID, "form": "convex"}},
    "Entropy, saddle, step by sweep": {"geometry": "entropy", "solver": "breg_svrg", "options": {}},
    "Euclid, saddle, step by sweep": {"geometry": "euclidean", "solver": "breg_svrg", "options": {}},
    "Saddlery default": {"geometry": "entropy", "solver": "extragradient", "options": {"iterations": 1}},
}
FULL: dict[str, Any] = {
    "data": ["adult"],
    "rows": 32561,
    "strength": 0.01,
    "nu": 0.1,
    "most_passes": 100.0,
    "tol": 1e-11,
    "marks": [5.0, 20.0, 50.0, 100.0],
    "methods": METHODS,
    "seed": 0,
}
QUICK: dict[str, Any] = {"rows": 2000, "most_passes": 20.0, "marks": [5.0, 20.0]}
FLOOR = 1e-12  # below, the difference of two values says nothing worth drawing
NAMES = {False: "features as they are", True: "with complements"}


class LPBoostFigure1(Experiment):
    """See the module."""

    title = "Boosting with entropies on adult: primal gap and test accuracy against effective passes"
    paper = "Shi, Zhang and Yu, Bregman divergence for stochastic variance reduction, NIPS 2017, Figure 1"

    def settings(self, quick: bool) -> dict[str, Any]:
        return {**FULL, **(QUICK if quick else {})}

    def runs(self, settings: dict[str, Any], data: Sequence[str]) -> list[Run]:
        shared = {name: settings[name] for name in ("rows", "strength", "nu", "seed")}
        runs = []
        for name in data:
            for complements, what in NAMES.items():
                best = {**shared, "complements": complements, "tol": settings["tol"]}
                runs.append(Run(f"optimum {what}", f"{MODULE}:optimum", best, name, ("extragradient",)))
                for method, chosen in settings["methods"].items():
                    arguments = {**shared, "complements": complements, "most_passes": settings["most_passes"], **chosen}
                    cost = 40.0 if chosen["geometry"] == "euclidean" else 3.0
                    label = f"{method}, {what}"
                    runs.append(Run(label, f"{MODULE}:curve", arguments, name, (chosen["solver"],), cost))
        return runs

    def outcome(self, settings: dict[str, Any], results: Results) -> Outcome:
        if results.missing:
            return Outcome([], [f"{name}: not available." for name in results.missing])
        tables = []
        for complements, what in NAMES.items():
            best = _optimum(settings, results, complements)
            rows = []
            for method in settings["methods"]:
                record = _curve(settings, results, complements, method)
                gaps = [_gap_within(record, best, mark) for mark in settings["marks"]]
                at_end = [record.result["accuracy"][-1], record.result["seconds"][-1], record.result["step"]]
                rows.append(Row([method, *gaps, *at_end], [record.key, best.key]))
            marks = (Column(f"{mark:g} passes", "{:.1e}") for mark in settings["marks"])
            ends = (Column("accuracy", "{:.4f}"), Column("seconds", "{:.1f}"), Column("step", "{:.1e}"))
            tables.append(Table(f"Primal gap within so many effective passes, {what}", (Column("method"), *marks, *ends), rows))
        return Outcome(tables, self._notes(settings, results))

    def _notes(self, settings: dict[str, Any], results: Results) -> list[str]:
        notes = []
        for complements, what in NAMES.items():
            best = _optimum(settings, results, complements).result
            notes.append(
                f"The optimum {what} lies between {best['lower']:.10f} and {best['upper']:.10f}, proved by "
                f"{best['pairs']:.0f} pairs of products; test accuracy there {best['accuracy']:.4f}."
            )
        share = _optimum(settings, results, False).result
        same = abs(share["accuracy"] - share["positives"]) < 1e-12
        notes.append(
            f"Features of 0 and 1 with weights of 0 or more {'can only predict' if same else 'mostly predict'} the positive class, "
            f"a share of {share['positives']:.4f} of the test rows. The paper does not say how it came to other accuracies; "
            "complements are the natural way."
        )
        for complements, what in NAMES.items():
            last = settings["marks"][-1]
            entropy, euclid, convex = (
                _last_gap(settings, results, complements, method, last)
                for method in ("Entropy, saddle", "Euclid, saddle", "Entropy, convex")
            )
            notes.append(
                f"{what}: after {last:g} passes with the paper's steps the gap of the entropy is "
                f"{'smaller' if entropy < euclid else 'not smaller'} than that of the Euclidean distance ({entropy:.1e} against "
                f"{euclid:.1e}), and that of its convex form is {convex:.1e}."
            )
        notes.append(
            "A pair of full products is one pass, a step of variance reduction (n + m) / (n m) of one, (29) of the paper; the "
            "convex form reads all data at each step, which this measure leaves out, as the paper does."
        )
        return notes

    def draw(self, settings: dict[str, Any], results: Results) -> Any:
        if results.missing:
            return None
        from matplotlib.figure import Figure

        from saddlery.report.displays import COLOURS

        picture = Figure(figsize=(12.6, 4.8), layout="constrained", dpi=120)
        axes = picture.subplots(1, 3)
        for method, colour in zip(settings["methods"], COLOURS, strict=False):
            for ax, complements in zip(axes, NAMES, strict=False):
                best = _optimum(settings, results, complements).result["lower"]
                result = _curve(settings, results, complements, method).result
                ax.plot(result["passes"], [max(value - best, FLOOR) for value in result["upper"]], color=colour, label=method)
            result = _curve(settings, results, True, method).result
            axes[2].plot(result["passes"], result["accuracy"], color=colour)
        for ax, what in zip(axes, NAMES.values(), strict=False):
            ax.set(yscale="log", title=f"primal gap, {what}")
        axes[2].set(title="test accuracy, with complements")
        for ax in axes:
            ax.set(xlabel="effective passes", xlim=(0.0, settings["most_passes"]))
            ax.grid(True, which="major", color="#999999", alpha=0.3, linewidth=0.6)
            ax.spines[["top", "right"]].set_visible(False)
        picture.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
        return picture


def _optimum(settings: dict[str, Any], results: Results, complements: bool) -> Record:
    return results.of(settings["data"][0], complements=complements, tol=settings["tol"])[0]


def _curve(settings: dict[str, Any], results: Results, complements: bool, method: str) -> Record:
    return results.of(settings["data"][0], complements=complements, **settings["methods"][method])[0]


def _gap_within(record: Record, best: Record, passes: float) -> float | None:
    """The smallest difference to the optimum within so many passes."""
    pairs = zip(record.result["passes"], record.result["upper"], strict=True)
    values = [value for at, value in pairs if at <= passes]
    return max(min(values) - best.result["lower"], 0.0) if values else None


def _last_gap(settings: dict[str, Any], results: Results, complements: bool, method: str, passes: float) -> float:
    gap = _gap_within(_curve(settings, results, complements, method), _optimum(settings, results, complements), passes)
    return float("inf") if gap is None else gap
