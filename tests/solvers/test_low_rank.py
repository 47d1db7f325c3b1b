"""The solver of matrix completion: the optimum, its certificate, extremes of the radius, traces."""

import cvxpy as cp
import numpy as np
import pytest

import saddlery as sd
from saddlery.errors import UnsupportedError
from saddlery.solvers.low_rank import LowRankCorrective


def observed(n=12, d=9, rank=2, share=0.6, seed=0, noise=0.3, signs=False):
    """Entries of a noisy low-rank matrix; row 3 and column 2 have none."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))
    seen = rng.random((n, d)) < share
    seen[3], seen[:, 2] = False, False
    rows, cols = np.nonzero(seen)
    values = M[rows, cols]
    return rows, cols, np.where(values > 0, 1.0, -1.0) if signs else values, (n, d)


def conic_optimum(problem):
    """The optimal value, from CVXPY and Clarabel."""
    W = cp.Variable(problem.shape)
    z, y, s = W[problem.rows, problem.cols], problem.y, problem.s
    terms = {
        "Squared": lambda: cp.square(z - y) / 2,
        "Huber": lambda: cp.huber(z - y, 1.0) / 2,
        "Logistic": lambda: cp.logistic(-cp.multiply(y, z)),
        "SquaredHinge": lambda: cp.square(cp.pos(1 - cp.multiply(y, z))) / 2,
    }[type(problem.loss).__name__]()
    model = cp.Problem(cp.Minimize(s @ terms), [cp.normNuc(W) <= problem.radius])
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(model.value)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "squared_hinge"])
@pytest.mark.parametrize("radius", [0.5, 4.0, 12.0])
def test_optimum_against_a_conic_solver(loss, radius):
    rows, cols, y, shape = observed(signs=loss in ("logistic", "squared_hinge"))
    s = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    problem = sd.CompletionProblem(rows, cols, y, shape, radius, loss, s)
    solution = sd.solve(problem, tol=1e-7)
    assert solution.status is sd.Status.CONVERGED
    assert solution.solver == "low_rank"
    value = conic_optimum(problem)
    assert solution.certificate.primal == pytest.approx(value, abs=3e-7)
    assert solution.certificate.dual <= value + 3e-8
    again = sd.certify(problem, solution.w, solution.dual)
    assert again.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert again.dual == pytest.approx(solution.certificate.dual, rel=1e-9)


@pytest.mark.parametrize(("radius", "tol"), [(1e-3, 1e-8), (30.0, 1e-5), (80.0, 1e-5), (150.0, 1e-5)])
def test_a_larger_problem(radius, tol):
    """Krylov spaces instead of whole decompositions, few and many singular values; factors orthonormal, all within the ball."""
    rows, cols, y, shape = observed(240, 190, 3, 0.2)
    problem = sd.CompletionProblem(rows, cols, y, shape, radius)
    solution = sd.solve(problem, tol=tol)
    W = solution.w
    assert solution.status is sd.Status.CONVERGED
    np.testing.assert_allclose(W.U.T @ W.U, np.eye(W.rank), atol=1e-12)
    np.testing.assert_allclose(W.V.T @ W.V, np.eye(W.rank), atol=1e-12)
    assert (np.diff(W.sigma) <= 0.0).all()
    assert W.sigma.min() > 0.0
    assert np.linalg.norm(W.toarray(), "nuc") <= radius * (1 + 1e-12)
    # the certificate once more, in plain NumPy
    z = W.toarray()[rows, cols]
    G = np.zeros(shape)
    G[rows, cols] = solution.dual / len(y)
    primal = np.mean((z - y) ** 2) / 2
    dual = -radius * np.linalg.svd(G, compute_uv=False)[0] - np.mean(solution.dual**2 / 2 + y * solution.dual)
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-10)
    assert solution.certificate.dual <= dual + 1e-14
    assert primal - dual <= tol * np.mean(y**2) / 2
    assert all(record.dual <= primal + 1e-12 for record in solution.trace)
    assert solution.trace[-1].nonzeros == W.rank
    assert solution.trace[-1].counts["oracle_calls"] >= 1


def test_a_tiny_radius_gives_one_atom():
    rows, cols, y, shape = observed()
    problem = sd.CompletionProblem(rows, cols, y, shape, 1e-3)
    solution = sd.solve(problem, tol=1e-8)
    M = np.zeros(shape)
    M[rows, cols] = y
    u, _, vt = np.linalg.svd(M)
    assert solution.w.rank == 1
    np.testing.assert_allclose(solution.w.toarray(), 1e-3 * np.outer(u[:, 0], vt[0]), atol=1e-6)


@pytest.mark.parametrize("radius", [1e3, 1e6])
def test_a_radius_that_does_not_matter(radius):
    """All observed entries are met, the norm stays below the radius, and the gap goes to zero."""
    rows, cols, y, shape = observed()
    solution = sd.solve(sd.CompletionProblem(rows, cols, y, shape, radius), tol=1e-6)
    assert solution.status is sd.Status.CONVERGED
    np.testing.assert_allclose(solution.w.toarray()[rows, cols], y, atol=1e-3)
    assert solution.w.sigma.sum() < radius


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (5, 4)])
def test_one_entry(shape):
    for value in (3.0, 0.5, 0.0):
        solution = sd.solve(sd.CompletionProblem([shape[0] - 1], [shape[1] - 1], [value], shape, 1.0), tol=1e-9)
        assert solution.status is sd.Status.CONVERGED
        expected = np.zeros(shape)
        expected[-1, -1] = min(value, 1.0)
        np.testing.assert_allclose(solution.w.toarray(), expected, atol=1e-6)


def test_values_of_zero_only():
    rows, cols, y, shape = observed()
    solution = sd.solve(sd.CompletionProblem(rows, cols, 0 * y, shape, 1.0))
    assert solution.w.rank == 0
    assert solution.certificate.gap == 0.0


def test_weights_are_repetitions_and_zero_is_no_entry():
    """Weights enter as shares: doubling all changes nothing, and an entry of weight zero is as good as none."""
    rows, cols, y, shape = observed()
    s = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    kept = s > 0
    one = sd.solve(sd.CompletionProblem(rows, cols, y, shape, 3.0, sample_weight=s), tol=1e-9)
    two = sd.solve(sd.CompletionProblem(rows[kept], cols[kept], y[kept], shape, 3.0, sample_weight=7 * s[kept]), tol=1e-9)
    assert one.certificate.primal == pytest.approx(two.certificate.primal, rel=1e-9)
    np.testing.assert_allclose(one.w.toarray(), two.w.toarray(), atol=1e-4)
    z = one.w.toarray()[rows, cols]
    assert one.certificate.primal == pytest.approx(np.mean(np.repeat((z - y) ** 2 / 2, s.astype(int))))


def test_transposed_and_reordered():
    rows, cols, y, shape = observed(40, 260, 2, 0.3)
    problem = sd.CompletionProblem(rows, cols, y, shape, 50.0)
    mixed = np.random.default_rng(0).permutation(len(y))
    turned = sd.CompletionProblem(cols[mixed], rows[mixed], y[mixed], shape[::-1], 50.0)
    one, two = (sd.solve(each, tol=1e-6) for each in (problem, turned))
    assert one.certificate.primal == pytest.approx(two.certificate.primal, abs=1e-6 * problem.scale)
    np.testing.assert_allclose(one.w.toarray(), two.w.toarray().T, atol=0.05)


def test_same_seed_same_trace_and_resume():
    rows, cols, y, shape = observed(240, 190, 3, 0.2)
    problem = sd.CompletionProblem(rows, cols, y, shape, 120.0)
    whole, again = (sd.solve(problem, tol=0.0, max_epochs=4, random_state=5) for _ in range(2))
    key = [(record.epoch, record.primal, record.dual, record.counts) for record in whole.trace]
    assert key == [(record.epoch, record.primal, record.dual, record.counts) for record in again.trace]
    half = sd.solve(problem, tol=0.0, max_epochs=2, random_state=5)
    rest = sd.solve(problem, tol=0.0, max_epochs=2, start=half.state)
    np.testing.assert_array_equal(rest.w.toarray(), whole.w.toarray())
    assert rest.certificate == whole.certificate


def test_starts():
    """From the solution of another radius, larger or smaller, it takes fewer rounds; the start is brought into the ball."""
    rows, cols, y, shape = observed(240, 190, 3, 0.2)
    problem = sd.CompletionProblem(rows, cols, y, shape, 100.0)
    first = sd.solve(problem, tol=1e-5)
    for radius in (90.0, 105.0):
        warm, cold = (sd.solve(problem.with_radius(radius), tol=1e-5, start=start) for start in (first, None))
        assert warm.status is sd.Status.CONVERGED
        assert warm.epochs <= cold.epochs
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, abs=2e-5 * problem.scale)
    assert sd.solve(problem, tol=1e-4, start=first).epochs == 0
    some = sd.LowRank(np.ones((240, 2)), np.array([3.0, 1.0]), np.ones((190, 2)))
    assert sd.solve(problem, tol=1e-4, start=(some, 0.0, None)).status is sd.Status.CONVERGED


def test_budgets_and_options():
    rows, cols, y, shape = observed(240, 190, 3, 0.2)
    problem = sd.CompletionProblem(rows, cols, y, shape, 100.0)
    assert sd.solve(problem, max_epochs=0).certificate.relative_gap > 0.1
    assert sd.solve(problem, tol=0.0, max_epochs=1).status is sd.Status.MAX_EPOCHS
    assert sd.solve(problem, tol=0.0, max_epochs=500).status in (sd.Status.STALLED, sd.Status.CONVERGED)
    for options in ({"block": 1}, {"newton_steps": 0, "core_steps": 20}, {"cg_steps": 3}, {"krylov_steps": 1}):
        solution = sd.solve(problem, LowRankCorrective(**options), tol=1e-3)
        assert solution.status is sd.Status.CONVERGED, options


def test_randomised_certificate_says_so():
    rows, cols, y, shape = observed(240, 190, 3, 0.2)
    solution = sd.solve(sd.CompletionProblem(rows, cols, y, shape, 100.0, exact_limit=100), tol=1e-3)
    assert solution.status is sd.Status.CONVERGED
    assert "randomised" in solution.certificate.basis
    assert "randomised" in str(solution.certificate)


def test_refusals():
    rows, cols, y, shape = observed(signs=True)
    with pytest.raises(UnsupportedError, match="smooth loss"):
        sd.solve(sd.CompletionProblem(rows, cols, y, shape, 1.0, "hinge"))
    with pytest.raises(UnsupportedError, match="completion problem"):
        sd.solve(sd.LinearProblem([[1.0], [2.0]], [1, -1], penalty=sd.penalties.L1(0.1)), "low_rank")
    with pytest.raises(UnsupportedError, match="prox_newton cannot solve a completion problem"):
        sd.solve(sd.CompletionProblem(rows, cols, y, shape, 1.0), "prox_newton")
    assert sd.solvers.available(sd.CompletionProblem(rows, cols, y, shape, 1.0)) == ["low_rank"]
