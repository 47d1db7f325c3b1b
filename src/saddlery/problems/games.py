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

and the loop what it sees of every problem: ``evaluate certificate certify first_point as_point nonzeros check_cost size``.
The scale of relative gaps is max(|P|, |D|) of the best values so far, and `least_scale` where that is smaller.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.geometry.players import Player
from saddlery.geometry.simplices import Simplex, Simplices
from saddlery.matrix import as_matrix
from saddlery.point import Point
from saddlery.problems.couplings import Coupling, EntrySampling, RowColumnSampling, Snapshot

__all__ = ["Game", "GameDualPoint", "GameProblem", "Sampling", "Snapshot"]


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

    @property
    def least_scale(self) -> float:
        """The unit of gaps where both values are smaller than this: else games of value 0 could never be solved."""
        return 0.0

    def certificate(self, primal: float, dual: float, a: Any) -> Certificate:
        """The certificate of two values, in units of the larger of them, or of `least_scale`; if all are 0, of 1."""
        scale = max(abs(primal), abs(dual))
        scale = scale if scale > self.least_scale else self.least_scale
        size = scale + self.magnitude(a) if primal < dual else scale
        return Certificate.of(primal, dual, scale if np.isfinite(scale) else 1.0, size)

    def magnitude(self, a: Any) -> float:
        """The sum of the absolute terms of a dual value, asked for only where rounding may have made a gap negative."""
        return self.players[1].magnitude(a)


class GameDualPoint(NamedTuple):
    """A feasible dual point, its product K'y and its value."""

    a: np.ndarray
    Xta: np.ndarray
    value: float


class Game(GameProblem):
    """``min_x max_y  R(x) + <y, K x> + c.x + e.y - H(y)``: two players, a matrix between them, and a regulariser of each.

    The minimiser x chooses columns of K, the maximiser y its rows; players are sets with regularisers, from
    :mod:`saddlery.geometry`. With two simplices and nothing else this is a zero-sum game: y is paid ``K[i, j]`` by x.

    - primal value ``P(x) = R(x) + c.x + max_y <y, K x + e> - H(y)``: what x pays at most
    - dual value ``D(y) = e.y - H(y) + min_x R(x) + <K'y + c, x>``: what y gets at least

    Both maxima have closed forms, so every pair of points has a finite certificate. ``solution.w`` is x and ``solution.dual`` is y.
    Relative gaps are in units of max(|P|, |D|), and of a thousandth of the largest entry of K where that is more.

    Parameters
    ----------
    K : array-like or sparse matrix of shape (n, m)
        The coupling.
    minimiser, maximiser : players, optional
        Of m and n coordinates, such as ``sd.geometry.Simplex(m, entropy=0.01)``; by default simplices without regulariser.
    c, e : arrays of shape (m,) and (n,), optional
        Linear terms.

    Examples
    --------
    >>> import saddlery as sd
    >>> rock_paper_scissors = [[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]
    >>> solution = sd.solve(sd.Game(rock_paper_scissors), tol=1e-6)
    >>> solution.w.round(4), round(solution.certificate.primal, 4)
    (array([0.3333, 0.4167, 0.25  ]), 0.0833)
    """

    schemes: ClassVar[tuple[str, ...]] = ("independent", "entries")

    def __init__(self, K: Any, minimiser: Player | None = None, maximiser: Player | None = None, c: Any = None, e: Any = None):
        self._set_up(Coupling(as_matrix(K)), minimiser, maximiser, c, e)

    def _set_up(self, coupling: Coupling, minimiser: Player | None, maximiser: Player | None, c: Any, e: Any) -> None:
        self.coupling, self.matrix = coupling, coupling.matrix
        n, m = coupling.shape
        chosen = (Simplex(m) if minimiser is None else minimiser, Simplex(n) if maximiser is None else maximiser)
        for player, count, name, what in zip(chosen, (m, n), ("minimiser", "maximiser"), ("columns", "rows"), strict=True):
            if isinstance(player, type) or not hasattr(player, "response"):
                raise InputError(f"the {name} must be a player such as saddlery.geometry.Simplex({count}), not {player!r}")
            if player.shape != (count,):
                raise InputError(f"the {name} has {player.shape[0]} coordinates, but K has {count} {what}")
        self.players = chosen
        self.c, self.e = _as_linear("c", c, m), _as_linear("e", e, n)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.coupling.shape[0]} x {self.coupling.shape[1]}, {self.players[0]!r}, {self.players[1]!r})"
        )

    @property
    def size(self) -> int:
        return self.coupling.size

    @cached_property
    def least_scale(self) -> float:  # type: ignore[override]
        """A thousandth of the largest payoff, where both players mix (up to a factor for outputs with offsets)."""
        if not all(isinstance(player, Simplices) for player in self.players):
            return 0.0
        return ZERO * self.coupling.largest

    # -- the coupling

    def gradient_x(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = self.coupling.transposed(y)
        return out if self.c is None else out + self.c

    def gradient_y(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = self.coupling.times(x)
        return out if self.e is None else out + self.e

    def sampling(self, scheme: str, probabilities: str) -> Sampling:
        if scheme not in self.schemes:
            raise InputError(f"scheme must be one of {', '.join(self.schemes)}, not {scheme!r}")
        return (EntrySampling if scheme == "entries" else RowColumnSampling)(self.coupling, probabilities)

    # -- values

    def primal(self, x: np.ndarray, gy: np.ndarray | None = None) -> float:
        """P(x); `gy` is K x + e, if it is known."""
        gy = self.gradient_y(x, EMPTY) if gy is None else gy
        linear = 0.0 if self.c is None else float(self.c @ x)
        return self.players[0].value(x) + linear + self.players[1].support(gy)

    def dual_point(self, a: np.ndarray, gx: np.ndarray | None = None) -> GameDualPoint:
        """The given point brought into its set, with D there; `gx` is K'a + c, if it is known."""
        feasible = self.players[1].project(a)
        if gx is None or feasible is not a:
            gx = self.gradient_x(EMPTY, feasible)
        linear = 0.0 if self.e is None else float(self.e @ feasible)
        return GameDualPoint(feasible, gx, linear - self.players[1].value(feasible) - self.players[0].support(-gx))

    def certify(self, w: Any, dual: Any = None, b: float = 0.0) -> Certificate:
        """See :func:`saddlery.certify`; without `dual` the best response to w takes its place."""
        if b != 0.0:
            raise InputError("a game has no intercept: give b=0")
        primal, best = self.evaluate(Point(self._checked("w", w, 0), 0.0, None if dual is None else self._checked("dual", dual, 1)))
        return self.certificate(primal, best.value, best.a)

    # -- for the loop; Xw and Xta of a point are its gradients, the linear terms included

    def pair(self, x: np.ndarray, y: np.ndarray, gx: np.ndarray | None = None, gy: np.ndarray | None = None) -> Point:
        return Point(x, 0.0, y, gy, gx)

    def players_at(self, point: Point) -> tuple[np.ndarray | None, np.ndarray | None]:
        return point.w, point.dual

    def evaluate(self, point: Point) -> tuple[float, GameDualPoint]:
        """The primal value of a point, and its dual point with the value."""
        gy = self.gradient_y(point.w, EMPTY) if point.Xw is None else point.Xw
        primal = self.primal(point.w, gy)
        if point.dual is None:
            return primal, self.dual_point(self.players[1].response(gy))
        return primal, self.dual_point(point.dual, point.Xta)

    def first_point(self) -> Point:
        """Both players in the middle."""
        return Point(self.players[0].point(self.players[0].start()), 0.0, self.players[1].point(self.players[1].start()))

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        """A start from arrays (None for what is unknown), brought into the sets."""
        x = self.first_point().w if w is None else self.players[0].project(self._checked("w", w, 0))
        return Point(x, 0.0, None if dual is None else self.players[1].project(self._checked("dual", dual, 1)))

    def _checked(self, name: str, values: Any, side: int) -> np.ndarray:
        values = np.array(values, dtype=np.float64)
        if values.shape != self.players[side].shape or not np.isfinite(values).all():
            raise InputError(f"{name} needs {self.players[side].shape[0]} finite numbers, not an array of shape {values.shape}")
        return values

    def nonzeros(self, w: np.ndarray) -> int:
        """Number of weights of the minimiser that are not zero."""
        return int(np.count_nonzero(w))

    def check_cost(self, point: Point) -> float:
        """Entries of K that :meth:`evaluate` reads."""
        return self.size * float((point.Xw is None) + (point.dual is None or point.Xta is None))


EMPTY = np.empty(0)
ZERO = 1e-3  # of the largest payoff: a value below counts as 0 when gaps are measured


def _as_linear(name: str, values: Any, count: int) -> np.ndarray | None:
    if values is None:
        return None
    array = np.array(values, dtype=np.float64)
    if array.shape != (count,) or not np.isfinite(array).all():
        raise InputError(f"{name} needs {count} finite numbers, not an array of shape {array.shape}")
    return array
