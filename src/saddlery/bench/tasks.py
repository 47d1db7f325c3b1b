"""A cell of a comparison, data and an objective; and what it becomes once its data are loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.bench.objectives import Objective, alpha_max
from saddlery.bench.rivals import Rival

__all__ = ["Cell", "Part", "Task"]

PATH_POINTS = 20  # from just below alpha_max, where all weights are zero, down to the given part of it
FOLDS = 5


@dataclass(frozen=True)
class Cell:
    """One row of the comparison."""

    name: str
    data: str
    task: str  # "fit", "ovr" (one-vs-rest), "path" (20 strengths) or "cv" (such a path on each of five folds)
    loss: str
    l1_ratio: float
    ratio: float | None = None  # strength as a part of alpha_max
    alpha: float | None = None  # or itself; without both it is 1 / n, that is C = 1

    @property
    def kind(self) -> tuple[str, str]:
        """(loss, penalty)."""
        return Objective(self.loss, 1.0, self.l1_ratio).kind

    @property
    def file(self) -> str:
        """A name for files."""
        return re.sub(r"[^\w.+-]", "-", self.name)


class Part(NamedTuple):
    """One problem of a task."""

    X: Any
    y: np.ndarray
    objective: Objective


class Task:
    """A cell with its data: the problems that it consists of, and how a rival solves all of them.

    The answer to a task is an array of weights, one row for each part; it is judged by :meth:`values`.
    """

    def __init__(self, cell: Cell, X: Any, y: np.ndarray):
        self.cell, self.X, self.y = cell, X, y
        self.objective = Objective(cell.loss, cell.alpha or 1.0 / len(y), cell.l1_ratio)
        self.alphas = np.zeros(0)  # the strengths of a path
        if cell.ratio is not None or cell.task in ("path", "cv"):
            top = max(alpha_max(X, signs, cell.loss, cell.l1_ratio) for signs in self._targets())
            self.objective = self.objective.at(self.objective.alpha if cell.ratio is None else cell.ratio * top)
            if cell.task in ("path", "cv"):
                self.alphas = np.geomspace(top, self.objective.alpha, PATH_POINTS + 1)[1:]
        self.folds = self._folds(y) if cell.task == "cv" else []
        self.parts = self._parts()

    def _targets(self) -> list[np.ndarray]:
        if self.cell.task != "ovr":
            return [self.y]
        return [np.where(self.y == k, 1.0, -1.0) for k in range(int(self.y.max()) + 1)]

    def _folds(self, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        from sklearn.model_selection import KFold, StratifiedKFold

        splitter = (KFold if self.cell.loss == "squared" else StratifiedKFold)(FOLDS, shuffle=True, random_state=0)
        return list(splitter.split(np.zeros((len(y), 1)), y))

    def _parts(self) -> list[Part]:
        if not self.alphas.size:
            return [Part(self.X, signs, self.objective) for signs in self._targets()]
        if not self.folds:
            return [Part(self.X, self.y, self.objective.at(alpha)) for alpha in self.alphas]
        sides = [(self.X[train], self.y[train]) for train, _ in self.folds]
        return [Part(*side, self.objective.at(alpha)) for side in sides for alpha in self.alphas]

    # -- judging

    def gather(self, numbers: Any) -> np.ndarray:
        """One number for each part, or their sum for one-vs-rest, which is one objective."""
        numbers = np.asarray(numbers, dtype=np.float64)
        return numbers.sum(keepdims=True) if self.cell.task == "ovr" else numbers

    def values(self, weights: Any) -> np.ndarray:
        """The objectives at an answer."""
        weights = np.asarray(weights, dtype=np.float64).reshape(len(self.parts), -1)
        return self.gather([part.objective.value(part.X, part.y, w) for part, w in zip(self.parts, weights, strict=True)])

    def scales(self) -> np.ndarray:
        """The objectives at zero."""
        return self.gather([part.objective.at_zero(part.y) for part in self.parts])

    # -- solving by a rival

    def prepare(self, rival: Rival) -> Any:
        """The data in the rival's format; not timed."""
        if self.cell.task == "ovr":
            return rival.prepare_classes(self.X, self.y)
        if self.cell.task == "cv":
            return [rival.prepare(part.X, part.y) for part in self.parts[::PATH_POINTS]]
        return rival.prepare(self.X, self.y)

    def run(self, rival: Rival, data: Any, setting: Any) -> Callable[[], Any]:
        """What is timed."""
        if self.cell.task == "ovr":
            return lambda: rival.fit_classes(data, self.objective, setting)
        if self.cell.task == "path":
            return lambda: rival.path(data, self.objective, self.alphas, setting)
        if self.cell.task == "cv":
            return lambda: rival.each(lambda fold: rival.path(fold, self.objective, self.alphas, setting), data)
        return lambda: rival.fit(data, self.objective, setting)
