"""The cluster, measured: agreement with one machine, rounds and bytes, overhead, lost workers, data larger than memory, scaling.

Each command writes its part of ``benchmarks/results/cluster.md`` (kept as JSON beside it, so that parts can be run apart)::

    python benchmarks/cluster.py agree --data DIR        1, 2, 7, 50 partitions, processes and threads, against one machine
    python benchmarks/cluster.py rounds --data DIR       rounds and bytes to a certified 1e-6
    python benchmarks/cluster.py overhead --data DIR     time of a round beside its slowest task; a fit against one process
    python benchmarks/cluster.py failure --data DIR      SIGKILL and a new worker in the middle of a fit
    python benchmarks/cluster.py memory                  Parquet files of more than five times the workers' memory limit
    python benchmarks/cluster.py scaling [--fit]         cost of a round against n, d, partitions, workers, active columns
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from datasets import load

import saddlery as sd
from saddlery.distributed.partitions import Partitions

RESULTS = Path(__file__).parent / "results"
BINARY = ("a9a", "w8a", "ijcnn1", "news20")
COUNTS = (1, 2, 7, 50)


# --------------------------------------------------------------------------- helpers


def blocks(X: Any, count: int) -> Any:
    """X as a dask array of so many blocks of rows."""
    import dask.array as da
    from dask import delayed

    ends = np.linspace(0, X.shape[0], count + 1).astype(int)
    like = sp.csr_array((0, X.shape[1])) if sp.issparse(X) else np.zeros((0, X.shape[1]))
    pairs = itertools.pairwise(ends)
    return da.concatenate([da.from_delayed(delayed(X[a:b]), (b - a, X.shape[1]), dtype=X.dtype, meta=like) for a, b in pairs])


def cluster(workers: int, memory: str = "4GB") -> Any:
    from distributed import Client, LocalCluster

    made = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=memory)
    return Client(made), made


class on_cluster:
    """A cluster of worker processes; without workers: threads."""

    def __init__(self, workers: int, memory: str = "4GB"):
        self.workers, self.memory = workers, memory

    def __enter__(self) -> Any:
        self.client, self.made = cluster(self.workers, self.memory) if self.workers else (None, None)
        return self.client

    def __exit__(self, *_: object) -> None:
        if self.client is not None:
            self.client.close()
            self.made.close()


def cells() -> list[tuple[str, str, str, float]]:
    """Data set, loss, penalty, share of alpha_max (l2: alpha itself)."""
    found = [(name, "logistic", penalty, share) for name in BINARY for penalty in ("l1", "elasticnet") for share in (0.1, 0.01)]
    found += [(name, "squared_hinge", "l2", share) for name in BINARY for share in (0.1, 1e-3)]
    return [*found, ("cpusmall", "squared", "l1", 0.1), ("cpusmall", "squared", "l1", 0.01)]


def penalty_of(problem: Any, name: str, share: float) -> Any:
    if name == "l2":
        return sd.penalties.L2(share)
    alpha = problem.with_penalty(sd.penalties.L1(1.0)).alpha_max() * share
    return sd.penalties.L1(alpha) if name == "l1" else sd.penalties.ElasticNet(alpha, 0.5)


def write(part: str, text: str, record: Any) -> None:
    """Keep one part's table and numbers, and put all parts together."""
    kept = RESULTS / "cluster.json"
    parts = json.loads(kept.read_text()) if kept.exists() else {}
    parts[part] = {"text": text, "record": record}
    kept.write_text(json.dumps(parts, indent=1) + "\n")
    order = ("agree", "rounds", "overhead", "failure", "memory", "scaling", "fit")
    pages = [f"## {name}\n\n{parts[name]['text']}" for name in order if name in parts]
    (RESULTS / "cluster.md").write_text(
        "# The cluster, measured\n\nBy `benchmarks/cluster.py`, two cores that ten or more other processes shared: "
        "wall times are upper bounds.\n\n" + "\n\n".join(pages) + "\n"
    )
    print(text)


# --------------------------------------------------------------------------- agreement and rounds


def agree(data_dir: str) -> None:
    worst: dict[str, list[float]] = {}
    for workers in (0, 2):
        with on_cluster(workers):
            for name in (*BINARY, "cpusmall"):
                X, y = load(name, data_dir)
                for count in COUNTS:
                    mine = [cell for cell in cells() if cell[0] == name]
                    partitions = Partitions(blocks(X, count), y)
                    for _, loss, penalty_name, share in mine:
                        here = sd.LinearProblem(X, y, loss, sd.penalties.L2(1.0))
                        penalty = penalty_of(here, penalty_name, share)
                        here = here.with_penalty(penalty)
                        there = sd.DaskLinearProblem(partitions, None, loss, penalty)
                        solution, local = sd.solve(there, tol=1e-6), sd.solve(here, tol=1e-6)
                        again = here.certify(solution.w, there.dual_array(solution.dual).compute(), solution.b)
                        certificate = solution.certificate
                        excess = abs(certificate.primal - local.certificate.primal) - max(certificate.gap, local.certificate.gap)
                        difference = max(abs(again.primal - certificate.primal), abs(again.dual - certificate.dual))
                        key = f"{name}, {loss}, {penalty_name}, {share:g}"
                        row = worst.setdefault(key, [-np.inf, 0.0, 0.0, 0.0])
                        found = (excess, difference, certificate.relative_gap, there.meter.rounds)
                        row[:] = [max(pair) for pair in zip(row, found, strict=True)]
                        assert solution.status is sd.Status.CONVERGED, (key, solution.status)
                        print(workers, count, key, there.meter.rounds, f"{excess:.1e} {difference:.1e}", flush=True)
    lines = [
        "Worst of 1, 2, 7, 50 partitions on threads and on 2 worker processes, tol 1e-6. *Beyond the gaps*: |P - P of one machine| "
        "minus the larger certified gap (negative: inside). *Certificate*: difference from `sd.certify` on the collected data.",
        "",
        "| cell | beyond the gaps | certificate | relative gap | most rounds |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {key} | {row[0]:.1e} | {row[1]:.1e} | {row[2]:.1e} | {row[3]:.0f} |" for key, row in worst.items()]
    write("agree", "\n".join(lines), worst)


def rounds(data_dir: str) -> None:
    record = []
    for name in BINARY:
        X, y = load(name, data_dir)
        partitions = Partitions(blocks(X, 7), y)
        for intercept in (False, True):
            here = sd.LinearProblem(X, y, "logistic", sd.penalties.L1(1.0), fit_intercept=intercept)
            for penalty_name in ("l1", "elasticnet"):
                for share in (0.1, 0.01):
                    penalty = penalty_of(here, penalty_name, share)
                    there = sd.DaskLinearProblem(partitions, None, "logistic", penalty, fit_intercept=intercept)
                    solution = sd.solve(there, tol=1e-6)
                    largest = max(entry.counts["working_set"] for entry in solution.trace)
                    runs = len(partitions.pool.runs)
                    up, down = (value / there.meter.rounds / runs for value in (there.meter.bytes_up, there.meter.bytes_down))
                    record.append((name, intercept, penalty_name, share, there.meter.rounds, largest, there.d, up, down))
                    assert solution.status is sd.Status.CONVERGED
    lines = [
        "7 partitions, logistic, certified 1e-6; rounds include the row sample and the final certificate. Bytes of one "
        "message, mean "
        "over rounds. Shares above 1 are the row sample of the start (one row in 16, at most 64 MB).",
        "",
        "| data | intercept | penalty | alpha / alpha_max | rounds | d | largest working set | kB up | of 16 d + 4 W^2 | kB down |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, intercept, penalty_name, share, count, largest, d, up, down in record:
        bound = 16 * d + 4 * largest**2
        lines.append(
            f"| {name} | {'yes' if intercept else 'no'} | {penalty_name} | {share:g} | {count} | {d} | {largest:.0f} | "
            f"{up / 1e3:.1f} "
            f"| {up / bound:.2f} | {down / 1e3:.1f} |"
        )
    write("rounds", "\n".join(lines), record)


# --------------------------------------------------------------------------- overhead


def overhead(data_dir: str) -> None:
    record = []
    for name in ("a9a", "news20"):
        X, y = load(name, data_dir)
        here = sd.LinearProblem(X, y, "logistic", sd.penalties.L1(1.0))
        penalty = penalty_of(here, "l1", 0.01)
        here = here.with_penalty(penalty)
        local = min(_spent(None, lambda problem=here: sd.solve(problem, tol=1e-6))[0] for _ in range(5))
        for workers in (0, 2):
            with on_cluster(workers) as client:
                for count in (2, 7, 50):
                    partitions = Partitions(blocks(X, count), y)
                    found = []
                    for _ in range(6):
                        there = sd.DaskLinearProblem(partitions, None, "logistic", penalty)
                        driver, all_workers, wall = _spent(client, lambda problem=there: sd.solve(problem, tol=1e-6))
                        meter = there.meter
                        beside = (meter.round_seconds - meter.task_seconds) / meter.rounds
                        found.append((driver, all_workers, wall, beside))
                    driver, all_workers, wall, beside = np.min(np.array(found)[1:], axis=0)
                    record.append((name, workers, count, local, driver, all_workers, meter.rounds, beside, wall))
                    print(record[-1], flush=True)
    lines = [
        "Logistic, l1, 0.01 alpha_max, tol 1e-6, warm, best of five fits; CPU times, since the clock was shared. "
        "*Driver*: with the scheduler.",
        "",
        "| data | where | partitions | rounds | one process: CPU s | fit: CPU s | ratio | driver CPU ms a round "
        "| wall ms a round beside tasks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, workers, count, local, driver, all_workers, rounds_, beside, _ in record:
        where, total = f"{workers} processes" if workers else "threads", driver + all_workers
        each = f"{1e3 * driver / rounds_:.0f}" if workers else "-"
        lines.append(
            f"| {name} | {where} | {count} | {rounds_} | {local:.3f} | {total:.2f} | {total / local:.1f} | {each} "
            f"| {1e3 * beside:.0f} |"
        )
    write("overhead", "\n".join(lines), record)


def _spent(client: Any, run: Any) -> tuple[float, float, float]:
    """CPU seconds of this process and of the workers, and seconds on the clock."""

    def of_workers() -> float:
        return 0.0 if client is None else sum(client.run(time.process_time).values())

    before, began, clock = of_workers(), time.process_time(), time.perf_counter()
    run()
    took, clock = time.process_time() - began, time.perf_counter() - clock
    return took, of_workers() - before, clock


# --------------------------------------------------------------------------- failure


def failure(data_dir: str) -> None:
    record = []
    X, y = load("news20", data_dir)
    penalty = penalty_of(sd.LinearProblem(X, y, "logistic", sd.penalties.L1(1.0)), "l1", 0.01)
    events = {"SIGKILL of a worker after epoch 3": _kill, "a third worker after epoch 3": _join}
    with tempfile.TemporaryDirectory() as place:
        files = []
        for k, rows in enumerate(np.array_split(np.arange(X.shape[0]), 8)):
            files.append(f"{place}/{k}.npz")
            sp.save_npz(files[-1], sp.csr_matrix(X[rows]))
        for keep in (True, False):
            for what, event in events.items():
                with on_cluster(2) as client:
                    there = sd.DaskLinearProblem(_from_files(files, X, 8), y, "logistic", penalty, keep=keep)
                    plain = sd.solve(there, tol=1e-6)
                    happened = [lambda entry, client=client, event=event: event(client) if entry.epoch == 3 else None]
                    changed = sd.solve(there, tol=1e-6, callbacks=happened)
                difference = abs(changed.certificate.gap - plain.certificate.gap)
                change = float(np.abs(changed.w - plain.w).max())
                seconds = np.diff([entry.seconds for entry in changed.trace])
                facts = (float(seconds.max()), float(np.median(seconds)), difference, change)
                record.append((keep, what, str(changed.status), changed.epochs, *facts))
                print(record[-1], flush=True)
    lines = [
        "news20, logistic, l1, 0.01 alpha_max, 8 files, 2 worker processes, tol 1e-6.",
        "",
        "| partitions | what happened | end | epochs | slowest s between certificates | median s | change of the gap | of w |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for keep, what, status, epochs, slow, median, difference, change in record:
        words = "kept in memory" if keep else "read again in each round"
        lines.append(f"| {words} | {what} | {status} | {epochs} | {slow:.2f} | {median:.2f} | {difference:.1e} | {change:.1e} |")
    write("failure", "\n".join(lines), record)


def _kill(client: Any) -> None:
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def _join(client: Any) -> None:
    client.cluster.scale(3)
    client.wait_for_workers(3)


def _from_files(files: list[str], X: Any, count: int) -> Any:
    import dask.array as da
    from dask import delayed

    sizes = [len(rows) for rows in np.array_split(np.arange(X.shape[0]), count)]
    like = sp.csr_array((0, X.shape[1]))
    parts = [
        da.from_delayed(delayed(sp.load_npz)(name), (size, X.shape[1]), dtype=X.dtype, meta=like)
        for name, size in zip(files, sizes, strict=True)
    ]
    return da.concatenate(parts)


# --------------------------------------------------------------------------- memory


def memory(place: str, rows: int = 8_000_000, columns: int = 50, files: int = 200, limit: float = 600e6) -> None:
    """Fit files in `place`, which are written if they are not there."""
    import pandas as pd

    os.makedirs(place, exist_ok=True)
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(columns) * (rng.random(columns) < 0.4)
    each = rows // files
    for k in range(files):
        if os.path.exists(f"{place}/{k:04d}.parquet"):
            continue
        rng = np.random.default_rng([1, k])
        X = rng.standard_normal((each, columns), dtype=np.float32).astype(np.float64)
        y = (X @ truth + rng.standard_normal(each) > 0.0).astype(np.int8)
        pd.DataFrame(X, columns=[f"x{j}" for j in range(columns)]).assign(y=y).to_parquet(f"{place}/{k:04d}.parquet", index=False)
    on_disk = sum(os.path.getsize(os.path.join(place, name)) for name in os.listdir(place))
    in_memory = 8.0 * rows * (columns + 1)
    with on_cluster(2, f"{limit / 1e6:.0f}MB") as client:
        base = client.run(_peak)
        began = time.perf_counter()
        model = sd.LinearClassifier(alpha=1e-2, tol=1e-4).fit(place, "y")
        took = time.perf_counter() - began
        peaks = client.run(_peak)
        restarts = set(base) != set(peaks)
    record = {
        "rows": rows, "columns": columns, "files": files, "disk": on_disk, "memory": in_memory, "limit": limit, "seconds": took,
        "peaks": list(peaks.values()), "base": list(base.values()), "restarts": restarts, "gap": model.certificate_.relative_gap,
        "rounds": model.trace_[-1].counts["rounds"],
    }  # fmt: skip
    words = ", ".join(f"{peak / 1e6:.0f} MB" for peak in peaks.values())
    idle = ", ".join(f"{peak / 1e6:.0f} MB" for peak in base.values())
    gap, restarted = model.certificate_.relative_gap, "yes" if restarts else "none"
    text = (
        f"{rows:,} rows x {columns} columns in {files} Parquet files: {on_disk / 1e9:.2f} GB on disk, "
        f"{in_memory / 1e9:.2f} GB in memory. Two workers with a limit of {limit / 1e6:.0f} MB each: the data are "
        f"{in_memory / limit:.1f} times the limit of a worker, {in_memory / (2 * limit):.1f} times both. "
        "`LinearClassifier(alpha=1e-2, tol=1e-4).fit(path, 'y')`: certified "
        f"{gap:.1e} after {record['rounds']} rounds, {took:.0f} s. Largest resident size of the workers: {words} (idle: {idle}); "
        f"workers restarted: {restarted}."
    )
    write("memory", text, record)


def _peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# --------------------------------------------------------------------------- scaling


def scaling(fit: bool = False) -> None:
    """Rounds of fixed size on generated data: one thing is changed at a time."""
    if fit:
        fit_model()
        return
    base = {"n": 100_000, "d": 10_000, "per_row": 30, "W": 200, "partitions": 16, "workers": 2}
    changes = [
        ("n", (20_000, 400_000)),
        ("d", (1_000, 100_000, 1_000_000)),
        ("W", (50, 800)),
        ("partitions", (2, 50, 200)),
        ("workers", (1, 4, 8)),
    ]
    cases = [dict(base)] + [{**base, name: value} for name, values in changes for value in values]
    cases += [{**base, "workers": 8, "partitions": 200}, {**base, "per_row": 10}]
    record = []
    for workers in sorted({case["workers"] for case in cases}):
        with on_cluster(workers, "3GB"):
            for case in cases:
                if case["workers"] == workers:
                    record.append(measure(case))
                    print(record[-1], flush=True)
    lines = [
        "One Newton round (gradient, model dual point, Gram block) on generated sparse data; CPU times, best of three, "
        "since the clock was "
        "shared. *Tasks*: of all workers together; *driver*: with the scheduler, which is in the same process.",
        "",
        "| n | d | entries a row | active W | partitions | workers | tasks ms | driver ms | MB up | wall ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in record:
        facts = f"{case['tasks']:.0f} | {case['driver']:.0f} | {case['up'] / 1e6:.2f} | {case['round']:.0f}"
        shape = f"{case['n']:,} | {case['d']:,} | {case['per_row']} | {case['W']} | {case['partitions']} | {case['workers']}"
        lines.append(f"| {shape} | {facts} |")
    write("scaling", "\n".join(lines), record)


def generated(number: int, rows: int, d: int, per_row: int) -> sp.csr_array:
    """Rows with `per_row` entries; columns by a power law, as words in texts are."""
    rng = np.random.default_rng([7, number])
    columns = (d * rng.random((rows, per_row)) ** 3).astype(np.int32)
    columns.sort(axis=1)
    X = sp.csr_array(
        (rng.standard_normal(rows * per_row), columns.ravel(), np.arange(0, rows * per_row + 1, per_row)), shape=(rows, d)
    )
    X.sum_duplicates()
    return X


def measure(case: dict[str, int]) -> dict[str, float]:
    import dask.array as da
    from dask import delayed

    from saddlery.distributed.dual import pack
    from saddlery.distributed.newton_round import NewtonRound, NewtonTask
    from saddlery.distributed.problem import GRID
    from saddlery.distributed.rounds import Meter

    n, d, count = case["n"], case["d"], case["partitions"]
    sizes = [len(rows) for rows in np.array_split(np.arange(n), count)]
    like = sp.csr_array((0, d))
    parts = [
        da.from_delayed(delayed(generated)(k, size, d, case["per_row"]), (size, d), dtype=float, meta=like)
        for k, size in enumerate(sizes)
    ]
    y = np.where(np.random.default_rng(0).random(n) < 0.5, 1.0, -1.0)
    problem = sd.DaskLinearProblem(da.concatenate(parts), y, "logistic", sd.penalties.L1(0.01), keep=True)
    W = np.arange(case["W"])
    w, move = np.zeros(d), np.zeros(d)
    w[W], move[W] = 0.01, 0.001
    task = NewtonTask(
        problem.loss, problem.reading, d, pack(w), 0.0, pack(move), 0.0, W, (0.5, 0.125, 1 / 64), GRID, True, 1e-9, 1e-9, False,
    )  # fmt: skip
    found = []
    for _ in range(4):
        meter, began = Meter(), time.process_time()
        _, seconds = problem.partitions.run(timed(NewtonRound), task, meter)
        found.append((sum(seconds), time.process_time() - began, meter.round_seconds))
    tasks, driver, took = 1e3 * np.min(np.array(found)[1:], axis=0)
    facts = {"tasks": tasks, "driver": driver, "round": took, "up": float(meter.bytes_up)}
    return {**case, **facts, "kW": case["per_row"] * (case["W"] / d) ** (1 / 3)}


def timed(visitor: Any) -> Any:
    """The visitor, returning the CPU seconds of each partition: the wall clock is shared with others."""

    class Timed(visitor):
        def visit(self, block: Any, extra: Any) -> float:
            began = time.thread_time()
            super().visit(block, extra)
            return time.thread_time() - began

    return Timed


def fit_model() -> None:
    """Non-negative least squares of the cost model on the measurements, in relative errors; then the prediction."""
    from scipy.optimize import nnls

    record = json.loads((RESULTS / "cluster.json").read_text())["scaling"]["record"]

    def fitted(features: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
        A, b = np.array([features(case) for case in record]), np.array([case[name] for case in record])
        found, _ = nnls(A / b[:, None], np.ones(len(b)))
        return found, np.abs(A @ found / b - 1.0)

    def pairs(case: Any) -> float:
        return 1e-6 * case["n"] * case["kW"] ** 2

    def parts(case: Any) -> tuple[float, ...]:
        return (
            1e-6 * case["n"] * case["per_row"],
            1e-6 * case["n"],
            pairs(case),
            case["partitions"],
            1e-6 * case["d"] * case["partitions"],
        )

    (entry, row, pair, part, column), task_error = fitted(parts, "tasks")
    (fixed, each, megabyte), driver_error = fitted(lambda case: (1.0, case["workers"], case["up"] / 1e6), "driver")
    workers, n, per_row, W, kW, d = 100, 1e9, 100, 1000, 20, 1e6
    message = (16 * d + 4 * W * W) / 1e6
    compute = 1e-6 * n / workers * (2.5 * entry * per_row + row + pair * kW * kW) + 10 * (part + 1e-6 * column * d)
    network = 3 * 8 * message  # ms: three levels of fan-in eight at 1 GB/s
    total = fixed + each * workers + compute + network + 8 * megabyte * message
    lines = [
        "Tasks: entry x entries + row x rows + pair x rows x k_W^2 + partitions x (part + column x d), divided by the "
        "workers; driver: "
        "fixed + task x workers + "
        "megabyte x MB up. k_W: entries of a row inside W.",
        "",
        "| ns an entry | ns a row | ns a row and pair in W | ms a partition | ns a column and partition | ms fixed | ms a "
        "worker | ms a MB | error of "
        "tasks | of driver |",
        "|" + "---|" * 10,
        f"| {entry:.1f} | {row:.0f} | {pair:.2f} | {part:.2f} | {column:.1f} | {fixed:.1f} | {each:.1f} | {megabyte:.2f} "
        f"| median {np.median(task_error):.0%}, largest {task_error.max():.0%} | {np.median(driver_error):.0%}, "
        f"{driver_error.max():.0%} |",
        "",
        "Prediction for 10^9 rows x 10^6 features on 100 workers of one thread (100 entries a row, ten partitions a "
        "worker, W = 1000, k_W = 20; "
        "entries 2.5 times as "
        f"dear because vectors of 8 MB leave the cache; links of 1 GB/s, a tree of fan-in eight): {total / 1e3:.0f} s a "
        f"round, of which "
        f"{compute / 1e3:.0f} s in the tasks and {network / 1e3:.1f} s on the network; 8 to 12 rounds: {8 * total / 6e4:.1f} to "
        f"{12 * total / 6e4:.1f} minutes.",
    ]
    numbers = {
        "entry": entry,
        "row": row,
        "pair": pair,
        "part": part,
        "column": column,
        "fixed": fixed,
        "each": each,
        "megabyte": megabyte,
    }
    write("fit", "\n".join(lines), {**numbers, "seconds": total / 1e3})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("agree", "rounds", "overhead", "failure", "memory", "scaling"))
    parser.add_argument("--data", default="data", help="directory of the data sets")
    parser.add_argument("--files", default="cluster-files", help="directory for the Parquet files of memory")
    parser.add_argument("--fit", action="store_true", help="fit the cost model to the last measurements of scaling")
    arguments = parser.parse_args()
    if arguments.part in ("memory", "scaling"):
        memory(arguments.files) if arguments.part == "memory" else scaling(arguments.fit)
    else:
        {"agree": agree, "rounds": rounds, "overhead": overhead, "failure": failure}[arguments.part](arguments.data)


if __name__ == "__main__":
    main()
