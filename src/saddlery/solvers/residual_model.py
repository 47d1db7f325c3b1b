"""Newton's model on the columns themselves: coordinate descent that keeps the margins of the move, and conjugate gradients.

The model of a step, for weights u on the columns W of a block (and the intercept as last coordinate), is

    q.(u - u0) + weight/2 ||C (u - u0)||^2 + sum_j g_j(u_j)        C = diag(sqrt(h)) X_W, weight 1;  or X_W, h if all h are equal

where q is its gradient at u0; of dense columns some rows may be missing but for their part of the diagonal (bent_rows.py). Sweeps
keep t = C (u - u0), so that the gradient of a coordinate is q_j + weight C_j.t: no more than the move is rounded, and dense columns
may be held in single precision (5000 x 2000, logistic at 0.01: 840 -> 520 ms). Its sister, :mod:`saddlery.solvers.gram_model`,
works on C'C instead, where that is cheaper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.matrix import DenseVectors, SparseVectors
from saddlery.matrix.vectors import combine_of, dots_of
from saddlery.parts import kernel
from saddlery.solvers.bent_rows import BentRows

__all__ = ["minimise_on_columns"]

WORTH = 15  # sweeps that conjugate gradients must spare to be worth their products
SETTLED = 100.0  # times the goal: the largest move of a sweep over all columns after which those over the non-zeros suffice
STILL = 0.02  # share of the curvature: while no more than this moved, scaled columns serve on
MOST_PRODUCTS = 25  # of conjugate gradients, each two passes over the block


# --------------------------------------------------------------------------- kernels


@kernel
def scale_sparse(vectors, at, roots, values, indices, starts, squares):
    """The vectors `at` of a sparse stack, each entry times the root of its row; and their square norms."""
    count = 0
    for k in range(at.shape[0]):
        starts[k] = count
        total = 0.0
        for p in range(vectors.first(at[k]), vectors.last(at[k])):
            i = vectors.position(at[k], p)
            value = roots[i] * vectors.entry(p)
            values[np.uint64(count)] = value
            indices[np.uint64(count)] = i
            total += value * value
            count += 1
        squares[k] = total
    starts[at.shape[0]] = count


@kernel(fast_sums=True)
def residual_sweep(penalty, cols, at, weight, roots, total, curvatures, rest, q, origin, u, t, free, only_nonzero):
    """One sweep over the columns: u_j = prox(u_j - slope / c_j, 1 / c_j), then t += move C_j. Returns the largest |move| c_j."""
    largest = 0.0
    for k in range(at.shape[0]):
        if curvatures[k] <= 0.0 or (only_nonzero and u[k] == 0.0):
            continue
        slope = q[k] + weight * cols.dot(at[k], t) + rest[k] * (u[k] - origin[k])
        trial = penalty.coordinate_prox(u[k] - slope / curvatures[k], 1.0 / curvatures[k])
        move = trial - u[k]
        if move != 0.0:
            u[k] = trial
            cols.axpy(at[k], t.dtype.type(move), t)
            largest = max(largest, abs(move) * curvatures[k])
    if free and total > 0.0:
        slope = 0.0
        for i in range(t.shape[0]):
            slope += roots[i] * t[i]
        slope = q[at.shape[0]] + weight * slope
        move = -slope / total
        u[at.shape[0]] += move
        for i in range(t.shape[0]):
            t[i] += move * roots[i]
        largest = max(largest, abs(slope))
    return largest


@kernel
def residual_cycle(penalty, cols, at, weight, roots, total, curvatures, rest, q, origin, u, t, free, most, goal):
    """One sweep over all columns, up to `most` - 1 over the non-zeros; largest moves of the first and the last, their number."""
    first = residual_sweep(penalty, cols, at, weight, roots, total, curvatures, rest, q, origin, u, t, free, False)
    last, count = first, 1
    while count < most and last > goal:
        last = residual_sweep(penalty, cols, at, weight, roots, total, curvatures, rest, q, origin, u, t, free, True)
        count += 1
    return first, last, count


# --------------------------------------------------------------------------- the columns of the model


class ScaledColumns:
    """The columns C of the model; see the top of the file.

    Scaled once a step: the alternative, to multiply by h in each update of each sweep, takes a third longer.

    Parameters
    ----------
    block : WorkingBlock
        The columns X_W.
    h : array of shape (n,)
        Weights of the rows.
    """

    def __init__(self, block: Any, h: np.ndarray):
        self.h, self.even = h, h.min() == h.max()
        self.dense = block.array is not None
        kind = np.float32 if self.dense else np.float64
        self.weight, self.total = float(h[0]) if self.even else 1.0, float(h.sum())
        self.cols, self.at, self.rest, self.bent = block.cols, block.at, np.zeros(block.m), len(h)
        if self.even:
            self.roots, self.curvatures = np.ones(len(h), dtype=kind), self.weight * block.square_norms
            return
        if self.dense:
            rows, values = BentRows(h, sweeps=block.sweeps), block.room(len(block.cols.values), kind)[0]
            self.roots, self.total, self.bent = rows.roots, rows.total, rows.bent
            self.cols = DenseVectors(values[: block.m * rows.count], rows.count)
            self.curvatures, self.rest = rows.scale(block.cols, block.at, values)
            return
        self.roots, self.curvatures = np.sqrt(h), np.empty(block.m)
        values, indices, starts = block.room(block.entries, kind)
        scale_sparse(block.cols, block.at, self.roots, values, indices, starts, self.curvatures)
        self.cols, self.at = SparseVectors(values, indices, starts, block.n), np.arange(block.m)

    def serves(self, h: np.ndarray) -> bool:
        """Whether these columns, made for other weights, are near enough to those for h."""
        return float(np.abs(h - self.h).sum()) <= STILL * float(h.sum())

    def margins(self, t: np.ndarray) -> np.ndarray | None:
        """X_W (u - u0) + c from t, unless that is rounded or lost."""
        if self.dense or not (self.even or self.roots.min() > 0.0):
            return None
        return t if self.even else t / self.roots

    def face(self, columns: np.ndarray) -> _Face:
        """Products with some of the columns."""
        return _Face(self, columns)


class _Face:
    """Products with some of the columns of a model: by our loops on sparse ones, by BLAS on dense ones."""

    def __init__(self, model: ScaledColumns, columns: np.ndarray):
        self.cols, self.at, self.n = model.cols, model.at[columns], len(model.roots)
        self.array: Any = None
        if model.dense:
            array = model.cols.values.reshape(-1, self.n)
            most = 2 * len(columns) > len(array)  # then all are multiplied, since to copy columns takes longer
            self.array = array if most else array[self.at]
            self.spots: Any = columns if most else slice(None)

    def combine(self, values: np.ndarray) -> np.ndarray:
        """C values."""
        if self.array is not None:
            full = np.zeros(len(self.array), dtype=self.array.dtype)
            full[self.spots] = values
            return full @ self.array
        out = np.zeros(self.n)
        combine_of(self.cols, self.at, values, out)
        return out

    def dots(self, x: np.ndarray) -> np.ndarray:
        """C'x, in float64."""
        if self.array is not None:
            return (self.array @ x)[self.spots].astype(np.float64)
        out = np.empty(len(self.at))
        dots_of(self.cols, self.at, x, out)
        return out


# --------------------------------------------------------------------------- the solution


def minimise_on_columns(
    problem: Any,
    block: Any,
    h: np.ndarray,
    origin: np.ndarray,
    q: np.ndarray,
    goal: float,
    careful: bool,
    settled: bool = True,
) -> tuple[np.ndarray, np.ndarray | None, int, int]:
    """Minimise the model from `origin`, where its gradient is q, until no coordinate moves by more than the goal / C_j^2.

    In cycles: one sweep over all columns, a few over the non-zeros only, then conjugate gradients on these if many more sweeps
    would be needed (news20 at 0.001: 2.9 -> 0.19 s); until the support is `settled`, only if there are twice as many rows that bend
    (5000 x 2000 at 0.001: 1.3 -> 0.6 s). Returns u, the margins of the move (with the intercept; None if they are not known well),
    and how many sweeps and products it took.
    """
    free = int(problem.fit_intercept)
    cycle, most = (3, 24) if careful else (6, 20)
    model = block.model if block.model is not None and block.model.serves(h) else ScaledColumns(block, h)
    # Where curvature jumps, the few rows that did are what is left to find out.
    block.model = model if model.dense and getattr(problem.loss, "curvature_is_smooth", False) else None
    u, t = origin.copy(), np.zeros_like(model.roots)
    facts = (model.cols, model.at, model.weight, model.roots, model.total, model.curvatures, model.rest, q, origin)
    # Conjugate gradients are run from here, at a cost of some microseconds a product that small blocks feel.
    overhead = 1.0 + 50_000.0 / block.entries
    sweeps = products = 0
    while sweeps < most * overhead:
        first, last, count = residual_cycle(problem.penalty, *facts, u, t, free, cycle, goal)
        sweeps += count
        # Once a sweep over all has moved little, those over the non-zeros tell: columns that still want a weight, if any, are left
        # to the next round, which reads all columns anyway.
        if first <= goal or (last <= goal and sweeps > cycle and first <= SETTLED * goal):
            break
        if last > goal and _sweeps_to_go(first, last, goal, cycle - 1) > overhead * (WORTH if careful else 4 * WORTH):
            products += _face_step(problem.penalty, model, q, origin, u, t, settled)
    block.sweeps = sweeps + 2.0 * products
    return u, model.margins(t), sweeps, products


def _sweeps_to_go(first: float, last: float, goal: float, sweeps: int) -> float:
    """How many more it will take to the goal if the largest move goes on falling as from `first` to `last` in so many sweeps."""
    if last >= first:
        return float("inf")
    return math.log(last / goal) / (math.log(first / last) / sweeps)


def _face_step(
    penalty: Any, model: ScaledColumns, q: np.ndarray, origin: np.ndarray, u: np.ndarray, t: np.ndarray, settled: bool
) -> int:
    """Minimise the model on the signed support of u; u and t follow. Returns the number of products.

    Weights that would change sign become zero; if that raises the model, the step ends at the first of them instead.
    """
    support = np.flatnonzero(u[: len(model.at)])
    many = 2 * len(support) > (len(model.h) if settled else model.bent) and penalty.strong_convexity == 0.0
    if len(support) == 0 or many:  # without l2, more weights than rows can tell apart: sweeps must thin them out first
        return 0
    face, values, rest = model.face(support), u[support], model.rest[support]
    slopes = q[support] + model.weight * face.dots(t) + rest * (values - origin[support])
    full, products = _conjugate_gradients(penalty, face, values, slopes, model.curvatures[support], rest, model.weight)
    crossing = values * (values + full) < 0.0 if penalty.threshold > 0.0 else np.zeros(len(support), dtype=bool)
    move = np.where(crossing, -values, full)
    for _ in range(2):
        along = face.combine(move)
        smooth = float(slopes @ move) + 0.5 * (model.weight * float(along @ along) + float(rest @ (move * move)))
        change = smooth + penalty.value(values + move) - penalty.value(values)
        if change <= 0.0 or not crossing.any():
            break
        move = np.min(-values[crossing] / full[crossing]) * full
    if change <= 0.0:
        u[support] = values + move
        t += along
    return products


def _conjugate_gradients(
    penalty: Any, face: _Face, values: np.ndarray, slopes: np.ndarray, curvatures: np.ndarray, rest: np.ndarray, weight: float
) -> tuple[np.ndarray, int]:
    """The move to the minimum of the model with the signs of `values`, preconditioned by the diagonal; and the products it took."""
    l2 = penalty.strong_convexity
    diagonal = curvatures + l2
    move, residual = np.zeros(len(values)), -(slopes + penalty.threshold * np.sign(values) + l2 * values)
    direction = residual / diagonal
    size = start = float(residual @ direction)
    products = 0
    while products < MOST_PRODUCTS:
        product = weight * face.dots(face.combine(direction)) + (l2 + rest) * direction
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
