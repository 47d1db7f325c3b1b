"""The preconditioner from a sample of the rows: close to the inverse, and worth its price."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.matrix import Matrix
from saddlery.solvers import newton_cg
from saddlery.solvers.newton_cg import NewtonCG, minimise_model, model_diagonal
from saddlery.solvers.sampled_curvature import BLEND, inverse_of_sample, price_of_sample

N, D = 4000, 60


def correlated(rng):
    """Rows with eigenvalues from 1 to 1e-4, of very different lengths, a fifth of them cut to zeros."""
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0] * np.geomspace(1.0, 1e-2, D)
    X = rng.standard_normal((N, D)) @ basis.T * rng.lognormal(0.0, 1.0, N)[:, None]
    return np.where(rng.random((N, D)) < 0.2, 0.0, X)


def model(sparse, free=0):
    rng = np.random.default_rng(0)
    X = correlated(rng)
    h = rng.uniform(0.0, 1.0, N) ** 4 / N
    matrix = Matrix((sp.csr_array(X) if sparse else X).astype(np.float32))
    chosen = np.flatnonzero(h > 1e-3 / N)
    h = h[chosen].astype(np.float32)
    alpha, diagonal = np.float32(1e-6), np.empty(D + free, dtype=np.float32)
    model_diagonal(matrix.rows, chosen, h, alpha, diagonal)
    X = np.column_stack([X, np.ones((N, free))])
    norms = np.square(X[chosen]).sum(axis=1)
    exact = (X[chosen].T * h) @ X[chosen] + alpha * np.diag(np.arange(D + free) < D)
    return matrix, chosen, h, alpha, diagonal, norms, exact


@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_inverse_of_a_sample_flattens_the_spectrum(sparse, free):
    matrix, chosen, h, _, diagonal, norms, exact = model(sparse, free)
    inverse = inverse_of_sample(matrix.rows, chosen, h * norms, norms, diagonal)
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-6)

    def spread(P):
        eigenvalues = np.linalg.eigvals(P @ exact).real
        return eigenvalues.max() / eigenvalues.min()

    by_diagonal = spread(np.diag(1.0 / diagonal.astype(np.float64)))
    assert spread(inverse.astype(np.float64)) < 0.1 * by_diagonal
    blended = (1.0 - BLEND) * exact + BLEND * np.diag(np.diag(exact))
    assert spread(np.linalg.inv(blended)) < spread(inverse.astype(np.float64))  # what all rows would give


@pytest.mark.parametrize("sparse", [False, True])
def test_models_take_fewer_products_to_the_same_step(sparse):
    matrix, chosen, h, alpha, diagonal, norms, exact = model(sparse)
    inverse = inverse_of_sample(matrix.rows, chosen, h * norms, norms, diagonal)
    gradient = np.random.default_rng(1).standard_normal(D).astype(np.float32)
    expected = -np.linalg.solve(exact, gradient)
    counts = []
    for P in (np.empty((0, 0), dtype=np.float32), inverse):
        p = np.empty(D, dtype=np.float32)
        count, _ = minimise_model(matrix.rows, chosen, h, alpha, P, gradient, diagonal, np.float32(1e-4), float("inf"), 1000, p)
        np.testing.assert_allclose(p, expected, atol=0.02 * np.abs(expected).max())
        counts.append(count)
    assert counts[1] < 0.5 * counts[0]


def test_a_matrix_without_inverse_is_refused():
    matrix, chosen, h, _, diagonal, norms, _ = model(False)
    assert inverse_of_sample(matrix.rows, chosen, h * norms, norms, np.full_like(diagonal, np.nan)).shape == (0, 0)


def test_the_price_grows_with_columns_and_short_data_have_none():
    class Facts:
        def __init__(self, n, d, sparse=False):
            self.shape, self.nnz, self.is_sparse = (n, d), n * d // (10 if sparse else 1), sparse

    assert price_of_sample(Facts(60_000, 780)) < 3.0 < price_of_sample(Facts(60_000, 4000, True))
    assert price_of_sample(Facts(5_000, 2_000)) == float("inf")


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_newton_cg_takes_the_sample_where_models_are_hard(monkeypatch, loss, intercept):
    rng = np.random.default_rng(2)
    X = correlated(rng)
    y = np.where(X @ rng.standard_normal(D) + 0.1 * rng.standard_normal(N) > 0.0, 1.0, -1.0)
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(1e-7), fit_intercept=intercept)
    passes = []
    for affordable in (0.0, newton_cg.AFFORDABLE):
        monkeypatch.setattr(newton_cg, "AFFORDABLE", affordable)
        solution = sd.solve(problem, NewtonCG(), tol=1e-8)
        assert solution.status is sd.Status.CONVERGED
        passes.append(solution.passes)
    assert passes[1] < 0.8 * passes[0]  # how much fewer depends on the draws of the start


def test_newton_cg_needs_no_prox_of_the_dual(monkeypatch):
    """Losses of one's own may have none; tall data then start from zero."""
    monkeypatch.delattr(sd.losses.Logistic, "dual_prox")
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 5))
    problem = sd.LinearProblem(X, np.where(X[:, 0] > 0.0, 1.0, -1.0), penalty=sd.penalties.L2(0.1))
    assert sd.solve(problem, "newton_cg", tol=1e-6).status is sd.Status.CONVERGED
