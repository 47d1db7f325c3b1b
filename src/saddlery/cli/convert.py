"""``saddlery convert``: write a data file as a store, by rows and by columns, for data larger than memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saddlery.cli.exits import DONE, STOPPED
from saddlery.errors import InputError
from saddlery.registry import READERS

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "convert",
        help="write a data file as a store, for data larger than memory",
        description="Write data by rows and by columns into a directory that fit, predict and certify read in parts. "
        "Stopped at any moment and started again, it goes on where it was; only a whole store is ever seen.",
    )
    parser.add_argument("data", metavar="DATA", help="LIBSVM/svmlight text (plain, .gz, .bz2, .xz), .csv, .npz or .parquet")
    parser.add_argument("store", metavar="STORE", help="the directory to be made")
    source = parser.add_argument_group("data")
    source.add_argument("--target", metavar="NAME", help="target column of a table (default: target, y or label)")
    source.add_argument("--no-target", action="store_true", help="take a table without targets too")
    source.add_argument("--n-features", type=int, metavar="D", help="number of columns, if the svmlight file does not show all")
    source.add_argument("--format", metavar="NAME", help=f"{', '.join(READERS.builtin)}; by default told by the suffix")
    layout = parser.add_argument_group("store")
    layout.add_argument(
        "--dtype", choices=("float32", "float64", "keep"), default="keep", help="type of the numbers (default: keep)"
    )
    kind = layout.add_mutually_exclusive_group()
    kind.add_argument("--dense", action="store_true", help="store zeros too (default: as the file does)")
    kind.add_argument("--sparse", action="store_true", help="store no zeros (default: as the file does)")
    work = parser.add_argument_group("work")
    work.add_argument("--max-memory", metavar="SIZE", help="most memory for data, such as 500MB (default: 1GB)")
    work.add_argument("--chunk-rows", type=int, metavar="N", help="most rows that are read at a time (default: by memory)")
    work.add_argument("--force", action="store_true", help="replace a store that is there, or begin anew")
    work.add_argument("--quiet", "-q", action="store_true", help="show no progress")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Convert, and say what was written."""
    from saddlery.cli.show import print_facts
    from saddlery.matrix.store import read_description

    if args.n_features is not None and args.n_features < 1:
        raise InputError(f"--n-features must be a positive whole number, not {args.n_features}")
    try:
        place = _convert(args)
    except KeyboardInterrupt:
        print("saddlery: interrupted; the same command goes on where it was", file=sys.stderr)
        return STOPPED
    about = read_description(Path(place))
    n, d = about["shape"]
    size = sum(file["bytes"] for file in about["files"].values())
    print_facts(
        [
            ("data", f"{about['name']}: {n} rows, {d} columns, {about['nnz']} entries"),
            ("kind", f"{about['kind']}, {about['dtype']}"),
            (
                "targets",
                "none" if about["targets"] is None else ("labels" if about["targets"]["labels"] is not None else "numbers"),
            ),
            ("store", f"{place}: {size:,} bytes"),
        ]
    )
    return DONE


def _convert(args: Any) -> Path:
    """The conversion that the options describe."""
    from saddlery.data.store import convert

    with _bar(args.quiet) as progress:
        return convert(
            args.data,
            args.store,
            target=False if args.no_target else args.target,
            n_features=args.n_features,
            format=args.format,
            dtype=args.dtype,
            layout="dense" if args.dense else ("sparse" if args.sparse else "keep"),
            max_memory=args.max_memory,
            chunk_rows=args.chunk_rows,
            force=args.force,
            progress=progress,
        )


@contextmanager
def _bar(quiet: bool) -> Iterator[Any]:
    """A progress bar on standard error, where somebody sees it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<8}"), BarColumn(), TextColumn("{task.fields[rows]:,} rows"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def tell(stage: str, done: float | None, rows: int) -> None:
            if stage == "done":
                return
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=None if done is None else 1.0, rows=rows)
            bar.update(tasks[stage], completed=done or 0.0, rows=rows)

        yield tell
