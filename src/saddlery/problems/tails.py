"""Sums over the smallest margins: lower tails, water levels, and the intercepts that make them largest.

All take margins m and row weights s; a row of weight 2 is the row twice, and a row of weight 0 is none. With Z the matrix of the
rows ``y_i x_i`` the margins are ``m = Z w + b y``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

__all__ = ["Split", "Tail", "best_level", "fill", "lower_tail", "shift_to_mass", "tail_weights", "top_sum", "water_level"]

SEARCHES = 100  # halvings of the interval in which a capped intercept lies


class Tail(NamedTuple):
    """``total`` = sum of s_i m_i over the rows with the smallest margins; at ``level`` the weight was spent."""

    total: float
    level: float


class Split(NamedTuple):
    """The largest level, and the intercept that reaches it."""

    level: float
    b: float


def lower_tail(m: np.ndarray, s: np.ndarray, weight: float) -> Tail:
    """The rows with the smallest margins, up to the given weight; the last one counts in part.

    Examples
    --------
    >>> lower_tail(np.array([3.0, 1.0, 2.0]), np.full(3, 0.5), 0.75)
    Tail(total=1.0, level=2.0)
    """
    order = np.argsort(m, kind="stable")
    m, s = m[order], s[order]
    sums = np.cumsum(s)
    last = min(int(np.searchsorted(sums, weight * (1.0 - 1e-15))), len(m) - 1)
    before = sums[last - 1] if last else 0.0
    return Tail(float(s[:last] @ m[:last] + (weight - before) * m[last]), float(m[last]))


def tail_weights(m: np.ndarray, s: np.ndarray, weight: float) -> np.ndarray:
    """The weights that :func:`lower_tail` gave to the rows, s_i or less; they sum to `weight`."""
    order = np.argsort(m, kind="stable")
    sums = np.cumsum(s[order])
    out = np.empty(len(m))
    out[order] = np.clip(weight - (sums - s[order]), 0.0, s[order])
    return out


def water_level(m: np.ndarray, s: np.ndarray, budget: float, cap: float = math.inf) -> float:
    """The level g with ``sum_i s_i (g - m_i)_+ = budget``, not above min m + cap.

    Examples
    --------
    >>> water_level(np.array([0.0, 1.0, 5.0]), np.ones(3), 3.0)
    2.0
    """
    present = s > 0.0
    m, s = m[present], s[present]
    order = np.argsort(m, kind="stable")
    m, s = m[order], s[order]
    level = _levels(m, s, budget)
    return float(min(level, m[0] + cap))


def _levels(m: np.ndarray, s: np.ndarray, budget: float) -> float:
    """The water level of sorted margins."""
    weight, total = np.cumsum(s), np.cumsum(s * m)
    levels = (budget + total) / weight
    inside = np.flatnonzero(levels[:-1] <= m[1:])
    return float(levels[inside[0]] if len(inside) else levels[-1])


def best_level(m: np.ndarray, y: np.ndarray, s: np.ndarray, budget: float, cap: float = math.inf) -> Split:
    """The largest water level of ``m + b y`` over intercepts b (with ``abs(b) <= cap / 2`` if slacks are capped).

    With u = g - b and v = g + b the rows of the two classes are filled up to u and v on their own margins. At the best b the
    weights under water agree, so one walks over that weight: u and v rise in turn until the budget is spent.

    Examples
    --------
    >>> best_level(np.array([1.0, 3.0]), np.array([1.0, -1.0]), np.full(2, 0.5), 0.0)
    Split(level=2.0, b=1.0)
    """
    plus, minus = (_sorted(m, s, (y == sign) & (s > 0.0)) for sign in (1.0, -1.0))
    split = _walk(plus, minus, budget)
    if math.isfinite(cap):
        b = min(max(split.b, -0.5 * cap), 0.5 * cap)
        if b == split.b and split.level <= min(plus[0][0] + b, minus[0][0] - b) + cap:
            return split
        return _capped_search(m, y, s, budget, cap)
    return split


def _sorted(m: np.ndarray, s: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(m[chosen], kind="stable")
    return m[chosen][order], s[chosen][order]


def _walk(plus: tuple[np.ndarray, np.ndarray], minus: tuple[np.ndarray, np.ndarray], budget: float) -> Split:
    """The best level of two classes whose margins are sorted."""
    (mu, su), (mv, sv) = plus, minus
    cu, cv = np.cumsum(su), np.cumsum(sv)
    most = min(cu[-1], cv[-1])
    weights = np.union1d(cu[cu < most * (1.0 - 1e-14)], cv[cv < most * (1.0 - 1e-14)])
    weights = np.append(weights, most)  # under water, each class: the weights at which u or v may rise
    parts = []
    for m, s, c in ((mu, su, cu), (mv, sv, cv)):
        low = np.minimum(np.searchsorted(c, weights * (1.0 - 1e-14)), len(m) - 1)
        high = np.searchsorted(c, weights * (1.0 + 1e-14), side="right")
        level = np.append(m, np.inf)[high]
        level[-1] = np.inf if c[-1] <= most * (1.0 + 1e-14) else level[-1]
        sums, moments = np.append(0.0, c), np.append(0.0, np.cumsum(s * m))
        cost = m[low] * sums[low] - moments[low]  # of filling up to the lower end
        parts.append((m[low], level, cost))
    (u0, u1, cost_u), (v0, v1, cost_v) = parts
    spent = cost_u + cost_v
    at = max(int(np.searchsorted(spent, budget, side="right")) - 1, 0)
    room = max(budget - spent[at], 0.0) / weights[at]
    up = min(room, u1[at] - u0[at])
    u, v = u0[at] + up, v0[at] + min(room - up, v1[at] - v0[at])
    return Split(float(0.5 * (u + v)), float(0.5 * (v - u)))


def _capped_search(m: np.ndarray, y: np.ndarray, s: np.ndarray, budget: float, cap: float) -> Split:
    """The level is concave in b: golden sections of the interval."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    low, high = -0.5 * cap, 0.5 * cap
    level = lambda b: water_level(m + b * y, s, budget, cap)  # noqa: E731
    inner = [high - ratio * (high - low), low + ratio * (high - low)]
    values = [level(b) for b in inner]
    for _ in range(SEARCHES):
        if values[0] < values[1]:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + ratio * (high - low)
            values[1] = level(inner[1])
        else:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - ratio * (high - low)
            values[0] = level(inner[0])
    ends = [(value, b) for value, b in zip(values, inner, strict=True)]
    ends += [(level(b), b) for b in (-0.5 * cap, 0.0, 0.5 * cap)]
    best, b = max(ends)
    return Split(float(best), float(b))


def fill(a: np.ndarray, s: np.ndarray, budget: float, cap: float) -> np.ndarray:
    """The slacks that maximise sum_i s_i a_i xi_i over 0 <= xi <= cap, sum_i s_i xi_i <= budget: cap on the largest a_i."""
    order = np.argsort(-a, kind="stable")
    s = s[order]
    sums = np.cumsum(s)
    xi = np.empty(len(a))
    xi[order] = np.clip(np.divide(budget - cap * (sums - s), s, out=np.zeros(len(s)), where=s > 0.0), 0.0, cap)
    return xi


def top_sum(a: np.ndarray, s: np.ndarray, budget: float, cap: float = math.inf) -> float:
    """The value of :func:`fill`; ``budget * max a`` without a cap."""
    if math.isinf(cap):
        return budget * float(np.max(a[s > 0.0]))
    return float(np.sum(s * a * fill(a, s, budget, cap)))


def shift_to_mass(a: np.ndarray, s: np.ndarray, cap: float, mass: float) -> np.ndarray:
    """``clip(a_i + t, 0, cap)`` with the t at which ``sum_i s_i a_i = mass``: the nearest point of a capped simplex.

    Examples
    --------
    >>> shift_to_mass(np.array([0.0, 4.0]), np.full(2, 0.5), 1.5, 1.0)
    array([0.5, 1.5])
    """
    if mass >= cap * s.sum() * (1.0 - 1e-14):
        return np.full(len(a), mass / s.sum())
    bends = np.concatenate([-a, cap - a])
    order = np.argsort(bends, kind="stable")
    bends = bends[order]
    slopes = np.cumsum(np.concatenate([s, -s])[order])
    masses = np.append(0.0, np.cumsum(slopes[:-1] * np.diff(bends)))
    at = max(int(np.searchsorted(masses, mass)) - 1, 0)
    while slopes[at] <= 0.0 and at > 0:  # rounding
        at -= 1
    t = bends[at] + (mass - masses[at]) / slopes[at]
    return np.clip(a + t, 0.0, cap)
