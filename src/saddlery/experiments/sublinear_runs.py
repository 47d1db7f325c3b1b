"""What the experiments of Babichev, Ostrovskii and Bach (2019) compute: times of steps, and runs of solvers on their problem.

The problem is theirs: n = d = k, Gaussian X, classes argmax_l x_l + N(0, 1) / sqrt(d), multiclass hinge, alpha = 1e-3. Times are
seconds of the processor, so that other processes do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from saddlery.penalties.l1 import L1
from saddlery.problems.multiclass import MulticlassProblem
from saddlery.registry import SOLVERS
from saddlery.solvers.auto import resolve
from saddlery.solvers.loop import solve
from saddlery.solvers.sublinear import FLUSH_EVERY, LazyPair, Sublinear

__all__ = ["step_times", "synthetic", "trajectory"]

WARM = 24  # rows, columns and classes of the problem that is solved first, so that nothing is compiled while the clock runs

Report = Callable[[float], None]


def synthetic(n: int, alpha: float, seed: int) -> MulticlassProblem:
    """The problem of the paper with n rows, columns and classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n))
    noise = rng.standard_normal((n, n))
    noise /= np.sqrt(n)
    noise += X
    return MulticlassProblem(X, np.argmax(noise, axis=1), "hinge", L1(alpha), n_classes=n)


def step_times(
    data: Any, report: Report, *, n: int, steps: list[int], more: int, repeats: int, alpha: float, seed: int
) -> dict[str, Any]:
    """Seconds of the first ``steps[0]``, ``steps[1]``, ... steps, and microseconds of a step once all columns are there.

    As in the paper the radius is n. The times of the first steps include all flushes and the making of columns as they are drawn;
    those of the later ones are for `more` steps after ``20 n`` others, with their share of a flush.
    """
    _time_steps(synthetic(WARM, alpha, seed), 200, seed)
    problem = synthetic(n, alpha, seed)
    pair = LazyPair(problem, float(n))  # copies X by columns
    first: list[list[float]] = []
    for at, count in enumerate(steps):
        first.append([_time_steps(problem, count, seed + r)[0] for r in range(repeats)])
        report((at + 1) / (len(steps) + 1))
    _, pair, rng = _time_steps(problem, 20 * n, seed)
    later = [1e6 * _share(problem, pair, rng, more) for _ in range(repeats)]
    return {"n": n, "steps": steps, "seconds": first, "later": later, "columns": int(pair.used[0])}


def _time_steps(problem: MulticlassProblem, count: int, seed: int) -> tuple[float, LazyPair, np.random.Generator]:
    pair, rng = LazyPair(problem, float(problem.n)), np.random.default_rng(seed)
    return _run(problem, pair, rng, count), pair, rng


def _share(problem: MulticlassProblem, pair: LazyPair, rng: np.random.Generator, count: int) -> float:
    """Seconds of one step: of so many, and of a flush after FLUSH_EVERY k of them."""
    factors, began = _factors(problem, pair, rng), time.process_time()
    pair.run(problem, factors, rng.random((count, 4)))
    ended = time.process_time()
    pair.flush(problem, factors)
    return (ended - began) / count + (time.process_time() - ended) / (FLUSH_EVERY * problem.k)


def _factors(problem: MulticlassProblem, pair: LazyPair, rng: np.random.Generator) -> tuple[float, ...]:
    solver = Sublinear(radius=pair.radius)
    state = solver.init(problem, None, rng)
    state.pair = pair
    return solver._factors(problem, state)


def _run(problem: MulticlassProblem, pair: LazyPair, rng: np.random.Generator, count: int) -> float:
    """Seconds of so many steps, made as the solver makes them."""
    factors, began = _factors(problem, pair, rng), time.process_time()
    chunk = max(FLUSH_EVERY * problem.k, 256)
    for at in range(0, count, chunk):
        pair.run(problem, factors, rng.random((min(chunk, count - at), 4)))
        pair.flush(problem, factors)
    return time.process_time() - began


def trajectory(
    data: Any,
    report: Report,
    *,
    n: int,
    alpha: float,
    solver: str,
    options: dict[str, Any],
    most_seconds: float,
    tol: float,
    seed: int,
) -> dict[str, Any]:
    """Best primal and dual values of a solver against seconds of the processor, until `most_seconds` or the relative gap `tol`.

    The solver is told nothing but the problem. The data are always the same; `seed` is that of the solver.
    """

    def method() -> Any:
        return "auto" if solver == "auto" else SOLVERS.get(solver)(**options)

    solve(synthetic(WARM, alpha, 0), method(), tol=0.0, max_epochs=3)
    problem = synthetic(n, alpha, 0)
    columns: dict[str, list[float]] = {"seconds": [], "primal": [], "dual": []}
    began = time.process_time()

    def note(record: Any) -> bool:
        seconds = time.process_time() - began
        for name, value in (("seconds", seconds), ("primal", record.primal), ("dual", record.dual)):
            columns[name].append(float(value))
        report(min(seconds / most_seconds, 1.0))
        return seconds >= most_seconds

    solution = solve(problem, method(), tol=tol, max_epochs=10**9, random_state=seed, callbacks=[note])
    return {"name": resolve(problem, method()).name, "epochs": solution.epochs, **columns}
