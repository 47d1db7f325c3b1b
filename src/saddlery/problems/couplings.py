"""The matrix between two players: products, single rows and columns, and estimates of products from these.

Signs of rows and complements of columns are applied on the way, so that nothing is copied for their sake.
"""

from __future__ import annotations

import math
import operator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.matrix import Matrix
from saddlery.matrix.vectors import weighted_square_norms
from saddlery.parts import kernel

__all__ = ["Coupling", "EntrySampling", "RowColumnSampling", "Snapshot"]


class Snapshot(NamedTuple):
    """A pair of points and the full gradients there: what variance-reduced estimates are built on."""

    x: np.ndarray
    y: np.ndarray
    gx: np.ndarray
    gy: np.ndarray


@kernel(fast_sums=True)
def add_vector(vectors, i, scale, out):
    """out += scale v_i."""
    vectors.axpy(i, scale, out)


@kernel(fast_sums=True)
def add_signed_vector(vectors, i, scale, signs, out):
    """out += scale signs * v_i."""
    vectors.weighted_axpy(i, scale, signs, out)


@kernel
def find_entry(vectors, i, j):
    """Entry j of vector i."""
    for p in range(vectors.first(i), vectors.last(i)):
        if vectors.position(i, p) == np.uint64(j):
            return vectors.entry(p)
    return 0.0


class Coupling:
    """``K = diag(signs) H``, or ``diag(signs) [H, -H]`` with complements, where ``H = M diag(scales) + 1 offsets'``.

    It has n rows (the maximiser) and m columns (the minimiser). Scales and offsets turn columns of 0 and 1 into such of -1 and 1.

    Parameters
    ----------
    matrix : Matrix
        M.
    signs : array of shape (n,), optional
        A factor for each row; 1 by default.
    complements : bool
        Whether to add the negative of each column.
    scales, offsets : arrays, one number for each column of M, optional
        1 and 0 by default.
    """

    def __init__(
        self,
        matrix: Matrix,
        signs: np.ndarray | None = None,
        complements: bool = False,
        scales: np.ndarray | None = None,
        offsets: np.ndarray | None = None,
    ):
        self.matrix, self.signs, self.complements = matrix, signs, complements
        self.scales, self.offsets = scales, offsets
        n, d = matrix.shape
        self.shape = (n, 2 * d if complements else d)

    @property
    def size(self) -> int:
        """Entries that one product reads."""
        return self.matrix.nnz

    @cached_property
    def largest(self) -> float:
        """A bound on the absolute entries; 0 for data that are read in parts, where it is not worth a pass."""
        if not self.matrix.compiled:
            return 0.0
        values = self.matrix.values.data if self.matrix.is_sparse else self.matrix.values
        most = max(float(values.max()), -float(values.min()), 0.0) if values.size else 0.0
        for factor, combine in ((self.scales, operator.mul), (self.offsets, operator.add), (self.signs, operator.mul)):
            most = most if factor is None else combine(most, float(np.abs(factor).max()))
        return most

    def times(self, x: np.ndarray) -> np.ndarray:
        """K x."""
        d = self.matrix.shape[1]
        z = x[:d] - x[d:] if self.complements else x
        out = self.matrix.matvec(z if self.scales is None else self.scales * z)
        if self.offsets is not None:
            out += float(self.offsets @ z)
        return out if self.signs is None else self.signs * out

    def transposed(self, y: np.ndarray) -> np.ndarray:
        """K' y."""
        y = y if self.signs is None else self.signs * y
        out = self.matrix.rmatvec(y)
        if self.scales is not None:
            out = self.scales * out
        if self.offsets is not None:
            out += float(y.sum()) * self.offsets
        return np.concatenate([out, -out]) if self.complements else out

    def add_row(self, i: int, scale: float, out: np.ndarray) -> None:
        """out += scale K[i]."""
        d = self.matrix.shape[1]
        scale = scale if self.signs is None else scale * self.signs[i]
        self._add_plain_row(i, scale, out[:d])
        if self.complements:
            self._add_plain_row(i, -scale, out[d:])

    def _add_plain_row(self, i: int, scale: float, out: np.ndarray) -> None:
        if self.scales is None:
            add_vector(self.matrix.rows, i, scale, out)
        else:
            add_signed_vector(self.matrix.rows, i, scale, self.scales, out)
        if self.offsets is not None:
            out += scale * self.offsets

    def add_column(self, j: int, scale: float, out: np.ndarray) -> None:
        """out += scale K[:, j]."""
        d = self.matrix.shape[1]
        j, scale = (j - d, -scale) if j >= d else (j, scale)
        inner = scale if self.scales is None else scale * self.scales[j]
        if self.signs is None:
            add_vector(self.matrix.cols, j, inner, out)
        else:
            add_signed_vector(self.matrix.cols, j, inner, self.signs, out)
        if self.offsets is not None:
            out += scale * self.offsets[j] * (1.0 if self.signs is None else self.signs)

    def entry(self, i: int, j: int) -> float:
        """K[i, j]."""
        d = self.matrix.shape[1]
        k = j - d if j >= d else j
        value = float(find_entry(self.matrix.rows, i, k))
        value = value if self.scales is None else value * float(self.scales[k])
        value = value if self.offsets is None else value + float(self.offsets[k])
        value = value if self.signs is None else value * float(self.signs[i])
        return -value if j >= d else value

    @cached_property
    def row_norms(self) -> np.ndarray:
        """Euclidean lengths of the rows."""
        squares = self.matrix.row_square_norms
        if self.scales is not None:
            squares = np.empty(self.shape[0])
            weighted_square_norms(self.matrix.rows, self.scales**2, squares)
        if self.offsets is not None:
            mixed = self.offsets if self.scales is None else self.scales * self.offsets
            squares = squares + 2.0 * self.matrix.matvec(mixed) + float(self.offsets @ self.offsets)
        norms = np.sqrt(np.maximum(squares, 0.0))
        norms = norms * math.sqrt(2.0) if self.complements else norms
        return norms if self.signs is None else np.abs(self.signs) * norms

    @cached_property
    def col_norms(self) -> np.ndarray:
        """Euclidean lengths of the columns, but for the signs, which are taken to be of length 1."""
        squares = self.matrix.col_square_norms
        if self.scales is not None:
            squares = self.scales**2 * squares
        if self.offsets is not None:
            sums = self.matrix.rmatvec(np.ones(self.shape[0]))
            mixed = self.offsets if self.scales is None else self.scales * self.offsets
            squares = squares + 2.0 * mixed * sums + self.shape[0] * self.offsets**2
        norms = np.sqrt(np.maximum(squares, 0.0))
        return np.concatenate([norms, norms]) if self.complements else norms


def probabilities_of(norms: np.ndarray, kind: str) -> np.ndarray:
    """Equal probabilities, or such that are proportional to the norms."""
    if kind not in ("uniform", "norms"):
        raise InputError(f"probabilities must be 'uniform' or 'norms', not {kind!r}")
    total = float(norms.sum())
    return norms / total if kind == "norms" and total > 0.0 else np.full(norms.size, 1.0 / norms.size)


class RowColumnSampling:
    """A row i for x and, independently of it, a column j for y: the scheme of the paper for boosting, with the factors 1 / p.

    ``vx = gx~ + K[i] (y_i - y~_i) / p_i`` and ``vy = gy~ + K[:, j] (x_j - x~_j) / q_j``; the paper's text omits p and q.
    """

    def __init__(self, coupling: Coupling, kind: str):
        n, m = coupling.shape
        self.coupling = coupling
        self.p, self.q = probabilities_of(coupling.row_norms, kind), probabilities_of(coupling.col_norms, kind)
        self.components = max(n, m)
        self.cost = coupling.size / n + coupling.size / m
        self.vx, self.vy = np.empty(m), np.empty(n)

    def draw(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of `count` steps."""
        return draw_from(self.p, rng, count), draw_from(self.q, rng, count)

    def gradients(self, draws: Any, t: int, x: np.ndarray, y: np.ndarray, snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray]:
        """Estimates of both gradients."""
        i = draws[0][t]
        np.copyto(self.vx, snapshot.gx)
        self.coupling.add_row(i, (y[i] - snapshot.y[i]) / self.p[i], self.vx)
        return self.vx, self.gradient_y(draws, t, x, y, snapshot)

    def gradient_y(self, draws: Any, t: int, x: np.ndarray, y: np.ndarray, snapshot: Snapshot) -> np.ndarray:
        """The estimate of the gradient of y."""
        j = draws[1][t]
        np.copyto(self.vy, snapshot.gy)
        self.coupling.add_column(j, (x[j] - snapshot.x[j]) / self.q[j], self.vy)
        return self.vy


class EntrySampling(RowColumnSampling):
    """A single entry K[i, j] for both players, scheme (a) of the paper: the cheapest draw and the largest variance."""

    def __init__(self, coupling: Coupling, kind: str):
        super().__init__(coupling, kind)
        self.cost = 1.0

    def gradients(self, draws: Any, t: int, x: np.ndarray, y: np.ndarray, snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray]:
        i, j = draws[0][t], draws[1][t]
        entry = self.coupling.entry(i, j) / (self.p[i] * self.q[j])
        np.copyto(self.vx, snapshot.gx)
        np.copyto(self.vy, snapshot.gy)
        self.vx[j] += entry * (y[i] - snapshot.y[i])
        self.vy[i] += entry * (x[j] - snapshot.x[j])
        return self.vx, self.vy

    def gradient_y(self, draws: Any, t: int, x: np.ndarray, y: np.ndarray, snapshot: Snapshot) -> np.ndarray:
        return self.gradients(draws, t, x, y, snapshot)[1]


def draw_from(probabilities: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """`count` indices with the given probabilities."""
    if (probabilities == probabilities[0]).all():
        return rng.integers(probabilities.size, size=count)
    return rng.choice(probabilities.size, size=count, p=probabilities)
