"""Rounded copies of dense columns, and sweeps over them that are prolonged."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.matrix.vectors import combine_of, dots_of
from saddlery.penalties import L1, ElasticNet
from saddlery.solvers import residual_model, scaled_columns
from saddlery.solvers.gram_model import worst_violation
from saddlery.solvers.residual_model import minimise_on_columns
from saddlery.solvers.scaled_columns import DenseCopies, ScaledColumns
from saddlery.solvers.working_block import WorkingBlock


def regression(n=300, d=90, order="C", **options):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, d), order=order)
    y = X @ (rng.standard_normal(d) / np.abs(X).max(axis=0)) + rng.standard_normal(n)
    return X, sd.LinearProblem(X, y, "squared", L1(0.01), **options)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("some", [True, False])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("coarse", [True, False])
def test_copies_are_the_columns_but_for_rounding(order, some, even, coarse):
    """From rows and from columns, some and all, with and without weights, columns of all sizes; and what is computed with them."""
    X, problem = regression(order=order)
    rng = np.random.default_rng(1)
    W = np.flatnonzero(rng.random(90) < 0.4) if some else np.arange(90)
    h = np.full(300, 0.5) if even else rng.random(300)
    model = ScaledColumns(WorkingBlock(problem, W, gram_form=False), h, coarse)
    C = X[:, W] * (1.0 if even else np.sqrt(h)[:, None])
    sizes = np.linalg.norm(C, axis=0)
    np.testing.assert_allclose(model.curvatures, model.weight * sizes**2, rtol=1e-4 if coarse else 1e-6)
    t = rng.standard_normal(300).astype(np.float32)
    got, rows = model.dots(np.arange(len(W)), t), model.combine(np.arange(len(W)), 1.0 / sizes)
    np.testing.assert_allclose(got / sizes, C.T @ t / sizes, atol=2e-3 if coarse else 2e-5)
    np.testing.assert_allclose(rows, C @ (1.0 / sizes), atol=2e-4 if coarse else 2e-6)
    assert coarse == (np.abs(got - C.T @ t).max() > 1e-5 * np.abs(got).max())  # 16 bits, and no more


def test_a_column_of_zeros_and_one_out_of_range_are_left_alone():
    X, problem = regression()
    X[:, 3], X[:, 5] = 0.0, 1e60
    block = WorkingBlock(sd.LinearProblem(X, problem.y, "squared", L1(0.01)), np.arange(90), gram_form=False)
    curvatures = ScaledColumns(block, np.ones(300)).curvatures
    assert not curvatures[[3, 5]].any()  # which sweeps pass over
    assert (np.delete(curvatures, [3, 5]) > 0.0).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_are_copied_once_for_all_blocks(order, monkeypatch):
    X, problem = regression(order=order)
    copied = []
    original = scaled_columns.round_columns
    monkeypatch.setattr(scaled_columns, "round_columns", lambda *args: (copied.append(len(args[1])), original(*args)))
    copies, h = DenseCopies(300, 90), np.ones(300)
    for W in (np.arange(5), np.arange(3, 8), np.arange(8)):
        block = WorkingBlock(problem, W, gram_form=False, copies=copies)
        model = ScaledColumns(block, h)
        np.testing.assert_allclose(model.curvatures, np.square(X[:, W]).sum(axis=0), rtol=1e-4)
    assert copied == [5, 3]
    h[0] = 2.0  # other weights, another copy
    model = ScaledColumns(block, h)
    np.testing.assert_allclose(model.curvatures, (h[:, None] * np.square(X[:, W])).sum(axis=0), rtol=1e-4)
    assert copied == [5, 3, 8]


def test_the_gradient_can_be_brought_along():
    X, problem = regression(fit_intercept=True)
    model = ScaledColumns(WorkingBlock(problem, np.arange(90), gram_form=False), np.linspace(1.0, 2.0, 300), coarse=False)
    q, t = np.linspace(-1.0, 1.0, 90), np.random.default_rng(2).standard_normal(300).astype(np.float32)
    roots = np.sqrt(np.linspace(1.0, 2.0, 300))
    C, drift = X * roots[:, None], np.array([float(roots @ t)])
    expected, rise = q + C.T @ (t - roots * drift / (roots @ roots)), drift[0]
    assert model.rebase(q, t, drift) == pytest.approx(rise)
    np.testing.assert_allclose(q, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert not t.any()
    assert not drift.any()


@pytest.mark.parametrize("penalty", [L1(0.005), ElasticNet(0.005, 0.5)])
@pytest.mark.parametrize("intercept", [False, True])
def test_prolonged_sweeps_are_fewer_and_arrive(penalty, intercept, monkeypatch):
    rng = np.random.default_rng(3)
    n, d = 600, 300
    monkeypatch.setattr(residual_model, "WORTH", 10**6)
    X = rng.standard_normal((n, d))
    problem = sd.LinearProblem(X, X[:, :20].sum(axis=1) + rng.standard_normal(n), "squared", penalty, fit_intercept=intercept)
    r = problem.s * (problem.constant - problem.y)
    q = np.append(X.T @ r, r.sum()) if intercept else X.T @ r
    goal, sweeps = 1e-6 * np.abs(q).max(), []
    for long in (8, 10**9):
        monkeypatch.setattr(residual_model, "LONG", long)
        block = WorkingBlock(problem, np.arange(d), gram_form=False)
        u, _, count, _ = minimise_on_columns(
            problem, block, problem.s, np.zeros(d + intercept), q, goal, careful=True, coarse=False
        )
        slopes = r + problem.s * (X @ u[:d] + (u[d] if intercept else 0.0))
        assert worst_violation(penalty, u[:d], X.T @ slopes) <= 100.0 * goal
        sweeps.append(count)
    assert sweeps[0] < sweeps[1]


@pytest.mark.parametrize("weighted", [False, True])
def test_columns_that_16_bits_cannot_hold(weighted, monkeypatch):
    """One entry so large that the others are rounded away: rounds gain little, and the copy is made in single precision."""
    rng = np.random.default_rng(4)
    n, d = 1500, 200
    X = np.asfortranarray(rng.standard_normal((n, d)))
    X[0, :4] = 3e5
    y = rng.standard_normal(n) + X[:, :6] @ np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    weights = 0.5 + rng.random(n) if weighted else None
    for name in ("MAX_GRAM", "MOST_GRAM"):
        monkeypatch.setattr(f"saddlery.solvers.working_block.{name}", 0)
    coarse = []
    original = DenseCopies.columns
    monkeypatch.setattr(DenseCopies, "columns", lambda *args: (coarse.append(args[-1]), original(*args))[1])
    problem = sd.LinearProblem(X, y, "squared", L1(0.05), sample_weight=weights)
    solution = sd.solve(problem, "prox_newton", tol=1e-6, max_epochs=100)
    assert solution.status is sd.Status.CONVERGED
    assert sd.certify(problem, solution.w, solution.dual, solution.b).relative_gap <= 1e-6
    assert coarse[0]
    assert not all(coarse)


def test_products_of_rounded_vectors():
    X, problem = regression()
    cols, at, _ = DenseCopies(300, 90).columns(WorkingBlock(problem, np.arange(90), gram_form=False), np.ones(300), True, True)
    stored = (cols.values.reshape(90, 300) * cols.steps[:, None]).T
    assert cols.values.dtype == np.int16
    assert (np.abs(stored - X).max(axis=0) <= 0.501 * cols.steps).all()
    assert (cols.steps <= 1.001 * 300**0.125 * np.abs(X).max(axis=0) / scaled_columns.STEPS).all()
    x, out, sums = np.linspace(-1.0, 1.0, 300), np.empty(2), np.zeros(300)
    dots_of(cols, at[[7, 2]], x, out)
    np.testing.assert_allclose(out, stored[:, [7, 2]].T @ x, rtol=1e-12)
    combine_of(cols, at[[7, 2]], np.array([2.0, -1.0]), sums)
    np.testing.assert_allclose(sums, 2.0 * stored[:, 7] - stored[:, 2], rtol=1e-9, atol=1e-12 * np.abs(stored[:, [2, 7]]).max())
