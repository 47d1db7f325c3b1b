"""Epochs of dual ascent, one row after the other: what sdca, active_sdca and proximal_point are made of.

One step takes a row i, forms z_i = x_i.w on the fly and maximises a quadratic lower bound of the dual in a_i alone; sdca.py has the
letters and the paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.matrix import Matrix
from saddlery.parts import kernel

__all__ = [
    "FAST",
    "IN_CACHE",
    "LEG",
    "LONGER",
    "REACH",
    "dual_epoch",
    "dual_epoch_in_parts",
    "dual_epochs",
    "dual_steps",
    "fits_single",
    "gap_at_end",
    "new_seed",
    "random_order",
    "row_order",
    "shuffle",
    "stretch_of",
]

JUDGED = 1024  # rows of an epoch whose gap is looked at, about
IN_CACHE = 1_000_000  # entries that are read in any order as fast
# Where gaps fall fast, to less than so much of what an epoch met, one that is expected within so many times the tolerance is
# brought there by the rows that were not visited for longest, this share of all: it falls to a quarter by that, of losses with
# kinks to half (over 21 tolerances, text of 5000 x 30,000: 4.05 -> 3.83 epochs with logistic loss, 5.76 -> 5.51 with squared
# hinge).
FAST, REACH, LEG = 0.4, 3.0, 0.3
# Steps of losses with kinks are so many times as long as the bound asks for (successive over-relaxation; below 2 the dual still
# rises): most rows end at bounds or on a parabola whose other rows follow. (1000 x 5000, epochs to 1e-3 and 1e-6 of the optimum:
# hinge 32 -> 24 to the first, squared hinge 14 and 22 -> 12 and 17; rcv1, hinge: 13 -> 9 ms; logistic loss would need 10 % more.)
LONGER = 1.3
TOGETHER, LARGEST_GROUP, LEAST_GROUPS = 2048, 16, 64  # entries and rows that are visited one after the other; groups of them


@kernel(fast_sums=True)
def dual_epoch(loss, penalty, rows, y, s, steps, order, a, v, intercept, along):
    """For rows i in order: a_i = prox of tau_i l* at a_i + tau_i z_i, then v -= s_i da_i x_i (paper's (13), row by row).

    `intercept` and `along` are the offset of a free intercept (balance.py), or zeros. Returns the sum of the gaps
    s_i (l(z_i) + l*(a_i) - z_i a_i) that the rows had when they were met (of some of them, raised, if there are many).
    """
    every, met, free = 1 + order.shape[0] // JUDGED, 0.0, intercept[3] > 0.0
    for k in range(order.shape[0]):
        i = order[k]
        if s[i] == 0.0:
            continue
        z = intercept[2] - intercept[1] - (intercept[3] - along[i]) * intercept[0] if free else 0.0
        for p in range(rows.first(i), rows.last(i)):
            z += rows.entry(p) * penalty.coordinate_map(v[rows.position(i, p)])
        if k % every == 0:
            met += s[i] * (loss.value(y[i], z) + loss.conjugate(y[i], a[i]) - z * a[i])
        if steps[i] > 0.0:
            move = loss.dual_step(y[i], a[i], z, steps[i]) - a[i]
        else:  # an empty row: z = 0 whatever w is
            move = loss.slope(y[i], 0.0) - a[i]
        if move != 0.0:
            a[i] += move
            change = -s[i] * move
            if free:
                intercept[0] -= change
                intercept[1] += change * along[i]
            for p in range(rows.first(i), rows.last(i)):
                v[rows.position(i, p)] += change * rows.entry(p)
    return met * every


@kernel
def gap_at_end(loss, met, before):
    """The gap to expect after an epoch whose rows met `met` and those of the epoch before it `before`.

    If gaps fall by r from epoch to epoch, evenly, the mean over an epoch is (r - 1) / log(r) times that at its end.
    """
    share = met / before if before < math.inf else 0.5
    return -met * share * math.log(share) / (1.0 - share) if 0.0 < share < 1.0 else met


@kernel
def shuffle(rows, order, seed):
    """Put the order at random (Fisher and Yates), by draws of a xorshift generator whose state is seed[0]."""
    x = seed[0]
    for k in range(order.shape[0] - 1, 0, -1):
        x ^= x >> np.uint64(12)
        x ^= x << np.uint64(25)
        x ^= x >> np.uint64(27)
        j = np.int64((x >> np.uint64(32)) * np.uint64(k + 1) >> np.uint64(32))
        order[k], order[j] = order[j], order[k]
    seed[0] = x


@kernel
def dual_epochs(loss, penalty, rows, y, s, steps, order, seed, a, v, intercept, along, met, goal, most):
    """At most so many epochs, until the gap is expected to be at a goal; how many, what was met last, and what is expected."""
    count, expected = 0, math.inf
    while count < most and expected > goal:
        shuffle(rows, order, seed)
        before, met = met, dual_epoch(loss, penalty, rows, y, s, steps, order, a, v, intercept, along)
        expected = gap_at_end(loss, met, before)
        count += 1
    return count, met, expected


def new_seed(rng: np.random.Generator) -> np.ndarray:
    """A state for the draws of `shuffle`."""
    return np.array([rng.bit_generator.random_raw() | 1], dtype=np.uint64)


def row_order(rng: np.random.Generator, matrix: Matrix) -> np.ndarray:
    """The rows in random order; see :func:`random_order`."""
    return random_order(rng, matrix.rows, matrix.shape[0], matrix.nnz)


def random_order(rng: np.random.Generator, vectors: Any, n: int, entries: int) -> np.ndarray:
    """Vectors in random order; of data larger than a cache, short neighbours stay together (20,000 x 50,000: 8.8 -> 3.9 ms).

    Where reading is cheap they do not, as neighbours that are alike make epochs less worth (w8a, hinge: 186 -> 383 ms).
    """
    group = int(min(TOGETHER * n // max(entries, 1), LARGEST_GROUP, n // LEAST_GROUPS))
    if group <= 1 or entries < IN_CACHE:
        order = np.arange(n)
        shuffle(vectors, order, new_seed(rng))
        return order
    starts = rng.permutation((n + group - 1) // group) * group
    order = (starts[:, None] + np.arange(group)).ravel()
    return order if n % group == 0 else order[order < n]


def dual_epoch_in_parts(
    loss: Any, penalty: Any, matrix: Matrix, y: Any, s: Any, steps: Any, rng: np.random.Generator, a: Any, v: Any, *offset: Any
) -> float:
    """One epoch over all rows in random order; of data that are read in parts, over the rows of one part after the other.

    Returns the gap as it was met on the way.
    """
    met, (numbers, along) = 0.0, offset
    for part, block in matrix.row_parts(rng):
        order, here = row_order(rng, block), along[part] if numbers[3] > 0.0 else along
        met += dual_epoch(loss, penalty, block.rows, y[part], s[part], steps[part], order, a[part], v, numbers, here)
    return met


def fits_single(square_norms: np.ndarray, large: float) -> bool:
    """Whether all squared norms of rows that are not zero lie between 1 / large and large."""
    return not ((square_norms > 0.0) & ((square_norms < 1.0 / large) | (square_norms > large))).any()


def stretch_of(loss: Any, longer: float = LONGER) -> float:
    """How many times as long as the bound asks for steps are: this often if the loss has kinks."""
    return 1.0 if getattr(loss, "curvature_is_smooth", False) else longer


def dual_steps(square_norms: np.ndarray, s: np.ndarray, mu: float, more: Any = 0.0, longer: float = 1.0) -> np.ndarray:
    """tau_i = longer / (s_i (||x_i||^2 / mu + more_i)); 0 marks rows without entries or weight."""
    curvature = s * (square_norms / mu + more)
    return np.divide(longer, curvature, out=np.zeros_like(curvature), where=curvature > 0.0)
