"""Models of a sample of edges (row, class, class), and what the Newton solver makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.matrix import as_matrix
from saddlery.problems.multiclass import MulticlassProblem
from saddlery.solvers import multiclass_step
from saddlery.solvers.multiclass_edges import edge_gram
from saddlery.solvers.multiclass_model import Pairs, alike_gram, pair_gram
from saddlery.solvers.multiclass_newton import MulticlassNewton

L1 = sd.penalties.L1(0.01)


def model(intercept: bool, n: int = 80, d: int = 5, k: int = 4):
    """Data, pairs of which one class has none, probabilities and weights; the exact matrix of the model."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    V = np.exp(2.0 * rng.standard_normal((k, n)))
    V /= V.sum(axis=0)
    s = rng.random(n)
    s /= s.sum()
    keys = np.array([key for key in range(d * k) if key % k != 2 and key % 5 != 3])
    pairs, free = Pairs(keys, k), k if intercept else 0
    columns = np.vstack([X.T, np.ones(n)])
    place = np.concatenate([pairs.feature, np.full(free, d)])
    return X, pairs, V, s, free, pair_gram(L1, columns, place, pairs, V, s, 1.0, np.float64)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_all_edges_give_the_exact_matrix(intercept, sparse):
    X, pairs, V, s, free, exact = model(intercept)
    rows = as_matrix(sp.csr_array(X) if sparse else X).rows
    gram = edge_gram(L1, rows, pairs, V, s, X.shape[1], 200_000, free, np.random.default_rng(1))
    np.testing.assert_allclose(gram, exact, atol=2e-3 * np.abs(exact).max())


@pytest.mark.parametrize("intercept", [False, True])
def test_samples_of_edges_are_convex_and_right_in_the_mean(intercept):
    X, pairs, V, s, free, exact = model(intercept)
    rows, rng, total = as_matrix(X).rows, np.random.default_rng(1), np.zeros_like(exact)
    size, draws = np.abs(exact).max(), 2000
    for _ in range(draws):
        gram = edge_gram(L1, rows, pairs, V, s, X.shape[1], 60, free, rng)
        assert np.array_equal(gram, gram.T)
        assert np.linalg.eigvalsh(gram)[0] >= -1e-6 * size
        total += gram
    assert np.abs(total / draws - exact).max() < 0.03 * size
    assert np.abs(gram - exact).max() > 0.03 * size  # one alone is not


def tall(seed: int = 0) -> MulticlassProblem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6000, 12))
    y = np.argmax(X[:, :5] + 1.5 * rng.standard_normal((6000, 5)), axis=1)
    return MulticlassProblem(X, y, penalty=sd.penalties.L1(0.002))


def test_early_models_are_not_refined_and_the_end_is_exact(monkeypatch):
    monkeypatch.setattr(multiclass_step, "CHEAP_LATER", 0.0)
    monkeypatch.setattr(multiclass_step, "CHEAP_EARLY", 0.0)
    refined, solved = [], []
    curvature, solve = MulticlassNewton._curvature, MulticlassNewton._solve_gram
    monkeypatch.setattr(MulticlassNewton, "_curvature", lambda self, *args: refined.append(1) or curvature(self, *args))
    monkeypatch.setattr(MulticlassNewton, "_solve_gram", lambda self, *args: solved.append(1) or solve(self, *args))
    problem = tall()
    solution = sd.solve(problem, solver=MulticlassNewton(), tol=1e-6)
    assert solution.certificate.relative_gap <= 1e-6
    assert 0 < len(refined) < len(solved)
    plain = sd.solve(problem, solver=MulticlassNewton(sample=False), tol=1e-9)
    assert abs(solution.certificate.primal - plain.certificate.primal) <= 1e-6 * problem.scale


def test_the_last_certificate_is_computed_once(monkeypatch):
    problem, calls = tall(), []
    evaluate = MulticlassProblem.evaluate
    monkeypatch.setattr(MulticlassProblem, "evaluate", lambda self, point: calls.append(point) or evaluate(self, point))
    solution = sd.solve(problem, solver=MulticlassNewton(), tol=1e-4)
    assert len(solution.trace) == len(calls) == 1
    assert calls[0].Xw is None
    assert calls[0].loss is None
    fresh = problem.certify(solution.w, solution.dual, solution.b)
    assert fresh.relative_gap <= 1e-4
    np.testing.assert_allclose([fresh.primal, fresh.dual], [solution.certificate.primal, solution.certificate.dual], rtol=1e-12)


def test_margins_of_few_weights_and_of_many_agree():
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 40), density=0.3, format="csr", rng=rng)
    y = rng.integers(0, 5, 300)
    problem = MulticlassProblem(X, y, penalty=L1)
    solver = MulticlassNewton()
    for share in (0.05, 0.9):
        W = rng.standard_normal((40, 5)) * (rng.random((40, 5)) < share)
        state = solver.init(problem, problem.as_point(W, None, None), rng)
        np.testing.assert_allclose(state.T.T, X @ W, atol=1e-12)


def test_what_a_model_promises_is_kept(monkeypatch):
    """The promise before a step is the estimate after it, from the objective there and all slopes, and about the certificate."""
    promises, judged, refine, judge = [], [], MulticlassNewton._refine, MulticlassNewton._judge_model

    def noted(self, problem, state, penalty, gram, u, q, *rest):
        start, slopes = u.copy(), q.copy()
        rate = refine(self, problem, state, penalty, gram, u, q, *rest)
        if rate is not None:
            promises.append(self._promised_gap(problem, state, start, slopes, u, q))
        return rate

    def ended(self, problem, state):
        if judge(self, problem, state):
            judged.append(state.gap)
        return bool(judged)

    monkeypatch.setattr(MulticlassNewton, "_refine", noted)
    monkeypatch.setattr(MulticlassNewton, "_judge_model", ended)
    monkeypatch.setattr(multiclass_step, "CHEAP_LATER", 0.0)
    solution = sd.solve(tall(), solver=MulticlassNewton(), tol=1e-3)
    assert promises[-1] == pytest.approx(judged[-1], rel=0.02)
    assert solution.certificate.relative_gap <= 1.3 * judged[-1]
    assert solution.certificate.relative_gap <= 1e-3


@pytest.mark.parametrize("intercept", [False, True])
def test_where_rows_are_alike_the_columns_give_the_exact_matrix(intercept):
    X, pairs, _, s, free, _ = model(intercept)
    v = np.array([0.5, 0.2, 0.1, 0.2])
    columns, place = np.vstack([X.T, np.ones(len(s))]), np.concatenate([pairs.feature, np.full(free, X.shape[1])])
    exact = pair_gram(L1, columns, place, pairs, np.repeat(v[:, None], len(s), axis=1), s, 0.5, np.float64)
    np.testing.assert_allclose(alike_gram(L1, columns, place, pairs, v, s, 0.5), exact, atol=1e-6 * np.abs(exact).max())


@pytest.mark.parametrize("intercept", [False, True])
def test_only_the_first_model_is_that_of_rows_which_are_alike(monkeypatch, intercept):
    seen, made = [], multiclass_step.alike_gram
    monkeypatch.setattr(multiclass_step, "alike_gram", lambda *args: seen.append(args) or made(*args))
    problem = tall()
    problem = MulticlassProblem(problem.matrix.values, problem.codes, penalty=problem.penalty, fit_intercept=intercept)
    solution = sd.solve(problem, solver=MulticlassNewton(), tol=1e-6)
    assert solution.certificate.relative_gap <= 1e-6
    assert len(seen) == 1  # of a part of the rows
    sd.solve(problem, solver=MulticlassNewton(), tol=1e-8, start=solution)
    assert len(seen) == 1
