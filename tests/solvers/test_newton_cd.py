"""Newton's method by sweeps over columns: what a sweep does, that it proves what it finds, and where `auto` takes it."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.matrix import Matrix
from saddlery.solvers import newton_cd
from saddlery.solvers.auto import choose


def sparse_data(n=800, d=500, positive=False, seed=0):
    """Sparse rows with random signs, or without, of two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.03, rng=rng, data_sampler=rng.standard_normal).tocsr()
    if positive:
        X.data = np.abs(X.data)
    z = X @ rng.standard_normal(d)
    return X, np.where(z - np.median(z) + 0.5 * rng.standard_normal(n) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("penalty", [sd.penalties.L2(0.3), sd.penalties.ElasticNet(0.3, 0.4)])
def test_a_sweep_minimises_over_one_weight_after_the_other(penalty):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 6)) * (rng.random((30, 6)) < 0.5)
    X[:, 4] = 0.0
    order, stretch = np.array([3, 0, 4, 5, 1, 2]), 1.05
    r, h, w = rng.standard_normal(30), rng.random(30) + 0.1, rng.standard_normal(6)
    model, moved = np.column_stack([r, h]), w.copy()
    met = newton_cd.sweep_columns(penalty, Matrix(sp.csr_array(X)).cols, order, stretch, model, moved)
    expected, slopes, gap = w.copy(), r.copy(), 0.0
    for j in order:
        q, bend = X[:, j] @ slopes, X[:, j] ** 2 @ h
        gap += penalty.coordinate_value(expected[j]) + penalty.coordinate_conjugate(-q) + expected[j] * q
        best = penalty.coordinate_prox(expected[j] - q / bend, 1.0 / bend) if bend > 0.0 else 0.0
        change = (stretch if bend > 0.0 else 1.0) * (best - expected[j])
        expected[j] += change
        slopes += change * h * X[:, j]
    np.testing.assert_allclose(moved, expected, atol=1e-14)
    np.testing.assert_allclose(model[:, 0], slopes, atol=1e-13)
    assert met == pytest.approx(gap)
    along = np.empty(30)
    newton_cd.margins_of_move(sd.losses.Logistic(), r, model, along)
    np.testing.assert_allclose(along, X @ (moved - w), atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared", "huber"])
def test_certified_in_few_sweeps_with_weighted_rows(loss, fit_intercept):
    X, y = sparse_data()
    weights = np.random.default_rng(1).integers(0, 3, 800)  # some rows have no weight at all
    penalty = sd.penalties.L2(15.0 / 800)
    problem = sd.LinearProblem(X, y, loss=loss, penalty=penalty, sample_weight=weights, fit_intercept=fit_intercept)
    solution = sd.solve(problem, "newton_cd", tol=1e-8)
    assert solution.status is sd.Status.CONVERGED
    assert solution.epochs <= 20
    assert sd.certify(problem, solution.w, solution.dual, solution.b).relative_gap <= 1e-8


def test_the_gap_is_foreseen():
    """No certificate of a step but the last one is computed, and it comes as soon as it can."""
    X, y = sparse_data(2000, 3000)
    problem = sd.LinearProblem(X, y, loss="logistic", penalty=sd.penalties.L2(1.0 / 2000))
    solution = sd.solve(problem, "newton_cd", tol=1e-6)
    assert [record.epoch for record in solution.trace] == [solution.epochs]
    before = sd.solve(problem, "newton_cd", tol=1e-6, max_epochs=solution.epochs - 1)
    assert before.certificate.relative_gap > 1e-6


def test_slow_sweeps_go_over_to_random_order():
    X, y = sparse_data(positive=True)
    problem = sd.LinearProblem(X, y, loss="logistic", penalty=sd.penalties.L2(0.01 / 800))
    solution = sd.solve(problem, "newton_cd", tol=1e-6)
    assert solution.status is sd.Status.CONVERGED
    assert solution.state.shuffled
    assert not np.array_equal(solution.state.order, np.arange(500))


def test_classes_that_can_be_told_apart():
    """Full steps overshoot where slopes saturate: the search must not let the objective rise."""
    X, y = sparse_data(600, 900)
    y = np.where(X @ np.ones(900) > 0.0, 1.0, -1.0)
    problem = sd.LinearProblem(X, y, loss="logistic", penalty=sd.penalties.L2(1e-7))
    values = [sd.solve(problem, "newton_cd", tol=0.0, max_epochs=epochs).certificate.primal for epochs in range(1, 12)]
    assert (np.diff(values) <= 1e-12).all()


def test_alignment_of_columns():
    rng = np.random.default_rng(0)
    X = sp.random_array((3000, 200), density=0.1, rng=rng, data_sampler=rng.standard_normal).tocsr()
    assert Matrix(X).alignment == pytest.approx(1.0, abs=0.3)
    positive = X.copy()
    positive.data = np.ones_like(X.data)
    assert Matrix(positive).alignment > 10.0
    signs = sp.csr_array(positive * rng.choice([-1.0, 1.0], 200))  # the sign of a column is a matter of taste
    assert Matrix(signs).alignment == pytest.approx(Matrix(positive).alignment, rel=1e-6)
    assert Matrix(signs.tocsc()).alignment == pytest.approx(Matrix(signs).alignment)
    assert Matrix(sp.csr_array((3, 2))).alignment == 1.0


def test_auto_takes_it_where_columns_hardly_correlate():
    X, y = sparse_data(2000, 3000)

    def chosen(X, penalty=sd.penalties.L2, alpha=0.05, **options):
        return choose(sd.LinearProblem(X, y, loss="logistic", penalty=penalty(alpha), **options))

    assert chosen(X) == chosen(X, fit_intercept=True) == chosen(X[:, :100]) == chosen(X[:, :100], alpha=0.001) == "newton_cd"
    assert chosen(X, alpha=1e-4) != "newton_cd"  # so weak that thousands of columns fit thousands of rows at will
    assert chosen(abs(X)) != "newton_cd"
    assert chosen(X.toarray()) == "newton_cd"  # mostly zeros: read as sparse rows
    assert chosen(X.toarray() + 1.0) != "newton_cd"
    assert chosen(X, sd.penalties.L1) == "prox_newton"
