"""Compiled rounds on small sparse data: the same optimum as the rounds of prox_newton.py, and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.matrix import as_matrix
from saddlery.solvers import sparse_rounds
from saddlery.solvers.sparse_rounds import SparseRoom, is_small_sparse, solve_on_columns, step_on_face

L1, NET = sd.penalties.L1(0.01), sd.penalties.ElasticNet(0.02, 0.6)
CASES = [("logistic", L1), ("squared", NET), ("squared_hinge", L1)]  # each is compiled anew
NAMES = [f"{loss}-{type(penalty).__name__}" for loss, penalty in CASES]


def sparse_data(n=80, d=400, seed=0):
    """Positive entries, so that an intercept matters, in columns of which a quarter are empty."""
    rng = np.random.default_rng(seed)
    X = abs(sp.random(n, d, 0.12, format="csr", rng=rng, data_rvs=rng.standard_normal))
    X = sp.csr_array(X @ sp.diags_array(np.where(np.arange(d) % 4 == 1, 0.0, 1.0)))
    X.eliminate_zeros()
    return X, X[:, :6] @ rng.standard_normal(6) + 0.3 * rng.standard_normal(n)


def problem_of(loss, penalty, fit_intercept=False, weights=False, **size):
    X, z = sparse_data(**size)
    y = np.where(z > np.median(z), 1.0, -1.0) if loss in ("logistic", "squared_hinge") else z
    s = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weights else None
    return sd.LinearProblem(X, y, loss, penalty, sample_weight=s, fit_intercept=fit_intercept)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("loss", "penalty"), CASES, ids=NAMES)
def test_same_optimum_as_the_rounds_in_python(loss, penalty, fit_intercept, weights, monkeypatch):
    problem = problem_of(loss, penalty, fit_intercept, weights)
    assert is_small_sparse(problem)
    compiled = sd.solve(problem, "prox_newton", tol=1e-9)
    monkeypatch.setattr(sparse_rounds, "LEAST", 10**9)
    assert not is_small_sparse(problem)
    plain = sd.solve(problem, "prox_newton", tol=1e-9)
    for solution in (compiled, plain):
        assert solution.status is sd.Status.CONVERGED
        assert sd.certify(problem, solution.w, solution.dual, solution.b).relative_gap <= 1e-9 * (1 + 1e-3)
    assert abs(compiled.certificate.primal - plain.certificate.primal) <= 2e-9 * problem.scale
    assert compiled.epochs < plain.epochs  # one epoch of the loop holds several rounds


@pytest.mark.parametrize(("loss", "penalty"), CASES, ids=NAMES)
def test_paths_agree_with_single_fits(loss, penalty):
    problem = problem_of(loss, penalty, fit_intercept=True)
    result = sd.path(problem, n_alphas=6, alpha_min_ratio=0.05, solver="prox_newton", tol=1e-8)
    for alpha, solution in zip(result.alphas, result.solutions, strict=True):
        single = problem.with_penalty(penalty.scaled(alpha / penalty.alpha))
        assert sd.certify(single, solution.w, solution.dual, solution.b).relative_gap <= 1e-8 * (1 + 1e-3)
        assert solution.certificate.primal == pytest.approx(sd.solve(single, tol=1e-8).certificate.primal, abs=2e-8 * problem.scale)


def test_who_listens_hears_of_gaps_on_the_way():
    heard = []
    sd.solve(problem_of("logistic", L1), "prox_newton", tol=1e-9, callbacks=[heard.append])
    gaps = [record.relative_gap for record in heard]
    assert heard[0].epoch == 0
    assert len(gaps) >= 3
    assert gaps == sorted(gaps, reverse=True)


def test_a_copy_of_the_state_resumes():
    problem = problem_of("logistic", L1, fit_intercept=True)
    first = sd.solve(problem, "prox_newton", tol=1e-9, max_epochs=1, callbacks=[lambda record: None])
    assert first.status is sd.Status.MAX_EPOCHS
    again = sd.solve(problem, "prox_newton", tol=1e-9, start=first.state)
    assert again.status is sd.Status.CONVERGED
    assert again.certificate.primal == pytest.approx(sd.solve(problem, tol=1e-9).certificate.primal, abs=2e-9 * problem.scale)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_long_indices_and_single_precision(kind):
    X, z = sparse_data()
    X = sp.csr_array((X.data.astype(kind), X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    problem = sd.LinearProblem(X, np.where(z > 0.0, 1.0, -1.0), "logistic", L1)
    assert is_small_sparse(problem)
    assert sd.solve(problem, tol=1e-8).status is sd.Status.CONVERGED


def test_others_take_over_where_rounds_gain_too_little(monkeypatch):
    problem = problem_of("logistic", L1)
    monkeypatch.setattr(
        "saddlery.solvers.prox_newton.sparse_rounds",  # as it returns from data on which it crawls
        lambda loss, penalty, cols, copy, room, y, s, free, facts, steps, enough, exact, w, *rest: (
            *rest[-4:-2],
            rest[-1],
            12,
            False,
            0.5,
        ),
    )
    solution = sd.solve(problem, "prox_newton", tol=1e-8)
    assert solution.status is sd.Status.CONVERGED


def test_tall_tiny_and_large_data_are_for_others(monkeypatch):
    assert not is_small_sparse(problem_of("logistic", L1, n=1700, d=400))
    assert not is_small_sparse(problem_of("logistic", L1, n=40, d=50))
    assert not is_small_sparse(problem_of("logistic", sd.penalties.L2(0.1)))
    monkeypatch.setattr(sparse_rounds, "MOST", 2500)
    assert not is_small_sparse(problem_of("logistic", L1))


def test_columns_without_entries_are_left_out():
    X = sparse_data()[0]
    room = SparseRoom(as_matrix(X))
    counts = np.diff(sp.csc_array(X).indptr)
    np.testing.assert_array_equal(room.used, np.flatnonzero(counts))
    dense = X.toarray()[:, room.used]
    out = np.array([room.stacks[0].dot(k, np.arange(80.0)) for k in range(len(room.used))])
    np.testing.assert_allclose(out, dense.T @ np.arange(80.0))


def model(l2=0.0, pull=False, seed=2):
    """A model on sixty scaled columns: q.u + 1/2 ||C u||^2 + g(u), of centred columns if `pull`."""
    rng = np.random.default_rng(seed)
    C = sp.csc_array(sp.random(200, 60, 0.2, format="csc", rng=rng, data_rvs=rng.standard_normal)) + sp.csc_array((200, 60))
    stack, roots = as_matrix(C).cols, rng.uniform(0.5, 1.0, 200)
    share = 1.0 / float(roots @ roots) if pull else 0.0
    sums = C.T @ roots if pull else np.zeros(60)
    dense = C.toarray()
    gram = dense.T @ dense - share * np.outer(sums, sums)
    penalty = sd.penalties.ElasticNet(0.3 + l2, 0.3 / (0.3 + l2)) if l2 > 0.0 else sd.penalties.L1(0.3)
    return stack, share, sums, gram, rng.standard_normal(60), penalty


@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize("l2", [0.0, 0.2])
def test_the_model_is_solved_to_its_goal(l2, pull):
    stack, share, sums, gram, q, penalty = model(l2, pull)
    u, t, drift, curvatures = np.zeros(60), np.empty(200), np.zeros(1), gram.diagonal().copy()
    room = (np.zeros(60), (np.empty(60), np.empty(200), np.empty(60), np.empty(200)))
    facts = (penalty, stack, np.arange(60), share, sums, curvatures, q, np.zeros(60), u, t, drift)
    solve_on_columns(*facts, penalty.threshold, penalty.strong_convexity, 1e-10, True, room)
    gradient = q + gram @ u
    distances = [penalty.coordinate_distance(x, -g) for x, g in zip(u, gradient, strict=True)]
    assert max(distances) <= 1e-7
    assert 0 < np.count_nonzero(u) < 60


def test_a_step_on_a_face_keeps_signs_and_lowers_the_model():
    stack, share, sums, gram, q, penalty = model(0.2, True)
    l1, l2 = penalty.threshold, penalty.strong_convexity
    rng = np.random.default_rng(3)
    u = np.where(rng.random(60) < 0.3, rng.standard_normal(60), 0.0)
    before, signs = q @ u + 0.5 * u @ gram @ u + penalty.value(u), np.sign(u)
    dense = np.array([[stack.dot(k, e) for k in range(60)] for e in np.eye(200)])
    t, drift = dense @ u, np.array([sums @ u])
    step_on_face(penalty, stack, 60, share, sums, gram.diagonal().copy(), l1, l2, q, u, t, drift, 1e-12, 200)
    assert q @ u + 0.5 * u @ gram @ u + penalty.value(u) < before
    assert ((np.sign(u) == signs) | (u == 0.0)).all()
    np.testing.assert_allclose(t, dense @ u, atol=1e-12)
    np.testing.assert_allclose(drift[0], sums @ u, atol=1e-12)
