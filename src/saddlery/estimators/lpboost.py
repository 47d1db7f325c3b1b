"""`LPBoostClassifier`: the combination of hypotheses with the largest soft margin, with a certificate."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from saddlery.errors import InputError
from saddlery.estimators.hypotheses import Outputs, make_hypotheses
from saddlery.estimators.inputs import Rows, check_labels, check_matrix, check_rows, check_targets
from saddlery.estimators.one_fit import OneFit, two_classes
from saddlery.estimators.parameters import check_number, check_settings
from saddlery.matrix import Matrix
from saddlery.problems.boosting import BoostingProblem

__all__ = ["LPBoostClassifier"]


class LPBoostClassifier(OneFit, ClassifierMixin, BaseEstimator):
    """Boosting as a game with a certificate: LPBoost with entropies, all hypotheses at once.

    A distribution w over hypotheses and a distribution d over rows play against each other,
    ``max_w min_d sum_i d_i y_i (H w)_i - weight_entropy * sum w log w + row_entropy * sum d log d`` with ``d <= nu``: w has the
    largest margin on the rows that are hardest for it. Two classes only.

    Parameters
    ----------
    hypotheses : {"stumps", "features"} or list of fitted classifiers, default="stumps"
        Stumps are 1 where a feature exceeds a threshold, else -1. Features are taken as they are and should lie in [-1, 1] or
        [0, 1]. Of fitted classifiers the predicted labels count.
    complements : bool, default=True
        Whether each hypothesis may also be used with the other sign.
    nu : float, default=0.1
        Largest weight of a row, as a share of all; ``nu * n_rows`` must be 1 or more. The smaller, the more rows share the
        attention, and the less single mislabelled rows matter.
    row_entropy, weight_entropy : float, default=0.01
        Strengths of both entropies. 0 is allowed for both and makes it LPBoost without them, which is solved much more slowly.
    max_thresholds : int, optional, default=16
        Stumps for each feature at most; None for one between any two values.
    solver : str or Solver, default="auto"
        "extragradient" (the default) or "breg_svrg".
    tol : float, default=1e-4
        Bound on the relative gap: 1 is the value of the game.
    max_epochs : int, default=1000
        Budget of the solver.
    max_seconds : float, optional
        Budget in seconds.
    random_state : int, RandomState, Generator or None
        Seed of solvers that draw.
    verbose : int, default=0
        Whether to show the certificates while it runs.

    Attributes
    ----------
    estimator_weights_ : array of shape (n_hypotheses,)
        Weights of the hypotheses, less those of their complements: negative where the complement is preferred.
    sample_weights_ : array of shape (n_rows,)
        The opponent's weights of the rows: large for those that are hard. 0 for rows of weight 0.
    mixed_weights_ : array of shape (n_hypotheses,) or (2 * n_hypotheses,)
        The distribution over hypotheses and then complements of which the certificate speaks.
    hypotheses_ : object
        What gives the outputs; stumps have `features` and `thresholds`.
    value_bounds_ : (float, float)
        The value of the game lies between these, with w maximising as above. `certificate_` has the opposite signs.
    certificate_, trace_, status_, solver_, n_iter_
        What is proved, and how it came about.
    classes_ : array of shape (2,)
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import saddlery as sd
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = sd.LPBoostClassifier().fit(X, y)
    >>> model.score(X, y) > 0.95, model.certificate_.relative_gap <= 1e-4
    (True, True)
    """

    def __init__(
        self,
        hypotheses: Any = "stumps",
        *,
        complements: bool = True,
        nu: float = 0.1,
        row_entropy: float = 0.01,
        weight_entropy: float = 0.01,
        max_thresholds: int | None = 16,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_epochs: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.hypotheses = hypotheses
        self.complements = complements
        self.nu = nu
        self.row_entropy = row_entropy
        self.weight_entropy = weight_entropy
        self.max_thresholds = max_thresholds
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LPBoostClassifier:
        """Weigh the hypotheses.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.
        y : array-like of shape (n_rows,)
            Labels of two classes.
        sample_weight : array-like of shape (n_rows,), optional
            Weights, 0 or more. A weight of 2 equals the row twice, 0 equals no row.

        Returns
        -------
        LPBoostClassifier
            Itself.
        """
        self._check_parameters()
        matrix, rows, codes = self._check_data(X, y, sample_weight)
        self.hypotheses_ = make_hypotheses(self.hypotheses, matrix, self.classes_, self.max_thresholds)
        outputs = self.hypotheses_.outputs(matrix)
        if not self.complements:
            _warn_of_one_sign(outputs)
        problem = BoostingProblem(
            outputs.matrix,
            np.where(codes == 1, 1.0, -1.0),
            nu=self.nu,
            row_entropy=self.row_entropy,
            weight_entropy=self.weight_entropy,
            complements=self.complements,
            sample_weight=rows.weights,
            scales=outputs.scales,
            offsets=outputs.offsets,
        )
        solution = self._solve_problem(problem, self.verbose)
        self.mixed_weights_ = solution.w
        self.estimator_weights_ = problem.net_weights(solution.w)
        self.sample_weights_ = rows.spread(solution.dual)
        self.value_bounds_ = (-solution.certificate.primal, -solution.certificate.dual)
        self._keep(solution, "give larger entropies, or accept this by a larger tol")
        return self

    def _check_parameters(self) -> None:
        check_settings(self)
        for name in ("nu", "row_entropy", "weight_entropy"):
            check_number(name, getattr(self, name))
        if self.max_thresholds is not None:
            check_number("max_thresholds", self.max_thresholds, Integral)
            if self.max_thresholds < 1:
                raise InputError(f"max_thresholds must be 1 or more, not {self.max_thresholds!r}")

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Matrix, Rows, np.ndarray]:
        """The matrix of the rows that count, which these are, and their classes as 0 and 1; sets `classes_`."""
        matrix = check_matrix(self, X, reset=True)
        y = check_targets(self, y, matrix.shape[0])
        check_labels(y)
        rows = check_rows(sample_weight, matrix.shape[0])
        remedy = "wrap this estimator in sklearn.multiclass.OneVsRestClassifier"
        self.classes_, codes = two_classes(rows.take(y), remedy)
        return rows.take_matrix(matrix), rows, codes

    def decision_function(self, X: Any) -> np.ndarray:
        """The combined output of the hypotheses: positive for the second class; in [-1, 1] if the hypotheses are.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        return self.hypotheses_.outputs(check_matrix(self, X, reset=False)).combine(self.estimator_weights_)

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
        return self.classes_[(margins > 0.0).astype(int)]


def _warn_of_one_sign(outputs: Outputs) -> None:
    """Without complements, hypotheses that are never negative can only vote for the second class."""
    if outputs.offsets is not None:
        return
    values = outputs.matrix.values
    least, most = float(values.min()), float(values.max())
    if least >= 0.0 or most <= 0.0:
        warnings.warn(
            f"all outputs of the hypotheses are {'0 or more' if least >= 0.0 else '0 or less'}, so without complements "
            "one class only can be predicted: set complements=True",
            UserWarning,
            stacklevel=3,
        )
