"""A penalty inside a ball: l1, squared l2 or elastic net, and at the same time a bound on the size of w."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.parts import kernel
from saddlery.penalties.base import EXCESS, bounded
from saddlery.penalties.elastic_net import ElasticNet
from saddlery.penalties.l1 import L1
from saddlery.penalties.l2 import L2
from saddlery.penalties.l2_ball import into_ball, length
from saddlery.penalties.simplex import check_radius, project_onto_simplex

__all__ = ["ElasticNetInBall", "L1InBall", "L2InBall"]


@kernel
def shrunk_entries(penalty, c, l1, l2, index, value):
    """The entries of argmin_w c.w + l1 ||w||_1 + l2/2 ||w||^2 over ||w||_2 <= radius: soft(-c, l1) / l2, if too long shortened."""
    top = 0.0
    for j in range(c.shape[0]):
        top = max(top, abs(c[j]) - l1)
    if top <= 0.0:
        return 0
    count, total = 0, 0.0
    for j in range(c.shape[0]):
        if abs(c[j]) > l1:
            index[count] = j
            value[count] = math.copysign((abs(c[j]) - l1) / top, -c[j])  # squares of these neither overflow nor vanish
            total += value[count] * value[count]
            count += 1
    size = math.sqrt(total)
    scale = top / l2 if top * size <= l2 * penalty.radius else penalty.radius / size
    for k in range(count):
        value[k] *= scale
    return count


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < math.inf:
        raise InputError(f"alpha must be a positive number, not {alpha!r}")


@bounded
class L1InBall(NamedTuple):
    """``alpha * ||w||_1`` with the constraint ``||w||_1 <= radius``.

    Its conjugate is ``radius * max(0, max_j |u_j| - alpha)``; its atoms are 0 and ``+-radius e_j``.

    Examples
    --------
    >>> L1InBall(0.5, radius=2.0).linear_oracle([0.1, -3.0])
    array([0., 2.])
    >>> L1InBall(0.5, radius=2.0).linear_oracle([0.1, -0.3])
    array([0., 0.])
    """

    alpha: float
    radius: float

    def check(self) -> None:
        """Refuse a strength or a radius that makes no penalty."""
        _check_alpha(self.alpha)
        check_radius(self.radius)

    @property
    def threshold(self) -> float:
        return self.alpha

    def scaled(self, factor: float) -> L1InBall:
        """The penalty times `factor`, in the same ball."""
        return L1InBall(self.alpha * factor, self.radius)

    def atom_size(self, d: int) -> int:
        return 1

    def atom(self, c, index, value):
        best = 0
        for j in range(1, c.shape[0]):
            if abs(c[j]) > abs(c[best]):
                best = j
        index[0] = best
        value[0] = -math.copysign(self.radius, c[best])
        return 1 if abs(c[best]) > self.alpha else 0

    def atom_value(self, value, count):
        total = 0.0
        for k in range(count):
            total += abs(value[k])
        return self.alpha * total

    @property
    def corners(self) -> str:
        return "signed"

    def size(self, w: Any) -> float:
        return float(np.abs(w).sum())

    def relaxed(self, mu: float) -> L1:
        return L1(self.alpha + mu)

    def largest_multiplier(self, gradient: Any) -> float:
        return max(0.0, float(np.max(np.abs(gradient))) - self.alpha)

    def value(self, w: Any) -> float:
        size = self.size(w)
        return self.alpha * size if size <= self.radius * (1.0 + EXCESS) else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        v = np.asarray(v, dtype=np.float64)
        size = np.maximum(np.abs(v) - step * self.alpha, 0.0)
        if size.sum() > self.radius:
            size = project_onto_simplex(size, self.radius)
        return np.copysign(size, v)


@bounded
class L2InBall(NamedTuple):
    """``alpha / 2 * ||w||^2`` with the constraint ``||w||_2 <= radius``.

    Its conjugate is ``||u||^2 / (2 alpha)`` where ``||u|| <= alpha radius``, and ``radius ||u|| - alpha radius^2 / 2`` beyond;
    its atoms are all points of the ball.

    Examples
    --------
    >>> L2InBall(0.5, radius=5.0).linear_oracle([3.0, -4.0])
    array([-3.,  4.])
    """

    alpha: float
    radius: float

    def check(self) -> None:
        """Refuse a strength or a radius that makes no penalty."""
        _check_alpha(self.alpha)
        check_radius(self.radius)

    @property
    def strong_convexity(self) -> float:
        return self.alpha

    def scaled(self, factor: float) -> L2InBall:
        """The penalty times `factor`, in the same ball."""
        return L2InBall(self.alpha * factor, self.radius)

    def atom_size(self, d: int) -> int:
        return d

    def atom(self, c, index, value):
        return shrunk_entries(self, c, 0.0, self.alpha, index, value)

    def atom_value(self, value, count):
        total = 0.0
        for k in range(count):
            total += value[k] * value[k]
        return 0.5 * self.alpha * total

    def size(self, w: Any) -> float:
        return length(w)

    def relaxed(self, mu: float) -> L2:
        return L2(self.alpha + mu)

    def largest_multiplier(self, gradient: Any) -> float:
        return max(0.0, length(gradient) / self.radius - self.alpha)

    def value(self, w: Any) -> float:
        size = length(w)
        return 0.5 * self.alpha * size * size if size <= self.radius * (1.0 + EXCESS) else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        return into_ball(np.asarray(v, dtype=np.float64) / (1.0 + step * self.alpha), self.radius)

    def dual_map(self, u: Any) -> np.ndarray:
        """argmax_w u.w - g(w)."""
        return self.linear_oracle(-np.asarray(u, dtype=np.float64))  # type: ignore[attr-defined]


@bounded
class ElasticNetInBall(NamedTuple):
    """``alpha * (l1_ratio * ||w||_1 + (1 - l1_ratio) / 2 * ||w||^2)`` with the constraint ``||w||_2 <= radius``.

    With v = soft(u, alpha l1_ratio) and l2 = alpha (1 - l1_ratio) its conjugate is ``||v||^2 / (2 l2)`` where
    ``||v|| <= l2 radius``, and ``radius ||v|| - l2 radius^2 / 2`` beyond; its atoms are all points of the ball.

    Examples
    --------
    >>> ElasticNetInBall(1.0, 0.5, radius=5.0).linear_oracle([2.5, 0.2, -1.5])
    array([-4.,  0.,  2.])
    """

    alpha: float
    l1_ratio: float
    radius: float

    def check(self) -> None:
        """Refuse strengths or a radius that make no penalty."""
        _check_alpha(self.alpha)
        if not 0.0 <= self.l1_ratio <= 1.0:
            raise InputError(f"l1_ratio must lie between 0 and 1, not {self.l1_ratio!r}")
        check_radius(self.radius)

    @property
    def strong_convexity(self) -> float:
        return self.alpha * (1.0 - self.l1_ratio)

    @property
    def threshold(self) -> float:
        return self.alpha * self.l1_ratio

    def scaled(self, factor: float) -> ElasticNetInBall:
        """The penalty times `factor`, in the same ball."""
        return ElasticNetInBall(self.alpha * factor, self.l1_ratio, self.radius)

    def atom_size(self, d: int) -> int:
        return d

    def atom(self, c, index, value):
        return shrunk_entries(self, c, self.alpha * self.l1_ratio, self.alpha * (1.0 - self.l1_ratio), index, value)

    def atom_value(self, value, count):
        first, second = 0.0, 0.0
        for k in range(count):
            first += abs(value[k])
            second += value[k] * value[k]
        return self.alpha * (self.l1_ratio * first + 0.5 * (1.0 - self.l1_ratio) * second)

    def size(self, w: Any) -> float:
        return length(w)

    def relaxed(self, mu: float) -> ElasticNet:
        total = self.alpha + mu
        return ElasticNet(total, self.threshold / total)

    def largest_multiplier(self, gradient: Any) -> float:
        return length(gradient) / self.radius

    def value(self, w: Any) -> float:
        size = length(w)
        if size > self.radius * (1.0 + EXCESS):
            return math.inf
        return self.alpha * (self.l1_ratio * float(np.abs(w).sum()) + 0.5 * (1.0 - self.l1_ratio) * size * size)

    def prox(self, v: Any, step: float) -> np.ndarray:
        v = np.asarray(v, dtype=np.float64)
        size = np.maximum(np.abs(v) - step * self.threshold, 0.0) / (1.0 + step * self.strong_convexity)
        return into_ball(np.copysign(size, v), self.radius)

    def dual_map(self, u: Any) -> np.ndarray:
        """argmax_w u.w - g(w)."""
        return self.linear_oracle(-np.asarray(u, dtype=np.float64))  # type: ignore[attr-defined]
