"""The group ball: sum_g weight_g ||w_g||_2 <= radius."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.penalties.array_fields import ArrayFields, frozen
from saddlery.penalties.base import EXCESS, bounded
from saddlery.penalties.simplex import check_radius

__all__ = ["GroupBall"]


class _Layout(NamedTuple):
    radius: float
    groups: np.ndarray
    weights: np.ndarray
    order: np.ndarray  # the columns of group 0, then those of group 1, ...
    starts: np.ndarray  # where the columns of each group begin in `order`, and their end


@bounded
class GroupBall(ArrayFields, _Layout):
    """The constraint ``sum_g weight_g ||w_g||_2 <= radius``, where w_g are the weights of one group of columns.

    It sets whole groups to zero. Its conjugate is ``radius * max_g ||u_g||_2 / weight_g``, its atoms live in one group.

    Parameters
    ----------
    radius : float
        Positive.
    groups : array of int of shape (d,)
        The group of each column: numbers from 0 on, without gaps, in any order.
    weights : array of shape (n_groups,), optional
        Weight of each group, positive; by default 1 for all. (The square roots of their sizes favour no size.)

    Examples
    --------
    >>> ball = GroupBall(1.0, groups=[0, 0, 1])
    >>> ball.linear_oracle([3.0, 4.0, 2.0])
    array([-0.6, -0.8,  0. ])
    """

    __slots__ = ()

    def __new__(cls, radius: float, groups: Any, weights: Any = None) -> GroupBall:
        numbers = np.asarray(groups)
        if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
            raise InputError("groups must be a list of whole numbers, the group of each column")
        numbers = frozen(numbers, np.int64)
        sizes = np.bincount(numbers) if numbers.min() >= 0 and numbers.max() < numbers.size else np.zeros(1)
        if sizes.min() == 0:
            raise InputError(
                "groups must use all numbers from 0 to the last group: numpy.unique(..., return_inverse=True) makes them so"
            )
        try:
            weights = frozen(np.ones(sizes.size) if weights is None else weights, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"the weights of groups must be numbers: {error}") from error
        order, starts = np.argsort(numbers, kind="stable"), np.append(0, np.cumsum(sizes))
        return super().__new__(cls, radius, numbers, weights, frozen(order, np.int64), frozen(starts, np.int64))  # type: ignore[call-arg]

    def parameters(self) -> dict[str, Any]:
        """The arguments that make an equal one."""
        return {"radius": self.radius, "groups": self.groups, "weights": self.weights}

    def check(self) -> None:
        """Refuse a radius or weights that make no ball."""
        check_radius(self.radius)
        if self.weights.shape != (self.starts.size - 1,):
            raise InputError(
                f"weights has shape {self.weights.shape}: give one number for each of the {self.starts.size - 1} groups"
            )
        if not ((self.weights > 0.0) & np.isfinite(self.weights)).all():
            raise InputError("the weights of groups must be positive numbers")

    def check_columns(self, d: int) -> None:
        """Refuse groups of another number of columns."""
        if self.groups.size != d:
            raise InputError(f"groups names {self.groups.size} columns, but the data have {d}: give the group of each column")

    def atom_size(self, d: int) -> int:
        return int(np.diff(self.starts).max())

    def atom(self, c, index, value):
        top = 0.0
        for j in range(c.shape[0]):
            top = max(top, abs(c[j]))
        if top == 0.0:  # all atoms are equally good: the first corner of the first group
            index[0] = self.order[0]
            value[0] = self.radius / self.weights[0]
            return 1
        best, most, size = 0, -1.0, 0.0
        for g in range(self.weights.shape[0]):
            total = 0.0
            for k in range(self.starts[g], self.starts[g + 1]):
                share = c[self.order[k]] / top  # squares of these neither overflow nor vanish
                total += share * share
            if math.sqrt(total) / self.weights[g] > most:
                best, most, size = g, math.sqrt(total) / self.weights[g], math.sqrt(total)
        count = 0
        for k in range(self.starts[best], self.starts[best + 1]):
            index[count] = self.order[k]
            value[count] = -self.radius / self.weights[best] * (c[self.order[k]] / top / size)
            count += value[count] != 0.0
        return count

    def atom_value(self, value, count):
        return 0.0

    def _lengths(self, w: np.ndarray) -> np.ndarray:
        """||w_g||_2 of all groups."""
        return np.sqrt(np.bincount(self.groups, w * w))

    def value(self, w: Any) -> float:
        size = float(self.weights @ self._lengths(np.asarray(w, dtype=np.float64)))
        return 0.0 if size <= self.radius * (1.0 + EXCESS) else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        """Groups shrink by t weight_g, those that are shorter vanish; t is found by sorting ||v_g|| / weight_g."""
        v = np.asarray(v, dtype=np.float64)
        lengths = self._lengths(v)
        if float(self.weights @ lengths) <= self.radius:
            return v.copy()
        order = np.argsort(-lengths / self.weights, kind="stable")
        length, weight = lengths[order], self.weights[order]
        levels = (np.cumsum(weight * length) - self.radius) / np.cumsum(weight * weight)
        level = levels[np.flatnonzero(length > levels * weight)[-1]]
        left = np.maximum(lengths - level * self.weights, 0.0)
        left *= self.radius / float(self.weights @ left)  # the differences were rounded to the size of v
        return v * (left / np.where(lengths > 0.0, lengths, 1.0))[self.groups]
