"""Newton's method on few columns in one compiled function: the optimum, whatever the units; paths; and who takes it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.solvers.auto import choose
from saddlery.solvers.small_columns import TILE, add_columns, dots_with_columns, weighted_gram
from saddlery.solvers.small_newton import SmallNewton

L1, L2, NET = sd.penalties.L1(0.02), sd.penalties.L2(0.01), sd.penalties.ElasticNet(0.03, 0.6)
CASES = [("logistic", L1), ("logistic", L2), ("squared_hinge", NET), ("huber", NET)]  # each is compiled anew


def problem_of(loss, penalty, fit_intercept=False, weights=False, units=0.0, shape=(200, 9)):
    rng = np.random.default_rng(0)
    n, d = shape
    X = (rng.standard_normal((n, d)) + 0.2) * 10.0 ** rng.uniform(-units, units, d)
    z = (X[:, :4] / X[:, :4].std(axis=0)) @ rng.standard_normal(4) + 0.5 * rng.standard_normal(n)
    y = np.sign(z) if loss in ("logistic", "squared_hinge") else z
    s = rng.integers(0, 3, n).astype(float) if weights else None
    return sd.LinearProblem(X, y, loss, penalty, sample_weight=s, fit_intercept=fit_intercept)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("loss", "penalty"), CASES, ids=str)
def test_same_optimum_as_working_sets(loss, penalty, fit_intercept, weights):
    problem = problem_of(loss, penalty, fit_intercept, weights)
    small, other = (sd.solve(problem, name, tol=1e-10) for name in ("small_newton", "prox_newton"))
    assert small.status is other.status is sd.Status.CONVERGED
    assert small.certificate.primal == pytest.approx(other.certificate.primal, abs=2e-10 * problem.scale)
    again = sd.certify(problem, small.w, small.dual, small.b)
    assert again.relative_gap <= 1e-10 * (1 + 1e-3)
    assert small.certificate.primal == pytest.approx(again.primal, rel=1e-13)  # the kernel certifies as the problem does
    assert small.certificate.dual <= again.dual + 1e-13 * problem.scale
    assert small.certificate.scale == pytest.approx(problem.scale, rel=1e-13)
    assert 1 <= small.epochs <= 12
    assert [record.epoch for record in small.trace] == [small.epochs]


def test_units_of_columns_do_not_matter():
    problem = problem_of("logistic", sd.penalties.L2(1e-6), units=4.0)
    solution = sd.solve(problem, "small_newton", tol=1e-9)
    assert solution.status is sd.Status.CONVERGED
    assert solution.epochs <= 12  # faces would be refused, and sweeps crawl, if pivots were compared with each other


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("loss", "penalty"), CASES, ids=str)
def test_paths_agree_with_single_fits(loss, penalty, fit_intercept):
    problem = problem_of(loss, penalty, fit_intercept)
    result = sd.path(problem, n_alphas=6, alpha_min_ratio=0.05, solver="small_newton", tol=1e-9)
    assert len(result) == 6
    assert result.solutions[0].epochs == 0 or penalty.threshold == 0.0  # zero is optimal there
    for alpha, solution in zip(result.alphas, result.solutions, strict=True):
        single = problem.with_penalty(penalty.scaled(alpha / penalty.alpha))
        assert sd.certify(single, solution.w, solution.dual, solution.b).relative_gap <= 1e-9 * (1 + 1e-3)
        assert solution.status is sd.Status.CONVERGED


def test_epochs_one_by_one_for_who_asks():
    problem = problem_of("logistic", L1)
    heard: list[int] = []
    told = sd.solve(problem, "small_newton", tol=1e-9, callbacks=[lambda record: heard.append(record.epoch)])
    assert heard == [0, told.epochs]  # the solver knows when a certificate is worth its time
    assert told.status is sd.Status.CONVERGED
    few = sd.solve(problem, "small_newton", tol=1e-9, max_epochs=2)
    assert (few.status, few.epochs) == (sd.Status.MAX_EPOCHS, 2)
    more = sd.solve(problem, "small_newton", tol=1e-9, start=few.state)
    assert more.status is sd.Status.CONVERGED
    assert more.certificate.primal == pytest.approx(told.certificate.primal, abs=1e-9)


def test_sparse_and_float32_data_are_taken_as_they_are():
    problem = problem_of("logistic", L1)
    values = np.where(np.abs(problem.matrix.values) > 0.5, problem.matrix.values, 0.0).astype(np.float32)
    answers = [
        sd.solve(sd.LinearProblem(X, problem.y, "logistic", L1), tol=1e-10)
        for X in (values.astype(np.float64), values, sp.csr_array(values), sp.csc_array(values), np.asfortranarray(values))
    ]
    assert {answer.solver for answer in answers} == {"small_newton"}
    for answer in answers[1:]:
        np.testing.assert_allclose(answer.w, answers[0].w, rtol=1e-5, atol=1e-6)


def test_who_takes_it():
    assert choose(problem_of("logistic", L1)) == "small_newton"
    assert choose(problem_of("logistic", L1, shape=(200, 65))) == "prox_newton"
    assert choose(problem_of("logistic", L1, shape=(40_000, 9))) == "prox_newton"
    with pytest.raises(sd.UnsupportedError, match="at most 64 columns"):
        sd.solve(problem_of("logistic", L1, shape=(20, 65)), "small_newton")


def test_a_separable_problem_and_a_constant_column():
    X = np.column_stack([np.linspace(-1.0, 1.0, 50), np.ones(50), np.zeros(50)])
    problem = sd.LinearProblem(X, np.sign(X[:, 0]), "logistic", sd.penalties.L1(1e-5), fit_intercept=True)
    solution = sd.solve(problem, "small_newton", tol=1e-8)
    assert solution.status is sd.Status.CONVERGED
    assert solution.w[2] == 0.0


@pytest.mark.parametrize("m", [1, 2, 5, 7, 8])
@pytest.mark.parametrize("n", [3, TILE + 1])
def test_kernels_against_numpy(m, n):
    rng, loss = np.random.default_rng(1), sd.losses.Logistic()
    C, h, u = rng.standard_normal((m, n)), rng.random(n), rng.standard_normal(m)
    gram, out, margins = np.empty((m, m)), np.empty(m), np.empty(n)
    weighted_gram(loss, C, h, gram)
    np.testing.assert_allclose(gram, C @ (h[:, None] * C.T), rtol=1e-12, atol=1e-13)
    dots_with_columns(loss, C, h, out)
    np.testing.assert_allclose(out, C @ h, rtol=1e-12, atol=1e-13)
    add_columns(loss, C, u, margins)
    np.testing.assert_allclose(margins, u @ C, rtol=1e-12, atol=1e-13)


def test_epochs_in_one_call_are_steps():
    """And they end at the goal, not after all that were allowed."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((40, 12))
    problem = sd.LinearProblem(X, np.where(X[:, 0] + rng.standard_normal(40) > 0.0, 1.0, -1.0), penalty=sd.penalties.L2(1e-3))
    method = SmallNewton()
    at_once, one_by_one = method.init(problem, None), method.init(problem, None)
    count = method.epochs(problem, at_once, 50, 1e-9 * problem.scale)
    assert 1 < count < 50
    for _ in range(count):
        method.step(problem, one_by_one)
    np.testing.assert_allclose(at_once.u, one_by_one.u, rtol=1e-9, atol=1e-12)
    primal, dual = problem.evaluate(method.point(problem, at_once))
    assert primal - dual.value <= 1e-9 * problem.scale
    assert at_once.tol == one_by_one.tol
