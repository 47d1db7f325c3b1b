"""The loops of players on simplices: scaling to the sum 1 under caps, in entropy and in Euclidean geometry.

A point is one or more blocks of weights, each of the sum 1. The KL projection of exp(logs) onto a block is min(c exp(logs), cap),
where c is found by capping what exceeds, and scaling the rest anew, until nothing does: the set of capped weights only grows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from saddlery.losses.elementary import decaying_exp, entropy_term
from saddlery.parts import kernel, part

__all__ = ["Blocks", "entropy_scale", "entropy_step", "euclid_guess", "euclid_scale", "kl", "relative_entropy", "scaled_value"]

MOST_TURNS = 200  # of a search for one number; some ten are usual
ENOUGH = 1e-15  # error of a sum of 1 that is rounding


@part
class Blocks(NamedTuple):
    """Where blocks begin, and the caps of all weights with their logs; without caps these two are empty."""

    starts: np.ndarray
    caps: np.ndarray
    log_caps: np.ndarray
    log_reference: np.ndarray


@kernel
def _cap_block(blocks, first, last, log_c, log_x, x):
    """min(c exp(logs), cap) with the sum 1 for one block in which some weights exceed their caps; returns log c."""
    for i in range(first, last):
        x[i] = 0.0  # 1 marks what is capped
    while True:
        more = False
        for i in range(first, last):
            if x[i] == 0.0 and log_x[i] + log_c > blocks.log_caps[i]:
                x[i], more = 1.0, True
        if not more:
            break
        capped, top = 0.0, -math.inf
        for i in range(first, last):
            if x[i] == 1.0:
                capped += blocks.caps[i]
            elif log_x[i] > top:
                top = log_x[i]
        rest, total = 1.0 - capped, 0.0
        if top == -math.inf or rest <= 0.0:  # the caps sum to one
            break
        for i in range(first, last):
            if x[i] == 0.0:
                total += math.exp(log_x[i] - top)
        log_c = math.log(rest) - math.log(total) - top
    for i in range(first, last):
        if x[i] == 1.0:
            x[i], log_x[i] = blocks.caps[i], blocks.log_caps[i]
        else:
            log_x[i] += log_c
            log_x[i] = min(log_x[i], blocks.log_caps[i])
            x[i] = math.exp(log_x[i])
    return log_c


@kernel(fast_sums=True)
def _largest(blocks, a):
    """max a, four at a time: a single chain of comparisons would not become vector code."""
    one = two = three = four = a[0]
    for i in range(0, a.shape[0] - 3, 4):
        one = a[i] if a[i] > one else one
        two = a[i + 1] if a[i + 1] > two else two
        three = a[i + 2] if a[i + 2] > three else three
        four = a[i + 3] if a[i + 3] > four else four
    for i in range(a.shape[0] // 4 * 4, a.shape[0]):
        one = a[i] if a[i] > one else one
    return max(one, two, three, four)


@kernel(fast_sums=True)
def _scale_block(blocks, logs, top, x):
    """x = exp(logs - top); their sum."""
    total = 0.0
    for i in range(x.shape[0]):
        x[i] = decaying_exp(logs[i] - top)
        total += x[i]
    return total


@kernel(fast_sums=True)
def _count_above(blocks, x, c, caps):
    """How many c x exceed their caps."""
    count = 0
    for i in range(x.shape[0]):
        count += x[i] * c > caps[i]
    return count


@kernel(fast_sums=True)
def _finish_block(blocks, c, shift, log_x, x):
    """x *= c, log_x += shift."""
    for i in range(x.shape[0]):
        x[i] *= c
    for i in range(x.shape[0]):
        log_x[i] += shift


@kernel(fast_sums=True)
def entropy_scale(blocks, log_x, x, log_c):
    """In each block x = min(c exp(logs), cap) with the sum 1, and log c; `log_x` holds the logs before, and those of x then.

    Blocks are cut out first: loops over all of an array become vector code, loops from one signed number to another do not.
    """
    for b in range(blocks.starts.shape[0] - 1):
        first, last = blocks.starts[b], blocks.starts[b + 1]
        logs, weights = log_x[first:last], x[first:last]
        top = _largest(blocks, logs)
        total = _scale_block(blocks, logs, top, weights)
        c, shift = 1.0 / total, -math.log(total) - top
        log_c[b] = shift
        if blocks.caps.shape[0] > 0 and _count_above(blocks, weights, c, blocks.caps[first:last]) > 0:
            log_c[b] = _cap_block(blocks, first, last, shift, log_x, x)
        else:
            _finish_block(blocks, c, shift, logs, weights)


@kernel(fast_sums=True)
def entropy_step(blocks, log, gradient, step, strength, log_x, x, log_c):
    """x = argmin step (<gradient, x> + strength sum x log(x / reference)) + KL(x, exp(log)), with its logs."""
    share = 1.0 / (1.0 + step * strength)
    if blocks.log_reference.shape[0] > 0:
        for i in range(log.shape[0]):
            log_x[i] = share * (log[i] - step * (gradient[i] - strength * blocks.log_reference[i]))
    else:
        for i in range(log.shape[0]):
            log_x[i] = share * (log[i] - step * gradient[i])
    entropy_scale(blocks, log_x, x, log_c)


@kernel(fast_sums=True)
def kl(blocks, x, log_x, log_y):
    """sum x (log x - log y)."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * (log_x[i] - log_y[i])
    return total


@kernel(fast_sums=True)
def relative_entropy(blocks, x):
    """sum x log(x / reference), and the sum of the absolute terms."""
    total, size = 0.0, 0.0
    for i in range(x.shape[0]):
        term = entropy_term(x[i])
        total += term
        size += abs(term)
    if blocks.log_reference.shape[0] > 0:
        for i in range(x.shape[0]):
            total -= x[i] * blocks.log_reference[i]
            size += abs(x[i] * blocks.log_reference[i])
    return total, size


@kernel(fast_sums=True)
def scaled_value(blocks, logs, x, log_c):
    """sum x (logs - log x) where x = min(c exp(logs), cap): what is not capped has logs - log x = -log c."""
    value = 0.0
    for b in range(blocks.starts.shape[0] - 1):
        first, last = blocks.starts[b], blocks.starts[b + 1]
        free = 1.0
        if blocks.caps.shape[0] > 0:
            for i in range(first, last):
                if x[i] >= blocks.caps[i]:
                    free -= blocks.caps[i]
                    value += blocks.caps[i] * (logs[i] - blocks.log_caps[i])
        value -= free * log_c[b]
    return value


# --------------------------------------------------------------------------- Euclidean


@kernel
def _omega(blocks, u):
    """The z > 0 with z + log z = u (Wright's omega), by two steps of Fritsch, Shafer & Crowley (1973): relative error 1e-15."""
    if u < -40.0:
        return math.exp(u)
    if u < -2.0:
        z = math.exp(u)
        z *= 1.0 - z
    elif u < 4.0:
        z = 1.0 + 0.5 * (u - 1.0) + 0.0625 * (u - 1.0) ** 2
        z = z if z > 0.1 else 0.1
    else:
        z = u - math.log(u)
    for _ in range(3 if -2.0 <= u < 4.0 else 2):
        r = u - z - math.log(z)
        w = 1.0 + z
        q = 2.0 * w * (w + r * (2.0 / 3.0))
        z *= 1.0 + r / w * (q - r) / (q - 2.0 * r)
    return z


@kernel
def _euclid_sum(blocks, first, last, v, kappa, log_kappa, t, x):
    """x = argmin_z kappa z log(z / reference) + (z - v + t)^2 / 2 in [0, cap] for a block; its sum, and minus its slope in t."""
    total = slope = 0.0
    for i in range(first, last):
        if kappa > 0.0:
            reference = blocks.log_reference[i] if blocks.log_reference.shape[0] > 0 else 0.0
            z = _omega(blocks, (v[i] - t) / kappa - 1.0 - log_kappa + reference)
            value, rate = kappa * z, z / (1.0 + z)
        else:
            value = v[i] - t
            rate = 1.0 if value > 0.0 else 0.0
            value = value if value > 0.0 else 0.0
        if blocks.caps.shape[0] > 0 and value >= blocks.caps[i]:
            value, rate = blocks.caps[i], 0.0
        x[i] = value
        total += value
        slope += rate
    return total, slope


@kernel
def _euclid_bracket(blocks, first, last, v, kappa):
    """Numbers low <= high such that the sum is at least 1 at low and at most 1 at high."""
    count = float(last - first)
    low, high = math.inf, -math.inf
    for i in range(first, last):
        reference = blocks.log_reference[i] if blocks.log_reference.shape[0] > 0 else 0.0
        at_one = v[i] - 1.0 - kappa * (1.0 - reference)
        at_share = v[i] - 1.0 / count - kappa * (1.0 - math.log(count) - reference)
        low = at_one if at_one < low else low
        high = at_share if at_share > high else high
    return low, high


@kernel(fast_sums=True)
def euclid_guess(blocks, v, kappa, old, guess):
    """The multiplier of each block to first order around the point `old`."""
    for b in range(blocks.starts.shape[0] - 1):
        total = weight = 0.0
        for i in range(blocks.starts[b], blocks.starts[b + 1]):
            if old[i] > 0.0:
                reference = blocks.log_reference[i] if blocks.log_reference.shape[0] > 0 else 0.0
                share = old[i] / (old[i] + kappa)
                bend = kappa * (math.log(old[i]) - reference + 1.0) if kappa > 0.0 else 0.0
                total += share * (v[i] - old[i] - bend)
                weight += share
        guess[b] = total / weight


@kernel
def _share_rest(blocks, first, last, rest, x):
    """Add what rounding has left of the sum to the weights that are not at a bound, in proportion to them."""
    free = 0.0
    for i in range(first, last):
        if blocks.caps.shape[0] == 0 or x[i] < blocks.caps[i]:
            free += x[i]
    if free > 0.0:
        for i in range(first, last):
            if blocks.caps.shape[0] == 0:
                x[i] += rest * (x[i] / free)
            elif x[i] < blocks.caps[i]:
                x[i] = min(x[i] + rest * (x[i] / free), blocks.caps[i])


@kernel
def euclid_scale(blocks, v, kappa, guess, x):
    """In each block x = argmin kappa sum x log(x / reference) + |x - v|^2 / 2 over weights in [0, cap] of the sum 1.

    The multiplier t of the sum is found by Newton's method on the log of the sum, kept in a bracket; guess[b] is where it begins.
    """
    log_kappa = math.log(kappa) if kappa > 0.0 else 0.0
    for b in range(blocks.starts.shape[0] - 1):
        first, last = blocks.starts[b], blocks.starts[b + 1]
        low, high = _euclid_bracket(blocks, first, last, v, kappa)
        t = guess[b] if low < guess[b] < high else 0.5 * (low + high)
        for _ in range(MOST_TURNS):
            total, slope = _euclid_sum(blocks, first, last, v, kappa, log_kappa, t, x)
            if abs(total - 1.0) <= ENOUGH * (last - first) ** 0.5:
                break
            if total > 1.0:
                low = t
            else:
                high = t
            if slope > 0.0 and total > 0.0:
                # the log of a sum of exponentials is linear, a sum of what is not at a bound is so itself
                t += math.log(total) * total / slope if kappa > 0.0 else (total - 1.0) / slope
            if not low < t < high or slope == 0.0:
                t = 0.5 * (low + high)
                if not low < t < high:
                    break
        _share_rest(blocks, first, last, 1.0 - total, x)
        guess[b] = t
