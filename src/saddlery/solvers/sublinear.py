"""The sublinear algorithm of Babichev, Ostrovskii and Bach (2019) for the multiclass hinge with l1: O(n + d + k) for each step.

Stochastic mirror descent on ``min_W max_V alpha ||W||_1 + sum_i s_i (<V_i - Y_i, x_i W> + 1 - V_iy)`` with entropies on both sides,
where each step samples one entry of W and one of V (full sampling). The point is the average of all iterates, weighted by their
steps. ``sublinear_steps.py`` has the steps.

===========  =================================================  =============================================================
here         meaning                                            letters of the paper
===========  =================================================  =============================================================
W            primal point, net of the two halves                U = U+ - U-
A = V - Y    dual point                                         V - Y
radius       ||W||_1 <= radius                                  R_*
gamma        step                                               gamma, eq. (35)
cU, cV       2 gamma L R with L = log(2dk), 2 gamma log k       the factors in UPDATEPRIMAL and UPDATEDUAL; cV times BALANCE
exponent     largest exponent of a primal step                  4 gamma L R sum_i s_i tau_i
===========  =================================================  =============================================================

Weights of rows enter the law of the rows and the norms of the columns: a row of weight 2 is the row twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from saddlery.errors import InputError
from saddlery.matrix.vectors import weighted_square_norms
from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.mirror_descent import first_radius
from saddlery.solvers.sublinear_sparse import settle_rows, sparse_steps
from saddlery.solvers.sublinear_steps import BLOCK, DUAL_SLOTS, FLUSH, PRIMAL_SLOTS, dense_steps, flush_dual, flush_primal

__all__ = ["Sublinear"]

BALANCE = 3.0  # dual steps in units of the paper's: the same gap in the end, and about half of it at the beginning
LONG = 1e6  # steps: beyond, the exponent falls like the root of their number
DENSE_CHECK, SPARSE_CHECK = 60.0, 4.0  # multiplications of a check that take as long as a step takes for one entry of X
CHECKS = 9.0  # the steps between two checks take at most this many times as long as a check
FIRST_SLOTS, GROWTH = 16, 4  # each growth copies what is there, so there should be few
FLUSH_EVERY = 16  # steps for each class on dense data; sparse steps flush row by row, and all rows once an epoch
NUMBERS = 20_000_000  # uniform numbers that are drawn at a time, at most


@dataclass(frozen=True)
class HingeNeeds(Needs):
    """Of the losses only the hinge, whose dual steps are multiplications."""

    def missing(self, problem: Any) -> list[str]:
        phrases = super().missing(problem)
        if problem.kind in self.kinds and not getattr(problem.loss, "conjugate_is_linear", False):
            phrases.append(f"the multiclass hinge (steps for {type(problem.loss).__name__} cannot be that cheap)")
        return phrases


@kernel
def largest_entries(vectors, out):
    """out_i = max_p |entry_p| of vector i; 0 for an empty one."""
    for i in range(out.shape[0]):
        top = 0.0
        for p in range(vectors.first(i), vectors.last(i)):
            top = max(top, abs(vectors.entry(p)))
        out[i] = top


class LazyPair:
    """The pair of points and their sums in lazy form; see ``sublinear_steps.py`` for the names.

    Parameters
    ----------
    problem : MulticlassProblem
        Its matrix, classes and weights.
    radius : float
        Both halves of W together start with this sum, spread evenly.
    """

    def __init__(self, problem: Any, radius: float):
        n, d, k = problem.n, problem.d, problem.k
        self.radius = radius
        # facts of the data
        tau, self.tops, squares = np.empty(n), np.empty(d), np.empty(d)
        largest_entries(problem.matrix.rows, tau)
        largest_entries(problem.matrix.cols, self.tops)
        weighted_square_norms(problem.matrix.cols, problem.s, squares)
        self.t, self.scales, self.sigma = problem.s * tau, _inverse(tau), np.sqrt(squares)
        self.law = np.cumsum(self.t)
        self.sigma_blocks = np.add.reduceat(self.sigma, np.arange(0, d, BLOCK))
        # primal
        slots = min(FIRST_SLOTS, k)
        self.numbers = np.array([1.0, 0.0, (radius / (2.0 * d * k)) ** 2, 0.0])
        self.used, self.columns = np.zeros(2, dtype=np.int64), np.zeros((3, slots))
        self.u, self.u_sums, self.u_blocks = np.empty((slots, d)), np.empty((slots, d)), np.empty((slots, len(self.sigma_blocks)))
        self.u_order, self.u_slot = np.arange(k), np.arange(k)
        # dual
        self.size = math.ceil(math.sqrt(k))
        self.v, self.v_sums, self.v_blocks = np.empty((slots, n)), np.empty((slots, n)), np.zeros((-(-k // self.size), n))
        self.v_order, self.v_slot = np.arange(k), np.arange(k)
        self.base, self.base_sums = np.full(n, 1.0 / k), np.zeros(n)
        self.beta, self.B, self.vy, self.off = np.ones(n), np.zeros(n), np.full(n, 1.0 / k), np.full(n, 1.0 - 1.0 / k)
        # sparse data
        self.g, self.Z, self.whole, self.seen = self.vy.copy(), self.off.copy(), self.off.copy(), np.zeros(n, dtype=np.int64)
        self.counts = np.zeros(2, dtype=np.int64)

    def run(self, problem: Any, steps: tuple[float, ...], uniforms: np.ndarray) -> float:
        """A step for each row of `uniforms`, with room for new columns and flushes as they are asked for; returns entries read."""
        done, call = 0, self._sparse_steps if problem.matrix.is_sparse else self._dense_steps
        self.counts[1] = 0
        while done < len(uniforms):
            count, why = call(problem, steps, uniforms[done:])
            done += count
            if why == PRIMAL_SLOTS:
                self.u, self.u_sums, self.u_blocks = (_grown(values, problem.k) for values in (self.u, self.u_sums, self.u_blocks))
                self.columns = np.ascontiguousarray(_grown(self.columns.T, problem.k).T)
            elif why == DUAL_SLOTS:
                self.v, self.v_sums = _grown(self.v, problem.k), _grown(self.v_sums, problem.k)
            elif why == FLUSH:
                self.flush(problem, steps)
        return float(self.counts[1]) if problem.matrix.is_sparse else float(done) * (problem.n + problem.d)

    def _primal(self) -> tuple[np.ndarray, ...]:
        return self.used, self.u, self.u_sums, self.u_blocks, self.columns, self.u_order, self.u_slot

    def _dual(self) -> tuple[np.ndarray, ...]:
        return self.v, self.v_sums, self.v_blocks, self.base, self.base_sums, self.v_order, self.v_slot

    def _dense_steps(self, problem: Any, steps: tuple[float, ...], uniforms: np.ndarray) -> tuple[int, int]:
        rows, cols = problem.matrix.rows, problem.matrix.cols
        facts = (problem.codes, self.t, self.scales, self.sigma, self.sigma_blocks, self.tops)
        state = (*self._primal(), *self._dual(), self.beta, self.B, self.vy, self.off, self.size)
        return dense_steps(rows, cols, *facts, steps, uniforms, self.numbers, *state)

    def _sparse_steps(self, problem: Any, steps: tuple[float, ...], uniforms: np.ndarray) -> tuple[int, int]:
        rows, cols = problem.matrix.rows, problem.matrix.cols
        facts = (problem.codes, self.law, self.scales, self.sigma, self.sigma_blocks)
        state = (*self._primal(), *self._dual(), self.g, self.Z, self.whole, self.B, self.seen, self.size)
        return sparse_steps(rows, cols, *facts, steps, uniforms, self.numbers, self.counts, *state)

    def flush(self, problem: Any, steps: tuple[float, ...]) -> None:
        """Multiply in what is pending: all scales are 1 then, and the sums are complete."""
        rows, y = problem.matrix.rows, problem.codes
        flush_primal(rows, self.sigma, self.numbers, self.used, self.u, self.u_sums, self.u_blocks, self.columns)
        if problem.matrix.is_sparse:
            lazy = (self.g, self.Z, self.B, self.seen, self.beta, self.vy)
            settle_rows(rows, self.counts[0], steps[1], steps[5], *lazy)
            self.counts[0] = 0
        dual = (self.v, self.v_sums, self.v_blocks, self.base, self.base_sums, self.v_slot)
        flush_dual(rows, y, self.numbers, self.used, *dual, self.beta, self.B, self.vy, self.off, self.size)
        self.g[:], self.Z[:], self.whole[:] = self.vy, self.off, self.off

    def is_finite(self) -> bool:
        """Whether the pair is made of numbers; to be asked after a flush."""
        totals = self.columns[:, : self.used[0]].sum() + self.vy.sum() + self.base.sum() + self.v_blocks.sum() + self.numbers.sum()
        return bool(np.isfinite(totals))

    def averages(self, problem: Any, weight: float) -> tuple[Any, np.ndarray]:
        """W and A = V - Y: the sums, which must be complete, divided by the weight of all steps."""
        classes, count = self.u_order[: self.used[0]], self.used[0]
        if problem.is_large:
            starts = np.zeros(problem.k + 1, dtype=np.int64)
            order = np.argsort(classes)
            starts[classes + 1] = problem.d
            rows = np.tile(np.arange(problem.d), count)
            values = (self.u_sums[:count][order] / weight).reshape(-1)
            W = sp.csc_array((values, rows, np.cumsum(starts)), shape=(problem.d, problem.k)).tocsr()
        else:
            W = np.zeros((problem.d, problem.k))
            W[:, classes] = self.u_sums[:count].T / weight
        A = np.repeat(self.base_sums[:, None], problem.k, axis=1)
        A[:, self.v_order[: self.used[1]]] = self.v_sums[: self.used[1]].T
        A /= weight
        np.maximum(A, 0.0, out=A)
        here = np.arange(problem.n)
        A[here, problem.codes] = 0.0
        off = A.sum(axis=1)
        A *= (np.minimum(off, 1.0) * _inverse(off))[:, None]  # rounding must not take a row out of the simplex
        A[here, problem.codes] = -A.sum(axis=1)
        return W, A


def _inverse(values: np.ndarray) -> np.ndarray:
    """1 / values, and 0 for 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0.0)


def _grown(values: np.ndarray, most: int) -> np.ndarray:
    """Room for more rows, at most so many; pages that nobody writes to take no memory."""
    out = np.empty((min(GROWTH * len(values), most), *values.shape[1:]))
    out[: len(values)] = values
    return out


class _State(State):
    """The lazy pair, what the step rule knows, and the last pair of averages with its products."""

    def __init__(self, pair: LazyPair, rng: np.random.Generator, exponent: float, last: Point):
        self.pair, self.rng, self.exponent, self.last = pair, rng, exponent, last
        self.steps, self.weight = 0, 0.0
        self.gap, self.judged, self.restarts = math.inf, 0, 0

    @property
    def counts(self) -> dict[str, float]:
        return {
            "steps": float(self.steps),
            "radius": self.pair.radius,
            "exponent": self.exponent,
            "restarts": float(self.restarts),
            "primal_slots": float(self.pair.used[0]),
            "dual_slots": float(self.pair.used[1]),
        }


@dataclass(frozen=True)
class Sublinear(Solver):
    """The sublinear algorithm: a step reads one row and one column of X, whatever k is.

    For the multiclass hinge with an l1 penalty or ball, without intercept. Memory grows with the classes that were drawn, not with
    d k.

    What to expect: **a rough model quickly, and no high accuracy ever**. The gap falls like one over the root of the number of
    steps. On the synthetic problem of the paper (n = d = k, alpha = 1e-3, P(0) = 1) a million steps certify a gap of about 0.03 at
    200, 0.08 at 400 and 0.2 at 1000. ``pdhg`` is faster to any gap below about 0.1, and the default faster still. On sparse X a
    step reads only the entries of one row and one column, but rows are drawn by a fixed law, which makes gaps larger by a third or
    more after as many steps.

    Parameters
    ----------
    exponent : float
        The largest exponent by which a primal step may multiply an entry of W. It is halved whenever the gap is larger than it was
        after half as many steps, and falls like one over the root of the steps beyond a million.
    radius : float, optional
        A bound on ``||W||_1`` that the caller knows to hold for the optimum. By default P(0) / alpha, which is lowered to
        P(W) / alpha whenever a check finds a lower objective P(W); no optimum is cut off by that.
    steps_per_epoch : int, optional
        Steps of an epoch, so that ``max_epochs * steps_per_epoch`` is a budget in steps. By default between one and nine times as
        many as take the time of a certificate. ``max_accesses`` of :func:`saddlery.solve` is a budget in entries of X.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 20))
    >>> problem = sd.MulticlassProblem(X, np.argmax(X[:, :4], axis=1), "hinge", sd.penalties.L1(0.02))
    >>> solution = sd.solve(problem, Sublinear(steps_per_epoch=20_000), tol=0.0, max_epochs=4)
    >>> solution.certificate.gap < 0.1
    True
    """

    name = "sublinear"
    paper = "Babichev, Ostrovskii & Bach 2019, Algorithm 1"
    needs = HingeNeeds(
        kind="multiclass", loss=("row_value", "row_conjugate"), penalty=("value", "conjugate"), l1=True, no_intercept=True
    )

    exponent: float = 0.3
    radius: float | None = None
    steps_per_epoch: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.exponent <= 2.0:
            raise InputError(f"exponent must lie in (0, 2], not {self.exponent!r}")
        if self.radius is not None and not 0.0 < self.radius < math.inf:
            raise InputError(f"radius must be a positive number, not {self.radius!r}")
        if self.steps_per_epoch is not None and self.steps_per_epoch < 1:
            raise InputError(f"steps_per_epoch must be at least 1, not {self.steps_per_epoch!r}")

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        """The iterates begin at the centre; a start is certified first, and bounds the radius."""
        last = problem.first_point() if start is None else start
        radius, alpha = first_radius(problem, self.radius), problem.penalty.threshold
        if start is not None and self.radius is None and alpha > 0.0:
            radius = min(radius, problem.primal(start.w) / alpha)
        return _State(LazyPair(problem, radius), rng, self.exponent, last)

    def step(self, problem: Any, state: _State) -> None:
        pair = state.pair
        count = self._length(problem, state)
        steps = self._factors(problem, state)
        chunk = max(FLUSH_EVERY * problem.k, 256) if not problem.matrix.is_sparse else NUMBERS // 4
        for first in range(0, count, chunk):
            uniforms = state.rng.random((min(chunk, count - first), 4))
            state.accesses += pair.run(problem, steps, uniforms)
            pair.flush(problem, steps)
            if not pair.is_finite():
                self._restart(problem, state)
                return
        state.steps += count
        state.weight += steps[5] * count
        self._check(problem, state)

    def _length(self, problem: Any, state: _State) -> int:
        """Steps of the next epoch: half of those done, at least as many as take the time of a check, at most nine times as many."""
        if self.steps_per_epoch is not None:
            return self.steps_per_epoch
        entries = problem.matrix.nnz / problem.n + problem.matrix.nnz / problem.d
        unit = SPARSE_CHECK if problem.matrix.is_sparse else DENSE_CHECK
        check = max(2.0 * problem.matrix.nnz * problem.k / (unit * max(entries, 1.0)), 1000.0)
        return math.ceil(min(max(check, 0.5 * state.steps), CHECKS * check))

    def _factors(self, problem: Any, state: _State) -> tuple[float, ...]:
        """cU, cV, exp(-cU alpha), theta, the radius, and the share of an iterate in the averages."""
        d, k, radius = problem.d, problem.k, state.pair.radius
        exponent = state.exponent * min(1.0, math.sqrt(LONG / max(state.steps, 1.0)))
        size = max(float(state.pair.t.sum()), np.finfo(float).tiny)
        gamma = exponent / (4.0 * radius * math.log(2.0 * d * k) * size)
        primal, dual = 2.0 * gamma * math.log(2.0 * d * k) * radius, BALANCE * 2.0 * gamma * math.log(k)
        return primal, dual, math.exp(-primal * problem.penalty.threshold), math.exp(-dual), radius, gamma

    def _restart(self, problem: Any, state: _State) -> None:
        """Steps were so long that numbers overflowed: begin anew with a quarter."""
        state.pair = LazyPair(problem, state.pair.radius)
        state.exponent *= 0.25
        state.restarts += 1
        state.steps, state.weight, state.gap, state.judged = 0, 0.0, math.inf, 0

    def _check(self, problem: Any, state: _State) -> None:
        """Certify the averages; shorter steps if the gap grew, a smaller radius if the objective fell."""
        W, A = state.pair.averages(problem, state.weight)
        S, Xta = problem.margins(W), problem.product(A)
        state.last = Point(W, np.zeros(problem.k), A, Xw=S, Xta=Xta, fresh=True)
        primal, dual = problem.evaluate(state.last)
        gap = primal - dual.value
        # Until each class was drawn so often that an entry of W can have gone all its way, the averages say nothing about the step.
        settled = 2.0 * problem.k * math.log(2.0 * problem.d * problem.k) / state.exponent
        if state.steps >= max(settled, 2.0 * state.judged):
            if gap > state.gap:
                state.exponent *= 0.5
            state.judged, state.gap = state.steps, gap
        if self.radius is None and problem.penalty.threshold > 0.0:
            state.pair.radius = min(state.pair.radius, primal / problem.penalty.threshold)

    def point(self, problem: Any, state: _State) -> Point:
        return state.last
