"""Trees and capped simplices against their brute-force twins, a conic solver, and their own laws."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import stats

from saddlery.sampling.capped import Caps, project_capped
from saddlery.sampling.capped_tree import draw_capped, new_capped_tree, place, rebuild_capped, settle, threshold, write
from saddlery.sampling.sum_tree import draw_leaf, new_tree, rebuild, set_leaf


def capped(logs, s, cap, mass):
    """The twin: try all numbers of capped rows, largest ratios first."""
    ratio = np.exp(logs - logs.max())
    if mass / cap >= s.sum() * (1.0 - 1e-14):
        return s * mass / s.sum()
    order = np.argsort(-ratio)
    for count in range(len(s)):
        theta = (s * ratio)[order[count:]].sum() / (mass / cap - s[order[:count]].sum())
        if ratio[order[count]] <= theta * (1.0 + 1e-14):
            break
    return s * cap * np.minimum(1.0, ratio / theta)


def projected(logs, s, cap, mass, reference=0.0, scale=1.0):
    p = np.zeros(len(s))
    caps = Caps(s, np.arange(len(s)), cap, mass)
    reference = project_capped(caps, scale, np.asarray(logs, dtype=float), np.empty(len(s)), p, reference)
    return p, reference


# --------------------------------------------------------------------------- projections


@pytest.mark.parametrize("seed", range(5))
def test_projection_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    for spread in (1.0, 10.0, 1000.0):
        n = int(rng.integers(2, 20))
        s = rng.random(n) + 0.05
        s /= s.sum()
        logs, cap, mass = spread * rng.standard_normal(n), 1.0 / rng.uniform(0.1, 0.95), rng.choice([0.5, 1.0])
        p, reference = projected(logs, s, cap, mass, rng.standard_normal() * spread)
        assert p.sum() == pytest.approx(mass, abs=1e-12)
        assert (p <= cap * s * (1.0 + 1e-12)).all()
        if spread < 100.0:  # the twin underflows beyond
            np.testing.assert_allclose(p, capped(logs, s, cap, mass), rtol=1e-9, atol=1e-14)
        free = p < cap * s * (1.0 - 1e-9)
        with np.errstate(divide="ignore"):
            level = np.log(p[free] / (cap * s[free])) - logs[free]
        np.testing.assert_allclose(level[np.isfinite(level)], -reference, rtol=1e-9, atol=1e-9)


def test_projection_against_a_conic_solver():
    """Nearest in relative entropy."""
    rng = np.random.default_rng(0)
    s = rng.random(6) + 0.2
    s /= s.sum()
    logs = 1.5 * rng.standard_normal(6)
    q = s * np.exp(logs)
    p = cp.Variable(6)
    cp.Problem(cp.Minimize(cp.sum(cp.kl_div(p, q / q.sum()))), [p <= 2.0 * s, cp.sum(p) == 1.0]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(projected(logs, s, 2.0, 1.0)[0], p.value, atol=1e-5)


def test_projection_without_room_or_without_cap():
    s = np.full(4, 0.25)
    np.testing.assert_allclose(projected([5.0, 0.0, 0.0, -9.0], s, 1.0, 1.0)[0], s)  # all capped
    p = projected(np.log([0.4, 0.3, 0.2, 0.1]), s, 4.0, 1.0)[0]  # a cap of 1 never binds
    np.testing.assert_allclose(p, [0.4, 0.3, 0.2, 0.1])
    np.testing.assert_allclose(projected([0.0, -2000.0, -2001.0, 900.0], s, 2.0, 1.0)[0], [0.5, 0.0, 0.0, 0.5], atol=1e-300)


# --------------------------------------------------------------------------- sums


@pytest.mark.parametrize("count", [1, 2, 5, 8, 33])
def test_sum_tree_against_brute_force(count):
    rng = np.random.default_rng(count)
    tree, values = new_tree(count), np.zeros(count)
    for _ in range(100):
        j, value = int(rng.integers(count)), float(rng.random() < 0.7) * rng.random() ** 8
        set_leaf(tree, j, value)
        values[j] = value
        assert tree[1] == pytest.approx(values.sum(), rel=1e-14)
        if values.any():
            u = rng.random()
            j = draw_leaf(tree, u)
            sums = np.append(0.0, np.cumsum(values))
            assert values[j] > 0.0
            assert sums[j] - 1e-12 <= u * sums[-1] <= sums[j + 1] + 1e-12
    again = tree.copy()
    rebuild(again)
    np.testing.assert_array_equal(again, tree)


def test_draws_never_end_at_a_zero():
    """Rounding may take the descent past the last positive leaf: it turns to the sibling that has something."""
    tree = new_tree(8)
    for j, value in enumerate([0.0, 1e-30, 0.0, 1.0, 0.0, 1e-17, 0.0, 0.0]):
        set_leaf(tree, j, value)
    for u in (0.0, 1e-40, 0.3, 1.0 - 2.0**-53, np.nextafter(1.0, 0.0), 1.0):
        assert draw_leaf(tree, u) in (1, 3, 5)


def test_frequencies():
    """Chi-square of draws from the sum tree and from the capped tree, capped rows included."""
    rng = np.random.default_rng(0)
    weights = np.array([1.0, 2.0, 0.0, 3.0, 4.0])
    tree = new_tree(5)
    for j, value in enumerate(weights):
        set_leaf(tree, j, value)
    drawn = np.bincount([draw_leaf(tree, u) for u in rng.random(20_000)], minlength=5)
    assert drawn[2] == 0
    assert stats.chisquare(drawn[weights > 0], 20_000 * weights[weights > 0] / 10.0).pvalue > 1e-3
    s, logs = np.array([0.1, 0.3, 0.2, 0.25, 0.15]), np.array([2.0, 0.0, 1.0, -1.0, 3.0])
    p = capped(logs, s, 1.8, 1.0)
    assert (p >= 1.8 * s * (1.0 - 1e-12)).sum() >= 2
    tree, room = grown(np.exp(logs), s, 1.0 / 1.8)
    drawn = np.bincount([draw_capped(tree, room, u, v) for u, v in rng.random((20_000, 2))], minlength=5)
    assert stats.chisquare(drawn, 20_000 * p).pvalue > 1e-3


# --------------------------------------------------------------------------- capped trees


def grown(ratio, s, room):
    """A settled tree over the given rows."""
    tree, sides = new_capped_tree(len(s)), np.zeros(len(s), dtype=bool)
    for leaf in range(len(s)):
        write(tree, leaf, ratio[leaf], s[leaf], False)
    rebuild_capped(tree)
    moves(tree, room, ratio, s, sides)
    return tree, room


def moves(tree, room, ratio, s, sides):
    count = 0
    while (leaf := settle(tree, room)) >= 0:
        sides[leaf] = not sides[leaf]
        place(tree, leaf, ratio[leaf], s[leaf], sides[leaf])
        count += 1
        assert count <= 4 * len(s), "rows move back and forth"


@pytest.mark.parametrize("seed", range(4))
def test_capped_tree_against_brute_force(seed):
    """Ratios change a few at a time: sides, theta and the weights are those of the projection, and nothing drifts."""
    rng = np.random.default_rng(seed)
    n = 23
    s = np.full(n, 1.0 / n) if seed % 2 else rng.random(n)
    s /= s.sum()
    slack, mass = [0.05, 0.3, 0.7, 0.95][seed], 1.0
    logs, sides, tree = np.zeros(n), np.zeros(n, dtype=bool), new_capped_tree(n)
    for leaf in range(n):
        write(tree, leaf, 1.0, s[leaf], False)
    rebuild_capped(tree)
    for _ in range(200):
        for leaf in rng.choice(n, size=rng.integers(1, 6), replace=False):
            logs[leaf] += rng.standard_normal()
            place(tree, leaf, np.exp(logs[leaf]), s[leaf], sides[leaf])
        moves(tree, mass * slack, np.exp(logs), s, sides)
        theta = threshold(tree, mass * slack)
        p = s / slack * np.where(sides, 1.0, np.exp(logs) / theta)
        np.testing.assert_allclose(p, capped(logs, s, 1.0 / slack, mass), rtol=1e-9, atol=1e-14)
        again = tree.copy()
        rebuild_capped(again)
        np.testing.assert_array_equal(again, tree)


def test_ties_at_whole_numbers_of_rows():
    """Equal ratios, and room for exactly two rows: p stays on the simplex whatever the sides."""
    for ratio in np.array([[1.0, 1.0, 1.0, 1.0], [5.0, 5.0, 1e-200, 1e-200], [5.0, 5.0, 0.0, 0.0]]):
        s = np.full(4, 0.25)
        sides, tree = np.zeros(4, dtype=bool), new_capped_tree(4)
        for leaf in range(4):
            write(tree, leaf, ratio[leaf], 0.25, False)
        rebuild_capped(tree)
        moves(tree, 0.5, ratio, s, sides)
        p = 0.5 * np.where(sides, 1.0, ratio / threshold(tree, 0.5))
        assert p.sum() == pytest.approx(1.0)
        assert p.max() <= 0.5 * (1.0 + 1e-12)
