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
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS")
DEATHS = 12  # of one worker's processes on one cell, after which the cell is given up


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description="Ours to a certified gap against the peers to the same accuracy.")
    parser.add_argument("--cells", default="", metavar="REGEX", help="only cells whose name matches, such as '^a9a:' or ':lasso'")
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


def with_threads(threads: int) -> None:
    """Run again with the number of threads in the environment: libraries read it when they are imported."""
    wanted = dict.fromkeys(THREAD_VARIABLES, str(threads))
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.environ.update(wanted)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def cell_folder(options: argparse.Namespace, threads: int | None = None) -> Path:
    """Where results of single cells are kept; never under version control."""
    folder = options.output / f"cells-{threads or options.threads}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder


# --------------------------------------------------------------------------- in the worker


def work(options: argparse.Namespace) -> None:
    """Measure the named cells, which share their data, one after the other."""
    import datasets
    from peers_lib.cells import CELLS, Task
    from peers_lib.measure import Budget, Log, measure_cell
    from peers_lib.rivals import all_rivals
    from threadpoolctl import threadpool_limits

    folder = cell_folder(options)
    cells = [cell for cell in CELLS if cell.name in options.worker]
    budget = Budget(True, fit_seconds=6.0, factor=5.0, least=0.1, reference_seconds=30.0) if options.quick else Budget()
    X, y = datasets.load(cells[0].data, options.data)
    with threadpool_limits(options.threads):
        rivals = all_rivals(options.threads, options.peers)[0]
        for cell in cells:
            target, partial = folder / f"{cell.file}.json", folder / f"{cell.file}.partial"
            known = found(options, cell) if options.ours or options.again else None
            result = measure_cell(Task(cell, X, y), rivals, budget, options.threads, Log(partial), known, not options.ours)
            target.write_text(json.dumps(result) + "\n")
            partial.unlink(missing_ok=True)


# --------------------------------------------------------------------------- in the parent


def supervise(options: argparse.Namespace, cells: list[Any]) -> None:
    """Start a worker for each data set; if a peer crashes or hangs, note it and go on without that fit."""
    folder, todo = cell_folder(options), list(cells)
    deaths: dict[str, int] = {}
    while todo:
        batch = [cell for cell in todo if cell.data == todo[0].data]
        began = {cell.name: _stamp(folder / f"{cell.file}.json") for cell in batch}
        why = _watch(options, folder, batch)
        undone = [cell for cell in batch if _stamp(folder / f"{cell.file}.json") == began[cell.name]]
        todo = [cell for cell in todo if cell not in batch or cell in undone]
        if undone:
            current = undone[0]
            deaths[current.name] = deaths.get(current.name, 0) + 1
            if not _blame(folder / f"{current.file}.partial", why) or deaths[current.name] >= DEATHS:
                print(f"{current.name}: given up, {why}; see {folder / 'worker.log'}", flush=True)
                (folder / f"{current.file}.json").write_text(json.dumps({"cell": current.name, "error": why}) + "\n")
                todo.remove(current)


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _watch(options: argparse.Namespace, folder: Path, batch: list[Any]) -> str:
    """Run a worker to its end, or to the end of its patience; says how it ended."""
    passed = ["--data", options.data, "--output", options.output, "--threads", options.threads]
    passed += ["--quick"] * options.quick + ["--ours"] * options.ours + ["--again"] * options.again
    passed += ["--peers", ",".join(options.peers)] if options.peers else []
    command = [sys.executable, __file__, *map(str, passed), "--worker", *[cell.name for cell in batch]]
    patience = 120.0 if options.quick else 400.0
    waiting = {cell.name: _stamp(folder / f"{cell.file}.json") for cell in batch}
    output = (folder / "worker.log").open("a")  # some peers print, and a crash leaves its traces here
    worker = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        while worker.poll() is None:
            time.sleep(0.3)
            for cell in batch:
                done = folder / f"{cell.file}.json"
                if cell.name in waiting and _stamp(done) != waiting[cell.name]:
                    del waiting[cell.name]
                    _tell(json.loads(done.read_text()))
                partial = folder / f"{cell.file}.partial"
                if partial.exists() and time.time() - partial.stat().st_mtime > patience:
                    worker.kill()
                    worker.wait()
                    return f"killed after {patience:.0f} s in one fit"
    except KeyboardInterrupt:
        worker.kill()
        raise
    for cell in batch:
        if cell.name in waiting and _stamp(folder / f"{cell.file}.json") != waiting[cell.name]:
            _tell(json.loads((folder / f"{cell.file}.json").read_text()))
    return f"crashed (exit {worker.returncode})"


def _blame(partial: Path, why: str) -> bool:
    """Note in the log of a cell which fit the worker died in; False if it was not a peer's."""
    lines = partial.read_text().splitlines() if partial.exists() else []
    last = json.loads(lines[-1]) if lines else {"event": "none", "solver": ""}
    if last["event"] != "start" or last["solver"] in ("reference", "saddlery"):
        return False
    with partial.open("a") as handle:
        handle.write(json.dumps({"event": "died", "solver": last["solver"], "setting": last["setting"], "why": why}) + "\n")
    return True


def _tell(result: dict[str, Any]) -> None:
    from peers_lib.report import KEYS, ratio_text, rows

    for row in rows([result]):
        best = [ranking[0][1] if ranking else "-" for ranking in row.ranking.values()]
        ratios = [f"{ratio_text(row.ratio(key)):>9} ({who})" for key, who in zip(KEYS, best, strict=True)]
        print(f"{row.cell:28}", *ratios, flush=True)


def unpack(options: argparse.Namespace, threads: int) -> None:
    """The cells of the last report as files of their own, where these are gone: what was searched once is not searched again."""
    report, folder = options.output / f"peers-{threads}-thread{'s' if threads > 1 else ''}.json", cell_folder(options, threads)
    for result in json.loads(report.read_text())["cells"] if report.exists() else ():
        target = folder / f"{result['cell'].replace(':', '-')}.json"
        if not target.exists():
            target.write_text(json.dumps(result) + "\n")


def found(options: argparse.Namespace, cell: Any) -> dict[str, Any] | None:
    """An earlier result of a cell; with `--again`, settings that were found with one thread serve for more."""
    for threads in (options.threads, 1) if options.again else (options.threads,):
        file = cell_folder(options, threads) / f"{cell.file}.json"
        if file.exists():
            return json.loads(file.read_text())
    return None


def main() -> None:
    """Measure, then report."""
    options = parse()
    with_threads(options.threads)
    sys.path.insert(0, str(HERE))
    from peers_lib import report
    from peers_lib.cells import CELLS
    from peers_lib.rivals import all_rivals

    if options.worker:
        work(options)
        return
    if options.check:
        from peers_lib.check import check

        sys.exit(check(options.peers))
    cells = [cell for cell in CELLS if re.search(options.cells, cell.name)]
    rivals, missing = all_rivals(options.threads, options.peers)
    if options.list:
        print(*[cell.name for cell in cells], sep="\n")
        print("\npeers:", *[f"{rival.name} {rival.version()}" for rival in rivals], sep="\n  ")
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
        supervise(options, done if options.ours or options.again else [cell for cell in cells if cell not in done])
    files = [folder / f"{cell.file}.json" for cell in CELLS]
    results = [json.loads(file.read_text()) for file in files if file.exists()]
    print(report.text_table(report.rows(results)))
    print(*[f"wrote {path}" for path in report.write_all(results, options.output, options.threads, missing)], sep="\n")


if __name__ == "__main__":
    main()
