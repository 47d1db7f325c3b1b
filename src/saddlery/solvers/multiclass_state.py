"""Where a Newton solver of a multiclass problem stands, and what it knows of that point: loss, slopes, a dual point, the gap.

The letters are those of multiclass_newton.py. Two dual points are at hand. The slopes V of the loss at the present point are nearly
feasible only where that point is nearly optimal to many digits: on letter at 0.01 alpha_max the objective is right to 1e-6 when the
gap is still 1e-2. The other one belongs to the last Newton model, whose slopes at its own minimum are

    V + V (Z - <V, Z>)        Z = X D, the move

and feasible as far as the model was solved (:meth:`Present._judge_model`). It is taken where it should end the run.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from saddlery.penalties.base import largest
from saddlery.point import Point
from saddlery.problems.multiclass import BLOCK, Extremes
from saddlery.solvers.base import Solver, State
from saddlery.solvers.multiclass_dense import DenseMove, dense_model, dense_pass, is_dense
from saddlery.solvers.multiclass_rows import add_pairs, balance, expand_rows, gradient_of, model_rows, new_room, weigh_slopes

__all__ = ["Forecast", "NewtonState", "Present"]

FEWEST = 64  # pairs that may enter in one round, at least,
FEW = 32  # or one in so many of all pairs, or rows,
PER_CLASS = 5  # or, where there are fewer pairs than rows, so many for each class (letter at 0.1: 32.7 -> 31.5 ms)
NEAR = 0.8  # share of the threshold above which a slope makes a pair of tall data enter: the model can then be used longer
FEW_WEIGHTS = 8  # one in so many, below which margins are added up by single weights (mnist at 0.1: 46 -> 11 ms)
SAFE = 0.8  # of the gap that is asked for: where a model promises this, it need not be solved further
THIRD = 1.0  # of terms of third order that a forecast allows for, in units of (D'HD)^(3/2)


class Forecast(NamedTuple):
    """What a Newton model says of its own dual point: the value before it is scaled to be feasible, the derivative along that ray,
    the largest slope on its pairs; the objective after its step; with what that point is made of."""

    own: float
    ray: float
    top: float
    primal: float
    along: Any
    shift: np.ndarray
    V: np.ndarray


class NewtonState(State):
    """Where the solver stands; see the table in multiclass_newton.py."""

    def __init__(self, problem: Any, b: np.ndarray, rng: np.random.Generator):
        k, n = problem.k, problem.n
        large = problem.is_large and problem.penalty.threshold > 0.0
        # The entries of W and G that are kept, in the order of W by rows: all, or those in `keys` where all would be too many.
        self.keys: Any = np.empty(0, dtype=np.int64) if large else None
        self.w = np.zeros(0 if large else problem.d * k)
        self.G = np.zeros(len(self.w))
        self.top = self.excess = 0.0  # max |G| over all entries, sum (|G| - threshold)_+^2
        self.b, self.rng, self.codes = b, rng, problem.codes
        block = np.empty((6, k, n))  # at once: large arrays take large pages, and pages of small ones took 9 of 64 ms on letter
        self.V, self.T, self.spare = block[0], block[2], [block[3], block[1]]
        self.along, self.weighted = block[4], block[5]  # X D; s (V - Y)
        self.fewest = max(FEWEST, min(problem.d * k, n) // FEW, PER_CLASS * k if problem.d * k <= n else 0)
        self.room = new_room(k)
        self.tau = 1.0
        self.smooth = self.value = 0.0  # the loss that is expanded, and that of the problem
        self.slope = np.zeros(k)  # sum_i s_i A_i
        self.judged = False  # whether G and A are those of the present point
        self.dual: Any = None  # a dual point and its product that are better than A and G
        self.fresh: Any = None  # X'(s A) by classes, where the pass that made V made this too
        self.alike = False  # whether all rows have the same probabilities
        self.unseen, self.trusting = False, True  # whether the last step was taken unseen, and whether steps may be
        self.given: Any = None  # the start, until the first step
        self.against = 0.0  # sum_i s_i (1 - V_iy)
        self.strengths: list[float] = [1.0]
        self.gap, self.violation, self.idle = np.inf, np.inf, 0
        self.place = np.full(problem.d, -1, dtype=np.int64)  # of a feature in the copied columns
        self.columns: Any = None
        self.store = np.empty((0, n))  # they, and room for more
        self.squares = np.empty(0)  # sum_i s_i x_ij^2 of these
        self.pairs: Any = None
        self.gram: Any = None
        self.factor: Any = [None, None]  # a face of the model and the factor of its matrix there
        self.forecast: Forecast | None = None
        self.sampled = self.made_now = self.from_sample = self.is_part = False
        self.refined: bool | None = (
            None  # whether the last model did well in the place of the exact one; None if it was not used so
        )
        self.edges_per_pair = 0.0
        self.reach = 1.0  # of steps of the column form, in units of the least
        self.damping = 0.0  # added to the diagonal of models, in units of its mean, where they reached too far
        self.newton_steps = self.sweeps = self.halvings = self.models = 0
        self._slopes: Any = None

    @property
    def A(self) -> np.ndarray:
        """The slopes V' - Y, by rows."""
        if self._slopes is None:
            self._slopes = slopes_by_rows(self.V, self.codes)
        return self._slopes

    def forget_slopes(self) -> None:
        """Take note that V has changed."""
        self._slopes = self.dual = None

    def at(self, keys: np.ndarray) -> np.ndarray:
        """Where these entries of W are kept."""
        return keys if self.keys is None else np.searchsorted(self.keys, keys)

    @property
    def counts(self) -> dict[str, float]:
        return {"newton_steps": self.newton_steps, "models": self.models, "sweeps": self.sweeps, "halvings": self.halvings}


def slopes_by_rows(V: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """V' - Y, of shape (n, k)."""
    A = np.ascontiguousarray(V.T)
    A[np.arange(len(codes)), codes] -= 1.0
    return A


def _excess(penalty: Any, G: np.ndarray) -> float:
    """sum (|G| - threshold)_+^2, if that matters."""
    if penalty.strong_convexity == 0.0:
        return 0.0
    excess = np.abs(G) - penalty.threshold
    excess = excess[excess > 0.0]
    return float(excess @ excess)


def value_on_ray(own: float, ray: float, top: float, threshold: float) -> float:
    """About D(t A) for the largest t <= 1 with t top <= threshold, given D(A) = own and its derivative there.

    D is concave along the ray and 0 at 0; of the quadratic with these three data it differs by terms of the order (1 - t)^2.
    """
    t = min(1.0, threshold / max(top, 1e-300))
    return t * own + t * (1.0 - t) * max(own - ray, 0.0)


class Present(Solver):
    """The part of a Newton solver that knows the present point."""

    margin: ClassVar[float] = 0.0  # that the loss asks of the classes; 1 for the hinge

    def point(self, problem: Any, state: NewtonState) -> Point:
        b = state.b - state.b.mean()  # a shift of all classes changes nothing: of all such intercepts, those that sum to zero
        G: Any = None
        if state.dual is not None:
            A, G = state.dual
        else:
            A = state.A
            if state.keys is None:
                G = state.G.reshape(problem.d, problem.k)
            elif problem.penalty.strong_convexity == 0.0:  # the largest entry says all; else the problem asks for them all again
                G = Extremes(np.array([state.top]))
        if state.unseen or 0.0 < state.gap <= state.tol:  # the last certificate: what it must not take from us is left out at once
            return Point(self._weights(problem, state), b, A, Xta=G, fresh=True)
        margins = state.T.T if self._has_margins(problem, state) else None
        return Point(self._weights(problem, state), b, A, margins, G, state.value, fresh=True)

    def _weights(self, problem: Any, state: NewtonState) -> Any:
        """W, as an array or sparse."""
        if state.keys is None:
            return state.w.reshape(problem.d, problem.k)
        held = np.flatnonzero(state.w)
        places = np.divmod(state.keys[held], problem.k)
        return sp.csr_array((state.w[held], places), shape=(problem.d, problem.k))

    # -- the loss

    def _started(self, problem: Any, state: NewtonState) -> NewtonState:
        """All that is known of the point of W and b, afresh."""
        if self._reads_once(problem, state):
            at = DenseMove(np.zeros((problem.k, problem.d)))
            self._take(state, self._sums(problem, state, at, 0.0, state.b, [state.T, state.V]))
            if problem.fit_intercept:
                self._balance(problem, state)
        else:
            if state.w.any():
                self._multiply(problem, state)
            else:
                state.T[:] = 0.0
            self._expand(problem, state)
        state.alike = self.margin == 0.0 and not state.w.any()
        self._judge(problem, state)
        return state

    def _reads_once(self, problem: Any, state: NewtonState) -> bool:
        """Whether margins, softmax and slopes are made in one pass over the data."""
        return state.keys is None and is_dense(problem)

    def _has_margins(self, problem: Any, state: NewtonState) -> bool:
        """Whether T is kept: not where it is made anew with every pass and nothing else needs it."""
        return problem.fit_intercept or self.margin > 0.0 or not self._reads_once(problem, state)

    def _multiply(self, problem: Any, state: NewtonState) -> None:
        W, matrix = self._weights(problem, state), problem.matrix
        if matrix.is_sparse and state.keys is None and FEW_WEIGHTS * np.count_nonzero(state.w) < len(state.w):
            held = np.flatnonzero(state.w)
            state.T[:] = 0.0
            add_pairs(matrix.cols, held // problem.k, held % problem.k, state.w[held], state.T)
        else:
            state.T[:] = problem.margins(W).T
        state.accesses += problem.size

    def _expand(self, problem: Any, state: NewtonState) -> None:
        self._take(state, self._sums(problem, state, state.T, 0.0, state.b, [state.spare[0], state.V]))
        if problem.fit_intercept:
            self._balance(problem, state)

    def _sums(self, problem: Any, state: NewtonState, along: Any, size: float, b: Any, out: Any) -> tuple[float, float]:
        """The smooth loss and its limit at T + size along + b; margins and probabilities go to `out`."""
        state.fresh = None
        if isinstance(along, DenseMove):
            W, G = state.w.reshape(problem.d, problem.k).T + size * along.D, np.empty((problem.k, problem.d))
            wanted = not problem.fit_intercept and not self._is_last(problem, state)
            data = (problem.loss, problem.matrix.values, problem.codes, problem.s, W, b)
            sums: tuple[float, float] = dense_pass(
                *data, self.margin, state.tau, state.room, *out, G, self._has_margins(problem, state), wanted
            )
            state.accesses += problem.size
            state.fresh = G if wanted else None
            return sums
        where = (problem.loss, problem.codes, problem.s, state.T, along, size, b)
        return expand_rows(*where, self.margin, state.tau, *out, state.room)

    def _take(self, state: NewtonState, sums: tuple[float, float]) -> None:
        """Keep the loss of the present point: that which is expanded, and that of the problem."""
        state.smooth = state.value = sums[0]

    def _balance(self, problem: Any, state: NewtonState) -> None:
        state.b, sums = balance(problem, state.T, state.V, state.b, state.tau, self.margin, state.room)
        self._take(state, sums)

    # -- dual points

    def _judge(self, problem: Any, state: NewtonState) -> None:
        """The slopes as the dual point, their products with all columns, and an estimate of the gap."""
        if state.unseen:  # and it was not the last
            state.unseen = state.trusting = False
            self._started(problem, state)
            return
        state.forget_slopes()
        if state.fresh is not None:
            self._keep_products(problem, state, np.ascontiguousarray(state.fresh.T))
        else:
            weighted = state.weighted
            weigh_slopes(problem.loss, problem.codes, problem.s, state.V, weighted)
            state.slope = weighted.sum(axis=1) if problem.fit_intercept else np.zeros(problem.k)
            self._multiply_slopes(problem, state, weighted.T)
        state.gap = self._estimate(problem, state)
        state.judged = True

    def _judge_model(self, problem: Any, state: NewtonState) -> bool:
        """Take the dual point of the last model if it is good enough to end; False if not, or if nothing is known of it."""
        forecast, state.forecast = state.forecast, None
        if forecast is None or state.tol <= 0.0:
            return False
        own, ray, top, _, along, shift, V = forecast
        primal, threshold = state.value + problem.penalty.value(state.w), problem.penalty.threshold

        def gap(top: float) -> float:
            return (primal - value_on_ray(own, ray, top, threshold)) / problem.scale

        if gap(top) > state.tol:
            return False
        state.accesses += problem.size
        if isinstance(along, DenseMove):
            A, product = np.empty((problem.n, problem.k)), np.empty((problem.k, problem.d))
            where = (problem.loss, problem.matrix.values, problem.codes, problem.s, V)
            dense_model(*where, along.D, shift, state.room, A, product)
            G = np.ascontiguousarray(product.T)
        else:
            if problem.fit_intercept:
                along += shift[:, None]
            model_rows(problem.loss, V, 0, along, state.room)
            weighted = state.weighted
            weigh_slopes(problem.loss, problem.codes, problem.s, along, weighted)
            G = gradient_of(problem.matrix, weighted.T)
        expected = gap(float(largest(problem.penalty, G.ravel())))  # also of the pairs that the model did not hold
        if expected > state.tol:
            return False
        state.dual = (A if isinstance(along, DenseMove) else slopes_by_rows(along, problem.codes), G)
        state.gap = expected
        return True

    def _is_last(self, problem: Any, state: NewtonState) -> bool:
        """Whether the model of this step promises to end the run: the slopes after it are not needed then."""
        return state.forecast is not None and self._promise(problem, state.forecast) <= state.tol

    def _may_trust(self, problem: Any, state: NewtonState) -> bool:
        """Whether the last step may be taken unseen: the certificate that follows will look at it."""
        if problem.fit_intercept or not state.trusting or state.forecast is None:
            return False
        return self._promise(problem, state.forecast) <= SAFE * state.tol

    def _promise(self, problem: Any, forecast: Forecast) -> float:
        """The relative gap after a step, as its model sees it, with the dual point of the model."""
        dual = value_on_ray(forecast.own, forecast.ray, forecast.top, problem.penalty.threshold)
        return (forecast.primal - dual) / float(problem.scale)

    def _keep_products(self, problem: Any, state: NewtonState, G: np.ndarray) -> None:
        """G = X'(s A), all of it, as the slopes of the present point."""
        state.G = G.ravel()
        state.top, state.excess = float(largest(problem.penalty, state.G)), _excess(problem.penalty, state.G)

    def _multiply_slopes(self, problem: Any, state: NewtonState, weighted: np.ndarray) -> None:
        """G = X' weighted: all of it, or, by blocks of classes, the entries with a weight and the largest others."""
        state.accesses += problem.size
        if state.keys is None:
            self._keep_products(problem, state, gradient_of(problem.matrix, weighted))
            return
        held = np.flatnonzero(state.w)
        support, weights = state.keys[held], state.w[held]
        stay = support if state.pairs is None else np.union1d(support, state.pairs.keys)
        room = 2 * (len(stay) + max(state.fewest, len(stay)))
        level = NEAR * problem.penalty.threshold * state.strengths[0]
        kept, slopes, state.top, state.excess = np.empty(0, dtype=np.int64), np.empty(0), 0.0, 0.0
        width = max(1, BLOCK // problem.d)
        for first in range(0, problem.k, width):
            G = gradient_of(problem.matrix, weighted[:, first : first + width])
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

    def _estimate(self, problem: Any, state: NewtonState) -> float:
        """The relative gap from what is at hand: the loss minus <A, z> is the sum of -l*(A), and z its gradient, for slopes A;
        sum_i s_i <A_i, z_i> = <G, W> + slope.b.
        """
        penalty = problem.penalty
        primal = state.value + penalty.value(state.w)
        ray, l2 = -float(np.vdot(state.G, state.w)) - float(state.slope @ state.b), penalty.strong_convexity
        own = state.value + ray
        dual = value_on_ray(own, ray, state.top, penalty.threshold)
        if l2 > 0.0:
            dual = max(dual, own - 0.5 / l2 * state.excess)
        return (primal - dual) / problem.scale

    def _excess_worth(self, problem: Any, state: NewtonState) -> float:
        """The excess of the largest slope over the threshold that costs a dual point, scaled back, all of the gap asked for.

        The value falls by (1 - t) times its derivative along the ray, and that is g(W) at the optimum.
        """
        return problem.penalty.threshold * state.tol * problem.scale / max(problem.penalty.value(state.w), 1e-300)

    def _near(self, problem: Any, state: NewtonState) -> float:
        """D'HD of a step from which on terms of third order are small enough for its model to end the run."""
        return float(problem.scale) * (state.tol / THIRD) ** (2.0 / 3.0)

    def _foresee(
        self,
        problem: Any,
        state: NewtonState,
        start: np.ndarray,
        move: np.ndarray,
        shift: np.ndarray,
        slopes: np.ndarray,
        ends: np.ndarray,
        along: Any,
    ) -> Forecast:
        """The forecast of a model from its slopes on the pairs, at its start and at its end.

        With delta = Z - <V, Z> the entropy of V (1 + delta) is that of V in first order, less <V, delta^2> / 2, and the sum of the
        latter is D'HD: D(V + V delta) = loss - <slopes at the end, W> - D'HD / 2, but for terms of third order.
        """
        m, penalty = len(start), problem.penalty
        free = len(ends) - m
        fall = 0.5 * (float((ends[:m] + slopes) @ move) + float((ends[m:] + state.slope[:free]) @ shift[:free]))
        primal = state.value + penalty.value(state.w) + fall + penalty.value(start + move) - penalty.value(start)
        bend = float((ends[:m] - slopes) @ move) + float((ends[m:] - state.slope[:free]) @ shift[:free])
        third = THIRD * max(bend / problem.scale, 0.0) ** 0.5
        ray = -float(ends[:m] @ start) - float(ends[m:] @ state.b[:free])
        own = state.value + ray - (0.5 + third) * bend
        ray -= float(ends[:m] @ move) + float(ends[m:] @ shift[:free])
        return Forecast(own, ray, float(np.abs(ends[:m]).max(initial=0.0)), primal, along, shift, state.V)
