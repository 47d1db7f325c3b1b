"""The Newton model of a multiclass problem on a working set of (feature, class) pairs, in two forms.

    q.v + 1/2 v'Hv + g(u + v)        H[(j,l),(j',l')] = sum_i s_i x_ij x_ij' V_il (1[l = l'] - V_il') / tau

* *Gram*: H is formed, in single precision, from all rows or a sample of them; coordinate descent and exact solves on the support.
* *columns*: H is never formed; with Z = X v and Q_i = <V_i, Z_i> a coordinate step costs two passes over one column, whatever k is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.linalg.lapack

from saddlery.parts import kernel
from saddlery.solvers.prox_newton import gram_descent

__all__ = ["Pairs", "column_model", "gram_model", "pair_gram"]

CHUNK = 1_000_000  # numbers in a block of weighted rows, which should stay in cache
BOX = 2.0  # how far a weight may move in one step, in units of 1 / max_i |x_ij|


class Pairs:
    """Pairs (feature, class) sorted by class, with intercepts (feature -1) last; `place` is a feature's row in a block of columns."""

    def __init__(self, keys: np.ndarray, k: int):
        self.feature, self.cls = np.divmod(keys, k)
        order = np.argsort(self.cls, kind="stable")
        self.feature, self.cls = self.feature[order], self.cls[order]
        self.keys = keys[order]
        self.starts = np.searchsorted(self.cls, np.arange(k + 1))
        self.m = len(keys)


# --------------------------------------------------------------------------- Gram form


@kernel(fast_sums=True)
def weigh(penalty, columns, place, cls, V, low, high, out):
    """out_p = x_j V_l on the rows low..high, for every pair p = (j, l)."""
    for p in range(place.shape[0]):
        j, l = place[p], cls[p]
        for i in range(low, high):
            out[p, i - low] = columns[j, i] * V[l, i]


@kernel(fast_sums=True)
def weigh_by(penalty, columns, place, first, last, row, low, high, out):
    """out_p = x_j row on the rows low..high, for the pairs of one class."""
    for p in range(first, last):
        j = place[p]
        for i in range(low, high):
            out[p - first, i - low] = columns[j, i] * row[i]


@kernel(fast_sums=True)
def exact_diagonal(penalty, columns, place, cls, V, s, out):
    """H_pp = sum_i s_i x_ij^2 V_il (1 - V_il)."""
    for p in range(place.shape[0]):
        j, l = place[p], cls[p]
        total = 0.0
        for i in range(s.shape[0]):
            total += s[i] * columns[j, i] * columns[j, i] * V[l, i] * (1.0 - V[l, i])
        out[p] = total


def pair_gram(penalty: Any, columns: np.ndarray, place: np.ndarray, pairs: Any, V: np.ndarray, s: np.ndarray) -> np.ndarray:
    """H for tau = 1, from the rows given: -(B B') plus a block for each class, in the precision of `columns`."""
    m, n = len(place), columns.shape[1]
    dtype = columns.dtype
    roots = np.sqrt(s).astype(dtype)
    V = V.astype(dtype, copy=False)
    halves, wholes = np.sqrt(V) * roots, V * roots
    syrk = scipy.linalg.blas.ssyrk if dtype == np.float32 else scipy.linalg.blas.dsyrk
    step = max(128, min(n, CHUNK // max(m, 1)))
    room = np.empty((m, min(step, n)), dtype=dtype)
    total = np.zeros((m, m), dtype=dtype, order="F")
    parts = [(int(a), int(z), l, np.zeros((z - a, z - a), dtype=dtype, order="F"))
             for l, (a, z) in enumerate(zip(pairs.starts[:-1], pairs.starts[1:], strict=True)) if z > a]  # fmt: skip
    for low in range(0, n, step):
        high = min(low + step, n)
        out = room[:, : high - low] if high - low == room.shape[1] else np.empty((m, high - low), dtype=dtype)
        weigh(penalty, columns, place, pairs.cls, wholes, low, high, out)
        total = syrk(-1.0, out.T, beta=1.0, c=total, trans=1, overwrite_c=1)
        for at, (first, last, l, block) in enumerate(parts):
            weigh_by(penalty, columns, place, first, last, halves[l], low, high, out)
            part = out[: last - first]
            block = syrk(1.0, part.T, beta=1.0, c=block, trans=1, overwrite_c=1)
            parts[at] = (first, last, l, block)
    for first, last, _, block in parts:
        total[first:last, first:last] += block
    upper = np.triu(total).astype(np.float64)
    diagonal = upper.diagonal().copy()
    upper += upper.T
    np.fill_diagonal(upper, diagonal + 1e-7 * diagonal.mean())
    return upper


def gram_model(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int, tol: float, rounds: int = 30) -> int:
    """Minimise the model from u, in place: coordinate descent with exact solves on the signed support between; q is kept current."""
    for k in range(rounds):
        if gram_descent(penalty, gram, u, q, free, tol, 8) <= tol:
            return k
        face_step(penalty, gram, u, q, free)
    return rounds


def face_step(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int) -> None:
    """Minimise over the signed support. Weights that would cross zero become zero; if that raises the model, stop at the first."""
    m = len(u) - free
    face = np.flatnonzero(u)
    if free:
        face = np.concatenate([face[face < m], np.arange(m, len(u))])
    if len(face) == 0:
        return
    l1, l2 = penalty.threshold, penalty.strong_convexity
    held = face < m
    values = u[face]
    slope = q[face] + held * (l1 * np.sign(values) + l2 * values)
    rows = gram[face]
    system = rows[:, face]
    spots = np.arange(len(face))
    system[spots, spots] += np.where(held, l2, 0.0) + 1e-10 * system.trace() / len(face)
    factor, failed = scipy.linalg.lapack.dpotrf(system.T, lower=0, overwrite_a=1, clean=0)
    if failed:
        return
    full = -scipy.linalg.lapack.dpotrs(factor, slope, lower=0)[0]
    crossing = held & (values * (values + full) < 0.0) & (l1 > 0.0)
    move = np.where(crossing, -values, full)
    for _ in range(2):
        bent = move @ rows
        new = values + move
        change = float(q[face] @ move + 0.5 * (bent[face] @ move))
        change += l1 * float((np.abs(new) - np.abs(values))[held].sum())
        change += 0.5 * l2 * float((new * new - values * values)[held].sum())
        if change <= 0.0 or not crossing.any():
            break
        share = float(np.min(-values[crossing] / full[crossing]))
        first = crossing & (-values / np.where(crossing, full, 1.0) == share)
        move = np.where(first, -values, share * full)
    if change <= 0.0:
        u[face] = np.where(values + move == 0.0, 0.0, values + move)
        q += bent


# --------------------------------------------------------------------------- column form


@kernel(fast_sums=True)
def pair_curvature(penalty, cols, j, weighted, row):
    """sum_i s_i x_ij^2 V_il (1 - V_il)."""
    total = 0.0
    for p in range(cols.first(j), cols.last(j)):
        i = cols.position(j, p)
        x = cols.entry(p)
        total += x * x * weighted[i] * (1.0 - row[i])
    return total


@kernel(fast_sums=True)
def column_sweep(penalty, cols, place, cls, V, weighted, gradient, curvature, boxes, start, u, Z, Q, only_nonzero):
    """One sweep: q_p + sum_i s_i x_ij V_il (Z_il - Q_i), then Z_l += x_j move, Q += V_l x_j move. Returns the largest |move| H_pp."""
    largest = 0.0
    for p in range(place.shape[0]):
        if only_nonzero and u[p] == 0.0:
            continue
        j, l = place[p], cls[p]
        weights, row, along = weighted[l], V[l], Z[l]
        slope = gradient[p]
        for e in range(cols.first(j), cols.last(j)):
            i = cols.position(j, e)
            slope += cols.entry(e) * weights[i] * (along[i] - Q[i])
        trial = penalty.coordinate_prox(u[p] - slope / curvature[p], 1.0 / curvature[p])
        trial = min(max(trial, start[p] - boxes[p]), start[p] + boxes[p])
        move = trial - u[p]
        if move != 0.0:
            u[p] = trial
            for e in range(cols.first(j), cols.last(j)):
                i = cols.position(j, e)
                step = cols.entry(e) * move
                along[i] += step
                Q[i] += row[i] * step
            largest = max(largest, abs(move) * curvature[p])
    return largest


@kernel
def column_model(penalty, cols, place, cls, V, weighted, gradient, boxes, start, u, Z, Q, curvature, goal, most):
    """Minimise the model from u = start, in place; sweeps over all pairs and over the non-zeros take turns. Returns their number."""
    for p in range(place.shape[0]):
        curvature[p] = max(pair_curvature(penalty, cols, place[p], weighted[cls[p]], V[cls[p]]), 1e-12)
    done = 0
    while done < most:
        largest = column_sweep(penalty, cols, place, cls, V, weighted, gradient, curvature, boxes, start, u, Z, Q, False)
        done += 1
        if largest <= goal:
            break
        for _ in range(4):
            if done >= most:
                break
            largest = column_sweep(penalty, cols, place, cls, V, weighted, gradient, curvature, boxes, start, u, Z, Q, True)
            done += 1
            if largest <= goal:
                break
    return done


@kernel
def largest_entries(cols, chosen, out):
    """max_i |x_ij| of the chosen columns."""
    for k in range(chosen.shape[0]):
        top = 0.0
        for e in range(cols.first(chosen[k]), cols.last(chosen[k])):
            top = max(top, abs(cols.entry(e)))
        out[k] = top
