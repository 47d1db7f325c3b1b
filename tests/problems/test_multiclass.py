"""The problem of all classes at once: values, weak duality, certificates, and sizes that do not fit into one array."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError
from saddlery.problems import multiclass
from saddlery.problems.multiclass import Extremes, _even_plan

LOSSES = pytest.mark.parametrize("loss", [sd.losses.Softmax(), sd.losses.MulticlassHinge()], ids=["softmax", "hinge"])
REGIMES = {
    "l1": sd.penalties.L1(0.7),
    "l2": sd.penalties.L2(0.7),
    "elasticnet": sd.penalties.ElasticNet(0.7, 0.6),
    "l1_ball": sd.penalties.L1Ball(2.0),
    "l1_in_ball": sd.penalties.L1InBall(0.01, radius=1.5),
}
PENALTIES = pytest.mark.parametrize("penalty", REGIMES.values(), ids=REGIMES.keys())
KINDS = pytest.mark.parametrize(("intercept", "weights"), [(False, False), (True, True)], ids=["plain", "intercept-weights"])


def plain_loss(problem, S):
    """The weighted mean loss in NumPy."""
    Y = np.eye(problem.k)[problem.codes]
    if math.isfinite(problem.loss.smoothness):
        values = np.log(np.exp(S).sum(axis=1)) - (S * Y).sum(axis=1)
    else:
        values = (S + 1 - Y).max(axis=1) - (S * Y).sum(axis=1)
    return float(problem.s @ values)


def plain_dual(problem, V, Xta):
    """The dual value of V in NumPy, for penalties that are finite there."""
    g, Y = np.abs(Xta), np.eye(problem.k)[problem.codes]
    if math.isfinite(problem.loss.smoothness):
        conjugates = (V * np.log(np.maximum(V, 1e-300))).sum(axis=1)
    else:
        conjugates = (V * Y).sum(axis=1) - 1
    penalty = problem.penalty
    alpha, mu = penalty.threshold, penalty.strong_convexity
    if getattr(penalty, "bounded", False):
        cost = penalty.radius * max(0.0, g.max() - alpha)
    elif mu > 0.0:
        cost = (np.maximum(g - alpha, 0.0) ** 2).sum() / (2 * mu)
    else:
        cost = 0.0 if g.max() <= alpha else math.inf
    return -float(problem.s @ conjugates) - cost


def random_points(problem, count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        W = rng.standard_normal((problem.d, problem.k)) * rng.choice([0.01, 0.1, 1.0])
        if getattr(problem.penalty, "bounded", False):
            W *= problem.penalty.radius / max(np.abs(W).sum(), problem.penalty.radius)
        b = rng.standard_normal(problem.k) if problem.fit_intercept else np.zeros(problem.k)
        yield W, b, rng.dirichlet(np.full(problem.k, 0.5), problem.n) - np.eye(problem.k)[problem.codes]


@LOSSES
@PENALTIES
@KINDS
def test_values_against_numpy_and_weak_duality(make_joint, joint_optimum, loss, penalty, intercept, weights):
    problem = make_joint(loss, penalty, intercept=intercept, weights=weights)
    X, best = problem.matrix.values, joint_optimum(problem)[0]
    Y = np.eye(problem.k)[problem.codes]
    for W, b, A in random_points(problem, 20):
        S = X @ W
        assert problem.loss_value(S, b) == pytest.approx(plain_loss(problem, S + b), rel=1e-13)
        assert problem.primal(W, b) >= best - 1e-9
        assert np.allclose(problem.gradient(A), X.T @ (problem.s[:, None] * A), atol=1e-14)
        for start in (A, A + 0.3, problem.slopes(S, b)):
            point = problem.dual_point(start)
            V = point.a + Y
            assert V.min() >= -1e-12
            assert np.abs(point.a.sum(axis=1)).max() <= 1e-12
            if intercept:
                assert np.abs(problem.s @ point.a).max() <= 1e-15
            Xta = X.T @ (problem.s[:, None] * point.a)
            assert np.allclose(point.Xta, Xta, atol=1e-14)
            assert point.value == pytest.approx(plain_dual(problem, V, Xta), abs=1e-12)
            assert point.value == pytest.approx(problem.dual(point.a), abs=1e-12)
            assert point.value <= best + 1e-9
        certificate = problem.certify(W, A, b)
        assert certificate.gap >= 0.0


@LOSSES
@PENALTIES
@KINDS
def test_certificate_at_the_optimum(make_joint, joint_optimum, loss, penalty, intercept, weights):
    """The optimal pair of a conic solver is certified: the dual repair costs nothing there."""
    problem = make_joint(loss, penalty, intercept=intercept, weights=weights)
    best, W, b, A = joint_optimum(problem)
    if getattr(penalty, "bounded", False):
        W = W * min(1.0, penalty.radius / np.abs(W).sum())
    certificate = problem.certify(W, A, b)
    assert certificate.primal == pytest.approx(best, abs=1e-7)
    assert certificate.dual == pytest.approx(best, abs=1e-6)
    assert certificate.gap <= 1e-6


@LOSSES
@KINDS
def test_scale_and_largest_alpha(make_joint, loss, intercept, weights):
    """The scale is the best constant model; from alpha_max on all weights are zero, and the certificate says so."""
    problem = make_joint(loss, REGIMES["l1"], intercept=intercept, weights=weights)
    rng = np.random.default_rng(0)
    zero = np.zeros((problem.n, problem.k))
    assert problem.scale == pytest.approx(problem.loss_value(zero, problem.constant), rel=1e-13)
    if intercept:
        assert all(problem.loss_value(zero, rng.standard_normal(problem.k)) >= problem.scale for _ in range(100))
    else:
        assert problem.scale == pytest.approx(math.log(problem.k) if math.isfinite(loss.smoothness) else 1.0)
    top = problem.with_penalty(sd.penalties.L1(problem.alpha_max() * (1 + 1e-12)))
    assert top.certify(np.zeros((top.d, top.k)), None, top.constant).gap <= 1e-13
    below = sd.solve(problem.with_penalty(sd.penalties.L1(0.9 * problem.alpha_max())), "pdhg", tol=1e-3)
    assert below.certificate.primal < problem.scale or math.isinf(loss.smoothness)


def test_best_constant_of_the_hinge():
    """One class of more than half the weight: its intercept is 1, the others pay 2."""
    problem = sd.MulticlassProblem(np.ones((5, 1)), [0, 0, 0, 1, 2], "hinge", sd.penalties.L1(0.1), [4, 1, 1, 1, 1], True)
    assert problem.scale == pytest.approx(2 * 0.25)
    assert problem.constant.tolist() == [1.0, 0.0, 0.0]
    assert problem.certify(np.zeros((1, 3)), None, problem.constant).gap <= 1e-15


@pytest.mark.parametrize("pi", [[0.25] * 4, [0.49, 0.3, 0.21], [0.4, 0.4, 0.2], [0.7, 0.2, 0.1], [0.5, 0.5], [0.499, 0.499, 0.002]])
def test_even_plans(pi):
    pi = np.array(pi)
    plan = _even_plan(pi)
    assert plan.min() >= 0.0
    assert np.allclose(plan.sum(axis=0), pi, atol=1e-9)
    assert np.allclose(plan.sum(axis=1), pi, atol=1e-12)
    assert np.trace(plan) == pytest.approx(max(0.0, 2 * pi.max() - 1), abs=1e-12)


@LOSSES
@pytest.mark.parametrize("matrix", ["fortran", "csr", "csc", "float32"])
def test_every_matrix_gives_the_same(make_joint, loss, matrix):
    dense = make_joint(loss, REGIMES["elasticnet"], intercept=True, weights=True)
    X = dense.matrix.values.astype(np.float32) if matrix == "float32" else None
    other = make_joint(loss, REGIMES["elasticnet"], matrix, True, True) if X is None else None
    if other is None:
        args = (dense.codes, loss, dense.penalty, dense.s, True)
        dense, other = sd.MulticlassProblem(X.astype(np.float64), *args), sd.MulticlassProblem(X, *args)
    W, b, A = next(random_points(dense, 1))
    one, two = dense.certify(W, A, b), other.certify(W, A, b)
    assert one.primal == pytest.approx(two.primal, rel=1e-13)
    assert one.dual == pytest.approx(two.dual, rel=1e-12, abs=1e-13)
    assert dense.alpha_max() == pytest.approx(other.alpha_max(), rel=1e-12)


@LOSSES
@pytest.mark.parametrize("matrix", ["dense", "csr"])
def test_sparse_weights(make_joint, loss, matrix):
    problem = make_joint(loss, REGIMES["l1"], matrix, intercept=True)
    W, b, A = next(random_points(problem, 1))
    W[np.abs(W) < np.median(np.abs(W))] = 0.0
    thin = sp.csr_array(W)
    one, two = problem.certify(W, A, b), problem.certify(thin, A, b)
    assert one.primal == pytest.approx(two.primal, rel=1e-14)
    assert one.dual == two.dual
    assert problem.nonzeros(thin) == problem.nonzeros(W)
    assert problem.as_point(thin, b, A).w.shape == W.shape


@LOSSES
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "l1_ball", "l1_in_ball"])
@KINDS
def test_blocks_of_classes_equal_the_whole(make_joint, monkeypatch, loss, penalty, intercept, weights):
    """Where d x k is too large for an array, blocks and the entries that matter give the same certificates."""
    problem = make_joint(loss, REGIMES[penalty], "csr", intercept, weights)
    points = list(random_points(problem, 5))
    whole = [(problem.certify(W, A, b), problem.certify(W, None, b)) for W, b, A in points]
    top = problem.alpha_max() if hasattr(problem.penalty, "alpha") else 0.0
    monkeypatch.setattr(multiclass, "WHOLE", 5)
    monkeypatch.setattr(multiclass, "BLOCK", 2 * problem.d)
    assert problem.is_large
    assert isinstance(problem.product(points[0][2]), Extremes)
    assert sp.issparse(problem.first_point().w)
    for (W, b, A), before in zip(points, whole, strict=True):
        after = problem.certify(sp.csr_array(W), A, b), problem.certify(W, None, b)
        for one, two in zip(before, after, strict=True):
            assert one.primal == pytest.approx(two.primal, rel=1e-13)
            assert one.dual == pytest.approx(two.dual, rel=1e-12, abs=1e-13)
    if top:
        assert problem.alpha_max() == pytest.approx(top, rel=1e-12)
    point = problem.dual_point(points[0][2])
    assert problem.dual_point(point.a, point.Xta).value == pytest.approx(point.value, rel=1e-9)


def test_large_problems_refuse_dense_solvers(make_joint, monkeypatch):
    problem = make_joint(sd.losses.Softmax(), REGIMES["l1"])
    monkeypatch.setattr(multiclass, "WHOLE", 5)
    with pytest.raises(sd.UnsupportedError, match="fewer weights"):
        sd.solve(problem, "pdhg")


@LOSSES
def test_weights_are_repetitions(loss):
    rng = np.random.default_rng(0)
    X, y, s = rng.standard_normal((12, 3)), np.arange(12) % 3, rng.integers(0, 3, 12)
    s[:3] = 1
    one = sd.MulticlassProblem(X, y, loss, sd.penalties.L1(0.01), s, True)
    two = sd.MulticlassProblem(np.repeat(X, s, axis=0), np.repeat(y, s), loss, sd.penalties.L1(0.01), None, True)
    W, b = rng.standard_normal((3, 3)), rng.standard_normal(3)
    left, right = one.certify(W, None, b), two.certify(W, None, b)
    assert left.primal == pytest.approx(right.primal, rel=1e-13)
    assert left.dual == pytest.approx(right.dual, rel=1e-12, abs=1e-14)
    assert left.scale == pytest.approx(right.scale, rel=1e-13)


def test_classes_without_rows():
    """They are allowed if asked for, and then only without intercepts, which would run away."""
    X = np.eye(3)
    problem = sd.MulticlassProblem(X, [0, 1, 3], "hinge", sd.penalties.L1(0.1), n_classes=6)
    assert problem.k == 6
    assert sd.solve(problem, "pdhg", tol=1e-4).certificate.relative_gap <= 1e-4
    with pytest.raises(InputError, match="class 2"):
        sd.MulticlassProblem(X, [0, 1, 3], "hinge", sd.penalties.L1(0.1))
    with pytest.raises(InputError, match="class 2"):
        sd.MulticlassProblem(X, [0, 1, 3], "hinge", sd.penalties.L1(0.1), fit_intercept=True, n_classes=6)
    with pytest.raises(InputError, match="class 1"):
        sd.MulticlassProblem(X, [0, 1, 2], "hinge", sd.penalties.L1(0.1), sample_weight=[1, 0, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 0, 0]}, "one class"),
        ({"y": [0, 1]}, "3 rows"),
        ({"y": [0, 1, -1]}, "0, 1, 2"),
        ({"y": [0, 1, 0.5]}, "0, 1, 2"),
        ({"y": ["a", "b", "a"]}, "labels"),
        ({"n_classes": 1}, "n_classes"),
        ({"loss": "squared"}, "row loss"),
        ({"loss": sd.losses.Logistic()}, "row loss"),
        ({"penalty": "l1"}, "strength"),
        ({"penalty": sd.penalties.L1(-1.0)}, "alpha"),
        ({"penalty": sd.penalties.GroupBall(1.0, groups=[0, 0])}, "column"),
    ],
)
def test_bad_input(change, message):
    given = {"X": np.eye(3), "y": [0, 1, 0], "loss": "logistic", "penalty": sd.penalties.L1(0.1), **change}
    with pytest.raises(InputError, match=message):
        sd.MulticlassProblem(**given)


def test_bad_points():
    problem = sd.MulticlassProblem(np.eye(3), [0, 1, 0], "logistic", sd.penalties.L1(0.1))
    for w, dual, b, message in (
        (np.zeros((2, 3)), None, 0.0, "features and classes"),
        (np.zeros((3, 2)), np.zeros((2, 2)), 0.0, "rows and classes"),
        (np.zeros((3, 2)), None, np.zeros(3), "2 classes"),
        (np.zeros((3, 2)), None, np.ones(2), "no intercepts"),
        (np.full((3, 2), np.nan), None, 0.0, "finite"),
    ):
        with pytest.raises(InputError, match=message):
            problem.certify(w, dual, b)
    with pytest.raises(InputError, match="no largest alpha"):
        problem.with_penalty(sd.penalties.L1Ball(1.0)).alpha_max()
    with pytest.raises(InputError, match="Logistic"):
        sd.LinearProblem(np.eye(2), [1, -1], sd.losses.Softmax(), sd.penalties.L1(0.1))
