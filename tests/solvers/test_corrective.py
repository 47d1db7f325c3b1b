"""Fully corrective steps: the quadratic programme on faces, and what the solver does with degenerate data."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.penalties import L1Ball, Simplex
from saddlery.solvers.corrective import Corrective, enter_face, leave_face, minimise_on_faces


def random_model(rng, m, free, kind):
    """A convex quadratic with gradient q at 0: well conditioned, with copies of columns, or of low rank."""
    size = m + free
    A = rng.standard_normal((3 * size if kind == "full" else max(2, size // 2) if kind == "low rank" else 3 * size, size))
    if kind == "copies" and m > 3:
        A[:, 1], A[:, 2] = A[:, 0], -A[:, 0]
    if free:
        A[:, -1] = 1.0
    gram = A.T @ A / len(A)
    return gram, A.T @ rng.standard_normal(len(A)) / len(A)


def minimise(gram, linear, u, free, radius, strength, signed, most=10_000):
    size = len(u)
    penalty = L1Ball(radius)
    work = (np.empty(size), np.empty(size, dtype=np.int64), np.empty((size, size)), np.empty(size), np.empty(size))
    q = linear + gram @ u
    level = minimise_on_faces(penalty, gram, u, q, free, radius, strength, signed, 1e-13, most, *work)
    return level, q


@pytest.mark.parametrize("kind", ["full", "copies", "low rank"])
@pytest.mark.parametrize("signed", [True, False], ids=["ball", "simplex"])
@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("strength", [0.0, 0.1])
def test_no_corner_of_the_polytope_is_better(kind, signed, free, strength):
    """At the result no point of the polytope has a smaller linearised value; the gradient that it keeps is the true one."""
    if strength and not signed:
        pytest.skip("on the simplex the l1 norm is constant")
    rng = np.random.default_rng(0)
    for m in (1, 2, 5, 30):
        for radius in (0.01, 1.0, 1000.0):
            gram, linear = random_model(rng, m, free, kind)
            u = np.zeros(m + free)
            if not signed:
                u[:m] = rng.dirichlet(np.ones(m)) * radius
            _, q = minimise(gram, linear, u, free, radius, strength, signed)
            size = np.abs(linear).max()
            np.testing.assert_allclose(q, linear + gram @ u, atol=1e-9 * size * max(1.0, radius))
            total = np.abs(u[:m]).sum()
            assert total <= radius * (1 + 1e-12) if signed else total == pytest.approx(radius, rel=1e-12)
            assert signed or u[:m].min() >= 0.0
            best = -radius * max(np.abs(q[:m]).max() - strength, 0.0) if signed else radius * q[:m].min()
            gap = q[:m] @ u[:m] + strength * total - best
            assert abs(gap) <= 1e-9 * size * max(1.0, radius)
            assert not free or abs(q[-1]) <= 1e-9 * size * max(1.0, radius)


def test_columns_enter_and_leave_the_factor():
    """After any sequence of changes L L' is the Gram matrix of the face."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((40, 12))
    gram, factor, face, size = A.T @ A, np.zeros((12, 12)), np.zeros(12, dtype=np.int64), 0
    outside = list(range(12))
    for _ in range(200):
        if outside and (size == 0 or rng.random() < 0.5):
            j = outside.pop(rng.integers(len(outside)))
            enter_face(L1Ball(1.0), gram, factor, face, size, j)
            size += 1
        else:
            at = int(rng.integers(size))
            outside.append(int(face[at]))
            leave_face(L1Ball(1.0), factor, face, size, at)
            size -= 1
        L = np.tril(factor[:size, :size])
        np.testing.assert_allclose(L @ L.T, gram[np.ix_(face[:size], face[:size])], rtol=1e-10, atol=1e-10)


def make(n=300, d=40, seed=0, loss="logistic", penalty=None, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = X[:, :3] @ [2.0, -1.0, 0.5] + rng.standard_normal(n)
    return sd.LinearProblem(X, np.sign(z) if loss != "squared" else z, loss, penalty or L1Ball(2.0), **options)


@pytest.mark.parametrize("penalty", [L1Ball(0.5), L1Ball(1e4), Simplex(2.0)], ids=["tight", "inactive", "simplex"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge", "smooth_hinge"])
def test_certifies_to_the_last_digits(loss, intercept, penalty):
    problem = make(loss=loss, penalty=penalty, fit_intercept=intercept)
    solution = sd.solve(problem, Corrective(), tol=1e-10)
    assert solution.status is sd.Status.CONVERGED
    assert np.isfinite(penalty.value(solution.w))


def test_a_start_outside_is_projected():
    problem = make()
    solution = sd.solve(problem, "corrective", start=(np.full(problem.d, 5.0), 0.0, None))
    assert solution.status is sd.Status.CONVERGED


def test_equal_columns_and_empty_ones():
    """Copies of a column share its weight; columns without entries get none."""
    problem = make()
    X = np.hstack([problem.matrix.values, problem.matrix.values[:, :5], np.zeros((problem.n, 3))])
    wider = sd.LinearProblem(X, problem.y, "logistic", L1Ball(2.0))
    a, b = (sd.solve(p, "corrective", tol=1e-9) for p in (problem, wider))
    assert b.certificate.primal == pytest.approx(a.certificate.primal, abs=1e-8)
    assert not b.w[-3:].any()


def test_no_gradient_at_all():
    """Data without information: any point is optimal, and that is certified."""
    problem = sd.LinearProblem(np.zeros((4, 3)), [1, -1, 1, -1], "logistic", Simplex(1.0))
    solution = sd.solve(problem, "corrective")
    assert solution.certificate.gap == 0.0


def test_samples_of_rows_are_only_a_start():
    """The same optimum with and without; fewer sample gradients with."""
    problem = make(n=6000, d=20)
    with_sample, without = (sd.solve(problem, Corrective(sample_start=flag), tol=1e-8) for flag in (True, False))
    assert with_sample.certificate.primal == pytest.approx(without.certificate.primal, abs=1e-7)
    counts = [solution.trace[-1].counts["sample_gradients"] for solution in (with_sample, without)]
    assert counts[0] < counts[1]


def test_many_atoms_at_once_take_fewer_rounds():
    problem = make(n=400, d=200, loss="squared", penalty=L1Ball(20.0))
    one, ten = (sd.solve(problem, Corrective(atoms=atoms, sample_start=False), tol=1e-8) for atoms in (1, 10))
    assert ten.epochs <= one.epochs
