"""Weights on a capped simplex that change a few at a time: p_i = s_i cap min(1, r_i / theta), with theta such that sum p = mass.

One tree with four numbers at each node, over the ratios r_i of the rows: the sum of s r over free rows, the sum of s over capped
rows, the largest r of free rows and the smallest r of capped rows. With room = mass / cap,

    theta = (sum of s r, free) / (room - sum of s, capped),

and the sides are right when no free row is above theta and no capped row below. A row that is on the wrong side is moved; each move
lowers theta, so there is an end to it. All is O(log n) for each change, each move and each draw.
"""

from __future__ import annotations

import math

import numpy as np

from saddlery.parts import kernel
from saddlery.sampling.sum_tree import draw_leaf

__all__ = ["draw_capped", "new_capped_tree", "place", "rebuild_capped", "settle", "threshold", "write"]

# The four numbers of a node are 0: sum of s r, free; 1: sum of s, capped; 2: largest free r; 3: smallest capped r.


def new_capped_tree(count: int) -> np.ndarray:
    """A tree of at least `count` leaves without rows."""
    tree = np.zeros((4, 2 << max(count - 1, 0).bit_length()))
    tree[2], tree[3] = -1.0, math.inf
    return tree


@kernel
def _join(tree, at):
    tree[0, at] = tree[0, 2 * at] + tree[0, 2 * at + 1]
    tree[1, at] = tree[1, 2 * at] + tree[1, 2 * at + 1]
    tree[2, at] = max(tree[2, 2 * at], tree[2, 2 * at + 1])
    tree[3, at] = min(tree[3, 2 * at], tree[3, 2 * at + 1])


@kernel
def write(tree, leaf, ratio, s, capped):
    """The numbers of one leaf, not yet those above it."""
    at = tree.shape[1] // 2 + leaf
    tree[0, at] = 0.0 if capped else s * ratio
    tree[1, at] = s if capped else 0.0
    tree[2, at] = -1.0 if capped else ratio
    tree[3, at] = ratio if capped else np.inf


@kernel
def place(tree, leaf, ratio, s, capped):
    """A leaf and all above it."""
    write(tree, leaf, ratio, s, capped)
    at = (tree.shape[1] // 2 + leaf) // 2
    while at >= 1:
        _join(tree, at)
        at //= 2


@kernel
def rebuild_capped(tree):
    """All nodes from the leaves."""
    for at in range(tree.shape[1] // 2 - 1, 0, -1):
        _join(tree, at)


@kernel
def threshold(tree, room):
    """theta; 1 where all rows are capped."""
    left = room - tree[1, 1]
    return tree[0, 1] / left if tree[0, 1] > 0.0 and left > 0.0 else 1.0


@kernel
def settle(tree, room):
    """The next leaf on the wrong side, or -1: the largest free one above theta, else the smallest capped one below it.

    Rounding must not cap more weight than there is room for, nor move a row back and forth: what is within 1e-14 of theta stays.
    """
    theta, at, size = threshold(tree, room), 1, tree.shape[1] // 2
    if tree[2, 1] > theta * (1.0 + 1e-14):
        while at < size:
            at = 2 * at if tree[2, 2 * at] >= tree[2, 2 * at + 1] else 2 * at + 1
        if tree[0, at] < tree[0, 1]:  # the last free row cannot be above its own theta
            return at - size
    at = 1
    if tree[3, 1] < theta * (1.0 - 1e-14) and tree[0, 1] > 0.0:
        while at < size:
            at = 2 * at if tree[3, 2 * at] <= tree[3, 2 * at + 1] else 2 * at + 1
        return at - size
    return -1


@kernel
def draw_capped(tree, room, uniform, second):
    """A leaf with the law p / mass: among the capped ones with probability (their weight) / room, else among the free ones."""
    if uniform * room < tree[1, 1] or not tree[0, 1] > 0.0:
        return draw_leaf(tree[1], second)
    return draw_leaf(tree[0], second)
