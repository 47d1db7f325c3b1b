"""The verbs of every loss against each other and against generic methods that know nothing of it."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

STEPS = (1e-4, 1e-2, 0.3, 1.0, 7.0, 1e3)


def targets(loss):
    return (-1.0, 1.0) if loss.targets == "signs" else (-1.7, 0.0, 0.6)


def margins(seed=0, count=60):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.uniform(-4.0, 4.0, count), [-30.0, 30.0, 0.0, 1.0, -1.0]])


def dual_grid(loss, y, count=41):
    """Points of the domain of l*, its ends included (up to 10 where it has none)."""
    return np.linspace(max(loss.dual_lower(y), -10.0), min(loss.dual_upper(y), 10.0), count)


def bounded_minimum(function, low, high):
    """The minimum of a convex function by a method that only sees values: the best of golden section and both ends."""
    found = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-12})
    return min(((float(found.fun), float(found.x)), (function(low), low), (function(high), high)))


def one_sided(function, z, h=1e-6):
    """Difference quotients to the left and to the right."""
    return (function(z) - function(z - h)) / h, (function(z + h) - function(z)) / h


def test_value_is_non_negative_and_finite(any_loss):
    for y in targets(any_loss):
        values = np.array([any_loss.value(y, z) for z in [*margins(), -1e3, 1e3]])
        assert np.isfinite(values).all()
        assert values.min() >= 0.0


def test_slope_is_the_derivative(any_loss):
    """Difference quotients where both sides agree; a kink has to bracket the slope."""
    smooth_points = 0
    for y in targets(any_loss):
        for z in margins():
            left, right = one_sided(lambda t, y=y: any_loss.value(y, t), z)
            slope = any_loss.slope(y, z)
            assert min(left, right) - 1e-5 <= slope <= max(left, right) + 1e-5
            smooth_points += abs(left - right) < 1e-4
    assert smooth_points > 100


def test_slope_is_a_subgradient(any_loss):
    """l(t) >= l(z) + l'(z) (t - z) for all pairs: convexity and slope at once."""
    z = margins()
    for y in targets(any_loss):
        values, slopes = any_loss.value(y, z), any_loss.slope(y, z)
        below = values[:, None] + slopes[:, None] * (z[None, :] - z[:, None])
        assert (values[None, :] - below).min() >= -1e-12


def test_curvature_is_the_derivative_of_the_slope(any_loss):
    for y in targets(any_loss):
        for z in margins():
            left, right = one_sided(lambda t, y=y: any_loss.slope(y, t), z, 1e-5)
            if abs(left - right) < 1e-3 and max(abs(left), abs(right)) < 1e3:
                assert any_loss.curvature(y, z) == pytest.approx(0.5 * (left + right), abs=2e-3)
            else:  # a kink of the slope: any element of the generalised derivative
                low, high = sorted((left, right))
                assert low - 1e-3 <= any_loss.curvature(y, z) <= high + 1e-3 or any_loss.curvature(y, z) == 0.0


def test_fenchel_young(any_loss):
    """l(z) + l*(a) >= a z, with equality at a = l'(z)."""
    for y in targets(any_loss):
        for z in margins():
            value = any_loss.value(y, z)
            for a in dual_grid(any_loss, y):
                assert value + any_loss.conjugate(y, a) - a * z >= -1e-12 * (1.0 + abs(z))
            slope = any_loss.slope(y, z)
            assert abs(value + any_loss.conjugate(y, slope) - slope * z) <= 1e-12 * (1.0 + z * z)


@pytest.mark.parametrize("z", [8.0, 20.0, 30.0])
def test_fenchel_young_far_out(any_loss, z):
    """Where the loss is tiny its conjugate must be as precise, or gaps of well separated data drown in rounding."""
    for y in targets(any_loss):
        for margin in (z, -z):
            slope = any_loss.slope(y, margin)
            terms = any_loss.value(y, margin), any_loss.conjugate(y, slope), -slope * margin
            assert abs(sum(terms)) <= 1e-11 * sum(map(abs, terms))


def test_biconjugate(any_loss):
    """l(z) = max_a a z - l*(a), the maximum found by a generic method."""
    for y in targets(any_loss):
        low, high = max(any_loss.dual_lower(y), -60.0), min(any_loss.dual_upper(y), 60.0)
        for z in margins(count=15):
            best, _ = bounded_minimum(lambda a, y=y, z=z: any_loss.conjugate(y, a) - a * z, low, high)
            assert -best == pytest.approx(any_loss.value(y, z), abs=1e-8)


@pytest.mark.parametrize("step", STEPS)
def test_dual_prox_is_the_minimiser(any_loss, step):
    """argmin_u t l*(u) + (u - a)^2 / 2, against a generic bounded method."""
    for y in targets(any_loss):
        low, high = max(any_loss.dual_lower(y), -1e4), min(any_loss.dual_upper(y), 1e4)
        for a in np.random.default_rng(1).uniform(-3.0, 3.0, 15):

            def function(u, y=y, a=a):
                return step * any_loss.conjugate(y, u) + 0.5 * (u - a) ** 2

            u = any_loss.dual_prox(y, a, step)
            best, at = bounded_minimum(function, low, high)
            assert low <= u <= high
            assert function(u) <= best + 1e-12 * (1.0 + abs(best))
            assert u == pytest.approx(at, abs=1e-4)


@pytest.mark.parametrize("step", STEPS)
def test_dual_prox_inverts_the_slope(any_loss, step):
    """u = prox(l'(z) + t z) gives back l'(z): the fixed point on which every dual step rests, to rounding."""
    for y in targets(any_loss):
        for z in margins():
            slope = any_loss.slope(y, z)
            assert any_loss.dual_prox(y, slope + step * z, step) == pytest.approx(slope, abs=1e-13 * (1.0 + step * (1.0 + abs(z))))


def test_smoothness_is_the_lipschitz_constant_of_the_slope(any_loss):
    """Never exceeded on samples, and nearly reached: a loose constant would make every step too small."""
    z = np.linspace(-3.0, 3.0, 6001)
    worst = max(float(np.max(np.abs(np.diff(any_loss.slope(y, z)) / np.diff(z)))) for y in targets(any_loss))
    if math.isinf(any_loss.smoothness):
        assert worst > 500.0
    else:
        assert 0.99 * any_loss.smoothness <= worst <= any_loss.smoothness * (1 + 1e-9)


def test_dual_bounds_are_the_domain_of_the_conjugate(any_loss):
    for y in targets(any_loss):
        low, high = any_loss.dual_lower(y), any_loss.dual_upper(y)
        assert low <= 0.0 <= high
        assert any_loss.conjugate(y, 0.0) == 0.0
        assert all(math.isfinite(any_loss.conjugate(y, a)) for a in dual_grid(any_loss, y))
        for end, outwards in ((low, -1.0), (high, 1.0)):
            assert math.isfinite(end) is math.isinf(
                any_loss.conjugate(y, end + outwards * 1e-9 if math.isfinite(end) else outwards * 1e6)
            )


def test_conjugate_curvature_says_what_the_conjugate_is(any_loss):
    """Where a loss declares l*(a) = y a + c a^2 / 2 on a cone, it has to be one."""
    c = getattr(any_loss, "conjugate_curvature", None)
    if c is None:
        pytest.skip("not declared")
    for y in targets(any_loss):
        assert {any_loss.dual_lower(y), any_loss.dual_upper(y)} <= {-math.inf, 0.0, math.inf}
        for a in dual_grid(any_loss, y):
            assert any_loss.conjugate(y, a) == pytest.approx(y * a + 0.5 * c * a * a)
