"""`LinearRegressor`: least squares or Huber loss with a penalty or a constraint."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from saddlery.estimators.base import LinearModel
from saddlery.estimators.callbacks import FitTask, with_callbacks
from saddlery.estimators.inputs import as_numbers, check_matrix, check_rows, check_targets
from saddlery.estimators.parameters import check_settings, make_loss, make_penalty
from saddlery.problems.linear import LinearProblem

__all__ = ["BaseLinearRegressor", "LinearRegressor"]


class BaseLinearRegressor(RegressorMixin, LinearModel):
    """What the regressor and its cross-validated form share."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        array of shape (n_rows,)
        """
        return self._margins(X)

    def _set_weights(self, coefs: np.ndarray, intercepts: np.ndarray) -> None:
        self.coef_, self.intercept_ = coefs[0], float(intercepts[0])


class LinearRegressor(BaseLinearRegressor):
    """Linear regression with a certificate of how near to the optimum it is.

    Minimises the weighted mean of the loss plus the penalty; the intercept is never penalised::

        l1           alpha * ||w||_1
        l2           alpha / 2 * ||w||^2
        elasticnet   alpha * (l1_ratio * ||w||_1 + (1 - l1_ratio) / 2 * ||w||^2)

    or subject to a constraint of size `radius`, then without a penalty::

        l1_ball      ||w||_1 <= radius                     simplex      w >= 0, sum of w = radius
        l2_ball      ||w||_2 <= radius                     box          -radius <= w_j <= radius

    or to both: ``penalty="l1"`` with a radius is the penalty inside the l1 ball, ``"l2"`` and ``"elasticnet"`` inside the l2 ball.

    With ``loss="squared"``, which is ``(z - y)^2 / 2``, `alpha` means the same as in scikit-learn's ``Lasso`` and ``ElasticNet``.

    Parameters
    ----------
    loss : {"squared", "huber"} or loss, default="squared"
        An instance sets options: ``sd.losses.Huber(delta=2.0)``.
    penalty : {"l1", "l2", "elasticnet", "l1_ball", "l2_ball", "simplex", "box"} or penalty, default="l1"
        An instance carries its own strength or size, such as ``sd.penalties.KSupport(5.0, k=10)``; `alpha` and `l1_ratio`
        are then not used.
    alpha : float, default=1e-3
        Strength of the penalty, positive. Constraints have none.
    l1_ratio : float, default=0.5
        Share of the l1 norm, for ``penalty="elasticnet"``.
    radius : float, optional
        Size of the constraint, positive; needed by those above, and a bound beside the penalty with the other names.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    solver : str or solver, default="auto"
        A name (see ``saddlery solvers``), a solver with options, or ``"auto"``.
    tol : float, default=1e-4
        Stop when the relative gap is certified to be at most this; means the same for every solver.
    max_epochs : int, default=1000
        Budget in epochs of the solver.
    max_seconds : float, optional
        Budget in seconds.
    warm_start : bool, default=False
        Start from the coefficients of the last fit, and from its dual point if the number of rows is the same.
    random_state : int, RandomState, Generator or None
        Seed of solvers that draw.
    n_jobs : int, optional
        Has no effect for a single target; the same parameter as that of the classifier.
    verbose : int, default=0
        Show a live table of epochs, values and gaps.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    dual_coef_ : array of shape (n_rows,)
        Dual point of the certificate: at the optimum the slopes of the loss at the predictions. 0 for rows of weight 0.
    certificate_ : Certificate
        Objective, lower bound on the optimum, and the gap between them.
    trace_ : Trace
        Certificates during the fit.
    status_ : Status
        How the fit ended.
    solver_ : str
        Name of the solver that ran.
    n_iter_ : int
        Epochs that it took.
    certificates_, traces_ : list
        The same in lists of one, as for a classifier with several classes.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import saddlery as sd
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = sd.LinearRegressor(alpha=1.0, tol=1e-6).fit(X, y)
    >>> int((model.coef_ != 0).sum()), model.certificate_.relative_gap <= 1e-6
    (3, True)
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: Any = "l1",
        alpha: float = 1e-3,
        l1_ratio: float = 0.5,
        radius: float | None = None,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_epochs: int = 1000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix or store of shape (n_rows, n_features)
            Data.
        y : array-like of shape (n_rows,), optional
            Targets; those of the store if X is one.
        sample_weight : array-like of shape (n_rows,), optional
            Weights, 0 or more. A weight of 2 equals the row twice, 0 equals no row.

        Returns
        -------
        LinearRegressor
            Itself.
        """
        loss = make_loss(self.loss, "regression")
        penalty = make_penalty(self.penalty, self.alpha, self.l1_ratio, self.radius)
        check_settings(self)
        matrix = check_matrix(self, X, reset=True)
        n, d = matrix.shape
        y = check_targets(self, y, n, X)
        rows = check_rows(sample_weight, n)
        task = FitTask(self, X, y, sample_weight)
        start = None
        if self.warm_start and getattr(self, "coef_", np.empty(0)).shape == (d,):
            dual = rows.take(self.dual_coef_) if self.dual_coef_.shape == (n,) else None
            start = (self.coef_, self.intercept_, dual)
        problem = LinearProblem(rows.take_matrix(matrix), as_numbers(rows.take(y)), loss, penalty, rows.weights, self.fit_intercept)
        self._fit_problems([problem], [start], ["y"], rows, task)
        task.end()
        return self
