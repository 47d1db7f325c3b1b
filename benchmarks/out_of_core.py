"""Data larger than memory: certified fits of a generated store under a hard limit of the address space (Linux).

    python benchmarks/out_of_core.py exact --work DIR        # a dense store of 4 GB (8 GB on disk), a limit of 2 GiB
    python benchmarks/out_of_core.py exact --work DIR --rows 10000 --columns 2000 --limit 1GiB     # a small one
    python benchmarks/out_of_core.py sublinear --work DIR    # a dense store of 16 GB (32 GB on disk), the same limit

Generation, conversion and each fit run in processes of their own, under the same limit; the store is removed at the end (``--keep``
leaves it there). Each part is a subcommand; what it prints it also writes to ``results/out_of_core.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "out_of_core.md"
CHUNK = 2_000  # rows that are generated at a time

# --------------------------------------------------------------------------- under a limit


def under_limit(command: str, options: dict[str, Any], limit: int) -> dict[str, Any]:
    """Run a step of this file in a process whose address space is limited; what it prints last is its answer."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    arguments = [sys.executable, __file__, "step", command, json.dumps(options), str(limit)]
    done = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def step(args: argparse.Namespace) -> None:
    """The child: set the limit, then run."""
    resource.setrlimit(resource.RLIMIT_AS, (args.limit, args.limit))
    began, cpu = time.perf_counter(), time.process_time()
    answer = STEPS[args.command](**json.loads(args.options))
    answer |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu, **peaks()}
    print(json.dumps(answer))


def peaks() -> dict[str, int]:
    """Most resident memory and address space of this process so far, in bytes."""
    text = Path("/proc/self/status").read_text()
    return {name: 1024 * int(re.search(rf"{field}:\s+(\d+)", text)[1]) for name, field in (("rss", "VmHWM"), ("space", "VmPeak"))}


# --------------------------------------------------------------------------- the data


def rows_of(n: int, d: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Gaussian rows in float32, 50 columns that matter, a tenth of the labels flipped, classes of unequal size."""
    rng = np.random.default_rng(seed)
    truth, chosen = np.zeros(d, dtype=np.float32), rng.choice(d, min(50, d), replace=False)
    truth[chosen] = rng.standard_normal(len(chosen))
    for first in range(0, n, CHUNK):
        X = rng.standard_normal((min(CHUNK, n - first), d), dtype=np.float32)
        y = np.where(X @ truth + 2.0 > 0.0, 1, -1)
        yield X, np.where(rng.random(len(y)) < 0.1, -y, y)


def write(path: str, n: int, d: int, max_memory: int) -> dict[str, Any]:
    """Generate and convert."""
    import saddlery as sd

    sd.convert(rows_of(n, d), path, max_memory=max_memory)
    return {"bytes": sum(file.stat().st_size for file in Path(path).iterdir())}


def fit(path: str, max_memory: int, model: dict[str, Any]) -> dict[str, Any]:
    """Fit a classifier to the store and certify it."""
    import saddlery as sd

    store = sd.open_store(path, max_memory=max_memory, load=False)
    classifier = sd.LinearClassifier(**model, random_state=0).fit(store)
    worst = classifier.certificate_
    return {
        "solver": classifier.solver_,
        "status": classifier.status_.name.lower(),
        "epochs": classifier.n_iter_,
        "primal": worst.primal,
        "dual": worst.dual,
        "relative_gap": worst.relative_gap,
        "nonzeros": int(np.count_nonzero(classifier.coef_)),
        "bytes_read": store.bytes_read,
    }


def topics_of(n: int) -> Any:
    """Latent topics, n rows and columns: 2 common ones and 24 that share 0.4 % of the rows."""
    from saddlery.experiments.topics import Topics, rare_shares

    return Topics(n, n, rare_shares(2, 24, 0.004), seed=0)


def write_topics(path: str, n: int, max_memory: int) -> dict[str, Any]:
    """Generate topics row by row and convert."""
    import saddlery as sd

    X = topics_of(n)
    chunks = ((X.rows(np.arange(k, min(k + 500, n))), X.y[k : k + 500]) for k in range(0, n, 500))
    sd.convert(chunks, path, max_memory=max_memory)
    return {"bytes": sum(file.stat().st_size for file in Path(path).iterdir())}


def sample(path: str, max_memory: int, n: int, budget: str, seed: int, slack: float) -> dict[str, Any]:
    """SublinearSVC on the store, with a budget."""
    import saddlery as sd

    store = sd.open_store(path, max_memory=max_memory, load=False)
    model = sd.SublinearSVC(slack=slack, budget=budget, fit_intercept=False, certificate=None, random_state=seed).fit(store)
    fresh = topics_of(n).test(2_000)
    told = model.feature_accesses_
    return {
        "error": topics_of(n).error(model.coef_[0]),
        "test_error": float(np.mean(model.predict(fresh) != fresh.y)),
        "steps": model.n_iter_,
        "share": told["distinct"] / store.nnz,
        "total_share": told["total"] / store.nnz,
        "bytes_read": store.bytes_read,
    }


def subsample(path: str, max_memory: int, n: int, rows: int, seed: int) -> dict[str, Any]:
    """A full fit of so many rows of the store, taken at random, that fit into memory."""
    import saddlery as sd

    store = sd.open_store(path, max_memory=max_memory, load=False)
    index = np.sort(np.random.default_rng(seed).permutation(n)[:rows])
    problem = sd.LinearProblem(store.take_rows(index), store.y[index].astype(float), "hinge", sd.penalties.L2(1e-4))
    solution = sd.solve(problem, "sdca", tol=1e-3, max_epochs=200)
    X = topics_of(n)
    fresh = X.test(2_000)
    wrong = np.where(sd.FetchedMatrix(fresh).matvec(solution.w) > 0.0, 1.0, -1.0) != fresh.y
    share = rows / n
    return {
        "error": X.error(solution.w),
        "test_error": float(np.mean(wrong)),
        "steps": rows,
        "share": share,
        "total_share": share,
        "bytes_read": store.bytes_read,
        "gap": solution.certificate.relative_gap,
    }


STEPS = {"write": write, "fit": fit, "write_topics": write_topics, "sample": sample, "subsample": subsample}

# --------------------------------------------------------------------------- exact

MODELS: dict[str, dict[str, Any]] = {
    "l1, intercept, tol 1e-6": {"loss": "logistic", "penalty": "l1", "alpha": 0.01, "tol": 1e-6},
    "elasticnet, intercept, tol 1e-6": {"loss": "logistic", "penalty": "elasticnet", "alpha": 0.015, "l1_ratio": 0.5, "tol": 1e-6},
    "l2, no intercept, tol 1e-4": {"loss": "logistic", "penalty": "l2", "alpha": 0.05, "fit_intercept": False, "tol": 1e-4},
}


def exact(args: argparse.Namespace) -> None:
    """Certified fits of LinearClassifier on a store larger than the limit."""
    from saddlery.matrix.store import as_bytes

    limit, memory = as_bytes(args.limit), as_bytes(args.max_memory)
    work = Path(args.work) / "out_of_core_exact"
    size = 4 * args.rows * args.columns
    if shutil.disk_usage(args.work).free < 2.2 * size:
        sys.exit(f"{args.work} has too little room: {2.2 * size:,.0f} bytes are needed")
    lines = [
        "## Exact fits",
        "",
        f"`python benchmarks/out_of_core.py exact --work DIR --rows {args.rows} --columns {args.columns} --limit {args.limit} "
        f"--max-memory {args.max_memory}`",
        "",
        f"Dense float32, {args.rows:,} x {args.columns:,}: X has {size / 1e9:.2f} GB. Every process is limited to an address space "
        f"of {args.limit}, `max_memory` is {args.max_memory}.",
        "",
    ]
    try:
        if not work.exists():
            made = under_limit("write", {"path": str(work), "n": args.rows, "d": args.columns, "max_memory": memory}, limit)
            lines += [
                f"Generated and written by rows and by columns ({made['bytes'] / 1e9:.2f} GB) in {made['seconds']:.0f} s "
                f"(CPU {made['cpu_seconds']:.0f} s), at most {made['rss'] / 1e6:.0f} MB resident.",
                "",
            ]
        lines += [
            "| model | solver | status | primal | dual | relative gap | non-zeros | bytes read | passes | s | CPU s | resident "
            "| address space |",
            "|" + "---|" * 13,
        ]
        for name, model in MODELS.items():
            if args.only and args.only not in name:
                continue
            got = under_limit("fit", {"path": str(work), "max_memory": memory, "model": model}, limit)
            cells = [name, got["solver"], got["status"], f"{got['primal']:.8f}", f"{got['dual']:.8f}", f"{got['relative_gap']:.1e}"]
            cells += [str(got["nonzeros"]), f"{got['bytes_read'] / 1e9:.1f} GB", f"{got['bytes_read'] / size:.1f}"]
            cells += [
                f"{got['seconds']:.0f}",
                f"{got['cpu_seconds']:.0f}",
                f"{got['rss'] / 1e6:.0f} MB",
                f"{got['space'] / 1e6:.0f} MB",
            ]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    finally:
        if not args.keep:
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(f"{work}.partial", ignore_errors=True)
    keep_section(lines)


# --------------------------------------------------------------------------- sublinear


def sublinear(args: argparse.Namespace) -> None:
    """SublinearSVC on a dense store far larger than the limit, next to full fits of subsamples that fit."""
    from saddlery.matrix.store import as_bytes

    limit, memory, n = as_bytes(args.limit), as_bytes(args.max_memory), args.rows
    work, size = Path(args.work) / "out_of_core_sublinear", 4 * args.rows**2
    if not work.exists() and shutil.disk_usage(args.work).free < 2.2 * size:
        sys.exit(f"{args.work} has too little room: {2.2 * size:,.0f} bytes are needed")
    lines = [
        "## Part of the data",
        "",
        f"`python benchmarks/out_of_core.py sublinear --work DIR --rows {n} --limit {args.limit} --max-memory {args.max_memory} "
        f"--seeds {args.seeds}`",
        "",
        f"Dense float32, {n:,} x {n:,}: X has {size / 1e9:.2f} GB. Latent topics: 2 common ones, and 24 that share 0.4 % of the "
        f"rows. Every process is limited to an address space of {args.limit}, `max_memory` is {args.max_memory}.",
        "",
    ]
    shared = {"path": str(work), "max_memory": memory, "n": n}
    try:
        if not work.exists():
            made = under_limit("write_topics", {**shared, "max_memory": as_bytes(args.write_memory)}, resource.RLIM_INFINITY)
            lines += [
                f"Generated and written by rows and by columns ({made['bytes'] / 1e9:.2f} GB) in {made['seconds']:.0f} s "
                f"(CPU {made['cpu_seconds']:.0f} s), at most {made['rss'] / 1e6:.0f} MB resident (this step has no limit).",
                "",
            ]
            print(lines[-2], flush=True)
        heads = ["method", "expected error", "error on 2,000 new rows", "steps or rows", "entries read", "distinct", "bytes read"]
        lines += [f"| {' | '.join([*heads, 's', 'CPU s', 'resident', 'address space'])} |", "|" + "---|" * 11]
        runs = [("sample", f"SublinearSVC, budget {share:g} %, seed {seed}", {"budget": f"{share}%", "seed": seed, "slack": 0.001})
                for share in args.budgets for seed in range(args.seeds)]  # fmt: skip
        runs += [("subsample", f"full fit of {rows:,} rows, seed {seed}", {"rows": rows, "seed": seed})
                 for rows in args.subsamples for seed in range(args.seeds)]  # fmt: skip
        for command, name, options in runs:
            got = under_limit(command, {**shared, **options}, limit)
            cells = [
                name,
                f"{got['error']:.1e}",
                f"{got['test_error']:.4f}",
                f"{got['steps']:,}",
                f"{100 * got['total_share']:.2f} %",
            ]
            cells += [f"{100 * got['share']:.2f} %", f"{got['bytes_read'] / 1e9:.2f} GB", f"{got['seconds']:.1f}"]
            cells += [f"{got['cpu_seconds']:.1f}", f"{got['rss'] / 1e6:.0f} MB", f"{got['space'] / 1e6:.0f} MB"]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    finally:
        if not args.keep:
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(f"{work}.partial", ignore_errors=True)
    keep_section(lines)


def keep_section(lines: list[str]) -> None:
    """Print a part, and write it in place of the one of the same heading."""
    print("\n".join(lines))
    text = RESULTS.read_text() if RESULTS.exists() else "# Data larger than memory\n"
    parts = [part for part in re.split(r"(?m)^(?=## )", text) if not part.startswith(lines[0] + "\n")]
    RESULTS.write_text("\n".join([*(part.rstrip("\n") + "\n" for part in parts), "\n".join(lines) + "\n"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("exact", help="certified fits of LinearClassifier")
    part.add_argument("--work", required=True, help="a directory with room for the store")
    part.add_argument("--rows", type=int, default=100_000)
    part.add_argument("--columns", type=int, default=10_000)
    part.add_argument("--limit", default="2GiB", help="address space of every process")
    part.add_argument("--max-memory", default="700MB", help="of it for data")
    part.add_argument("--only", help="fit only models whose name holds this")
    part.add_argument("--keep", action="store_true", help="leave the store there, and use one that is there")
    part.set_defaults(run=exact)
    part = parts.add_parser("sublinear", help="SublinearSVC from part of the data")
    part.add_argument("--work", required=True, help="a directory with room for the store")
    part.add_argument("--rows", type=int, default=63_000, help="and columns")
    part.add_argument("--limit", default="2GiB", help="address space of every process")
    part.add_argument("--max-memory", default="700MB", help="of it for data")
    part.add_argument("--write-memory", default="6GB", help="for the making of the store, which is not limited")
    part.add_argument("--budgets", type=float, nargs="+", default=[1.0, 2.0, 4.0], help="percent of the entries")
    part.add_argument("--subsamples", type=int, nargs="+", default=[600, 2400], help="rows of full fits that fit into memory")
    part.add_argument("--seeds", type=int, default=3)
    part.add_argument("--keep", action="store_true", help="leave the store there, and use one that is there")
    part.set_defaults(run=sublinear)
    child = parts.add_parser("step")
    child.add_argument("command", choices=STEPS)
    child.add_argument("options")
    child.add_argument("limit", type=int)
    child.set_defaults(run=step)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
