"""Proximal Newton on working sets, for smooth losses and separable penalties (pure l1 included).

A round takes a working set W of columns, and a few Newton steps on it; each step minimises

    r'(X_W u + c) + 1/2 sum_i h_i (x_iW.u + c)^2 + sum_{j in W} g_j(w_j + u_j)        r_i = s_i l'(z_i),  h_i ~ s_i l''(z_i)

over the move u of w and c of the intercept, by coordinate descent in one of two forms:

* *Gram*: on the small matrix X_W' diag(h) X_W, when forming it is cheaper than sweeping over the data;
* *residual*: on the columns themselves, keeping t = r + h (X_W u + c).

The certificate needs X'r for all columns; the choice of the next W needs it too, so it costs nothing more. Near the end the dual
point of the Newton model, a + l''(z) (X_W u + c), is nearer to feasibility than the slopes and is tried first.

=========  ==================================================================
here       meaning
=========  ==================================================================
Xw, b      margins z = Xw + b
a, r, h    slopes l'(z), weighted slopes s a, weighted curvatures s l''(z)
u          weights on W (and the intercept as last coordinate), being moved
q          gradient of the quadratic model at u
=========  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from saddlery.matrix import dense_stack, sparse_stack
from saddlery.matrix.vectors import combine, dots
from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.problems.linear import best_intercept
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["ProxNewton"]

MAX_GRAM = 2000  # columns: sweeping over a larger Gram matrix costs more than sweeping over sparse data
MAX_FACE = 2000  # size of the dense systems that are solved outright
EARLY = 0.05  # relative gap above which steps are rough: the working set will change anyway
MODEL_DUAL = 0.03  # relative gap below which the dual point of the model is tried


# --------------------------------------------------------------------------- kernels


@kernel(fast_sums=True)
def local_model(loss, y, s, Xw, b, a, r, h):
    """a = l'(z), r = s a, h = s l''(z) at z = Xw + b; returns sum_i s_i l(z_i)."""
    total = 0.0
    for i in range(y.shape[0]):
        z = Xw[i] + b
        a[i] = loss.slope(y[i], z)
        r[i] = s[i] * a[i]
        h[i] = s[i] * loss.curvature(y[i], z)
        total += s[i] * loss.value(y[i], z)
    return total


@kernel
def distances(penalty, w, gradient, out):
    """out_j = distance of -gradient_j from the subdifferential of g_j at w_j: how far w_j is from optimal."""
    for j in range(w.shape[0]):
        out[j] = penalty.coordinate_distance(w[j], -gradient[j])


@kernel(fast_sums=True)
def add_gram(rows, weights, gram):
    """gram += sum_i weights_i x_i x_i', lower triangle, for rows with a weight that is not zero."""
    for i in range(weights.shape[0]):
        if weights[i] != 0.0:
            for p in range(rows.first(i), rows.last(i)):
                scaled = weights[i] * rows.entry(p)
                k = rows.position(i, p)
                for q in range(rows.first(i), p + 1):
                    gram[k, rows.position(i, q)] += scaled * rows.entry(q)


@kernel(fast_sums=True)
def gram_descent(penalty, gram, u, q, free, tol, max_epochs):
    """Cyclic coordinate descent on q.u + u'Gu/2 + g(u): u_j = prox(u_j - q_j / G_jj, 1 / G_jj), q kept current.

    The last `free` coordinates are not penalised. Returns the largest |move| G_jj of the last epoch.
    """
    m = u.shape[0]
    largest = 0.0
    for _ in range(max_epochs):
        largest = 0.0
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
    return largest


@kernel(fast_sums=True)
def column_curvatures(cols, h, out):
    """out_j = sum_i h_i x_ij^2."""
    for j in range(out.shape[0]):
        total = 0.0
        for p in range(cols.first(j), cols.last(j)):
            total += h[cols.position(j, p)] * float(cols.entry(p)) ** 2
        out[j] = total


@kernel(fast_sums=True)
def residual_sweep(penalty, cols, h, curvatures, u, t, only_nonzero):
    """One sweep over the columns: u_j = prox(u_j - x^j.t / c_j, 1 / c_j), then t += move h x^j. Returns the largest |move| c_j."""
    largest = 0.0
    for j in range(curvatures.shape[0]):
        if curvatures[j] <= 0.0 or (only_nonzero and u[j] == 0.0):
            continue
        gradient = cols.dot(j, t)
        trial = penalty.coordinate_prox(u[j] - gradient / curvatures[j], 1.0 / curvatures[j])
        move = trial - u[j]
        if move != 0.0:
            u[j] = trial
            for p in range(cols.first(j), cols.last(j)):
                i = cols.position(j, p)
                t[i] += move * h[i] * cols.entry(p)
            largest = max(largest, abs(move) * curvatures[j])
    return largest


# --------------------------------------------------------------------------- the working block


class _Block:
    """A compact copy of the columns W, by rows (Gram form of sparse data) or by columns, and the Gram matrix on it."""

    def __init__(self, problem: Any, W: np.ndarray, gram: bool):
        matrix = problem.matrix
        self.W, self.gram_form, self.sparse = W, gram, matrix.is_sparse
        self.entries = int(matrix.col_counts[W].sum())
        self.by_rows = gram and matrix.is_sparse
        self.array = np.zeros((0, 0))
        if not matrix.is_sparse:
            self.array = matrix.values.T if len(W) == problem.d else matrix.values.T[W]
            if gram:
                self.array = self.array.astype(np.float64, copy=False)
            self.stack: Any = None if gram else dense_stack(self.array)
        elif len(W) == problem.d:
            self.stack = matrix.rows if self.by_rows else matrix.cols
        else:
            from_rows = self.by_rows and self.entries > matrix.nnz / 8
            part = matrix.csr[:, W] if from_rows else matrix.csc[:, W]
            self.stack = sparse_stack(part.tocsr() if self.by_rows else part.tocsc())
        self.n, self.intercept = problem.n, problem.fit_intercept
        self.gram = np.zeros((0, 0))
        self.weights = np.zeros(problem.n)

    def product(self, u: np.ndarray) -> np.ndarray:
        """X_W u."""
        if self.stack is None:
            return u @ self.array
        out = np.zeros(self.n)
        (dots if self.by_rows else combine)(self.stack, u, out)
        return out

    def transposed(self, r: np.ndarray) -> np.ndarray:
        """X_W' r."""
        if self.stack is None:
            return self.array @ r
        out = np.zeros(len(self.W))
        (combine if self.by_rows else dots)(self.stack, r, out)
        return out

    def update_gram(self, h: np.ndarray, loosely: bool) -> None:
        """Bring the Gram matrix to the weights h; `loosely` leaves rows alone whose weight moved by less than a tenth."""
        m = len(self.W)
        first = self.gram.shape[0] == 0
        if first:
            self.gram = np.zeros((m + self.intercept, m + self.intercept))
        change = h - self.weights
        if loosely and not first:
            change[np.abs(change) <= 0.1 * self.weights] = 0.0
        if not change.any():
            return
        self.weights = self.weights + change
        if self.sparse:
            lower = np.tril(self.gram[:m, :m])
            add_gram(self.stack, change, lower)
            self.gram[:m, :m] = lower + np.tril(lower, -1).T
        else:
            self.gram[:m, :m] = (self.array * self.weights) @ self.array.T
        if self.intercept:
            self.gram[m, :m] = self.gram[:m, m] = self.transposed(self.weights)
            self.gram[m, m] = self.weights.sum()


def _gram_is_cheaper(problem: Any, entries: int, m: int, swept: float) -> bool:
    """Whether forming the Gram matrix costs less than sweeping over the columns will, or than it has cost already.

    Costs are in units of one multiply-add on data in cache. How many sweeps a problem needs is not known before, so a
    typical number is assumed; when more were paid for in vain, the Gram matrix is formed after all: at most twice the best choice.
    """
    if m > MAX_GRAM:
        return False
    if problem.matrix.is_sparse:
        form = 0.78 * entries * (entries / problem.n) * (3.0 if m > 400 else 1.0)
    else:
        form = problem.n * m * m / 16.0
    typical = 60.0 if problem.d > problem.n / 4 else 200.0  # tall data correlate more, and sweeps go over more rows
    return form + 5.0 * m * m + m**3 / 50.0 <= max(typical * entries, swept)


# --------------------------------------------------------------------------- the solver


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, w: np.ndarray, b: float):
        self.w, self.b = w, b
        self.Xw = problem.margins(w) if w.any() else np.zeros(problem.n)
        self.a, self.r, self.h = np.empty(problem.n), np.empty(problem.n), np.empty(problem.n)
        self.trial = [np.empty(problem.n) for _ in range(3)]
        self.value = 0.0
        self.gradient: Any = None
        self.model_dual: np.ndarray | None = None
        self.model_Xta: np.ndarray | None = None
        self.block: _Block | None = None
        self.rounds, self.idle, self.swept = 0, 0, 0.0
        self.floor = 1e-9


@dataclass(frozen=True)
class ProxNewton(Solver):
    """Working-set proximal Newton for smooth losses with l1, l2 or elastic net, with or without intercept.

    Parameters
    ----------
    newton_steps : int
        Most Newton steps on one working set.
    sample_start : bool
        Start tall sparse problems (n >= 10,000 and n >= 128 d) from a rough solution on one row in sixteen.
    """

    newton_steps: int = 3
    sample_start: bool = True

    name = "prox_newton"
    paper = "newGLMNET, celer and skglm's line of work; see docs/solvers.md"
    needs = Needs(
        loss=("value", "slope", "curvature", "conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        smooth=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w, b = (np.zeros(problem.d), problem.constant) if start is None else (start.w, start.b)
        if start is None and self.sample_start and problem.n >= max(10_000, 128 * problem.d):
            w, b = self._sampled(problem, rng)
        state = _State(problem, w, b)
        # Where curvature jumps between 0 and 1 a floor keeps steps finite; smooth curvature only needs to stay positive.
        state.floor = 1e-9 if getattr(problem.loss, "curvature_is_smooth", False) else 1e-3
        self._move_to(problem, state, state.Xw, state.b)
        if start is None and not w.any():
            state.gradient = problem.constant_gradient
        else:
            self._gradient(problem, state)
        return state

    def _sampled(self, problem: Any, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """A rough solution on one row in sixteen (random: strides meet periodic rows)."""
        rows = np.sort(rng.choice(problem.n, problem.n // 16, replace=False))
        rows = rows[problem.s[rows] > 0.0]
        signs = problem.y[rows]
        if problem.loss.targets == "signs" and (len(rows) == 0 or signs.min() == signs.max()):
            return np.zeros(problem.d), problem.constant
        small = problem.take_rows(rows)
        state = self.init(small, None, rng)
        for _ in range(20):
            primal = small.primal(state.w, state.b, state.Xw)
            if primal - small.dual_point(state.a, state.gradient).value <= EARLY * small.scale:
                break
            self.step(small, state)
        if not problem.fit_intercept:
            return state.w, 0.0
        return state.w, best_intercept(problem.loss, problem.y, problem.s, problem.margins(state.w), state.b)

    def point(self, problem: Any, state: _State) -> Point:
        if state.model_dual is not None:
            return Point(state.w, state.b, state.model_dual, state.Xw, state.model_Xta, fresh=True)
        return Point(state.w, state.b, state.a, state.Xw, state.gradient, fresh=True)

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw = problem.margins(state.w)
        self._move_to(problem, state, state.Xw, state.b)
        self._gradient(problem, state)

    def _move_to(self, problem: Any, state: _State, Xw: np.ndarray, b: float) -> None:
        state.Xw, state.b = Xw, b
        state.value = local_model(problem.loss, problem.y, problem.s, Xw, b, state.a, state.r, state.h)
        state.gradient = state.model_dual = state.model_Xta = None

    def _gradient(self, problem: Any, state: _State) -> None:
        state.gradient = problem.matrix.rmatvec(state.r)
        state.model_dual = state.model_Xta = None
        state.accesses += problem.matrix.nnz

    def step(self, problem: Any, state: _State) -> None:
        if state.gradient is None:
            self._gradient(problem, state)
        state.rounds += 1
        before = state.value + problem.penalty.value(state.w)
        block = self._choose_block(problem, state)
        tall = problem.d <= problem.n / 4
        rough = block.entries > problem.matrix.nnz / 2 or (state.relative_gap > EARLY and not tall)
        steps = 1 if rough else min(self.newton_steps, 1 + state.rounds)
        first_violation, model = 0.0, None
        for k in range(steps):
            gradient = state.gradient[block.W] if k == 0 else block.transposed(state.r)
            violation = self._violation(problem, state, block.W, gradient)
            first_violation = violation if k == 0 else first_violation
            if violation == 0.0 or (k > 0 and violation < 0.1 * first_violation):
                break
            model = self._newton_step(problem, state, block, gradient, violation)
            if model is None:
                break
        if problem.fit_intercept:
            self._polish_intercept(problem, state)
        if state.rounds % 30 == 0:
            self.resync(problem, state)
        after = state.value + problem.penalty.value(state.w)
        state.idle = 0 if after < before - 1e-15 * abs(before) else state.idle + 1
        state.stalled = state.idle >= 5
        if model is not None and block.gram_form and state.relative_gap <= MODEL_DUAL:
            slopes, h, along, shift = model
            point = problem.dual_point(
                slopes + np.divide(h, problem.s, out=np.zeros(problem.n), where=problem.s > 0.0) * (along + shift)
            )
            state.model_dual, state.model_Xta = point.a, point.Xta
            state.accesses += problem.matrix.nnz
        elif state.gradient is None:
            self._gradient(problem, state)

    # -- working set

    def _choose_block(self, problem: Any, state: _State) -> _Block:
        """The support and the worst violators, and a compact copy of them (the old one if it still serves)."""
        W = self._working_set(problem, state)
        old = state.block
        if old is not None and len(old.W) < 1.5 * len(W) and np.isin(W, old.W, assume_unique=True).all():
            if old.gram_form or not _gram_is_cheaper(problem, old.entries, len(old.W), state.swept):
                return old
            W = old.W
        entries = int(problem.matrix.col_counts[W].sum())
        state.block = _Block(problem, W, _gram_is_cheaper(problem, entries, len(W), state.swept))
        state.accesses += entries
        return state.block

    def _working_set(self, problem: Any, state: _State) -> np.ndarray:
        threshold = problem.penalty.threshold
        if threshold == 0.0:
            return np.arange(problem.d)
        tall = problem.d <= problem.n / 4
        size = np.abs(state.gradient)
        support = state.w != 0.0
        wanted = support | (size > (0.8 if tall else 1.0) * threshold)
        growth = 2 if tall or state.relative_gap < 0.01 else 4
        cap = max(100, growth * int(support.sum()))
        if int(wanted.sum()) > cap:
            score = np.where(support, np.inf, np.where(wanted, size, -1.0))
            return np.sort(np.argpartition(-score, cap - 1)[:cap])
        return np.flatnonzero(wanted) if wanted.any() else np.array([int(np.argmax(size))])

    def _violation(self, problem: Any, state: _State, W: np.ndarray, gradient: np.ndarray) -> float:
        out = np.empty(len(W))
        distances(problem.penalty, state.w[W], gradient, out)
        worst = float(out.max(initial=0.0))
        return max(worst, abs(float(state.r.sum()))) if problem.fit_intercept else worst

    # -- one Newton step

    def _newton_step(self, problem: Any, state: _State, block: _Block, gradient: np.ndarray, violation: float) -> Any:
        """Solve the model, search along its solution; returns what the model's dual point is made of, or None if refused."""
        free = int(problem.fit_intercept)
        h = np.maximum(state.h, state.floor * problem.loss.smoothness * problem.s)
        origin = np.append(state.w[block.W], state.b) if free else state.w[block.W]
        if block.gram_form:
            u = self._solve_gram(problem, state, block, origin, gradient, h, violation)
            h = block.weights
        else:
            u = self._solve_residual(problem, state, block, origin, h, violation)
        move = u - origin
        shift = float(move[-1]) if free else 0.0
        along = block.product(move[: len(block.W)])
        state.accesses += block.entries
        slopes = state.a
        size = self._line_search(problem, state, block, origin, move, along, shift)
        if size == 0.0:
            state.floor = min(1.0, 100.0 * state.floor)
            return None
        if size < 0.25:
            state.floor = min(1.0, 10.0 * state.floor)
        elif size == 1.0:
            state.floor = max(1e-9, 0.1 * state.floor)
        return slopes, h, along, shift

    def _solve_gram(
        self, problem: Any, state: _State, block: _Block, origin: Any, gradient: Any, h: Any, violation: float
    ) -> np.ndarray:
        """Coordinate descent on the Gram matrix, with exact solves on the support between rounds of it."""
        free = int(problem.fit_intercept)
        block.update_gram(h, loosely=True)
        state.accesses += block.entries
        q = np.append(gradient, state.r.sum()) if free else gradient.copy()
        u, tol = origin.copy(), 1e-3 * violation
        start = q.copy()
        epochs = max(10, 3000 // len(u))  # a small model is cheaper to sweep than to factorise
        for _ in range(min(100, max(5, 20_000_000 // len(u) ** 2))):  # a large model is not worth solving to the last digit
            if gram_descent(problem.penalty, block.gram, u, q, free, tol, epochs) <= tol:
                break
            if self._face_step(problem, block.gram, u, q, free):
                q = start + block.gram @ (u - origin)
        return u

    def _face_step(self, problem: Any, gram: np.ndarray, u: np.ndarray, q: np.ndarray, free: int) -> bool:
        """Minimise the model over the signed support of u, up to the first sign change."""
        m = len(u) - free
        face = np.flatnonzero(np.append(u[:m] != 0.0, np.ones(free, dtype=bool)))
        if len(face) == 0 or len(face) > MAX_FACE:
            return False
        l1, l2 = problem.penalty.threshold, problem.penalty.strong_convexity
        penalised = face < m
        values = u[face]
        slope = q[face] + penalised * (l1 * np.sign(values) + l2 * values)
        system = gram[np.ix_(face, face)] + np.diag(l2 * penalised + 1e-14 * gram[face, face])
        try:
            factor = scipy.linalg.cho_factor(system, check_finite=False)
        except scipy.linalg.LinAlgError:  # a singular face: coordinate descent goes on alone
            return False
        pivots = np.diag(factor[0])
        if pivots.min() < 1e-6 * pivots.max():  # as good as singular: the solution would be rounding noise
            return False
        move = -scipy.linalg.cho_solve(factor, slope, check_finite=False)
        crossing = penalised & (values * (values + move) < 0.0) & (l1 > 0.0)
        if crossing.any():
            ratios = np.where(crossing, -values / np.where(crossing, move, 1.0), np.inf)
            stop = int(np.argmin(ratios))
            u[face] = values + ratios[stop] * move
            u[face[stop]] = 0.0
        else:
            u[face] = values + move
        return True

    def _solve_residual(self, problem: Any, state: _State, block: _Block, origin: Any, h: Any, violation: float) -> np.ndarray:
        """Coordinate descent on the columns of W; after each full sweep a few over the non-zeros only."""
        m, free = len(block.W), int(problem.fit_intercept)
        u, t = origin.copy(), state.r.copy()
        curvatures = np.empty(m)
        column_curvatures(block.stack, h, curvatures)
        total = h.sum()
        sweeps = 0
        while sweeps < 20:
            only_nonzero = sweeps % 6 != 0
            largest = residual_sweep(problem.penalty, block.stack, h, curvatures, u[:m], t, only_nonzero)
            if free and total > 0.0:
                move = -t.sum() / total
                u[m] += move
                t += move * h
                largest = max(largest, abs(move) * total)
            sweeps += 1
            state.accesses += 2 * block.entries
            state.swept += 2.5 * block.entries
            if largest <= 0.3 * violation:
                if not only_nonzero:
                    break
                sweeps += 5 - (sweeps - 1) % 6  # the support is done: look at all columns again
        return u

    def _line_search(self, problem: Any, state: _State, block: _Block, origin: Any, move: Any, along: Any, shift: float) -> float:
        """A size among 1, 1/2, 1/4, ... with sufficient descent; moves the state there. 0 if there is none.

        Sufficient is not enough where the model overshot into flat parts of the loss: while the fall is less than a quarter of
        what the model promised, shorter steps are tried as long as they fall further.
        """
        m = len(block.W)
        penalty = problem.penalty
        old_penalty = penalty.value(origin[:m])
        fall = float(state.r @ along) + shift * float(state.r.sum()) + penalty.value(origin[:m] + move[:m]) - old_penalty
        base = state.value + old_penalty
        size, best = 1.0, None
        while size >= 1e-7:
            Xw, b = state.Xw + size * along, state.b + size * shift
            a, r, h = state.trial if best is None else [np.empty(problem.n) for _ in range(3)]
            value = local_model(problem.loss, problem.y, problem.s, Xw, b, a, r, h)
            total = value + penalty.value(origin[:m] + size * move[:m])
            if best is not None and total >= best[0]:
                break
            if total <= base + 1e-4 * size * min(fall, 0.0) + 1e-15 * abs(base):
                best = (total, size, Xw, b, value, a, r, h)
                if base - total >= -0.25 * size * fall:
                    break
            size *= 0.5
        if best is None:
            return 0.0
        _, size, Xw, b, value, a, r, h = best
        state.w[block.W] = origin[:m] + size * move[:m]
        state.Xw, state.b, state.value = Xw, b, value
        state.trial = [np.empty(problem.n), state.r, state.h]  # the old slopes may still serve the model's dual point
        state.a, state.r, state.h = a, r, h
        state.gradient = state.model_dual = state.model_Xta = None
        return size

    def _polish_intercept(self, problem: Any, state: _State) -> None:
        """Move b to its optimum for these weights, so that the slopes balance and need no repair."""
        total = float(state.r.sum())
        if abs(total) <= 4e-16 * float(np.abs(state.r).sum()):
            return
        b = best_intercept(problem.loss, problem.y, problem.s, state.Xw, state.b)
        if b != state.b:
            self._move_to(problem, state, state.Xw, b)
