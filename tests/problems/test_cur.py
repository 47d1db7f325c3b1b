"""The CUR problem: values by definition, weak duality, and the corrected form of the paper's Example 1.3."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.point import Point

RNG = np.random.default_rng(0)
M = RNG.standard_normal((7, 3)) @ RNG.standard_normal((3, 5)) + 0.2 * RNG.standard_normal((7, 5))


def feasible(problem, rng):
    W = rng.standard_normal((problem.d, problem.n)) * (rng.random((problem.d, 1)) < 0.7)
    return W * rng.random() * problem.penalty.radius / max(np.abs(W).max(axis=0).sum(), np.abs(W).max(axis=1).sum(), 1e-9)


def test_values_by_definition():
    """mean over i, j of (M_i. W M_.j - M_ij)^2 / 2, with W of shape (d, n)."""
    problem = sd.CURProblem(M, 0.5)
    W = feasible(problem, np.random.default_rng(1))
    loss = np.mean([[(M[i] @ W @ M[:, j] - M[i, j]) ** 2 / 2 for j in range(5)] for i in range(7)])
    assert problem.primal(W) == pytest.approx(loss, rel=1e-12)
    assert problem.scale == pytest.approx(np.mean(M**2) / 2)
    assert problem.primal(10.0 * W / problem.penalty.radius + 1.0) == np.inf
    assert problem.size == 35


def test_gradient_is_the_derivative():
    """Erratum of Example 1.3: the gradient is M'(M W M - M) M' / (n d), a d x n matrix like W."""
    problem = sd.CURProblem(M, 0.5)
    rng = np.random.default_rng(2)
    W, V = rng.standard_normal((2, 5, 7))
    G = problem.gradient(problem.margins(W) - M)
    assert G.shape == W.shape
    step = 1e-6
    slope = (problem.mean_square(problem.margins(W + step * V) - M) - problem.mean_square(problem.margins(W - step * V) - M)) / (
        4.0 * step
    )
    assert np.vdot(G, V) == pytest.approx(slope, rel=1e-6)
    for shape in ((4, 9), (9, 4)):  # both orders of multiplication
        other = sd.CURProblem(rng.standard_normal(shape), 1.0)
        W, A = rng.standard_normal(shape[::-1]), rng.standard_normal(shape)
        np.testing.assert_allclose(other.margins(W), other.M @ W @ other.M, atol=1e-12)
        np.testing.assert_allclose(other.gradient(A), other.M.T @ A @ other.M.T / other.size, atol=1e-12)


def test_erratum_the_two_constraints_differ():
    """Printed, both norms have the same subscripts: then a matrix of one full row would cost its length in no constraint."""
    row = np.zeros((5, 7))
    row[2] = 0.3
    assert sd.CURProblem(M, 0.5).primal(row) == np.inf  # rows 0.3, columns 2.1
    assert sd.CURProblem(M, 2.2).primal(row) < np.inf


def test_weak_duality_for_any_pair():
    rng = np.random.default_rng(3)
    for radius in (0.01, 0.3, 5.0):
        problem = sd.CURProblem(M, radius)
        for _ in range(20):
            W, A = feasible(problem, rng), rng.standard_normal(M.shape) * np.exp(2.0 * rng.standard_normal())
            certificate = problem.certify(W, A)
            assert certificate.gap >= 0.0
            assert certificate.dual >= 0.0, "the ray contains zero, whose value is 0"
            assert sd.certify(problem, W).gap >= 0.0


def test_dual_takes_the_best_point_of_the_ray():
    problem = sd.CURProblem(M, 0.05)
    A = -M + 0.1 * np.random.default_rng(4).standard_normal(M.shape)
    best = problem.dual_point(A)

    def value(t):
        return -problem.penalty.conjugate(problem.gradient(t * A)) - np.mean((t * A) ** 2 / 2 + t * A * M)

    assert best.value == pytest.approx(value(np.vdot(best.a, A) / np.vdot(A, A)), rel=1e-10)
    assert best.value >= max(value(t) for t in np.linspace(0.0, 2.0, 41)) - 1e-14
    np.testing.assert_allclose(best.Xta, problem.gradient(best.a), atol=1e-14)
    assert problem.dual_point(3.0 * A).value == pytest.approx(best.value, rel=1e-10)


def test_frank_wolfe_gap_is_the_certificate_of_the_own_dual():
    """With A = M W M - M and t = 1 the gap is <G, W> + g*(-G)."""
    problem = sd.CURProblem(M, 0.3)
    W = feasible(problem, np.random.default_rng(5))
    G = problem.gradient(problem.margins(W) - M)
    gap = np.vdot(G, W - problem.penalty.linear_oracle(G))
    assert problem.certify(W).gap <= gap * (1.0 + 1e-12)


def test_products_that_come_with_a_point_are_used():
    problem = sd.CURProblem(M, 0.3)
    W = feasible(problem, np.random.default_rng(6))
    Z = problem.margins(W)
    plain = problem.evaluate(Point(W, 0.0, None))
    Xta = problem.gradient(Z - M)
    full = Point(W, 0.0, Z - M, Xw=Z, Xta=Xta, aux=problem.penalty.conjugate(Xta))
    assert problem.evaluate(full)[0] == plain[0]
    assert problem.evaluate(full)[1].value == pytest.approx(plain[1].value, rel=1e-12)
    assert (
        problem.check_cost(full) == 0.0 < problem.check_cost(Point(W, 0.0, Z - M)) < problem.check_cost(Point(W, 0.0, None)) + 1.0
    )


def test_data_of_any_kind():
    whole = np.arange(12).reshape(3, 4)
    for data in (
        whole,
        whole.tolist(),
        sp.csr_array(whole),
        sp.csc_matrix(whole),
        whole.astype(np.float32),
        np.asfortranarray(whole),
    ):
        np.testing.assert_array_equal(sd.CURProblem(data, 1.0).M, whole)
    problem = sd.CURProblem(whole, 1.0)
    other = problem.with_radius(2.0)
    assert other.M is problem.M
    assert (other.penalty.radius, problem.penalty.radius) == (2.0, 1.0)
    assert "3 x 4" in repr(problem)
    assert problem.unit == pytest.approx(1.0 / np.linalg.norm(whole, 2))


@pytest.mark.parametrize(
    ("data", "radius", "message"),
    [
        ([[1.0, np.nan]], 1.0, "NaN at row 0, column 1"),
        ([[1.0, np.inf]], 1.0, "infinity at row 0, column 1"),
        (np.zeros((0, 3)), 1.0, "at least one row and one column"),
        (np.zeros(3), 1.0, "two dimensions"),
        ([[1.0]], 0.0, "radius must be a positive number"),
        ([[1.0]], -1.0, "radius must be a positive number"),
        ([[1.0]], np.nan, "radius must be a positive number"),
        ([[1.0]], "much", "radius must be a positive number"),
        ([[1.0]], None, "radius must be a positive number"),
    ],
)
def test_bad_input(data, radius, message):
    with pytest.raises(InputError, match=message):
        sd.CURProblem(data, radius)


def test_points_that_do_not_fit():
    problem = sd.CURProblem(M, 1.0)
    with pytest.raises(InputError, match="W does not fit the problem"):
        problem.certify(np.zeros((7, 5)))
    with pytest.raises(InputError, match="the dual does not fit the problem"):
        problem.certify(np.zeros((5, 7)), np.zeros((5, 7)))
    with pytest.raises(InputError, match="must be finite"):
        problem.certify(np.full((5, 7), np.nan))
    with pytest.raises(InputError, match="no intercept"):
        problem.certify(np.zeros((5, 7)), b=1.0)


def test_linear_solvers_refuse_it_and_its_own_are_named():
    problem = sd.CURProblem(M, 1.0)
    assert sd.solvers.available(problem) == ["cur_hybrid", "cur_splitting", "cur_corrective"]
    with pytest.raises(UnsupportedError, match="these can: cur_hybrid, cur_splitting, cur_corrective"):
        sd.solve(problem, "prox_newton")
    with pytest.raises(UnsupportedError, match="a cur problem"):
        sd.solve(sd.LinearProblem(np.eye(2), [1, -1], penalty=sd.penalties.L1(0.1)), "cur_splitting")
