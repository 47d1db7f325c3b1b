"""Our side of a task, through the public names: from data to a certified solution, everything included."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import saddlery as sd
from saddlery.bench.objectives import Objective
from saddlery.bench.tasks import Task
from saddlery.matrix import as_matrix

__all__ = ["Answer", "answer", "penalty", "reference", "runner"]

MAX_EPOCHS = 100_000
ENOUGH = 100.0  # times the accuracy that was asked for, 1e-8 of the optimum, is enough to judge suboptimalities of 1e-6


class Answer(NamedTuple):
    """Weights of all parts, their certified gaps, and the name of the solver."""

    weights: np.ndarray
    gaps: np.ndarray
    solver: str


def penalty(objective: Objective) -> Any:
    """The penalty of an objective."""
    if objective.penalty == "elasticnet":
        return sd.penalties.ElasticNet(objective.alpha, objective.l1_ratio)
    return (sd.penalties.L1 if objective.penalty == "l1" else sd.penalties.L2)(objective.alpha)


def prepared(X: Any) -> Callable[[], Any]:
    """The data by rows and by columns, as rivals get them in their favourite format outside of the timing.

    Each call gives a matrix that knows nothing else: norms, counts and the like are part of a fit.
    """
    matrix = as_matrix(X)
    _ = matrix.rows, matrix.cols
    return lambda: copy.copy(matrix)


def runner(task: Task, tol: float, threads: int = 1, max_seconds: float | None = None, raw: bool = False) -> Callable[[], Any]:
    """What is timed: construction of the problem, the fit and its certificates; with `raw` validation and conversions, too.

    One-vs-rest and cross-validation run through the estimators, from raw data always.
    """
    options: dict[str, Any] = {"tol": tol, "max_epochs": MAX_EPOCHS, "max_seconds": max_seconds}
    X, y, objective = task.X, task.y, task.objective
    if task.cell.task in ("fit", "path"):
        data = (lambda: X) if raw else prepared(X)

        def problem() -> Any:
            return sd.LinearProblem(data(), y, loss=objective.loss, penalty=penalty(objective))

        if task.cell.task == "fit":
            return lambda: sd.solve(problem(), **options)
        return lambda: sd.path(problem(), alphas=task.alphas, **options)
    common: dict[str, Any] = {"loss": objective.loss, "penalty": objective.penalty, "l1_ratio": objective.l1_ratio}
    common |= {"fit_intercept": False, "n_jobs": threads, **options}
    if task.cell.task == "ovr":
        return lambda: sd.LinearClassifier(alpha=objective.alpha, **common).fit(X, y)
    cls = sd.LinearRegressorCV if objective.loss == "squared" else sd.LinearClassifierCV
    return lambda: cls(alphas=task.alphas, cv=task.folds, refit=False, **common).fit(X, y)


def answer(task: Task, result: Any, tol: float, max_seconds: float | None = None) -> Answer:
    """Weights and gaps of a result of :func:`runner`.

    A cross-validation keeps no weights: its paths are computed once more, outside of the timing, with the same options.
    """
    if task.cell.task == "fit":
        return Answer(result.w[None, :], task.gather([result.certificate.gap]), result.solver)
    if task.cell.task == "ovr":
        return Answer(result.coef_, task.gather([c.gap for c in result.certificates_]), result.solver_)
    paths = [result]
    if task.cell.task == "cv":
        first = penalty(task.objective)
        sides = [sd.LinearProblem(task.X[a], task.y[a], loss=task.objective.loss, penalty=first) for a, _ in task.folds]
        paths = [sd.path(side, alphas=task.alphas, tol=tol, max_epochs=MAX_EPOCHS, max_seconds=max_seconds) for side in sides]
    gaps = [certificate.gap for result in paths for certificate in result.certificates]
    return Answer(np.concatenate([result.coefs for result in paths]), task.gather(gaps), paths[0].solutions[-1].solver)


def reference(task: Task, accuracy: float, max_seconds: float, tell: Callable[[str], None] = lambda name: None) -> Answer:
    """The optimum by an independent, tighter run; its gaps say how well it is known.

    Should ``"auto"`` not arrive on a single fit, the other solvers are tried, too: the best primal and the best dual value of all
    certify each other. `tell` is called with the name of each.
    """
    first = _solve(task, 1e-4, max_seconds)
    tol = accuracy * float(np.min(task.values(first.weights) / task.scales()))
    best = _solve(task, tol, max_seconds)
    if task.cell.task != "fit":
        return best
    problem = sd.LinearProblem(task.X, task.y, loss=task.objective.loss, penalty=penalty(task.objective))
    value = float(task.values(best.weights)[0])
    for name in sd.solvers.available(problem):
        if best.gaps[0] <= ENOUGH * accuracy * value:
            break
        tell(name)
        other = sd.solve(problem, name, tol=tol, max_epochs=MAX_EPOCHS, max_seconds=max_seconds)
        bound = max(value - best.gaps[0], other.certificate.dual)
        if other.certificate.primal < value:
            best, value = best._replace(weights=other.w[None, :], solver=name), other.certificate.primal
        best = best._replace(gaps=np.array([max(value - bound, 0.0)]))
    return best


def _solve(task: Task, tol: float, max_seconds: float) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = None if task.cell.task == "cv" else runner(task, tol, max_seconds=max_seconds)()
        return answer(task, result, tol, max_seconds)
