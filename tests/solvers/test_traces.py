"""Every solver on every problem that it accepts: weak duality all the way, the tolerance reached, runs that repeat, data that match."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.registry import SOLVERS
from saddlery.solvers.base import Record

FIELDS = [name for name in Record._fields if name != "seconds"]


def columns(trace, fields=FIELDS):
    return {name: [getattr(record, name) for record in trace] for name in fields}


@pytest.mark.parametrize("matrix", ["dense", "csr"])
def test_weak_duality_at_each_check(case, matrix, problem_of, solved, optimum):
    """dual <= optimum <= primal in every record; values only improve; passes and epochs only grow."""
    problem, solution = problem_of(case, matrix), solved(case, matrix)
    best, slack = optimum(problem), 1e-9 * problem.scale
    trace = solution.trace
    assert len(trace) >= 2
    for record in trace:
        assert record.dual <= best + slack
        assert record.primal >= best - slack
        assert record.gap >= record.primal - best - slack
        assert record.gap == pytest.approx(max(record.primal - record.dual, 0.0), abs=1e-15)
        assert record.relative_gap == pytest.approx(record.gap / problem.scale)
    for name, sign in (("primal", -1), ("dual", 1), ("epoch", 1), ("passes", 1), ("seconds", 1)):
        assert np.all(sign * np.diff(trace.column(name)) >= -1e-12)


@pytest.mark.parametrize("matrix", ["dense", "csr"])
def test_reaches_the_tolerance(case, matrix, problem_of, solved, optimum):
    problem, solution = problem_of(case, matrix), solved(case, matrix)
    assert solution.solver == case.solver
    assert solution.status is sd.Status.CONVERGED
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.certificate.primal == pytest.approx(optimum(problem), abs=3e-9 * problem.scale)
    assert sd.certify(problem, solution.w, solution.dual, solution.b).relative_gap <= 1.1e-9
    last = solution.trace[-1]
    assert (last.primal, last.dual) == (solution.certificate.primal, solution.certificate.dual)
    assert last.epoch == solution.epochs
    assert last.nonzeros == np.count_nonzero(solution.w)


def test_weighted_rows(case, problem_of, optimum):
    """Unequal weights, a row without any, an empty row and an empty column."""
    problem = problem_of(case, "csr", weights=True)
    solution = sd.solve(problem, case.solver, tol=1e-7, max_epochs=3000)
    assert solution.status is sd.Status.CONVERGED
    assert solution.certificate.primal == pytest.approx(optimum(problem), abs=2e-7 * problem.scale)


def test_same_seed_same_trace(case, problem_of):
    """All fields but seconds; and the state, to the last bit."""
    problem = problem_of(case)
    one, two = (sd.solve(problem, case.solver, tol=1e-7, max_epochs=40, random_state=3) for _ in range(2))
    assert columns(one.trace) == columns(two.trace)
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.dual, two.dual)


def test_the_schedule_of_checks_does_not_depend_on_time(case, problem_of):
    """A slow callback changes nothing but the seconds."""
    import time

    problem = problem_of(case)
    plain = sd.solve(problem, case.solver, tol=1e-5, max_epochs=12)
    slow = sd.solve(problem, case.solver, tol=1e-5, max_epochs=12, callbacks=[lambda record: time.sleep(0.002)])
    assert columns(plain.trace) == columns(slow.trace)


def test_dense_equals_sparse(case, problem_of, solved):
    """The same certified optimum; and, epoch by epoch, the same values at the start, where only rounding differs."""
    dense, sparse = (sd.solve(problem_of(case, matrix), case.solver, tol=0.0, max_epochs=3) for matrix in ("dense", "csr"))
    for name in ("primal", "dual"):
        np.testing.assert_allclose(dense.trace[1]._asdict()[name], sparse.trace[1]._asdict()[name], rtol=1e-9)
    one, two = (solved(case, matrix).certificate for matrix in ("dense", "csr"))
    assert one.primal == pytest.approx(two.primal, abs=2e-9 * one.scale)


@pytest.mark.parametrize("matrix", ["fortran", "csc"])
def test_order_of_storage_does_not_matter(case, matrix, problem_of):
    """F order equals C order and CSC equals CSR, to rounding."""
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
    np.testing.assert_array_equal(one.w, two.w)
    assert one.b == two.b
    assert (one.dual is None) == (two.dual is None)
    if one.dual is not None:
        np.testing.assert_array_equal(one.dual, two.dual)
    assert first.epochs == cut  # resuming leaves the old solution as it was
    assert whole.state.accesses == second.state.accesses


def test_the_state_of_a_solution_can_be_stored(case, problem_of):
    """Plain arrays: pickled in one process, resumed in another."""
    import pickle

    problem = problem_of(case)
    first = sd.solve(problem, case.solver, tol=0.0, max_epochs=2)
    stored = pickle.loads(pickle.dumps(first.state))
    one, two = (sd.solve(problem, case.solver, tol=0.0, max_epochs=2, start=state) for state in (first.state, stored))
    np.testing.assert_array_equal(one.w, two.w)


def test_warm_start_at_the_optimum_stops_at_once(case, problem_of, solved):
    problem, solution = problem_of(case), solved(case)
    again = sd.solve(problem, case.solver, tol=1e-7, start=solution)
    assert again.status is sd.Status.CONVERGED
    assert again.epochs <= 1
    as_tuple = sd.solve(problem, case.solver, tol=1e-7, start=(solution.w, solution.b, solution.dual))
    assert as_tuple.epochs <= 1


def test_warm_start_leaves_the_start_alone(case, problem_of):
    problem = problem_of(case)
    first = sd.solve(problem, case.solver, tol=0.0, max_epochs=2)
    w, dual = first.w.copy(), first.dual.copy()
    sd.solve(problem, case.solver, tol=0.0, max_epochs=3, start=first)
    np.testing.assert_array_equal(first.w, w)
    np.testing.assert_array_equal(first.dual, dual)


def test_warm_start_from_weights_alone(case, problem_of, solved):
    problem, solution = problem_of(case), solved(case)
    again = sd.solve(problem, case.solver, tol=1e-6, max_epochs=3000, start=(solution.w, solution.b))
    assert again.status is sd.Status.CONVERGED


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
            np.testing.assert_allclose(point.Xta, X.T @ (problem.s * point.dual), atol=1e-11)
        if not case.intercept:
            assert point.b == 0.0
        before = state.accesses
        method.step(problem, state)
        assert state.accesses > before or state.stalled or not np.any(point.w)
    method.resync(problem, state)
    assert sd.certify(problem, method.point(problem, state).w, None, method.point(problem, state).b).gap >= 0.0


def test_points_are_not_changed_by_later_steps(case, problem_of):
    """The loop keeps what a solver hands out: it copies, so that the best point stays what it was."""
    problem, kept = problem_of(case), []
    sd.solve(problem, case.solver, tol=0.0, max_epochs=4, callbacks=[lambda record: kept.append(record) and False])
    solution = sd.solve(problem, case.solver, tol=0.0, max_epochs=4)
    assert problem.primal(solution.w, solution.b) == pytest.approx(kept[-1].primal, rel=1e-12)
    assert problem.dual(solution.dual) == pytest.approx(kept[-1].dual, rel=1e-9, abs=1e-12)
