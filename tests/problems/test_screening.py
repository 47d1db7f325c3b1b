"""Screened products: exact where they can matter, bounds elsewhere, and certificates that stay proofs."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import saddlery as sd
from saddlery.matrix import as_matrix
from saddlery.problems.screening import ScreenedProducts
from saddlery.registry import SOLVERS

MATRICES = ("dense", "csr")


def make(kind, seed=0, n=30, d=60, weights=False, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3) * rng.exponential(1.0, d)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    s = rng.random(n) + 0.1 if weights else None
    problem = sd.LinearProblem(sp.csr_array(X) if kind == "csr" else X, y, penalty=sd.penalties.L1(1.0), sample_weight=s, **options)
    _ = problem.matrix.cols
    return problem.with_penalty(sd.penalties.L1(0.2 * problem.alpha_max()))


@pytest.mark.parametrize("kind", MATRICES)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), step=st.floats(1e-4, 0.3), weights=st.booleans())
def test_exact_above_the_level_and_a_bound_below(kind, seed, step, weights):
    problem = make(kind, seed, weights=weights)
    products, rng = ScreenedProducts(problem), np.random.default_rng(seed)
    a = problem.constant_dual
    products.product(problem, a, problem.s * a, problem.penalty.threshold)
    assert products.complete
    for _ in range(3):
        a = a + step * rng.standard_normal(problem.n)
        true = problem.matrix.rmatvec(problem.s * a)
        level = problem.penalty.threshold
        got = products.product(problem, a, problem.s * a, level)
        assert (np.abs(true) <= np.abs(got) + 1e-12).all()
        above = np.abs(got) > level
        np.testing.assert_allclose(got[above], true[above], rtol=1e-12)
        assert not (np.abs(true[~above]) > level).any()


@pytest.mark.parametrize("kind", MATRICES)
def test_it_spares_columns(kind):
    problem = make(kind)
    products, a = ScreenedProducts(problem), problem.constant_dual
    products.product(problem, a, problem.s * a, problem.penalty.threshold)
    before = products.accesses
    products.product(problem, 0.999 * a, 0.999 * problem.s * a, 0.9 * problem.alpha_max())
    assert not products.complete
    assert products.accesses - before < 0.3 * problem.matrix.nnz


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge", "huber"])
def test_certificates_are_those_of_full_products(kind, loss):
    """Solved with columns at hand, so with screening; certified by a problem that never screens."""
    problem = make(kind, loss=loss)
    solution = sd.solve(problem, "prox_newton", tol=1e-8)
    full = sd.certify(problem, solution.w, solution.dual)
    assert solution.status is sd.Status.CONVERGED
    assert full.dual >= solution.certificate.dual - 1e-13
    assert full.primal == pytest.approx(solution.certificate.primal, rel=1e-13)


def test_never_with_an_intercept_or_without_a_threshold():
    assert not ScreenedProducts(make("csr", fit_intercept=True)).usable
    assert not ScreenedProducts(make("csr").with_penalty(sd.penalties.L2(1.0))).usable


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize(("solver", "loss"), [("prox_newton", "logistic"), ("augmented_newton", "hinge")])
def test_bounds_hold_whatever_the_solver_does_in_between(kind, solver, loss):
    """Solvers write over their arrays when they synchronise or change the loss: what bounds refer to must stay."""
    problem = make(kind, loss=loss, n=40, d=30)
    method = SOLVERS.get(solver)()
    state = method.init(problem, None, np.random.default_rng(0))
    spared = 0
    for k in range(60):
        if solver == "prox_newton" and k % 3 == 2:
            method.resync(problem, state)
        method.step(problem, state)
        point = method.point(problem, state)
        if point.Xta is None:
            continue
        true = problem.matrix.rmatvec(problem.s * point.dual)
        assert (np.abs(true) <= np.abs(point.Xta) + 1e-12).all()
        spared += int(not np.allclose(point.Xta, true, atol=1e-12))
        primal, dual = problem.evaluate(point)
        state.relative_gap = (primal - dual.value) / problem.scale
        assert dual.value <= sd.certify(problem, point.w, dual.a, point.b).dual + 1e-12
    assert spared > 0


@pytest.mark.parametrize("kind", MATRICES)
def test_the_reference_is_a_copy(kind):
    """The caller goes on with its array, in place; a bound from the old product and the new point would be no bound."""
    problem = make(kind)
    products, a = ScreenedProducts(problem), problem.constant_dual.copy()
    products.start(a, problem.constant_gradient)
    a *= -0.2
    a[:5] = 0.9
    got = products.product(problem, a, problem.s * a, problem.penalty.threshold)
    true = problem.matrix.rmatvec(problem.s * a)
    assert (np.abs(true) <= np.abs(got) + 1e-12).all()


@pytest.mark.parametrize("kind", MATRICES)
def test_intervals_hold_and_say_what_is_exact(kind):
    problem = make(kind, seed=3)
    products, rng, a = ScreenedProducts(problem), np.random.default_rng(3), problem.constant_dual.copy()
    products.start(a, problem.constant_gradient)
    partial = 0
    for _ in range(6):
        a = 0.8 * a + 0.01 * rng.standard_normal(problem.n)
        products.product(problem, a, problem.s * a, 0.9 * problem.alpha_max())
        true = problem.matrix.rmatvec(problem.s * a)
        partial += not products.complete
        if not products.complete:
            assert (np.abs(true - products.centres) <= products.errors + 1e-13).all()
            read = np.flatnonzero(products.errors == 0.0)
            assert products.exact_on(np.arange(problem.d)) is None
            np.testing.assert_allclose(products.exact_on(read), true[read], atol=1e-13)
    assert partial > 2
    np.testing.assert_allclose(problem.constant_gradient, problem.matrix.rmatvec(problem.s * problem.constant_dual), atol=1e-14)


def test_what_only_shrinks_needs_no_column():
    problem = make("csr")
    products, a = ScreenedProducts(problem), problem.constant_dual
    products.start(a, problem.constant_gradient)
    products.product(problem, 0.3 * a, 0.3 * problem.s * a, 0.31 * problem.alpha_max())
    assert products.accesses == 0.0


@pytest.mark.parametrize("kind", MATRICES)
def test_it_begins_once_columns_are_at_hand(kind):
    problem = make(kind)
    problem = problem.with_matrix(as_matrix(problem.matrix.values))  # rows only
    products, a = ScreenedProducts(problem), problem.constant_dual
    for made in (False, True):
        if made:
            _ = problem.matrix.cols
        products.product(problem, a, problem.s * a, problem.penalty.threshold)
        products.product(problem, 0.999 * a, 0.999 * problem.s * a, 0.9 * problem.alpha_max())
        assert products.complete is not made
