"""Row losses: every registered one is a convex function of the margins, with its slope, conjugate and proxes."""

import math
import pickle

import numpy as np
import pytest

from saddlery.losses.rows import ROW_VERBS, simplex_threshold
from saddlery.parts import kernel
from saddlery.registry import ROW_LOSSES

ANY = pytest.mark.parametrize("loss", [ROW_LOSSES.get(name)() for name in ROW_LOSSES.names()], ids=ROW_LOSSES.names())
FORMULAS = {
    "logistic": lambda y, z: math.log(np.exp(z - z.max()).sum()) + z.max() - z[y],
    "hinge": lambda y, z: max(z[m] + (m != y) for m in range(len(z))) - z[y],
}


@kernel
def call_verbs(loss, y, z, b, a, step, out):
    """All verbs from inside a kernel: two values, and three rows."""
    value = loss.row_value(y, z, b)
    again = loss.row_slope(y, z, b, out[0])
    conjugate = loss.row_conjugate(y, out[0], 1.0)
    loss.row_dual_prox(y, a, step, out[1])
    loss.row_entropy_prox(y, np.log(np.full(z.shape[0], 1.0 / z.shape[0])), z, step, out[2])
    return value, again, conjugate


def cases(k=5, count=20, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield int(rng.integers(k)), 3.0 * rng.standard_normal(k), rng.standard_normal(k)


def conic(y, k, objective):
    """argmin over the simplex, from CVXPY."""
    import cvxpy as cp

    v = cp.Variable(k)
    cp.Problem(cp.Minimize(objective(cp, v)), [v >= 0, cp.sum(v) == 1]).solve(solver=cp.CLARABEL)
    return v.value


def conjugate_in_cvxpy(loss, cp, y, v):
    return -cp.sum(cp.entr(v)) if math.isfinite(loss.smoothness) else v[y] - 1


@ANY
def test_value_slope_and_fenchel_young(loss):
    """The formula; l(z) + l*(a) = a.z at the slope, and not less than it anywhere."""
    rng = np.random.default_rng(1)
    for y, z, b in cases():
        slope = np.empty(len(z))
        value = loss.row_value(y, z, b)
        assert value == pytest.approx(FORMULAS[ROW_LOSSES.name_of(loss)](y, z + b), rel=1e-14)
        assert loss.row_slope(y, z, b, slope) == pytest.approx(value, rel=1e-14)
        assert value + loss.row_conjugate(y, slope, 1.0) == pytest.approx(slope @ (z + b), abs=1e-12)
        for _ in range(5):
            a = rng.dirichlet(np.full(len(z), 0.3))
            a[y] -= 1.0
            assert value + loss.row_conjugate(y, a, 1.0) >= a @ (z + b) - 1e-12
            assert loss.row_conjugate(y, a, 0.4) == loss.row_conjugate(y, 0.4 * a, 1.0)


@ANY
def test_slopes_are_finite_differences(loss):
    for y, z, b in cases(seed=3):  # kinks are met with probability 0
        slope, step = np.empty(len(z)), 1e-6
        loss.row_slope(y, z, b, slope)
        ends = [[loss.row_value(y, z + sign * step * e, b) for sign in (1, -1)] for e in np.eye(len(z))]
        assert np.allclose(slope, [(up - down) / (2 * step) for up, down in ends], atol=1e-8)


@ANY
def test_domain(loss):
    """The conjugate is finite where a + e_y lies in the simplex, with 0 log 0 = 0, and 0 at 0."""
    assert loss.row_conjugate(1, np.zeros(3), 1.0) == 0.0
    assert math.isfinite(loss.row_conjugate(1, np.array([1.0, -1.0, 0.0]), 1.0))
    for outside in ([0.5, -0.25, 0.0], [1.5, -1.5, 0.0], [-0.1, 0.0, 0.1], [0.1, 0.0, -0.1]):
        assert loss.row_conjugate(1, np.array(outside), 1.0) == math.inf
    assert math.isfinite(loss.row_conjugate(1, np.array([1.5, -1.5, 0.0]), 0.5))


@ANY
@pytest.mark.parametrize("step", [0.05, 1.0, 30.0])
def test_dual_prox_against_a_conic_solver(loss, step):
    for y, a, _ in cases(k=4, count=3, seed=2):
        out = np.empty(4)
        loss.row_dual_prox(y, a, step, out)
        e = np.eye(4)[y]
        best = conic(y, 4, lambda cp, v: step * conjugate_in_cvxpy(loss, cp, y, v) + cp.sum_squares(v - e - a) / 2)  # noqa: B023
        assert np.allclose(out + e, best, atol=2e-5)
        assert (out + e).min() >= 0.0
        assert out.sum() == pytest.approx(0.0, abs=1e-15)


@ANY
@pytest.mark.parametrize("step", [0.05, 1.0, 30.0])
def test_dual_prox_is_optimal(loss, step):
    """In double precision, and for many classes: the condition of optimality on the support."""
    for y, a, _ in cases(k=60, count=10, seed=4):
        out, e = np.empty(60), np.eye(60)[y]
        loss.row_dual_prox(y, a, step, out)
        v = out + e
        slope = step * (np.log(np.maximum(v, 1e-300)) if math.isfinite(loss.smoothness) else e) + out - a
        level = slope[np.argmax(v)]
        inside = v > 1e-9
        assert np.abs(slope - level)[inside].max() <= 1e-10 * (1.0 + step) + step * 1e-5 * (v[inside].min() < 1e-6)
        if math.isinf(loss.smoothness):
            assert (slope - level)[~inside].min() >= -1e-12


@ANY
def test_entropy_prox_against_a_conic_solver(loss):
    for y, z, b in cases(k=4, count=3, seed=5):
        start = np.exp(b) / np.exp(b).sum()
        out = np.empty(4)
        loss.row_entropy_prox(y, np.log(start), z, 0.7, out)
        best = conic(
            y,
            4,
            lambda cp, v: 0.7 * (conjugate_in_cvxpy(loss, cp, y, v) - v @ z) + cp.sum(cp.kl_div(v, start)),  # noqa: B023
        )
        assert np.allclose(np.exp(out), best, atol=1e-4)
        assert np.exp(out).sum() == pytest.approx(1.0, rel=1e-14)


@ANY
def test_extreme_margins(loss):
    """No overflow, and probabilities that vanish do so quietly."""
    slope = np.empty(3)
    value = loss.row_slope(0, np.array([-2e3, 1e3, 0.0]), np.zeros(3), slope)
    assert value == pytest.approx(3e3, rel=1e-3)
    assert np.allclose(slope, [-1.0, 1.0, 0.0])
    assert min(abs(loss.row_conjugate(0, slope, 1.0) - at) for at in (-1.0, 0.0)) <= 1e-300


@ANY
def test_compiled_equals_python(loss):
    for y, z, b in cases(count=5, seed=6):
        compiled, plain = np.empty((3, 5)), np.empty((3, 5))
        one = call_verbs(loss, y, z, b, z, 0.3, compiled)
        two = call_verbs.py_func(loss, y, z, b, z, 0.3, plain) if hasattr(call_verbs, "py_func") else one
        assert np.allclose(one, two, rtol=1e-13, atol=1e-14)
        assert np.allclose(compiled, plain, rtol=1e-12, atol=1e-13)


@ANY
def test_every_verb_is_there(loss):
    assert all(hasattr(loss, name) for name in ROW_VERBS)
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert loss.smoothness > 0.0


def test_ties_go_to_the_lowest_class():
    out = np.empty(3)
    ROW_LOSSES.get("hinge")().row_slope(2, np.zeros(3), np.zeros(3), out)
    assert out.tolist() == [1.0, 0.0, -1.0]
    ROW_LOSSES.get("hinge")().row_slope(0, np.array([1.0, 0.0, 0.0]), np.zeros(3), out)
    assert out.tolist() == [0.0, 0.0, 0.0]


def test_projection_by_sorting():
    """Newton's method for the threshold agrees with the one by sorting."""
    rng = np.random.default_rng(0)
    for k in (2, 3, 10, 300):
        for scale in (0.01, 1.0, 100.0):
            v = scale * rng.standard_normal(k)
            u = np.sort(v)[::-1]
            sums = (np.cumsum(u) - 1.0) / np.arange(1, k + 1)
            t = sums[np.flatnonzero(u > sums)[-1]]
            assert simplex_threshold(ROW_LOSSES.get("hinge")(), v) == pytest.approx(t, rel=1e-12, abs=1e-13 * scale)
