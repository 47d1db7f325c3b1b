"""Precision among k rows: the loss, the closed form of the game, and the optimum of a conic solver."""

import itertools

import cvxpy as cp
import numpy as np
import pytest

import saddlery as sd
from saddlery.losses.two_hinges import TwoHinges
from saddlery.solvers.precision_at_k import precision_value, solve_precision


def _data(n, d, seed, share=0.4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + 0.7 * rng.standard_normal(n) > np.quantile(X[:, 0], 1.0 - share)).astype(int)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("y", [1.0, -1.0])
def test_conjugate_and_prox(share, y):
    part = TwoHinges(share, 2.5)
    grid = np.linspace(-20.0, 20.0, 40_001)
    values = part.value(np.full(grid.size, y), grid)
    assert values.min() == pytest.approx(0.0, abs=1e-9)
    inside = np.linspace(part.dual_lower(y), part.dual_upper(y), 11)
    for a in inside:
        assert part.conjugate(y, a) == pytest.approx(np.max(a * grid - values), abs=2e-3)
    fine = np.linspace(part.dual_lower(y), part.dual_upper(y), 4001)
    conjugates = part.conjugate(np.full(fine.size, y), fine)
    for a, step in itertools.product((-2.0, -0.6, 0.1, 0.5, 1.7), (0.05, 0.4)):
        best = fine[np.argmin(step * conjugates + 0.5 * (fine - a) ** 2)]
        assert part.dual_prox(y, a, step) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_closed_form_of_the_game(k):
    """v(c) against the linear programme over the adversary's marginals, whose predictor may take any k rows."""
    rng = np.random.default_rng(k)
    for _ in range(5):
        n = 4
        c = rng.standard_normal(n) * rng.choice([0.1, 1.0])
        a, t = cp.Variable(n), cp.Variable()
        rows = [t >= cp.sum(a[list(chosen)]) / k for chosen in itertools.combinations(range(n), k)]
        game = cp.Problem(cp.Minimize(t - c @ a), [a >= 0, a <= 1, *rows])
        exact = game.solve(solver=cp.CLARABEL)
        assert -max(precision_value(n * c, np.zeros(n, dtype=bool), k)) == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("k", "alpha"), [(5, 0.05), (20, 0.01), (40, 0.5), (60, 0.05)])
def test_optimum_of_a_conic_solver(k, alpha, fit_intercept):
    X, labels = _data(60, 4, seed=k)
    w, b = cp.Variable(4), cp.Variable()
    z = X @ w + (b if fit_intercept else 0.0)
    terms = cp.maximum(cp.sum(cp.pos(z)) / 60 - 1.0, cp.sum(cp.pos(z - 60 / k)) / 60)
    exact = cp.Problem(cp.Minimize(terms - labels @ z / 60 + alpha / 2 * cp.sum_squares(w))).solve(solver=cp.CLARABEL)
    solution = solve_precision(X, labels, k, alpha, fit_intercept, tol=1e-5)
    certificate = solution.certificate
    assert certificate.dual - 1e-8 <= exact <= certificate.primal + 1e-8
    assert solution.status is sd.Status.CONVERGED
    assert certificate.relative_gap <= 1e-5
    assert solution.trace[-1].gap == pytest.approx(certificate.gap, abs=1e-12)
    u = labels + solution.dual  # the adversary's marginals: feasible, and their worth is the dual value
    assert u.min() >= -1e-12
    assert u.max() <= 1.0 + 1e-12
    assert not fit_intercept or abs(solution.dual.sum()) <= 1e-9
    worth = np.sort(u)[::-1][:k].sum() / k + np.sum((X.T @ solution.dual / 60) ** 2) / (2 * alpha)
    assert certificate.dual == pytest.approx(-worth, abs=1e-12)


def test_refuses_k_that_is_no_number_of_rows():
    X, labels = _data(10, 2, seed=0)
    for k in (0, 11):
        with pytest.raises(sd.InputError, match="from 1 to 10"):
            solve_precision(X, labels, k, 0.1)
