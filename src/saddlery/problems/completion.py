"""Matrix completion: min_W sum_i s_i l(y_i, W[r_i, c_i]) over ||W||_* <= radius, its dual, and the bound that the dual needs.

The dual point has one number for each observed entry. With the sparse matrix G that holds s_i a_i at (r_i, c_i) the dual value is
``-radius * sigma_1(G) - sum_i s_i l*(a_i; y_i)``, where sigma_1 is the largest singular value. The matrix W is kept by its factors
and is never written out.
"""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.parts import kernel
from saddlery.penalties.nuclear_ball import LowRank, NuclearBall, project_singular_values
from saddlery.penalties.spectral import EXACT_LIMIT, Pattern, Sparse, singular_bound
from saddlery.point import Point
from saddlery.problems.row_sums import clip_to_domain, conjugate_terms, mean_loss, slopes
from saddlery.registry import LOSSES

__all__ = ["CompletionProblem", "LowRank"]

RANDOMISED = "largest singular value bounded by a randomised test that errs with probability 1e-9"


@kernel(fast_sums=True)
def product_entries(pattern, A, B, out):
    """out_i = A[r_i].B[c_i]: the observed entries of A B'."""
    for r in range(A.shape[0]):
        for q in range(pattern.starts[r], pattern.starts[r + 1]):
            c = np.uint64(pattern.indices[q])
            total = 0.0
            for j in range(A.shape[1]):
                total += A[r, j] * B[c, j]
            out[q] = total


class DualPoint(NamedTuple):
    """A feasible dual point and its value; `Xta` stands for the largest singular value of G that it was computed with."""

    a: np.ndarray
    Xta: float
    value: float


class CompletionProblem:
    """``min_W  sum_i s_i l(y_i, W[r_i, c_i])`` over matrices with ``||W||_* <= radius``, with weights s_i >= 0 that sum to one.

    Without weights and for the squared loss this is half the mean squared error over the observed entries.

    Parameters
    ----------
    rows, cols : arrays of int of shape (entries,)
        Where the observed entries are, from 0; no place may come twice.
    values : array of shape (entries,)
        What was observed there: numbers, or -1 and +1 for losses of classification.
    shape : (int, int)
        Rows and columns of W.
    radius : float
        Bound on the nuclear norm, the sum of the singular values of W.
    loss : loss or str
        A loss such as ``sd.losses.Squared()`` or its name.
    sample_weight : array of shape (entries,), optional
        Non-negative weights; they are divided by their sum.
    exact_limit : int
        The largest smaller side of W for which the certificate is proved by a factorisation of a matrix of that size, half
        a square of numbers. Beyond it a randomised bound, which needs no such memory, stands in, and the certificate says so.

    Attributes
    ----------
    rows, cols, y, s : arrays of shape (entries,)
        The entries and their weights, sorted by row and then by column. Dual points have the same order.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.CompletionProblem([0, 0, 1], [0, 1, 0], [2.0, 4.0, 1.0], (2, 2), radius=4.0)
    >>> solution = sd.solve(problem, tol=1e-8)
    >>> solution.w.rank, round(float(solution.w.sigma.sum()), 6)
    (1, 4.0)
    """

    kind = "completion"

    def __init__(
        self,
        rows: Any,
        cols: Any,
        values: Any,
        shape: Any,
        radius: float,
        loss: Any = "squared",
        sample_weight: Any = None,
        exact_limit: int = EXACT_LIMIT,
    ):
        self.shape = _as_shape(shape)
        self.loss = LOSSES.get(loss)() if isinstance(loss, str) else loss
        if not hasattr(self.loss, "targets"):
            raise InputError(f"the loss must be a name or a loss such as saddlery.losses.Squared(), not {loss!r}")
        if hasattr(self.loss, "check"):
            self.loss.check()
        self.penalty = _as_ball(radius)
        self.exact_limit = int(exact_limit)
        r, c = _as_indices(rows, "row", self.shape[0]), _as_indices(cols, "column", self.shape[1])
        y = _as_values(values)
        if not len(r) == len(c) == len(y):
            raise InputError(f"give as many rows ({len(r)}) as columns ({len(c)}) and values ({len(y)})")
        if not len(y):
            raise InputError("there are no observed entries: give at least one")
        _check_values(y, self.loss, r, c)
        flat = r.astype(np.int64) * self.shape[1] + c
        order = None if (np.diff(flat) > 0).all() else np.argsort(flat, kind="stable")
        s = _as_weights(sample_weight, len(y))
        if order is not None:
            r, c, y, s, flat = r[order], c[order], y[order], s[order], flat[order]
            twice = np.flatnonzero(flat[1:] == flat[:-1])
            if len(twice):
                raise InputError(f"the entry ({r[twice[0]]}, {c[twice[0]]}) is given twice: each place may have one value only")
        del flat
        counts = np.bincount(r, minlength=self.shape[0])
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32 if len(y) < 2**31 else np.int64)
        self.order, self.y, self.s = order, y, s
        self.pattern = Pattern(c.astype(np.int32), starts)

    def __repr__(self) -> str:
        n, d = self.shape
        return f"CompletionProblem({n:,} x {d:,}, {self.size:,} entries, {self.loss!r}, {self.penalty!r})"

    @property
    def radius(self) -> float:
        """The bound on the nuclear norm."""
        return float(self.penalty.radius)

    @property
    def size(self) -> int:
        """Observed entries: what one pass over the data reads."""
        return len(self.y)

    @property
    def rows(self) -> np.ndarray:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.pattern.starts))

    @property
    def cols(self) -> np.ndarray:
        """The column of each entry."""
        return self.pattern.indices

    def as_given(self, a: np.ndarray) -> np.ndarray:
        """Numbers of all entries, brought from the order of this problem into that in which the entries were given."""
        if self.order is None:
            return a
        out = np.empty_like(a)
        out[self.order] = a
        return out

    def with_radius(self, radius: float) -> CompletionProblem:
        """The same data and loss with another radius; nothing is copied."""
        other = copy.copy(self)
        other.penalty = _as_ball(radius)
        return other

    # -- values

    @cached_property
    def scale(self) -> float:
        """The objective at W = 0: the unit in which gaps are measured."""
        return self.loss_value(np.zeros(self.size))

    def entries(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """The observed entries of A B'."""
        out = np.empty(self.size)
        product_entries(self.pattern, np.ascontiguousarray(A), np.ascontiguousarray(B), out)
        return out

    def margins(self, W: LowRank) -> np.ndarray:
        """The observed entries of W."""
        return self.entries(W.U * W.sigma, W.V)

    def loss_value(self, z: np.ndarray) -> float:
        """The weighted mean of the loss where the observed entries of W are z."""
        return mean_loss(self.loss, self.y, self.s, z)

    def slopes(self, z: np.ndarray) -> np.ndarray:
        """``l'(y_i, z_i)`` for every entry: the dual point that belongs to z."""
        out = np.empty(self.size)
        slopes(self.loss, self.y, z, 0.0, out)
        return out

    def gradient(self, a: np.ndarray) -> Sparse:
        """G: the sparse matrix of the numbers s_i a_i."""
        return Sparse(self.pattern, self.s * a, self.shape)

    def primal(self, W: LowRank) -> float:
        """The objective at W; infinite outside of the ball."""
        return self.loss_value(self.margins(W)) + self.penalty.value(W)

    def dual_point(self, a: np.ndarray, top: float | None = None, start: np.ndarray | None = None) -> DualPoint:
        """The given point moved into the domain of l*, with its value; `top` is sigma_1(G) if it is known.

        Without it, sigma_1 is replaced by an upper bound, so that the value is one that no matrix in the ball can undercut.
        """
        feasible = np.empty(self.size)
        moved = clip_to_domain(self.loss, self.y, np.asarray(a, dtype=np.float64), feasible)
        terms = np.empty(self.size)
        conjugate_terms(self.loss, self.y, self.s, feasible, 1.0, terms)
        if top is None or moved:
            top = singular_bound(self.gradient(feasible), start, self.exact_limit).value
        return DualPoint(feasible, top, -float(terms.sum()) - self.radius * top)

    # -- certificate

    def certify(self, w: Any, dual: Any = None, b: float = 0.0) -> Certificate:
        """See :func:`saddlery.certify`; `w` is a LowRank, `dual` has the order of this problem."""
        if b != 0.0:
            raise InputError("matrix completion has no intercept: give b=0")
        point = self.as_point(w, 0.0, dual)
        primal, feasible = self.evaluate(point._replace(w=_as_low_rank(w, self.shape)))
        return self.certificate(primal, feasible.value, feasible.a)

    def certificate(self, primal: float, dual: float, a: np.ndarray) -> Certificate:
        """The certificate of two values; `a` is the dual point that `dual` belongs to."""
        size = abs(primal)
        if primal < dual:  # only then does it matter how large the terms were that cancelled
            terms = np.empty(self.size)
            conjugate_terms(self.loss, self.y, self.s, a, 1.0, terms)
            size += float(np.abs(terms).sum() + self.s @ np.abs(self.y * a))
        basis = "exact" if min(self.shape) <= self.exact_limit else RANDOMISED
        return Certificate.of(primal, dual, self.scale, size, basis)

    # -- for the loop

    def first_point(self) -> Point:
        """The zero matrix."""
        return Point(LowRank.zero(self.shape), 0.0, None)

    def evaluate(self, point: Point) -> tuple[float, DualPoint]:
        """The primal value of a point and its dual made feasible. `point.Xta` stands for sigma_1(G), if it is known."""
        W: LowRank = point.w
        inside = 0.0 if point.Xw is not None else self.penalty.value(W)  # who knows the entries also knows the norm
        z = self.margins(W) if point.Xw is None else point.Xw
        a = self.slopes(z) if point.dual is None else point.dual
        loss = self.loss_value(z) if point.loss is None else point.loss
        return loss + inside, self.dual_point(a, None if point.dual is None else point.Xta, W.V)

    def nonzeros(self, w: LowRank) -> int:
        """The rank."""
        return w.rank

    def check_cost(self, point: Point) -> float:
        """Entries that :meth:`evaluate` reads, in multiples of a pass."""
        return self.size * float((point.Xw is None) + 100.0 * (point.dual is None or point.Xta is None))

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        """A start from factors (None for what is unknown), brought into the ball."""
        W = LowRank.zero(self.shape) if w is None else _as_low_rank(w, self.shape).compress()
        W = W._replace(sigma=project_singular_values(W.sigma, self.radius))
        kept = W.sigma > 0.0
        dual = None if dual is None else np.array(dual, dtype=np.float64)
        if dual is not None and (dual.shape != (self.size,) or not np.isfinite(dual).all()):
            raise InputError(
                f"the dual point needs one finite number for each of the {self.size} entries, in the order of the problem"
            )
        return Point(LowRank(W.U[:, kept], W.sigma[kept], W.V[:, kept]), 0.0, dual)


# --------------------------------------------------------------------------- input


def _as_ball(radius: Any) -> NuclearBall:
    try:
        ball = NuclearBall(float(radius))
    except (TypeError, ValueError) as error:
        raise InputError(f"radius must be a positive number, not {radius!r}") from error
    ball.check()
    return ball


def _as_shape(shape: Any) -> tuple[int, int]:
    try:
        n, d = (int(side) for side in shape)
    except (TypeError, ValueError) as error:
        raise InputError(f"shape must be two numbers, rows and columns, not {shape!r}") from error
    if n < 1 or d < 1:
        raise InputError(f"shape must be two positive numbers, not {shape!r}")
    if d > 2**31 - 1:
        raise InputError(f"a matrix can have at most {2**31 - 1:,} columns here, not {d:,}: give its transpose")
    return n, d


def _as_indices(indices: Any, name: str, length: int) -> np.ndarray:
    indices = np.asarray(indices)
    if indices.ndim != 1:
        raise InputError(f"the {name}s of the entries must be a vector, not of shape {indices.shape}")
    if indices.size and indices.dtype.kind not in "iu":
        raise InputError(f"the {name}s of the entries must be whole numbers, not of type {indices.dtype}")
    outside = np.flatnonzero((indices < 0) | (indices >= length))
    if len(outside):
        at = outside[0]
        raise InputError(f"entry {at} is in {name} {indices[at]}, but there are only the {name}s 0 to {length - 1}")
    return indices


def _as_values(values: Any) -> np.ndarray:
    try:
        y = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("the values of the entries must be numbers") from error
    if y.ndim != 1:
        raise InputError(f"the values of the entries must be a vector, not of shape {y.shape}")
    return y


def _check_values(y: np.ndarray, loss: Any, r: np.ndarray, c: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(y))
    if len(bad):
        at = bad[0]
        raise InputError(f"the entry ({r[at]}, {c[at]}) is {y[at]:g}: entries must be finite; leave out what was not observed")
    if loss.targets == "signs" and len(strange := np.flatnonzero(np.abs(y) != 1.0)):
        at = strange[0]
        raise InputError(f"this loss needs the values -1 and +1, but the entry ({r[at]}, {c[at]}) is {y[at]:g}")


def _as_weights(sample_weight: Any, count: int) -> np.ndarray:
    if sample_weight is None:
        return np.full(count, 1.0 / count)
    s = np.asarray(sample_weight, dtype=np.float64)
    if s.shape != (count,):
        raise InputError(f"sample_weight has shape {s.shape}, but there are {count} entries: give one weight for each")
    bad = np.flatnonzero(~(np.isfinite(s) & (s >= 0.0)))
    if len(bad):
        raise InputError(f"the weight of entry {bad[0]} is {s[bad[0]]:g}: weights must be finite and 0 or more")
    total = float(s.sum())
    if not 0.0 < total < math.inf:
        raise InputError("all sample weights are zero: at least one entry must count")
    return s / total


def _as_low_rank(w: Any, shape: tuple[int, int]) -> LowRank:
    try:
        U, sigma, V = (np.asarray(factor, dtype=np.float64) for factor in w)
    except (TypeError, ValueError) as error:
        raise InputError("a matrix is given by its factors: LowRank(U, sigma, V)") from error
    if sigma.ndim != 1 or U.shape != (shape[0], len(sigma)) or V.shape != (shape[1], len(sigma)):
        raise InputError(f"factors of shapes {U.shape}, {sigma.shape} and {V.shape} do not make a matrix of shape {shape}")
    if not all(np.isfinite(factor).all() for factor in (U, sigma, V)):
        raise InputError("the factors of the matrix must be finite")
    return LowRank(U, sigma, V)
