"""Passes that read dense data once: the same numbers as plain formulas, and slopes that belong to the point they come with."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

import saddlery as sd
from saddlery.losses.rows import inside_simplex
from saddlery.losses.softmax import Softmax
from saddlery.solvers.multiclass_dense import dense_model, dense_pass
from saddlery.solvers.multiclass_model import MOST_ROWS, Curvature, Pairs
from saddlery.solvers.multiclass_newton import MulticlassNewton
from saddlery.solvers.multiclass_rows import BLOCK, gradient_of, model_rows, new_room


def data(n=2 * BLOCK + 9, d=5, k=4, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    return rng.standard_normal((n, d)), rng.integers(0, k, n), s / s.sum(), rng.standard_normal((k, d)), rng.standard_normal(k)


@pytest.mark.parametrize(("margin", "tau"), [(0.0, 1.0), (1.0, 0.3)])
@pytest.mark.parametrize("asked", [True, False])
def test_one_pass_makes_margins_probabilities_and_slopes(margin, tau, asked):
    X, codes, s, W, b = data()
    (n, _), k = X.shape, len(W)
    T, V, G = np.full((k, n), 7.0), np.empty((k, n)), np.empty_like(W)
    sums = dense_pass(Softmax(), X, codes, s, W, b, margin, tau, new_room(k), T, V, G, asked, asked)
    Y = np.eye(k)[codes]
    z = X @ W.T + b - margin * Y
    own = z[np.arange(n), codes]
    expected = softmax(z / tau, axis=1)
    np.testing.assert_allclose(V, expected.T, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(sums, [s @ (tau * logsumexp(z / tau, axis=1) - own), s @ (z.max(axis=1) - own)], rtol=1e-12)
    np.testing.assert_allclose(T, W @ X.T if asked else 7.0, rtol=1e-12, atol=1e-12)  # untouched where nobody asks
    np.testing.assert_allclose(G, (s[:, None] * (expected - Y)).T @ X if asked else 0.0, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("size", [0.01, 3.0])  # in the second some probabilities would be negative
def test_the_dual_point_of_a_model_is_that_of_the_rows(size):
    X, codes, s, W, b = data(seed=1)
    n, k = len(X), len(W)
    V = np.ascontiguousarray(softmax(X @ W.T, axis=1).T)
    D = size * W[::-1].copy()
    A, G = np.empty((n, k)), np.empty_like(W)
    dense_model(Softmax(), X, codes, s, V, D, size * b, new_room(k), A, G)
    Z = D @ X.T + size * b[:, None]
    model_rows(Softmax(), V, 0, Z, new_room(k))
    expected = Z.T - np.eye(k)[codes]
    np.testing.assert_allclose(A, expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(G, (s[:, None] * expected).T @ X, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("intercept", [False, True])
def test_slopes_of_a_pass_belong_to_the_present_point(intercept, monkeypatch):
    X, codes, s, *_ = data(seed=2)
    problem = sd.MulticlassProblem(X, codes, penalty=sd.penalties.L1(0.003), sample_weight=s, fit_intercept=intercept)
    judge, seen = MulticlassNewton._judge, []

    def checked(self, problem, state):
        judge(self, problem, state)
        S = X @ state.w.reshape(problem.d, problem.k) + state.b
        expected = gradient_of(problem.matrix, problem.s[:, None] * (softmax(S, axis=1) - np.eye(problem.k)[codes]))
        np.testing.assert_allclose(state.G, expected.ravel(), atol=1e-12)
        seen.append(state.fresh is not None)

    monkeypatch.setattr(MulticlassNewton, "_judge", checked)
    solution = sd.solve(problem, solver="multiclass_newton", tol=1e-9)
    assert solution.certificate.relative_gap <= 1e-9
    assert any(seen) != intercept  # intercepts are balanced after the pass


def test_dense_and_sparse_data_end_alike():
    X, codes, *_ = data(seed=3)
    penalty = sd.penalties.L1(0.01)
    ends = [
        sd.solve(sd.MulticlassProblem(form, codes, penalty=penalty), solver="multiclass_newton", tol=1e-10)
        for form in (X, sp.csr_array(X))
    ]
    np.testing.assert_allclose(ends[0].w, ends[1].w, atol=1e-5)


def test_products_with_the_curvature_do_not_depend_on_blocks():
    rng = np.random.default_rng(4)
    n, d, k = 2 * MOST_ROWS + 17, 3, 4
    columns, V = rng.standard_normal((d + 1, n)).astype(np.float32), rng.dirichlet(np.ones(k), n).T.astype(np.float32).copy()
    s = np.full(n, 1.0 / n, dtype=np.float32)
    pairs, move = Pairs(np.arange(d * k), k), rng.standard_normal(d * k)
    product = Curvature(None, columns, np.arange(d), pairs, V, s, 0)
    assert product.width < n
    blocks, slopes = product(move), product.slopes.copy()
    product.width = n
    np.testing.assert_allclose(product(move), blocks, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(product.slopes, slopes, rtol=1e-3, atol=1e-6)


def test_rows_of_the_simplex_are_told_from_others():
    inside = np.array([0.2, -0.5, 0.3, 0.0])
    assert inside_simplex(Softmax(), 1, inside, 1.0)
    assert inside_simplex(Softmax(), 1, inside, 0.5)
    assert not inside_simplex(Softmax(), 0, inside, 1.0)  # negative where it is not the class of the row
    assert not inside_simplex(Softmax(), 1, inside + np.array([0.1, 0.0, 0.0, 0.0]), 1.0)  # not balanced
    assert not inside_simplex(Softmax(), 1, np.array([0.6, -1.1, 0.5, 0.0]), 1.0)  # more than all is taken from the class


@pytest.mark.parametrize("wrong", [False, True])
def test_last_steps_are_taken_unseen_and_certificates_look_at_them(wrong, monkeypatch):
    X, codes, *_ = data(n=3000, d=20, seed=5)
    codes = np.argmax(X[:, :4] + np.random.default_rng(5).gumbel(size=(3000, 4)), axis=1)
    problem = sd.MulticlassProblem(X, codes, penalty=sd.penalties.L1(0.002))
    trusted, promise = [], MulticlassNewton._promise
    if wrong:  # a model that promises all from the first step on
        monkeypatch.setattr(
            MulticlassNewton, "_promise", lambda self, problem, forecast: min(promise(self, problem, forecast), 0.0)
        )
    may_trust = MulticlassNewton._may_trust

    def counted(self, problem, state):
        trusted.append(may_trust(self, problem, state))
        return trusted[-1]

    monkeypatch.setattr(MulticlassNewton, "_may_trust", counted)
    solution = sd.solve(problem, solver="multiclass_newton", tol=1e-5)
    assert sum(trusted) == 1
    assert trusted[-1] != wrong  # one that was wrong is not followed by others
    assert sd.certify(problem, solution.w, solution.dual).relative_gap <= 1e-5
