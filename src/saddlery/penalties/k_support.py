"""The k-support ball: the convex hull of the vectors with at most k entries and length at most radius.

Its norm and its projection come from a variational form (Argyriou, Foygel and Srebro 2012, Sparse prediction with the k-support
norm):

    ||w||^2 = min_theta  sum_i w_i^2 / theta_i        0 <= theta_i <= 1, sum_i theta_i <= k

which is solved by theta_i = min(1, |w_i| / t), that is: p entries have theta_i = 1, and the others share k - p in proportion to
their size.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from saddlery.errors import InputError
from saddlery.penalties.base import EXCESS, bounded
from saddlery.penalties.l2_ball import into_ball, length
from saddlery.penalties.selection import keep_largest, tied_with_least
from saddlery.penalties.simplex import check_radius

__all__ = ["KSupport", "k_support_norm"]


def k_support_norm(w: Any, k: int) -> float:
    """The k-support norm: the l1 norm for k = 1, the l2 norm for k = d and for vectors with at most k entries.

    With sizes z sorted from large to small, ``||w||^2 = sum_{i<p} z_i^2 + (sum_{i>=p} z_i)^2 / (k - p)``, where p is the first for
    which z_p is at most ``sum_{i>=p} z_i / (k - p)``.

    Examples
    --------
    >>> k_support_norm([3.0, -4.0, 0.0], 2), k_support_norm([1.0, 1.0], 1)
    (5.0, 2.0)
    """
    z = np.sort(np.abs(np.asarray(w, dtype=np.float64)))[::-1]
    k = min(k, z.size)
    tails = np.cumsum(z[::-1])[::-1][:k]  # sums from the smallest on: none is a difference
    rest = np.arange(k, 0, -1)
    p = int(np.flatnonzero(z[:k] * rest <= tails * (1.0 + 1e-15))[0])  # the last always holds
    return math.hypot(length(z[:p]), float(tails[p]) / math.sqrt(k - p))


def _shares(z: np.ndarray, sums: np.ndarray, k: int, strength: float) -> np.ndarray:
    """theta_i = clip(c z_i - strength, 0, 1) with sum k, for falling z > 0, more than k of them; `sums` are their sums, 0 first.

    As c grows, weights begin to count at c = strength / z_i and are full at c = (1 + strength) / z_i; the sum at each of these
    values tells how many of each there are when it is k.
    """

    def total(c: np.ndarray) -> np.ndarray:
        full = np.searchsorted(-z, -(1.0 + strength) / c, side="right")
        some = np.maximum(full, np.searchsorted(-z, -strength / c, side="right"))
        return full + c * (sums[some] - sums[full]) - strength * (some - full)

    full = min(k, int(np.searchsorted(total((1.0 + strength) / z), k, side="right")))
    some = max(full, int(np.searchsorted(total(strength / z), k, side="left")))
    theta = np.zeros(z.size)
    theta[:full] = 1.0
    if some > full:
        size = z[full:some] / z[full:some].mean()  # c z_i - strength, written so that large strengths do not cancel
        theta[full:some] = np.clip((k - full) / (some - full) * size + strength * (size - 1.0), 0.0, 1.0)
    return theta


@bounded
class KSupport(NamedTuple):
    """The convex hull of the vectors with at most k entries and ``||w||_2 <= radius``: the k-support ball.

    It lies between the l1 ball (k = 1) and the l2 ball (k = d). Its conjugate is radius times the length of the k largest
    ``|u_j|``, its atoms have k entries.

    Parameters
    ----------
    radius : float
        Positive.
    k : int
        Number of entries, 1 or more.

    Examples
    --------
    >>> KSupport(1.0, k=2).linear_oracle([3.0, 0.1, -4.0])
    array([-0.6,  0. ,  0.8])
    """

    radius: float
    k: int

    def check(self) -> None:
        """Refuse a radius or a number of entries that makes no ball."""
        check_radius(self.radius)
        if not isinstance(self.k, Integral) or isinstance(self.k, bool) or self.k < 1:
            raise InputError(f"k must be a whole number, 1 or more, not {self.k!r}")

    def atom_size(self, d: int) -> int:
        return min(d, self.k)

    def atom(self, c, index, value):
        most = min(c.shape[0], self.k)
        filled = 0
        for j in range(c.shape[0]):
            filled = keep_largest(self, value, filled, most, abs(c[j]))
        level, ties, top = value[0], tied_with_least(self, value, filled), 0.0
        for k in range(filled):
            top = max(top, value[k])
        if top == 0.0:  # all atoms are equally good: the first corner
            index[0] = 0
            value[0] = self.radius
            return 1
        count, total = 0, 0.0
        for j in range(c.shape[0]):  # all above the level, and the first at it
            size = abs(c[j])
            if size > level or (size == level and ties > 0):
                ties -= size == level
                if size > 0.0:
                    index[count] = j
                    value[count] = c[j] / top  # squares of these neither overflow nor vanish
                    total += value[count] * value[count]
                    count += 1
        for k in range(count):
            value[k] *= -self.radius / math.sqrt(total)
        return count

    def atom_value(self, value, count):
        return 0.0

    def value(self, w: Any) -> float:
        return 0.0 if k_support_norm(w, self.k) <= self.radius * (1.0 + EXCESS) else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        """theta v / (theta + strength): the prox of ``strength / 2 ||.||^2`` for the strength that makes the norm the radius."""
        v = np.asarray(v, dtype=np.float64)
        if k_support_norm(v, self.k) <= self.radius:
            return v.copy()
        order = np.argsort(-np.abs(v), kind="stable")
        order = order[: np.count_nonzero(v)]
        if order.size <= self.k:  # here the ball is round
            return into_ball(v, self.radius)
        top = abs(v[order[0]])
        z, radius = np.abs(v[order]) / top, self.radius / top
        sums = np.append(0.0, np.cumsum(z))

        def excess(strength: float) -> float:
            if strength == 0.0:
                return k_support_norm(z, self.k) - radius
            theta = _shares(z, sums, self.k, strength)
            return length(np.sqrt(theta) * z / (theta + strength)) - radius

        # ||v - w||_* = strength ||w||, and the left side is at most ||v||_*, the length of the k largest
        strength = brentq(excess, 0.0, 2.0 * length(z[: self.k]) / radius, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500)
        theta = _shares(z, sums, self.k, strength)
        w = np.zeros(v.size)
        w[order] = np.copysign(theta * z / (theta + strength) * top, v[order])
        return w * min(1.0, self.radius / k_support_norm(w, self.k))  # what rounding left outside
