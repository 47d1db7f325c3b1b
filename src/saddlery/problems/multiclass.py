"""The problem of k classes at once: min_{W,b} sum_i s_i l(x_i W + b; y_i) + g(W), its dual, and its certificates.

W is (d, k), b is (k,), the margins S = X W are (n, k). A dual point A = V - Y is (n, k): the rows of V lie in the simplex, Y is the
table of ones at the classes of the rows. Its product Xta = X'(s A) is (d, k); where that would be too large it is made in blocks of
classes, and only its entries that can matter are kept (:class:`Extremes`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.kept import kept
from saddlery.losses.rows import inside_simplex, project_row
from saddlery.matrix import Matrix, as_matrix, count_nonzero
from saddlery.parts import kernel
from saddlery.penalties.base import ROUNDING, largest
from saddlery.point import Point
from saddlery.problems.linear import DualPoint, _as_weights
from saddlery.registry import ROW_LOSSES

__all__ = ["Extremes", "MulticlassProblem"]

EPS = float(np.finfo(float).eps)
WHOLE = 20_000_000  # numbers: a larger d x k is never one array, unless the model itself must be
BLOCK = 4_000_000  # numbers of Xta that are made at a time then
TRIES = 8  # points at which a dual is looked at between two scales
SMALLEST = 1e-6  # scale below which none is tried
MANY, FEW = 4096, 1024  # rows from which on so many of them tell where a dual point is not looked at
GOLDEN = 0.6180339887498949
CACHES = ("class_weights", "class_products", "column_sums", "constant", "scale", "constant_dual", "constant_gradient")


# --------------------------------------------------------------------------- kernels


# The terms of a certificate are summed by NumPy, in pairs: one running sum over many rows would lose digits that gaps are made of.


@kernel(fast_sums=True)
def loss_terms(loss, codes, s, S, b, out):
    """out_i = s_i l(S_i + b; y_i)."""
    for i in range(codes.shape[0]):
        out[i] = s[i] * loss.row_value(codes[i], S[i], b)


@kernel(fast_sums=True)
def row_slopes(loss, codes, S, b, out):
    """out_i = slope of l at S_i + b: V_i - Y_i."""
    for i in range(codes.shape[0]):
        loss.row_slope(codes[i], S[i], b, out[i])


@kernel(fast_sums=True)
def conjugate_terms(loss, codes, s, A, scale, out):
    """out_i = s_i l*(scale A_i; y_i); 0 for rows without weight."""
    for i in range(codes.shape[0]):
        out[i] = s[i] * loss.row_conjugate(codes[i], A[i], scale) if s[i] > 0.0 else 0.0


@kernel
def all_inside(loss, codes, A):
    """Whether all A_i + Y_i lie in the simplex."""
    inside = True
    for i in range(codes.shape[0]):
        inside &= inside_simplex(loss, codes[i], A[i], 1.0)
    return inside


@kernel
def project_rows(loss, codes, A, out):
    """out_i = A_i moved to the nearest point with A_i + Y_i in the simplex; returns how many moved."""
    moved = 0
    for i in range(codes.shape[0]):
        if inside_simplex(loss, codes[i], A[i], 1.0):
            out[i, :] = A[i]
        else:
            project_row(loss, codes[i], A[i], 0.0, out[i])
            moved += 1
    return moved


# --------------------------------------------------------------------------- the problem


class Extremes(NamedTuple):
    """What a certificate needs of a large Xta: the entries that can matter to the conjugate of the penalty, or the largest one."""

    entries: np.ndarray

    def times(self, factor: float) -> Extremes:
        return Extremes(self.entries * factor)


class MulticlassProblem:
    """``min_{W,b}  sum_i s_i l(x_i W + b; y_i) + g(W)`` over k classes at once, with weights s_i >= 0 that sum to one.

    Its dual is ``max_A  -g*(-X'(s A)) - sum_i s_i l*(A_i; y_i)`` over ``A = V - Y``, the rows of V in the simplex, with
    ``sum_i s_i A_i = 0`` if there is an intercept for each class.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Data.
    y : array of int of shape (n,)
        The class of each row, from 0 to k - 1; estimators take any labels.
    loss : row loss or str
        ``"logistic"`` is :class:`saddlery.losses.Softmax`, ``"hinge"`` :class:`saddlery.losses.MulticlassHinge`.
    penalty : penalty
        Such as ``sd.penalties.L1(0.01)``. It sees the entries of W, one feature after the other.
    sample_weight : array of shape (n,), optional
        Non-negative weights; they are divided by their sum. A weight of 0 is no row at all.
    fit_intercept : bool
        Whether there is an intercept for each class, never penalised.
    n_classes : int, optional
        The number k of classes; by default all that occur, and then each must have a row with a positive weight.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> problem = MulticlassProblem(np.eye(3), [0, 1, 2], loss="hinge", penalty=sd.penalties.L1(0.1))
    >>> problem.primal(np.zeros((3, 3))), round(problem.certify(np.eye(3)).primal, 6)
    (1.0, 0.3)
    """

    kind = "multiclass"
    evaluates_from_data = True  # what a point does not bring is computed from the data, exactly

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: Any = "logistic",
        penalty: Any = None,
        sample_weight: Any = None,
        fit_intercept: bool = False,
        n_classes: int | None = None,
    ):
        self.matrix: Matrix = as_matrix(X)
        self.n, self.d = self.matrix.shape
        self.loss = ROW_LOSSES.get(loss)() if isinstance(loss, str) else loss
        if not hasattr(self.loss, "row_value"):
            raise InputError(f"k classes at once need a row loss such as saddlery.losses.Softmax(), not {loss!r}")
        if hasattr(self.loss, "check"):
            self.loss.check()
        self.s = _as_weights(sample_weight, self.n)
        self.codes, self.k = _as_codes(y, self.n, n_classes, self.s, bool(fit_intercept))
        self.fit_intercept = bool(fit_intercept)
        self.penalty = self._checked(penalty)

    def _checked(self, penalty: Any) -> Any:
        if not hasattr(penalty, "strong_convexity"):
            raise InputError(f"give the penalty with its strength, such as saddlery.penalties.L1(0.01), not {penalty!r}")
        if hasattr(penalty, "check"):
            penalty.check()
        if hasattr(penalty, "check_columns"):
            penalty.check_columns(self.d * self.k)
        return penalty

    def __repr__(self) -> str:
        intercept = ", intercept" if self.fit_intercept else ""
        return f"MulticlassProblem({self.matrix!r}, {self.k} classes, {self.loss!r}, {self.penalty!r}{intercept})"

    @property
    def size(self) -> int:
        """Entries that one pass over the data reads."""
        return self.matrix.nnz

    @property
    def is_large(self) -> bool:
        """Whether d x k numbers are too many for one array: W is sparse then, and Xta is made in blocks."""
        return self.d * self.k > WHOLE

    def with_penalty(self, penalty: Any) -> MulticlassProblem:
        """The same data and loss with another penalty; nothing is copied."""
        other = copy.copy(self)
        other.penalty = self._checked(penalty)
        return other

    def take_rows(self, index: np.ndarray, weights: np.ndarray | None = None) -> MulticlassProblem:
        """The problem on some of its rows; their weights (new ones if given) are rescaled to sum to one."""
        weights = self.s[index] if weights is None else weights
        other = copy.copy(self)
        for name in CACHES:
            other.__dict__.pop(name, None)
        other.matrix, other.codes, other.s = self.matrix.take_rows(index), self.codes[index], weights / weights.sum()
        other.n = len(other.codes)
        return other

    # -- the best constant model

    @kept
    def class_weights(self) -> np.ndarray:
        """The weight of each class; they sum to one."""
        return np.bincount(self.codes, self.s, self.k)

    @kept
    def constant(self) -> np.ndarray:
        """The intercepts of the best constant model (0 without intercepts)."""
        if not self.fit_intercept:
            return np.zeros(self.k)
        if math.isfinite(self.loss.smoothness):
            b = np.log(self.class_weights)
            return b - b.mean()
        b = np.zeros(self.k)  # one class of more than half the weight: all others pay 2, which is less than 1 for all
        if self.class_weights.max() > 0.5:
            b[np.argmax(self.class_weights)] = 1.0
        return b

    @kept
    def scale(self) -> float:
        """The objective of the best constant model: the unit in which gaps are measured."""
        terms = np.empty(self.k)
        loss_terms(self.loss, np.arange(self.k), self.class_weights, np.zeros((self.k, self.k)), self.constant, terms)
        return float(terms.sum())

    @kept
    def _constant_rows(self) -> np.ndarray:
        """The dual rows of the classes at the best constant model: slopes, at kinks those that balance and are most even."""
        if math.isfinite(self.loss.smoothness):
            rows = np.empty((self.k, self.k))
            row_slopes(self.loss, np.arange(self.k), np.zeros((self.k, self.k)), self.constant, rows)
            return rows
        if not self.fit_intercept:
            return (1.0 - np.eye(self.k)) / (self.k - 1) - np.eye(self.k)
        return _even_plan(self.class_weights) / self.class_weights[:, None] - np.eye(self.k)

    @kept
    def constant_dual(self) -> np.ndarray:
        """The dual point of the best constant model."""
        return self._constant_rows[self.codes]

    def alpha_max(self) -> float:
        """The strength of the penalty from which on W = 0 is optimal; infinity if there is none.

        For the hinge it may be somewhat larger than the smallest such strength.
        """
        if not hasattr(self.penalty, "alpha"):
            raise InputError(f"{self.penalty!r} has a size and no strength: there is no largest alpha")
        share = self.penalty.threshold / self.penalty.alpha
        if share == 0.0:
            return math.inf
        top = max(float(np.abs(block).max()) for _, block in self.gradient_blocks(self.constant_dual))
        return top / share

    # -- products

    def margins(self, W: Any) -> np.ndarray:
        """S = X W; W is an array or sparse."""
        return self.matrix.matvec(W)

    def gradient(self, A: np.ndarray) -> np.ndarray:
        """Xta = X'(s A), of shape (d, k)."""
        if self.s.min() == self.s.max():
            out = self.matrix.rmatvec(A)
            out *= self.s[0]
            return out
        return self.matrix.rmatvec(self.s[:, None] * A)

    def gradient_blocks(self, A: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Xta by blocks of classes: pairs of a slice of the classes and those columns; one block if the whole is small."""
        width = self.k if not self.is_large else max(1, BLOCK // self.d)
        for first in range(0, self.k, width):
            block = slice(first, min(first + width, self.k))
            yield block, self.gradient(np.ascontiguousarray(A[:, block]))

    def product(self, A: np.ndarray) -> Any:
        """Xta as certificates want it: an array, or its :class:`Extremes` if the array would be too large."""
        if not self.is_large or not self._few_matter:
            return self.gradient(A)
        kept, top = [], 0.0
        for _, block in self.gradient_blocks(A):
            size = np.abs(block, out=block)
            top = max(top, float(size.max()))
            if self.penalty.threshold > 0.0:
                kept.append(size[size > self.penalty.threshold])
        entries = np.concatenate(kept) if kept else np.empty(0)
        return Extremes(entries if len(entries) else np.array([top]))

    @property
    def _few_matter(self) -> bool:
        """Whether g* depends on a few entries alone: those above the threshold, or for l1 balls the largest."""
        return self.penalty.threshold > 0.0 or getattr(self.penalty, "corners", "") == "signed"

    # -- primal and dual values

    def slopes(self, S: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """The slopes of the loss at margins S + b, the dual point that belongs to them: V - Y."""
        out = np.empty((self.n, self.k))
        row_slopes(self.loss, self.codes, S, self._intercepts(b), out)
        return out

    def loss_value(self, S: np.ndarray, b: np.ndarray | None = None) -> float:
        """The weighted mean of the loss at margins S + b."""
        terms = np.empty(self.n)
        loss_terms(self.loss, self.codes, self.s, S, self._intercepts(b), terms)
        return float(terms.sum())

    def penalty_value(self, W: Any) -> float:
        """g(W); zeros that a sparse W does not store add nothing to penalties for which this is true, others see them."""
        if not sp.issparse(W):
            return self.penalty.value(np.ascontiguousarray(W).reshape(-1))
        return self.penalty.value(W.data if self._few_matter else W.toarray().reshape(-1))

    def primal(self, W: Any, b: np.ndarray | None = None, S: np.ndarray | None = None) -> float:
        """The objective at (W, b)."""
        S = self.margins(W) if S is None else S
        return self.loss_value(S, b) + self.penalty_value(W)

    def dual(self, A: np.ndarray, Xta: Any = None, scale: float = 1.0) -> float:
        """The dual value at ``scale * A``, with ``Xta = X'(s A)``; -infinity outside the domains."""
        return -self._conjugate_sum(A, scale) - self._penalty_conjugate(self.product(A) if Xta is None else Xta, scale)

    def _conjugate_sum(self, A: np.ndarray, scale: float) -> float:
        """sum_i s_i l*(scale A_i; y_i)."""
        terms = np.empty(self.n)
        conjugate_terms(self.loss, self.codes, self.s, A, float(scale), terms)
        return float(terms.sum())

    def _penalty_conjugate(self, Xta: Any, scale: float) -> float:
        """g*(-scale Xta)."""
        return self.penalty.conjugate(_entries(Xta), -scale)

    def dual_point(self, A: np.ndarray, Xta: Any = None) -> DualPoint:
        """The given point made feasible, with its value.

        Rows are moved into the simplex; with intercepts, balanced so that ``sum_i s_i A_i = 0``; then scaled towards 0, that
        is V towards Y, by the best t in [0, 1], so that g*(-t X'(s A)) is finite.
        """
        feasible = np.ascontiguousarray(A, dtype=np.float64)
        if not all_inside(self.loss, self.codes, feasible):
            given, feasible, Xta = feasible, np.empty((self.n, self.k)), None
            project_rows(self.loss, self.codes, given, feasible)
        if self.fit_intercept:
            feasible, Xta = self._balance(feasible, Xta)
        if Xta is None:
            Xta = self.product(feasible)
        scale, value = self._best_scale(feasible, Xta)
        if scale == 1.0:
            return DualPoint(feasible, Xta, value)
        return DualPoint(feasible * scale, Xta.times(scale) if isinstance(Xta, Extremes) else Xta * scale, value)

    def _balance(self, A: np.ndarray, Xta: Any) -> tuple[np.ndarray, Any]:
        """Make r = sum_i s_i A_i vanish by mixing V with a point whose rows are all the same q.

        With class weights pi, rho = max_l r_l / pi_l and theta = rho / (1 + rho) the rows of ``V' = (1 - theta) V + theta 1 q'``,
        q = pi - r / rho, lie in the simplex and balance. The product of the mix is known in advance, so this reads no data.
        """
        r, pi = self.s @ A, self.class_weights
        rho = float(np.max(r / pi))
        if rho <= 16 * EPS:
            return A, Xta
        theta = rho / (1.0 + rho)
        shared = np.maximum(theta * pi - (1.0 - theta) * r, 0.0)  # theta q
        shared *= theta / shared.sum()
        mixed = (1.0 - theta) * A + shared
        mixed[np.arange(self.n), self.codes] -= theta
        if isinstance(Xta, np.ndarray):
            Xta = (1.0 - theta) * Xta + np.outer(self.column_sums, shared) - theta * self.class_products
        else:
            Xta = None
        return mixed, Xta

    @kept
    def column_sums(self) -> np.ndarray:
        """X's."""
        return self.matrix.rmatvec(self.s)

    @kept
    def class_products(self) -> np.ndarray:
        """X'(s Y), of shape (d, k): the weighted sums of the rows of each class."""
        Y = sp.csr_array((self.s, (self.codes, np.arange(self.n))), shape=(self.k, self.n))
        product = Y @ self.matrix.values
        return np.ascontiguousarray((product.toarray() if sp.issparse(product) else product).T, dtype=np.float64)

    def _best_scale(self, A: np.ndarray, Xta: Any) -> tuple[float, float]:
        """The best t of a concave search for t -> D(t A) on [0, 1], and its value."""
        linear = getattr(self.loss, "conjugate_is_linear", False)
        whole = self._conjugate_sum(A, 1.0) if linear else 0.0
        entries, threshold = _entries(Xta), self.penalty.threshold
        if not getattr(self.penalty, "bounded", False) and threshold > 0.0:  # only these count, also when scaled down
            top = float(largest(self.penalty, entries))
            entries = entries[np.abs(entries) > threshold] if top > threshold else np.zeros(1)
        else:
            top = float(largest(self.penalty, entries))

        def value(t: float) -> float:
            if t == 0.0:
                return 0.0  # as are all conjugates there
            conjugates = t * whole if linear else self._conjugate_sum(A, t)
            return -conjugates - self.penalty.conjugate(entries, -t)

        high = 1.0
        if self.penalty.strong_convexity == 0.0 and not getattr(self.penalty, "bounded", False) and top > threshold:
            high = threshold / top * (1.0 - ROUNDING)
        kink = threshold / top if 0.0 < threshold < top and high == 1.0 else high
        tried = sorted({high, kink, 0.5 * kink, 0.0})
        free = threshold > 0.0 and kink == high and not getattr(self.penalty, "bounded", False)  # g* is 0 up to there
        if free and self.n >= MANY and self._falls(A, high):
            tried = [0.0, high]
        return _peak(value, tried)

    def _falls(self, A: np.ndarray, high: float) -> bool:
        """Whether the conjugates of some of the rows are smaller at high A than at half of it, so that this need not be tried.

        Any scale gives a bound; the best one is needed less than the time of a sum over all rows.
        """
        some = np.arange(0, self.n, self.n // FEW)
        part, terms = (self.loss, self.codes[some], self.s[some], A[some]), np.empty((2, len(some)))
        for scale, out in zip((high, 0.5 * high), terms, strict=True):
            conjugate_terms(*part, scale, out)
        return float(terms[0].sum()) <= float(terms[1].sum())

    # -- certificate

    def certify(self, w: Any, dual: Any = None, b: Any = 0.0) -> Certificate:
        """See :func:`saddlery.certify`; `w` has shape (d, k), the dual (n, k), and b is 0 or has k numbers."""
        W, b, A = self.as_point(w, None if np.ndim(b) == 0 and b == 0.0 else b, dual)[:3]
        if b.any() and not self.fit_intercept:
            raise InputError("the problem has no intercepts: build it with fit_intercept=True, or give b=0")
        S = self.margins(W)
        point = self.dual_point(self._own_dual(W, b, S) if A is None else A)
        return self.certificate(self.primal(W, b, S), point.value, point.a)

    def certificate(self, primal: float, dual: float, a: np.ndarray) -> Certificate:
        """The certificate of two values; `a` is the dual point that `dual` belongs to."""
        size = abs(primal)
        if primal < dual:  # only then does it matter how large the terms were that cancelled
            terms = np.empty(self.n)
            conjugate_terms(self.loss, self.codes, self.s, a, 1.0, terms)
            size += float(np.abs(terms).sum() + self.s @ np.abs(a).sum(axis=1)) + self.scale
        return Certificate.of(primal, dual, self.scale, size)

    # -- for the loop

    def zeros(self) -> Any:
        """W = 0: an array, or sparse if that would be too large."""
        return sp.csr_array((self.d, self.k)) if self.is_large and self._few_matter else np.zeros((self.d, self.k))

    def first_point(self) -> Point:
        """The best constant model, or the feasible one nearest to it: the point to fall back on."""
        W = self.zeros()
        if math.isinf(self.penalty_value(W)):
            W = self.penalty.prox(W.reshape(-1), 1.0).reshape(self.d, self.k)
        return Point(W, self.constant.copy(), None)

    def evaluate(self, point: Point) -> tuple[float, DualPoint]:
        """The primal value of a point and its dual made feasible, using the products that come with it."""
        S = point.Xw
        if S is None and (point.loss is None or point.dual is None):
            S = self.margins(point.w)
        A, Xta = (self._own_dual(point.w, point.b, S), None) if point.dual is None else (point.dual, point.Xta)
        loss = self.loss_value(S, point.b) if point.loss is None else point.loss
        return loss + self.penalty_value(point.w), self.dual_point(A, Xta)

    def _own_dual(self, W: Any, b: np.ndarray, S: np.ndarray) -> np.ndarray:
        """The dual point that belongs to (W, b): the slopes there."""
        if not self.nonzeros(W) and np.array_equal(self._intercepts(b), self.constant):
            return self.constant_dual
        return self.slopes(S, b)

    def nonzeros(self, W: Any) -> int:
        """The number of weights that are not zero."""
        return count_nonzero(W)

    def check_cost(self, point: Point) -> float:
        """Entries of X that :meth:`evaluate` reads."""
        return self.matrix.nnz * float((point.Xw is None) + (point.dual is None or point.Xta is None))

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        """A start point from arrays (None for what is unknown), copied and checked."""
        W = self.zeros() if w is None else (sp.csr_array(w, dtype=np.float64) if sp.issparse(w) else np.array(w, dtype=np.float64))
        A = None if dual is None else np.array(dual, dtype=np.float64)
        b = np.zeros(self.k) if b is None or (np.shape(b) == () and b == 0.0) else np.array(b, dtype=np.float64)
        if W.shape != (self.d, self.k):
            raise InputError(f"W has shape {W.shape}, but the problem needs ({self.d}, {self.k}): features and classes")
        if A is not None and A.shape != (self.n, self.k):
            raise InputError(f"the dual point has shape {A.shape}, but the problem needs ({self.n}, {self.k}): rows and classes")
        if b.shape != (self.k,):
            raise InputError(f"b has shape {b.shape}, but there are {self.k} classes: give one intercept for each")
        numbers = (W.data if sp.issparse(W) else W, b, 0.0 if A is None else A)
        if not all(np.isfinite(part).all() for part in numbers):
            raise InputError("W, b and the dual point must be finite")
        return Point(W, b, A)

    def _intercepts(self, b: Any) -> np.ndarray:
        return np.zeros(self.k) if b is None else np.ascontiguousarray(np.broadcast_to(b, (self.k,)), dtype=np.float64)


def _entries(Xta: Any) -> np.ndarray:
    """The entries of Xta in a row, or those that were kept of it."""
    return Xta.entries if isinstance(Xta, Extremes) else np.ascontiguousarray(Xta).reshape(-1)


def _peak(function: Callable[[float], float], tried: list[float]) -> tuple[float, float]:
    """Where a concave function is largest and its value there: the best of some sorted points, or by golden section beside it.

    If the last point is the best of all, it is taken as it is: near the optimum that is where the peak lies.
    """
    values = [function(t) for t in tried]
    while max(values) == values[0] and tried[1] > SMALLEST:  # a narrow peak near the lower end
        tried, values = [tried[0], 0.25 * tried[1], *tried[1:]], [values[0], function(0.25 * tried[1]), *values[1:]]
    at = max(range(len(tried)), key=lambda i: (values[i], i))
    best = (values[at], tried[at])
    if 0 < at < len(tried) - 1:
        low, high = tried[at - 1], tried[at + 1]
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        f_left, f_right = function(left), function(right)
        for _ in range(TRIES):
            best = max(best, (f_left, left), (f_right, right))
            if f_left > f_right:
                high, right, f_right = right, left, f_left
                left = high - GOLDEN * (high - low)
                f_left = function(left)
            else:
                low, left, f_left = left, right, f_right
                right = low + GOLDEN * (high - low)
                f_right = function(right)
    return best[1], best[0]


def _even_plan(pi: np.ndarray) -> np.ndarray:
    """A table T >= 0 whose rows and columns sum to pi, with the least diagonal: 0 unless one class has more than half.

    T_lm = u_l u_m off the diagonal, with u_l (U - u_l) = pi_l and U = sum_l u_l; U is found by bisection.
    """
    k, top = len(pi), int(np.argmax(pi))
    if pi[top] >= 0.5:
        plan = np.zeros((k, k))
        plan[top], plan[:, top] = pi, pi
        plan[top, top] = 2.0 * pi[top] - 1.0
        return plan

    def parts(total: float, upper: bool) -> np.ndarray:
        root = np.sqrt(np.maximum(total * total - 4.0 * pi, 0.0))
        u = 2.0 * pi / (total + root)
        if upper:  # the other root of u (U - u) = pi, for the largest class only
            u[top] = 0.5 * (total + root[top])
        return u

    low = 2.0 * math.sqrt(pi[top])
    upper = parts(low, False).sum() < low
    high = 2.0 * low
    while (parts(high, upper).sum() > high) != upper:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if (parts(middle, upper).sum() > middle) != upper:
            low = middle
        else:
            high = middle
    u = parts(high, upper)
    plan = np.outer(u, u)
    np.fill_diagonal(plan, 0.0)
    return plan / plan.sum(axis=1, keepdims=True) * pi[:, None]


def _as_codes(y: Any, n: int, n_classes: int | None, s: np.ndarray, fit_intercept: bool) -> tuple[np.ndarray, int]:
    """The classes of the rows as integers from 0, and their number."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise InputError(f"y has shape {y.shape}, but X has {n} rows: give one class for each row")
    if y.dtype.kind not in "iufb":
        raise InputError("y must hold the numbers of the classes, from 0; estimators take any labels")
    codes = y.astype(np.int64)
    if not np.array_equal(codes, y) or (codes < 0).any():
        raise InputError("y must hold the numbers of the classes, 0, 1, 2, ...; estimators take any labels")
    k = int(codes.max()) + 1
    if n_classes is not None:
        if n_classes < k:
            raise InputError(f"y holds class {k - 1}, but n_classes is {n_classes}")
        k = int(n_classes)
    if k < 2:
        raise InputError("y holds one class only: there is nothing to learn")
    empty = np.flatnonzero(np.bincount(codes, s, k) == 0.0)
    if len(empty) and (n_classes is None or fit_intercept):
        cure = "leave it out and number the others anew" if fit_intercept else "leave it out, or give n_classes to allow it"
        raise InputError(f"no row with a positive weight is of class {empty[0]}: {cure}")
    return codes, k
