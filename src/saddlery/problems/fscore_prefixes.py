"""The predictor's best mixture of prefixes of the sorted scores: what turns weights into a lower bound of the F-score game.

Between nodes of a grid of sizes the probability is spread evenly over all whole numbers: masses on single sizes would let the
adversary hide inside the segments between them. The mixture is found on a grid of segments, against an adversary who may take any
number of rows of each; what it is worth is then computed on all rows (:func:`saddlery.problems.fscore_intervals.prefix_value`).
"""

from __future__ import annotations

import numpy as np

from saddlery.losses.squared import Squared
from saddlery.parts import kernel
from saddlery.problems.fscore_intervals import size_grid
from saddlery.problems.matrix_games import solve_plain_game

__all__ = ["fill_segments", "spread_prefixes"]

PART = Squared()  # any part: it keys the compiled kernel
COARSE, FINE = 1.05, 1.02  # ratios of sizes: of the blocks that share a probability, and of the adversary's segments
MOST_ROUNDS = 40
NEW_ROWS = 24  # labellings that are added in a round
IDLE = 10  # rounds after which an unused labelling is dropped
UNUSED = 1e-5


@kernel
def fill_segments(part, scores, lengths, sizes, largest, counts, values):
    """For each size take so many items from segments of the given lengths, those of the least (or largest) score first.

    counts[a, s] are the numbers taken by size a, values[a] = sum_s counts[a, s] scores[a, s].
    """
    segments = lengths.shape[0]
    sign = -1.0 if largest else 1.0
    for a in range(sizes.shape[0]):
        order = np.argsort(sign * scores[a])
        left, total = float(sizes[a]), 0.0
        for x in range(segments):
            s = order[x]
            taken = min(left, lengths[s])
            counts[a, s] = taken
            total += taken * scores[a, s]
            left -= taken
        values[a] = total


def spread_prefixes(c: np.ndarray, beta2: float, tol: float, coarse: float = COARSE, fine: float = FINE) -> np.ndarray:
    """Probabilities of the prefixes of 0, 1, ..., n rows that do best against labellings of scores c (divided by n, falling).

    Parameters
    ----------
    c : array of shape (n,)
        Scores in falling order.
    beta2 : float
        beta squared.
    tol : float
        Accuracy of the value on the grid.

    Returns
    -------
    array of shape (n + 1,)
    """
    n = c.size
    nodes = size_grid(n, coarse)
    edges = np.unique(np.concatenate([[0], (nodes[:-1] + nodes[1:]) // 2, [n]]))  # blocks of sizes that share a probability
    ends = np.unique(np.concatenate([edges[1:], size_grid(n, fine)]))
    starts = np.concatenate([[0], ends[:-1]])
    lengths, middles = (ends - starts).astype(np.float64), 0.5 * (starts + 1 + ends)
    block = np.searchsorted(edges[1:], ends)
    blocks, widths = edges.size - 1, np.diff(edges).astype(np.float64)
    first = np.searchsorted(block, np.arange(blocks))
    sums = np.concatenate([[0.0], np.cumsum(c)])
    means = (sums[ends] - sums[starts]) / lengths
    factor = (1.0 + beta2) / (beta2 * nodes[:, None] + middles)
    share = lengths / widths[block]
    q = np.full(blocks + 1, 1.0 / (blocks + 1))
    best, best_q, upper = -np.inf, q, np.inf
    counts, values = np.empty(factor.shape), np.empty(nodes.size)
    pay = np.zeros((1, blocks + 1))  # the first labelling is the empty one: only predicting none scores
    pay[0, 0] = 1.0
    cost, idle = np.zeros(1), np.zeros(1, dtype=np.int64)
    for turn in range(MOST_ROUNDS):
        terms = factor * (q[1:][block] * share)
        fill_segments(PART, np.cumsum(terms[:, ::-1], axis=1)[:, ::-1] - 0.5 * terms - means, lengths, nodes, False, counts, values)
        lower = min(float(q[0]), float(values.min()))
        if lower > best:
            best, best_q = lower, q
        if upper - best <= tol:
            break
        new = np.argsort(values)[:NEW_ROWS]
        before = (
            np.cumsum(counts[new], axis=1) - 0.5 * counts[new]
        )  # a prefix that ends inside of a segment has half of it on average
        scores = np.add.reduceat(factor[new] * share * before, first, axis=1)
        pay = np.vstack([pay, np.column_stack([np.zeros(new.size), scores])])
        cost, idle = np.concatenate([cost, -counts[new] @ means]), np.concatenate([idle, np.zeros(new.size, dtype=np.int64)])
        p, q, _, _ = solve_plain_game(np.ascontiguousarray(pay.T), cost, 0.1 * tol)
        upper = min(upper, float((p @ pay).max() + p @ cost))
        idle = np.where(p > UNUSED, 0, idle + 1)
        kept = idle < IDLE
        kept[0] = True
        pay, cost, idle = pay[kept], cost[kept], idle[kept]
        if turn % 2:
            q = 0.5 * (q + best_q)
    return np.concatenate([best_q[:1], np.repeat(best_q[1:] / widths, np.diff(edges))])
