"""The capped simplex: 0 <= w <= cap, sum_j w_j = radius."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.penalties.base import EXCESS, bounded
from saddlery.penalties.selection import keep_largest, tied_with_least
from saddlery.penalties.simplex import check_radius

__all__ = ["CappedSimplex"]


@bounded
class CappedSimplex(NamedTuple):
    """The constraint ``0 <= w_j <= cap, sum_j w_j = radius``: a simplex on which no weight may be large.

    Its conjugate is the sum of the largest u_j, each times cap, until the radius is used up; its atoms have cap in all of their
    entries but one.

    Parameters
    ----------
    radius : float
        Sum of the weights, positive.
    cap : float
        Largest weight, positive; with d columns ``cap * d`` must reach the radius.

    Examples
    --------
    >>> CappedSimplex(1.0, cap=0.4).linear_oracle([0.3, -0.1, 0.2, 0.5])
    array([0.2, 0.4, 0.4, 0. ])
    """

    radius: float
    cap: float

    def check(self) -> None:
        """Refuse a radius or a cap that makes no set."""
        check_radius(self.radius)
        if not 0.0 < self.cap < math.inf:
            raise InputError(f"cap must be a positive number, not {self.cap!r}")

    def check_columns(self, d: int) -> None:
        """Refuse a cap that d weights cannot fill the radius with."""
        if self.cap * d < self.radius * (1.0 - EXCESS):
            raise InputError(
                f"{d} weights of at most {self.cap!r} cannot sum to {self.radius!r}: raise cap to {self.radius / d:.6g} or more"
            )

    def atom_size(self, d: int) -> int:
        return min(d, math.ceil(self.radius / self.cap))

    def atom(self, c, index, value):
        most = min(c.shape[0], math.ceil(self.radius / self.cap))
        filled = 0
        for j in range(c.shape[0]):
            filled = keep_largest(self, value, filled, most, -c[j])
        level, ties = -value[0], tied_with_least(self, value, filled)
        count, rest = 0, self.radius - (most - 1) * self.cap
        for j in range(c.shape[0]):  # all below the level get cap, and so do the first at it, of which the last gets what is left
            if c[j] < level or (c[j] == level and ties > 0):
                ties -= c[j] == level
                index[count] = j
                value[count] = rest if c[j] == level and ties == 0 else self.cap
                count += value[count] > 0.0
        return count

    def atom_value(self, value, count):
        return 0.0

    def value(self, w: Any) -> float:
        w = np.asarray(w, dtype=np.float64)
        slack = EXCESS * self.radius
        inside = w.min() >= -slack and w.max() <= self.cap + slack and abs(w.sum() - self.radius) <= slack
        return 0.0 if inside else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        """clip(v - t, 0, cap), where t is found among the points at which a weight leaves 0 or reaches cap."""
        v = np.asarray(v, dtype=np.float64)
        marks = np.sort(np.concatenate([v - self.cap, v]))
        low, high = 0, marks.size - 1  # the sum falls from cap d to 0 between the first and the last of them
        while high - low > 1:
            middle = (low + high) // 2
            if np.clip(v - marks[middle], 0.0, self.cap).sum() >= self.radius:
                low = middle
            else:
                high = middle
        between = 0.5 * (marks[low] + marks[high])
        full, moving = v - self.cap >= between, (v - self.cap < between) & (v > between)
        w = np.where(full, self.cap, 0.0)
        if moving.any():  # else the radius is a multiple of cap
            near = v[moving] - v[moving].max()  # differences of at most cap: large numbers would leave no digits for small weights
            left = self.radius - self.cap * np.count_nonzero(full)
            w[moving] = np.clip(near - near.mean() + left / near.size, 0.0, self.cap)
        return w
