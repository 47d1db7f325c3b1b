"""`FScoreClassifier`: two classes, the F-score that is guaranteed against every labelling in agreement with the data."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from saddlery.errors import InputError
from saddlery.estimators.card import CertificateCard
from saddlery.estimators.inputs import check_labels, check_matrix, check_targets
from saddlery.estimators.one_fit import OneFit, two_classes
from saddlery.estimators.parameters import check_number, check_settings
from saddlery.matrix import Matrix
from saddlery.problems.fscore import FScoreProblem
from saddlery.solvers.base import Solution
from saddlery.solvers.fscore_segments import batch_marginals
from saddlery.solvers.precision_at_k import solve_precision

__all__ = ["FScoreClassifier", "best_threshold"]


def best_threshold(scores: np.ndarray, positive: np.ndarray, beta: float = 1.0) -> float:
    """The threshold t for which predicting ``scores > t`` has the largest F-score, in the middle between two scores.

    Parameters
    ----------
    scores : array of shape (n,)
        Scores of rows that were not trained on.
    positive : array of bool of shape (n,)
        Which rows are positive.
    beta : float
        Of the F-score.

    Examples
    --------
    >>> best_threshold(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, False, True, False]))
    0.5
    """
    order = np.argsort(-scores, kind="stable")
    sorted_scores, hits = scores[order], np.cumsum(positive[order])
    predicted = np.arange(1, scores.size + 1)
    values = (1.0 + beta**2) * hits / (beta**2 * max(int(hits[-1]), 1) + predicted)
    last = np.append(sorted_scores[1:] < sorted_scores[:-1], True)  # ties are predicted together
    at = int(np.argmax(np.where(last, values, -1.0)))
    if at + 1 == scores.size:
        return float(sorted_scores[-1] - 1.0)
    return float(0.5 * (sorted_scores[at] + sorted_scores[at + 1]))


class FScoreClassifier(OneFit, ClassifierMixin, CertificateCard, BaseEstimator):
    """A linear classifier that optimises the F-score by adversarial prediction, with a certificate.

    The weights maximise the F-score that a (randomised) prediction is sure of, whatever the true labels, as long as these agree
    with the training data in the means of the features over positives, up to a penalty ``alpha/2 |w|^2``. That score lies between
    ``score_bounds_[0]`` and ``score_bounds_[1]``, which is proved for all labellings of all rows.

    It is not a way to better test scores as such: a logistic regression whose threshold was tuned on held-out rows is usually
    level. With the natural threshold 0 it spares the tuning; ``threshold="cv"`` makes it level where 0 is not good.

    Parameters
    ----------
    beta : float, default=1.0
        Recall counts so much more than precision.
    alpha : float, default=1e-3
        Strength of the penalty on the weights.
    smoothing : float, default=0.0
        Strength of entropies that smooth the game. 0 is the F-score itself, for any number of rows. Others are for a few thousand
        rows at most, and bounds are then those of the smoothed game.
    threshold : {"zero", "cv"} or float, default="zero"
        Rows with a larger score are predicted positive. ``"cv"`` finds it by cross-validation with `cv` folds. With `k`, "zero"
        stands for the score that just so many of the training rows exceed.
    k : int or float, optional
        Optimise the precision among so many rows (or so large a share of them) instead of the F-score: the predictor calls exactly
        k of the training rows positive. Exact for any number of rows; `beta`, `smoothing` and `solver` have no say then.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    solver : str or solver, default="auto"
        ``"double_oracle"`` without smoothing, else ``"extragradient"`` or ``"breg_svrg"``.
    tol : float, default=1e-2
        Stop when the gap between the bounds of the score is at most this share of the larger of them.
    max_epochs : int, default=1000
        Budget in epochs of the solver.
    max_seconds : float, optional
        Budget in seconds.
    cv : int, default=3
        Folds for ``threshold="cv"``.
    random_state : int, RandomState, Generator or None
        Seed of solvers that draw, and of the folds.
    verbose : int, default=0
        Show a live table of epochs, values and gaps. Values are minus the bounds of the score.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
    threshold_ : float
    share_ : float or None
        With `k`, the share of rows that is called positive.
    classes_ : array of shape (2,)
        The second is the positive one.
    score_bounds_ : (float, float)
        Bounds of the optimal value: the score guaranteed less the penalty.
    certificate_, trace_, status_, solver_, n_iter_
        What is proved of the weights, and how it came about. Values are minus those of the score, since the learner minimises.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import saddlery as sd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(400, weights=[0.9], class_sep=1.5, random_state=0)
    >>> model = sd.FScoreClassifier(alpha=0.01).fit(X, y)
    >>> low, high = model.score_bounds_
    >>> bool(0.0 < low <= high <= low + 0.01), model.certificate_.relative_gap <= 1e-2
    (True, True)
    """

    def __init__(
        self,
        beta: float = 1.0,
        alpha: float = 1e-3,
        smoothing: float = 0.0,
        threshold: Any = "zero",
        k: Any = None,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-2,
        max_epochs: int = 1000,
        max_seconds: float | None = None,
        cv: int = 3,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.beta = beta
        self.alpha = alpha
        self.smoothing = smoothing
        self.threshold = threshold
        self.k = k
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> FScoreClassifier:
        """Fit the model. Sample weights are not taken: the F-score counts rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.
        y : array-like of shape (n_rows,)
            Labels of two classes; the larger one is the positive.

        Returns
        -------
        FScoreClassifier
            Itself.
        """
        check_settings(self)
        for name in ("beta", "alpha", "smoothing"):
            check_number(name, getattr(self, name))
        self._check_threshold()
        matrix = check_matrix(self, X, reset=True)
        self.share_ = None if self.k is None else self._count(matrix.shape[0]) / matrix.shape[0]
        y = check_targets(self, y, matrix.shape[0])
        check_labels(y)
        self.classes_, codes = two_classes(y, "fit one of them against the rest")
        solution = self._solve(matrix, codes, self.verbose)
        self.coef_, self.intercept_ = solution.w[None, :].copy(), np.array([solution.b])
        self.score_bounds_ = (-solution.certificate.primal, -solution.certificate.dual)
        self.threshold_ = self._find_threshold(matrix, codes)
        self._keep(solution, "accept this by a larger tol")
        return self

    def _check_threshold(self) -> None:
        named = isinstance(self.threshold, str)
        if not (
            self.threshold in ("zero", "cv") if named else isinstance(self.threshold, Real) and np.isfinite(float(self.threshold))
        ):
            raise InputError(f"threshold must be 'zero', 'cv' or a finite number, not {self.threshold!r}")

    def _count(self, n: int) -> int:
        """Rows of n that are called positive."""
        number = isinstance(self.k, Real) and not isinstance(self.k, bool)
        if not (number and (self.k >= 1 if float(self.k).is_integer() else 0 < self.k < 1)):
            raise InputError(f"k must be a whole number of rows or a share between 0 and 1, not {self.k!r}")
        if self.threshold == "cv":
            raise InputError("threshold='cv' is for the F-score: with k the threshold follows from k")
        return int(self.k) if self.k >= 1 else max(1, round(float(self.k) * n))

    def _solve(self, matrix: Matrix, codes: np.ndarray, verbose: int) -> Solution:
        if self.k is not None:
            budget = (self.max_epochs, self.max_seconds)
            settings = (self._count(codes.size), self.alpha, self.fit_intercept, self.tol, *budget)
            with self._live_table(verbose) as table:
                return solve_precision(matrix, codes, *settings, callbacks=() if table is None else (table,))
        problem = FScoreProblem(matrix, codes, self.alpha, self.smoothing, self.beta, self.fit_intercept)
        return self._solve_problem(problem, verbose)

    def _find_threshold(self, matrix: Matrix, codes: np.ndarray) -> float:
        if self.threshold == "zero" and self.k is not None:
            scores = np.sort(matrix.matvec(self.coef_[0]) + self.intercept_[0])[::-1]
            count = self._count(codes.size)
            return float(scores[count - 1 : count + 1].mean()) if count < codes.size else float(scores[-1] - 1.0)
        if self.threshold == "zero":
            return 0.0
        if self.threshold != "cv":
            return float(self.threshold)
        fewest = int(np.bincount(codes).min())
        if fewest < self.cv:
            raise InputError(f"threshold='cv' needs {self.cv} rows of each class, one for each fold, but one class has {fewest}")
        scores = np.empty(codes.size)
        seed = self.random_state if isinstance(self.random_state, int | np.integer | np.random.RandomState) else None
        folds = StratifiedKFold(self.cv, shuffle=seed is not None, random_state=seed)
        for train, held_out in folds.split(np.zeros(codes.size), codes):
            part = self._solve(matrix.take_rows(train), codes[train], 0)
            scores[held_out] = matrix.take_rows(held_out).matvec(part.w) + part.b
        return best_threshold(scores, codes == 1, float(self.beta))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``X w + b``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        return check_matrix(self, X, reset=False).matvec(self.coef_[0]) + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """Predict each row by itself: positive if its score exceeds `threshold_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.

        Returns
        -------
        array of shape (n_rows,)
        """
        positive = self.decision_function(X) > self.threshold_
        return self.classes_[positive.astype(int)]

    def set_scores(self, X: Any) -> np.ndarray:
        """Play the game for these rows together, at fixed weights: how probably the best mixed prediction calls each positive.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            All rows of a batch.

        Returns
        -------
        array of shape (n_rows,)
            Numbers from 0 to 1; they do not depend on `threshold_`. With `k`, 1 for the share of rows with the largest scores.
        """
        scores = self.decision_function(X)
        if self.share_ is not None:
            marks = np.zeros(scores.size)
            marks[np.argsort(-scores, kind="stable")[: max(1, round(self.share_ * scores.size))]] = 1.0
            return marks
        return batch_marginals(scores / scores.size, float(self.beta) ** 2)

    def predict_set(self, X: Any) -> np.ndarray:
        """Predict all rows of a batch together: positive where :meth:`set_scores` exceeds one half.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            All rows of a batch.

        Returns
        -------
        array of shape (n_rows,)
        """
        positive = self.set_scores(X) > 0.5
        return self.classes_[positive.astype(int)]
