"""The Gram matrix of all columns: the solution of squared problems with few columns, and paths that are certified together."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import UnsupportedError
from saddlery.penalties import L1, L2, ElasticNet
from saddlery.point import Point
from saddlery.problems.together import mean_losses
from saddlery.solvers.auto import choose
from saddlery.solvers.covariance import Covariance
from saddlery.solvers.moments import certified_values, moments_of, self_product

PENALTIES = (L1(0.05), L2(0.3), ElasticNet(0.1, 0.4))


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 8)) @ (np.eye(8) + 0.4) + rng.uniform(-2.0, 2.0, 8)
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, X[:, 0] - 2.0 * X[:, 3] + rng.standard_normal(90) + 1.0, rng.uniform(0.0, 2.0, 90)


@pytest.mark.parametrize("penalty", PENALTIES, ids=["l1", "l2", "elasticnet"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, np.float32, sp.csr_array, sp.csc_array])
def test_the_solution_is_there_before_the_first_epoch(data, penalty, intercept, convert):
    X, y, weights = data
    for sample_weight in (None, weights):
        problem = sd.LinearProblem(convert(X), y, "squared", penalty, sample_weight, intercept)
        assert choose(problem) == "covariance"
        solution = sd.solve(problem, tol=1e-12)
        other = sd.solve(problem, "prox_newton", tol=1e-12)
        assert solution.solver == "covariance"
        assert solution.epochs == 0
        assert len(solution.trace) == 1
        assert solution.certificate.relative_gap <= 1e-12
        np.testing.assert_allclose(solution.w, other.w, atol=2e-5)
        assert abs(solution.certificate.primal - other.certificate.primal) <= 1e-12 * problem.scale


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_columns_far_from_zero(data, convert):
    """Means a million times the spread: second moments as differences would have no digit left."""
    X, y, _ = data
    far = X.copy()
    far[:, 2] += 1e6
    far[:, 5] = 7e5
    for shift, matrix in ((0.0, X), (1.0, far)):
        problem = sd.LinearProblem(convert(matrix), y, "squared", L1(0.02), fit_intercept=True)
        solution = sd.solve(problem, "covariance", tol=1e-9)
        assert solution.certificate.relative_gap <= 1e-9, shift
    assert solution.w[5] == 0.0  # constant: the intercept has its part


def test_more_columns_than_rows_and_equal_columns():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((15, 40))
    X[:, 20:] = X[:, :20]
    problem = sd.LinearProblem(X, rng.standard_normal(15), "squared", L1(0.05))
    assert sd.solve(problem, "covariance", tol=1e-9).certificate.relative_gap <= 1e-9


def test_a_step_gives_back_what_rounding_took(data):
    """With a Gram matrix in single precision the first solution is rough, and true gradients mend it."""
    X, y, _ = data
    problem = sd.LinearProblem(X, y, "squared", L1(0.02), fit_intercept=True)
    solver = Covariance()
    state = solver.init(problem, None)
    exact = moments_of(problem).gram
    rough = exact * (1.0 + 1e-3 * np.random.default_rng(0).standard_normal(exact.shape))
    state.moments = state.moments._replace(gram=0.5 * (rough + rough.T))
    state.w, state.q = np.zeros(8), problem.constant_gradient.copy()
    gaps = []
    for _ in range(6):
        solver.step(problem, state)
        primal, dual = problem.evaluate(solver.point(problem, state))
        gaps.append((primal - dual.value) / problem.scale)
    assert gaps[0] > 1e-7
    assert gaps[-1] < 1e-10


def test_a_start_and_a_handover(data):
    X, y, _ = data
    problem = sd.LinearProblem(X, y, "squared", L1(0.02), fit_intercept=True)
    solution = sd.solve(problem, tol=1e-10)
    again = sd.solve(problem, tol=1e-10, start=solution)
    assert again.certificate.relative_gap <= 1e-10
    np.testing.assert_allclose(again.w, solution.w, atol=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES, ids=["l1", "l2", "elasticnet"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_path_certified_together_is_that_of_single_solves(data, penalty, intercept):
    X, y, weights = data
    problem = sd.LinearProblem(X, y, "squared", penalty, weights, intercept)
    told = []
    result = sd.path(problem, n_alphas=9, tol=1e-10, on_solution=lambda alpha, solution: told.append(alpha))
    assert told == result.alphas.tolist()
    for alpha, w, b, solution in zip(result.alphas, result.coefs, result.intercepts, result.solutions, strict=True):
        each = problem.with_penalty(penalty.scaled(alpha / penalty.alpha))
        single = sd.solve(each, "prox_newton", tol=1e-12)
        assert solution.status is sd.Status.CONVERGED
        assert solution.solver == "covariance"
        assert solution.w is not None
        certified = sd.certify(each, w, solution.dual, b)
        assert certified.gap <= solution.certificate.gap + 1e-14 * each.scale
        assert certified.primal == pytest.approx(solution.certificate.primal, rel=1e-10)
        assert certified.dual == pytest.approx(solution.certificate.dual, rel=1e-10)
        assert certified.primal - single.certificate.primal <= 1e-9 * each.scale


@pytest.mark.parametrize("penalty", PENALTIES, ids=["l1", "l2", "elasticnet"])
@pytest.mark.parametrize("kind", ["float64", "float32", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
def test_values_of_many_points_are_those_of_each(data, penalty, kind, intercept):
    """Also far from the optimum: each is a bound."""
    X, y, weights = data
    X = sp.csr_array(X) if kind == "sparse" else X.astype(kind)
    problem = sd.LinearProblem(X, y, "squared", penalty, weights, intercept)
    rng = np.random.default_rng(4)
    W, factors, moments = rng.standard_normal((3, 8)) * [[0.0], [0.1], [1.0]], np.array([3.0, 1.0, 0.2]), moments_of(problem)
    primal, dual, _ = certified_values(moments, penalty, factors, W).T
    b = moments.intercepts(W)
    assert b.any() == intercept
    for k in range(3):
        each = problem.with_penalty(penalty.scaled(factors[k]))
        value, feasible = each.evaluate(Point(W[k], b[k], None))
        assert primal[k] == pytest.approx(value, rel=1e-11)
        own = each.dual(each.slopes(each.margins(W[k]), b[k])) if penalty.strong_convexity > 0.0 else feasible.value
        assert dual[k] == pytest.approx(own, rel=1e-10, abs=1e-11 * each.scale)
        assert dual[k] <= feasible.value + 1e-11 * each.scale
    held_out = mean_losses(problem.loss, y, problem.s, problem.matrix, W, b)
    np.testing.assert_allclose(held_out, [problem.loss_value(problem.margins(w), c) for w, c in zip(W, b, strict=True)])


def test_a_path_over_many_columns_is_certified_too():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 140))
    problem = sd.LinearProblem(X, X[:, :5].sum(axis=1) + rng.standard_normal(200), "squared", L1(1.0))
    result = sd.path(problem, n_alphas=5, alpha_min_ratio=0.05, tol=1e-9, solver="covariance")
    assert {(solution.status, solution.epochs) for solution in result.solutions} == {(sd.Status.CONVERGED, 0)}


def _exact_objective(X, y, w, b, alpha):
    """The lasso's objective at (w, b), without rounding."""
    total = Fraction(0)
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        residual = sum((Fraction(x) * Fraction(v) for x, v in zip(row, w.tolist(), strict=True)), Fraction(b) - Fraction(target))
        total += residual * residual
    return total / (2 * len(y)) + Fraction(alpha) * sum(abs(Fraction(v)) for v in w.tolist())


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_certificates_from_moments_hold_without_rounding(data, intercept, shift, convert):
    """The bounds enclose the true value, also where columns and targets are far from zero and most digits cancel."""
    X, y, _ = data
    X, y = X + shift, y + 10.0 * shift
    problem = sd.LinearProblem(convert(X), y, "squared", L1(1e-4), fit_intercept=intercept)
    moments, factors = moments_of(problem), np.array([1.0, 30.0])
    for seed in range(4):
        W = np.random.default_rng(seed).standard_normal((2, 8)) * 1e-9
        W += [sd.solve(problem.with_penalty(L1(1e-4 * f)), "covariance", tol=0.0, max_epochs=3).w for f in factors]
        primal, dual, _ = certified_values(moments, problem.penalty, factors, W).T
        for k, b in enumerate(moments.intercepts(W)):
            exact = _exact_objective(X, y, W[k], b, 1e-4 * factors[k])
            assert dual[k] <= exact
            assert intercept or exact <= primal[k]  # with an intercept the primal value is that of the best, b is rounded
            assert float(exact) == pytest.approx(primal[k], rel=1e-3)


def test_the_dual_point_is_computed_when_asked_for(data):
    X, y, weights = data
    problem = sd.LinearProblem(X, y, "squared", ElasticNet(0.1, 0.4), weights, fit_intercept=True)
    solution = pickle.loads(pickle.dumps(sd.solve(problem, tol=1e-8)))
    assert callable(solution._dual)
    certificate = sd.certify(problem, solution.w, solution.dual, solution.b)
    assert certificate.gap <= solution.certificate.gap + 1e-14 * problem.scale
    assert solution.dual is solution.dual
    told = []
    assert sd.solve(problem, tol=1e-8, callbacks=[told.append]).trace == told
    again = sd.solve(problem, "covariance", tol=1e-14, start=solution.state)
    assert again.certificate.relative_gap <= 1e-14


def test_another_loss_of_constant_curvature_is_not_taken_for_the_squared_loss():
    class Doubled(sd.losses.Squared):
        pass

    problem = sd.LinearProblem([[1.0], [-1.0]], [1.0, -1.0], Doubled(), L1(0.1))
    assert "covariance" not in sd.solvers.available(problem)


def test_path_points_that_miss_the_tolerance_are_solved_on(data, monkeypatch):
    X, y, _ = data
    problem = sd.LinearProblem(X, y, "squared", L1(0.1), fit_intercept=True)
    monkeypatch.setattr("saddlery.solvers.moments.ACCURACY", 1e-2)
    result = sd.path(problem, n_alphas=5, tol=1e-9)
    assert max(certificate.relative_gap for certificate in result.certificates) <= 1e-9


def test_a_path_can_be_stopped_and_interrupted(data):
    X, y, _ = data
    problem = sd.LinearProblem(X, y, "squared", L1(0.1))
    assert len(sd.path(problem, n_alphas=9, on_solution=lambda alpha, solution: alpha < 0.3)) < 9
    told = []

    def interrupt(alpha, solution):
        told.append(alpha)
        if len(told) == 3:
            raise KeyboardInterrupt

    result = sd.path(problem, n_alphas=9, on_solution=interrupt)
    assert len(result) == 3
    assert result.statuses[-1] is sd.Status.INTERRUPTED


def test_other_losses_and_many_columns_are_refused():
    with pytest.raises(UnsupportedError, match="the squared loss"):
        sd.solve(sd.LinearProblem([[1.0], [-1.0]], [1, -1], "logistic", L1(0.1)), "covariance")
    wide = sd.LinearProblem(sp.csr_array((4, 5001)), np.arange(4.0), "squared", L1(0.1))
    with pytest.raises(UnsupportedError, match="at most 5,000 columns"):
        sd.solve(wide, "covariance")
    assert choose(wide) != "covariance"


def test_remembered_choices_know_the_number_of_entries():
    """Of two sparse sets of one shape the Gram matrix of the fuller one is too dear."""
    y = np.arange(2000.0)
    rng = np.random.default_rng(0)
    few, many = (sp.random_array((2000, 150), density=density, rng=rng, format="csr") for density in (0.05, 0.8))
    names = [choose(sd.LinearProblem(X, y, "squared", L1(0.1))) for X in (few, many, few)]
    assert names == ["covariance", "prox_newton", "covariance"]


@pytest.mark.parametrize("shape", [(5, 3), (1024, 32), (2500, 7), (2500, 33), (0, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_of_thin_arrays_with_themselves(shape, order):
    """Some rows at a time or all at once, what is left over included."""
    X = np.asarray(np.random.default_rng(0).standard_normal(shape), order=order)
    product = self_product(X)
    assert product.flags.c_contiguous
    np.testing.assert_allclose(product, X.T @ X, rtol=1e-12, atol=1e-10)
