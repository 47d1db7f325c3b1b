"""Precision among k rows by adversarial prediction, exact for any number of rows.

The predictor calls exactly k of n rows positive, with marginals z; the adversary labels rows with marginals a that keep the means
of the features. The score E[hits] / k = <a, z> / k depends on marginals alone, so no table of sizes is needed:

    max_{w,b} <labels, X w + b> / n - alpha/2 |w|^2 + v((X w + b) / n),      v(c) = min_{a in [0,1]^n} top_k(a) / k - <a, c>

and the inner game has a closed form, ``v(c) = -max( sum_i c_i^+ - 1,  sum_i (c_i - 1/k)^+ )``: the predictor takes 1/k from each
positive c_i until its k rows are used up. With z = X w + b the learner minimises

    P(w, b) = max( mean z^+ - 1,  mean (z - n/k)^+ ) - mean [label] z + alpha/2 |w|^2

The larger of two values is the largest of their mixtures: for each share t of the first, the mixture is a linear problem with the
loss :class:`~saddlery.losses.two_hinges.TwoHinges`, whose dual point bounds P from below. Its optimum is concave in t, and the sign
of (first - second) at its solution says on which side the best t lies. The two nearest solutions, one on either side, have the
optimum between them where solutions jump.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.losses.two_hinges import TwoHinges
from saddlery.matrix import as_matrix
from saddlery.penalties.l2 import L2
from saddlery.problems.linear import LinearProblem
from saddlery.solvers.base import Record, Solution, Status, Trace
from saddlery.solvers.loop import solve

__all__ = ["precision_value", "solve_precision"]

SHARES = 60  # linear problems at most
NARROW = 1e-12  # shares nearer than this are one
INNER = 0.2  # share of the tolerance that each of them may use


def precision_value(z: np.ndarray, positive: np.ndarray, k: int) -> tuple[float, float]:
    """Both terms of P without the penalty: ``mean z^+ - 1`` and ``mean (z - n/k)^+``, each less the mean of z over positives.

    Examples
    --------
    >>> precision_value(np.array([2.0, -1.0]), np.array([True, False]), 1)
    (-1.0, -1.0)
    """
    own = float(np.where(positive, z, 0.0).mean())
    return float(np.maximum(z, 0.0).mean()) - 1.0 - own, float(np.maximum(z - z.size / k, 0.0).mean()) - own


def solve_precision(
    X: Any,
    labels: np.ndarray,
    k: int,
    alpha: float,
    fit_intercept: bool = True,
    tol: float = 1e-2,
    max_epochs: int = 1000,
    max_seconds: float | None = None,
    callbacks: tuple[Callable[[Record], Any], ...] = (),
) -> Solution:
    """Maximise the precision among k of the rows that a prediction is sure of, less the penalty; see the top of this file.

    Parameters
    ----------
    X : array-like, sparse matrix or Matrix of shape (n, d)
        Data.
    labels : array of 0 and 1 of shape (n,)
        Which rows are positive.
    k : int
        Rows that are called positive, from 1 to n.
    alpha : float
        Strength of the penalty ``alpha/2 |w|^2``.
    fit_intercept : bool
        Whether there is an intercept, which is not penalised.
    tol : float
        Bound on the gap, in units of the larger of both values.
    max_epochs, max_seconds : int, float
        Budgets of each linear problem, and of all.
    callbacks : tuple of callables
        Called with the values after each linear problem.

    Returns
    -------
    Solution
        Its values are minus those of the score. `dual` is the adversary's marginals less the labels.

    Examples
    --------
    >>> X, labels = np.array([[2.0], [1.0], [-1.0], [-2.0]]), np.array([1, 1, 0, 0])
    >>> solution = solve_precision(X, labels, 2, 0.1, fit_intercept=False, tol=1e-6)
    >>> solution.certificate.relative_gap <= 1e-6
    True
    """
    matrix = as_matrix(X)
    n = matrix.shape[0]
    if not 1 <= k <= n:
        raise InputError(f"k must be a number of rows from 1 to {n}, not {k!r}")
    positive = np.asarray(labels) == 1
    signs = np.where(positive, 1.0, -1.0)
    trace = Trace()
    began, low, high, status, epochs = time.perf_counter(), 0.0, 1.0, Status.STALLED, 0
    best, bound, w, b, dual, inner = np.inf, -np.inf, np.zeros(matrix.shape[1]), 0.0, np.zeros(n), None
    ends: dict[bool, tuple[np.ndarray, float]] = {}  # the nearest solutions with the first, and with the second value larger
    for number in range(SHARES):
        t = (0.0, 1.0)[number] if number < 2 else 0.5 * (low + high)
        problem = LinearProblem(matrix, signs, TwoHinges(t, n / k), L2(alpha), fit_intercept=fit_intercept)
        size = max(abs(best) if np.isfinite(best) else 0.0, abs(bound) if np.isfinite(bound) else 0.0, 1e-2)
        aim = INNER * tol * size
        inner = solve(problem, tol=aim / problem.scale if problem.scale > 0.0 else aim, max_epochs=max_epochs, start=inner)
        epochs += inner.epochs
        first, second = precision_value(problem.margins(inner.w) + inner.b, positive, k)
        ends[first > second] = inner.w, float(inner.b)
        value, found = _between(problem, positive, k, alpha, list(ends.values()))
        if value < best:
            best, (w, b) = value, found
        below = _dual_value(problem, positive, k, alpha, inner.dual)
        if below > bound:
            bound, dual = below, inner.dual
        scale = max(abs(best), abs(bound))
        gap = best - bound
        trace.append(Record(number + 1, time.perf_counter() - began, 0.0, best, bound, gap, gap / scale if scale else gap, w.size))
        for callback in callbacks:
            callback(trace[-1])
        if inner.status is Status.INTERRUPTED:
            status = Status.INTERRUPTED
            break
        if gap <= tol * scale:
            status = Status.CONVERGED
            break
        if max_seconds is not None and time.perf_counter() - began > max_seconds:
            status = Status.MAX_SECONDS
            break
        low, high = (max(low, t), high) if first > second else (low, min(high, t) if number else high)
        if number > 0 and high - low <= NARROW:
            status = inner.status if inner.status is Status.MAX_EPOCHS else Status.STALLED
            break
    primal = max(precision_value(matrix.matvec(w) + b, positive, k)) + 0.5 * alpha * float(w @ w)  # from the data, once more
    certificate = Certificate.of(primal, bound, max(abs(primal), abs(bound)), 1.0 + n / k)
    seconds = time.perf_counter() - began
    return Solution(w, b, dual, certificate, trace, status, "precision_at_k", epochs, seconds)


def _dual_value(problem: LinearProblem, positive: np.ndarray, k: int, alpha: float, a: np.ndarray) -> float:
    """What the adversary's marginals u = labels + a are worth against the best k rows: ``-top_k(u) / k - |X'a / n|^2 / (2 alpha)``.

    It is at least the dual value of any mixture, since ``top_k(u) / k = min_t t + sum_i (u_i - t)^+ / k``.
    """
    u = np.sort(positive + a)[::-1]
    pull = problem.gradient(a)
    return -float(u[:k].sum()) / k - float(pull @ pull) / (2.0 * alpha)


def _between(
    problem: LinearProblem, positive: np.ndarray, k: int, alpha: float, ends: list[tuple[np.ndarray, float]]
) -> tuple[float, tuple[np.ndarray, float]]:
    """The least P on the line between one or two points, and where; P is convex, so a search in one dimension finds it."""
    (w, b), (other, c) = ends[0], ends[-1]
    z, move = problem.margins(w) + b, problem.margins(other - w) + (c - b)

    def value(share: float) -> float:
        at = w + share * (other - w)
        return max(precision_value(z + share * move, positive, k)) + 0.5 * alpha * float(at @ at)

    share = float(minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}).x) if len(ends) > 1 else 0.0
    share = min((0.0, 1.0, share), key=value)
    return value(share), (w + share * (other - w), b + share * (c - b))
