"""The classifier: agreement with scikit-learn, several classes, weights, warm starts, interruption, representation."""

import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import saddlery as sd
from saddlery.solvers.prox_newton import ProxNewton


@dataclass(frozen=True)
class Interrupted(ProxNewton):
    """A solver during which someone presses Ctrl-C, in its first epoch."""

    name = "interrupted"

    def step(self, problem, state):
        super().step(problem, state)
        if state.rounds == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("penalty", "l1_ratio"), [("l2", 0.0), ("l1", 1.0), ("elasticnet", 0.3)])
def test_agrees_with_logistic_regression(two_classes, penalty, l1_ratio):
    X, y = two_classes
    C = 0.1
    theirs = LogisticRegression(C=C, l1_ratio=l1_ratio, solver="saga", tol=1e-10, max_iter=50_000).fit(X, y)
    ours = sd.LinearClassifier(penalty=penalty, alpha=1 / (C * len(y)), l1_ratio=l1_ratio, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_agrees_with_linear_svc_without_intercept(two_classes):
    X, y = two_classes
    theirs = LinearSVC(C=0.01, tol=1e-10, max_iter=100_000, fit_intercept=False).fit(X, y)
    ours = sd.LinearClassifier("squared_hinge", "l2", alpha=1 / (2 * 0.01 * len(y)), fit_intercept=False, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert ours.intercept_ == 0.0


def test_one_vs_rest_agrees_with_scikit_learn(three_classes):
    X, y = three_classes
    theirs = OneVsRestClassifier(LogisticRegression(C=0.5, tol=1e-10, max_iter=1000)).fit(X, y)
    ours = sd.LinearClassifier(penalty="l2", alpha=1 / (0.5 * len(y)), tol=1e-12, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(ours.coef_, np.vstack([e.coef_ for e in theirs.estimators_]), atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_one_vs_rest_keeps_one_certificate_for_each_class(three_classes):
    X, y = three_classes
    model = sd.LinearClassifier(alpha=0.01, tol=1e-6).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert model.dual_coef_.shape == (150, 3)
    assert len(model.certificates_) == len(model.traces_) == 3
    assert model.certificate_ == max(model.certificates_, key=lambda c: c.relative_gap)
    assert model.certificate_.relative_gap <= 1e-6
    for k, label in enumerate(model.classes_):
        problem = sd.LinearProblem(X, np.where(y == label, 1.0, -1.0), penalty=sd.penalties.L1(0.01), fit_intercept=True)
        again = sd.certify(problem, model.coef_[k], model.dual_coef_[:, k], model.intercept_[k])
        assert again.gap == pytest.approx(model.certificates_[k].gap, abs=1e-14)


def test_threads_change_nothing(three_classes):
    X, y = three_classes
    one, two = (sd.LinearClassifier(alpha=0.01, random_state=0, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9, atol=1e-12)


def test_dual_coef_is_the_certificate(two_classes):
    X, y = two_classes
    model = sd.LinearClassifier(alpha=0.01, tol=1e-8).fit(X, y)
    problem = sd.LinearProblem(X, np.where(y == 1, 1.0, -1.0), penalty=sd.penalties.L1(0.01), fit_intercept=True)
    certificate = sd.certify(problem, model.coef_[0], model.dual_coef_, model.intercept_[0])
    assert certificate.primal == pytest.approx(model.certificate_.primal)
    assert certificate.gap == pytest.approx(model.certificate_.gap, abs=1e-14)
    assert model.trace_[-1].relative_gap <= 1e-8
    assert model.status_ is sd.Status.CONVERGED


@pytest.mark.parametrize("loss", ["logistic", "hinge", "smooth_hinge", "squared_hinge", "squared", "huber"])
@pytest.mark.parametrize("penalty", ["l1", "l2", "elasticnet"])
def test_every_loss_and_penalty(two_classes, loss, penalty):
    X, y = two_classes
    model = sd.LinearClassifier(loss, penalty, alpha=0.05, tol=1e-3).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.score(X, y) > 0.9
    assert hasattr(model, "predict_proba") == (loss == "logistic")


def test_parts_instead_of_names(two_classes):
    X, y = two_classes
    named = sd.LinearClassifier("smooth_hinge", "elasticnet", alpha=0.01, l1_ratio=0.2, random_state=0).fit(X, y)
    parts = sd.LinearClassifier(sd.losses.SmoothHinge(1.0), sd.penalties.ElasticNet(0.01, 0.2), random_state=0)
    np.testing.assert_allclose(clone(parts).fit(X, y).coef_, named.coef_, rtol=1e-9, atol=1e-12)
    other = sd.LinearClassifier(sd.losses.SmoothHinge(0.1), "elasticnet", alpha=0.01).fit(X, y)
    assert not np.allclose(other.coef_, named.coef_)


def test_weight_two_equals_the_row_twice_and_zero_no_row(two_classes, weights):
    X, y = two_classes
    s = weights(len(y))
    options = {"alpha": 0.02, "tol": 1e-13, "class_weight": "balanced"}
    weighted = sd.LinearClassifier(**options).fit(X, y, sample_weight=s)
    repeated = sd.LinearClassifier(**options).fit(np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    assert (weighted.dual_coef_[s == 0] == 0).all()
    dropped = sd.LinearClassifier(**options).fit(X[s > 0], y[s > 0], sample_weight=s[s > 0])
    np.testing.assert_allclose(weighted.coef_, dropped.coef_, rtol=1e-9, atol=1e-12)


def test_a_class_of_weight_zero_is_no_class(three_classes):
    X, y = three_classes
    model = sd.LinearClassifier().fit(X, y, sample_weight=(y != "setosa").astype(float))
    assert model.classes_.tolist() == ["versicolor", "virginica"]


def test_class_weights_multiply_sample_weights(two_classes, weights):
    X, y = two_classes
    s = weights(len(y)) + 1
    by_class = sd.LinearClassifier(class_weight={0: 3.0}).fit(X, y, sample_weight=s)
    by_row = sd.LinearClassifier().fit(X, y, sample_weight=np.where(y == 0, 3 * s, s))
    np.testing.assert_allclose(by_class.coef_, by_row.coef_)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix, sp.coo_array, np.asfortranarray])
def test_layouts_agree(two_classes, make):
    X, y = two_classes
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = sd.LinearClassifier(alpha=0.01, tol=1e-10).fit(X, y)
    other = sd.LinearClassifier(alpha=0.01, tol=1e-10).fit(make(X), y)
    np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-5)
    np.testing.assert_allclose(other.decision_function(make(X)), other.decision_function(X))


def test_float32(two_classes):
    X, y = two_classes
    model = sd.LinearClassifier(alpha=0.01).fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float64
    assert model.certificate_.relative_gap <= 1e-4


def test_data_frames_and_their_names(two_classes):
    X, y = two_classes
    names = [f"f{j}" for j in range(X.shape[1])]
    plain = sd.LinearClassifier(alpha=0.01).fit(X, y)
    for frame, labels in ((pd.DataFrame(X, columns=names), pd.Series(y)), (pl.DataFrame(X, schema=names), pl.Series(y))):
        model = sd.LinearClassifier(alpha=0.01).fit(frame, labels)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-12)  # frames are stored by columns
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[names[::-1]])


def test_warm_start_continues(two_classes):
    X, y = two_classes
    cold = sd.LinearClassifier(alpha=0.001, tol=1e-8).fit(X, y)
    warm = sd.LinearClassifier(alpha=0.001, tol=1e-8, warm_start=True).fit(X, y)
    assert warm.n_iter_ == cold.n_iter_ > 1
    assert warm.fit(X, y).trace_[0].relative_gap <= 1e-8
    assert warm.n_iter_ <= 1  # what is at the tolerance already takes no step
    warm.fit(X[:300], y[:300])  # another number of rows: the dual point does not fit, the weights do
    warm.fit(X[:, :5], y)  # other features: nothing fits
    np.testing.assert_allclose(warm.coef_, cold.set_params().fit(X[:, :5], y).coef_, atol=1e-3)


def test_select_from_model(two_classes):
    X, y = two_classes
    selector = SelectFromModel(sd.LinearClassifier(alpha=0.02)).fit(X, y)
    assert selector.transform(X).shape[1] == np.count_nonzero(selector.estimator_.coef_) < X.shape[1]


def test_pickle(three_classes):
    X, y = three_classes
    model = sd.LinearClassifier(sd.losses.SmoothHinge(0.5), sd.penalties.L2(0.1)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-12)
    assert again.certificate_ == model.certificate_


def test_html_shows_the_certificate(two_classes):
    X, y = two_classes
    model = sd.LinearClassifier()
    assert "saddlery-card" not in model._repr_html_()
    model.fit(X, y)
    page = model._repr_html_()
    assert "certified to tol=0.0001" in page
    assert f"{model.certificate_.primal:.8g}" in page
    assert model._repr_mimebundle_()["text/html"].count("saddlery-card") == 1


def test_verbose_shows_a_table(two_classes, three_classes, capsys):
    sd.LinearClassifier(verbose=1).fit(*two_classes)
    assert "relative gap" in capsys.readouterr().err
    sd.LinearClassifier(verbose=1, n_jobs=2).fit(*three_classes)
    assert "virginica" in capsys.readouterr().err


def test_warns_what_was_reached_and_what_to_do(two_classes, three_classes):
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-08: a relative gap of .* in 1 epochs .*; raise max_epochs") as told:
        model = sd.LinearClassifier(max_epochs=1, tol=1e-8, solver="pdhg").fit(*two_classes)
    assert told[0].filename == __file__
    assert model.status_ is sd.Status.MAX_EPOCHS
    with pytest.warns(ConvergenceWarning, match="for 3 of 3 classes"):
        sd.LinearClassifier(max_epochs=1, tol=1e-8, solver="pdhg").fit(*three_classes)
    with pytest.warns(ConvergenceWarning, match="raise max_seconds"):
        sd.LinearClassifier(max_seconds=0, tol=1e-8).fit(*two_classes)


@pytest.mark.parametrize("jobs", [None, 2])
def test_interruption_returns_a_certified_model(three_classes, jobs):
    X, y = three_classes
    with pytest.warns(ConvergenceWarning, match="interrupted.*warm_start=True"):
        model = sd.LinearClassifier(solver=Interrupted(), tol=1e-10, n_jobs=jobs).fit(X, y)
    assert model.status_ is sd.Status.INTERRUPTED
    assert np.isfinite(model.certificate_.gap)
    assert model.predict(X).shape == (150,)


def test_random_states(two_classes):
    X, y = two_classes
    fits = [
        sd.LinearClassifier(penalty="l2", alpha=0.1, solver="sdca", fit_intercept=False, random_state=state).fit(X, y).coef_
        for state in (0, 0, np.random.RandomState(0), np.random.default_rng(0), None)
    ]
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fits[0], fits[3], rtol=1e-9, atol=1e-12)
    for coef in fits:
        np.testing.assert_allclose(coef, fits[0], atol=0.1)


def test_probabilities_sum_to_one_where_all_underflow(three_classes):
    X, y = three_classes
    model = sd.LinearClassifier(alpha=1e-3).fit(X, y)
    model.intercept_ = np.full(3, -5000.0)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.isfinite(model.predict_log_proba(X)).all()
