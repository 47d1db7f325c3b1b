"""The verbs of every penalty against each other and against generic methods that know nothing of it."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from saddlery.errors import InputError
from saddlery.registry import PENALTIES

RNG = np.random.default_rng(0)
VECTORS = [RNG.standard_normal(7) * size for size in (0.1, 1.0, 5.0)] + [np.array([0.0, 0.7, -0.7, 1e-9, -2.0, 0.35, 3.0])]
STEPS = (1e-3, 0.4, 1.0, 30.0)


def separable(penalty):
    if not getattr(penalty, "separable", False):
        pytest.skip("not a sum over coordinates")
    return penalty


def strongly_convex(penalty):
    if separable(penalty).strong_convexity == 0.0:
        pytest.skip("has no map")
    return penalty


def minimum(function, low=-200.0, high=200.0):
    """The minimum of a convex function with a possible kink at 0, by a method that only sees values."""
    sides = [
        minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": 1e-12}) for bounds in ((low, 0.0), (0.0, high))
    ]
    return min([(float(side.fun), float(side.x)) for side in sides] + [(function(0.0), 0.0)])


@pytest.mark.parametrize("step", STEPS)
def test_prox_is_the_minimiser(any_penalty, step):
    """Against random neighbours, for any penalty; then each coordinate against a generic method."""
    for v in VECTORS:
        w = any_penalty.prox(v, step)

        def function(u, v=v):
            return step * any_penalty.value(u) + 0.5 * np.sum((u - v) ** 2)

        best = function(w)
        for size in (1e-4, 1e-2, 1.0):
            for _ in range(20):
                assert best <= function(w + size * RNG.standard_normal(7)) + 1e-12 * (1 + best)
        if getattr(any_penalty, "separable", False):
            for j in range(7):
                value, at = minimum(lambda u, j=j, v=v: step * any_penalty.coordinate_value(u) + 0.5 * (u - v[j]) ** 2)
                assert step * any_penalty.coordinate_value(w[j]) + 0.5 * (w[j] - v[j]) ** 2 <= value + 1e-12 * (1 + value)
                assert w[j] == pytest.approx(at, abs=1e-5)


@pytest.mark.parametrize("step", STEPS)
def test_moreau(any_penalty, step):
    """u = (v - prox(v)) / t is a subgradient at the prox: g(w) + g*(u) = u.w, to rounding."""
    for v in VECTORS:
        w = any_penalty.prox(v, step)
        u = (v - w) / step
        inside = u * (1 - 1e-9) if any_penalty.strong_convexity == 0.0 else u  # the border of the domain, met to rounding
        conjugate = any_penalty.conjugate(inside)
        assert any_penalty.value(w) + conjugate == pytest.approx(float(u @ w), rel=1e-7, abs=1e-9)


def test_conjugate_by_brute_force(any_penalty):
    """g*(u) = max_w u.w - g(w), coordinate by coordinate; infinite where a longer w always gains."""
    for u in np.linspace(-2.0, 2.0, 41) + 1e-3:
        value, at = minimum(lambda w, u=u: separable(any_penalty).coordinate_value(w) - u * w)
        if math.isinf(any_penalty.coordinate_conjugate(u)):
            assert abs(at) > 199.0
        else:
            assert any_penalty.coordinate_conjugate(u) == pytest.approx(-value, abs=1e-9)


def test_vector_forms_are_sums(any_penalty):
    for v in VECTORS:
        u = v * any_penalty.dual_scale(v)
        assert any_penalty.value(v) == pytest.approx(sum(separable(any_penalty).coordinate_value(x) for x in v))
        assert any_penalty.conjugate(u) == pytest.approx(sum(any_penalty.coordinate_conjugate(x) for x in u))
        assert any_penalty.conjugate(u, 0.5) == pytest.approx(any_penalty.conjugate(0.5 * u))
        assert any_penalty.conjugate(u, -1.0) == pytest.approx(any_penalty.conjugate(-u))


def test_value_is_a_penalty(any_penalty):
    """Zero at zero, positive elsewhere, even, convex along segments."""
    assert any_penalty.value(np.zeros(3)) == 0.0
    for v in VECTORS:
        assert any_penalty.value(v) > 0.0
        assert any_penalty.value(-v) == pytest.approx(any_penalty.value(v))
        assert (
            any_penalty.value(0.3 * v + 0.7 * VECTORS[0])
            <= 0.3 * any_penalty.value(v) + 0.7 * any_penalty.value(VECTORS[0]) + 1e-12
        )


def test_map_is_the_gradient_of_the_conjugate(any_penalty):
    for u in np.linspace(-3.0, 3.0, 61) + 1e-3:
        w = strongly_convex(any_penalty).coordinate_map(u)
        h = 1e-6
        slope = (any_penalty.coordinate_conjugate(u + h) - any_penalty.coordinate_conjugate(u - h)) / (2 * h)
        assert w == pytest.approx(slope, abs=1e-5)
        assert any_penalty.coordinate_value(w) + any_penalty.coordinate_conjugate(u) == pytest.approx(u * w, abs=1e-12)
    np.testing.assert_array_equal(any_penalty.dual_map(VECTORS[1]), [any_penalty.coordinate_map(x) for x in VECTORS[1]])


def test_strong_convexity_holds_and_is_tight(any_penalty):
    """g - mu/2 |.|^2 is convex and g - (mu + 0.01)/2 |.|^2 is not, on the line."""
    penalty, w = separable(any_penalty), np.linspace(0.5, 4.0, 50)
    second = np.diff([penalty.coordinate_value(x) for x in w], 2) / np.diff(w)[0] ** 2
    assert second.min() >= penalty.strong_convexity - 1e-9
    assert second.min() <= penalty.strong_convexity + 0.01


def test_distance_is_zero_exactly_where_optimal(any_penalty):
    """0 at u in the subdifferential; elsewhere the distance to it, measured by one-sided difference quotients."""
    penalty, h = separable(any_penalty), 1e-7
    for w in (-2.0, -0.3, 0.0, 0.4, 1.5):
        left = (penalty.coordinate_value(w) - penalty.coordinate_value(w - h)) / h
        right = (penalty.coordinate_value(w + h) - penalty.coordinate_value(w)) / h
        for u in (*np.linspace(-3.0, 3.0, 25), left, right):
            expected = max(left - u, u - right, 0.0)
            assert penalty.coordinate_distance(w, u) == pytest.approx(expected, abs=1e-6)


def test_threshold_is_where_zero_stops_being_optimal(any_penalty):
    t = separable(any_penalty).threshold
    assert any_penalty.coordinate_distance(0.0, t) == 0.0
    assert any_penalty.coordinate_distance(0.0, t + 1e-6) > 0.0
    assert any_penalty.coordinate_prox(t, 1.0) == 0.0
    assert any_penalty.coordinate_prox(t + 1e-6, 1.0) > 0.0


def test_dual_scale_is_feasible_and_tight(any_penalty):
    """g*(t u) is finite for the t returned, also when recomputed in another order, and no t in [0, 1] beyond is."""
    for u in [*VECTORS, 100.0 * VECTORS[1], np.zeros(7)]:
        t = any_penalty.dual_scale(u)
        assert 0.0 < t <= 1.0
        assert math.isfinite(any_penalty.conjugate(u, t))
        assert math.isfinite(any_penalty.conjugate(t * u))
        assert t == 1.0 or math.isinf(any_penalty.conjugate(u, t * (1 + 1e-9)))


def test_scaled(any_penalty):
    twice = any_penalty.scaled(2.0)
    assert type(twice) is type(any_penalty)
    for v in VECTORS:
        assert twice.value(v) == pytest.approx(2.0 * any_penalty.value(v))
        np.testing.assert_allclose(twice.prox(v, 0.5), any_penalty.prox(v, 1.0), rtol=1e-14)
    assert twice.threshold == pytest.approx(2 * any_penalty.threshold)
    assert twice.strong_convexity == pytest.approx(2 * any_penalty.strong_convexity)


@pytest.mark.parametrize("name", [name for name in PENALTIES.names() if not getattr(PENALTIES.get(name), "bounded", False)])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_strengths_are_refused(name, bad):
    with pytest.raises(InputError, match="alpha must be a positive number"):
        PENALTIES.get(name)(bad).check()


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_bad_ratios_are_refused(bad):
    with pytest.raises(InputError, match="l1_ratio must lie between 0 and 1"):
        PENALTIES.get("elasticnet")(1.0, bad).check()


def test_extremes_of_the_elastic_net_are_l1_and_l2():
    elastic, l1, l2 = (PENALTIES.get(name) for name in ("elasticnet", "l1", "l2"))
    for v in VECTORS:
        assert elastic(0.7, 1.0).value(v) == pytest.approx(l1(0.7).value(v))
        assert elastic(0.7, 0.0).value(v) == pytest.approx(l2(0.7).value(v))
        np.testing.assert_allclose(elastic(0.7, 1.0).prox(v, 0.3), l1(0.7).prox(v, 0.3))
        np.testing.assert_allclose(elastic(0.7, 0.0).prox(v, 0.3), l2(0.7).prox(v, 0.3))
