"""Sums over rows of losses, slopes and conjugates: what values, dual points and intercepts of linear problems are made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.penalties.base import ROUNDING, largest, sum_conjugates, sum_values

__all__ = [
    "balance",
    "best_intercept",
    "best_multiple",
    "clip_to_domain",
    "conjugate_terms",
    "dual_room",
    "dual_value",
    "grouped_sum",
    "loss_terms",
    "mean_loss",
    "primal_value",
    "ray_peak",
    "ray_sums",
    "slopes",
    "total_slope",
]

EPS = float(np.finfo(float).eps)
GROUP = 512  # terms that are summed at a time


# The terms of a certificate are summed in groups, or by NumPy in pairs: one running sum over many rows would lose digits that gaps
# are made of. What a certificate takes is fused into few kernels, because on small data calls cost more than they compute
# (506 x 13 lasso, `evaluate`: 55 -> 23 us).


@kernel
def loss_terms(loss, y, s, z, b, out):
    """out_i = s_i l(y_i, z_i + b)."""
    for i in range(y.shape[0]):
        out[i] = s[i] * loss.value(y[i], z[i] + b)


@kernel
def slopes(loss, y, z, b, out):
    """out_i = l'(y_i, z_i + b)."""
    for i in range(y.shape[0]):
        out[i] = loss.slope(y[i], z[i] + b)


@kernel
def conjugate_terms(loss, y, s, a, scale, out):
    """out_i = s_i l*(y_i, scale a_i); 0 for rows without weight."""
    for i in range(y.shape[0]):
        term = s[i] * loss.conjugate(y[i], scale * a[i])
        out[i] = term if s[i] > 0.0 else 0.0


@kernel
def clip_to_domain(loss, y, a, out):
    """out_i = a_i moved into the domain of l*; returns how many moved."""
    moved = 0
    for i in range(y.shape[0]):
        low, high = loss.dual_lower(y[i]), loss.dual_upper(y[i])
        inside = a[i] if a[i] > low else low
        inside = inside if inside < high else high
        moved += inside != a[i]
        out[i] = inside
    return moved


@kernel(fast_sums=True)
def ray_sums(loss, y, s, a):
    """sum_i s_i y_i a_i and sum_i s_i a_i^2, the coefficients of a quadratic l* along the ray through a."""
    first, second = 0.0, 0.0
    for i in range(y.shape[0]):
        first += s[i] * y[i] * a[i]
        second += s[i] * a[i] * a[i]
    return first, second


@kernel(fast_sums=True)
def grouped_sum(loss, terms):
    """sum_i terms_i, by groups."""
    total = 0.0
    for first in range(0, terms.shape[0], GROUP):
        part = 0.0
        for i in range(first, min(first + GROUP, terms.shape[0])):
            part += terms[i]
        total += part
    return total


@kernel
def primal_value(loss, penalty, y, s, z, b, w, terms):
    """sum_i s_i l(y_i, z_i + b) + g(w)."""
    loss_terms(loss, y, s, z, b, terms)
    return grouped_sum(loss, terms) + sum_values(penalty, w)


@kernel
def dual_value(loss, penalty, y, s, a, Xta, scale, terms):
    """-sum_i s_i l*(y_i, scale a_i) - g*(-scale Xta)."""
    conjugate_terms(loss, y, s, a, scale, terms)
    return -grouped_sum(loss, terms) - sum_conjugates(penalty, Xta, -scale)


@kernel
def ray_peak(loss, y, s, a, bend):
    """The t that maximises -sum_i s_i l*(t a_i) where l* is y a + bend a^2 / 2 on a cone.

    Not much beyond 1: what balancing leaves of a point without content is rounding noise, and must stay that.
    """
    first, second = ray_sums(loss, y, s, a)
    return min(max(0.0, -first / (second * bend)), 2.0) if second > 0.0 else 1.0


@kernel
def best_multiple(loss, penalty, y, s, a, Xta, bend, threshold, l2, terms):
    """A t for which t a is feasible, and D(t a).

    Without an l2 part the largest, or where the dual has its peak if that is nearer; with one, whichever is better of 1 and of
    what is feasible for the l1 part alone.
    """
    top = largest(penalty, Xta)
    t = ray_peak(loss, y, s, a, bend) if bend > 0.0 and l2 == 0.0 else 1.0
    if l2 == 0.0 and t * top > threshold:
        t = threshold / top * (1.0 - ROUNDING)
    best, value = t, -math.inf
    for _ in range(2 if l2 > 0.0 and top > threshold > 0.0 else 1):  # (a loop, so that it is compiled once)
        there = dual_value(loss, penalty, y, s, a, Xta, t, terms)
        if there > value:
            best, value = t, there
        t = threshold / top if top > 0.0 else 1.0
    return best, value


@kernel(fast_sums=True)
def balance(loss, y, s, a, levels):
    """a = keep a + e with sum_i s_i a_i = 0, where e is constant on each class: returns keep and the two constants, of y > 0 first.

    The rows of `levels` are two such points in the domain of l*, whose sums are below and above zero; if they are infinite, any
    constant is in the domain.
    """
    excess, size, weight, room = 0.0, 0.0, 0.0, 0.0
    for i in range(y.shape[0]):
        excess += s[i] * a[i]
        size += s[i] * abs(a[i])
        weight += s[i]
    if abs(excess) <= 4.0 * EPS * size:
        return 1.0, 0.0, 0.0
    keep, up, down = 1.0, levels[0 if excess > 0.0 else 1, 0], levels[0 if excess > 0.0 else 1, 1]
    if math.isinf(up):
        up, down = -excess / weight, -excess / weight
    else:
        for i in range(y.shape[0]):
            room += s[i] * abs(up if y[i] > 0.0 else down)
        share = abs(excess) / (abs(excess) + room)
        keep, up, down = 1.0 - share, share * up, share * down
    for i in range(y.shape[0]):
        a[i] = keep * a[i] + (up if y[i] > 0.0 else down)
    return keep, up, down


@kernel
def dual_room(loss, y):
    """The largest lower and the smallest upper end of the domains of l*."""
    low, high = -math.inf, math.inf
    for i in range(y.shape[0]):
        low, high = max(low, loss.dual_lower(y[i])), min(high, loss.dual_upper(y[i]))
    return low, high


@kernel(fast_sums=True)
def total_slope(loss, y, s, z, b):
    """Slope, curvature and sum of absolute slopes of b -> sum_i s_i l(y_i, z_i + b)."""
    slope, curvature, size = 0.0, 0.0, 0.0
    for i in range(y.shape[0]):
        term = s[i] * loss.slope(y[i], z[i] + b)
        slope += term
        size += abs(term)
        curvature += s[i] * loss.curvature(y[i], z[i] + b)
    return slope, curvature, size


@kernel
def best_intercept(loss, y, s, z, b):
    """argmin_b sum_i s_i l(y_i, z_i + b) from a start b: Newton steps on the slope inside a growing bracket."""
    low, high, width = -math.inf, math.inf, 1.0
    for _ in range(200):
        slope, curvature, size = total_slope(loss, y, s, z, b)
        if abs(slope) <= EPS * size:
            break
        if slope > 0.0:
            high = b
        else:
            low = b
        step = -slope / curvature if curvature > 0.0 else math.copysign(width, -slope)
        if abs(step) > width:  # a flat part of the loss: do not leap
            step = math.copysign(width, step)
            width *= 2.0
        trial = b + step
        if trial == b or high - low <= EPS * abs(b):
            break
        if not low < trial < high:
            trial = 0.5 * (low + high)
        b = trial
    return b


def mean_loss(loss: Any, y: np.ndarray, s: np.ndarray, z: np.ndarray, b: float = 0.0) -> float:
    """sum_i s_i l(y_i, z_i + b)."""
    terms = np.empty(len(y))
    loss_terms(loss, y, s, z, float(b), terms)
    return float(terms.sum())
