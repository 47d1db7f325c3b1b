"""What the classifier and the regressor share: solving one problem for each output, and what is kept of the answers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from saddlery.estimators.callbacks import CallbackSupportMixin, FitTask
from saddlery.estimators.card import CertificateCard
from saddlery.estimators.inputs import Rows, check_matrix
from saddlery.estimators.jobs import run_jobs
from saddlery.paths import wants_columns
from saddlery.solvers.base import Solution, Status
from saddlery.solvers.loop import solve

__all__ = ["LinearModel", "draw_seeds"]

REMEDIES = {
    Status.MAX_EPOCHS: "raise max_epochs, or accept this by a larger tol",
    Status.MAX_SECONDS: "raise max_seconds, or accept this by a larger tol",
    Status.MAX_ACCESSES: "raise max_accesses, or accept this by a larger tol",
    Status.ZERO_VALUE: "the classes overlap too much for this slack: take more slack",
    Status.STALLED: "scale the features to similar sizes, or accept this by a larger tol",
    Status.INTERRUPTED: "set warm_start=True and fit again to go on",
    Status.CALLBACK: "set warm_start=True and fit again to go on",
}


def _read_in_parts(problem: Any) -> bool:
    """Whether the data of a problem are larger than memory; those of a cluster are elsewhere."""
    matrix = getattr(problem, "matrix", None)
    return matrix is not None and not matrix.compiled


class LinearModel(CertificateCard, CallbackSupportMixin, BaseEstimator):
    """Base of all estimators that fit one linear problem for each output."""

    coef_: Any
    intercept_: Any
    fit_intercept: bool
    loss: Any
    penalty: Any
    tol: float
    max_epochs: int
    max_seconds: float | None
    solver: Any
    random_state: Any
    n_jobs: int | None
    verbose: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _margins(self, X: Any) -> np.ndarray:
        """X coef' + intercept: one column for each output, or a vector."""
        check_is_fitted(self)
        matrix = check_matrix(self, X, reset=False)
        if not matrix.compiled:
            coef = self.coef_.toarray() if sp.issparse(self.coef_) else self.coef_
            return matrix.matvec(np.ascontiguousarray(coef.T, dtype=np.float64)) + self.intercept_
        product = matrix.values @ self.coef_.T
        return np.asarray((product.toarray() if sp.issparse(product) else product) + self.intercept_, dtype=np.float64)

    def _solve_all(self, problems: Sequence[Any], starts: Sequence[Any], labels: Sequence[str], task: FitTask) -> list[Solution]:
        """Solve one problem for each label, in threads; Ctrl-C stops all of them where they are."""
        stopped = threading.Event()
        matrix = getattr(problems[0], "matrix", None)  # rows that are elsewhere have none
        if len(problems) > 1 and matrix is not None and wants_columns(matrix, problems[0].penalty, len(problems)):
            _ = matrix.cols  # for all of them (news20, 20 classes at 0.1: 355 -> 260 ms)
        seeds = [self.random_state] if len(problems) == 1 else draw_seeds(self.random_state, len(problems))
        title = f"{type(self).__name__}({problems[0].loss!r}, {problems[0].penalty!r})"

        def run(index: int, show: Callable[[Any], Any] | None) -> Solution:
            step, end = task.part(index)
            listeners = [listener for listener in (show, step) if listener is not None]
            if len(problems) > 1:
                listeners.append(lambda record: stopped.is_set())
            solution = solve(
                problems[index],
                self.solver,
                tol=self.tol,
                max_epochs=0 if stopped.is_set() else self.max_epochs,
                max_seconds=self.max_seconds,
                start=starts[index],
                random_state=seeds[index],
                callbacks=listeners,
            )
            if _read_in_parts(problems[index]):
                solution = replace(solution, state=None)  # its copies of columns would take the room of the next one
            if solution.status is Status.INTERRUPTED:
                stopped.set()
            elif stopped.is_set() and solution.status is not Status.CONVERGED:
                solution = replace(solution, status=Status.INTERRUPTED)
            end()
            return solution

        with self._live_table(title) as table:
            if len(problems) == 1:
                return [run(0, table)]
            show = [None if table is None else table.labelled(label) for label in labels]
            # Data that are read in parts have room for the copies of one solver.
            n_jobs = 1 if _read_in_parts(problems[0]) else self.n_jobs
            return run_jobs([partial(run, *each) for each in enumerate(show)], n_jobs, problems[0].size, stopped)

    def _live_table(self, title: str) -> Any:
        if not self.verbose:
            return nullcontext(None)
        from saddlery.report.live import LiveTable  # only those who watch pay for it

        return LiveTable(title, tol=self.tol)

    def _set_weights(self, coefs: Any, intercepts: np.ndarray) -> None:
        """Take the weights (outputs x features) and the intercepts of all outputs."""
        raise NotImplementedError

    def _fit_problems(
        self, problems: Sequence[Any], starts: Sequence[Any], labels: Sequence[str], rows: Rows, task: FitTask
    ) -> None:
        """Solve the problems of all outputs and keep what came out; of several, the least certified one speaks for all."""
        solutions = self._solve_all(problems, starts, labels, task)
        self._set_weights(*_weights_of(solutions))
        self.loss_, self.penalty_ = problems[0].loss, problems[0].penalty
        gaps = [solution.certificate.relative_gap for solution in solutions]
        undone = [k for k, solution in enumerate(solutions) if solution.status is not Status.CONVERGED]
        worst = max(undone or range(len(solutions)), key=gaps.__getitem__)
        duals = [rows.spread(solution.dual, problem) for solution, problem in zip(solutions, problems, strict=True)]
        self._row_weights = None if rows.weights is None else rows.spread(rows.weights)  # what a model file needs to certify again
        self.dual_coef_ = rows.columns(duals)
        self.certificates_ = [solution.certificate for solution in solutions]
        self.traces_ = [solution.trace for solution in solutions]
        self.certificate_ = solutions[worst].certificate
        self.trace_ = solutions[worst].trace
        self.status_ = solutions[worst].status
        self.solver_ = solutions[worst].solver
        self.n_iter_ = max(solution.epochs for solution in solutions)
        if undone:
            self._warn(solutions[worst], len(undone), len(solutions))

    def _warn(self, solution: Solution, undone: int, total: int) -> None:
        where = "" if total == 1 else f" for {undone} of {total} classes"
        warnings.warn(
            f"{type(self).__name__} is not certified to tol={self.tol:g}{where}: a relative gap of "
            f"{solution.certificate.relative_gap:.2e} was reached in {solution.epochs} epochs ({solution.status}); "
            f"{REMEDIES[solution.status]}",
            ConvergenceWarning,
            stacklevel=6,
        )


def _weights_of(solutions: Sequence[Solution]) -> tuple[Any, np.ndarray]:
    """Weights (outputs x features) and intercepts: one solution for each output, or one for all, with a column for each."""
    if len(solutions) == 1 and solutions[0].w.ndim == 2:
        W = solutions[0].w
        return W.T.tocsr() if sp.issparse(W) else np.ascontiguousarray(W.T), solutions[0].b
    return np.stack([solution.w for solution in solutions]), np.array([solution.b for solution in solutions])


def draw_seeds(random_state: Any, count: int) -> list[int]:
    """One seed for each problem, all from one source."""
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return [int(seed) for seed in np.random.default_rng(random_state).integers(2**31, size=count)]
