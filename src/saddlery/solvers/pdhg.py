"""Restarted primal-dual hybrid gradient: any loss with any penalty or constraint that has a prox, intercept or not.

It needs nothing but two proxes and two products, so it serves what others refuse, such as the hinge on a simplex. One iteration,
in the norm sum_i s_i a_i^2 of the dual, where the row weights cancel:

    w+ = prox_g(w - tau X'(s a), tau)             a+ = prox_{l*}(a + sigma X(2 w+ - w), sigma)             tau sigma lambda_max <= 1

With an intercept the data are centred, X - 1 m' with the means m = X's, which changes only the intercept: b + m.w instead of b.
Weights and intercept do not disturb each other then, and each has its own step. Only products are corrected, no data are copied.

Averages converge faster in theory and the last iterates in practice, so whichever has the smaller gap is judged, and the method
starts anew from it once the gap has fallen enough (Applegate et al. 2021); then the balance of the two steps is set from how far
both players have moved. Products are linear: those of averages cost no pass.

=============  =====================================================================
here           meaning
=============  =====================================================================
balance        omega: sigma / tau = omega^2
speed          sqrt(tau sigma) = 0.98 / sqrt(lambda_max(X' diag(s) X))
unit           sqrt(lambda_max): the intercept is measured in it, so that it is no faster or slower than the weights
=============  =====================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.frank_wolfe_steps import largest_eigenvalue
from saddlery.solvers.saddle_pair import SaddlePair, gap_of

__all__ = ["PDHG"]

ENOUGH, SOME = 0.2, 0.8  # a gap that fell by the first factor starts anew at once, by the second if it has begun to rise
LONGEST = 0.36  # share of all iterations after which a run starts anew whatever the gap


@kernel
def dual_step(loss, y, a, z, shift, sigma, out):
    """out_i = prox of sigma l* at a_i + sigma (z_i + shift)."""
    for i in range(y.shape[0]):
        out[i] = loss.dual_prox(y[i], a[i] + sigma * (z[i] + shift), sigma)


@kernel
def row_dual_step(loss, codes, A, S, old, shift, sigma, row, out):
    """out_i = prox of sigma l* at A_i + sigma (2 S_i - old_i + shift), for row losses; `row` is room for one row."""
    for i in range(codes.shape[0]):
        for m in range(row.shape[0]):
            row[m] = A[i, m] + sigma * (2.0 * S[i, m] - old[i, m] + shift[m])
        loss.row_dual_prox(codes[i], row, sigma, out[i])


class _State(State):
    def __init__(self, pair: SaddlePair, speed: float, balance: float):
        self.now = self.mean = self.start = self.judged = pair
        self.speed, self.balance = speed, balance
        self.means: np.ndarray | None = None
        self.unit = 1.0
        self.since = self.iterations = self.restarts = 0
        self.start_gap = self.last_gap = math.inf

    @property
    def counts(self) -> dict[str, float]:
        return {"iterations": self.iterations, "restarts": self.restarts}


@dataclass(frozen=True)
class PDHG(Solver):
    """Restarted primal-dual hybrid gradient: any loss, any penalty or constraint with a prox, with or without intercept.

    Parameters
    ----------
    iterations : int
        Iterations in an epoch, each two passes over the data.
    """

    iterations: int = 10

    name = "pdhg"
    paper = "Chambolle & Pock 2011; restarts of Applegate et al. 2021"
    needs = Needs(
        kind=("linear", "multiclass"),
        loss=("value", "slope", "conjugate", "dual_prox"),
        row_loss=("row_value", "row_slope", "row_conjugate", "row_dual_prox"),
        penalty=("prox",),
        dense_weights=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        point = problem.first_point() if start is None else start
        w = point.w.toarray() if sp.issparse(point.w) else point.w
        w = _prox(problem, w, 0.0) if math.isinf(problem.penalty.value(w.reshape(-1))) else w
        Xw = problem.margins(w)
        a = problem.dual_point(problem.slopes(Xw, point.b) if point.dual is None else point.dual).a
        pair = SaddlePair(w, point.b, a, Xw, problem.gradient(a))
        means = problem.matrix.rmatvec(problem.s) if problem.fit_intercept else None
        top, passes = largest_eigenvalue(problem, means)
        top = math.sqrt(1.05 * top)  # the power method approaches from below
        gradient = math.sqrt(float(np.vdot(pair.Xta, pair.Xta)))
        # In units: sigma z moves a, whose size is the slope's; tau X'a moves w, whose size is not known: that of a first step.
        size = _length(problem, a)
        reach = math.sqrt(float(np.vdot(w, w))) or (size * size / gradient if gradient > 0.0 else 1.0)
        state = _State(pair, 0.98 / top if top > 0.0 else 1.0, size / reach if size > 0.0 else 1.0)
        state.means, state.unit = means, top or 1.0
        state.accesses += (passes + 2) * problem.size
        return state

    def step(self, problem: Any, state: _State) -> None:
        for _ in range(self.iterations):
            state.now = self._iterate(problem, state)
            state.since += 1
            state.iterations += 1
            if state.since == 1:
                state.mean = state.now.copy()
            else:
                state.mean = state.mean.average_in(problem.loss, state.now, 1.0 / state.since)
        state.accesses += 2 * self.iterations * problem.size
        gaps = [gap_of(problem, pair)[0] for pair in (state.now, state.mean)]
        gap, state.judged = (gaps[0], state.now) if gaps[0] <= gaps[1] else (gaps[1], state.mean.copy())
        rises, state.last_gap = gap > state.last_gap, gap
        long = state.since >= LONGEST * state.iterations
        if gap <= ENOUGH * state.start_gap or (gap <= SOME * state.start_gap and rises) or long:
            self._restart(problem, state, gap)

    def point(self, problem: Any, state: _State) -> Point:
        return state.judged.point()

    def resync(self, problem: Any, state: _State) -> None:
        now = state.judged
        state.judged = now._replace(Xw=problem.margins(now.w), Xta=problem.gradient(now.a))
        state.now = state.mean = state.start = state.judged
        state.since = 0

    # -- pieces

    def _iterate(self, problem: Any, state: _State) -> SaddlePair:
        now, tau, sigma = state.now, state.speed / state.balance, state.speed * state.balance
        b: Any
        if state.means is None:
            w, b = _prox(problem, now.w - tau * now.Xta, tau), now.b
        else:
            excess = problem.s @ now.a
            w = _prox(problem, now.w - tau * (now.Xta - np.multiply.outer(state.means, excess)), tau)
            b = now.b - tau * state.unit**2 * excess - state.means @ (w - now.w)
        Xw, a, shift = problem.margins(w), np.empty_like(now.a), 2.0 * b - now.b
        if problem.kind == "linear":
            dual_step(problem.loss, problem.y, now.a, 2.0 * Xw - now.Xw, float(shift), sigma, a)
        else:
            row_dual_step(problem.loss, problem.codes, now.a, Xw, now.Xw, shift, sigma, np.empty(problem.k), a)
        return SaddlePair(w, b, a, Xw, problem.gradient(a))

    def _restart(self, problem: Any, state: _State, gap: float) -> None:
        """Go on from the judged pair; the steps are balanced by how far both points went since the last start."""
        move, far = state.judged.w - state.start.w, 0.0
        if state.means is not None:
            shift = (state.judged.b - state.start.b + state.means @ move) / state.unit
            far = float(np.vdot(shift, shift))
        far = math.sqrt(far + float(np.vdot(move, move)))
        wide = _length(problem, state.judged.a - state.start.a)
        if far > 0.0 and wide > 0.0 and math.isfinite(state.start_gap):
            state.balance = math.exp(0.5 * math.log(wide / far) + 0.5 * math.log(state.balance))
        state.now = state.mean = state.start = state.judged
        state.since, state.start_gap, state.last_gap = 0, gap, math.inf
        state.restarts += 1


def _prox(problem: Any, w: np.ndarray, tau: float) -> np.ndarray:
    """The prox of the penalty; of a matrix it sees the entries in a row."""
    return problem.penalty.prox(w.reshape(-1), tau).reshape(w.shape)


def _length(problem: Any, a: np.ndarray) -> float:
    """sqrt(sum_i s_i ||a_i||^2)."""
    return math.sqrt(float(problem.s @ (a * a).reshape(problem.n, -1).sum(axis=1)))
