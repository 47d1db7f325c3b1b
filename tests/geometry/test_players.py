"""Players of games: each step, value and support function against what it is defined by."""

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest

import saddlery as sd
from saddlery.geometry import Ball, Box, CappedSimplex, ProductOfSimplices, Simplex, Space

RNG = np.random.default_rng(5)
N = 7
CAPS = RNG.random(N) * 0.3 + 0.1
REFERENCE = RNG.random(N) + 0.5
PLAYERS = [
    Simplex(N),
    Simplex(N, entropy=0.3),
    Simplex(N, geometry="entropy"),
    Simplex(N, entropy=0.3, reference=REFERENCE, geometry="euclidean"),
    Simplex(N, l2=0.4),
    CappedSimplex(N, 0.2, entropy=0.3),
    CappedSimplex(N, CAPS, entropy=0.05, reference=REFERENCE),
    CappedSimplex(N, CAPS, entropy=0.05, reference=REFERENCE, geometry="euclidean"),
    CappedSimplex(N, CAPS, geometry="entropy"),
    CappedSimplex(N, CAPS),
    CappedSimplex(N, CAPS, l2=2.0),
    CappedSimplex(N, 1.0 / N, entropy=0.1),
    ProductOfSimplices([3, 4], entropy=0.2),
    ProductOfSimplices([3, 4]),
    ProductOfSimplices([1, 2, 4], entropy=0.2, geometry="euclidean"),
    Ball(N, radius=0.7),
    Ball(N, radius=0.7, l2=0.5),
    Box(-1.0, CAPS, l2=0.5),
    Box(0.0, 2.0, N),
    Space(N, l2=0.5),
]
each_player = pytest.mark.parametrize("player", PLAYERS, ids=repr)


def corners(player, rng, count=20):
    """Random points of the set, most of them on its border."""
    return [
        player.project(player.response(rng.standard_normal(N)) if k % 2 else 3.0 * rng.standard_normal(N)) for k in range(count)
    ]


def states(player, rng, count=3):
    """States as they come about: by steps from the start."""
    state, out = player.start(), []
    for _ in range(count):
        state = player.prox(state, rng.standard_normal(N), 0.5)
        out.append(state)
    return out


def slope_of_value(player, x):
    """The gradient of the regulariser."""
    if getattr(player, "entropy", 0.0) > 0.0:
        log_reference = player.blocks.log_reference if player.blocks.log_reference.size else 0.0
        return player.entropy * (np.log(np.maximum(x, 1e-300)) - log_reference + 1.0)
    return player.l2 * x


def turn(player, state, other):
    """The gradient of D(., other) at a state."""
    return state.log - other.log if player.geometry == "entropy" else state - other


@each_player
def test_steps_are_minima(player):
    """No direction into the set is one of descent: a variational inequality, with steps from tiny to huge."""
    rng = np.random.default_rng(0)
    for state in states(player, rng):
        for step in (1e-6, 0.1, 1.0, 30.0):
            gradient = rng.standard_normal(N)
            new = player.prox(state, gradient, step)
            x = player.point(new)
            assert player.value(x) < math.inf
            slope = step * (gradient + slope_of_value(player, x)) + turn(player, new, state)
            for other in corners(player, rng):
                assert slope @ (other - x) >= -1e-11 * (1.0 + np.abs(slope).max())


@each_player
def test_support_is_the_conjugate(player):
    rng = np.random.default_rng(1)
    for scale in (0.01, 1.0, 100.0):
        gradient = scale * rng.standard_normal(N)
        best = player.response(gradient)
        value = player.support(gradient)
        assert player.value(best) < math.inf
        assert value == pytest.approx(gradient @ best - player.value(best), rel=1e-12, abs=1e-13)
        for other in corners(player, rng):
            assert value >= gradient @ other - player.value(other) - 1e-12 * (1.0 + abs(value))


@each_player
def test_blends_are_what_proximal_points_need(player):
    """prox of a blend minimises step (<g, x> + R + pull D(x, centre)) + D(x, state)."""
    rng = np.random.default_rng(2)
    state, centre = states(player, rng, 2)
    step, pull, gradient = 0.7, 0.9, rng.standard_normal(N)
    share = 1.0 / (1.0 + step * pull)
    new = player.prox(player.blend(centre, state, share), gradient, share * step)
    x = player.point(new)
    slope = step * (gradient + slope_of_value(player, x) + pull * turn(player, new, centre)) + turn(player, new, state)
    for other in corners(player, rng):
        assert slope @ (other - x) >= -1e-11 * (1.0 + np.abs(slope).max())


@each_player
def test_states_and_points(player):
    rng = np.random.default_rng(3)
    one, other = states(player, rng, 2)
    assert player.divergence(one, one) == pytest.approx(0.0, abs=1e-15)
    assert player.divergence(one, other) >= 0.0
    assert player.shape == (N,)
    x = player.point(one)
    assert player.point(player.state_at(x)) == pytest.approx(x, abs=1e-12)
    assert player.value(player.point(player.state_at(rng.standard_normal(N) * 5.0))) < math.inf
    assert player.project(x) is x or player.project(x) == pytest.approx(x, abs=1e-15)
    assert player.magnitude(x) >= abs(player.value(x)) - 1e-15
    assert player.slope(x) == 0.0


@each_player
def test_points_outside_have_no_value(player):
    if not isinstance(player, Space):
        assert player.value(np.full(N, 9.0)) == math.inf


def by_bisection(logs, caps):
    """min(c exp(logs), caps) with the sum 1, in fifty digits."""
    getcontext().prec = 50
    terms, most = [Decimal(float(v)).exp() for v in logs], [Decimal(float(v)) for v in caps]
    low, high = Decimal(-1500), Decimal(1500)
    for _ in range(220):
        middle = (low + high) / 2
        scale = middle.exp()
        if sum(min(scale * term, cap) for term, cap in zip(terms, most, strict=True)) < 1:
            low = middle
        else:
            high = middle
    return [min(high.exp() * term, cap) for term, cap in zip(terms, most, strict=True)]


@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0, 400.0])
@pytest.mark.parametrize("room", [1.0 + 1e-13, 1.02, 1.5, 6.0])
def test_capped_kl_projection_in_extended_precision(spread, room):
    """To 1e-12, from ties to logits that are 400 apart, from caps that leave no room to such that do not matter."""
    rng = np.random.default_rng(6)
    logs, caps = rng.random(12) * spread, rng.random(12) + 0.05
    caps *= room / caps.sum()
    player = CappedSimplex(12, caps, geometry="entropy")
    state = player.start()._replace(log=logs)
    new = player.prox(state, np.zeros(12), 1.0)
    expected = by_bisection(logs, np.minimum(caps, 1.0))
    assert max(abs(float(e - Decimal(float(x)))) for e, x in zip(expected, new.x, strict=True)) <= 1e-12
    assert np.isfinite(new.log).all()
    assert abs(new.x.sum() - 1.0) <= 1e-12


@pytest.mark.parametrize("geometry", ["entropy", "euclidean"])
def test_small_entropies_are_nearly_none(geometry):
    gradient = np.random.default_rng(7).standard_normal(N)
    sharp = CappedSimplex(N, CAPS).support(gradient)
    for strength in (1e-2, 1e-4, 1e-6):
        assert abs(CappedSimplex(N, CAPS, strength, geometry=geometry).support(gradient) - sharp) <= 2.0 * strength * math.log(N)


def test_what_makes_no_player():
    for make, words in [
        (lambda: CappedSimplex(4, 0.2), "raise cap to 0.25"),
        (lambda: CappedSimplex(4, [1.0, 1.0]), "cap must be a positive number, or 4"),
        (lambda: CappedSimplex(4, -1.0), "positive"),
        (lambda: Simplex(0), "whole number of 1 or more"),
        (lambda: Simplex(3, entropy=-1.0), "entropy must be a number of 0 or more"),
        (lambda: Simplex(3, entropy="much"), "entropy must be a number"),
        (lambda: Simplex(3, entropy=0.1, l2=0.1), "entropy or l2, not both"),
        (lambda: Simplex(3, l2=0.1, geometry="entropy"), "no closed form"),
        (lambda: Simplex(3, geometry="round"), "geometry must be"),
        (lambda: Ball(3, radius=0.0), "radius must be"),
        (lambda: Box(1.0, 0.0, 3), "lower at most upper"),
        (lambda: Box([1.0, 2.0], [3.0, 4.0, 5.0]), "as many numbers"),
        (lambda: Box(-math.inf, 0.0, 3), "finite"),
        (lambda: Space(3, l2=0.0), "needs l2 > 0"),
    ]:
        with pytest.raises(sd.InputError, match=words):
            make()
