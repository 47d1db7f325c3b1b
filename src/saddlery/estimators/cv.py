"""`LinearClassifierCV` and `LinearRegressorCV`: the strength of the penalty by cross-validation over warm-started paths."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer

from saddlery.errors import InputError, UnsupportedError
from saddlery.estimators.base import LinearModel, draw_seeds
from saddlery.estimators.callbacks import FitTask, with_callbacks
from saddlery.estimators.classifier import BaseLinearClassifier, LinearClassifier, check_multiclass
from saddlery.estimators.inputs import Rows, as_numbers, check_matrix, check_rows, check_targets
from saddlery.estimators.parameters import check_number, check_settings, check_strength, make_loss, make_penalty
from saddlery.estimators.regressor import BaseLinearRegressor, LinearRegressor
from saddlery.estimators.search import Data, Fold, Search, make_folds
from saddlery.paths import check_alphas

__all__ = ["LinearClassifierCV", "LinearRegressorCV"]


class _SearchCV(LinearModel):
    """What both share: the grid, the choice of the best, the final fit."""

    alphas: Any
    n_alphas: int
    alpha_min_ratio: float | None
    l1_ratio: Any
    cv: Any
    scoring: Any
    refit: bool

    def _penalties(self) -> list[Any]:
        """One penalty of strength 1 for each l1_ratio; refuses parameters that make no sense on the way."""
        check_settings(self)
        check_number("n_alphas", self.n_alphas, Integral)
        check_strength(self.penalty)
        ratios = np.ravel(np.asarray(self.l1_ratio, dtype=object)).tolist()
        if not ratios:
            raise InputError("l1_ratio must hold at least one number")
        if len(ratios) > 1 and self.penalty != "elasticnet":
            raise InputError("several values of l1_ratio need penalty='elasticnet'")
        penalties = [make_penalty(self.penalty, 1.0, ratio) for ratio in ratios]
        return [penalty.scaled(1.0 / penalty.alpha) for penalty in penalties]

    def _fit_data(self, data: Data, rows: Rows, penalties: list[Any], template: Any, given: tuple[Any, Any, Any]) -> None:
        """Search the best penalty, and fit it on all rows. `template` is a model without weights, for `scoring`."""
        kind = "regression" if data.codes is None else "classification"
        options = {name: getattr(self, name) for name in ("solver", "tol", "max_epochs", "max_seconds")}
        options["random_state"] = draw_seeds(self.random_state, 1)[0]
        folds = make_folds(data, self.cv, rows)
        search = Search(make_loss(self.loss, kind), self.fit_intercept, options, self._scorer(template, data))
        if self.alphas is None:
            grids = search.grids(data, penalties, self.n_alphas, self.alpha_min_ratio)
        else:
            grids = [check_alphas(self.alphas)] * len(penalties)
        kinds = [f", l1_ratio {penalty.l1_ratio:g}" if len(penalties) > 1 else "" for penalty in penalties]
        task = FitTask(self, *given, [f"fold {k}{name}" for name in kinds for k in range(len(folds))])
        best = self._choose(search.run(data, folds, penalties, grids, self.n_jobs, task), penalties, grids)
        if self.refit:
            problems = search.problems(data, best)
            self._fit_problems(problems, [None] * len(problems), data.labels, rows, task.silent())
        task.end()

    def _choose(self, scores: np.ndarray, penalties: list[Any], grids: list[np.ndarray]) -> Any:
        """Set what the search found, and return the best penalty."""
        means = scores.mean(axis=2)
        if not np.isfinite(means).all():
            raise InputError("scoring gave NaN or infinity on some fold: choose another scoring, or fewer folds")
        i, at = np.unravel_index(int(np.argmax(means)), means.shape)  # of equals the first: the strongest penalty
        several = len(penalties) > 1
        self.alpha_ = float(grids[i][at])
        self.l1_ratio_ = getattr(penalties[i], "l1_ratio", None)
        self.alphas_ = np.stack(grids) if several else grids[0]
        self.scores_ = scores if several else scores[0]
        self.best_score_ = float(means[i, at])
        return penalties[i].scaled(self.alpha_)

    def _scorer(self, template: Any, data: Data) -> Any:
        """How to score weights on a fold by `scoring`; None for the held-out loss, which needs no model."""
        if self.scoring is None:
            return None
        scorer = self.scoring if callable(self.scoring) else get_scorer(self.scoring)

        def score(coefs: np.ndarray, intercepts: np.ndarray, fold: Fold) -> float:
            model = type(template)(loss=self.loss)
            vars(model).update(vars(template))
            model._set_weights(coefs, intercepts)
            weights = {} if data.sample_weight is None else {"sample_weight": data.sample_weight[fold.test]}
            held_out = fold.X_test.values if fold.X_test.compiled else fold.X_test
            return float(scorer(model, held_out, data.y[fold.test], **weights))

        return score


class LinearClassifierCV(BaseLinearClassifier, _SearchCV):
    """`LinearClassifier` whose strength of the penalty is chosen by cross-validation over warm-started paths.

    Parameters
    ----------
    loss : str or loss, default="logistic"
        As for `LinearClassifier`.
    penalty : {"l1", "l2", "elasticnet"} or penalty, default="l1"
        Of an instance only the kind counts (and its l1_ratio), not its strength.
    alphas : array-like, optional
        Strengths to try. By default `n_alphas` of them, from the smallest at which all weights are zero (on all rows) down to
        `alpha_min_ratio` times it.
    n_alphas : int, default=100
        Number of strengths of the default grid.
    alpha_min_ratio : float, optional
        Extent of the default grid: 1e-3, or 1e-5 for a penalty without an l1 part.
    l1_ratio : float or list of float, default=0.5
        Share or shares of the l1 norm to try, for ``penalty="elasticnet"``.
    cv : int, splitter or iterable of (train, test), optional
        Folds; by default five, stratified by class.
    scoring : str or callable, optional
        What to maximise on the held-out rows: by default minus the mean loss that the model minimises, summed over
        the classes of one-vs-rest. Else a
        name or a scorer of scikit-learn; it receives the sample weights if there are any.
    refit : bool, default=True
        Whether to fit the best strength on all rows. Without it there are scores, but no model.
    multiclass : {"ovr"}, default="ovr"
        Three or more classes: each against the rest, all with the same strength.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    solver : str or solver, default="auto"
        As for `LinearClassifier`.
    tol : float, default=1e-4
        Bound on the relative gap of every fit.
    max_epochs, max_seconds : int, float
        Budgets of each strength on each fold.
    class_weight : dict, "balanced" or None
        As for `LinearClassifier`; counts in the default scoring too.
    random_state : int, RandomState, Generator or None
        Seed of solvers that draw. It does not shuffle folds.
    n_jobs : int, optional
        Threads over the folds.
    verbose : int, default=0
        Show a live table of the final fit.

    Attributes
    ----------
    alpha_ : float
        The best strength. Of equal ones the largest.
    l1_ratio_ : float or None
        The best share of the l1 norm, where the penalty has one.
    alphas_ : array of shape (n_alphas,) or (n_l1_ratios, n_alphas)
        The strengths tried, from large to small.
    scores_ : array of shape (n_alphas, n_folds) or (n_l1_ratios, n_alphas, n_folds)
        Held-out scores, larger is better.
    best_score_ : float
        The largest mean score over the folds.
    coef_, intercept_, dual_coef_, certificate_, trace_, status_, ...
        Those of the final `LinearClassifier`.

    Examples
    --------
    >>> import saddlery as sd
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = sd.LinearClassifierCV(n_alphas=10).fit(scale(X), y)
    >>> model.scores_.shape, model.alpha_ in model.alphas_, model.certificate_.relative_gap <= 1e-4
    ((10, 5), True, True)
    """

    def __init__(
        self,
        loss: Any = "logistic",
        penalty: Any = "l1",
        alphas: Any = None,
        n_alphas: int = 100,
        alpha_min_ratio: float | None = None,
        l1_ratio: Any = 0.5,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        multiclass: str = "ovr",
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_epochs: int = 1000,
        max_seconds: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.alpha_min_ratio = alpha_min_ratio
        self.l1_ratio = l1_ratio
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.multiclass = multiclass
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearClassifierCV:
        """Choose the strength and fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.
        y : array-like of shape (n_rows,)
            Labels.
        sample_weight : array-like of shape (n_rows,), optional
            Weights, 0 or more, for fits and scores. A weight of 0 equals no row.

        Returns
        -------
        LinearClassifierCV
            Itself.
        """
        check_multiclass(self.multiclass)
        if self.multiclass == "joint":
            raise UnsupportedError(
                "LinearClassifierCV searches strengths for one class against the rest: for all classes at once give "
                "LinearClassifier(multiclass='joint') to GridSearchCV"
            )
        make_loss(self.loss, "classification")
        penalties = self._penalties()
        matrix, rows, codes = self._check_data(X, y, sample_weight, accept_sparse="csr")  # folds are cut from rows
        own = check_rows(sample_weight, rows.n).weights
        template = LinearClassifier(loss=self.loss)
        template.classes_, template.n_features_in_ = self.classes_, self.n_features_in_
        data = Data(matrix, self.classes_[codes], codes, rows.weights, own, self._labels())
        self._fit_data(data, rows, penalties, template, (X, y, sample_weight))
        return self


class LinearRegressorCV(BaseLinearRegressor, _SearchCV):
    """`LinearRegressor` whose strength of the penalty is chosen by cross-validation over warm-started paths.

    Parameters
    ----------
    loss : str or loss, default="squared"
        As for `LinearRegressor`.
    penalty : {"l1", "l2", "elasticnet"} or penalty, default="l1"
        Of an instance only the kind counts (and its l1_ratio), not its strength.
    alphas : array-like, optional
        Strengths to try. By default `n_alphas` of them, from the smallest at which all weights are zero (on all rows) down to
        `alpha_min_ratio` times it.
    n_alphas : int, default=100
        Number of strengths of the default grid.
    alpha_min_ratio : float, optional
        Extent of the default grid: 1e-3, or 1e-5 for a penalty without an l1 part.
    l1_ratio : float or list of float, default=0.5
        Share or shares of the l1 norm to try, for ``penalty="elasticnet"``.
    cv : int, splitter or iterable of (train, test), optional
        Folds; by default five.
    scoring : str or callable, optional
        What to maximise on the held-out rows: by default minus the mean loss that the model minimises. Else a
        name or a scorer of scikit-learn; it receives the sample weights if there are any.
    refit : bool, default=True
        Whether to fit the best strength on all rows. Without it there are scores, but no model.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    solver : str or solver, default="auto"
        As for `LinearRegressor`.
    tol : float, default=1e-4
        Bound on the relative gap of every fit.
    max_epochs, max_seconds : int, float
        Budgets of each strength on each fold.
    random_state : int, RandomState, Generator or None
        Seed of solvers that draw. It does not shuffle folds.
    n_jobs : int, optional
        Threads over the folds.
    verbose : int, default=0
        Show a live table of the final fit.

    Attributes
    ----------
    alpha_ : float
        The best strength. Of equal ones the largest.
    l1_ratio_ : float or None
        The best share of the l1 norm, where the penalty has one.
    alphas_ : array of shape (n_alphas,) or (n_l1_ratios, n_alphas)
        The strengths tried, from large to small.
    scores_ : array of shape (n_alphas, n_folds) or (n_l1_ratios, n_alphas, n_folds)
        Held-out scores, larger is better.
    best_score_ : float
        The largest mean score over the folds.
    coef_, intercept_, dual_coef_, certificate_, trace_, status_, ...
        Those of the final `LinearRegressor`.

    Examples
    --------
    >>> import saddlery as sd
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = sd.LinearRegressorCV(n_alphas=10).fit(X, y)
    >>> model.scores_.shape, model.coef_.shape, model.certificate_.relative_gap <= 1e-4
    ((10, 5), (10,), True)
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: Any = "l1",
        alphas: Any = None,
        n_alphas: int = 100,
        alpha_min_ratio: float | None = None,
        l1_ratio: Any = 0.5,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_epochs: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.alpha_min_ratio = alpha_min_ratio
        self.l1_ratio = l1_ratio
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearRegressorCV:
        """Choose the strength and fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Data.
        y : array-like of shape (n_rows,)
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            Weights, 0 or more, for fits and scores. A weight of 0 equals no row.

        Returns
        -------
        LinearRegressorCV
            Itself.
        """
        make_loss(self.loss, "regression")
        penalties = self._penalties()
        matrix = check_matrix(self, X, reset=True, accept_sparse="csr")  # folds are cut from rows
        targets = check_targets(self, y, matrix.shape[0], X)
        rows = check_rows(sample_weight, matrix.shape[0])
        targets = as_numbers(rows.take(targets))
        template = LinearRegressor(loss=self.loss)
        template.n_features_in_ = self.n_features_in_
        data = Data(rows.take_matrix(matrix), targets, None, rows.weights, rows.weights, ["y"])
        self._fit_data(data, rows, penalties, template, (X, y, sample_weight))
        return self
