"""A binary tree of sums over non-negative numbers: change one or draw one in O(log n).

The tree is an array of 2 * size numbers with a power of two for `size`: leaf j is at size + j, the sum of all at 1. Sums are
computed from their two children, never by adding differences, so nothing drifts.
"""

from __future__ import annotations

import numpy as np

from saddlery.parts import kernel

__all__ = ["draw_leaf", "new_tree", "rebuild", "set_leaf"]


def new_tree(count: int) -> np.ndarray:
    """A tree of at least `count` leaves, all zero.

    Examples
    --------
    >>> len(new_tree(5))
    16
    """
    return np.zeros(2 << max(count - 1, 0).bit_length())


@kernel
def set_leaf(tree, j, value):
    """Leaf j = value, and the sums above it."""
    at = tree.shape[0] // 2 + j
    tree[at] = value
    at //= 2
    while at >= 1:
        tree[at] = tree[2 * at] + tree[2 * at + 1]
        at //= 2


@kernel
def rebuild(tree):
    """All sums from the leaves: cheaper than many single changes."""
    for at in range(tree.shape[0] // 2 - 1, 0, -1):
        tree[at] = tree[2 * at] + tree[2 * at + 1]


@kernel
def draw_leaf(tree, uniform):
    """The leaf at which the running sum passes uniform * total; never one that is zero, whatever rounding does."""
    rest, at, size = uniform * tree[1], 1, tree.shape[0] // 2
    while at < size:
        left = tree[2 * at]
        if left > 0.0 and (rest < left or not tree[2 * at + 1] > 0.0):
            at = 2 * at
        else:
            rest -= left
            at = 2 * at + 1
    return at - size
