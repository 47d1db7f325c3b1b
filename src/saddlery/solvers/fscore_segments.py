"""The F-score game at fixed scores, on segments of the rows sorted by score: a matrix game whose strategies are generated.

Given c = (X w + b) / n both players care for the order of the scores only. The ranks are cut into segments by a geometric grid of
sizes. A strategy of the adversary is a number of rows from each segment, spread evenly in it; one of the predictor is a share of
each,
at first all prefixes. Each turn solves the game of the strategies at hand and adds best responses of both sides, which are found
by sorting segments: O(m^2 log m) for m segments, whatever n is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddlery.losses.squared import Squared
from saddlery.problems.fscore_intervals import size_grid
from saddlery.problems.fscore_prefixes import fill_segments
from saddlery.problems.matrix_games import solve_plain_game

__all__ = ["Answer", "Mixture", "SegmentGame", "batch_marginals"]

PART = Squared()  # any part: it keys the compiled kernel
MOST_TURNS = 60
NEW_ROWS, NEW_COLUMNS = 12, 6  # strategies that are added in a turn
IDLE_ROWS, IDLE_COLUMNS = 12, 20  # turns after which an unused strategy is dropped
UNUSED = 1e-5
NEGLIGIBLE = 1e-9


class Mixture(NamedTuple):
    """A mixed strategy of the adversary: probabilities, numbers of rows from each segment, and their sums."""

    p: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray

    def refined(self, inside: np.ndarray, shares: np.ndarray) -> Mixture:
        """The same on a finer grid; segment s of it lies in the old segment `inside[s]` and is `shares[s]` of it."""
        return Mixture(self.p, self.counts[:, inside] * shares, self.sizes)


class Answer(NamedTuple):
    """Bounds of the game on the grid, and the adversary's mixture with what it concedes: max_z E F, before scores are counted."""

    lower: float
    upper: float
    concedes: float
    mixture: Mixture


class SegmentGame:
    """The strategies of both players on one grid; they are kept when scores change, since they stay feasible in another order."""

    def __init__(self, n: int, ratio: float, beta2: float):
        self.n, self.beta2 = n, beta2
        self.turns = 0
        self._set_grid(size_grid(n, ratio))
        m = self.ends.size
        self.rows, self.row_sizes = np.zeros((1, m)), np.zeros(1)  # the empty labelling
        self.columns, self.column_sizes = self._prefixes()
        self.row_idle, self.column_idle = np.zeros(1, dtype=np.int64), np.zeros(m + 1, dtype=np.int64)
        self.q = np.full(m + 1, 1.0 / (m + 1))

    def _set_grid(self, ends: np.ndarray) -> None:
        self.ends = ends
        self.starts = np.concatenate([[0], ends[:-1]])
        self.whole = ends - self.starts
        self.lengths, self.sizes = self.whole.astype(np.float64), ends.astype(np.float64)

    def _prefixes(self) -> tuple[np.ndarray, np.ndarray]:
        m = self.ends.size
        return np.vstack([np.zeros((1, m)), np.tril(np.ones((m, m)))]), np.concatenate([[0.0], self.sizes])

    @property
    def is_finest(self) -> bool:
        """Whether every size is a node."""
        return self.ends.size == self.n

    def refine(self) -> tuple[np.ndarray, np.ndarray]:
        """Halve all segments; returns where the new ones lie, for :meth:`Mixture.refined`. Strategies stay what they are."""
        old_ends, old_lengths, first = self.ends, self.lengths, self.ends.size + 1
        halves = (np.sqrt(np.maximum(self.starts, 1) * self.sizes)).astype(np.int64)
        inner = halves[(halves > self.starts) & (halves < self.ends)]
        self._set_grid(np.union1d(old_ends, inner))
        inside = np.searchsorted(old_ends, self.ends)
        shares = self.lengths / old_lengths[inside]
        self.rows = self.rows[:, inside] * shares
        prefixes, sizes = self._prefixes()
        q = np.zeros(sizes.size)
        q[np.searchsorted(sizes, self.column_sizes[:first])] = self.q[:first]
        self.columns = np.vstack([prefixes, self.columns[first:][:, inside]])
        self.column_sizes = np.concatenate([sizes, self.column_sizes[first:]])
        self.q = np.concatenate([q, self.q[first:]])
        self.column_idle = np.concatenate([np.zeros(sizes.size, dtype=np.int64), self.column_idle[first:]])
        return inside, shares

    def means(self, c: np.ndarray) -> np.ndarray:
        """The mean of the sorted scores in each segment."""
        return np.add.reduceat(c, self.starts) / self.lengths

    # -- values on the grid

    def payoff(self) -> np.ndarray:
        """F of all columns (predictions) against all rows (labellings)."""
        F = (self.columns @ self.rows.T) * (1.0 + self.beta2)
        F /= np.maximum(self.beta2 * self.row_sizes + self.column_sizes[:, None], 1.0e-300)
        F[0, self.row_sizes == 0.0] = 1.0  # none predicted, none there
        return F

    def lower(self, q: np.ndarray, means: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """What q is sure of on the grid; the best labelling of each size against it, and their values."""
        factors = (1.0 + self.beta2) * q[1:] / (self.beta2 * self.sizes[:, None] + self.column_sizes[1:])
        counts, values = np.empty((self.sizes.size, self.sizes.size)), np.empty(self.sizes.size)
        fill_segments(PART, factors @ self.columns[1:] - means, self.lengths, self.ends, False, counts, values)
        return min(float(q[0]), float(values.min())), counts, values

    def concession(self, mixture: Mixture) -> tuple[float, np.ndarray, np.ndarray]:
        """max_z E F against a mixture; the best prediction of each size, and their values."""
        p, rows, sizes = mixture
        some = sizes > 0.0
        factors = (1.0 + self.beta2) * p[some] / (self.beta2 * sizes[some] + self.sizes[:, None])
        counts, values = np.empty((self.sizes.size, self.sizes.size)), np.empty(self.sizes.size)
        fill_segments(PART, factors @ (rows[some] / self.lengths), self.lengths, self.ends, True, counts, values)
        return max(float(p[~some].sum()), float(values.max())), counts, values

    # -- solution

    def solve(self, means: np.ndarray, tol: float) -> Answer:
        """Play until the bounds on the grid differ by at most `tol`."""
        lower, upper, answer = -np.inf, np.inf, None
        q, best_q = self.q, self.q
        for turn in range(MOST_TURNS):
            value, counts, values = self.lower(q, means)
            if value > lower:
                lower, best_q = value, q
            new = np.argsort(values)[:NEW_ROWS]
            self.rows, self.row_sizes = np.vstack([self.rows, counts[new]]), np.concatenate([self.row_sizes, self.sizes[new]])
            self.row_idle = np.concatenate([self.row_idle, np.zeros(new.size, dtype=np.int64)])
            if upper - lower <= tol:
                break
            F, cost = self.payoff(), -(self.rows @ means)
            p, q, _, _ = solve_plain_game(F, cost, 0.05 * tol)
            self.turns += 1
            kept = p > NEGLIGIBLE
            mixture = Mixture(p[kept] / p[kept].sum(), self.rows[kept], self.row_sizes[kept])
            concedes, predictions, values = self.concession(mixture)
            now = concedes - float(mixture.p @ (mixture.counts @ means))
            if now < upper:
                upper, answer = now, (concedes, mixture)
            known = float((F @ p).max())
            more = np.argsort(-values)[:NEW_COLUMNS]
            more = more[values[more] > known + tol / 3.0]
            q, best_q = self._tidy(p, q, best_q, predictions[more] / self.lengths, self.sizes[more])
            if turn % 2:
                q = 0.5 * (q + best_q)
        self.q = best_q
        assert answer is not None
        return Answer(lower, upper, *answer)

    def _tidy(
        self, p: np.ndarray, q: np.ndarray, best_q: np.ndarray, columns: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Drop what was idle for long, and add columns."""
        self.row_idle = np.where(p > UNUSED, 0, self.row_idle + 1)
        kept = self.row_idle < IDLE_ROWS
        kept[0] = True
        self.rows, self.row_sizes, self.row_idle = self.rows[kept], self.row_sizes[kept], self.row_idle[kept]
        self.column_idle = np.where(np.maximum(q, best_q) > UNUSED, 0, self.column_idle + 1)
        kept = self.column_idle < IDLE_COLUMNS
        kept[: self.ends.size + 1] = True
        none = np.zeros(sizes.size)
        self.columns = np.vstack([self.columns[kept], columns])
        self.column_sizes = np.concatenate([self.column_sizes[kept], sizes])
        self.column_idle = np.concatenate([self.column_idle[kept], np.zeros(sizes.size, dtype=np.int64)])
        return tuple(np.concatenate([v[kept] / v[kept].sum(), none]) for v in (q, best_q))  # type: ignore[return-value]


def batch_marginals(c: np.ndarray, beta2: float = 1.0, tol: float = 1e-4, most_sizes: int = 120) -> np.ndarray:
    """The predictor's probabilities of a positive for each row when the game is played for fixed scores c (already divided by n).

    All sizes are looked at where there are no more than `most_sizes`, else those of a geometric grid.

    Examples
    --------
    >>> batch_marginals(np.array([2.0, -2.0])).round(2)
    array([1., 0.])
    """
    n = c.size
    order = np.argsort(-c, kind="stable")
    game = SegmentGame(n, 1.0 if n <= most_sizes else 1.1, beta2)
    game.solve(game.means(c[order]), tol)
    out = np.empty(n)
    out[order] = np.repeat(game.q @ game.columns, game.whole)
    return out
