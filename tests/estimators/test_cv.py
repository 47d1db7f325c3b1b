"""Cross-validation: the same scores as fitting every fold by hand, the choice, the final model, weights."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LassoCV
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import KFold, StratifiedKFold

import saddlery as sd
from saddlery.solvers.prox_newton import ProxNewton


def test_agrees_with_lasso_cv(numbers):
    X, y = numbers
    alphas = np.geomspace(20.0, 0.1, 10)
    theirs = LassoCV(alphas=alphas, tol=1e-9, max_iter=100_000).fit(X, y)
    ours = sd.LinearRegressorCV(alphas=alphas[::-1], tol=1e-10, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(ours.alphas_, alphas)
    np.testing.assert_allclose(-2 * ours.scores_, theirs.mse_path_, rtol=1e-6)
    assert ours.alpha_ == theirs.alpha_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert ours.certificate_.relative_gap <= 1e-10


@pytest.mark.parametrize("scoring", [None, "neg_log_loss", "accuracy"])
def test_scores_are_those_of_single_fits(two_classes, scoring):
    X, y = two_classes
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    search = sd.LinearClassifierCV(alphas=[0.1, 0.01], cv=cv, scoring=scoring, tol=1e-10).fit(X, y)
    assert search.scores_.shape == (2, 3)
    for k, (train, test) in enumerate(cv.split(X, y)):
        for at, alpha in enumerate(search.alphas_):
            model = sd.LinearClassifier(alpha=alpha, tol=1e-10).fit(X[train], y[train])
            if scoring == "accuracy":
                expected = accuracy_score(y[test], model.predict(X[test]))
            else:  # the mean loss of the logistic model is the log loss
                expected = -log_loss(y[test], model.predict_proba(X[test]))
            assert search.scores_[at, k] == pytest.approx(expected, abs=1e-5)
    assert search.best_score_ == pytest.approx(search.scores_.mean(axis=1).max())


def test_several_classes_and_ratios(three_classes):
    X, y = three_classes
    model = sd.LinearClassifierCV(penalty="elasticnet", l1_ratio=[0.2, 0.9], n_alphas=6, cv=3, n_jobs=2).fit(X, y)
    assert model.alphas_.shape == (2, 6)
    assert model.scores_.shape == (2, 6, 3)
    assert model.l1_ratio_ in (0.2, 0.9)
    assert model.penalty_ == sd.penalties.ElasticNet(model.alpha_, model.l1_ratio_)
    assert model.coef_.shape == (3, 4)
    plain = sd.LinearClassifier(penalty="elasticnet", alpha=model.alpha_, l1_ratio=model.l1_ratio_).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X))


def test_the_grid_starts_where_all_weights_are_zero(three_classes):
    X, y = three_classes
    model = sd.LinearClassifierCV(n_alphas=5, cv=3).fit(X, y)
    assert model.alphas_[-1] == pytest.approx(1e-3 * model.alphas_[0])
    assert not sd.LinearClassifier(alpha=model.alphas_[0] * 1.0001).fit(X, y).coef_.any()
    assert sd.LinearClassifier(alpha=model.alphas_[0] * 0.99, tol=1e-8).fit(X, y).coef_.any()


def test_l2_has_a_grid_too(two_classes):
    model = sd.LinearClassifierCV(penalty="l2", n_alphas=5, cv=3).fit(*two_classes)
    assert 0 < model.scores_.mean(axis=1).argmax() < 4  # the best lies inside
    assert model.l1_ratio_ is None


def test_equal_scores_choose_the_strongest_penalty(two_classes):
    X, y = two_classes
    model = sd.LinearClassifierCV(alphas=[10.0, 20.0, 5.0], cv=3).fit(X, y)  # no weight is left at any of them
    assert model.alpha_ == 20.0


def test_rows_of_weight_zero_are_no_rows(two_classes, weights):
    X, y = two_classes
    s = weights(len(y))
    kept = s > 0
    options = {"n_alphas": 4, "cv": 3, "random_state": 0}
    weighted = sd.LinearClassifierCV(**options).fit(X, y, sample_weight=s)
    dropped = sd.LinearClassifierCV(**options).fit(X[kept], y[kept], sample_weight=s[kept])
    np.testing.assert_allclose(weighted.scores_, dropped.scores_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weighted.coef_, dropped.coef_, rtol=1e-9, atol=1e-12)
    assert weighted.dual_coef_.shape == y.shape


def test_splits_given_as_indices_mean_all_rows(numbers, weights):
    X, y = numbers
    s = weights(len(y))
    splits = list(KFold(3).split(X))
    given = sd.LinearRegressorCV(alphas=[1.0, 0.1], cv=iter(splits)).fit(X, y, sample_weight=s)
    train, test = splits[1]
    model = sd.LinearRegressor(alpha=1.0).fit(X[train], y[train], sample_weight=s[train])
    expected = -np.average((model.predict(X[test]) - y[test]) ** 2 / 2, weights=s[test])
    assert given.scores_[0, 1] == pytest.approx(expected, rel=1e-3)


def test_scorers_receive_the_weights(two_classes, weights):
    X, y = two_classes
    s = weights(len(y)) + 1
    seen = []

    def scorer(model, X, y, sample_weight=None):
        seen.append(sample_weight)
        return accuracy_score(y, model.predict(X), sample_weight=sample_weight)

    sd.LinearClassifierCV(alphas=[0.1], cv=3, scoring=scorer).fit(X, y)
    assert seen == [None] * 3
    sd.LinearClassifierCV(alphas=[0.1], cv=3, scoring=scorer, class_weight="balanced").fit(X, y, sample_weight=s)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen[3:])), np.sort(s))


def test_without_refit_there_are_scores_only(numbers):
    model = sd.LinearRegressorCV(n_alphas=3, refit=False).fit(*numbers)
    assert model.scores_.shape == (3, 5)
    assert not hasattr(model, "coef_")


def test_sparse_columns_equal_dense(two_classes):
    X, y = two_classes
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, sparse = (sd.LinearClassifierCV(n_alphas=4, cv=3, tol=1e-10).fit(data, y) for data in (X, sp.csc_array(X)))
    np.testing.assert_allclose(sparse.scores_, dense.scores_, atol=1e-5)


def test_a_penalty_instance_gives_its_kind_only(numbers):
    X, y = numbers
    model = sd.LinearRegressorCV(penalty=sd.penalties.ElasticNet(123.0, 0.7), n_alphas=4).fit(X, y)
    assert model.penalty_ == sd.penalties.ElasticNet(model.alpha_, 0.7)
    assert model.alpha_ in model.alphas_


def test_interruption_ends_the_search(numbers):
    @dataclass(frozen=True)
    class Interrupted(ProxNewton):
        def step(self, problem, state):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # half a search has no model to offer
        sd.LinearRegressorCV(n_alphas=4, solver=Interrupted()).fit(*numbers)


def test_folds_of_another_loss_are_fitted_and_scored_by_it():
    """On small data a solver may have all points of a path at once; second moments are for squared losses alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = X @ rng.standard_normal(8) + 3.0 * rng.standard_t(1.2, 300)
    folds = list(KFold(3).split(X))
    search = sd.LinearRegressorCV(loss="huber", alphas=[0.3, 0.01], cv=folds, tol=1e-9).fit(X, y)
    loss = sd.losses.Huber()
    for k, (train, test) in enumerate(folds):
        for at, alpha in enumerate(search.alphas_):
            model = sd.LinearRegressor(loss="huber", alpha=alpha, tol=1e-9).fit(X[train], y[train])
            assert search.scores_[at, k] == pytest.approx(-loss.value(y[test], model.predict(X[test])).mean(), rel=1e-5)
