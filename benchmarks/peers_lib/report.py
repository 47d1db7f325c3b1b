"""What came out: a table of ratios, JSON, Markdown and a plot."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .measure import TARGETS

__all__ = ["Row", "rows", "text_table", "versions", "write_all"]

KEYS = [f"{target:.0e}" for target in TARGETS]
PACKAGES = ("saddlery", "numpy", "scipy", "numba", "scikit-learn", "liblinear-official", "celer", "skglm", "cyanure", "snapml")
MORE_PACKAGES = ("python-glmnet", "glum", "blitzl1")


class Row:
    """One cell, read for the table: times by CPU (one thread) or by the clock (several)."""

    def __init__(self, result: dict[str, Any]):
        self.cell: str = result["cell"]
        self.clock = "cpu" if result["threads"] == 1 else "wall"
        self.certified: float = result["reference"]["certified"]
        self.ours = {key: result["ours"][key][self.clock] if result["ours"][key]["reached"] else None for key in KEYS}
        self.raw: float | None = (result.get("raw") or {}).get(self.clock)
        self.solver: str = result["ours"][KEYS[-1]]["solver"]
        self.ranking = {key: self._rank(result["peers"], key) for key in KEYS}
        self.unreached = sorted(name for name, peer in result["peers"].items() if peer["times"][KEYS[-1]] is None)

    def _rank(self, peers: dict[str, Any], key: str) -> list[tuple[float, str]]:
        return sorted((peer["times"][key][self.clock], name) for name, peer in peers.items() if peer["times"][key])

    def ratio(self, key: str) -> float | None:
        """Time of the best peer over ours: 0 if ours was not certified, None if no peer arrived."""
        if self.ours[key] is None:
            return 0.0
        return self.ranking[key][0][0] / self.ours[key] if self.ranking[key] else None


def rows(results: Iterable[dict[str, Any]]) -> list[Row]:
    """The rows of all cells that were measured."""
    return [Row(result) for result in results if "error" not in result]


def summary(table: list[Row]) -> dict[str, dict[str, Any]]:
    """Geometric mean, minimum and losers at each target, over the cells in which a peer arrived."""
    out = {}
    for key in KEYS:
        ratios = {row.cell: row.ratio(key) for row in table}
        known = {cell: ratio for cell, ratio in ratios.items() if ratio is not None}
        positive = [ratio for ratio in known.values() if ratio > 0.0]
        out[key] = {
            "cells": len(known),
            "without_peer": sorted(cell for cell, ratio in ratios.items() if ratio is None),
            "not_certified": sorted(cell for cell, ratio in known.items() if ratio == 0.0),
            "geometric_mean": math.exp(sum(map(math.log, positive)) / len(positive)) if positive else None,
            "minimum": min(known.items(), key=lambda item: item[1]) if known else None,
            "losers": {cell: round(ratio, 2) for cell, ratio in sorted(known.items(), key=lambda item: item[1]) if ratio < 1.0},
        }
    return out


def milliseconds(seconds: float | None) -> str:
    """A time for the table."""
    return "-" if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 10 else f"{1e3 * seconds:.0f}"


def ratio_text(ratio: float | None) -> str:
    """A ratio for the table."""
    return "no peer" if ratio is None else "not certified" if ratio == 0.0 else f"{ratio:.2f}"


def text_table(table: list[Row]) -> str:
    """The table as text."""
    width = max([len(row.cell) for row in table], default=10)
    lines = [f"{'cell':{width}}  " + "  ".join(f"{'ratio ' + key:>13}" for key in KEYS) + f"   ours ms at {KEYS[-1]}; best peers"]
    for row in table:
        ratios = "  ".join(f"{ratio_text(row.ratio(key)):>13}" for key in KEYS)
        best = ", ".join(f"{name} {milliseconds(seconds)}" for seconds, name in row.ranking[KEYS[-1]][:3])
        lines.append(f"{row.cell:{width}}  {ratios}   {milliseconds(row.ours[KEYS[-1]])}; {best}")
    for key, facts in summary(table).items():
        mean, least = facts["geometric_mean"], facts["minimum"]
        if mean is not None:
            lines.append(f"{key}: geometric mean {mean:.2f} over {facts['cells']} cells, minimum {least[1]:.2f} ({least[0]})")
            lines.append(f"   slower than the best peer in {len(facts['losers'])}: {facts['losers']}")
    return "\n".join(lines)


def versions() -> dict[str, str]:
    """Versions of everything that ran."""
    found = {"python": platform.python_version()}
    for name in (*PACKAGES, *MORE_PACKAGES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """Facts of the machine that matter for times; no names, no paths."""
    facts: dict[str, Any] = {"cores": os.cpu_count(), "system": platform.system(), "architecture": platform.machine()}
    if sys.platform == "linux":
        info = Path("/proc/cpuinfo").read_text().splitlines()
        facts["processor"] = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "unknown")
        facts["memory_gb"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    return facts


def write_all(results: list[dict[str, Any]], folder: Path, threads: int, missing: dict[str, str]) -> list[Path]:
    """JSON, Markdown and a plot."""
    folder.mkdir(parents=True, exist_ok=True)
    table, stem = rows(results), folder / f"peers-{threads}-thread{'s' if threads > 1 else ''}"
    facts = {"machine": machine(), "versions": versions(), "threads": threads, "not_available": missing}
    document = {**facts, "summary": summary(table), "cells": results}
    paths = [stem.with_suffix(suffix) for suffix in (".json", ".md", ".png")]
    paths[0].write_text(json.dumps(document) + "\n")
    paths[1].write_text(markdown(table, results, facts))
    plot(table, paths[2])
    return paths


def markdown(table: list[Row], results: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    """The results as a page."""
    threads, clock = facts["threads"], "CPU" if facts["threads"] == 1 else "wall"
    quick = " Quick run: fits above one second were timed once." if any(r.get("quick") for r in results) else ""
    lines = [
        f"# Against the peers, {threads} thread{'s' if threads > 1 else ''}",
        "",
        f"Written by `benchmarks/peers.py`; `benchmarks/README.md` says how to read it. {clock} times; ratio = best peer / ours: "
        "above 1 we are faster. Ours is the time to a *certified* relative gap; a peer's is that of its fastest "
        "setting whose solution is that near to the known optimum, without a certificate and without conversion of formats."
        f"{quick}",
        "",
        "Machine: " + ", ".join(f"{key} {value}" for key, value in facts["machine"].items()) + ".",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in facts["versions"].items()) + ".",
        "",
        "Not available: " + "; ".join(f"{name} ({why})" for name, why in facts["not_available"].items()) + ".",
        "",
        "| target | cells | geometric mean | minimum | slower than the best peer in | no peer arrives |",
        "|---|---|---|---|---|---|",
    ]
    totals = summary(table)
    for key, total in totals.items():
        mean, least = total["geometric_mean"], total["minimum"]
        cells = f"{mean:.2f} | {least[1]:.2f} ({least[0]})" if mean is not None else "- | -"
        lines.append(f"| {key} | {total['cells']} | {cells} | {len(total['losers'])} | {len(total['without_peer'])} |")
    heads = (
        "cell",
        "optimum known to",
        "ratio 1e-3",
        "1e-4",
        "1e-6",
        "ours, ms",
        "from raw arrays",
        "solver",
        "best peers at 1e-6, ms",
        "did not arrive",
    )
    lines += ["", f"| {' | '.join(heads)} |"]
    lines += ["|" + "---|" * len(heads)]
    for row in table:
        ratios = " | ".join(ratio_text(row.ratio(key)) for key in KEYS)
        mine = " / ".join(milliseconds(row.ours[key]) for key in KEYS)
        best = ", ".join(f"{name} {milliseconds(seconds)}" for seconds, name in row.ranking[KEYS[-1]][:4]) or "none"
        away = ", ".join(row.unreached) or "-"
        lines.append(
            f"| {row.cell} | {row.certified:.0e} | {ratios} | {mine} | {milliseconds(row.raw)} | {row.solver} | {best} | {away} |"
        )
    for key, total in totals.items():
        losers = ", ".join(f"{cell} {ratio}" for cell, ratio in total["losers"].items()) or "none"
        lines += ["", f"Slower than the best peer at {key}: {losers}."]
    errors = [f"{result['cell']}: {result['error']}" for result in results if "error" in result]
    return "\n".join([*lines, *(["", *errors] if errors else []), ""])


def plot(table: list[Row], path: Path) -> None:
    """Ratios of all cells on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    last = KEYS[-1]
    shown = sorted((row for row in table if row.ratio(last)), key=lambda row: row.ratio(last))
    figure, axes = plt.subplots(figsize=(8, 1.5 + 0.16 * max(len(shown), 4)), layout="constrained")
    for key, marker, colour in zip(KEYS, "^so", ("#9ecae1", "#4292c6", "#08306b"), strict=True):
        points = [(row.ratio(key), place) for place, row in enumerate(shown) if row.ratio(key)]
        if points:
            axes.scatter(*zip(*points, strict=True), marker=marker, s=14, color=colour, label=f"to {key}", zorder=3)
    axes.axvline(1.0, color="#b2182b", linewidth=1)
    axes.set(xscale="log", xlabel="time of the best peer / ours (right of the line we are faster)")
    axes.set_yticks(range(len(shown)), [row.cell for row in shown], fontsize=6)
    axes.grid(axis="x", which="both", linewidth=0.3)
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
