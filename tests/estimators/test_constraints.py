"""Constraints by name and radius: in the estimators, in model files, on the command line."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import saddlery as sd
from saddlery.cli.main import main
from saddlery.errors import InputError
from saddlery.estimators.parameters import make_penalty
from saddlery.model_file import read_model

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6)).round(3)
SCORE = (2 * X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + 0.5 * RNG.standard_normal(60)).round(3)
LABELS = np.where(SCORE > 0.2, "yes", "no")
THREE = np.digitize(SCORE, [-1.0, 1.0])
P = sd.penalties
INSTANCES = [
    P.CappedSimplex(1.0, cap=0.4),
    P.Box(0.0, np.linspace(0.3, 0.8, 6)),
    P.GroupBall(1.0, groups=[0, 1, 0, 2, 1, 2], weights=[1.0, 2.0, 0.5]),
    P.KSupport(1.0, k=2),
]
NAMED = {
    "l1_ball": P.L1Ball(0.9),
    "l2_ball": P.L2Ball(0.9),
    "simplex": P.Simplex(0.9),
    "box": P.Box(-0.9, 0.9),
    "l1": P.L1InBall(0.01, 0.9),
    "l2": P.L2InBall(0.01, 0.9),
    "elasticnet": P.ElasticNetInBall(0.01, 0.3, 0.9),
}
MAKERS = pytest.mark.parametrize("make", [sd.LinearClassifier, sd.LinearRegressor])


# --------------------------------------------------------------------------- from names to penalties


@pytest.mark.parametrize("name", NAMED)
def test_names_with_a_radius(name):
    penalty = make_penalty(name, 0.01, 0.3, 0.9)
    assert type(penalty) is type(NAMED[name])
    assert penalty == NAMED[name]
    assert make_penalty(name, 0.01, 0.3, np.float64(0.9)) == make_penalty(name, 0.01, 0.3, 0.9)


def test_names_of_penalties_in_balls():
    for name in ("l1", "l2", "elasticnet"):
        assert make_penalty(f"{name}_in_ball", 0.01, 0.3, 0.9) == NAMED[name]


def test_without_a_radius_the_old_names_mean_what_they_meant():
    assert make_penalty("l1", 0.1, 0.5) == P.L1(0.1)
    assert make_penalty("l2", 1, 0.5) == P.L2(1.0)
    assert make_penalty("elasticnet", 0.1, 0.3) == P.ElasticNet(0.1, 0.3)


@pytest.mark.parametrize("penalty", INSTANCES, ids=str)
def test_instances_pass_through(penalty):
    assert make_penalty(penalty, 1.0, 0.5) is penalty
    with pytest.raises(InputError, match="an instance carries its own"):
        make_penalty(penalty, 1.0, 0.5, 2.0)


@pytest.mark.parametrize(
    ("name", "radius", "reason"),
    [
        ("l1_ball", None, "penalty='l1_ball' is a constraint and needs a radius"),
        ("simplex", None, "needs a radius"),
        ("box", None, "needs a radius"),
        ("l1_in_ball", None, "needs a radius"),
        ("l1_ball", 0.0, "radius must be a positive number, not 0.0"),
        ("box", -1.0, "radius must be a positive number, not -1.0"),
        ("l2", -1.0, "radius must be a positive number"),
        ("l2_ball", float("nan"), "radius must be a positive number"),
        ("l2_ball", "5", "radius must be a number, not '5'"),
        ("k_support", 1.0, r"needs k: pass an instance, such as saddlery.penalties.KSupport\(radius, k=10\)"),
        ("k_support", None, r"KSupport\(radius, k=10\)"),
        ("capped_simplex", 1.0, r"needs cap: pass an instance, such as saddlery.penalties.CappedSimplex\(radius, cap="),
        ("group_ball", 1.0, r"needs groups: pass an instance, such as saddlery.penalties.GroupBall\(radius, groups="),
        ("l1ball", 1.0, "did you mean 'l1_ball'"),
    ],
)
@MAKERS
def test_what_is_missing_is_said(make, name, radius, reason):
    with pytest.raises(InputError, match=reason):
        make(penalty=name, radius=radius).fit(X, THREE % 2)


@pytest.mark.parametrize("make", [sd.LinearClassifierCV, sd.LinearRegressorCV])
@pytest.mark.parametrize("penalty", ["l1_ball", "k_support", P.Simplex(1.0), P.L1InBall(0.1, 1.0)], ids=str)
def test_searches_refuse_constraints(make, penalty):
    with pytest.raises(InputError, match="a constraint with a fixed radius, but strengths alpha are searched"):
        make(penalty=penalty).fit(X, THREE % 2)


def test_paths_refuse_constraints():
    for penalty in (P.L1Ball(1.0), P.L2InBall(0.1, 1.0)):
        with pytest.raises(InputError, match="a path is over strengths alpha"):
            sd.path(sd.LinearProblem(X, SCORE, "squared", penalty), n_alphas=3)


@MAKERS
def test_parameters_survive_a_clone(make):
    for penalty in INSTANCES:
        assert clone(make(penalty=penalty)).get_params()["penalty"] == penalty
        assert "penalty" in repr(make(penalty=penalty))


# --------------------------------------------------------------------------- fits


def check(model, penalty, y, loss, optimum, data=X):
    """Inside the set, certified, and as good as a conic solver."""
    for coef, certificate, signs in zip(np.atleast_2d(model.coef_), model.certificates_, y, strict=True):
        assert np.isfinite(penalty.value(coef))
        problem = sd.LinearProblem(data, signs, loss, penalty, None, model.fit_intercept)
        assert certificate.relative_gap <= model.tol
        assert certificate.primal == pytest.approx(optimum(problem), abs=2 * model.tol * problem.scale)
    assert model.status_ is sd.Status.CONVERGED


@pytest.mark.parametrize("name", NAMED)
def test_classifier(name, optimum):
    model = sd.LinearClassifier(penalty=name, alpha=0.01, l1_ratio=0.3, radius=0.9, tol=1e-6).fit(X, LABELS)
    check(model, NAMED[name], [np.where(LABELS == "yes", 1.0, -1.0)], "logistic", optimum)
    assert model.score(X, LABELS) > 0.7
    assert model.penalty_ == NAMED[name]


@pytest.mark.parametrize("penalty", INSTANCES, ids=str)
def test_regressor_with_instances(penalty, optimum):
    model = sd.LinearRegressor(penalty=penalty, fit_intercept=False, tol=1e-6).fit(sp.csr_array(X), SCORE)
    check(model, penalty, [SCORE], "squared", optimum)


def test_three_classes_in_a_ball(optimum):
    model = sd.LinearClassifier(penalty="l1_ball", radius=1.5, tol=1e-5).fit(X, THREE)
    check(model, P.L1Ball(1.5), [np.where(k == THREE, 1.0, -1.0) for k in range(3)], "logistic", optimum)


def test_a_large_ball_is_no_constraint():
    free = sd.LinearRegressor(alpha=0.05, tol=1e-10).fit(X, SCORE)
    inside = sd.LinearRegressor(alpha=0.05, radius=100.0, tol=1e-8).fit(X, SCORE)
    np.testing.assert_allclose(inside.coef_, free.coef_, atol=1e-3)
    ball = sd.LinearRegressor(penalty="l1_ball", radius=float(np.abs(free.coef_).sum()), tol=1e-8).fit(X, SCORE)
    np.testing.assert_allclose(ball.coef_, free.coef_, atol=1e-3)


def test_warm_start_with_another_radius():
    model = sd.LinearClassifier(penalty="l1_ball", radius=2.0, tol=1e-6, warm_start=True).fit(X, LABELS)
    model.set_params(radius=0.5).fit(X, LABELS)
    assert np.abs(model.coef_).sum() <= 0.5 * (1 + 1e-9)
    assert model.certificate_.relative_gap <= 1e-6


# --------------------------------------------------------------------------- model files


@pytest.mark.parametrize("penalty", ["l1_ball", "l2", *INSTANCES], ids=str)
def test_model_files(penalty, tmp_path):
    radius = 0.9 if isinstance(penalty, str) else None
    model = sd.LinearClassifier(penalty=penalty, radius=radius, alpha=0.01).fit(X, LABELS)
    sd.save(model, tmp_path / "m.saddle")
    again = sd.load(tmp_path / "m.saddle")
    assert again.get_params() == model.get_params()
    assert type(again.penalty_) is type(model.penalty_)
    assert again.penalty_ == model.penalty_
    assert again.certificate_ == model.certificate_
    assert again.certificate_.basis == "exact"
    np.testing.assert_array_equal(again.coef_, model.coef_)
    told = read_model(tmp_path / "m.saddle").objective()["penalty"]
    for name, value in told.items():
        if name != "name":
            np.testing.assert_array_equal(value, getattr(model.penalty_, name))
    again.fit(X, LABELS)  # arrays from a file serve kernels like any other
    np.testing.assert_array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize("penalty", ["simplex", "elasticnet", *INSTANCES], ids=str)
def test_certify_and_inspect(penalty, tmp_path, capsys):
    radius = 0.9 if isinstance(penalty, str) else None
    np.savez(tmp_path / "data.npz", X=X, y=SCORE)
    model = sd.LinearRegressor(penalty=penalty, radius=radius, alpha=0.01).fit(X, SCORE)
    sd.save(model, tmp_path / "m.saddle")
    assert main(["certify", str(tmp_path / "m.saddle"), str(tmp_path / "data.npz"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agrees"]
    assert told["certified"]
    assert main(["inspect", str(tmp_path / "m.saddle")]) == 0
    out = capsys.readouterr().out
    assert "radius = " in out or "high = " in out
    assert main(["inspect", str(tmp_path / "m.saddle"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["estimator"] == "LinearRegressor"


# --------------------------------------------------------------------------- the command line


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "data.npz", X=X, y=np.where(LABELS == "yes", 1, -1))
    return tmp_path / "data.npz"


def run(capsys, *args):
    try:
        code = main([str(arg) for arg in args])
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def test_fit(capsys, file, tmp_path):
    code, out, _ = run(
        capsys, "fit", file, "--penalty", "l1_ball", "--radius", "0.9", "-q", "-o", tmp_path / "m", "--report", tmp_path / "r"
    )
    assert code == 0
    assert "logistic loss, l1_ball constraint, radius = 0.9" in out
    own = sd.LinearClassifier(penalty="l1_ball", radius=0.9, random_state=0).fit(X, LABELS)
    np.testing.assert_array_equal(sd.load(tmp_path / "m").coef_, own.coef_)
    assert "l1_ball" in (tmp_path / "r").read_text()
    assert run(capsys, "certify", tmp_path / "m", file)[0] == 0


def test_fit_json(capsys, file):
    code, out, err = run(capsys, "fit", file, "--penalty", "simplex", "--radius", "0.9", "--json")
    told = json.loads(out)
    assert (code, err, told["alpha"], told["radius"], told["penalty"]) == (0, "", None, 0.9, "simplex")
    code, out, _ = run(capsys, "fit", file, "--penalty", "l1", "--alpha-ratio", "0.1", "--radius", "0.9", "--json")
    told = json.loads(out)
    assert (code, told["radius"]) == (0, 0.9)
    assert told["alpha"] > 0.0


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("fit", "--penalty", "l1_ball"), "needs a radius"),
        (("fit", "--penalty", "l1_ball", "--radius", "0"), "radius must be a positive number"),
        (("fit", "--penalty", "l1_ball", "--radius", "1", "--alpha", "1"), "has a size and no strength: leave --alpha out"),
        (("fit", "--penalty", "box", "--radius", "1", "--alpha-ratio", "1"), "leave --alpha-ratio out"),
        (("fit", "--penalty", "k_support", "--radius", "1"), "pass an instance"),
        (("path", "--penalty", "l1_ball"), "strengths alpha are searched"),
    ],
)
def test_command_line_refusals(capsys, file, args, reason):
    code, out, err = run(capsys, args[0], file, *args[1:])
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["l1_ball", "box", "group_ball", "k_support", "capped_simplex", "elasticnet_in_ball"])
def test_solvers_of_constraints(capsys, name):
    code, out, _ = run(capsys, "solvers", "--penalty", name, "--json")
    names = [row["name"] for row in json.loads(out)["solvers"]]
    assert code == 0
    assert names
    assert "prox_newton" not in names
