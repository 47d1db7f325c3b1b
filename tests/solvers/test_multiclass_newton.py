"""The default solvers of multiclass problems: against a conic solver, on degenerate data, and their promises to the loop."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.penalties.base import largest
from saddlery.problems.multiclass import MulticlassProblem
from saddlery.solvers.multiclass_columns import class_factors, conjugate_steps
from saddlery.solvers.multiclass_model import Curvature, Pairs, best_of_two, gram_model, pair_gram
from saddlery.solvers.multiclass_newton import MulticlassNewton
from saddlery.solvers.multiclass_smoothed import MulticlassSmoothed
from saddlery.solvers.multiclass_state import value_on_ray

PENALTIES = {
    "l1": sd.penalties.L1(0.03),
    "elasticnet": sd.penalties.ElasticNet(0.03, l1_ratio=0.5),
    "l2": sd.penalties.L2(0.05),
}
SOLVER = {"logistic": MulticlassNewton, "hinge": MulticlassSmoothed}


def data(seed: int = 0, n: int = 60, d: int = 7, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    y = np.argmax(X @ rng.standard_normal((d, k)) + rng.standard_normal((n, k)), axis=1)
    y[:k] = np.arange(k)
    return X, y


def reference(problem: Any) -> float:
    """The optimal value by a conic solver."""
    X = problem.matrix.values
    X = X.toarray() if sp.issparse(X) else X
    n, d, k = problem.n, problem.d, problem.k
    W, b = cp.Variable((d, k)), cp.Variable((1, k))
    Y = np.eye(k)[problem.codes]
    Z = X @ W + (np.ones((n, 1)) @ b if problem.fit_intercept else 0.0)
    own = cp.sum(cp.multiply(Y, Z), axis=1)
    hinge = np.isinf(problem.loss.smoothness)
    rows = cp.max(Z + 1.0 - Y, axis=1) if hinge else cp.log_sum_exp(Z, axis=1)
    l1, l2 = problem.penalty.threshold, problem.penalty.strong_convexity
    value = problem.s @ (rows - own) + l1 * cp.sum(cp.abs(W)) + 0.5 * l2 * cp.sum_squares(W)
    return float(cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL"))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", SOLVER)
def test_agrees_with_a_conic_solver(loss, penalty, intercept):
    X, y = data(1)
    weights = np.random.default_rng(2).random(len(y))
    weights[5] = 0.0
    for sparse in (False, True):
        values = sp.csr_array(X) if sparse else X
        problem = MulticlassProblem(values, y, loss, PENALTIES[penalty], sample_weight=weights, fit_intercept=intercept)
        best = reference(problem)
        for form in ("gram", "columns"):
            tol = 1e-7 if loss == "logistic" or form == "gram" else 1e-6  # sweeps crawl where the hinge is hardly smoothed
            solution = sd.solve(problem, SOLVER[loss](form=form), tol=tol)
            assert solution.certificate.relative_gap <= tol, (sparse, form)
            assert solution.certificate.primal == pytest.approx(best, abs=1e-6), (sparse, form)


@pytest.mark.parametrize("loss", SOLVER)
@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_few_kept_entries_give_the_same_solution_as_all(loss, penalty, monkeypatch):
    X, y = data(3, n=80, d=30, k=5)
    problem = MulticlassProblem(sp.csr_array(X), y, loss, PENALTIES[penalty])
    whole = sd.solve(problem, SOLVER[loss](), tol=1e-8)
    monkeypatch.setattr("saddlery.problems.multiclass.WHOLE", 10)
    monkeypatch.setattr("saddlery.problems.multiclass.BLOCK", 60)
    monkeypatch.setattr("saddlery.solvers.multiclass_state.BLOCK", 60)
    few = sd.solve(problem, SOLVER[loss](), tol=1e-8)
    assert sp.issparse(few.w)
    assert few.certificate.relative_gap <= 1e-8
    assert few.certificate.primal == pytest.approx(whole.certificate.primal, abs=1e-8)
    np.testing.assert_allclose(few.w.toarray(), whole.w, atol=1e-3)
    again = sd.solve(problem, SOLVER[loss](), tol=1e-8, start=few)
    assert again.epochs <= few.epochs


def degenerate_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    X, y = data(4)
    twins = np.hstack([X, X[:, :3]])
    empty = X.copy()
    empty[7] = 0.0
    empty[:, 2] = 0.0
    apart = np.vstack([np.eye(4)] * 5) * 3.0
    return {
        "equal columns": (twins, y),
        "empty rows and columns": (empty, y),
        "separable": (apart, np.tile(np.arange(4), 5)),
        "two classes": (X, (y > 1).astype(int)),
        "more columns than rows": (np.random.default_rng(5).standard_normal((12, 40)), y[:12]),
        "one column": (X[:, :1], y),
    }


@pytest.mark.parametrize("name", degenerate_sets())
@pytest.mark.parametrize("loss", SOLVER)
@pytest.mark.parametrize("intercept", [False, True])
def test_degenerate_data(loss, name, intercept):
    X, y = degenerate_sets()[name]
    problem = MulticlassProblem(X, y, loss, sd.penalties.L1(0.01), fit_intercept=intercept)
    solution = sd.solve(problem, SOLVER[loss](), tol=1e-6)
    assert solution.certificate.relative_gap <= 1e-6
    assert solution.certificate.primal == pytest.approx(reference(problem), abs=2e-6)


def test_a_class_without_rows():
    X, y = data(6)
    problem = MulticlassProblem(X, y, "logistic", sd.penalties.L1(0.02), n_classes=6)
    assert sd.solve(problem, MulticlassNewton(), tol=1e-7).certificate.primal == pytest.approx(reference(problem), abs=1e-6)


@pytest.mark.parametrize("loss", SOLVER)
def test_strong_penalties_give_zero(loss):
    X, y = data(7)
    problem = MulticlassProblem(X, y, loss, sd.penalties.L1(1.0))
    solution = sd.solve(problem.with_penalty(sd.penalties.L1(1.001 * problem.alpha_max())), SOLVER[loss](), tol=1e-9)
    assert solution.certificate.relative_gap <= 1e-9
    assert not solution.w.any() or loss == "hinge"


def test_sampled_models_and_starts_end_at_the_same_point():
    X, y = data(8, n=6000, d=6, k=3)
    problem = MulticlassProblem(X, y, "logistic", sd.penalties.L1(0.005))
    plain = sd.solve(problem, MulticlassNewton(sample=False), tol=1e-8)
    sampled = sd.solve(problem, MulticlassNewton(), tol=1e-8)
    assert sampled.certificate.relative_gap <= 1e-8
    np.testing.assert_allclose(sampled.w, plain.w, atol=1e-4)


@pytest.mark.parametrize("loss", SOLVER)
def test_same_seed_same_trace_and_resumed_runs_go_on_exactly(loss):
    X, y = data(9, n=200, d=20)
    problem = MulticlassProblem(X, y, loss, sd.penalties.L1(0.003))
    runs = [sd.solve(problem, SOLVER[loss](), tol=0.0, max_epochs=3, random_state=1) for _ in range(2)]
    assert [r._replace(seconds=0.0) for r in runs[0].trace] == [r._replace(seconds=0.0) for r in runs[1].trace]
    whole = sd.solve(problem, SOLVER[loss](), tol=1e-7, random_state=1)
    part = sd.solve(problem, SOLVER[loss](), tol=1e-7, max_epochs=2, random_state=1)
    rest = sd.solve(problem, SOLVER[loss](), tol=1e-7, start=part.state)
    np.testing.assert_array_equal(rest.w, whole.w)
    np.testing.assert_array_equal(rest.dual, whole.dual)


def tall_problem(intercept: bool = False) -> MulticlassProblem:
    """Large enough for sampled models, a start from a part of the rows, and runs that end with the dual point of a model."""
    X, y = data(10, n=6000, d=12, k=6)
    return MulticlassProblem(X, y, "logistic", sd.penalties.L1(0.002), fit_intercept=intercept)


@pytest.mark.parametrize("form", ["gram", "columns"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_dual_point_of_a_model_ends_runs_and_is_what_it_says(intercept, form, monkeypatch):
    taken, whole = [], MulticlassNewton._judge_model

    def spy(self, problem, state):
        expected = whole(self, problem, state)
        if expected:
            A, G = state.dual
            taken.append(state.gap)
            np.testing.assert_allclose(G, problem.gradient(A), atol=1e-13)
            assert (A + np.eye(problem.k)[problem.codes]).min() >= 0.0
            np.testing.assert_allclose(A.sum(axis=1), 0.0, atol=1e-12)
        return expected

    monkeypatch.setattr(MulticlassNewton, "_judge_model", spy)
    problem = tall_problem(intercept)
    best = sd.solve(problem, MulticlassNewton(), tol=1e-9).certificate.primal
    for tol in (1e-3, 1e-5):
        taken.clear()
        solution = sd.solve(problem, MulticlassNewton(form=form), tol=tol)
        assert solution.certificate.relative_gap <= tol
        assert solution.certificate.dual <= best + 1e-9 * problem.scale  # weak duality
        if not intercept:
            assert taken
            assert solution.certificate.relative_gap <= 1.5 * taken[-1] + 1e-12


def test_runs_without_a_first_certificate_still_end_with_one():
    problem = tall_problem()
    for budget in ({"max_epochs": 0}, {"max_seconds": 0.0}, {"max_accesses": 0.0}):
        solution = sd.solve(problem, MulticlassNewton(), tol=1e-9, **budget)
        assert len(solution.trace) == 1
        assert np.isfinite(solution.certificate.gap)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("k", [3, 8])
def test_gram_matrices_are_the_second_derivatives(k, intercept):
    rng = np.random.default_rng(11)
    n, d = 40, 5
    X, V, s = rng.standard_normal((n, d)), rng.random((k, n)) + 0.1, rng.random(n)
    V, s = V / V.sum(axis=0), s / s.sum()
    pairs = Pairs(np.sort(rng.choice(d * k, 2 * k, replace=False)), k)
    columns = np.vstack([X.T, np.ones(n)])
    place = np.concatenate([pairs.feature, np.full(k, d)]) if intercept else pairs.feature
    cls = np.concatenate([pairs.cls, np.arange(k)]) if intercept else pairs.cls
    Z = columns[place]  # of each pair
    expected = np.einsum("pi,ri,i,pri->pr", Z, Z, s, V[cls][:, None] * ((cls[:, None] == cls)[..., None] - V[cls][None]))
    for dtype, places in ((np.float64, 1e-9), (np.float32, 1e-6)):
        gram = pair_gram(sd.penalties.L1(0.1), columns.astype(dtype), place, pairs, V, s, 0.5, dtype)
        np.testing.assert_allclose(gram, 2.0 * expected, atol=places)


@pytest.mark.parametrize("penalty", [sd.penalties.L1(0.3), sd.penalties.ElasticNet(0.5, l1_ratio=0.5)])
@pytest.mark.parametrize("free", [0, 2])
def test_steps_of_a_rough_model_reach_the_minimum_of_the_exact_one(penalty, free):
    rng = np.random.default_rng(12)
    size = 30
    factor = rng.standard_normal((90, size)) / 9.0
    exact, rough = factor.T @ factor, 4.0 * factor[:20].T @ factor[:20] + 0.1 * np.eye(size)
    first = rng.standard_normal(size)
    u, q, last = np.zeros(size), first.copy(), None
    m, l2 = size - free, penalty.strong_convexity
    values = []
    for _ in range(40):
        trial, slopes = u.copy(), q.copy()
        gram_model(penalty, rough, trial, slopes, free, 1e-12, most=3)
        last = best_of_two(penalty, u, q, trial - u, exact @ (trial - u), last, m, lambda move: exact @ move)
        np.testing.assert_allclose(last[1], exact @ last[0], atol=1e-10)
        u, q = u + last[0], q + last[1]
        values.append(first @ u + 0.5 * u @ exact @ u + penalty.value(u[:m]))
    assert np.all(np.diff(values) <= 1e-12)
    slopes = q[:m] + l2 * u[:m]
    held = u[:m] != 0.0
    np.testing.assert_allclose(slopes[held], -penalty.threshold * np.sign(u[:m][held]), atol=1e-5)
    assert float(largest(penalty, slopes[~held])) <= penalty.threshold + 1e-5
    np.testing.assert_allclose(q[m:], 0.0, atol=1e-5)


def test_conjugate_gradients_with_the_blocks_of_classes_solve_the_model_on_a_face():
    rng = np.random.default_rng(13)
    n, d, k = 80, 6, 3
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    V = rng.random((k, n)) + 0.1
    V /= V.sum(axis=0)
    pairs, s, penalty = Pairs(np.arange(d * k), k), np.full(n, 1.0 / n), sd.penalties.L1(0.1)
    gram = pair_gram(penalty, np.vstack([X.T, np.ones(n)]), pairs.feature, pairs, V, s, 1.0, np.float64)
    matrix = MulticlassProblem(sp.csr_array(X), np.arange(n) % k, "logistic", penalty).matrix
    face = np.sort(rng.choice(d * k, 14, replace=False))
    solve = class_factors(penalty, matrix.cols, matrix.col_counts, pairs, face, V, V * s)
    for first in range(k):
        part = face[pairs.cls[face] == first]
        x = rng.standard_normal(len(part))
        np.testing.assert_allclose(solve(part, gram[np.ix_(part, part)] @ x), x, rtol=1e-4)
    other = np.flatnonzero(pairs.cls < k - 1)  # not all of them have blocks; with all classes the system would be singular
    system, residual = gram[np.ix_(other, other)], rng.standard_normal(len(other))
    v, done = conjugate_steps(residual, lambda left: solve(other, left), lambda move: system @ move, 1e-10, 40)
    np.testing.assert_allclose(system @ v, -residual, atol=1e-8)
    assert done <= 20


def test_products_with_the_curvature_tell_of_pairs_that_are_missed():
    rng = np.random.default_rng(3)
    n, d, k = 60, 4, 3
    X, V = rng.standard_normal((n, d)), rng.dirichlet(np.ones(k), n).T.copy()
    s, G = np.full(n, 1.0 / n), rng.standard_normal(d * k)
    held = np.array([0, 2, 3])  # of the features, and ones
    columns = np.vstack([X[:, held].T, np.ones(n)]).astype(np.float32)
    place = np.array([0, -1, 1, 2])
    pairs = Pairs(np.array([0, 2, 7, 10]), k)
    single = V.astype(np.float32)
    product = Curvature(None, columns, place, pairs, single, s.astype(np.float32), 0)
    step = np.zeros(d * k)
    step[pairs.keys] = move = rng.standard_normal(pairs.m)
    Z = (X @ step.reshape(d, k)).T
    bent = (X.T @ (s * V * (Z - (V * Z).sum(axis=0))).T).ravel()
    np.testing.assert_allclose(product(move), bent[pairs.keys], rtol=1e-4, atol=1e-5)
    others = np.setdiff1d(np.flatnonzero(np.repeat(place >= 0, k)), pairs.keys)
    assert product.largest_other(G) == pytest.approx(np.abs(G + bent)[others].max(), rel=1e-4)


def test_values_on_a_ray_are_nearer_than_chords():
    X = np.random.default_rng(5).standard_normal((80, 6))
    problem = MulticlassProblem(X, np.argmax(X[:, :3], axis=1), loss="logistic", penalty=sd.penalties.L1(1e-3))
    A = problem.slopes(0.3 * X @ np.random.default_rng(6).standard_normal((6, 3)))
    own, step = problem.dual(A, np.zeros((6, 3))), 1e-6
    ray = (own - problem.dual((1.0 - step) * A, np.zeros((6, 3)))) / step
    for t in (0.99, 0.9, 0.6):
        exact = problem.dual(t * A, np.zeros((6, 3)))
        assert abs(value_on_ray(own, ray, 1.0 / t, 1.0) - exact) < 0.1 * (exact - t * own)
    assert value_on_ray(own, ray, 0.5, 1.0) == own
