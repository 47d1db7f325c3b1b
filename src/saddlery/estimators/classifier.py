"""`LinearClassifier`: two classes, one class against the rest, or all classes at once, with a penalty or a constraint."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from saddlery.errors import InputError, unknown_name
from saddlery.estimators.base import LinearModel
from saddlery.estimators.callbacks import FitTask, with_callbacks
from saddlery.estimators.clusters import lazy_rows, on_clusters
from saddlery.estimators.inputs import (
    Rows,
    check_labels,
    check_matrix,
    check_rows,
    check_targets,
    class_weights,
    encode_labels,
)
from saddlery.estimators.parameters import check_settings, make_loss, make_penalty, make_row_loss
from saddlery.losses import Logistic, Softmax
from saddlery.matrix import Matrix
from saddlery.problems.linear import LinearProblem
from saddlery.problems.multiclass import MulticlassProblem

__all__ = ["BaseLinearClassifier", "LinearClassifier", "class_problems"]


def _is_logistic(estimator: Any) -> bool:
    if estimator.loss == "logistic" or isinstance(estimator.loss, Logistic | Softmax):
        return True
    raise AttributeError("probabilities need loss='logistic': other losses do not estimate them")


def check_multiclass(multiclass: Any) -> None:
    """Refuse schemes that are not known."""
    if multiclass not in ("joint", "ovr"):
        raise unknown_name("multiclass scheme", multiclass, ["joint", "ovr"])


def class_problems(
    matrix: Matrix, codes: np.ndarray, loss: Any, penalty: Any, weights: np.ndarray | None, fit_intercept: bool
) -> list[LinearProblem]:
    """One problem for two classes, else one for each class against the rest; all share the matrix."""
    if codes.max() > 1:
        return LinearProblem.one_vs_rest(matrix, codes, loss, penalty, weights, fit_intercept)
    return [LinearProblem(matrix, np.where(codes == 1, 1.0, -1.0), loss, penalty, weights, fit_intercept)]


class BaseLinearClassifier(ClassifierMixin, LinearModel):
    """What the classifier and its cross-validated form share: labels, predictions, one problem for each class."""

    classes_: np.ndarray
    class_weight: Any

    @lazy_rows
    def decision_function(self, X: Any) -> np.ndarray:
        """Margins: positive for the second class, or one column for each of several classes.

        With ``multiclass="joint"`` two classes have a column each too: their difference is returned.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        array of shape (n_rows,) or (n_rows, n_classes)
        """
        margins = self._margins(X)
        if self.classes_.size > 2:
            return margins
        return margins[:, 0] if margins.shape[1] == 1 else margins[:, 1] - margins[:, 0]

    @lazy_rows
    def predict(self, X: Any) -> np.ndarray:
        """Predict labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        array of shape (n_rows,)
        """
        margins = self.decision_function(X)
        return self.classes_[(margins > 0.0).astype(int) if margins.ndim == 1 else np.argmax(margins, axis=1)]

    @available_if(_is_logistic)
    @lazy_rows
    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities of the classes; only for the logistic loss.

        With several classes these are the probabilities of the one-vs-rest models, divided by their sum; with
        ``multiclass="joint"`` the softmax of the margins.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        array of shape (n_rows, n_classes)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return np.column_stack([expit(-margins), expit(margins)])
        logs = self._logs(margins)  # in logarithms, so that rows whose probabilities all underflow still sum to one
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    @available_if(_is_logistic)
    @lazy_rows
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes; only for the logistic loss.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        array of shape (n_rows, n_classes)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([margins, -margins]))
        logs = self._logs(margins)
        return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)

    def _logs(self, margins: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities of several classes, but for a constant of each row."""
        return margins if hasattr(self.loss_, "row_value") else -np.logaddexp(0.0, -margins)

    def _check_data(
        self, X: Any, y: Any, sample_weight: Any, accept_sparse: Any = ("csr", "csc")
    ) -> tuple[Matrix, Rows, np.ndarray]:
        """The matrix of the rows that count, which these are, and their classes as numbers; sets `classes_`."""
        matrix = check_matrix(self, X, reset=True, accept_sparse=accept_sparse)
        y = check_targets(self, y, matrix.shape[0], X)
        check_labels(y)
        rows = check_rows(sample_weight, matrix.shape[0])
        classes, codes = encode_labels(rows.take(y))
        if classes.size < 2:
            what = "y holds one class only" if rows.kept is None else "the rows of positive weight hold one class only"
            raise InputError(f"{what} ({classes[0]!r}): give rows of at least two classes")
        weights = class_weights(self.class_weight, classes, codes, rows.weights)
        self.classes_ = classes
        return rows.take_matrix(matrix), rows._replace(weights=weights), codes

    def _labels(self) -> list[str]:
        """What the outputs are called."""
        return [str(label) for label in (self.classes_[1:] if self.classes_.size == 2 else self.classes_)]

    def _set_weights(self, coefs: Any, intercepts: np.ndarray) -> None:
        self.coef_, self.intercept_ = coefs, intercepts


class LinearClassifier(BaseLinearClassifier):
    """Linear classification with a certificate of how near to the optimum it is.

    Minimises the weighted mean of the loss plus the penalty; the intercept is never penalised::

        l1           alpha * ||w||_1
        l2           alpha / 2 * ||w||^2
        elasticnet   alpha * (l1_ratio * ||w||_1 + (1 - l1_ratio) / 2 * ||w||^2)

    or subject to a constraint of size `radius`, then without a penalty::

        l1_ball      ||w||_1 <= radius                     simplex      w >= 0, sum of w = radius
        l2_ball      ||w||_2 <= radius                     box          -radius <= w_j <= radius

    or to both: ``penalty="l1"`` with a radius is the penalty inside the l1 ball, ``"l2"`` and ``"elasticnet"`` inside the l2 ball.

    scikit-learn's ``LogisticRegression(C=C)`` is ``alpha = 1 / (C * n_rows)``. Three or more classes are fitted one against the
    rest, each with a certificate of its own; with ``multiclass="joint"`` all at once, with one certificate.

    Parameters
    ----------
    loss : {"logistic", "hinge", "smooth_hinge", "squared_hinge", "squared", "huber"} or loss, default="logistic"
        An instance sets options: ``sd.losses.SmoothHinge(gamma=0.5)``.
    penalty : {"l1", "l2", "elasticnet", "l1_ball", "l2_ball", "simplex", "box"} or penalty, default="l1"
        An instance carries its own strength or size, such as ``sd.penalties.KSupport(5.0, k=10)``; `alpha` and `l1_ratio`
        are then not used.
    alpha : float, default=1e-3
        Strength of the penalty, positive. Constraints have none.
    l1_ratio : float, default=0.5
        Share of the l1 norm, for ``penalty="elasticnet"``.
    radius : float, optional
        Size of the constraint, positive; needed by those above, and a bound beside the penalty with the other names.
    multiclass : {"ovr", "joint"}, default="ovr"
        Three or more classes: each against the rest, or all in one problem. ``"joint"`` turns ``loss="logistic"`` into the softmax
        loss and ``loss="hinge"`` into the one of Crammer and Singer; the penalty sums over the weights of all classes. Two classes
        keep a row of weights each, so that l2 is half as strong as in the binary problem.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    solver : str or solver, default="auto"
        A name (see ``saddlery solvers``), a solver with options, or ``"auto"``.
    tol : float, default=1e-4
        Stop when the relative gap is certified to be at most this; means the same for every solver.
    max_epochs : int, default=1000
        Budget in epochs of the solver, for each class.
    max_seconds : float, optional
        Budget in seconds, for each class.
    class_weight : dict, "balanced" or None
        Weights of classes; they multiply the weights of their rows, in each of the one-vs-rest problems alike.
        ``"balanced"`` gives all classes the same total weight.
    warm_start : bool, default=False
        Start from the coefficients of the last fit, and from its dual point if the number of rows is the same.
    random_state : int, RandomState, Generator or None
        Seed of solvers that draw.
    n_jobs : int, optional
        Threads over the classes, with three or more of them.
    verbose : int, default=0
        Show a live table of epochs, values and gaps.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        With ``multiclass="joint"`` a row for each class, of two classes too, and a sparse array if there are more than 20 million
        weights and the penalty sets most of them to zero.
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    dual_coef_ : array of shape (n_rows,) or (n_rows, n_classes)
        Dual points of the certificates: at the optimum the slopes of the loss at the margins. 0 for rows of weight 0.
    certificates_ : list of Certificate
        One for two classes or ``multiclass="joint"``, else one for each class against the rest.
    certificate_ : Certificate
        The one of the least certified class, so that ``certificate_.relative_gap`` bounds those of all classes.
    traces_, trace_ : list of Trace, Trace
        Certificates during the fit, of all problems and of the least certified one.
    status_ : Status
        How the fit ended; for several classes converged only if all have.
    solver_ : str
        Name of the solver that ran.
    n_iter_ : int
        Epochs that it took; the largest number of all classes.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import saddlery as sd
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = sd.LinearClassifier(alpha=0.01).fit(scale(X), y)
    >>> model.certificate_.relative_gap <= 1e-4, str(model.status_)
    (True, 'certified to the tolerance')
    """

    def __init__(
        self,
        loss: Any = "logistic",
        penalty: Any = "l1",
        alpha: float = 1e-3,
        l1_ratio: float = 0.5,
        radius: float | None = None,
        multiclass: str = "ovr",
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_epochs: int = 1000,
        max_seconds: float | None = None,
        class_weight: Any = None,
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
        self.multiclass = multiclass
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @on_clusters
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix or store of shape (n_rows, n_features)
            Data. A dask array or data frame, or the path of Parquet files, is fitted on the cluster, partition by partition.
        y : array-like of shape (n_rows,), optional
            Labels; those of the store if X is one and none are given. For distributed data a Dask collection with the partitions
            of X, or the name of a column of X.
        sample_weight : array-like of shape (n_rows,), optional
            Weights, 0 or more. A weight of 2 equals the row twice, 0 equals no row.

        Returns
        -------
        LinearClassifier
            Itself.
        """
        check_multiclass(self.multiclass)
        joint = self.multiclass == "joint"
        loss = make_row_loss(self.loss) if joint else make_loss(self.loss, "classification")
        penalty = make_penalty(self.penalty, self.alpha, self.l1_ratio, self.radius)
        check_settings(self)
        before = getattr(self, "classes_", None)
        matrix, rows, codes = self._check_data(X, y, sample_weight)
        labels = [""] if joint else self._labels()
        task = FitTask(self, X, y, sample_weight, [f"class {label}" for label in labels] if len(labels) > 1 else ())
        same_classes = before is not None and np.array_equal(before, self.classes_)
        starts = self._starts(rows) if self.warm_start and same_classes else None
        problems: list[Any]
        if joint:
            problems = [MulticlassProblem(matrix, codes, loss, penalty, rows.weights, self.fit_intercept)]
        else:
            problems = class_problems(matrix, codes, loss, penalty, rows.weights, self.fit_intercept)
        self._fit_problems(problems, starts or [None] * len(problems), labels, rows, task)
        task.end()
        return self

    def _starts(self, rows: Rows) -> list[Any] | None:
        """The weights of the last fit, and its dual points if there are as many rows; None if the features are others."""
        joint = self.multiclass == "joint"
        if not hasattr(self, "coef_") or self.coef_.shape[1] != self.n_features_in_ or joint != hasattr(self.loss_, "row_value"):
            return None
        if joint:
            return [(self.coef_.T, self.intercept_, rows.take(self.dual_coef_) if len(self.dual_coef_) == rows.n else None)]
        duals = self.dual_coef_.reshape(-1, len(self.coef_)).T
        fits = duals.shape[1] == rows.n
        return [(w, b, rows.take(a) if fits else None) for w, b, a in zip(self.coef_, self.intercept_, duals, strict=True)]
