"""Rounds of proximal Newton on small sparse data, all of them in one compiled function.

The sister of small_rounds.py for sparse columns: a pass over a thousand documents takes 0.1 ms, the calls from Python that a round
of prox_newton.py is made of ten times as long. The working set's columns are copied, scaled by the roots of the curvatures, and the
model is solved on them by prolonged sweeps (residual_model.py), with conjugate gradients on a support that these no longer change.
The gap here only says when to stop: the certificate is the loop's. (1000 documents, 47,236 words, to 1e-6: logistic with l1 at 0.1
4.0 -> 2.4 ms, at 0.01 21 -> 9, lasso at 0.01 51 -> 22, 20 lassos 150 -> 57. Tall data are better off with Gram matrices.)

=================  ======================================================================
here               meaning
=================  ======================================================================
cols, copy         the columns of X; those of the working set times sqrt(h)
t, drift           copy (u - origin), and its sum weighted by sqrt(h): what a free intercept would take
pull, sums         1 / sum h with a free intercept, else 0; column sums weighted by h
=================  ======================================================================
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.matrix import SparseVectors
from saddlery.parts import kernel
from saddlery.penalties.base import sum_values
from saddlery.problems.row_sums import best_intercept
from saddlery.solvers.gram_model import worst_violation
from saddlery.solvers.model_care import FEW_LACK, LATE, NEAR, REACH
from saddlery.solvers.newton_search import balancing_shift, expand_at, model_slopes, search_along
from saddlery.solvers.residual_model import SETTLED, residual_cycle
from saddlery.solvers.scaled_columns import scale_sparse
from saddlery.solvers.small_rounds import EARLY, IDLE, LEAST_FLOOR, MODEL_DUAL, ROUNDS, choose, copy_into, gap_of
from saddlery.solvers.working_set import FEW, FIRST_WIDE, LITTLE, count_lacking
from saddlery.solvers.working_set import NEAR as NEAR_THRESHOLD

__all__ = ["SparseRoom", "is_small_sparse", "sparse_rounds"]

LEAST, MOST = 2_000, 600_000  # entries: with fewer, data are tiny; with more, Python takes no time
CYCLES = (3, 6)  # sweeps of a cycle, with care and without
MOST_SWEEPS, MOST_PRODUCTS = 80, 150  # of a model
STABLE = 12  # cycles that leave the support as it is, after which conjugate gradients take over
GAINED = 0.1  # share of the first gap that so many rounds must leave, or others take over
SETTLES = 0.03  # columns that want a weight, for each that has one: if there are more, no model is solved to the end
CENTRED = 1e-10  # least share of a curvature that centring leaves


def is_small_sparse(problem: Any) -> bool:
    """Whether to take these rounds: sparse data in memory, not tall, and a penalty that selects."""
    matrix = problem.matrix
    if not matrix.compiled or not matrix.is_sparse or problem.penalty.threshold <= 0.0:
        return False
    return LEAST <= matrix.nnz <= MOST and problem.d > problem.n / 4


class SparseRoom:
    """The columns that have entries, and room for copies of some of them.

    Attributes
    ----------
    used : array of int or slice
        Which columns these are.
    stacks : tuple
        What :func:`sparse_rounds` takes: the columns, scaled copies of some, and the arrays that these are written to.
    """

    def __init__(self, matrix: Any):
        cols = matrix.cols
        used = np.flatnonzero(matrix.col_counts)
        self.used: Any = slice(None)
        if len(used) < matrix.shape[1]:
            self.used = used
            cols = cols._replace(starts=np.append(cols.starts[used], cols.starts[-1]))
        values, indices, starts = (
            np.empty(matrix.nnz),
            np.empty(matrix.nnz, dtype=np.int32),
            np.empty(len(used) + 1, dtype=np.int64),
        )
        self.stacks = (cols, SparseVectors(values, indices, starts, matrix.shape[0]), (values, indices, starts))


# --------------------------------------------------------------------------- the model on columns


@kernel(fast_sums=True)
def curve(penalty, cols, face, pull, sums, l2, direction, along, out):
    """out = (C'C - pull sums sums' + l2) direction on a face, by way of along = C direction; returns direction.out."""
    drift, bend = 0.0, 0.0
    for i in range(along.shape[0]):
        along[i] = 0.0
    for k in range(face.shape[0]):
        cols.axpy(face[k], direction[k], along)
        drift += sums[face[k]] * direction[k]
    for k in range(face.shape[0]):
        out[k] = cols.dot(face[k], along) - pull * drift * sums[face[k]] + l2 * direction[k]
        bend += direction[k] * out[k]
    return bend


@kernel(fast_sums=True)
def descend_on_face(penalty, cols, face, pull, sums, curvatures, l1, l2, values, slopes, goal, most, move, along):
    """The move to the minimum of the model with the signs of `values`, by conjugate gradients; returns how many products."""
    m = face.shape[0]
    residual, direction, product = np.empty(m), np.empty(m), np.empty(m)
    size, products = 0.0, 0
    for k in range(m):
        residual[k] = -(slopes[k] + math.copysign(l1, values[k]) + l2 * values[k])
        direction[k] = residual[k] / (curvatures[face[k]] + l2)
        move[k] = 0.0
        size += residual[k] * direction[k]
    while products < most:
        bend = curve(penalty, cols, face, pull, sums, l2, direction, along, product)
        products += 1
        if bend <= 0.0:
            break
        step, last, worst = size / bend, size, 0.0
        size = 0.0
        for k in range(m):
            move[k] += step * direction[k]
            residual[k] -= step * product[k]
            size += residual[k] * residual[k] / (curvatures[face[k]] + l2)
            worst = max(worst, abs(residual[k]))
        if worst <= goal:
            break
        for k in range(m):
            direction[k] = residual[k] / (curvatures[face[k]] + l2) + size / last * direction[k]
    return products


@kernel(fast_sums=True)
def step_on_face(penalty, cols, m, pull, sums, curvatures, l1, l2, q, u, t, drift, goal, most):
    """Minimise the model on the signed support of u; u, t and their drift follow. Returns the number of products, and of crossings.

    Weights that would change sign become zero; if that raises the model, the step ends at the first of them instead.
    """
    size = 0
    for k in range(m):
        size += u[k] != 0.0
    if size == 0 or (l2 == 0.0 and size >= t.shape[0]):
        return 0, size
    face, values, slopes, full, move, along = (
        np.empty(size, np.int64), np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(t.shape[0])
    )  # fmt: skip
    at = 0
    for k in range(m):
        if u[k] != 0.0:
            face[at], values[at] = k, u[k]
            slopes[at] = q[k] + cols.dot(k, t) - pull * drift[0] * sums[k]
            at += 1
    products = descend_on_face(penalty, cols, face, pull, sums, curvatures, l1, l2, values, slopes, goal, most, full, along)
    first, crosses = 1.0, 0
    for k in range(size):
        move[k] = full[k]
        if l1 > 0.0 and values[k] * (values[k] + full[k]) < 0.0:
            move[k], crosses, first = -values[k], crosses + 1, min(first, -values[k] / full[k])
    for attempt in range(2):
        total, change = 0.0, 0.0
        for i in range(t.shape[0]):
            along[i] = 0.0
        for k in range(size):
            cols.axpy(face[k], move[k], along)
            total += sums[face[k]] * move[k]
            change += slopes[k] * move[k] + penalty.coordinate_value(values[k] + move[k]) - penalty.coordinate_value(values[k])
        square = -pull * total * total
        for i in range(t.shape[0]):
            square += along[i] * along[i]
        if change + 0.5 * square <= 0.0:
            for k in range(size):
                u[face[k]] = values[k] + move[k]
            for i in range(t.shape[0]):
                t[i] += along[i]
            drift[0] += total
            break
        if crosses == 0 or attempt == 1:
            break
        for k in range(size):
            move[k] = first * full[k]
    return products + 1, crosses


@kernel
def count_nonzero(penalty, u):
    """How many weights there are."""
    count = 0
    for k in range(u.shape[0]):
        count += u[k] != 0.0
    return count


@kernel
def solve_on_columns(penalty, cols, at, pull, sums, curvatures, q, origin, u, t, drift, l1, l2, goal, careful, room):
    """Minimise q.(u - origin) + 1/2 ||C (u - origin)||^2 + g(u), C centred if pull > 0, from u = origin; t and drift follow.

    Sweeps are prolonged, which is nearly as good as conjugate gradients and leaves weights free to become zero (1000 documents with
    47,236 words, logistic at 0.01: 177 -> 16 passes over a model); these themselves are for supports that sweeps no longer change.
    """
    rest, moves = room
    drift[0] = 0.0
    for k in range(at.shape[0]):
        moves[2][k] = 0.0
    for i in range(t.shape[0]):
        t[i] = moves[3][i] = 0.0
    cycle, spent, before, support, stable = CYCLES[0] if careful else CYCLES[1], 0, 0.0, -1, 0
    while spent < MOST_SWEEPS:
        first, last, left, count = residual_cycle(
            penalty,
            cols,
            at,
            1.0,
            pull,
            sums,
            curvatures,
            rest,
            q,
            origin,
            u,
            t,
            drift,
            cycle,
            goal,
            1.0,
            before,
            l1,
            l2,
            True,
            moves,
        )
        before, spent = last, spent + count
        if first <= goal or (left <= goal and spent > cycle and first <= SETTLED * goal) or (not careful and spent >= 2 * cycle):
            break
        old, support = support, count_nonzero(penalty, u)
        stable = stable + 1 if support == old else min(stable, 0)
        if stable == STABLE:
            products, crosses = step_on_face(
                penalty, cols, at.shape[0], pull, sums, curvatures, l1, l2, q, u, t, drift, goal, MOST_PRODUCTS
            )
            spent, before, stable = spent + products, 0.0, -MOST_SWEEPS if crosses > 0 else 0


# --------------------------------------------------------------------------- rounds


@kernel(fast_sums=True)
def products_of_columns(loss, cols, r, out):
    """out = X'r."""
    for j in range(out.shape[0]):
        out[j] = cols.dot(j, r)


@kernel(fast_sums=True)
def moves_along(loss, cols, W, origin, u, move, along):
    """move = u - origin, and what it does to the margins."""
    for i in range(along.shape[0]):
        along[i] = 0.0
    for k in range(W.shape[0]):
        move[k] = u[k] - origin[k]
        if move[k] != 0.0:
            cols.axpy(W[k], move[k], along)


@kernel
def lacking_columns(loss, w, Xta, threshold):
    """How many columns want a weight and have none, for each that has one; and how many these are."""
    lacking, support = count_lacking(loss, w, Xta, threshold)
    return lacking / max(support, 1), lacking


@kernel
def goal_for(penalty, exact, careful, violation, suffices, gap, share):
    """The violation to which a model is solved; see model_care.py."""
    if not careful:
        return 0.3 * violation
    if exact and share > SETTLES:
        return max(suffices, 0.01 * violation)
    if exact:
        return min(0.03 * violation, max(suffices, 1e-6 * violation))
    if gap <= NEAR and suffices >= REACH * violation:
        return suffices
    return max(0.03 * violation, min(suffices, 0.3 * violation))


@kernel(fast_sums=True)
def gather(loss, penalty, cols, W, w, r, free, origin, u, q):
    """Weights and gradient on the columns W; returns the worst violation there, and the sum of r if an intercept is free."""
    for k in range(W.shape[0]):
        origin[k] = u[k] = w[W[k]]
        q[k] = cols.dot(W[k], r)
    total = 0.0
    if free:
        for i in range(r.shape[0]):
            total += r[i]
    return max(worst_violation(penalty, origin, q), abs(total)), total


@kernel(fast_sums=True)
def bend_columns(loss, penalty, cols, copy, room, W, s, h, floor, free, total, bent, roots, q, curvatures, sums):
    """The columns W times the roots of curvatures that are not below the floor; centred without being written down if `free`.

    Returns 1 / sum h, or 0 if there is no intercept.
    """
    mass, m = 0.0, W.shape[0]
    for i in range(h.shape[0]):
        bent[i] = max(h[i], floor * s[i])
        roots[i] = math.sqrt(bent[i])
        mass += bent[i]
    scale_sparse(cols, W, roots, room[0], room[1], room[2], curvatures)
    if not free or mass <= 0.0:
        return 0.0
    for k in range(m):
        sums[k] = copy.dot(k, roots)
        q[k] -= total / mass * sums[k]
        curvatures[k] = max(curvatures[k] - sums[k] * sums[k] / mass, CENTRED * curvatures[k])
    return 1.0 / mass


@kernel
def sparse_rounds(
    loss, penalty, cols, copy, room, y, s, free, facts, steps, enough, exact, w, Xw, a, r, h, dual, Xta, b, value, gap, floor
):
    """Rounds until the relative gap is the one asked for; w, the margins Xw, slopes, curvatures and the dual point follow.

    Returns b, the loss, the floor of curvatures, the number of rounds, whether they gain enough, and the relative gap.
    """
    threshold, l2, smoothness, bend, scale, tol = facts
    n, d = y.shape[0], w.shape[0]
    there = (np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    bent, roots, along, weighted, slopes, t = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    every, W, drift = np.arange(d), np.empty(d + 1, np.int64), np.zeros(1)
    last_gap, last_primal, first_gap, idle, done, model, shift = math.inf, math.inf, math.inf, 0, 0, True, 0.0
    while True:
        size_of_w = sum_values(penalty, w)
        primal = value + size_of_w
        if done > 0 or gap == math.inf:
            gap = gap_of(loss, penalty, y, s, primal, dual, Xta, bend, threshold, l2, t) / scale
        first_gap = gap if done == 0 else first_gap
        idle = 0 if primal < last_primal - 1e-15 * abs(primal) else idle + 1
        if done == ROUNDS or gap <= tol or idle == IDLE:
            return b, value, floor, done, gap <= tol or (idle < IDLE and gap <= GAINED * first_gap), gap
        done += 1
        slow = gap > 0.3 * last_gap and (gap <= EARLY or idle > 0)
        last_gap, last_primal = gap, primal
        share, lacking = lacking_columns(loss, w, Xta, threshold)
        careful = gap <= LATE or slow or (exact and share <= FEW_LACK and done > 1)
        level = threshold * (max(NEAR_THRESHOLD, 1.0 - share) if exact and done > 1 else 1.0)
        least = max(min(FIRST_WIDE, max(n, LITTLE)), min(FEW if exact else min(FEW, lacking // 20), n))
        m = choose(loss, w, Xta, level, gap, n, least, W)
        chosen, entries = W[:m], 0
        for k in range(m):
            entries += cols.last(W[k]) - cols.first(W[k])
        origin, u, q, move, trial, curvatures, sums = (
            np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.zeros(m)
        )  # fmt: skip
        spare = (np.zeros(m), (np.empty(m), there[0], np.empty(m), there[1]))
        first_violation, taken = 0.0, 0
        for k in range(steps if 6 * entries <= room[0].shape[0] else 1):
            violation, total = gather(loss, penalty, cols, chosen, w, r, free, origin, u, q)
            first_violation = violation if k == 0 else first_violation
            if violation == 0.0 or (k > 0 and violation <= enough * first_violation):
                break
            least_bend = floor * smoothness
            pull = bend_columns(
                loss, penalty, cols, copy, room, chosen, s, h, least_bend, free, total, bent, roots, q, curvatures, sums
            )
            suffices = 0.3 * tol * scale * threshold / max(size_of_w, 1e-300)
            if l2 > 0.0:
                suffices = max(suffices, math.sqrt(2.0 * l2 * tol * scale / m))
            goal = goal_for(penalty, exact, careful, violation, suffices, gap, share)
            solve_on_columns(
                penalty, copy, every[:m], pull, sums, curvatures, q, origin, u, t, drift, threshold, l2, goal, careful, spare
            )
            shift = -(total + drift[0]) * pull
            moves_along(loss, cols, chosen, origin, u, move, along)
            copy_into(loss, a, slopes)
            length, new_value, new_size = search_along(
                loss, penalty, y, s, Xw, along, b, shift, r, value, chosen, origin, move, -1.0, w, trial, *there
            )
            model = length > 0.0
            if not model:
                floor = min(1.0, max(100.0 * floor, LEAST_FLOOR))
                break
            floor = min(1.0, 10.0 * floor) if length < 0.25 else max(1e-9, 0.1 * floor) if length >= 1.0 else floor
            copy_into(loss, there[0], Xw)
            copy_into(loss, there[1], a)
            copy_into(loss, there[2], r)
            copy_into(loss, there[3], h)
            b, value, size_of_w = b + length * shift, new_value, new_size
            taken += 1
        if free:
            b = best_intercept(loss, y, s, Xw, b)
            value = expand_at(loss, y, s, Xw, Xw, 0.0, b, there[0], a, r, h)
        if model and taken > 0 and careful and not slow and gap <= MODEL_DUAL:
            shift = balancing_shift(loss, y, s, slopes, bent, along, shift) if free else 0.0
            model_slopes(loss, y, s, slopes, bent, along, shift, dual, weighted)
        else:
            copy_into(loss, a, dual)
            copy_into(loss, r, weighted)
        products_of_columns(loss, cols, weighted, Xta)
