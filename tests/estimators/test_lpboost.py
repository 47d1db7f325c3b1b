"""LPBoostClassifier: the game that it solves, its hypotheses, weights, sparse data, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier

import saddlery as sd


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(150, 6, n_informative=4, n_clusters_per_class=1, random_state=0)
    return X, np.where(y == 1, "yes", "no")


def outputs(model, X):
    """Of all hypotheses, in the slowest way."""
    if model.hypotheses == "features":
        return X
    stumps = zip(model.hypotheses_.features, model.hypotheses_.thresholds, strict=True)
    return np.column_stack([np.where(X[:, feature] > threshold, 1.0, -1.0) for feature, threshold in stumps])


@pytest.mark.parametrize("hypotheses", ["stumps", "features"])
@pytest.mark.parametrize("complements", [True, False])
def test_the_value_is_that_of_the_game(data, hypotheses, complements):
    """value_bounds_ hold the value at the weights found, computed from its definition, with the signs of the literature."""
    X, y = data
    model = sd.LPBoostClassifier(hypotheses, complements=complements, nu=0.03, tol=1e-6).fit(X, y)
    H = outputs(model, X)
    margins = np.where(y == "yes", 1.0, -1.0)[:, None] * (np.hstack([H, -H]) if complements else H)
    d, w = model.sample_weights_, model.mixed_weights_
    assert d.sum() == pytest.approx(1.0)
    assert d.max() <= 0.03 * (1 + 1e-9)
    assert w.sum() == pytest.approx(1.0)
    value = d @ margins @ w + 0.01 * np.sum(d * np.log(np.maximum(d, 1e-300))) - 0.01 * np.sum(w * np.log(np.maximum(w, 1e-300)))
    low, high = model.value_bounds_
    assert low - 1e-12 <= value <= high + 1e-12
    assert high - low <= 1e-6 * max(abs(low), abs(high))
    assert model.decision_function(X) == pytest.approx(H @ model.estimator_weights_, abs=1e-6)
    assert (model.predict(X) == np.where(model.decision_function(X) > 0, "yes", "no")).all()
    assert model.certificate_.primal == -low
    assert model.status_ is sd.Status.CONVERGED


def test_it_learns(data):
    X, y = data
    assert sd.LPBoostClassifier().fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.75
    assert sd.LPBoostClassifier("features").fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.75


@pytest.mark.parametrize("hypotheses", ["stumps", "features"])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array])
def test_sparse_is_dense(hypotheses, kind):
    """Also for thresholds below zero, and for columns without a zero."""
    rng = np.random.default_rng(1)
    X = rng.integers(-2, 3, size=(80, 5)).astype(float)
    X[:, 4] += 5.0
    y = X[:, 0] + X[:, 1] + X[:, 4] > 5.0
    dense, sparse = (sd.LPBoostClassifier(hypotheses, tol=1e-6, max_thresholds=None).fit(make(X), y) for make in (np.array, kind))
    assert sparse.estimator_weights_ == pytest.approx(dense.estimator_weights_, abs=1e-6)
    assert sparse.decision_function(kind(X)) == pytest.approx(dense.decision_function(X), abs=1e-5)


def test_thresholds():
    """One between any two values, or so many of these, evenly; none for columns that do not vary; neighbours are told apart."""
    X = np.column_stack([np.arange(10.0), np.ones(10), np.repeat([0.0, 4.0], 5), np.repeat([1.0, np.nextafter(1.0, 2.0)], 5)])
    y = np.arange(10) % 2
    all_of_them = sd.LPBoostClassifier(max_thresholds=None, nu=1.0).fit(X, y).hypotheses_
    assert all_of_them.features.tolist() == [0] * 9 + [2, 3]
    assert all_of_them.thresholds.tolist() == [*(np.arange(9) + 0.5), 2.0, 1.0]
    few = sd.LPBoostClassifier(max_thresholds=3, nu=1.0).fit(X, y).hypotheses_
    assert few.features.tolist() == [0, 0, 0, 2, 3]
    assert few.thresholds.tolist() == [2.5, 4.5, 6.5, 2.0, 1.0]


def test_fitted_classifiers(data):
    """The trees of a forest, weighed anew; clones keep what is frozen."""
    X, y = data
    trees = [DecisionTreeClassifier(max_depth=2, random_state=k).fit(X[k::4], y[k::4]) for k in range(4)]
    model = sd.LPBoostClassifier(trees, complements=False).fit(X, y)
    votes = np.column_stack([np.where(tree.predict(X) == "yes", 1.0, -1.0) for tree in trees])
    assert model.decision_function(X) == pytest.approx(votes @ model.estimator_weights_, abs=1e-12)
    assert model.score(X, y) >= max(tree.score(X, y) for tree in trees) - 0.05
    assert clone(sd.LPBoostClassifier([FrozenEstimator(tree) for tree in trees])).fit(X, y).estimator_weights_.shape == (4,)
    with pytest.raises(sd.InputError, match="is not fitted"):
        sd.LPBoostClassifier([DecisionTreeClassifier()]).fit(X, y)
    with pytest.raises(sd.InputError, match="predicts labels"):
        sd.LPBoostClassifier([RandomForestClassifier(2).fit(X, np.arange(150) % 3)]).fit(X, y)


def test_weights_are_repetitions(data):
    X, y = data
    weights = np.random.default_rng(3).integers(0, 3, len(y))
    options = {"nu": 0.02, "tol": 1e-8, "max_thresholds": None}
    one = sd.LPBoostClassifier("features", **options).fit(X, y, sample_weight=weights)
    other = sd.LPBoostClassifier("features", **options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert one.value_bounds_ == pytest.approx(other.value_bounds_, abs=1e-7)
    assert one.estimator_weights_ == pytest.approx(other.estimator_weights_, abs=1e-3)
    assert (one.sample_weights_[weights == 0] == 0.0).all()
    assert len(one.sample_weights_) == len(y)


def test_one_sign_without_complements(data):
    X, y = data
    with pytest.warns(UserWarning, match="0 or more, so without complements"):
        model = sd.LPBoostClassifier("features", complements=False).fit(np.abs(X), y)
    assert set(model.predict(np.abs(X))) == {"yes"}
    with pytest.warns(UserWarning, match="0 or less"):
        sd.LPBoostClassifier("features", complements=False).fit(-np.abs(X), y)


def test_other_solvers_and_budgets(data):
    X, y = data
    options = {"row_entropy": 0.3, "weight_entropy": 0.3, "tol": 1e-3}
    best = sd.LPBoostClassifier(**options).fit(X, y)
    other = sd.LPBoostClassifier(**options, solver="breg_svrg", random_state=0).fit(X, y)
    assert other.solver_ == "breg_svrg"
    assert other.value_bounds_[0] <= best.value_bounds_[1]
    assert best.value_bounds_[0] <= other.value_bounds_[1]
    with pytest.warns(ConvergenceWarning, match="raise max_epochs"):
        sd.LPBoostClassifier(max_epochs=1).fit(X, y)


def test_more_classes_by_one_against_the_rest():
    X, y = make_classification(90, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=1)
    model = OneVsRestClassifier(sd.LPBoostClassifier()).fit(X, y)
    assert model.score(X, y) > 0.7
    with pytest.raises(sd.InputError, match="Only binary classification"):
        sd.LPBoostClassifier().fit(X, y)


def test_live_table(data, capsys):
    sd.LPBoostClassifier(verbose=1).fit(*data)
    assert "LPBoostClassifier" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nu": 0.001}, "give nu=0.00666"),
        ({"nu": "many"}, "nu must be a number"),
        ({"row_entropy": -1.0}, "entropy must be a number of 0 or more"),
        ({"hypotheses": "trees"}, "hypotheses must be"),
        ({"hypotheses": []}, "hypotheses must be"),
        ({"hypotheses": [3]}, "give fitted classifiers"),
        ({"max_thresholds": 0}, "max_thresholds must be 1 or more"),
        ({"tol": -1.0}, "tol must be"),
    ],
)
def test_refused_parameters(data, options, words):
    with pytest.raises(sd.InputError, match=words):
        sd.LPBoostClassifier(**options).fit(*data)


def test_constant_features_have_no_stumps():
    with pytest.raises(sd.InputError, match="all features are constant"):
        sd.LPBoostClassifier().fit(np.ones((20, 2)), np.arange(20) % 2)
