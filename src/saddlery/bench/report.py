"""What came out: rows, their ratios and means, as text, JSON and Markdown; ``pictures`` draws them."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Row", "document", "keys_of", "milliseconds", "ratio_text", "rows", "short", "summary", "text_table", "write_all"]

PACKAGES = ("saddlery", "numpy", "scipy", "numba", "scikit-learn", "liblinear-official", "celer", "skglm", "cyanure", "snapml")
MORE_PACKAGES = ("python-glmnet", "glum", "blitzl1")


class Row:
    """One cell, read for the table: times by CPU (one thread) or by the clock (several).

    `keys` are the targets as results name them, from loose to tight.
    """

    def __init__(self, result: dict[str, Any]):
        self.cell: str = result["cell"]
        self.clock = "cpu" if result["threads"] == 1 else "wall"
        self.keys: list[str] = list(result["ours"])
        self.certified: float = result["reference"]["certified"]
        self.ours: dict[str, float | None] = {
            key: result["ours"][key][self.clock] if result["ours"][key]["reached"] else None for key in self.keys
        }
        self.raw: float | None = (result.get("raw") or {}).get(self.clock)
        self.solver: str = result["ours"][self.last]["solver"]
        self.ranking = {key: self._rank(result["peers"], key) for key in self.keys}
        self.unreached: dict[str, str] = {  # who did not arrive at the tightest target, and why
            name: peer["note"] for name, peer in sorted(result["peers"].items()) if peer["times"][self.last] is None
        }

    @property
    def last(self) -> str:
        """The tightest target."""
        return self.keys[-1]

    def _rank(self, peers: dict[str, Any], key: str) -> list[tuple[float, str]]:
        return sorted((peer["times"][key][self.clock], name) for name, peer in peers.items() if peer["times"][key])

    def ratio(self, key: str) -> float | None:
        """Time of the best peer over ours: 0 if ours was not certified, None if no peer arrived."""
        mine = self.ours[key]
        if mine is None:
            return 0.0
        return self.ranking[key][0][0] / mine if self.ranking[key] else None

    def best(self, key: str, count: int) -> str:
        """The fastest peers and their milliseconds."""
        return ", ".join(f"{name} {milliseconds(seconds)}" for seconds, name in self.ranking[key][:count])


def rows(results: Iterable[dict[str, Any]]) -> list[Row]:
    """The rows of all cells that were measured."""
    return [Row(result) for result in results if "error" not in result]


def keys_of(table: Sequence[Row]) -> list[str]:
    """The targets; those of all rows are the same."""
    return table[0].keys if table else []


def summary(table: list[Row]) -> dict[str, dict[str, Any]]:
    """Geometric mean, minimum and losers at each target, over the cells in which a peer arrived."""
    out = {}
    for key in keys_of(table):
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


def short(key: str) -> str:
    """A target as people write it.

    Examples
    --------
    >>> short("1e-03"), short("0.00025")
    ('1e-3', '0.00025')
    """
    return key.replace("e-0", "e-")


def text_table(table: list[Row]) -> str:
    """The table as text."""
    keys, width = keys_of(table), max([len(row.cell) for row in table], default=10)
    lines = []
    if keys:
        heads = "  ".join(f"{'ratio ' + key:>13}" for key in keys)
        lines.append(f"{'cell':{width}}  {heads}   ours ms at {keys[-1]}; best peers")
    for row in table:
        ratios = "  ".join(f"{ratio_text(row.ratio(key)):>13}" for key in keys)
        lines.append(f"{row.cell:{width}}  {ratios}   {milliseconds(row.ours[row.last])}; {row.best(row.last, 3)}")
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


def document(results: list[dict[str, Any]], threads: int, missing: dict[str, str]) -> dict[str, Any]:
    """Everything as one JSON object."""
    facts = {"machine": machine(), "versions": versions(), "threads": threads, "not_available": missing}
    return {**facts, "summary": summary(rows(results)), "cells": results}


def write_all(told: dict[str, Any], stem: Path, origin: str) -> list[Path]:
    """A document as JSON and Markdown, with `stem` and their suffixes as names."""
    paths = [stem.parent / f"{stem.name}{suffix}" for suffix in (".json", ".md")]
    paths[0].write_text(json.dumps(told) + "\n")
    paths[1].write_text(markdown(told, origin))
    return paths


def markdown(told: dict[str, Any], origin: str) -> str:
    """A document as a page; `origin` says what wrote it."""
    results, threads = told["cells"], told["threads"]
    table, clock = rows(results), "CPU" if threads == 1 else "wall"
    keys = keys_of(table)
    quick = " Quick run: fits above one second were timed once." if any(r.get("quick") for r in results) else ""
    lines = [
        f"# Against the peers, {threads} thread{'s' if threads > 1 else ''}",
        "",
        f"{origin} {clock} times; ratio = best peer / ours: "
        "above 1 we are faster. Ours is the time to a *certified* relative gap; a peer's is that of its fastest "
        "setting whose solution is that near to the known optimum, without a certificate and without conversion of formats."
        f"{quick}",
        "",
        "Machine: " + ", ".join(f"{key} {value}" for key, value in told["machine"].items()) + ".",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in told["versions"].items()) + ".",
        "",
        "Not available: " + ("; ".join(f"{name} ({why})" for name, why in told["not_available"].items()) or "none") + ".",
        "",
        "| target | cells | geometric mean | minimum | slower than the best peer in | no peer arrives |",
        "|---|---|---|---|---|---|",
    ]
    for key, total in told["summary"].items():
        mean, least = total["geometric_mean"], total["minimum"]
        cells = f"{mean:.2f} | {least[1]:.2f} ({least[0]})" if mean is not None else "- | -"
        lines.append(f"| {key} | {total['cells']} | {cells} | {len(total['losers'])} | {len(total['without_peer'])} |")
    lines += ["", *_table_lines(table, keys)]
    for key, total in told["summary"].items():
        losers = ", ".join(f"{cell} {ratio}" for cell, ratio in total["losers"].items()) or "none"
        lines += ["", f"Slower than the best peer at {key}: {losers}."]
    errors = [f"{result['cell']}: {result['error']}" for result in results if "error" in result]
    return "\n".join([*lines, *(["", *errors] if errors else []), ""])


def _table_lines(table: list[Row], keys: list[str]) -> list[str]:
    """The cells of a page."""
    if not keys:
        return []
    ratios = [("ratio " if at == 0 else "") + short(key) for at, key in enumerate(keys)]
    after = ["ours, ms", "from raw arrays", "solver", f"best peers at {short(keys[-1])}, ms", "did not arrive"]
    heads = ["cell", "optimum known to", *ratios, *after]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in table:
        ratio = " | ".join(ratio_text(row.ratio(key)) for key in keys)
        mine = " / ".join(milliseconds(row.ours[key]) for key in keys)
        best, away = row.best(row.last, 4) or "none", ", ".join(row.unreached) or "-"
        lines.append(
            f"| {row.cell} | {row.certified:.0e} | {ratio} | {mine} | {milliseconds(row.raw)} | {row.solver} | {best} | {away} |"
        )
    return lines
