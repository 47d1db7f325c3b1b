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

from saddlery.penalties.base import largest
from saddlery.point import Point
from saddlery.problems.row_sums import best_intercept
from saddlery.problems.screening import ScreenedProducts
from saddlery.solvers.at_once import CertifiedPoints
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.block_choice import choose_block
from saddlery.solvers.forecasts import forecast_of, proves
from saddlery.solvers.gram_model import minimise, worst_violation
from saddlery.solvers.gram_pool import pool_for
from saddlery.solvers.growing_block import GrowingBlock
from saddlery.solvers.model_care import goal_of, goal_of_thinned, needs_care, sufficient_violation
from saddlery.solvers.newton_search import balancing_shift, expand_at, model_slopes, search_along, stretch
from saddlery.solvers.residual_model import minimise_on_columns
from saddlery.solvers.row_sample import sample_rows
from saddlery.solvers.scaled_columns import DenseCopies
from saddlery.solvers.sdca import swept_once
from saddlery.solvers.small_rounds import is_small, is_tiny, newton_rounds
from saddlery.solvers.sparse_rounds import SparseRoom, is_small_sparse, sparse_rounds
from saddlery.solvers.streamed_block import DENSE_BYTES
from saddlery.solvers.thinned_block import ThinnedBlock, worth_thinning
from saddlery.solvers.working_block import SWEEP_DENSE, WorkingBlock
from saddlery.solvers.working_set import LITTLE, level

__all__ = ["ProxNewton"]

SMALL_DATA = 1_000_000  # entries: up to here a pass is as cheap as a round, and early rounds take several steps, too (leu: -8 %)
EARLY = 0.05  # relative gap above which steps are rough: the working set will change anyway
BELOW = 0.5  # share of the strength that makes all weights zero up to which zero is far from the optimum
ROUGH = 0.1  # relative gap above which Gram matrices are made of a part of the rows (w8a at 0.01, to 1e-4: 21 -> 15 ms)
# Share of the last gap that a round leaves if it gained nothing, and how many such in a row say that far gaps are slow, too: where
# columns correlate, rough models never end (3000 x 1000, correlations of 0.5, logistic at 0.001: 206 -> 13 rounds).
STUCK = 0.8, 3
MODEL_DUAL = 0.03  # relative gap below which the dual point of the model is judged
SAMPLE = 4  # early Gram matrices are made of one row in so many
FAR, WORTH_CHORDS = 0.01, 50  # relative gap and columns from which on a Gram matrix serves for two steps
SUFFICES = 10.0  # times the violation of slopes that suffices: the dual point of the model is nearer
CHORDS, FIRST_CHORDS = 8, 2  # most steps on a block that grows, and while its columns will change anyway
WORTH_STRETCH = 0.02  # share of the objective by which a multiple of the weights must promise to lower it
FEW_ROWS = 10  # for each column: Gram matrices of fewer are cheap
TINY_STEPS = 8  # most on a block that holds all of tiny data (heart, 270 x 13: 0.65 -> 0.45 ms)
STRIDE = 1e-3  # by which the gap of small data falls in one step
RISE_DOWN = 0.1  # how expectations change when no columns were missing
THIN_STEPS, ENDS = (4, 8), 0.6  # most steps on a thinned Gram matrix, of some columns and of all; and the share of tolerance or
# gap at which forecasts end them
SHORT = 1.0  # steps that are shorter are not those that forecasts are about
FELL = 0.05  # share by which the threshold of a path falls from one strength to the next: far above all tolerances
# Share of new columns up to which sweeps over sparse ones take two steps, unless the first left so many times the violation that
# suffices, or less (news20, logistic at 0.001 to 1e-4: 120 -> 105 ms; 20,000 x 50,000 at 0.001 to 1e-3: 300 -> 250 ms).
FRESH, ENOUGH = 0.02, 3.0
ENOUGH_ROWS = 120  # rows for each column of the block, if they are


# --------------------------------------------------------------------------- the solver


# Rows for each column from which on a part of them is a good start; fewer are enough where rows are short and few columns will
# matter (w8a's test set, 14951 x 300, logistic at 0.1 and 0.01 to 1e-6: 7.6 -> 5.3 and 11.3 -> 7.3 ms).
TALL, SHORT_ROWS = 128, 32


def _sample_size(problem: Any) -> int:
    """Rows of a first sample."""
    least = problem.n // 16
    return max(least, min(problem.n // 4, 30 * problem.d)) if problem.n >= TALL * problem.d else least


def _joined(values: np.ndarray, last: float) -> np.ndarray:
    """The values and one more (in a fifth of the time of ``np.append``)."""
    out = np.empty(len(values) + 1)
    out[:-1], out[-1] = values, last
    return out


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, w: np.ndarray, b: float, rng: np.random.Generator):
        n = problem.n
        self.w, self.b, self.rng = w, b, rng
        self.Xw, self.a, self.r, self.h = np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
        self.spare = [np.empty(n) for _ in range(4)]
        self.value, self.penalty = 0.0, problem.penalty.value(w)
        self.exact = True  # whether Xw is one product with w, and not a sum of several
        self.dual: Any = None
        self.Xta: Any = None
        self.block: Any = None  # a WorkingBlock, or one that is read in parts, made of a pool or of some rows
        self.draws: Any = None  # which rows a thinned block takes
        self.forecast = math.inf  # the relative gap that the last step on one leaves
        self.rate = 1.0  # by which a sweep over columns shortens the next
        self.lacking = math.inf  # columns that want a weight when a round begins, for each that has one
        self.pool = pool_for(problem)
        self.copies = DenseCopies(n, problem.d)  # of columns that were swept over
        self.products = ScreenedProducts(problem)
        self.inside = np.zeros(problem.d, dtype=bool)  # whether a column is in the block
        self.rounds, self.idle, self.stuck, self.swept, self.epochs = 0, 0, 0, 0.0, 0
        self.last_gap, self.slow, self.followed, self.chord = float("inf"), False, False, False
        self.floor, self.least, self.size = 1e-9, 1e-9, 0.0
        self.fresh = 1.0  # share of the working set that was not in the one before
        self.room = SparseRoom(problem.matrix) if is_small_sparse(problem) else None
        self.compact = self.room is not None or is_small(problem)  # whether rounds are those of small_rounds.py or sparse_rounds.py
        self.expected_gap = None if self.room is None else float("inf")
        self.threshold = self.threshold_before = problem.penalty.threshold
        self.rise = 0.0  # by how much products are expected to rise when the threshold falls, as a share of that

    def note_epochs(self, count: int) -> None:
        """Remember how many epochs a model takes; not those of last corrections."""
        self.epochs = max(count, self.epochs // 2)


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

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator, sweep: bool = True) -> _State:
        w, b = (np.zeros(problem.d), problem.constant) if start is None else (start.w, start.b)
        gap, Xw = math.inf, None
        if start is None and self._worth_sampling(problem):
            w, b, gap, Xw = self._sampled(problem, rng)
        elif start is None and sweep and self._worth_sweep(problem):
            w, b, _, Xw, *_ = swept_once(problem, rng)
        state = _State(problem, w, b, rng)
        self._reset_floor(problem, state)
        if w.any():
            state.Xw = problem.margins(w) if Xw is None else Xw
            state.accesses += problem.matrix.nnz
        self._expand(problem, state)
        if start is None and sweep and w.any() and state.value + state.penalty > problem.scale:  # it led away: rows of large norms
            return self.init(problem, Point(np.zeros(problem.d), problem.constant, None), rng)
        if start is None and not w.any():
            state.dual, state.Xta = state.a, state.products.start(state.a, problem.constant_gradient)
            self._judge_zero(problem, state)
        else:
            self._judge_slopes(problem, state)
        support = np.flatnonzero(w)
        if gap < math.inf and worth_thinning(problem, problem.matrix.count_entries(support), len(support)):
            state.premature, state.relative_gap = True, max(gap, EARLY)
        return state

    def follow(self, problem: Any, state: _State) -> _State:
        """The state for another penalty: margins, slopes and the copied columns stay."""
        self._reset_floor(problem, state)
        if state.rounds <= 1:  # the columns sufficed; where they did not, a second round has raised the expectation
            state.rise = max(0.0, state.rise - RISE_DOWN)
        state.accesses, state.rounds, state.idle, state.stuck, state.swept = 0.0, 0, 0, 0, 0.0
        state.stalled, state.relative_gap, state.last_gap = False, float("inf"), float("inf")
        state.penalty = problem.penalty.value(state.w)
        state.followed = True  # the working set is nearly right from the start
        state.threshold_before, state.threshold = state.threshold, problem.penalty.threshold
        # After a fall of the threshold the old points are not near enough, so that their certificate would only take time; but how
        # well models are solved that are approximations depends on it (20 lassos on news20: 62 -> 58 ms, w8a logistic 165 -> 180).
        fall = 1.0 - state.threshold / state.threshold_before if state.threshold_before > 0.0 else 0.0
        constant = getattr(problem.loss, "curvature_is_constant", False)
        state.premature = fall > FELL and constant and not state.compact
        if state.premature:
            state.relative_gap = min(fall, EARLY)
        return state

    def resume(self, problem: Any, state: _State) -> _State:
        """The state for another loss on the same data: margins and the copied columns stay."""
        self.follow(problem, state)
        self._expand(problem, state)
        self._judge_slopes(problem, state)
        return state

    def _judge_zero(self, problem: Any, state: _State) -> None:
        """Far below the strength that makes all weights zero, their gap is known well enough: (1 - t)^2 if t slopes are feasible.

        So it is for squares, and for others nearly (20,000 x 50,000 lasso at 0.01: 0.4 of 19 ms).
        """
        threshold, top = problem.penalty.threshold, float(largest(problem.penalty, state.Xta))
        if 0.0 < threshold <= BELOW * top and not state.compact:
            state.far, state.relative_gap = True, float(1.0 - threshold / top) ** 2

    def _reset_floor(self, problem: Any, state: _State) -> None:
        # Where curvature jumps between 0 and 1 a floor keeps steps finite; smooth curvature only needs to stay positive.
        state.floor, state.least = (1e-9 if getattr(problem.loss, "curvature_is_smooth", False) else 1e-3), 1e-9
        # Nor is it needed if that is all and l2 bends every direction; rows on flat parts need not be read then (w8a: 54 -> 36 ms).
        bends = problem.penalty.strong_convexity > 0.0 and problem.d <= problem.n / 4
        if bends and getattr(problem.loss, "conjugate_curvature", None):
            state.floor = state.least = 0.0

    def _worth_sampling(self, problem: Any) -> bool:
        """Whether to start from a part of the rows: tall data, of which that part fits into memory."""
        matrix, selects = problem.matrix, problem.penalty.threshold > 0.0
        tall = SHORT_ROWS if selects and matrix.compiled and matrix.by_columns else TALL
        if not self.sample_start or problem.n < max(10_000, tall * problem.d):
            return False
        share = _sample_size(problem) / problem.n
        return problem.matrix.compiled or problem.matrix.holds(share * problem.matrix.nnz, 3 * DENSE_BYTES)

    def _worth_sweep(self, problem: Any) -> bool:
        """Whether to start from an epoch of dual ascent: it spares rounds that find out which rows matter.

        Mushrooms, l2: squared hinge 12 -> 9 rounds, 8.7 -> 5.8 ms; logistic 8 -> 5 rounds, 10.2 -> 7.3 ms.
        """
        round_ = getattr(problem.penalty, "is_round", False) and problem.penalty.strong_convexity > 0.0
        able = hasattr(problem.loss, "dual_prox") and problem.matrix.compiled
        tall = problem.d <= problem.n / 4 and not is_small(problem)
        return self.sample_start and round_ and able and problem.loss.targets == "signs" and tall

    def _sampled(self, problem: Any, rng: np.random.Generator) -> tuple[np.ndarray, float, float, np.ndarray | None]:
        """A rough solution on a part of the rows, its relative gap there, and its margins if they are known."""
        small = sample_rows(problem, rng, _sample_size(problem))
        if small is None:
            return np.zeros(problem.d), problem.constant, math.inf, None
        state = self.init(small, None, rng, sweep=not getattr(problem.loss, "curvature_is_smooth", False))
        state.tol = EARLY
        for _ in range(20):
            primal, dual = small.evaluate(self.point(small, state))
            state.relative_gap = (primal - dual.value) / small.scale
            if state.relative_gap <= EARLY:
                break
            self.step(small, state)
        if not problem.fit_intercept:
            return state.w, 0.0, state.relative_gap, None
        Xw = problem.margins(state.w)
        return state.w, best_intercept(problem.loss, problem.y, problem.s, Xw, state.b), state.relative_gap, Xw

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.dual, state.Xw, state.Xta, state.value, fresh=True, exact=state.exact)

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw, state.exact = problem.margins(state.w), True
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
        if problem.fit_intercept:
            shift = balancing_shift(problem.loss, problem.y, problem.s, slopes, h, along, shift)
        model_slopes(problem.loss, problem.y, problem.s, slopes, h, along, shift, dual, weighted)
        self._judge(problem, state, dual, weighted)

    def _judge(self, problem: Any, state: _State, dual: np.ndarray, weighted: np.ndarray) -> None:
        before = state.products.accesses
        state.dual, state.Xta = dual, state.products.product(problem, dual, weighted, level(problem))
        state.accesses += state.products.accesses - before

    def step(self, problem: Any, state: _State) -> None:
        before = state.value + state.penalty
        if state.compact:
            self._compact_rounds(problem, state)
        else:
            self._round(problem, state)
        state.idle = 0 if state.value + state.penalty < before - 1e-15 * abs(before) else state.idle + 1
        state.stalled = state.idle >= 5

    def has_points(self, problem: Any, count: int) -> bool:
        return count > 1 and (is_small(problem) or is_small_sparse(problem))

    def points(self, problem: Any, factors: np.ndarray, tol: float, rng: np.random.Generator) -> CertifiedPoints:
        """The solutions of a path on small data; ends where one does not reach the tolerance in one go.

        The certificates are those of the loop, from the data, but nothing else of it is worth its time here: see small_rounds.py.
        """
        m, _ = len(factors), (problem.scale, problem.constant_gradient, problem._dual_at_zero)
        W, b, values, duals = np.zeros((m, problem.d)), np.zeros(m), np.empty((m, 3)), np.empty((m, problem.n))
        state: Any = None
        reads = 0.0
        for k, factor in enumerate(factors.tolist()):
            single = problem.with_penalty(problem.penalty.scaled(factor))
            if state is None:
                state = self.init(single, None, rng)
            else:
                reads += state.accesses
                state = self.follow(single, state)
            state.tol = tol
            self._compact_rounds(single, state)
            primal, dual = single.evaluate(Point(state.w, state.b, state.dual, None, state.Xta))
            W[k], b[k], duals[k], values[k] = state.w, state.b, dual.a, (primal, dual.value, np.count_nonzero(state.w))
            if not primal - dual.value <= tol * problem.scale:
                m = k + 1
                break
        state.accesses = (state.accesses + reads) / m
        return CertifiedPoints(W[:m], b[:m], values[:m], problem.scale, state, duals[:m])

    def _compact_rounds(self, problem: Any, state: _State) -> None:
        """Rounds up to the tolerance, or a good way there, so that traces tell how; see small_rounds.py and sparse_rounds.py."""
        loss, penalty, room = problem.loss, problem.penalty, state.room
        tol = max(state.tol, STRIDE * state.relative_gap) if state.relative_gap < np.inf else state.tol
        bend = getattr(loss, "conjugate_curvature", None) or 0.0
        facts = (penalty.threshold, penalty.strong_convexity, loss.smoothness, bend, problem.scale, tol)
        how = (self.newton_steps, 1e-3 if state.followed else 0.1, getattr(loss, "curvature_is_constant", False))
        dual, Xta = state.dual.copy(), state.Xta.copy()  # the last ones may be the best that there are
        there = (state.Xw, state.a, state.r, state.h, dual)
        here = (state.b, state.value, state.relative_gap, state.floor)
        targets = (problem.y, problem.s, int(problem.fit_intercept), facts, *how)
        if room is None:
            results = newton_rounds(loss, penalty, problem.matrix.values, *targets, state.w, *there, Xta, *here)
        else:
            w, products = state.w[room.used], Xta[room.used]
            *results, state.expected_gap = sparse_rounds(loss, penalty, *room.stacks, *targets, w, *there, products, *here)
            state.w[room.used], Xta[room.used] = w, products
        state.b, state.value, state.floor, rounds, state.compact = results
        if not state.compact or state.relative_gap < math.inf:  # somebody looks at the gaps on the way
            state.expected_gap = None
        state.penalty = penalty.value(state.w)
        state.dual, state.Xta = dual, state.products.start(dual, Xta)
        state.rounds += rounds
        state.exact = state.exact and rounds == 0
        state.accesses += rounds * problem.matrix.nnz

    def _round(self, problem: Any, state: _State) -> None:
        """One working set."""
        state.rounds += 1
        # Where the last round gained little, the shortcuts end: all rows count, and the true slopes say which columns.
        crawling = state.relative_gap > 0.3 * state.last_gap
        state.stuck = state.stuck + 1 if state.relative_gap > STUCK[0] * state.last_gap else 0
        late = state.relative_gap <= EARLY or state.idle > 0 or state.stuck >= STUCK[1]
        state.slow, state.last_gap = crawling and late, state.relative_gap
        block: Any = choose_block(problem, state)
        tall, threshold = problem.d <= problem.n / 4, problem.penalty.threshold
        early = state.relative_gap > EARLY and not tall and not state.followed and problem.matrix.nnz > SMALL_DATA
        steps = 1 if early or block.entries > problem.matrix.nnz / 6 else self.newton_steps
        growing, thinned, far = isinstance(block, GrowingBlock), isinstance(block, ThinnedBlock), state.relative_gap > EARLY
        chords = not growing and not thinned and self._worth_chords(problem, state, block)
        enough = 1e-3 if state.followed else 0.01 if chords or (growing and not far) else 0.1
        tiny = is_tiny(problem) and not state.followed and block.gram_form and block.m == problem.d
        suffices = SUFFICES * sufficient_violation(problem, state) if growing and state.penalty > 0.0 else 0.0
        if not (block.gram_form or block.dense) and threshold > 0.0 and state.fresh <= FRESH:
            # No column was missed, so that a look at all of them is not worth its time yet, unless these slopes would do.
            steps, suffices = max(steps, 2), ENOUGH * sufficient_violation(problem, state)
        first_violation, last_violation, model, taken, ends = 0.0, float("inf"), None, 0, -1.0
        gradient: Any = None
        before = state.r
        most = (FIRST_CHORDS if far else CHORDS) if growing else 2 * steps if chords else steps
        if thinned:  # a new matrix costs less than a product with the data, and forecasts say when to end
            most, enough, state.forecast = THIN_STEPS[block.m == problem.d], 0.0, state.relative_gap
            changes = state.relative_gap > ROUGH and block.m < problem.d  # the working set, so that it is not solved to the end
            ends = ENDS * max(state.tol, state.relative_gap if changes else 0.0)
        elif tiny:  # a step costs less than to look at where it led
            most, enough, suffices = TINY_STEPS, 0.0, self._sufficient_on_tiny(problem, state)
        for k in range(most):
            state.chord = chords and k % 2 == 1
            if k == 0:
                gradient = self._known_gradient(problem, state, block)
            elif growing and block.quick:
                gradient = gradient + block.quick_transposed(state.r - before)
            else:
                gradient = None
            gradient, before = block.transposed(state.r) if gradient is None else gradient, state.r
            origin = state.w[block.W]
            violation = self._violation(problem, state, origin, gradient)
            first_violation = violation if k == 0 else first_violation
            if violation == 0.0 or (k > 0 and violation <= max(enough * first_violation, suffices)):
                break
            if growing:
                block.left, last_violation = max(block.left, violation / last_violation), violation
            model = self._newton_step(problem, state, block, origin, gradient, violation)
            if model is None:
                break
            taken += 1
            if ends >= 0.0 and forecast_of(problem, state, model) <= ends and SHORT <= state.size:
                break
        if taken and far and block.m == problem.d and not thinned and self._stretch(problem, state):
            model = None
        if growing and not state.exact:
            state.Xw, state.exact = block.product(state.w[block.W]), True
            self._expand(problem, state)
        if problem.fit_intercept:
            self._polish_intercept(problem, state)
        if state.rounds % 30 == 0:
            self.resync(problem, state)
        elif model is not None and self._trusts_model(problem, state, block, model, taken):
            self._judge_model(problem, state, model)
        else:
            self._judge_slopes(problem, state)

    def _sufficient_on_tiny(self, problem: Any, state: _State) -> float:
        """A violation that leaves the tolerance, or a good way there, so that traces tell how."""
        l2, goal = problem.penalty.strong_convexity, state.tol
        if state.relative_gap < math.inf:
            goal = max(goal, STRIDE * state.relative_gap)
        suffices = sufficient_violation(problem, state) * goal / state.tol if state.tol > 0.0 else 0.0
        return max(suffices, 0.3 * math.sqrt(l2 * goal * problem.scale / problem.d))

    def _worth_chords(self, problem: Any, state: _State, block: WorkingBlock) -> bool:
        """Whether each step is followed by one on the same Gram matrix, from the true gradient.

        Far away it brings nearly as much as one on a new matrix (synth_dense 0.1: 104 -> 85 ms, news20 lasso 0.01: 40 -> 31 ms).
        """
        far = state.relative_gap > FAR and not state.followed
        selects = problem.penalty.threshold > 0.0 and getattr(problem.loss, "curvature_is_smooth", False)
        dear = block.gram_form and block.m >= WORTH_CHORDS and problem.n >= FEW_ROWS * block.m
        return far and selects and dear

    def _trusts_model(self, problem: Any, state: _State, block: WorkingBlock, model: tuple[Any, ...], taken: int) -> bool:
        """Whether the dual point of the model is nearer to feasibility than the slopes: after several steps, or late."""
        if not block.gram_form:
            return state.size == 1.0 and not block.dense and proves(problem, state, block, model)
        return not (block.sampled or state.slow) and (taken > 1 or state.relative_gap <= MODEL_DUAL)

    def _known_gradient(self, problem: Any, state: _State, block: WorkingBlock) -> np.ndarray | None:
        """The gradient on the block if Xta holds it."""
        return state.products.exact_on(block.W) if state.dual is state.a else None

    def _violation(self, problem: Any, state: _State, origin: np.ndarray, gradient: np.ndarray) -> float:
        worst = worst_violation(problem.penalty, origin, gradient)
        return max(worst, abs(float(state.r.sum()))) if problem.fit_intercept else worst

    # -- one Newton step

    def _newton_step(
        self, problem: Any, state: _State, block: WorkingBlock, origin: np.ndarray, gradient: np.ndarray, violation: float
    ) -> Any:
        """Solve the model, search along its solution; returns what the model's dual point is made of, or None if refused."""
        free = int(problem.fit_intercept)
        h = state.h
        if not isinstance(block, ThinnedBlock):
            h = np.maximum(h, state.floor * problem.loss.smoothness * problem.s)
        origin = _joined(origin, state.b) if free else origin
        if block.gram_form:
            u, margins = self._solve_gram(problem, state, block, origin, gradient, h, violation), None
            h = block.weights
        else:
            u, margins = self._solve_residual(problem, state, block, origin, gradient, h, violation)
        move = u - origin
        shift = float(move[-1]) if free else 0.0
        whole: Any = None
        # A block holds all weights, but of data that are read in parts: margins that are one product spare the certificate another.
        # Not where searches go on by secants: at the optimum a difference of margins is rounding, which they would follow.
        if isinstance(block, GrowingBlock) and block.quick:
            along = block.quick_product(move[: block.m])
        elif margins is None and problem.matrix.compiled and problem.penalty.threshold > 0.0:
            whole = block.product(u[: block.m])
            along = whole - state.Xw
        elif margins is None:
            along = block.product(move[: block.m])
        else:
            along = margins
        state.accesses += block.entries if margins is None else 0
        slopes = state.a
        size = state.size = self._line_search(problem, state, block, origin, move, along, shift)
        if size > 0.0:
            state.exact = size == 1.0 and whole is not None
            state.Xw = whole if state.exact else state.Xw
        if size < 1.0 and isinstance(block, GrowingBlock):
            block.left = 1.0
        if size == 0.0:
            state.floor = min(1.0, max(100.0 * state.floor, 0.0 if state.least > 0.0 else 1e-3))
            return None
        if size < 0.25:
            state.floor = min(1.0, 10.0 * state.floor)
        elif size >= 1.0:
            state.floor = max(state.least, 0.1 * state.floor)
        return slopes, h, along, shift

    def _solve_gram(
        self, problem: Any, state: _State, block: WorkingBlock, origin: Any, gradient: Any, h: Any, violation: float
    ) -> np.ndarray:
        """Coordinate descent on the Gram matrix, with exact solves on the support between rounds of it."""
        free = int(problem.fit_intercept)
        rough = state.relative_gap > ROUGH and problem.n >= ENOUGH_ROWS * block.m and state.floor < 1e-3
        rough = rough and not state.slow and not isinstance(block, ThinnedBlock)
        # To form a tiny matrix again takes as long as to find out what moved.
        strictly = state.slow or (is_tiny(problem) and not state.followed)
        if not state.chord:
            block.update_gram(h, state.rng.integers(0, SAMPLE, problem.n, dtype=np.uint8) == 0 if rough else None, strictly)
            state.accesses += block.entries
        if isinstance(block, ThinnedBlock):
            block.bend_least(problem, h, state.floor * problem.loss.smoothness)
        q = _joined(gradient, state.r.sum()) if free else gradient.copy()
        # A model that is no approximation is solved to the end: that spares a round (news20, 20 lassos: 130 -> 115 ms).
        exact = getattr(problem.loss, "curvature_is_constant", False)
        early = state.relative_gap > EARLY and not (exact and needs_care(problem, state))
        rough = rough or (early and problem.d > problem.n / 4 and block.m > LITTLE)
        u, tol = origin.copy(), (0.03 if rough else 1e-5 if exact else 1e-3) * violation
        if isinstance(block, ThinnedBlock) and problem.penalty.strong_convexity == 0.0:
            tol = goal_of_thinned(problem, state, violation)
        state.note_epochs(minimise(problem.penalty, block.gram, u, q, free, tol))
        return u

    def _solve_residual(
        self, problem: Any, state: _State, block: WorkingBlock, origin: Any, gradient: Any, h: Any, violation: float
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Coordinate descent and conjugate gradients on the columns themselves; with care once the support is about right.

        Also the margins of the move, if they are known.
        """
        late = needs_care(problem, state)
        q = _joined(gradient, state.r.sum()) if problem.fit_intercept else gradient
        goal = goal_of(problem, state, block, violation) if late else 0.3 * violation
        settled = state.followed or state.relative_gap <= FAR
        how = (late, not state.slow, settled, state.rounds == 1 and not state.followed)
        u, margins, sweeps, products = minimise_on_columns(problem, block, h, origin, q, goal, *how)
        state.accesses += 2.0 * (sweeps + products) * block.entries
        state.swept += (SWEEP_DENSE if block.dense else 2.5) * sweeps * block.entries
        state.note_epochs(sweeps + 2 * products)
        state.rate = block.rate
        return u, margins

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

    def _stretch(self, problem: Any, state: _State) -> bool:
        """Take a multiple of the weights where that falls much further; returns whether one was taken.

        Curvature falls as margins grow, so that models from far away stop short of where slopes lead; zeros stay what they are.
        (5000 x 2000, logistic at 0.01: 9 -> 7 rounds, 340 -> 280 ms; but where columns are missing, it is for them to grow.)
        """
        penalty, w = problem.penalty, state.w
        if penalty.threshold == 0.0 or not getattr(problem.loss, "curvature_is_smooth", False):
            return False
        linear, square = penalty.threshold * float(np.abs(w).sum()), penalty.strong_convexity * float(w @ w)
        slope = float(state.r @ state.Xw) + linear + square
        bend = float(state.h @ np.square(state.Xw)) + square
        if slope >= 0.0 or bend <= 0.0 or slope * slope < 2.0 * bend * WORTH_STRETCH * (state.value + state.penalty):
            return False
        new = state.spare
        size, value = stretch(
            problem.loss, problem.y, problem.s, state.Xw, state.b, linear, square, state.value, state.r, state.h, 3, *new
        )
        if size <= 1.0:
            return False
        state.spare = [state.Xw, np.empty(problem.n), state.r, state.h]
        state.Xw, state.a, state.r, state.h = new
        state.w = size * w
        state.value, state.penalty, state.exact = value, penalty.value(state.w), False
        return True

    def _polish_intercept(self, problem: Any, state: _State) -> None:
        """Move b to its optimum for these weights, so that the slopes balance and need no repair."""
        total = float(state.r.sum())
        if abs(total) <= 4e-16 * float(np.abs(state.r).sum()):
            return
        b = best_intercept(problem.loss, problem.y, problem.s, state.Xw, state.b)
        if b != state.b:
            state.b, state.a = b, np.empty(problem.n)
            self._expand(problem, state)
