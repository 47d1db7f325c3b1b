"""Dual ascent on small data in one compiled function: the optimum and its proof, seeds, and how the loop goes on from it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.solvers import small_ascent
from saddlery.solvers.balance import mark_free
from saddlery.solvers.small_ascent import choose_rows, is_small_ascent, look_at_all

CASES = [("sdca", "logistic"), ("sdca", "squared_hinge"), ("active_sdca", "hinge"), ("active_sdca", "squared_hinge")]


def problem_of(loss, alpha=0.01, weights=False, fit_intercept=False, dense=False, shape=(150, 400)):
    rng = np.random.default_rng(0)
    n, d = shape
    X = sp.random_array((n, d), density=0.05, format="csr", rng=rng)
    X.data[:] = rng.standard_normal(X.nnz)
    X.data[X.indptr[3] : X.indptr[4]] = 0.0
    X.eliminate_zeros()  # row 3 is empty
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    s = rng.integers(0, 3, n).astype(float) if weights else None
    X = X.toarray() if dense else X
    return sd.LinearProblem(X, y, loss, sd.penalties.L2(alpha), sample_weight=s, fit_intercept=fit_intercept)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(("solver", "loss"), CASES)
def test_certified_optimum(solver, loss, weights):
    """The certificate of the kernel is that of the problem, and what epochs one by one arrive at."""
    problem = problem_of(loss, weights=weights)
    at_once = sd.solve(problem, solver, tol=1e-7)
    heard = []
    one_by_one = sd.solve(problem, solver, tol=1e-7, callbacks=[heard.append])
    assert at_once.status is one_by_one.status is sd.Status.CONVERGED
    assert len(at_once.trace) == 1 < len(heard)
    assert at_once.certificate.primal == pytest.approx(one_by_one.certificate.primal, abs=2e-7 * problem.scale)
    again = sd.certify(problem, at_once.w, at_once.dual)
    assert again.relative_gap <= 1e-7 * (1 + 1e-6)
    assert at_once.certificate.primal == pytest.approx(again.primal, rel=1e-13)
    assert at_once.certificate.dual == pytest.approx(again.dual, rel=1e-13)
    assert at_once.epochs > 1
    assert at_once.passes >= 2.0


def test_sparse_and_dense_rows_agree():
    sparse, dense = (sd.solve(problem_of("logistic", dense=dense), "sdca", tol=1e-8) for dense in (False, True))
    assert sparse.epochs == dense.epochs  # the same draws
    assert sparse.w == pytest.approx(dense.w, abs=1e-10)


def test_seeds_are_heard():
    problem = problem_of("logistic")
    one, same, other = (sd.solve(problem, "sdca", tol=1e-4, random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.w, same.w)
    assert not np.array_equal(one.w, other.w)


def test_goes_on_from_where_it_ended():
    """What epochs do not reach in one go is left to the loop, which has the point, its gap and what it has cost."""
    problem = problem_of("hinge", alpha=1e-5, shape=(600, 60))
    solution = sd.solve(problem, "active_sdca", tol=1e-9)
    assert solution.status is sd.Status.CONVERGED
    assert len(solution.trace) > 1
    point = small_ascent.ascend_at_once(problem, 0.0, np.random.default_rng(0), True, lambda problem, end, rng: State(end))
    assert point.values[0, 0] - point.values[0, 1] == pytest.approx(point.state.end.gap, rel=1e-6, abs=1e-12)
    assert point.state.accesses > 0.0


class State:
    accesses = 0.0

    def __init__(self, end):
        self.end = end


def test_gaps_of_rows_sum_up_to_the_gap():
    """Fenchel equality holds in the penalty: w is the map of v."""
    problem = problem_of("logistic", weights=True)
    n, rng = problem.n, np.random.default_rng(1)
    a = -problem.y * rng.uniform(0.1, 0.9, n)
    v, w, z, gaps = np.empty(problem.d), np.empty(problem.d), np.empty(n), np.empty(n)
    gap = look_at_all(problem.loss, problem.penalty, problem.matrix.rows, problem.y, problem.s, a, v, w, z, gaps)
    assert v == pytest.approx(-problem.gradient(a))
    assert z == pytest.approx(problem.margins(w))
    assert gap == pytest.approx(problem.primal(w) - problem.dual(a))
    assert gap == pytest.approx(problem.s @ gaps)
    assert (gaps[problem.s == 0.0] == 0.0).all()


def test_chosen_rows_carry_the_gap_or_are_free():
    y, loss = np.ones(6), sd.losses.Hinge()
    a, gaps, order = -np.array([0.0, 0.5, 1.0, 0.0, 1.0, 0.2]), np.array([0.0, 0.0, 2.0, 3.0, 0.1, 5.0]), np.arange(6)
    free = np.zeros(6, dtype=bool)
    mark_free(loss, y, a, free)
    count = choose_rows(loss, y, a, gaps, 1.0, order)
    assert sorted(order[:count].tolist()) == np.flatnonzero(free | (gaps > 1.0)).tolist() == [1, 2, 3, 5]
    assert sorted(order.tolist()) == list(range(6))


def test_who_may():
    assert is_small_ascent(problem_of("hinge"))
    assert not is_small_ascent(problem_of("hinge", fit_intercept=True))
    assert not is_small_ascent(problem_of("hinge").with_penalty(sd.penalties.ElasticNet(0.1, 0.5)))
    method = sd.solvers.auto.resolve(problem_of("hinge"), "active_sdca")
    assert method.has_points(problem_of("hinge"), 1)
    assert not method.has_points(problem_of("hinge"), 2)
    assert not type(method)(share=0.5).has_points(problem_of("hinge"), 1)  # an option that the kernel does not know
