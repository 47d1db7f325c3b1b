"""Peak resident memory of a fit above its data, for CSR input with many non-zeros, measured in processes of their own (Linux)."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

MAX_SHARE = 1.5
PER_ROW = 100
COLUMNS = 100_000
NEEDED = 3.5  # times the data: the data, what may be added, and room
CHUNK = 50_000  # rows


def status(field: str) -> float:
    """A field of the status of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * int(next(line.split()[1] for line in lines if line.startswith(field)))


def available() -> float:
    """Memory that can still be had, in bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024.0 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable")))


def make(nonzeros: int, dtype: str) -> tuple[sp.csr_array, np.ndarray]:
    """CSR with 100 non-zeros a row, made in place: entry k of a row lies in the k-th of 100 ranges that grow like Zipf's law."""
    n, rng = nonzeros // PER_ROW, np.random.default_rng(0)
    edges = np.geomspace(1, COLUMNS - PER_ROW, PER_ROW + 1).astype(np.int64) - 1 + np.arange(PER_ROW + 1)
    data, indices = np.empty(n * PER_ROW, dtype), np.empty(n * PER_ROW, np.int32)
    y, truth = np.empty(n), rng.standard_normal(COLUMNS)
    for first in range(0, n, CHUNK):
        rows = min(CHUNK, n - first)
        columns = edges[:-1] + (rng.random((rows, PER_ROW)) * np.diff(edges)).astype(np.int64)
        values = rng.random((rows, PER_ROW)) / np.sqrt(PER_ROW / 3)
        z = (values * truth[columns]).sum(axis=1)
        y[first : first + rows] = np.where(z + 0.5 * rng.standard_normal(rows) > 0.0, 1.0, -1.0)
        where = slice(first * PER_ROW, (first + rows) * PER_ROW)
        data[where], indices[where] = values.ravel(), columns.ravel()
    pointers = np.arange(0, n * PER_ROW + 1, PER_ROW, dtype=np.int32 if n * PER_ROW < 2**31 else np.int64)
    X = sp.csr_array((data, indices, pointers), shape=(n, COLUMNS), copy=False)
    X.has_canonical_format = True
    return X, y


def fit(X: Any, y: np.ndarray, options: argparse.Namespace) -> Any:
    """A fit by the way asked for: the certificate's relative gap and the solver."""
    import saddlery as sd

    if options.through == "estimator":
        model = sd.LinearClassifier(alpha=options.alpha, tol=options.tol).fit(X, y)
        return model.certificate_.relative_gap, model.solver_
    problem = sd.LinearProblem(X, y, penalty=sd.penalties.L1(options.alpha))
    solution = sd.solve(problem, tol=options.tol)
    return solution.certificate.relative_gap, solution.solver


def child(options: argparse.Namespace) -> None:
    """Make the data, load and compile everything on a small piece, fit, and print what the peak was."""
    X, y = make(options.nonzeros, options.dtype)
    fit(*make(100_000, options.dtype), options)
    size = float(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before, began = status("VmRSS"), time.perf_counter()
    gap, solver = fit(X, y, options)
    seconds, peak = time.perf_counter() - began, status("VmHWM")
    facts = {"through": options.through, "dtype": options.dtype, "nonzeros": X.nnz, "rows": X.shape[0], "columns": X.shape[1]}
    measured = {"data_gb": size / 1e9, "above_gb": (peak - before) / 1e9, "share": (peak - before) / size}
    print(json.dumps({**facts, **measured, "seconds": seconds, "relative_gap": gap, "solver": solver}))


def main() -> None:
    """Run the children and print what they found."""
    parser = argparse.ArgumentParser(description="Peak resident memory of a fit above its data.")
    parser.add_argument("--nonzeros", type=float, default=1e8)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--through", choices=("solve", "estimator"), help="one way only; both by default")
    parser.add_argument("--alpha", type=float, default=1e-3)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.nonzeros = int(options.nonzeros)
    if options.child:
        child(options)
        return
    bytes_each = 12 if options.dtype == "float64" else 8
    while options.nonzeros * bytes_each * NEEDED > available():
        options.nonzeros //= 2
        print(f"not enough memory: {options.nonzeros:,} non-zeros instead")
    for through in [options.through] if options.through else ["solve", "estimator"]:
        passed = {name: getattr(options, name) for name in ("nonzeros", "dtype", "alpha", "tol")} | {"through": through}
        command = [sys.executable, __file__, "--child", *[f"--{name}={value}" for name, value in passed.items()]]
        facts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        verdict = "yes" if facts["share"] <= MAX_SHARE else "NO"
        print(f"{through}: {facts['nonzeros']:,} non-zeros, {facts['dtype']}, {facts['data_gb']:.2f} GB of data")
        print(f"    {facts['solver']}, relative gap {facts['relative_gap']:.0e} after {facts['seconds']:.0f} s")
        above = f"{facts['above_gb']:.2f} GB above the data = {facts['share']:.2f} x the data"
        print(f"    peak {above}, at most {MAX_SHARE}: {verdict}", flush=True)


if __name__ == "__main__":
    main()
