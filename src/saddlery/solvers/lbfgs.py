"""L-BFGS for smooth losses with l2 on tall data: an iteration is one pass over rows in single precision.

    minimise  F(w, b) = sum_i s_i l(y_i, x_i.w + b) + l2 / 2 ||w||^2

The value and the gradient of F at a point take one pass: some rows at a time, their margins, slopes and shares r_i x_i of the
gradient are made while the rows are in cache. The direction is that of Liu & Nocedal, with the inverse of the curvature on a sample
of the rows (sampled_curvature.py) in the middle, where that is cheap, and its diagonal elsewhere. With such a start a handful of
pairs leaves little to learn: 10,000 x 400, logistic, takes some ten passes to 1e-6, where each Gram matrix would cost more
(105 -> 17 ms; 60,000 x 780 sparse pixels 820 -> 390 ms).

What ends a run is the gradient: slopes are a dual point, and the gap that they leave is ||F'||^2 / (2 l2). Single precision knows
that far beyond the usual tolerances; where it does not, double precision takes over. Certificates are made of the data as ever.

=========  ==================================================================
here       meaning
=========  ==================================================================
w          weights, and the intercept as last component if there is one
g          gradient of F at w
p          direction, -H g with H the matrix of L-BFGS
moves      differences of w (s_k of the paper), a ring of them
bends      differences of g (y_k), and `rho` is 1 / (s_k.y_k)
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
from saddlery.solvers.dual_epochs import fits_single
from saddlery.solvers.newton_cg import model_diagonal, precondition
from saddlery.solvers.sampled_curvature import inverse_of_sample, operations

__all__ = ["LBFGS"]

ROWS = 64  # in cache at a time
MEMORY = 12  # pairs
FIRST, LATER = 4, 8  # passes of an epoch: the first ones find the curvature of which the preconditioner is made anew
SHORTEN = 0.1  # least factor by which a step that gained too little is made shorter
GOAL = 0.5  # share of the tolerance at which a run ends
DESCENT = 1e-4  # share of what the slope promises that a step must bring
ROUNDING = {True: 3e-7, False: 1e-14}  # of the value, in single and in double precision
AT_ZERO, AGAIN = 4, 8  # rows for each column of which the preconditioner is made, at zero and later
GROWTH = 4  # by which that number grows once steps of full length were still many (4000 x 256, heavy tails: 31 -> 18 ms)
CHEAP = {True: 6.0, False: 3.0}  # passes that it may cost at zero, of sparse and of dense data
DEAR = 60.0  # passes that it may cost at all
WORTH = 6.0  # passes that a new one must spare
BLEND = 1e-3  # share of the diagonal: more would slow down columns that correlate (0.02; 40,000 x 100 pixels: 130 -> 36 ms)
FLAT = 1e-2  # least curvature of a row for the preconditioner, as a share of the largest possible, where curvature jumps
TINY = float(np.finfo(float).tiny)
LARGE = 1e30  # squared norms of rows, or their inverse, from which on curvatures leave the range of single precision


@kernel(fast_sums=True)
def loss_and_gradient(loss, rows, y, s, l2, w, z, r, rounded, part, g):
    """F(w), with its gradient in g: one pass over the rows, ROWS at a time; sums of so many are rounded to the type of `part`."""
    n, d = y.shape[0], rows.length
    shift, total, pull = 0.0, 0.0, 0.0
    if w.shape[0] > d:
        shift = w[d]
    for j in range(d):
        rounded[j] = w[j]
        g[j] = l2 * w[j]
        total += 0.5 * l2 * w[j] * w[j]
    for first in range(0, n, ROWS):
        count = min(ROWS, n - first)
        for k in range(count):
            z[k] = rows.dot(first + k, rounded)
        for k in range(count):
            value, slope, _ = loss.expand(y[first + k], z[k] + shift)
            total += s[first + k] * value
            r[k] = s[first + k] * slope
        part[:] = 0.0
        for k in range(count):
            rows.axpy(first + k, part.dtype.type(r[k]), part)
            pull += r[k]
        for j in range(d):
            g[j] += part[j]
    if w.shape[0] > d:
        g[d] = pull
    return total


@kernel(fast_sums=True)
def curvatures(loss, rows, y, s, w, rounded, out):
    """out_i = s_i l''(y_i, x_i.w + b)."""
    d = rows.length
    shift = 0.0
    if w.shape[0] > d:
        shift = w[d]
    for j in range(d):
        rounded[j] = w[j]
    for i in range(y.shape[0]):
        out[i] = rows.dot(i, rounded) + shift
    for i in range(y.shape[0]):
        out[i] = s[i] * loss.expand(y[i], out[i])[2]


@kernel(fast_sums=True)
def inner(rows, x, y):
    """x.y."""
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * y[j]
    return total


@kernel(fast_sums=True)
def direction(rows, inverse, diagonal, moves, bends, rho, count, g, weight, scaled, p):
    """p = -H g by the two loops of Liu & Nocedal over the last pairs, with the preconditioner in the middle."""
    memory = moves.shape[0]
    for j in range(g.shape[0]):
        p[j] = -g[j]
    for age in range(min(count, memory)):
        k = (count - 1 - age) % memory
        weight[k] = rho[k] * inner(rows, moves[k], p)
        for j in range(g.shape[0]):
            p[j] -= weight[k] * bends[k, j]
    for j in range(g.shape[0]):
        scaled[j] = p[j]
    precondition(rows, inverse, diagonal, scaled, p)
    for age in range(min(count, memory) - 1, -1, -1):
        k = (count - 1 - age) % memory
        change = weight[k] - rho[k] * inner(rows, bends[k], p)
        for j in range(g.shape[0]):
            p[j] += change * moves[k, j]


@kernel
def descend(loss, rows, y, s, l2, inverse, diagonal, w, g, value, moves, bends, rho, count, goal, most, rounding, rounded):
    """Iterations of L-BFGS until ||g||^2 <= goal, or `most`, or nothing is gained; w, g and the pairs follow.

    Returns F, the number of pairs so far, that of passes, and whether it ended because nothing was gained.
    """
    size = w.shape[0]
    z, r, part, weight = np.empty(ROWS), np.empty(ROWS), np.empty_like(rounded), np.empty(moves.shape[0])
    p, scaled, there, slopes = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    passes, fruitless, least = 0, 0, math.inf
    while passes < most:
        square = inner(rows, g, g)
        if square <= goal:
            break
        fruitless = 0 if square < 0.5 * least else fruitless + 1
        least = min(least, square)
        if fruitless > 5 and count > 5:
            return value, count, passes, True
        direction(rows, inverse, diagonal, moves, bends, rho, count, g, weight, scaled, p)
        slope, step = inner(rows, g, p), 1.0
        if not slope < 0.0:
            return value, count, passes, True
        while True:
            for j in range(size):
                there[j] = w[j] + step * p[j]
            reached = loss_and_gradient(loss, rows, y, s, l2, there, z, r, rounded, part, slopes)
            passes += 1
            if reached <= value + DESCENT * step * slope + rounding * abs(value):
                break
            step *= min(max(-0.5 * step * slope / (reached - value - step * slope), SHORTEN), 0.5)
            if step < 1e-6:
                return value, count, passes, True
        k = count % moves.shape[0]
        bend = 0.0
        for j in range(size):
            moves[k, j] = there[j] - w[j]
            bends[k, j] = slopes[j] - g[j]
            bend += moves[k, j] * bends[k, j]
            w[j] = there[j]
            g[j] = slopes[j]
        value = reached
        if bend > 0.0:
            rho[k] = 1.0 / bend
            count += 1
    return value, count, passes, False


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, w: np.ndarray, b: float):
        size = len(w) + int(problem.fit_intercept)
        self.weights, self.g = np.append(w, b)[:size], np.empty(size)
        self.value, self.count, self.idle = math.inf, 0, 0
        self.moves, self.bends, self.rho = np.zeros((MEMORY, size)), np.zeros((MEMORY, size)), np.zeros(MEMORY)
        self.single = self.in_range = fits_single(problem.matrix.row_square_norms, LARGE)
        self.rows = problem.matrix.single_rows if self.single else problem.matrix.rows
        self.alpha = problem.penalty.strong_convexity
        self.inverse, self.diagonal = np.empty((0, 0)), np.ones(size)  # the preconditioner
        self.learnt, self.grown = 0, 0  # how often it was made, and how often of more rows than before
        self.full = False  # whether all steps of the last epoch were
        self.ahead = math.inf  # passes to the goal, if the gradient goes on to shrink as it did
        self.left = math.inf  # ||g||^2 / (2 l2), in units of the scale: the gap to expect
        self.share = GOAL
        self.expected_gap = math.inf


@dataclass(frozen=True)
class LBFGS(Solver):
    """L-BFGS with a preconditioner from a sample of the rows, for smooth losses with l2, with or without intercept."""

    name = "lbfgs"
    paper = "Liu & Nocedal 1989, On the limited memory BFGS method, preconditioned by the curvature of a sample"
    needs = Needs(
        loss=("value", "slope", "curvature", "conjugate"),
        penalty=("coordinate_conjugate",),
        smooth=True,
        strongly_convex=True,
        rotates=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w, b = (np.zeros(problem.d), problem.constant) if start is None else (start.w, start.b)
        state = _State(problem, w, b)
        self._evaluate(problem, state)
        return state

    def follow(self, problem: Any, state: _State) -> _State:
        """The state for another strength: the preconditioner serves on, and of the pairs only the share of l2 changes."""
        alpha, d = problem.penalty.strong_convexity, problem.d
        state.bends[:, :d] += (alpha - state.alpha) * state.moves[:, :d]
        inner = np.einsum("kj,kj->k", state.moves, state.bends)
        if inner[: state.count].min(initial=1.0) > 0.0:
            np.divide(1.0, inner, out=state.rho, where=inner > 0.0)
        else:  # rounding
            state.count = 0
        state.alpha, state.share, state.left, state.expected_gap = alpha, GOAL, math.inf, math.inf
        state.idle, state.ahead, state.accesses, state.stalled, state.relative_gap = 0, 0.0, 0.0, False, math.inf
        self._evaluate(problem, state)
        return state

    def point(self, problem: Any, state: _State) -> Point:
        d = problem.d
        return Point(state.weights[:d].copy(), float(state.weights[d]) if problem.fit_intercept else 0.0, None)

    def step(self, problem: Any, state: _State) -> None:
        alpha, before = problem.penalty.strong_convexity, state.value
        if state.left <= state.tol:  # and yet the gap is larger
            state.share *= 0.1
            if state.single:
                self._to_double(problem, state)
        else:
            self._precondition(problem, state)
        square, count = float(state.g @ state.g), state.count
        goal = 2.0 * alpha * state.share * state.tol * problem.scale
        facts = (problem.loss, state.rows, problem.y, problem.s, alpha, state.inverse, state.diagonal, state.weights, state.g)
        pairs = (state.value, state.moves, state.bends, state.rho, count)
        how = (goal, LATER if count else FIRST, ROUNDING[state.single], self._room(state))
        state.value, state.count, passes, ended = descend(*facts, *pairs, *how)
        state.accesses += passes * problem.matrix.nnz
        state.full = state.count - count == passes
        left = float(state.g @ state.g)
        state.expected_gap = state.left = left / (2.0 * alpha * (problem.scale or 1.0))
        state.ahead = passes * math.log(left / goal) / math.log(square / left) if 0.0 < goal < left < square else math.inf
        if ended and state.single:
            self._to_double(problem, state)
        elif ended:
            state.idle = 0 if state.value < before else state.idle + 1
            state.stalled = state.idle >= 3

    def _room(self, state: _State) -> np.ndarray:
        return np.empty(state.rows.length, dtype=np.float32 if state.single else np.float64)

    def _evaluate(self, problem: Any, state: _State) -> None:
        """Value and gradient at the weights."""
        room = (np.empty(ROWS), np.empty(ROWS), self._room(state), self._room(state))
        facts = (problem.loss, state.rows, problem.y, problem.s, problem.penalty.strong_convexity)
        state.value = loss_and_gradient(*facts, state.weights, *room, state.g)
        state.accesses += problem.matrix.nnz

    def _to_double(self, problem: Any, state: _State) -> None:
        state.single, state.rows = False, problem.matrix.rows
        self._evaluate(problem, state)

    # -- the preconditioner

    def _precondition(self, problem: Any, state: _State) -> None:
        """Make the preconditioner at first, and anew where what is ahead is worth it.

        Of more rows each time, unless steps had to be shortened: then curvature changed, and more rows would not tell.
        """
        more = state.learnt > 1 and (state.full or not _is_smooth(problem.loss))
        count, price = self._sample(problem, state.learnt > 0, state.grown + int(more))
        if not state.learnt or state.ahead > price + WORTH:
            state.grown += int(more)
            state.learnt += 1
            self._learn_curvature(problem, state, count)

    def _sample(self, problem: Any, again: bool, grown: int) -> tuple[int, float]:
        """Rows of which a preconditioner is made, 0 for its diagonal, and what it costs in passes; at zero it is a guess."""
        n, d, matrix = problem.n, problem.d + int(problem.fit_intercept), problem.matrix
        count = min(n, max(AGAIN * d, n // 8) * GROWTH**grown) if again else AT_ZERO * d
        price = (count + d) * d * d / (operations(matrix) * max(matrix.nnz, 1))
        if price > DEAR or (not again and (price > CHEAP[matrix.is_sparse] or 2 * count > n)):
            count, price = 0, 0.0
        return count, price + 2.0

    def _learn_curvature(self, problem: Any, state: _State, count: int) -> None:
        """The preconditioner at the present weights: of so many rows, or its diagonal if that is 0.

        Half of the rows are drawn by h_i ||x_i||^2 and half by h_i, so that a few long rows do not stand for all others
        (10,000 x 100, heavy tails, squared hinge: 18 -> 13 ms).
        """
        matrix, alpha, h = problem.matrix, problem.penalty.strong_convexity, np.empty(problem.n)
        curvatures(problem.loss, state.rows, problem.y, problem.s, state.weights, self._room(state), h)
        # Where curvature jumps all rows may lie where there is none, as those of the smooth hinge do at zero.
        np.maximum(h, (1e-9 if _is_smooth(problem.loss) else FLAT) * problem.loss.smoothness * problem.s, out=h)
        kind = np.float32 if state.single else np.float64
        diagonal = np.empty(len(state.weights), dtype=kind)
        model_diagonal(state.rows, np.arange(problem.n), h.astype(kind), kind(alpha), diagonal)
        state.diagonal, state.inverse = np.maximum(diagonal.astype(np.float64), TINY), np.empty((0, 0))
        state.accesses += 2.0 * matrix.nnz
        if count > 0 and state.in_range:
            norms = matrix.row_square_norms + int(problem.fit_intercept)
            norms = norms + (h @ norms) / h.sum()
            used = np.flatnonzero(h * norms > 0.0)
            facts = ((h * norms)[used], norms[used], state.diagonal, alpha, count, BLEND)
            state.inverse = inverse_of_sample(state.rows, used, *facts).astype(np.float64)
            state.accesses += count * problem.d / operations(matrix) * problem.d


def _is_smooth(loss: Any) -> bool:
    return getattr(loss, "curvature_is_smooth", False)
