"""What estimators of one problem share: solving it with a live table, and warning where the tolerance was not certified."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import type_of_target

from saddlery.errors import InputError
from saddlery.estimators.base import REMEDIES
from saddlery.estimators.inputs import encode_labels
from saddlery.solvers.base import Solution, Status
from saddlery.solvers.loop import solve

__all__ = ["OneFit", "two_classes"]


class OneFit:
    """A mixin for estimators with the parameters solver, tol, max_epochs, max_seconds and, if anything is drawn, random_state."""

    solver: Any
    tol: float
    max_epochs: int
    max_seconds: float | None
    random_state: Any = 0

    def _solve_problem(self, problem: Any, verbose: int) -> Solution:
        """Solve the problem; who watches sees a table."""
        with self._live_table(verbose) as table:
            return solve(
                problem,
                self.solver,
                tol=self.tol,
                max_epochs=self.max_epochs,
                max_seconds=self.max_seconds,
                random_state=self.random_state,
                callbacks=() if table is None else (table,),
            )

    def _live_table(self, verbose: int) -> Any:
        if not verbose:
            return nullcontext(None)
        from saddlery.report.live import LiveTable  # only those who watch pay for it

        return LiveTable(type(self).__name__, tol=self.tol)

    def _keep(self, solution: Solution, otherwise: str) -> None:
        """Set what every estimator tells of its solution, and warn unless it is certified.

        `otherwise` says what to do where it was not the budget that ended the run. Called by `fit` itself, so that the warning
        points at who called it.
        """
        self.certificate_, self.trace_, self.status_ = solution.certificate, solution.trace, solution.status
        self.solver_, self.n_iter_ = solution.solver, max(solution.epochs, 1)
        if solution.status is Status.CONVERGED:
            return
        budgets = (Status.MAX_EPOCHS, Status.MAX_SECONDS)
        remedy = REMEDIES[solution.status] if solution.status in budgets else otherwise
        warnings.warn(
            f"{type(self).__name__} is not certified to tol={self.tol:g}: a relative gap of "
            f"{solution.certificate.relative_gap:.2e} was reached in {solution.epochs} epochs ({solution.status}); {remedy}",
            ConvergenceWarning,
            stacklevel=3,
        )


def two_classes(y: np.ndarray, remedy: str) -> tuple[np.ndarray, np.ndarray]:
    """The two classes of y, and the class of each row as 0 and 1; refuses other numbers of classes, with a remedy for more."""
    classes, codes = encode_labels(y)
    if classes.size < 2:
        raise InputError(f"the rows that count hold one class only ({classes[0]!r}): give rows of two classes")
    if classes.size > 2:
        raise InputError(
            f"Only binary classification is supported. The type of the target is {type_of_target(y)}: "
            f"y holds {classes.size} classes; {remedy}"
        )
    return classes, codes
