"""Values of many points at once: a problem under multiples of its penalty, each with a point of its own.

The products with the data take two matrix products for all, and each further step of a certificate one compiled function: on small
data the calls would cost more than what they compute (cpusmall, 20 lassos: 2.4 -> 1.2 ms). Multiples need no penalties of their
own, since everything about f g follows from g:

    value  f g(w)        conjugate  f g*(u / f)        threshold  f threshold
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlery.parts import kernel
from saddlery.penalties.base import ROUNDING, largest, sum_conjugates, sum_values
from saddlery.problems.linear import EPS, conjugate_terms, grouped_sum, loss_terms, ray_peak, slopes

__all__ = ["Values", "evaluate_together", "mean_losses"]


@kernel
def losses_of(loss, y, s, Z, b, terms, out):
    """out_k = sum_i s_i l(y_i, Z_ki + b_k)."""
    for k in range(Z.shape[0]):
        loss_terms(loss, y, s, Z[k], b[k], terms)
        out[k] = grouped_sum(loss, terms)


@kernel(fast_sums=True)
def weigh_slopes(loss, s, a, out):
    """out = s a; returns its sum and that of its absolute values."""
    total, size = 0.0, 0.0
    for i in range(s.shape[0]):
        out[i] = s[i] * a[i]
        total += out[i]
        size += abs(out[i])
    return total, size


@kernel
def expand_each(loss, penalty, factors, y, s, W, b, Z, free, terms, a, out):
    """out_k = sum_i s_i l(y_i, Z_ki + b_k) + f_k g(W_k); a_k = the slopes there, and in the place of the margins Z_k = s a_k.

    Where there is an intercept the slopes are made to balance, by taking off their mean: for conjugates finite everywhere.
    """
    for k in range(Z.shape[0]):
        loss_terms(loss, y, s, Z[k], b[k], terms)
        out[k] = grouped_sum(loss, terms) + factors[k] * sum_values(penalty, W[k])
        slopes(loss, y, Z[k], b[k], a[k])
        excess, size = weigh_slopes(loss, s, a[k], Z[k])
        if free and abs(excess) > 4 * EPS * size:
            a[k] -= excess
            weigh_slopes(loss, s, a[k], Z[k])


@kernel
def feasible_duals(loss, penalty, factors, y, s, a, Xta, bend, threshold, bounds, terms, out):
    """Dual values at t_k a_k, where t_k makes it feasible if the penalty bounds X'(s a) and is 1 otherwise; a_k becomes t_k a_k."""
    for k in range(a.shape[0]):
        t, f = 1.0, factors[k]
        if bounds:
            t = ray_peak(loss, y, s, a[k], bend) if bend > 0.0 else 1.0
            top = t * largest(penalty, Xta[k])
            if top > f * threshold:
                t *= f * threshold / top * (1.0 - ROUNDING)
        conjugate_terms(loss, y, s, a[k], t, terms)
        out[k] = -grouped_sum(loss, terms) - f * sum_conjugates(penalty, Xta[k], -t / f)
        if t != 1.0:
            for i in range(y.shape[0]):
                a[k, i] *= t


class Values(NamedTuple):
    """Primal and dual values of m points, and their feasible dual points as rows."""

    primal: np.ndarray
    dual: np.ndarray
    a: np.ndarray


def evaluate_together(problem: Any, factors: np.ndarray, W: np.ndarray, b: np.ndarray) -> Values:
    """Objectives at the rows of W under the penalty times each factor, and those of the dual points that belong to them.

    For losses whose conjugate is finite everywhere, and separable penalties. The dual points are not searched for: they serve
    where W is as good as optimal.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0], [-1.0]], [1.0, -1.0], "squared", sd.penalties.L1(0.5))
    >>> values = evaluate_together(problem, np.array([1.0, 2.0]), np.array([[0.5], [0.0]]), np.zeros(2))
    >>> values.primal, values.dual
    (array([0.375, 0.5  ]), array([0.375, 0.5  ]))
    """
    loss, penalty, y, s, matrix = problem.loss, problem.penalty, problem.y, problem.s, problem.matrix
    Z = _products(matrix, W)
    primal, dual, terms = np.empty(len(W)), np.empty(len(W)), np.empty(problem.n)
    a, weighted = np.empty(Z.shape), Z
    expand_each(loss, penalty, factors, y, s, W, b, Z, problem.fit_intercept, terms, a, primal)
    Xta = weighted @ matrix.values if _is_plain(matrix) else np.ascontiguousarray(matrix.rmatvec(weighted.T).T)
    bounds, bend = penalty.strong_convexity == 0.0, getattr(loss, "conjugate_curvature", None) or 0.0
    feasible_duals(loss, penalty, factors, y, s, a, Xta, bend, penalty.threshold, bounds, terms, dual)
    return Values(primal, dual, a)


def mean_losses(loss: Any, y: np.ndarray, s: np.ndarray, matrix: Any, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """sum_i s_i l(y_i, x_i.w + b) for each row w of W."""
    out = np.empty(len(W))
    losses_of(loss, y, s, _products(matrix, W), b, np.empty(len(y)), out)
    return out


def _is_plain(matrix: Any) -> bool:
    """Whether NumPy multiplies at once."""
    return matrix.compiled and not matrix.is_sparse and matrix.values.dtype == np.float64


def _products(matrix: Any, W: np.ndarray) -> np.ndarray:
    """X w for each row w of W, as rows."""
    return W @ matrix.values.T if _is_plain(matrix) else np.ascontiguousarray(matrix.matvec(W.T).T)
