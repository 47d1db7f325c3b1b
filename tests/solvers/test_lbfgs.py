"""L-BFGS with a preconditioner from a sample: its parts against NumPy, its fits against others, and where it must not give up."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.matrix import as_matrix
from saddlery.solvers import lbfgs
from saddlery.solvers.lbfgs import LBFGS, direction, loss_and_gradient
from saddlery.solvers.sampled_curvature import inverse_of_sample

N, D = 900, 70


def data(seed=0, n=N, d=D, scales=True):
    """Columns that correlate, in different units, a third of the entries zero, signs with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    X = np.where(rng.random((n, d)) < 0.3, 0.0, X) * (np.exp(rng.standard_normal(d)) if scales else 1.0)
    z = X @ rng.standard_normal(d)
    return X, np.where(z / z.std() + 0.5 * rng.standard_normal(n) > 0.3, 1.0, -1.0)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("sparse", [False, True])
def test_one_pass_gives_the_value_and_the_gradient(sparse, free, loss):
    X, y = data(n=150, d=9)
    rng, l2 = np.random.default_rng(1), 0.3
    s, w = rng.dirichlet(np.ones(150)), rng.standard_normal(9 + free)
    loss = getattr(sd.losses, "".join(part.title() for part in loss.split("_")))()
    rows = as_matrix(sp.csr_array(X) if sparse else X).rows
    room, g = (np.empty(lbfgs.ROWS), np.empty(lbfgs.ROWS), np.empty(9), np.empty(9)), np.empty(9 + free)
    value = loss_and_gradient(loss, rows, y, s, l2, w, *room, g)
    z = X @ w[:9] + (w[9] if free else 0.0)
    values, slopes = np.array([(loss.value(b, a), loss.slope(b, a)) for a, b in zip(z, y, strict=True)]).T
    assert value == pytest.approx(s @ values + 0.5 * l2 * w[:9] @ w[:9], rel=1e-12)
    np.testing.assert_allclose(g[:9], X.T @ (s * slopes) + l2 * w[:9], rtol=1e-10, atol=1e-13)
    assert free == 0 or g[9] == pytest.approx(s @ slopes, rel=1e-10)


@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_direction_is_that_of_bfgs(count):
    """With as many pairs as there is room for, the matrix is the one that the updates of BFGS make of the preconditioner."""
    rng, d, memory = np.random.default_rng(count), 6, 4
    root = rng.standard_normal((d, d))
    A, inverse = root @ root.T + np.eye(d), np.linalg.inv(np.diag(rng.uniform(1.0, 3.0, d)) + 0.1)
    every = rng.standard_normal((count, d))
    moves, bends, rho = np.zeros((memory, d)), np.zeros((memory, d)), np.zeros(memory)
    H = inverse.copy()
    for k in range(count):
        moves[k % memory], bends[k % memory] = every[k], A @ every[k]
        rho[k % memory] = 1.0 / (every[k] @ A @ every[k])
    for s in every[max(0, count - memory) :]:
        y = A @ s
        V = np.eye(d) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    g, p = rng.standard_normal(d), np.empty(d)
    rows = as_matrix(np.zeros((2, d))).rows
    direction(rows, inverse, np.ones(d), moves, bends, rho, count, g, np.empty(memory), np.empty(d), p)
    np.testing.assert_allclose(p, -H @ g, rtol=1e-9, atol=1e-12)


def test_a_sample_of_all_rows_is_the_matrix_itself():
    X, _ = data(n=400, d=12, scales=False)
    h, alpha = np.random.default_rng(2).uniform(0.1, 1.0, 400) / 400, 0.05
    exact = (X.T * h) @ X + alpha * np.eye(12)
    norms, rows = np.square(X).sum(axis=1), as_matrix(X.astype(np.float32)).rows
    diagonal = np.diag(exact).astype(np.float32)
    inverse = inverse_of_sample(rows, np.arange(400), h * norms, norms, diagonal, alpha, 400, 0.0)
    np.testing.assert_allclose(inverse @ exact, np.eye(12), atol=2e-3)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smooth_hinge", "huber", "squared"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_it_ends_where_others_do(sparse, intercept, loss):
    X, y = data(3)
    weights = np.random.default_rng(4).uniform(0.0, 2.0, N) * (np.arange(N) % 5 > 0)
    problem = sd.LinearProblem(
        sp.csr_array(X) if sparse else X,
        y,
        loss=loss,
        penalty=sd.penalties.L2(1e-3),
        sample_weight=weights,
        fit_intercept=intercept,
    )
    mine, other = (sd.solve(problem, solver, tol=1e-9) for solver in ("lbfgs", "prox_newton"))
    assert mine.status is sd.Status.CONVERGED
    assert mine.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-8)


@pytest.mark.parametrize("balanced", [False, True])
def test_it_leaves_flat_places(balanced):
    """At zero no row of the smooth hinge has curvature, and none is there for the intercept."""
    X, y = data(5)
    y[: N // 2 * 2] = np.repeat([1.0, -1.0], N // 2) if balanced else y[: N // 2 * 2]
    problem = sd.LinearProblem(X, y, loss=sd.losses.SmoothHinge(1.0), penalty=sd.penalties.L2(1e-3), fit_intercept=True)
    assert sd.solve(problem, "lbfgs", tol=1e-7).status is sd.Status.CONVERGED


def test_single_precision_is_left_where_it_does_not_suffice():
    """Columns far from zero cost digits of the margins."""
    X, y = data(6, scales=False)
    problem = sd.LinearProblem(X + 100.0, y, penalty=sd.penalties.L2(1e-2), fit_intercept=True)
    state = LBFGS().init(problem, None, np.random.default_rng(0))
    state.tol = 1e-11
    for _ in range(200):
        LBFGS().step(problem, state)
        if not state.single:
            break
    assert not state.single
    assert sd.solve(problem, "lbfgs", tol=1e-9).status is sd.Status.CONVERGED


def test_tolerances_below_single_precision_are_met():
    X, y = data(6)
    problem = sd.LinearProblem(X, y, penalty=sd.penalties.L2(1e-2))
    assert sd.solve(problem, "lbfgs", tol=1e-13).certificate.relative_gap <= 1e-13


def test_it_learns_from_more_rows_where_steps_remain_many():
    rng = np.random.default_rng(7)
    X = rng.standard_t(1.5, (4000, 80))
    y = np.where(X @ rng.standard_normal(80) + rng.standard_normal(4000) > 0.0, 1.0, -1.0)
    problem = sd.LinearProblem(X, y, loss="squared_hinge", penalty=sd.penalties.L2(1e-5))
    state = LBFGS().init(problem, None, rng)
    state.tol = 1e-8
    for _ in range(100):
        LBFGS().step(problem, state)
        if state.left <= state.tol:
            break
    assert state.left <= state.tol
    assert state.learnt > 2
    assert state.grown >= 1


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("intercept", [False, True])
def test_paths_go_on_with_pairs_and_rows(intercept, loss):
    X, y = data(9)
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(1.0), fit_intercept=intercept)
    result = sd.path(problem, alphas=[0.1, 0.03, 0.01, 1e-3, 3e-3], solver="lbfgs", tol=1e-8)
    for alpha, w, certificate in zip(result.alphas, result.coefs, result.certificates, strict=True):
        single = sd.solve(problem.with_penalty(sd.penalties.L2(alpha)), "prox_newton", tol=1e-10)
        assert certificate.relative_gap <= 1e-8
        np.testing.assert_allclose(w, single.w, atol=np.sqrt(4.0 * certificate.gap / alpha) + 1e-6)  # l2 bounds how far they are
    alone = sum(sd.solve(problem.with_penalty(sd.penalties.L2(alpha)), "lbfgs", tol=1e-8).passes for alpha in result.alphas)
    assert sum(solution.passes for solution in result.solutions) < alone


def test_pairs_follow_the_strength():
    """Of a quadratic function, bends are the matrix times moves, whatever the strength."""
    X, y = data(10, 200, 8, scales=False)
    first, second = (
        sd.LinearProblem(X, y, loss="squared", penalty=sd.penalties.L2(alpha), fit_intercept=True) for alpha in (0.5, 0.2)
    )
    method = LBFGS()
    state = method.init(first, None, np.random.default_rng(0))
    state.tol = 1e-9
    method.step(first, state)
    state = method.follow(second, state)
    count = state.count
    assert count > 1
    ones = np.column_stack([X, np.ones(200)])
    A = ones.T @ ones / 200 + 0.2 * np.diag([1.0] * 8 + [0.0])
    np.testing.assert_allclose(state.bends[:count], state.moves[:count] @ A, rtol=1e-4, atol=1e-4 * np.abs(state.bends).max())
    np.testing.assert_allclose(state.rho[:count], 1.0 / (state.moves * state.bends).sum(axis=1)[:count])
    np.testing.assert_allclose(state.g, A @ state.weights - ones.T @ y / 200, atol=1e-5)


def test_wide_data_never_ask_for_a_matrix_of_all_columns(monkeypatch):
    """Whatever is ahead: 30,000 columns squared would take gigabytes."""
    X = sp.random_array((60, 30_000), density=0.01, format="csr", rng=np.random.default_rng(0))
    problem = sd.LinearProblem(X, np.repeat([1.0, -1.0], 30), loss="squared_hinge", penalty=sd.penalties.L2(1e-2))
    monkeypatch.setattr(lbfgs, "inverse_of_sample", None)
    assert sd.solve(problem, "lbfgs", tol=1e-6).status is sd.Status.CONVERGED


@pytest.mark.parametrize(("n", "d", "expected"), [(3000, 100, True), (1000, 300, True), (3000, 10, False), (400, 300, False)])
def test_auto_takes_it_for_tall_dense_data(n, d, expected):
    X, y = data(8, n, d)
    problem = sd.LinearProblem(X, y, penalty=sd.penalties.L2(1.0 / n))
    assert (sd.solvers.available(problem)[0] == "lbfgs") == expected
