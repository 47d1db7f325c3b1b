"""The sections of the report page, each from plain values to markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlery.report.markup import Markup, element, join
from saddlery.report.runs import Run
from saddlery.report.svg import COLOURED, Mark, convergence_chart
from saddlery.report.wording import MINUS, apart, share, short
from saddlery.solvers.base import Status

__all__ = ["Table", "certificate_section", "coefficient_section", "convergence_section", "settings_section", "table_section"]

MAX_CLASSES = 20
TRACE_ROWS = 12


class Table(NamedTuple):
    """An extra table for the page: numbers are aligned to the right, everything is escaped."""

    heading: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


# --------------------------------------------------------------------------- the certificate


def certificate_section(runs: Sequence[Run], tol: float | None) -> Markup:
    """What is proved, in one sentence for everybody and in figures for those who want them."""
    worst = max(runs, key=lambda run: run.certificate.relative_gap)
    c = worst.certificate
    primal, dual = apart(c.primal, c.dual)
    subject = "this model" if len(runs) == 1 else f"{worst.label}, the least certain of {len(runs)},"
    sentence = (
        f"Whatever method is used and however long it runs, no model of this kind can bring the objective on these data below "
        f"{dual}; {subject} has {primal}, so what is left to gain is {share(c.relative_gap)} "
        f"of the objective of a model that ignores all features."
    )
    facts = {
        "objective (primal)": primal,
        "proved bound (dual)": dual,
        "gap": short(c.gap, 3),
        "relative gap": short(c.relative_gap, 3),
        "tolerance asked for": "not given" if tol is None else short(tol, 3),
        "objective without features": short(c.scale, 6),
    }
    cards = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    return element(
        "section",
        element("h2", "The certificate"),
        element("div", element("p", sentence), class_="proof"),
        element("dl", *cards, class_="facts"),
        _class_table(runs) if len(runs) > 1 else None,
    )


def status_badge(runs: Sequence[Run]) -> Markup:
    """Whether everything is certified to the tolerance, in a word and by more than colour."""
    known = [run.status for run in runs if run.status is not None]
    if not known:
        return Markup()
    early = [status for status in known if status is not Status.CONVERGED]
    if not early:
        return element("p", f"✓ {known[0]}", class_="badge good")
    count = f" ({len(early)} of {len(known)} fits)" if len(known) > 1 else ""
    return element("p", f"! {early[0]}{count}", class_="badge warn")


def _class_table(runs: Sequence[Run]) -> Markup:
    rows = []
    for run in runs:
        c = run.certificate
        rows.append((run.label, short(c.primal, 8), short(c.dual, 8), short(c.relative_gap, 3), run.status or ""))
    return _table("One certificate for each fit", ("fit", "primal", "dual", "relative gap", "status"), rows)


# --------------------------------------------------------------------------- convergence


def convergence_section(runs: Sequence[Run], tol: float | None, marks: Sequence[Mark] = ()) -> Markup:
    """The curve, a legend, and the numbers behind it as a table."""
    runs = [run for run in runs if run.trace]
    if not runs:
        return element("section", element("h2", "Convergence"), element("p", "No trace was kept with this model.", class_="note"))
    wide = element("div", convergence_chart(runs, width=760, height=350, tol=tol, marks=marks, ident="wide"), class_="wide")
    narrow = element("div", convergence_chart(runs, width=360, height=300, tol=tol, marks=marks, ident="narrow"), class_="narrow")
    explained = "The certified relative gap after each check, on a log scale: lower is nearer to the optimum."
    if marks:
        explained += " Diamonds are other solvers, certified once when they had ended."
    late = [run.trace[0].seconds > 0.5 * run.trace[-1].seconds for run in runs]
    if any(late):
        explained += " The time before a first point is setting up: in the first fit of a process, loading or compiling of kernels."
    legend = None
    if 1 < len(runs) <= COLOURED or (marks and len(runs) == 1):
        entries = [element("li", element("span", run.label or "saddlery"), class_=f"s{k + 1}") for k, run in enumerate(runs)]
        legend = element("ul", *entries, class_="legend")
    elif len(runs) > COLOURED:
        worst = max(runs, key=lambda run: run.certificate.relative_gap)
        entries = [element("li", element("span", f"{worst.label} (largest final gap)"), class_="s1")]
        entries.append(element("li", element("span", f"the other {len(runs) - 1}"), class_="quiet"))
        legend = element("ul", *entries, class_="legend")
    figure = element("figure", wide, narrow, legend, element("figcaption", explained))
    tables = [_trace_table(run) for run in runs[:MAX_CLASSES]]
    numbers = element("details", element("summary", "The numbers behind the picture"), *tables)
    return element("section", element("h2", "Convergence"), figure, numbers)


def _trace_table(run: Run) -> Markup:
    picks = np.unique(np.linspace(0, len(run.trace) - 1, TRACE_ROWS).round().astype(int))
    rows = []
    for r in (run.trace[k] for k in picks):
        values = short(r.primal, 8), short(r.dual, 8), short(r.relative_gap, 3)
        rows.append((r.epoch, f"{r.seconds:.3f}", f"{r.passes:.1f}", *values, r.nonzeros))
    columns = ("epoch", "seconds", "passes", "primal", "dual", "relative gap", "non-zeros")
    shown = f"{len(picks)} of {len(run.trace)}" if len(picks) < len(run.trace) else f"all {len(picks)}"
    name = f"{run.label}: " if run.label else ""
    return _table(f"{name}{shown} checks", columns, rows)


# --------------------------------------------------------------------------- coefficients


def coefficient_section(coefs: np.ndarray, names: Sequence[str], labels: Sequence[str], intercepts: Any, top: int) -> Markup:
    """The largest coefficients as numbers and bars; one table for each row of `coefs`."""
    many = coefs.shape[0] > 1
    blocks = []
    for k in range(min(coefs.shape[0], MAX_CLASSES)):
        table = _coefficient_table(coefs[k], names, float(intercepts[k]), top, labels[k] if many else "")
        blocks.append(element("details", element("summary", labels[k]), table, open=k == 0) if many else table)
    hidden = coefs.shape[0] - MAX_CLASSES
    note = element("p", f"{hidden} more classes are not shown.", class_="note") if hidden > 0 else None
    return element("section", element("h2", "Largest coefficients"), *blocks, note)


def _coefficient_table(w: np.ndarray, names: Sequence[str], intercept: float, top: int, label: str) -> Markup:
    order = [int(j) for j in np.argsort(-np.abs(w), kind="stable")[:top] if w[j] != 0.0]
    nonzero = int(np.count_nonzero(w))
    largest = float(np.max(np.abs(w), initial=0.0)) or 1.0
    names_of_columns = (("feature", None), ("coefficient", "number"), ("size", None))
    head = element("tr", *[element("th", name, scope="col", class_=kind) for name, kind in names_of_columns])
    rows = []
    for j in order:
        side = "plus" if w[j] > 0 else "minus"
        size = f"--size:{50 * abs(w[j]) / largest:.2f}%"
        bar = element("span", element("i", class_=side, style=size), class_="bar", aria_hidden="true")
        value = element("td", short(float(w[j]), 4), class_="number")
        cells = (element("th", names[j], scope="row"), value, element("td", bar, class_="bars"))
        rows.append(element("tr", *cells))
    count = "every coefficient is zero" if not nonzero else f"{nonzero} of {len(w)} coefficients are not zero"
    shown = f", the {len(order)} largest are shown" if len(order) < nonzero else ""
    caption = f"{label + ': ' if label else ''}{count}{shown}; intercept {short(intercept, 4)}"
    table = element("table", element("caption", caption), element("thead", head), element("tbody", *rows), class_="features")
    return element("div", table, class_="scroll")


# --------------------------------------------------------------------------- settings and other tables


def settings_section(settings: Mapping[str, Any], versions: Mapping[str, str]) -> Markup:
    """What was asked for, and what computed it."""
    blocks = [
        element("h2", "Settings and versions"),
        _pairs("Settings of this fit", settings) if settings else None,
        _pairs("Versions that computed it", versions),
    ]
    return element("section", *blocks)


def table_section(table: Table) -> Markup:
    """An extra table with its heading."""
    note = element("p", table.note, class_="note") if table.note else None
    return element("section", element("h2", table.heading), _table(table.caption, table.columns, table.rows), note)


def _pairs(caption: str, pairs: Mapping[str, Any]) -> Markup:
    rows = [element("tr", element("th", name, scope="row"), element("td", value, class_="value")) for name, value in pairs.items()]
    return element("div", element("table", element("caption", caption), element("tbody", *rows)), class_="scroll")


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Markup:
    """A table with a caption, in a box that scrolls on narrow screens and can be reached by keyboard."""
    numeric = [bool(rows) and all(_is_number(row[k]) for row in rows) for k in range(len(columns))]
    head = [element("th", name, scope="col", class_="number" if num else None) for name, num in zip(columns, numeric, strict=True)]
    body = []
    for row in rows:
        first = element("th", row[0], scope="row", class_="number" if numeric[0] else None)
        rest = [element("td", value, class_="number" if num else None) for value, num in zip(row[1:], numeric[1:], strict=True)]
        body.append(element("tr", first, *rest))
    table = element("table", element("caption", caption), element("thead", element("tr", *head)), element("tbody", *body))
    return element("div", table, class_="scroll", role="region", aria_label=caption, tabindex=0)


def _is_number(value: Any) -> bool:
    try:
        float(str(value).replace(MINUS, "-").replace("∞", "inf"))
    except ValueError:
        return str(value) in {"unknown", ""}
    return True


def joined(*parts: Any) -> Markup:
    """Sections one after the other, on lines of their own."""
    return join(*(join(part, Markup("\n")) for part in parts if part))
