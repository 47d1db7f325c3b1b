"""Products X'(s a) that are exact only where it can matter.

Along a run the dual point moves little and keeps its direction, and what is known of one product bounds the next. Known is an
interval for each column, |x^j.(s a0) - c_j| <= e_j, with e_j = 0 where the product was computed. For every t

    |x^j.(s a) - t c_j|  <=  t e_j + ||x^j|| ||a - t a0||,        |x^j.(s a)|  <=  ||x^j|| ||a||        norms weighted by s

and t a0 is taken as the projection of a: nothing is nearer, and along a path, where slopes shrink, centres shrink with them (20
lassos on news20: 13 -> 9 products' worth of entries). Columns whose bound stays below the threshold of the penalty can neither
enter the model nor break feasibility of a, so they need not be read. The certificates stay proofs: where the product is not exact,
its bound stands in its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.parts import kernel

__all__ = ["ScreenedProducts"]

WORTH = {True: 0.5, False: 0.25}  # share of the entries, of sparse and of dense data, above which all are read
WIDE = 0.75  # or of sparse data with more columns than rows (20 lassos on news20: 8 -> 7 products in all)
ROUNDING = 1.0 + 1e-9  # bounds are raised by more than rounding can take from them
LAST_DIGITS = 1e-15  # of a centre: what multiples of it are rounded by


@kernel(fast_sums=True)
def project(penalty, s, a, reference):
    """The t >= 0 for which t reference is nearest to a, with sum_i s_i (a_i - t reference_i)^2 and sum_i s_i a_i^2."""
    inner, square, near, size = 0.0, 0.0, 0.0, 0.0
    for i in range(s.shape[0]):
        inner += s[i] * a[i] * reference[i]
        square += s[i] * reference[i] * reference[i]
        size += s[i] * a[i] * a[i]
    t = max(0.0, inner / square) if square > 0.0 else 0.0
    for i in range(s.shape[0]):
        near += s[i] * (a[i] - t * reference[i]) * (a[i] - t * reference[i])
    return t, near, size


@kernel
def bound_products(penalty, norms, counts, t, near, size, level, centres, errors, out, chosen):
    """Intervals t c_j +- (t e_j + norm_j near), in place; out_j = min(the largest value in it, norm_j size).

    The columns where that is above the level go to `chosen`; returns their number and that of their entries.
    """
    count, entries = 0, 0.0
    for j in range(norms.shape[0]):
        centre = t * centres[j]
        error = (t * errors[j] + norms[j] * near) * ROUNDING + LAST_DIGITS * abs(centre)
        other = norms[j] * size
        bound = abs(centre) + error
        bound = bound if bound < other else other
        centres[j], errors[j] = centre, error
        out[j] = bound
        chosen[count] = j
        count += bound > level
    for k in range(count):
        entries += counts[chosen[k]]
    return count, entries


@kernel
def put_exact(penalty, chosen, values, centres, errors, out):
    """The products of the chosen columns into the intervals and the bounds."""
    for k in range(chosen.shape[0]):
        j = chosen[k]
        centres[j] = out[j] = values[k]
        errors[j] = 0.0


class ScreenedProducts:
    """Products X'(s a) of a problem for dual points a that follow each other closely.

    Parameters
    ----------
    problem : LinearProblem
        Whose data and weights. Data by rows are read as a whole where that costs less than to copy the columns that matter.

    Attributes
    ----------
    centres, errors : arrays of shape (d,)
        Where the last product lies: within `errors` of `centres`.
    complete : bool
        Whether the last product is exact everywhere.
    accesses : float
        Entries of X that were read so far.
    """

    def __init__(self, problem: Any):
        self.norms: np.ndarray | None = None
        self.usable = problem.screens
        self.reference: np.ndarray | None = None
        self.centres: Any = None
        self.errors: Any = None
        self.complete, self.accesses = True, 0.0

    def start(self, a: np.ndarray, product: np.ndarray) -> np.ndarray:
        """Take an exact product as the one that bounds refer to. The point is copied: its owner may write over it."""
        self.complete, self.centres = True, product
        if self.usable:
            self.reference = a.copy()
        return product

    def product(self, problem: Any, a: np.ndarray, weighted: np.ndarray, level: float) -> np.ndarray:
        """X'(s a) where it may exceed the level, else a bound of its absolute value; `weighted` is s a."""
        matrix = problem.matrix
        apart = not matrix.compiled  # what is read in parts is read by columns as well
        at_hand = apart or matrix.has("cols") or "held" in vars(matrix)
        if self.usable and at_hand and self.reference is not None and level > 0.0:
            if self.norms is None:
                self.norms = problem.column_norms
            if self.complete:  # so far the array is also the caller's
                self.centres, self.errors = self.centres.copy(), np.zeros(problem.d)
            t, near, size = project(problem.penalty, problem.s, a, self.reference)
            out, chosen = np.empty(problem.d), np.empty(problem.d + 1, dtype=np.int64)
            facts = self.norms, matrix.col_counts, t, float(np.sqrt(near)), ROUNDING * float(np.sqrt(size)), level
            count, entries = bound_products(problem.penalty, *facts, self.centres, self.errors, out, chosen)
            chosen = chosen[:count]
            worth = WIDE if matrix.is_sparse and problem.d > problem.n else WORTH[matrix.is_sparse]
            if entries <= worth * matrix.nnz and (apart or matrix.is_near(chosen)):
                put_exact(problem.penalty, chosen, matrix.products_of(chosen, weighted), self.centres, self.errors, out)
                self.reference[:] = a
                self.complete = False
                self.accesses += entries
                return out
        self.accesses += matrix.nnz
        return self.start(a, matrix.rmatvec(weighted))

    def exact_on(self, columns: np.ndarray) -> np.ndarray | None:
        """The last product on some columns, if it is exact there."""
        if not self.complete and self.errors[columns].any():
            return None
        return self.centres[columns]
