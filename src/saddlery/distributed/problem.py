"""The linear problem whose rows are partitions of a Dask collection."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from saddlery.certificate import Certificate
from saddlery.distributed.dual import DualRows, dual_rows, pack
from saddlery.distributed.partitions import Partitions
from saddlery.distributed.rounds import Meter
from saddlery.distributed.sums import First, FirstTask, Judge, JudgeTask, Slope
from saddlery.errors import InputError
from saddlery.penalties.base import largest
from saddlery.point import Point
from saddlery.problems.linear import EPS, DualPoint, LinearProblem
from saddlery.registry import LOSSES

__all__ = ["GRID", "DaskLinearProblem"]

GRID = (0.5, 0.75, 0.9, 0.97, 0.99, 0.999, 0.9999, 1.0)  # scales at which rounds sum l*: the right one is known only after them
NEAR = 1e-12  # scales that differ by less are taken for one


class DaskLinearProblem(LinearProblem):
    """``min_{w,b}  sum_i s_i l(y_i, x_i.w + b) + g(w)`` over the rows of a Dask collection or of Parquet files.

    Everything but the data is as in :class:`~saddlery.LinearProblem`: objective, scale, certificate, meaning of `tol`. All sums
    over rows are made by one round of tasks over the partitions, on the current ``distributed.Client`` or, without one, on
    threads. Dual points are :class:`~saddlery.distributed.dual.DualRows`, from which each partition computes its own rows;
    :meth:`dual_array` is the lazy array.

    Parameters
    ----------
    X : dask array (dense or sparse blocks), dask data frame, path of Parquet files, or Partitions
        Data.
    y : dask array or series, array, or name of a column of X
        Targets: -1 and +1 for classification losses, numbers for regression.
    loss, penalty, sample_weight, fit_intercept
        As for :class:`~saddlery.LinearProblem`; weights may be a Dask collection or the name of a column.
    keep : bool, optional
        Whether partitions stay in memory between rounds; by default if they fit into two fifths of it.
    positive : int, optional
        Number of the class that is +1, for Partitions with labels.
    factors : array, optional
        Weights of the classes, for Partitions with labels.

    Examples
    --------
    >>> import dask.array as da, numpy as np, saddlery as sd
    >>> X, y = np.eye(4), np.array([1.0, -1.0, 1.0, -1.0])
    >>> problem = sd.DaskLinearProblem(da.from_array(X, chunks=(2, 4)), y, penalty=sd.penalties.L1(0.01))
    >>> solution = sd.solve(problem)
    >>> solution.status, solution.dual.__class__.__name__
    (<Status.CONVERGED: 'certified to the tolerance'>, 'DualRows')
    """

    kind = "distributed"
    evaluates_from_data = False  # sums of the last round may serve

    def __init__(
        self,
        X: Any,
        y: Any = None,
        loss: Any = "logistic",
        penalty: Any = None,
        sample_weight: Any = None,
        fit_intercept: bool = False,
        keep: bool | None = None,
        positive: int | None = None,
        factors: Any = None,
    ):
        self.loss = LOSSES.get(loss)() if isinstance(loss, str) else loss
        if not hasattr(self.loss, "targets"):
            raise InputError(f"the loss must be a name or a loss such as saddlery.losses.Logistic(), not {loss!r}")
        if not hasattr(penalty, "strong_convexity"):
            raise InputError(f"give the penalty with its strength, such as saddlery.penalties.L1(0.01), not {penalty!r}")
        self.penalty, self.fit_intercept = penalty, bool(fit_intercept)
        for piece in (self.loss, self.penalty):
            if hasattr(piece, "check"):
                piece.check()
        self.partitions = X if isinstance(X, Partitions) else Partitions(X, y, sample_weight, keep=keep)
        self.n, self.d = self.partitions.n, self.partitions.d
        if hasattr(self.penalty, "check_columns"):
            self.penalty.check_columns(self.d)
        self.reading = self.partitions.reading(positive, factors)
        self.meter = Meter()
        self._last: tuple[Any, dict[str, Any]] = (None, {})
        if self.loss.targets == "signs":
            self._check_signs()

    def _check_signs(self) -> None:
        if self.reading.positive is None and not self.partitions.all_signs:
            raise InputError("this loss needs targets -1 and +1: estimators take any labels")
        if not 0.0 < self.positive < 1.0:
            raise InputError("y holds one class only: give rows of both classes with positive weights")

    def __repr__(self) -> str:
        intercept = ", intercept" if self.fit_intercept else ""
        size = f"{self.n} x {self.d} in {len(self.partitions.lengths)} partitions"
        return f"DaskLinearProblem({size}, {self.loss!r}, {self.penalty!r}{intercept})"

    @property
    def size(self) -> int:
        """Entries that one pass over the data reads."""
        return self.partitions.nnz

    @property
    def conditioning(self) -> float:
        """The largest eigenvalue of X' diag(s) X (a bound) times the smoothness of the loss, by the penalty's strong convexity."""
        mu = self.penalty.strong_convexity
        return self.partitions.mean_square * self.loss.smoothness / mu if mu > 0.0 else math.inf

    def with_penalty(self, penalty: Any) -> DaskLinearProblem:
        """The same data and loss with another penalty; rounds are counted anew."""
        other = super().with_penalty(penalty)
        other.meter = Meter()  # type: ignore[attr-defined]
        other.__dict__.pop("_dual_at_zero", None)
        return other  # type: ignore[return-value]

    def run(self, make: Any, common: Any, extras: Any = None, only: Any = None) -> Any:
        """One round over the partitions, counted by this problem's meter."""
        return self.partitions.run(make, common, self.meter, extras, only)

    # -- the constant model

    @cached_property
    def positive(self) -> float:
        """The share of the weights that rows with y > 0 have."""
        k, factors = self.reading.positive, self.reading.factors
        if k is None:
            return self.partitions.positive_share
        totals = self.partitions.class_totals * (1.0 if factors is None else factors)
        return float(totals[k] / totals.sum())

    @cached_property
    def constant(self) -> float:
        if not self.fit_intercept:
            return 0.0
        if self.loss.targets == "signs":
            from saddlery.problems.row_sums import best_intercept

            y, s = np.array([1.0, -1.0]), np.array([self.positive, 1.0 - self.positive])
            return float(best_intercept(self.loss, y, s, np.zeros(2), float(s @ y)))
        return self._best_constant(self._mean)

    @property
    def _mean(self) -> float:
        """sum_i s_i y_i"""
        return self.partitions.mean

    def _best_constant(self, b: float) -> float:
        """argmin_b sum_i s_i l(y_i, b): Newton steps inside a bracket, a round each (squares need one)."""
        low, high = -math.inf, math.inf
        for _ in range(60):
            slope, curvature, size = self.run(Slope, (self.loss, self.reading, b))[0]["total"]
            if abs(slope) <= 8 * EPS * size:
                break
            low, high = (low, b) if slope > 0.0 else (b, high)
            trial = b - slope / curvature if curvature > 0.0 else math.inf
            if not low < trial < high:
                trial = 0.5 * (low + high) if math.isfinite(low) and math.isfinite(high) else b - math.copysign(1.0 + abs(b), slope)
            if trial == b or high - low <= EPS * abs(b):
                break
            b = trial
        return float(b)

    @cached_property
    def scale(self) -> float:
        if self.loss.targets != "signs":
            return float(self._first["loss"])
        return float(
            self.positive * self.loss.value(1.0, self.constant) + (1.0 - self.positive) * self.loss.value(-1.0, self.constant)
        )

    @cached_property
    def _first(self) -> dict[str, Any]:
        """The round at w = 0."""
        levels = tuple(level for level in self._dual_room if math.isfinite(level)) if self.loss.targets != "signs" else ()
        return self.run(First, FirstTask(self.loss, self.reading, self.d, self.constant, levels, GRID))[0]

    @cached_property
    def _class_products(self) -> tuple[np.ndarray, np.ndarray]:
        return self._first["upper"], self._first["lower"]

    @cached_property
    def constant_gradient(self) -> np.ndarray:
        if self.loss.targets != "signs":
            return self._first["gradient"]
        upper, lower = self._constant_slopes
        positive, negative = self._class_products
        return upper * positive + lower * negative

    @cached_property
    def constant_dual(self) -> DualRows:  # type: ignore[override]
        """The dual point of the best constant model."""
        at_zero = DualRows(pack(np.zeros(self.d)), self.constant)
        if self.loss.targets != "signs" or math.isfinite(self.loss.smoothness):
            return at_zero
        return at_zero.mixed(1.0, *self._constant_slopes)

    @cached_property
    def _constant_slopes(self) -> tuple[float, float]:
        upper, lower = self.loss.slope(1.0, self.constant), self.loss.slope(-1.0, self.constant)
        if self.fit_intercept and not math.isfinite(self.loss.smoothness):
            weight = self.positive
            shared = min(-self.loss.dual_lower(1.0) * weight, self.loss.dual_upper(-1.0) * (1.0 - weight))
            upper, lower = -shared / weight, shared / (1.0 - weight)
        return upper, lower

    @cached_property
    def _dual_room(self) -> tuple[float, float]:
        """The losses of real targets have the same domain for every target."""
        if self.loss.targets == "signs":
            ends = np.array([(self.loss.dual_lower(y), self.loss.dual_upper(y)) for y in (-1.0, 1.0)])
            return float(ends[:, 0].max()), float(ends[:, 1].min())
        return self.loss.dual_lower(0.0), self.loss.dual_upper(0.0)

    # -- values

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Refused: margins stay with their rows."""
        raise InputError("the margins of a distributed problem stay with their partitions: use the estimator's decision_function")

    def primal(self, w: np.ndarray, b: float = 0.0, Xw: Any = None) -> float:
        """The objective at (w, b)."""
        return self._judged(w, b, None, ())["loss"] + self.penalty.value(w)

    def _judged(self, w: Any, b: float, a: DualRows | None, scales: tuple[float, ...]) -> dict[str, Any]:
        """One exact round; the sums of the dual point are remembered."""
        packed = None if w is None else pack(np.asarray(w, dtype=np.float64))
        if a is not None and w is not None and a.move is None and a.blocks is None and a.b == b and _same(a.w, packed):
            packed = a.w  # the margins are the same: partitions compute them once
        task = JudgeTask(self.loss, self.reading, self.d, packed, float(b), None if a is None else a.recipe(), scales)
        sums, _ = self.run(Judge, task, None if a is None else a.blocks)
        if a is not None:
            sums["scales"] = dict(zip(scales, sums["conjugates"], strict=True))
            self._last = (a, sums)
        return sums

    def _sums_of(self, a: DualRows, scale: float | None = None) -> dict[str, Any]:
        """The sums of a dual point, and that of l* at one scale: from the last round if they are there."""
        known, sums = self._last
        if known is not a:
            return self._judged(None, 0.0, a, (1.0,) if scale is None else (scale,))
        if scale is not None and not any(abs(scale - t) <= NEAR for t in sums["scales"]):
            old, sums = sums, self._judged(None, 0.0, a, (scale,))
            sums["scales"].update(old["scales"])
        return sums

    def dual(self, a: Any, Xta: Any = None, scale: float = 1.0) -> float:
        """The dual value at ``scale * a``."""
        c = getattr(self.loss, "conjugate_curvature", None)
        if c is not None and scale >= 0.0:
            sums = self._sums_of(a)
            first, second = sums["ray"]
            conjugate = scale * first + 0.5 * c * scale * scale * second
        else:
            sums = self._sums_of(a, scale)
            conjugate = next(value for t, value in sums["scales"].items() if abs(t - scale) <= NEAR)
        return -float(conjugate) - self.penalty.conjugate(sums["Xta"] if Xta is None else Xta, -scale)

    def dual_point(self, a: Any, Xta: Any = None) -> DualPoint:
        """The given point made feasible, with its value; all from the data."""
        Xta = self._sums_of(a)["Xta"]
        if self.fit_intercept:
            a, Xta = self._balance(a, Xta)
        scale, value = self._best_scale(a, Xta)
        return DualPoint(a.scaled(scale), Xta * scale, value) if scale != 1.0 else DualPoint(a, Xta, value)

    def _balance(self, a: Any, Xta: np.ndarray) -> tuple[Any, np.ndarray]:
        upper, lower, size = self._sums_of(a)["totals"]
        return self.balanced(a, Xta, upper + lower, size)[:2]

    def balanced(self, a: DualRows, Xta: np.ndarray, excess: float, size: float) -> tuple[DualRows, np.ndarray, float, float]:
        """The point mixed with one of opposite sum that is constant on each class; with the share, and the level, that it took."""
        if abs(excess) <= 4 * EPS * size:
            return a, Xta, 0.0, 0.0
        positive, negative = self._class_products
        if self.loss.targets == "signs":
            weight = self.positive if excess > 0.0 else 1.0 - self.positive
            share = abs(excess) / (abs(excess) + weight)
            if excess > 0.0:
                return a.mixed(share, -1.0, 0.0), (1.0 - share) * Xta - share * positive, share, -1.0
            return a.mixed(share, 0.0, 1.0), (1.0 - share) * Xta + share * negative, share, 1.0
        product = positive + negative
        level = self._dual_room[0 if excess > 0.0 else 1]
        if math.isinf(level):
            return a.shifted(-excess), Xta - excess * product, 0.0, -excess
        share = abs(excess) / (abs(excess) + abs(level)) if level != 0.0 else 1.0
        return a.mixed(share, level, level), (1.0 - share) * Xta + share * level * product, share, level

    @cached_property
    def _dual_at_zero(self) -> float:
        return -self.penalty.conjugate(np.zeros(self.d))

    def _largest_multiple(self, a: Any, Xta: np.ndarray) -> tuple[float, float]:
        t, c = 1.0, getattr(self.loss, "conjugate_curvature", None)
        if c is not None:
            first, second = self._sums_of(a)["ray"]
            t = min(max(0.0, -first / (second * c)), 2.0) if second > 0.0 else 1.0
        t *= self.penalty.dual_scale(t * Xta)
        return t, self.dual(a, Xta, t)

    # -- certificate and loop

    def certify(self, w: Any, dual: Any = None, b: float = 0.0) -> Certificate:
        """See :func:`saddlery.certify`; `dual` is a :class:`DualRows`, an array, or None."""
        if b != 0.0 and not self.fit_intercept:
            raise InputError("the problem has no intercept: build it with fit_intercept=True, or give b=0")
        point = self.as_point(w, b, dual)
        primal, best = self.evaluate(point)
        return self.certificate(primal, best.value, best.a)

    def certificate(self, primal: float, dual: float, a: Any) -> Certificate:
        """The certificate of two values; `a` is the dual point that `dual` belongs to."""
        size = abs(primal)
        if primal < dual:  # only then does it matter how large the terms were that cancelled
            size += self._judged(None, 0.0, a, (1.0,))["size"]
        return Certificate.of(primal, dual, self.scale, size)

    def evaluate(self, point: Point) -> tuple[float, DualPoint]:
        """The values of a point: as a solver's round left them in `aux`, or by one more round at exactly this point."""
        if point.aux is not None and point.loss is not None:
            return point.loss + self.penalty.value(point.w), point.aux
        if point.aux is not None:
            return self.primal(point.w, point.b), point.aux
        a = self._own_dual(point.w, point.b, None) if point.dual is None else point.dual  # type: ignore[arg-type]
        loss = self._judged(point.w, point.b, a, self._likely_scales(point.Xta))["loss"]
        return loss + self.penalty.value(point.w), self.dual_point(a)

    def _own_dual(self, w: np.ndarray, b: float, Xw: Any) -> Any:
        return self.constant_dual if b == self.constant and not w.any() else DualRows(pack(w), float(b))

    def _likely_scales(self, Xta: Any) -> tuple[float, ...]:
        """The scales that the repair of a dual point will ask for, as far as its product is known already."""
        if Xta is None or getattr(self.penalty, "bounded", False) or self.penalty.strong_convexity == 0.0:
            return (1.0,)
        top, threshold = largest(self.penalty, Xta), self.penalty.threshold
        return (1.0, threshold / top, 0.5 + 0.5 * threshold / top) if 0.0 < threshold < top else (1.0,)

    def check_cost(self, point: Point) -> float:
        """Entries of X that :meth:`evaluate` reads."""
        if point.aux is not None:
            return 0.0 if point.loss is not None else float(self.size)
        return 2.0 * self.size

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        """A start point (None for what is unknown), copied and checked."""
        w = np.zeros(self.d) if w is None else np.array(w, dtype=np.float64)
        if w.shape != (self.d,):
            raise InputError(f"w has shape {w.shape}, but the data have {self.d} columns")
        if dual is not None and not isinstance(dual, DualRows):
            dual = np.array(dual, dtype=np.float64)
            if dual.shape != (self.n,):
                raise InputError(f"the dual point has shape {dual.shape}, but the data have {self.n} rows")
            if not np.isfinite(dual).all():
                raise InputError("w, b and the dual point must be finite")
            dual = DualRows(blocks=tuple(np.split(dual, np.cumsum(self.partitions.lengths)[:-1])))
        if not (np.isfinite(w).all() and math.isfinite(b or 0.0)):
            raise InputError("w, b and the dual point must be finite")
        return Point(w, float(b or 0.0) if self.fit_intercept else 0.0, dual)

    def dual_array(self, point: DualRows) -> Any:
        """A dual point as a lazy dask array, one number for each row; 0 for rows without weight."""
        return self.partitions.lazily(_counted_rows, (self.loss, self.reading, self.d, point.recipe()), point.blocks)


def _counted_rows(block: Any, common: Any, extra: Any) -> np.ndarray:
    a = dual_rows(block, common, extra)
    return np.where(block.s(common[1]) > 0.0, a, 0.0)


def _same(one: Any, other: Any) -> bool:
    (i, v), (j, u) = one, other
    if (i is None) != (j is None) or len(v) != len(u):
        return False
    return (i is None or bool(np.array_equal(i, j))) and bool(np.array_equal(v, u))
