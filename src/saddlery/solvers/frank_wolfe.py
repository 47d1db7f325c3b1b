"""Frank-Wolfe (conditional gradient) with the full gradient, for constraints and penalties that have a linear oracle.

One iteration, which is one epoch, with a = l'(Xw) and c = X'(s a):

    u = argmin_u c.u + g(u),   w <- (1 - t) w + t u,   t = 2 / (k + 2), or the best one on the way from w to u

The first open-loop step is a full one and forgets the start. It beats the line search on polytopes, where that zig-zags on a face.

========  =======================================  ==================================================
here      meaning                                  letters of Lu & Freund, eq. (7)
========  =======================================  ==================================================
w, u      iterate and atom                         beta, tilde beta
a, c      slopes, gradient X'(s a)                 w, grad f(beta)
t         step                                     alpha_i = 2 / (i + 2)
========  =======================================  ==================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.parts import kernel
from saddlery.penalties.base import best_atom
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver
from saddlery.solvers.frank_wolfe_steps import FrankWolfeState, atom_margins

__all__ = ["FrankWolfe", "best_step"]

EPS = float(np.finfo(float).eps)


@kernel(fast_sums=True)
def slope_along(loss, y, s, z, change, t):
    """Slope, curvature and sum of absolute slopes of t -> sum_i s_i l(y_i, z_i + t change_i)."""
    slope, curvature, size = 0.0, 0.0, 0.0
    for i in range(y.shape[0]):
        at = z[i] + t * change[i]
        term = s[i] * change[i] * loss.slope(y[i], at)
        slope += term
        size += abs(term)
        curvature += s[i] * change[i] * change[i] * loss.curvature(y[i], at)
    return slope, curvature, size


@kernel
def best_step(loss, y, s, z, change, tilt):
    """argmin over t in [0, 1] of sum_i s_i l(y_i, z_i + t change_i) + t tilt: Newton steps inside a bracket."""
    low, high, t = 0.0, 1.0, 0.0
    for _ in range(100):
        slope, curvature, size = slope_along(loss, y, s, z, change, t)
        slope += tilt
        if (t == 0.0 and slope >= 0.0) or (t == 1.0 and slope <= 0.0) or abs(slope) <= 4.0 * EPS * (size + abs(tilt)):
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        trial = t - slope / curvature if curvature > 0.0 else 1.0
        if trial >= 1.0 and high == 1.0:  # the end is an answer too
            trial = 1.0
        elif not low < trial < high:
            trial = 0.5 * (low + high)
        if trial == t or high - low <= EPS:
            break
        t = trial
    return t


class _State(FrankWolfeState):
    """w, X w, the slopes there and the gradient."""

    def __init__(self, problem: Any, start: Point | None, rng: np.random.Generator):
        super().__init__(problem, start, rng)
        self.Xw = problem.margins(self.v) if self.v.any() else np.zeros(problem.n)
        self.update_gradient(problem)
        self.initial_gradients = self.sample_gradients

    def update_gradient(self, problem: Any) -> None:
        self.a = problem.slopes(self.Xw)
        self.Xta = problem.matrix.rmatvec(problem.s * self.a)
        self.accesses += problem.matrix.nnz
        self.sample_gradients += self.order.size


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """Frank-Wolfe with the full gradient, for smooth losses and bounded penalties, without intercept.

    Its trace has the best points so far; step by step the open-loop rule goes up and down.

    Parameters
    ----------
    step_rule : {"open_loop", "line_search"}
        Step 2 / (k + 2), or the best step (with the penalty replaced by its chord). Only with a line search does each step improve.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0, 0.0], [0.0, 1.0]], [3.0, 1.0], "squared", sd.penalties.L1Ball(2.0))
    >>> sd.solve(problem, FrankWolfe("line_search")).w
    array([2., 0.])
    """

    name = "frank_wolfe"
    paper = "Frank & Wolfe 1956; Jaggi 2013; baseline of Lu & Freund 2020"
    needs = Needs(loss=("slope", "curvature", "conjugate"), penalty=("atom", "atom_value"), smooth=True, no_intercept=True)

    step_rule: str = "open_loop"

    def __post_init__(self) -> None:
        if self.step_rule not in ("open_loop", "line_search"):
            raise InputError(f'step_rule must be "open_loop" or "line_search", not {self.step_rule!r}')

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, start, rng)

    def step(self, problem: Any, state: _State) -> None:
        count, lowest = best_atom(problem.penalty, state.Xta, state.index, state.value)
        index, value = state.index[:count], state.value[:count]
        Xu = atom_margins(problem.matrix, index, value)
        t = 2.0 / (state.iterations + 2.0)
        if self.step_rule == "line_search":
            tilt = lowest - float(state.Xta[index] @ value) - problem.penalty.value(state.v)  # g(u) - g(w)
            t = best_step(problem.loss, problem.y, problem.s, state.Xw, Xu - state.Xw, tilt)
            state.stalled = t == 0.0
        state.v *= 1.0 - t
        state.v[index] += t * value
        state.Xw += t * (Xu - state.Xw)
        state.update_gradient(problem)
        state.accesses += float(problem.matrix.col_counts[index].sum())
        state.iterations += 1
        state.oracle_calls += 1

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.v, 0.0, state.a, Xw=state.Xw, Xta=state.Xta, fresh=True)

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw = problem.margins(state.v)
        state.update_gradient(problem)
