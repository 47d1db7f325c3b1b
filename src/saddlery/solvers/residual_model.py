"""Newton's model on the columns themselves: coordinate descent that keeps the slopes of the rows, and conjugate gradients.

The model of a step, for weights u on the columns W of a block (and the intercept as last coordinate), is

    r'X_W (u - u0) + 1/2 sum_i h_i (x_iW.(u - u0))^2 + sum_j g_j(u_j)

Sweeps keep t = r + h X_W (u - u0), so that the gradient of a coordinate is x^j.t. Its sister, :mod:`saddlery.solvers.gram_model`,
works on X_W' diag(h) X_W instead, where that is cheaper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.matrix.vectors import combine_of, dots_of, weighted_square_norms
from saddlery.parts import kernel

__all__ = ["minimise_on_columns"]

WORTH = 15  # sweeps that conjugate gradients must spare to be worth their products
MOST_PRODUCTS = 25  # of conjugate gradients, each two passes over the block


@kernel(fast_sums=True)
def residual_sweep(penalty, cols, h, total, curvatures, correction, u, t, free, only_nonzero):
    """One sweep over the columns: u_j = prox(u_j - x^j.t / c_j, 1 / c_j), then t += move h x^j. Returns the largest |move| c_j.

    The correction is added to the products x^j.t, for columns that are rounded.
    """
    largest = 0.0
    for j in range(curvatures.shape[0]):
        if curvatures[j] <= 0.0 or (only_nonzero and u[j] == 0.0):
            continue
        gradient = cols.dot(j, t) + correction[j]
        trial = penalty.coordinate_prox(u[j] - gradient / curvatures[j], 1.0 / curvatures[j])
        move = trial - u[j]
        if move != 0.0:
            u[j] = trial
            cols.weighted_axpy(j, move, h, t)
            largest = max(largest, abs(move) * curvatures[j])
    if free and total > 0.0:
        slope = 0.0
        for i in range(t.shape[0]):
            slope += t[i]
        move = -slope / total
        u[u.shape[0] - 1] += move
        for i in range(t.shape[0]):
            t[i] += move * h[i]
        largest = max(largest, abs(slope))
    return largest


@kernel
def residual_cycle(penalty, cols, h, total, curvatures, correction, u, t, free, most, goal):
    """One sweep over all columns, up to `most` - 1 over the non-zeros; largest moves of the first and the last, their number."""
    first = residual_sweep(penalty, cols, h, total, curvatures, correction, u, t, free, False)
    last, count = first, 1
    while count < most and last > goal:
        last = residual_sweep(penalty, cols, h, total, curvatures, correction, u, t, free, True)
        count += 1
    return first, last, count


def minimise_on_columns(
    problem: Any,
    block: Any,
    r: np.ndarray,
    h: np.ndarray,
    origin: np.ndarray,
    gradient: np.ndarray,
    violation: float,
    careful: bool,
) -> tuple[np.ndarray, int, int]:
    """Minimise the model from `origin`, to a share of the violation there; returns u, and how many sweeps and products it took.

    In cycles: one sweep over all columns, a few over the non-zeros only, then conjugate gradients on these if many more sweeps
    would be needed (news20 at 0.001: 2.9 -> 0.19 s).
    """
    free = int(problem.fit_intercept)
    goal, cycle, most = (0.03 * violation, 3, 24) if careful else (0.3 * violation, 6, 20)
    u, t = origin.copy(), r.copy()
    curvatures = np.empty(block.m)
    weighted_square_norms(block.cols, h, curvatures)
    correction = block.gradient_correction(gradient, r)
    model = (block.cols, h, float(h.sum()), curvatures, correction)
    # Conjugate gradients are run from here, at a cost of some microseconds a product that small blocks feel.
    overhead = 1.0 + 50_000.0 / block.entries
    sweeps = products = 0
    while sweeps < most * overhead:
        first, last, count = residual_cycle(problem.penalty, *model, u, t, free, cycle, goal)
        sweeps += count
        if first <= goal:
            break
        if last > goal and _sweeps_to_go(first, last, goal, cycle - 1) > overhead * (WORTH if careful else 4 * WORTH):
            products += _face_step(problem.penalty, block.cols, h, curvatures, correction, u, t)
    return u, sweeps, products


def _sweeps_to_go(first: float, last: float, goal: float, sweeps: int) -> float:
    """How many more it will take to the goal if the largest move goes on falling as from `first` to `last` in so many sweeps."""
    if last >= first:
        return float("inf")
    return math.log(last / goal) / (math.log(first / last) / sweeps)


def _face_step(penalty: Any, cols: Any, h: np.ndarray, curvatures: np.ndarray, correction: np.ndarray, u: Any, t: Any) -> int:
    """Minimise the model on the signed support of u; u and t follow. Returns the number of products.

    Weights that would change sign become zero; if that raises the model, the step ends at the first of them instead.
    """
    face = np.flatnonzero(u[: len(curvatures)])
    many = 2 * len(face) > len(t) and penalty.strong_convexity == 0.0
    if len(face) == 0 or many:  # without l2, more weights than rows can tell apart: sweeps must thin them out first
        return 0
    values = u[face]
    full, products = _conjugate_gradients(penalty, cols, face, values, t, h, curvatures[face], correction[face])
    crossing = values * (values + full) < 0.0 if penalty.threshold > 0.0 else np.zeros(len(face), dtype=bool)
    move = np.where(crossing, -values, full)
    for _ in range(2):
        along = np.zeros(len(t))
        combine_of(cols, face, move, along)
        bent = h * along
        smooth = float(t @ along) + float(correction[face] @ move) + 0.5 * float(along @ bent)
        change = smooth + penalty.value(values + move) - penalty.value(values)
        if change <= 0.0 or not crossing.any():
            break
        move = np.min(-values[crossing] / full[crossing]) * full
    if change <= 0.0:
        u[face] = values + move
        t += bent
    return products


def _conjugate_gradients(
    penalty: Any, cols: Any, face: np.ndarray, values: np.ndarray, t: np.ndarray, h: np.ndarray, curvatures: Any, correction: Any
) -> tuple[np.ndarray, int]:
    """The move to the minimum of the model with the signs of `values`, preconditioned by the diagonal; and the products it took."""
    l2 = penalty.strong_convexity
    gradient = np.empty(len(face))
    dots_of(cols, face, t, gradient)
    gradient += correction + penalty.threshold * np.sign(values) + l2 * values
    diagonal = curvatures + l2
    move, residual = np.zeros(len(face)), -gradient
    direction = residual / diagonal
    size = start = float(residual @ direction)
    products = 0
    while products < MOST_PRODUCTS:
        along, product = np.zeros(len(t)), np.empty(len(face))
        combine_of(cols, face, direction, along)
        dots_of(cols, face, h * along, product)
        product += l2 * direction
        products += 1
        bend = float(direction @ product)
        if bend <= 0.0:
            break
        move += size / bend * direction
        residual -= size / bend * product
        scaled = residual / diagonal
        size, last = float(residual @ scaled), size
        if size <= 1e-4 * start:
            break
        direction = scaled + size / last * direction
    return move, products
