"""Losses of many weights at once: the products with the data are one matrix product, and the rest is one compiled function."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.problems.row_sums import grouped_sum, loss_terms

__all__ = ["mean_losses"]


FEW = 0.25  # share of the columns up to which the others are left out of products with sparse data (news20, a fold: 5 -> 1 ms)


@kernel
def losses_of(loss, y, s, Z, b, terms, out):
    """out_k = sum_i s_i l(y_i, Z_ki + b_k)."""
    for k in range(Z.shape[0]):
        loss_terms(loss, y, s, Z[k], b[k], terms)
        out[k] = grouped_sum(loss, terms)


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
    if _is_plain(matrix):
        return W @ matrix.values.T
    if matrix.compiled and matrix.is_sparse:
        used = np.flatnonzero((W != 0.0).any(axis=0))
        if len(used) <= FEW * W.shape[1]:
            return np.ascontiguousarray(matrix.product_on(used, np.ascontiguousarray(W[:, used].T)).T)
    return np.ascontiguousarray(matrix.matvec(W.T).T)
