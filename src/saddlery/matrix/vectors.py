"""Stacks of vectors, dense or sparse: what kernels see of a matrix.

The rows of X are such a stack and so are its columns, hence one source of each kernel serves CSR, CSC and both
orders of a dense array. Positions `p` run over all stored entries; vector `i` owns ``first(i) <= p < last(i)``.
Sums are kept in float64 whatever the type of the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddlery.parts import kernel, part, verb

__all__ = ["DenseVectors", "SparseVectors", "combine", "dots", "square_norms"]

verb("first", "i", inline="always")
verb("last", "i", inline="always")
verb("position", "i, p", inline="always")
verb("entry", "p", inline="always")
verb("dot", "i, x", inline="always")
verb("axpy", "i, scale, out", inline="always")


@part
class DenseVectors(NamedTuple):
    """Vectors of `length` numbers each, one behind the other in `values`."""

    values: np.ndarray
    length: int

    def first(self, i):
        return i * self.length

    def last(self, i):
        return (i + 1) * self.length

    def position(self, i, p):
        return p - i * self.length

    def entry(self, p):
        return self.values[p]

    def dot(self, i, x):
        start = i * self.length
        total = 0.0
        for j in range(self.length):
            total += self.values[start + j] * x[j]
        return total

    def axpy(self, i, scale, out):
        start = i * self.length
        for j in range(self.length):
            out[j] += scale * self.values[start + j]


@part
class SparseVectors(NamedTuple):
    """Vectors of `length` numbers each in compressed form, as in CSR (rows) or CSC (columns)."""

    values: np.ndarray
    indices: np.ndarray
    starts: np.ndarray
    length: int

    def first(self, i):
        return self.starts[i]

    def last(self, i):
        return self.starts[i + 1]

    def position(self, i, p):
        return self.indices[p]

    def entry(self, p):
        return self.values[p]

    def dot(self, i, x):
        total = 0.0
        for p in range(self.starts[i], self.starts[i + 1]):
            total += self.values[p] * x[self.indices[p]]
        return total

    def axpy(self, i, scale, out):
        for p in range(self.starts[i], self.starts[i + 1]):
            out[self.indices[p]] += scale * self.values[p]


@kernel(fast_sums=True)
def dots(vectors, x, out):
    """out_i = v_i . x for every vector."""
    for i in range(out.shape[0]):
        out[i] = vectors.dot(i, x)


@kernel(fast_sums=True)
def combine(vectors, coefficients, out):
    """out += sum_i c_i v_i, reading only the vectors whose coefficient is not zero."""
    for i in range(coefficients.shape[0]):
        if coefficients[i] != 0.0:
            vectors.axpy(i, coefficients[i], out)


@kernel(fast_sums=True)
def square_norms(vectors, out):
    """out_i = ||v_i||^2."""
    for i in range(out.shape[0]):
        total = 0.0
        for p in range(vectors.first(i), vectors.last(i)):
            total += float(vectors.entry(p)) ** 2
        out[i] = total
