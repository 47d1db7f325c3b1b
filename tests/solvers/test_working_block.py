"""Compact copies of columns: the same products and Gram matrices as those of the data."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.solvers import working_block
from saddlery.solvers.working_block import WorkingBlock

W = np.array([1, 3, 4, 9])


def data(density, seed=0, n=40, d=12):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < density)


@pytest.fixture(params=["dense", "fortran", "csr", "csc", "both", "not sparse", "float32"])
def case(request):
    """A problem in some storage, and its data as an array."""
    X = data(0.9 if request.param == "not sparse" else 0.15)
    X = X.astype(np.float32) if request.param == "float32" else X
    stored = {"dense": X, "fortran": np.asfortranarray(X), "csc": sp.csc_array(X)}.get(request.param, sp.csr_array(X))
    problem = sd.LinearProblem(stored, np.resize([1.0, -1.0], 40), penalty=sd.penalties.L1(0.1))
    if request.param == "both":
        _ = problem.matrix.cols
    return problem, X.astype(np.float64)


@pytest.mark.parametrize("gram_form", [True, False])
@pytest.mark.parametrize("columns", [W, np.arange(12), W[:1]], ids=["some", "all", "one"])
def test_products(case, gram_form, columns):
    problem, X = case
    block = WorkingBlock(problem, columns, gram_form)
    u, r = np.linspace(-1.0, 1.0, len(columns)), np.linspace(1.0, 2.0, 40)
    np.testing.assert_allclose(block.product(u), X[:, columns] @ u, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(block.transposed(r), X[:, columns].T @ r, rtol=1e-12, atol=1e-14)
    assert block.entries == (np.count_nonzero(X[:, columns]) if problem.matrix.is_sparse else 40 * len(columns))


@pytest.mark.parametrize("single_from", [0, 10**9], ids=["single", "double"])
def test_gram(case, single_from, monkeypatch):
    """Formed anew, brought to other weights strictly, loosely, and from a part of the rows."""
    monkeypatch.setattr(working_block, "SINGLE_FROM", single_from)
    problem, X = case
    rng, block, part = np.random.default_rng(1), WorkingBlock(problem, W, True), X[:, W]
    precision = {"rtol": 1e-5, "atol": 1e-5} if single_from == 0 else {"rtol": 1e-11, "atol": 1e-12}
    h = rng.random(40) + 0.1
    block.update_gram(h)
    np.testing.assert_allclose(block.gram, part.T @ (h[:, None] * part), **precision)
    h = h * np.where(np.arange(40) < 10, 3.0, 1.001)
    block.update_gram(h)  # the small changes are left alone
    np.testing.assert_allclose(block.gram, part.T @ (h[:, None] * part), rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(block.gram, part.T @ (block.weights[:, None] * part), **precision)
    block.update_gram(h, strictly=True)
    np.testing.assert_allclose(block.gram, part.T @ (h[:, None] * part), **precision)
    rows = np.arange(40) % 2 == 0
    block.update_gram(h, rows)
    rough = part.T @ ((2.0 * h * rows)[:, None] * part)
    exact = np.maximum(np.diag(rough), np.diag(part.T @ (h[:, None] * part)))
    np.testing.assert_allclose(block.gram - np.diag(np.diag(block.gram)), rough - np.diag(np.diag(rough)), **precision)
    np.testing.assert_allclose(np.diag(block.gram), exact, **precision)
    block.update_gram(h)  # and exactly again
    np.testing.assert_allclose(block.gram, part.T @ (h[:, None] * part), **precision)


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
@pytest.mark.parametrize("penalty", [sd.penalties.L1(1.0), sd.penalties.ElasticNet(1.0, 0.5)])
@pytest.mark.parametrize("intercept", [False, True])
def test_both_forms_arrive_at_the_same_point(loss, penalty, intercept, monkeypatch):
    """Sweeps with conjugate gradients against the Gram matrix, on correlated columns."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 60)) + 0.3 * rng.standard_normal((200, 60))
    y = np.where(X[:, 0] + rng.standard_normal(200) > 0.0, 1.0, -1.0)
    base = sd.LinearProblem(X, y, loss=loss, penalty=penalty, fit_intercept=intercept)
    problem = base.with_penalty(penalty.scaled(0.02 * base.alpha_max()))
    values = []
    for largest in (0, 2000):
        monkeypatch.setattr(working_block, "MAX_GRAM", largest)
        solution = sd.solve(problem, "prox_newton", tol=1e-9)
        assert solution.status is sd.Status.CONVERGED
        values.append(solution.certificate.primal)
    assert values[0] == pytest.approx(values[1], abs=2e-9 * problem.scale)
