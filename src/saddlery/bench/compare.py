"""A comparison on anybody's data: the cells, the workers, the results."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from saddlery.bench.measure import Budget
from saddlery.bench.supervise import Supervisor
from saddlery.bench.tasks import Cell, Task
from saddlery.bench.worker import keep_data
from saddlery.errors import InputError

__all__ = ["budget_for", "cells_for", "check_cells", "compare"]

L1_RATIOS = {"l1": 1.0, "l2": 0.0}
DEFAULT_RATIOS = {"fit": (0.1, 0.01), "ovr": (0.1, 0.01), "path": (0.01,)}
LEAST_TARGET = 1e-9  # an optimum is not known better than to some 1e-12 of itself in float64
PATIENCE = 20.0  # times the seconds of a fit, after which it counts as hung
LEAST_PATIENCE = 60.0  # seconds: some peers compile when they are first used


def cells_for(
    data: str,
    task: str,
    loss: str,
    penalty: str,
    l1_ratio: float = 0.5,
    alphas: Sequence[float] = (),
    ratios: Sequence[float] = (),
) -> list[Cell]:
    """One cell for each strength: `alphas`, or `ratios` of the least one at which all weights are zero.

    By default the ratios are 0.1 and 0.01 (a path: down to 0.01), and the strength of l2 is 1 / n, that is C = 1.

    Examples
    --------
    >>> [cell.name for cell in cells_for("a9a", "fit", "logistic", "elasticnet", alphas=[1e-3])]
    ['a9a:logistic-elasticnet-alpha-0.001']
    >>> [cell.name for cell in cells_for("a9a", "fit", "hinge", "l2")]
    ['a9a:hinge-l2']
    """
    share = L1_RATIOS.get(penalty, l1_ratio)
    if not 0.0 <= share <= 1.0:
        raise InputError(f"l1_ratio must lie between 0 and 1, not {l1_ratio:g}")
    for value in (*alphas, *ratios):
        if not (np.isfinite(value) and value > 0.0):
            raise InputError(f"the strength of a penalty must be a positive number, not {value:g}")
    if share == 0.0 and (ratios or task == "path"):
        what = "a path" if task == "path" else "a part of the largest strength"
        raise InputError(f"{what} needs a penalty with an l1 part, because l2 never makes all weights zero: give alpha")
    if task == "path" and any(ratio >= 1.0 for ratio in ratios):
        raise InputError("a path ends at a part of the largest strength that is below 1")
    stem = f"{data}:{'' if task == 'fit' else task + '-'}{loss}-{penalty}"
    common: dict[str, Any] = {"data": data, "task": task, "loss": loss, "l1_ratio": share}
    if alphas:
        return [Cell(f"{stem}-alpha-{alpha:g}", alpha=alpha, **common) for alpha in dict.fromkeys(alphas)]
    if share == 0.0:
        return [Cell(stem, **common)]
    return [Cell(f"{stem}-{ratio:g}", ratio=ratio, **common) for ratio in dict.fromkeys(ratios or DEFAULT_RATIOS[task])]


def check_cells(cells: Sequence[Cell], X: Any, y: np.ndarray) -> None:
    """Refuse what cannot be measured, in a sentence, before any process is started."""
    from saddlery.losses.squared import Squared
    from saddlery.penalties import L2
    from saddlery.problems.linear import LinearProblem

    LinearProblem(X, y, Squared(), L2(1.0))  # has sentences for what is not finite
    for cell in cells:
        task = Task(cell, X, y)
        if not np.all(task.scales() > 0.0):
            raise InputError("the targets are all zero, and so are the best weights: there is nothing to measure")
        if not task.objective.alpha > 0.0:
            raise InputError("no column goes with the targets, so that all weights are zero anyway: there is nothing to measure")
        if task.alphas.size and task.alphas[0] <= task.alphas[-1]:
            raise InputError(f"alpha = {cell.alpha:g} makes all weights zero: end the path at a smaller strength")


def budget_for(targets: Sequence[float] = (1e-3, 1e-4, 1e-6), seconds: float = 6.0) -> Budget:
    """Budgets of a comparison: most seconds for one fit, and what follows from that."""
    for target in targets:
        if not LEAST_TARGET <= target < 1.0:
            raise InputError(f"a target gap must lie between {LEAST_TARGET:g} and 1, not {target:g}")
    if not (np.isfinite(seconds) and seconds > 0.0):
        raise InputError(f"the seconds for a fit must be a positive number, not {seconds:g}")
    tidy = tuple(sorted({float(target) for target in targets}, reverse=True))
    accuracy = min(1e-10, 0.01 * tidy[-1])
    return Budget(tidy, quick=True, fit_seconds=seconds, reference_seconds=5.0 * seconds, accuracy=accuracy)


def compare(
    X: Any,
    y: np.ndarray,
    cells: Sequence[Cell],
    peers: Sequence[str],
    budget: Budget,
    threads: int = 1,
    patience: float | None = None,
    tell: Callable[[dict[str, Any]], Any] = lambda result: None,
    now: Callable[[Cell, dict[str, Any]], Any] = lambda cell, event: None,
) -> list[dict[str, Any]]:
    """Measure ours and the peers on the cells, in processes of their own.

    Parameters
    ----------
    X : array or sparse matrix
    y : array
        -1 and +1, numbers, or classes from 0 for cells of the task "ovr".
    cells : sequence of Cell
        They share these data.
    peers : sequence of str
        Names that :func:`saddlery.bench.probe.probe` found here.
    budget : Budget
    threads : int
    patience : float, optional
        Seconds after which a fit of a peer counts as hung; by default 20 times those of a fit, at least a minute.
    tell, now : callable
        See :class:`saddlery.bench.supervise.Supervisor`.

    Returns
    -------
    list of dict
        One result for each cell, in their order; the key ``error`` says that there is none. Those that were done count if it is
        interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="saddlery-bench-") as place:
        folder = Path(place)
        keep_data(folder, X, y)
        plan = {"cells": [asdict(cell) for cell in cells], "peers": list(peers), "budget": asdict(budget), "threads": threads}
        (folder / "plan").write_text(json.dumps(plan))

        def command(batch: Sequence[Cell]) -> list[str]:
            return [sys.executable, "-m", "saddlery.bench.worker", place, *[cell.name for cell in batch]]

        if patience is None:
            patience = max(LEAST_PATIENCE, PATIENCE * budget.fit_seconds)
        try:
            Supervisor(folder, command, threads, patience, tell, now).run(cells)
        except KeyboardInterrupt:
            if not any((folder / f"{cell.file}.json").exists() for cell in cells):
                raise
        files = [folder / f"{cell.file}.json" for cell in cells]
        return [json.loads(file.read_text()) for file in files if file.exists()]
