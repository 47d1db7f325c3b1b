"""Cross-validation from second moments: the scores of folds fitted one by one, and no copy of their rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold, LeaveOneOut, PredefinedSplit, ShuffleSplit, TimeSeriesSplit

import saddlery as sd
from saddlery.estimators.fold_moments import moments_of_folds
from saddlery.matrix import Matrix, as_matrix
from saddlery.penalties import L1

SHUFFLED = KFold(4, shuffle=True, random_state=0)
SOME_NEVER_HELD_OUT = PredefinedSplit(np.arange(120) % 5 - 1)


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 6)) @ (np.eye(6) + 0.3) + rng.uniform(-5.0, 5.0, 6)
    return X, X[:, 0] - X[:, 4] + rng.standard_normal(120) + 3.0, rng.uniform(0.1, 2.0, 120)


def _fitted(X, y, weights=None, **options):
    return sd.LinearRegressorCV(n_alphas=7, refit=False, tol=1e-9, **options).fit(X, y, weights)


@pytest.mark.parametrize("penalty", ["l1", "l2", "elasticnet"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("cv", [SHUFFLED, SOME_NEVER_HELD_OUT], ids=["all", "rest"])
def test_scores_are_those_of_folds_one_by_one(data, penalty, intercept, cv, monkeypatch):
    X, y, weights = data
    options = {"penalty": penalty, "fit_intercept": intercept, "cv": cv}
    by_rows = []
    with monkeypatch.context() as patch:
        patch.setattr("saddlery.estimators.search.moments_of_folds", lambda *_: None)
        by_rows = [_fitted(X, y, **options), _fitted(X, y, weights, **options)]
    monkeypatch.setattr(Matrix, "take_rows", None)  # no fold is copied
    by_moments = [_fitted(X, y, **options), _fitted(X, y, weights, **options)]
    single = _fitted(X.astype(np.float32), y, **options)
    for ours, theirs in zip([*by_moments, single], [*by_rows, by_rows[0]], strict=True):
        rough = 1e-3 if ours is single else 1e-5
        np.testing.assert_allclose(ours.alphas_, theirs.alphas_, rtol=rough)
        np.testing.assert_allclose(ours.scores_, theirs.scores_, rtol=rough)


def test_perfect_fits_are_scored_on_the_rows(data):
    """What is left of the targets has no digits in their moments."""
    X, _, _ = data
    y = X @ np.arange(6.0)
    model = sd.LinearRegressorCV(alphas=[1e-7, 1e-8], cv=SHUFFLED, fit_intercept=False, refit=False, tol=1e-12).fit(X, y)
    for k, (train, test) in enumerate(SHUFFLED.split(X)):
        fit = sd.LinearRegressor(alpha=1e-8, fit_intercept=False, tol=1e-12).fit(X[train], y[train])
        assert model.scores_[1, k] == pytest.approx(-0.5 * np.mean((fit.predict(X[test]) - y[test]) ** 2), rel=0.1)


def test_a_fold_that_rounding_keeps_from_the_tolerance_is_none(data):
    X, y, _ = data
    folds = moments_of_folds(as_matrix(X), y, None, list(SHUFFLED.split(X)), intercept=True)
    assert folds[0].losses(L1(1.0), np.array([0.1]), 1e-9) is not None
    assert folds[0].losses(L1(1.0), np.array([0.1]), 1e-16) is None


@pytest.mark.parametrize("cv", [LeaveOneOut(), ShuffleSplit(3, random_state=0), TimeSeriesSplit(3)], ids=str)
def test_splits_that_moments_do_not_serve(data, cv):
    X, y, _ = data
    assert moments_of_folds(as_matrix(X), y, None, list(cv.split(X)), intercept=True) is None
    assert _fitted(X[:30], y[:30], cv=cv).scores_.shape[0] == 7


def test_sparse_data_are_left_to_the_folds(data):
    X, y, _ = data
    splits = list(SHUFFLED.split(X))
    assert moments_of_folds(as_matrix(sp.csr_array(X)), y, None, splits, intercept=False) is None
    assert moments_of_folds(as_matrix(X), y, None, [*splits, splits[0]], intercept=False) is None  # a row held out twice
