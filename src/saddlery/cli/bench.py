"""``saddlery bench``: time to a certified gap on a data file, beside the time of every peer that is installed."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from saddlery.cli import options
from saddlery.cli.exits import DONE, STOPPED
from saddlery.errors import InputError

__all__ = ["add_parser", "run"]

LOSSES = ("logistic", "hinge", "squared_hinge", "squared")
PENALTIES = ("l1", "l2", "elasticnet")
HOW_TO_READ = """\
ratio: best peer / ours; above 1 we are faster
ours: to a certified gap, from prepared data; raw: from arrays, with validation and conversions
peers: as near to the optimum, from formats of their own, without a certificate"""
ROWS_OF_A_CLASS = 4  # with fewer on average, whole numbers are taken for numbers, not for classes


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "bench",
        help="time to a certified gap on a data file, beside other libraries",
        description="Measure on this machine, in one run, how long saddlery takes to a certified gap, from prepared data and from "
        "raw arrays, and how long every installed peer that minimises the same objective takes to come that near to the optimum. "
        "Objectives have no intercept, because some peers penalise it.",
        epilog="exit codes: 0 ours certified to the last target, 2 bad usage or input, 3 not certified, or stopped by Ctrl-C; "
        "one thread: CPU times, several: times of the clock; the peers come with pip install 'saddlery[bench]'",
    )
    options.add_data_options(parser, optional=True)
    objective = parser.add_argument_group("objective")
    objective.add_argument(
        "--task", choices=("auto", "classification", "regression"), default="auto", help="what the targets are (default: auto)"
    )
    objective.add_argument("--positive", metavar="LABEL", help="this class against the rest (default: each against the rest)")
    objective.add_argument("--loss", choices=LOSSES, help="default: logistic for classes, squared for numbers")
    objective.add_argument("--penalty", choices=PENALTIES, default="l1", help="default: l1")
    objective.add_argument("--l1-ratio", type=float, metavar="R", default=0.5, help="share of l1 in elasticnet (default: 0.5)")
    strength = objective.add_mutually_exclusive_group()
    strength.add_argument("--alpha", type=float, nargs="+", metavar="A", default=[], help="strengths (default for l2: 1 / rows)")
    strength.add_argument(
        "--alpha-ratio",
        type=float,
        nargs="+",
        metavar="F",
        default=[],
        help="the same, as parts of the one that makes all weights 0 (default: 0.1 0.01; of a path: 0.01)",
    )
    objective.add_argument("--path", action="store_true", help="20 strengths, from the largest down to the given one, at once")
    measuring = parser.add_argument_group("measuring")
    measuring.add_argument(
        "--target-gap",
        type=float,
        nargs="+",
        metavar="G",
        default=[1e-3, 1e-4, 1e-6],
        help="gaps to certify, as parts of the optimum (default: 1e-3 1e-4 1e-6)",
    )
    measuring.add_argument("--peers", metavar="LIST", help="peers or packages, with commas; MODULE:CLASS is one of your own")
    measuring.add_argument("--threads", type=_threads, metavar="N", default=1, help="a number, or 'all' (default: 1)")
    measuring.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        default=6.0,
        help="most seconds for a fit; who takes more is not asked again (default: 6)",
    )
    measuring.add_argument("--list", action="store_true", help="list the peers, what they minimise, and which are not here")
    output = parser.add_argument_group("output")
    output.add_argument("--output", "-o", metavar="DIR", help="write bench.json, bench.md and bench.png there")
    output.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(run=run)


def _threads(text: str) -> int:
    if text == "all":
        return os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 1 nor 'all'")
    return int(text)


def run(args: Any) -> int:
    """Read, refuse what cannot be measured, measure, show."""
    from saddlery.bench.compare import budget_for, cells_for, check_cells, compare
    from saddlery.bench.probe import probe
    from saddlery.bench.rivals import rivals_of

    names = None if args.peers is None else [name for name in args.peers.split(",") if name]
    if args.list:
        return _list(args, rivals_of(names))
    if args.data is None:
        raise InputError("name a data file; 'saddlery bench --list' lists the peers")
    budget = budget_for(args.target_gap, args.seconds)
    rivals_of(names)  # unknown ones are refused before the data are read
    if args.output is not None:
        Path(args.output).mkdir(parents=True, exist_ok=True)
    data = options.read(args)
    loss, task, y = _targets(args, data)
    X = _in_memory(data.X)
    cells = cells_for(data.name, task, loss, args.penalty, args.l1_ratio, args.alpha, args.alpha_ratio)
    check_cells(cells, X, y)
    found = probe(rivals_of(names, cells[0].kind))
    with _progress() as now:
        results = compare(X, y, cells, list(found.here), budget, args.threads, now=now)
    told = _document(args, data.name, X, results, found)
    _show(args, told)
    done = [result for result in results if "error" not in result]
    certified = [all(ours["reached"] for ours in result["ours"].values()) for result in done]
    return DONE if len(done) == len(cells) and all(certified) else STOPPED


# --------------------------------------------------------------------------- data


def _targets(args: Any, data: Any) -> tuple[str, str, Any]:
    """Loss, task and targets: numbers, -1 and +1, or classes from 0."""
    import numpy as np

    from saddlery.cli.targets import one_against_rest

    y = data.y
    if args.positive is not None:
        y = one_against_rest(y, args.positive)
    kind = "classification" if args.positive is not None else options.task_of(args, y)
    loss = args.loss or ("logistic" if kind == "classification" else "squared")
    whole = y.dtype.kind not in "f" or bool(np.all(y == np.rint(y)))
    if loss == "squared":
        if y.dtype.kind not in "iuf":
            raise InputError("the targets are text, but --loss squared needs numbers: take another loss")
        if args.task == "classification":
            raise InputError("--loss squared is for numbers: take another loss, or leave out --task classification")
        return loss, "path" if args.path else "fit", y.astype(np.float64)
    if kind == "regression" or not whole:
        raise InputError(f"--loss {loss} is for classes, but the targets are numbers: take --loss squared")
    classes, codes = np.unique(y, return_inverse=True)
    if args.task == "auto" and y.dtype.kind in "iuf" and classes.size * ROWS_OF_A_CLASS > max(y.size, 2 * ROWS_OF_A_CLASS):
        raise InputError(
            f"--loss {loss} is for classes, but the targets are {classes.size} different numbers in {y.size} rows: "
            "take --loss squared, or say --task classification"
        )
    if classes.size < 2:
        raise InputError(f"the data hold one class only ({classes[0]!s}): give rows of at least two classes")
    if classes.size == 2:
        return loss, "path" if args.path else "fit", np.where(codes == 1, 1.0, -1.0)
    if args.path:
        raise InputError(f"the data have {classes.size} classes: for a path choose one against the rest by --positive LABEL")
    return loss, "ovr", codes


def _in_memory(X: Any) -> Any:
    """Data that all peers can read: numbers of double precision in arrays or sparse matrices."""
    import numpy as np
    import scipy.sparse as sp

    if hasattr(X, "compiled"):  # a store
        X = X.values if X.compiled else X.load().values
    if sp.issparse(X):
        return X.astype(np.float64)
    return np.ascontiguousarray(X, dtype=np.float64)


# --------------------------------------------------------------------------- what a person sees


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """A line on standard error that says who is running, if somebody may be looking."""
    if not sys.stderr.isatty():
        yield lambda cell, event: None
        return
    from rich.console import Console

    with Console(file=sys.stderr).status("starting") as status:
        yield lambda cell, event: status.update(f"{cell.name}: {event['solver']}")


def _document(args: Any, name: str, X: Any, results: list[dict[str, Any]], found: Any) -> dict[str, Any]:
    from saddlery.bench.report import document

    rows, columns = X.shape
    return {
        "data": {"name": name, "rows": rows, "columns": columns},
        "peers": {peer.name: peer.version for peer in found.here.values()},
        **document(results, args.threads, found.missing),
    }


def _show(args: Any, told: dict[str, Any]) -> None:
    from saddlery.cli.show import print_json

    written = [] if args.output is None else _write(Path(args.output), told)
    if args.json:
        print_json(told)
    else:
        _print_text(told)
    for path in written:
        print(f"wrote {path}", file=sys.stderr if args.json else sys.stdout)


def _print_text(told: dict[str, Any]) -> None:
    from saddlery.bench.report import milliseconds, ratio_text, rows, short
    from saddlery.cli.show import print_table

    data, texts, notes = told["data"], [], []
    measured = [result for result in told["cells"] if "error" not in result]
    for row, result in zip(rows(measured), measured, strict=True):
        name = row.cell.removeprefix(f"{data['name']}:")
        for key in row.keys:
            raw = milliseconds(row.ours[key] if result["task"] == "ovr" else row.raw) if key == row.last else ""
            best = row.best(key, 3) or "none"
            texts.append([name, short(key), ratio_text(row.ratio(key)), milliseconds(row.ours[key]), raw, best])
        if row.unreached:
            who = ", ".join(f"{peer} ({why})" for peer, why in row.unreached.items())
            notes.append(f"{name}: did not arrive at {short(row.last)}: {who}")
    clock = f"CPU times, 1 thread of {os.cpu_count()}" if told["threads"] == 1 else f"times of the clock, {told['threads']} threads"
    columns = ["objective", "gap", "ratio", "ours ms", "raw ms", "best peers ms"]
    print_table(columns, texts, title=f"{data['name']}: {data['rows']} rows, {data['columns']} columns; {clock}")
    notes += [f"{result['cell']}: given up, {result['error']}" for result in told["cells"] if "error" in result]
    reasons: dict[str, list[str]] = {}
    for name, why in told["not_available"].items():
        reasons.setdefault(why, []).append(name)
    notes += [f"not here: {', '.join(names)} ({why})" for why, names in reasons.items()]
    print(HOW_TO_READ, *notes, sep="\n")


def _list(args: Any, names: list[str]) -> int:
    from saddlery.bench.probe import probe
    from saddlery.cli.show import print_json, print_table

    found = probe(names)
    if args.json:
        peers = [peer._asdict() for peer in found.here.values()]
        print_json({"peers": peers, "not_available": found.missing})
        return DONE
    table = [[peer.name, peer.version, _words(peer.kinds)] for peer in found.here.values()]
    print_table(["peer", "version", "minimises"], [*table, *([name, "-", why] for name, why in found.missing.items())], left=3)
    return DONE


def _words(kinds: list[tuple[str, str]]) -> str:
    """Losses with their penalties, in the order of the options."""
    pairs = [(loss, [penalty for penalty in PENALTIES if (loss, penalty) in kinds]) for loss in LOSSES]
    return ", ".join(f"{loss} ({', '.join(penalties)})" for loss, penalties in pairs if penalties)


def _write(folder: Path, told: dict[str, Any]) -> list[Path]:
    """The files; without matplotlib there is no picture."""
    from saddlery.bench import pictures, report

    data = told["data"]
    origin = f"Written by `saddlery bench` on {data['name']}, {data['rows']} rows and {data['columns']} columns."
    written = report.write_all(told, folder / "bench", origin)
    try:
        pictures.plot_curves(told["cells"], folder / "bench.png")
    except ImportError:
        print("saddlery: warning: no picture without matplotlib: pip install 'saddlery[plot]'", file=sys.stderr)
        return written
    return [*written, folder / "bench.png"]
