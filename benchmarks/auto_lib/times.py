"""CPU seconds that each solver takes for each problem of the grid."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import saddlery as sd
from saddlery import parts

from .grid import Trial, facts_of

__all__ = ["GAPS", "HOPELESS", "SOLVERS", "measure"]

GAPS = (1e-4, 1e-6)
SOLVERS = (
    "prox_newton", "small_newton", "covariance", "lbfgs", "newton_cg", "newton_cd", "row_space", "active_sdca", "sdca",
    "interior_point", "augmented_newton", "proximal_point",
)  # fmt: skip
HOPELESS = 10.0  # a solver that takes so many times as long as another is given up
LEAST_LIMIT = 0.05
PATIENCE = 4.0  # times the limit, until some solver has arrived


def measure(trials: Iterable[Trial], file: Path, seconds: float) -> None:
    """Time what is missing in `file`, and write there after each problem; facts are looked up again."""
    known = json.loads(file.read_text()) if file.exists() else {}
    file.parent.mkdir(exist_ok=True)
    for trial in trials:
        problem = trial.make()
        able = [name for name in sd.solvers.available(problem) if name in SOLVERS]  # the present choice first
        times = known.get(trial.name, {}).get("times", {})
        new = [solver for solver in able if solver not in times]
        for solver in new:
            times[solver] = _times(trial.make, solver, times.values(), seconds)
        about = {"data": trial.data, "family": trial.family, "in_table": trial.in_table, "facts": facts_of(problem)}
        entry = known[trial.name] = {**about, "times": times}
        file.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(known[name])}" for name in known) + "\n}\n")
        if not new:
            continue
        best = {solver: times[-1] for solver, times in entry["times"].items() if times[-1] is not None}
        fastest = min(best, key=best.__getitem__, default="nobody")
        ends = (f"{name:16} {best.get(name, math.nan):.4f}" for name in (fastest, *able[:1]))
        print(f"{trial.name:40}", *ends, flush=True)


def _times(make: Callable[[], Any], solver: str, others: Iterable[list[float | None]], seconds: float) -> list[float | None]:
    """Times of a solver to each gap; None from the first that it did not reach before it was hopeless."""
    out: list[float | None] = []
    others = list(others)
    for k, gap in enumerate(GAPS):
        if out and out[-1] is None:
            return [*out, *[None] * (len(GAPS) - k)]
        fastest = min((times[k] for times in others if times[k] is not None), default=None)
        limit = PATIENCE * seconds
        if fastest is not None:
            limit = min(max(LEAST_LIMIT, HOPELESS * fastest), max(seconds, 2.0 * fastest))
        out.append(_timed(make, solver, gap, limit))
    return out


def _timed(make: Callable[[], Any], solver: str, gap: float, limit: float) -> float | None:
    """The least of up to three runs, fewer if they are long; runs that compiled or loaded kernels do not count."""
    times: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            loaded, began = _loaded(), time.process_time()
            solution = sd.solve(make(), solver, tol=gap, max_epochs=10**6, max_seconds=limit)
            took = time.process_time() - began
            if _loaded() > loaded:
                continue
            if solution.status is not sd.Status.CONVERGED:
                return None
            times.append(took)
            if sum(times) > 0.1 or len(times) == 3:
                break
    return float(f"{min(times):.3g}") if times else None


def _loaded() -> int:
    """Kernels that were compiled or read from disk so far."""
    compiled = [kernel.stats for kernel in parts._KERNELS if hasattr(kernel, "stats")]
    return parts.cache_misses() + sum(sum(stats.cache_hits.values()) for stats in compiled)
