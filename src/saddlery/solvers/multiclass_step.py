"""One Newton step of a multiclass problem: its model is made and minimised, and the loss searched along the result.

The letters are those of multiclass_newton.py. A Gram matrix costs n m^2 for m pairs, one product of the exact curvature with a move
only n (d + m / k) k. So large Gram matrices are made of a sample (multiclass_edges.py), or used again at the next point, and the
model of all rows at the present point is minimised with steps of the rough one (:meth:`NewtonStep._refine`). A model that is solved
so well is worth its price because of its dual point (multiclass_state.py); far from the end the rough model does.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from saddlery.matrix.held_columns import gather_columns
from saddlery.solvers.column_copies import spread_columns
from saddlery.solvers.gram_model import worst_violation
from saddlery.solvers.multiclass_columns import ColumnStep
from saddlery.solvers.multiclass_dense import DenseMove
from saddlery.solvers.multiclass_edges import edge_gram
from saddlery.solvers.multiclass_model import (
    Curvature,
    Pairs,
    alike_gram,
    best_of_two,
    gram_model,
    pair_gram,
)
from saddlery.solvers.multiclass_rows import add_pairs, gradient_of
from saddlery.solvers.multiclass_state import SAFE, NewtonState

__all__ = ["NewtonStep", "is_little"]

LITTLE = 200_000  # numbers X x k: on so few a round costs less than a check
EARLY = 0.05  # estimated relative gap above which models need not be solved with care
SCALED = 0.6  # of what is asked for that may be lost when the dual point of a model is scaled to be feasible
TALL = 1000  # rows from which on models are made of a sample of edges
CHEAP = 2.5e8  # products: a Gram matrix that takes fewer is made of all rows (isolet at 0.1 alpha_max with 3e7: 88 -> 166 ms),
CHEAP_LATER = 3e7  # or, after a start from a part of the rows, one that takes fewer than these (satimage at 0.1: 9.8 -> 8 ms),
CHEAP_EARLY = 1e7  # or of all of that part
WORTHWHILE = 0.05  # edges, in units of rows times squared classes, beyond which all rows take no longer
SOME = 1000  # rows that tell the mean curvature of a class
RARE = 0.3  # share of its curvature that a pair may have in a sample; below, it gets all of it
SINGLE = 1e-3  # estimated relative gap above which single precision is enough for every model
MOST_INNER = 20  # steps of a rough model towards the minimum of that of all rows
PRECONDITION = 3  # rounds that one of these steps may take
PATIENCE = 3  # of them before their contraction is judged
HOPELESS = 0.8  # mean contraction above which they end, and the next rough model takes more rows
SLOW = 0.5  # mean contraction of these steps above which the rough model is made anew
LEAST_DAMPING = 1e-6
NOT_SPARSE = 0.1  # share of non-zeros in the columns of a working set from which on they are worked on as an array
SMALL = 50_000_000  # products: a Gram matrix that takes fewer is formed of sparse data too
MAX_GRAM = 4000  # pairs: beyond, no Gram matrix
MOST_PRODUCTS = 30  # of conjugate gradients
GROWTH = 1.3  # of how far the column form may reach, after a whole step
FARTHEST = 1e3  # in units of its first reach


def is_little(problem: Any) -> bool:
    """Whether steps cost next to nothing, so that they may go on to the last digits."""
    return problem.n * problem.d * problem.k <= LITTLE


class NewtonStep(ColumnStep):
    """The part of a Newton solver that takes a step; solvers say whether and how models may be rough."""

    sample: bool
    form: str

    precision: ClassVar[type] = np.float32  # of the columns that models of much data are made of

    def _newton_step(self, problem: Any, state: NewtonState, penalty: Any, violation: float) -> bool:
        """Solve the model, search along its solution; False if no step was taken."""
        pairs = state.pairs
        if violation == 0.0 or (pairs.m == 0 and not problem.fit_intercept):
            return False
        state.newton_steps += 1
        at = state.at(pairs.keys)
        start, slopes = state.w[at], state.G[at]
        state.forecast = None
        if self._is_gram(problem, state):
            move, shift, ends = self._solve_gram(problem, state, penalty, start, slopes, violation)
            along = self._product(problem, state, move)
            if self._may_end(problem, state):
                state.forecast = self._foresee(problem, state, start, move, shift, slopes, ends, along)
        elif penalty.threshold == 0.0:
            move, shift, along = self._solve_products(problem, state, penalty, start, slopes)
        else:
            move, shift, along = self._solve_columns(problem, state, penalty, start, slopes, violation)
        if self._reads_once(problem, state):
            along = self._product(problem, state, move)
            state.forecast = None if state.forecast is None else state.forecast._replace(along=along)
        return self._line_search(problem, state, penalty, start, slopes, move, shift, along)

    def _is_gram(self, problem: Any, state: NewtonState) -> bool:
        pairs = state.pairs
        if self.form != "auto" or state.gram is not None:
            return self.form != "columns"
        if pairs.m > MAX_GRAM:
            return False
        if not problem.matrix.is_sparse or pairs.m == 0:
            return True
        features = np.unique(pairs.feature)
        numbers = len(features) * problem.n
        return pairs.m * numbers <= SMALL or float(np.diff(problem.matrix.csc.indptr)[features].sum()) > NOT_SPARSE * numbers

    # -- the Gram form

    def _solve_gram(
        self, problem: Any, state: NewtonState, penalty: Any, start: Any, slopes: Any, violation: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The moves of the pairs and of the intercepts, and the slopes of the model at its end."""
        free, m = problem.k if problem.fit_intercept else 0, len(start)
        state.made_now = state.gram is None
        if state.made_now:
            state.gram = self._gram(problem, state, penalty, free)
            state.factor = [None, None]
            state.models += 1
        u, q = np.concatenate([start, np.zeros(free)]), np.concatenate([slopes, state.slope[:free]])
        gram = state.gram
        if state.damping > 0.0:
            state.factor = [None, None]
            gram = gram + np.diag(np.full(len(gram), state.damping * gram.trace() / len(gram)))
        goal = violation * (0.1 if state.gap > EARLY else 0.01)
        enough = 0.0  # the violation of the model at which its dual point is good enough to end
        if self._may_end(problem, state):
            enough = max(1e-4 * violation, SCALED * self._excess_worth(problem, state))
        state.refined = None
        if self.samples_models and not (state.made_now and not state.sampled):
            rate = self._refine(problem, state, penalty, gram, u, q, free, goal, enough)
            state.refined = None if rate is None else rate <= SLOW
            if state.made_now and rate is not None and rate > HOPELESS:
                state.edges_per_pair = min(2.0 * state.edges_per_pair, float(problem.n))
        else:
            state.sweeps += 8 * gram_model(penalty, gram, u, q, free, goal, state.factor)
            bent = float((q[:m] - slopes) @ (u[:m] - start)) + float((q[m:] - state.slope[:free]) @ u[m:])
            if self._may_end(problem, state) and bent <= self._near(problem, state):
                state.sweeps += 8 * gram_model(penalty, gram, u, q, free, enough, state.factor)
        return u[:m] - start, u[m:] if free else np.zeros(problem.k), q

    def _refine(
        self, problem: Any, state: NewtonState, penalty: Any, gram: Any, u: Any, q: Any, free: int, goal: float, enough: float
    ) -> float | None:
        """Minimise the model of all rows from u, in place, with steps of the rough model; q are the slopes of the former.

        The best combination of a step and the last one is taken: where no sign changes these are conjugate gradients, with the
        rough model as preconditioner. Returns the mean contraction: it tells whether the rough model is worth using again. A new
        rough model whose step is too long to end the run does by itself, and None is returned: products with all rows would make
        that step a little better, and the run no shorter (letter at 0.01 alpha_max: 0.15 -> 0.13 s on a busy machine).
        """
        m, near = len(u) - free, self._near(problem, state)
        start, slopes, may_end = u.copy(), q.copy(), self._may_end(problem, state)

        def worst() -> float:
            return max(worst_violation(penalty, u[:m], q[:m]), float(np.abs(q[m:]).max(initial=0.0)))

        def rough_move(violation: float) -> tuple[np.ndarray, np.ndarray]:
            """The move to the minimum of the rough model, and the change of its slopes."""
            trial, ends, care = u.copy(), q.copy(), max(0.05 * violation, 0.3 * goal)
            state.sweeps += 8 * gram_model(penalty, gram, trial, ends, free, care, state.factor, PRECONDITION)
            return trial - u, ends - q

        violation = first = worst()
        move, change = rough_move(violation)
        if state.made_now and float(move @ change) > near:
            u += move
            q += change
            return None
        product = self._curvature(problem, state, penalty, free)
        last, done, rate = None, 0, 0.0
        patience = HOPELESS if state.made_now else SLOW  # an old model can be made anew
        for done in range(1, (MOST_INNER if len(state.strengths) == 1 else 1) + 1):
            if done > 1:
                move, _ = rough_move(violation)
            bent = product(move)
            if done == 1 and may_end:  # unless the step is too long, or the dual point infeasible on pairs that are not here
                missed = product.largest_other(state.G) > penalty.threshold + enough / SCALED
                may_end = float(move @ bent) <= near and not missed
                goal = min(goal, enough) if may_end else goal
            last = best_of_two(penalty, u, q, move, bent, last, m, product)
            u += last[0]
            q += last[1]
            violation = worst()
            rate = (violation / first) ** (1.0 / done)
            ready = violation <= goal or (may_end and self._promised_gap(problem, state, start, slopes, u, q) <= SAFE * state.tol)
            if ready or (done >= PATIENCE and rate > patience):
                break
        state.accesses += 2.0 * done * problem.n * len(state.columns)
        return rate

    def _promised_gap(self, problem: Any, state: NewtonState, start: Any, slopes: Any, u: Any, q: Any) -> float:
        """The relative gap after the step to u, as the model sees it, with the model's dual point; q are its slopes there."""
        m = state.pairs.m
        move, shift = u[:m] - start[:m], u[m:]
        return self._promise(problem, self._foresee(problem, state, start[:m], move, shift, slopes[:m], q, state.along))

    def _curvature(self, problem: Any, state: NewtonState, penalty: Any, free: int) -> Curvature:
        """The function that multiplies H of all rows with a move of the pairs and the intercepts."""
        columns, _ = self._copied(problem, state, state.pairs)
        V, s = state.V.astype(columns.dtype), (problem.s / state.tau).astype(columns.dtype)
        return Curvature(penalty, columns, state.place, state.pairs, V, s, free)

    def _gram(self, problem: Any, state: NewtonState, penalty: Any, free: int) -> np.ndarray:
        """The model's matrix from all rows that matter, or from a sample of edges."""
        pairs, n = state.pairs, problem.n
        columns, place = self._copied(problem, state, pairs)
        if free:
            place = np.concatenate([place, np.full(free, len(columns) - 1)])
        V, s, size = state.V, problem.s, max(len(place), 1)
        if state.alike:
            state.sampled = False
            state.accesses += n * len(columns)
            return alike_gram(penalty, columns, place, pairs, V[:, 0], s, state.tau)
        edges = int(state.edges_per_pair * size)
        cheap = CHEAP_EARLY if state.is_part else CHEAP_LATER if state.from_sample else CHEAP
        exact = n < TALL or n * size**2 <= cheap or edges >= WORTHWHILE * n * problem.k**2
        state.sampled = self.sample and self.samples_models and not exact
        state.accesses += (min(edges, n) if state.sampled else n) * columns.shape[0]
        if not state.sampled:
            chosen = self._active_rows(state)
            if chosen is not None:
                columns, V, s = columns[:, chosen], np.ascontiguousarray(V[:, chosen]), s[chosen]
            little = columns.dtype == np.float64
            dtype = np.float32 if state.gap > SINGLE and not (little and self.samples_models) else columns.dtype
            return pair_gram(penalty, columns, place, pairs, V, s, state.tau, dtype)
        gram = edge_gram(penalty, problem.matrix.rows, pairs, V, s, problem.d, edges, free, state.rng)
        # Pairs that hardly occur in the sample have no curvature there, and their steps no end. Only these get what they have in
        # all rows: where classes almost cancel, a little on the diagonal is many times what there is.
        cls = np.concatenate([pairs.cls, np.arange(problem.k)])[: len(place)]
        for p in np.flatnonzero(gram.diagonal() < RARE * self._diagonal(problem, state, place, cls)):
            column, row = columns[place[p]], V[cls[p]]
            whole = float(np.dot(column * column, row * (1.0 - row) * s))
            gram[p, p] = whole if gram[p, p] < RARE * whole else gram[p, p]
        return gram

    def _diagonal(self, problem: Any, state: NewtonState, place: np.ndarray, cls: np.ndarray) -> np.ndarray:
        """About the curvature of pairs in all rows: as if x_ij^2 and V_il (1 - V_il) were independent."""
        part = state.V[:, :: max(problem.n // SOME, 1)]
        return state.squares[place] * (part * (1.0 - part)).mean(axis=1)[cls]

    def _active_rows(self, state: NewtonState) -> Any:
        """The rows that have curvature, or None for all."""
        return None

    def _precision(self, problem: Any) -> type:
        """Of the columns that models are made of. Few rows leave some directions with next to no curvature: there steps of rounded
        models do not settle, and solutions would depend on how rows are weighted or repeated in their last digits.
        """
        return np.float64 if is_little(problem) else self.precision

    def _copied(self, problem: Any, state: NewtonState, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Copies of the columns of the working set, one in a row, and each pair's place among them; the last row is all ones."""
        features = np.unique(pairs.feature)
        new = features[state.place[features] < 0]
        if len(new) or state.columns is None:
            held = 0 if state.columns is None else len(state.columns) - 1
            count = held + len(new) + 1
            if count > len(state.store):  # with room for more, which takes no memory until it is written to
                store = np.zeros((min(2 * count, problem.d + 1), problem.n), dtype=self._precision(problem))
                store[:held], state.store = state.store[:held], store
            columns = state.store[:count]
            columns[held], columns[-1] = 0.0, 1.0  # the row of ones moves; all behind it are zero still
            if problem.matrix.is_sparse or problem.matrix.has("cols"):
                spread_columns(problem.matrix.cols, new, columns[held:])
            else:
                gather_columns(problem.matrix.rows, new, columns[held:-1])
            squares = np.dot(columns[held:] * columns[held:], problem.s.astype(columns.dtype))
            state.squares = np.append(state.squares[:held], squares)
            state.columns, state.place[new] = columns, held + np.arange(len(new))
        return state.columns, state.place[pairs.feature]

    def _product(self, problem: Any, state: NewtonState, move: np.ndarray) -> Any:
        """X D, by classes, for a move D of the pairs; D itself where the data are read once."""
        pairs = state.pairs
        if self._reads_once(problem, state):
            D = np.zeros((problem.k, problem.d))
            D[pairs.cls, pairs.feature] = move
            return DenseMove(D)
        along = state.along
        along[:] = 0.0
        add_pairs(problem.matrix.cols, pairs.feature, pairs.cls, move, along)
        return along

    # -- the other forms

    def _solve_products(self, problem: Any, state: NewtonState, penalty: Any, start: Any, slopes: Any) -> tuple[Any, Any, Any]:
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

    # -- along the solution of a model

    def _line_search(
        self, problem: Any, state: NewtonState, penalty: Any, start: Any, slopes: Any, move: Any, shift: Any, along: Any
    ) -> bool:
        """A size among 1, 1/2, 1/4, ... with sufficient descent; moves the state there. False if there is none."""
        held = penalty.value(start)
        fall = float(slopes @ move) + float(state.slope @ shift) + penalty.value(start + move) - held
        base, size = state.smooth + held, 1.0
        if isinstance(along, DenseMove) and state.forecast is not None and self._may_trust(problem, state):
            state.w[state.at(state.pairs.keys)] = start + move
            state.smooth = state.value = state.forecast.primal - problem.penalty.value(state.w)
            state.unseen, state.alike, state.fresh = True, False, None
            return True
        while size >= 1e-7:
            b = state.b + size * shift
            sums = self._sums(problem, state, along, size, b, state.spare)
            if sums[0] + penalty.value(start + size * move) <= base + 1e-4 * size * min(fall, 0.0) + 1e-13 * abs(base):
                state.w[state.at(state.pairs.keys)] = start + size * move
                (state.T, state.V), state.spare = state.spare, [state.T, state.V]
                state.b, state.alike = b, False
                self._take(state, sums)
                state.reach = min(GROWTH * state.reach, FARTHEST) if size == 1.0 else max(size * state.reach, 1.0)
                if size < 0.25:  # the model reached too far
                    state.damping = max(10.0 * state.damping, LEAST_DAMPING)
                elif size == 1.0:
                    state.damping = 0.1 * state.damping if state.damping > LEAST_DAMPING else 0.0
                return True
            size *= 0.5
            state.halvings += 1
        state.fresh = None
        state.damping = max(100.0 * state.damping, LEAST_DAMPING)
        return False
