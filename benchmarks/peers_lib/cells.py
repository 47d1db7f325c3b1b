"""The cells of the comparison: data x objective, as data; and what a cell becomes once its data are loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .objectives import Objective, alpha_max
from .rivals import Rival

__all__ = ["CELLS", "Cell", "Part", "Task"]

BINARY = ("a9a", "w8a", "ijcnn1", "mushrooms", "news20", "leu", "duke", "colon", "mnist8", "synth_sparse", "synth_dense")
WITHOUT_DUKE = tuple(name for name in BINARY if name != "duke")
REGRESSION = ("cpusmall", "housing", "abalone", "a9a", "w8a", "news20", "leu", "synth_sparse_reg", "synth_dense_reg")
NO_RATIO = (None,)  # strength 1 / n, that is C = 1

# name, task, loss, l1_ratio, strengths as parts of alpha_max, data
TABLE = (
    ("l1log", "fit", "logistic", 1.0, (0.1, 0.01, 0.001), BINARY),
    ("enlog", "fit", "logistic", 0.5, (0.1, 0.01), WITHOUT_DUKE),
    ("l2log", "fit", "logistic", 0.0, NO_RATIO, WITHOUT_DUKE),
    ("hinge", "fit", "hinge", 0.0, NO_RATIO, WITHOUT_DUKE),
    ("sqhinge", "fit", "squared_hinge", 0.0, NO_RATIO, WITHOUT_DUKE),
    ("l1sqh", "fit", "squared_hinge", 1.0, (0.1, 0.01), WITHOUT_DUKE),
    ("lasso", "fit", "squared", 1.0, (0.1, 0.01), REGRESSION),
    ("enet", "fit", "squared", 0.5, (0.1, 0.01), REGRESSION),
    ("ovr", "ovr", "logistic", 1.0, (0.1, 0.01), ("news20_multi", "mnist_multi")),
    ("path", "path", "logistic", 1.0, (0.01,), ("a9a", "w8a", "news20", "leu", "synth_sparse", "synth_dense")),
    ("lassopath", "path", "squared", 1.0, (0.01,), ("cpusmall", "news20", "leu", "synth_sparse_reg", "synth_dense_reg")),
    ("cv", "cv", "logistic", 1.0, (0.01,), ("a9a", "news20", "leu")),
    ("lassocv", "cv", "squared", 1.0, (0.01,), ("cpusmall", "news20", "leu")),
)
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
    ratio: float | None  # strength as a part of alpha_max; None: 1 / n

    @property
    def file(self) -> str:
        """A name for files."""
        return self.name.replace(":", "-")


def _cells() -> list[Cell]:
    cells = []
    for name, task, loss, l1_ratio, ratios, sets in TABLE:
        for ratio in ratios:
            suffix = f"-{ratio:g}" if len(ratios) > 1 else ""
            cells += [Cell(f"{data}:{name}{suffix}", data, task, loss, l1_ratio, ratio) for data in sets]
    return cells


CELLS = _cells()


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
        first = np.where(y == 0, 1.0, -1.0) if cell.task == "ovr" else y
        self.objective = Objective(cell.loss, 1.0 / len(y), cell.l1_ratio)
        if cell.ratio is not None:
            tops = [alpha_max(X, signs, cell.loss, cell.l1_ratio) for signs in self._targets()]
            self.objective = self.objective.at(cell.ratio * max(tops))
        top = self.objective.alpha / (cell.ratio or 1.0)
        grid = np.geomspace(top, self.objective.alpha, PATH_POINTS + 1)[1:]
        self.alphas = grid if cell.task in ("path", "cv") else None
        self.folds = self._folds(first) if cell.task == "cv" else []
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
        if self.alphas is None:
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
