"""What the experiment on boosting of Shi, Zhang and Yu (2017) computes: values and test accuracy against effective passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from saddlery.matrix import as_matrix
from saddlery.problems.boosting import BoostingProblem
from saddlery.registry import SOLVERS
from saddlery.solvers.loop import solve

__all__ = ["curve", "optimum"]

Report = Callable[[float], None]


def optimum(
    data: Any, report: Report, *, rows: int, complements: bool, strength: float, nu: float, tol: float, seed: int = 0
) -> dict[str, Any]:
    """Bounds on the value of the game, in the signs of the paper, and what they cost."""
    X, y = data[0][:rows], data[1][:rows]
    problem = BoostingProblem(X, y, nu, strength, strength, complements)
    solution = solve(problem, "extragradient", tol=tol, max_epochs=2000)
    return {
        "lower": -solution.certificate.primal,
        "upper": -solution.certificate.dual,
        "pairs": solution.trace[-1].counts["pairs"],
        "accuracy": _accuracy(problem, solution.w, as_matrix(data[2]), data[3]),
        "positives": float(np.mean(data[3] > 0.0)),
    }


def curve(
    data: Any,
    report: Report,
    *,
    rows: int,
    complements: bool,
    strength: float,
    nu: float,
    geometry: str,
    solver: str,
    options: dict[str, Any],
    most_passes: float,
    seed: int,
) -> dict[str, Any]:
    """A run of a solver until it has made so many effective passes, (29) of the paper: values, accuracy on the test rows, seconds.

    A pair of full products is one pass, a step of variance reduction (n + m) / (n m) of one, also in its convex form. "upper" is
    the objective of d with the best w, "lower" that of w with the best d, both at the point itself and not the best so far.
    """
    X, y, test = data[0][:rows], data[1][:rows], as_matrix(data[2])
    problem = BoostingProblem(X, y, nu, strength, strength, complements, geometry=geometry)
    method = SOLVERS.get(solver)(**options)
    columns: dict[str, list[float]] = {name: [] for name in ("passes", "upper", "lower", "accuracy", "seconds")}
    warm = BoostingProblem(X[:50], y[:50], 1.0, strength, strength, complements, geometry=geometry)
    solve(warm, method, tol=0.0, max_epochs=1)  # so that nothing is compiled while the clock runs
    began = time.process_time()
    state = method.init(problem, None, np.random.default_rng(seed))
    while True:
        point = method.point(problem, state)
        primal, dual = problem.evaluate(point)
        passes = state.counts.get("effective_passes", state.counts.get("pairs", 0.0))
        values = (passes, -dual.value, -primal, _accuracy(problem, point.w, test, data[3]), time.process_time() - began)
        for name, value in zip(columns, values, strict=True):
            columns[name].append(float(value))
        report(min(passes / most_passes, 1.0))
        if passes >= most_passes or state.stalled:
            return {**columns, "step": float(state.step), "reads": state.accesses / problem.size}
        method.step(problem, state)


def _accuracy(problem: BoostingProblem, w: np.ndarray, test: Any, labels: np.ndarray) -> float:
    """Share of the test rows that the weights w predict correctly."""
    scores = test.matvec(problem.net_weights(w))
    return float(np.mean(np.where(scores > 0.0, 1.0, -1.0) == labels))
