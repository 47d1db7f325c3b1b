"""A Gram matrix that grows by columns: always that of the data, and never made again."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.solvers import gram_pool
from saddlery.solvers.gram_pool import GramPool, PooledBlock, pool_for


def make(seed=0, n=60, d=40, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2)
    y = X[:, :5] @ np.ones(5) + 0.1 * rng.standard_normal(n)
    problem = sd.LinearProblem(sp.csr_array(X), y, "squared", sd.penalties.L1(0.01), rng.random(n) + 0.1, **options)
    _ = problem.matrix.cols
    return problem, X


@pytest.mark.parametrize("most", [1000, 6])
@pytest.mark.parametrize("intercept", [False, True])
def test_blocks_are_those_of_the_data_whatever_came_before(monkeypatch, most, intercept):
    """Also after chunks were merged, and after the pool was full and began anew."""
    monkeypatch.setattr(gram_pool, "MOST", most)
    problem, X = make(fit_intercept=intercept)
    pool, rng = pool_for(problem), np.random.default_rng(1)
    for size in (1, 3, 8, 2, 12, 12):
        W = np.sort(rng.choice(40, size, replace=False))
        block = PooledBlock(problem, W, problem.matrix.count_entries(W), pool)
        columns = np.column_stack([X[:, W], np.ones(60)]) if intercept else X[:, W]
        np.testing.assert_allclose(block.gram, (columns.T * problem.s) @ columns, atol=1e-14)
        np.testing.assert_allclose(block.product(np.arange(size) + 1.0), X[:, W] @ (np.arange(size) + 1.0), atol=1e-13)
        np.testing.assert_allclose(block.transposed(problem.s), X[:, W].T @ problem.s, atol=1e-14)
        assert len(pool.missing(W)) == 0


def test_held_columns_are_not_read_again():
    problem, _ = make()
    pool = pool_for(problem)
    pool.add(problem.matrix, problem.s, np.arange(10))
    before = pool.gram.copy()
    pool.add(problem.matrix, np.full(60, np.nan), np.arange(3, 8))
    np.testing.assert_array_equal(pool.gram, before)


def test_columns_that_are_held_make_it_cheap():
    X = sp.random_array((4000, 2000), density=0.05, format="csc", rng=np.random.default_rng(4))
    problem = sd.LinearProblem(X, np.ones(4000), "squared", sd.penalties.L1(0.01))
    pool, W = GramPool(4000, 2000), np.arange(100)
    entries = problem.matrix.count_entries(W)
    assert not pool.is_cheaper(problem, W, entries, 0.0, 2)
    pool.add(problem.matrix, problem.s, W[:95])
    assert pool.is_cheaper(problem, W, entries, 0.0, 2)


def test_only_where_it_serves():
    problem, X = make()
    assert pool_for(problem) is not None
    assert pool_for(problem.with_penalty(sd.penalties.L2(1.0))) is None
    assert pool_for(sd.LinearProblem(X, problem.y, "squared", sd.penalties.L1(0.1))) is None
    assert pool_for(sd.LinearProblem(sp.csc_array(X), np.sign(problem.y), "logistic", sd.penalties.L1(0.1))) is None
