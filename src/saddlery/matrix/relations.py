"""How the rows and the columns of data relate, told from some rows: facts by which solvers are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.matrix.vectors import combine_of, dots_of, weighted_squares_of

__all__ = ["alignment", "overlap", "share_of_zeros"]

SAMPLE = 400  # rows that are looked at to see how columns relate, and how many zeros there are
PAIRED = 32  # rows that are looked at to see how rows relate


def alignment(matrix: Any) -> float:
    """How far columns correlate: |X p|^2 / sum_ij x_ij^2 p_j^2 on some rows, p the sum of others.

    It is 1 where entries have random signs, and about as large as rows have entries where all are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from saddlery.matrix import Matrix
    >>> round(alignment(Matrix(np.ones((10, 7)))), 12)
    7.0
    """
    n = matrix.shape[0]
    index = np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)
    if matrix.has("rows"):
        rows = matrix.rows
    else:
        rows, index = matrix.take_rows(index).rows, np.arange(len(index))  # at once: all columns are looked through
    p, along = np.zeros(matrix.shape[1]), np.empty(len(index) // 2)
    combine_of(rows, index[::2].copy(), np.ones(len(index) - len(along)), p)
    others = index[1::2].copy()
    dots_of(rows, others, p, along)
    p *= p
    size = weighted_squares_of(rows, others, p)
    return float(along @ along) / size if size > 0.0 else 1.0


def overlap(matrix: Any) -> float:
    """How far rows of dense data are in each other's way: n times the mean square of the cosine between two, of some rows.

    About n / d where entries are independent, and n / r where rows share r directions: below 1, rows can be fitted one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from saddlery.matrix import Matrix
    >>> overlap(Matrix(np.eye(5))), round(overlap(Matrix(np.ones((5, 3)))), 12)
    (0.0, 5.0)
    """
    n = matrix.shape[0]
    index = np.linspace(0, n - 1, min(n, PAIRED)).astype(np.int64)
    some = np.asarray(matrix.take_rows(index).values, dtype=np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", some, some))
    some = some / np.where(norms > 0.0, norms, 1.0)[:, None]
    cosines = some @ some.T
    pairs = len(index) * (len(index) - 1)
    total = float(np.sum(cosines * cosines) - np.sum(cosines.diagonal() ** 2))
    return n * max(total, 0.0) / pairs if pairs else 0.0


def share_of_zeros(values: np.ndarray) -> float:
    """The share of zeros of dense data, in some rows.

    Examples
    --------
    >>> import numpy as np
    >>> share_of_zeros(np.eye(4))
    0.75
    """
    sample = values[np.linspace(0, len(values) - 1, min(len(values), SAMPLE)).astype(np.int64)]
    return 1.0 - float(np.count_nonzero(sample)) / sample.size
