"""Games: min over one player, max over another, of a coupling between them and a regulariser of each.

**The protocol of a game** (``kind = "game"``; :class:`GameProblem` is its base, :class:`Game` the one for users). The minimiser is
x, the maximiser y; both are arrays. Solvers see of a game

- ``players``: (minimiser, maximiser), each a :class:`~saddlery.geometry.players.Player`, which holds its own regulariser;
- ``gradient_x(x, y)``, ``gradient_y(x, y)``, ``gradients(x, y)``: of the coupling, without the regularisers; x descends, y
  ascends. Both are affine in (x, y), so the gradient at a mean of points is the mean of the gradients. `gradient_x` must not
  depend on x where the convex form of `breg_svrg`, which puts the best response in the place of x, is to be used;
- ``pair_cost``: entries of the data that both gradients read together; ``cost_x``, ``cost_y`` one of them;
- ``sampling(scheme, probabilities)``: a :class:`Sampling`, for `breg_svrg`; ``schemes`` names those that there are;
- ``pair(x, y, gx=None, gy=None)``: the :class:`~saddlery.point.Point` that the loop certifies, with the gradients at (x, y) if
  they are known. A solver may put the ``dual`` and ``Xta`` of one such point beside the rest of another;
- ``players_at(point)``: the other way, for a start: (x, y), each None if it is unknown;

and the loop what it sees of every problem: ``evaluate dual_point certificate certify first_point as_point nonzeros check_cost size``.
The scale of relative gaps is max(|P|, |D|) of the best values so far.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from saddlery.certificate import Certificate
from saddlery.geometry.players import Player
from saddlery.point import Point

__all__ = ["GameProblem", "Sampling", "Snapshot"]


class Snapshot(NamedTuple):
    """A pair of points and the full gradients there: what variance-reduced estimates are built on."""

    x: np.ndarray
    y: np.ndarray
    gx: np.ndarray
    gy: np.ndarray


class Sampling(Protocol):
    """Unbiased estimates of the gradients from a few entries of the data.

    `components` is the number of terms that one draw chooses from (of the larger side), `cost` the entries that an estimate reads
    on average. ``draw(rng, count)`` gives an array or a tuple of arrays whose entries [t] are the indices of step t.
    ``gradients(draws, t, x, y, snapshot)`` gives (vx, vy), arrays that the next call may overwrite: the full gradients at the
    snapshot, plus the change of the drawn terms divided by their probabilities. ``gradient_y`` gives the second alone.
    """

    components: int
    cost: float

    def draw(self, rng: np.random.Generator, count: int) -> Any: ...

    def gradients(self, draws: Any, t: int, x: np.ndarray, y: np.ndarray, snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray]: ...

    def gradient_y(self, draws: Any, t: int, x: np.ndarray, y: np.ndarray, snapshot: Snapshot) -> np.ndarray: ...


class GameProblem:
    """Base of all games; see the top of this file for what each name means."""

    kind = "game"
    loss: Any = None  # games have players instead
    penalty: Any = None
    fit_intercept = False
    players: tuple[Player, Player]
    schemes: ClassVar[tuple[str, ...]] = ()

    # -- the coupling

    def gradient_x(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The gradient in which x descends."""
        raise NotImplementedError

    def gradient_y(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The gradient in which y ascends."""
        raise NotImplementedError

    def gradients(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both gradients."""
        return self.gradient_x(x, y), self.gradient_y(x, y)

    @property
    def size(self) -> int:
        """Entries of the data: the unit of passes."""
        raise NotImplementedError

    @property
    def cost_x(self) -> float:
        """Entries that `gradient_x` reads."""
        return float(self.size)

    @property
    def cost_y(self) -> float:
        """Entries that `gradient_y` reads."""
        return float(self.size)

    @property
    def pair_cost(self) -> float:
        """Entries that both gradients read."""
        return self.cost_x + self.cost_y

    def sampling(self, scheme: str, probabilities: str) -> Sampling:
        """Estimates of the gradients."""
        raise NotImplementedError

    # -- for the loop

    def pair(self, x: np.ndarray, y: np.ndarray, gx: np.ndarray | None = None, gy: np.ndarray | None = None) -> Point:
        """The point that the loop certifies."""
        raise NotImplementedError

    def players_at(self, point: Point) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The points of the players at a start."""
        raise NotImplementedError

    def certificate(self, primal: float, dual: float, a: Any) -> Certificate:
        """The certificate of two values, in units of the larger of them; if both are 0, of 1."""
        scale = max(abs(primal), abs(dual))
        size = scale + self.magnitude(a) if primal < dual else scale
        return Certificate.of(primal, dual, scale if np.isfinite(scale) else 1.0, size)

    def magnitude(self, a: Any) -> float:
        """The sum of the absolute terms of a dual value, asked for only where rounding may have made a gap negative."""
        return self.players[1].magnitude(a)
