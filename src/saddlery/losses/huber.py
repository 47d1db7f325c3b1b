"""Huber loss: squares near the target, absolute values far from it."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.errors import InputError
from saddlery.losses.base import loss

__all__ = ["Huber"]


@loss
class Huber(NamedTuple):
    """Huber loss of the residual u = z - y: ``u^2 / 2`` for ``|u| <= delta``, else ``delta (|u| - delta / 2)``.

    Its conjugate is ``y a + a^2 / 2`` for ``|a| <= delta``.

    Parameters
    ----------
    delta : float
        Residual from which the loss grows linearly, positive.

    Examples
    --------
    >>> Huber(delta=1.0).value(0.0, 3.0)
    2.5
    """

    delta: float = 1.0

    def check(self) -> None:
        """Refuse parameters that make no loss."""
        if not 0.0 < self.delta < math.inf:
            raise InputError(f"delta must be a positive number, not {self.delta!r}: beyond it the loss grows linearly")

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def targets(self) -> str:
        return "real"

    def value(self, y, z):
        u = abs(z - y)
        return 0.5 * u * u if u <= self.delta else self.delta * (u - 0.5 * self.delta)

    def slope(self, y, z):
        return min(max(z - y, -self.delta), self.delta)

    def curvature(self, y, z):
        return 1.0 if abs(z - y) < self.delta else 0.0

    def conjugate(self, y, a):
        return y * a + 0.5 * a * a if abs(a) <= self.delta else math.inf

    def dual_prox(self, y, a, step):
        return min(max((a - step * y) / (1.0 + step), -self.delta), self.delta)

    def dual_lower(self, y):
        return -self.delta

    def dual_upper(self, y):
        return self.delta
