"""The simplex: w >= 0, sum_j w_j = radius."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.penalties.base import EXCESS, bounded

__all__ = ["Simplex", "check_radius", "project_onto_simplex"]


def check_radius(radius: float) -> None:
    """Refuse a radius that makes no set."""
    if not 0.0 < radius < math.inf:
        raise InputError(f"radius must be a positive number, not {radius!r}")


def project_onto_simplex(v: np.ndarray, radius: float) -> np.ndarray:
    """argmin ||w - v|| over w >= 0, sum w = radius: max(v - t, 0), with t found by sorting.

    Examples
    --------
    >>> project_onto_simplex(np.array([3.0, 1.0, 0.0]), 3.0)
    array([2.5, 0.5, 0. ])
    """
    v = v - v.max()  # a common shift changes nothing, and large numbers would leave no digits for small weights
    falling = np.sort(v)[::-1]
    levels = (np.cumsum(falling) - radius) / np.arange(1, v.size + 1)
    level = levels[np.flatnonzero(falling > levels)[-1]]
    return np.maximum(v - level, 0.0)


@bounded
class Simplex(NamedTuple):
    """The constraint ``w >= 0, sum_j w_j = radius``. Its conjugate is ``radius * max_j u_j``, its atoms are ``radius e_j``.

    Examples
    --------
    >>> Simplex(1.0).linear_oracle([0.3, -0.1, 0.2])
    array([0., 1., 0.])
    """

    radius: float = 1.0

    def check(self) -> None:
        """Refuse a radius that makes no simplex."""
        check_radius(self.radius)

    @property
    def corners(self) -> str:
        return "positive"

    def atom_size(self, d: int) -> int:
        return 1

    def atom(self, c, index, value):
        best = 0
        for j in range(1, c.shape[0]):
            if c[j] < c[best]:
                best = j
        index[0] = best
        value[0] = self.radius
        return 1

    def atom_value(self, value, count):
        return 0.0

    def value(self, w: Any) -> float:
        w = np.asarray(w, dtype=np.float64)
        slack = EXCESS * self.radius
        inside = w.min(initial=0.0) >= -slack and abs(w.sum() - self.radius) <= slack
        return 0.0 if inside else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        return project_onto_simplex(np.asarray(v, dtype=np.float64), self.radius)
