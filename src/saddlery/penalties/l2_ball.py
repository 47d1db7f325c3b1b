"""The l2 ball: ||w||_2 <= radius."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.penalties.base import EXCESS, bounded
from saddlery.penalties.l2 import L2
from saddlery.penalties.simplex import check_radius

__all__ = ["L2Ball", "into_ball", "length"]


def length(w: Any) -> float:
    """||w||_2, also where squares would overflow or vanish.

    Examples
    --------
    >>> length([0.0, 3e200])
    3e+200
    """
    w = np.asarray(w, dtype=np.float64)
    top = float(np.abs(w).max(initial=0.0))
    return top * float(np.sqrt(np.sum((w / top) ** 2))) if 0.0 < top < math.inf else top


def into_ball(w: np.ndarray, radius: float) -> np.ndarray:
    """The point of the ball that is nearest to w: shrunk if it is too long."""
    size = length(w)
    return w * (radius / size) if size > radius else w.copy()


@bounded
class L2Ball(NamedTuple):
    """The constraint ``||w||_2 <= radius``. Its conjugate is ``radius * ||u||_2``, its atoms are all points of length radius.

    Examples
    --------
    >>> L2Ball(10.0).linear_oracle([3.0, -4.0])
    array([-6.,  8.])
    """

    radius: float

    def check(self) -> None:
        """Refuse a radius that makes no ball."""
        check_radius(self.radius)

    def atom_size(self, d: int) -> int:
        return d

    def atom(self, c, index, value):
        top = 0.0
        for j in range(c.shape[0]):
            top = max(top, abs(c[j]))
        if top == 0.0:  # all points are equally good: the first corner
            index[0] = 0
            value[0] = self.radius
            return 1
        count, total = 0, 0.0
        for j in range(c.shape[0]):
            if c[j] != 0.0:
                index[count] = j
                value[count] = c[j] / top  # squares of these neither overflow nor vanish
                total += value[count] * value[count]
                count += 1
        for k in range(count):
            value[k] *= -self.radius / math.sqrt(total)
        return count

    def atom_value(self, value, count):
        return 0.0

    def size(self, w: Any) -> float:
        return length(w)

    def relaxed(self, mu: float) -> L2:
        return L2(mu)

    def largest_multiplier(self, gradient: Any) -> float:
        return length(gradient) / self.radius

    def value(self, w: Any) -> float:
        return 0.0 if length(w) <= self.radius * (1.0 + EXCESS) else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        return into_ball(np.asarray(v, dtype=np.float64), self.radius)
