"""The nuclear-norm ball: the singular values of the matrix W sum to at most the radius."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from saddlery.errors import InputError, UnsupportedError
from saddlery.penalties.base import EXCESS
from saddlery.penalties.simplex import check_radius, project_onto_simplex
from saddlery.penalties.spectral import Sparse, singular_bound, top_pairs

__all__ = ["LowRank", "NuclearBall", "project_singular_values"]


class LowRank(NamedTuple):
    """A matrix ``U diag(sigma) V'`` by its factors; as a rule their columns are orthonormal and `sigma` falls.

    Examples
    --------
    >>> W = LowRank(np.ones((2, 1)), np.array([3.0]), np.ones((4, 1)))
    >>> W.shape, W.rank, round(W.nuclear_norm(), 6)
    ((2, 4), 1, 8.485281)
    """

    U: np.ndarray
    sigma: np.ndarray
    V: np.ndarray

    @classmethod
    def zero(cls, shape: tuple[int, int]) -> LowRank:
        """The zero matrix, which has no factors."""
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self.U.shape[0], self.V.shape[0]

    @property
    def rank(self) -> int:
        """The number of singular values."""
        return self.sigma.shape[0]

    def compress(self) -> LowRank:
        """The same matrix with orthonormal columns and falling singular values; those of rounding size are left out."""
        if not self.rank:
            return self
        left, first = sl.qr(self.U * self.sigma, mode="economic", check_finite=False)
        right, second = sl.qr(self.V, mode="economic", check_finite=False)
        u, sigma, vt = sl.svd(first @ second.T, full_matrices=False, check_finite=False)
        rank = int(np.count_nonzero(sigma > 1e-14 * sigma[0]))
        return LowRank(left @ u[:, :rank], sigma[:rank], right @ vt[:rank].T)

    def nuclear_norm(self) -> float:
        """The sum of the singular values, whatever the factors are."""
        return float(self.compress().sigma.sum())

    def toarray(self) -> np.ndarray:
        """The whole matrix: for small ones."""
        return (self.U * self.sigma) @ self.V.T


def project_singular_values(sigma: np.ndarray, radius: float) -> np.ndarray:
    """argmin ||x - sigma|| over x >= 0, sum x <= radius, for sigma >= 0."""
    return sigma if sigma.sum() <= radius else project_onto_simplex(sigma, radius)


class NuclearBall(NamedTuple):
    """The constraint ``||W||_* <= radius`` on matrices. Its conjugate is ``radius * sigma_1(U)``, its atoms are ``-radius u v'``.

    A set of matrices: it serves :class:`~saddlery.CompletionProblem`, not linear problems, and has Python methods only.

    Examples
    --------
    >>> atom = NuclearBall(2.0).linear_oracle([[0.0, 3.0], [1.0, 0.0]])
    >>> np.abs(atom.toarray().round(12))
    array([[0., 2.],
           [0., 0.]])
    """

    radius: float

    @property
    def matrix(self) -> bool:
        """Whether it is a set of matrices."""
        return True

    @property
    def bounded(self) -> bool:
        return True

    @property
    def strong_convexity(self) -> float:
        return 0.0

    @property
    def threshold(self) -> float:
        return 0.0

    def check(self) -> None:
        """Refuse a radius that makes no ball."""
        check_radius(self.radius)

    def check_columns(self, d: int) -> None:
        """Refuse to be the penalty of a vector."""
        raise UnsupportedError(
            "the nuclear ball is a set of matrices and no penalty of a linear model: "
            "use saddlery.MatrixCompletion or saddlery.CompletionProblem"
        )

    def value(self, W: Any) -> float:
        """0 inside of the ball, infinity outside; W is a LowRank or a small dense matrix."""
        norm = W.nuclear_norm() if isinstance(W, LowRank) else sl.svdvals(_as_dense(W)).sum()
        return 0.0 if norm <= self.radius * (1.0 + EXCESS) else math.inf

    def linear_oracle(self, G: Any) -> LowRank:
        """argmin <G, W> over the ball: ``-radius u v'`` with the leading singular vectors of G, dense or sparse."""
        G = _as_operator(G)
        u, sigma, v = top_pairs(G, tol=1e-12)
        if not sigma.size or sigma[0] == 0.0:  # every point is as good
            u, v = np.eye(G.shape[0], 1), np.eye(G.shape[1], 1)
        return LowRank(-u[:, :1], np.array([float(self.radius)]), v[:, :1].copy())

    def conjugate(self, U: Any, scale: float = 1.0) -> float:
        """``radius * sigma_1(scale U)``, from above."""
        return abs(float(scale)) * self.radius * singular_bound(Sparse.of(U if sp.issparse(U) else _as_dense(U))).value

    def dual_scale(self, U: Any) -> float:
        return 1.0

    def scaled(self, factor: float) -> NuclearBall:
        return self

    def prox(self, M: Any, step: float = 1.0) -> np.ndarray:
        """The projection of a small dense matrix: the same singular vectors, the singular values projected."""
        u, sigma, vt = sl.svd(_as_dense(M), full_matrices=False)
        return (u * project_singular_values(sigma, self.radius)) @ vt


class _Dense(NamedTuple):
    """A dense matrix with the two products that :func:`top_pairs` asks for."""

    values: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape  # type: ignore[return-value]

    def times(self, B: np.ndarray) -> np.ndarray:
        return self.values @ B

    def back(self, A: np.ndarray) -> np.ndarray:
        return self.values.T @ A


def _as_dense(M: Any) -> np.ndarray:
    M = np.asarray(M, dtype=np.float64)
    if M.ndim != 2 or not np.isfinite(M).all():
        raise InputError("the nuclear ball is a set of matrices: give a two-dimensional array of finite numbers")
    return M


def _as_operator(G: Any) -> Any:
    if isinstance(G, Sparse):
        return G
    return Sparse.of(G) if sp.issparse(G) else _Dense(_as_dense(G))
