"""Quadratic models on a Gram matrix: min_u  q.u + u'Gu/2 + g(u), where g is a separable penalty of l1 and l2 parts.

Coordinate descent with exact solves on the signed support between rounds of it. Small models are solved by one compiled function;
larger faces are handed to LAPACK.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg.lapack

from saddlery.parts import kernel
from saddlery.penalties.base import largest

__all__ = ["SMALL_FACE", "effort", "gram_descent", "minimise", "solve_factorised", "solve_multiples", "worst_violation"]

# Ratio of a pivot to others, or to the root of its own diagonal entry, below which a system is not solved: the rest is noise.
SINGULAR = 1e-6
SMALL_FACE = 128  # size of the systems that are solved without LAPACK, whose calls take longer than they compute
SWEEPS, FACES = 10, 500  # where solutions are wanted to the last digit: sweeps before a face (252 x 14, 20 strengths: 95 -> 18 us)
MAX_FACE = 2500  # size of the dense systems that are solved outright
SHORT, SHORTEST = 0.1, 0.01  # parts of a move to the minimum of a face: below the first it is damped more; the least that is tried
CENTRED = 1e-10  # least share of a diagonal entry that centring leaves: below is noise
DAMPED, UNDAMPED = 1e-3, 1e-9  # shares of the diagonal: the first damping, and what is none


# --------------------------------------------------------------------------- kernels


@kernel
def worst_violation(penalty, u, gradient):
    """The largest distance of -gradient_j from the subdifferential of g_j at u_j: 0 at an optimum."""
    worst = 0.0
    for j in range(gradient.shape[0]):
        worst = max(worst, penalty.coordinate_distance(u[j], -gradient[j]))
    return worst


@kernel(fast_sums=True)
def gram_epochs(penalty, gram, u, q, free, tol, max_epochs):
    """Cyclic coordinate descent on q.u + u'Gu/2 + g(u): u_j = prox(u_j - q_j / G_jj, 1 / G_jj), q kept current.

    The last `free` coordinates are not penalised. Returns the largest |move| G_jj of the last epoch, and the number of epochs.
    """
    m = u.shape[0]
    largest, epochs = 0.0, 0
    while epochs < max_epochs:
        largest = 0.0
        epochs += 1
        for j in range(m):
            curvature = gram[j, j]
            if curvature <= 0.0:
                continue
            trial = u[j] - q[j] / curvature
            if j < m - free:
                trial = penalty.coordinate_prox(trial, 1.0 / curvature)
            move = trial - u[j]
            if move != 0.0:
                u[j] = trial
                for k in range(m):
                    q[k] += move * gram[j, k]
                largest = max(largest, abs(move) * curvature)
        if largest <= tol:
            break
    return largest, epochs


@kernel
def gram_descent(penalty, gram, u, q, free, tol, max_epochs):
    """Coordinate descent as above; returns the largest |move| G_jj of the last epoch."""
    return gram_epochs(penalty, gram, u, q, free, tol, max_epochs)[0]


@kernel
def face_system(penalty, gram, u, q, free, face, l1, l2, system, slope):
    """The model on the signed support of u: its second derivatives, and its slope there."""
    m = u.shape[0] - free
    for k in range(face.shape[0]):
        j = face[k]
        slope[k] = q[j]
        for i in range(face.shape[0]):
            system[k, i] = gram[j, face[i]]
        system[k, k] += 1e-14 * gram[j, j]
        if j < m:
            slope[k] += math.copysign(l1, u[j]) + l2 * u[j]
            system[k, k] += l2


@kernel(fast_sums=True)
def move_on_face(penalty, gram, u, q, free, face, move, l1):
    """u += move on the face, but no further than to the first sign change, where that weight becomes zero; q follows."""
    m = u.shape[0] - free
    size, stop = 1.0, -1
    for k in range(face.shape[0]):
        j = face[k]
        if l1 > 0.0 and j < m and u[j] * (u[j] + size * move[k]) < 0.0:
            size, stop = -u[j] / move[k], k
    for k in range(face.shape[0]):
        j = face[k]
        step = -u[j] if k == stop else size * move[k]
        u[j] = 0.0 if k == stop else u[j] + step
        for i in range(u.shape[0]):
            q[i] += step * gram[j, i]


@kernel(fast_sums=True)
def factorise(penalty, system, size):
    """Cholesky factor L of the first `size` rows and columns, in place; returns whether it is far enough from singular.

    That is, no pivot is small beside the others, or none beside its own diagonal entry, whatever the units of columns.
    """
    least, most, regular = math.inf, 0.0, True
    for i in range(size):
        diagonal = system[i, i]
        for j in range(i + 1):
            total = system[i, j]
            for k in range(j):
                total -= system[i, k] * system[j, k]
            if j < i:
                system[i, j] = total / system[j, j]
            else:
                if total <= 0.0:
                    return False
                regular = regular and total > SINGULAR * SINGULAR * diagonal
                system[i, i] = math.sqrt(total)
                least, most = min(least, system[i, i]), max(most, system[i, i])
    return regular or least >= SINGULAR * most


@kernel(fast_sums=True)
def solve_factorised(penalty, system, size, x):
    """x = (L L')^-1 x, in place."""
    for i in range(size):
        for k in range(i):
            x[i] -= system[i, k] * x[k]
        x[i] /= system[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= system[i, i]
        for k in range(i):
            x[k] -= system[i, k] * x[i]


@kernel
def effort(penalty, size):
    """Epochs of a round, and rounds: small models are cheaper to sweep than to factorise, large ones not worth the last digits."""
    return max(10, 3000 // size), min(100, max(5, 20_000_000 // size**2))


@kernel
def support_of(penalty, u, free, face):
    """The components that are not zero and the free one, into `face`; returns their number, or -1 if there is no room for them."""
    size = 0
    for j in range(u.shape[0]):
        if u[j] != 0.0 or j >= u.shape[0] - free:
            if size == face.shape[0]:
                return -1
            face[size] = j
            size += 1
    return size


@kernel
def solve_small_model(penalty, gram, u, q, free, l1, l2, tol, epochs, rounds, face, system, slope):
    """Coordinate descent on the Gram matrix, with exact solves on the support between rounds of it.

    Returns the largest |move| G_jj of the last sweep, whether all faces fitted into `system`, and the number of epochs.
    """
    largest, spent = 0.0, 0
    for _ in range(rounds):
        largest, count = gram_epochs(penalty, gram, u, q, free, tol, epochs)
        spent += count
        if largest <= tol:
            break
        size = support_of(penalty, u, free, face)
        if size < 0:
            return largest, False, spent
        face_system(penalty, gram, u, q, free, face[:size], l1, l2, system, slope)
        if factorise(penalty, system, size):
            solve_factorised(penalty, system, size, slope)
            for k in range(size):
                slope[k] = -slope[k]
            move_on_face(penalty, gram, u, q, free, face[:size], slope, l1)
    return largest, True, spent


@kernel
def solve_each_multiple(penalty, factors, gram, q, l1, l2, accuracy, rounding, epochs, rounds, out):
    """out_k = argmin_u q.u + u'Gu/2 + f_k g(u), each from the one before: the model divided by f_k has g itself as penalty."""
    size, free = q.shape[0], np.int64(0)  # a number with a type: a literal would be compiled for once more
    u, scaled, system = np.zeros(size), np.empty_like(gram), np.empty_like(gram)
    face, slope = np.empty(size, np.int64), np.empty(size)
    rounding *= largest(penalty, q)
    for k in range(factors.shape[0]):
        f = factors[k]
        for i in range(u.shape[0]):
            q[i] /= f
            for j in range(u.shape[0]):
                scaled[i, j] = gram[i, j] / f
        violation = worst_violation(penalty, u, q)
        tol = max(accuracy * violation, rounding / f)
        if violation > tol:
            solve_small_model(penalty, scaled, u, q, free, l1, l2, tol, epochs, rounds, face, system, slope)
        for i in range(u.shape[0]):
            q[i] *= f
            out[k, i] = u[i]


# --------------------------------------------------------------------------- the solution


def solve_multiples(
    penalty: Any, factors: np.ndarray, gram: np.ndarray, q: np.ndarray, accuracy: float, rounding: float, out: np.ndarray
) -> None:
    """Minimise the model of at most `SMALL_FACE` weights for the penalty times each factor, one after the other, from zero.

    The solutions go to the rows of `out`, and q becomes the gradient at the last. Each is reached to `accuracy` times its first
    violation, but not below `rounding` times the largest component of q.
    """
    facts = (penalty.threshold, penalty.strong_convexity, accuracy, rounding, SWEEPS, FACES)
    solve_each_multiple(penalty, factors, gram, q, *facts, out)


def _room(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for a face and its system."""
    size = min(size, SMALL_FACE)
    return np.empty(size, dtype=np.int64), np.empty((size, size)), np.empty(size)


def minimise(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int, tol: float) -> int:
    """Minimise the model from u, in place, until no coordinate moves by more than tol / G_jj; q is the gradient at u, kept current.

    If `free`, the last coordinate is not penalised, and is not one of descent either. Returns the number of epochs.
    """
    epochs, rounds = effort(penalty, len(u))
    l1, l2 = penalty.threshold, penalty.strong_convexity
    if getattr(penalty, "is_round", False) and len(u) <= MAX_FACE and _solve_at_once(gram, u, q, free, l2):
        return 1
    if free:
        return _minimise_centred(penalty, gram, u, q, tol)
    _, done, spent = solve_small_model(penalty, gram, u, q, free, l1, l2, tol, epochs, rounds, *_room(len(u)))
    damping = 0.0
    for _ in range(0 if done else rounds):
        damping = _face_step(penalty, gram, u, q, free, damping)
        largest, count = gram_epochs(penalty, gram, u, q, free, tol, epochs)
        spent += count
        if largest <= tol:
            break
    return spent


def _minimise_centred(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, tol: float) -> int:
    """The same with a free last coordinate, which is at its minimum for all others: what is left is the matrix of centred columns.

    As one of the coordinates it keeps the others waiting where columns have a mean (isolet, logistic at 0.01, with what
    growing_block.py says of its border: 432 -> 47 ms).
    """
    m = len(u) - 1
    border, total, slope = gram[m, :m], float(gram[m, m]), float(q[m])
    if total <= 0.0:
        return minimise(penalty, gram[:m, :m].copy(), u[:m], q[:m], 0, tol)
    part, spots = border / total, np.arange(m)
    centred = gram[:m, :m] - border[:, None] * part
    centred[spots, spots] = np.maximum(centred[spots, spots], CENTRED * gram[spots, spots])
    origin = u[:m].copy()
    q[:m] -= slope * part
    epochs = minimise(penalty, centred, u[:m], q[:m], 0, tol)
    u[m] -= (slope + float(border @ (u[:m] - origin))) / total
    q[m] = 0.0
    return epochs


def _cholesky(system: np.ndarray) -> np.ndarray | None:
    """The upper Cholesky factor of a symmetric system, which is written over; None if that is singular, or as good as that."""
    roots = np.sqrt(system.diagonal())
    factor, failed = scipy.linalg.lapack.dpotrf(system.T, lower=0, overwrite_a=1, clean=0)
    pivots = np.diagonal(factor)
    regular = not failed and ((pivots >= SINGULAR * roots).all() or pivots.min() >= SINGULAR * pivots.max())
    return factor if regular else None


def _solve_at_once(gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int, l2: float) -> bool:
    """u = argmin where g is l2 / 2 |u|^2: one system, no sweeps (300 columns: 0.7 -> 0.6 ms). Returns whether it was regular.

    Zeros of which the model knows no curvature stay, as in coordinate descent: l2 alone would let them leap.
    """
    diagonal, bend = gram.diagonal(), np.full(len(u), l2)
    bend[len(u) - free :] = 0.0
    system, spots, slope = gram.copy(), np.arange(len(u)), q + bend * u
    system[spots, spots] += bend + 1e-14 * diagonal
    unknown = np.flatnonzero((diagonal <= 0.0) & (u == 0.0))
    if len(unknown):
        system[unknown, unknown], slope[unknown] = diagonal.max(), 0.0
    factor = _cholesky(system)
    if factor is None:
        return False
    move = scipy.linalg.lapack.dpotrs(factor, slope, lower=0)[0]
    u -= move
    q -= gram @ move
    return True


def _face_step(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int, damping: float) -> float:
    """Go towards the minimum of the model over the signed support of u; q is kept current. Returns the next damping.

    That is added to the diagonal, as a share of it: without, a support that is nearly as large as the rank of the data sends
    moves far beyond where signs hold (1000 x 3000, correlations of 0.3, lasso at 0.001: never -> 1.4 s).
    """
    face = np.flatnonzero(u)
    if free and (len(face) == 0 or face[-1] != len(u) - 1):
        face = np.append(face, len(u) - 1)
    if len(face) == 0 or len(face) > MAX_FACE:
        return damping
    l1, l2 = penalty.threshold, penalty.strong_convexity
    system, slope = np.empty((len(face), len(face))), np.empty(len(face))
    face_system(penalty, gram, u, q, free, face, l1, l2, system, slope)
    np.fill_diagonal(system, (1.0 + damping) * system.diagonal())
    factor = _cholesky(system)
    if factor is None:
        return max(10.0 * damping, DAMPED)
    move = np.zeros(len(u))
    move[face] = -scipy.linalg.lapack.dpotrs(factor, slope, lower=0)[0]
    size = _follow(penalty, gram, u, q, free, move)
    if size < SHORT:
        return max(10.0 * damping if size == 0.0 else 4.0 * damping, DAMPED)
    damping *= 1.0 if size < 0.25 else 0.3 if size < 1.0 else 0.1
    return damping if damping > UNDAMPED else 0.0


def _follow(penalty: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int, move: np.ndarray) -> float:
    """u += size move for a size among 1, 1/2, 1/4, ..., but weights that would change sign become zero; q is kept current.

    Sizes are halved while the model falls further. To stop at the first sign change instead would take a factorisation for each
    (1000 x 3000, correlations of 0.3, lasso at 0.01: of 850 weights, 300 change signs). Returns the size, 0 if there was none.
    """
    penalised, size, best = len(u) - free, 1.0, (0.0, 0.0, move, move)
    old = penalty.value(u[:penalised])
    while size >= SHORTEST:
        step = size * move
        crossing = np.flatnonzero(u[:penalised] * (u[:penalised] + step[:penalised]) < 0.0) if penalty.threshold > 0.0 else ()
        step[crossing] = -u[crossing]
        along = gram @ step
        change = float(q @ step) + 0.5 * float(along @ step) + penalty.value(u[:penalised] + step[:penalised]) - old
        if change >= best[0] < 0.0:
            break
        if change < best[0]:
            best = (change, size, step, along)
        if len(crossing) == 0:
            break
        size *= 0.5
    if best[0] < 0.0:
        u += best[2]
        q += best[3]
    return best[1]
