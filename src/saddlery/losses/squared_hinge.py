"""Squared hinge: max(0, 1 - y z)^2 / 2, y in {-1, +1}."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.losses.base import loss

__all__ = ["SquaredHinge"]


@loss
class SquaredHinge(NamedTuple):
    """Squared hinge ``max(0, 1 - y z)^2 / 2`` for y in {-1, +1}.

    Its conjugate is ``y a + a^2 / 2`` for ``y a <= 0``. Note the factor 1/2: liblinear and scikit-learn have none.

    Examples
    --------
    >>> SquaredHinge().value(1.0, 0.0)
    0.5
    """

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def targets(self) -> str:
        return "signs"

    @property
    def conjugate_curvature(self) -> float:
        return 1.0

    @property
    def conjugate_bend(self) -> float:
        return 1.0

    def value(self, y, z):
        u = max(0.0, 1.0 - y * z)
        return 0.5 * u * u

    def slope(self, y, z):
        return -y * max(0.0, 1.0 - y * z)

    def curvature(self, y, z):
        return 1.0 if y * z < 1.0 else 0.0

    def conjugate(self, y, a):
        return y * a + 0.5 * a * a if y * a <= 0.0 else math.inf

    def dual_prox(self, y, a, step):
        return y * min((y * a - step) / (1.0 + step), 0.0)

    def dual_lower(self, y):
        return -math.inf if y > 0.0 else 0.0

    def dual_upper(self, y):
        return 0.0 if y > 0.0 else math.inf
