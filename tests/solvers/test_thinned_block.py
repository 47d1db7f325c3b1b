"""Gram matrices of the rows that matter: what they hold, what they inherit, and what the dual points of their models lose."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.solvers import prox_newton, thinned_block
from saddlery.solvers.forecasts import forecast_of
from saddlery.solvers.prox_newton import ProxNewton
from saddlery.solvers.thinned_block import ThinnedBlock, fenchel_loss, forecast_gap, worth_thinning

N, D = 600, 30
SOME = np.array([0, 3, 4, 9, 17, 28])


def make_problem(kind=np.float64, intercept=False, alpha=0.01, weights=None, n=N, d=D, seed=0):
    """Sparse, tall, with a rare class and rows of very different lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 16, n)
    X = (rng.random((n, d)) < lengths[:, None] / d) * rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 3.0, 1.0, -1.0)
    penalty = sd.penalties.L1(alpha)
    return sd.LinearProblem(sp.csr_array(X.astype(kind)), y, penalty=penalty, sample_weight=weights, fit_intercept=intercept)


def dense_columns(problem, W):
    """The columns of a block as an array, with one of ones for an intercept."""
    X = problem.matrix.values.toarray().astype(np.float64)[:, W]
    return np.column_stack([X, np.ones(problem.n)]) if problem.fit_intercept else X


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("W", [SOME, np.arange(D)], ids=["some", "all"])
def test_gram_is_that_of_its_weights(W, kind, intercept, monkeypatch):
    monkeypatch.setattr(thinned_block, "PER_COLUMN", 2.0)
    problem, rng = make_problem(kind, intercept), np.random.default_rng(1)
    block, X = ThinnedBlock(problem, W, problem.matrix.count_entries(W), rng.random(N)), dense_columns(problem, W)
    h = rng.random(N) ** 4
    for _ in range(3):
        block.update_gram(h)
        assert 0 < np.count_nonzero(block.weights) < 0.9 * N
        np.testing.assert_allclose(block.gram, X.T @ (block.weights[:, None] * X), rtol=1e-10, atol=1e-10)
        h = h * rng.uniform(0.5, 2.0, N)
    block.update_gram(h, strictly=True)
    np.testing.assert_allclose(block.gram, X.T @ (h[:, None] * X), rtol=1e-10, atol=1e-10)
    u = rng.standard_normal(len(W))
    np.testing.assert_allclose(block.product(u), X[:, : len(W)] @ u, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(block.transposed(h), X[:, : len(W)].T @ h, rtol=1e-12, atol=1e-12)


def test_weights_are_right_on_average():
    """Large ones stay; of the others as many are taken as make up for those that are not."""
    problem, rng = make_problem(), np.random.default_rng(2)
    h, total = rng.random(N) ** 4, np.zeros(N)
    for _ in range(400):
        block = ThinnedBlock(problem, SOME, problem.matrix.count_entries(SOME), rng.random(N))
        block.tau = 0.2
        block.update_gram(h)
        np.testing.assert_array_equal(block.weights[h >= 0.2], h[h >= 0.2])
        assert set(np.unique(block.weights[h < 0.2])) <= {0.0, 0.2}
        total += block.weights / 400
    # Changes below a fifth of the mean are left alone, so the smallest curvatures never count.
    assert abs(total.sum() / h.sum() - 1.0) < 0.05


def test_pairs_are_limited(monkeypatch):
    """Rows that all have the same curvature are thinned to what a step is worth, but no column is left without rows."""
    problem = make_problem(n=6000, d=20)
    monkeypatch.setattr(thinned_block, "CHEAP", 0)
    monkeypatch.setattr(thinned_block, "PER_COLUMN", 50.0)
    block = ThinnedBlock(problem, np.arange(20), problem.matrix.nnz, np.random.default_rng(0).random(6000))
    lengths = np.diff(problem.matrix.csr.indptr)
    work = thinned_block.FILTER * lengths + 0.5 * lengths**2
    h = np.random.default_rng(1).random(6000) ** 3
    block.update_gram(h)
    taken = block.weights != 0.0
    assert work[taken].sum() <= 1.2 * thinned_block.PAIRS * problem.matrix.nnz < work.sum()
    assert block.tau <= h.sum() / (50.0 * 20)


@pytest.mark.parametrize("intercept", [False, True])
def test_inherited_gram(intercept, monkeypatch):
    """A block with some columns more and some less goes on with what is known of the others."""
    monkeypatch.setattr(thinned_block, "PER_COLUMN", 2.0)
    problem, rng = make_problem(intercept=intercept), np.random.default_rng(3)
    draws, W, other = rng.random(N), np.arange(2, 22), np.setdiff1d(np.arange(24), [5, 11])
    old = ThinnedBlock(problem, W, problem.matrix.count_entries(W), draws)
    old.update_gram(rng.random(N) ** 4)
    new, X = ThinnedBlock(problem, other, problem.matrix.count_entries(other), draws, old), dense_columns(problem, other)
    assert new.tau == old.tau > 0.0
    np.testing.assert_allclose(new.gram, X.T @ (old.weights[:, None] * X), rtol=1e-10, atol=1e-10)
    before = old.weights.copy()
    new.update_gram(rng.random(N))
    np.testing.assert_array_equal(old.weights, before)
    np.testing.assert_allclose(new.gram, X.T @ (new.weights[:, None] * X), rtol=1e-10, atol=1e-10)
    strange = ThinnedBlock(problem, np.arange(D), problem.matrix.nnz, draws, ThinnedBlock(problem, W[:3], 1, draws))
    assert strange.tau < 0.0  # a block that never had weights, or few of these columns, leaves nothing


def test_forecast():
    """The parabolas give the Fenchel loss of a nearby point, and the excess what moving it into the domain does to X's."""
    problem, rng = make_problem(), np.random.default_rng(4)
    z, along = rng.standard_normal(N), 0.02 * rng.standard_normal(N)
    a, s, y = problem.slopes(z), problem.s, problem.y
    after = problem.slopes(z + along)
    curvature = problem.loss.curvature(y, z + along)
    weights = s * problem.loss.curvature(y, z) * rng.uniform(0.5, 1.5, N)
    dual = a + weights / s * along
    exact = float(np.sum(s * (problem.loss.value(y, z + along) + problem.loss.conjugate(y, dual) - (z + along) * dual)))
    here = (z + along, s * after, s * curvature)
    lost, outside = fenchel_loss(problem, (a, weights, along, 0.0), *here)
    assert lost == pytest.approx(exact, rel=0.1)
    assert outside == 0
    weights = np.where(rng.random(N) < 0.2, 100.0 * weights, weights)
    dual = a + weights / s * along
    low, high = np.where(y > 0, -1.0, 0.0), np.where(y > 0, 0.0, 1.0)
    moved = np.clip(dual, low, high) - dual
    model = (a, weights, along, 0.0)
    lost, outside = fenchel_loss(problem, model, *here)
    assert outside == np.count_nonzero(moved) > 0
    excess = np.abs(problem.matrix.rmatvec(s * moved)).max()
    assert forecast_gap(problem, model, here, 3.0) == pytest.approx(lost + excess * 3.0 / problem.penalty.threshold)
    with_l2 = problem.with_penalty(sd.penalties.ElasticNet(0.01, 0.5))
    assert forecast_gap(with_l2, model, here, 3.0) == lost  # no point needs to be scaled


def test_forecast_where_curvature_jumps():
    """Of a squared hinge the loss is exact, also at rows that the step takes to the flat part, or from there."""
    problem, rng = make_problem(), np.random.default_rng(4)
    problem = problem.with_loss(sd.losses.SquaredHinge(), problem.y)
    z, along = rng.standard_normal(N), rng.standard_normal(N)
    a, s, y = problem.slopes(z), problem.s, problem.y
    dual = a + problem.loss.curvature(y, z) * along
    inside = np.where(y > 0, np.minimum(dual, 0.0), np.maximum(dual, 0.0))
    there = z + along
    exact = float(np.sum(s * (problem.loss.value(y, there) + problem.loss.conjugate(y, inside) - there * inside)))
    lost, outside = fenchel_loss(problem, (a, s * problem.loss.curvature(y, z), along, 0.0), there, s * a, s)
    assert lost == pytest.approx(exact, rel=1e-9)
    assert outside == np.count_nonzero(inside != dual) > 0


@pytest.mark.parametrize("intercept", [False, True])
def test_least_curvature(intercept):
    """A floor is on the diagonal once, however often it is asked for; columns without rows have their true curvature."""
    problem, h = make_problem(intercept=intercept), np.random.default_rng(1).random(N)
    X = dense_columns(problem, SOME)
    h[X[:, 2] != 0.0] *= 1e-9  # so little that no such row is taken
    block = ThinnedBlock(problem, SOME, problem.matrix.count_entries(SOME), np.full(N, 0.5))
    squares = np.append(np.square(problem.column_norms[SOME]), [1.0] * intercept)
    for floor in (0.0, 0.1, 0.3):
        block.update_gram(h)
        block.bend_least(problem, h, floor)
        expected = X.T @ (block.weights[:, None] * X)
        assert expected[2, 2] == 0.0
        expected[2, 2] = h @ X[:, 2] ** 2
        np.testing.assert_allclose(block.gram, expected + np.diag(floor * squares), rtol=1e-10, atol=1e-12)


def test_which_blocks_are_thinned():
    """Losses whose curvature jumps, too, and few columns that are not sparse, but not many, and not squares."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(40_000) < 0.5, 1.0, -1.0)
    matrix = sp.csr_array((rng.random((40_000, 20)) < 0.8) * 1.0)
    hinge, full = make_problem(n=6000).with_loss(sd.losses.SquaredHinge(), make_problem(n=6000).y), sd.penalties.L1(0.01)
    assert worth_thinning(hinge, hinge.matrix.nnz, hinge.d)
    assert not worth_thinning(hinge.with_loss(sd.losses.Squared(), hinge.y), hinge.matrix.nnz, hinge.d)
    problem = sd.LinearProblem(matrix, y, penalty=full)
    assert worth_thinning(problem, matrix.nnz, 20)
    assert not worth_thinning(problem, matrix.nnz, 20, few=False)
    assert not worth_thinning(problem.take_rows(np.arange(5000)), 80_000, 20)


@pytest.mark.parametrize("loss", [sd.losses.Logistic(), sd.losses.SquaredHinge()], ids=["logistic", "squared_hinge"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_solutions(intercept, weighted, loss, monkeypatch):
    """Solved on thinned blocks, with a sampled start, to a gap that the data confirm."""
    made = []
    update = ThinnedBlock.update_gram
    monkeypatch.setattr(ThinnedBlock, "update_gram", lambda self, *args: made.append(self.n) or update(self, *args))
    n = 12_000
    weights = np.random.default_rng(5).integers(0, 3, n).astype(float) if weighted else None
    problem = make_problem(intercept=intercept, alpha=0.002, weights=weights, n=n, seed=6)
    problem = problem.with_loss(loss, problem.y)
    assert worth_thinning(problem, problem.matrix.nnz, problem.d)
    solution = sd.solve(problem, solver="prox_newton", tol=1e-7)
    assert str(solution.status) == "certified to the tolerance"
    assert n in made
    confirmed = sd.certify(problem, solution.w, solution.dual, b=solution.b)
    assert confirmed.relative_gap <= 1.01e-7
    exact = sd.solve(problem, solver=ProxNewton(sample_start=False), tol=1e-9)
    np.testing.assert_allclose(solution.w, exact.w, atol=2e-3)
    again = sd.solve(problem, solver="prox_newton", tol=1e-7)
    np.testing.assert_array_equal(solution.w, again.w)


def test_forecasts_end_rounds(monkeypatch):
    """One round goes up to the tolerance, not further: its forecasts fall below it with the last step only."""
    problem, seen = make_problem(alpha=0.002, n=12_000, seed=6), []

    def watched(problem, state, model):
        seen.append((problem.n, state.rounds, forecast_of(problem, state, model)))
        return seen[-1][2]

    monkeypatch.setattr(prox_newton, "forecast_of", watched)
    solution = sd.solve(problem, solver="prox_newton", tol=1e-5)
    last = [value for n, rounds, value in seen if n == 12_000 and rounds == solution.epochs]
    assert last[-1] <= 1e-5 < min([1.0, *last[:-1]])
    assert solution.epochs <= 2
