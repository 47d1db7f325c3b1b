"""Proximal Newton on working sets of (feature, class) pairs: softmax with l1, elastic net or l2, all classes at once.

A round takes the pairs with a weight and the worst of those that want one, minimises the Newton model of the loss on them (see
multiclass_model.py), and searches along the result. The exact curvature of softmax couples the classes; bounds of it, which would make
them separate problems, are about k/2 times too large.

Three things make the rounds cheap. The strength comes down in a few steps from where all weights are zero (letter at 0.01: 0.33 ->
0.21 s), so that models stay small. While the gap is large, the model is made of a sample of the rows (0.86 -> 0.33 s). And G = X'(s A),
which the certificate needs, also says which pairs come next.

=========  ==================================================================  ============================
here       meaning                                                             letters of the notes
=========  ==================================================================  ============================
T, b       margins X W, by classes; z = T + b                                  S
V          softmax of the margins, by classes                                  P
A, G       slopes V - Y, the dual point; X'(s A)                               V - Y, G
u          weights of the pairs of the working set, being moved                u
strength   factor of the penalty in this round, 1 at the end                   lams
=========  ==================================================================  ============================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.multiclass_model import BOX, Pairs, column_model, exact_diagonal, gram_model, largest_entries, pair_gram
from saddlery.solvers.multiclass_rows import balance, expand_rows, gradient_of, new_room, slopes_of
from saddlery.solvers.prox_newton import pick_columns, worst_violation

__all__ = ["MulticlassNewton"]

SAMPLE_FROM = 4000  # rows
LEAST_ROWS = 2000  # of a sample
ROUGH = 0.03  # relative gap at which the solution on a sample of the rows is good enough to start from
EARLY = 0.05  # relative gap above which models are made of a sample of the rows
ROWS_PER_PAIR = 4  # in such a sample
FEWEST = 64  # pairs that may enter in one round, at least
MOVE_ON = 0.3  # violation, as a share of the strength, at which the strength falls
NOT_SPARSE = 0.1  # share of non-zeros in the columns of a working set from which on they are worked on as an array
MAX_GRAM = 4000  # pairs


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, w: np.ndarray, b: np.ndarray, rng: np.random.Generator):
        k, n = problem.k, problem.n
        self.w, self.b, self.rng = w, b, rng
        self.T, self.V = np.zeros((k, n)), np.empty((k, n))
        self.spare = [np.empty((k, n)), np.empty((k, n))]
        self.room = new_room(k)
        self.value = 0.0
        self.A: Any = None
        self.G: Any = None
        self.strengths: list[float] = [1.0]
        self.idle = 0
        self.columns: Any = None
        self.gram: Any = None
        self.gram_keys: Any = None
        self.frozen = self.followed = False
        self.last_violation = np.inf
        self.features: Any = None
        self.newton_steps = self.sweeps = self.halvings = 0

    @property
    def counts(self) -> dict[str, float]:
        return {"newton_steps": self.newton_steps, "sweeps": self.sweeps, "halvings": self.halvings}


@dataclass(frozen=True)
class MulticlassNewton(Solver):
    """Working-set proximal Newton for softmax with l1, elastic net or l2, with or without intercepts.

    Parameters
    ----------
    continuation : bool
        Come down to the strength of the penalty in steps of sqrt(10).
    sample : bool
        Make early models of a sample of the rows.
    form : {"auto", "gram", "columns"}
        Form of the models.
    """

    continuation: bool = True
    sample: bool = True
    form: str = "auto"

    name = "multiclass_newton"
    paper = "newGLMNET's line of work with the exact softmax curvature; see docs/solvers.md"
    needs = Needs(kind="multiclass", penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"), smooth=True)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        if start is None:
            w, b = np.zeros((problem.d, problem.k)), problem.constant.copy()
        else:
            w, b = np.array(start.w, dtype=np.float64), np.array(start.b, dtype=np.float64)
        state = _State(problem, w, b, rng)
        if start is None and self.sample and problem.n >= SAMPLE_FROM:
            self._start_from_sample(problem, state)
            start = self.point(problem, state)
        if state.w.any():
            self._multiply(problem, state)
        self._expand(problem, state)
        self._judge(problem, state)
        if start is None and self.continuation:
            state.strengths = self._strengths(problem, state)
        return state

    def _start_from_sample(self, problem: Any, state: _State) -> None:
        """Take over a rough solution on a part of the rows."""
        rows = np.sort(state.rng.choice(problem.n, max(problem.n // 8, LEAST_ROWS), replace=False))
        small = problem.take_rows(rows)
        inner = self.init(small, None, state.rng)
        for _ in range(50):
            primal, dual = small.evaluate(self.point(small, inner))
            inner.relative_gap = (primal - dual.value) / small.scale
            if inner.relative_gap <= ROUGH:
                break
            self.step(small, inner)
        state.w, state.b, state.followed = inner.w, inner.b, True
        state.accesses += inner.accesses

    def _strengths(self, problem: Any, state: _State) -> list[float]:
        """Factors of the penalty on the way down, in steps of sqrt(10) from below half of where all weights are zero."""
        threshold, top = problem.penalty.threshold, float(np.abs(state.G).max())
        factors = [1.0]
        while threshold > 0.0 and factors[0] * threshold * np.sqrt(10.0) < 0.5 * top:
            factors.insert(0, factors[0] * np.sqrt(10.0))
        return factors

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.A, state.T.T, state.G, state.value, fresh=True)

    def resync(self, problem: Any, state: _State) -> None:
        self._multiply(problem, state)
        self._expand(problem, state)
        self._judge(problem, state)

    def step(self, problem: Any, state: _State) -> None:
        penalty = self._penalty(problem, state)
        while True:
            violation = worst_violation(penalty, state.w.ravel(), state.G.ravel())
            if len(state.strengths) == 1 or violation > MOVE_ON * penalty.threshold:
                break
            state.strengths.pop(0)
            penalty = self._penalty(problem, state)
        pairs = self._working_set(problem, state, penalty)
        state.frozen = violation <= 0.2 * state.last_violation
        state.last_violation = violation
        moved = pairs.m + problem.fit_intercept > 0 and self._newton_step(problem, state, penalty, pairs, violation)
        if problem.fit_intercept:
            self._balance(problem, state)
        self._judge(problem, state)
        state.idle = 0 if moved else state.idle + 1
        if not moved and len(state.strengths) > 1:
            state.strengths.pop(0)
        state.stalled = state.idle >= 5

    def _penalty(self, problem: Any, state: _State) -> Any:
        return problem.penalty.scaled(state.strengths[0]) if state.strengths[0] != 1.0 else problem.penalty

    # -- the working set

    def _working_set(self, problem: Any, state: _State, penalty: Any) -> Pairs:
        """The pairs with a weight, and as many again (or a few) of those whose slope exceeds the threshold most."""
        if penalty.threshold == 0.0:
            return Pairs(np.arange(problem.d * problem.k), problem.k)
        weights, slopes = state.w.ravel(), state.G.ravel()
        chosen = np.empty(len(weights), dtype=np.int64)
        count, support = pick_columns(penalty, weights, slopes, penalty.threshold, chosen)
        chosen = chosen[:count]
        most = support + max(FEWEST, support)
        if count > most:
            score = np.where(weights[chosen] != 0.0, np.inf, np.abs(slopes[chosen]))
            chosen = chosen[np.argpartition(-score, most - 1)[:most]]
        return Pairs(np.sort(chosen), problem.k)

    # -- one Newton step

    def _newton_step(self, problem: Any, state: _State, penalty: Any, pairs: Pairs, violation: float) -> bool:
        state.newton_steps += 1
        start = state.w.ravel()[pairs.keys]
        if self._is_gram(problem, pairs):
            u, shift = self._solve_gram(problem, state, penalty, pairs, start, violation)
            along = self._product(problem, pairs, u - start)
        else:
            u, shift, along = self._solve_columns(problem, state, penalty, pairs, start, violation)
        return self._line_search(problem, state, penalty, pairs, start, u - start, along, shift)

    def _is_gram(self, problem: Any, pairs: Pairs) -> bool:
        if self.form != "auto":
            return self.form == "gram"
        if pairs.m > MAX_GRAM:
            return False
        if not problem.matrix.is_sparse or pairs.m == 0:
            return True
        features = np.unique(pairs.feature)
        return float(problem.matrix.col_counts[features].sum()) > NOT_SPARSE * len(features) * problem.n

    def _solve_gram(self, problem: Any, state: _State, penalty: Any, pairs: Pairs, start: Any, violation: float) -> tuple[Any, Any]:
        columns, place = self._columns(problem, state, pairs)
        free = problem.k if problem.fit_intercept else 0
        m, n = pairs.m, problem.n
        V, s = state.V, problem.s
        rows = ROWS_PER_PAIR * (m + free)
        rough = self.sample and not state.followed and state.relative_gap > EARLY and 2 * rows < n
        if free:
            pairs = _with_intercepts(pairs, problem.k)
            columns = np.concatenate([columns, np.ones((1, n), dtype=columns.dtype)])
            place = np.concatenate([place, np.full(free, len(columns) - 1)])
        if state.frozen and state.gram is not None and np.array_equal(pairs.keys, state.gram_keys):
            gram = state.gram
        elif rough:
            chosen = np.sort(state.rng.choice(n, rows, replace=False))
            gram = pair_gram(penalty, columns[:, chosen], place, pairs, V[:, chosen], s[chosen] / s[chosen].sum())
            exact = np.empty(len(place))
            exact_diagonal(penalty, columns, place, pairs.cls, V, s, exact)
            spots = np.arange(len(place))
            gram[spots, spots] = np.maximum(gram[spots, spots], exact)
        else:
            gram = pair_gram(penalty, columns, place, pairs, V, s)
        state.gram, state.gram_keys = (None if rough else gram), pairs.keys
        q = state.G.ravel()[pairs.keys[:m]]
        u = start.copy()
        if free:
            q = np.concatenate([q, state.slope])
            u = np.concatenate([u, state.b])
        state.sweeps += 8 * gram_model(penalty, gram, u, q, free, 0.01 * violation)
        state.accesses += columns.size
        return u[:m], u[m:] - state.b if free else np.zeros(problem.k)

    def _columns(self, problem: Any, state: _State, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """The columns of the working set as an array of shape (., n) in single precision, and each pair's place in it."""
        if state.columns is None:
            values = problem.matrix.values
            state.columns = np.ascontiguousarray(values.T if not problem.matrix.is_sparse else values.T.toarray(), dtype=np.float32)
        return state.columns, pairs.feature

    def _solve_columns(self, problem: Any, state: _State, penalty: Any, pairs: Pairs, start: Any, violation: float) -> tuple[Any, ...]:
        cols = problem.matrix.cols
        k, n = state.V.shape
        tops = np.empty(pairs.m)
        largest_entries(cols, pairs.feature, tops)
        u, Z, Q = start.copy(), np.zeros((k, n)), np.zeros(n)
        args = (pairs.feature, pairs.cls, state.V, problem.s * state.V, state.G.ravel()[pairs.keys], BOX / np.maximum(tops, 1e-300))
        state.sweeps += column_model(penalty, cols, *args, start, u, Z, Q, np.empty(pairs.m), 0.1 * violation, 200)
        return u, np.zeros(k), Z

    def _product(self, problem: Any, pairs: Pairs, move: np.ndarray) -> np.ndarray:
        """X D, by classes, for a move D of the pairs."""
        step = np.zeros((problem.d, problem.k))
        step[pairs.feature, pairs.cls] = move
        if problem.matrix.is_sparse:
            return np.ascontiguousarray((problem.matrix.values @ step).T)
        return np.dot(step.T, problem.matrix.values.T)

    def _line_search(self, problem: Any, state: _State, penalty: Any, pairs: Pairs, start: Any, move: Any, along: Any, shift: Any) -> bool:
        """A size among 1, 1/2, 1/4, ... with sufficient descent; moves the state there. False if there is none."""
        slopes = state.G.ravel()[pairs.keys]
        held = penalty.value(start)
        fall = float(slopes @ move) + penalty.value(start + move) - held
        if problem.fit_intercept:
            fall += float(state.slope @ shift)
        base = state.value + held
        size = 1.0
        while size >= 1e-7:
            b = state.b + size * shift
            value, _ = expand_rows(
                problem.loss, problem.codes, problem.s, state.T, along, size, b, 0.0, 1.0, *state.spare, state.room
            )
            if value + penalty.value(start + size * move) <= base + 1e-4 * size * min(fall, 0.0) + 1e-13 * abs(base):
                state.w.ravel()[pairs.keys] = start + size * move
                (state.T, state.V), state.spare = state.spare, [state.T, state.V]
                state.b, state.value = b, value
                return True
            size *= 0.5
            state.halvings += 1
        return False

    # -- the loss at the present point

    def _balance(self, problem: Any, state: _State) -> None:
        state.b, sums = balance(problem, state.T, state.V, state.b, 1.0, 0.0, state.room)
        state.value = sums[0]

    def _multiply(self, problem: Any, state: _State) -> None:
        state.T = np.ascontiguousarray(problem.margins(state.w).T)
        state.accesses += problem.size

    def _expand(self, problem: Any, state: _State) -> None:
        sums = expand_rows(problem.loss, problem.codes, problem.s, state.T, state.T, 0.0, state.b, 0.0, 1.0, *state.spare, state.room)
        (state.T, state.V), state.spare = state.spare, [state.T, state.V]
        state.value = sums[0]
        if problem.fit_intercept:
            self._balance(problem, state)

    def _judge(self, problem: Any, state: _State) -> None:
        """The slopes as the dual point, and their products with all columns."""
        state.A, weighted = np.empty((problem.n, problem.k)), np.empty((problem.n, problem.k))
        slopes_of(problem.loss, problem.codes, problem.s, state.V, state.A, weighted)
        state.slope = weighted.sum(axis=0)
        state.G = gradient_of(problem.matrix, weighted)
        state.accesses += problem.size


def _with_intercepts(pairs: Pairs, k: int) -> Any:
    raise NotImplementedError
