"""Bounds of the F-score game for many rows: whole intervals of sizes at once, valid for every size and every labelling.

A labelling with i positives and a prediction with j of them score ``F = (1 + beta^2) |both| / (beta^2 i + j)``, which is convex in
i and in j. So two sorts bound all sizes between two nodes a < b. With t = (b - j) / (b - a) and f = (1 + beta^2) / (beta^2 i + j):

- adversary (a table M of sizes): ``V(j) = sum of the j largest of g_j``, ``g_j(k) = sum_i f(i, j) M_i(k)``, is at most the chord
  ``t Top_j(g_a) + (1 - t) Top_j(g_b)``, since sums of largest entries are convex;
- predictor (probabilities q_j of the prefixes of the sorted scores c): ``A(i) = sum of the i smallest of w_i - c``, where
  ``w_i(k) = sum_{j >= rank of k} f(i, j) q_j`` lies above its tangent at the middle m of (a, b). Sums of smallest entries are
  concave, hence ``A(i) >= t Bot_i(w_m + (a - m) w'_m - c) + (1 - t) Bot_i(w_m + (b - m) w'_m - c)``.

Intervals are halved where the bound is worse than the best node by more than a slack. A bound is never wrong, at worst loose.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

__all__ = ["SizedTable", "prefix_value", "size_grid", "table_value"]

RATIO = 1.1  # of neighbouring nodes at the beginning
NODES_AT_ONCE = 24  # nodes whose vectors of n numbers are in memory together
ROUNDING = 1e-12  # by which bounds are widened: sums of up to some million numbers of the sum 1


class SizedTable(NamedTuple):
    """A distribution over labellings by sizes: `rows[s]` are the probabilities of (size ``sizes[s]``, row k positive).

    Each row has entries of at most its mass, ``rows[s].sum() / sizes[s]``; what the masses lack to 1 is the empty labelling.
    """

    sizes: np.ndarray
    rows: np.ndarray

    @property
    def masses(self) -> np.ndarray:
        """Probability of each size."""
        return self.rows.sum(axis=1) / self.sizes

    @property
    def empty(self) -> float:
        """Probability of the empty labelling."""
        return max(0.0, 1.0 - float(self.masses.sum()))


def size_grid(n: int, ratio: float) -> np.ndarray:
    """Sizes 1 = B_1 < B_2 < ... = n with B_{s+1} = max(B_s + 1, floor(ratio B_s)).

    Examples
    --------
    >>> size_grid(20, 1.5)
    array([ 1,  2,  3,  4,  6,  9, 13, 19, 20])
    """
    sizes = [1]
    while sizes[-1] < n:
        sizes.append(min(n, max(sizes[-1] + 1, int(ratio * sizes[-1]))))
    return np.array(sizes, dtype=np.int64)


def top_sums(v: np.ndarray, first: int, last: int) -> np.ndarray:
    """Sums of the j largest entries of v for j = first, ..., last; v is written over."""
    np.negative(v, out=v)
    if last < v.size:
        v.partition(last - 1)
    head = v[:last]
    base = 0.0
    if first > 1:
        head.partition(first - 1)
        base = float(head[: first - 1].sum())
        head = head[first - 1 :]
    return -(base + np.cumsum(np.sort(head)))


class _Node(NamedTuple):
    """A size, and sums of largest entries of its vector between its neighbours, the first of which is for `first`."""

    size: int
    first: int
    sums: np.ndarray

    def between(self, a: int, b: int) -> np.ndarray:
        return self.sums[a + 1 - self.first : b - self.first]

    @property
    def value(self) -> float:
        return float(self.sums[self.size - self.first])


def table_value(table: SizedTable, beta2: float, slack: float) -> float:
    """An upper bound of ``max_z E F(y, z)`` over all labellings z, y being drawn from the table; at most `slack` above it."""
    n = table.rows.shape[1]
    used = np.flatnonzero(table.rows.any(axis=1))
    best = table.empty
    if not used.size:
        return best
    sizes, rows = table.sizes[used].astype(np.float64), table.rows[used]

    def nodes_at(places: list[tuple[int, int, int]]) -> list[_Node]:
        """Nodes of (size, first, last)."""
        out = []
        for start in range(0, len(places), NODES_AT_ONCE):
            block = places[start : start + NODES_AT_ONCE]
            at = np.array([place[0] for place in block], dtype=np.float64)
            vectors = ((1.0 + beta2) / (beta2 * sizes + at[:, None])) @ rows
            out += [_Node(j, first, top_sums(v, first, last)) for v, (j, first, last) in zip(vectors, block, strict=True)]
        return out

    grid = [int(size) for size in size_grid(n, RATIO)]
    edges = [grid[0], *grid, grid[-1]]
    nodes = nodes_at([(j, edges[at], edges[at + 2]) for at, j in enumerate(grid)])
    best = max(best, *(node.value for node in nodes))
    bound, pending = best, [(a, b) for a, b in pairwise(nodes) if b.size - a.size > 1]
    while pending:
        wide = []
        for a, b in pending:
            j = np.arange(a.size + 1, b.size)
            share = (b.size - j) / (b.size - a.size)
            chord = float((share * a.between(a.size, b.size) + (1.0 - share) * b.between(a.size, b.size)).max())
            if chord <= best + slack:
                bound = max(bound, chord)
            else:
                wide.append((a, b))
        middles = nodes_at([((a.size + b.size) // 2, a.size, b.size) for a, b in wide])
        best = max([best, *(node.value for node in middles)])
        pairs = [pair for (a, b), m in zip(wide, middles, strict=True) for pair in ((a, m), (m, b))]
        pending = [(a, b) for a, b in pairs if b.size - a.size > 1]
    return max(bound, best) + ROUNDING


def prefix_value(q: np.ndarray, c: np.ndarray, beta2: float, slack: float) -> float:
    """A lower bound of ``min_y E F(y, z) - c.y`` over all labellings y; at most `slack` below the minimum.

    Parameters
    ----------
    q : array of shape (n + 1,)
        Probabilities of predicting none, the first, the first two, ... rows as positive.
    c : array of shape (n,)
        Scores, divided by n, of the rows in that order (falling).
    beta2 : float
        beta squared.
    slack : float
        How much tightness may be given up.
    """
    n = c.size
    j, mass = np.arange(1.0, n + 1.0), (1.0 + beta2) * q[1:]

    def weights(i: float) -> np.ndarray:
        return np.cumsum((mass / (beta2 * i + j))[::-1])[::-1]

    def slopes(i: float) -> np.ndarray:
        return np.cumsum((-beta2 * mass / (beta2 * i + j) ** 2)[::-1])[::-1]

    def bottom(v: np.ndarray, first: int, last: int) -> np.ndarray:
        return -top_sums(-v, first, last)

    def exact(i: int) -> float:
        return float(bottom(weights(float(i)) - c, i, i)[0])

    grid = [int(size) for size in size_grid(n, RATIO)]
    best = min(float(q[0]), *(exact(i) for i in grid))
    bound, pending = best, list(pairwise(grid))
    while pending:
        wide = []
        for a, b in pending:
            if b - a <= 1:
                continue
            m = 0.5 * (a + b)
            at, slope = weights(m) - c, slopes(m)
            i = np.arange(a + 1, b)
            share = (b - i) / (b - a)
            low = share * bottom(at + (a - m) * slope, a + 1, b - 1) + (1.0 - share) * bottom(at + (b - m) * slope, a + 1, b - 1)
            if float(low.min()) >= best - slack:
                bound = min(bound, float(low.min()))
            else:
                middle = (a + b) // 2
                best = min(best, exact(middle))
                wide += [(a, middle), (middle, b)]
        pending = wide
    return min(bound, best) - ROUNDING
