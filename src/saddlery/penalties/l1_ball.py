"""The l1 ball: ||w||_1 <= radius."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.penalties.base import EXCESS, bounded
from saddlery.penalties.l1 import L1
from saddlery.penalties.simplex import check_radius, project_onto_simplex

__all__ = ["L1Ball"]


@bounded
class L1Ball(NamedTuple):
    """The constraint ``||w||_1 <= radius``. Its conjugate is ``radius * max_j |u_j|``, its atoms are ``+-radius e_j``.

    Examples
    --------
    >>> L1Ball(2.0).prox([-3.0, 1.0], 1.0)
    array([-2.,  0.])
    """

    radius: float

    def check(self) -> None:
        """Refuse a radius that makes no ball."""
        check_radius(self.radius)

    @property
    def corners(self) -> str:
        return "signed"

    def atom_size(self, d: int) -> int:
        return 1

    def atom(self, c, index, value):
        best = 0
        for j in range(1, c.shape[0]):
            if abs(c[j]) > abs(c[best]):
                best = j
        index[0] = best
        value[0] = -math.copysign(self.radius, c[best])
        return 1

    def atom_value(self, value, count):
        return 0.0

    def size(self, w: Any) -> float:
        return float(np.abs(w).sum())

    def relaxed(self, mu: float) -> L1:
        return L1(mu)

    def largest_multiplier(self, gradient: Any) -> float:
        return float(np.max(np.abs(gradient)))

    def value(self, w: Any) -> float:
        return 0.0 if self.size(w) <= self.radius * (1.0 + EXCESS) else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        v = np.asarray(v, dtype=np.float64)
        size = np.abs(v)
        if size.sum() <= self.radius:
            return v.copy()
        return np.copysign(project_onto_simplex(size, self.radius), v)
