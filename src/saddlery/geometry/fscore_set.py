"""The player of the F-score game: tables that stand for distributions over all 2^n labellings of n rows.

Row i of a table (from 1) is ``alpha_i = sum over labellings y with i positives of p(y) y / i``, (13) of Shi, Zhang & Yu (2017).
The tables of
all distributions are exactly S = {x >= 0, sum x <= 1, i x_ik <= sum_k x_ik}; what is missing to the sum 1 is the probability of the
empty labelling. The paper's construction (18) of a distribution from a table is wrong; systematic sampling, here, is right.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry.fscore_steps import (
    kl_of_tables,
    project_rows,
    scale_rows,
    step_logs,
    table_entropy,
    top_means,
    write_rows,
)
from saddlery.geometry.players import Player
from saddlery.losses.squared import Squared

__all__ = ["FScoreSet", "LogTable", "draw_labels", "marginals", "systematic_atoms"]

PART = Squared()  # any part: it keys the compiled kernels
EXCESS = 1e-9  # by which a constraint may be missed
FLOOR = 1e-12  # of entries whose log is taken in Euclidean geometry
LARGEST = 4000  # rows: a table of so many squared entries is the most that is worth keeping
EMPTY = np.empty((0, 0))


class LogTable(NamedTuple):
    """A state in entropy geometry: logs of the entries, and the entries; a blend has no entries."""

    log: np.ndarray
    x: np.ndarray


class Rows(NamedTuple):
    """A table split into rows of the sum 1 and the logs of their masses, before masses are scaled into the set."""

    u: np.ndarray
    log_r: np.ndarray
    log_c: np.ndarray


class FScoreSet(Player):
    """Tables of distributions over labellings of n rows, with the regulariser ``entropy * sum x log x``.

    Parameters
    ----------
    n : int
        Number of rows of the data.
    entropy : float, default=0.0
        Strength of the regulariser, the paper's mu.
    geometry : {"entropy", "euclidean"}
        How steps are measured. In Euclidean geometry the regulariser is moved into the gradient (`slope`), as in the paper.
    size : float, optional
        If given, the expected number of positives: what a free intercept asks of the adversary. Only in entropy geometry.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> player = sd.geometry.FScoreSet(3)
    >>> table = player.response(np.eye(3))  # the best labelling for this gradient: the first row alone is positive
    >>> table[0]
    array([1., 0., 0.])
    """

    def __init__(self, n: int, entropy: float = 0.0, geometry: str = "entropy", size: float | None = None):
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"the number of rows must be a whole number of 1 or more, not {n!r}")
        if n > LARGEST:
            raise InputError(
                f"tables of {n:,} x {n:,} are too large (at most {LARGEST:,} rows): use smoothing=0 with solver='double_oracle'"
            )
        if geometry not in ("entropy", "euclidean"):
            raise InputError(f"geometry must be 'entropy' or 'euclidean', not {geometry!r}")
        if not 0.0 <= entropy < math.inf:
            raise InputError(f"entropy must be a number of 0 or more, not {entropy!r}")
        if size is not None and not 0.0 < size < n:
            raise InputError(f"a fixed size must lie between 0 and {n}, not {size!r}")
        if size is not None and geometry == "euclidean":
            raise InputError("Euclidean steps with a free intercept are not there: use geometry='entropy'")
        self.n, self.entropy, self.geometry, self.size = int(n), float(entropy), geometry, size
        self.shape = (self.n, self.n)
        self.sizes = np.arange(1.0, n + 1.0)

    @property
    def strength(self) -> float:  # type: ignore[override]
        """Of the regulariser in units of the divergence; entries are at most 1, so the entropy has it in both geometries."""
        return self.entropy

    def __repr__(self) -> str:
        return f"FScoreSet({self.n}, entropy={self.entropy:g}, geometry={self.geometry!r})"

    # -- states

    def start(self) -> Any:
        """The table of the largest entropy."""
        state = self._scaled(np.zeros(self.shape))
        return state if self.geometry == "entropy" else state.x

    def point(self, state: Any) -> np.ndarray:
        return state.x if self.geometry == "entropy" else state

    def state_at(self, x: np.ndarray) -> Any:
        x = self.project(x)
        if self.geometry == "euclidean":
            return x
        return self._scaled(np.log(np.maximum(x, 1e-300)))

    def blend(self, state: Any, other: Any, share: float) -> Any:
        if self.geometry == "euclidean":
            return (1.0 - share) * state + share * other
        return LogTable((1.0 - share) * state.log + share * other.log, EMPTY)

    def rows_of(self, b: np.ndarray) -> Rows:
        """The KL problem of each row alone: log_r are the masses that rows deserve, sum exp(log_r) <= 1 not yet asked for."""
        rows = Rows(np.empty(self.shape), np.empty(self.n), np.empty(self.n))
        scale_rows(PART, b, *rows)
        return rows

    def _scaled(self, b: np.ndarray) -> LogTable:
        """argmin KL(x, exp(b)) over the set, closed form but for the one number that a fixed size asks for."""
        u, log_r, log_c = self.rows_of(b)
        log_x = np.empty(self.shape)
        write_rows(PART, self._masses(log_r), log_c, b, u, log_x)
        return LogTable(log_x, u)

    def _masses(self, log_r: np.ndarray) -> np.ndarray:
        """Masses scaled to a sum of at most 1, tilted by exp(t i) if the size is fixed."""
        if self.size is not None:
            log_r = log_r + self.tilt(log_r) * self.sizes
        log_z = _logsumexp(log_r)
        return log_r - log_z if log_z > 0.0 else log_r

    def tilt(self, log_r: np.ndarray) -> float:
        """t for which the masses exp(log_r + t i), scaled to a sum of at most 1, have the expected size: Newton in a bracket."""
        assert self.size is not None

        def error(t: float) -> tuple[float, float]:
            logs = log_r + t * self.sizes
            top = float(logs.max())
            r = np.exp(logs - top)
            z = float(r.sum())
            free = top + math.log(z) <= 0.0  # the sum is below 1 anyway
            r = r * math.exp(top) if free else r / z
            mean = float(r @ self.sizes)
            spread = float(r @ self.sizes**2) - (0.0 if free else mean * mean)
            return mean - self.size, spread  # type: ignore[operator]

        low, high, t = -1.0, 1.0, 0.0
        while error(low)[0] > 0.0:
            low *= 2.0
        while error(high)[0] < 0.0:
            high *= 2.0
        for _ in range(200):
            e, slope = error(t)
            if abs(e) <= 1e-13 * self.size or high - low <= 1e-16 * (abs(low) + abs(high)):
                break
            low, high = (t, high) if e < 0.0 else (low, t)
            trial = t - e / slope if slope > 0.0 else math.inf
            t = trial if low < trial < high else 0.5 * (low + high)
        return t

    # -- steps

    def prox(self, state: Any, gradient: np.ndarray, step: float) -> Any:
        if self.geometry == "euclidean":
            return self._euclid(state - step * gradient)
        b = np.empty(self.shape)
        step_logs(PART, state.log, gradient, float(step), self.entropy, b)
        return self._scaled(b)

    def slope(self, x: np.ndarray) -> Any:
        if self.geometry == "euclidean" and self.entropy > 0.0:
            return self.entropy * (np.log(np.maximum(x, FLOOR)) + 1.0)
        return 0.0

    def _euclid(self, v: np.ndarray) -> np.ndarray:
        """The nearest table: rows by sorting, then Newton's method for the price rho of mass."""
        ordered = -np.sort(-v, axis=1)
        sums = np.concatenate([np.zeros((self.n, 1)), np.cumsum(ordered, axis=1)], axis=1)
        x = np.empty(self.shape)
        mass, slope = project_rows(PART, v, ordered, sums, 0.0, x)
        if mass <= 1.0:
            return x
        means = sums[np.arange(self.n), np.arange(1, self.n + 1)] / self.sizes
        low, high, rho = 0.0, float(means.max()), 0.0
        for _ in range(200):
            low, high = (rho, high) if mass > 1.0 else (low, rho)
            trial = rho - (mass - 1.0) / slope if slope < 0.0 else math.inf
            rho = trial if low < trial < high else 0.5 * (low + high)
            mass, slope = project_rows(PART, v, ordered, sums, rho, x)
            if abs(mass - 1.0) <= 1e-14 or high - low <= 1e-16 * high:
                break
        return x / mass if mass > 1.0 else x

    def divergence(self, state: Any, other: Any) -> float:
        if self.geometry == "euclidean":
            change = state - other
            return 0.5 * float(np.vdot(change, change))
        return float(kl_of_tables(PART, state.x, state.log, other.log))

    # -- values

    def value(self, x: np.ndarray) -> float:
        if not self.is_inside(x):
            return math.inf
        return self.entropy * float(table_entropy(PART, x)[0]) if self.entropy > 0.0 else 0.0

    def magnitude(self, x: np.ndarray) -> float:
        return 1.0 + self.entropy * float(table_entropy(PART, x)[1])

    def is_inside(self, x: np.ndarray) -> bool:
        """Whether a table is in the set, up to rounding."""
        sums = x.sum(axis=1)
        inside = bool(
            x.min() >= 0.0 and sums.sum() <= 1.0 + EXCESS and (self.sizes * x.max(axis=1) <= sums + EXCESS * sums.max()).all()
        )
        return inside and (self.size is None or abs(float(self.sizes @ sums) - self.size) <= EXCESS * self.n)

    def project(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64)
        if self.is_inside(x):
            return x
        x = self._euclid(x)
        return x if self.size is None else mix_to_size(x, self.size)

    def support(self, gradient: np.ndarray) -> float:
        """h_mu of the notes: mu Z or mu (1 + log Z); h_0 = max(0, largest mean of the i largest entries of row i)."""
        if self.size is not None:
            t = self.price(gradient)
            return self.plain_support(gradient - (t * self.sizes)[:, None]) + t * self.size
        return self.plain_support(gradient)

    def plain_support(self, gradient: np.ndarray) -> float:
        """The support function without the fixed size."""
        if self.entropy == 0.0:
            return max(0.0, float(self._means(gradient)[0].max()))
        return self._smooth(self.rows_of(gradient / self.entropy - 1.0).log_r)

    def _smooth(self, log_r: np.ndarray) -> float:
        log_z = _logsumexp(log_r)
        return self.entropy * (math.exp(log_z) if log_z <= 0.0 else 1.0 + log_z)

    def price(self, gradient: np.ndarray) -> float:
        """t that minimises ``plain_support(gradient - t i) + t size``: n times the best change of an intercept."""
        assert self.size is not None
        if self.entropy > 0.0:
            return -self.entropy * self.tilt(self.rows_of(gradient / self.entropy - 1.0).log_r)
        # max(0, max_i mean_i - t i) + t size is a maximum of lines: the best is where it stops to fall
        heights = np.concatenate([[0.0], self._means(gradient)[0]])
        places = np.arange(self.n + 1.0)
        low = places < self.size  # lines that rise in t; the others fall
        at = (heights[~low][None, :] - heights[low][:, None]) / (places[~low][None, :] - places[low][:, None])
        return float(at.max(axis=1).min()) if at.size <= 10**6 else self._price_by_search(heights, places)

    def _price_by_search(self, heights: np.ndarray, places: np.ndarray) -> float:
        low, high = -1.0, 1.0

        def falls(t: float) -> bool:
            return bool(places[int(np.argmax(heights - t * places))] > self.size)

        while not falls(low):
            low *= 2.0
        while falls(high):
            high *= 2.0
        for _ in range(100):
            t = 0.5 * (low + high)
            low, high = (t, high) if falls(t) else (low, t)
        return 0.5 * (low + high)

    def _means(self, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        out, ordered = np.empty(self.n), -np.sort(-gradient, axis=1)
        top_means(PART, ordered, out)
        return out, ordered

    def response(self, gradient: np.ndarray) -> np.ndarray:
        if self.size is not None and self.entropy == 0.0:
            raise InputError("the best response with a fixed size and no entropy is not unique: use double_oracle")
        if self.entropy > 0.0:
            return self._scaled(gradient / self.entropy - 1.0).x
        means = self._means(gradient)[0]
        x, i = np.zeros(self.shape), int(np.argmax(means))
        if means[i] > 0.0:
            x[i, np.argsort(-gradient[i], kind="stable")[: i + 1]] = 1.0 / (i + 1)
        return x


def _logsumexp(logs: np.ndarray) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum())) if top > -math.inf else -math.inf


def mix_to_size(x: np.ndarray, size: float) -> np.ndarray:
    """The table mixed with the full labelling (too small) or the empty one (too large), so that its expected size is `size`."""
    n = x.shape[0]
    now = float(np.arange(1.0, n + 1.0) @ x.sum(axis=1))
    if now > size:
        return x * (size / now)
    share = (size - now) / (n - now) if n > now else 0.0
    x = (1.0 - share) * x
    x[-1] += share / n
    return x


# --------------------------------------------------------------------------- labellings


def marginals(x: np.ndarray) -> np.ndarray:
    """sum_i i x_i: the probability of each row to be positive.

    Examples
    --------
    >>> marginals(np.array([[0.0, 0.0], [0.5, 0.5]]))
    array([1., 1.])
    """
    return np.arange(1.0, x.shape[0] + 1.0) @ x


def systematic_atoms(v: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """A distribution over sets of i rows whose marginals are v (entries of at most 1 that sum to the whole number i).

    With c the sums of v, the set of u in [0, 1) holds the k for which [c_{k-1}, c_k) contains one of u, u + 1, ..., u + i - 1. It
    changes at the fractional parts of c only, so that at most n sets have a probability.

    Returns
    -------
    weights, sets
        Probabilities that sum to 1, and for each the rows of its set.

    Examples
    --------
    >>> weights, sets = systematic_atoms(np.array([0.9, 0.6, 0.5]))  # where the paper's construction (18) fails
    >>> [(round(float(weight), 2), set.tolist()) for weight, set in zip(weights, sets)]
    [(0.5, [0, 1]), (0.4, [0, 2]), (0.1, [1, 2])]
    """
    v = np.clip(np.asarray(v, dtype=np.float64), 0.0, 1.0)
    count = round(float(v.sum()))
    sums = np.cumsum(v)
    sums *= count / sums[-1] if sums[-1] > 0.0 else 1.0
    cuts = np.unique(np.concatenate([[0.0], np.mod(sums[:-1], 1.0), [1.0]]))
    weights = np.diff(cuts)
    kept = weights > 1e-15
    middles = (0.5 * (cuts[:-1] + cuts[1:]))[kept]
    sets = [_systematic_set(sums, u, count) for u in middles]
    return weights[kept] / weights[kept].sum(), sets


def _systematic_set(sums: np.ndarray, u: float, count: int) -> np.ndarray:
    return np.minimum(np.searchsorted(sums, u + np.arange(count), side="right"), sums.size - 1)


def draw_labels(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A labelling drawn from a distribution that the table x stands for: a size, then a set of that size by systematic sampling.

    Examples
    --------
    >>> draw_labels(np.array([[0.0, 0.0], [0.5, 0.5]]), np.random.default_rng(0))
    array([1, 1])
    """
    masses = x.sum(axis=1)
    y = np.zeros(x.shape[0], dtype=np.int64)
    i = int(np.searchsorted(np.cumsum(masses), rng.random()))
    if i < x.shape[0]:
        v = np.minimum((i + 1) * x[i] / masses[i], 1.0)
        sums = np.cumsum(v)
        y[_systematic_set(sums * ((i + 1) / sums[-1]), float(rng.random()), i + 1)] = 1
    return y
