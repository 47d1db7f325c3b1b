"""Cross-validation of a squared loss from the second moments of the folds: one pass over the data for all fits and scores.

With z_i = (x_i - shift, y_i - level, 1) the rows of a part of the data count by A = sum_i s_i z_i z_i' alone. Each row is held
out once at most, so the parts are those held out and the rest, and the rows that a fold trains on are all parts but one: their sums
add, and nothing cancels. A certifies the fits on them (solvers/moments.py), and the loss of weights w on the rows of A is

    v'Av / (2 A_11)        v = (-w, 1, -b)        A_11 = sum_i s_i
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlery.matrix import ROOM, Matrix
from saddlery.solvers.moments import Moments, certified_values, minimise_moments, self_product

__all__ = ["FoldMoments", "moments_of_folds"]

DIGITS = 1e-6  # share of the terms of a held-out loss below which it is not to be computed as their difference


class FoldMoments(NamedTuple):
    """Moments of the rows that a fold trains on, and the sums A of those held out."""

    train: Moments
    held_out: np.ndarray

    def losses(self, penalty: Any, alphas: np.ndarray, tol: float) -> np.ndarray | None:
        """The held-out loss for each strength; None if rounding leaves a fit uncertified, or a loss without digits."""
        train, held_out, factors = self.train, self.held_out, alphas / penalty.alpha
        W, _ = minimise_moments(train, penalty, factors)
        primal, dual, _ = certified_values(train, penalty, factors, W).T
        if not (primal - dual <= 0.5 * tol * train.yy).all():
            return None
        V = np.column_stack([-W, np.ones(len(W)), -train.intercepts(W)])
        squares = np.einsum("ki,ki->k", V @ held_out, V)
        if not (squares > DIGITS * np.square(np.abs(V) @ np.sqrt(held_out.diagonal()))).all():
            return None
        return 0.5 * squares / held_out[-1, -1]


def moments_of_folds(
    matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, splits: Sequence[tuple[np.ndarray, np.ndarray]], intercept: bool
) -> list[FoldMoments] | None:
    """The moments of each split into rows to train on and rows held out.

    None where they would not pay or not do: for sparse data and data read in parts, few rows, and splits that leave rows out or
    hold some out twice.

    Examples
    --------
    >>> from saddlery.matrix import as_matrix
    >>> from saddlery.penalties import L1
    >>> X, y, halves = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]), np.arange(6.0), (np.arange(3), np.arange(3, 6))
    >>> folds = moments_of_folds(as_matrix(X), y, None, [halves, halves[::-1]], intercept=True)
    >>> [fold.losses(L1(1.0), np.array([0.1]), 1e-6).round(4) for fold in folds]
    [array([0.1088]), array([0.1088])]
    """
    (n, d), size = matrix.shape, matrix.shape[1] + 2
    if not matrix.compiled or matrix.is_sparse or len(splits) * size > n or n * size > ROOM:
        return None
    parts = _parts(splits, n)
    if parts is None:
        return None
    rows = np.empty((n, size))
    rows[:, :d], rows[:, d], rows[:, d + 1] = matrix.values, y, 1.0
    if intercept:  # whatever is near to the means of all folds: their own are taken off in the end
        rows[:, : d + 1] -= rows[:, : d + 1].mean(axis=0)
    if weights is not None:
        rows *= np.sqrt(weights)[:, None]
    sums = np.empty((len(parts), size, size))
    for A, part in zip(sums, parts, strict=True):
        A[:] = self_product(rows.take(part, axis=0))
    others = (np.delete(sums, k, axis=0).sum(axis=0) for k in range(len(splits)))
    return [FoldMoments(_moments(A, n, intercept), held_out) for A, held_out in zip(others, sums, strict=False)]


def _parts(splits: Sequence[tuple[np.ndarray, np.ndarray]], n: int) -> list[np.ndarray] | None:
    """The rows held out by each split, and those that none holds out; None if all parts but one are not what a split trains on."""
    times = np.zeros(n, dtype=np.int64)
    for train, test in splits:
        seen = np.zeros(n, dtype=bool)
        seen[train] = True
        seen[test] = True
        if len(train) + len(test) != n or not seen.all():
            return None
        times[test] += 1
    if times.max() > 1:
        return None
    rest = np.flatnonzero(times == 0)
    return [*(test for _, test in splits), *([rest] if rest.size else [])]


def _moments(A: np.ndarray, n: int, intercept: bool) -> Moments:
    """The moments of the rows of A, in the shifted coordinates; about their own means if there is an intercept."""
    d, A = len(A) - 2, A / A[-1, -1]
    sizes, y_size = np.sqrt(A.diagonal()[:d]), math.sqrt(A[d, d])
    if not intercept:
        return Moments(np.ascontiguousarray(A[:d, :d]), A[:d, d].copy(), float(A[d, d]), None, 0.0, sizes, y_size, n)
    centred = A - np.outer(A[-1], A[-1])
    gram, c, yy = np.ascontiguousarray(centred[:d, :d]), centred[:d, d].copy(), float(centred[d, d])
    return Moments(gram, c, yy, A[-1, :d].copy(), float(A[-1, d]), 2.0 * sizes, 2.0 * y_size, n)
