"""Time to a certified gap against the time of every peer to the same accuracy; see ``benchmarks/README.md``.

Examples::

    python benchmarks/peers.py --quick --cells '^(a9a|leu):l1log'      a first look
    python benchmarks/peers.py                                         all cells, one thread; goes on where it was interrupted
    python benchmarks/peers.py --threads all                           the same with all cores
    python benchmarks/peers.py --threads all --again                   the contenders with one thread, timed with all cores
    python benchmarks/peers.py --again                                 time ours and the best settings of the contenders again
    python benchmarks/peers.py --ours                                  measure ours again, keep the peers' times
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
from peers_cells import CELLS, ELSEWHERE

from saddlery.bench import pictures, report
from saddlery.bench.check import check
from saddlery.bench.measure import Budget
from saddlery.bench.probe import probe
from saddlery.bench.rivals import NOT_INSTALLABLE, rivals_of
from saddlery.bench.supervise import Supervisor
from saddlery.bench.tasks import Cell
from saddlery.bench.worker import work
from saddlery.errors import InputError

HERE = Path(__file__).resolve().parent
QUICK = Budget(quick=True, fit_seconds=6.0, factor=5.0, least=0.1, reference_seconds=30.0)
ORIGIN = "Written by `benchmarks/peers.py`; `benchmarks/README.md` says how to read it."


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description="Ours to a certified gap against the peers to the same accuracy.")
    parser.add_argument("--cells", default="", metavar="REGEX", help="only cells whose name matches, such as '^a9a:' or ':lasso'")
    parser.add_argument("--elsewhere", action="store_true", help="the same objectives on data that are not in the table")
    parser.add_argument("--peers", default="", metavar="LIST", help="only these peers or packages, separated by commas")
    parser.add_argument("--quick", action="store_true", help="smaller budgets; fits above one second are timed once")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", metavar="DIR", help="the data sets")
    parser.add_argument("--threads", default="1", help="a number, or 'all'")
    parser.add_argument("--output", type=Path, default=HERE / "results", metavar="DIR", help="where results and the cache go")
    parser.add_argument("--fresh", action="store_true", help="measure again what was measured before")
    parser.add_argument("--ours", action="store_true", help="measure ours again in cells that are done, keep the peers' times")
    parser.add_argument(
        "--again",
        action="store_true",
        help="in cells that are done, time ours and the contenders again, in one run; with more "
        "threads the contenders are those with one, where no others are known",
    )
    parser.add_argument("--report", action="store_true", help="only write table, JSON, Markdown and plot of what was measured")
    parser.add_argument("--check", action="store_true", help="check on small problems that every peer minimises what it is said to")
    parser.add_argument("--list", action="store_true", help="list cells and peers")
    parser.add_argument("--worker", nargs="+", metavar="CELL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.threads = os.cpu_count() or 1 if options.threads == "all" else int(options.threads)
    options.peers = [name for name in options.peers.split(",") if name]
    return options


def table(options: argparse.Namespace) -> Sequence[Cell]:
    """All cells of the table that was asked for."""
    return ELSEWHERE if options.elsewhere else CELLS


def cell_folder(options: argparse.Namespace, threads: int | None = None) -> Path:
    """Where results of single cells are kept; never under version control."""
    folder = options.output / f"{'elsewhere' if options.elsewhere else 'cells'}-{threads or options.threads}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder


def measure(options: argparse.Namespace) -> None:
    """In a worker: measure the named cells, which share their data."""
    cells = [cell for cell in table(options) if cell.name in options.worker]
    X, y = datasets.load(cells[0].data, options.data)
    known = (lambda cell: found(options, cell)) if options.ours or options.again else (lambda cell: None)
    budget = QUICK if options.quick else Budget()
    work(cell_folder(options), cells, X, y, options.peers, budget, options.threads, known, not options.ours)


def supervise(options: argparse.Namespace, cells: Sequence[Cell], peers: Sequence[str]) -> None:
    """In the parent: a worker for each data set."""
    passed = ["--data", options.data, "--output", options.output, "--threads", options.threads, "--peers", ",".join(peers)]
    passed += (
        ["--quick"] * options.quick + ["--ours"] * options.ours + ["--again"] * options.again + ["--elsewhere"] * options.elsewhere
    )

    def command(batch: Sequence[Cell]) -> list[str]:
        return [sys.executable, __file__, *map(str, passed), "--worker", *[cell.name for cell in batch]]

    Supervisor(cell_folder(options), command, options.threads, 120.0 if options.quick else 400.0, tell).run(cells)


def tell(result: dict[str, Any]) -> None:
    """A line for each cell that is done."""
    if "error" in result:
        print(f"{result['cell']}: given up, {result['error']}; see worker.log", flush=True)
    for row in report.rows([result]):
        best = [ranking[0][1] if ranking else "-" for ranking in row.ranking.values()]
        ratios = [f"{report.ratio_text(row.ratio(key)):>9} ({who})" for key, who in zip(row.keys, best, strict=True)]
        print(f"{row.cell:28}", *ratios, flush=True)


def stem(options: argparse.Namespace, threads: int) -> str:
    """What the files of results are called."""
    return f"{'elsewhere' if options.elsewhere else 'peers'}-{threads}-thread{'s' if threads > 1 else ''}"


def unpack(options: argparse.Namespace, threads: int) -> None:
    """The cells of the last report as files of their own, where these are gone: what was searched once is not searched again."""
    last, folder = options.output / f"{stem(options, threads)}.json", cell_folder(options, threads)
    for result in json.loads(last.read_text())["cells"] if last.exists() else ():
        target = folder / f"{result['cell'].replace(':', '-')}.json"
        if not target.exists():
            target.write_text(json.dumps(result) + "\n")


def found(options: argparse.Namespace, cell: Cell) -> dict[str, Any] | None:
    """An earlier result of a cell; with `--again`, settings that were found with one thread serve for more."""
    for threads in (options.threads, 1) if options.again else (options.threads,):
        file = cell_folder(options, threads) / f"{cell.file}.json"
        if file.exists():
            return json.loads(file.read_text())
    return None


def main() -> None:
    """Measure, then report."""
    options = parse()
    if options.worker:
        measure(options)
        return
    try:
        peers = probe(rivals_of(options.peers or None))
    except InputError as error:
        sys.exit(str(error))
    if options.check:
        sys.exit(check(peers))
    missing = {**NOT_INSTALLABLE, **peers.missing}
    cells = [cell for cell in table(options) if re.search(options.cells, cell.name)]
    if options.list:
        print(*[cell.name for cell in cells], sep="\n")
        print("\npeers:", *[f"{peer.name} {peer.version}" for peer in peers.here.values()], sep="\n  ")
        print("\nnot available:", *[f"{name}: {why}" for name, why in missing.items()], sep="\n  ")
        return
    folder = cell_folder(options)
    for threads in {options.threads, 1}:
        unpack(options, threads)
    if options.fresh:
        for cell in cells:
            for suffix in (".json", ".partial"):
                (folder / f"{cell.file}{suffix}").unlink(missing_ok=True)
    done = [cell for cell in cells if found(options, cell)]
    if not options.report:
        todo = done if options.ours or options.again else [cell for cell in cells if cell not in done]
        supervise(options, todo, list(peers.here))
    files = [folder / f"{cell.file}.json" for cell in table(options)]
    results = [json.loads(file.read_text()) for file in files if file.exists()]
    rows, place = report.rows(results), options.output / stem(options, options.threads)
    print(report.text_table(rows))
    written = report.write_all(report.document(results, options.threads, missing), place, ORIGIN)
    pictures.plot_ratios(rows, place.parent / f"{place.name}.png")
    print(*[f"wrote {path}" for path in (*written, f"{place}.png")], sep="\n")


if __name__ == "__main__":
    main()
