"""Truncated Newton for smooth losses with l2: models are minimised by conjugate gradients that read each row once for a product.

    minimise over p   r'X p + alpha w.p + 1/2 p'(X'H X + alpha) p,        r_i = s_i l'(z_i),  H = diag(s_i l''(z_i))

An intercept is one more component of p, that of a column of ones, which alpha leaves alone.

A product with the matrix of the model takes a row, its margin x_i.p and its share h_i (x_i.p) x_i of the result while the row is in
cache, so that the data travel once, not twice; in single precision if they are large, and rows with next to no curvature do not
travel at all: those beyond the kink of a squared hinge, and those that a logistic model is sure of. What such models lose, the next
gradient restores: it is exact. Close to the solution the slopes of the model are the dual point.

=========  ==================================================================
here       meaning
=========  ==================================================================
Xw         margins z
a, r, h    slopes l'(z), weighted slopes s a, weighted curvatures s l''(z)
p, along   the step, and X p; shift is that of the intercept
=========  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.newton_search import balancing_shift, expand_at, model_slopes, search_along
from saddlery.solvers.sampled_curvature import inverse_of_sample, price_of_sample
from saddlery.solvers.sdca import swept_once

__all__ = ["NewtonCG", "model_product"]

MOST_PRODUCTS = 300  # for one model
FORCING, LEAST_SHARE = 0.1, 0.01  # the share of the gradient's norm that a model may leave, at first and at last
FADING = 0.5  # from step to step
LAST = 0.3  # times the root of what the gap must still fall by: the share that suffices for it
TINY = float(np.finfo(float).tiny)
TALL = 8  # rows per column
AFFORDABLE = 15.0  # products that an inverse may cost
NEGLECTED = 0.03  # times that: the share of all curvature that the rows left out may have together


@kernel(fast_sums=True)
def model_product(rows, chosen, h, alpha, p, out):
    """out = X'H X p + alpha p over the chosen rows, each of which is read once. Returns p.out."""
    d = rows.length
    for j in range(d):
        out[j] = alpha * p[j]
    shift, total = 0.0, 0.0
    if p.shape[0] > d:
        shift = p[d]
    for k in range(chosen.shape[0]):
        pull = h[k] * p.dtype.type(rows.dot(chosen[k], p) + shift)
        rows.axpy(chosen[k], pull, out)
        total += pull
    if p.shape[0] > d:
        out[d] = total
    total = 0.0
    for j in range(p.shape[0]):
        total += p[j] * out[j]
    return total


@kernel(fast_sums=True)
def model_diagonal(rows, chosen, h, alpha, out):
    """out_j = sum_i h_i x_ij^2 + alpha over the chosen rows; sum_i h_i for an intercept."""
    out[: rows.length] = alpha
    out[rows.length :] = h.sum()
    for k in range(chosen.shape[0]):
        i = chosen[k]
        for q in range(rows.first(i), rows.last(i)):
            out[rows.position(i, q)] += h[k] * rows.entry(q) * rows.entry(q)


@kernel(fast_sums=True)
def precondition(rows, inverse, diagonal, residual, out):
    """out = P^-1 residual, with the diagonal as P if there is no inverse. Returns residual.out."""
    if inverse.shape[0] > 0:
        np.dot(inverse, residual, out)
    else:
        for j in range(out.shape[0]):
            out[j] = residual[j] / diagonal[j]
    total = 0.0
    for j in range(out.shape[0]):
        total += residual[j] * out[j]
    return total


@kernel(fast_sums=True)
def minimise_model(rows, chosen, h, alpha, inverse, gradient, diagonal, share, radius, most, p):
    """p = minimiser of the model by conjugate gradients with a preconditioner, until the residual is a share of the gradient.

    They end where p becomes longer than the radius (Steihaug). Returns the number of products and the length of p in the norm of
    the diagonal.
    """
    d = gradient.shape[0]
    residual, direction, product, scaled = np.empty_like(p), np.empty_like(p), np.empty_like(p), np.empty_like(p)
    count, length = 0, 0.0
    for j in range(d):
        p[j] = 0.0
        residual[j] = -gradient[j]
    size = start = precondition(rows, inverse, diagonal, residual, direction)
    while count < most and size > share * share * start:
        bend = model_product(rows, chosen, h, alpha, direction, product)
        count += 1
        if not bend > 0.0:
            break
        step, length = size / bend, 0.0
        for j in range(d):
            p[j] += step * direction[j]
            residual[j] -= step * product[j]
            length += diagonal[j] * p[j] * p[j]
        length = math.sqrt(length)
        if length > radius:
            break
        last, size = size, precondition(rows, inverse, diagonal, residual, scaled)
        for j in range(d):
            direction[j] = scaled[j] + size / last * direction[j]
    return count, length


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, b: float):
        n = problem.n
        self.w, self.b = w, b
        self.Xw = problem.margins(w) if w.any() else np.zeros(n)
        self.a, self.r, self.h = np.empty(n), np.empty(n), np.empty(n)
        self.spare = [np.empty(n) for _ in range(4)]
        self.value = 0.0
        self.dual: Any = None
        self.Xta: Any = None
        self.gradient: Any = None
        self.rows = problem.matrix.single_rows
        self.idle, self.first, self.radius = 0, 0.0, float("inf")
        self.price, self.products = price_of_sample(problem.matrix), 0  # products of the last model
        self.inverse = np.empty((0, 0), dtype=np.float32)
        self.faded = np.zeros(n)  # what is left of curvatures before: where these jump, rows come and go


@dataclass(frozen=True)
class NewtonCG(Solver):
    """Truncated Newton with conjugate gradients over the rows, for smooth losses with l2.

    Parameters
    ----------
    forcing : float
        The share of the gradient that a model may leave at first; it falls with the gradient.
    """

    forcing: float = FORCING

    name = "newton_cg"
    paper = "Lin, Weng & Keerthi 2008, Trust region Newton method for logistic regression, with line searches"
    needs = Needs(
        loss=("value", "slope", "curvature", "conjugate"),
        penalty=("coordinate_conjugate",),
        smooth=True,
        strongly_convex=True,
        rotates=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        if start is not None:
            w, b = start.w, start.b
        elif problem.n >= TALL * problem.d and hasattr(problem.loss, "dual_prox"):
            w, b, *_ = swept_once(problem, rng)  # an epoch of dual ascent finds out which rows matter (60,000 x 780: 1.0 -> 0.9 s)
        else:
            w, b = np.zeros(problem.d), problem.constant
        state = _State(problem, w, b)
        self._expand(problem, state)
        if not w.any():
            self._judge(problem, state, state.a, problem.constant_gradient)
        else:
            self._judge_slopes(problem, state)
        return state

    def _expand(self, problem: Any, state: _State) -> None:
        """Slopes and curvatures at the present point."""
        new = (state.spare[0], state.a, state.r, state.h)
        state.value = expand_at(problem.loss, problem.y, problem.s, state.Xw, state.Xw, 0.0, state.b, *new)

    def _judge(self, problem: Any, state: _State, dual: np.ndarray, Xta: np.ndarray) -> None:
        state.dual, state.Xta = dual, Xta

    def _judge_slopes(self, problem: Any, state: _State) -> None:
        self._judge(problem, state, state.a, problem.matrix.rmatvec(state.r))
        state.accesses += problem.matrix.nnz

    def _share(self, state: _State, norm: float) -> float:
        """The share of the gradient that the next model may leave: less and less, but no less than the tolerance needs.

        A gap falls with the square of the gradient. (60,000 x 780 sparse, logistic to 1e-4: 1.0 -> 0.86 s.)
        """
        state.first = max(state.first, norm)
        share = max(min(self.forcing, math.sqrt(norm / state.first)), LEAST_SHARE)
        return max(share, min(self.forcing, LAST * math.sqrt(state.tol / max(state.relative_gap, state.tol, TINY))))

    def _choose_rows(self, weight: np.ndarray, share: float) -> np.ndarray:
        """The rows that have nearly all of the curvature."""
        order = np.argsort(weight)
        left_out = int(np.searchsorted(np.cumsum(weight[order]), NEGLECTED * share * weight.sum()))
        return np.sort(order[left_out:])

    def step(self, problem: Any, state: _State) -> None:
        alpha, d, free = problem.penalty.strong_convexity, problem.d, int(problem.fit_intercept)
        gradient = np.full(d + free, state.r.sum())
        gradient[:d] = (state.Xta if state.dual is state.a else problem.matrix.rmatvec(state.r)) + alpha * state.w
        share = self._share(state, float(np.linalg.norm(gradient)))
        h = state.h
        if not getattr(problem.loss, "curvature_is_smooth", False):
            h = state.faded = np.maximum(h, FADING * state.faded)
        norms = problem.matrix.row_square_norms + free
        weight = h * norms
        chosen = self._choose_rows(weight, share)
        model = (state.rows, chosen, h[chosen].astype(np.float32), np.float32(alpha))
        diagonal, p = np.empty((2, d + free), dtype=np.float32)
        model_diagonal(*model, diagonal)
        if state.price < min(AFFORDABLE, state.products):  # the last model would have been worth it
            state.inverse = inverse_of_sample(state.rows, chosen, weight[chosen], norms[chosen], diagonal, alpha)
            state.accesses += state.price * problem.matrix.nnz
        goal = (state.inverse, gradient.astype(np.float32), diagonal, np.float32(share), state.radius)
        count, length = minimise_model(*model, *goal, MOST_PRODUCTS, p)
        state.products = count
        move, shift = p[:d].astype(np.float64), float(p[d]) if free else 0.0
        along = problem.margins(move)
        state.accesses += (2.0 + 2.0 * count * len(chosen) / problem.n) * problem.matrix.nnz
        before = state.value + problem.penalty.value(state.w)
        slopes, curvatures = state.a, h
        size = self._search(problem, state, move, along, shift)
        if size < 0.25:
            state.radius = max(4.0 * size, 0.1) * length
        elif size >= 1.0:
            state.radius *= 4.0
        if size == 1.0 and state.relative_gap < 0.03:
            dual, weighted = np.empty(problem.n), np.empty(problem.n)
            if free:
                shift = balancing_shift(problem.loss, problem.y, problem.s, slopes, curvatures, along, shift)
            model_slopes(problem.loss, problem.y, problem.s, slopes, curvatures, along, shift, dual, weighted)
            self._judge(problem, state, dual, problem.matrix.rmatvec(weighted))
            state.accesses += problem.matrix.nnz
        else:
            self._judge_slopes(problem, state)
        after = state.value + problem.penalty.value(state.w)
        state.idle = 0 if after < before - 1e-15 * abs(before) else state.idle + 1
        state.stalled = state.idle >= 5

    def _search(self, problem: Any, state: _State, move: np.ndarray, along: np.ndarray, shift: float) -> float:
        """Go along the move as far as it pays; returns the size of the step."""
        data = (problem.loss, problem.penalty, problem.y, problem.s, state.Xw, along, state.b, shift, state.r, state.value)
        weights = (np.arange(problem.d), state.w.copy(), move, problem.penalty.strong_convexity, state.w, np.empty(problem.d))
        size, value, _ = search_along(*data, *weights, *state.spare)
        if size > 0.0:
            trial = state.spare
            state.spare = [state.Xw, np.empty(problem.n), state.r, np.empty(problem.n)]  # slopes and curvatures serve the model
            state.Xw, state.a, state.r, state.h = trial
            state.value, state.b = value, state.b + size * shift
        return size

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.dual, state.Xw, state.Xta, state.value, fresh=True)

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw = problem.margins(state.w)
        self._expand(problem, state)
        self._judge_slopes(problem, state)
