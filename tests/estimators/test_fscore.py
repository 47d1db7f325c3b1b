"""FScoreClassifier: labels, thresholds, batches, certificate, refusals."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, fbeta_score

import saddlery as sd
from saddlery.estimators.fscore import best_threshold


@pytest.fixture(scope="module")
def imbalanced():
    rng = np.random.default_rng(0)
    y = (rng.random(150) < 0.2).astype(int)
    return rng.standard_normal((150, 4)) + 1.1 * y[:, None], y


@pytest.fixture(scope="module")
def fitted(imbalanced):
    return sd.FScoreClassifier(alpha=1e-2, tol=3e-2).fit(*imbalanced)


def test_fit(imbalanced, fitted):
    X, y = imbalanced
    low, high = fitted.score_bounds_
    assert 0.0 < low <= high <= 1.0
    assert fitted.certificate_.gap == pytest.approx(high - low)
    assert fitted.certificate_.relative_gap <= 3e-2
    assert fitted.status_ is sd.Status.CONVERGED
    assert fitted.solver_ == "double_oracle"
    assert fitted.coef_.shape == (1, 4)
    np.testing.assert_allclose(fitted.decision_function(X), X @ fitted.coef_[0] + fitted.intercept_[0])
    np.testing.assert_array_equal(fitted.predict(X), (fitted.decision_function(X) > 0.0).astype(int))
    always = f1_score(y, np.ones_like(y))
    assert f1_score(y, fitted.predict(X)) > always + 0.1
    assert low < f1_score(y, fitted.predict(X))  # what is guaranteed against the worst labelling is less than what the truth gives


def test_labels_of_any_kind(imbalanced):
    X, y = imbalanced
    names = np.where(y == 1, "yes", "no")
    model = sd.FScoreClassifier(alpha=1e-2, tol=5e-2).fit(X, names)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) == {"no", "yes"}
    other = sd.FScoreClassifier(alpha=1e-2, tol=5e-2).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-8)


def test_sets(imbalanced, fitted):
    X, y = imbalanced
    scores = fitted.set_scores(X)
    assert ((scores >= 0.0) & (scores <= 1.0 + 1e-9)).all()
    np.testing.assert_array_equal(fitted.predict_set(X), (scores > 0.5).astype(int))
    assert f1_score(y, fitted.predict_set(X)) > 0.3
    assert fitted.predict_set(X[:1]).shape == (1,)


def test_thresholds(imbalanced):
    X, y = imbalanced
    fixed = sd.FScoreClassifier(alpha=1e-2, tol=5e-2, threshold=0.3).fit(X, y)
    np.testing.assert_array_equal(fixed.predict(X), (fixed.decision_function(X) > 0.3).astype(int))
    tuned = sd.FScoreClassifier(alpha=1e-2, tol=5e-2, threshold="cv", random_state=0).fit(X, y)
    assert tuned.threshold_ != 0.0
    again = sd.FScoreClassifier(alpha=1e-2, tol=5e-2, threshold="cv", random_state=0).fit(X, y)
    assert again.threshold_ == tuned.threshold_
    np.testing.assert_array_equal(tuned.coef_, fixed.coef_)
    with pytest.raises(sd.InputError, match="3 rows of each class"):
        sd.FScoreClassifier(threshold="cv").fit(X[:12], np.arange(12) == 3)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_best_threshold_is_the_best(beta):
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores, y = np.round(rng.standard_normal(25), 1), rng.random(25) < 0.4
        if not y.any():
            continue
        t = best_threshold(scores, y, beta)
        best = max(fbeta_score(y, scores > at, beta=beta, zero_division=0.0) for at in [*scores, scores.min() - 1])
        assert fbeta_score(y, scores > t, beta=beta) == pytest.approx(best)


def test_beta_moves_recall(imbalanced):
    """A larger beta asks for more recall: the game on a batch predicts more positives."""
    X, y = imbalanced
    counts = [sd.FScoreClassifier(beta=beta, alpha=1e-2, tol=3e-2).fit(X, y).predict_set(X).sum() for beta in (0.5, 1.0, 2.0)]
    assert counts[0] < counts[1] < counts[2]


def test_smoothing(imbalanced):
    X, y = imbalanced
    model = sd.FScoreClassifier(alpha=1e-2, smoothing=0.5, tol=1e-3).fit(X[:50], y[:50])
    assert model.solver_ == "extragradient"
    assert model.certificate_.relative_gap <= 1e-3


def test_refusals(imbalanced):
    X, y = imbalanced
    for parameters, match in (
        ({"threshold": "best"}, "threshold must be"),
        ({"threshold": float("nan")}, "threshold must be"),
        ({"alpha": "x"}, "alpha must be a number"),
        ({"alpha": 0.0}, "alpha must be a positive"),
        ({"tol": -1.0}, "tol must be"),
    ):
        with pytest.raises(sd.InputError, match=match):
            sd.FScoreClassifier(**parameters).fit(X, y)
    with pytest.raises(sd.InputError, match="Only binary"):
        sd.FScoreClassifier().fit(X, np.arange(150) % 3)
    with pytest.raises(sd.InputError, match="one class only"):
        sd.FScoreClassifier().fit(X, np.zeros(150))


def test_warning(imbalanced):
    with pytest.warns(ConvergenceWarning, match="not certified"):
        sd.FScoreClassifier(tol=1e-9, max_epochs=1).fit(*imbalanced)


def test_precision_among_k():
    """The values are those of the problem, the threshold leaves k training rows above it, and sets have the share asked for."""
    X, y = make_classification(300, 6, weights=[0.8], class_sep=1.2, random_state=3)
    model = sd.FScoreClassifier(k=30, alpha=0.01, tol=1e-4).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-4
    assert int((model.decision_function(X) > model.threshold_).sum()) == 30
    assert int(model.predict(X).sum()) == int(model.predict_set(X).sum()) == 30
    assert model.predict_set(X[:50]).sum() == 5
    low, high = model.score_bounds_
    precision = y[model.predict(X) == 1].mean()
    assert 0.0 < low <= high <= 1.0
    assert precision > 0.8
    share = sd.FScoreClassifier(k=0.1, alpha=0.01, tol=1e-4).fit(X, y)
    np.testing.assert_allclose(share.coef_, model.coef_)
    for k in (0, 1.5, -2, "many", True):
        with pytest.raises(sd.InputError, match="k must be a"):
            sd.FScoreClassifier(k=k).fit(X, y)
    with pytest.raises(sd.InputError, match="from 1 to 300"):
        sd.FScoreClassifier(k=301).fit(X, y)
    with pytest.raises(sd.InputError, match="follows from k"):
        sd.FScoreClassifier(k=3, threshold="cv").fit(X, y)
