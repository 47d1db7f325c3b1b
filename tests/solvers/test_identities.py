"""What the methods must be by their derivation: steps that ascend or descend, and methods that coincide."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.penalties import L2, ElasticNet
from saddlery.solvers.active_sdca import DualSearch, row_gaps
from saddlery.solvers.balance import NONE
from saddlery.solvers.dgpd import greedy_column, greedy_row, greedy_steps
from saddlery.solvers.dgpd_active import simultaneous_update
from saddlery.solvers.dual_epochs import dual_epoch, row_order
from saddlery.solvers.primal_cd import PrimalCD
from saddlery.solvers.prox_newton import ProxNewton
from saddlery.solvers.sdca import SDCA

PENALTY = pytest.mark.parametrize("penalty", [L2(0.7), ElasticNet(0.7)], ids=["l2", "elasticnet"])


def smooth(loss):
    if np.isinf(loss.smoothness):
        pytest.skip("needs a smooth loss")
    return loss


@PENALTY
def test_sdca_never_lowers_the_dual(any_loss, penalty, make_problem):
    """Not by any single row, weighted or empty."""
    problem = make_problem(any_loss, penalty, weights=True)
    state = SDCA().init(problem, None, np.random.default_rng(0))
    value = problem.dual(state.a)
    for _ in range(3):
        for i in state.rng.permutation(problem.n):
            data = problem.matrix.rows, problem.y, problem.s
            dual_epoch(any_loss, problem.penalty, *data, state.steps, np.array([i]), state.a, state.v, *NONE)
            new = problem.dual(state.a)
            assert new >= value - 1e-14
            value = new


@PENALTY
def test_sequential_dual_updates_are_sdca(any_loss, penalty, make_problem):
    """(13) of the paper, z and x refreshed after each row, with eta_i = n^2 mu / ||a_i||^2: the numbers of SDCA in that order.

    Its prox is taken as `dual_step` computes it, which tests of dual sweeps compare with the exact one.
    """
    problem = make_problem(any_loss, penalty)
    A, n, mu, lam = problem.matrix.values, problem.n, problem.penalty.strong_convexity, problem.penalty.threshold
    y, z = np.zeros(n), np.zeros(problem.d)
    state, rng = SDCA(longer=1.0).init(problem, None, np.random.default_rng(7)), np.random.default_rng(7)
    for _ in range(3):
        SDCA().step(problem, state)
        for i in row_order(rng, problem.matrix):
            if not A[i].any():
                y[i] = any_loss.slope(problem.y[i], 0.0)
                continue
            v = -z / n
            x = np.sign(v) * np.maximum(np.abs(v) - lam, 0.0) / mu
            tau = n * mu / (A[i] @ A[i])  # eta_i / n
            new = any_loss.dual_step(problem.y[i], y[i], A[i] @ x, tau)
            z, y[i] = z + (new - y[i]) * A[i], new
        np.testing.assert_allclose(state.a, y, atol=1e-12)
        np.testing.assert_allclose(state.v, -z / n, atol=1e-12)


@PENALTY
@pytest.mark.parametrize("matrix", ["dense", "csr"])
def test_active_sdca_with_full_sets_is_sdca(any_loss, penalty, matrix, make_problem):
    problem = make_problem(any_loss, penalty, matrix)
    plain = SDCA(longer=1.0).init(problem, None, np.random.default_rng(5))
    active = DualSearch(problem, problem.penalty, problem.penalty.strong_convexity, np.zeros(problem.n))
    rng = np.random.default_rng(5)
    for _ in range(3):
        SDCA().step(problem, plain)
        active.row_gap[:] = 1.0  # all rows; a threshold of 0 takes all columns
        active.gap = 1.0
        active.sweep(problem, rng, 0.0, 1, 0.0)
        np.testing.assert_allclose(active.a, plain.a, atol=1e-12)
        np.testing.assert_allclose(active.v, plain.v, atol=1e-12)


@PENALTY
def test_gap_is_the_sum_of_row_gaps(any_loss, penalty, make_problem):
    """With w = map(-X'(s a)): P - D = sum_i s_i gap_i and every gap_i >= 0, for any a of the domain."""
    problem = make_problem(any_loss, penalty, weights=True)
    for seed in range(5):
        a = np.random.default_rng(seed).standard_normal(problem.n)
        a = np.clip(a, any_loss.dual_lower(problem.y), any_loss.dual_upper(problem.y))
        w = problem.penalty.dual_map(-problem.matrix.rmatvec(problem.s * a))
        gaps = np.empty(problem.n)
        total = row_gaps(any_loss, problem.y, problem.s, problem.margins(w), a, gaps)
        assert total == pytest.approx(problem.primal(w) - problem.dual(a), rel=1e-10)
        assert gaps.min() >= -1e-9 * (1 + np.abs(gaps).max())


def test_simultaneous_steps_ascend(any_loss, make_problem):
    """All rows at once with tau = mu / sigma_max^2: proximal gradient ascent, so the dual never falls."""
    problem = make_problem(any_loss, ElasticNet(0.7))
    X, s, mu = problem.matrix.values, problem.s, problem.penalty.strong_convexity
    tau = mu / np.linalg.norm(np.sqrt(s)[:, None] * X, 2) ** 2
    a, value = np.zeros(problem.n), 0.0
    for _ in range(50):
        w = problem.penalty.dual_map(-X.T @ (s * a))
        new = np.empty(problem.n)
        simultaneous_update(any_loss, problem.y, X @ w, a, tau, new)
        assert problem.dual(new) >= value - 1e-14
        a, value = new, problem.dual(new)


def test_primal_methods_never_raise_the_primal(any_loss, any_penalty, make_problem):
    for intercept in (False, True):
        problem = make_problem(smooth(any_loss), any_penalty, intercept=intercept)
        for method in (PrimalCD(), ProxNewton()):
            state = method.init(problem, None, np.random.default_rng(0))
            values = []
            for _ in range(8):
                values.append(problem.primal(state.w, state.b))
                method.step(problem, state)
            assert np.all(np.diff(values) <= 1e-14 * problem.scale)


def random_state(problem, seed):
    """A pair (w, a) with many dual numbers at the ends of their domains."""
    rng = np.random.default_rng(seed)
    a = np.clip(2 * rng.standard_normal(problem.n), problem.loss.dual_lower(problem.y), problem.loss.dual_upper(problem.y))
    w = rng.standard_normal(problem.d) * (rng.random(problem.d) < 0.3)
    return w, a


@pytest.mark.parametrize("seed", range(4))
def test_dgpd_chooses_the_best_column(any_loss, seed, make_problem):
    """(5): the one whose exact minimisation lowers the Lagrangian most, by brute force over all."""
    problem = make_problem(smooth(any_loss), ElasticNet(0.7))
    w, a = random_state(problem, seed)
    u = problem.matrix.rmatvec(problem.s * a)

    def lagrangian(x):
        return u @ x + problem.penalty.value(x)

    falls = []
    for j in range(problem.d):
        trial = w.copy()
        trial[j] = problem.penalty.coordinate_map(-u[j])
        falls.append(lagrangian(w) - lagrangian(trial))
    column, weight, share = greedy_column(problem.penalty, u, w)
    assert falls[column] == pytest.approx(max(falls), rel=1e-9)
    assert weight == problem.penalty.coordinate_map(-u[column])
    assert share == pytest.approx(max(falls) / sum(falls), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_dgpd_never_chooses_a_row_that_cannot_move(any_loss, seed, make_problem):
    problem = make_problem(smooth(any_loss), ElasticNet(0.7))
    w, a = random_state(problem, seed)
    Xw = problem.margins(w)
    tau = np.full(problem.n, 0.3)
    moves = np.array([any_loss.dual_prox(y, v + 0.3 * z, 0.3) - v for y, v, z in zip(problem.y, a, Xw, strict=True)])
    row, move = greedy_row(any_loss, problem.y, problem.s, tau, 1.0, a, Xw)
    assert problem.s[row] * abs(move) == pytest.approx(np.max(problem.s * np.abs(moves)))
    assert move != 0.0
    still = a + moves  # nobody can move from here with z = l*'(a): none is chosen at the saddle
    z = np.array([problem_margin(any_loss, y, v) for y, v in zip(problem.y, still, strict=True)])
    _, rest = greedy_row(any_loss, problem.y, problem.s, tau, 1.0, still, z)
    assert abs(rest) < 1e-6


def problem_margin(loss, y, a):
    """A margin z with l'(z) = a: the root of a growing function, by bisection."""
    low, high = -1e3, 1e3
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if loss.slope(y, middle) < a else (low, middle)
    return low


def test_dgpd_keeps_its_products(make_problem):
    """Xw and u are kept by increments through hundreds of steps without drifting."""
    problem = make_problem(sd.losses.SmoothHinge(), ElasticNet(0.7), "csr")
    w, a, Xw, u = np.zeros(problem.d), np.zeros(problem.n), np.zeros(problem.n), np.zeros(problem.d)
    tau = problem.penalty.strong_convexity / problem.matrix.row_square_norms.max() / problem.s
    rows, cols = problem.matrix.rows, problem.matrix.cols
    assert greedy_steps(problem.loss, problem.penalty, rows, cols, problem.y, problem.s, tau, 500, w, Xw, a, u) > 0
    X = problem.matrix.values
    np.testing.assert_allclose(Xw, X @ w, atol=1e-12)
    np.testing.assert_allclose(u, X.T @ (problem.s * a), atol=1e-12)
    assert np.count_nonzero(w) <= problem.d


def test_scaling_a_dual_point_never_hurts(any_loss, any_penalty, make_problem):
    """dual_point of a feasible point is at least as good as the point: t = 1 is among the choices."""
    for intercept in (False, True):
        problem = make_problem(any_loss, any_penalty, intercept=intercept)
        for seed in range(3):
            feasible = problem.dual_point(np.random.default_rng(seed).standard_normal(problem.n)).a
            for t in (1.0, 0.7, 0.1):
                value = problem.dual(t * feasible)
                assert problem.dual_point(t * feasible).value >= value - 1e-13 * (1 + abs(value))
