"""Solutions that a solver has at once, with their certificates, for one strength of the penalty or for a path of them.

Where no dual point is made on the way, since its value was known without, it is computed from the data by who asks for it.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.point import Point
from saddlery.solvers.base import Record, Solution, Status, Trace

__all__ = ["CertifiedPoints", "may_be_at_once", "solutions_at_once"]

LONG = 1.0  # seconds: what is done at once takes some milliseconds, so that longer budgets cannot end within it
ROUNDING = 32 * float(np.finfo(float).eps)  # of a primal value, by which the dual value may seem to be above it


class CertifiedPoints(NamedTuple):
    """For several strengths: weights (rows), intercepts, primal and dual values with nonzeros (rows); the unit of gaps, a state.

    `duals` has the dual points as rows, or is None if they are those that the weights imply; `epochs` is what each took, None for
    none. A solver that could not reach the tolerance at one of the strengths may end there.
    """

    W: np.ndarray
    b: np.ndarray
    values: np.ndarray
    scale: float
    state: Any
    duals: np.ndarray | None = None
    epochs: list[int] | None = None


class _LateSolution(Solution):
    """A solution whose dual point is given by a function, which is called when the point is first asked for."""

    _dual: Any

    @property
    def dual(self) -> Any:
        if callable(self._dual):
            self._dual = self._dual()
        return self._dual

    @dual.setter
    def dual(self, value: Any) -> None:
        self._dual = value


def _residuals(problem: Any, factor: float, w: np.ndarray, b: float) -> np.ndarray:
    """The dual point of (w, b) under the penalty times a factor, made feasible."""
    single = problem if factor == 1.0 else problem.with_penalty(problem.penalty.scaled(factor))
    return single.evaluate(Point(w, b, None))[1].a


def may_be_at_once(problem: Any, method: Any, count: int, tol: float, heard: bool, max_epochs: int, max_seconds: float) -> bool:
    """Whether a solver may go to the end in one call, for so many strengths: it can, and nobody hears of its epochs or ends them.

    Of solvers whose points are no epochs of their own (`epochs_at_once` is 0) there is nothing to hear and to end.
    """
    if method.epochs_at_once > 0 and (heard or max_epochs < method.epochs_at_once or max_seconds < LONG or tol >= 1.0):
        return False
    return method.has_points(problem, count)


def solutions_at_once(
    problem: Any, method: Any, factors: np.ndarray, tol: float, rng: np.random.Generator | None = None
) -> tuple[list[Solution], Any]:
    """Solutions under the penalty times each factor by a solver that has `points`, and the state from which it would go on.

    Those that rounding has kept from the tolerance are not converged: they are for the caller to improve, as are the ones that are
    missing at the end.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0], [-1.0]], [1.0, -1.0], "squared", sd.penalties.L1(0.5))
    >>> (solution,), state = solutions_at_once(problem, sd.solvers.auto.resolve(problem, "covariance"), np.ones(1), 1e-6)
    >>> solution.w, solution.dual, solution.certificate.relative_gap <= 1e-6
    (array([0.5]), array([-0.5,  0.5]), True)
    """
    began = time.perf_counter()
    W, intercepts, values, scale, state, duals, epochs = method.points(problem, factors, tol, rng)
    state.solver = method.name
    seconds, passes = (time.perf_counter() - began) / len(W), state.accesses / max(problem.size, 1)
    solutions: list[Solution] = []
    points = zip(W, intercepts.tolist(), factors.tolist(), values.tolist(), strict=False)
    for k, (w, b, factor, (primal, dual, count)) in enumerate(points):
        gap = 0.0 if -ROUNDING * abs(primal) <= primal - dual < 0.0 else primal - dual
        relative = gap / scale if scale > 0.0 else math.inf  # a constant target: rounding is all there is to compare with
        epoch = 0 if epochs is None else epochs[k]
        record = Record(epoch, seconds, passes, primal, dual, gap, relative, int(count), {})
        certificate = Certificate(primal, dual, gap, relative, scale)
        a = partial(_residuals, problem, factor, w, b) if duals is None else duals[k]
        status = Status.CONVERGED if relative <= tol else Status.STALLED
        solutions.append(_LateSolution(w, b, a, certificate, Trace([record]), status, method.name, epoch, seconds, passes))
    return solutions, state
