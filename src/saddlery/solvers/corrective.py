"""Fully corrective Frank-Wolfe with Newton steps, several atoms a round: the default for l1 balls and simplices.

A round asks the oracle for the best atoms (not one but several: the columns with the largest slopes), adds their columns to the
support, and minimises a Newton model of the loss over all points that the atoms span. With u the weights on the working set W

    min_u  q.(u - w_W) + 1/2 (u - w_W)' H (u - w_W) + strength ||u||_1        u in the polytope,  H = X_W' diag(s l''(z)) X_W

is a quadratic programme with one constraint beside the signs. It is solved on faces: the minimum on a face is a linear system; a
weight that would change its sign leaves, the column with the worst slope enters, and in finitely many steps none is left.

Frank-Wolfe steps go from corner to corner and zig-zag towards a face; this goes along faces. For logistic loss and radius 5 a
relative gap of 1e-6 takes 7 to 9 passes over a9a, w8a and mushrooms, pairwise steps take 39 to 224 (benchmarks/constraints.py).

=========  ==================================================================  ============================
here       meaning                                                             letters of the paper
=========  ==================================================================  ============================
w          iterate                                                             beta
a, Xta     slopes l'(z), the dual point; X'(s a), the gradient                 w, d
level      multiplier of the constraint                                        -
face       columns with a weight (and the intercept)                           -
=========  ==================================================================  ============================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.problems.row_sums import best_intercept
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.gram_model import solve_factorised
from saddlery.solvers.newton_search import expand_at
from saddlery.solvers.row_sample import sample_rows
from saddlery.solvers.working_block import WorkingBlock

__all__ = ["Corrective", "minimise_on_faces"]

ROUGH = 0.02  # relative gap at which the solution on a sample of the rows is good enough to start from
WORTH_SAMPLING = 2000  # rows
SINGULAR = 1e-12  # the smallest pivot of a face, as a share of the diagonal


# --------------------------------------------------------------------------- the quadratic programme


@kernel(fast_sums=True)
def enter_face(penalty, gram, factor, face, size, j):
    """Add column j to the face: one more row of the Cholesky factor L of its Gram matrix.

    A column that depends on those already there gets a small pivot instead of none: steps along it are short then, and repeated.
    """
    for k in range(size):
        total = gram[j, face[k]]
        for i in range(k):
            total -= factor[size, i] * factor[k, i]
        factor[size, k] = total / factor[k, k]
    rest = gram[j, j]
    for k in range(size):
        rest -= factor[size, k] * factor[size, k]
    scale = gram[j, j] if gram[j, j] > 0.0 else 1.0
    factor[size, size] = math.sqrt(max(rest, SINGULAR * scale))
    face[size] = j


@kernel
def leave_face(penalty, factor, face, size, at):
    """Take the column in place `at` off the face: its row of L goes, and rotations make the rest triangular again."""
    for k in range(at, size - 1):
        face[k] = face[k + 1]
        for i in range(k + 2):
            factor[k, i] = factor[k + 1, i]
    for k in range(at, size - 1):
        length = math.hypot(factor[k, k], factor[k, k + 1])
        cosine, sine = factor[k, k] / length, factor[k, k + 1] / length
        for i in range(k, size - 1):
            left, right = factor[i, k], factor[i, k + 1]
            factor[i, k] = cosine * left + sine * right
            factor[i, k + 1] = cosine * right - sine * left


@kernel(fast_sums=True)
def face_move(penalty, u, q, sign, factor, face, size, room, tight, strength, along, across):
    """The move to the minimum on the face, and the multiplier of the constraint if that is tight.

    Solves H x = -(q + strength sign) and H x' = sign on the face; the move is x - level x' with sign.move = room.
    """
    for k in range(size):
        j = face[k]
        along[k] = -(q[j] + strength * sign[j])
        across[k] = sign[j]
    solve_factorised(penalty, factor, size, along)
    level = 0.0
    if tight:
        solve_factorised(penalty, factor, size, across)
        push, give = 0.0, 0.0
        for k in range(size):
            push += sign[face[k]] * along[k]
            give += sign[face[k]] * across[k]
        level = (push - room) / give if give > 0.0 else 0.0
        for k in range(size):
            along[k] -= level * across[k]
    return level


@kernel
def worst_column(penalty, q, sign, free, strength, level, signed):
    """The column off the face whose slope exceeds the level most, and by how much."""
    worst, at = 0.0, -1
    for j in range(q.shape[0] - free):
        if sign[j] == 0.0:
            excess = (abs(q[j]) if signed else -q[j]) - strength - level
            if excess > worst:
                worst, at = excess, j
    return at, worst


@kernel(fast_sums=True)
def move_on_face(penalty, gram, u, q, face, size, step, stop, along):
    """u += step along on the face, where the weight in place `stop` becomes zero; q follows."""
    for k in range(size):
        j = face[k]
        move = -u[j] if k == stop else step * along[k]
        u[j] = 0.0 if k == stop else u[j] + move
        if move != 0.0:
            for i in range(u.shape[0]):
                q[i] += move * gram[j, i]


@kernel
def minimise_on_faces(penalty, gram, u, q, free, radius, strength, signed, tol, most, sign, face, factor, along, across):
    """Minimise q.u + u'Gu/2 + strength ||u||_1 over the polytope, from a feasible u; q is the gradient at u and is kept current.

    `signed`: ||u||_1 <= radius; else u >= 0, sum u = radius. The last `free` coordinates are not constrained. Ends when no column
    off the face has a slope that exceeds the level by more than `tol`, or after `most` steps; returns the level.
    """
    m, size = u.shape[0] - free, 0
    for j in range(u.shape[0] - 1, -1, -1):  # what is free comes first, and stays
        sign[j] = 0.0
        if j >= m or u[j] != 0.0:
            sign[j] = np.sign(u[j]) if j < m else 0.0
            enter_face(penalty, gram, factor, face, size, j)
            size += 1
    total = np.abs(u[:m]).sum()
    tight = not signed or total >= radius * (1.0 - 1e-12)
    level, entered = 0.0, -1
    for _ in range(most):
        level = face_move(penalty, u, q, sign, factor, face, size, radius - total, tight, strength, along, across)
        if signed and level < 0.0:  # the constraint holds nothing back
            tight = False
            level = face_move(penalty, u, q, sign, factor, face, size, 0.0, tight, strength, along, across)
        # How far: to the minimum, to the first weight that vanishes, or to the border of the ball.
        step, stop, growth = 1.0, -1, 0.0
        for k in range(size):
            j = face[k]
            growth += sign[j] * along[k]
            if j < m and sign[j] * (u[j] + step * along[k]) < 0.0:
                step, stop = -u[j] / along[k], k
        meets = not tight and total + step * growth > radius
        if meets:
            step, stop = max(0.0, radius - total) / growth, -1
        move_on_face(penalty, gram, u, q, face, size, step, stop, along)
        total = np.abs(u[:m]).sum()
        if meets:
            tight = True
        elif stop >= 0:
            left = face[stop]
            sign[left] = 0.0
            leave_face(penalty, factor, face, size, stop)
            size -= 1
            if left == entered and step == 0.0:  # rounding: it had no reason to enter
                break
        else:
            entered, excess = worst_column(penalty, q, sign, free, strength, level, signed)
            if entered < 0 or excess <= tol:
                break
            sign[entered] = -np.sign(q[entered]) if signed else 1.0
            enter_face(penalty, gram, factor, face, size, entered)
            size += 1
    return level


# --------------------------------------------------------------------------- the solver


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, b: float):
        n = problem.n
        self.w, self.b = w, b
        self.Xw, self.a, self.r, self.h = np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
        self.spare = [np.empty(n) for _ in range(4)]
        self.value, self.Xta = 0.0, np.zeros(problem.d)
        self.level = 0.0
        self.floor = 1e-9 if getattr(problem.loss, "curvature_is_smooth", False) else 1e-3
        self.block: WorkingBlock | None = None
        self.idle = 0
        self.oracle_calls = self.sample_gradients = 0

    @property
    def counts(self) -> dict[str, float]:
        return {"sample_gradients": self.sample_gradients, "oracle_calls": self.oracle_calls}


@dataclass(frozen=True)
class Corrective(Solver):
    """Fully corrective Frank-Wolfe with Newton steps: smooth losses on l1 balls and simplices, with or without intercept.

    Parameters
    ----------
    atoms : int
        Columns that may enter in one round, at least; as many as there are weights, if that is more.
    newton_steps : int
        Most Newton steps on one working set, where that is small beside the data.
    sample_start : bool
        Start tall problems from a rough solution on a part of the rows.
    """

    atoms: int = 10
    newton_steps: int = 3
    sample_start: bool = True

    name = "corrective"
    paper = "fully corrective Frank-Wolfe (Jaggi 2013) with Newton steps; see docs/constraints.md"
    needs = Needs(loss=("value", "slope", "curvature", "conjugate"), penalty=("atom", "corners"), smooth=True)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        work = (0.0, 0, 0)
        if start is None:
            b, w = problem.constant, np.zeros(problem.d)
            if problem.penalty.corners == "positive":  # at a corner: the point nearest to 0 has a weight on every column
                w = problem.penalty.linear_oracle(problem.constant_gradient)
                work = (problem.size, problem.n, 1)
            if self.sample_start and problem.n >= WORTH_SAMPLING:
                w, b, work = self._sampled(problem, rng, w, b, work)
        else:
            w, b = start.w, start.b
            if not np.isfinite(problem.penalty.value(w)):
                w = problem.penalty.prox(w, 1.0)
        state = _State(problem, w, b)
        state.accesses, state.sample_gradients, state.oracle_calls = work
        if w.any():
            self._multiply(problem, state)
        self._expand(problem, state)
        self._judge(problem, state)
        return state

    def _sampled(
        self, problem: Any, rng: np.random.Generator, w: np.ndarray, b: float, work: tuple[float, int, int]
    ) -> tuple[np.ndarray, float, tuple[float, int, int]]:
        """A rough solution on a part of the rows, and what it cost."""
        rows = max(problem.n // 16, min(problem.n // 4, 20 * problem.d))
        small = sample_rows(problem, rng, rows)
        if small is None:
            return w, b, work
        state = self.init(small, None, rng)
        for _ in range(20):
            primal, dual = small.evaluate(self.point(small, state))
            state.relative_gap = (primal - dual.value) / small.scale
            if state.relative_gap <= ROUGH or state.stalled:
                break
            self.step(small, state)
        return state.w, state.b, (state.accesses, state.sample_gradients, state.oracle_calls)

    def step(self, problem: Any, state: _State) -> None:
        block = self._choose_block(problem, state)
        before = state.value + problem.penalty.value(state.w)
        steps = self.newton_steps if 6 * block.entries < problem.size else 1
        for k in range(steps):
            gradient = state.Xta[block.W] if k == 0 else block.transposed(state.r)
            violation = self._violation(problem, state, block.W, gradient)
            if k == 0:
                first = violation
            elif violation <= 0.1 * first:
                break
            if not self._newton_step(problem, state, block, gradient, violation):
                break
        if problem.fit_intercept:
            self._balance(problem, state)
        self._judge(problem, state)
        after = state.value + problem.penalty.value(state.w)
        state.idle = 0 if after < before - 1e-15 * abs(before) else state.idle + 1
        state.stalled = state.idle >= 5

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.a, state.Xw, state.Xta, state.value, fresh=True)

    def resync(self, problem: Any, state: _State) -> None:
        self._multiply(problem, state)
        self._expand(problem, state)
        self._judge(problem, state)

    # -- the oracle

    def _judge(self, problem: Any, state: _State) -> None:
        """The gradient of the loss at w for all columns."""
        state.Xta = problem.matrix.rmatvec(state.r)
        state.accesses += problem.size
        state.oracle_calls += 1

    def _choose_block(self, problem: Any, state: _State) -> WorkingBlock:
        """The columns with a weight and the best atoms besides, and a compact copy of them (the old one if it still serves)."""
        support = np.flatnonzero(state.w)
        score = np.abs(state.Xta) if problem.penalty.corners == "signed" else -state.Xta
        score[support] = np.inf
        count = min(problem.d, len(support) + max(self.atoms, len(support)))
        W = np.argpartition(-score, count - 1)[:count] if count < problem.d else np.arange(problem.d)
        W = np.sort(W)
        old = state.block
        if old is not None and old.m <= 2 * len(W) and np.isin(W[score[W] > state.level], old.W).all():
            return old
        state.block = WorkingBlock(problem, W, gram_form=True, exact=True)
        state.accesses += state.block.entries
        return state.block

    def _violation(self, problem: Any, state: _State, W: np.ndarray, gradient: np.ndarray) -> float:
        """The Frank-Wolfe gap on the working set, in units of slopes."""
        score = np.abs(gradient) if problem.penalty.corners == "signed" else -gradient
        best = (
            max(float(score.max(initial=0.0)) - problem.penalty.threshold, 0.0)
            if problem.penalty.corners == "signed"
            else score.max()
        )
        held = float(gradient @ state.w[W]) + problem.penalty.threshold * float(np.abs(state.w[W]).sum())
        return float(best + held / problem.penalty.radius) + abs(float(state.r.sum())) * problem.fit_intercept

    # -- one Newton step

    def _newton_step(self, problem: Any, state: _State, block: WorkingBlock, gradient: np.ndarray, violation: float) -> bool:
        """Minimise the model over the atoms of the block and search along the way there; False if nothing was gained."""
        free, m, penalty = int(problem.fit_intercept), block.m, problem.penalty
        h = np.maximum(state.h, state.floor * problem.loss.smoothness * problem.s)
        block.update_gram(h, strictly=True)
        state.accesses += block.entries
        origin = np.append(state.w[block.W], state.b) if free else state.w[block.W]
        u, q = origin.copy(), np.append(gradient, state.r.sum()) if free else gradient.copy()
        size = len(u)
        work = (np.empty(size), np.empty(size, dtype=np.int64), np.empty((size, size)), np.empty(size), np.empty(size))
        signed, tol = penalty.corners == "signed", 1e-6 * violation
        rule = (float(penalty.radius), float(penalty.threshold), signed, tol, 20 + 10 * size)
        state.level = minimise_on_faces(penalty, block.gram, u, q, free, *rule, *work)
        total = float(np.abs(u[:m]).sum())
        if total > penalty.radius or not signed:  # rounding
            u[:m] *= penalty.radius / total
        move = u - origin
        along = block.product(move[:m])
        state.accesses += block.entries
        return self._line_search(problem, state, block, origin, move, along, float(move[-1]) if free else 0.0)

    def _line_search(
        self, problem: Any, state: _State, block: WorkingBlock, origin: Any, move: Any, along: Any, shift: float
    ) -> bool:
        """The largest of the sizes 1, 1/2, 1/4, ... with sufficient descent; moves the state there."""
        m, strength = block.m, problem.penalty.threshold
        size_before = strength * float(np.abs(origin[:m]).sum())
        fall = (
            float(state.r @ along)
            + shift * float(state.r.sum())
            + strength * float(np.abs(origin[:m] + move[:m]).sum())
            - size_before
        )
        base = state.value + size_before
        size = 1.0
        while size >= 1e-7:
            b = state.b + size * shift
            value = expand_at(problem.loss, problem.y, problem.s, state.Xw, along, size, b, *state.spare)
            state.sample_gradients += problem.n
            total = value + strength * float(np.abs(origin[:m] + size * move[:m]).sum())
            if total <= base + 1e-4 * size * min(fall, 0.0) + 1e-15 * abs(base):
                break
            size *= 0.5
        else:
            state.floor = min(1.0, 100.0 * state.floor)
            return False
        if size < 0.25:
            state.floor = min(1.0, 10.0 * state.floor)
        elif size == 1.0:
            state.floor = max(1e-9, 0.1 * state.floor)
        state.w[block.W] = origin[:m] + size * move[:m]
        fresh = state.spare
        state.spare = [state.Xw, np.empty(problem.n), state.r, state.h]  # the slopes may be kept by others as a dual point
        state.Xw, state.a, state.r, state.h = fresh
        state.b, state.value = b, value
        return True

    def _balance(self, problem: Any, state: _State) -> None:
        """Move b to its optimum for these weights, so that the slopes balance and need no repair."""
        if abs(float(state.r.sum())) <= 4e-16 * float(np.abs(state.r).sum()):
            return
        b = best_intercept(problem.loss, problem.y, problem.s, state.Xw, state.b)
        if b != state.b:
            state.b, state.a = b, np.empty(problem.n)
            self._expand(problem, state)

    # -- the loss at the present point

    def _multiply(self, problem: Any, state: _State) -> None:
        state.Xw = problem.margins(state.w)
        state.accesses += problem.size

    def _expand(self, problem: Any, state: _State) -> None:
        """Value, slopes and curvatures."""
        new = (state.spare[0], state.a, state.r, state.h)
        state.value = expand_at(problem.loss, problem.y, problem.s, state.Xw, state.Xw, 0.0, state.b, *new)
        state.sample_gradients += problem.n
