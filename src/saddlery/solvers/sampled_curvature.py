"""A preconditioner for Newton models: the inverse of their matrix on a sample of the rows.

Conjugate gradients on X'H X + alpha need more products the wider its eigenvalues spread, and each product reads the data. A few
rows for each column tell most of that spread: with rows drawn in proportion to their share h_i ||x_i||^2 of the curvature, total T,

    P = (1 - blend) [(T / m) sum_{drawn i} x_i x_i' / ||x_i||^2 + alpha] + blend diagonal

has nearly the same eigenvectors, and its inverse costs some products (60,000 x 780 sparse, logistic: 65 -> 17 products a model for
the price of four). The exact diagonal guards what the sample did not meet. All in single precision: a preconditioner is a guess.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.linalg.lapack

from saddlery.parts import kernel

__all__ = ["inverse_of_sample", "operations", "price_of_sample"]

PER_COLUMN = 4  # rows drawn; twice as many cost more than they spare
BLEND = 0.2


@kernel
def gather_rows(rows, drawn, factors, columns, out):
    """out[k, j] = factors_k columns_j x_ij of the row i = drawn_k; x_ij is 1 in a last column, if there is one for an intercept."""
    for k in range(drawn.shape[0]):
        i = drawn[k]
        out[k, : rows.length] = 0.0
        for j in range(rows.length, out.shape[1]):
            out[k, j] = factors[k] * columns[j]
        for q in range(rows.first(i), rows.last(i)):
            j = rows.position(i, q)
            out[k, j] = factors[k] * columns[j] * rows.entry(q)


def operations(matrix: Any) -> float:
    """Of matrix products in the time in which an entry is read for a product with a model."""
    return 60.0 if matrix.is_sparse else 25.0


def price_of_sample(matrix: Any) -> float:
    """What the inverse costs, in products with a model; infinite if the sample would not be much smaller than the data."""
    n, d = matrix.shape
    if 2 * PER_COLUMN * d > n:
        return float("inf")
    return (PER_COLUMN + 1.0) * d**3 / (operations(matrix) * matrix.nnz)


def inverse_of_sample(
    rows: Any,
    chosen: np.ndarray,
    weight: np.ndarray,
    square_norms: np.ndarray,
    diagonal: np.ndarray,
    alpha: float = 0.0,
    count: int = 0,
    blend: float = BLEND,
) -> np.ndarray:
    """P^-1 in single precision; of shape (0, 0) if rounding leaves no inverse.

    Parameters
    ----------
    rows : part
        The rows of the data.
    chosen : array of indices
        Rows that the model reads.
    weight, square_norms : arrays, one number for each chosen row
        h_i ||x_i||^2 and ||x_i||^2, to which the one of an intercept belongs.
    diagonal : array of shape (d,), or (d + 1,) with an intercept
        Of the matrix of the model.
    alpha : float
        What the diagonal has of l2 (not at an intercept).
    count : int
        How many rows are drawn; PER_COLUMN for each column if it is 0.
    blend : float
        The share of the diagonal.
    """
    d = len(diagonal)
    count = count or PER_COLUMN * d
    if count < len(chosen):
        so_far = np.cumsum(weight)
        at = np.searchsorted(so_far, (np.arange(count) + 0.5) / count * so_far[-1])  # evenly spread, so that no draws are needed
        factors = np.sqrt(so_far[-1] / (count * square_norms[at])).astype(np.float32)
    else:  # all of them: the matrix itself
        count, at = len(chosen), np.arange(len(chosen))
        factors = np.sqrt(weight / square_norms).astype(np.float32)
    columns = (1.0 / np.sqrt(diagonal)).astype(np.float32)
    sample = np.empty((count, d), dtype=np.float32)
    gather_rows(rows, chosen[at], factors, columns, sample)
    products = scipy.linalg.blas.ssyrk(1.0 - blend, sample.T, lower=1)
    products[np.diag_indices(d)] += blend
    l2 = np.arange(rows.length)
    products[l2, l2] += (1.0 - blend) * alpha / diagonal[: rows.length]
    factor, failed = scipy.linalg.lapack.spotrf(products, lower=1, overwrite_a=1)
    inverse, failed_too = scipy.linalg.lapack.spotri(factor, lower=1, overwrite_c=1)
    if failed or failed_too or not np.isfinite(inverse[-1]).all():
        return np.empty((0, 0), dtype=np.float32)
    lower = np.tril(inverse, -1)
    return np.ascontiguousarray((lower + lower.T + np.diag(np.diag(inverse))) * columns[:, None] * columns)
