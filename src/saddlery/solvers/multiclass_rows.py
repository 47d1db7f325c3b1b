"""Rows of k margins: smoothed losses, their slopes, and products with the data. Shared by the solvers of multiclass problems.

Margins and probabilities are kept by classes, shape (k, n): a class is a contiguous vector, so loops over rows become vector code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.losses.elementary import decaying_exp
from saddlery.parts import kernel
from saddlery.solvers.base import Needs
from saddlery.solvers.four_wide import WIDTH, add_four, padded

__all__ = [
    "RowNeeds",
    "add_pairs",
    "balance",
    "expand_rows",
    "gradient_of",
    "model_rows",
    "new_room",
    "shift_into",
    "soften",
    "weigh_slopes",
]


BLOCK = 256  # rows at a time: k x BLOCK numbers stay in cache
IN_CACHE = 30_000  # numbers of a product that may be added to in any order (mnist: 80 -> 46 ms)
MOST_BALANCING = 6  # Newton steps on the intercepts
BALANCED = 1e-11  # largest sum of weighted slopes of a class that needs no further step


@dataclass(frozen=True)
class RowNeeds(Needs):
    """What a solver asks that writes out the formulas of certain row losses."""

    only: tuple[type, ...] = ()

    def missing(self, problem: Any) -> list[str]:
        phrases = super().missing(problem)
        if problem.kind == "multiclass" and not isinstance(problem.loss, self.only):
            phrases.append(f"the row loss {' or '.join(cls.__name__ for cls in self.only)}")
        return phrases


@kernel(fast_sums=True)
def add_scaled(loss, x, size, along, out):
    """out = x + size along."""
    for i in range(out.shape[0]):
        out[i] = x[i] + size * along[i]


@kernel(fast_sums=True)
def shift_into(loss, x, shift, out):
    """out = x + shift."""
    for i in range(out.shape[0]):
        out[i] = x[i] + shift


@kernel(fast_sums=True)
def raise_to(loss, x, top):
    """top = max(top, x)."""
    for i in range(top.shape[0]):
        top[i] = top[i] if top[i] > x[i] else x[i]


@kernel(fast_sums=True)
def exponentials(loss, x, top, inverse, total):
    """x = exp((x - top) inverse), x <= top; total += x."""
    for i in range(x.shape[0]):
        x[i] = decaying_exp((x[i] - top[i]) * inverse)
    for i in range(x.shape[0]):
        total[i] += x[i]


@kernel(fast_sums=True)
def multiply_into(loss, x, factor, out):
    """out = x factor."""
    for i in range(out.shape[0]):
        out[i] = x[i] * factor[i]


@kernel(fast_sums=True)
def soften(loss, codes, s, margin, tau, Z, top, total):
    """Z = exp((z - margin Y) / tau) by classes, not yet divided by their sums; the inverse of these in `total`.

    Returns sum_i s_i of the smooth loss tau lse((z - margin Y) / tau) + margin - z_y and of its limit max(z - margin Y) + margin
    - z_y. With margin 0 and tau 1 the first is the softmax loss; with margin 1 the limit is the hinge. Loops over one vector each
    become vector code; all in one did not (letter: 4.2 -> 1.6 ms).
    """
    k, count = Z.shape
    value, limit = 0.0, 0.0
    inverse = 1.0 / tau
    if margin != 0.0:
        for i in range(count):
            Z[codes[i], i] -= margin
    top[:] = Z[0]
    for l in range(1, k):
        raise_to(loss, Z[l], top)
    for i in range(count):
        limit += s[i] * (top[i] - Z[codes[i], i])  # less the margin already
    total[:] = 0.0
    for l in range(k):
        exponentials(loss, Z[l], top, inverse, total)
    for i in range(count):
        value += s[i] * math.log(total[i])
        total[i] = 1.0 / total[i]
    return limit + tau * value, limit


@kernel(fast_sums=True)
def expand_rows(loss, codes, s, T, along, size, b, margin, tau, new, V, room):
    """At z = T + size along + b: V = softmax((z - margin Y) / tau) by rows; the margins without b go to `new`.

    Returns what `soften` does.
    """
    k, n = T.shape
    value, limit = 0.0, 0.0
    for low in range(0, n, BLOCK):
        high = min(low + BLOCK, n)
        count = high - low
        Z, top, total = room.ravel()[: k * count].reshape((k, count)), room[k, :count], room[k + 1, :count]
        for l in range(k):
            add_scaled(loss, T[l, low:high], size, along[l, low:high], new[l, low:high])
            shift_into(loss, new[l, low:high], b[l], Z[l])
        sums = soften(loss, codes[low:high], s[low:high], margin, tau, Z, top, total)
        value += sums[0]
        limit += sums[1]
        for l in range(k):
            multiply_into(loss, Z[l], total, V[l, low:high])
    return value, limit


@kernel(fast_sums=True)
def weigh_slopes(loss, codes, s, V, out):
    """out = s (V - Y), by classes."""
    for l in range(V.shape[0]):
        for i in range(s.shape[0]):
            out[l, i] = V[l, i] * s[i]
    for i in range(s.shape[0]):
        out[codes[i], i] -= s[i]


@kernel(fast_sums=True)
def model_rows(loss, V, first, Z, room):
    """Z = V (1 + Z - <V, Z>), the probabilities that the Newton model sees at its end, of the rows from `first` on; negative ones
    become zero, at the expense of the others of their row. These are few and small in the last model (mnist at 0.01 alpha_max: one
    of 600,000)."""
    k, n = Z.shape
    for low in range(0, n, BLOCK):
        high = min(low + BLOCK, n)
        total = room[0, : high - low]
        total[:] = -1.0
        for l in range(k):
            row, z = V[l, first + low : first + high], Z[l, low:high]
            for i in range(high - low):
                total[i] += row[i] * z[i]
        below = 0.0
        for l in range(k):
            row, z = V[l, first + low : first + high], Z[l, low:high]
            for i in range(high - low):
                z[i] = row[i] * (z[i] - total[i])
            for i in range(high - low):
                below += z[i] if z[i] < 0.0 else 0.0  # a sum, which becomes vector code
        if below < 0.0:
            _leave_out_negatives(loss, Z[:, low:high], total)


@kernel(fast_sums=True)
def _leave_out_negatives(loss, Z, total):
    """Columns of Z become probabilities: negative entries zero, the others scaled to the sum 1."""
    total[:] = 0.0
    for l in range(Z.shape[0]):
        for i in range(total.shape[0]):
            Z[l, i] = Z[l, i] if Z[l, i] > 0.0 else 0.0
            total[i] += Z[l, i]
    for l in range(Z.shape[0]):
        for i in range(total.shape[0]):
            Z[l, i] /= total[i]


@kernel(fast_sums=True)
def add_pairs(cols, feature, cls, move, Z):
    """Z_l += x_j move_p, for every pair p = (j, l)."""
    for p in range(move.shape[0]):
        if move[p] != 0.0:
            cols.axpy(feature[p], move[p], Z[cls[p]])


@kernel(fast_sums=True)
def add_products(cols, weighted, out):
    """out_j += sum_i x_ij weighted_i, for columns j and rows of k numbers."""
    k = out.shape[1]
    for j in range(out.shape[0]):
        for p in range(cols.first(j), cols.last(j)):
            value = cols.entry(p)
            i = cols.position(j, p)
            for l in range(k):
                out[j, l] += value * weighted[i, l]


@kernel(fast_sums=True)
def add_row_products(rows, weighted, row, out):
    """The same from rows of the data, into a flat `out`; `weighted` is kept by classes, and `row` is room for one of its rows. This
    and `out` hold a multiple of four classes, the last ones zeros."""
    k, width = weighted.shape[1], np.uint64(row.shape[0])
    for i in range(weighted.shape[0]):
        for l in range(k):
            row[l] = weighted[i, l]
        for p in range(rows.first(i), rows.last(i)):
            value = 1.0 * rows.entry(p)  # single precision becomes double
            at = np.uint64(rows.position(i, p)) * width
            for l in range(np.uint64(0), width, np.uint64(WIDTH)):
                add_four(out, at + l, value, row, l)


def gradient_of(matrix: Any, weighted: np.ndarray) -> np.ndarray:
    """X' weighted, shape (d, k), in C order."""
    if not matrix.is_sparse and matrix.values.dtype == np.float64:
        return np.ascontiguousarray(np.dot(weighted.T, matrix.values).T)  # in this order: the transposed takes half as long again
    d, k = matrix.shape[1], weighted.shape[1]
    if matrix.is_sparse and d * k <= IN_CACHE and matrix.has("rows") and weighted.flags.f_contiguous:
        wide = np.zeros((d, padded(k)))
        add_row_products(matrix.rows, weighted, np.zeros(padded(k)), wide.ravel())
        return np.ascontiguousarray(wide[:, :k])
    out = np.zeros((d, k))
    add_products(matrix.cols, np.ascontiguousarray(weighted), out)
    return out


def new_room(k: int) -> np.ndarray:
    """Scratch of `expand_rows`."""
    return np.empty((k + 2, BLOCK))


def balance(problem: Any, T: np.ndarray, V: np.ndarray, b: np.ndarray, tau: float, margin: float, room: Any) -> tuple[Any, ...]:
    """Newton steps on the intercepts until the slopes of every class balance; V follows. Returns b and the sums of the loss.

    The system is singular along equal shifts of all classes, which change nothing; steps with a sum of zero are taken.
    """
    sums = expand_rows(problem.loss, problem.codes, problem.s, T, T, 0.0, b, margin, tau, T, V, room)
    weight = np.bincount(problem.codes, problem.s, minlength=problem.k)
    reach = (
        4.0 * tau + 2.0 * margin + float(np.ptp(T)) + float(np.ptp(b))
    )  # no step need be longer; where nothing bends, some would
    for _ in range(MOST_BALANCING):
        weighted = V * problem.s
        mass = weighted.sum(axis=1)
        slope = mass - weight
        if np.abs(slope).max() <= BALANCED:
            break
        system = (np.diag(mass) - weighted @ V.T) / tau
        system += np.diag(np.full(problem.k, 1e-12 * mass.max() / tau)) + system.trace() / problem.k
        move = np.linalg.solve(system, -slope)
        size, old = min(1.0, reach / max(float(np.abs(move).max()), 1e-300)), sums
        while size > 1e-3:
            trial = b + size * move
            sums = expand_rows(problem.loss, problem.codes, problem.s, T, T, 0.0, trial, margin, tau, T, V, room)
            if sums[0] <= old[0] + 1e-14 * abs(old[0]):
                b = trial
                break
            size *= 0.5
        else:
            return b, expand_rows(problem.loss, problem.codes, problem.s, T, T, 0.0, b, margin, tau, T, V, room)
    return b, sums
