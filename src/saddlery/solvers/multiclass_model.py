"""The Newton model of a multiclass problem on a working set of (feature, class) pairs, in two forms.

    q.v + 1/2 v'Hv + g(u + v)        H[(j,l),(j',l')] = sum_i s_i x_ij x_ij' V_il (1[l = l'] - V_il') / tau

* *Gram*: H is formed, from all rows or a sample of them; coordinate descent and exact solves on the support.
* *columns*: H is never formed; see multiclass_columns.py.

Intercepts are k more coordinates without a penalty, the last ones; their column is all ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.linalg.lapack

from saddlery.parts import kernel
from saddlery.solvers.corrective import minimise_on_faces
from saddlery.solvers.gram_model import gram_descent, worst_violation

__all__ = [
    "Pairs",
    "alike_gram",
    "bend",
    "best_of_two",
    "gram_model",
    "new_bend_room",
    "pair_gram",
]

CHUNK = 1_000_000  # numbers in a block of weighted rows, which should stay in cache
ROWS = 256  # at a time, so that they stay in cache
COPIED = 64_000  # numbers of all copied columns that products with the curvature of all rows copy at a time,
FEWEST_ROWS, MOST_ROWS = 128, 512  # of no fewer and no more rows than these
WHOLE = 0.6  # share of a move from which on all of it is taken
CROSSING = 10  # weights that may stay at zero where two moves are combined
AT_ONCE = 1.5  # products with all copied columns that take no longer than one for each class with its own
EPOCHS = 8  # of coordinate descent between two exact solves
ROUNDS = 30  # of both
PATIENCE = 5  # rounds after which faces are searched one by one
MAX_FACES = 2000  # coordinates for which that is done
FACES = 2  # most of them, for each coordinate
FARTHEST = 1e8  # move of a model, in units of its weights, beyond which it is rounding that moves it


class Pairs:
    """Pairs (feature, class), sorted by class. Keys are ``feature * k + class``, their places in W by rows."""

    def __init__(self, keys: np.ndarray, k: int):
        feature, cls = np.divmod(keys, k)
        order = np.argsort(cls, kind="stable")
        self.keys, self.feature, self.cls = keys[order], feature[order], cls[order]
        self.starts = np.searchsorted(self.cls, np.arange(k + 1))
        self.m = len(keys)


# --------------------------------------------------------------------------- Gram form


@kernel(fast_sums=True)
def weigh(penalty, columns, place, cls, V, low, high, out):
    """out_p = x_j V_l on the rows low..high, for every pair p = (j, l)."""
    for p in range(place.shape[0]):
        column, weights, row = columns[place[p], low:high], V[cls[p], low:high], out[p]
        for i in range(high - low):
            row[i] = column[i] * weights[i]


@kernel(fast_sums=True)
def bend(penalty, V, weighted, Z, total):
    """Z = s V (Z - <V, Z>): the curvature of all rows times Z; `weighted` is s V."""
    k, n = V.shape
    for low in range(0, n, ROWS):
        high = min(low + ROWS, n)
        total[:] = 0.0
        for l in range(k):
            row, z = V[l, low:high], Z[l, low:high]
            for i in range(high - low):
                total[i] += row[i] * z[i]
        for l in range(k):
            row, z = weighted[l, low:high], Z[l, low:high]
            for i in range(high - low):
                z[i] = row[i] * (z[i] - total[i])


@kernel(fast_sums=True)
def bend_block(penalty, V, s, first, Z, total):
    """The same for rows from `first` on, Z = s V (Z - <V, Z>)."""
    k, n = Z.shape
    for i in range(n):
        total[i] = 0.0
    for l in range(k):
        row, z = V[l, first : first + n], Z[l]
        for i in range(n):
            total[i] += row[i] * z[i]
    weights = s[first : first + n]
    for l in range(k):
        row, z = V[l, first : first + n], Z[l]
        for i in range(n):
            z[i] = weights[i] * row[i] * (z[i] - total[i])


@kernel(fast_sums=True)
def copy_into(penalty, x, out):
    """out = x."""
    for i in range(out.shape[0]):
        out[i] = x[i]


@kernel(fast_sums=True)
def bent_slopes(penalty, columns, V, s, step, width, out):
    """out = Z X for Z = s V (Y - <V, Y>), Y = step X': the curvature of all rows times a move, by classes; X' are the columns.

    Blocks of so many rows are copied, so that they are read from memory once and both products find them in cache (letter: 0.56 ->
    0.36 ms; satimage: 0.15 -> 0.06; random data of 60,000 rows, 440 columns: 38 -> 30).
    """
    (c, n), k = columns.shape, V.shape[0]
    rooms, copies = np.empty(k * width, dtype=columns.dtype), np.empty(c * width, dtype=columns.dtype)
    part, total = np.empty_like(out), np.empty(width, dtype=columns.dtype)
    out[:] = 0.0
    for low in range(0, n, width):
        count = min(width, n - low)
        X, Z = copies[: c * count].reshape((c, count)), rooms[: k * count].reshape((k, count))
        for j in range(c):
            copy_into(penalty, columns[j, low : low + count], X[j])
        np.dot(step, X, Z)
        bend_block(penalty, V, s, low, Z, total)
        np.dot(Z, X.T, part)
        out += part


@kernel(fast_sums=True)
def mirror(penalty, upper, factor, ridge, out):
    """out = factor times the symmetric matrix whose upper triangle is given, plus a ridge of so many mean diagonal entries."""
    m = out.shape[0]
    total = 0.0
    for p in range(m):
        total += upper[p, p]
        for r in range(p + 1):
            out[p, r] = factor * upper[r, p]
            out[r, p] = factor * upper[r, p]
    for p in range(m):
        out[p, p] += ridge * factor * total / m


def pair_gram(
    penalty: Any,
    columns: np.ndarray,
    place: np.ndarray,
    pairs: Pairs,
    V: np.ndarray,
    s: np.ndarray,
    tau: float = 1.0,
    dtype: Any = np.float32,
) -> np.ndarray:
    """H from the rows given, computed in `dtype`: -(B B') and a block for each class, B_p = x_j V_l sqrt(s).

    If `place` is longer than the pairs are many, its last k places are those of the intercepts.
    """
    m, n, k, held = pairs.m, columns.shape[1], len(V), len(columns)
    size = len(place)
    scaled, V = (columns * np.sqrt(s).astype(dtype)).astype(dtype, copy=False), V.astype(dtype)
    syrk = scipy.linalg.blas.ssyrk if dtype == np.float32 else scipy.linalg.blas.dsyrk
    cls = np.concatenate([pairs.cls, np.arange(k)])[:size]
    step = max(1, min(n, max(128, CHUNK // max(size, 1))))
    total = np.zeros((size, size), dtype=dtype, order="F")
    ranges = [(int(a), int(z)) for a, z in zip(pairs.starts[:-1], pairs.starts[1:], strict=True) if z > a]
    at_once = m * held <= AT_ONCE * sum((z - a) ** 2 for a, z in ranges) or size > m
    own = np.zeros((size, held), dtype=dtype)  # sum_i B_p x_j, for all copied columns j
    blocks = [np.zeros((0, 0) if at_once else (z - a, z - a), dtype=dtype) for a, z in ranges]
    rows = np.empty((size, step), dtype=dtype)
    for low in range(0, n, step):
        high = min(low + step, n)
        if high - low < step:
            rows = np.empty((size, high - low), dtype=dtype)
        weigh(penalty, scaled, place, cls, V, low, high, rows)
        total = syrk(-1.0, rows.T, beta=1.0, c=total, trans=1, overwrite_c=1)
        if at_once:
            own += np.dot(rows, scaled[:, low:high].T)
        else:
            for at, (a, z) in enumerate(ranges):
                blocks[at] += np.dot(rows[a:z], scaled[place[a:z], low:high].T)
    for block, (a, z) in zip(blocks, ranges, strict=True):
        total[a:z, a:z] += own[a:z, place[a:z]] if at_once else block
    if size > m:
        total[np.arange(m), m + pairs.cls] += own[np.arange(m), -1]
        total[np.arange(m, size), np.arange(m, size)] += own[np.arange(m, size), -1]
    gram = np.empty((size, size))
    mirror(penalty, total, 1.0 / tau, 1e-7 if dtype == np.float32 else 1e-10, gram)  # what rounding may have taken from convexity
    return gram


def alike_gram(
    penalty: Any, columns: np.ndarray, place: np.ndarray, pairs: Pairs, v: np.ndarray, s: np.ndarray, tau: float
) -> np.ndarray:
    """H where all rows have the same probabilities v, as at W = 0: sum_i s_i x_ij x_ij' times v_l (1[l = l'] - v_l').

    Of c columns it takes n c^2 products, not n m^2 (satimage, 64 pairs of 2000 rows: 0.6 -> 0.25 ms).
    """
    k = len(v)
    scaled = columns * np.sqrt(s).astype(columns.dtype)
    products = np.dot(scaled, scaled.T).astype(np.float64)
    classes = (np.diag(v) - np.outer(v, v)) / tau
    cls = np.concatenate([pairs.cls, np.arange(k)])[: len(place)]
    gram = products.take(place, axis=0).take(place, axis=1)
    gram *= classes.take(cls, axis=0).take(cls, axis=1)
    spots = np.arange(len(place))
    gram[spots, spots] += 1e-7 * gram.trace() / max(len(place), 1)  # what rounding may have taken from convexity
    return gram


def gram_model(
    penalty: Any,
    gram: np.ndarray,
    u: np.ndarray,
    q: np.ndarray,
    free: int,
    tol: float,
    memory: list[Any] | None = None,
    most: int = ROUNDS,
) -> int:
    """Minimise the model from u, in place: coordinate descent with exact solves on the signed support between; q is kept current.

    Without the solves digits at 0.01 took 3734 sweeps instead of 209. `memory` holds the last face and the factor of the matrix on
    it, for further solves with the same matrix; where u lies on that face the solve comes first. Returns the number of rounds.
    """
    m = len(u) - free
    if memory is not None and memory[0] is not None and np.array_equal(memory[0], support_of(u, free)):
        face_step(penalty, gram, u, q, free, memory)
        if max(worst_violation(penalty, u[:m], q[:m]), float(np.abs(q[m:]).max(initial=0.0))) <= tol:
            return 1
    for done in range(most):
        if gram_descent(penalty, gram, u, q, free, tol, EPOCHS) <= tol:
            return done + 1
        if done + 1 == PATIENCE and len(u) <= MAX_FACES:
            active_set(penalty, gram, u, q, free, tol)
        else:
            face_step(penalty, gram, u, q, free, memory)
    return most


def support_of(u: np.ndarray, free: int) -> np.ndarray:
    """Where u is not zero, and the last `free` places."""
    face = np.flatnonzero(u)
    if free:
        m = len(u) - free
        face = np.concatenate([face[face < m], np.arange(m, len(u))])
    return face


def new_bend_room(dtype: Any = np.float32) -> np.ndarray:
    """Scratch of `bend`."""
    return np.empty(ROWS, dtype=dtype)


class Curvature:
    """The function that multiplies H of all rows with a move of the pairs and the intercepts; s is divided by tau already.

    It computes more than it returns, products with all classes of the copied columns: they tell whether the model misses pairs.
    """

    def __init__(self, penalty: Any, columns: np.ndarray, place: np.ndarray, pairs: Pairs, V: Any, s: Any, free: int):
        self.penalty, self.columns, self.place, self.pairs, self.free = penalty, columns, place, pairs, free
        self.V, self.s = V, s
        self.step, self.slopes = np.zeros((2, len(V), len(columns)), dtype=columns.dtype)
        self.width = min(max(COPIED // len(columns), FEWEST_ROWS), MOST_ROWS)

    def __call__(self, move: np.ndarray) -> np.ndarray:
        pairs, step = self.pairs, self.step
        step[pairs.cls, self.place[pairs.feature]] = move[: pairs.m]
        if self.free:
            step[:, -1] = move[pairs.m :]
        bent_slopes(self.penalty, self.columns, self.V, self.s, step, self.width, self.slopes)
        bent = self.slopes[pairs.cls, self.place[pairs.feature]].astype(np.float64)
        return np.concatenate([bent, self.slopes[:, -1]]) if self.free else bent

    def largest_other(self, G: np.ndarray) -> float:
        """The largest slope after the last move of pairs that the model misses; G are the slopes before it."""
        held = np.flatnonzero(self.place >= 0)
        after = np.zeros_like(self.slopes)
        after[:, self.place[held]] = np.abs(G.reshape(len(self.place), -1)[held].T + self.slopes[:, self.place[held]])
        after[self.pairs.cls, self.place[self.pairs.feature]] = 0.0
        return float(after.max())


def best_of_two(
    penalty: Any,
    u: np.ndarray,
    q: np.ndarray,
    move: np.ndarray,
    bent: np.ndarray,
    last: tuple[np.ndarray, np.ndarray] | None,
    m: int,
    product: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """The move that minimises q.v + 1/2 v'Hv + g(u + v) over combinations of two that lead to the signs of u + move, with H v.

    `bent` is H move, `last` the other move and its product. If no such combination is better, or there is no other move, v is
    `move`, or as much of it as certainly descends. A little less than all would be a little better, but weights on their way to
    zero would stop just before it: with whole moves mnist at 0.1 alpha_max takes 5 products instead of 8. Where too little of a
    move descends for that, combinations are taken in which a few weights that would cross zero stay there.
    """
    l1, l2, old = penalty.threshold, penalty.strong_convexity, u[:m]
    new = old + move[:m]

    def linear(v: np.ndarray) -> float:
        return float(q @ v) + l1 * float(np.abs(old + v[:m]).sum() - np.abs(old).sum()) + l2 * float(old @ v[:m])

    def square(v: np.ndarray, Hv: np.ndarray, w: np.ndarray) -> float:
        return float(w @ Hv) + l2 * float(v[:m] @ w[:m])

    fall, a = linear(move), square(move, bent, move)
    size = -fall / a if -fall < WHOLE * a else 1.0
    if last is not None:
        slope = q.copy()
        slope[:m] += l1 * np.sign(new) + l2 * old
        c, e = square(*last, last[0]), square(*last, move)
        determinant = a * c - e * e
        if determinant > 1e-6 * a * c:
            f, g = float(slope @ move), float(slope @ last[0])
            x, y = (e * g - c * f) / determinant, (e * f - a * g) / determinant
            best, bent_best = x * move + y * last[0], x * bent + y * last[1]
            wrong = np.flatnonzero(np.sign(old + best[:m]) != np.sign(new))
            most = 0 if size == 1.0 else CROSSING
            if 0 < len(wrong) <= most:
                best[wrong] = -old[wrong]
                bent_best = product(best)
            if len(wrong) <= most and linear(best) + 0.5 * square(best, bent_best, best) <= size * (fall + 0.5 * size * a):
                return best, bent_best
    return (move, bent) if size == 1.0 else (size * move, size * bent)


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


def face_step(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int, memory: list[Any] | None = None) -> None:
    """Minimise over the signed support. Weights that would cross zero become zero; if that raises the model, stop at the first."""
    m, face = len(u) - free, support_of(u, free)
    if len(face) == 0:
        return
    l1, l2 = penalty.threshold, penalty.strong_convexity
    held, values, spots = face < m, u[face], np.arange(len(face))
    slope = q[face] + held * (l1 * np.sign(values) + l2 * values)
    if memory is not None and memory[0] is not None and np.array_equal(memory[0], face):
        factor = memory[1]
    else:
        system = gram.take(face, axis=0).take(face, axis=1)  # a third of the time of np.ix_
        system[spots, spots] += held * l2 + 1e-10 * system.trace() / len(face)
        factor, failed = scipy.linalg.lapack.dpotrf(system.T, lower=1, overwrite_a=1, clean=0)
        if failed:
            return
        if memory is not None:
            memory[:] = face, factor
    full = -scipy.linalg.lapack.dpotrs(factor, slope, lower=1)[0]
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
