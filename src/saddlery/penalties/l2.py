"""The squared Euclidean norm: alpha / 2 ||w||^2."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.errors import InputError
from saddlery.penalties.base import separable

__all__ = ["L2"]


@separable
class L2(NamedTuple):
    """``alpha / 2 * ||w||^2``. Its conjugate is ``||u||^2 / (2 alpha)``.

    Examples
    --------
    >>> L2(0.5).value([2.0, 0.0])
    1.0
    """

    alpha: float

    def check(self) -> None:
        """Refuse a strength that makes no penalty."""
        if not 0.0 < self.alpha < math.inf:
            raise InputError(f"alpha must be a positive number, not {self.alpha!r}")

    @property
    def strong_convexity(self) -> float:
        return self.alpha

    @property
    def is_round(self) -> bool:
        return True

    @property
    def threshold(self) -> float:
        return 0.0

    def scaled(self, factor: float) -> L2:
        """The penalty times `factor`."""
        return L2(self.alpha * factor)

    def coordinate_value(self, w):
        return 0.5 * self.alpha * w * w

    def coordinate_prox(self, v, step):
        return v / (1.0 + step * self.alpha)

    def coordinate_conjugate(self, u):
        return 0.5 * u * u / self.alpha

    def coordinate_map(self, u):
        return u * (1.0 / self.alpha)  # the reciprocal is taken out of loops

    def coordinate_distance(self, w, u):
        return abs(u - self.alpha * w)
