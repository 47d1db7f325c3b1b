"""Charts as pictures: one matplotlib figure with a panel for each chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from saddlery.experiments.base import Chart, Series

__all__ = ["MOST_POINTS", "colours_of", "picture", "thin"]

MOST_POINTS = 300  # of a line: more than a screen can show
IN_A_ROW = 3


def thin(line: Series, log_x: bool) -> Series:
    """The line with at most about MOST_POINTS points, spread evenly along its axis; the last one always stays.

    Examples
    --------
    >>> line = thin(Series("a", range(1, 100_001), [1.0] * 100_000), log_x=True)
    >>> 100 < len(line.x) <= MOST_POINTS + 1, line.x[0], line.x[-1]
    (True, 1, 100000)
    """
    if len(line.x) <= MOST_POINTS:
        return line
    places = [math.log(x) if x > 0 else -math.inf for x in line.x] if log_x else [float(x) for x in line.x]
    finite = [place for place in places if place > -math.inf]
    width = (max(finite) - min(finite)) / MOST_POINTS
    chosen, last = [], -math.inf
    for at, place in enumerate(places):
        if place >= last + width or at == len(places) - 1:
            chosen.append(at)
            last = place

    def pick(values: Sequence[float]) -> list[float]:
        return [values[at] for at in chosen]

    low = None if line.low is None else pick(line.low)
    high = None if line.high is None else pick(line.high)
    return line._replace(x=pick(line.x), y=pick(line.y), low=low, high=high)


def colours_of(names: Iterable[str], colours: Sequence[str]) -> dict[str, str]:
    """A colour for each name, in the order in which they first appear; the same in all charts of an experiment.

    Examples
    --------
    >>> colours_of(["a", "b", "a"], ["red", "blue"])
    {'a': 'red', 'b': 'blue'}
    """
    return {name: colours[at % len(colours)] for at, name in enumerate(dict.fromkeys(names))}


def picture(charts: Sequence[Chart]) -> Any:
    """All charts in one matplotlib Figure, with one legend."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from saddlery.report.displays import COLOURS

    colours = colours_of((line.name for chart in charts for line in chart.series), COLOURS)
    across = min(len(charts), IN_A_ROW)
    down = -(-len(charts) // across)
    figure = Figure(figsize=(max(4.4 * across, 6.4), 3.9 * down + 0.9), layout="constrained", dpi=120)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for ax, chart in zip(panels, charts, strict=False):
        for line in chart.series:
            _plot(ax, chart, line, colours[line.name])
        ax.set(xlabel=chart.x, ylabel=chart.y, title=chart.title)
        ax.set_xscale("log" if chart.log_x else "linear")
        ax.set_yscale("log" if chart.log_y else "linear")
        ax.grid(True, which="major", color="#999999", alpha=0.3, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in panels[len(charts) :]:
        ax.set_visible(False)
    marks = [Line2D([], [], color=colour) for colour in colours.values()]
    figure.legend(marks, list(colours), loc="outside lower center", ncols=min(len(marks), 2 + 2 * across), frameon=False)
    return figure


def _plot(ax: Any, chart: Chart, line: Series, colour: str) -> None:
    shown = [at for at in range(len(line.x)) if (line.x[at] > 0 or not chart.log_x) and (line.y[at] > 0 or not chart.log_y)]
    x = [line.x[at] for at in shown]
    ax.plot(x, [line.y[at] for at in shown], "--" if line.dashed else "-", color=colour, linewidth=0.9 if line.dashed else 1.6)
    if line.low is not None and line.high is not None:
        ax.fill_between(x, [line.low[at] for at in shown], [line.high[at] for at in shown], color=colour, alpha=0.15, linewidth=0)
