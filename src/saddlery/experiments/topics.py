"""Dense data with little noise, made on demand: rows are directions of topics with as much noise, labels the signs of the topics.

Row i belongs to topic k(i), drawn with given shares, and is ``x_i = (T_k(i) + G_i) / sqrt(2 d)`` with T and G of unit variance, so
that ``||x_i||`` is about 1. Every number is a hash of its place (seed, i, j): row i and column j agree though nothing is kept, and
rows behind the last one are fresh data for tests. To learn a rare topic a method has to meet it: that is what sampling rows in
proportion to their weights is good at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from saddlery.parts import kernel, part

__all__ = ["Topics", "rare_shares", "zipf_shares"]

ROW_KEY, TOPIC_KEY, LABEL_KEY = 1, 2, 3  # streams of numbers of one seed


@part
class Stream(NamedTuple):
    """A stream of hashed numbers: `key` names it, vectors have `length` numbers."""

    key: int
    length: int


@kernel(inline=True)
def _bits(key, place):
    """Number `place` of splitmix64 begun at `key`: 64 bits that look random."""
    z = key + place * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel(inline=True)
def _normal(bits):
    """Four uniform numbers of 16 bits, summed: mean 0, variance 1, nearly normal."""
    mask = np.uint64(0xFFFF)
    total = (bits & mask) + ((bits >> np.uint64(16)) & mask) + ((bits >> np.uint64(32)) & mask) + (bits >> np.uint64(48))
    return (np.int64(total) - 131070.0) * (1.0 / 37837.22693)


@kernel
def hash_rows(stream, index, out):
    """out[t, j] = number (index[t], j) of the stream."""
    key, length = np.uint64(stream.key), np.uint64(stream.length)
    for t in range(index.shape[0]):
        first = np.uint64(index[t]) * length
        for j in range(out.shape[1]):
            out[t, j] = _normal(_bits(key, first + np.uint64(j)))


@kernel
def hash_columns(stream, index, first, out):
    """out[t, i] = number (first + i, index[t]) of the stream."""
    key, length = np.uint64(stream.key), np.uint64(stream.length)
    for t in range(index.shape[0]):
        start = np.uint64(first) * length + np.uint64(index[t])
        for i in range(out.shape[1]):
            out[t, i] = _normal(_bits(key, start + np.uint64(i) * length))


@kernel
def hash_uniform(stream, first, out):
    """out[i] = number first + i of the stream, uniform in [0, 1)."""
    for i in range(out.shape[0]):
        out[i] = (_bits(np.uint64(stream.key), np.uint64(first) + np.uint64(i)) >> np.uint64(11)) * 2.0**-53


@kernel
def add_directions(stream, directions, topics, scale, out):
    """out[t] = scale * (directions[topics[t]] + out[t])."""
    for t in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[t, j] = scale * (directions[topics[t], j] + out[t, j])


@kernel
def add_entries(stream, directions, topics, index, scale, out):
    """out[t, i] = scale * (directions[topics[i], index[t]] + out[t, i])."""
    few = np.empty(directions.shape[0], directions.dtype)
    for t in range(out.shape[0]):
        few[:] = directions[:, index[t]]
        for i in range(out.shape[1]):
            out[t, i] = scale * (few[topics[i]] + out[t, i])


def zipf_shares(count: int, power: float) -> list[float]:
    """Shares of `count` topics that fall like k^-power.

    Examples
    --------
    >>> zipf_shares(2, 1.0)
    [0.6666666666666666, 0.3333333333333333]
    """
    raw = np.arange(1, count + 1, dtype=float) ** -power
    return (raw / raw.sum()).tolist()


def rare_shares(common: int, rare: int, mass: float) -> list[float]:
    """Shares of `common` topics alike, and of `rare` ones that have `mass` together."""
    return [(1.0 - mass) / common] * common + [mass / rare] * rare


class Topics:
    """Latent topics, as features on demand: `shape`, `row`, `column` and their batch forms.

    Parameters
    ----------
    n, d : int
        Rows and columns.
    shares : sequence of float
        Probabilities of the topics. Topic k has the label +1 if k is even, else -1.
    seed : int
        Of everything.
    first : int
        Number of the first row; `test` gives rows that nobody has trained on.

    Attributes
    ----------
    y : array of shape (n,)
        Labels, -1 and +1.
    topics : array of shape (n,)
        The topic of each row.

    Examples
    --------
    >>> X = Topics(5, 4, [0.5, 0.5], seed=0)
    >>> bool(X.row(3)[2] == X.column(2)[3])
    True
    """

    dtype = np.dtype(np.float32)

    def __init__(self, n: int, d: int, shares: Sequence[float] | np.ndarray, seed: int = 0, first: int = 0):
        self.shape, self.shares, self.seed, self.first = (int(n), int(d)), np.asarray(shares, dtype=float), seed, int(first)
        keys = np.random.SeedSequence(seed).generate_state(3, np.uint64) >> np.uint64(1)
        self._noise = Stream(int(keys[ROW_KEY - 1]), d)
        self.directions = np.empty((len(self.shares), d), np.float32)
        hash_rows(Stream(int(keys[TOPIC_KEY - 1]), d), np.arange(len(self.shares)), self.directions)
        places = np.empty(n)
        hash_uniform(Stream(int(keys[LABEL_KEY - 1]), 1), self.first, places)
        ends = np.cumsum(self.shares)
        self.topics = np.searchsorted(ends[:-1] / ends[-1], places, side="right")
        self.y = self.signs[self.topics]
        self._scale = np.float32(1.0 / np.sqrt(2.0 * d))

    @property
    def signs(self) -> np.ndarray:
        """The label of each topic."""
        return np.where(np.arange(len(self.shares)) % 2 == 0, 1.0, -1.0)

    def rows(self, index: Any) -> np.ndarray:
        """The rows of `index`, one below the other."""
        index = np.asarray(index, dtype=np.int64)
        out = np.empty((len(index), self.shape[1]), np.float32)
        hash_rows(self._noise, index + self.first, out)
        add_directions(self._noise, self.directions, self.topics[index], self._scale, out)
        return out

    def columns(self, index: Any) -> np.ndarray:
        """The columns of `index`, beside each other."""
        index = np.asarray(index, dtype=np.int64)
        out = np.empty((len(index), self.shape[0]), np.float32)
        hash_columns(self._noise, index, self.first, out)
        add_entries(self._noise, self.directions, self.topics, index, self._scale, out)
        return out.T

    def row(self, i: int) -> np.ndarray:
        """Row i."""
        return self.rows([i])[0]

    def column(self, j: int) -> np.ndarray:
        """Column j."""
        return self.columns([j])[:, 0]

    def array(self) -> np.ndarray:
        """All of it in memory."""
        return self.rows(np.arange(self.shape[0]))

    def test(self, count: int) -> Topics:
        """The `count` rows behind the last one."""
        return Topics(count, self.shape[1], self.shares, self.seed, self.first + self.shape[0])

    def error(self, w: np.ndarray, b: float = 0.0) -> float:
        """The share of new rows that sign(x.w + b) gets wrong, in expectation.

        Given its topic, the margin of a new row is a sum of d independent numbers: normal, with mean scale * T_k.w + b and
        deviation scale * ||w||. No sample of test rows is needed, and shares of 1e-6 can be told from 0.
        """
        spread = float(self._scale) * float(np.linalg.norm(w))
        means = float(self._scale) * (self.directions @ w) + b
        if spread == 0.0:
            wrong = np.where(self.signs * means > 0.0, 0.0, 1.0)
        else:
            wrong = ndtr(-self.signs * means / spread)
        return float(self.shares @ wrong / self.shares.sum())
