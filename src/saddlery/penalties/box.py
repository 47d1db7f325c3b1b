"""The box: low <= w <= high."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.penalties.array_fields import ArrayFields, frozen
from saddlery.penalties.base import EXCESS, bounded

__all__ = ["Box"]


class _Bounds(NamedTuple):
    low: np.ndarray
    high: np.ndarray


@bounded
class Box(ArrayFields, _Bounds):
    """The constraint ``low_j <= w_j <= high_j``. Its conjugate is ``sum_j max(low_j u_j, high_j u_j)``, its atoms are the corners.

    Parameters
    ----------
    low, high : float or array of shape (d,)
        Bounds of all weights, or of each. Where the gradient is 0 the corner has the upper bound.

    Examples
    --------
    >>> Box(0.0, [1.0, 2.0, 3.0]).linear_oracle([0.3, -0.1, -0.2])
    array([0., 2., 3.])
    """

    __slots__ = ()

    def __new__(cls, low: Any, high: Any) -> Box:
        try:
            return super().__new__(cls, frozen(low, np.float64), frozen(high, np.float64))  # type: ignore[arg-type, call-arg]
        except (TypeError, ValueError) as error:
            raise InputError(f"the bounds of a box must be numbers, or one number for each column: {error}") from error

    def parameters(self) -> dict[str, Any]:
        """The arguments that make an equal one."""
        return {"low": self.low, "high": self.high}

    def check(self) -> None:
        """Refuse bounds that make no box."""
        shapes = self.low.shape, self.high.shape
        if max(map(len, shapes)) > 1 or 0 in (self.low.size, self.high.size):
            raise InputError(
                f"the bounds of a box must be numbers or lists of numbers, not arrays of shape {shapes[0]} and {shapes[1]}"
            )
        if 1 not in (self.low.size, self.high.size) and self.low.size != self.high.size:
            raise InputError(f"a box needs as many lower as upper bounds, not {self.low.size} and {self.high.size}")
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            raise InputError("the bounds of a box must be finite: give large numbers where there is no bound")
        if not (self.low < self.high).all():
            column = int(np.flatnonzero(~(self.low < self.high))[0])
            raise InputError(f"low must be less than high in a box, which does not hold for column {column}")

    def check_columns(self, d: int) -> None:
        """Refuse bounds for another number of columns."""
        for name, bound in self.parameters().items():
            if bound.size not in (1, d):
                raise InputError(
                    f"the box has {bound.size} numbers in {name}, but the data have {d} columns: give 1 or {d} of them"
                )

    def atom_size(self, d: int) -> int:
        return d

    def atom(self, c, index, value):
        low_step, high_step = min(1, self.low.shape[0] - 1), min(1, self.high.shape[0] - 1)  # 0: one number for all
        count = 0
        for j in range(c.shape[0]):
            index[count] = j
            value[count] = self.low[j * low_step] if c[j] > 0.0 else self.high[j * high_step]
            count += value[count] != 0.0
        return count

    def atom_value(self, value, count):
        return 0.0

    def value(self, w: Any) -> float:
        w = np.asarray(w, dtype=np.float64)
        slack = EXCESS * np.maximum(np.abs(self.low), np.abs(self.high))
        inside = (w >= self.low - slack).all() and (w <= self.high + slack).all()
        return 0.0 if inside else math.inf

    def prox(self, v: Any, step: float) -> np.ndarray:
        return np.clip(np.asarray(v, dtype=np.float64), self.low, self.high)
