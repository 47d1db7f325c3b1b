"""That every adapter minimises exactly what it is said to: small problems, optimum certified, all settings tried."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import saddlery as sd
from saddlery.bench.objectives import Objective, alpha_max
from saddlery.bench.ours import penalty
from saddlery.bench.probe import Found
from saddlery.bench.rivals import Rival, load

__all__ = ["best_of", "check", "is_excused", "problems"]

ACCURACY = 1e-6
# Known not to arrive, by the methods themselves: fixed limits on rounds, steps that only shrink slowly, single precision.
EXCUSED = {"sklearn-sgd", "liblinear-dual/hinge", "snapml/hinge", "snapml/squared_hinge"}
KINDS = (("logistic", (1.0, 0.5, 0.0)), ("hinge", (0.0,)), ("squared_hinge", (1.0, 0.5, 0.0)), ("squared", (1.0, 0.5, 0.0)))


def problems() -> Iterator[tuple[Any, np.ndarray, Objective]]:
    """Dense and sparse data with columns of unequal size and means that are not zero, for every kind of objective."""
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((200, 30)) * rng.uniform(0.5, 2.0, 30) + 0.3
    sparse = sp.csr_array(np.where(rng.random((200, 30)) < 0.3, np.abs(dense), 0.0))
    for X in (dense, sparse):
        z = np.asarray(X[:, [0, 1, 2]].sum(axis=1)).ravel()
        labels = np.where(z - z.mean() + 0.8 * rng.standard_normal(200) > 0.0, 1.0, -1.0)
        numbers = 3.0 * z + rng.standard_normal(200) + 2.0
        for loss, ratios in KINDS:
            y = numbers if loss == "squared" else labels
            for ratio in ratios:
                yield X, y, Objective(loss, 0.05 * alpha_max(X, y, loss, ratio) if ratio else 1.0 / len(y), ratio)


def best_of(rival: Rival, X: Any, y: np.ndarray, objective: Objective, optimum: float) -> float:
    """The least relative suboptimality on its ladder."""
    data, least, began = rival.prepare(X, y), np.inf, time.perf_counter()
    for setting in rival.ladder(objective):
        least = min(least, (objective.value(X, y, rival.fit(data, objective, setting)) - optimum) / optimum)
        if least <= ACCURACY or time.perf_counter() - began > 20.0:
            break
    return least


def is_excused(rival: Rival, objective: Objective) -> bool:
    """Whether it is known not to arrive."""
    return rival.name in EXCUSED or f"{rival.name}/{objective.loss}" in EXCUSED


def check(found: Found) -> int:
    """Print what every rival reaches; the number of those that fail without an excuse."""
    warnings.simplefilter("ignore")
    rivals = [load(name)() for name in found.here]
    print(*[f"not available: {name} ({why})" for name, why in found.missing.items()], sep="\n")
    failed = 0
    for X, y, objective in problems():
        problem = sd.LinearProblem(X, y, loss=objective.loss, penalty=penalty(objective))
        solution = sd.solve(problem, tol=1e-12, max_epochs=10_000)
        optimum = objective.value(X, y, solution.w)
        where = f"{objective.loss} + {objective.penalty}, {'dense' if isinstance(X, np.ndarray) else 'sparse'}"
        print(f"{where}: optimum {optimum:.6g}, certified to {solution.certificate.gap / optimum:.0e}")
        for rival in rivals:
            if rival.can(objective, X):
                least = best_of(rival, X, y, objective, optimum)
                fails = least > ACCURACY or least < -1e-9
                excused = is_excused(rival, objective)
                failed += fails and not excused
                print(f"    {rival.name:24} {least:9.1e}  {'ok' if not fails else 'known' if excused else 'FAILS'}", flush=True)
    return failed
