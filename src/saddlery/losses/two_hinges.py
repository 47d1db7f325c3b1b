"""Two hinges with a share each: the loss of precision among k rows for a fixed mixture of the two cases; see precision_at_k.py."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.losses.base import loss

__all__ = ["TwoHinges"]


@loss
class TwoHinges(NamedTuple):
    """``share max(0, z) + (1 - share) max(0, z - place)``, less z (and plus ``(1 - share) place``) for y = +1.

    Its least value is 0 for either sign. With ``u = a + 1`` for y = +1 and ``u = a`` for y = -1, in [0, 1], its conjugate is
    ``place max(0, u - share)``, less ``(1 - share) place`` for y = +1.

    Examples
    --------
    >>> TwoHinges(0.5, 2.0).value(-1.0, 3.0)
    2.0
    """

    share: float
    place: float

    @property
    def smoothness(self) -> float:
        return math.inf

    @property
    def targets(self) -> str:
        return "signs"

    def value(self, y, z):
        both = self.share * max(0.0, z) + (1.0 - self.share) * max(0.0, z - self.place)
        return both - z + (1.0 - self.share) * self.place if y > 0.0 else both

    def slope(self, y, z):
        both = (self.share if z > 0.0 else 0.0) + (1.0 - self.share if z > self.place else 0.0)
        return both - 1.0 if y > 0.0 else both

    def curvature(self, y, z):
        return 0.0

    def conjugate(self, y, a):
        u = a + 1.0 if y > 0.0 else a
        if u < 0.0 or u > 1.0:
            return math.inf
        value = self.place * max(0.0, u - self.share)
        return value - (1.0 - self.share) * self.place if y > 0.0 else value

    def dual_prox(self, y, a, step):
        own = 1.0 if y > 0.0 else 0.0
        u = a + own
        if u > self.share:
            u = max(self.share, u - step * self.place)
        return min(max(u, 0.0), 1.0) - own

    def dual_lower(self, y):
        return -1.0 if y > 0.0 else 0.0

    def dual_upper(self, y):
        return 0.0 if y > 0.0 else 1.0
