"""Data whose columns correlate, where sweeps crawl: exact solves on the support must take over; and tiny data."""

from __future__ import annotations

import numpy as np
import pytest

import saddlery as sd
from saddlery.solvers.gram_model import minimise, worst_violation


def correlated(n: int, d: int, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """Columns with a common part, and targets that depend on a twentieth of them."""
    rng = np.random.default_rng(0)
    X = np.sqrt(1.0 - rho) * rng.standard_normal((n, d)) + np.sqrt(rho) * rng.standard_normal((n, 1))
    z = X[:, : 1 + d // 20] @ rng.standard_normal(1 + d // 20)
    return X, z / z.std() + 0.5 * rng.standard_normal(n)


def strength(X: np.ndarray, y: np.ndarray, share: float) -> float:
    return share * float(np.abs(X.T @ y).max()) / len(y)


@pytest.mark.parametrize(("n", "d", "rho", "share"), [(250, 600, 0.3, 0.01), (300, 600, 0.5, 0.003)])
def test_models_with_nearly_as_many_weights_as_rank_are_solved(n, d, rho, share):
    """Moves that end at the first sign change took 351 epochs, and did not arrive in the second case."""
    X, y = correlated(n, d, rho)
    gram, c = X.T @ X / n, X.T @ y / n
    penalty, u, q = sd.penalties.L1(strength(X, y, share)), np.zeros(d), -c
    epochs = minimise(penalty, gram, u, q, 0, 1e-10)
    assert worst_violation(penalty, u, gram @ u - c) <= 1e-9
    assert epochs <= 300
    np.testing.assert_allclose(q, gram @ u - c, atol=1e-12)


@pytest.mark.parametrize("free", [0, 1])
def test_faces_leave_free_coordinates_alone(free):
    """An intercept changes its sign without being set to zero."""
    X, y = correlated(200, 300, 0.3)
    X = np.hstack([X[:, :-1], np.ones((200, 1))])
    y = y - y.mean() - 0.05
    gram, c = X.T @ X / 200, X.T @ y / 200
    penalty, u, q = sd.penalties.L1(strength(X, y, 0.01)), np.zeros(300), -c
    u[-1] = 0.5
    q += 0.5 * gram[-1]
    minimise(penalty, gram, u, q, free, 1e-10)
    gradient = gram @ u - c
    assert worst_violation(penalty, u[: 300 - free], gradient[: 300 - free]) <= 1e-9
    assert free == 0 or abs(gradient[-1]) <= 1e-9


@pytest.mark.parametrize("intercept", [False, True])
def test_lassos_on_correlated_columns_are_certified(intercept):
    """Sweeps alone stood at 3e-5 after 150 rounds."""
    X, y = correlated(600, 1800, 0.3)
    problem = sd.LinearProblem(X, y, "squared", sd.penalties.L1(strength(X, y, 0.01)), fit_intercept=intercept)
    solution = sd.solve(problem, "prox_newton", max_epochs=25)
    assert solution.certificate.relative_gap <= 1e-6
    assert np.count_nonzero(solution.w) > 500  # more than Gram matrices are formed of elsewhere


@pytest.mark.parametrize(("loss", "slope"), [("logistic", 0.5), ("squared_hinge", 2.0)])
def test_far_gaps_that_do_not_fall_count_as_slow(loss, slope):
    """Rough models took 145 and 69 rounds."""
    X, y = correlated(1500, 600, 0.5)
    y = np.where(y > 0.0, 1.0, -1.0)
    problem = sd.LinearProblem(X, y, loss, sd.penalties.L1(slope * strength(X, y, 0.001)))
    assert sd.solve(problem, "prox_newton", max_epochs=30).certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("penalty", [sd.penalties.L1(0.01), sd.penalties.L2(0.01), sd.penalties.ElasticNet(0.01, 0.5)])
def test_tiny_data_take_few_rounds(loss, penalty, intercept):
    """Steps on all columns are taken until they suffice; one in each round would take at least four."""
    X, y = correlated(270, 13, 0.2)
    y = np.where(y > 0.2, 1.0, -1.0)
    solution = sd.solve(sd.LinearProblem(X, y, loss, penalty, fit_intercept=intercept), "prox_newton")
    assert solution.certificate.relative_gap <= 1e-6
    assert solution.epochs <= 2


def test_a_first_epoch_that_leads_away_is_forgotten():
    """Rows of large and different norms: dual ascent from zero may end above the best constant model."""
    X, y = correlated(270, 13, 0.2)
    X = X * np.logspace(0.0, 3.0, 13) + 50.0
    problem = sd.LinearProblem(X, np.where(y > 0.2, 1.0, -1.0), "logistic", sd.penalties.L2(1.0 / 270.0))
    solution = sd.solve(problem, "prox_newton")
    assert solution.trace[0].primal <= problem.scale * (1.0 + 1e-12)
    assert solution.certificate.relative_gap <= 1e-6
