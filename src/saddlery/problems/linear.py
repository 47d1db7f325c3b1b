"""The linear problem: min_{w,b} sum_i s_i l(y_i, x_i.w + b) + g(w), its dual, and the map between them."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.kept import kept
from saddlery.matrix import Matrix, as_matrix
from saddlery.penalties.base import largest
from saddlery.point import Point
from saddlery.problems.row_sums import (
    balance,
    best_intercept,
    best_multiple,
    clip_to_domain,
    conjugate_terms,
    dual_room,
    dual_value,
    mean_loss,
    primal_value,
    ray_peak,
    slopes,
)
from saddlery.registry import LOSSES

__all__ = ["DualPoint", "LinearProblem"]

EPS = float(np.finfo(float).eps)
CACHES = (
    "constant",
    "scale",
    "constant_dual",
    "constant_gradient",
    "_constant_slopes",
    "_class_weights",
    "_class_products",
    "_dual_room",
    "levels",
    "_dual_at_zero",
    "column_norms",
    "equal_weights",
)
SIGNS = np.array([1.0, -1.0])
SIGN_LEVELS = np.array([[-1.0, 0.0], [0.0, 1.0]])  # in the domain of every l* for signs
SHARED_PRODUCTS = 20_000_000  # numbers: above, the products of all classes would take more memory than they are worth


class DualPoint(NamedTuple):
    """A feasible dual point, its product ``X'(s a)`` and its value."""

    a: Any
    Xta: Any
    value: float


class LinearProblem:
    """``min_{w,b}  sum_i s_i l(y_i, x_i.w + b) + g(w)``, with weights s_i >= 0 that sum to one.

    Its saddle form is ``min_{w,b} max_a g(w) + sum_i s_i a_i (x_i.w + b) - sum_i s_i l*(a_i; y_i)``, its dual
    ``max_a  -g*(-X'(s a)) - sum_i s_i l*(a_i; y_i)``, where ``sum_i s_i a_i = 0`` if there is an intercept.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Data.
    y : array of shape (n,)
        Targets: -1 and +1 for classification losses, numbers for regression.
    loss : loss or str
        Such as ``sd.losses.Logistic()`` or ``"logistic"``.
    penalty : penalty
        Such as ``sd.penalties.L1(0.01)``.
    sample_weight : array of shape (n,), optional
        Non-negative weights; they are divided by their sum. A weight of 0 is no row at all.
    fit_intercept : bool
        Whether there is an intercept b, which is never penalised.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> problem = sd.LinearProblem([[1.0], [-1.0]], [1, -1], penalty=sd.penalties.L1(0.1))
    >>> round(problem.alpha_max(), 3)
    0.5
    """

    kind = "linear"
    evaluates_from_data = True  # what a point does not bring is computed from the data, exactly

    def __init__(
        self, X: Any, y: Any, loss: Any = "logistic", penalty: Any = None, sample_weight: Any = None, fit_intercept: bool = False
    ):
        self.matrix: Matrix = as_matrix(X)
        self.n, self.d = self.matrix.shape
        self.loss = LOSSES.get(loss)() if isinstance(loss, str) else loss
        if not hasattr(self.loss, "targets"):
            raise InputError(f"the loss must be a name or a loss such as saddlery.losses.Logistic(), not {loss!r}")
        if not hasattr(penalty, "strong_convexity"):
            raise InputError(f"give the penalty with its strength, such as saddlery.penalties.L1(0.01), not {penalty!r}")
        self.penalty = penalty
        self.fit_intercept = bool(fit_intercept)
        for piece in (self.loss, self.penalty):
            if hasattr(piece, "check"):
                piece.check()
        if hasattr(self.penalty, "check_columns"):
            self.penalty.check_columns(self.d)
        if penalty.threshold == 0.0 and not getattr(penalty, "bounded", False) and self.loss.targets == "signs":
            self.matrix = self.matrix.lean()  # no column is ever left out
        self.s = _as_weights(sample_weight, self.n)
        if sample_weight is None:
            self.equal_weights = True
        self.y = _as_targets(y, self.n, self.loss.targets, self.s)

    def __repr__(self) -> str:
        intercept = ", intercept" if self.fit_intercept else ""
        return f"LinearProblem({self.matrix!r}, {self.loss!r}, {self.penalty!r}{intercept})"

    @classmethod
    def one_vs_rest(
        cls, X: Any, codes: np.ndarray, loss: Any, penalty: Any, sample_weight: Any = None, fit_intercept: bool = False
    ) -> list[LinearProblem]:
        """One problem for each class against the rest, over the same matrix.

        The products of X with the indicators of all classes are computed in one pass and shared: they give the first gradient
        of every class, and the repair of its dual points.

        Parameters
        ----------
        X : array-like, sparse matrix or Matrix of shape (n, d)
            Data.
        codes : array of int of shape (n,)
            The class of each row, from 0.
        loss, penalty, sample_weight, fit_intercept
            As for the problem itself.

        Examples
        --------
        >>> import numpy as np, saddlery as sd
        >>> problems = LinearProblem.one_vs_rest(np.eye(3), np.array([0, 1, 2]), "logistic", sd.penalties.L1(0.1))
        >>> [problem.y.tolist() for problem in problems]
        [[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
        """
        matrix, count = as_matrix(X), int(codes.max()) + 1
        problems = [cls(matrix, np.where(codes == k, 1.0, -1.0), loss, penalty, sample_weight, fit_intercept) for k in range(count)]
        if count * matrix.shape[1] <= SHARED_PRODUCTS:
            weights = sp.csr_array((problems[0].s, (codes, np.arange(len(codes)))), shape=(count, len(codes)))
            products = matrix.left_product(weights)
            total = products.sum(axis=0)
            for problem, product in zip(problems, products, strict=True):
                problem.__dict__["_class_products"] = (product, total - product)
        return problems

    @property
    def size(self) -> int:
        """Entries that one pass over the data reads."""
        return self.matrix.nnz

    def with_penalty(self, penalty: Any) -> LinearProblem:
        """The same data and loss with another penalty; nothing is copied."""
        if hasattr(penalty, "check"):
            penalty.check()
        if hasattr(penalty, "check_columns"):
            penalty.check_columns(self.d)
        other = copy.copy(self)
        other.penalty = penalty
        return other

    def take_rows(self, index: np.ndarray, weights: np.ndarray | None = None) -> LinearProblem:
        """The problem on some of its rows; their weights (new ones if given) are rescaled to sum to one."""
        weights = self.s[index] if weights is None else weights
        return self._changed(matrix=self.matrix.take_rows(index), y=self.y[index], s=weights / weights.sum())

    def with_loss(self, loss: Any, y: np.ndarray) -> LinearProblem:
        """The same data and penalty with another loss and targets of the same signs; nothing is copied, nothing checked."""
        return self._changed(("_class_products", "column_norms"), loss=loss, y=y)

    def with_matrix(self, matrix: Matrix) -> LinearProblem:
        """The same targets, loss and penalty with other columns of the same rows."""
        return self._changed(matrix=matrix)

    def _changed(self, keep: tuple[str, ...] = (), **fields: Any) -> LinearProblem:
        """A copy with other fields, which forgets what was computed from the old ones, but for what is to be kept."""
        other = copy.copy(self)
        for name in CACHES:
            if name not in keep:
                other.__dict__.pop(name, None)
        other.__dict__.update(fields)
        other.n, other.d = other.matrix.shape
        return other

    # -- scale

    @kept
    def constant(self) -> float:
        """The best constant model b (0 without an intercept)."""
        if not self.fit_intercept:
            return 0.0
        y, s = self.y, self.s
        if self.loss.targets == "signs":
            y, s = SIGNS, self._class_weights
        return float(best_intercept(self.loss, y, s, np.zeros_like(y), float(s @ y)))

    @kept
    def scale(self) -> float:
        """The objective of the best constant model: the unit in which gaps are measured."""
        if self.loss.targets != "signs":
            return self.loss_value(np.zeros(self.n), self.constant)
        (positive, negative), b = self._class_weights, self.constant
        return float(positive * self.loss.value(1.0, b) + negative * self.loss.value(-1.0, b))

    @kept
    def _class_weights(self) -> np.ndarray:
        """sum_i s_i over the rows with y = 1 and over those with y = -1."""
        excess = float(self.s @ self.y)
        positive = 0.5 + 0.5 * excess if abs(excess) < 0.99 else float(self.s[self.y > 0.0].sum())  # a rare class keeps its digits
        return np.array([positive, 1.0 - positive])

    def slopes(self, z: np.ndarray, b: float = 0.0) -> np.ndarray:
        """``l'(y_i, z_i + b)`` for every row: the dual point that belongs to margins z."""
        out = np.empty(self.n)
        slopes(self.loss, self.y, z, float(b), out)
        return out

    def alpha_max(self) -> float:
        """The strength of the penalty from which on w = 0 is optimal; infinity if there is none.

        For losses that are not smooth it may be somewhat larger than the smallest such strength.
        """
        if not hasattr(self.penalty, "alpha"):
            raise InputError(f"{self.penalty!r} has a size and no strength: there is no largest alpha")
        share = self.penalty.threshold / self.penalty.alpha
        if share == 0.0:
            return math.inf
        return float(np.max(np.abs(self.constant_gradient)) / share)

    @property
    def screens(self) -> bool:
        """Whether columns can be shown not to matter: below a threshold, and with a dual that need not balance."""
        return self.penalty.threshold > 0.0 and not self.fit_intercept

    @kept
    def equal_weights(self) -> bool:
        """Whether all rows have the same weight."""
        return bool(self.s.min() == self.s.max())

    @kept
    def column_norms(self) -> np.ndarray:
        """sqrt(sum_i s_i x_ij^2) for every column."""
        if self.equal_weights:
            return np.sqrt(self.s[0] * self.matrix.col_square_norms)
        return np.sqrt(self.matrix.weighted_col_square_norms(self.s))

    # -- primal and dual values

    def margins(self, w: np.ndarray) -> np.ndarray:
        """X w."""
        return self.matrix.matvec(w)

    def gradient(self, a: np.ndarray) -> np.ndarray:
        """X'(s a)."""
        return self.matrix.rmatvec(self.s * a)

    def primal(self, w: np.ndarray, b: float = 0.0, Xw: np.ndarray | None = None) -> float:
        """The objective at (w, b)."""
        Xw = self.margins(w) if Xw is None else Xw
        if getattr(self.penalty, "separable", False):
            terms = np.empty(self.n)
            return float(primal_value(self.loss, self.penalty, self.y, self.s, Xw, float(b), w, terms))
        return self.loss_value(Xw, b) + self.penalty.value(w)

    def loss_value(self, Xw: np.ndarray, b: float = 0.0) -> float:
        """The weighted mean of the loss at margins Xw + b."""
        return mean_loss(self.loss, self.y, self.s, Xw, b)

    def dual(self, a: np.ndarray, Xta: np.ndarray | None = None, scale: float = 1.0) -> float:
        """The dual value at ``scale * a``, with ``Xta = X'(s a)``; -infinity outside the domains."""
        Xta = self.matrix.rmatvec(self.s * a) if Xta is None else Xta
        terms = np.empty(self.n)
        if getattr(self.penalty, "separable", False):
            return float(dual_value(self.loss, self.penalty, self.y, self.s, a, Xta, float(scale), terms))
        conjugate_terms(self.loss, self.y, self.s, a, float(scale), terms)
        return -float(terms.sum()) - self.penalty.conjugate(Xta, -scale)

    def dual_point(self, a: np.ndarray, Xta: np.ndarray | None = None) -> DualPoint:
        """The given point made feasible, with its value.

        Clip to the domain of l*; with an intercept, balance so that ``sum_i s_i a_i = 0``; scale by the t that is best of
        a few, so that g*(-t X'(s a)) is finite. All domains contain 0 and are convex, so scaling keeps the rest.
        """
        feasible = np.empty(self.n)
        moved = clip_to_domain(self.loss, self.y, np.asarray(a, dtype=np.float64), feasible)
        if Xta is None or moved:
            Xta = self.matrix.rmatvec(self.s * feasible)
        if self.fit_intercept:
            feasible, Xta = self._balance(feasible, Xta)
            clip_to_domain(self.loss, self.y, feasible, feasible)  # rounding may have left it by a hair
        scale, value = self._best_scale(feasible, Xta)
        return DualPoint(feasible * scale, Xta * scale, value) if scale != 1.0 else DualPoint(feasible, Xta, value)

    def _balance(self, a: np.ndarray, Xta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Make sum_i s_i a_i = 0, in place, by mixing with a point e of opposite sum that is constant on each class.

        The products X'(s e) are known in advance, so this reads no data; the domain of l* is convex, so it is kept.
        """
        keep, up, down = balance(self.loss, self.y, self.s, a, self.levels)
        if keep == 1.0 and up == 0.0:
            return a, Xta
        positive, negative = self._class_products
        return a, keep * Xta + up * positive + down * negative

    @kept
    def levels(self) -> np.ndarray:
        """Two dual points with which to balance, as rows: what they are where y > 0, and elsewhere."""
        if self.loss.targets == "signs":
            return SIGN_LEVELS
        return np.repeat(np.array(self._dual_room)[:, None], 2, axis=1)

    @kept
    def _class_products(self) -> tuple[np.ndarray, np.ndarray]:
        """X'(s e) for the indicators e of the rows with y > 0 and of the others."""
        positive = self.y > 0.0
        if not self.matrix.compiled:  # reading is dear: both in one pass
            both = self.matrix.rmatvec(np.column_stack([self.s * positive, self.s * ~positive]))
            return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])
        return self.matrix.rmatvec_of_two(self.s * positive, self.s * ~positive)

    @kept
    def constant_dual(self) -> np.ndarray:
        """The dual point of the best constant model: its slopes, at a kink those that balance."""
        if self.loss.targets != "signs":
            return self.slopes(np.zeros(self.n), self.constant)
        return np.where(self.y > 0.0, *self._constant_slopes)

    @kept
    def constant_gradient(self) -> np.ndarray:
        """X'(s a) at the dual point of the best constant model: of a class, all slopes are the same there."""
        # Norms are for screening (problems/screening.py).
        product = self.matrix.rmatvec_with_norms if self.screens and self.equal_weights else self.matrix.rmatvec
        if self.loss.targets != "signs":
            return product(self.s * self.constant_dual)
        upper, lower = self._constant_slopes
        if not self.fit_intercept and "_class_products" not in self.__dict__:
            return product(self.s * np.where(self.y > 0.0, upper, lower))
        positive, negative = self._class_products
        return upper * positive + lower * negative

    @kept
    def _constant_slopes(self) -> tuple[float, float]:
        """Slopes of the loss at the best constant for y = 1 and y = -1."""
        upper, lower = self.loss.slope(1.0, self.constant), self.loss.slope(-1.0, self.constant)
        if self.fit_intercept and not math.isfinite(self.loss.smoothness):  # at a kink: the largest slopes that balance
            weight = float(self._class_weights[0])
            shared = min(-self.loss.dual_lower(1.0) * weight, self.loss.dual_upper(-1.0) * (1.0 - weight))
            upper, lower = -shared / weight, shared / (1.0 - weight)
        return upper, lower

    @kept
    def _dual_room(self) -> tuple[float, float]:
        """The constants a that lie in the domain of l* of every row: their lower and upper end."""
        low, high = dual_room(self.loss, self.y)
        return float(low), float(high)

    def _best_scale(self, a: np.ndarray, Xta: np.ndarray) -> tuple[float, float]:
        """The best t among a few for the concave function t -> D(t a), and its value."""
        penalty = self.penalty
        if penalty.strong_convexity == 0.0 and not getattr(penalty, "bounded", False):
            t, value = self._largest_multiple(a, Xta)
            candidates, values = [t], [value]
        else:
            candidates = [1.0]  # where g* is finite everywhere; and if l1 is a part of g, what would be feasible for that alone
            top = largest(penalty, Xta) if penalty.strong_convexity > 0.0 and penalty.threshold > 0.0 else 0.0
            if top > penalty.threshold:
                candidates.append(penalty.threshold / top)
            values = [self.dual(a, Xta, t) for t in candidates]
        if max(values) < self._dual_at_zero:
            candidates, values = [candidates[0], 0.0], [values[0], self._dual_at_zero]
        if len(candidates) == 2 and values[1] > values[0]:  # far from the optimum: somewhere between them
            candidates.append(0.5 * (candidates[0] + candidates[1]))
            values.append(self.dual(a, Xta, candidates[2]))
            peak = _parabola_peak(candidates, values)
            if peak is not None:
                candidates.append(peak)
                values.append(self.dual(a, Xta, peak))
        best = values.index(max(values))
        if not math.isfinite(values[best]):
            return 0.0, self._dual_at_zero
        return candidates[best], values[best]

    def _largest_multiple(self, a: np.ndarray, Xta: np.ndarray) -> tuple[float, float]:
        """The t up to which t a is feasible, or where D has its peak if it is a parabola along rays; and D(t a)."""
        penalty, bend = self.penalty, getattr(self.loss, "conjugate_curvature", None) or 0.0
        if getattr(penalty, "separable", False):
            terms = np.empty(self.n)
            t, value = best_multiple(self.loss, penalty, self.y, self.s, a, Xta, bend, penalty.threshold, 0.0, terms)
            return float(t), float(value)
        t = ray_peak(self.loss, self.y, self.s, a, bend) if bend > 0.0 else 1.0
        t *= penalty.dual_scale(t * Xta)
        return t, self.dual(a, Xta, t)

    @kept
    def _dual_at_zero(self) -> float:
        if self.loss.targets != "signs" or not getattr(self.penalty, "separable", False):
            return self.dual(np.zeros(self.n), np.zeros(self.d))
        two = (SIGNS, self._class_weights, np.zeros(2), np.zeros(self.d), 1.0, np.empty(2))  # all rows of a class are the same
        return float(dual_value(self.loss, self.penalty, *two))

    # -- certificate

    def certify(self, w: Any, dual: Any = None, b: float = 0.0) -> Certificate:
        """See :func:`saddlery.certify`."""
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.d,):
            raise InputError(f"w has shape {w.shape}, but the data have {self.d} columns")
        if b != 0.0 and not self.fit_intercept:
            raise InputError("the problem has no intercept: build it with fit_intercept=True, or give b=0")
        Xw = self.margins(w)
        a = self._own_dual(w, b, Xw) if dual is None else np.asarray(dual, dtype=np.float64)
        if a.shape != (self.n,):
            raise InputError(f"the dual point has shape {a.shape}, but the data have {self.n} rows")
        if not (np.isfinite(w).all() and np.isfinite(a).all() and math.isfinite(b)):
            raise InputError("w, b and the dual point must be finite")
        point = self.dual_point(a)
        return self.certificate(self.primal(w, b, Xw), point.value, point.a)

    def certificate(self, primal: float, dual: float, a: np.ndarray) -> Certificate:
        """The certificate of two values; `a` is the dual point that `dual` belongs to."""
        size = abs(primal)
        if primal < dual:  # only then does it matter how large the terms were that cancelled
            terms = np.empty(self.n)
            conjugate_terms(self.loss, self.y, self.s, a, 1.0, terms)
            size += float(np.abs(terms).sum() + self.s @ np.abs(self.y * a))
        return Certificate.of(primal, dual, self.scale, size)

    # -- for the loop

    def first_point(self) -> Point:
        """The best constant model, or the feasible one nearest to it: the point to fall back on."""
        w = np.zeros(self.d)
        return Point(w if math.isfinite(self.penalty.value(w)) else self.penalty.prox(w, 1.0), self.constant, None)

    def evaluate(self, point: Point) -> tuple[float, DualPoint]:
        """The primal value of a point and its dual made feasible, using the products that come with it."""
        Xw = self.margins(point.w) if point.Xw is None else point.Xw
        a, Xta = (self._own_dual(point.w, point.b, Xw), None) if point.dual is None else (point.dual, point.Xta)
        primal = self.primal(point.w, point.b, Xw) if point.loss is None else point.loss + self.penalty.value(point.w)
        return primal, self.dual_point(a, Xta)

    def _own_dual(self, w: np.ndarray, b: float, Xw: np.ndarray) -> np.ndarray:
        """The dual point that belongs to (w, b): the slopes there."""
        return self.constant_dual if b == self.constant and not w.any() else self.slopes(Xw, b)

    def nonzeros(self, w: np.ndarray) -> int:
        """The number of weights that are not zero."""
        return int(np.count_nonzero(w))

    def check_cost(self, point: Point) -> float:
        """Entries of X that :meth:`evaluate` reads."""
        return self.matrix.nnz * float((point.Xw is None) + (point.dual is None or point.Xta is None))

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        """A start point from arrays (None for what is unknown), copied and checked."""
        w = np.zeros(self.d) if w is None else np.array(w, dtype=np.float64)
        dual = None if dual is None else np.array(dual, dtype=np.float64)
        if w.shape != (self.d,) or (dual is not None and dual.shape != (self.n,)):
            raise InputError(f"start does not fit the problem: w needs {self.d} numbers and the dual {self.n}")
        if not (np.isfinite(w).all() and (dual is None or np.isfinite(dual).all()) and math.isfinite(b or 0.0)):
            raise InputError("the start must be finite")
        return Point(w, float(b or 0.0) if self.fit_intercept else 0.0, dual)


def _parabola_peak(t: list[float], v: list[float]) -> float | None:
    """The peak of the parabola through three points, if it lies between the outer ones."""
    if not all(map(math.isfinite, v)):
        return None
    (a, b, c), (fa, fb, fc) = t, v
    below = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    if below == 0.0:
        return None
    peak = b - 0.5 * ((b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)) / below
    return peak if min(t) < peak < max(t) else None


def _as_weights(sample_weight: Any, n: int) -> np.ndarray:
    if sample_weight is None:
        s = np.empty(n)
        s.fill(1.0 / n)
        return s
    s = np.asarray(sample_weight, dtype=np.float64)
    if s.ndim == 0:
        s = np.full(n, float(s))
    if s.shape != (n,):
        raise InputError(f"sample_weight has shape {s.shape}, but X has {n} rows: give one weight for each row")
    if not np.isfinite(s).all():
        raise InputError(f"sample_weight contains NaN or infinity at row {np.flatnonzero(~np.isfinite(s))[0]}")
    if (s < 0).any():
        raise InputError(f"sample_weight is negative at row {np.flatnonzero(s < 0)[0]}: weights must be 0 or more")
    total = s.sum()
    if total == 0.0:
        raise InputError("all sample weights are zero: at least one row must count")
    return s / total


def _as_targets(y: Any, n: int, kind: str, s: np.ndarray) -> np.ndarray:
    y = np.asarray(y)
    if y.shape != (n,):
        raise InputError(f"y has shape {y.shape}, but X has {n} rows: give one target for each row")
    try:
        y = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("y must hold numbers (-1 and +1 for classification); estimators take any labels") from error
    if not math.isfinite(y.dot(y)) and not np.isfinite(y).all():  # squares may be too large
        raise InputError(f"y contains NaN or infinity at row {np.flatnonzero(~np.isfinite(y))[0]}")
    if kind == "signs":
        strange = np.abs(y) != 1.0
        if np.count_nonzero(strange):  # (of small arrays in a quarter of the time that `any` takes, or `min` and `max`)
            raise InputError(f"this loss needs targets -1 and +1, but y holds {y[strange][0]:g}")
        present = y if np.count_nonzero(s) == n else y[s > 0.0]
        if np.count_nonzero(present > 0.0) in (0, len(present)):
            raise InputError(f"y holds one class only ({present[0]:+g}): give rows of both classes with positive weights")
    return y
