"""Primal and dual values against plain NumPy, weak duality for any pair of points, and the exact meaning of a certificate."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import saddlery as sd
from saddlery.registry import LOSSES

EPS = np.finfo(float).eps
QUICK = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
N, D = 12, 5
NUMBERS = st.floats(-8.0, 8.0, allow_subnormal=False)
BOOLEANS = pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])


def plain_dual(problem, a):
    """-g*(-X'(s a)) - sum s l*(a), by brute force over a fine grid of weights for g* (scalar and even)."""
    X = problem.matrix.values
    conjugates = sum(problem.s[i] * problem.loss.conjugate(problem.y[i], a[i]) for i in range(problem.n) if problem.s[i] > 0)
    u = -X.T @ (problem.s * a)
    grid = np.linspace(-400.0, 400.0, 400001)
    values = np.array([problem.penalty.coordinate_value(w) for w in (0.0, 1.0, 2.0)])
    second = values[2] - 2 * values[1]  # alpha2: g_j(w) = l1 |w| + l2 w^2 / 2
    first = values[1] - second / 2
    return -conjugates - sum(np.max(uj * grid - first * np.abs(grid) - second / 2 * grid**2) for uj in u)


@INTERCEPT
@BOOLEANS
def test_primal_value(any_loss, any_penalty, intercept, weights, make_problem, plain_primal):
    problem = make_problem(any_loss, any_penalty, "csr", intercept, weights)
    rng = np.random.default_rng(3)
    for size in (0.0, 0.1, 2.0):
        w, b = size * rng.standard_normal(problem.d), 0.4 * intercept
        assert problem.primal(w, b) == pytest.approx(plain_primal(problem, w, b), rel=1e-13)


@BOOLEANS
def test_dual_value(any_loss, any_penalty, weights, make_problem):
    problem = make_problem(any_loss, any_penalty, "dense", False, weights, n=N, d=D)
    point = problem.dual_point(np.random.default_rng(4).standard_normal(problem.n))
    assert problem.dual(point.a) == pytest.approx(point.value, rel=1e-12)
    assert point.value == pytest.approx(plain_dual(problem, point.a), abs=1e-5)
    outside = np.where(problem.y > 0, 1e3, -1e3)
    assert math.isfinite(any_loss.conjugate(1.0, 1e3)) or problem.dual(outside) == -math.inf


@st.composite
def points(draw):
    """Any w, b and a: in and out of all domains, some entries zero, some huge."""
    size = draw(st.sampled_from([1e-8, 0.1, 1.0, 1e4]))
    a = draw(arrays(float, N, elements=NUMBERS)) * draw(st.sampled_from([1e-8, 0.3, 1.0, 1e6]))
    return draw(arrays(float, D, elements=NUMBERS)) * size, draw(NUMBERS), a


@INTERCEPT
@BOOLEANS
@QUICK
@given(pair=points())
def test_weak_duality_and_feasibility(any_loss, any_penalty, intercept, weights, pair, make_problem):
    """dual_point makes any array feasible (domain, balance, threshold); its value is below every primal one."""
    problem = make_problem(any_loss, any_penalty, "dense", intercept, weights, n=N, d=D)
    w, b, a = pair
    point = problem.dual_point(a)
    rows = problem.s > 0
    for i in np.flatnonzero(rows):
        assert any_loss.dual_lower(problem.y[i]) <= point.a[i] <= any_loss.dual_upper(problem.y[i])
    Xta = problem.matrix.values.T @ (problem.s * point.a)
    size = float(problem.s @ (np.abs(point.a) + np.abs(a)))  # what was given may be huge, and repaired to its own rounding only
    np.testing.assert_allclose(point.Xta, Xta, atol=64 * EPS * (1 + size))
    if intercept:
        assert abs(problem.s @ point.a) <= 16 * EPS * size
    if any_penalty.strong_convexity == 0.0:
        assert np.max(np.abs(Xta)) <= problem.penalty.threshold * (1 + 1e-14)
    primal = problem.primal(w, b if intercept else 0.0)
    terms = abs(primal) + abs(point.value) + problem.s @ np.abs(problem.y * point.a) + abs(b) * size
    assert point.value <= primal + 16 * EPS * terms
    assert math.isfinite(point.value)
    certificate = sd.certify(problem, w, a, b if intercept else 0.0)
    assert certificate.gap >= 0.0
    assert certificate.dual == point.value


@INTERCEPT
@BOOLEANS
def test_certificate_never_understates(any_loss, any_penalty, intercept, weights, make_problem, optimum):
    """gap >= primal - optimum and dual <= optimum for arbitrary points, near and far."""
    problem = make_problem(any_loss, any_penalty, "dense", intercept, weights)
    best, rng = optimum(problem), np.random.default_rng(5)
    slack = 1e-9 * problem.scale
    for size in (0.0, 0.05, 1.0):
        w, b, a = size * rng.standard_normal(problem.d), size * intercept, rng.standard_normal(problem.n)
        for dual in (None, a, 0 * a):
            certificate = sd.certify(problem, w, dual, b)
            assert certificate.gap >= certificate.primal - best - slack
            assert certificate.dual <= best + slack
            assert certificate.gap == certificate.primal - certificate.dual
            assert certificate.relative_gap == certificate.gap / certificate.scale


@INTERCEPT
@pytest.mark.parametrize("loss", [sd.losses.Logistic(), sd.losses.Squared()], ids=["logistic", "squared"])
def test_certificates_of_constraints_never_understate(any_set, loss, intercept, make_problem, optimum):
    """The same for sets: points are brought inside by the projection, and every dual point counts as it is."""
    problem = make_problem(loss, any_set, "csr", intercept, True)
    best, rng = optimum(problem), np.random.default_rng(5)
    slack = 1e-9 * problem.scale
    for size in (0.0, 0.05, 1.0):
        w, a = any_set.prox(size * rng.standard_normal(problem.d), 1.0), size * rng.standard_normal(problem.n)
        for dual in (None, a):
            certificate = sd.certify(problem, w, dual, size * intercept)
            assert certificate.primal >= best - slack
            assert certificate.dual <= best + slack
            assert math.isfinite(certificate.gap)
    assert sd.certify(problem, w + 10.0).gap == math.inf


@INTERCEPT
def test_projected_gradient_closes_the_gap_of_constraints(any_set, intercept, make_problem, optimum):
    """A method that knows nothing but the projection reaches the optimum of the conic solver, and the certificate says so."""
    problem = make_problem(sd.losses.Logistic(), any_set, "dense", intercept)
    X = np.hstack([problem.matrix.values, np.full((problem.n, 1), float(intercept))])
    point, step = np.append(problem.first_point().w, 0.0), 4.0 / np.linalg.norm(np.sqrt(problem.s)[:, None] * X, 2) ** 2
    before = point
    for k in range(2000):
        ahead = point + k / (k + 3.0) * (point - before)
        ahead -= step * X.T @ (problem.s * problem.slopes(X @ ahead))
        before, point = point, np.append(any_set.prox(ahead[:-1], step), ahead[-1])
        if k % 100 == 99:
            certificate = sd.certify(problem, point[:-1], None, point[-1])
            if certificate.relative_gap <= 1e-8:
                break
    assert certificate.relative_gap <= 1e-7
    assert certificate.primal == pytest.approx(optimum(problem), abs=2e-7 * problem.scale)


def test_dual_point_is_not_worse_than_its_input(any_loss, any_penalty, make_problem):
    """A feasible point may be scaled for gain, never for loss; and the result is a fixed point."""
    problem = make_problem(any_loss, any_penalty, intercept=True)
    point = problem.dual_point(np.random.default_rng(6).standard_normal(problem.n))
    again = problem.dual_point(point.a)
    assert again.value >= point.value - 1e-13 * (1 + abs(point.value))
    assert problem.dual_point(point.a, point.Xta).value == pytest.approx(again.value, rel=1e-12)


def test_balance_keeps_the_domain(any_loss):
    """Points at the bounds of the domain stay inside when they are balanced, whatever the weights: rounding must not lose them."""
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((9, 2)), np.array([1.0, -1.0, 1.0] * 3)
    a = np.array([max(any_loss.dual_lower(t), -1.0) if t > 0 else min(any_loss.dual_upper(t), 1.0) for t in y])
    for _ in range(100):
        problem = sd.LinearProblem(X, y, any_loss, sd.penalties.L1(1e3), rng.random(9), True)
        assert problem.dual_point(a).a.any()


@pytest.mark.parametrize("name", [name for name in LOSSES.names() if LOSSES.get(name)().targets == "real"])
def test_constant_targets(name):
    """The constant model is perfect, so no dual value may be above 0: what balancing leaves is noise and must not be scaled up."""
    rng = np.random.default_rng(0)
    for level in (0.0, 1.0, 3.7, -1e3):
        for _ in range(50):
            n = int(rng.integers(2, 30))
            X, y = rng.standard_normal((n, 3)), np.full(n, level)
            problem = sd.LinearProblem(X, y, name, sd.penalties.L1(0.1), rng.random(n), True)
            for a in (np.full(n, -0.3), rng.standard_normal() * np.ones(n), rng.standard_normal(n)):
                assert problem.dual_point(a).value <= 1e-12 * (1.0 + abs(level))
    assert sd.solve(problem).status is sd.Status.CONVERGED


def test_given_product_is_used(any_loss, any_penalty, make_problem):
    """With X'(s a) at hand the result is the same as without."""
    for intercept in (False, True):
        problem = make_problem(any_loss, any_penalty, "csr", intercept)
        a = problem.slopes(np.zeros(problem.n), problem.constant)
        with_product, without = problem.dual_point(a, problem.matrix.rmatvec(problem.s * a)), problem.dual_point(a)
        np.testing.assert_allclose(with_product.a, without.a, atol=1e-13)
        assert with_product.value == pytest.approx(without.value, rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_rounding_is_reported_as_zero_and_nothing_else(offset):
    """An exact solution far from the origin: cancellation may turn the gap negative by rounding, and then it is 0."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30) + offset
    problem = sd.LinearProblem(X, y, "squared", sd.penalties.L1(0.05), fit_intercept=True)
    solution = sd.solve(problem, tol=1e-13, max_epochs=100)
    assert 0.0 <= solution.certificate.relative_gap <= 1e-8
    assert all(record.gap >= 0.0 for record in solution.trace)


def test_a_real_violation_is_not_hidden(make_problem):
    """If the two values contradict each other by more than rounding, the certificate says so."""
    problem = make_problem(sd.losses.Logistic(), sd.penalties.L1(0.1))
    a = np.zeros(problem.n)
    assert problem.certificate(0.5, 0.5 + 1e-17, a).gap == 0.0
    assert problem.certificate(0.5, 0.5 + 1e-12, a).gap == pytest.approx(-1e-12, rel=1e-3)


def test_certificate_reads_well(make_problem):
    problem = make_problem(sd.losses.Logistic(), sd.penalties.L1(0.1))
    certificate = sd.certify(problem, np.zeros(problem.d))
    assert certificate.scale == pytest.approx(math.log(2.0))
    assert str(certificate).startswith("primal 0.69314")
    with pytest.raises(AttributeError):
        certificate.gap = 0.0
