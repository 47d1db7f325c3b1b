"""LinearClassifier(multiclass="joint"): one problem for all classes, with the manners of the others."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import saddlery as sd
from saddlery.errors import InputError
from saddlery.report.html import write_report
from saddlery.verify import verify_joint

LOSSES = pytest.mark.parametrize("loss", ["logistic", "hinge"])


def data(classes=3, n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    names = np.array(["ash", "birch", "cedar", "dogwood"])[:classes]
    return X, names[np.argmax(X[:, :classes] + 0.7 * rng.standard_normal((n, classes)), axis=1)]


def joint(**options):
    return sd.LinearClassifier(**{"multiclass": "joint", "alpha": 0.02, "tol": 1e-4, **options})


@LOSSES
@pytest.mark.parametrize("classes", [2, 3])
def test_attributes_and_predictions(loss, classes):
    X, y = data(classes)
    model = joint(loss=loss).fit(X, y)
    assert model.coef_.shape == (classes, 6)
    assert model.intercept_.shape == (classes,)
    assert model.dual_coef_.shape == (90, classes)
    assert len(model.certificates_) == len(model.traces_) == 1
    assert model.certificate_ is model.certificates_[0]
    assert model.certificate_.relative_gap <= 1e-4
    margins = X @ model.coef_.T + model.intercept_
    expected = margins[:, 1] - margins[:, 0] if classes == 2 else margins
    assert np.allclose(model.decision_function(X), expected)
    assert np.array_equal(model.predict(X), model.classes_[np.argmax(margins, axis=1)])
    assert model.score(X, y) > 0.7
    if loss == "logistic":
        shares = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
        assert np.allclose(model.predict_proba(X), shares)
        assert np.allclose(model.predict_log_proba(X), np.log(shares))
    else:
        assert not hasattr(model, "predict_proba")


def test_equals_scikit_learns_softmax():
    X, y = data(4)
    C = 0.7
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
    ours = joint(penalty="l2", alpha=1 / (C * len(y)), tol=1e-8, max_epochs=20_000).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


@LOSSES
def test_weights_are_repetitions_and_zeros_no_rows(loss):
    X, y = data()
    s = np.random.default_rng(1).integers(0, 3, len(y))
    one = joint(loss=loss, tol=1e-5).fit(X, y, sample_weight=s)
    two = joint(loss=loss, tol=1e-5).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    assert one.certificate_.primal == pytest.approx(two.certificate_.primal, abs=2e-5)
    assert one.certificate_.scale == pytest.approx(two.certificate_.scale)
    assert not one.dual_coef_[s == 0].any()


def test_class_weight():
    X, y = data()
    factors = {"ash": 3.0, "birch": 1.0, "cedar": 0.5}
    one = joint(class_weight=factors).fit(X, y)
    two = joint().fit(X, y, sample_weight=[factors[label] for label in y])
    assert one.certificate_ == two.certificate_
    balanced = joint(class_weight="balanced").fit(X, y)
    assert balanced.certificate_.scale == pytest.approx(np.log(3))


@pytest.mark.parametrize(
    "options",
    [
        {"penalty": "elasticnet"},
        {"penalty": "l2"},
        {"penalty": "l1_ball", "radius": 3.0},
        {"penalty": "l1", "radius": 3.0},
        {"loss": sd.losses.MulticlassHinge(), "penalty": sd.penalties.L1(0.05)},
        {"fit_intercept": False, "solver": "mirror_prox", "tol": 0.02},
    ],
    ids=["elasticnet", "l2", "l1_ball", "l1_in_ball", "instances", "mirror_prox"],
)
def test_objectives_and_sparse_data(options):
    X, y = data()
    dense, sparse = joint(**options).fit(X, y), clone(joint(**options)).fit(sp.csr_array(X), y)
    assert dense.certificate_.relative_gap <= options.get("tol", 1e-4)
    assert sparse.certificate_.primal == pytest.approx(dense.certificate_.primal, abs=options.get("tol", 1e-4))
    assert np.array_equal(dense.predict(X), dense.predict(sp.csr_array(X)))


@LOSSES
def test_warm_start(loss):
    X, y = data()
    model = joint(loss=loss, warm_start=True).fit(X, y)
    first = model.certificate_.primal
    model.fit(X, y)
    assert model.n_iter_ == 0
    assert model.certificate_.primal == pytest.approx(first, rel=1e-12)
    model.fit(X[:60], y[:60])  # other rows: weights only
    model.set_params(multiclass="ovr").fit(X, y)  # another problem: from scratch
    assert len(model.certificates_) == 3
    model.set_params(multiclass="joint").fit(X, y)
    assert len(model.certificates_) == 1


@LOSSES
@pytest.mark.parametrize("weighted", [False, True])
def test_files_and_the_independent_certificate(loss, weighted, tmp_path):
    X, y = data()
    s = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else None
    model = joint(loss=loss).fit(X, y, sample_weight=s)
    sd.save(model, tmp_path / "m.saddle")
    again = sd.load(tmp_path / "m.saddle")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate_
    assert type(again.loss_) is type(model.loss_)
    objective = {"loss": {"name": loss}, "penalty": {"name": "l1", "alpha": 0.02}, "fit_intercept": True}
    codes = np.searchsorted(model.classes_, y)
    told = verify_joint(objective, X, codes, s, model.coef_.T, model.intercept_, model.dual_coef_)
    for field in ("primal", "dual", "gap", "scale"):
        assert told[field] == pytest.approx(getattr(model.certificate_, field), abs=1e-11)
    assert told["repair"] <= 1e-12
    moved = verify_joint(objective, X, codes, s, model.coef_.T, model.intercept_, model.dual_coef_ + 0.1)
    assert moved["dual"] <= told["primal"]
    assert moved["repair"] > 0.0


def test_sparse_weights_survive(tmp_path, monkeypatch):
    """Where the solver returns sparse weights, predictions, files and the card take them as they are."""
    X, y = data()
    model = joint().fit(X, y)
    dense = model.decision_function(X)
    model.coef_ = sp.csr_array(model.coef_)
    assert np.allclose(model.decision_function(X), dense)
    assert np.allclose(model.decision_function(sp.csr_array(X)), dense)
    sd.save(model, tmp_path / "m.saddle")
    again = sd.load(tmp_path / "m.saddle")
    assert sp.issparse(again.coef_)
    assert np.allclose(again.decision_function(X), dense)
    assert "coefficients are not zero" in model._repr_mimebundle_()["text/html"]
    model.set_params(warm_start=True).fit(X, y)
    assert model.n_iter_ == 0


def test_report_and_callbacks(tmp_path, capsys):
    X, y = data()
    model = joint(verbose=1).fit(X, y)
    page = write_report(tmp_path / "page.html", model).read_text()
    assert "class birch" in page
    assert "relative gap" in capsys.readouterr().err
    solution = sd.solve(sd.MulticlassProblem(X, np.arange(90) % 3, "hinge", sd.penalties.L1(0.1)), tol=1e-2)
    assert "class 2" in write_report(tmp_path / "two.html", solution).read_text()


def test_refusals():
    X, y = data()
    for change, message in (
        ({"loss": "squared"}, "use multiclass='ovr'"),
        ({"loss": "hingo"}, "did you mean 'hinge'"),
        ({"loss": sd.losses.Logistic()}, "row loss"),
        ({"loss": sd.losses.Softmax}, "row loss"),
        ({"penalty": "l1_ball"}, "radius"),
    ):
        with pytest.raises(InputError, match=message):
            joint(**change).fit(X, y)
    with pytest.raises(InputError, match="multiclass='joint'"):
        sd.LinearClassifier(loss=sd.losses.Softmax()).fit(X, y)
    with pytest.raises(sd.UnsupportedError, match="certificate_ is a proof"):
        sd.audit(joint().fit(X, y), X, y)
    with pytest.raises(InputError, match="one class"):
        joint().fit(X, np.full(len(y), "ash"))
    with pytest.raises(InputError, match="unknown row loss"):
        verify_joint({"loss": {"name": "squared"}}, X, np.zeros(90, int), None, np.zeros((6, 3)), np.zeros(3), np.zeros((90, 3)))
