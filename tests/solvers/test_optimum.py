"""solver="auto" against CVXPY and Clarabel, for everything that is offered."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.penalties import L1, L2, ElasticNet

AGREEMENT = 1e-7


def assert_optimal(problem, optimum):
    best = optimum(problem)
    solution = sd.solve(problem, tol=0.3 * AGREEMENT * best / problem.scale, max_epochs=5000)
    certificate = solution.certificate
    assert solution.status is sd.Status.CONVERGED
    assert certificate.primal == pytest.approx(best, rel=AGREEMENT)
    slack = 1e-9 * problem.scale  # of the conic solver
    assert certificate.gap >= certificate.primal - best - slack  # never understates
    assert certificate.dual <= best + slack
    again = sd.certify(problem, solution.w, solution.dual, solution.b)  # the parts of the solution prove it
    assert -1e-12 * problem.scale <= certificate.gap - again.gap <= 2e-10 * problem.scale  # some count rounding as part of the gap
    return solution


@pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("matrix", ["dense", "csr"])
def test_optimum(any_loss, any_penalty, matrix, intercept, weights, make_problem, optimum):
    assert_optimal(make_problem(any_loss, any_penalty, matrix, intercept, weights), optimum)


@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("matrix", ["fortran", "csc"])
def test_optimum_wide(any_loss, any_penalty, matrix, intercept, make_problem, optimum):
    """More columns than rows, by columns."""
    assert_optimal(make_problem(any_loss, any_penalty, matrix, intercept, n=15, d=30), optimum)


@pytest.mark.parametrize("penalty", [L1(1.0), L2(1.0), ElasticNet(1.0)], ids=["l1", "l2", "elasticnet"])
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("ratio", [0.5, 0.01, 0.001])
def test_optimum_at_other_strengths(any_loss, penalty, intercept, ratio, make_problem, optimum):
    assert_optimal(make_problem(any_loss, penalty, "dense", intercept, ratio=ratio, seed=1), optimum)


@pytest.mark.parametrize("penalty", [L1(1.0), L2(1.0), ElasticNet(1.0)], ids=["l1", "l2", "elasticnet"])
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("seed", range(4))
def test_optimum_of_separable_noise(any_loss, penalty, intercept, seed, optimum):
    """Random labels, fewer rows than columns, weak penalty: the first steps leave the region where the loss is curved."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 16)), int(rng.integers(10, 20))
    X, y = rng.standard_normal((n, d)), np.where(rng.random(n) < 0.4, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    problem = sd.LinearProblem(X, y, any_loss, penalty, fit_intercept=intercept)
    top = problem.alpha_max()
    assert_optimal(problem.with_penalty(penalty.scaled(1e-3 * top if np.isfinite(top) else 1e-3)), optimum)


@pytest.mark.parametrize("name", ["logistic", "squared", "hinge"])
@pytest.mark.parametrize("matrix", ["dense", "csr"])
def test_single_precision_data(name, matrix, make_problem, optimum):
    """float32 data: sums are kept in float64, so the same accuracy is certified."""
    from saddlery.registry import LOSSES

    problem = make_problem(LOSSES.get(name)(), ElasticNet(1.0), matrix, name != "hinge", dtype="float32")
    assert problem.matrix.values.dtype == np.float32
    assert_optimal(problem, optimum)


@pytest.mark.parametrize("intercept", [False, True])
def test_one_feature_one_row_each_class(any_loss, any_penalty, intercept, optimum):
    """The smallest problem there is."""
    assert_optimal(sd.LinearProblem([[1.0], [-2.0]], [1, -1], any_loss, any_penalty.scaled(0.05), fit_intercept=intercept), optimum)


@pytest.mark.parametrize("intercept", [False, True])
def test_zero_data(any_loss, any_penalty, intercept):
    """Nothing to learn from: w = 0 (and the best constant) is certified."""
    problem = sd.LinearProblem(np.zeros((4, 3)), [1, -1, 1, 1], any_loss, any_penalty, fit_intercept=intercept)
    solution = sd.solve(problem, tol=1e-9)
    assert solution.status is sd.Status.CONVERGED
    assert not solution.w.any()
    assert solution.certificate.primal == pytest.approx(problem.scale)


def test_separable_data(any_loss, optimum):
    """Classes apart by a margin, weak penalty."""
    rng = np.random.default_rng(2)
    y = np.repeat([-1.0, 1.0], 10)
    X = rng.standard_normal((20, 4)) + 4 * y[:, None]
    for intercept in (False, True):
        assert_optimal(sd.LinearProblem(X, y, any_loss, ElasticNet(1e-3), fit_intercept=intercept), optimum)


def test_columns_of_unequal_size(any_loss, optimum):
    """Columns scaled from 1e-3 to 1e3 (losses without curvature, which have first-order solvers only: 0.1 to 10), and one twice."""
    rng, span = np.random.default_rng(3), 3 if np.isfinite(any_loss.smoothness) else 1
    X = rng.standard_normal((30, 6)) * np.logspace(-span, span, 6)
    X = np.column_stack([X, X[:, 3]])
    z = X[:, 3] + X[:, 5] / 10**span + 0.3 * rng.standard_normal(30)
    y = np.where(z > 0, 1.0, -1.0) if any_loss.targets == "signs" else z
    problem = sd.LinearProblem(X, y, any_loss, L1(1.0), fit_intercept=True)
    assert_optimal(problem.with_penalty(L1(0.01 * problem.alpha_max())), optimum)
