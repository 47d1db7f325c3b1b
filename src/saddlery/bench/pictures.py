"""Pictures of comparisons: the ratios of many cells, or of a few cells how accurate who is after how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from saddlery.bench.report import Row, keys_of, rows

__all__ = ["plot_curves", "plot_ratios"]

SHADES = ("#9ecae1", "#4292c6", "#08306b")
LEAST = 1e-12  # suboptimalities below are drawn there


def plot_ratios(table: list[Row], path: Path) -> None:
    """Ratios of all cells on a logarithmic axis."""
    plt = _pyplot()
    keys = keys_of(table)
    shown = sorted((row for row in table if row.ratio(row.last)), key=lambda row: row.ratio(row.last) or 0.0)
    figure, axes = plt.subplots(figsize=(8, 1.5 + 0.16 * max(len(shown), 4)), layout="constrained")
    for at, key in enumerate(keys[-len(SHADES) :]):
        points = [(row.ratio(key), place) for place, row in enumerate(shown) if row.ratio(key)]
        if points:
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, marker="^so"[at], s=14, color=SHADES[at], label=f"to {key}", zorder=3)
    axes.axvline(1.0, color="#b2182b", linewidth=1)
    axes.set(xscale="log", xlabel="time of the best peer / ours (right of the line we are faster)")
    axes.set_yticks(range(len(shown)), [row.cell for row in shown], fontsize=6)
    axes.grid(axis="x", which="both", linewidth=0.3)
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def plot_curves(results: list[dict[str, Any]], path: Path) -> None:
    """For each cell the accuracy against the time: ours at the targets, each peer at the settings of its ladder."""
    plt = _pyplot()
    measured = [result for result in results if "error" not in result]
    count = max(len(measured), 1)
    figure, grid = plt.subplots(1, count, figsize=(1.5 + 5.5 * count, 5), layout="constrained", squeeze=False)
    names = sorted({name for result in measured for name in result["peers"]})
    colours = {name: plt.get_cmap("tab20")(at % 20) for at, name in enumerate(names)}
    for axes, row, result in zip(grid[0], rows(measured), measured, strict=False):
        for name, peer in result["peers"].items():
            points = [(1e3 * step[row.clock], max(step["suboptimality"], LEAST)) for step in peer["steps"]]
            if points:
                axes.plot(*zip(*points, strict=True), "o-", markersize=3, linewidth=0.8, color=colours[name], label=name)
        mine = [(1e3 * seconds, result["ours"][key]["gap"]) for key, seconds in row.ours.items() if seconds is not None]
        if mine:
            points = [(time, max(gap, LEAST)) for time, gap in mine]
            axes.plot(
                *zip(*points, strict=True), "s-", markersize=7, linewidth=2, color="black", label="saddlery, certified", zorder=5
            )
        for key in row.keys:
            axes.axhline(float(key), color="#b2182b", linewidth=0.5)
        axes.set(xscale="log", yscale="log", title=row.cell, xlabel=f"ms ({'CPU' if row.clock == 'cpu' else 'wall'})")
        axes.set_ylabel("distance from the optimum / optimum (ours: certified gap)")
        axes.set_ylim(top=10.0)
        axes.grid(linewidth=0.3)
    lines = {line.get_label(): line for axes in grid[0] for line in axes.get_lines() if not str(line.get_label()).startswith("_")}
    figure.legend(lines.values(), lines.keys(), loc="outside right center", fontsize=7)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
