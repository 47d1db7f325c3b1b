"""Dual ascent with a free intercept: its multiplier is b, and the dual has to balance, sum_i s_i a_i = 0.

The method of multipliers on b alone, so that the rest of the problem keeps its own strong convexity. With u = sum_i s_i a_i, any
vector m and any centre c, the dual with K replaced by that of the rows x_i - m, and with one more column of ones,

    max_a  D(a) + c u - sigma u^2 / 2 - u (m.v + u |m|^2 / 2) / mu,        v = -X'(s a),        b + m.w = c - sigma u

is the same where u = 0; then c = b + m.w. Where rows have much in common, w can stand in for b and they pull at each other; with m
the mean of the rows at no bound, they do not (a9a, hinge, l2 of 1 / n: 248 -> 120 ms, with m = 0 and without). What an epoch leaves
of u is taken from the rows at no bound: D + b u is flat there, so that D falls by u^2 only, and the point balances.

`intercept` holds five numbers: u, m.v / mu, c, sigma + |m|^2 / mu and sigma; `along` the products x_i.m / mu. The intercept that
row i sees is

    c - m.v / mu - (sigma + |m|^2 / mu - x_i.m / mu) u
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlery.matrix import Matrix
from saddlery.matrix.vectors import combine
from saddlery.parts import kernel

__all__ = ["LIFT", "Offset", "add_products", "balance", "mark_free", "offset_of", "settle"]

SHARE = 0.2  # of the mean curvature of a row: sigma
LIFT = 3.0  # factor of sigma where no row has room


class Offset(NamedTuple):
    """The intercept as dual ascent sees it; see the top of the file. `m` is the common part of the rows, None if it is zero."""

    numbers: np.ndarray
    along: np.ndarray
    m: np.ndarray | None = None


@kernel
def mark_free(loss, y, a, out):
    """out_i becomes true where a_i lies strictly between its bounds."""
    for i in range(y.shape[0]):
        out[i] = out[i] or loss.dual_lower(y[i]) < a[i] < loss.dual_upper(y[i])


@kernel
def room_of_free(loss, y, s, a, side, room):
    """How far s_i a_i of the rows at no bound can move to a side, at most s_i; returns the sum."""
    total = 0.0
    for i in range(y.shape[0]):
        low, high = loss.dual_lower(y[i]), loss.dual_upper(y[i])
        room[i] = 0.0
        if low < a[i] < high:
            room[i] = s[i] * min(high - a[i] if side > 0.0 else a[i] - low, 1.0)
            total += room[i]
    return total


@kernel
def balance(loss, y, s, a, excess, change):
    """Take an excess off sum_i s_i a_i by moves of the free rows, change_i = -s_i da_i; returns whether they have room for it."""
    total = room_of_free(loss, y, s, a, -excess, change)
    if excess == 0.0 or total < abs(excess):
        return False
    factor = excess / total
    for i in range(y.shape[0]):
        if change[i] != 0.0:
            change[i] *= factor
            a[i] = min(max(a[i] - change[i] / s[i], loss.dual_lower(y[i])), loss.dual_upper(y[i]))  # but for rounding
    return True


def offset_of(loss: Any, matrix: Matrix, y: Any, s: Any, a: Any, v: np.ndarray, mu: float, b: float, excess: float, lift: float, used: Any) -> Offset:
    """The offset around the intercept b, for an ascent on these rows; `central` says whether w = v / mu, as m asks for."""
    sizes, along, level, m, product = matrix.row_square_norms, np.zeros(len(y)), 0.0, None, 0.0
    if used is not None:
        free = np.zeros(len(y), dtype=bool)
        mark_free(loss, y, a, free)
        weights = s * free if free.any() else s
        m = np.zeros(len(v))
        add_products(matrix, weights / weights.sum(), m)
        m *= used
        along, level, product = matrix.matvec(m) / mu, float(m @ m) / mu, float(m @ v) / mu
    curvature = sizes / mu - 2.0 * along + level
    sigma = SHARE * lift * float(curvature.mean())
    return Offset(np.array([excess, product, b + product, sigma + level, sigma]), along, m)


def settle(loss: Any, matrix: Matrix, y: Any, s: Any, a: Any, v: np.ndarray, offset: Offset) -> bool:
    """Balance the point, if the free rows have room; returns whether it balances."""
    numbers, change = offset.numbers, np.empty(len(y))
    if numbers[0] == 0.0:
        return True
    if not balance(loss, y, s, a, float(numbers[0]), change):
        return False
    add_products(matrix, change, v)
    numbers[1] += change @ offset.along
    numbers[2] -= numbers[4] * numbers[0]
    numbers[0] = 0.0
    return True


def add_products(matrix: Matrix, a: np.ndarray, out: np.ndarray) -> None:
    """out += X' a, reading only the rows where a is not zero."""
    if matrix.compiled:
        combine(matrix.rows, a, out)
    else:
        out += matrix.rmatvec(a)
