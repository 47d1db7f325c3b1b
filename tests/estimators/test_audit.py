"""Audit: a model solved to the last digit has a gap of about zero, so every translation of parameters is exact."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LassoLars,
    LassoLarsIC,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    MultiTaskLasso,
    Perceptron,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, LinearSVR

import saddlery as sd

TIGHT = {"tol": 1e-10, "max_iter": 100_000}
SHORT = {"tol": None, "max_iter": 50, "random_state": 0, "average": True}
CLASSIFIERS = [
    LogisticRegression(C=0.1, **TIGHT),
    LogisticRegression(C=0.1, solver="newton-cholesky", fit_intercept=False, class_weight={0: 2.0, 1: 0.5}, **TIGHT),
    LogisticRegression(C=0.1, l1_ratio=1.0, solver="saga", **TIGHT),
    LogisticRegression(C=0.1, l1_ratio=0.3, solver="saga", class_weight="balanced", **TIGHT),
    LogisticRegression(C=0.1, l1_ratio=1.0, solver="liblinear", **TIGHT),
    LogisticRegression(C=0.1, solver="liblinear", intercept_scaling=3.0, class_weight="balanced", **TIGHT),
    LinearSVC(C=0.01, **TIGHT),
    LinearSVC(C=0.01, penalty="l1", dual=False, intercept_scaling=2.0, **TIGHT),
    LinearSVC(C=0.01, fit_intercept=False, class_weight={0: 3.0}, **TIGHT),
    LinearSVC(C=0.01, loss="hinge", **TIGHT),
    SVC(C=0.1, kernel="linear", class_weight="balanced", tol=1e-8),
    RidgeClassifier(alpha=2.0, class_weight="balanced"),
    RidgeClassifierCV(),
    sd.LinearClassifier(tol=1e-9, class_weight="balanced"),
    sd.LinearClassifierCV(n_alphas=3, cv=3, tol=1e-9),
]
REGRESSORS = [
    Lasso(alpha=0.5, tol=1e-10),
    Lasso(alpha=0.5, tol=1e-10, fit_intercept=False),
    ElasticNet(alpha=0.1, l1_ratio=0.3, tol=1e-10),
    LassoLars(alpha=0.5),
    LassoLarsIC(),
    LassoCV(alphas=5, tol=1e-8, max_iter=100_000),
    ElasticNetCV(alphas=5, tol=1e-8, max_iter=100_000),
    Ridge(alpha=3.0),
    RidgeCV(),
    sd.LinearRegressor(tol=1e-9),
    sd.LinearRegressorCV(n_alphas=5, cv=3, tol=1e-9),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: str(model)[:60])
def test_solved_classifiers_have_no_gap(two_classes, weights, model, weighted):
    X, y = two_classes
    s = weights(len(y)) if weighted else None
    audit = sd.audit(model.fit(X, y, sample_weight=s), X, y, sample_weight=s)
    assert 0.0 <= audit.gap <= 1e-6 * audit.scale
    assert isinstance(audit, sd.Certificate)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: str(model)[:60])
def test_solved_regressors_have_no_gap(numbers, weights, model, weighted):
    X, y = numbers
    if weighted and isinstance(model, LassoLars):
        pytest.skip("LassoLars takes no weights")
    options = {"sample_weight": weights(len(y))} if weighted else {}
    audit = sd.audit(model.fit(X, y, **options), X, y, **options)
    assert 0.0 <= audit.gap <= 1e-6 * audit.scale


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "model",
    [LinearSVC(C=0.1, class_weight={"setosa": 3.0, "virginica": 0.2}, **TIGHT), RidgeClassifier(class_weight="balanced")],
    ids=lambda model: type(model).__name__,
)
def test_one_vs_rest_has_one_certificate_for_each_class(three_classes, weights, model, weighted):
    X, y = three_classes
    s = weights(len(y)) if weighted else None
    audit = sd.audit(model.fit(X, y, sample_weight=s), X, y, sample_weight=s)
    assert len(audit.per_class) == 3
    assert audit.relative_gap == max(certificate.relative_gap for certificate in audit.per_class) <= 1e-9


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss", "modified_huber", "squared_error", "huber"])
@pytest.mark.parametrize("penalty", ["l2", "elasticnet", "l1"])
def test_sgd_is_near_the_optimum_of_the_objective_read_off_it(two_classes, weights, loss, penalty):
    X, y = two_classes
    s = weights(len(y))
    model = SGDClassifier(loss, penalty=penalty, alpha=0.02, class_weight={0: 2.0}, **{**SHORT, "average": False, "max_iter": 300},
                          learning_rate="invscaling", eta0=0.01, power_t=0.5)  # fmt: skip
    audit = sd.audit(model.fit(X, y, sample_weight=s), X, y, sample_weight=s, tighten=True)
    assert 0.0 < audit.relative_gap < 0.1
    own = audit.primal * audit.factor
    assert own == pytest.approx(_sgd_objective(model, X, np.where(y == 1, 1.0, -1.0), s * np.where(y == 0, 2.0, 1.0)))


def _sgd_objective(model, X, y, s):
    """What scikit-learn's documentation says that SGD minimises."""
    z = model.decision_function(X)
    m, r = y * z, np.abs(z - y)
    losses = {
        "hinge": np.maximum(0, 1 - m),
        "squared_hinge": np.maximum(0, 1 - m) ** 2,
        "log_loss": np.logaddexp(0, -m),
        "modified_huber": np.where(m >= -1, np.maximum(0, 1 - m) ** 2, -4 * m),
        "squared_error": r**2 / 2,
        "huber": np.where(r <= 0.1, r**2 / 2, 0.1 * r - 0.005),
    }[model.loss]
    ratio = {"l2": 0.0, "l1": 1.0, "elasticnet": model.l1_ratio}[model.penalty]
    w = model.coef_.ravel()
    return s @ losses / len(y) + model.alpha * (ratio * np.abs(w).sum() + (1 - ratio) / 2 * w @ w)


@pytest.mark.parametrize("options", [{}, {"loss": "huber", "epsilon": 20.0}, {"penalty": "l1"}])
def test_sgd_regressor(numbers, options):
    X, y = numbers
    audit = sd.audit(SGDRegressor(alpha=0.1, tol=None, max_iter=200, random_state=0, **options).fit(X, y), X, y)
    assert 0.0 < audit.relative_gap < 1e-2


def test_factor_gives_the_units_of_the_model(two_classes):
    X, y = two_classes
    model = LogisticRegression(C=0.1, **TIGHT).fit(X, y)
    audit = sd.audit(model, X, y)
    m = np.where(y == 1, 1, -1) * model.decision_function(X)
    own = 0.1 * np.logaddexp(0, -m).sum() + (model.coef_**2).sum() / 2
    assert audit.primal * audit.factor == pytest.approx(own)
    assert audit.objective == "mean logistic loss + 0.0175747 / 2 * ||w||^2, intercept free"
    assert str(audit).startswith(audit.objective)


def test_a_bad_model_is_seen_and_the_bound_holds(two_classes):
    X, y = two_classes
    model = LogisticRegression(C=0.1, l1_ratio=1.0, solver="saga", **TIGHT).fit(X, y)
    best = sd.audit(model, X, y)
    model.coef_ = model.coef_ + 0.1
    loose, default, tight = (sd.audit(model, X, y, tighten=tighten) for tighten in (False, None, True))
    excess = tight.primal - best.primal
    assert excess <= tight.gap <= default.gap <= loose.gap
    assert tight.gap == pytest.approx(excess, rel=1e-3)


def test_perceptron_is_certified_against_zero(two_classes):
    X, y = two_classes
    model = Perceptron(penalty="l2", alpha=0.01, random_state=0).fit(X, y)
    audit = sd.audit(model, X, y)
    m = np.where(y == 1, 1, -1) * model.decision_function(X)
    assert audit.primal == pytest.approx(np.maximum(0, -m).mean() + 0.01 / 2 * (model.coef_**2).sum())
    assert (audit.dual, audit.gap, audit.relative_gap, audit.scale) == (0.0, audit.primal, audit.primal, 0.0)
    assert sd.audit(Perceptron(random_state=0).fit(X, y), X, y).objective == "mean perceptron loss, intercept free"


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_logistic_regression_cv(two_classes):
    X, y = two_classes
    model = LogisticRegressionCV(Cs=[0.01, 0.1], cv=3, tol=1e-8, max_iter=1000).fit(X, y)
    assert sd.audit(model, X, y).relative_gap < 1e-6


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_old_names_of_penalties(two_classes, penalty):
    X, y = two_classes
    model = LogisticRegression(penalty=penalty, C=0.1, l1_ratio=float(penalty == "l1"), solver="liblinear", **TIGHT).fit(X, y)
    assert sd.audit(model, X, y).relative_gap < 1e-6


def test_sparse_data_and_frames(two_classes):
    X, y = two_classes
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    for data in (sp.csr_matrix(X), sp.csc_array(X), pd.DataFrame(X, columns=[f"f{j}" for j in range(30)])):
        for model in (LinearSVC(C=0.01, **TIGHT), SVC(C=0.1, kernel="linear", tol=1e-8)):
            assert sd.audit(model.fit(data, y), data, y).relative_gap < 1e-6


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (make_pipeline(StandardScaler(), Ridge()), r"pipeline\[-1\]"),
        (GridSearchCV(Ridge(), {"alpha": [1.0]}), "best_estimator_"),
        (OneVsRestClassifier(Ridge()), "estimators_"),
        (RandomForestClassifier(), "not convex, or not known"),
        (LinearRegression(), "without a penalty"),
        (LinearSVR(), "epsilon-insensitive"),
        (MultiTaskLasso(), "ties several targets"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refuses_what_it_does_not_know(two_classes, model, reason):
    X, y = two_classes
    with pytest.raises(sd.UnsupportedError, match=reason):
        sd.audit(model, X, y)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (LogisticRegression(max_iter=1000), "multinomial"),
        (LinearSVC(multi_class="crammer_singer", C=1e-3, max_iter=100_000), "Crammer-Singer"),
        (SVC(kernel="linear"), "two classes"),
        (SVC(), "linear kernel"),
        (SGDClassifier(penalty=None), "without penalty"),
        (SGDClassifier("epsilon_insensitive"), "epsilon_insensitive"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_refuses_parameters_that_it_does_not_know(three_classes, model, reason):
    X, y = three_classes
    with pytest.raises(sd.UnsupportedError, match=reason):
        sd.audit(model.fit(X, y), X, y)


def test_refuses_more(two_classes, numbers):
    X, y = two_classes
    with pytest.raises(sd.UnsupportedError, match="without penalty"):
        sd.audit(LogisticRegression(C=math.inf, max_iter=10_000, tol=1e-2).fit(X[:, :3], y), X[:, :3], y)
    with pytest.raises(sd.UnsupportedError, match="positive=True"):
        sd.audit(Lasso(positive=True).fit(*numbers), *numbers)
    with pytest.raises(sd.UnsupportedError, match="several targets"):
        sd.audit(Ridge().fit(numbers[0], np.c_[numbers[1], numbers[1]]), *numbers)
    with pytest.raises(NotFittedError):
        sd.audit(Ridge(), X, y)
    model = LinearSVC().fit(X, y)
    with pytest.raises(sd.InputError, match="labels that the model was not fitted on"):
        sd.audit(model, X, y + 1)
    with pytest.raises(ValueError, match="X has 3 features, but LinearSVC is expecting 30"):
        sd.audit(model, X[:, :3], y)
