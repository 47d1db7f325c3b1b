"""The regressor: agreement with scikit-learn, weights, warm starts."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet, Lasso, Ridge

import saddlery as sd


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_agrees_with_scikit_learn(numbers, weights, weighted, fit_intercept):
    X, y = numbers
    s = weights(len(y)) if weighted else None
    total = len(y) if s is None else s.sum()
    both = {"fit_intercept": fit_intercept}
    pairs = [
        (Lasso(alpha=2.0, tol=1e-12, **both), sd.LinearRegressor(alpha=2.0, tol=1e-12, **both)),
        (
            ElasticNet(alpha=2.0, l1_ratio=0.3, tol=1e-12, **both),
            sd.LinearRegressor(penalty="elasticnet", alpha=2.0, l1_ratio=0.3, tol=1e-12, **both),
        ),
        (Ridge(alpha=5.0, **both), sd.LinearRegressor(penalty="l2", alpha=5.0 / total, tol=1e-14, **both)),
    ]
    for theirs, ours in pairs:
        theirs.fit(X, y, sample_weight=s)
        ours.fit(X, y, sample_weight=s)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
        assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-4)
        assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-6)


def test_attributes(numbers):
    X, y = numbers
    model = sd.LinearRegressor(alpha=2.0).fit(X, y)
    assert model.coef_.shape == (10,)
    assert isinstance(model.intercept_, float)
    assert model.dual_coef_.shape == (442,)
    assert model.certificates_ == [model.certificate_]
    problem = sd.LinearProblem(X, y, "squared", sd.penalties.L1(2.0), fit_intercept=True)
    again = sd.certify(problem, model.coef_, model.dual_coef_, model.intercept_)
    assert again.gap <= model.certificate_.gap  # which counts rounding


def test_huber_resists_outliers(numbers):
    X, y = numbers
    spoiled = y.copy()
    spoiled[:20] = 1e5
    robust = sd.LinearRegressor(sd.losses.Huber(10.0), alpha=1e-3).fit(X, spoiled)
    plain = sd.LinearRegressor(alpha=1e-3).fit(X, spoiled)
    assert np.median(np.abs(robust.predict(X) - y)) < 60 < np.median(np.abs(plain.predict(X) - y))


def test_sparse_equals_dense(numbers):
    X, y = numbers
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, sparse = (sd.LinearRegressor(alpha=1.0, tol=1e-12).fit(data, y) for data in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-5)
    np.testing.assert_allclose(sparse.predict(sp.csc_array(X)), dense.predict(X), atol=1e-4)


def test_warm_start(numbers):
    X, y = numbers
    model = sd.LinearRegressor(alpha=0.1, tol=1e-10, warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= min(1, first)


def test_constant_target(numbers):
    X, _ = numbers
    model = sd.LinearRegressor().fit(X, np.full(len(X), 7.0))
    np.testing.assert_allclose(model.predict(X), 7.0)
    assert model.certificate_.gap == 0.0
