"""Second moments of the data: all that a squared loss asks of them, its certificates included.

With z_i = (x_i - mean, y_i - level), where mean and level are 0 without an intercept, the moments are

    G = sum_i s_i (x_i - mean)(x_i - mean)'      c = sum_i s_i (x_i - mean)(y_i - level)      yy = sum_i s_i (y_i - level)^2

The residuals a of any weights w (with the best intercept, level - mean.w) are a dual point, and what its value is made of follows
without looking at a row:

    X'(s a) = G w - c        sum_i s_i a_i^2 = w'Gw - 2 c.w + yy        sum_i s_i y_i a_i = c.w - yy

These are differences, so a certificate made of them takes account of rounding: every moment is known up to gamma times the product
of the two sizes (root mean squares, as they were summed) that it belongs to, gamma = (n + 2 d + 8) eps. The primal value is raised
and the dual value lowered by what that may amount to. The gap is therefore a proof, only never smaller than about gamma.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm

from saddlery.parts import kernel
from saddlery.penalties.base import ROUNDING, largest, sum_values
from saddlery.solvers.gram_model import SMALL_FACE, minimise, solve_multiples, worst_violation
from saddlery.solvers.streamed_block import make_block

__all__ = ["Moments", "certified_values", "descend", "minimise_moments", "moments_of", "self_product"]

EPS = float(np.finfo(float).eps)
ACCURACY = 1e-12  # of the solution on the Gram matrix, relative to the first violation
KNOWN = 1e-15  # what the gradient is known to, relative to its size at zero
CANCELLED = 1e-6  # share of a column's second moment below which its variance is not to be computed as a difference
ROWS = 4096  # rows that are weighted, centred or converted at a time
# Up to so many columns X'X is a sum of general products of so many rows at a time, which stay in cache and of which BLAS is quicker
# than of symmetric ones (8192 x 12: 98 -> 54 us of a fit that takes 155; 20,000 x 30: 1.0 -> 0.75 ms).
THIN, FEW_ROWS = 32, 1024


class Moments(NamedTuple):
    """The moments of n rows, and the sizes that their rounding errors are relative to; see the top of the file."""

    gram: np.ndarray
    c: np.ndarray
    yy: float
    mean: np.ndarray | None
    level: float
    sizes: np.ndarray
    y_size: float
    n: int

    @property
    def gamma(self) -> float:
        """Bound on the rounding errors of sums over all rows, and of what is computed from them, relative to the sizes."""
        return _gamma(self.n, len(self.c))

    def intercepts(self, W: np.ndarray) -> np.ndarray:
        """The best intercept for each row of W."""
        return np.zeros(len(W)) if self.mean is None else self.level - W @ self.mean


# --------------------------------------------------------------------------- certificates


@kernel
def add_columns(penalty, gram, w, out):
    """out = G w, from the columns of the symmetric G that have a weight (2000 columns, 20 strengths: 696 -> 599 ms in all)."""
    for j in range(out.shape[0]):
        out[j] = 0.0
    for i in range(w.shape[0]):
        if w[i] != 0.0:
            column = gram[i]
            for j in range(out.shape[0]):
                out[j] += w[i] * column[j]


@kernel
def certify_each(penalty, factors, gram, c, yy, sizes, y_size, gamma, threshold, bounds, W, out):
    """out_k = an upper bound of the objective at W_k under f_k times the penalty, a lower bound of its dual, and its nonzeros.

    The dual point is t times the residuals, where t is 1, or if the penalty `bounds` u = X'(s a) the peak of the parabola along the
    ray, as far as allowed. Conjugates grow with |u|, so to enlarge u by what rounding may have taken from it is safe.
    """
    u = np.empty(c.shape[0])
    for k in range(factors.shape[0]):
        f, w = factors[k], W[k]
        reach, count = y_size, 0
        for j in range(w.shape[0]):
            reach += abs(w[j]) * sizes[j]
            count += w[j] != 0.0
        add_columns(penalty, gram, w, u)
        cw, wGw, top = 0.0, 0.0, 0.0
        for j in range(w.shape[0]):
            cw += c[j] * w[j]
            wGw += w[j] * u[j]
            u[j] = abs(u[j] - c[j]) + gamma * sizes[j] * reach
            top = max(top, u[j])
        error = gamma * reach * reach
        second = max(wGw - 2.0 * cw + yy, 0.0)
        value = f * sum_values(penalty, w)
        out[k, 0] = 0.5 * second + value + error + gamma * value
        t = 1.0
        if bounds and second > 0.0:
            t = min(max(0.0, (yy - cw) / second), 2.0)
        if bounds and t * top > f * threshold:
            t = f * threshold / top * (1.0 - ROUNDING)
        conjugate = 0.0
        for j in range(w.shape[0]):
            conjugate += penalty.coordinate_conjugate(t * u[j] / f)
        out[k, 1] = t * (yy - cw) - 0.5 * t * t * second - f * conjugate * (1.0 + gamma) - (t + t * t) * error
        out[k, 2] = count


def certified_values(moments: Moments, penalty: Any, factors: np.ndarray, W: np.ndarray) -> np.ndarray:
    """For the rows of W under the penalty times each factor: bounds of primal value and dual value, and the number of nonzeros.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0], [-1.0]], [1.0, -1.0], "squared", sd.penalties.L1(0.5))
    >>> certified_values(moments_of(problem), problem.penalty, np.array([1.0, 2.0]), np.array([[0.5], [0.0]])).round(12)
    array([[0.375, 0.375, 1.   ],
           [0.5  , 0.5  , 0.   ]])
    """
    out = np.empty((len(W), 3))
    facts = (moments.gram, moments.c, moments.yy, moments.sizes, moments.y_size, moments.gamma)
    certify_each(penalty, factors, *facts, penalty.threshold, penalty.strong_convexity == 0.0, W, out)
    return out


def minimise_moments(moments: Moments, penalty: Any, factors: np.ndarray, tol: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The best weights under the penalty times each factor as rows, each the start of the next; and the last gradient.

    Large models are solved to relative gaps of about `tol` / 10: a violation v of the optimality conditions costs v ||w||_1, or
    v g(w) / threshold, and g(w) is at most the scale, so v may be tol times the threshold (2000 columns, 20 strengths: 203 -> 170
    ms).
    """
    d = len(moments.c)
    W, q = np.empty((len(factors), d)), -moments.c
    if d <= SMALL_FACE:
        solve_multiples(penalty, factors, moments.gram, q, ACCURACY, KNOWN, W)
        return W, q
    w = np.zeros(d)
    for row, factor in zip(W, factors, strict=True):
        descend(moments, penalty.scaled(factor), w, q, 0.1 * tol * factor * penalty.threshold)
        row[:] = w
    return W, q


def descend(moments: Moments, penalty: Any, w: np.ndarray, q: np.ndarray, enough: float = 0.0) -> None:
    """Minimise the model from w, in place, to a violation that is `enough`; q is the gradient there, kept current."""
    violation = worst_violation(penalty, w, q)
    tol = max(enough, ACCURACY * violation, KNOWN * largest(penalty, moments.c))
    if violation > tol:
        minimise(penalty, moments.gram, w, q, 0, tol)


# --------------------------------------------------------------------------- from data


def _gamma(n: int, d: int) -> float:
    return (n + 2 * d + 8) * EPS


def moments_of(problem: Any) -> Moments:
    """The moments of a problem with squared loss, by one pass over its data, or two if there is an intercept."""
    matrix, y, s, n = problem.matrix, problem.y, problem.s, problem.n
    dense = matrix.compiled and not matrix.is_sparse
    if not problem.fit_intercept and dense and matrix.values.dtype == np.float64 and problem.equal_weights:
        share = float(s[0])
        gram, c, yy = self_product(matrix.values), matrix.values.T.dot(y), float(y.dot(y)) * share
        gram *= share
        c *= share
        return Moments(gram, c, yy, None, 0.0, np.sqrt(gram.diagonal()), math.sqrt(yy), n)
    mean = problem.gradient(np.ones(n)) if problem.fit_intercept else None
    level = problem.constant
    yy = float(s @ np.square(y - level))
    if not dense:
        gram = _raw_gram(problem)
        sizes, y_size = np.sqrt(gram.diagonal()), math.sqrt(yy + level * level)
        if mean is None:
            return Moments(gram, problem.gradient(y), yy, None, level, sizes, y_size, n)
        gram = gram - np.outer(mean, mean)
        if not matrix.compiled or (gram.diagonal() >= CANCELLED * sizes * sizes).all():
            return Moments(gram, problem.gradient(y - level), yy, mean, level, 2.0 * sizes, 2.0 * y_size, n)
    gram, c = _summed_by_rows(problem, mean, level)
    off = 0.0 if mean is None else _gamma(n, problem.d) * mean * mean  # the means themselves are rounded
    y_off = _gamma(n, problem.d) * level * level
    return Moments(gram, c, yy, mean, level, np.sqrt(gram.diagonal() + off), math.sqrt(yy + y_off), n)


def self_product(values: np.ndarray) -> np.ndarray:
    """X'X of an array of float64.

    Examples
    --------
    >>> self_product(np.array([[1.0, 2.0], [0.0, 3.0]]))
    array([[ 1.,  2.],
           [ 2., 13.]])
    """
    n, d = values.shape
    if d > THIN or not values.flags.c_contiguous:
        return values.T.dot(values)
    out = np.zeros((d, d), order="F")
    for first in range(0, n, FEW_ROWS):
        block = values[first : first + FEW_ROWS].T
        out = dgemm(1.0, block, block, 1.0, out, trans_b=1, overwrite_c=1)
    return out.T


def _raw_gram(problem: Any) -> np.ndarray:
    """X'SX of sparse data, or of data that are read in parts."""
    block = make_block(problem, np.arange(problem.d), gram_form=True, exact=True)
    block.update_gram(problem.s)
    return np.ascontiguousarray(block.gram[: problem.d, : problem.d])


def _summed_by_rows(problem: Any, mean: np.ndarray | None, level: float) -> tuple[np.ndarray, np.ndarray]:
    """G and c, some rows at a time: differences of large numbers are taken before they are squared."""
    gram, c = np.zeros((problem.d, problem.d)), np.zeros(problem.d)
    values = problem.matrix.csr if problem.matrix.is_sparse else problem.matrix.values
    for first in range(0, problem.n, ROWS):
        part = slice(first, first + ROWS)
        roots = np.sqrt(problem.s[part])
        block = values[part].toarray() if problem.matrix.is_sparse else values[part].astype(np.float64)
        if mean is not None:
            block -= mean
        block *= roots[:, None]
        gram += self_product(block)
        c += block.T @ (roots * (problem.y[part] - level))
    return gram, c
