"""Newton's model on the columns themselves: coordinate descent that keeps the margins of the move, and conjugate gradients.

The model of a step, for weights u on the columns W of a block, is

    q.(u - u0) + weight/2 ||C (u - u0)||^2 + sum_j g_j(u_j)        C = diag(sqrt(h)) X_W, weight 1;  or X_W, h if all h are equal

where q is its gradient at u0. Sweeps keep t = C (u - u0), so that the gradient of a coordinate is q_j + weight C_j.t: no more than
the move is rounded, and dense columns may be held in few bits, or without rows that hardly bend but for their part of the diagonal,
`rest` (scaled_columns.py). The same t makes it cheap to go further than a sweep does: along its move and the one before, of which
products with C are differences of t, the model is a known parabola. Its sister, :mod:`saddlery.solvers.gram_model`, works on C'C
instead, where that is cheaper.

A free intercept is no coordinate: for every u it is at its minimum, -(q_b + weight roots.t) / total, where the model has the slope
and curvature of centred columns, C_j - roots (C_j.roots) / sum_i roots_i^2. Neither is written down: `drift` = roots.t moves by
`sums` = C'roots times the move, one number for a column (news20, logistic at 0.001: 1.5 -> 0.8 s; rcv1, squared loss with elastic
net at 0.01: 72 -> 8 ms; as a coordinate that a sweep visits once, and conjugate gradients not at all, it kept all others waiting).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.solvers.scaled_columns import ScaledColumns

__all__ = ["minimise_on_columns"]

ALL, NONZEROS, ZEROS = 0, 1, 2  # which columns a sweep goes over
WORTH, WORTH_LONG = 15, 20  # sweeps that conjugate gradients must spare to be worth their products; of those that are prolonged
SETTLED = 100.0  # times the goal: the largest move of a sweep over all columns after which those over the non-zeros suffice
MOST_PRODUCTS, MOST_TO_GOAL = 25, 60  # of conjugate gradients, each two passes over the block; and where they go to the goal
LONG = 8  # entries of a dense block for each row and column from which on moves are prolonged: less would take as long as sweeps
ALIKE = 1e-3  # sin^2 of the angle between two moves below which only the last is prolonged
FAST = 0.3  # rate at which moves shrink, so that a rough model needs no last look at columns without a weight
LEAST_RATE = 0.1  # by which the largest move of a sweep may be expected to shrink in the next
FURTHEST = 8.0  # times a move: longer ones would follow rounding
TINY = float(np.finfo(float).tiny)
DIGITS = 0.02  # by which moves may fall before the gradient is brought to u: slopes along them are differences, in single precision


# --------------------------------------------------------------------------- kernels


@kernel(fast_sums=True)
def residual_sweep(penalty, cols, at, weight, pull, sums, curvatures, rest, q, origin, u, t, drift, which):
    """One sweep over the columns: u_j = prox(u_j - slope / c_j, 1 / c_j), then t += move C_j. Returns the largest |move| c_j.

    Over which columns: ALL, or those of NONZEROS or ZEROS only.
    """
    largest = 0.0
    for k in range(at.shape[0]):
        if curvatures[k] <= 0.0 or which == (NONZEROS if u[k] == 0.0 else ZEROS):
            continue
        slope = q[k] + weight * (cols.dot(at[k], t) - pull * sums[k] * drift[0]) + rest[k] * (u[k] - origin[k])
        trial = penalty.coordinate_prox(u[k] - slope / curvatures[k], 1.0 / curvatures[k])
        move = trial - u[k]
        if move != 0.0:
            u[k] = trial
            cols.axpy(at[k], t.dtype.type(move), t)
            drift[0] += move * sums[k]
            largest = max(largest, abs(move) * curvatures[k])
    return largest


@kernel(fast_sums=True)
def leave_zeros(penalty, cols, at, u, t, z, tz, p, tp):
    """From u and t before a sweep in z, tz, make the sweep's move; take out of it, and of p, weights that are zero now."""
    for k in range(u.shape[0]):
        z[k] = u[k] - z[k]
    for i in range(t.shape[0]):
        tz[i] = t[i] - tz[i]
    for k in range(at.shape[0]):
        if u[k] == 0.0:
            if z[k] != 0.0:
                cols.axpy(at[k], tz.dtype.type(-z[k]), tz)
                z[k] = 0.0
            if p[k] != 0.0:
                cols.axpy(at[k], tp.dtype.type(-p[k]), tp)
                p[k] = 0.0


@kernel(fast_sums=True)
def plane(penalty, weight, pull, sums, l1, l2, rest, q, origin, u, t, drift, z, tz, p, tp):
    """The model on the signed support of u along a z + b p: slopes for a and b at 0, and curvatures zz, zp, pp.

    Also by how much these moves let the sum roots.t drift.
    """
    gz, gp, zz, zp, pp, dz, dp = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(u.shape[0]):
        slope = q[k] + math.copysign(l1, u[k]) + l2 * u[k] + rest[k] * (u[k] - origin[k])  # where u is 0 both moves are
        bend = l2 + rest[k]
        gz += slope * z[k]
        gp += slope * p[k]
        zz += bend * z[k] * z[k]
        zp += bend * z[k] * p[k]
        pp += bend * p[k] * p[k]
        dz += sums[k] * z[k]
        dp += sums[k] * p[k]
    for i in range(t.shape[0]):
        first, second = 1.0 * tz[i], 1.0 * tp[i]  # sums in double precision: slopes are small differences
        gz += weight * t[i] * first
        gp += weight * t[i] * second
        zz += weight * first * first
        zp += weight * first * second
        pp += weight * second * second
    pull *= weight
    gz -= pull * drift[0] * dz
    gp -= pull * drift[0] * dp
    return gz, gp, zz - pull * dz * dz, zp - pull * dz * dp, pp - pull * dp * dp, dz, dp


@kernel(fast_sums=True)
def crossed(penalty, u, z, a, p, b, m):
    """By how much |u + a z + b p|_1 exceeds what the signs of u say."""
    total = 0.0
    for k in range(m):
        there = u[k] + a * z[k] + b * p[k]
        total += abs(there) - math.copysign(1.0, u[k]) * there
    return total


@kernel(fast_sums=True)
def prolong(penalty, cols, at, weight, pull, sums, l1, l2, rest, q, origin, u, t, drift, z, tz, p, tp):
    """Go on from a sweep to the least value of the model in the plane of its move and the one before, p, if that is below.

    Before, z and tz hold u and t as they were before the sweep; after, p and tp hold the whole move, for the next. As in conjugate
    gradients, two moves do what all would, nearly: more of them gain nothing, and sweeps to one side serve better than to and fro
    (5000 x 2000 lasso at 0.01: a sweep with this brings the violation to 0.37 of what it was, one without to 0.57).
    """
    m = at.shape[0]
    leave_zeros(penalty, cols, at, u, t, z, tz, p, tp)
    gz, gp, zz, zp, pp, dz, dp = plane(penalty, weight, pull, sums, l1, l2, rest, q, origin, u, t, drift, z, tz, p, tp)
    a, b = 0.0, 0.0
    det = zz * pp - zp * zp
    if det > ALIKE * zz * pp:
        a, b = (zp * gp - pp * gz) / det, (zp * gz - zz * gp) / det
    elif zz > 0.0:
        a = -gz / zz
    size = 1.0 if max(abs(a), abs(b)) <= FURTHEST else 0.0
    slope, bend = a * gz + b * gp, a * a * zz + 2.0 * a * b * zp + b * b * pp
    while size > 0.0:
        change = size * slope + 0.5 * size * size * bend
        if change < 0.0 and (l1 == 0.0 or change + l1 * crossed(penalty, u, z, size * a, p, size * b, m) < 0.0):
            break
        size = 0.5 * size if size > 0.25 else 0.0
    a, b = size * a, size * b
    drift[0] += a * dz + b * dp
    for k in range(u.shape[0]):
        move = a * z[k] + b * p[k]
        u[k] += move
        p[k] = z[k] + move
    a, b = t.dtype.type(a), t.dtype.type(b)
    for i in range(t.shape[0]):
        move = a * tz[i] + b * tp[i]
        t[i] += move
        tp[i] = tz[i] + move


@kernel
def residual_cycle(
    penalty, cols, at, weight, pull, sums, curvatures, rest, q, origin, u, t, drift, most, goal, least, last, l1, l2, long, moves
):
    """One sweep over all columns, up to `most` - 1 over the non-zeros, until moves would be below the goal.

    Moves are prolonged if `long`, for which `moves` has room.

    Returns the largest moves of the first and of the last sweep, that to be expected of one more if moves go on to shrink (not by
    more than `least`; `last` is that of the sweep before), and how many sweeps were made.
    """
    first, left, count = 0.0, math.inf, 0
    z, tz, p, tp = moves
    while count < most and left > goal:
        before = last
        if long:
            z[:] = u
            tz[:] = t
        last = residual_sweep(
            penalty, cols, at, weight, pull, sums, curvatures, rest, q, origin, u, t, drift, NONZEROS if count > 0 else ALL
        )
        if long:
            prolong(penalty, cols, at, weight, pull, sums, l1, l2, rest, q, origin, u, t, drift, z, tz, p, tp)
        first = last if count == 0 else first
        left = last * max(least, last / before) if last < before else last
        count += 1
    return first, last, left, count


# --------------------------------------------------------------------------- the solution


def minimise_on_columns(
    problem: Any,
    block: Any,
    h: np.ndarray,
    origin: np.ndarray,
    q: np.ndarray,
    goal: float,
    careful: bool,
    coarse: bool = True,
    settled: bool = True,
    first_round: bool = False,
) -> tuple[np.ndarray, np.ndarray | None, int, int]:
    """Minimise the model from `origin`, where its gradient is q, until no coordinate moves by more than the goal / C_j^2.

    In cycles: one sweep over all columns, a few over the non-zeros only, then conjugate gradients on these if many more sweeps
    would be needed (news20 at 0.001: 2.9 -> 0.19 s); until the support is `settled`, only if there are twice as many rows that bend
    (5000 x 2000 at 0.001: 1.3 -> 0.6 s). Dense columns are held in 16 bits if `coarse`. With an intercept, it is the last component
    of `origin`, q and u. Returns u, the margins of the move (without the intercept; None if they are not known well), and how many
    sweeps and products it took.
    """
    m = block.m
    cycle, most = (3, 24) if careful else (6, 20)
    model = block.model if block.model is not None and block.model.serves(h, coarse) else ScaledColumns(block, h, coarse)
    # Where curvature jumps, the few rows that did are what is left to find out.
    block.model = model if model.dense and getattr(problem.loss, "curvature_is_smooth", False) else None
    slope_b = float(q[m:].sum())
    solution, t, q, drift = origin.copy(), np.zeros_like(model.roots), q[:m] - slope_b * model.pull * model.sums, np.zeros(1)
    origin, u = origin[:m], solution[:m]
    facts = (model.cols, model.at, model.weight, model.pull, model.sums, model.curvatures, model.rest, q, origin)
    long = block.dense and block.entries >= LONG * (block.n + block.m)
    moves = (np.empty_like(u), np.empty_like(t), np.zeros_like(u), np.zeros_like(t))
    how = (problem.penalty.threshold, problem.penalty.strong_convexity, long, moves)
    # What a sweep over sparse columns leaves is known from the one before (20,000 x 50,000 lasso at 0.01: 9 -> 7 sweeps), and on
    # the way to the first product a set that settles fast is not looked at again (there: 1 ms of 18).
    least = LEAST_RATE if careful and not block.dense else 1.0
    early = first_round and not careful and not block.dense and model.even
    worth = (1 if careful else 4) * (WORTH_LONG if long else WORTH)
    # Conjugate gradients are run from here, at a cost of some microseconds a product that small blocks feel.
    overhead = 1.0 + 50_000.0 / block.entries
    sweeps, products, base, largest, before = 0, 0, 0.0, 0.0, 0.0
    while sweeps < most * overhead:
        first, last, left, count = residual_cycle(problem.penalty, *facts, u, t, drift, cycle, goal, least, before, *how)
        before = last
        sweeps, base, largest = sweeps + count, max(base, first), largest or first
        # Once a sweep over all has moved little, those over the non-zeros tell: columns that still want a weight, if any, are left
        # to the next round, which reads all columns anyway.
        settles = early and last <= FAST ** (count - 1) * first
        if first <= goal or (left <= goal and (settles or (sweeps > cycle and first <= SETTLED * goal))):
            break
        if careful and left <= goal and not block.dense and residual_sweep(problem.penalty, *facts, u, t, drift, ZEROS) <= goal:
            break
        if left > goal and _sweeps_to_go(first, last, goal, cycle - 1) > overhead * worth:
            products += _face_step(problem.penalty, model, q, origin, u, t, drift, goal, settled)
            before = 0.0
        if model.single and last < DIGITS * base:
            slope_b += model.rebase(q, t, drift)
            base = 0.0
    block.sweeps = sweeps + 2.0 * products
    block.rate = (last / largest) ** (1.0 / max(block.sweeps - 1.0, 1.0)) if largest > 0.0 else 1.0
    solution[m:] -= (slope_b + model.weight * drift[0]) / max(model.total, TINY)
    return solution, model.margins(t), sweeps, products


def _sweeps_to_go(first: float, last: float, goal: float, sweeps: int) -> float:
    """How many more it will take to the goal if the largest move goes on falling as from `first` to `last` in so many sweeps."""
    if last >= first:
        return float("inf")
    return math.log(last / goal) / (math.log(first / last) / sweeps)


def _face_step(
    penalty: Any, model: ScaledColumns, q: Any, origin: Any, u: Any, t: np.ndarray, drift: np.ndarray, goal: float, settled: bool
) -> int:
    """Minimise the model on the signed support of u; u, t and their drift follow. Returns the number of products.

    Weights that would change sign become zero; if that raises the model, the step ends at the first of them instead.
    """
    support = np.flatnonzero(u)
    many = 2 * len(support) > (len(model.h) if settled else model.bent) and penalty.strong_convexity == 0.0
    if len(support) == 0 or many:  # without l2, more weights than rows can tell apart: sweeps must thin them out first
        return 0
    values, rest, sums = u[support], model.rest[support], model.sums[support]
    slopes = q[support] + model.weight * (model.dots(support, t) - model.pull * drift[0] * sums) + rest * (values - origin[support])
    full, products = _conjugate_gradients(penalty, model, support, values, slopes, goal)
    crossing = values * (values + full) < 0.0 if penalty.threshold > 0.0 else np.zeros(len(support), dtype=bool)
    move = np.where(crossing, -values, full)
    for _ in range(2):
        along = model.combine(support, move)
        square = float(along @ along) - model.pull * float(sums @ move) ** 2
        smooth = float(slopes @ move) + 0.5 * (model.weight * square + float(rest @ (move * move)))
        change = smooth + penalty.value(values + move) - penalty.value(values)
        if change <= 0.0 or not crossing.any():
            break
        move = np.min(-values[crossing] / full[crossing]) * full
    if change <= 0.0:
        u[support] = values + move
        t += along
        drift[0] += float(sums @ move)
    return products


def _conjugate_gradients(
    penalty: Any, model: ScaledColumns, support: np.ndarray, values: np.ndarray, slopes: np.ndarray, goal: float
) -> tuple[np.ndarray, int]:
    """The move to the minimum of the model with the signs of `values`, preconditioned by the diagonal; and the products it took.

    Of sparse columns with curvatures of their own it is found to the goal, whatever that takes within reason: to begin anew costs
    more (news20, logistic at 0.001 to 1e-6: 142 -> 128 ms).
    """
    to_goal = not (model.dense or model.even)
    l2, rest, sums = penalty.strong_convexity, model.rest[support], model.sums[support]
    diagonal = model.curvatures[support] + l2
    move, residual = np.zeros(len(values)), -(slopes + penalty.threshold * np.sign(values) + l2 * values)
    direction = residual / diagonal
    size = start = float(residual @ direction)
    products = 0
    while products < (MOST_TO_GOAL if to_goal else MOST_PRODUCTS):
        product = model.dots(support, model.combine(support, direction)) - model.pull * float(sums @ direction) * sums
        product = model.weight * product + (l2 + rest) * direction
        products += 1
        bend = float(direction @ product)
        if bend <= 0.0:
            break
        move += size / bend * direction
        residual -= size / bend * product
        scaled = residual / diagonal
        size, last = float(residual @ scaled), size
        if float(np.abs(residual).max()) <= goal if to_goal else size <= 1e-4 * start:
            break
        direction = scaled + size / last * direction
    return move, products
