"""Proximal Newton on working sets of (feature, class) pairs: softmax with l1, elastic net or l2, all classes at once.

A round takes the pairs with a weight and the worst of those that want one, minimises the Newton model of the loss on them (see
multiclass_model.py), and searches along the result. The exact curvature of softmax couples the classes; bounds of it, which would
make them separate problems, are about k/2 times too large.

What makes rounds cheap (CPU seconds on letter at 0.01 alpha_max, tolerance 1e-4): models of a sample of the rows while they are
rough (0.86 -> 0.40), a start from the solution on a part of the rows (-> 0.32), a model that is used again as long as steps with it
contract (-> 0.26). The strength of the penalty comes down in steps of sqrt(10), so that models stay small.

=========  ==================================================================  ============================
here       meaning                                                             letters of the notes
=========  ==================================================================  ============================
T, b       margins X W, by classes; z = T + b                                  S
V          softmax of the margins, by classes                                  P
A, G       slopes V - Y, the dual point; X'(s A)                               V - Y, G
u          weights of the pairs of the working set, being moved                u
tau        temperature: 1 for softmax, falling for smoothed losses             tau
strengths  factors of the penalty still to come, 1 at the end                  lams
=========  ==================================================================  ============================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from saddlery.losses.softmax import Softmax
from saddlery.penalties.base import largest
from saddlery.point import Point
from saddlery.problems.multiclass import BLOCK, Extremes
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.multiclass_model import (
    BOX,
    Pairs,
    add_pairs,
    column_model,
    exact_diagonal,
    gram_model,
    largest_entries,
    pair_gram,
    spread_columns,
)
from saddlery.solvers.multiclass_rows import RowNeeds, balance, expand_rows, gradient_of, new_room, slopes_of
from saddlery.solvers.prox_newton import pick_columns, worst_violation
from saddlery.solvers.working_block import gather_columns

__all__ = ["MulticlassNewton"]

STEP = 10.0**0.5  # between two strengths of the penalty
MOVE_ON = 0.3  # violation, as a share of the threshold, at which the strength falls
FEWEST = 64  # pairs that may enter in one round, at least
NEAR = 0.8  # share of the threshold above which a slope makes a pair of tall data enter: the model can then be used longer
TALL = 1000  # rows from which on models are made of a sample of them
SAMPLE_FROM = 4000  # rows from which on a part of them is solved first
SAMPLE_SHARE = 8  # one row in so many, but at least
SAMPLE_ROWS = 2000  # so many
ROUGH = 0.1  # estimated relative gap at which that solution is good enough
EARLY = 0.05  # estimated relative gap above which models need not be solved with care
ROWS_PER_PAIR = 4.0  # rows of a sample that a model is made of
ROWS_LATER = 12.0  # the same, after a start from a part of the rows
MISSES = 1  # steps with sampled models that may contract little before they get more rows
REUSE = 0.5  # fall of the violation in a step up to which the model is used again
SINGLE = 1e-3  # estimated relative gap above which single precision is enough for every model
ROUNDS = 10  # most Newton steps between two checks
LITTLE = 200_000  # numbers X x k: on so few a round costs less than a check, and solutions without last digits would depend on
POLISHED = 1e-10  # how rows are weighted or repeated; the violation, as a share of the largest slope, at which they end
PROGRESS = 0.1  # fall of the estimated gap that is worth a check,
WORTH = 3e-3  # from this gap on
LEAST_DAMPING = 1e-6
NOT_SPARSE = 0.1  # share of non-zeros in the columns of a working set from which on they are worked on as an array
SMALL = 50_000_000  # products: a Gram matrix that takes fewer is formed of sparse data too
GATHER = 20  # multiplications that a copied number costs
MAX_GRAM = 4000  # pairs: beyond, no Gram matrix
MOST_PRODUCTS = 30  # of conjugate gradients
MOST_SWEEPS = 200  # of the column form in one Newton step


def _is_large(problem: Any) -> bool:
    """Whether d x k numbers are too many to keep: then a few entries of W and G are."""
    return bool(problem.is_large and problem.penalty.threshold > 0.0)


def _excess(penalty: Any, G: np.ndarray) -> float:
    """sum (|G| - threshold)_+^2, if that matters."""
    if penalty.strong_convexity == 0.0:
        return 0.0
    excess = np.abs(G) - penalty.threshold
    excess = excess[excess > 0.0]
    return float(excess @ excess)


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, b: np.ndarray, rng: np.random.Generator):
        k, n = problem.k, problem.n
        # The entries of W and G that are kept, in the order of W by rows: all, or those in `keys` where all would be too many.
        self.keys: Any = np.empty(0, dtype=np.int64) if _is_large(problem) else None
        self.w = np.zeros(0 if self.keys is not None else problem.d * k)
        self.G = np.zeros(len(self.w))
        self.top = self.excess = 0.0  # max |G| over all entries, sum (|G| - threshold)_+^2
        self.b, self.rng = b, rng
        self.T, self.V = np.zeros((k, n)), np.empty((k, n))
        self.spare = [np.empty((k, n)), np.empty((k, n))]
        self.room = new_room(k)
        self.tau = 1.0
        self.smooth = self.value = 0.0  # the loss that is expanded, and that of the problem
        self.A: Any = None
        self.slope = np.zeros(k)  # sum_i s_i A_i
        self.given: Any = None  # the start, until the first step
        self.against = 0.0  # sum_i s_i (1 - V_iy)
        self.strengths: list[float] = [1.0]
        self.gap, self.violation, self.idle = np.inf, np.inf, 0
        self.place = np.full(problem.d, -1, dtype=np.int64)  # of a feature in the copied columns
        self.columns: Any = None
        self.copied = 0
        self.gram: Any = None
        self.pairs: Any = None
        self.sampled = self.from_sample = False
        self.rows_per_pair = ROWS_PER_PAIR
        self.misses = 0  # steps that contracted little with a model of a sample of the rows
        self.damping = 0.0  # added to the diagonal of models, in units of its mean, where they reached too far
        self.newton_steps = self.sweeps = self.halvings = self.models = 0

    def at(self, keys: np.ndarray) -> np.ndarray:
        """Where these entries of W are kept."""
        return keys if self.keys is None else np.searchsorted(self.keys, keys)

    @property
    def counts(self) -> dict[str, float]:
        return {"newton_steps": self.newton_steps, "models": self.models, "sweeps": self.sweeps, "halvings": self.halvings}


@dataclass(frozen=True)
class MulticlassNewton(Solver):
    """Working-set proximal Newton for softmax with l1, elastic net or l2, with or without intercepts.

    Parameters
    ----------
    continuation : bool
        Come down to the strength of the penalty in steps of sqrt(10).
    sample : bool
        Start tall problems from a part of the rows, and make early models of a sample of them.
    form : {"auto", "gram", "columns"}
        Form of the models; "auto" takes "gram" for dense data and for dense columns of sparse data.
    """

    continuation: bool = True
    sample: bool = True
    form: str = "auto"

    margin: ClassVar[float] = 0.0  # that the loss asks of the classes; 1 for the hinge
    precision: ClassVar[type] = np.float32  # of the columns that models are made of
    samples_models: ClassVar[bool] = True
    name = "multiclass_newton"
    paper = "newGLMNET's line of work with the exact softmax curvature; see docs/solvers.md"
    needs: ClassVar[Needs] = RowNeeds(
        kind="multiclass",
        only=(Softmax,),
        row_loss=("row_slope", "row_conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        smooth=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        state = _State(problem, problem.constant.copy() if start is None else np.array(start.b, dtype=np.float64), rng)
        if start is not None:
            if state.keys is None:
                state.w = np.array(start.w.toarray() if sp.issparse(start.w) else start.w, dtype=np.float64).ravel()
            else:
                entries = sp.coo_array(start.w)
                keys = entries.row.astype(np.int64) * problem.k + entries.col
                order = np.argsort(keys)
                state.keys, state.w = keys[order], entries.data[order].astype(np.float64)
            return self._started(problem, state)
        self._started(problem, state)
        if self.continuation:
            state.strengths = self._strengths(problem, state)
        if self.sample and problem.n >= max(SAMPLE_FROM, 2 * SAMPLE_ROWS):
            self._start_from_sample(problem, state)
        return state

    def _started(self, problem: Any, state: _State) -> _State:
        if state.w.any():
            self._multiply(problem, state)
        self._expand(problem, state)
        self._judge(problem, state)
        return state

    def _strengths(self, problem: Any, state: _State) -> list[float]:
        """Factors of the penalty on the way down, from below half of where all weights are zero."""
        threshold, top = problem.penalty.threshold, state.top
        factors = [1.0]
        while threshold > 0.0 and factors[0] * threshold * STEP < 0.5 * top:
            factors.insert(0, factors[0] * STEP)
        return factors

    def _start_from_sample(self, problem: Any, state: _State) -> None:
        """Move to a rough solution on a part of the rows, if all classes are there."""
        rows = np.sort(state.rng.choice(problem.n, max(problem.n // SAMPLE_SHARE, SAMPLE_ROWS), replace=False))
        missing = np.bincount(problem.codes, problem.s, problem.k) > 0.0
        missing &= np.bincount(problem.codes[rows], problem.s[rows], problem.k) == 0.0
        if missing.any():
            return
        small = problem.take_rows(rows)
        inner = self._started(small, _State(small, state.b.copy(), state.rng))
        inner.strengths = list(state.strengths)
        for _ in range(50):
            self._round(small, inner)
            if inner.gap <= ROUGH and len(inner.strengths) == 1:
                break
        state.keys, state.w, state.b, state.tau = inner.keys, inner.w, inner.b, inner.tau
        state.strengths, state.from_sample, state.rows_per_pair = [1.0], True, ROWS_LATER
        state.accesses += inner.accesses
        self._started(problem, state)

    def point(self, problem: Any, state: _State) -> Point:
        if state.keys is None:
            G: Any = state.G.reshape(problem.d, problem.k)
        else:  # for l1 the largest entry says all; else the problem asks for them all again
            G = Extremes(np.array([state.top])) if problem.penalty.strong_convexity == 0.0 else None
        b = state.b - state.b.mean()  # a shift of all classes changes nothing: of all such intercepts, those that sum to zero
        return Point(self._weights(problem, state), b, state.A, state.T.T, G, state.value, fresh=True)

    def _weights(self, problem: Any, state: _State) -> Any:
        """W, as an array or sparse."""
        if state.keys is None:
            return state.w.reshape(problem.d, problem.k)
        held = np.flatnonzero(state.w)
        places = np.divmod(state.keys[held], problem.k)
        return sp.csr_array((state.w[held], places), shape=(problem.d, problem.k))

    def resync(self, problem: Any, state: _State) -> None:
        self._started(problem, state)

    def step(self, problem: Any, state: _State) -> None:
        """Rounds until the estimated gap has fallen enough to be worth a check, which costs about as much as a round."""
        before = state.gap
        small = self.samples_models and problem.n * problem.d * problem.k <= LITTLE
        for _ in range(4 * ROUNDS if small else ROUNDS):
            moved = self._round(problem, state)
            state.idle = 0 if moved else state.idle + 1
            state.stalled = state.idle >= 5
            done = (
                state.violation <= POLISHED * largest(problem.penalty, state.G)
                if small
                else state.gap <= min(PROGRESS * before, WORTH)
            )
            if state.stalled or (len(state.strengths) == 1 and done):
                break

    def _round(self, problem: Any, state: _State) -> bool:
        """One Newton step and the slopes thereafter."""
        penalty, violation = self._next_penalty(problem, state)
        contracts = violation <= REUSE * state.violation
        late = len(state.strengths) == 1 and (state.gap <= EARLY or state.from_sample)
        if late and state.sampled and not contracts and state.gram is not None:
            state.misses += 1  # far from the optimum it is not the sample that errs
            state.rows_per_pair *= 4.0 if state.misses > MISSES else 1.0
        state.violation = violation
        if not (contracts and state.gram is not None and self._covers(state, penalty, violation)):
            state.gram, state.pairs = None, self._working_set(problem, state, penalty)
        moved = self._newton_step(problem, state, penalty, violation)
        if not moved:
            state.gram, state.violation = None, 0.0
            state.rows_per_pair = min(4.0 * state.rows_per_pair, float(problem.n))
            state.strengths = state.strengths[1:] or state.strengths
        if problem.fit_intercept:
            self._balance(problem, state)
        self._judge(problem, state)
        return moved

    def _next_penalty(self, problem: Any, state: _State) -> tuple[Any, float]:
        """The penalty of this round, weaker than before if that of the last is nearly solved, and how far from optimal we are."""
        while True:
            factor = state.strengths[0]
            penalty = problem.penalty if factor == 1.0 else problem.penalty.scaled(factor)
            violation = worst_violation(penalty, state.w, state.G)
            if factor == 1.0 or violation > MOVE_ON * penalty.threshold:
                break
            state.strengths.pop(0)
            state.gram = None
        return penalty, max(violation, float(np.abs(state.slope).max())) if problem.fit_intercept else violation

    # -- the working set

    def _working_set(self, problem: Any, state: _State, penalty: Any) -> Pairs:
        """The pairs with a weight, and as many again (or a few) of those whose slope exceeds the threshold most."""
        if penalty.threshold == 0.0:
            return Pairs(np.arange(problem.d * problem.k), problem.k)
        weights, slopes = state.w, state.G
        chosen = np.empty(len(weights), dtype=np.int64)
        level = (NEAR if problem.d * problem.k <= problem.n else 1.0) * penalty.threshold
        count, support = pick_columns(penalty, weights, slopes, level, chosen)
        chosen, most = chosen[:count], support + max(FEWEST, support)
        if count > most:
            score = np.where(weights[chosen] != 0.0, np.inf, np.abs(slopes[chosen]))
            chosen = np.sort(chosen[np.argpartition(-score, most - 1)[:most]])
        return Pairs(chosen if state.keys is None else state.keys[chosen], problem.k)

    def _covers(self, state: _State, penalty: Any, violation: float) -> bool:
        """Whether the pairs of the last model are enough: none outside is nearly as bad as the worst."""
        slopes = np.abs(state.G)
        slopes[state.at(state.pairs.keys)] = 0.0
        return float(slopes.max(initial=0.0)) <= penalty.threshold + REUSE * violation

    # -- one Newton step

    def _newton_step(self, problem: Any, state: _State, penalty: Any, violation: float) -> bool:
        """Solve the model, search along its solution; False if no step was taken."""
        pairs = state.pairs
        if violation == 0.0 or (pairs.m == 0 and not problem.fit_intercept):
            return False
        state.newton_steps += 1
        at = state.at(pairs.keys)
        start, slopes = state.w[at], state.G[at]
        if self._is_gram(problem, state):
            move, shift = self._solve_gram(problem, state, penalty, start, slopes, violation)
            along = self._product(problem, pairs, move)
        elif penalty.threshold == 0.0:
            move, shift, along = self._solve_products(problem, state, penalty, start, slopes)
        else:
            move, shift, along = self._solve_columns(problem, state, penalty, start, slopes, violation)
        return self._line_search(problem, state, penalty, start, slopes, move, shift, along)

    def _is_gram(self, problem: Any, state: _State) -> bool:
        pairs = state.pairs
        if self.form != "auto" or state.gram is not None:
            return self.form != "columns"
        if pairs.m > MAX_GRAM:
            return False
        if not problem.matrix.is_sparse or pairs.m == 0:
            return True
        features = np.unique(pairs.feature)
        numbers = len(features) * problem.n
        return pairs.m * numbers <= SMALL or float(problem.matrix.col_counts[features].sum()) > NOT_SPARSE * numbers

    def _solve_gram(
        self, problem: Any, state: _State, penalty: Any, start: Any, slopes: Any, violation: float
    ) -> tuple[np.ndarray, np.ndarray]:
        free = problem.k if problem.fit_intercept else 0
        if state.gram is None:
            state.gram = self._gram(problem, state, penalty, free)
            state.models += 1
        u, q = np.concatenate([start, np.zeros(free)]), np.concatenate([slopes, state.slope[:free]])
        care = 0.1 if state.gap > EARLY else 0.01
        gram = state.gram
        if state.damping > 0.0:
            gram = gram + np.diag(np.full(len(gram), state.damping * gram.trace() / len(gram)))
        state.sweeps += 8 * gram_model(penalty, gram, u, q, free, care * violation)
        return u[: len(start)] - start, u[len(start) :] if free else np.zeros(problem.k)

    def _gram(self, problem: Any, state: _State, penalty: Any, free: int) -> np.ndarray:
        """The model's matrix from all rows that matter, or from a sample of them with the exact diagonal if that is larger."""
        pairs, n = state.pairs, problem.n
        columns, place = self._copied(problem, state, pairs)
        if free:
            place = np.concatenate([place, np.full(free, len(columns) - 1)])
        V, s = state.V, problem.s
        rows = int(state.rows_per_pair * len(place))
        state.sampled = self.sample and self.samples_models and n >= TALL and 2 * rows < n
        state.accesses += (rows if state.sampled else n) * columns.shape[0]
        if not state.sampled:
            chosen = self._active_rows(state)
            if chosen is not None:
                columns, V, s = columns[:, chosen], np.ascontiguousarray(V[:, chosen]), s[chosen]
            dtype = np.float32 if state.gap > SINGLE else self.precision
            return pair_gram(penalty, columns, place, pairs, V, s, dtype) / state.tau
        chosen = np.sort(state.rng.choice(n, rows, replace=False))
        part = np.ascontiguousarray(V[:, chosen])
        gram = pair_gram(penalty, columns[:, chosen], place, pairs, part, s[chosen] * (n / rows)) / state.tau
        exact, spots = np.empty(len(place)), np.arange(len(place))
        cls = np.concatenate([pairs.cls, np.arange(problem.k)])[: len(place)]
        exact_diagonal(penalty, columns, place, cls, V, s, exact)
        gram[spots, spots] = np.maximum(gram[spots, spots], exact / state.tau)
        return gram

    def _active_rows(self, state: _State) -> Any:
        """The rows that have curvature, or None for all."""
        return None

    def _copied(self, problem: Any, state: _State, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Copies of the columns of the working set, one in a row, and each pair's place among them; the last row is all ones."""
        features = np.unique(pairs.feature)
        new = features[state.place[features] < 0]
        if len(new) or state.columns is None:
            held = 0 if state.columns is None else len(state.columns) - 1
            columns = np.zeros((held + len(new) + 1, problem.n), dtype=self.precision)
            columns[:held] = 0.0 if held == 0 else state.columns[:held]
            columns[-1] = 1.0
            if problem.matrix.is_sparse or problem.matrix.has("cols"):
                spread_columns(problem.matrix.cols, new, columns[held:])
            else:
                gather_columns(problem.matrix.rows, new, columns[held:-1])
            state.columns, state.place[new] = columns, held + np.arange(len(new))
        return state.columns, state.place[pairs.feature]

    def _solve_columns(
        self, problem: Any, state: _State, penalty: Any, start: Any, slopes: Any, violation: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pairs, cols, (k, n) = state.pairs, problem.matrix.cols, state.V.shape
        tops = np.empty(pairs.m)
        largest_entries(cols, pairs.feature, tops)
        u, Z, Q, shift = start.copy(), np.zeros((k, n)), np.zeros(n), np.zeros(k)
        weighted = state.V * (problem.s / state.tau)
        boxes = BOX / np.maximum(tops, 1e-300)
        free = state.slope if problem.fit_intercept else np.empty(0)
        model = (pairs.feature, pairs.cls, state.V, weighted, slopes, boxes, start)
        work = (u, free, shift, Z, Q, np.empty(pairs.m))
        done = column_model(penalty, cols, *model, *work, 0.1 * violation, MOST_SWEEPS)
        state.sweeps += done
        state.accesses += 2.0 * done * float(problem.matrix.col_counts[pairs.feature].sum())
        Z -= shift[:, None]
        return u - start, shift, Z

    def _solve_products(self, problem: Any, state: _State, penalty: Any, start: Any, slopes: Any) -> tuple[Any, Any, Any]:
        """Conjugate gradients on all pairs for penalties without threshold: every product reads the data twice."""
        V, s, l2, free = state.V, problem.s / state.tau, penalty.strong_convexity, problem.fit_intercept
        d, k = problem.d, problem.k
        order = np.argsort(state.pairs.keys)  # pairs are sorted by class, W is by rows
        gradient = (slopes + l2 * start)[order].reshape(d, k)
        if free:
            gradient = np.vstack([gradient, state.slope])

        def product(D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            Z = np.ascontiguousarray(problem.margins(D[:d]).T)
            bent = V * (Z + (D[d][:, None] if free else 0.0))
            bent -= V * bent.sum(axis=0)
            bent *= s
            out = l2 * D[:d] + gradient_of(problem.matrix, np.ascontiguousarray(bent.T))
            return np.vstack([out, bent.sum(axis=1)]) if free else out, Z

        move, along = np.zeros_like(gradient), np.zeros_like(V)
        residual = -gradient
        direction, size = residual.copy(), float(np.vdot(residual, residual))
        goal = 1e-2 * size if state.gap > EARLY else 1e-6 * size
        for _ in range(MOST_PRODUCTS):
            bent, Z = product(direction)
            state.accesses += 2.0 * problem.size
            length = size / max(float(np.vdot(direction, bent)), 1e-300)
            move += length * direction
            along += length * Z
            residual -= length * bent
            size, last = float(np.vdot(residual, residual)), size
            if size <= goal:
                break
            direction = residual + size / last * direction
        back = np.empty(d * k)
        back[order] = move[:d].ravel()
        return back, move[d] if free else np.zeros(k), along

    def _product(self, problem: Any, pairs: Pairs, move: np.ndarray) -> np.ndarray:
        """X D, by classes, for a move D of the pairs."""
        if problem.matrix.is_sparse or problem.matrix.values.dtype != np.float64:
            along = np.zeros((problem.k, problem.n))
            add_pairs(problem.matrix.cols, pairs.feature, pairs.cls, move, along)
            return along
        values = problem.matrix.values
        features, at = np.unique(pairs.feature, return_inverse=True)
        if problem.k * problem.d <= GATHER * len(features):  # to copy columns takes longer than to multiply all of them
            features, at, part = np.arange(problem.d), pairs.feature, values
        else:
            part = values[:, features]
        step = np.zeros((problem.k, len(features)))
        step[pairs.cls, at] = move
        return np.dot(step, part.T)

    def _line_search(
        self, problem: Any, state: _State, penalty: Any, start: Any, slopes: Any, move: Any, shift: Any, along: Any
    ) -> bool:
        """A size among 1, 1/2, 1/4, ... with sufficient descent; moves the state there. False if there is none."""
        held = penalty.value(start)
        fall = float(slopes @ move) + float(state.slope @ shift) + penalty.value(start + move) - held
        base, size = state.smooth + held, 1.0
        while size >= 1e-7:
            b = state.b + size * shift
            sums = self._sums(problem, state, along, size, b, state.spare)
            if sums[0] + penalty.value(start + size * move) <= base + 1e-4 * size * min(fall, 0.0) + 1e-13 * abs(base):
                state.w[state.at(state.pairs.keys)] = start + size * move
                (state.T, state.V), state.spare = state.spare, [state.T, state.V]
                state.b = b
                self._take(state, sums)
                if size < 0.25:  # the model reached too far
                    state.damping = max(10.0 * state.damping, LEAST_DAMPING)
                elif size == 1.0:
                    state.damping = 0.1 * state.damping if state.damping > LEAST_DAMPING else 0.0
                return True
            size *= 0.5
            state.halvings += 1
        state.damping = max(100.0 * state.damping, LEAST_DAMPING)
        return False

    # -- the loss at the present point

    def _sums(self, problem: Any, state: _State, along: Any, size: float, b: Any, out: Any) -> tuple[float, float]:
        """The smooth loss and its limit at T + size along + b; margins and probabilities go to `out`."""
        where = (problem.loss, problem.codes, problem.s, state.T, along, size, b)
        return expand_rows(*where, self.margin, state.tau, *out, state.room)

    def _take(self, state: _State, sums: tuple[float, float]) -> None:
        """Keep the loss of the present point: that which is expanded, and that of the problem."""
        state.smooth = state.value = sums[0]

    def _balance(self, problem: Any, state: _State) -> None:
        state.b, sums = balance(problem, state.T, state.V, state.b, state.tau, self.margin, state.room)
        self._take(state, sums)

    def _multiply(self, problem: Any, state: _State) -> None:
        state.T = np.ascontiguousarray(problem.margins(self._weights(problem, state)).T)
        state.accesses += problem.size

    def _expand(self, problem: Any, state: _State) -> None:
        self._take(state, self._sums(problem, state, state.T, 0.0, state.b, [state.spare[0], state.V]))
        if problem.fit_intercept:
            self._balance(problem, state)

    def _judge(self, problem: Any, state: _State) -> None:
        """The slopes as the dual point, their products with all columns, and an estimate of the gap."""
        state.A, weighted = np.empty((problem.n, problem.k)), np.empty((problem.n, problem.k))
        slopes_of(problem.loss, problem.codes, problem.s, state.V, state.A, weighted)
        state.slope = weighted.sum(axis=0)
        self._multiply_slopes(problem, state, weighted)
        state.gap = self._estimate(problem, state)

    def _multiply_slopes(self, problem: Any, state: _State, weighted: np.ndarray) -> None:
        """G = X' weighted: all of it, or, by blocks of classes, the entries with a weight and the largest others."""
        state.accesses += problem.size
        if state.keys is None:
            state.G = gradient_of(problem.matrix, weighted).ravel()
            state.top, state.excess = float(largest(problem.penalty, state.G)), _excess(problem.penalty, state.G)
            return
        held = np.flatnonzero(state.w)
        support, weights = state.keys[held], state.w[held]
        stay = support if state.pairs is None else np.union1d(support, state.pairs.keys)
        room = 2 * (len(stay) + max(FEWEST, len(stay)))
        level = NEAR * problem.penalty.threshold * state.strengths[0]
        kept, slopes, state.top, state.excess = np.empty(0, dtype=np.int64), np.empty(0), 0.0, 0.0
        width = max(1, BLOCK // problem.d)
        for first in range(0, problem.k, width):
            G = gradient_of(problem.matrix, np.ascontiguousarray(weighted[:, first : first + width]))
            size = np.abs(G)
            state.top, state.excess = max(state.top, float(size.max())), state.excess + _excess(problem.penalty, G)
            rows, cls = np.nonzero(size > level)
            inside = stay % problem.k
            mine = stay[(inside >= first) & (inside < first + width)]
            keys = np.union1d(mine, rows * problem.k + first + cls)
            kept = np.concatenate([kept, keys])
            slopes = np.concatenate([slopes, G[keys // problem.k, keys % problem.k - first]])
            if len(kept) > room:  # those with a weight or in the model stay, and the largest others
                score = np.where(np.isin(kept, stay), np.inf, np.abs(slopes))
                chosen = np.argpartition(-score, room)[:room]
                kept, slopes = kept[chosen], slopes[chosen]
        order = np.argsort(kept)
        state.keys, state.G, state.w = kept[order], slopes[order], np.zeros(len(kept))
        state.w[state.at(support)] = weights

    def _estimate(self, problem: Any, state: _State) -> float:
        """A bound of the relative gap from what is at hand: l* is convex and 0 at 0, so D(t A) >= t (loss - <A, z>) - g*(-t G).

        The loss minus <A, z> is the sum of -l*(A), for slopes A; sum_i s_i <A_i, z_i> = <G, W> + slope.b.
        """
        penalty = problem.penalty
        primal = state.value + penalty.value(state.w)
        own = state.value - float(np.vdot(state.G, state.w)) - float(state.slope @ state.b)
        top, l1, l2 = state.top, penalty.threshold, penalty.strong_convexity
        share = min(1.0, l1 / top) if top > 0.0 else 1.0
        dual = share * own
        if l2 > 0.0:
            dual = max(dual, own - 0.5 / l2 * state.excess)
        return (primal - dual) / problem.scale
