"""Smoothed hinge: the hinge with its corner rounded over a length gamma."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.errors import InputError
from saddlery.losses.base import loss

__all__ = ["SmoothHinge"]


@loss
class SmoothHinge(NamedTuple):
    """Smooth hinge for y in {-1, +1}, with m = y z.

    0 for m >= 1, ``(1 - m)^2 / (2 gamma)`` for 1 - gamma <= m <= 1, and ``1 - m - gamma / 2`` below. Its conjugate
    is ``y a + gamma a^2 / 2`` for ``y a`` in [-1, 0]. The doubly-greedy paper prints ``(1/2 - m)^2``, which jumps;
    this is the continuous form with gamma = 1.

    Parameters
    ----------
    gamma : float
        Width of the rounded part, positive. The slope has Lipschitz constant 1 / gamma.

    Examples
    --------
    >>> SmoothHinge().value(1.0, 0.5)
    0.125
    """

    gamma: float = 1.0

    def check(self) -> None:
        """Refuse parameters that make no loss."""
        if not 0.0 < self.gamma < math.inf:
            raise InputError(f"gamma must be a positive number, not {self.gamma!r}: it is the width of the rounded part")

    @property
    def smoothness(self) -> float:
        return 1.0 / self.gamma

    @property
    def targets(self) -> str:
        return "signs"

    @property
    def conjugate_bend(self) -> float:
        return self.gamma

    def value(self, y, z):
        u = 1.0 - y * z
        if u <= 0.0:
            return 0.0
        return u - 0.5 * self.gamma if u >= self.gamma else u * u / (2.0 * self.gamma)

    def slope(self, y, z):
        return -y * min(max((1.0 - y * z) / self.gamma, 0.0), 1.0)

    def curvature(self, y, z):
        u = 1.0 - y * z
        return 1.0 / self.gamma if 0.0 < u < self.gamma else 0.0

    def conjugate(self, y, a):
        return y * a + 0.5 * self.gamma * a * a if -1.0 <= y * a <= 0.0 else math.inf

    def dual_prox(self, y, a, step):
        return y * min(max((y * a - step) / (1.0 + step * self.gamma), -1.0), 0.0)

    def dual_lower(self, y):
        return -1.0 if y > 0.0 else 0.0

    def dual_upper(self, y):
        return 0.0 if y > 0.0 else 1.0
