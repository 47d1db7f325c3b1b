"""Quadratic models on a Gram matrix."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.solvers.gram_model import minimise, worst_violation


@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("m", [5, 150])
def test_round_penalties_take_one_system(m, free):
    """The minimum of a model with l2 alone, where the last component may be free; its gradient is kept current."""
    rng = np.random.default_rng(m)
    A = rng.standard_normal((2 * m, m))
    gram, u, q = A.T @ A, rng.standard_normal(m), rng.standard_normal(m)
    bend = np.full(m, 0.3)
    bend[m - free :] = 0.0
    before, start = q.copy(), u.copy()
    assert minimise(sd.penalties.L2(0.3), gram, u, q, free, 1e-3) == 1
    np.testing.assert_allclose(q, before + gram @ (u - start), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(q + bend * u, 0.0, atol=1e-10)


def test_zeros_without_curvature_stay():
    """l2 alone would let them leap; weights that are not zero go where l2 says."""
    gram = np.diag([2.0, 0.0, 0.0])
    u, q = np.array([1.0, 0.0, 4.0]), np.array([1.0, 1.0, 0.5])
    minimise(sd.penalties.L2(1e-6), gram, u, q, 0, 1e-3)
    np.testing.assert_allclose(u, [0.5, 0.0, -0.5e6], rtol=1e-5)


def test_singular_models_are_swept():
    """Two columns that are the same: no system is solved, and coordinate descent finds a minimum."""
    gram = np.ones((2, 2))
    u, q = np.zeros(2), np.array([1.0, 1.0])
    assert minimise(sd.penalties.L2(1e-15), gram, u, q, 0, 1e-10) > 1
    assert u.sum() == pytest.approx(-1.0)


@pytest.mark.parametrize("penalty", [sd.penalties.L1(0.3), sd.penalties.L2(1e-15), sd.penalties.ElasticNet(0.3, 0.5)])
def test_a_free_component_takes_what_all_columns_share(penalty):
    """Of a column that is the same as the free one, nothing is left: it costs, and that one does not."""
    rng = np.random.default_rng(1)
    A = np.column_stack([np.ones(40), rng.standard_normal((40, 3)) + 5.0, np.ones(40)])
    gram, u, q = A.T @ A, np.zeros(5), A.T @ rng.standard_normal(40)
    before = q.copy()
    minimise(penalty, gram, u, q, 1, 1e-9)
    assert abs(u[0]) <= 1e-6
    np.testing.assert_allclose(q, before + gram @ u, atol=1e-6)
    assert worst_violation(penalty, u[:4], q[:4]) <= 1e-6
    assert q[4] == 0.0
