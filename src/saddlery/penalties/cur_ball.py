"""The CUR set: matrices with sum_i max_j |W_ij| <= radius and sum_j max_i |W_ij| <= radius, which have few rows and columns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.parts import part
from saddlery.penalties.base import EXCESS
from saddlery.penalties.load_balance import Balance, balance
from saddlery.penalties.simplex import check_radius

__all__ = ["CURBall", "row_norm"]


def row_norm(W: np.ndarray) -> float:
    """sum_i max_j |W_ij|."""
    return float(np.abs(W).max(axis=1, initial=0.0).sum())


@part
class CURBall(NamedTuple):
    """The constraints ``sum_i max_j |W_ij| <= radius`` and ``sum_j max_i |W_ij| <= radius`` on a matrix W.

    A row or column of W that is not zero takes its largest entry from the budget, however many entries it has: so whole rows and
    columns are selected. In print (Lu & Freund 2020, Example 1.3) both norms have the same subscripts; these are the ones meant.

    Its conjugate is ``max_W <U, W> = radius * max sum_ij |U_ij| min(r_i, c_j)`` over r, c >= 0 with sums of at most 1, and an atom
    is ``W_ij = -radius sign(C_ij) min(r_i, c_j)``: a block with a sign of its own for each entry, or two nested ones. Both come
    exactly, from a few min cuts (:mod:`saddlery.penalties.load_balance`). It is a set of matrices, so for `CURProblem` and not for
    linear problems.

    Examples
    --------
    >>> CURBall(2.0).linear_oracle([[1.0, 0.0], [0.0, -5.0]])
    array([[-0.,  0.],
           [ 0.,  2.]])
    """

    radius: float

    def check(self) -> None:
        """Refuse a radius that makes no set."""
        check_radius(self.radius)

    def check_columns(self, d: int) -> None:
        """Refuse a linear problem, whose weights are a vector."""
        raise InputError(
            "cur_ball is a set of matrices, and the weights of a linear problem are a vector: use CURProblem or CURDecomposition"
        )

    def value(self, W: Any) -> float:
        """0 inside of the set, infinity outside by more than rounding."""
        W = np.asarray(W, dtype=np.float64)
        return 0.0 if max(row_norm(W), row_norm(W.T)) <= self.radius * (1.0 + EXCESS) else math.inf

    def shrink(self, W: np.ndarray) -> np.ndarray:
        """W, or the largest multiple of it that is in the set."""
        size = max(row_norm(W), row_norm(W.T))
        return W * (self.radius / size) if size > self.radius else W

    def best_response(self, C: Any) -> tuple[np.ndarray, Balance]:
        """argmin <C, W> over the set, and both sides of its value divided by -radius."""
        C = np.asarray(C, dtype=np.float64)
        shared = balance(self, np.abs(C))
        rows, columns = (self.radius / max(share.sum(), 1.0) * share for share in (shared.rows, shared.columns))
        return np.sign(-C) * np.minimum.outer(rows, columns), shared

    def linear_oracle(self, C: Any) -> np.ndarray:
        """argmin <C, W> over the set."""
        return self.best_response(C)[0]

    def conjugate(self, U: Any, scale: float = 1.0) -> float:
        """max <scale U, W> over the set, rounded up: the loads of a split of U prove that no W has more."""
        return abs(float(scale)) * self.radius * balance(self, np.abs(np.asarray(U, dtype=np.float64))).bound

    def dual_scale(self, U: Any) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0

    def scaled(self, factor: float) -> CURBall:
        """The set itself: a constraint has no strength."""
        return self


for _fact, _value in {"matrix": True, "bounded": True, "strong_convexity": 0.0, "threshold": 0.0}.items():
    setattr(CURBall, _fact, _value)
