"""Matrix completion as a problem: values, weak duality, and a bound on the largest singular value that is one."""

import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.penalties import NuclearBall
from saddlery.penalties.spectral import Sparse, chebyshev_bound, leading_pairs, proves, singular_bound, top_pairs

LOSSES = ["squared", "huber", "logistic", "smooth_hinge", "squared_hinge"]


def observed(n=12, d=9, rank=2, share=0.6, seed=0, noise=0.1, signs=False):
    """Entries of a noisy low-rank matrix; row 3 and column 2 have none."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))
    seen = rng.random((n, d)) < share
    seen[3], seen[:, 2] = False, False
    rows, cols = np.nonzero(seen)
    values = M[rows, cols]
    return rows, cols, np.where(values > 0, 1.0, -1.0) if signs else values, (n, d)


def random_matrix(shape, density, rng):
    G = sp.random_array(shape, density=density, rng=rng, format="csr")
    G.data = rng.standard_normal(len(G.data))
    return G


# --------------------------------------------------------------------------- the largest singular value


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1), (7, 7), (12, 9), (9, 12), (260, 211), (211, 260), (900, 60)])
@pytest.mark.parametrize("seed", range(3))
def test_bound_is_above_and_tight(shape, seed):
    rng = np.random.default_rng(seed)
    G = random_matrix(shape, 0.3, rng) * 10.0 ** rng.integers(-8, 9)
    true = np.linalg.svd(G.toarray(), compute_uv=False)[0] if G.nnz else 0.0
    bound = singular_bound(Sparse.of(G))
    assert bound.proved
    assert true * (1 - 1e-15) <= bound.value <= true * (1 + 2e-6)


def test_bound_where_the_leading_values_coincide():
    """As at the optimum: a cluster at the top, and a start that lies outside of it."""
    rng = np.random.default_rng(0)
    d, n = 300, 400
    U, V = (np.linalg.qr(rng.standard_normal((m, 40)))[0] for m in (n, d))
    G = (U * np.r_[np.ones(30), np.linspace(0.99, 0.5, 10)]) @ V.T
    bound = singular_bound(Sparse.of(sp.csr_array(G)), start=V[:, 30:])
    assert 1.0 - 1e-13 <= bound.value <= 1.0 + 2e-6


@pytest.mark.parametrize("d", [4, 5, 60, 61])
def test_the_factorisation_proves_nothing_wrong(d):
    G = random_matrix((70, d), 0.4, np.random.default_rng(d))
    true = np.linalg.svd(G.toarray(), compute_uv=False)[0]
    for matrix in (G, G.T.tocsr()):
        assert proves(Sparse.of(matrix), true * (1 - 1e-9)) == math.inf
        assert true <= proves(Sparse.of(matrix), true * (1 + 1e-9)) <= true * (1 + 2e-9)


@pytest.mark.parametrize("share", [0.5, 0.99, 1.0, 1.1])
def test_the_randomised_bound_holds_for_any_guess(share):
    G = random_matrix((250, 200), 0.2, np.random.default_rng(1))
    true = np.linalg.svd(G.toarray(), compute_uv=False)[0]
    bound = chebyshev_bound(Sparse.of(G), share * true, 600)
    assert true <= bound <= true * (1.2 if share > 1.0 else 1.01)


def test_randomised_bound_beyond_the_limit():
    G = random_matrix((260, 211), 0.3, np.random.default_rng(2))
    true = np.linalg.svd(G.toarray(), compute_uv=False)[0]
    bound = singular_bound(Sparse.of(G), exact_limit=100)
    assert not bound.proved
    assert true <= bound.value <= true * (1 + 1e-4)


def test_empty_matrix_and_zeros():
    assert singular_bound(Sparse.of(sp.csr_array((5, 4)))) == (0.0, True)
    assert singular_bound(Sparse.of(sp.csr_array(([0.0], ([1], [2])), shape=(5, 4)))) == (0.0, True)


@pytest.mark.parametrize("shape", [(12, 9), (260, 211), (3, 40_000)])
def test_pairs_stay_away_from_a_span(shape):
    rng = np.random.default_rng(0)
    G = random_matrix(shape, 0.3 if shape[1] < 1000 else 0.01, rng)
    u, sigma, v = top_pairs(Sparse.of(G), tol=1e-12)
    again = leading_pairs(Sparse.of(G), rng.standard_normal((shape[1], 8)), 8, u[:, :2], v[:, :2])
    np.testing.assert_allclose(np.linalg.norm(G @ v[:, :2] - u[:, :2] * sigma[:2]), 0.0, atol=1e-4 * sigma[0])
    assert again[1][0] == pytest.approx(sigma[2], rel=1e-3)
    np.testing.assert_allclose(again[0][:, :1].T @ u[:, :2], 0.0, atol=1e-10)
    np.testing.assert_allclose(again[2][:, :1].T @ v[:, :2], 0.0, atol=1e-10)


# --------------------------------------------------------------------------- the nuclear ball


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_array], ids=["dense", "csr", "csc"])
@pytest.mark.parametrize("shape", [(6, 4), (3, 7), (240, 220)])
def test_linear_oracle(make, shape):
    rng = np.random.default_rng(0)
    G = rng.standard_normal(shape)
    ball = NuclearBall(2.5)
    atom = ball.linear_oracle(make(G))
    assert ball.value(atom) == 0.0
    assert ball.value(atom.toarray()) == 0.0
    least = -2.5 * np.linalg.svd(G, compute_uv=False)[0]
    assert np.vdot(G, atom.toarray()) == pytest.approx(least, rel=1e-6)
    assert -least <= ball.conjugate(make(-G)) <= -least * (1 + 2e-6)
    assert ball.conjugate(make(G), -3.0) == pytest.approx(-3.0 * least, rel=2e-6)


def test_oracle_of_nothing_is_feasible():
    atom = NuclearBall(2.0).linear_oracle(np.zeros((3, 4)))
    assert NuclearBall(2.0).value(atom) == 0.0


def test_projection_against_a_conic_solver():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((6, 5))
    W = cp.Variable((6, 5))
    cp.Problem(cp.Minimize(cp.sum_squares(W - M)), [cp.normNuc(W) <= 2.0]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(NuclearBall(2.0).prox(M), W.value, atol=1e-4)
    np.testing.assert_allclose(NuclearBall(100.0).prox(M), M, atol=1e-12)


def test_facts_and_refusals():
    ball = NuclearBall(1.0)
    assert ball.matrix
    assert ball.bounded
    assert ball.dual_scale(np.eye(2)) == 1.0
    assert ball.value(np.eye(3)) == math.inf
    with pytest.raises(UnsupportedError, match="set of matrices"):
        sd.LinearProblem([[1.0], [2.0]], [1, -1], penalty=ball)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="radius must be a positive number"):
            NuclearBall(bad).check()
    with pytest.raises(InputError, match="two-dimensional"):
        ball.prox(np.zeros(3))


def test_low_rank():
    rng = np.random.default_rng(0)
    W = sd.LowRank(rng.standard_normal((7, 3)), np.array([1.0, -2.0, 0.0]), rng.standard_normal((5, 3)))
    small = W.compress()
    assert (W.shape, W.rank, small.rank) == ((7, 5), 3, 2)
    np.testing.assert_allclose(small.toarray(), W.toarray(), atol=1e-13)
    np.testing.assert_allclose(small.U.T @ small.U, np.eye(2), atol=1e-13)
    np.testing.assert_allclose(small.V.T @ small.V, np.eye(2), atol=1e-13)
    assert W.nuclear_norm() == pytest.approx(np.linalg.norm(W.toarray(), "nuc"))


# --------------------------------------------------------------------------- values


@pytest.mark.parametrize("loss", LOSSES)
def test_weak_duality_at_random_points(loss):
    rng = np.random.default_rng(0)
    rows, cols, y, shape = observed(signs=loss not in ("squared", "huber"))
    s = rng.random(len(y))
    problem = sd.CompletionProblem(rows, cols, y, shape, 3.0, loss, s)
    for _ in range(20):
        W = sd.LowRank(rng.standard_normal((12, 3)), rng.standard_normal(3), rng.standard_normal((9, 3)))
        W = W._replace(sigma=W.sigma * 3.0 * rng.random() / W.nuclear_norm())
        certificate = sd.certify(problem, W, rng.standard_normal(problem.size))
        z = W.toarray()[rows, cols]
        assert certificate.primal == pytest.approx(s @ problem.loss.value(y, z) / s.sum())
        assert certificate.dual <= certificate.primal
        own = sd.certify(problem, W)
        assert 0.0 <= own.gap < math.inf
        a = problem.slopes(problem.margins(W))
        G = sp.coo_array((problem.s * a, (problem.rows, problem.cols)), shape=shape).toarray()
        expected = np.vdot(G, W.toarray()) + 3.0 * np.linalg.svd(G, compute_uv=False)[0]  # the Frank-Wolfe gap
        assert own.gap == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_certify_outside_of_the_ball_and_basis():
    rows, cols, y, shape = observed()
    problem = sd.CompletionProblem(rows, cols, y, shape, 3.0)
    far = sd.LowRank(np.eye(12, 1), np.array([4.0]), np.eye(9, 1))
    assert sd.certify(problem, far).primal == math.inf
    assert sd.certify(problem, far._replace(sigma=np.array([3.0]))).basis == "exact"
    other = sd.CompletionProblem(rows, cols, y, shape, 3.0, exact_limit=5)
    assert "randomised" in sd.certify(other, far).basis


def test_scale_and_order():
    """Entries are sorted; dual points are brought back into the order given."""
    rng = np.random.default_rng(0)
    rows, cols, y, shape = observed()
    mixed = rng.permutation(len(y))
    problem = sd.CompletionProblem(rows, cols, y, shape, 3.0)
    other = sd.CompletionProblem(rows[mixed], cols[mixed], y[mixed], shape, 3.0)
    np.testing.assert_array_equal(other.rows, rows)
    np.testing.assert_array_equal(other.cols, cols)
    np.testing.assert_array_equal(other.y, y)
    np.testing.assert_array_equal(other.as_given(other.y), y[mixed])
    np.testing.assert_array_equal(problem.as_given(problem.y), y)
    assert problem.scale == pytest.approx(0.5 * np.mean(y**2))
    assert problem.with_radius(4.0).radius == 4.0


GOOD = {"rows": [0, 1], "cols": [1, 0], "values": [1.0, 2.0], "shape": (2, 3), "radius": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [0, 2]}, "entry 1 is in row 2, but there are only the rows 0 to 1"),
        ({"cols": [-1, 0]}, "entry 0 is in column -1"),
        ({"rows": [0, 0], "cols": [1, 1]}, r"the entry \(0, 1\) is given twice"),
        ({"values": [1.0, math.nan]}, r"the entry \(1, 0\) is nan"),
        ({"values": [math.inf, 1.0]}, r"the entry \(0, 1\) is inf"),
        ({"values": ["a", "b"]}, "must be numbers"),
        ({"values": [[1.0, 2.0]]}, "must be a vector"),
        ({"rows": [[0, 1]]}, "must be a vector"),
        ({"rows": [0.0, 1.0]}, "must be whole numbers"),
        ({"rows": [0]}, "give as many rows"),
        ({"rows": [], "cols": [], "values": []}, "no observed entries"),
        ({"radius": 0.0}, "radius must be a positive number"),
        ({"radius": -1.0}, "radius must be a positive number"),
        ({"radius": math.nan}, "radius must be a positive number"),
        ({"radius": "large"}, "radius must be a positive number"),
        ({"shape": (2,)}, "shape must be two numbers"),
        ({"shape": (0, 3)}, "shape must be two positive numbers"),
        ({"shape": 3}, "shape must be two numbers"),
        ({"shape": (2, 2**40)}, "give its transpose"),
        ({"loss": "logistic"}, r"needs the values -1 and \+1, but the entry \(1, 0\) is 2"),
        ({"loss": 3}, "the loss must be a name"),
        ({"sample_weight": [1.0]}, "one weight for each"),
        ({"sample_weight": [1.0, -1.0]}, "the weight of entry 1 is -1"),
        ({"sample_weight": [0.0, 0.0]}, "all sample weights are zero"),
    ],
)
def test_bad_entries_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        sd.CompletionProblem(**{**GOOD, **change})


def test_bad_points_are_refused():
    problem = sd.CompletionProblem(**GOOD)
    with pytest.raises(InputError, match="LowRank"):
        sd.certify(problem, 3)
    with pytest.raises(InputError, match="do not make a matrix"):
        sd.certify(problem, sd.LowRank(np.ones((3, 1)), np.ones(1), np.ones((3, 1))))
    with pytest.raises(InputError, match="finite"):
        sd.certify(problem, sd.LowRank(np.full((2, 1), np.nan), np.ones(1), np.ones((3, 1))))
    with pytest.raises(InputError, match="one finite number for each"):
        sd.certify(problem, sd.LowRank.zero((2, 3)), np.zeros(3))
    with pytest.raises(InputError, match="no intercept"):
        sd.certify(problem, sd.LowRank.zero((2, 3)), b=1.0)
