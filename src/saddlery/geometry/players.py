"""What a player of a game is: a set, a regulariser on it, and a distance in which its steps are measured.

A *state* is what the geometry moves (log-weights for entropies, the point itself in Euclidean geometry); a *point* is an array of
weights. Averages are taken of points, by plain arithmetic.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlery.parts import kernel, part

__all__ = ["NoPart", "Player", "average_in", "turn_of"]


@part
class NoPart(NamedTuple):
    """Nothing: kernels need a part, and these need nothing else."""


@kernel(fast_sums=True)
def average_in(nothing, mean, other, share):
    """mean += share (other - mean)."""
    for i in range(mean.shape[0]):
        mean[i] += share * (other[i] - mean[i])


@kernel(fast_sums=True)
def turn_of(nothing, a, b, c, d):
    """<a - b, c - d>."""
    total = 0.0
    for i in range(a.shape[0]):
        total += (a[i] - b[i]) * (c[i] - d[i])
    return total


class Player:
    """Base of all players: the verbs that solvers of games and certificates call. ``R`` is the regulariser, ``D`` the divergence.

    Attributes
    ----------
    shape : tuple of int
        Shape of its points.
    strength : float
        R is so strongly convex in units of D: ``R - strength * potential`` is convex. 0 if there is no regulariser.
    geometry : str
        ``"entropy"`` or ``"euclidean"``: the family of D.
    """

    shape: tuple[int, ...]
    strength: float
    geometry: str

    def check(self) -> None:
        """Refuse parameters that make no set."""

    # -- states

    def start(self) -> Any:
        """The state in the middle of the set."""
        raise NotImplementedError

    def point(self, state: Any) -> np.ndarray:
        """The weights of a state: an array that no later call writes."""
        raise NotImplementedError

    def state_at(self, x: np.ndarray) -> Any:
        """A state at (or, where a weight is zero, next to) the given point, which is first brought into the set."""
        raise NotImplementedError

    def blend(self, state: Any, other: Any, share: float) -> Any:
        """The minimiser of ``(1 - share) D(., state) + share D(., other)`` over the whole space, not over the set.

        It may be given to `prox` only: ``prox(blend(z, c, step t / (1 + step t)), g, step / (1 + step t))`` minimises
        ``step (<g, x> + R(x) + t D(x, c)) + D(x, z)`` over the set, the step that proximal-point methods ask for.
        """
        raise NotImplementedError

    # -- steps

    def prox(self, state: Any, gradient: np.ndarray, step: float) -> Any:
        """argmin_x ``step (<gradient, x> + R(x)) + D(x, state)`` over the set; who maximises gives the negative gradient."""
        raise NotImplementedError

    def prox_into(self, spare: Any, state: Any, gradient: np.ndarray, step: float) -> Any:
        """`prox` in the memory of a state that nobody needs any more; a player that cannot do so takes new memory."""
        return self.prox(state, gradient, step)

    def slope(self, x: np.ndarray) -> Any:
        """Gradient of the part of R that `prox` leaves out; solvers add it to the gradient. 0.0 where `prox` has all of R."""
        return 0.0

    def divergence(self, state: Any, other: Any) -> float:
        """D(state, other)."""
        raise NotImplementedError

    # -- values

    def value(self, x: np.ndarray) -> float:
        """R(x); infinite outside of the set, up to rounding."""
        raise NotImplementedError

    def support(self, gradient: np.ndarray) -> float:
        """max_x ``<gradient, x> - R(x)`` over the set: the conjugate of R, which certificates need."""
        raise NotImplementedError

    def response(self, gradient: np.ndarray) -> np.ndarray:
        """argmax_x ``<gradient, x> - R(x)``: the point where `support` is attained."""
        raise NotImplementedError

    def project(self, x: np.ndarray) -> np.ndarray:
        """A point of the set near x; x itself if it is in it."""
        raise NotImplementedError

    def magnitude(self, x: np.ndarray) -> float:
        """The sum of the absolute terms of R(x): in whose units values are rounded."""
        return abs(self.value(x))
