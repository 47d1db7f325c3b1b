"""Gram matrices that grow and serve on, and rows that are left out of models."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.penalties import L1
from saddlery.solvers.bent_rows import BentRows
from saddlery.solvers.growing_block import GrowingBlock
from saddlery.solvers.newton_search import stretch


def make(n=600, d=60, kind="columns", intercept=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    y = np.where(X[:, :6].sum(axis=1) + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    data = {"columns": np.asfortranarray(X), "rows": X, "sparse": sp.csc_array(X), "sparse rows": sp.csr_array(X)}[kind]
    return X, sd.LinearProblem(data, y, "logistic", L1(0.01), fit_intercept=intercept, sample_weight=rng.random(n))


def exact_gram(X, W, h, intercept):
    columns = np.column_stack([X[:, W], np.ones(len(X))]) if intercept else X[:, W]
    return (columns.T * h) @ columns


@pytest.mark.parametrize("kind", ["columns", "rows", "sparse", "sparse rows"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_block_grows_and_shrinks_with_its_matrix(kind, intercept):
    X, problem = make(kind=kind, intercept=intercept)
    h = np.random.default_rng(1).uniform(0.5, 1.0, 600)
    block = GrowingBlock(problem, np.arange(20))
    block.update_gram(h)
    block.grow(np.array([30, 25, 59]))
    block.update_gram(h)
    assert block.formed == block.m == 23
    np.testing.assert_allclose(block.gram, exact_gram(X, block.W, h, intercept), rtol=1e-4, atol=1e-3)
    block.shrink(np.array([1, 4, 21]), True)
    block.update_gram(h)
    assert block.W.tolist() == [1, 4, 25]
    np.testing.assert_allclose(block.gram, exact_gram(X, block.W, h, intercept), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(block.product(np.ones(3)), X[:, [1, 4, 25]].sum(axis=1))
    np.testing.assert_allclose(block.transposed(h), X[:, [1, 4, 25]].T @ h)


def test_old_matrices_serve_as_the_multiple_that_fits_until_weights_have_moved():
    X, problem = make()
    h = np.random.default_rng(1).uniform(0.5, 1.0, 600)
    block = GrowingBlock(problem, np.arange(40))
    block.update_gram(h)
    block.update_gram(0.5 * h)
    np.testing.assert_allclose(block.gram, exact_gram(X, block.W, 0.5 * h, False), rtol=1e-4, atol=1e-3)
    assert block.base_weights is h  # never formed again
    other = np.where(np.arange(600) % 2 == 0, h, 0.01 * h)
    block.update_gram(other)
    assert block.base_weights is other
    near = 1.05 * other * np.random.default_rng(2).uniform(0.9, 1.1, 600)
    block.update_gram(near)
    assert block.base_weights is other
    block.left = 1.0  # the last step gained nothing
    block.update_gram(near)
    assert block.base_weights is near


def test_quick_products_are_those_of_the_data():
    X, problem = make()
    block = GrowingBlock(problem, np.arange(0, 60, 2))
    block.update_gram(np.random.default_rng(1).uniform(0.5, 1.0, 600))
    u, r = np.random.default_rng(3).standard_normal(30), np.random.default_rng(4).standard_normal(600)
    assert block.quick
    np.testing.assert_allclose(block.quick_product(u), X[:, ::2] @ u, atol=1e-4)
    np.testing.assert_allclose(block.quick_transposed(r), X[:, ::2].T @ r, atol=1e-4)


@pytest.mark.parametrize("kind", ["columns", "sparse"])
def test_rows_that_hardly_bend_are_left_out_but_for_the_diagonal(kind):
    X, problem = make(kind=kind)
    h = np.where(np.arange(600) < 300, 1.0, 1e-3)
    rows, out = BentRows(h), np.empty(60 * 600, dtype=np.float32)
    squares, rest = rows.scale(problem.matrix.cols, np.arange(60), out)
    assert rows.count == 300
    np.testing.assert_allclose(out[: 60 * 300].reshape(60, 300), X[:300].T, rtol=1e-6)
    np.testing.assert_allclose(squares, h @ X**2, rtol=1e-5)
    np.testing.assert_allclose(rest, 1e-3 * (X[300:] ** 2).sum(axis=0), atol=1e-3)
    assert BentRows(h, sweeps=1.0).count == 600  # not worth picking rows
    assert BentRows(np.ones(600)).count == 600


def test_weights_are_stretched_to_their_best_multiple():
    X, problem = make()
    w = np.zeros(60)
    w[:6] = 0.1
    z, loss = X @ w, problem.loss
    room = [np.empty(600) for _ in range(4)]
    slopes = problem.slopes(z)
    curvature = np.array([loss.curvature(y, m) for y, m in zip(problem.y, z, strict=True)])
    linear = 0.01 * np.abs(w).sum()
    value = problem.primal(w) - linear
    size, there = stretch(
        loss, problem.y, problem.s, z, 0.0, linear, 0.0, value, problem.s * slopes, problem.s * curvature, 20, *room
    )
    sizes = np.linspace(1.0, 40.0, 4000)
    best = min(problem.primal(t * w) for t in sizes)
    assert size > 2.0
    assert there + size * linear <= best + 1e-6
    np.testing.assert_allclose(room[0], size * z)


@pytest.mark.parametrize("kind", ["columns", "rows", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
def test_solutions_are_those_without_growing_blocks(monkeypatch, kind, intercept):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((1500, 300)) * (rng.random((1500, 300)) < 0.7)
    y = np.where(X[:, :40].sum(axis=1) + 5.0 * rng.standard_normal(1500) > 0.0, 1.0, -1.0)
    data = {"columns": np.asfortranarray(X), "rows": X, "sparse": sp.csc_array(X)}[kind]
    problem = sd.LinearProblem(data, y, "logistic", L1(0.008), fit_intercept=intercept, sample_weight=rng.random(1500))
    formed = []
    form = GrowingBlock._form
    monkeypatch.setattr(GrowingBlock, "_form", lambda self, *args: formed.append(1) or form(self, *args))
    grown = sd.solve(problem, "prox_newton", tol=1e-9)
    assert formed
    monkeypatch.setattr("saddlery.solvers.block_choice.grows", lambda *args: False)
    plain = sd.solve(problem, "prox_newton", tol=1e-9)
    assert max(grown.certificate.relative_gap, plain.certificate.relative_gap) <= 1e-9
    np.testing.assert_allclose(grown.w, plain.w, atol=1e-4)


def test_a_block_of_rows_copies_columns_until_all_are_cheaper():
    X, problem = make(kind="rows")
    h = np.random.default_rng(1).uniform(0.5, 1.0, 600)
    block = GrowingBlock(problem, np.arange(10))
    assert "cols" not in vars(problem.matrix)
    block.update_gram(h)
    for first in range(10, 60, 10):
        block.grow(np.arange(first, first + 10))
    assert "cols" in vars(problem.matrix)
    block.update_gram(h)
    np.testing.assert_allclose(block.gram, exact_gram(X, np.arange(60), h, False), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(block.product(np.ones(60)), X.sum(axis=1))


@pytest.mark.parametrize("room", [0, 10**9])
def test_a_block_of_sparse_rows_turns_them_once_if_there_is_room(room, monkeypatch):
    monkeypatch.setattr("saddlery.solvers.growing_block.ROOM_TO_TURN", room)
    X, problem = make(kind="sparse rows")
    block = GrowingBlock(problem, np.arange(10))
    assert ("cols" in vars(problem.matrix)) is (room > 0)
    block.grow(np.arange(20, 25))
    np.testing.assert_allclose(block.product(np.ones(15)), X[:, block.W].sum(axis=1))
    block.shrink(np.array([1, 12]), gram=False)
    np.testing.assert_allclose(block.transposed(np.ones(600)), X[:, [1, 22]].sum(axis=0))
