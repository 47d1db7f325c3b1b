"""Proximal Newton on working sets of (feature, class) pairs: softmax with l1, elastic net or l2, all classes at once.

A round takes the pairs with a weight and the worst of those that want one, minimises the Newton model of the loss on them (see
multiclass_model.py), and searches along the result. The exact curvature of softmax couples the classes; bounds of it, which would
make them separate problems, are about k/2 times too large.

What makes it fast: the dual point of the Newton model, which certifies rounds before the slopes do (multiclass_state.py); models of
a sample of edges (multiclass_edges.py) that stand in for the exact one (multiclass_step.py); and for tall data a start from the
solution on a part of the rows. The strength of the penalty comes down in steps of a factor of five, so that models stay small. On
letter at 0.01 alpha_max to 1e-4 that took 0.86 s without any of it, 0.34 with samples of rows and models used again, 0.14 with the
dual point and the start too, and 0.105 with edges.

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

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from saddlery.losses.softmax import Softmax
from saddlery.penalties.base import largest
from saddlery.point import Point
from saddlery.solvers.base import Needs
from saddlery.solvers.gram_model import worst_violation
from saddlery.solvers.multiclass_model import Pairs
from saddlery.solvers.multiclass_rows import RowNeeds
from saddlery.solvers.multiclass_state import NEAR, NewtonState
from saddlery.solvers.multiclass_step import NOT_SPARSE, NewtonStep, is_little
from saddlery.solvers.working_set import pick_columns

__all__ = ["MulticlassNewton"]

_State = NewtonState  # for the solvers that build on this one

STEP = 5.0  # between two strengths of the penalty
MOVE_ON = 0.5  # violation, as a share of the threshold, at which the strength falls
ALL = 1.5  # share of a working set that all pairs may have at most to be taken instead: the model then stays as it is
SAMPLE_FROM = 4000  # rows from which on a part of them is solved first
SAMPLE_SHARE = 8  # one row in so many, but at least
SAMPLE_ROWS = 2000  # so many
ROUGH = 0.1  # estimated relative gap at which that solution is good enough,
NOISE = 1.0  # or the next threshold, in units of what slopes of a part of the rows differ from those of all; less than one where
# there are fewer pairs than rows, by the root of their ratio: so much of the noise is fitted (letter at 0.01: 76 -> 67 ms)
EDGES_PER_PAIR = 16.0  # edges of a sample that a model is made of
EDGES_LATER = 32.0  # the same, after a start from a part of the rows
REUSE = 0.5  # fall of the violation in a step up to which the model is used again
ROUNDS = 10  # most Newton steps between two checks
POLISHED = 1e-11  # violation, as a share of the largest slope, to which little problems are solved
PROGRESS = 0.1  # fall of the estimated gap that is worth a check if no tolerance is asked for,
WORTH = 3e-3  # from this gap on


@dataclass(frozen=True)
class MulticlassNewton(NewtonStep):
    """Working-set proximal Newton for softmax with l1, elastic net or l2, with or without intercepts.

    Parameters
    ----------
    continuation : bool
        Come down to the strength of the penalty in steps of a factor of five.
    sample : bool
        Start tall problems from a part of the rows, and make large models of a sample.
    form : {"auto", "gram", "columns"}
        Form of the models; "auto" takes "gram" for dense data and for dense columns of sparse data.
    """

    continuation: bool = True
    sample: bool = True
    form: str = "auto"

    name = "multiclass_newton"
    paper = "newGLMNET's line of work with the exact softmax curvature; see docs/solvers.md"
    needs: ClassVar[Needs] = RowNeeds(
        kind="multiclass",
        only=(Softmax,),
        row_loss=("row_slope", "row_conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        smooth=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> NewtonState:
        b = problem.constant.copy() if start is None else np.array(start.b, dtype=np.float64)
        state = self._new_state(problem, b, rng)
        if start is not None:
            if state.keys is None:
                state.w = np.array(start.w.toarray() if sp.issparse(start.w) else start.w, dtype=np.float64).ravel()
            else:
                entries = sp.coo_array(start.w)
                keys = entries.row.astype(np.int64) * problem.k + entries.col
                order = np.argsort(keys)
                state.keys, state.w = keys[order], entries.data[order].astype(np.float64)
            return self._started(problem, state)
        if self.sample and problem.n >= max(SAMPLE_FROM, 2 * SAMPLE_ROWS) and self._start_from_sample(problem, state):
            return state
        self._started(problem, state)
        if self.continuation:
            state.strengths = self._strengths(problem, state)
        return state

    def _new_state(self, problem: Any, b: np.ndarray, rng: np.random.Generator) -> NewtonState:
        state = NewtonState(problem, b, rng)
        state.edges_per_pair = EDGES_PER_PAIR
        return state

    def _strengths(self, problem: Any, state: NewtonState) -> list[float]:
        """Factors of the penalty on the way down, from below half of where all weights are zero."""
        threshold, top = problem.penalty.threshold, state.top
        factors = [1.0]
        while threshold > 0.0 and factors[0] * threshold * STEP < 0.5 * top:
            factors.insert(0, factors[0] * STEP)
        return factors

    def _start_from_sample(self, problem: Any, state: NewtonState) -> bool:
        """Move to a rough solution on a part of the rows; False if a class is missing there.

        It need not be solved for thresholds that are less than the noise in its slopes: that would fit the noise.
        """
        rows = np.sort(state.rng.choice(problem.n, max(problem.n // SAMPLE_SHARE, SAMPLE_ROWS), replace=False))
        missing = np.bincount(problem.codes, problem.s, problem.k) > 0.0
        missing &= np.bincount(problem.codes[rows], problem.s[rows], problem.k) == 0.0
        if missing.any():
            return False
        small = problem.take_rows(rows)
        inner = self._started(small, self._new_state(small, state.b.copy(), state.rng))
        inner.is_part = True
        if self.continuation:
            inner.strengths = self._strengths(small, inner)
        for _ in range(50):
            self._round(small, inner)
            if len(inner.strengths) == 1:
                if inner.gap <= ROUGH:
                    break
            elif self.samples_models and problem.penalty.threshold * inner.strengths[1] < NOISE * self._noise(
                problem, small, inner
            ):
                penalty = problem.penalty.scaled(inner.strengths[0])
                if worst_violation(penalty, inner.w, inner.G) <= MOVE_ON * penalty.threshold:
                    break
        state.keys, state.w, state.b, state.tau = inner.keys, inner.w, inner.b, inner.tau
        state.from_sample, state.edges_per_pair, state.premature = True, EDGES_LATER, self.samples_models
        state.accesses += inner.accesses
        self._started(problem, state)
        if inner.gram is not None and self.samples_models:  # as good as one of a sample drawn now
            state.pairs, state.gram, state.factor, state.refined, state.sampled = inner.pairs, inner.gram, inner.factor, True, True
        return True

    def _noise(self, problem: Any, small: Any, inner: NewtonState) -> float:
        """The mean difference between slopes of a part of the rows and those of all, on the columns that models were made of; if
        there are few pairs, the part of it that they would fit.

        None is counted where columns are so sparse that models of all rows will have the column form: the better the start, the
        fewer of their sweeps (news20 at 0.01 alpha_max: 1.37 -> 1.1 s).
        """
        if inner.columns is None:
            return 0.0
        features = inner.place >= 0
        entries = small.matrix.nnz if not small.matrix.is_sparse else np.diff(small.matrix.csc.indptr)[features].sum()
        if entries <= NOT_SPARSE * small.n * features.sum():
            return 0.0
        sizes = (inner.V * inner.V).sum(axis=0) + 1.0 - 2.0 * inner.V[small.codes, np.arange(small.n)]  # |A_i|^2
        squares = np.einsum("ij,ij->j", inner.columns[:-1], inner.columns[:-1])
        pairs = max(small.k * (len(inner.columns) - 1), 1)
        return min(1.0, math.sqrt(small.d * small.k / small.n)) * float(
            np.sqrt((1.0 - small.n / problem.n) * (small.s**2 @ (sizes * squares)) / pairs)
        )

    def resync(self, problem: Any, state: NewtonState) -> None:
        self._started(problem, state)

    def step(self, problem: Any, state: NewtonState) -> None:
        """Rounds until the estimated gap is what is asked for, or enough of them."""
        before, little = state.gap, self.samples_models and is_little(problem)
        for _ in range(4 * ROUNDS if little else ROUNDS):
            moved = self._round(problem, state)
            state.idle = 0 if moved else state.idle + 1
            state.stalled = state.idle >= 5
            if little:  # judged where we are now: a step from an exact solution would only add noise
                done = self._next_penalty(problem, state)[1] <= POLISHED * largest(problem.penalty, state.G)
            else:
                done = state.gap <= (state.tol if state.tol > 0.0 else min(PROGRESS * before, WORTH))
            if state.stalled or (len(state.strengths) == 1 and done):
                break

    def _may_end(self, problem: Any, state: NewtonState) -> bool:
        return super()._may_end(problem, state) and not is_little(problem)

    def _round(self, problem: Any, state: NewtonState) -> bool:
        """One Newton step and the slopes thereafter."""
        if not state.judged:
            self._judge(problem, state)
        penalty, violation = self._next_penalty(problem, state)
        good = violation <= REUSE * state.violation if state.refined is None else state.refined
        state.violation = violation
        if not (good and state.gram is not None and self._covers(state, penalty, violation)):
            state.gram, state.pairs = None, self._working_set(problem, state, penalty)
        moved = self._newton_step(problem, state, penalty, violation)
        if not moved:
            state.gram, state.violation, state.refined = None, 0.0, None
            state.edges_per_pair = min(4.0 * state.edges_per_pair, float(problem.n))
            state.strengths = state.strengths[1:] or state.strengths
        if problem.fit_intercept:
            self._balance(problem, state)
        state.judged = False
        if not (moved and self._judge_model(problem, state)):
            self._judge(problem, state)
        return moved

    def _next_penalty(self, problem: Any, state: NewtonState) -> tuple[Any, float]:
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

    def _working_set(self, problem: Any, state: NewtonState, penalty: Any) -> Pairs:
        """The pairs with a weight, and as many again (or a few) of those whose slope exceeds the threshold most."""
        if penalty.threshold == 0.0:
            return Pairs(np.arange(problem.d * problem.k), problem.k)
        weights, slopes = state.w, state.G
        chosen = np.empty(len(weights) + 1, dtype=np.int64)
        level = (NEAR if problem.d * problem.k <= problem.n else 1.0) * penalty.threshold
        count, support = pick_columns(penalty, weights, slopes, level, chosen)
        chosen, most = chosen[:count], support + max(state.fewest, support)
        if state.from_sample and state.keys is None and ALL * min(count, most) >= len(weights):
            return Pairs(np.arange(len(weights)), problem.k)
        if count > most:
            score = np.where(weights[chosen] != 0.0, np.inf, np.abs(slopes[chosen]))
            chosen = np.sort(chosen[np.argpartition(-score, most - 1)[:most]])
        return Pairs(chosen if state.keys is None else state.keys[chosen], problem.k)

    def _covers(self, state: NewtonState, penalty: Any, violation: float) -> bool:
        """Whether the pairs of the last model are enough: none outside is nearly as bad as the worst."""
        slopes = np.abs(state.G)
        slopes[state.at(state.pairs.keys)] = 0.0
        return float(slopes.max(initial=0.0)) <= penalty.threshold + REUSE * violation
