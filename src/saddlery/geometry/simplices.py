"""Players whose points are weights with the sum 1: the simplex, the simplex with caps, and products of simplices.

The regulariser is ``entropy * sum x log(x / reference)`` or ``l2 / 2 * |x|^2``; steps are measured by the KL divergence
(``geometry="entropy"``) or by half the squared Euclidean distance. Every step and every support function is exact.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry.players import Player
from saddlery.geometry.simplex_steps import (
    Blocks,
    entropy_scale,
    entropy_step,
    euclid_guess,
    euclid_scale,
    kl,
    relative_entropy,
    scaled_value,
)

__all__ = ["CappedSimplex", "LogWeights", "ProductOfSimplices", "Simplex", "Simplices"]

EXCESS = 1e-11  # by which a sum or a cap may be missed
FLOOR = 1e-300  # of weights whose log is taken
EMPTY = np.empty(0)


class LogWeights(NamedTuple):
    """A state in entropy geometry: the logs of the weights, and the weights; a blend has no weights."""

    log: np.ndarray
    x: np.ndarray


class Simplices(Player):
    """What the three players share."""

    def __init__(self, sizes: Any, caps: Any, entropy: float, l2: float, reference: Any, geometry: str | None):
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        n = int(starts[-1])
        self.shape = (n,)
        self.entropy, self.l2 = _strength("entropy", entropy), _strength("l2", l2)
        if self.entropy > 0.0 and self.l2 > 0.0:
            raise InputError("a player has one regulariser: give entropy or l2, not both")
        geometry = ("entropy" if self.entropy > 0.0 else "euclidean") if geometry is None else geometry
        if geometry not in ("entropy", "euclidean"):
            raise InputError(f"geometry must be 'entropy' or 'euclidean', not {geometry!r}")
        if geometry == "entropy" and self.l2 > 0.0:
            raise InputError(
                "steps in entropy geometry have no closed form with l2: give geometry='euclidean', or entropy instead of l2"
            )
        self.geometry = geometry
        log_reference = EMPTY if reference is None else np.log(_positive("reference", reference, n))
        caps = EMPTY if caps is None else np.minimum(_positive("cap", caps, n), 1.0)
        self.blocks = Blocks(starts, caps, np.log(caps), log_reference)
        if caps.size:
            sums = np.add.reduceat(caps, starts[:-1])
            if (sums < 1.0 - EXCESS).any():
                raise InputError(
                    f"the caps of {n} weights sum to {sums.min():.6g}, so the weights cannot sum to 1: "
                    f"raise cap to {1.0 / n:.6g} or more"
                )

    @property
    def strength(self) -> float:  # type: ignore[override]
        """Of the regulariser, in units of the divergence; an entropy has at least its strength on weights below 1."""
        return self.l2 if self.l2 > 0.0 else self.entropy

    def __repr__(self) -> str:
        names = [f"{name}={value:g}" for name, value in (("entropy", self.entropy), ("l2", self.l2)) if value > 0.0]
        names += ["geometry='euclidean'"] if self.entropy > 0.0 and self.geometry == "euclidean" else []
        return f"{type(self).__name__}({', '.join([self._size_text(), *names])})"

    def _size_text(self) -> str:
        return str(self.shape[0])

    # -- states

    def start(self) -> Any:
        """The point of the largest entropy: equal weights, as far as caps and reference allow it."""
        logs = self.blocks.log_reference if self.blocks.log_reference.size else np.zeros(self.shape)
        state = self._scaled(logs)[0]
        return state if self.geometry == "entropy" else state.x

    def point(self, state: Any) -> np.ndarray:
        return state.x if self.geometry == "entropy" else state

    def state_at(self, x: np.ndarray) -> Any:
        x = self.project(x)
        if self.geometry == "euclidean":
            return x
        return self._scaled(np.log(np.maximum(x, FLOOR)))[0]

    def blend(self, state: Any, other: Any, share: float) -> Any:
        if self.geometry == "euclidean":
            return (1.0 - share) * state + share * other
        return LogWeights((1.0 - share) * state.log + share * other.log, EMPTY)

    def _scaled(self, logs: np.ndarray) -> tuple[LogWeights, np.ndarray]:
        """min(c exp(logs), cap) with the sum 1, and log c, for each block."""
        out = LogWeights(logs.copy(), np.empty(self.shape))
        log_c = np.empty(self.blocks.starts.size - 1)
        entropy_scale(self.blocks, out.log, out.x, log_c)
        return out, log_c

    # -- steps

    def prox(self, state: Any, gradient: np.ndarray, step: float) -> Any:
        if self.geometry == "euclidean":
            v = (state - step * gradient) / (1.0 + step * self.l2)
            return self._euclid(v, step * self.entropy, state)
        return self.prox_into(LogWeights(np.empty(self.shape), np.empty(self.shape)), state, gradient, step)

    def prox_into(self, spare: Any, state: Any, gradient: np.ndarray, step: float) -> Any:
        if self.geometry == "euclidean":
            return self.prox(state, gradient, step)
        out, log_c = spare, np.empty(self.blocks.starts.size - 1)
        entropy_step(self.blocks, state.log, gradient, float(step), self.entropy, out.log, out.x, log_c)
        return out

    def _euclid(self, v: np.ndarray, kappa: float, old: np.ndarray | None = None) -> np.ndarray:
        x, guess = np.empty(self.shape), np.full(self.blocks.starts.size - 1, np.nan)
        if old is not None:
            euclid_guess(self.blocks, v, kappa, old, guess)
        euclid_scale(self.blocks, v, kappa, guess, x)
        return x

    def divergence(self, state: Any, other: Any) -> float:
        if self.geometry == "euclidean":
            change = state - other
            return 0.5 * float(change @ change)
        return float(kl(self.blocks, state.x, state.log, other.log))

    # -- values

    def value(self, x: np.ndarray) -> float:
        if not self._is_inside(x):
            return math.inf
        if self.l2 > 0.0:
            return 0.5 * self.l2 * float(x @ x)
        return self.entropy * float(relative_entropy(self.blocks, x)[0]) if self.entropy > 0.0 else 0.0

    def magnitude(self, x: np.ndarray) -> float:
        return self.entropy * float(relative_entropy(self.blocks, x)[1]) + 0.5 * self.l2 * float(x @ x)

    def _is_inside(self, x: np.ndarray) -> bool:
        sums = np.add.reduceat(x, self.blocks.starts[:-1])
        inside = x.min() >= 0.0 and np.abs(sums - 1.0).max() <= EXCESS
        return bool(inside and (not self.blocks.caps.size or (x <= self.blocks.caps * (1.0 + EXCESS)).all()))

    def project(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64)
        return x if self._is_inside(x) else self._euclid(x, 0.0)

    def support(self, gradient: np.ndarray) -> float:
        if self.entropy > 0.0:
            logs = self._logs(gradient)
            state, log_c = self._scaled(logs)
            return self.entropy * float(scaled_value(self.blocks, logs, state.x, log_c))
        x = self.response(gradient)
        return float(gradient @ x) - 0.5 * self.l2 * float(x @ x)

    def response(self, gradient: np.ndarray) -> np.ndarray:
        if self.entropy > 0.0:
            return self._scaled(self._logs(gradient))[0].x
        if self.l2 > 0.0:
            return self._euclid(gradient / self.l2, 0.0)
        x = np.zeros(self.shape)
        for first, last in zip(self.blocks.starts[:-1], self.blocks.starts[1:], strict=True):
            part = gradient[first:last]
            if not self.blocks.caps.size:
                x[first + int(np.argmax(part))] = 1.0
                continue
            order = np.argsort(-part, kind="stable")  # the best weights are filled up to their caps
            caps = self.blocks.caps[first:last][order]
            before = np.cumsum(caps) - caps
            x[first + order] = np.clip(1.0 - before, 0.0, caps)
        return x

    def _logs(self, gradient: np.ndarray) -> np.ndarray:
        logs = gradient / self.entropy
        return logs + self.blocks.log_reference if self.blocks.log_reference.size else logs


class Simplex(Simplices):
    """Weights ``x >= 0`` with the sum 1, such as a mixed strategy.

    Parameters
    ----------
    n : int
        Number of weights.
    entropy : float, default=0.0
        Strength of the regulariser ``sum x log(x / reference)``.
    l2 : float, default=0.0
        Strength of the regulariser ``|x|^2 / 2``; only in Euclidean geometry.
    reference : array of shape (n,), optional
        Positive numbers that the entropy is relative to; 1 by default. They need not sum to 1.
    geometry : {"entropy", "euclidean"}, optional
        How steps are measured: by the KL divergence or by the Euclidean distance. It changes how fast a game is solved, not its
        solution. By default the KL divergence goes with an entropy, and the Euclidean distance with everything else.

    Examples
    --------
    >>> import saddlery as sd
    >>> player = sd.geometry.Simplex(3, entropy=0.1)
    >>> player.point(player.start())
    array([0.33333333, 0.33333333, 0.33333333])
    """

    def __init__(self, n: int, entropy: float = 0.0, *, l2: float = 0.0, reference: Any = None, geometry: str | None = None):
        super().__init__([_count(n)], None, entropy, l2, reference, geometry)


class CappedSimplex(Simplices):
    """Weights ``0 <= x <= cap`` with the sum 1: nobody may rely on one weight alone.

    Parameters
    ----------
    n : int
        Number of weights.
    cap : float or array of shape (n,)
        Largest weights; they must sum to 1 or more.
    entropy, l2, reference, geometry
        As in :class:`Simplex`.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> player = sd.geometry.CappedSimplex(4, cap=0.4)
    >>> player.response(np.array([3.0, 1.0, 2.0, 0.0]))
    array([0.4, 0.2, 0.4, 0. ])
    """

    def __init__(
        self, n: int, cap: Any, entropy: float = 0.0, *, l2: float = 0.0, reference: Any = None, geometry: str | None = None
    ):
        super().__init__([_count(n)], cap, entropy, l2, reference, geometry)


class ProductOfSimplices(Simplices):
    """Several mixed strategies at once, one behind the other in a vector: each block of weights has the sum 1.

    Parameters
    ----------
    sizes : sequence of int
        The lengths of the blocks.
    entropy, l2, reference, geometry
        As in :class:`Simplex`.

    Examples
    --------
    >>> import saddlery as sd
    >>> player = sd.geometry.ProductOfSimplices([2, 4])
    >>> player.point(player.start())
    array([0.5 , 0.5 , 0.25, 0.25, 0.25, 0.25])
    """

    def __init__(self, sizes: Any, entropy: float = 0.0, *, l2: float = 0.0, reference: Any = None, geometry: str | None = None):
        self.sizes = [_count(size) for size in np.atleast_1d(sizes).tolist()]
        super().__init__(self.sizes, None, entropy, l2, reference, geometry)

    def _size_text(self) -> str:
        return str(self.sizes) if len(self.sizes) <= 6 else f"{len(self.sizes)} blocks"


def _count(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"the number of weights must be a whole number of 1 or more, not {n!r}")
    return int(n)


def _strength(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number of 0 or more, not {value!r}") from error
    if not 0.0 <= number < math.inf:
        raise InputError(f"{name} must be a number of 0 or more, not {value!r}")
    return number


def _positive(name: str, values: Any, n: int) -> np.ndarray:
    try:
        array = np.broadcast_to(np.asarray(values, dtype=np.float64), (n,)).copy()
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a positive number, or {n} of them") from error
    if not ((array > 0.0) & (array < math.inf)).all():
        raise InputError(f"{name} must hold positive numbers: leave out weights that must be 0")
    return array
