"""Proximal Newton on working sets, for smooth losses and separable penalties (pure l1 included).

A round takes a working set W of columns, and a few Newton steps on it; each step minimises

    r'(X_W u + c) + 1/2 sum_i h_i (x_iW.u + c)^2 + sum_{j in W} g_j(w_j + u_j)        r_i = s_i l'(z_i),  h_i ~ s_i l''(z_i)

over the move u of w and c of the intercept, by coordinate descent in one of two forms:

* *Gram*: on the small matrix X_W' diag(h) X_W, when forming it is cheaper than sweeping over the data;
* *residual*: on the columns themselves, keeping t = r + h (X_W u + c).

The certificate needs X'r for all columns; the choice of the next W needs it too, so it costs nothing more: a round reads the data
once, and its block a few times. Near the end the dual point of the Newton model, a + l''(z) (X_W u + c), is nearer to feasibility
than the slopes and takes their place in both.

=========  ==================================================================
here       meaning
=========  ==================================================================
Xw, b      margins z = Xw + b
a, r, h    slopes l'(z), weighted slopes s a, weighted curvatures s l''(z)
value      the loss; `penalty` is g(w)
dual, Xta  the dual point that is judged (slopes, or that of the model), and X'(s dual)
u          weights on W (and the intercept as last coordinate), being moved
q          gradient of the quadratic model at u
=========  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.matrix.vectors import combine_of, dots_of, weighted_square_norms
from saddlery.parts import kernel
from saddlery.penalties.base import sum_values
from saddlery.point import Point
from saddlery.problems.linear import best_intercept
from saddlery.problems.screening import ScreenedProducts
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.gram_model import minimise, worst_violation
from saddlery.solvers.row_sample import sample_rows
from saddlery.solvers.streamed_block import DENSE_BYTES, make_block, trim
from saddlery.solvers.working_block import WorkingBlock, gram_is_cheaper

__all__ = ["ProxNewton"]

SMALL_DATA = 1_000_000  # entries: up to here a pass is as cheap as a round, and early rounds take several steps, too (leu: -8 %)
FIRST = 25  # columns of the smallest working set of tall data, where each has many rows (mushrooms 0.1: 13.2 -> 9.4 ms), else 100
WORTH = 15  # sweeps that conjugate gradients must spare to be worth their products
MOST_PRODUCTS = 25  # of conjugate gradients, each two passes over the block
EARLY = 0.05  # relative gap above which steps are rough: the working set will change anyway
MODEL_DUAL = 0.03  # relative gap below which the dual point of the model is judged
LATE = 0.08  # relative gap below which columns are swept with care: the support is about right
LITTLE = 32  # columns: so many are always taken and solved with care, so that rows that are repeated count as weights do
SMALL = 128  # columns: a copy of so few serves on even if it holds too many
MOST_COLUMNS = 0.6  # share of the columns from which on all are taken: no copies, no change of the set
SAMPLE = 4  # early Gram matrices are made of one row in so many
FAR, WORTH_CHORDS = 0.01, 50  # relative gap and columns from which on a Gram matrix serves for two steps
FEW_ROWS = 10  # for each column: Gram matrices of fewer are cheap
LONGER = 0.1  # share of its first slope that the objective may still have at the end of a step without another try further on
ENOUGH_ROWS = 120  # rows for each column of the block, if they are


# --------------------------------------------------------------------------- kernels


@kernel(fast_sums=True)
def expand_at(loss, y, s, z, along, size, b, new_z, a, r, h):
    """At z + size along + b: a = l', r = s a, h = s l''; returns sum_i s_i l. The margins (without b) go to new_z."""
    total = 0.0
    for i in range(y.shape[0]):
        margin = z[i] + size * along[i]
        new_z[i] = margin
        value, slope, curvature = loss.expand(y[i], margin + b)
        a[i] = slope
        r[i] = s[i] * slope
        h[i] = s[i] * curvature
        total += s[i] * value
    return total


@kernel(fast_sums=True)
def rise(loss, r, along, shift):
    """The slope sum_i r_i (along_i + shift) of the loss."""
    total = 0.0
    for i in range(r.shape[0]):
        total += r[i] * (along[i] + shift)
    return total


@kernel
def search_along(loss, penalty, y, s, z, along, b, shift, r, value, W, origin, move, l2, w, trial, new_z, a, new_r, h):
    """A size among 1, 1/2, 1/4, ... with sufficient descent; w and the margins, slopes and curvatures are moved there.

    Sufficient is not enough where the model overshot into flat parts of the loss: while the fall is less than a quarter of
    what the model promised, shorter steps are tried as long as they fall further. Where slopes saturate, as those of separable
    classes, models promise too little: a full step goes on, by secants (mushrooms, l2: 10 -> 6 rounds, 20 -> 13 ms), if the
    penalty is nothing but l2 / 2 |w|^2; l2 < 0 says that it is another, whose zeros longer steps would undo. Returns the size
    (0 if there is none), and the loss and the penalty there.
    """
    old = sum_values(penalty, origin[: W.shape[0]])
    base, fall = value + old, 0.0
    size, chosen, best, best_loss, best_penalty = 1.0, 0.0, 0.0, value, old
    while size >= 1e-7:
        loss_there = expand_at(loss, y, s, z, along, size, b + size * shift, new_z, a, new_r, h)
        for k in range(W.shape[0]):
            trial[k] = origin[k] + size * move[k]
        penalty_there = sum_values(penalty, trial)
        total = loss_there + penalty_there
        if size == 1.0:
            fall = rise(loss, r, along, shift) + penalty_there - old
        if chosen > 0.0 and total >= best:
            break
        if total <= base + 1e-4 * size * min(fall, 0.0) + 1e-15 * abs(base):
            chosen, best, best_loss, best_penalty = size, total, loss_there, penalty_there
            if l2 >= 0.0 and size >= 1.0:
                first = rise(loss, r, along, shift) + l2 * rise(loss, origin[: W.shape[0]], move[: W.shape[0]], 0.0)
                last = rise(loss, new_r, along, shift) + l2 * rise(loss, trial, move[: W.shape[0]], 0.0)
                if last < LONGER * first:
                    size *= min(4.0, first / (first - last))
                    continue
            if size > 1.0 or base - total >= -0.25 * size * fall:
                break
        size *= 0.5
    if chosen > 0.0:
        if chosen != size:
            expand_at(loss, y, s, z, along, chosen, b + chosen * shift, new_z, a, new_r, h)
        for k in range(W.shape[0]):
            w[W[k]] = origin[k] + chosen * move[k]
    return chosen, best_loss, best_penalty


@kernel
def model_slopes(loss, y, s, a, h, along, shift, out, weighted):
    """out = a + (h / s) (along + shift), the slopes of the quadratic model, moved into the domain of l*; weighted = s out."""
    for i in range(y.shape[0]):
        rise = h[i] / s[i] if s[i] > 0.0 else 0.0
        slope = a[i] + rise * (along[i] + shift)
        low, high = loss.dual_lower(y[i]), loss.dual_upper(y[i])
        slope = slope if slope > low else low
        out[i] = slope if slope < high else high
        weighted[i] = s[i] * out[i]


@kernel
def pick_columns(penalty, w, Xta, level, out):
    """The columns with a weight, or with |Xta_j| above the level; returns their number and that of the weights."""
    count, support = 0, 0
    for j in range(w.shape[0]):
        if w[j] != 0.0 or abs(Xta[j]) > level:
            out[count] = j
            count += 1
            support += w[j] != 0.0
    return count, support


@kernel
def rank_columns(penalty, w, Xta, W, out):
    """out_k = -|Xta_j| for j = W[k], and -infinity for columns with a weight: the smallest are wanted most."""
    for k in range(W.shape[0]):
        out[k] = -math.inf if w[W[k]] != 0.0 else -abs(Xta[W[k]])


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


# --------------------------------------------------------------------------- the solver


def _sample_size(problem: Any) -> int:
    """Rows of a first sample."""
    return max(problem.n // 16, min(problem.n // 4, 30 * problem.d))


def _level(problem: Any) -> float:
    """Columns whose product with the slopes exceeds this belong into the working set; on tall data those too that nearly do."""
    return (0.8 if problem.d <= problem.n / 4 else 1.0) * problem.penalty.threshold


def _joined(values: np.ndarray, last: float) -> np.ndarray:
    """The values and one more (in a fifth of the time of ``np.append``)."""
    out = np.empty(len(values) + 1)
    out[:-1], out[-1] = values, last
    return out


def _sweeps_to_go(first: float, last: float, goal: float, sweeps: int) -> float:
    """How many more it will take to the goal if the largest move goes on falling as from `first` to `last` in so many sweeps."""
    if last >= first:
        return float("inf")
    return math.log(last / goal) / (math.log(first / last) / sweeps)


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, w: np.ndarray, b: float, rng: np.random.Generator):
        n = problem.n
        self.w, self.b, self.rng = w, b, rng
        self.Xw, self.a, self.r, self.h = np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
        self.spare = [np.empty(n) for _ in range(4)]
        self.value, self.penalty = 0.0, problem.penalty.value(w)
        self.dual: Any = None
        self.Xta: Any = None
        self.block: WorkingBlock | None = None
        self.products = ScreenedProducts(problem)
        self.inside = np.zeros(problem.d, dtype=bool)  # whether a column is in the block
        self.rounds, self.idle, self.swept = 0, 0, 0.0
        self.last_gap, self.slow, self.followed, self.chord = float("inf"), False, False, False
        self.floor = 1e-9


@dataclass(frozen=True)
class ProxNewton(Solver):
    """Working-set proximal Newton for smooth losses with l1, l2 or elastic net, with or without intercept.

    Parameters
    ----------
    newton_steps : int
        Most Newton steps on one working set.
    sample_start : bool
        Start tall problems (n >= 10,000 and n >= 128 d) from a rough solution on a sixteenth of the rows, or 30 for each column.
    """

    newton_steps: int = 3
    sample_start: bool = True

    name = "prox_newton"
    paper = "newGLMNET, celer and skglm's line of work; see docs/solvers.md"
    needs = Needs(
        loss=("value", "slope", "curvature", "conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        smooth=True,
        partial=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w, b = (np.zeros(problem.d), problem.constant) if start is None else (start.w, start.b)
        if start is None and self._worth_sampling(problem):
            w, b = self._sampled(problem, rng)
        state = _State(problem, w, b, rng)
        self._reset_floor(problem, state)
        if w.any():
            state.Xw = problem.margins(w)
            state.accesses += problem.matrix.nnz
        self._expand(problem, state)
        if start is None and not w.any():
            state.dual, state.Xta = state.a, state.products.start(state.a, problem.constant_gradient)
        else:
            self._judge_slopes(problem, state)
        return state

    def follow(self, problem: Any, state: _State) -> _State:
        """The state for another penalty: margins, slopes and the copied columns stay."""
        self._reset_floor(problem, state)
        state.accesses, state.rounds, state.idle, state.swept = 0.0, 0, 0, 0.0
        state.stalled, state.relative_gap, state.last_gap = False, float("inf"), float("inf")
        state.penalty = problem.penalty.value(state.w)
        state.followed = True  # the working set is nearly right from the start
        if not state.products.complete:
            self._judge(problem, state, state.dual, problem.s * state.dual)
        return state

    def resume(self, problem: Any, state: _State) -> _State:
        """The state for another loss on the same data: margins and the copied columns stay."""
        self.follow(problem, state)
        self._expand(problem, state)
        self._judge_slopes(problem, state)
        return state

    def _reset_floor(self, problem: Any, state: _State) -> None:
        # Where curvature jumps between 0 and 1 a floor keeps steps finite; smooth curvature only needs to stay positive.
        state.floor = 1e-9 if getattr(problem.loss, "curvature_is_smooth", False) else 1e-3

    def _worth_sampling(self, problem: Any) -> bool:
        """Whether to start from a part of the rows: tall data, of which that part fits into memory."""
        if not self.sample_start or problem.n < max(10_000, 128 * problem.d):
            return False
        share = _sample_size(problem) / problem.n
        return problem.matrix.compiled or problem.matrix.holds(share * problem.matrix.nnz, 3 * DENSE_BYTES)

    def _sampled(self, problem: Any, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """A rough solution on a part of the rows."""
        small = sample_rows(problem, rng, _sample_size(problem))
        if small is None:
            return np.zeros(problem.d), problem.constant
        state = self.init(small, None, rng)
        for _ in range(20):
            primal, dual = small.evaluate(self.point(small, state))
            state.relative_gap = (primal - dual.value) / small.scale
            if state.relative_gap <= EARLY:
                break
            self.step(small, state)
        if not problem.fit_intercept:
            return state.w, 0.0
        return state.w, best_intercept(problem.loss, problem.y, problem.s, problem.margins(state.w), state.b)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.dual, state.Xw, state.Xta, state.value, fresh=True)

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw = problem.margins(state.w)
        self._expand(problem, state)
        self._judge_slopes(problem, state)

    def _expand(self, problem: Any, state: _State) -> None:
        """Slopes and curvatures at the present point."""
        new = (state.spare[0], state.a, state.r, state.h)
        state.value = expand_at(problem.loss, problem.y, problem.s, state.Xw, state.Xw, 0.0, state.b, *new)

    def _judge_slopes(self, problem: Any, state: _State) -> None:
        """Take the slopes as the dual point."""
        self._judge(problem, state, state.a, state.r)

    def _judge_model(self, problem: Any, state: _State, model: tuple[Any, ...]) -> None:
        """Take the dual point of the Newton model."""
        slopes, h, along, shift = model
        dual, weighted = np.empty(problem.n), np.empty(problem.n)
        model_slopes(problem.loss, problem.y, problem.s, slopes, h, along, shift, dual, weighted)
        self._judge(problem, state, dual, weighted)

    def _judge(self, problem: Any, state: _State, dual: np.ndarray, weighted: np.ndarray) -> None:
        before = state.products.accesses
        state.dual, state.Xta = dual, state.products.product(problem, dual, weighted, _level(problem))
        state.accesses += state.products.accesses - before

    def step(self, problem: Any, state: _State) -> None:
        state.rounds += 1
        # Where the last round gained little, the shortcuts end: all rows count, and the true slopes say which columns.
        crawling = state.relative_gap > 0.3 * state.last_gap
        state.slow, state.last_gap = crawling and (state.relative_gap <= EARLY or state.idle > 0), state.relative_gap
        block = self._choose_block(problem, state)
        before = state.value + state.penalty
        tall = problem.d <= problem.n / 4
        early = state.relative_gap > EARLY and not tall and not state.followed and problem.matrix.nnz > SMALL_DATA
        steps = 1 if early or block.entries > problem.matrix.nnz / 6 else self.newton_steps
        chords = self._worth_chords(problem, state, block)
        enough = 1e-3 if state.followed else 0.01 if chords else 0.1
        first_violation, model, taken = 0.0, None, 0
        for k in range(2 * steps if chords else steps):
            state.chord = chords and k % 2 == 1
            gradient = self._known_gradient(problem, state, block) if k == 0 else None
            gradient = block.transposed(state.r) if gradient is None else gradient
            origin = state.w[block.W]
            violation = self._violation(problem, state, origin, gradient)
            first_violation = violation if k == 0 else first_violation
            if violation == 0.0 or (k > 0 and violation <= enough * first_violation):
                break
            model = self._newton_step(problem, state, block, origin, gradient, violation)
            if model is None:
                break
            taken += 1
        if problem.fit_intercept:
            self._polish_intercept(problem, state)
        if state.rounds % 30 == 0:
            self.resync(problem, state)
        elif model is not None and self._trusts_model(state, block, taken):
            self._judge_model(problem, state, model)
        else:
            self._judge_slopes(problem, state)
        after = state.value + state.penalty
        state.idle = 0 if after < before - 1e-15 * abs(before) else state.idle + 1
        state.stalled = state.idle >= 5

    def _worth_chords(self, problem: Any, state: _State, block: WorkingBlock) -> bool:
        """Whether each step is followed by one on the same Gram matrix, from the true gradient.

        Far away it brings nearly as much as one on a new matrix (synth_dense 0.1: 104 -> 85 ms, news20 lasso 0.01: 40 -> 31 ms).
        """
        far = state.relative_gap > FAR and not state.followed
        selects = problem.penalty.threshold > 0.0 and getattr(problem.loss, "curvature_is_smooth", False)
        dear = block.gram_form and block.m >= WORTH_CHORDS and problem.n >= FEW_ROWS * block.m
        return far and selects and dear

    def _trusts_model(self, state: _State, block: WorkingBlock, taken: int) -> bool:
        """Whether the dual point of the model is nearer to feasibility than the slopes: after several steps, or late."""
        return block.gram_form and not (block.sampled or state.slow) and (taken > 1 or state.relative_gap <= MODEL_DUAL)

    def _known_gradient(self, problem: Any, state: _State, block: WorkingBlock) -> np.ndarray | None:
        """The gradient on the block if Xta holds it."""
        if state.dual is not state.a or not state.products.complete:
            return None
        if block.m == problem.d:
            return state.Xta
        return None if problem.matrix.compiled else state.Xta[block.W]

    # -- working set

    def _choose_block(self, problem: Any, state: _State) -> WorkingBlock:
        """The support and the worst violators, and a compact copy of them (the old one if it still serves)."""
        W = trim(problem, self._working_set(problem, state), state.w, state.Xta)
        old = state.block
        if old is not None and old.m <= max(1.5 * len(W), SMALL) and state.inside[W].all():
            if old.gram_form or not gram_is_cheaper(problem, old.entries, old.m, state.swept, state.followed):
                return old
            W = old.W
        entries = problem.matrix.count_entries(W)
        gram_form = gram_is_cheaper(problem, entries, len(W), state.swept, state.followed)
        state.block = make_block(problem, W, gram_form, exact=False)
        state.inside[:] = False
        state.inside[W] = True
        state.accesses += entries
        return state.block

    def _working_set(self, problem: Any, state: _State) -> np.ndarray:
        threshold = problem.penalty.threshold
        if threshold == 0.0:
            return np.arange(problem.d)
        tall = problem.d <= problem.n / 4
        W = np.empty(problem.d, dtype=np.int64)
        count, support = pick_columns(problem.penalty, state.w, state.Xta, _level(problem), W)
        W = W[:count]
        growth = 2 if tall or state.relative_gap < 0.01 else 4
        # A lasso has no more weights than rows: small sets that are solved fast beat large ones that hold all.
        cap = max(FIRST if tall else min(100, max(problem.n, LITTLE)), min(growth * support, support + problem.n))
        if count > cap:
            rank = np.empty(count)
            rank_columns(problem.penalty, state.w, state.Xta, W, rank)
            W = np.sort(W[np.argpartition(rank, cap - 1)[:cap]])
        if len(W) > MOST_COLUMNS * problem.d:
            return np.arange(problem.d)
        return W if count > 0 else np.array([int(np.argmax(np.abs(state.Xta)))])

    def _violation(self, problem: Any, state: _State, origin: np.ndarray, gradient: np.ndarray) -> float:
        worst = worst_violation(problem.penalty, origin, gradient)
        return max(worst, abs(float(state.r.sum()))) if problem.fit_intercept else worst

    # -- one Newton step

    def _newton_step(
        self, problem: Any, state: _State, block: WorkingBlock, origin: np.ndarray, gradient: np.ndarray, violation: float
    ) -> Any:
        """Solve the model, search along its solution; returns what the model's dual point is made of, or None if refused."""
        free = int(problem.fit_intercept)
        h = np.maximum(state.h, state.floor * problem.loss.smoothness * problem.s)
        origin = _joined(origin, state.b) if free else origin
        if block.gram_form:
            u = self._solve_gram(problem, state, block, origin, gradient, h, violation)
            h = block.weights
        else:
            u = self._solve_residual(problem, state, block, origin, gradient, h, violation)
        move = u - origin
        shift = float(move[-1]) if free else 0.0
        along = block.product(move[: block.m])
        state.accesses += block.entries
        slopes = state.a
        size = self._line_search(problem, state, block, origin, move, along, shift)
        if size == 0.0:
            state.floor = min(1.0, 100.0 * state.floor)
            return None
        if size < 0.25:
            state.floor = min(1.0, 10.0 * state.floor)
        elif size >= 1.0:
            state.floor = max(1e-9, 0.1 * state.floor)
        return slopes, h, along, shift

    def _solve_gram(
        self, problem: Any, state: _State, block: WorkingBlock, origin: Any, gradient: Any, h: Any, violation: float
    ) -> np.ndarray:
        """Coordinate descent on the Gram matrix, with exact solves on the support between rounds of it."""
        free = int(problem.fit_intercept)
        rough = state.relative_gap > EARLY and problem.n >= ENOUGH_ROWS * block.m and state.floor < 1e-3
        rough = rough and not state.slow
        if not state.chord:
            block.update_gram(h, state.rng.integers(0, SAMPLE, problem.n, dtype=np.uint8) == 0 if rough else None, state.slow)
            state.accesses += block.entries
        q = _joined(gradient, state.r.sum()) if free else gradient.copy()
        rough = rough or (state.relative_gap > EARLY and problem.d > problem.n / 4 and block.m > LITTLE)
        u, tol = origin.copy(), (0.03 if rough else 1e-3) * violation
        minimise(problem.penalty, block.gram, u, q, free, tol)
        return u

    def _solve_residual(
        self, problem: Any, state: _State, block: WorkingBlock, origin: Any, gradient: Any, h: Any, violation: float
    ) -> np.ndarray:
        """Coordinate descent on the columns of W in cycles: one sweep over all, a few over the non-zeros only, then conjugate
        gradients on these if many more sweeps would be needed (news20 at 0.001: 2.9 -> 0.19 s).
        """
        m, free = block.m, int(problem.fit_intercept)
        late = state.relative_gap <= LATE
        goal, cycle, most = (0.03 * violation, 3, 24) if late else (0.3 * violation, 6, 20)
        u, t = origin.copy(), state.r.copy()
        curvatures = np.empty(m)
        weighted_square_norms(block.cols, h, curvatures)
        correction = block.gradient_correction(gradient, state.r)
        total = float(h.sum())
        # Conjugate gradients are run from here, at a cost of some microseconds a product that small blocks feel.
        overhead = 1.0 + 50_000.0 / block.entries
        sweeps = 0
        while sweeps < most * overhead:
            model = (block.cols, h, total, curvatures, correction)
            first, last, count = residual_cycle(problem.penalty, *model, u, t, free, cycle, goal)
            sweeps += count
            state.accesses += 2 * count * block.entries
            state.swept += 2.5 * count * block.entries
            if first <= goal:
                break
            if last > goal and _sweeps_to_go(first, last, goal, cycle - 1) > overhead * (WORTH if late else 4 * WORTH):
                self._face_gradients(problem, state, block, u, t, h, (curvatures, correction))
        return u

    def _face_gradients(self, problem: Any, state: _State, block: WorkingBlock, u: Any, t: Any, h: Any, parts: Any) -> None:
        """Conjugate gradients for the model on the signed support of u, preconditioned by its diagonal; u and t follow.

        Weights that would change sign become zero; if that raises the model, the step ends at the first of them instead.
        """
        m, penalty = block.m, problem.penalty
        face = np.flatnonzero(u[:m])
        many = 2 * len(face) > problem.n and penalty.strong_convexity == 0.0
        if len(face) == 0 or many:  # without l2, more weights than rows can tell apart: sweeps must thin them out first
            return
        l1, l2, values = penalty.threshold, penalty.strong_convexity, u[face]
        gradient = np.empty(len(face))
        curvatures, correction = parts
        dots_of(block.cols, face, t, gradient)
        gradient += correction[face]
        gradient += l1 * np.sign(values) + l2 * values
        diagonal = curvatures[face] + l2
        move, residual = np.zeros(len(face)), -gradient
        direction = residual / diagonal
        size = start = float(residual @ direction)
        for _ in range(MOST_PRODUCTS):
            along = np.zeros(problem.n)
            combine_of(block.cols, face, direction, along)
            product = np.empty(len(face))
            dots_of(block.cols, face, h * along, product)
            product += l2 * direction
            state.accesses += 2 * block.entries
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
        full = move
        crossing = values * (values + move) < 0.0 if l1 > 0.0 else np.zeros(len(face), dtype=bool)
        move = np.where(crossing, -values, full)
        for _ in range(2):
            along = np.zeros(problem.n)
            combine_of(block.cols, face, move, along)
            bent = h * along
            change = (
                float(t @ along)
                + float(correction[face] @ move)
                + 0.5 * float(along @ bent)
                + penalty.value(values + move)
                - penalty.value(values)
            )
            if change <= 0.0 or not crossing.any():
                break
            share = np.min(-values[crossing] / full[crossing])
            move = share * full
        if change > 0.0:
            return
        u[face] = values + move
        t += bent

    def _line_search(
        self, problem: Any, state: _State, block: WorkingBlock, origin: Any, move: Any, along: Any, shift: float
    ) -> float:
        """Go along the move as far as it pays; returns the size of the step, 0 if it was refused."""
        data, here = (problem.loss, problem.penalty, problem.y, problem.s), (state.b, shift, state.r, state.value)
        l2 = problem.penalty.strong_convexity if problem.penalty.threshold == 0.0 else -1.0
        weights, trial = (block.W, origin, move, l2, state.w, np.empty(block.m)), state.spare
        size, value, penalty = search_along(*data, state.Xw, along, *here, *weights, *trial)
        if size > 0.0:
            # The old slopes may still serve the model's dual point, so they are not written over.
            state.spare = [state.Xw, np.empty(problem.n), state.r, state.h]
            state.Xw, state.a, state.r, state.h = trial
            state.b, state.value, state.penalty = state.b + size * shift, value, penalty
        return size

    def _polish_intercept(self, problem: Any, state: _State) -> None:
        """Move b to its optimum for these weights, so that the slopes balance and need no repair."""
        total = float(state.r.sum())
        if abs(total) <= 4e-16 * float(np.abs(state.r).sum()):
            return
        b = best_intercept(problem.loss, problem.y, problem.s, state.Xw, state.b)
        if b != state.b:
            state.b, state.a = b, np.empty(problem.n)
            self._expand(problem, state)
