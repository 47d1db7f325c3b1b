"""Hinge loss: max(0, 1 - y z), y in {-1, +1}."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.losses.base import loss

__all__ = ["Hinge"]


@loss
class Hinge(NamedTuple):
    """Hinge loss ``max(0, 1 - y z)`` for y in {-1, +1}; not smooth.

    Its conjugate is ``y a`` for ``y a`` in [-1, 0].

    Examples
    --------
    >>> Hinge().value(1.0, 0.25)
    0.75
    """

    @property
    def smoothness(self) -> float:
        return math.inf

    @property
    def targets(self) -> str:
        return "signs"

    @property
    def conjugate_bend(self) -> float:
        return 0.0

    def value(self, y, z):
        return max(0.0, 1.0 - y * z)

    def slope(self, y, z):
        return -y if y * z < 1.0 else 0.0

    def curvature(self, y, z):
        return 0.0

    def conjugate(self, y, a):
        return y * a if -1.0 <= y * a <= 0.0 else math.inf

    def dual_prox(self, y, a, step):
        return y * min(max(y * a - step, -1.0), 0.0)

    def dual_lower(self, y):
        return -1.0 if y > 0.0 else 0.0

    def dual_upper(self, y):
        return 0.0 if y > 0.0 else 1.0
