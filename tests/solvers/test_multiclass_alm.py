"""The augmented Lagrangian of the multiclass hinge with l2: against a conic solver, its rows and systems, its promises."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.losses import MulticlassHinge
from saddlery.problems.multiclass import MulticlassProblem
from saddlery.solvers.multiclass_alm import MulticlassALM
from saddlery.solvers.multiclass_faces import RowProducts, faces_of, newton_direction
from saddlery.solvers.multiclass_simplex import add_changes, project_rows
from tests.solvers.test_multiclass_newton import data, reference


def state_in_newton(problem, seed=0, rho=0.3):
    """A state after two rounds, at given rho."""
    method = MulticlassALM(ascent=False)
    state = method.init(problem, None, np.random.default_rng(seed))
    for _ in range(2):
        method._round(problem, state)
    state.rho = rho
    state.centre[:] = state.V
    state.smooth, state.hinge, state.against, _ = method._project(problem, state, state.Z, 0.0, state.spare)
    method._accept(problem, state)
    return state


@pytest.mark.parametrize("intercept", [False, True])
def test_agrees_with_a_conic_solver(intercept):
    X, y = data(1)
    X[3] = 0.0
    weights = np.random.default_rng(2).random(len(y))
    weights[5] = 0.0
    for alpha in (0.5, 0.05, 1e-3):
        best = None
        for values in (X, sp.csr_array(X)):
            problem = MulticlassProblem(values, y, "hinge", sd.penalties.L2(alpha), sample_weight=weights, fit_intercept=intercept)
            best = reference(problem) if best is None else best
            for method in (MulticlassALM(), *(MulticlassALM(False, form) for form in ("faces", "primal", "products"))):
                solution = sd.solve(problem, method, tol=1e-7, max_epochs=3000)
                assert solution.certificate.relative_gap <= 1e-7, (alpha, method)
                assert solution.certificate.primal == pytest.approx(best, abs=1e-6), (alpha, method)


def test_more_classes_than_rows_hold_and_many_columns():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((40, 90)), rng.integers(0, 6, 40)
    for intercept in (False, True):
        labels = np.unique(y, return_inverse=True)[1]
        problem = MulticlassProblem(X, labels, "hinge", sd.penalties.L2(0.02), fit_intercept=intercept)
        solution = sd.solve(problem, "multiclass_alm", tol=1e-8)
        assert solution.certificate.relative_gap <= 1e-8
        assert solution.certificate.primal == pytest.approx(reference(problem), abs=1e-6)
    problem = MulticlassProblem(X, y, "hinge", sd.penalties.L2(0.02), n_classes=9)
    assert sd.solve(problem, "multiclass_alm", tol=1e-8).certificate.relative_gap <= 1e-8


def test_rows_are_the_best_points_of_the_simplex():
    rng = np.random.default_rng(4)
    n, k = 30, 5
    codes, s = rng.integers(0, k, n), rng.random(n)
    s[3] = 0.0
    Z, along, b = 2.0 * rng.standard_normal((n, k)), rng.standard_normal((n, k)), rng.standard_normal(k)
    centre, new = rng.dirichlet(np.ones(k), n), np.zeros((n, k))
    rho = 0.3
    smooth, hinge, against, slope = project_rows(MulticlassHinge(), codes, s, rho, Z, along, 0.7, b, centre, new, np.empty(k))
    z = Z + 0.7 * along + b
    Y = np.eye(k)[codes]
    m = z + 1.0 - Y
    own = z[np.arange(n), codes]

    def value(V):
        return (V * m).sum(axis=1) - own - 0.5 * rho * ((V - centre) ** 2).sum(axis=1)

    held = s > 0.0
    np.testing.assert_allclose(new[held].sum(axis=1), 1.0, atol=1e-12)
    assert new.min() >= 0.0
    for _ in range(50):
        assert (value(rng.dirichlet(np.ones(k), n)) <= value(new) + 1e-12)[held].all()
    assert smooth == pytest.approx(s @ value(new))
    assert hinge == pytest.approx(s @ (m.max(axis=1) - own))
    assert against == pytest.approx(s @ (1.0 - new[np.arange(n), codes]))
    assert slope == pytest.approx((s[:, None] * (new - Y) * along)[held].sum())


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_all_systems_give_the_newton_step(intercept, sparse, monkeypatch):
    monkeypatch.setattr("saddlery.solvers.multiclass_faces.CG_TOL", 1e-12)
    X, y = data(5, n=50, d=6, k=4)
    problem = MulticlassProblem(sp.csr_array(X) if sparse else X, y, "hinge", sd.penalties.L2(0.02), fit_intercept=intercept)
    state = state_in_newton(problem)
    rest = 0.02 * state.W + state.G
    where = (state.rho, rest, state.slope, state.by_class)
    gram, faces = RowProducts(problem.n), faces_of(problem, state.V)
    gram.slots_of(problem, faces.rows[::2])  # some are known already
    moves = [newton_direction(problem, gram, faces, form, *where) for form in ("faces", "primal", "products")]
    width = problem.d + 1
    H = np.zeros((problem.k * width, problem.k * width))
    for i in range(problem.n):
        inside = (state.V[i] > 0.0).astype(float)
        J = np.diag(inside) - np.outer(inside, inside) / inside.sum()
        x = np.append(X[i], 1.0)
        H += problem.s[i] / (state.rho) * np.kron(J, np.outer(x, x))
    ones = 0.02 / max(problem.matrix.row_square_norms.mean(), 1e3 * 0.02 * state.rho)
    H += np.diag(np.tile(np.append(np.full(problem.d, 0.02), ones), problem.k))
    right = np.hstack([rest.T if sparse else rest, state.slope[:, None]])
    if intercept:
        step = -np.linalg.solve(H, right.ravel()).reshape(problem.k, width)
    else:
        keep = np.tile(np.append(np.ones(problem.d, dtype=bool), False), problem.k)
        step = np.zeros((problem.k, width))
        step[:, :-1] = -np.linalg.solve(H[np.ix_(keep, keep)], right[:, :-1].ravel()).reshape(problem.k, -1)
    size = np.abs(step).max()
    for move, shift, _ in moves:
        np.testing.assert_allclose(move.T if sparse else move, step[:, :-1], atol=1e-6 * size)
        np.testing.assert_allclose(shift, step[:, -1], atol=1e-5 * size)


def test_products_follow_the_rows():
    X, y = data(6)
    for values in (X, sp.csr_array(X)):
        problem = MulticlassProblem(values, y, "hinge", sd.penalties.L2(0.02))
        state = state_in_newton(problem)
        A = state.V - np.eye(problem.k)[problem.codes]
        G = state.G.T if state.by_class else state.G
        np.testing.assert_allclose(G, problem.gradient(A), atol=1e-14)
        np.testing.assert_allclose(state.Z, X @ (state.W.T if state.by_class else state.W), atol=1e-13)
        new = np.random.default_rng(0).dirichlet(np.ones(problem.k), problem.n)
        add_changes(problem.matrix.rows, problem.s, new, state.V, state.by_class, state.G)
        G = state.G.T if state.by_class else state.G
        np.testing.assert_allclose(G, problem.gradient(new - np.eye(problem.k)[problem.codes]), atol=1e-14)


@pytest.mark.parametrize("intercept", [False, True])
def test_its_own_gap_is_the_certified_one(intercept):
    X, y = data(7, n=120)
    problem = MulticlassProblem(X, y, "hinge", sd.penalties.L2(1e-3), fit_intercept=intercept)
    method = MulticlassALM(ascent=False)
    state = method.init(problem, None, np.random.default_rng(0))
    for _ in range(12):
        method._round(problem, state)
        primal, dual = problem.evaluate(method.point(problem, state))
        assert primal - dual.value >= -1e-14
        assert primal - dual.value <= state.gap * problem.scale * (1.0 + 1e-6) + 1e-12
    assert state.gap < 1e-3


@pytest.mark.parametrize("intercept", [False, True])
def test_weak_duality_start_and_resume(intercept):
    X, y = data(8, n=150)
    problem = MulticlassProblem(X, y, "hinge", sd.penalties.L2(1e-3), fit_intercept=intercept)
    solution = sd.solve(problem, "multiclass_alm", tol=1e-9)
    best = solution.certificate.primal
    for record in solution.trace:
        assert record.dual <= best + 1e-12
        assert record.primal >= solution.certificate.dual - 1e-12
    assert sd.solve(problem, "multiclass_alm", tol=1e-8, start=solution).epochs <= 2
    part = sd.solve(problem, "multiclass_alm", tol=1e-9, max_epochs=2)
    rest = sd.solve(problem, "multiclass_alm", tol=1e-9, start=part.state)
    assert rest.certificate.relative_gap <= 1e-9
    again = sd.solve(problem, "multiclass_alm", tol=1e-9)
    np.testing.assert_array_equal(again.w, solution.w)


@pytest.mark.parametrize("intercept", [False, True])
def test_converges_on_badly_scaled_data(intercept):
    rng = np.random.default_rng(11)
    for trial in range(8):
        n, d, k = int(rng.integers(20, 120)), int(rng.integers(1, 30)), int(rng.integers(2, 8))
        X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 2)
        X[:, : d // 2] *= 1e-2
        X[n // 2 :] = np.round(X[n // 2 :])  # rows of zeros, or many that tie
        y = np.arange(n) % k
        weights = 10.0 ** rng.uniform(-4, 1, n) if trial % 2 else None
        alpha = 10.0 ** rng.uniform(-6, 1)
        problem = MulticlassProblem(X, y, "hinge", sd.penalties.L2(alpha), sample_weight=weights, fit_intercept=intercept)
        for ascent in (True, False):
            solution = sd.solve(problem, MulticlassALM(ascent), tol=1e-8)
            assert solution.certificate.relative_gap <= 1e-8, (trial, ascent, alpha)


def test_well_conditioned_problems_are_left_to_ascent():
    rng = np.random.default_rng(9)
    X, y = rng.standard_normal((60, 400)), rng.integers(0, 3, 60)
    solution = sd.solve(MulticlassProblem(X, y, "hinge", sd.penalties.L2(1.0 / 60)), "multiclass_alm", tol=1e-7)
    assert solution.certificate.relative_gap <= 1e-7
    assert solution.trace[-1].counts["newton_steps"] == 0


def test_other_penalties_are_refused():
    X, y = data(10)
    for penalty in (sd.penalties.L1(0.1), sd.penalties.ElasticNet(0.1, l1_ratio=0.5)):
        with pytest.raises(sd.errors.UnsupportedError):
            sd.solve(MulticlassProblem(X, y, "hinge", penalty), "multiclass_alm")
