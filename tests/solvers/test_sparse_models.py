"""Newton models on sparse columns: short copies, conjugate gradients to the goal, the dual point that ends a run."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.penalties import L1
from saddlery.solvers import block_choice, forecasts, prox_newton, residual_model, sparse_rounds
from saddlery.solvers.active_sdca import ActiveSDCA
from saddlery.solvers.growing_block import grows
from saddlery.solvers.model_care import goal_of
from saddlery.solvers.scaled_columns import ScaledColumns
from saddlery.solvers.working_block import WorkingBlock


def words(n=400, d=900, strength=0.02, seed=0, intercept=False, weights=False):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.03, rng=rng, data_sampler=lambda size: rng.exponential(1.0, size)).tocsr()
    y = np.where(X @ (rng.standard_normal(d) * (rng.random(d) < 0.1)) + 0.3 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    s = rng.random(n) + 0.5 if weights else None
    most = np.abs(X.T @ y).max() / (2.0 * n)
    return X, sd.LinearProblem(X, y, "logistic", L1(strength * most), sample_weight=s, fit_intercept=intercept)


@pytest.mark.parametrize("coarse", [True, False])
def test_sparse_columns_are_copied_in_short_numbers(coarse):
    X, problem = words()
    W, h = np.arange(0, 900, 3), np.random.default_rng(1).random(400)
    model = ScaledColumns(WorkingBlock(problem, W, gram_form=False), h, coarse)
    C = X[:, W].toarray() * np.sqrt(h)[:, None]
    assert model.cols.values.dtype == model.roots.dtype == (np.float32 if coarse else np.float64)
    assert model.cols.indices.dtype == (np.uint16 if coarse else np.int32)
    assert model.single == coarse
    t = np.random.default_rng(2).standard_normal(400).astype(model.roots.dtype)
    eps = 1e-5 if coarse else 1e-12
    np.testing.assert_allclose(model.curvatures, np.square(C).sum(axis=0), rtol=eps)
    np.testing.assert_allclose(model.dots(np.arange(300), t), C.T @ t, atol=eps)
    np.testing.assert_allclose(model.combine(np.arange(300), np.ones(300)), C.sum(axis=1), atol=eps)
    assert (model.margins(t) is None) == coarse  # what is rounded is no margin


@pytest.mark.parametrize("size", [1e25, 1e-25])
def test_columns_that_single_precision_would_lose_are_copied_in_double(size):
    X, problem = words()
    scale = np.ones(900)
    scale[7] = size
    other = sd.LinearProblem(X @ sp.diags_array(scale), problem.y, "logistic", L1(0.01))
    model = ScaledColumns(WorkingBlock(other, np.arange(900), gram_form=False), np.linspace(0.5, 1.0, 400), True)
    assert not model.single
    assert model.cols.values.dtype == np.float64
    assert np.isfinite(model.curvatures).all()
    assert model.curvatures[7] > 0.0


def test_room_for_copies_serves_again():
    _, problem = words()
    other = ScaledColumns(WorkingBlock(problem, np.arange(50), gram_form=False), np.linspace(1.0, 2.0, 400))
    block = WorkingBlock(problem, np.arange(50), gram_form=False)
    first = ScaledColumns(block, np.linspace(1.0, 2.0, 400)).cols.values
    assert np.shares_memory(first, ScaledColumns(block, np.linspace(2.0, 1.0, 400)).cols.values)
    assert not np.shares_memory(first, other.cols.values)


def test_conjugate_gradients_go_to_the_goal():
    X, problem = words()
    h = np.linspace(0.5, 1.0, 400) / 400
    model = ScaledColumns(WorkingBlock(problem, np.arange(150), gram_form=False), h)
    rng = np.random.default_rng(3)
    values, slopes = rng.standard_normal(150), rng.standard_normal(150) * 1e-2
    C = X[:, :150].toarray() * np.sqrt(h)[:, None]
    for goal in (1e-3, 1e-6):
        move, products = residual_model._conjugate_gradients(problem.penalty, model, np.arange(150), values, slopes, goal)
        left = slopes + problem.penalty.threshold * np.sign(values) + C.T @ (C @ move)
        assert 0 < products < residual_model.MOST_TO_GOAL
        assert np.abs(left).max() <= 1.1 * goal


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("tol", [1e-3, 1e-5, 1e-8])
def test_solutions_of_sparse_models_are_certified(intercept, weights, tol, monkeypatch):
    monkeypatch.setattr(block_choice, "gram_is_cheaper", lambda *args: False)  # so that columns are swept over
    _, problem = words(intercept=intercept, weights=weights)
    solution = sd.solve(problem, "prox_newton", tol=tol)
    assert solution.certificate.relative_gap <= tol
    certificate = sd.certify(problem, solution.w, solution.dual, b=solution.b)
    assert certificate.relative_gap <= tol * (1.0 + 1e-9)


def test_a_model_that_proves_enough_ends_the_run(monkeypatch):
    """A forecast is what the certificate will say, and a proof that is announced is one."""
    monkeypatch.setattr(block_choice, "gram_is_cheaper", lambda *args: False)
    monkeypatch.setattr(sparse_rounds, "LEAST", 10**9)  # small sparse data have rounds of their own
    seen = []

    def noted(problem, state, block, model):
        answer = forecasts.proves(problem, state, block, model)
        seen.append((answer, state.forecast))
        return answer

    monkeypatch.setattr(prox_newton, "proves", noted)
    ended = 0
    for seed in range(6):
        _, problem = words(seed=seed)
        seen.clear()
        solution = sd.solve(problem, "prox_newton", tol=1e-4)
        assert solution.certificate.relative_gap <= 1e-4
        if seen[-1][0]:
            ended += 1
            assert seen[-1][1] <= 1e-4
    assert ended > 0


def test_near_the_end_models_are_solved_for_what_the_tolerance_needs():
    _, problem = words()
    block = WorkingBlock(problem, np.arange(100), gram_form=False)

    class State:
        penalty, tol, slow, relative_gap = 0.1, 1e-6, False, 1e-2

    suffices = 0.3 * State.tol * problem.scale * problem.penalty.threshold / State.penalty
    assert goal_of(problem, State, block, 1000.0 * suffices) == pytest.approx(30.0 * suffices)
    State.relative_gap = 1e-4
    assert goal_of(problem, State, block, 1000.0 * suffices) == pytest.approx(suffices)
    assert goal_of(problem, State, block, 1e5 * suffices) == pytest.approx(3e3 * suffices)  # too far for one model


def test_dual_ascent_aims_at_the_tolerance():
    solver = ActiveSDCA(share=0.05)
    assert solver._share(1.0, 1e-6) == 0.05
    assert solver._share(1.0, 0.05) == 0.025  # a little further spares a round
    assert solver._share(1.0, 0.5) == 0.25  # and no further than that
    assert solver._share(1.0, 10.0) == 0.5
    assert solver._share(0.0, 1e-6) == 0.05


def test_dense_blocks_grow_where_curvature_jumps():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 150))
    y = np.where(X[:, :40] @ rng.standard_normal(40) + rng.standard_normal(3000) > 0.0, 1.0, -1.0)
    problem = sd.LinearProblem(X, y, "squared_hinge", L1(0.003))
    assert grows(problem, 3000 * 100, 100)
    assert not grows(problem, 3000 * 40, 40)
    solution = sd.solve(problem, "prox_newton", tol=1e-8)
    assert sd.certify(problem, solution.w, solution.dual).relative_gap <= 1e-8
