"""The plain NumPy certificate against that of the library, on random problems of every kind."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError
from saddlery.model_codec import part_fields
from saddlery.registry import LOSSES, PENALTIES
from saddlery.verify import verify

LOSS_CASES = [
    sd.losses.Logistic(),
    sd.losses.Hinge(),
    sd.losses.SmoothHinge(0.3),
    sd.losses.SquaredHinge(),
    sd.losses.Squared(),
    sd.losses.Huber(0.7),
]
PENALTY_CASES = [
    sd.penalties.L1(0.03),
    sd.penalties.L2(0.1),
    sd.penalties.ElasticNet(0.05, 0.4),
    sd.penalties.ElasticNet(0.05, 1.0),
    sd.penalties.ElasticNet(0.05, 0.0),
]
SET_CASES = [  # for any number of columns
    lambda d: sd.penalties.L1Ball(0.6),
    lambda d: sd.penalties.L2Ball(0.6),
    lambda d: sd.penalties.Simplex(0.6),
    lambda d: sd.penalties.CappedSimplex(0.6, 1.1 / d),
    lambda d: sd.penalties.Box(-0.3, np.linspace(0.1, 0.5, d)),
    lambda d: sd.penalties.GroupBall(0.6, np.arange(d) % min(3, d), np.arange(1.0, 1.0 + min(3, d))),
    lambda d: sd.penalties.KSupport(0.6, 3),
    lambda d: sd.penalties.L1InBall(0.02, 0.6),
    lambda d: sd.penalties.L2InBall(0.1, 0.6),
    lambda d: sd.penalties.ElasticNetInBall(0.1, 0.4, 0.6),
    lambda d: sd.penalties.ElasticNetInBall(0.1, 1.0, 0.6),
]
SET_NAMES = [PENALTIES.name_of(make(4)) for make in SET_CASES]
FIELDS = ("primal", "dual", "gap", "relative_gap", "scale")


def describe(problem):
    return {
        "loss": part_fields(LOSSES, problem.loss),
        "penalty": part_fields(PENALTIES, problem.penalty),
        "fit_intercept": problem.fit_intercept,
    }


def random_problem(rng, loss, penalty, intercept, weighted, sparse):
    n, d = int(rng.integers(5, 60)), int(rng.integers(1, 20))
    penalty = penalty if hasattr(penalty, "strong_convexity") else penalty(d)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = rng.normal(size=n) * 2 + 1
    if loss.targets == "signs":
        y = np.where(y > 1.3, 1.0, -1.0)
        y[:2] = 1.0, -1.0
    s = rng.integers(0, 4, n).astype(float) if weighted else None
    if weighted:
        s[:2] = 1.5
    return sd.LinearProblem(sp.csr_array(X) if sparse else X, y, loss, penalty, s, intercept), X, s


@pytest.mark.parametrize("loss", LOSS_CASES, ids=str)
@pytest.mark.parametrize("penalty", PENALTY_CASES, ids=str)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_certify(loss, penalty, intercept, weighted):
    rng = np.random.default_rng(7)
    for sparse in (False, True):
        problem, X, s = random_problem(rng, loss, penalty, intercept, weighted, sparse)
        w, b = rng.normal(size=problem.d) * 0.5, float(intercept) * 0.3
        a = problem.slopes(problem.margins(w), b) + 0.1 * rng.normal(size=problem.n)
        expected = sd.certify(problem, w, a, b)
        found = verify(describe(problem), sp.csr_array(X) if sparse else X, problem.y, s, w, b, problem.dual_point(a).a)
        for field in FIELDS:
            assert found[field] == pytest.approx(getattr(expected, field), rel=1e-10, abs=1e-10), field
        assert found["repair"] <= 1e-10


@pytest.mark.parametrize("loss", LOSS_CASES, ids=str)
@pytest.mark.parametrize("penalty", PENALTY_CASES, ids=str)
@pytest.mark.parametrize("intercept", [False, True])
def test_any_dual_point_gives_a_bound(loss, penalty, intercept):
    """Whatever is given as dual point, the value that comes out is at most the objective of the best constant model."""
    rng = np.random.default_rng(3)
    problem, X, _ = random_problem(rng, loss, penalty, intercept, False, False)
    best = problem.scale
    for size in (0.0, 0.1, 1.0, 100.0):
        a = size * rng.normal(size=problem.n)
        found = verify(describe(problem), X, problem.y, None, np.zeros(problem.d), problem.constant, a)
        assert found["primal"] == pytest.approx(best, rel=1e-12)
        assert found["gap"] >= 0.0


def test_the_cases_cover_the_constraints():
    assert set(SET_NAMES) == {name for name in PENALTIES.names() if hasattr(PENALTIES.get(name), "atom")}


@pytest.mark.parametrize("loss", [LOSS_CASES[0], LOSS_CASES[5]], ids=str)
@pytest.mark.parametrize("make", SET_CASES, ids=SET_NAMES)
@pytest.mark.parametrize("intercept", [False, True])
def test_constraints_agree_with_certify(loss, make, intercept):
    rng = np.random.default_rng(11)
    for sparse in (False, True, False, True):
        problem, X, s = random_problem(rng, loss, make, intercept, True, sparse)
        w, b = problem.penalty.prox(rng.normal(size=problem.d), 0.1), float(intercept) * 0.3
        a = problem.slopes(problem.margins(w), b) + 0.1 * rng.normal(size=problem.n)
        expected = sd.certify(problem, w, a, b)
        found = verify(describe(problem), sp.csr_array(X) if sparse else X, problem.y, s, w, b, problem.dual_point(a).a)
        assert np.isfinite(found["gap"])
        for field in FIELDS:
            assert found[field] == pytest.approx(getattr(expected, field), rel=1e-10, abs=1e-10), field
        outside = verify(describe(problem), X, problem.y, s, w + 10.0, b, a)
        assert outside["primal"] == np.inf


@pytest.mark.parametrize("make", SET_CASES, ids=SET_NAMES)
def test_any_dual_point_bounds_a_constrained_problem(make):
    rng = np.random.default_rng(5)
    problem, X, _ = random_problem(rng, LOSS_CASES[0], make, True, False, False)
    for size in (0.0, 0.1, 1.0, 100.0):
        w, a = problem.penalty.prox(rng.normal(size=problem.d), 1.0), size * rng.normal(size=problem.n)
        assert verify(describe(problem), X, problem.y, None, w, problem.constant, a)["gap"] >= 0.0


@pytest.mark.parametrize("share", [0.5, 0.01, 1e-6])
@pytest.mark.parametrize("loss", [case for case in LOSS_CASES if case.targets == "signs"], ids=str)
def test_scale_of_unequal_classes(loss, share):
    problem = sd.LinearProblem(np.eye(2), [1, -1], loss, sd.penalties.L2(1.0), [share, 1 - share], True)
    found = verify(describe(problem), np.eye(2), problem.y, problem.s, np.zeros(2), 0.0, np.zeros(2))
    assert found["scale"] == pytest.approx(problem.scale, rel=1e-10)


def test_closed_forms():
    """Values that can be worked out by hand."""
    objective = {"loss": {"name": "squared"}, "penalty": {"name": "l2", "alpha": 2.0}, "fit_intercept": False}
    found = verify(objective, np.array([[1.0]]), [3.0], None, [1.0], 0.0, [-2.0])  # w = 1 is optimal: (1 - 3) + 2 w = 0
    assert found["primal"] == pytest.approx(0.5 * 4 + 1)
    assert found["gap"] == 0.0
    assert found["scale"] == 4.5
    objective = {"loss": {"name": "hinge"}, "penalty": {"name": "l1", "alpha": 1.0}, "fit_intercept": True}
    found = verify(objective, np.array([[1.0], [-1.0]]), [1.0, -1.0], [1.0, 3.0], [0.0], 0.0, [-1.0, 1.0])
    assert (found["primal"], found["scale"]) == (1.0, 0.5)
    assert found["dual"] == pytest.approx(0.5)  # balancing shrinks the heavier row from 1 to 1/3
    assert found["repair"] == pytest.approx(2 / 3)


BAD = [
    ({"y": [1.0, 2.0, -1.0]}, "targets -1 and"),
    ({"w": [1.0, 2.0, 3.0]}, "w has shape"),
    ({"dual": [0.0]}, "dual has shape"),
    ({"dual": [0.0, np.nan, 0.0]}, "dual holds NaN"),
    ({"b": 1.0}, "does not fit the objective"),
    ({"s": [1.0, -1.0, 2.0]}, "negative weights"),
    ({"objective": {"loss": {"name": "logistik"}, "penalty": {"name": "l1", "alpha": 1.0}, "fit_intercept": False}}, "logistic"),
    ({"objective": {"loss": {"name": "hinge"}, "penalty": {"name": "l3", "alpha": 1.0}, "fit_intercept": False}}, "penalty"),
    ({"objective": {"loss": {"name": "hinge"}, "penalty": {"name": "l1", "alpha": 0.0}, "fit_intercept": False}}, "positive alpha"),
    ({"objective": {"loss": {"name": "hinge", "beta": 1.0}, "penalty": {}, "fit_intercept": False}}, "no objective"),
    ({"objective": {}}, "no objective"),
    ({"objective": {"loss": {"name": "hinge"}, "penalty": {"name": "l1_ball"}, "fit_intercept": False}}, "no objective"),
    (
        {"objective": {"loss": {"name": "hinge"}, "penalty": {"name": "l1_ball", "radius": -1.0}, "fit_intercept": False}},
        "positive r",
    ),
    (
        {"objective": {"loss": {"name": "hinge"}, "penalty": {"name": "box", "low": 1, "high": 0}, "fit_intercept": False}},
        "low < high",
    ),
]


@pytest.mark.parametrize(("change", "reason"), BAD)
def test_bad_input(change, reason):
    objective = {"loss": {"name": "logistic"}, "penalty": {"name": "l1", "alpha": 1.0}, "fit_intercept": False}
    values = {"objective": objective, "X": np.ones((3, 2)), "y": [1.0, -1.0, 1.0], "s": None, "w": [0.0, 0.0], "b": 0.0}
    with pytest.raises(InputError, match=reason):
        verify(**{**values, "dual": [0.0, 0.0, 0.0], **change})


def test_shares_nothing_with_the_solvers():
    code = (
        "import sys, saddlery.verify\n"
        "wrong = [m for m in sys.modules if m == 'numba' or m.startswith(('saddlery.losses', 'saddlery.penalties', "
        "'saddlery.problems', 'saddlery.solvers', 'saddlery.matrix'))]\n"
        "print(wrong)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
