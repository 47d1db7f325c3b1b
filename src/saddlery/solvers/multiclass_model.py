"""The Newton model of a multiclass problem on a working set of (feature, class) pairs, in two forms.

    q.v + 1/2 v'Hv + g(u + v)        H[(j,l),(j',l')] = sum_i s_i x_ij x_ij' V_il (1[l = l'] - V_il') / tau

* *Gram*: H is formed, from all rows or a sample of them; coordinate descent and exact solves on the support.
* *columns*: H is never formed; with Z = X v and Q_i = <V_i, Z_i> a coordinate step costs two passes over one column, whatever k is.

Intercepts are k more coordinates without a penalty, the last ones; their column is all ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.linalg.lapack

from saddlery.parts import kernel
from saddlery.solvers.corrective import minimise_on_faces
from saddlery.solvers.gram_model import gram_descent

__all__ = [
    "BOX",
    "Pairs",
    "add_pairs",
    "column_model",
    "exact_diagonal",
    "gram_model",
    "largest_entries",
    "pair_gram",
    "spread_columns",
]

CHUNK = 1_000_000  # numbers in a block of weighted rows, which should stay in cache
BOX = 2.0  # how far a weight may move in one step of the column form, in units of 1 / max_i |x_ij|
EPOCHS = 8  # of coordinate descent between two exact solves
ROUNDS = 30  # of both
PATIENCE = 5  # rounds after which faces are searched one by one
MAX_FACES = 2000  # coordinates for which that is done
FACES = 2  # most of them, for each coordinate
FARTHEST = 1e8  # move of a model, in units of its weights, beyond which it is rounding that moves it
TINY = 1e-12  # least curvature of a pair: one without any must still return to zero (skipping it stalls at a gap of 0.28)


class Pairs:
    """Pairs (feature, class), sorted by class. Keys are ``feature * k + class``, their places in W by rows."""

    def __init__(self, keys: np.ndarray, k: int):
        feature, cls = np.divmod(keys, k)
        order = np.argsort(cls, kind="stable")
        self.keys, self.feature, self.cls = keys[order], feature[order], cls[order]
        self.starts = np.searchsorted(self.cls, np.arange(k + 1))
        self.m = len(keys)


# --------------------------------------------------------------------------- Gram form


@kernel
def spread_columns(cols, chosen, out):
    """out_k = column j = chosen_k, where `out` holds zeros at first."""
    for k in range(chosen.shape[0]):
        j = chosen[k]
        for p in range(cols.first(j), cols.last(j)):
            out[k, cols.position(j, p)] = cols.entry(p)


@kernel(fast_sums=True)
def weigh(penalty, columns, place, cls, V, low, high, out):
    """out_p = x_j V_l on the rows low..high, for every pair p = (j, l)."""
    for p in range(place.shape[0]):
        column, weights, row = columns[place[p], low:high], V[cls[p], low:high], out[p]
        for i in range(high - low):
            row[i] = column[i] * weights[i]


@kernel(fast_sums=True)
def exact_diagonal(penalty, columns, place, cls, V, s, out):
    """H_pp = sum_i s_i x_ij^2 V_il (1 - V_il)."""
    for p in range(place.shape[0]):
        column, row = columns[place[p]], V[cls[p]]
        total = 0.0
        for i in range(s.shape[0]):
            total += s[i] * column[i] * column[i] * row[i] * (1.0 - row[i])
        out[p] = total


def pair_gram(
    penalty: Any, columns: np.ndarray, place: np.ndarray, pairs: Pairs, V: np.ndarray, s: np.ndarray, dtype: Any = np.float32
) -> np.ndarray:
    """H for tau = 1 from the rows given, computed in `dtype`: -(B B') and a block for each class, B_p = x_j V_l sqrt(s).

    If `place` is longer than the pairs are many, its last k places are those of the intercepts.
    """
    m, n, k = pairs.m, columns.shape[1], len(V)
    size = len(place)
    roots = np.sqrt(s)
    wholes, halves = (V * roots).astype(dtype), (np.sqrt(V) * roots).astype(dtype)
    syrk = scipy.linalg.blas.ssyrk if dtype == np.float32 else scipy.linalg.blas.dsyrk
    cls = np.concatenate([pairs.cls, np.arange(k)])[:size]
    step = max(1, min(n, max(128, CHUNK // max(size, 1))))
    total = np.zeros((size, size), dtype=dtype, order="F")
    ranges = [(l, int(a), int(z)) for l, (a, z) in enumerate(zip(pairs.starts[:-1], pairs.starts[1:], strict=True)) if z > a]
    blocks = [np.zeros((z - a, z - a), dtype=dtype, order="F") for _, a, z in ranges]
    for low in range(0, n, step):
        high = min(low + step, n)
        rows = np.empty((size, high - low), dtype=dtype)
        weigh(penalty, columns, place, cls, wholes, low, high, rows)
        total = syrk(-1.0, rows.T, beta=1.0, c=total, trans=1, overwrite_c=1)
        for at, (_, a, z) in enumerate(ranges):
            weigh(penalty, columns, place[a:z], cls[a:z], halves, low, high, rows)
            blocks[at] = syrk(1.0, rows[: z - a].T, beta=1.0, c=blocks[at], trans=1, overwrite_c=1)
    for (_, a, z), block in zip(ranges, blocks, strict=True):
        total[a:z, a:z] += block
    if size > m:
        mass = (V * s).astype(columns.dtype)
        total[np.arange(m), m + pairs.cls] += (columns @ mass.T)[place[:m], pairs.cls]
        total[np.arange(m, size), np.arange(m, size)] += mass.sum(axis=1)
    gram = np.triu(total).astype(np.float64)
    diagonal = gram.diagonal().copy()
    gram += gram.T
    ridge = 1e-7 if dtype == np.float32 else 1e-10  # what rounding may have taken from convexity
    np.fill_diagonal(gram, diagonal + ridge * diagonal.mean())
    return gram


def gram_model(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int, tol: float) -> int:
    """Minimise the model from u, in place: coordinate descent with exact solves on the signed support between; q is kept current.

    Without the solves digits at 0.01 took 3734 sweeps instead of 209. Returns the number of rounds.
    """
    for done in range(ROUNDS):
        if gram_descent(penalty, gram, u, q, free, tol, EPOCHS) <= tol:
            return done + 1
        if done + 1 == PATIENCE and len(u) <= MAX_FACES:
            active_set(penalty, gram, u, q, free, tol)
        else:
            face_step(penalty, gram, u, q, free)
    return ROUNDS


def active_set(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int, tol: float) -> None:
    """Minimise the model from face to face, one weight at a time, for models that are nearly degenerate (hinge on digits at 0.01:
    1.7 -> 0.4 s). What rounding spoils is not taken.
    """
    size, l2 = len(u), penalty.strong_convexity
    held = np.arange(size) < size - free
    work = (np.empty(size), np.empty(size, dtype=np.int64), np.empty((size, size)), np.empty(size), np.empty(size))
    matrix = gram + np.diag(l2 * held) if l2 > 0.0 else gram
    new, slope = u.copy(), q + l2 * held * u
    minimise_on_faces(penalty, matrix, new, slope, free, np.inf, penalty.threshold, True, tol, FACES * size, *work)
    move = new - u
    if not np.abs(move).max() <= FARTHEST * (1.0 + np.abs(u).max()):  # also if it is not a number
        return
    bent = gram @ move
    m = size - free
    if q @ move + 0.5 * (bent @ move) + penalty.value(new[:m]) - penalty.value(u[:m]) <= 0.0:
        u[:] = new
        q += bent


def face_step(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int) -> None:
    """Minimise over the signed support. Weights that would cross zero become zero; if that raises the model, stop at the first."""
    m = len(u) - free
    face = np.flatnonzero(u)
    if free:
        face = np.concatenate([face[face < m], np.arange(m, len(u))])
    if len(face) == 0:
        return
    l1, l2 = penalty.threshold, penalty.strong_convexity
    held, values, spots = face < m, u[face], np.arange(len(face))
    slope = q[face] + held * (l1 * np.sign(values) + l2 * values)
    system = gram[np.ix_(face, face)]
    system[spots, spots] += held * l2 + 1e-10 * system.trace() / len(face)
    factor, failed = scipy.linalg.lapack.dpotrf(system.T, lower=0, overwrite_a=1, clean=0)
    if failed:
        return
    full = -scipy.linalg.lapack.dpotrs(factor, slope, lower=0)[0]
    crossing = held & (values * (values + full) < 0.0) & (l1 > 0.0)
    move, whole = np.where(crossing, -values, full), np.zeros(len(u))
    for _ in range(2):
        whole[face] = move
        bent, new = gram @ whole, values + move
        change = float(q[face] @ move + 0.5 * (bent[face] @ move))
        change += l1 * float((np.abs(new) - np.abs(values))[held].sum())
        change += 0.5 * l2 * float((new * new - values * values)[held].sum())
        if change <= 0.0 or not crossing.any():
            break
        share = np.where(crossing, -values / np.where(full == 0.0, 1.0, full), np.inf)
        move = np.where(share == share.min(), -values, share.min() * full)
    if change <= 0.0:
        u[face] = values + move
        q += bent


# --------------------------------------------------------------------------- column form


@kernel(fast_sums=True)
def add_pairs(cols, feature, cls, move, Z):
    """Z_l += x_j move_p, for every pair p = (j, l)."""
    for p in range(move.shape[0]):
        if move[p] != 0.0:
            cols.axpy(feature[p], move[p], Z[cls[p]])


@kernel(fast_sums=True)
def pair_curvature(penalty, cols, j, weighted, row):
    """sum_i s_i x_ij^2 V_il (1 - V_il) / tau."""
    total = 0.0
    for p in range(cols.first(j), cols.last(j)):
        i = cols.position(j, p)
        x = cols.entry(p)
        total += x * x * weighted[i] * (1.0 - row[i])
    return total


@kernel(fast_sums=True)
def column_sweep(penalty, cols, place, cls, V, weighted, gradient, curvature, boxes, start, u, Z, Q, only_nonzero):
    """One sweep: slope q_p + sum_i s_i x_ij V_il (Z_il - Q_i), then Z_l += x_j move, Q += V_l x_j move; the largest |move| H_pp."""
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


@kernel(fast_sums=True)
def intercept_sweep(penalty, V, weighted, gradient, shift, Z, Q):
    """The same for the intercepts, whose columns are all ones. Returns the largest slope met."""
    largest = 0.0
    for l in range(shift.shape[0]):
        weights, row, along = weighted[l], V[l], Z[l]
        slope, curvature = gradient[l], TINY
        for i in range(Q.shape[0]):
            slope += weights[i] * (along[i] - Q[i])
            curvature += weights[i] * (1.0 - row[i])
        move = -slope / curvature
        shift[l] += move
        for i in range(Q.shape[0]):
            along[i] += move
            Q[i] += row[i] * move
        largest = max(largest, abs(slope))
    return largest


@kernel
def column_model(penalty, cols, place, cls, V, weighted, gradient, boxes, start, u, free, shift, Z, Q, curvature, goal, most):
    """Minimise the model from u = start, in place; one sweep over all pairs, then four over the non-zeros, and again.

    `free` holds the slopes of the intercepts (none if it is empty), `shift` their moves. Returns the number of sweeps.
    """
    for p in range(place.shape[0]):
        curvature[p] = max(pair_curvature(penalty, cols, place[p], weighted[cls[p]], V[cls[p]]), TINY)
    done = 0
    while done < most:
        nonzero = done % 5 > 0
        largest = column_sweep(penalty, cols, place, cls, V, weighted, gradient, curvature, boxes, start, u, Z, Q, nonzero)
        if free.shape[0] > 0:
            largest = max(largest, intercept_sweep(penalty, V, weighted, free, shift, Z, Q))
        done += 1
        if largest <= goal:
            if not nonzero:
                break
            done += (5 - done % 5) % 5  # what is left of the cycle is skipped
    return done


@kernel
def largest_entries(cols, chosen, out):
    """max_i |x_ij| of the chosen columns."""
    for k in range(chosen.shape[0]):
        top = 0.0
        for e in range(cols.first(chosen[k]), cols.last(chosen[k])):
            top = max(top, abs(cols.entry(e)))
        out[k] = top
