"""The F-score set: steps against extended precision and a conic solver, support functions against enumeration, labellings."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest

from saddlery.errors import InputError
from saddlery.geometry.fscore_set import FScoreSet, draw_labels, marginals, mix_to_size, systematic_atoms

EXACT = {"solver": "CLARABEL", "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}


def constraints(x):
    n = x.shape[0]
    sizes = np.arange(1, n + 1)[:, None]
    return [x >= 0, cp.sum(x) <= 1, cp.multiply(sizes, x) <= cp.sum(x, axis=1, keepdims=True) @ np.ones((1, n))]


def random_table(n, rng, sharp=1.0):
    """A table of a random distribution over labellings."""
    Y = rng.random((30, n)) < rng.random((30, 1))
    p = rng.dirichlet(np.full(30, sharp))
    x = np.zeros((n, n))
    for y, mass in zip(Y, p, strict=True):
        if y.any():
            x[y.sum() - 1] += mass * y / y.sum()
    return x


def kl_projection(b):
    """argmin KL(x, exp(b)) over the set in long double: c of each row by bisection, then the masses."""
    n = b.shape[0]
    b = b.astype(np.longdouble)
    u, value = np.empty_like(b), np.empty(n, dtype=np.longdouble)
    for i in range(1, n + 1):
        cap = np.longdouble(1) / i
        low, high = -b[i - 1].max() - 50, -b[i - 1].min() + 50
        for _ in range(200):
            c = (low + high) / 2
            low, high = (c, high) if np.minimum(np.exp(b[i - 1] + c), cap).sum() < 1 else (low, c)
        u[i - 1] = np.minimum(np.exp(b[i - 1] + c), cap)
        value[i - 1] = (u[i - 1] * (np.log(u[i - 1]) - b[i - 1])).sum()
    top = (-value).max()
    log_z = top + np.log(np.exp(-value - top).sum())
    return np.exp(-value - max(log_z, np.longdouble(0)))[:, None] * u


@pytest.mark.parametrize("n", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
def test_kl_step_against_extended_precision(n, spread):
    """Also where most entries of a row are capped, with ties, and with masses below and above 1."""
    rng = np.random.default_rng(n)
    player = FScoreSet(n, 0.3)
    for shift in (-40.0, 0.0, 40.0):
        gradient = np.round(spread * rng.standard_normal((n, n)), 1) + shift
        state = player.prox(player.start(), gradient, 0.7)
        b = (player.start().log - 0.7 * gradient - 0.21) / 1.21
        np.testing.assert_allclose(state.x, kl_projection(b).astype(float), rtol=0, atol=1e-12)
        np.testing.assert_allclose(np.exp(state.log), state.x, rtol=1e-12, atol=1e-300)
        assert player.is_inside(state.x)
        if spread < 1.0:
            assert (state.x.sum() < 0.5) == (shift > 0.0)


def test_kl_step_with_logits_far_apart():
    """A spread of 400 leaves logs finite and the table feasible."""
    rng = np.random.default_rng(0)
    player = FScoreSet(12, 0.0)
    state = player.start()
    for _ in range(5):
        state = player.prox(state, 100.0 * rng.standard_normal((12, 12)), 1.0)
        assert np.isfinite(state.log).all()
        assert player.is_inside(state.x)


@pytest.mark.parametrize("size", [None, 2.5])
def test_kl_step_against_a_conic_solver(size):
    n = 5
    rng = np.random.default_rng(1)
    player = FScoreSet(n, 0.5, size=size)
    state, gradient = player.start(), rng.standard_normal((n, n))
    x = cp.Variable((n, n))
    objective = 0.8 * cp.sum(cp.multiply(gradient, x)) - 1.4 * cp.sum(cp.entr(x)) - cp.sum(cp.multiply(x, state.log)) - cp.sum(x)
    fixed = [] if size is None else [cp.sum(np.arange(1, n + 1) @ x) == size]
    cp.Problem(cp.Minimize(objective), constraints(x) + fixed).solve(solver="CLARABEL")
    found = player.prox(state, gradient, 0.8).x
    np.testing.assert_allclose(found, x.value, atol=1e-5)
    if size is not None:
        assert marginals(found).sum() == pytest.approx(size, abs=1e-10)


@pytest.mark.parametrize("scale", [0.02, 0.3, 3.0])
def test_euclidean_step_against_a_quadratic_program(scale):
    n = 6
    rng = np.random.default_rng(2)
    player = FScoreSet(n, geometry="euclidean")
    for _ in range(2):
        v = scale * rng.standard_normal((n, n))
        x = cp.Variable((n, n))
        cp.Problem(cp.Minimize(cp.sum_squares(x - v)), constraints(x)).solve(**EXACT)
        np.testing.assert_allclose(player.prox(np.zeros((n, n)), -v, 1.0), x.value, atol=1e-9)


def test_euclidean_step_is_a_projection():
    """Variational inequality at random points, zero from below, and no jump where a row appears."""
    rng = np.random.default_rng(3)
    player = FScoreSet(15, geometry="euclidean")
    for scale in (0.05, 1.0):
        v = scale * rng.standard_normal((15, 15))
        x = player.prox(np.zeros((15, 15)), -v, 1.0)
        assert player.is_inside(x)
        assert max(float(np.vdot(v - x, random_table(15, rng) - x)) for _ in range(50)) <= 1e-12
        np.testing.assert_allclose(player.prox(x, np.zeros_like(x), 1.0), x, atol=1e-13)
    assert not player.prox(np.zeros((15, 15)), np.ones((15, 15)), 1.0).any()
    v = -np.ones((15, 15))
    v[4, :5] = [1.0, 0.5, 0.0, -0.5, -1.0 + 1e-7]  # the mean of the five largest is just above 0
    row = player.prox(np.zeros((15, 15)), -v, 1.0)[4]
    assert 0.0 < row.sum() < 1e-6


def test_support_functions_against_enumeration():
    """h_0 is the best of all 2^n labellings; h_mu tends to it and is attained by the response."""
    n = 5
    rng = np.random.default_rng(4)
    for shift in (-3.0, 0.0):
        gradient = rng.standard_normal((n, n)) + shift
        best = 0.0
        for y in itertools.product([0, 1], repeat=n):
            if any(y):
                best = max(best, gradient[sum(y) - 1] @ np.array(y) / sum(y))
        assert FScoreSet(n).support(gradient) == pytest.approx(best, abs=1e-14)
        assert np.vdot(FScoreSet(n).response(gradient), gradient) == pytest.approx(best, abs=1e-14)
        gaps = [abs(FScoreSet(n, mu).support(gradient) - best) for mu in (1e-1, 1e-2, 1e-3)]
        assert gaps[0] > gaps[1] > gaps[2]
        assert gaps[2] < 0.02
        for mu in (0.1, 1.0):
            player = FScoreSet(n, mu)
            x = player.response(gradient)
            assert player.support(gradient) == pytest.approx(np.vdot(gradient, x) - player.value(x), abs=1e-12)


@pytest.mark.parametrize("mu", [0.0, 0.4])
def test_support_with_a_fixed_size(mu):
    """The price of size minimises; weak duality against random tables, and equality for the smooth response."""
    n, size = 6, 2.3
    rng = np.random.default_rng(5)
    player, gradient = FScoreSet(n, mu, size=size), rng.standard_normal((n, n))
    value, plain = player.support(gradient), FScoreSet(n, mu)
    for t in np.linspace(-2, 2, 41):
        assert value <= plain.support(gradient - t * np.arange(1, n + 1)[:, None]) + t * size + 1e-12
    for _ in range(20):
        x = mix_to_size(random_table(n, rng), size)
        assert np.vdot(gradient, x) - player.value(x) <= value + 1e-12
    if mu > 0.0:
        x = player.response(gradient)
        assert np.vdot(gradient, x) - player.value(x) == pytest.approx(value, abs=1e-10)


def test_divergence_and_value():
    rng = np.random.default_rng(6)
    player = FScoreSet(4, 0.7)
    one, two = (player.prox(player.start(), rng.standard_normal((4, 4)), 1.0) for _ in range(2))
    expected = np.sum(one.x * np.log(one.x / two.x) - one.x + two.x)
    assert player.divergence(one, two) == pytest.approx(expected, abs=1e-13)
    assert player.divergence(one, one) == pytest.approx(0.0, abs=1e-15)
    assert player.value(one.x) == pytest.approx(0.7 * np.sum(one.x * np.log(one.x)))
    assert player.value(one.x + 1.0) == math.inf


# --------------------------------------------------------------------------- labellings


def test_systematic_sampling_has_exact_marginals():
    rng = np.random.default_rng(7)
    for _ in range(200):
        n = int(rng.integers(1, 12))
        i = int(rng.integers(1, n + 1))
        v = np.mean([np.isin(np.arange(n), rng.choice(n, i, replace=False)) for _ in range(int(rng.integers(1, 5)))], axis=0)
        weights, sets = systematic_atoms(v)
        assert len(weights) <= n
        assert all(len(set(rows.tolist())) == i for rows in sets)
        found = np.zeros(n)
        for weight, rows in zip(weights, sets, strict=True):
            found[rows] += weight
        np.testing.assert_allclose(found, v, atol=4e-15)


def printed_construction(v, i):
    """(18) of the paper: probabilities of the sets of i rows, and what is left of marginals for which no set is left."""
    n = v.size
    with_row = {j: {y for y in itertools.combinations(range(n), i) if j in y} for j in range(n)}
    left, p, lost = v.astype(float).copy(), {}, 0.0
    rows = set(range(n))
    while rows:
        j = min(rows, key=lambda k: left[k])
        rows.remove(j)
        if not with_row[j]:
            lost += left[j]
            continue
        for y in with_row[j]:
            p[y] = left[j] / len(with_row[j])
        for k in rows:
            left[k] -= left[j] * len(with_row[k] & with_row[j]) / len(with_row[j])
            with_row[k] -= with_row[j]
    return p, lost


def test_the_printed_construction_fails():
    """i = 2 and marginals (0.9, 0.6, 0.5), which are feasible: (18) leaves 0.3 of a marginal when no set of rows is left."""
    v = np.array([0.9, 0.6, 0.5])
    p, lost = printed_construction(v, 2)
    assert lost == pytest.approx(0.3)
    found = np.array([sum(mass for y, mass in p.items() if k in y) for k in range(3)])
    assert np.abs(found - v).max() == pytest.approx(0.3)
    weights, sets = systematic_atoms(v)
    found = np.zeros(3)
    for weight, rows in zip(weights, sets, strict=True):
        found[rows] += weight
    np.testing.assert_allclose(found, v, atol=1e-15)


def test_drawn_labels_follow_the_table():
    rng = np.random.default_rng(8)
    x = random_table(6, rng)
    draws = np.array([draw_labels(x, rng) for _ in range(4000)])
    np.testing.assert_allclose(draws.mean(axis=0), marginals(x), atol=0.03)
    assert set(np.unique(draws)) <= {0, 1}


def test_refusals():
    with pytest.raises(InputError, match="double_oracle"):
        FScoreSet(10_000)
    with pytest.raises(InputError, match="geometry"):
        FScoreSet(3, geometry="round")
    with pytest.raises(InputError, match="entropy"):
        FScoreSet(3, -1.0)
    with pytest.raises(InputError, match="between 0 and 3"):
        FScoreSet(3, size=3.0)
    with pytest.raises(InputError, match="Euclidean steps"):
        FScoreSet(3, geometry="euclidean", size=1.0)
