"""Solvers of the CUR problem: the optimum of a conic solver, certificates on the way, special data, starts and resumption."""

import itertools

import numpy as np
import pytest

import saddlery as sd
from saddlery.errors import InputError
from saddlery.solvers.atom_weights import best_weights
from saddlery.solvers.cur_corrective import CURCorrective

SOLVERS = ["cur_hybrid", "cur_splitting", "cur_corrective"]


def data(n=12, d=9, seed=0, rank=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + 0.3 * rng.standard_normal((n, d))


def conic(M, radius):
    """The optimal value by CVXPY and Clarabel."""
    import cvxpy as cp

    W = cp.Variable(M.shape[::-1])
    budgets = [cp.sum(cp.max(cp.abs(W), axis=axis)) <= radius for axis in (0, 1)]
    model = cp.Problem(cp.Minimize(cp.sum_squares(M @ W @ M - M) / (2 * M.size)), budgets)
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert model.status == "optimal"
    return float(model.value)


@pytest.mark.parametrize(("units", "seed"), [(0.5, 0), (2.0, 1), (10.0, 2)])
def test_optimum_of_a_conic_solver(units, seed):
    M = data(seed=seed)
    radius = units * sd.CURProblem(M, 1.0).unit
    problem = sd.CURProblem(M, radius)
    optimum = conic(M, radius)
    for solver in SOLVERS:
        solution = sd.solve(problem, solver, tol=1e-4 if solver == "cur_corrective" and units > 5 else 1e-7)
        assert solution.status is sd.Status.CONVERGED
        gap = solution.certificate.gap + 1e-8 * problem.scale
        assert optimum - 1e-8 * problem.scale <= solution.certificate.primal <= optimum + gap
        assert solution.certificate.dual <= optimum + 1e-8 * problem.scale


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_bar_of_30_by_20(solver):
    """All solvers prove 1e-6 of the scale for themselves; the conic solver's word is in benchmarks/cur.py."""
    M = data(30, 20, seed=3, rank=4)
    problem = sd.CURProblem(M, 1.0)
    problem = problem.with_radius(2.0 * problem.unit)
    solution = sd.solve(problem, solver, tol=1e-6)
    assert solution.status is sd.Status.CONVERGED
    assert sd.certify(problem, solution.w, solution.dual).relative_gap <= 1e-6
    assert problem.penalty.value(solution.w) == 0.0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("units", [0.2, 1.0, 4.0])
def test_weak_duality_at_every_check(solver, units):
    M = data(15, 10, seed=4)
    problem = sd.CURProblem(M, 1.0)
    problem = problem.with_radius(units * problem.unit)
    solution = sd.solve(problem, solver, tol=1e-5, max_epochs=60)
    assert all(record.gap >= 0.0 for record in solution.trace)
    dual, primal = solution.trace.column("dual"), solution.trace.column("primal")
    assert dual.max() <= primal.min() + 1e-12
    assert (np.diff(primal) <= 1e-15).all(), "the best point is kept"
    assert solution.certificate.relative_gap <= 1e-4


def test_counts_are_in_the_trace():
    problem = sd.CURProblem(data(), 0.05)
    trace = sd.solve(problem, "cur_corrective", tol=1e-6).trace
    assert [record.counts["oracle_calls"] for record in trace] == [record.epoch + 1 for record in trace]
    assert all(record.counts["atoms"] <= record.epoch for record in trace)
    trace = sd.solve(problem, "cur_splitting", tol=1e-6).trace
    assert [record.counts["iterations"] for record in trace] == [10 * record.epoch for record in trace]


def test_hybrid_changes_when_atoms_help_little():
    """A small radius needs a few atoms and nothing else; a larger one is left to splitting, which starts where the atoms ended."""
    problem = sd.CURProblem(data(20, 15), 1.0)
    few = sd.solve(problem.with_radius(0.5 * problem.unit), "cur_hybrid", tol=1e-6).trace
    assert few[-1].counts["iterations"] == 0
    assert few[-1].counts["oracle_calls"] == few[-1].epoch + 1
    many = sd.solve(problem.with_radius(20.0 * problem.unit), "cur_hybrid", tol=1e-6).trace
    counts = many[-1].counts
    assert counts["iterations"] > 0
    assert counts["oracle_calls"] % 5 == 1
    assert counts["oracle_calls"] - 1 + counts["iterations"] / 10 == many[-1].epoch
    assert (np.diff(many.column("passes")) > 0.0).all()


def test_oracle_calls_of_the_corrective_solver():
    """About as many as a fully corrective method should need; plain line search needs more."""
    M = data(30, 20, seed=0, rank=4)
    problem = sd.CURProblem(M, 1.0)
    problem = problem.with_radius(1.5 * problem.unit)
    calls = {
        rule: sd.solve(problem, CURCorrective(step_rule=rule), tol=1e-4, max_epochs=400).trace[-1].counts["oracle_calls"]
        for rule in ("corrective", "line_search")
    }
    assert calls["corrective"] <= 40
    assert calls["corrective"] < calls["line_search"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_radius_without_effect(solver):
    """If the pseudo-inverse is inside, M W M = M is possible."""
    M = data(6, 4, seed=5)
    solution = sd.solve(sd.CURProblem(M, 100.0), solver, tol=1e-8, max_epochs=3000)
    assert solution.status is sd.Status.CONVERGED
    assert np.abs(M @ solution.w @ M - M).max() < 1e-2


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "M",
    [np.zeros((3, 4)), np.ones((4, 3)), np.array([[2.0]]), data(1, 6), data(6, 1), np.diag([3.0, 1.0, 0.0]), np.eye(4)],
    ids=["zero", "ones", "one entry", "one row", "one column", "diagonal", "identity"],
)
def test_special_data(solver, M):
    problem = sd.CURProblem(M, 0.4)
    solution = sd.solve(problem, solver, tol=1e-6, max_epochs=2000)
    assert solution.status is sd.Status.CONVERGED
    assert problem.penalty.value(solution.w) == 0.0
    assert solution.w.shape == M.shape[::-1]


def test_identity_by_hand():
    """M = I: the loss is ||W - I||^2 / (2 n^2), and the nearest W of trace at most r is r/n I."""
    solution = sd.solve(sd.CURProblem(np.eye(5), 2.0), tol=1e-10)
    np.testing.assert_allclose(solution.w, 0.4 * np.eye(5), atol=1e-4)
    assert solution.certificate.primal == pytest.approx(5 * 0.6**2 / 50, rel=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_units_do_not_matter(solver):
    """c M with radius / c is the same problem: the same epochs, weights divided by c."""
    M = data(seed=6)
    one, two = (sd.solve(sd.CURProblem(c * M, 0.1 / c), solver, tol=1e-5) for c in (1.0, 1024.0))
    assert one.epochs == two.epochs
    np.testing.assert_allclose(1024.0 * two.w, one.w, atol=1e-12)
    assert one.certificate.relative_gap == pytest.approx(two.certificate.relative_gap, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_transposed_data_have_transposed_weights(solver):
    M = data(seed=7)
    one, two = (sd.solve(sd.CURProblem(A, 0.05), solver, tol=1e-6).certificate for A in (M, M.T))
    assert one.primal == pytest.approx(two.primal, abs=2e-6 * one.scale)


@pytest.mark.parametrize("solver", SOLVERS)
def test_resuming_is_going_on(solver):
    problem = sd.CURProblem(data(seed=8), 0.2)
    whole = sd.solve(problem, solver, tol=0.0, max_epochs=12)
    half = sd.solve(problem, solver, tol=0.0, max_epochs=5)
    rest = sd.solve(problem, solver, tol=0.0, max_epochs=7, start=half.state)
    np.testing.assert_array_equal(whole.state.best.w, rest.state.best.w)
    again = sd.solve(problem, solver, tol=0.0, max_epochs=12)
    np.testing.assert_array_equal(whole.w, again.w)


@pytest.mark.parametrize("solver", SOLVERS)
def test_starts(solver):
    problem = sd.CURProblem(data(seed=9), 0.2)
    first = sd.solve(problem, solver, tol=1e-3)
    warm = sd.solve(problem, solver, tol=1e-3, start=first)
    assert warm.trace[0].primal == pytest.approx(first.certificate.primal, rel=1e-9)
    assert warm.epochs <= first.epochs
    outside = sd.solve(problem, solver, tol=1e-3, start=(100.0 * first.w, 0.0, None))  # not in the set: moved into it
    assert outside.status is sd.Status.CONVERGED
    assert np.isfinite(outside.trace[0].primal)
    with pytest.raises(InputError, match="W does not fit"):
        sd.solve(problem, solver, start=(np.zeros(3), 0.0, None))


def test_impossible_tolerance_ends():
    solution = sd.solve(sd.CURProblem(data(6, 5, seed=10), 0.03), "cur_corrective", tol=0.0, max_epochs=2000)
    assert solution.epochs < 2000
    assert solution.certificate.relative_gap < 1e-12


def test_unknown_step_rule():
    with pytest.raises(InputError, match="'corrective' or 'line_search'"):
        sd.solve(sd.CURProblem(np.eye(2), 1.0), CURCorrective(step_rule="open"))


def enumerated(gram, linear):
    """The best weights by all supports, with and without the sum constraint."""
    k, best = len(linear), 0.0
    for size in range(1, k + 1):
        for support in map(list, itertools.combinations(range(k), size)):
            H, g = gram[np.ix_(support, support)], linear[support]
            system = np.block([[H, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            for x in (np.linalg.lstsq(H, g, rcond=None)[0], np.linalg.lstsq(system, np.append(g, 1.0), rcond=None)[0][:size]):
                if (x >= -1e-12).all() and x.sum() <= 1.0 + 1e-12:
                    best = min(best, x @ H @ x / 2 - g @ x)
    return best


@pytest.mark.parametrize("rank", [5, 2])
def test_best_weights_against_enumeration(rank):
    rng = np.random.default_rng(0)
    for _ in range(60):
        B = rng.standard_normal((rank, 5))
        gram, linear = B.T @ B, B.T @ (rng.standard_normal(rank) * 2)
        start = rng.dirichlet(np.ones(6))[:5] * (rng.random(5) < 0.5)
        x = best_weights(gram, linear, start)
        assert (x >= 0.0).all()
        assert x.sum() <= 1.0 + 1e-12
        assert x @ gram @ x / 2 - linear @ x == pytest.approx(enumerated(gram, linear), abs=1e-9)
