"""The curvature of softmax as a graph, and models made of a sample of its edges.

The curvature of one row couples its classes like a graph whose edges weigh V_l V_l':

    v'Hv = sum_i s_i sum_{l < l'} V_il V_il' (Z_il - Z_il')^2        Z = X v

So H may be made of a sample of edges (row, class, class) instead of rows, and stays positive semidefinite. Rows of a trained model
hesitate between two or three classes, so that almost all of their other edges weigh nothing; and an edge costs the products of two
classes with themselves and each other, about 3 / k^2 of those of a row. On mnist at 0.01 alpha_max (2316 pairs, 10 classes) the
matrix of all rows took 6.6 s, of eight rows for each pair 2.0 s, and of sixteen edges for each pair, which is better, 0.26 s; on
letter (416 pairs, 26 classes) all rows took 280 ms, eight rows 20 ms, and 32 edges, which are better, 5 ms (sixteen are not). The
runs took 13 s with rows and 3.2 to 3.8 s with edges, and 0.135 and 0.105 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.solvers.multiclass_model import Pairs, mirror

__all__ = ["edge_gram"]

CHUNK = 512  # edges at a time: what is copied of the data for them stays in cache
ROUNDING = 1e-7  # of the mean diagonal entry: what single precision may have taken from convexity


@kernel(fast_sums=True)
def row_chances(penalty, V, s, out):
    """out_i = s_i sum_{l < l'} V_il V_il', half of what the squares of a row leave of 1; returns their sum."""
    out[:] = 1.0
    for l in range(V.shape[0]):
        row = V[l]
        for i in range(out.shape[0]):
            out[i] -= row[i] * row[i]
    total = 0.0
    for i in range(out.shape[0]):
        out[i] = 0.5 * s[i] * out[i] if out[i] > 0.0 else 0.0
        total += out[i]
    return total


@kernel
def draw_edges(penalty, V, s, chances, unit, offset, first, second, rows, weights):
    """Take an edge of weight w with probability w / unit, and then as one of weight `unit`; heavier ones always, as they are.

    The weights of all edges, row after row, are laid on a line with marks at all distances of `unit`: edges with a mark on them are
    taken. `chances` are the sums of the rows, so that most rows are passed at once, and others left after their last mark. Returns
    how many were taken.
    """
    k, n = V.shape
    count, end, mark = 0, offset, 1.0
    for i in range(n):
        here, end = end, end + chances[i] / unit
        if end < mark:
            continue
        factor, rest = s[i] / unit, 1.0
        for l in range(k - 1):
            rest -= V[l, i]
            first_weight = factor * V[l, i]
            if here + first_weight * rest < mark:
                here += first_weight * rest
                continue
            for r in range(l + 1, k):
                weight = first_weight * V[r, i]
                here += weight
                if here >= mark:
                    mark = np.floor(here) + 1.0
                    first[count], second[count], rows[count] = l, r, i
                    weights[count] = unit * max(1.0, weight)
                    count += 1
                    if count == rows.shape[0]:
                        return count
            if mark > end:
                break
        mark = max(mark, np.floor(end) + 1.0)  # rounding may have passed one
    return count


@kernel
def sort_edges(penalty, first, second, count, k):
    """The order of the edges by their two classes: counted, by the second first."""
    order, last = np.empty(count, np.int64), np.arange(count)
    for classes in (second, first):
        starts = np.zeros(k + 1, np.int64)
        for e in range(count):
            starts[classes[e] + 1] += 1
        for l in range(k):
            starts[l + 1] += starts[l]
        for e in last:
            order[starts[classes[e]]] = e
            starts[classes[e]] += 1
        order, last = last, order
    return last


@kernel
def gather(rows, edges, chosen, weights, mine, others, spread, A, B):
    """A[e, p] = x_ij sqrt(w), for the row i and the weight w of an edge e and the features j of the pairs p of its one class; B of
    its other. `spread` is room for one row, all zeros but for a last number that stays."""
    for e in range(edges.shape[0]):
        i, root = chosen[edges[e]], np.float32(np.sqrt(weights[edges[e]]))
        for p in range(rows.first(i), rows.last(i)):
            spread[rows.position(i, p)] = rows.entry(p)
        for p in range(mine.shape[0]):
            A[e, p] = spread[mine[p]] * root
        for p in range(others.shape[0]):
            B[e, p] = spread[others[p]] * root
        for p in range(rows.first(i), rows.last(i)):
            spread[rows.position(i, p)] = 0.0


@kernel(fast_sums=True)
def add_block(penalty, block, sign, out):
    """out += sign block."""
    for a in range(block.shape[0]):
        new, row = block[a], out[a]
        for c in range(block.shape[1]):
            row[c] += sign * new[c]


@kernel
def add_edges(rows, penalty, feature, bounds, order, first, second, chosen, weights, spread, gram):
    """gram += the blocks (l, l), (l', l') and, with a minus, (l, l') of all edges, in an order by their two classes l < l'."""
    most = 0
    for l in range(bounds.shape[0] - 1):
        most = max(most, bounds[l + 1] - bounds[l])
    copies, blocks = np.empty((2, CHUNK * most), dtype=np.float32), np.empty(most * most, dtype=np.float32)
    high = 0
    while high < order.shape[0]:
        low = high
        l, r = first[order[low]], second[order[low]]
        while high < min(low + CHUNK, order.shape[0]) and first[order[high]] == l and second[order[high]] == r:
            high += 1
        a, b, c, d = bounds[l], bounds[l + 1], bounds[r], bounds[r + 1]
        count = high - low
        A, B = copies[0, : count * (b - a)].reshape((count, b - a)), copies[1, : count * (d - c)].reshape((count, d - c))
        gather(rows, order[low:high], chosen, weights, feature[a:b], feature[c:d], spread, A, B)
        if b > a:
            block = blocks[: (b - a) * (b - a)].reshape((b - a, b - a))
            np.dot(A.T, A, block)
            add_block(penalty, block, 1.0, gram[a:b, a:b])
        if d > c:
            block = blocks[: (d - c) * (d - c)].reshape((d - c, d - c))
            np.dot(B.T, B, block)
            add_block(penalty, block, 1.0, gram[c:d, c:d])
        if b > a and d > c:
            block = blocks[: (b - a) * (d - c)].reshape((b - a, d - c))
            np.dot(A.T, B, block)
            add_block(penalty, block, -1.0, gram[a:b, c:d])


@kernel
def sampled_gram(rows, penalty, V, s, d, feature, bounds, edges, offset, gram):
    """gram += H of about so many edges, in one kernel: between parts of it Python took a third of the time (letter, 2000 rows)."""
    chances = np.empty(V.shape[1])
    unit = max(row_chances(penalty, V, s, chances) / edges, 1e-300)
    places, weights = np.empty((3, edges + 2), np.int64), np.empty(edges + 2)
    first, second, chosen = places[0], places[1], places[2]
    count = draw_edges(penalty, V, s, chances, unit, offset, first, second, chosen, weights)
    order = sort_edges(penalty, first, second, count, V.shape[0])
    spread = np.zeros(d + 1)
    spread[d] = 1.0
    add_edges(rows, penalty, feature, bounds, order, first, second, chosen, weights, spread, gram)
    mirror(penalty, gram, 1.0, ROUNDING, gram)


def edge_gram(
    penalty: Any, rows: Any, pairs: Pairs, V: np.ndarray, s: np.ndarray, d: int, edges: int, free: int, rng: np.random.Generator
) -> np.ndarray:
    """H of about so many edges, with `free` intercepts at its end; `rows` are those of X."""
    gram = np.zeros((len(pairs.feature) + free,) * 2)
    if not free:  # pairs are sorted by class
        sampled_gram(rows, penalty, V, s, d, pairs.feature, pairs.starts, edges, rng.random(), gram)
        return gram
    k = len(V)
    cls, feature = np.concatenate([pairs.cls, np.arange(free)]), np.concatenate([pairs.feature, np.full(free, d)])
    order = np.argsort(cls, kind="stable")  # the classes one after the other, each with its intercept
    bounds = np.searchsorted(cls[order], np.arange(k + 1))
    sampled_gram(rows, penalty, V, s, d, feature[order], bounds, edges, rng.random(), gram)
    back = np.argsort(order)
    return gram.take(back, axis=0).take(back, axis=1)
