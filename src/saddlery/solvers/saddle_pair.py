"""A primal and a dual point with their products, and averages of such pairs: what methods for saddle points move."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point

__all__ = ["SaddlePair", "gap_of"]


@kernel(fast_sums=True)
def blend(loss, mean, other, share):
    """mean += share (other - mean)."""
    for j in range(mean.shape[0]):
        mean[j] += share * (other[j] - mean[j])


class SaddlePair(NamedTuple):
    """A primal and a dual point with their products: vectors, or matrices with a column for each class."""

    w: np.ndarray
    b: Any
    a: np.ndarray
    Xw: np.ndarray
    Xta: np.ndarray

    def copy(self) -> SaddlePair:
        return SaddlePair(*(copy.copy(item) for item in self))

    def average_in(self, loss: Any, other: SaddlePair, share: float) -> SaddlePair:
        """self + share (other - self), written into the arrays of this one. Products are linear, so this holds for them too."""
        for mine, theirs in zip((self.w, self.a, self.Xw, self.Xta), (other.w, other.a, other.Xw, other.Xta), strict=True):
            blend(loss, mine.reshape(-1), theirs.reshape(-1), share)
        return self._replace(b=self.b + share * (other.b - self.b))

    def point(self) -> Point:
        return Point(self.w, self.b, self.a, self.Xw, self.Xta)


def gap_of(problem: Any, pair: SaddlePair) -> tuple[float, float]:
    """The gap of a pair, and its primal value."""
    primal, dual = problem.evaluate(pair.point())
    return primal - dual.value, primal
