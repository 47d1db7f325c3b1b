"""Every solver on every problem that it accepts: weak duality all the way, the tolerance reached, runs that repeat."""

import pickle
import time

import numpy as np
import pytest

import saddlery as sd
from saddlery.registry import SOLVERS
from saddlery.solvers.base import Record

TOL = 1e-8
GREEDY = ("dgpd",)  # one row and one column at a time: where two are equally good, rounding decides
SINGLE = ("lbfgs", "newton_cg")  # their products are rounded to single precision, and the certificates are not
FIELDS = [name for name in Record._fields if name != "seconds"]


def columns(trace, fields=FIELDS):
    return {name: [getattr(record, name) for record in trace] for name in fields}


def check_weak_duality(problem, trace, best):
    """dual <= optimum <= primal in every record; values only improve; epochs, passes and seconds only grow."""
    slack = 1e-9 * problem.scale  # of the conic solver
    for record in trace:
        assert record.dual <= best + slack
        assert record.primal >= best - slack
        assert record.gap >= record.primal - best - slack
        assert record.gap == pytest.approx(max(record.primal - record.dual, 0.0), abs=1e-15)
        assert record.relative_gap == pytest.approx(record.gap / problem.scale)
    for name, sign in (("primal", -1), ("dual", 1), ("epoch", 1), ("passes", 1), ("seconds", 1)):
        assert np.all(sign * np.diff(trace.column(name)) >= -1e-12)


def check_tolerance(problem, solution, best):
    """Certified, near the conic optimum, and provable from the parts of the solution alone."""
    assert solution.status is sd.Status.CONVERGED
    assert solution.certificate.relative_gap <= TOL
    assert solution.certificate.primal == pytest.approx(best, abs=1.2 * TOL * problem.scale)
    assert sd.certify(problem, solution.w, solution.dual, solution.b).relative_gap <= 1.1 * TOL
    last = solution.trace[-1]
    assert (last.primal, last.dual) == (solution.certificate.primal, solution.certificate.dual)
    assert last.epoch == solution.epochs
    assert last.nonzeros == np.count_nonzero(solution.w)


def test_certified_run(case, problem_of, optimum):
    """Dense and sparse: weak duality at each check, the tolerance reached, the same steps while only rounding differs."""
    runs = []
    for matrix in ("dense", "csr"):
        problem = problem_of(case, matrix)
        solution = sd.solve(problem, case.solver, tol=TOL, max_epochs=3000)
        assert solution.solver == case.solver
        check_weak_duality(problem, solution.trace, optimum(problem_of(case)))
        check_tolerance(problem, solution, optimum(problem_of(case)))
        runs.append(solution)
    if case.solver not in GREEDY + SINGLE:
        for name in ("primal", "dual"):
            np.testing.assert_allclose(runs[0].trace.column(name)[:2], runs[1].trace.column(name)[:2], rtol=1e-9, atol=1e-12)


def test_weighted_rows(case, problem_of, optimum):
    """Unequal weights, a row without any, an empty row and an empty column."""
    problem = problem_of(case, "csr", weights=True)
    solution = sd.solve(problem, case.solver, tol=1e-7, max_epochs=3000)
    assert solution.status is sd.Status.CONVERGED
    assert solution.certificate.primal == pytest.approx(optimum(problem), abs=2e-7 * problem.scale)


def test_same_seed_same_trace(case, problem_of):
    """All fields but seconds, to the last bit; the schedule of checks counts work, so slow callbacks change nothing."""
    problem, delays = problem_of(case), iter([0.002, 0.0])
    one, two = (
        sd.solve(problem, case.solver, tol=1e-7, max_epochs=12, random_state=3, callbacks=[lambda record, t=t: time.sleep(t)])
        for t in delays
    )
    assert columns(one.trace) == columns(two.trace)
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.dual, two.dual)


@pytest.mark.parametrize("matrix", ["fortran", "csc"])
def test_order_of_storage_does_not_matter(case, matrix, problem_of):
    """F order equals C order and CSC equals CSR, to rounding."""
    if case.solver in GREEDY:
        pytest.skip("rounding decides between equally good coordinates")
    other = {"fortran": "dense", "csc": "csr"}[matrix]
    one, two = (sd.solve(problem_of(case, kind), case.solver, tol=0.0, max_epochs=2).certificate for kind in (matrix, other))
    assert one.primal == pytest.approx(two.primal, rel=1e-9)
    assert one.dual == pytest.approx(two.dual, rel=1e-9)


@pytest.mark.parametrize("cut", [1, 3])
def test_resumed_equals_uninterrupted(case, cut, problem_of):
    """A run of 6 epochs, and one that was cut and resumed from its state, end at the same pair of points."""
    problem, method = problem_of(case), SOLVERS.get(case.solver)()
    whole = sd.solve(problem, case.solver, tol=0.0, max_epochs=6)
    first = sd.solve(problem, case.solver, tol=0.0, max_epochs=cut)
    second = sd.solve(problem, case.solver, tol=0.0, max_epochs=6 - cut, start=first.state)
    one, two = method.point(problem, whole.state), method.point(problem, second.state)
    rounding = (
        {"rtol": 1e-10, "atol": 1e-12} if case.solver == "small_newton" else {"rtol": 0.0}
    )  # near the end its faces amplify it
    np.testing.assert_allclose(one.w, two.w, **rounding)
    np.testing.assert_allclose(one.b, two.b, **rounding)
    assert (one.dual is None) == (two.dual is None)
    if one.dual is not None:
        np.testing.assert_allclose(one.dual, two.dual, **rounding)
    assert first.epochs == min(cut, whole.epochs)  # resuming leaves the old solution as it was
    if case.solver != "small_newton" or first.epochs + second.epochs == whole.epochs:  # a gap of 0, to rounding, ends it at once
        assert whole.state.accesses == second.state.accesses


def test_the_state_of_a_solution_can_be_stored(case, problem_of):
    """Plain arrays: pickled in one process, resumed in another."""
    problem = problem_of(case)
    first = sd.solve(problem, case.solver, tol=0.0, max_epochs=2)
    stored = pickle.loads(pickle.dumps(first.state))
    one, two = (sd.solve(problem, case.solver, tol=0.0, max_epochs=2, start=state) for state in (first.state, stored))
    np.testing.assert_array_equal(one.w, two.w)


def test_warm_starts(case, problem_of):
    """At the optimum a run stops at once; from weights alone it converges; what was given stays as it was."""
    problem = problem_of(case)
    solution = sd.solve(problem, case.solver, tol=1e-7, max_epochs=3000)
    w, dual = solution.w.copy(), solution.dual.copy()
    for start in (solution, (solution.w, solution.b, solution.dual)):
        again = sd.solve(problem, case.solver, tol=2e-7, start=start)
        assert again.status is sd.Status.CONVERGED
        assert again.epochs <= 1
    assert sd.solve(problem, case.solver, tol=1e-6, max_epochs=3000, start=(w, solution.b)).status is sd.Status.CONVERGED
    sd.solve(problem, case.solver, tol=0.0, max_epochs=2, start=solution)
    np.testing.assert_array_equal(solution.w, w)
    np.testing.assert_array_equal(solution.dual, dual)


def test_products_are_consistent(case, problem_of):
    """After any number of steps, X w and X'(s a) that the solver hands out are those of its points."""
    problem, method = problem_of(case), SOLVERS.get(case.solver)()
    X = problem.matrix.values
    state = method.init(problem, None, np.random.default_rng(0))
    for _ in range(12):
        point = method.point(problem, state)
        assert point.w.shape == (problem.d,)
        if point.Xw is not None:
            np.testing.assert_allclose(point.Xw, X @ point.w, atol=1e-11)
        if point.dual is not None and point.Xta is not None:
            true = X.T @ (problem.s * point.dual)
            bounds = (np.abs(true) <= np.abs(point.Xta) + 1e-11) & (np.abs(point.Xta) <= problem.penalty.threshold)
            np.testing.assert_allclose(np.where(bounds, true, point.Xta), true, atol=1e-11)  # below the threshold bounds are enough
        if not case.intercept:
            assert point.b == 0.0
        before = state.accesses
        method.step(problem, state)
        assert state.accesses > before or state.stalled or not np.any(point.w)
    method.resync(problem, state)
    assert sd.certify(problem, method.point(problem, state).w, None, method.point(problem, state).b).gap >= 0.0


def test_the_best_points_are_kept(case, problem_of):
    """The loop copies what a solver hands out, so the points returned have the values that were recorded."""
    problem = problem_of(case)
    solution = sd.solve(problem, case.solver, tol=0.0, max_epochs=4)
    last = solution.trace[-1]
    assert problem.primal(solution.w, solution.b) == pytest.approx(last.primal, rel=1e-12)
    assert problem.dual(solution.dual) >= last.dual - 1e-12 * (1 + abs(last.dual))  # repaired afresh, it may have gained
