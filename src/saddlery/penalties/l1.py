"""The l1 norm: alpha ||w||_1."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.errors import InputError
from saddlery.penalties.base import separable

__all__ = ["L1"]


@separable
class L1(NamedTuple):
    """``alpha * ||w||_1``. Its conjugate is 0 for ``|u_j| <= alpha``, infinity elsewhere.

    Examples
    --------
    >>> L1(0.5).value([1.0, -3.0])
    2.0
    """

    alpha: float

    def check(self) -> None:
        """Refuse a strength that makes no penalty."""
        if not 0.0 < self.alpha < math.inf:
            raise InputError(f"alpha must be a positive number, not {self.alpha!r}")

    @property
    def strong_convexity(self) -> float:
        return 0.0

    @property
    def threshold(self) -> float:
        return self.alpha

    def scaled(self, factor: float) -> L1:
        """The penalty times `factor`."""
        return L1(self.alpha * factor)

    def coordinate_value(self, w):
        return self.alpha * abs(w)

    def coordinate_prox(self, v, step):
        t = step * self.alpha
        return v - t if v > t else (v + t if v < -t else 0.0)

    def coordinate_conjugate(self, u):
        return 0.0 if abs(u) <= self.alpha else math.inf

    def coordinate_distance(self, w, u):
        if w == 0.0:
            return max(0.0, abs(u) - self.alpha)
        return abs(u - self.alpha) if w > 0.0 else abs(u + self.alpha)
