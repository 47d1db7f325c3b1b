"""``saddlery reproduce``: the tables and figures of the papers, computed again and shown beside the printed ones."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from saddlery.cli.exits import BAD_INPUT, DONE, STOPPED
from saddlery.errors import InputError
from saddlery.registry import EXPERIMENTS

__all__ = ["add_parser", "run"]

EVERYTHING = "all"
FOLDER_VARIABLE = "SADDLERY_DATA"


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "reproduce",
        help="compute tables and figures of the papers again",
        description="Compute tables and figures of the papers again, and show them beside what is printed there.",
        epilog="what is computed is kept in the output folder: a command that was stopped and is given again goes on where it was",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"experiments, or '{EVERYTHING}'; see --list")
    parser.add_argument("--list", action="store_true", help="list the experiments and the data that they need")
    parser.add_argument("--data", metavar="DIR", help=f"folder of the data files (default: ${FOLDER_VARIABLE}, or data)")
    parser.add_argument(
        "--output", "-o", metavar="DIR", default="saddlery-reproduce", help="where to write (default: saddlery-reproduce)"
    )
    parser.add_argument("--quick", action="store_true", help="less of everything: a minute instead of many")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Plan, refuse what cannot be done, run, print."""
    from saddlery.experiments import harness

    folder = Path(args.data or os.environ.get(FOLDER_VARIABLE) or "data")
    if args.list:
        return _list(args, harness.plan(EXPERIMENTS.names(), folder, args.quick))
    if not args.names:
        raise InputError(f"name an experiment, or '{EVERYTHING}': {', '.join(EXPERIMENTS.names())}")
    plans = harness.plan(_wanted(args.names), folder, args.quick)
    impossible = [plan for plan in plans if not plan.is_possible]
    if impossible and (EVERYTHING not in args.names or len(impossible) == len(plans)):
        raise InputError(_refusal(impossible, folder))
    output = Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    try:
        reports = harness.reproduce(plans, output, _command(args))
    except KeyboardInterrupt:
        print(
            f"saddlery: interrupted; what was computed is kept in {output}, and the same command goes on from there",
            file=sys.stderr,
        )
        return STOPPED
    (_print_json if args.json else _print_text)(reports)
    _write_page(args, output, reports, [_refusal([plan], folder) for plan in impossible])
    for plan in impossible:
        print(f"saddlery: warning: left out: {_refusal([plan], folder)}", file=sys.stderr)
    return DONE if reports else BAD_INPUT


def _write_page(args: Any, output: Path, reports: Any, left_out: list[str]) -> None:
    """The page of what was asked for; quick results have a page of their own."""
    from saddlery.experiments.page import NO_PLOTLY, write_page

    path = output / ("quick.html" if args.quick else "index.html")
    try:
        write_page(path, [report.content for report in reports], left_out, _command(args))
    except ImportError as error:
        if error.name is None or not error.name.startswith("plotly"):
            raise
        print(f"saddlery: warning: {NO_PLOTLY}", file=sys.stderr)
        return
    print(f"wrote {path}", file=sys.stderr if args.json else sys.stdout)


def _wanted(names: list[str]) -> list[str]:
    """All names that were asked for, with their companions."""
    if EVERYTHING in names:
        return EXPERIMENTS.names()
    return list(dict.fromkeys(wanted for name in names for wanted in (name, *EXPERIMENTS.get(name).companions)))


def _command(args: Any) -> str:
    """The command as it was given, for the records."""
    options = [*(["--data", args.data] if args.data else []), *(["--quick"] if args.quick else [])]
    return shlex.join(["saddlery", "reproduce", *args.names, *options])


def _refusal(plans: Any, folder: Path) -> str:
    from saddlery.experiments.data import say_missing

    needs = (f"{plan.name} needs {' or '.join(plan.missing)}" for plan in plans)
    missing = dict.fromkeys(name for plan in plans for name in plan.missing)
    return f"{'; '.join(needs)}: {say_missing(missing, folder)}"


def _list(args: Any, plans: Any) -> int:
    from saddlery.cli.show import print_json, print_table

    if args.json:
        keys = ("name", "title", "paper", "data", "missing")
        rows = [(p.name, p.experiment.title, p.experiment.paper, [*p.files, *p.missing], p.missing) for p in plans]
        print_json({"experiments": [dict(zip(keys, row, strict=True)) for row in rows]})
        return DONE
    texts = [[p.name, p.experiment.title, ", ".join([*p.files, *(f"{m} (not found)" for m in p.missing)])] for p in plans]
    print_table(["experiment", "shows", "data"], texts, left=3)
    return DONE


def _print_text(reports: Any) -> None:
    from saddlery.cli.show import print_table

    for report in reports:
        print(f"{report.title}\n{report.paper}\n")
        for table in report.outcome.tables:
            print_table([column.head for column in table.columns], table.texts(), left=table.left, title=table.title)
        for note in report.outcome.notes:
            print(f"- {note}")
        print("\n" + "\n".join(f"wrote {path}" for path in report.files) + "\n")


def _print_json(reports: Any) -> None:
    from saddlery.cli.show import print_json

    print_json({"experiments": [{**report.content, "files": [str(path) for path in report.files]} for report in reports]})
