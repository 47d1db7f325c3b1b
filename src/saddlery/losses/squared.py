"""Squared loss: (z - y)^2 / 2."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.losses.base import loss

__all__ = ["Squared"]


@loss
class Squared(NamedTuple):
    """Squared loss ``(z - y)^2 / 2``; its conjugate is ``y a + a^2 / 2``.

    Examples
    --------
    >>> Squared().value(1.0, 3.0)
    2.0
    """

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def curvature_is_smooth(self) -> bool:
        return True

    @property
    def curvature_is_constant(self) -> bool:
        return True

    @property
    def targets(self) -> str:
        return "real"

    @property
    def conjugate_curvature(self) -> float:
        return 1.0

    def value(self, y, z):
        return 0.5 * (z - y) * (z - y)

    def slope(self, y, z):
        return z - y

    def curvature(self, y, z):
        return 1.0

    def conjugate(self, y, a):
        return y * a + 0.5 * a * a

    def dual_prox(self, y, a, step):
        return (a - step * y) / (1.0 + step)

    def dual_lower(self, y):
        return -math.inf

    def dual_upper(self, y):
        return math.inf
