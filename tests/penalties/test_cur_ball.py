"""The CUR set: its oracle and its conjugate against a linear program, on matrices that are easy to get wrong."""

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import saddlery as sd
from saddlery.errors import InputError
from saddlery.penalties import CURBall
from saddlery.penalties.load_balance import balance
from saddlery.penalties.row_budget import project_rows


def highs(C):
    """max sum_ij C_ij z_ij, z_ij <= r_i, z_ij <= c_j, sum r <= 1, sum c <= 1, by HiGHS."""
    p, q = C.shape
    entries = sp.identity(p * q)
    rows, columns = sp.kron(sp.identity(p), np.ones((q, 1))), sp.kron(np.ones((p, 1)), sp.identity(q))
    sums = sp.csr_array(np.vstack([np.r_[np.zeros(p * q), np.ones(p), np.zeros(q)], np.r_[np.zeros(p * q + p), np.ones(q)]]))
    A = sp.vstack([sp.hstack([entries, -rows, 0 * columns]), sp.hstack([entries, 0 * rows, -columns]), sums]).tocsr()
    answer = linprog(-np.r_[C.ravel(), np.zeros(p + q)], A_ub=A, b_ub=np.r_[np.zeros(2 * p * q), 1.0, 1.0], method="highs")
    return -answer.fun


def matrices():
    rng = np.random.default_rng(0)
    normal = rng.standard_normal
    yield "gauss", normal((20, 20))
    yield "wide", normal((6, 17))
    yield "tall", normal((17, 5))
    yield "whole numbers: ties", np.round(2 * normal((12, 9)))
    yield "signs: all ties", np.sign(normal((8, 8)))
    yield "constant", np.ones((7, 11))
    yield "sparse", normal((15, 12)) * (rng.random((15, 12)) < 0.15)
    yield "an empty row and column", np.pad(normal((5, 6)), ((0, 2), (1, 0)))
    yield "rank one", np.outer(normal(9), normal(12))
    yield "heavy tails", np.exp(4 * normal((10, 13)))
    yield "rows and columns of many sizes", normal((12, 12)) * np.exp(2 * normal((12, 1))) * np.exp(2 * normal(12))
    yield "one row", normal((1, 9))
    yield "one column", normal((9, 1))
    yield "one entry", np.array([[-3.0]])
    yield "a large entry", normal((8, 8)) + 50.0 * np.eye(8)[:, [3]] * np.eye(8)[5]
    yield "diagonal", np.diag(rng.random(7))
    yield "two nested blocks", np.pad(np.full((2, 2), 3.0), ((0, 5), (0, 1))) + np.pad(np.ones((7, 2)), ((0, 0), (0, 1)))
    yield "tiny numbers", 1e-150 * normal((6, 6))
    yield "huge numbers", 1e150 * normal((6, 6))


@pytest.mark.parametrize("C", [pytest.param(C, id=name) for name, C in matrices()])
@pytest.mark.parametrize("radius", [1.0, 0.3])
def test_oracle_and_conjugate_are_exact(C, radius):
    size = np.abs(C).max()
    value = radius * size * highs(np.abs(C) / size)
    ball = CURBall(radius)
    W = ball.linear_oracle(C)
    assert ball.value(W) == 0.0
    assert np.vdot(C, W) == pytest.approx(-value, rel=1e-9)
    conjugate = ball.conjugate(C)
    assert conjugate == pytest.approx(value, rel=1e-9)
    assert conjugate >= -np.vdot(C, W) * (1.0 - 1e-15), "the bound may be rounded up, never down"
    assert conjugate == pytest.approx(-np.vdot(C, W), rel=1e-11)
    assert ball.conjugate(C, -2.0) == pytest.approx(2.0 * value, rel=1e-9)


def test_many_small_matrices():
    rng = np.random.default_rng(1)
    ball = CURBall(1.0)
    for k in range(60):
        C = rng.standard_normal(rng.integers(1, 7, 2)) * (rng.random() < 0.9)
        C = np.round(C) if k % 2 else C
        value = highs(np.abs(C))
        W = ball.linear_oracle(C)
        assert -np.vdot(C, W) == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert ball.conjugate(C) == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert ball.value(W) == 0.0


def test_large_matrices_have_both_sides_of_their_value():
    """Where no linear program is quick, the split proves what the atom attains."""
    rng = np.random.default_rng(2)
    for C in (rng.standard_normal((150, 90)), rng.standard_normal((80, 3)) @ rng.standard_normal((3, 120))):
        W, shared = CURBall(2.0).best_response(C)
        assert CURBall(2.0).value(W) == 0.0
        assert -np.vdot(C, W) == pytest.approx(2.0 * shared.value, rel=1e-12)
        assert shared.value <= shared.bound <= shared.value * (1.0 + 1e-10)


def test_zero_matrix():
    ball = CURBall(1.0)
    assert not ball.linear_oracle(np.zeros((3, 4))).any()
    assert ball.conjugate(np.zeros((3, 4))) == 0.0


def test_same_matrix_same_atom():
    C = np.sign(np.random.default_rng(3).standard_normal((9, 9)))
    np.testing.assert_array_equal(CURBall(1.0).linear_oracle(C), CURBall(1.0).linear_oracle(C))


def test_atom_is_of_one_or_two_nested_blocks():
    rng = np.random.default_rng(4)
    for _ in range(20):
        C = rng.exponential(size=(6, 9)) ** 2
        shared = balance(CURBall(1.0), C)
        levels = [np.unique(share[share > 0.0].round(12)) for share in (shared.rows, shared.columns)]
        assert all(1 <= len(level) <= 2 for level in levels)
        assert shared.rows.sum() <= 1.0 + 1e-12
        assert shared.columns.sum() <= 1.0 + 1e-12


def best_rows(C, c):
    """argmax_r sum_ij C_ij min(r_i, c_j), sum r <= 1: concave and separable, so take the steepest pieces first."""
    order = np.argsort(c)
    widths = np.diff(np.r_[0.0, c[order]])
    slopes = np.cumsum(C[:, order][:, ::-1], axis=1)[:, ::-1]  # of piece k of row i: the columns whose cap is not reached
    r, left = np.zeros(len(C)), 1.0
    for index in np.argsort(-slopes, axis=None, kind="stable"):
        i, k = np.unravel_index(index, slopes.shape)
        take = min(widths[k], left)
        r[i] += take
        left -= take
    return r


def test_alternating_between_rows_and_columns_is_no_oracle():
    """The value is concave in (r, c) but not smooth: each may be best for the other, and both far from the optimum."""
    C = np.array([[1.2, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    c = np.eye(4)[0]  # a start at the largest entry
    for _ in range(50):
        r = best_rows(C, c)
        c = best_rows(C.T, r)
    stuck = (C * np.minimum.outer(r, c)).sum()
    assert stuck == pytest.approx(1.2)
    assert -np.vdot(C, CURBall(1.0).linear_oracle(C)) == pytest.approx(3.0)
    assert highs(C) == pytest.approx(3.0)


def test_value_is_that_of_the_set():
    ball = CURBall(1.0)
    assert ball.value(np.full((2, 3), 1.0 / 3.0)) == 0.0  # rows 2/3, columns 1
    assert ball.value(np.full((3, 2), 1.0 / 3.0)) == 0.0
    assert ball.value(np.full((2, 3), 0.4)) == np.inf  # columns 1.2
    assert ball.value(np.full((3, 2), 0.4)) == np.inf  # rows 1.2
    assert ball.value(np.zeros((2, 2))) == 0.0


def test_conjugate_bounds_every_point_of_the_set():
    rng = np.random.default_rng(5)
    ball = CURBall(0.7)
    for _ in range(50):
        U, W = rng.standard_normal((5, 4)), rng.standard_normal((5, 4)) * rng.exponential(size=(5, 1))
        W *= 0.7 / max(np.abs(W).max(axis=1).sum(), np.abs(W).max(axis=0).sum())
        assert ball.value(W) == 0.0
        assert np.vdot(U, W) <= ball.conjugate(U)


def test_all_sign_patterns_of_a_small_case():
    """The set is the convex hull of its atoms: no matrix of entries in {-1, 0, 1} times a block weight does better."""
    C = np.array([[2.0, -1.0], [0.5, 3.0]])
    best = max(
        -np.vdot(C, np.reshape(signs, (2, 2))) / max(np.abs(np.reshape(signs, (2, 2))).max(axis=axis).sum() for axis in (0, 1))
        for signs in itertools.product((-1, 0, 1), repeat=4)
        if any(signs)
    )
    assert CURBall(1.0).conjugate(C) == pytest.approx(best)


def test_facts_and_refusals():
    ball = CURBall(2)
    assert ball.matrix
    assert ball.bounded
    assert ball.strong_convexity == ball.threshold == 0.0
    assert ball.dual_scale(np.ones((2, 2))) == 1.0
    assert ball.scaled(3.0) == ball
    assert pickle.loads(pickle.dumps(ball)) == ball
    for bad in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="radius must be a positive number"):
            CURBall(bad).check()
    with pytest.raises(InputError, match="use CURProblem or CURDecomposition"):
        sd.LinearProblem(np.eye(2), [1, -1], penalty=ball)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (4, 6)])
def test_projection_onto_the_budget_of_the_rows(shape):
    """Nearest point: V - W is normal to the set at W, that is, W maximises <V - W, .> over it."""
    rng = np.random.default_rng(6)
    for k in range(20):
        V = 2.0 * rng.standard_normal(shape) * np.exp(rng.standard_normal((shape[0], 1)))
        V = np.round(V) if k % 2 else V
        W = np.empty(shape)
        caps = project_rows(CURBall(1.3), V, W)
        assert caps.sum() <= 1.3 * (1.0 + 1e-14) or np.abs(V).max(axis=1).sum() <= 1.3
        assert (np.abs(W).max(axis=1) <= caps).all()
        support = 1.3 * np.abs(V - W).sum(axis=1).max()  # the conjugate of the set
        assert support <= np.vdot(V - W, W) + 1e-9
    inside = np.full(shape, 0.01)
    project_rows(CURBall(1.3), inside, W := np.empty(shape))
    np.testing.assert_array_equal(W, inside)
