"""The CUR problem, which rows and columns reproduce a matrix: min_W ||M W M - M||^2 / (2 n d) over the CUR set, and its dual.

It is Example 1.3 of Lu & Freund (2020), with two slips of the print corrected: W (their beta) is d x n for M of n x d, and the set
has the largest entries of the rows of W in one constraint and those of its columns in the other. M W M takes combinations of
columns of M, chosen by the rows of W that are not zero, and of rows of M, chosen by the columns of W.

=========  ============================================  =========================================
here       meaning                                       letters of the paper
=========  ============================================  =========================================
M          data, n x d                                   M
W          weights, d x n; `w` of the point              beta
radius     of both constraints                           delta
A          dual, n x d, one number for each entry of M   w
Xta        M' A M' / (n d), d x n: the gradient          M'(M beta M - M) M' / (n d)
=========  ============================================  =========================================
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.losses.squared import Squared
from saddlery.matrix import as_matrix
from saddlery.penalties.cur_ball import CURBall
from saddlery.point import Point

__all__ = ["CURDualPoint", "CURProblem", "Factors"]

ORACLE_COST = 12.0  # passes over M that take about as long as one oracle (100 x 100 to 300 x 200)
EPS = float(np.finfo(float).eps)


class CURDualPoint(NamedTuple):
    """A dual point, its product ``M' A M' / (n d)`` and its value."""

    a: np.ndarray
    Xta: np.ndarray
    value: float


class Factors(NamedTuple):
    """M = left diag(sizes) right', without singular values that are zero up to rounding."""

    left: np.ndarray
    sizes: np.ndarray
    right: np.ndarray


class CURProblem:
    """``min_W ||M W M - M||_F^2 / (2 n d)`` over W (d x n) with ``sum_i max_j |W_ij|`` and ``sum_j max_i |W_ij|`` at most `radius`.

    The rows of W that are not zero select columns of M, its columns select rows of M: ``M W M = M[:, columns] U M[rows, :]`` with
    ``U = W[columns][:, rows]``, a CUR decomposition. With g the indicator of the set, the dual is
    ``max_A -g*(-M' A M' / (n d)) - sum_ij (A_ij^2 / 2 + A_ij M_ij) / (n d)``; every A of the shape of M certifies.

    Parameters
    ----------
    M : array-like or sparse matrix of shape (n, d)
        Data; held as a dense array.
    radius : float
        Budget of rows and of columns. :attr:`unit` is where to start: with such a radius up to half of the squares of M are
        explained.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> M = np.outer([1.0, 2.0, 0.0], [3.0, 1.0])
    >>> problem = sd.CURProblem(M, radius=1.0)  # enough for one row and one column, and rank one needs no more
    >>> solution = sd.solve(problem, tol=1e-6)
    >>> bool(np.abs(M @ solution.w @ M - M).max() < 0.02)
    True
    """

    kind = "cur"

    def __init__(self, M: Any, radius: float):
        values = as_matrix(M).values
        self.M = np.ascontiguousarray(values if isinstance(values, np.ndarray) else values.toarray(), dtype=np.float64)
        self.n, self.d = self.M.shape
        self.loss, self.penalty = Squared(), CURBall(_as_radius(radius))
        self.penalty.check()

    def __repr__(self) -> str:
        return f"CURProblem({self.n} x {self.d}, radius={self.penalty.radius:g})"

    def with_radius(self, radius: float) -> CURProblem:
        """The same data with another radius; nothing is copied."""
        other = copy.copy(self)
        other.penalty = CURBall(_as_radius(radius))
        other.penalty.check()
        return other

    @property
    def size(self) -> int:
        """Entries of M."""
        return self.M.size

    @cached_property
    def scale(self) -> float:
        """The objective at W = 0: the unit in which gaps are measured."""
        return self.mean_square(self.M) / 2.0

    @cached_property
    def factors(self) -> Factors:
        """The singular value decomposition of M."""
        left, sizes, right = np.linalg.svd(self.M, full_matrices=False)
        rank = max(int(np.count_nonzero(sizes > max(self.M.shape) * EPS * sizes[0])), 1)
        return Factors(left[:, :rank], sizes[:rank], right[:rank].T)

    @property
    def unit(self) -> float:
        """1 / the largest singular value of M (1 if M = 0): the natural unit of the radius."""
        top = float(self.factors.sizes[0])
        return 1.0 / top if top > 0.0 else 1.0

    def feasible_inverse(self) -> np.ndarray | None:
        """The pseudo-inverse of M if it is in the set, and hence an optimum of value 0."""
        left, sizes, right = self.factors
        if sizes[0] == 0.0:
            return None
        inverse = (right / sizes) @ left.T
        return inverse if self.penalty.value(inverse) == 0.0 else None

    # -- values

    def mean_square(self, Z: np.ndarray) -> float:
        """sum_ij Z_ij^2 / (n d)."""
        return float(np.vdot(Z, Z)) / self.M.size

    def margins(self, W: np.ndarray) -> np.ndarray:
        """M W M."""
        return self.M @ (W @ self.M) if self.d <= self.n else (self.M @ W) @ self.M

    def gradient(self, A: np.ndarray) -> np.ndarray:
        """M' A M' / (n d)."""
        return (self.M.T @ A @ self.M.T if self.d <= self.n else self.M.T @ (A @ self.M.T)) / self.M.size

    def primal(self, W: np.ndarray, Z: np.ndarray | None = None) -> float:
        """The objective at W, of margins Z."""
        return self.mean_square((self.margins(W) if Z is None else Z) - self.M) / 2.0 + self.penalty.value(W)

    def dual_point(self, A: np.ndarray, Xta: np.ndarray | None = None, bound: float | None = None) -> CURDualPoint:
        """The best multiple t A of a point, with its value ``-t g*(Xta) - t^2 mean(A^2) / 2 - t mean(A M)``, a parabola in t >= 0.

        `bound` is g*(-Xta), if it is known.
        """
        Xta = self.gradient(A) if Xta is None else Xta
        bound = self.penalty.conjugate(Xta, -1.0) if bound is None else bound
        rise, bend = -bound - float(np.vdot(A, self.M)) / self.M.size, self.mean_square(A)
        t = max(rise / bend, 0.0) if bend > 0.0 else 1.0
        return CURDualPoint(t * A, t * Xta, t * rise - t * t * bend / 2.0)

    # -- certificate

    def certify(self, w: Any, dual: Any = None, b: float = 0.0) -> Certificate:
        """See :func:`saddlery.certify`."""
        if b != 0.0:
            raise InputError("a CUR problem has no intercept: give b=0")
        point = self.as_point(w, 0.0, dual)
        primal, best = self.evaluate(point)
        return self.certificate(primal, best.value, best.a)

    def certificate(self, primal: float, dual: float, A: np.ndarray) -> Certificate:
        """The certificate of two values; `A` is the dual point that `dual` belongs to."""
        size = abs(primal)
        if primal < dual:  # only then does it matter how large the terms were that cancelled
            size += self.mean_square(A) / 2.0 + float(np.vdot(np.abs(A), np.abs(self.M))) / self.M.size
        return Certificate.of(primal, dual, self.scale, size)

    # -- for the loop

    def first_point(self) -> Point:
        """W = 0."""
        return Point(np.zeros((self.d, self.n)), 0.0, None)

    def evaluate(self, point: Point) -> tuple[float, CURDualPoint]:
        """The primal value of a point and its dual with the value, using what comes with it: `aux` is g*(-Xta)."""
        Z = self.margins(point.w) if point.Xw is None else point.Xw
        primal = self.primal(point.w, Z)
        if point.dual is None:
            return primal, self.dual_point(Z - self.M)
        return primal, self.dual_point(point.dual, point.Xta, None if point.Xta is None else point.aux)

    def nonzeros(self, W: np.ndarray) -> int:
        """The number of weights that are not zero."""
        return int(np.count_nonzero(W))

    def check_cost(self, point: Point) -> float:
        """Entries of M that :meth:`evaluate` reads, with the oracle counted as so many passes as take the same time."""
        products = 2.0 * (point.Xw is None) + 2.0 * (point.dual is None or point.Xta is None)
        return self.M.size * (products + ORACLE_COST * (point.aux is None))

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        """A point from arrays (None for what is unknown), copied and checked."""
        W = np.zeros((self.d, self.n)) if w is None else np.array(w, dtype=np.float64)
        A = None if dual is None else np.array(dual, dtype=np.float64)
        if W.shape != (self.d, self.n):
            raise InputError(
                f"W does not fit the problem: it has the shape {W.shape} instead of {(self.d, self.n)}, M being of {self.M.shape}"
            )
        if A is not None and A.shape != self.M.shape:
            raise InputError(f"the dual does not fit the problem: its shape is {A.shape}, but M has the shape {self.M.shape}")
        if not (np.isfinite(W).all() and (A is None or np.isfinite(A).all())):
            raise InputError("W and the dual must be finite")
        return Point(W, 0.0, A)


def _as_radius(radius: Any) -> float:
    try:
        return float(radius)
    except (TypeError, ValueError) as error:
        raise InputError(f"radius must be a positive number, not {radius!r}") from error
