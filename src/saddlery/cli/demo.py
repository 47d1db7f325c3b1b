"""``saddlery demo``: l1 logistic regression next to scikit-learn's solvers, on data that come with it, all certified."""

from __future__ import annotations

import copy
import re
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["add_parser", "run"]

ALPHA = 1e-3
REPEATS = 5
TOLERANCES = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)  # of the curve in the picture
NOTE = (
    "All minimise mean logistic loss + alpha ||w||_1 without intercept (liblinear would penalise it) for alpha = {alpha:g}, so "
    "C = 1 / (n alpha); scikit-learn's solvers run with their default tol and max_iter. 'gap' is what a model proves about itself: "
    "its objective is at most that far above the optimum, in units of the objective at w = 0. 'excess' is the same bound with the "
    "best dual point of any row."
)


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "demo",
        help="fit, certify, and compare with scikit-learn on data that come with it",
        description="Fit l1 logistic regression, audit scikit-learn's solvers on the same objective, write a picture and a page.",
        epilog="works offline, in a few seconds; the very first run compiles for some seconds more",
    )
    parser.add_argument("--output", "-o", metavar="DIR", default="saddlery-demo", help="where to write (default: saddlery-demo)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Fit everything, print the table, write the files."""
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    import scipy.linalg  # noqa: F401  (libraries that are not loaded yet would escape the limit)
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    data = _data()
    with threadpool_limits(limits=1):  # scikit-learn's solvers use one thread, too
        contests = [_contest(*item) for item in data]
    page = _write_page(folder / "demo.html", contests)
    picture = _write_picture(folder / "demo.png", contests)
    (_print_json if args.json else _print_text)(contests, page, picture)
    return 0


# --------------------------------------------------------------------------- the contest


@dataclass
class Entry:
    """One model with its certificate and its times."""

    name: str
    model: Any
    first: float
    warm: float
    certificate: Any
    nonzeros: int
    warnings: list[str]
    excess: float = 0.0


@dataclass
class Contest:
    """All models of one data set."""

    data: str
    shape: tuple[int, int]
    feature_names: list[str]
    entries: list[Entry] = field(default_factory=list)
    curve: Any = None  # what our fits prove in how much time, one record for each tolerance that takes longer

    @property
    def best(self) -> Entry:
        """Our entry with the smallest gap."""
        return min((e for e in self.entries if e.name.startswith("saddlery")), key=lambda e: e.certificate.gap)


def _data() -> list[tuple[str, Any, Any, list[str]]]:
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.preprocessing import StandardScaler

    cancer, digits = load_breast_cancer(), load_digits()
    pixels = [f"pixel {j // 8}, {j % 8}" for j in range(64)]
    return [
        ("breast cancer", StandardScaler().fit_transform(cancer.data), cancer.target, [str(n) for n in cancer.feature_names]),
        ("digits: 8 or not", digits.data / 16.0, (digits.target == 8).astype(int), pixels),
    ]


def _contest(name: str, X: Any, y: Any, feature_names: list[str]) -> Contest:
    from saddlery import LinearClassifier

    contest = Contest(name, X.shape, feature_names)
    ours = LinearClassifier(loss="logistic", penalty="l1", alpha=ALPHA, fit_intercept=False)
    for tol in (1e-4, 1e-8):
        model = copy.copy(ours).set_params(tol=tol)
        contest.entries.append(_entry(f"saddlery, tol={tol:.0e}".replace("e-0", "e-"), model, X, y))
    for solver in ("liblinear", "saga"):
        contest.entries.append(_entry(f"sklearn, {solver}", _scikit_learn(solver, X.shape[0]), X, y))
    dual = max(entry.certificate.dual for entry in contest.entries)
    for entry in contest.entries:
        entry.excess = max(entry.certificate.primal - dual, 0.0) / entry.certificate.scale
    contest.curve = _curve(ours, X, y)
    return contest


def _curve(model: Any, X: Any, y: Any) -> Any:
    """Certified gaps against the time of whole warm fits: small data are solved at once, so that one fit has no curve."""
    from saddlery.solvers.base import Trace

    trace = Trace()
    for tol in TOLERANCES:
        entry = _entry("", copy.copy(model).set_params(tol=tol), X, y)
        record = entry.model.trace_[-1]._replace(seconds=entry.warm)
        if not trace or record.relative_gap < trace[-1].relative_gap:
            trace.append(record._replace(seconds=max(record.seconds, trace[-1].seconds) if trace else record.seconds))
    return trace


def _scikit_learn(solver: str, n: int) -> Any:
    """LogisticRegression with l1 in the words of the installed version, everything else at its default."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(solver=solver, C=1.0 / (n * ALPHA), fit_intercept=False, random_state=0)
    old_words = model.get_params()["penalty"] == "l2"
    return model.set_params(**({"penalty": "l1"} if old_words else {"l1_ratio": 1}))


def _entry(name: str, model: Any, X: Any, y: Any) -> Entry:
    """Fit (once cold, then warm), and certify."""
    import numpy as np

    from saddlery.estimators.audit import audit

    seconds: list[float] = []
    kept = model
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(1 + REPEATS):
            began = time.perf_counter()
            model.fit(X, y)
            seconds.append(time.perf_counter() - began)
            if len(seconds) > 1 and seconds[-1] == min(seconds[1:]):
                kept = copy.copy(model)  # with the trace that belongs to the time that is shown
    told = dict.fromkeys(f"{w.category.__name__}: {' '.join(str(w.message).split())}" for w in caught)
    nonzeros = int(np.count_nonzero(kept.coef_))
    return Entry(name, kept, seconds[0], min(seconds[1:]), audit(kept, X, y, tighten=False), nonzeros, list(told))


# --------------------------------------------------------------------------- on the terminal


def _rows(contest: Contest) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for e in contest.entries:
        kinds = ", ".join(re.sub("(?<=[a-z])(?=[A-Z])", " ", text.split(":")[0]) for text in e.warnings)
        c = e.certificate
        values = _milliseconds(e.first), _milliseconds(e.warm), f"{c.primal:.7f}", f"{c.relative_gap:.1e}", f"{e.excess:.1e}"
        rows.append((e.name, *values, str(e.nonzeros), kinds))
    return rows


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f}" if seconds < 0.1 else f"{1000 * seconds:.0f}"


def _print_text(contests: list[Contest], page: Path, picture: Path | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=False)
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for head in ("first\nms", "warm\nms", "objective", "gap", "excess", "non-\nzeros"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("warning")
    for contest in contests:
        table.add_row(f"[bold]{contest.data}[/bold]")
        for row in _rows(contest):
            table.add_row("  " + row[0], *row[1:], style="green" if row[0].startswith("saddlery") else None)
        table.add_section()
    console.print(table)
    for text in dict.fromkeys(f"{e.name}: {text}" for contest in contests for e in contest.entries for text in e.warnings):
        console.print(text, style="yellow", markup=False)
    console.print(_about_times(), markup=False)
    console.print(NOTE.format(alpha=ALPHA), style="dim", markup=False)
    console.print(f"\npage     {page}", markup=False, soft_wrap=True)
    missing = "not drawn, because matplotlib is missing: pip install 'saddlery[plot]'"
    console.print(f"picture  {picture or missing}", markup=False, soft_wrap=True)


def _about_times() -> str:
    from saddlery.parts import cache_misses

    compiled = cache_misses()
    how = f"compiling {compiled} kernels, which are kept" if compiled else "loading compiled kernels from their cache"
    first = f"'first' is the first fit of a row; the very first one of saddlery includes {how}."
    return f"{first} 'warm' is the best of {REPEATS} more. One thread."


def _print_json(contests: list[Contest], page: Path, picture: Path | None) -> None:
    from saddlery.cli.show import print_json
    from saddlery.parts import cache_misses

    fits = [
        {
            "data": contest.data,
            "model": e.name,
            "certificate": {name: getattr(e.certificate, name) for name in ("primal", "dual", "gap", "relative_gap", "scale")},
            "excess": e.excess,
            "seconds_first": e.first,
            "seconds_warm": e.warm,
            "nonzeros": e.nonzeros,
            "warnings": e.warnings,
        }
        for contest in contests
        for e in contest.entries
    ]
    files = {"page": str(page), "picture": None if picture is None else str(picture)}
    print_json({"alpha": ALPHA, "kernels_compiled": cache_misses(), "fits": fits, **files})


# --------------------------------------------------------------------------- the page and the picture


def _write_page(path: Path, contests: list[Contest]) -> Path:
    from saddlery.report.html import Mark, Table, write_report

    first = contests[0]
    best = first.best
    model = copy.copy(best.model)
    model.traces_ = [first.curve]
    marks = [Mark(e.name, e.warm, e.certificate.relative_gap) for e in first.entries if e.name.startswith("sklearn")]
    columns = ("model", "first ms", "warm ms", "objective", "gap", "excess", "non-zeros", "warning")
    tables = [
        Table(
            f"Next to scikit-learn: {c.data}",
            f"{c.shape[0]} rows, {c.shape[1]} columns; the same objective for all",
            columns,
            _rows(c),
        )
        for c in contests
    ]
    tables[-1] = tables[-1]._replace(note=f"{NOTE.format(alpha=ALPHA)} {_about_times()}")
    title = f"{first.data.capitalize()}: l1 logistic regression"
    return write_report(path, model, title=title, feature_names=first.feature_names, tables=tables, marks=marks)


def _write_picture(path: Path, contests: list[Contest]) -> Path | None:
    """The curves of our fits with scikit-learn's certificates as points; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    from saddlery.report.displays import COLOURS, ConvergenceDisplay
    from saddlery.solvers.base import Trace

    figure = Figure(figsize=(10, 4.6), layout="constrained", dpi=120)
    for contest, ax in zip(contests, figure.subplots(1, len(contests), sharey=True), strict=True):
        trace = Trace(record._replace(seconds=1000 * record.seconds) for record in contest.curve)
        ConvergenceDisplay.from_trace(trace, ax=ax, hindsight=False, xscale="log")
        last = trace[-1]
        ax.annotate(
            "saddlery", (last.seconds, last.relative_gap), xytext=(-8, 0), textcoords="offset points", ha="right", color=COLOURS[0]
        )
        for number, e in enumerate((e for e in contest.entries if e.name.startswith("sklearn")), start=1):
            x, gap, excess = 1000 * e.warm, e.certificate.relative_gap, max(e.excess, 1e-16)
            ax.plot([x, x], [gap, excess], color=COLOURS[number], linewidth=1.2, zorder=3)
            ax.plot(x, gap, marker="D", markersize=8, color=COLOURS[number], zorder=4)
            ax.plot(x, excess, marker="_", markersize=13, markeredgewidth=2, color=COLOURS[number], zorder=4)
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
            place = {"xytext": (0, 10), "textcoords": "offset points", "ha": "center"}
            ax.annotate(e.name.removeprefix("sklearn, "), (x, gap), color=COLOURS[number], bbox=box, zorder=5, **place)
        ax.set_title(f"{contest.data} ({contest.shape[0]} x {contest.shape[1]})", fontsize="medium")
        ax.set(xlabel="milliseconds", ylabel="")
        ax.margins(x=0.12)
        ax.get_legend().remove()
    figure.axes[0].set_ylabel("relative gap")
    figure.suptitle(f"l1 logistic regression, alpha = {ALPHA:g}: how far above the optimum is the objective, at most?")
    figure.supxlabel(
        "curve: what saddlery proves in that time, one fit for each tolerance.   "
        "diamond: what scikit-learn's model (default settings) proves about itself;\n"
        "bar below it: the bound that the best dual point known gives for the same model.   Lower is better.",
        fontsize="small",
        color="#555555",
    )
    figure.savefig(path)
    return path
