"""Cross-validation over warm-started paths: the search behind the CV estimators.

Each fold has matrices of its own, made when its first job begins, shared by all outputs and all values of l1_ratio, and given up
after the last. A job is one path for each output on one fold with one l1_ratio; jobs run in threads. For a squared loss with few
columns the second moments of the folds take the place of their matrices (estimators/fold_moments.py).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from saddlery.errors import InputError
from saddlery.estimators.callbacks import FitTask
from saddlery.estimators.classifier import class_problems
from saddlery.estimators.fold_moments import FoldMoments, moments_of_folds
from saddlery.estimators.inputs import Rows
from saddlery.estimators.jobs import run_jobs
from saddlery.kept import kept
from saddlery.matrix import Matrix
from saddlery.matrix.partial import PartialMatrix
from saddlery.paths import PathResult, alpha_grid, path, wants_columns
from saddlery.problems.linear import LinearProblem
from saddlery.problems.together import mean_losses
from saddlery.solvers.auto import resolve
from saddlery.solvers.base import Status

__all__ = ["Data", "Fold", "Search", "make_folds"]


class Data(NamedTuple):
    """The rows that count, for all outputs.

    `y` is what the user gave, `codes` are its classes as numbers (None for a regression), `weights` enter the objective (with
    class weights), `sample_weight` is the user's alone.
    """

    matrix: Matrix
    y: np.ndarray
    codes: np.ndarray | None
    weights: np.ndarray | None
    sample_weight: np.ndarray | None
    labels: Sequence[str]


class Fold:
    """One split: indices into the rows that count, and the matrices of both sides, made when first asked for."""

    def __init__(self, matrix: Matrix, train: np.ndarray, test: np.ndarray):
        self.train, self.test = train, test
        self._side = matrix.select if isinstance(matrix, PartialMatrix) else matrix.take_rows
        self.done: list[int] = []  # penalties whose paths are through

    @kept
    def X_train(self) -> Matrix:
        """The rows to train on."""
        return self._side(self.train)

    @kept
    def X_test(self) -> Matrix:
        """The rows held out."""
        return self._side(self.test)

    def release(self) -> None:
        """Forget the matrices: the next fold gets the memory."""
        for name in ("X_train", "X_test"):
            self.__dict__.pop(name, None)


def make_folds(data: Data, cv: Any, rows: Rows) -> list[Fold]:
    """The folds of `cv`. A splitter never sees rows of weight 0; splits given as indices mean all rows."""
    given = cv is not None and not isinstance(cv, Integral) and not hasattr(cv, "split")
    splitter = check_cv(cv, data.y, classifier=data.codes is not None)
    splits = splitter.split(np.zeros((rows.n, 1))) if given else splitter.split(np.zeros((len(data.y), 1)), data.y)
    folds = []
    for number, split in enumerate(splits):
        train, test = (np.flatnonzero(side) if np.asarray(side).dtype == bool else np.asarray(side) for side in split)
        if given and rows.kept is not None:
            place = np.full(rows.n, -1)
            place[rows.kept] = np.arange(rows.kept.size)
            train, test = (place[side][place[side] >= 0] for side in (train, test))
        if len(train) == 0 or len(test) == 0:
            raise InputError(f"fold {number} of cv lacks rows of positive weight to train or to test on: use fewer folds")
        if data.codes is not None:
            _check_classes(data, data.codes, train, number)
        folds.append(Fold(data.matrix, train, test))
    return folds


def _check_classes(data: Data, codes: np.ndarray, train: np.ndarray, number: int) -> None:
    missing = np.setdiff1d(np.arange(codes.max() + 1), codes[train])
    if missing.size:
        raise InputError(
            f"fold {number} of cv has no rows of class {data.y[codes == missing[0]][0]!r} to train on: "
            "use fewer folds, or give more rows of that class"
        )


class Search(NamedTuple):
    """What a search needs beside data: the objective, how to solve it, and how to score.

    `score` takes the weights (outputs x d) and intercepts of a model, and the fold; None means the negative held-out loss.
    `options` go to :func:`saddlery.path`.
    """

    loss: Any
    fit_intercept: bool
    options: dict[str, Any]
    score: Callable[[np.ndarray, np.ndarray, Fold], float] | None

    def problems(self, data: Data, penalty: Any, fold: Fold | None = None) -> list[LinearProblem]:
        """The problems of all outputs, on all rows or on those a fold trains on."""
        matrix, rows = (data.matrix, slice(None)) if fold is None else (fold.X_train, fold.train)
        weights = None if data.weights is None else data.weights[rows]
        if data.codes is not None:
            return class_problems(matrix, data.codes[rows], self.loss, penalty, weights, self.fit_intercept)
        return [LinearProblem(matrix, data.y[rows], self.loss, penalty, weights, self.fit_intercept)]

    def grids(self, data: Data, penalties: list[Any], n_alphas: int, alpha_min_ratio: float | None) -> list[np.ndarray]:
        """Strengths for each penalty, from all rows, so that all folds share them."""
        return [alpha_grid(self.problems(data, penalty), n_alphas, alpha_min_ratio) for penalty in penalties]

    def run(
        self, data: Data, folds: list[Fold], penalties: list[Any], grids: list[np.ndarray], n_jobs: int | None, task: FitTask
    ) -> np.ndarray:
        """Scores of shape (penalties, strengths, folds)."""
        n_jobs = n_jobs if data.matrix.compiled else 1  # what is read in parts has room for the copies of one solver
        moments = self._moments(data, folds, penalties)
        if moments is None and any(wants_columns(data.matrix, *each) for each in zip(penalties, map(len, grids), strict=True)):
            _ = data.matrix.cols  # of which those of the folds are made
        stopped = threading.Event()

        def job(i: int, k: int) -> tuple[np.ndarray, int]:
            if stopped.is_set():
                raise KeyboardInterrupt
            step, end = task.part(i * len(folds) + k, grids[i].size * len(data.labels), "strength")
            losses = None if moments is None else moments[k].losses(penalties[i], grids[i], self.options["tol"])
            if losses is None:
                answer = self._score_path(data, folds[k], penalties[i], grids[i], step, stopped)
            else:
                answer = -losses, 0
                if step is not None:
                    for _ in losses:
                        step()
            end()
            folds[k].done.append(i)
            if len(folds[k].done) == len(penalties):
                folds[k].release()
            return answer

        jobs = [(i, k) for k in range(len(folds)) for i in range(len(penalties))]
        numbers = data.matrix.nnz if moments is None else data.matrix.shape[1] ** 2
        work = numbers * max(map(len, grids)) * len(data.labels)
        answers = run_jobs([partial(job, *each) for each in jobs], n_jobs, work, stopped)
        undone = sum(count for _, count in answers)
        if undone:
            total = sum(grid.size for grid in grids) * len(folds) * len(data.labels)
            warnings.warn(
                f"{undone} of {total} fits of the cross-validation are not certified to tol={self.options['tol']:g}: "
                "raise max_epochs or max_seconds, or accept this by a larger tol",
                ConvergenceWarning,
                stacklevel=5,
            )
        scores = np.array([row for row, _ in answers])
        return scores.reshape(len(folds), len(penalties), -1).transpose(1, 2, 0)

    def _moments(self, data: Data, folds: list[Fold], penalties: list[Any]) -> list[FoldMoments] | None:
        """The moments of the folds, where the solver would make do with them and the score, too; else None."""
        if self.score is not None or data.codes is not None:
            return None
        problems = (problem for penalty in penalties for problem in self.problems(data, penalty))
        if not all(resolve(problem, self.options["solver"]).from_moments for problem in problems):
            return None
        return moments_of_folds(data.matrix, data.y, data.weights, [(f.train, f.test) for f in folds], self.fit_intercept)

    def _score_path(
        self,
        data: Data,
        fold: Fold,
        penalty: Any,
        alphas: np.ndarray,
        step: Callable[..., bool] | None,
        stopped: threading.Event,
    ) -> tuple[np.ndarray, int]:
        """Scores of one fold for all strengths, and how many fits were not certified; `step` is called after each."""

        def tell(alpha: float, solution: Any) -> bool:
            if step is not None:
                step()
            return stopped.is_set()

        paths = [path(problem, alphas, on_solution=tell, **self.options) for problem in self.problems(data, penalty, fold)]
        if any(len(result) < alphas.size or result.statuses[-1] is Status.INTERRUPTED for result in paths):
            raise KeyboardInterrupt  # the loop turns Ctrl-C into a status; half a search has nothing to offer
        undone = sum(status is not Status.CONVERGED for result in paths for status in result.statuses)
        return self._scores(data, fold, paths), undone

    def _targets(self, data: Data, rows: np.ndarray) -> list[np.ndarray]:
        """Targets of all outputs: signs of each class, or numbers."""
        if data.codes is None:
            return [data.y[rows]]
        outputs = range(len(data.labels)) if len(data.labels) > 1 else [1]
        return [np.where(data.codes[rows] == k, 1.0, -1.0) for k in outputs]

    def _scores(self, data: Data, fold: Fold, paths: list[PathResult]) -> np.ndarray:
        coefs, intercepts = np.stack([p.coefs for p in paths]), np.stack([p.intercepts for p in paths])
        if self.score is not None:
            return np.array([self.score(coefs[:, at], intercepts[:, at], fold) for at in range(coefs.shape[1])])
        n = len(fold.test)
        s = np.full(n, 1.0 / n) if data.weights is None else data.weights[fold.test] / data.weights[fold.test].sum()
        losses = np.zeros(coefs.shape[1])
        for y, w, b in zip(self._targets(data, fold.test), coefs, intercepts, strict=True):
            losses += mean_losses(self.loss, y, s, fold.X_test, w, b)
        return -losses
