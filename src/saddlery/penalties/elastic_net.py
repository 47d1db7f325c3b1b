"""The elastic net: a mix of l1 and squared l2."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.errors import InputError
from saddlery.penalties.base import separable

__all__ = ["ElasticNet"]


@separable
class ElasticNet(NamedTuple):
    """``alpha * (l1_ratio * ||w||_1 + (1 - l1_ratio) / 2 * ||w||^2)``.

    With l1 = alpha l1_ratio and l2 = alpha (1 - l1_ratio) its conjugate is ``sum_j max(|u_j| - l1, 0)^2 / (2 l2)``,
    or, for ``l1_ratio=1``, that of the l1 norm.

    Parameters
    ----------
    alpha : float
        Strength, positive.
    l1_ratio : float
        Share of the l1 norm, from 0 to 1.

    Examples
    --------
    >>> ElasticNet(1.0, l1_ratio=0.5).value([2.0])
    2.0
    """

    alpha: float
    l1_ratio: float = 0.5

    def check(self) -> None:
        """Refuse strengths that make no penalty."""
        if not 0.0 < self.alpha < math.inf:
            raise InputError(f"alpha must be a positive number, not {self.alpha!r}")
        if not 0.0 <= self.l1_ratio <= 1.0:
            raise InputError(f"l1_ratio must lie between 0 and 1, not {self.l1_ratio!r}")

    @property
    def strong_convexity(self) -> float:
        return self.alpha * (1.0 - self.l1_ratio)

    @property
    def threshold(self) -> float:
        return self.alpha * self.l1_ratio

    def scaled(self, factor: float) -> ElasticNet:
        """The penalty times `factor`."""
        return ElasticNet(self.alpha * factor, self.l1_ratio)

    def coordinate_value(self, w):
        return self.alpha * (self.l1_ratio * abs(w) + 0.5 * (1.0 - self.l1_ratio) * w * w)

    def coordinate_prox(self, v, step):
        t = step * self.alpha * self.l1_ratio
        r = 1.0 + step * self.alpha * (1.0 - self.l1_ratio)
        return (v - t) / r if v > t else ((v + t) / r if v < -t else 0.0)

    def coordinate_conjugate(self, u):
        excess = max(0.0, abs(u) - self.alpha * self.l1_ratio)
        if excess == 0.0:
            return 0.0
        if self.l1_ratio == 1.0:
            return math.inf
        return 0.5 * excess * excess / (self.alpha * (1.0 - self.l1_ratio))

    def coordinate_map(self, u):
        t = self.alpha * self.l1_ratio
        r = 1.0 / (self.alpha * (1.0 - self.l1_ratio))  # a reciprocal is taken out of loops
        return (u - t) * r if u > t else ((u + t) * r if u < -t else 0.0)

    def coordinate_distance(self, w, u):
        l1, l2 = self.alpha * self.l1_ratio, self.alpha * (1.0 - self.l1_ratio)
        if w == 0.0:
            return max(0.0, abs(u) - l1)
        return abs(u - l1 - l2 * w) if w > 0.0 else abs(u + l1 - l2 * w)
