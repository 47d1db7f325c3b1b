"""Dual ascent with a free intercept: the offset of a row is a gradient, points balance, and solutions agree with other solvers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.solvers.active_sdca import DualSearch
from saddlery.solvers.balance import NONE, balance, common_part, offset_around, settle
from saddlery.solvers.dual_epochs import dual_epoch, dual_steps

MU = 0.05
PENALTIES = [sd.penalties.L2(0.02), sd.penalties.ElasticNet(0.02, 0.5)]


def data(n=80, d=12, shift=1.5, share=0.5, seed=0):
    """Rows with a common part and labels that need an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + shift
    z = X[:, 0] - X[:, 1] + 0.7 * rng.standard_normal(n)
    return X, np.where(z > np.quantile(z, share), 1.0, -1.0)


def augmented(problem, a, b, sigma, m):
    """The function of balance.py whose centre lets the intercept be b where u = 0 at first."""
    v, u = -problem.gradient(a), float(problem.s @ a)
    start = -problem.gradient(np.zeros(problem.n))
    centre = b + m @ start / MU
    return problem.dual(a, -v) + centre * u - 0.5 * sigma * u * u - u * (m @ v + 0.5 * u * (m @ m)) / MU


@pytest.mark.parametrize("centred", [False, True])
def test_a_row_sees_the_gradient(centred):
    """With steps so small that nothing else moves, a_i moves along the gradient of the augmented dual."""
    X, y = data()
    loss = sd.losses.SquaredHinge()
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(MU))
    rng = np.random.default_rng(1)
    a = -y * rng.uniform(0.2, 0.8, len(y))
    m = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    offset = offset_around(0.4, 0.0, 3.0, problem.matrix, m if centred else None, np.zeros(X.shape[1]), MU)
    v = -problem.gradient(a)
    offset.numbers[0], offset.numbers[1] = problem.s @ a, (m @ v) / MU
    tiny = np.full(len(y), 1e-6)
    for i in (0, 7, 41):
        up, down = a.copy(), a.copy()
        up[i] += 1e-4
        down[i] -= 1e-4
        slope = (augmented(problem, up, 0.4, 3.0, m) - augmented(problem, down, 0.4, 3.0, m)) / 2e-4
        moved, numbers = a.copy(), offset.numbers.copy()
        dual_epoch(
            loss, problem.penalty, problem.matrix.rows, y, problem.s, tiny, np.array([i]), moved, v.copy(), numbers, offset.along
        )
        assert (moved[i] - a[i]) / 1e-6 * problem.s[i] == pytest.approx(slope, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("centred", [False, True])
def test_steps_never_lower_the_augmented_dual(centred):
    """The curvature of a row, with its common part taken off, is a bound: sweeps ascend; u and m.v follow."""
    X, y = data(shift=3.0)
    problem = sd.LinearProblem(X, y, loss="hinge", penalty=sd.penalties.L2(MU))
    m = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    offset = offset_around(0.1, 0.0, 2.0, problem.matrix, m if centred else None, np.zeros(X.shape[1]), MU)
    steps = dual_steps(problem.matrix.row_square_norms, problem.s, MU, offset.numbers[3] - 2.0 * offset.along)
    a, v = np.zeros(len(y)), np.zeros(X.shape[1])
    value = augmented(problem, a, 0.1, 2.0, m)
    for i in np.random.default_rng(0).permutation(len(y)):
        dual_epoch(problem.loss, problem.penalty, problem.matrix.rows, y, problem.s, steps, np.array([i]), a, v, *offset)
        before, value = value, augmented(problem, a, 0.1, 2.0, m)
        assert value >= before - 1e-12
    assert a.any()
    np.testing.assert_allclose(v, -problem.gradient(a), atol=1e-12)
    assert offset.numbers[0] == pytest.approx(problem.s @ a, abs=1e-12)
    assert offset.numbers[1] == pytest.approx(m @ v / MU, abs=1e-9)


def test_balance_keeps_bounds_and_the_rows_at_them():
    X, y = data()
    problem = sd.LinearProblem(X, y, loss="hinge", penalty=sd.penalties.L2(MU))
    rng = np.random.default_rng(2)
    a = -y * rng.choice([0.0, 1.0, 0.3, 0.6], len(y), p=[0.2, 0.2, 0.3, 0.3])
    before, change = a.copy(), np.empty(len(y))
    excess = float(problem.s @ a)
    assert abs(excess) > 1e-3
    assert balance(problem.loss, y, problem.s, a, excess, change)
    assert abs(problem.s @ a) < 1e-15
    assert np.isfinite(problem.dual(a))
    bound = (before == 0.0) | (np.abs(before) == 1.0)
    assert np.array_equal(a[bound], before[bound])
    np.testing.assert_allclose(change, problem.s * (before - a), atol=1e-15)
    at_bounds = np.where(y > 0.0, -1.0, 0.0)
    assert not balance(problem.loss, y, problem.s, at_bounds, float(problem.s @ at_bounds), change)
    assert np.array_equal(at_bounds, np.where(y > 0.0, -1.0, 0.0))


def test_settling_hardly_moves_margins_of_centred_rows():
    """Free rows that give up their excess move w along their mean: b + m.w stays, and so do margins, but for how rows differ."""
    X, y = data(shift=10.0)
    problem = sd.LinearProblem(X, y, loss="hinge", penalty=sd.penalties.L2(MU))
    a = -y * 0.5
    v = -problem.gradient(a)
    m = common_part(problem.loss, problem.matrix, y, problem.s, a)
    offset = offset_around(0.0, 0.0, 1.0, problem.matrix, m, v, MU)
    a[:5] = -y[:5] * 0.9
    v = -problem.gradient(a)
    offset.numbers[0], offset.numbers[1] = problem.s @ a, m @ v / MU
    numbers = offset.numbers.copy()
    before = X @ v / MU + numbers[2] - numbers[1] - (numbers[3] - offset.along) * numbers[0]
    assert settle(problem.loss, problem.matrix, y, problem.s, a, v, offset)
    after = X @ v / MU + offset.numbers[2] - offset.numbers[1]
    np.testing.assert_allclose(v, -problem.gradient(a), atol=1e-12)
    assert np.abs(after - before).max() < 0.1 * np.abs(m @ m / MU * numbers[0])


@pytest.mark.parametrize("penalty", PENALTIES, ids=["l2", "elasticnet"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smooth_hinge", "logistic"])
@pytest.mark.parametrize("case", ["plain", "weights", "rare", "ones", "separable", "sparse", "far"])
def test_agrees_with_another_solver(loss, penalty, case):
    X, y = data(share=0.95 if case == "rare" else 0.5, shift=30.0 if case == "far" else 1.5)
    weights = np.random.default_rng(5).choice([0.0, 0.3, 2.0], len(y)) if case == "weights" else None
    if case == "ones":
        X[:, 3] = 1.0
    if case == "separable":
        y = np.where(X[:, 0] > X[:, 1] + 0.3, 1.0, -1.0)
    if case == "sparse":
        X = sp.csr_array(np.where(np.abs(X - 1.5) > 1.0, X, 0.0))
    problem = sd.LinearProblem(X, y, loss=loss, penalty=penalty, sample_weight=weights, fit_intercept=True)
    other = "augmented_newton" if loss == "hinge" else "prox_newton"
    ours, theirs = (sd.solve(problem, solver, tol=1e-7, max_epochs=20_000) for solver in ("active_sdca", other))
    assert ours.status is theirs.status is sd.Status.CONVERGED
    assert abs(problem.s @ ours.dual) < 1e-13
    assert problem.primal(ours.w, ours.b) == pytest.approx(problem.primal(theirs.w, theirs.b), abs=2e-7 * problem.scale)
    assert problem.certify(ours.w, ours.dual, ours.b).relative_gap <= 1e-7


@pytest.mark.parametrize("strength", [1e-3, 1.0, 100.0])
def test_agrees_with_a_conic_solver(strength):
    """From separable to so strong that hardly a row is at no bound, where only a larger sigma moves b."""
    cp = pytest.importorskip("cvxpy")
    X, y = data(n=60, d=100, share=0.7)
    problem = sd.LinearProblem(X, y, loss="hinge", penalty=sd.penalties.L2(strength), fit_intercept=True)
    w, b = cp.Variable(100), cp.Variable()
    objective = cp.sum(cp.pos(1.0 - cp.multiply(y, X @ w + b))) / 60 + 0.5 * strength * cp.sum_squares(w)
    optimum = cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL")
    for solver in ("active_sdca", "proximal_point", "row_space", "auto"):
        solution = sd.solve(problem, solver, tol=1e-6, max_epochs=5000)
        assert solution.status is sd.Status.CONVERGED, solver
        assert solution.certificate.primal == pytest.approx(optimum, abs=1e-5 * problem.scale)


def test_the_gap_of_a_balanced_search_is_that_of_its_certificate():
    X, y = data()
    problem = sd.LinearProblem(X, y, loss="hinge", penalty=sd.penalties.L2(0.01), fit_intercept=True)
    search, rng = DualSearch(problem, problem.penalty, 0.01, np.zeros(len(y))), np.random.default_rng(0)
    balanced = 0
    for _ in range(6):
        search.sweep(problem, rng, 0.0, 5, 0.1)
        search.search(problem)
        if search.excess == 0.0:
            certificate = problem.certify(search.w, search.a, search.b)
            assert search.gap == pytest.approx(certificate.gap, rel=1e-6, abs=1e-12)
            balanced += 1
    assert balanced >= 3
    assert not NONE.numbers.any()


def test_resumes_and_starts_warm():
    X, y = data()
    problem = sd.LinearProblem(X, y, loss="hinge", penalty=sd.penalties.L2(0.01), fit_intercept=True)
    first = sd.solve(problem, "active_sdca", tol=1e-6)
    again = sd.solve(problem, "active_sdca", tol=1e-6, start=first)
    assert again.epochs == 0
    nearby = problem.with_penalty(sd.penalties.L2(0.0101))
    warm, cold = sd.solve(nearby, "active_sdca", tol=1e-6, start=first), sd.solve(nearby, "active_sdca", tol=1e-6)
    assert warm.status is cold.status is sd.Status.CONVERGED
    assert warm.passes < cold.passes
