"""The convergence curve as inline SVG: no plotting library, colours from the page, so it follows light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from saddlery.report.markup import Markup, element, join
from saddlery.report.runs import Run
from saddlery.report.wording import power_of_ten, short, ticks
from saddlery.solvers.base import Record

__all__ = ["Mark", "convergence_chart"]

FLOOR = 1e-16  # where a gap of 0 is drawn
MAX_POINTS = 160
COLOURED = 6  # more runs than this share one quiet colour, and only the worst stands out


class Mark(NamedTuple):
    """A single point beside the curves: another solver, certified once."""

    label: str
    seconds: float
    relative_gap: float


class _Frame:
    """The drawing area and the two scales."""

    def __init__(self, width: int, height: int, top_x: float, gaps: Sequence[float]):
        self.width, self.height = width, height
        self.left, self.right, self.top, self.bottom = 66, width - 16, 14, height - 46
        self.top_x = top_x if top_x > 0 else 1.0
        shown = [min(max(gap, FLOOR), 1e6) for gap in gaps if math.isfinite(gap)] or [1.0]
        self.low, self.high = math.floor(math.log10(min(shown)) - 0.05), math.ceil(math.log10(max(shown)))
        if self.low >= self.high:
            self.low = self.high - 1

    def x(self, value: float) -> float:
        return round(self.left + (self.right - self.left) * value / self.top_x, 1)

    def y(self, gap: float) -> float:
        level = math.log10(min(max(gap, 10.0**self.low), 10.0**self.high))
        return round(self.bottom - (self.bottom - self.top) * (level - self.low) / (self.high - self.low), 1)


def convergence_chart(
    runs: Sequence[Run],
    *,
    width: int = 720,
    height: int = 340,
    tol: float | None = None,
    marks: Sequence[Mark] = (),
    ident: str = "chart",
) -> Markup:
    """The relative gap of each run against seconds, on a log scale.

    Parameters
    ----------
    runs : sequence of Run
        What to draw.
    width, height : int
        Size of the drawing in user units; it scales with the page.
    tol : float, optional
        Tolerance that was asked for, drawn as a dotted line.
    marks : sequence of Mark
        Single points to compare with.
    ident : str
        Makes the ids of this drawing unique on its page.

    Returns
    -------
    Markup
        One ``<svg>`` element with a title and a description for screen readers.
    """
    records = [record for run in runs for record in run.trace]
    seconds = [r.seconds for r in records] + [m.seconds for m in marks]
    gaps = [r.relative_gap for r in records] + [m.relative_gap for m in marks] + ([tol] if tol else [])
    top_x = max([s for s in seconds if math.isfinite(s)], default=0.0) * 1.02
    frame = _Frame(width, height, top_x, gaps)
    worst = max(range(len(runs)), key=lambda k: runs[k].certificate.relative_gap, default=0)
    curves = [_curve(frame, run, _look(k, len(runs), worst)) for k, run in enumerate(runs)]
    return element(
        "svg",
        element("title", "Certified relative gap against seconds", id=f"{ident}-title"),
        element("desc", _in_words(runs, marks), id=f"{ident}-desc"),
        _axes(frame, top_x),
        _tolerance(frame, tol),
        join(*curves),
        join(*[_mark(frame, mark) for mark in marks]),
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
        class_="chart",
    )


def _axes(frame: _Frame, top_x: float) -> Markup:
    """Grid, ticks and labels; milliseconds where seconds would be all zeros."""
    parts = []
    stride = max(1, math.ceil((frame.high - frame.low) / (7 if frame.height > 280 else 5)))
    for exponent in range(frame.low, frame.high + 1):
        y = frame.y(10.0**exponent)
        labelled = (frame.high - exponent) % stride == 0
        parts.append(element("line", class_="grid" if labelled else "grid minor", x1=frame.left, x2=frame.right, y1=y, y2=y))
        if labelled:
            parts.append(element("text", power_of_ten(exponent), class_="tick", x=frame.left - 8, y=y + 4, text_anchor="end"))
    unit, name = (1000.0, "milliseconds") if 0 < top_x < 1 else (1.0, "seconds")
    for value in ticks(frame.top_x * unit, 7 if frame.width > 500 else 5):
        x = frame.x(value / unit)
        parts.append(element("line", class_="axis", x1=x, x2=x, y1=frame.bottom, y2=frame.bottom + 5))
        parts.append(element("text", f"{value:g}", class_="tick", x=x, y=frame.bottom + 19, text_anchor="middle"))
    parts.append(element("line", class_="axis", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom))
    middle = (frame.left + frame.right) / 2
    parts.append(element("text", name, class_="label", x=middle, y=frame.height - 6, text_anchor="middle"))
    centre = (frame.top + frame.bottom) / 2
    turn = f"rotate(-90 12 {centre:g})"
    parts.append(element("text", "relative gap", class_="label", x=12, y=centre, text_anchor="middle", transform=turn))
    return join(*parts)


def _tolerance(frame: _Frame, tol: float | None) -> Markup:
    if not tol or tol < 10.0**frame.low:
        return Markup()
    y = frame.y(tol)
    line = element("line", class_="tol", x1=frame.left, x2=frame.right, y1=y, y2=y)
    return join(line, element("text", f"tol {short(tol)}", class_="tick", x=frame.right, y=y - 5, text_anchor="end"))


def _look(number: int, count: int, worst: int) -> str:
    if count <= COLOURED:
        return f"series s{number + 1}"
    return "series s1" if number == worst else "series quiet"


def _curve(frame: _Frame, run: Run, look: str) -> Markup:
    """A line through the records, with a dot on each that says its numbers when pointed at."""
    records = _thinned(run.trace)
    points = [(frame.x(r.seconds), frame.y(r.relative_gap)) for r in records]
    line = element("path", class_="line", d="M" + " L".join(f"{x:g} {y:g}" for x, y in points)) if points else None
    dots: list[Markup] = []
    if "quiet" not in look:
        told = [element("title", _caption(record)) for record in records]
        dots = [element("circle", title, cx=x, cy=y, r=3) for title, (x, y) in zip(told, points, strict=True)]
    return element("g", element("title", run.label) if run.label else None, line, *dots, class_=look)


def _caption(r: Record) -> str:
    return f"epoch {r.epoch}, {short(r.seconds, 3)} s: relative gap {short(r.relative_gap, 3)}, {r.nonzeros} non-zeros"


def _mark(frame: _Frame, mark: Mark) -> Markup:
    x, y = frame.x(mark.seconds), frame.y(mark.relative_gap)
    near_edge = x > frame.left + 0.6 * (frame.right - frame.left)
    place = {"x": x - 9, "text_anchor": "end"} if near_edge else {"x": x + 9, "text_anchor": "start"}
    label = element("text", mark.label, class_="mark-label", y=y + 4, **place)
    told = f"{mark.label}: {short(mark.seconds, 3)} s, relative gap {short(mark.relative_gap, 3)}"
    diamond = element("path", element("title", told), class_="mark", d=f"M{x:g} {y - 6:g} l6 6 l-6 6 l-6 -6 Z")
    return join(diamond, label)


def _thinned(records: Sequence[Record]) -> list[Record]:
    """At most `MAX_POINTS` records, the first and the last among them."""
    if len(records) <= MAX_POINTS:
        return list(records)
    picks = np.unique(np.linspace(0, len(records) - 1, MAX_POINTS).round().astype(int))
    return [records[k] for k in picks]


def _in_words(runs: Sequence[Run], marks: Sequence[Mark]) -> str:
    parts = []
    for run in runs[:COLOURED]:
        if run.trace:
            first, last = run.trace[0], run.trace[-1]
            name = f"{run.label}: " if run.label else ""
            start, end = short(first.relative_gap, 2), short(last.relative_gap, 2)
            parts.append(f"{name}from {start} to {end} in {short(last.seconds, 3)} seconds")
    parts += [f"{mark.label}: {short(mark.relative_gap, 2)} after {short(mark.seconds, 3)} seconds" for mark in marks]
    more = f"; and {len(runs) - COLOURED} more curves" if len(runs) > COLOURED else ""
    return "The relative gap falls " + "; ".join(parts) + more + "."
