"""Players in Euclidean geometry: the ball, the box and the whole space, with the regulariser ``l2 / 2 * |x|^2``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry.players import Player
from saddlery.geometry.simplices import EXCESS, _count, _strength

__all__ = ["Ball", "Box", "Space"]


class Euclidean(Player):
    """What these players share: a state is the point itself, and a step ends with a projection."""

    geometry = "euclidean"

    def __init__(self, n: int, l2: float):
        self.shape = (_count(n),)
        self.l2 = _strength("l2", l2)

    @property
    def strength(self) -> float:  # type: ignore[override]
        """Of the regulariser."""
        return self.l2

    def start(self) -> np.ndarray:
        """The point of the set that is nearest to 0."""
        return self.project(np.zeros(self.shape))

    def point(self, state: np.ndarray) -> np.ndarray:
        return state

    def state_at(self, x: np.ndarray) -> np.ndarray:
        return self.project(x)

    def blend(self, state: np.ndarray, other: np.ndarray, share: float) -> np.ndarray:
        return (1.0 - share) * state + share * other

    def prox(self, state: np.ndarray, gradient: np.ndarray, step: float) -> np.ndarray:
        return self.project((state - step * gradient) / (1.0 + step * self.l2))

    def divergence(self, state: np.ndarray, other: np.ndarray) -> float:
        change = state - other
        return 0.5 * float(change @ change)

    def value(self, x: np.ndarray) -> float:
        return 0.5 * self.l2 * float(x @ x) if self._is_inside(x) else math.inf

    def magnitude(self, x: np.ndarray) -> float:
        return 0.5 * self.l2 * float(x @ x)

    def support(self, gradient: np.ndarray) -> float:
        x = self.response(gradient)
        return float(gradient @ x) - 0.5 * self.l2 * float(x @ x)

    def response(self, gradient: np.ndarray) -> np.ndarray:
        return self.project(gradient / self.l2) if self.l2 > 0.0 else self._corner(gradient)

    def _is_inside(self, x: np.ndarray) -> bool:
        raise NotImplementedError

    def _corner(self, gradient: np.ndarray) -> np.ndarray:
        """argmax <gradient, x>."""
        raise NotImplementedError


class Ball(Euclidean):
    """Points of Euclidean length at most `radius`.

    Parameters
    ----------
    n : int
        Number of coordinates.
    radius : float, default=1.0
        Largest length.
    l2 : float, default=0.0
        Strength of the regulariser ``|x|^2 / 2``.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> sd.geometry.Ball(2, radius=10.0).response(np.array([3.0, 4.0]))
    array([6., 8.])
    """

    def __init__(self, n: int, radius: float = 1.0, *, l2: float = 0.0):
        super().__init__(n, l2)
        self.radius = _strength("radius", radius)
        if self.radius == 0.0:
            raise InputError("radius must be a positive number, not 0")

    def __repr__(self) -> str:
        return f"Ball({self.shape[0]}, radius={self.radius:g}, l2={self.l2:g})"

    def project(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64)
        length = float(np.linalg.norm(x))
        return x if length <= self.radius else x * (self.radius / length)

    def _is_inside(self, x: np.ndarray) -> bool:
        return bool(np.linalg.norm(x) <= self.radius * (1.0 + EXCESS))

    def _corner(self, gradient: np.ndarray) -> np.ndarray:
        length = float(np.linalg.norm(gradient))
        return gradient * (self.radius / length) if length > 0.0 else np.zeros(self.shape)


class Box(Euclidean):
    """Points between `lower` and `upper`, coordinate by coordinate.

    Parameters
    ----------
    lower, upper : floats or arrays
        The bounds, finite.
    n : int, optional
        Number of coordinates, if both bounds are numbers.
    l2 : float, default=0.0
        Strength of the regulariser ``|x|^2 / 2``.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> sd.geometry.Box(-1.0, [1.0, 2.0]).response(np.array([3.0, -4.0]))
    array([ 1., -1.])
    """

    def __init__(self, lower: Any = -1.0, upper: Any = 1.0, n: int | None = None, *, l2: float = 0.0):
        try:
            low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
            low, high = (np.broadcast_to(side, (n,) if n is not None else np.atleast_1d(side).shape) for side in (low, high))
        except (TypeError, ValueError) as error:
            raise InputError("lower and upper must be numbers, or as many numbers as there are coordinates") from error
        super().__init__(low.size, l2)
        if low.ndim != 1 or not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise InputError("lower and upper must be finite, and lower at most upper; for an open side use Space with l2 > 0")
        self.lower, self.upper = low, high

    def __repr__(self) -> str:
        return f"Box({self.shape[0]} coordinates, l2={self.l2:g})"

    def project(self, x: np.ndarray) -> np.ndarray:
        return np.clip(np.asarray(x, dtype=np.float64), self.lower, self.upper)

    def _is_inside(self, x: np.ndarray) -> bool:
        slack = EXCESS * (1.0 + np.abs(x))
        return bool(((x >= self.lower - slack) & (x <= self.upper + slack)).all())

    def _corner(self, gradient: np.ndarray) -> np.ndarray:
        return np.where(gradient > 0.0, self.upper, np.where(gradient < 0.0, self.lower, np.clip(0.0, self.lower, self.upper)))


class Space(Euclidean):
    """All points, with the regulariser ``l2 / 2 * |x|^2``, without which no best response would exist.

    Parameters
    ----------
    n : int
        Number of coordinates.
    l2 : float
        Strength of the regulariser, positive.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> sd.geometry.Space(2, l2=2.0).response(np.array([3.0, -4.0]))
    array([ 1.5, -2. ])
    """

    def __init__(self, n: int, l2: float):
        super().__init__(n, l2)
        if self.l2 == 0.0:
            raise InputError("the whole space needs l2 > 0: without it no best response exists; or use Ball or Box")

    def __repr__(self) -> str:
        return f"Space({self.shape[0]}, l2={self.l2:g})"

    def project(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x, dtype=np.float64)

    def _is_inside(self, x: np.ndarray) -> bool:
        return True
