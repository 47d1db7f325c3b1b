"""How the cost grows with the data: time against n, and against d at fixed non-zeros per row, on the generated sparse set.

Each doubling should cost at most 2.3 times as much. The time is that of a fit from raw arrays to a certified relative gap.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from datasets import sparse_set

import saddlery as sd

HERE = Path(__file__).resolve().parent
MAX_FACTOR = 2.3
RATIOS = (0.1, 0.01)


def cpu_seconds(X: Any, y: np.ndarray, ratio: float, tol: float, runs: int) -> tuple[float, str, int]:
    """Median CPU time of an l1 logistic fit at a part of alpha_max, its solver and its number of non-zero weights."""
    top = sd.LinearProblem(X, y, penalty=sd.penalties.L1(1.0)).alpha_max()
    times = []
    for _ in range(runs + 1):
        began = time.process_time()
        solution = sd.solve(sd.LinearProblem(X, y, penalty=sd.penalties.L1(ratio * top)), tol=tol, max_epochs=100_000)
        times.append(time.process_time() - began)
    return float(np.median(times[1:])), solution.solver, int(np.count_nonzero(solution.w))


def measure(axis: str, sizes: list[int], fixed: int, ratio: float, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Times along one axis."""
    points: list[dict[str, Any]] = []
    for size in sizes:
        X, z = sparse_set(*((size, fixed) if axis == "n" else (fixed, size)))
        seconds, solver, nonzeros = cpu_seconds(X, np.where(z > 0.0, 1.0, -1.0), ratio, options.tol, options.runs)
        factor = seconds / points[-1]["seconds"] if points else None
        points.append({"size": size, "entries": X.nnz, "seconds": seconds, "factor": factor, "weights": nonzeros, "solver": solver})
        note = "" if factor is None else f"  x {factor:.2f}{'' if factor <= MAX_FACTOR else '  MORE THAN ' + str(MAX_FACTOR)}"
        print(f"{ratio:g} alpha_max, {axis} = {size:7d}: {1e3 * seconds:9.1f} ms, {nonzeros} weights, {solver}{note}", flush=True)
    return points


def plot(lines: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Both axes side by side, with a line of slope one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, axis in zip(panels, "nd", strict=True):
        for name, points in lines.items():
            if name.startswith(axis):
                sizes, seconds = [point["size"] for point in points], [point["seconds"] for point in points]
                (line,) = panel.plot(sizes, seconds, "o-", label=name.split()[1] + " alpha_max")
                panel.plot(sizes, [seconds[0] * size / sizes[0] for size in sizes], ":", color=line.get_color(), linewidth=1)
        panel.set(xscale="log", yscale="log", xlabel="rows n" if axis == "n" else "columns d, same non-zeros per row")
        panel.grid(which="both", linewidth=0.3)
    panels[0].set_ylabel("CPU seconds to the certified gap")
    panels[0].legend(fontsize=8, title="dotted: proportional", title_fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(description="Time against n and d.")
    parser.add_argument("--doublings", type=int, default=4, help="how many times to double")
    parser.add_argument("--rows", type=int, default=10_000, help="the smallest n")
    parser.add_argument("--columns", type=int, default=25_000, help="the smallest d")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", type=Path, default=HERE / "results", metavar="DIR")
    options = parser.parse_args()
    X, z = sparse_set(2_000, 5_000)
    cpu_seconds(X, np.where(z > 0.0, 1.0, -1.0), 0.1, options.tol, 1)  # everything is compiled now
    doubled = [2**k for k in range(options.doublings + 1)]
    lines = {}
    for ratio in RATIOS:
        lines[f"n {ratio:g}"] = measure("n", [options.rows * k for k in doubled], 2 * options.columns, ratio, options)
        lines[f"d {ratio:g}"] = measure("d", [options.columns * k for k in doubled], 2 * options.rows, ratio, options)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "scaling.json").write_text(json.dumps({"tol": options.tol, "lines": lines}, indent=1) + "\n")
    plot(lines, options.output / "scaling.png")
    worst = max(point["factor"] for points in lines.values() for point in points if point["factor"])
    print(f"largest factor of a doubling {worst:.2f}, at most {MAX_FACTOR}: {'yes' if worst <= MAX_FACTOR else 'NO'}")


if __name__ == "__main__":
    main()
