"""The balance of dual points that a free intercept asks for: sum_i s_i a_i = 0.

An intercept is the multiplier of that constraint. Dual ascent meets it by an augmented term (the method of multipliers, on b alone,
so that the rest of the problem keeps its own strong convexity): around a centre c

    max_a  D(a) + c u - sigma / 2 u^2,        u = sum_i s_i a_i,        b = c - sigma u

which is one more column of ones, with a weight of its own; then c = b. On the rows F that are at no bound, u moves the multiplier
by 1 / (1'K^-1 1), K = X_F X_F' / mu; with sigma as large as a row's share of K the centre is right after a few rounds, often one.

What is left of u is taken from rows at no bound: there D + b u is flat, so that D falls by u^2 only, and the gap of the point is
that of its rows for any b.

`intercept` is an array of three numbers: c / sigma - u, sigma and c / sigma.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.parts import kernel

__all__ = ["SHARE", "balance", "recentre"]

import os
SHARE = float(os.environ.get("KAPPA","0.2"))  # of the mean curvature of a row: sigma


@kernel
def recentre(loss, intercept):
    """c = b."""
    centre = intercept[0]
    intercept[0] = 2.0 * centre - intercept[2]
    intercept[2] = centre


@kernel
def room_of_free(loss, y, s, a, sign, room):
    """How far s_i a_i of the rows at no bound can move to the side `sign`, at most s_i; returns the sum."""
    total = 0.0
    for i in range(y.shape[0]):
        low, high = loss.dual_lower(y[i]), loss.dual_upper(y[i])
        room[i] = 0.0
        if low < a[i] < high:
            room[i] = s[i] * min(high - a[i] if sign > 0.0 else a[i] - low, 1.0)
            total += room[i]
    return total


@kernel
def balance(loss, y, s, a, excess, change):
    """Take an excess off sum_i s_i a_i by moves of the free rows, change_i = -s_i da_i; returns whether they have room for it."""
    if excess == 0.0:
        return False
    total = room_of_free(loss, y, s, a, -excess, change)
    if total < abs(excess):
        return False
    factor = excess / total
    for i in range(y.shape[0]):
        if change[i] != 0.0:
            change[i] *= factor
            a[i] = min(max(a[i] - change[i] / s[i], loss.dual_lower(y[i])), loss.dual_upper(y[i]))  # but for rounding
    return True
