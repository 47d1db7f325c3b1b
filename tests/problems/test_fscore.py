"""The F-score problem: values against all labellings and a conic solver, gradients, certificates, bounds of intervals."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError
from saddlery.geometry.fscore_set import draw_labels, marginals
from saddlery.problems.fscore_intervals import SizedTable, prefix_value, size_grid, table_value
from saddlery.problems.fscore_prefixes import spread_prefixes
from saddlery.problems.fscore_sampling import score_factors
from saddlery.problems.games import Snapshot
from saddlery.problems.matrix_games import solve_matrix_game, solve_plain_game


def all_labellings(n):
    return np.array(list(itertools.product([0.0, 1.0], repeat=n)))


def score(y, z, beta=1.0):
    """The F-score from its definition; 1 if nothing is positive and nothing predicted."""
    if not y.any() and not z.any():
        return 1.0
    return (1 + beta**2) * (y @ z) / (beta**2 * y.sum() + z.sum())


def table_of(Y, p):
    n = Y.shape[1]
    x = np.zeros((n, n))
    for y, mass in zip(Y, p, strict=True):
        if y.any():
            x[int(y.sum()) - 1] += mass * y / y.sum()
    return x


def data(n, d, seed=0, positives=None):
    rng = np.random.default_rng(seed)
    y = np.zeros(n)
    y[: max(1, n // 3) if positives is None else positives] = 1.0
    return rng.standard_normal((n, d)) + 0.7 * y[:, None], y


def brute_force(X, y, alpha, beta=1.0, fit_intercept=False):
    """The value of the game over all 2^n labellings, by a conic solver."""
    n = len(y)
    Y = all_labellings(n)
    F = np.array([[score(one, two, beta) for one in Y] for two in Y])  # predictions x labellings
    p, t = cp.Variable(len(Y), nonneg=True), cp.Variable()
    rules = [cp.sum(p) == 1, F @ p <= t]
    if fit_intercept:
        rules.append(Y.sum(axis=1) @ p == y.sum())
    problem = cp.Problem(cp.Minimize(t + cp.sum_squares(X.T @ (y - Y.T @ p) / n) / (2 * alpha)), rules)
    return problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)


# --------------------------------------------------------------------------- the reformulation


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_expected_scores_of_tables(n, beta):
    """E F over two distributions is a function of their tables: (1 - sum)(1 - sum) + sum_ij C_ij y_i.x_j."""
    rng = np.random.default_rng(n)
    Y = all_labellings(n)
    factors = score_factors(n, beta**2)
    for _ in range(3):
        p, q = rng.dirichlet(np.full(len(Y), 0.3), 2)
        expected = sum(p[a] * q[b] * score(Y[a], Y[b], beta) for a in range(len(Y)) for b in range(len(Y)))
        y, x = table_of(Y, p), table_of(Y, q)
        C = factors.true @ factors.predicted.T
        assert (1 - y.sum()) * (1 - x.sum()) + np.einsum("ij,ik,jk", C, y, x) == pytest.approx(expected, abs=1e-12)
        np.testing.assert_allclose(marginals(y), p @ Y, atol=1e-15)


@pytest.mark.parametrize("beta2", [0.25, 1.0, 4.0])
def test_scores_have_thin_factors(beta2):
    """All digits from 10 to 30 columns; positive semidefinite for beta = 1 only, where the matrix is symmetric."""
    i = np.arange(1.0, 301.0)
    C = (1 + beta2) * np.outer(i, i) / (beta2 * i[:, None] + i)
    true, predicted = score_factors(300, beta2)
    assert true.shape[1] <= 30
    np.testing.assert_allclose(true @ predicted.T, C, rtol=1e-12)
    assert (np.linalg.eigvalsh(C).min() > -1e-10) if beta2 == 1.0 else (np.abs(C - C.T).max() > 1.0)
    for a in range(1, 40):  # what the bounds of intervals need: convex in both sizes
        f = (1 + beta2) / (beta2 * i + a), (1 + beta2) / (beta2 * a + i)
        assert all((np.diff(values, 2) > 0).all() for values in f)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("beta", [1.0, 2.0])
@pytest.mark.parametrize("n", [2, 5])
def test_value_of_the_game_against_all_labellings(n, beta, fit_intercept):
    X, y = data(n, 2, seed=n)
    problem = sd.FScoreProblem(X, y, 0.05, beta=beta, fit_intercept=fit_intercept)
    solution = sd.solve(problem, tol=1e-11)
    expected = brute_force(X, y, 0.05, beta, fit_intercept)
    assert -solution.certificate.primal == pytest.approx(expected, abs=1e-10)
    assert -solution.certificate.dual == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_smoothed_game_against_a_conic_solver(fit_intercept):
    """The adversary alone, with the support function of the predictor written by its Lagrange dual."""
    n, mu, alpha = 3, 0.3, 0.1
    X, y = data(n, 2, seed=3)
    problem = sd.FScoreProblem(X, y, alpha, mu, fit_intercept=fit_intercept)
    solution = sd.solve(problem, "extragradient", tol=1e-10, max_epochs=5000)
    C = problem.scores.true @ problem.scores.predicted.T
    # max over the predictor of an entropy-smoothed linear function over S, written by its Lagrange dual:
    # h(G) = min_{l >= 0, m >= 0} m + mu sum exp((G_jk - m - j l_jk + sum_k l_jk)/mu - 1)
    a, lag, m = cp.Variable((n, n), nonneg=True), cp.Variable((n, n), nonneg=True), cp.Variable(nonneg=True)
    sizes = np.arange(1.0, n + 1.0)
    G = C.T @ a + cp.sum(a) - 1.0
    inner = G - m - cp.multiply(np.repeat(sizes[:, None], n, 1), lag) + cp.sum(lag, axis=1, keepdims=True) @ np.ones((1, n))
    high = m + mu * cp.sum(cp.exp(inner / mu - 1.0))
    rules = [cp.sum(a) <= 1, cp.multiply(np.repeat(sizes[:, None], n, 1), a) <= cp.sum(a, axis=1, keepdims=True) @ np.ones((1, n))]
    if fit_intercept:
        rules.append(cp.sum(sizes @ a) == y.sum())
    quadratic = cp.sum_squares(X.T @ (y - sizes @ a) / n) / (2 * alpha)
    expected = cp.Problem(cp.Minimize(1 - cp.sum(a) + high - mu * cp.sum(cp.entr(a)) + quadratic), rules).solve(solver="CLARABEL")
    assert -solution.certificate.primal == pytest.approx(expected, abs=1e-6)
    assert solution.certificate.gap <= 1e-9


# --------------------------------------------------------------------------- gradients and estimates


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_gradients_are_those_of_the_value(beta):
    X, y = data(5, 3)
    problem = sd.FScoreProblem(X, y, 0.1, 0.2, beta=beta)
    rng = np.random.default_rng(0)
    one, two = problem.players
    x, a = (player.point(player.prox(player.start(), rng.standard_normal((5, 5)), 1.0)) for player in (one, two))
    C = problem.scores.true @ problem.scores.predicted.T

    def value(x, a):
        w = problem.weights(marginals(a))
        return -(1 - x.sum()) * (1 - a.sum()) - np.einsum("ij,ik,jk", C, a, x) - 0.05 * w @ w

    for _ in range(5):
        change = rng.standard_normal((2, 5, 5))
        step = 1e-6
        slope = (value(x + step * change[0], a + step * change[1]) - value(x - step * change[0], a - step * change[1])) / (2 * step)
        gx, gy = problem.gradients(x, a)
        assert np.vdot(gx, change[0]) + np.vdot(gy, change[1]) == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("scheme", ["independent", "rows"])
@pytest.mark.parametrize("probabilities", ["uniform", "norms"])
def test_estimates_are_unbiased(scheme, probabilities):
    X, y = data(4, 3)
    problem = sd.FScoreProblem(X, y, 0.1, 0.2)
    rng = np.random.default_rng(1)
    start = problem.players[0].start()
    x, a, x0, a0 = (problem.players[0].prox(start, rng.standard_normal((4, 4)), 1.0).x for _ in range(4))
    sampling = problem.sampling(scheme, probabilities)
    snapshot = Snapshot(x0, a0, *problem.gradients(x0, a0))
    mean = [np.zeros((4, 4)), np.zeros((4, 4))]
    for i in range(4):
        for j in range(4):
            share = (sampling.q[j] if i == j else 0.0) if scheme == "rows" else sampling.p[i] * sampling.q[j]
            if share:
                vx, vy = sampling.gradients(([i], [j]), 0, x, a, snapshot)
                mean = [mean[0] + share * vx, mean[1] + share * vy]
    for found, expected in zip(mean, problem.gradients(x, a), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-13)


# --------------------------------------------------------------------------- certificates


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_weak_duality_at_random_points(smoothing, fit_intercept):
    X, y = data(6, 3)
    problem = sd.FScoreProblem(X, y, 0.1, smoothing, fit_intercept=fit_intercept)
    rng = np.random.default_rng(2)
    for _ in range(10):
        x = problem.players[0].project(0.3 * rng.random((6, 6)))
        a = problem.players[0].project(0.3 * rng.random((6, 6)))
        w, b = rng.standard_normal(3), float(fit_intercept) * rng.standard_normal()
        dual = problem.dual_point(a)
        assert np.isfinite(problem.primal(w, b, x))
        assert problem.primal(w, b, x) >= dual.value
        if fit_intercept:
            assert marginals(dual.a).sum() == pytest.approx(y.sum(), abs=1e-9)


def test_certificates_are_finite_on_the_way():
    X, y = data(30, 5)
    for problem, solver in (
        (sd.FScoreProblem(X, y, 0.01, 0.1), "extragradient"),
        (sd.FScoreProblem(X, y, 0.01, 0.1, fit_intercept=True), "extragradient"),
        (sd.FScoreProblem(X, y, 0.01), "double_oracle"),
        (sd.FScoreProblem(X, y, 0.01), "extragradient"),
    ):
        trace = sd.solve(problem, solver, tol=1e-6, max_epochs=10).trace
        assert all(np.isfinite(record.gap) and record.gap >= 0.0 for record in trace)


def test_certify_needs_no_predictor():
    """A stored pair certifies alone; the prefixes that are found anew are a bound, if a looser one."""
    X, y = data(40, 4)
    problem = sd.FScoreProblem(X, y, 0.05, fit_intercept=True)
    solution = sd.solve(problem, tol=1e-6)
    again = sd.certify(problem, solution.w, solution.dual, solution.b)
    assert again.dual == pytest.approx(solution.certificate.dual, abs=1e-12)
    assert solution.certificate.primal - 1e-9 <= again.primal <= solution.certificate.primal + 0.05
    smooth = sd.FScoreProblem(X, y, 0.05, 0.5)
    solution = sd.solve(smooth, tol=1e-6)
    assert sd.certify(smooth, solution.w, solution.dual).relative_gap <= 1e-4


def test_primal_value_of_a_labelling_by_hand():
    """A predictor that always predicts z is worth min_y F(y, z) - c.y, over all 2^n labellings."""
    X, y = data(6, 2)
    problem = sd.FScoreProblem(X, y, 0.2, fit_intercept=True)
    w, b = np.array([0.4, -0.3]), 0.2
    c = (X @ w + b) / 6
    z = np.array([1.0, 0, 1, 1, 0, 0])
    expected = min(score(one, z) - c @ one for one in all_labellings(6))
    assert -problem.primal(w, b, table_of(z[None, :], [1.0])) - problem.linear(w, b) == pytest.approx(expected, abs=1e-12)
    order = np.argsort(-c, kind="stable")
    prefix = np.zeros(6)
    prefix[order[:2]] = 1.0
    expected = min(score(one, prefix) - c @ one for one in all_labellings(6))
    assert -problem.primal(w, b, np.eye(1, 7, 2)[0]) - problem.linear(w, b) == pytest.approx(expected, abs=1e-11)


# --------------------------------------------------------------------------- intervals of sizes


@pytest.mark.parametrize("beta2", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("n", [1, 7, 150])
def test_bounds_of_intervals_against_all_sizes(n, beta2):
    rng = np.random.default_rng(n)
    j = np.arange(1.0, n + 1.0)
    for trial in range(4):
        c = np.sort(rng.standard_normal(n) * [0.1, 1.0, 3.0, 0.0][trial] / n)[::-1].copy()
        q = spread_prefixes(c, beta2, 1e-4) if trial % 2 else rng.dirichlet(np.full(n + 1, 0.2))
        assert q.sum() == pytest.approx(1.0)
        weights = [np.cumsum(((1 + beta2) * q[1:] / (beta2 * i + j))[::-1])[::-1] - c for i in range(1, n + 1)]
        exact = min([q[0], *(np.sort(w)[: i + 1].sum() for i, w in enumerate(weights))])
        sizes = np.sort(rng.choice(np.arange(1, n + 1), min(n, 4), replace=False))
        masses = rng.dirichlet(np.ones(sizes.size + 1))[:-1]
        rows = [mass * np.isin(np.arange(n), rng.choice(n, size, replace=False)) for mass, size in zip(masses, sizes, strict=True)]
        table = SizedTable(sizes, np.array(rows, dtype=float))
        worst = max([table.empty, *(np.sort(((1 + beta2) / (beta2 * sizes + k)) @ table.rows)[::-1][: int(k)].sum() for k in j)])
        for slack in (0.0, 1e-3):
            assert -1e-13 <= exact - prefix_value(q, c, beta2, slack) <= slack + 1e-11
            assert -1e-13 <= table_value(table, beta2, slack) - worst <= slack + 1e-11


def test_grid_of_sizes():
    for n in (1, 2, 17, 1000):
        grid = size_grid(n, 1.1)
        assert grid[0] == 1
        assert grid[-1] == n
        assert (np.diff(grid) > 0).all()


def test_matrix_games():
    rng = np.random.default_rng(3)
    for shape in ((4, 9), (30, 10), (1, 6), (6, 1)):
        A, f = rng.standard_normal(shape), rng.standard_normal(shape[1])
        p, q, _, _ = solve_plain_game(A, f, 1e-11)
        assert 0.0 <= (A @ p).max() + f @ p - (A.T @ q + f).min() <= 1e-9
    R, A = rng.standard_normal((12, 5)), rng.standard_normal((7, 12))
    E, e = np.vstack([np.ones(12), np.arange(12.0)]), np.array([1.0, 4.0])
    found = solve_matrix_game(A, np.zeros(12), R @ R.T, E, e, 1e-11)
    p = cp.Variable(12, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.max(A @ p) + cp.sum_squares(R.T @ p) / 2), [E @ p == e])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12)
    assert (A @ found.p).max() + np.sum((R.T @ found.p) ** 2) / 2 == pytest.approx(problem.value, abs=1e-9)


# --------------------------------------------------------------------------- borders


@pytest.mark.parametrize("positives", [0, 8])
def test_one_label_only(positives):
    """All labels alike; all positive is easy, since the adversary must agree with the data."""
    X, y = data(8, 3, positives=positives)
    solution = sd.solve(sd.FScoreProblem(X, y, 1e-3), tol=1e-8)
    assert solution.certificate.relative_gap <= 1e-8
    assert -solution.certificate.primal > (0.9 if positives else 0.1)
    assert sd.solve(sd.FScoreProblem(X, y, 1e-2, 0.1), tol=1e-6).certificate.relative_gap <= 1e-6
    with pytest.raises(InputError, match="both labels"):
        sd.FScoreProblem(X, y, 1e-3, fit_intercept=True)


def test_duplicates_wide_data_and_sparse_data():
    X, y = data(10, 30)
    twice, labels = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    solution = sd.solve(sd.FScoreProblem(twice, labels, 0.1, fit_intercept=True), tol=1e-6)
    assert solution.certificate.relative_gap <= 1e-6
    other = sd.solve(sd.FScoreProblem(sp.csr_array(twice), 2 * labels - 1, 0.1, fit_intercept=True), tol=1e-6)
    assert other.certificate.primal == pytest.approx(solution.certificate.primal, abs=1e-6)
    np.testing.assert_allclose(other.w, solution.w, atol=1e-3)


def test_a_single_row():
    for smoothing in (0.0, 0.5):
        problem = sd.FScoreProblem([[1.0, 2.0]], [1], 0.1, smoothing)
        assert sd.solve(problem, tol=1e-8).certificate.relative_gap <= 1e-8


def test_permuting_rows_changes_nothing():
    X, y = data(12, 3)
    order = np.random.default_rng(5).permutation(12)
    one = sd.solve(sd.FScoreProblem(X, y, 0.05, 0.3), tol=1e-9).certificate.primal
    assert sd.solve(sd.FScoreProblem(X[order], y[order], 0.05, 0.3), tol=1e-9).certificate.primal == pytest.approx(one, abs=1e-8)


def test_refusals():
    X, y = data(5, 2)
    for arguments, match in (
        ((X, y[:3]), "one label for each"),
        ((X, y + 3), "0 and 1"),
        ((X, y, 0.0), "alpha must be a positive"),
        ((X, y, 0.1, -1.0), "smoothing"),
        ((X, y, 0.1, 0.0, "x"), "beta must be a number"),
    ):
        with pytest.raises(InputError, match=match):
            sd.FScoreProblem(*arguments)
    problem = sd.FScoreProblem(X, y, 0.1)
    with pytest.raises(InputError, match="no intercept"):
        sd.certify(problem, np.zeros(2), b=1.0)
    with pytest.raises(InputError, match="2 finite numbers"):
        sd.certify(problem, np.zeros(3))
    with pytest.raises(InputError, match="exceeds the mass"):
        sd.certify(problem, np.zeros(2), SizedTable(np.array([2]), np.array([[1.0, 0, 0, 0, 0]])))
    with pytest.raises(InputError, match="too large"):
        sd.FScoreProblem(np.zeros((10_000, 1)), np.zeros(10_000), 0.1, smoothing=1.0)


def test_drawn_labellings_agree_with_the_value():
    """The predictor's mixed strategy earns on average what the table says."""
    X, y = data(8, 3)
    problem = sd.FScoreProblem(X, y, 0.05)
    x = sd.solve(problem, tol=1e-8).aux
    rng = np.random.default_rng(6)
    draws = [score(y, draw_labels(x, rng)) for _ in range(3000)]
    i = int(y.sum())
    C = problem.scores.true[i - 1] @ problem.scores.predicted.T
    assert np.mean(draws) == pytest.approx(float(C @ (x @ y) / i), abs=0.02)
