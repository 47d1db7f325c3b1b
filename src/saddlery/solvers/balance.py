"""Dual ascent with a free intercept: its multiplier is b, and the dual has to balance, sum_i s_i a_i = 0.

The method of multipliers on b alone, so that the rest of the problem keeps its own strong convexity. With u = sum_i s_i a_i, any
vector m and any centre c, the dual with K replaced by that of the rows x_i - m, and with one more column of ones,

    max_a  D(a) + c u - sigma u^2 / 2 - u (m.v + u |m|^2 / 2) / mu,        v = -X'(s a),        b + m.w = c - sigma u

is the same where u = 0; then c = b + m.w. Where rows have much in common, w can stand in for b and they pull at each other; with m
the mean of the rows at no bound, they do not (hinge, l2 of 1 / n, against m = 0: mushrooms 28 -> 5 rounds, 22 -> 6.5 ms; a9a 30 ->
20 rounds, 118 -> 100 ms). What an epoch leaves of u is taken from the rows at no bound: D + b u is flat there, so that D falls by
u^2 only, and the point balances.

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

__all__ = [
    "LIFT",
    "NONE",
    "SHARE",
    "Offset",
    "add_products",
    "balance",
    "common_part",
    "mark_free",
    "offset_around",
    "settle",
    "starting_intercept",
]

SHARE = 0.2  # of the mean curvature of a row: sigma at first
LIFT = 3.0  # factor of sigma where no row has room


class Offset(NamedTuple):
    """The intercept as dual ascent sees it: `intercept` and `along` of the top of the file."""

    numbers: np.ndarray
    along: np.ndarray

    @property
    def b(self) -> float:
        """The intercept."""
        excess, product, centre, _, sigma = self.numbers
        return float(centre - product - sigma * excess)


NONE = Offset(np.zeros(5), np.zeros(1))  # where there is no intercept


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


def starting_intercept(problem: Any) -> float:
    """Where ascent from zero begins: of signs, no row is settled at b = 0; at the best constant half of them seem to be."""
    return 0.0 if problem.loss.targets == "signs" else problem.constant


def common_part(loss: Any, matrix: Matrix, y: np.ndarray, s: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The mean of the rows at no bound, of all rows if there are none."""
    free = np.zeros(len(y), dtype=bool)
    mark_free(loss, y, a, free)
    weights = s * free
    total = float(weights.sum())
    m = np.zeros(matrix.shape[1])
    add_products(matrix, weights / total if total > 0.0 else s / (s.sum() or 1.0), m)
    return m


def offset_around(b: float, excess: float, sigma: float, matrix: Matrix, m: np.ndarray | None, v: np.ndarray, mu: float) -> Offset:
    """The offset of an ascent that starts at the intercept b; `m` is None for zero, where w is not v / mu."""
    if m is None:
        return Offset(np.array([excess, 0.0, b, sigma, sigma]), np.zeros(matrix.shape[0]))
    product = float(m @ v) / mu
    return Offset(np.array([excess, product, b + product, sigma + float(m @ m) / mu, sigma]), matrix.matvec(m) / mu)


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
