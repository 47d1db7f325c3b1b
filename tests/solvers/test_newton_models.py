"""The pieces of a Newton step: the model on columns, and the line search."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.penalties import L1, L2, ElasticNet
from saddlery.solvers import residual_model
from saddlery.solvers.gram_model import worst_violation
from saddlery.solvers.model_care import goal_of
from saddlery.solvers.newton_search import search_along
from saddlery.solvers.prox_newton import ProxNewton
from saddlery.solvers.residual_model import minimise_on_columns
from saddlery.solvers.working_block import WorkingBlock, gram_is_cheaper


@pytest.mark.parametrize("intercept", [False, True])
def test_a_model_with_more_weights_than_rows_is_solved(intercept, monkeypatch):
    """With an l2 part, by conjugate gradients: columns that are nearly alike would take sweeps without end."""
    monkeypatch.setattr(residual_model, "WORTH_LONG", 15)
    rng = np.random.default_rng(0)
    n, d = 60, 300
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + 0.05 * rng.standard_normal((n, d))
    y = np.sign(X[:, 0])
    problem = sd.LinearProblem(X, y, "logistic", ElasticNet(1e-3, 0.01), fit_intercept=intercept)
    block = WorkingBlock(problem, np.arange(d), gram_form=False)
    r, h = problem.s * rng.standard_normal(n), problem.s * (0.1 + rng.random(n))
    r -= r.mean() * intercept
    gradient, origin = X.T @ r, np.zeros(d + intercept)
    violation = worst_violation(problem.penalty, origin[:d], gradient)
    q = np.append(gradient, r.sum()) if intercept else gradient
    u, _, _, products = minimise_on_columns(problem, block, h, origin, q, 0.03 * violation, careful=True)
    assert products > 0
    assert 2 * np.count_nonzero(u[:d]) > n
    slopes = r + h * (X @ u[:d] + (u[d] if intercept else 0.0))
    assert worst_violation(problem.penalty, u[:d], X.T @ slopes) <= 0.05 * violation
    if intercept:
        assert abs(slopes.sum()) <= 0.05 * violation


@pytest.mark.parametrize("form", ["dense", "sparse", "single", "by rows"])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_model_on_columns_and_its_margins(form, even, intercept):
    """The minimum of the model on some columns, whatever holds them, and the margins of the move."""
    rng = np.random.default_rng(3)
    n, d, m = 80, 30, 12
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    data = X if form == "dense" else sp.csr_array(X) if form == "by rows" else sp.csc_array(X)
    data = data.astype(np.float32) if form == "single" else data
    X = X.astype(np.float32).astype(np.float64) if form == "single" else X
    problem = sd.LinearProblem(data, rng.standard_normal(n), "squared", ElasticNet(0.05, 0.8), fit_intercept=intercept)
    W = np.sort(rng.choice(d, m, replace=False))
    block = WorkingBlock(problem, W, gram_form=False)
    r, h = problem.s * rng.standard_normal(n), problem.s * (np.ones(n) if even else 0.1 + rng.random(n))
    origin = np.where(rng.random(m + intercept) < 0.5, 0.0, rng.standard_normal(m + intercept))
    gradient = X[:, W].T @ r
    q = np.append(gradient, r.sum()) if intercept else gradient
    violation = 1e-4
    for _ in range(2):  # the second time in the same room
        u, margins, _, _ = minimise_on_columns(problem, block, h, origin, q, 0.03 * violation, careful=True)
        move = u - origin
        along = X[:, W] @ move[:m] + (move[m] if intercept else 0.0)
        slopes = r + h * along
        assert worst_violation(problem.penalty, u[:m], X[:, W].T @ slopes) <= 0.1 * violation
        if intercept:
            assert abs(slopes.sum()) <= 0.1 * violation
        if form == "dense" or not even:
            assert margins is None  # they are rounded
        else:
            np.testing.assert_allclose(margins, X[:, W] @ move[:m], atol=1e-12)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("careful", [False, True])
def test_an_intercept_takes_no_more_sweeps_than_centred_columns(even, sparse, careful):
    """As a coordinate of its own it would wait for all others, and they for it, where columns have a mean."""
    rng = np.random.default_rng(5)
    n, d = 300, 40
    X = 2.0 + rng.standard_normal((n, d))
    h = np.full(n, 1.0 / n) if even else (0.1 + rng.random(n)) / n
    centred = X - h @ X / h.sum()
    r = rng.standard_normal(n) / n
    r -= h * r.sum() / h.sum()
    penalty, sweeps, found = ElasticNet(0.01, 0.5), [], []
    for data, intercept in ((X, True), (centred, False)):
        matrix = sp.csc_array(data) if sparse else data
        problem = sd.LinearProblem(matrix, np.ones(n), "squared", penalty, fit_intercept=intercept)
        block = WorkingBlock(problem, np.arange(d), gram_form=False)
        q = np.append(data.T @ r, r.sum()) if intercept else data.T @ r
        u, _, count, products = minimise_on_columns(problem, block, h, np.zeros(d + intercept), q, 1e-5, careful=careful)
        sweeps.append(count + products)
        found.append(u[:d])
    assert sweeps[0] <= sweeps[1] + 3
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_constant_column_beside_an_intercept_gets_no_weight(loss, sparse):
    """Centred, nothing is left of it but rounding."""
    rng = np.random.default_rng(6)
    X = 1.0 * (rng.random((400, 150)) < 0.1)
    X[:, 7] = 3.3
    y = np.where(X[:, 0] + X[:, 1] + 0.3 * rng.standard_normal(400) > 0.5, 1.0, -1.0)
    problem = sd.LinearProblem(sp.csc_array(X) if sparse else X, y, loss, L1(0.005), fit_intercept=True)
    solution = sd.solve(problem, "prox_newton", tol=1e-8)
    assert solution.certificate.relative_gap <= 1e-8
    assert abs(solution.w[7]) <= 1e-6


def test_margins_of_rows_without_weight_are_not_read_off_the_model():
    X = sp.csc_array(np.eye(4))
    problem = sd.LinearProblem(X, np.ones(4), "squared", L1(0.01), sample_weight=np.array([1.0, 2.0, 1.0, 0.0]))
    block = WorkingBlock(problem, np.arange(4), gram_form=False)
    gradient = X.T @ (-problem.s)
    u, margins, _, _ = minimise_on_columns(problem, block, problem.s, np.zeros(4), gradient, 0.03, careful=True)
    assert margins is None
    assert np.count_nonzero(u) == 3


def test_epochs_of_earlier_models_decide_between_gram_matrix_and_sweeps():
    X = sp.random_array((400, 2000), density=0.05, format="csc", rng=np.random.default_rng(4))
    problem = sd.LinearProblem(X, np.ones(400), "squared", L1(0.01))
    entries = problem.matrix.count_entries(np.arange(100))
    assert not gram_is_cheaper(problem, entries, 100, 0.0, epochs=3)
    assert gram_is_cheaper(problem, entries, 100, 0.0, epochs=200)


def search(penalty, l2):
    """A Newton step from zero on separable rows; its size, and the objective as a function of the size."""
    rng = np.random.default_rng(1)
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    X = y[:, None] + 0.3 * rng.standard_normal((40, 2))
    problem = sd.LinearProblem(X, y, "logistic", penalty)
    r = problem.s * problem.slopes(np.zeros(40))
    move = np.linalg.solve(0.25 * (X.T * problem.s) @ X + 1e-4 * np.eye(2), -X.T @ r)
    w, room = np.zeros(2), [np.empty(40) for _ in range(4)]
    start = (problem.loss_value(np.zeros(40), 0.0), np.arange(2), np.zeros(2), move, l2, w, np.empty(2))
    args = (problem.loss, penalty, y, problem.s, np.zeros(40), X @ move, 0.0, 0.0, r)
    size, loss, value = search_along(*args, *start, *room)
    np.testing.assert_allclose(w, size * move)
    np.testing.assert_allclose(room[0], X @ w)
    np.testing.assert_allclose(room[2], problem.s * problem.slopes(X @ w))
    assert loss + value == pytest.approx(problem.primal(w, 0.0), rel=1e-12)
    return size, lambda t: problem.primal(t * move, 0.0)


def test_steps_go_on_where_slopes_saturate():
    size, objective = search(L2(1e-4), 1e-4)
    assert size > 1.5
    best = min(objective(t) for t in np.linspace(0.0, 4.0 * size, 400))
    assert objective(1.0) - objective(size) >= 0.5 * (objective(1.0) - best)


def test_steps_with_l1_are_not_lengthened():
    assert search(L1(1e-4), -1.0)[0] == 1.0


def test_early_gram_matrices_serve_twice(monkeypatch):
    monkeypatch.setattr("saddlery.solvers.block_choice.grows", lambda *args: False)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((1500, 400))
    y = np.sign(X[:, :60].sum(axis=1) + 5.0 * rng.standard_normal(1500))
    problem = sd.LinearProblem(X, y, "logistic", L1(0.012))
    made, taken = [], []
    update, step = WorkingBlock.update_gram, ProxNewton._newton_step
    monkeypatch.setattr(WorkingBlock, "update_gram", lambda self, *args: made.append(1) or update(self, *args))
    monkeypatch.setattr(ProxNewton, "_newton_step", lambda self, *args: taken.append(1) or step(self, *args))
    twice = sd.solve(problem, "prox_newton", tol=1e-9)
    assert 0 < len(made) < len(taken)
    monkeypatch.setattr("saddlery.solvers.prox_newton.WORTH_CHORDS", 10**9)
    made.clear()
    taken.clear()
    once = sd.solve(problem, "prox_newton", tol=1e-9)
    assert len(made) == len(taken)
    np.testing.assert_allclose(twice.w, once.w, atol=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("intercept", [False, True])
def test_margins_that_are_called_exact_are(loss, intercept):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 90)) * (rng.random((60, 90)) < 0.3)
    problem = sd.LinearProblem(sp.csr_array(X), np.where(X[:, 0] > 0.0, 1.0, -1.0), loss, L1(1.0), fit_intercept=intercept)
    _ = problem.matrix.cols
    top, method, exact = problem.alpha_max(), ProxNewton(), 0
    state = method.init(problem.with_penalty(L1(0.5 * top)), None, np.random.default_rng(0))
    for share in (0.5, 0.3, 0.2, 0.1):
        single = problem.with_penalty(L1(share * top))
        state = method.follow(single, state)
        for _ in range(3):
            method.step(single, state)
            point = method.point(single, state)
            exact += point.exact
            tight = 0.0 if point.exact and not intercept else 1e-12
            np.testing.assert_allclose(point.Xw, X @ state.w, rtol=1e-13 if point.exact else 1e-10, atol=max(tight, 1e-15))
    assert exact > 4


def test_exact_models_are_solved_to_what_the_tolerance_needs_and_others_no_further():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((50, 20))
    for loss, share in (("squared", 1e-3), ("logistic", 0.2)):
        problem = sd.LinearProblem(X, np.where(X[:, 0] > 0.0, 1.0, -1.0), loss, L1(0.01))
        state = ProxNewton().init(problem, None, np.random.default_rng(0))
        block = WorkingBlock(problem, np.arange(20), gram_form=False)
        state.tol = 1e-6
        assert goal_of(problem, state, block, 1.0) == (1e-4 if loss == "squared" else 0.03)  # no weights yet
        state.w[0] = 1.0
        state.penalty = problem.penalty.value(state.w)
        suffices = 0.3 * state.tol * problem.scale
        assert goal_of(problem, state, block, suffices / share) == pytest.approx(suffices)


def test_sweeps_end_by_what_they_will_leave(monkeypatch):
    """Sweeps over sparse columns that are nearly orthogonal shrink fast: the last one is not made, and the goal is met."""
    rng = np.random.default_rng(5)
    X = sp.random_array((2000, 400), density=0.01, rng=rng, format="csc")
    problem = sd.LinearProblem(X, X @ rng.standard_normal(400), "squared", L1(1e-5))
    block = WorkingBlock(problem, np.arange(400), gram_form=False)
    r = -problem.s * problem.y
    sweeps = {}
    for least in (0.1, 1.0):
        monkeypatch.setattr(residual_model, "LEAST_RATE", least)
        u, _, sweeps[least], _ = minimise_on_columns(problem, block, problem.s, np.zeros(400), X.T @ r, 1e-9, careful=True)
        slopes = r + problem.s * (X @ u)
        assert worst_violation(problem.penalty, u, X.T @ slopes) <= 3e-9
        assert 0.0 < block.rate < 0.5
    assert sweeps[0.1] < sweeps[1.0]
