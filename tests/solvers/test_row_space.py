"""The rotated problem has the values of the original one."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("matrix", ["dense", "csr"])
@pytest.mark.parametrize("rank", ["full", "deficient"])
def test_same_optimum_as_others(any_loss, matrix, intercept, rank, optimum):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((12, 40))
    if rank == "deficient":
        X[6:] = X[:6]  # equal rows, one of them all zeros
        X[0] = X[6] = 0.0
    y = np.where(np.arange(12) % 3 == 0, 1.0, -1.0) if any_loss.targets == "signs" else rng.standard_normal(12)
    stored = sp.csr_array(X) if matrix == "csr" else X
    problem = sd.LinearProblem(stored, y, any_loss, sd.penalties.L2(0.05), fit_intercept=intercept)
    solution = sd.solve(problem, "row_space", tol=1e-8)
    assert solution.status is sd.Status.CONVERGED
    assert solution.certificate.primal == pytest.approx(optimum(problem), abs=1e-7 * problem.scale)


def test_data_without_content():
    problem = sd.LinearProblem(np.zeros((4, 9)), [1, -1, 1, -1], "logistic", sd.penalties.L2(0.1))
    solution = sd.solve(problem, "row_space")
    assert solution.certificate.gap <= 1e-12
    assert not solution.w.any()


def test_start_from_another_solution():
    rng = np.random.default_rng(0)
    problem = sd.LinearProblem(rng.standard_normal((20, 60)), np.resize([1.0, -1.0], 20), "logistic", sd.penalties.L2(0.01))
    first = sd.solve(problem, "active_sdca", tol=1e-7)
    again = sd.solve(problem, "row_space", tol=1e-6, start=first)
    assert again.epochs <= 1
    assert again.status is sd.Status.CONVERGED


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wide_svm_with_intercept_takes_few_rounds(seed):
    """The method inside is told the gap between the best points so far: with that of the last ones it took thousands of rounds."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 300))
    problem = sd.LinearProblem(X, np.sign(X[:, 0] + 0.3), "hinge", sd.penalties.L2(1.0 / 40), fit_intercept=True)
    solution = sd.solve(problem, "row_space", tol=1e-8, max_epochs=60)
    assert solution.status is sd.Status.CONVERGED
