"""Table 2 of Lei, Yen, Wu, Dhillon and Ravikumar (2017): data, and the non-zeros of both variables at lambda = 0.1, mu = 0.01."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from saddlery.experiments.base import Column, Experiment, Outcome, Results, Row, Run, Table
from saddlery.experiments.doubly_greedy import PAPER, optimum_of, optimum_runs, settings_of

__all__ = ["DoublyGreedyTable2"]

PRINTED = {  # samples, features, non-zeros of a sample, of the primal and of the dual variables
    "mnist, Fourier": (58_000, 10_000, 10_000, 1730, 2000),
    "mnist, binning": (58_000, 1_572_556, 1000, 1733, 1208),
}


class DoublyGreedyTable2(Experiment):
    """See the module."""

    title = "Doubly greedy coordinate descent: how sparse both variables are"
    paper = f"{PAPER}, Table 2"

    def settings(self, quick: bool) -> dict[str, Any]:
        return settings_of(quick)

    def runs(self, settings: dict[str, Any], data: Sequence[str]) -> list[Run]:
        strengths = settings["strengths"][0]
        return [
            run
            for name, entry in settings["sets"].items()
            if entry["data"] in data
            for run in optimum_runs(settings, name, strengths, entry["labels"])
        ]

    def outcome(self, settings: dict[str, Any], results: Results) -> Outcome:
        strengths, rows, notes = settings["strengths"][0], [], [f"{data}: not available." for data in results.missing]
        for name, entry in settings["sets"].items():
            if entry["data"] in results.missing:
                continue
            records = [optimum_of(settings, results, name, strengths, label) for label in entry["labels"]]
            n, d = records[0].result["n"], records[0].result["d"]
            primal = mean(record.result["nonzero_primal"] for record in records)
            dual = mean(record.result["nonzero_dual"] for record in records)
            printed = PRINTED.get(name, (None,) * 5)
            rows.append(Row([name, n, d, records[0].result["entries"] / n, primal, dual, *printed], [r.key for r in records]))
            notes.append(
                f"{name}: {primal / d:.1%} of the weights and {dual / n:.1%} of the dual variables are not zero, on average over "
                f"{len(records)} class{'es' if len(records) > 1 else ''} against the rest."
            )
        heads = ("samples", "features", "entries of a sample", "non-zero primal", "non-zero dual")
        ours = [Column(head, "{:,.0f}") for head in heads]
        theirs = [Column(f"{head}, paper", "{:,.0f}") for head in heads]
        notes.append(
            "The printed numbers are of larger data, of widths that are not printed, and of iterates of DGPD; those here are of "
            "the "
            "optimum. Orders of magnitude can be compared. The paper does not say whether its numbers are means over classes."
        )
        table = Table("Data, and non-zero variables for lambda = 0.1, mu = 0.01", (Column("data"), *ours, *theirs), rows)
        return Outcome([table], notes)
