"""Compiled rounds on small data: the same optimum as the rounds of prox_newton.py, and paths without the loop in between."""

from __future__ import annotations

import numpy as np
import pytest

import saddlery as sd
from saddlery.solvers import small_rounds
from saddlery.solvers.prox_newton import ProxNewton
from saddlery.solvers.small_rounds import choose, is_small, products_of_rows

L1, NET = sd.penalties.L1(0.02), sd.penalties.ElasticNet(0.03, 0.6)
OBJECTIVES = [("logistic", L1), ("squared", L1), ("squared_hinge", NET), ("huber", NET)]  # each is compiled anew
WIDE, TALL, SQUARE = (45, 1300), (700, 30), (300, 90)
CASES = [
    *[(WIDE, loss, penalty) for loss, penalty in OBJECTIVES],
    (TALL, "logistic", L1),
    (TALL, "logistic", sd.penalties.L2(0.01)),
    (SQUARE, "huber", NET),
]
NAMES = [f"{n}x{d}-{loss}-{type(penalty).__name__}" for (n, d), loss, penalty in CASES]


def problem_of(shape, loss, penalty, fit_intercept=False, weights=False):
    rng = np.random.default_rng(0)
    n, d = shape
    X = rng.standard_normal((n, d)) * rng.uniform(0.3, 1.5, d) + 0.2
    z = X[:, :6] @ rng.standard_normal(6) + 0.5 * rng.standard_normal(n)
    y = np.sign(z) if loss in ("logistic", "squared_hinge") else z
    s = rng.integers(0, 3, n).astype(float) if weights else None
    return sd.LinearProblem(X, y, loss, penalty, sample_weight=s, fit_intercept=fit_intercept)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("shape", "loss", "penalty"), CASES, ids=NAMES)
def test_same_optimum_as_the_rounds_in_python(shape, loss, penalty, fit_intercept, weights, monkeypatch):
    problem = problem_of(shape, loss, penalty, fit_intercept, weights)
    assert is_small(problem)
    compiled = sd.solve(problem, "prox_newton", tol=1e-9)
    monkeypatch.setattr(small_rounds, "LEAST", 10**9)
    assert not is_small(problem)
    plain = sd.solve(problem, "prox_newton", tol=1e-9)
    for solution in (compiled, plain):
        assert solution.status is sd.Status.CONVERGED
        again = sd.certify(problem, solution.w, solution.dual, solution.b)
        assert again.relative_gap <= 1e-9 * (1 + 1e-3)
    assert abs(compiled.certificate.primal - plain.certificate.primal) <= 1e-9 * problem.scale
    assert compiled.epochs < plain.epochs  # one epoch of the loop holds several rounds


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("shape", "loss", "penalty"), CASES, ids=NAMES)
def test_paths_agree_with_single_fits(shape, loss, penalty, fit_intercept):
    problem = problem_of(shape, loss, penalty, fit_intercept)
    result = sd.path(problem, n_alphas=8, alpha_min_ratio=0.05, solver="prox_newton", tol=1e-8)
    assert len(result) == 8
    for alpha, solution in zip(result.alphas, result.solutions, strict=True):
        single = problem.with_penalty(penalty.scaled(alpha / penalty.alpha))
        assert solution.status is sd.Status.CONVERGED
        again = sd.certify(single, solution.w, solution.dual, solution.b)
        assert again.relative_gap <= 1e-8 * (1 + 1e-3)
        assert again.gap == pytest.approx(solution.certificate.gap, abs=1e-13 * problem.scale)
        other = sd.solve(single, "prox_newton", tol=1e-8)
        assert abs(other.certificate.primal - solution.certificate.primal) <= 1e-8 * problem.scale
        assert solution.passes > 0.0


def test_a_path_goes_on_by_the_loop_where_the_rounds_end(monkeypatch):
    """What is not certified in one go is left to the loop, from there on."""
    problem = problem_of(WIDE, "logistic", L1)
    whole = sd.path(problem, n_alphas=6, alpha_min_ratio=0.02, solver="prox_newton", tol=1e-8)
    rounds, calls = ProxNewton._compact_rounds, []

    def tired(self, problem, state):
        calls.append(problem.penalty.alpha)
        if len(calls) != 3:
            rounds(self, problem, state)
        else:
            state.compact = False

    monkeypatch.setattr(ProxNewton, "_compact_rounds", tired)
    result = sd.path(problem, n_alphas=6, alpha_min_ratio=0.02, solver="prox_newton", tol=1e-8)
    assert len(calls) == 3
    assert len(result) == 6
    assert all(status is sd.Status.CONVERGED for status in result.statuses)
    for a, b in zip(whole.certificates, result.certificates, strict=True):
        assert abs(a.primal - b.primal) <= 1e-8 * problem.scale


def test_callbacks_see_every_strength():
    problem = problem_of(WIDE, "logistic", L1)
    seen = []
    sd.path(problem, n_alphas=4, solver="prox_newton", callbacks=[lambda record: seen.append(record.relative_gap)])
    assert len(seen) >= 4


def test_products_of_rows():
    rng = np.random.default_rng(1)
    for n in (1, 3, 4, 7, 8):
        rows, r, out = rng.standard_normal((n, 30)), rng.standard_normal(n), np.full(30, np.nan)
        products_of_rows(sd.losses.Logistic(), rows, r, out)
        np.testing.assert_allclose(out, rows.T @ r, atol=1e-13)


def test_choice_keeps_weights_and_takes_the_worst_violators():
    rng = np.random.default_rng(2)
    w, Xta, W = np.zeros(500), rng.standard_normal(500), np.empty(500, np.int64)
    w[[3, 77]] = 1.0
    count = choose(sd.losses.Logistic(), w, Xta, 0.5, 1.0, 40, 40, W)
    chosen = W[:count]
    assert {3, 77} <= set(chosen)
    assert count < np.count_nonzero(np.abs(Xta) > 0.5)
    others, left = np.setdiff1d(chosen, [3, 77]), np.setdiff1d(np.arange(500), chosen)
    assert np.abs(Xta[others]).min() >= np.abs(Xta[left]).max()
    assert choose(sd.losses.Logistic(), np.zeros(500), Xta, 1e9, 1.0, 40, 40, W) == 1
    assert W[0] == np.argmax(np.abs(Xta))
