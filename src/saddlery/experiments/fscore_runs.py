"""What the F-score experiments of Shi, Zhang and Yu (2017) compute: values and test scores against effective passes and time.

The synthetic data are theirs: 200 features, N(+-0.1, 0.5 I), half of the rows positive. Ionosphere is split at random into rows
to train and to test on with the numbers of positives that the paper states; which rows it took is not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from saddlery.problems.fscore import FScoreProblem
from saddlery.registry import SOLVERS
from saddlery.solvers.loop import solve

__all__ = ["curve", "optimum", "split_data"]

FEATURES = 200
WARM = 12  # rows of the problem that is solved first, so that nothing is compiled while the clock runs

Report = Callable[[float], None]


class Split(NamedTuple):
    """Rows to train and to test on; labels are 0 and 1."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def split_data(data: Any, train: list[int], test: list[int], seed: int) -> Split:
    """So many positives and negatives to train and to test on, of `data` or, if there are none, of the paper's synthetic law.

    Examples
    --------
    >>> split = split_data(None, [3, 2], [1, 1], seed=0)
    >>> split.X.shape, float(split.y.sum()), split.y_test.shape
    ((5, 200), 3.0, (2,))
    """
    rng = np.random.default_rng(seed)
    wanted = [np.concatenate([np.ones(positive), np.zeros(negative)]) for positive, negative in (train, test)]
    if data is None:
        X, X_test = (np.sqrt(0.5) * rng.standard_normal((y.size, FEATURES)) + np.where(y[:, None] > 0.0, 0.1, -0.1) for y in wanted)
        return Split(X, wanted[0], X_test, wanted[1])
    rows = data[0].toarray() if hasattr(data[0], "toarray") else np.asarray(data[0])
    sides = [rng.permutation(np.flatnonzero(data[1] > 0.0)), rng.permutation(np.flatnonzero(data[1] <= 0.0))]
    first = np.concatenate([side[:count] for side, count in zip(sides, train, strict=True)])
    second = np.concatenate([side[used : used + count] for side, used, count in zip(sides, train, test, strict=True)])
    return Split(rows[first], wanted[0], rows[second], wanted[1])


def optimum(
    data: Any, report: Report, *, train: list[int], test: list[int], alpha: float, smoothing: float, tol: float, seed: int
) -> dict[str, Any]:
    """Bounds on the value of the game, in the signs of the paper, and the test score of these weights."""
    split = split_data(data, train, test, seed)
    solution = solve(FScoreProblem(split.X, split.y, alpha, smoothing), "extragradient", tol=tol, max_epochs=2000)
    return {
        "lower": -solution.certificate.primal,
        "upper": -solution.certificate.dual,
        "iterations": solution.trace[-1].counts["iterations"],
        "score": _score(split, solution.w),
    }


def curve(
    data: Any,
    report: Report,
    *,
    train: list[int],
    test: list[int],
    alpha: float,
    smoothing: float,
    geometry: str,
    solver: str,
    options: dict[str, Any],
    most_passes: float,
    most_seconds: float,
    seed: int,
) -> dict[str, Any]:
    """A run of a solver: the adversary's value against the best predictor ("upper", the paper's primal), "lower", test scores.

    A pair of full gradients is one pass, a step of variance reduction 2 / n of one, (29) of the paper. Values are those of the
    point itself, not the best so far.
    """
    split = split_data(data, train, test, seed)
    problem = FScoreProblem(split.X, split.y, alpha, smoothing, geometry=geometry)
    method = SOLVERS.get(solver)(**options)
    few = np.r_[0 : WARM // 2, split.y.size - WARM // 2 : split.y.size]
    solve(FScoreProblem(split.X[few], split.y[few], alpha, smoothing, geometry=geometry), method, tol=0.0, max_epochs=2)
    columns: dict[str, list[float]] = {name: [] for name in ("passes", "upper", "lower", "score", "seconds")}
    began = time.process_time()
    state = method.init(problem, None, np.random.default_rng(seed))
    while True:
        point = method.point(problem, state)
        primal, dual = problem.evaluate(point)
        passes = state.counts.get("effective_passes", state.counts.get("pairs", 0.0))
        seconds = time.process_time() - began
        for name, value in zip(columns, (passes, -dual.value, -primal, _score(split, point.w), seconds), strict=True):
            columns[name].append(float(value))
        report(min(max(passes / most_passes, seconds / most_seconds), 1.0))
        if passes >= most_passes or seconds >= most_seconds or state.stalled:
            return {**columns, "step": float(state.step)}
        method.step(problem, state)


def _score(split: Split, w: np.ndarray) -> float:
    """F1 of predicting x.w > 0 on the test rows."""
    predicted = split.X_test @ w > 0.0
    both = float(split.y_test.sum() + predicted.sum())
    return 2.0 * float(split.y_test @ predicted) / both if both else 1.0
