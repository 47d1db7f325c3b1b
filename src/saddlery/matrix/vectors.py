"""Stacks of vectors, dense or sparse: what kernels see of a matrix.

The rows of X are such a stack and so are its columns, hence one source of each kernel serves CSR, CSC and both
orders of a dense array. Positions `p` run over all stored entries; vector `i` owns ``first(i) <= p < last(i)``.
Sums are kept in float64 whatever the type of the data, but for vectors times another in float32. Indices are read as unsigned
numbers: signed ones may count from the end, and to ask each time takes as long as the product itself (w8a, X'r: 0.76 -> 0.36 ms).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddlery.parts import kernel, part, verb

__all__ = [
    "DenseVectors",
    "RoundedVectors",
    "SparseVectors",
    "add_two",
    "add_weighted_squares",
    "add_with_squares",
    "combine",
    "combine_few",
    "combine_of",
    "count_positions",
    "disorder",
    "dots",
    "dots_of",
    "filter_vectors",
    "leave_out_zeros",
    "scatter",
    "square_norms",
    "square_norms_of",
    "take_vectors",
    "transpose",
    "transpose_tiles",
    "weighted_square_norms",
]

LINE = 8  # numbers in a line of cache

verb("first", "i", inline="always")
verb("last", "i", inline="always")
verb("position", "i, p", inline="always")
verb("entry", "p", inline="always")
verb("dot", "i, x", inline="always")
verb("axpy", "i, scale, out", inline="always")
verb("weighted_axpy", "i, scale, weights, out", inline="always")
verb("weighted_square", "i, weights", inline="always")


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
        return np.uint64(p - i * self.length)

    def entry(self, p):
        return self.values[np.uint64(p)]

    def dot(self, i, x):
        start = np.uint64(i) * np.uint64(self.length)
        total = x.dtype.type(0.0)
        for j in range(self.length):
            total += self.values[start + np.uint64(j)] * x[j]
        return total

    def axpy(self, i, scale, out):
        start = np.uint64(i) * np.uint64(self.length)
        for j in range(self.length):
            out[j] += scale * self.values[start + np.uint64(j)]

    def weighted_axpy(self, i, scale, weights, out):
        start = np.uint64(i) * np.uint64(self.length)
        for j in range(self.length):
            out[j] += scale * weights[j] * self.values[start + np.uint64(j)]

    def weighted_square(self, i, weights):
        start = np.uint64(i) * np.uint64(self.length)
        total = 0.0
        for j in range(self.length):
            value = 1.0 * self.values[start + np.uint64(j)]
            total += weights[j] * value * value
        return total


@part
class RoundedVectors(NamedTuple):
    """Vectors of `length` numbers each, as whole multiples of a step of their own: a quarter of the memory, where rounding may."""

    values: np.ndarray
    steps: np.ndarray
    length: int

    def dot(self, i, x):
        start = np.uint64(i) * np.uint64(self.length)
        total = x.dtype.type(0.0)
        for j in range(self.length):
            total += x.dtype.type(self.values[start + np.uint64(j)]) * x[j]
        return self.steps[i] * total

    def axpy(self, i, scale, out):
        start = np.uint64(i) * np.uint64(self.length)
        scaled = out.dtype.type(scale * self.steps[i])
        for j in range(self.length):
            out[j] += scaled * out.dtype.type(self.values[start + np.uint64(j)])


@part
class SparseVectors(NamedTuple):
    """Vectors of `length` numbers each in compressed form, as in CSR (rows) or CSC (columns)."""

    values: np.ndarray
    indices: np.ndarray
    starts: np.ndarray
    length: int

    def first(self, i):
        return self.starts[np.uint64(i)]

    def last(self, i):
        return self.starts[np.uint64(i + 1)]

    def position(self, i, p):
        return np.uint64(self.indices[np.uint64(p)])

    def entry(self, p):
        return self.values[np.uint64(p)]

    def dot(self, i, x):
        total = x.dtype.type(0.0)
        for p in range(self.starts[np.uint64(i)], self.starts[np.uint64(i + 1)]):
            total += self.values[np.uint64(p)] * x[np.uint64(self.indices[np.uint64(p)])]
        return total

    def axpy(self, i, scale, out):
        for p in range(self.starts[np.uint64(i)], self.starts[np.uint64(i + 1)]):
            out[np.uint64(self.indices[np.uint64(p)])] += scale * self.values[np.uint64(p)]

    def weighted_axpy(self, i, scale, weights, out):
        for p in range(self.starts[np.uint64(i)], self.starts[np.uint64(i + 1)]):
            j = np.uint64(self.indices[np.uint64(p)])
            out[j] += scale * weights[j] * self.values[np.uint64(p)]

    def weighted_square(self, i, weights):
        total = 0.0
        for p in range(self.starts[np.uint64(i)], self.starts[np.uint64(i + 1)]):
            value = 1.0 * self.values[np.uint64(p)]
            total += weights[np.uint64(self.indices[np.uint64(p)])] * value * value
        return total


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
def combine_few(vectors, coefficients, out):
    """out_k += sum_i c_ik v_i for a table c that is mostly zero."""
    for i in range(coefficients.shape[0]):
        for k in range(coefficients.shape[1]):
            if coefficients[i, k] != 0.0:
                vectors.axpy(i, coefficients[i, k], out[k])


@kernel(fast_sums=True)
def add_two(vectors, first, second, out):
    """out_j += sum_i (first_i, second_i) v_ij: two products of sparse vectors in the time of one, and a fifth of it."""
    for i in range(first.shape[0]):
        for p in range(vectors.first(i), vectors.last(i)):
            j, value = vectors.position(i, p), vectors.entry(p)
            out[j, 0] += first[i] * value
            out[j, 1] += second[i] * value


@kernel(fast_sums=True)
def add_with_squares(vectors, coefficients, out):
    """out_j += sum_i (c_i v_ij, v_ij^2), as cheaply (20,000 x 50,000 with 2 million entries: 3.9 -> 2.4 ms)."""
    for i in range(coefficients.shape[0]):
        for p in range(vectors.first(i), vectors.last(i)):
            j, value = vectors.position(i, p), 1.0 * vectors.entry(p)
            out[j, 0] += coefficients[i] * value
            out[j, 1] += value * value


@kernel(fast_sums=True)
def dots_of(vectors, chosen, x, out):
    """out_k = v_i . x for the chosen vectors i."""
    for k in range(chosen.shape[0]):
        out[k] = vectors.dot(chosen[k], x)


@kernel(fast_sums=True)
def weighted_squares_of(vectors, chosen, weights):
    """sum_k sum_j weights_j v_ij^2 over the chosen vectors i."""
    total = 0.0
    for k in range(chosen.shape[0]):
        total += vectors.weighted_square(chosen[k], weights)
    return total


@kernel(fast_sums=True)
def combine_of(vectors, chosen, coefficients, out):
    """out += sum_k c_k v_i over the chosen vectors i, reading only those whose coefficient is not zero."""
    for k in range(chosen.shape[0]):
        if coefficients[k] != 0.0:
            vectors.axpy(chosen[k], coefficients[k], out)


@kernel(fast_sums=True)
def square_norms(vectors, out):
    """out_i = ||v_i||^2."""
    for i in range(out.shape[0]):
        total = 0.0
        for p in range(vectors.first(i), vectors.last(i)):
            value = 1.0 * vectors.entry(np.uint64(p))  # float() would leave single precision as it is
            total += value * value
        out[i] = total


@kernel(fast_sums=True)
def square_norms_of(vectors, chosen, out):
    """out_k = ||v_i||^2 for the chosen vectors i."""
    for k in range(chosen.shape[0]):
        total = 0.0
        for p in range(vectors.first(chosen[k]), vectors.last(chosen[k])):
            value = 1.0 * vectors.entry(np.uint64(p))  # unsigned, so that it is computed in vectors (2000 x 5000: 10 -> 2 ms)
            total += value * value
        out[k] = total


@kernel(fast_sums=True)
def weighted_square_norms(vectors, weights, out):
    """out_i = sum_j weights_j v_ij^2."""
    for i in range(out.shape[0]):
        out[i] = vectors.weighted_square(i, weights)


@kernel(fast_sums=True)
def add_weighted_squares(vectors, weights, out):
    """out_j += sum_i weights_i v_ij^2."""
    for i in range(weights.shape[0]):
        for p in range(vectors.first(i), vectors.last(i)):
            value = 1.0 * vectors.entry(np.uint64(p))
            out[np.uint64(vectors.position(i, p))] += weights[i] * value * value


@kernel
def count_positions(vectors, out):
    """out_j += the number of entries that sparse vectors store at position j."""
    for p in range(vectors.indices.shape[0]):
        out[np.uint64(vectors.indices[p])] += 1


@kernel
def disorder(vectors):
    """0 if the positions of each sparse vector ascend within its length, 1 if some do not ascend, 2 if some lie outside.

    Descents are counted over all entries, which is vector code, and must be as many as where one vector follows another (9 million
    entries: 3.2 -> 1.7 ms of SciPy's, which does not look for those outside).
    """
    starts, indices = vectors.starts, vectors.indices
    count = starts.shape[0] - 1
    descents, between, outside, end = 0, 0, 0, 0
    for i in range(count):
        first, last = starts[i], starts[i + 1]
        if last < first or last > indices.shape[0]:
            return 1
        if last > first:
            outside += indices[np.uint64(first)] < 0 or indices[np.uint64(last - 1)] >= vectors.length
            if end > 0:
                between += indices[np.uint64(end - 1)] >= indices[np.uint64(first)]
            end = last
    for p in range(1, starts[count]):
        descents += indices[np.uint64(p - 1)] >= indices[np.uint64(p)]
    if descents != between:
        return 1
    return 2 if outside > 0 else 0


@kernel
def transpose_tiles(vectors, count, out):
    """out[j * count + i] = the entry j of vector i, for `count` dense vectors, in tiles of a line of cache each way."""
    length = vectors.length
    for low in range(0, count, LINE):
        high = min(low + LINE, count)
        for first in range(0, length, LINE):
            for j in range(first, min(first + LINE, length)):
                for i in range(low, high):
                    out[j * count + i] = vectors.values[i * length + j]


@kernel
def leave_out_zeros(vectors, values, indices, starts):
    """Dense vectors in compressed form; every entry is written, and the next written over it if it is zero, as below."""
    count = 0
    for i in range(starts.shape[0] - 1):
        starts[i] = count
        first = i * vectors.length
        for j in range(vectors.length):
            values[count] = vectors.values[first + j]
            indices[count] = j
            count += vectors.values[first + j] != 0.0
    starts[starts.shape[0] - 1] = count


@kernel
def filter_vectors(vectors, place, values, indices, starts):
    """Sparse vectors restricted to the positions j with place[j] >= 0, which get the number place[j].

    Every entry is written, and the next written over it if it was not wanted: no branch to be guessed (a9a: 0.78 -> 0.44 ms).
    So there must be room for one entry more.
    """
    count = 0
    for i in range(starts.shape[0] - 1):
        starts[i] = count
        for p in range(vectors.first(i), vectors.last(i)):
            k = place[vectors.position(i, p)]
            values[count] = vectors.entry(p)
            indices[count] = k
            count += k >= 0
    starts[starts.shape[0] - 1] = count


@kernel
def take_vectors(vectors, W, values, indices, starts):
    """The vectors W of a sparse stack, one behind the other."""
    count = 0
    for k in range(W.shape[0]):
        starts[k] = count
        for p in range(vectors.first(W[k]), vectors.last(W[k])):
            values[count] = vectors.entry(p)
            indices[count] = vectors.position(W[k], p)
            count += 1
    starts[W.shape[0]] = count


@kernel
def scatter(vectors, cursor, values, indices):
    """The entry j of the sparse vector i to values[cursor[j]], and i to `indices`; the cursor moves on."""
    for i in range(vectors.starts.shape[0] - 1):
        for p in range(vectors.first(i), vectors.last(i)):
            j = vectors.position(i, p)
            to = cursor[j]
            values[np.uint64(to)] = vectors.entry(p)
            indices[np.uint64(to)] = i
            cursor[j] = to + 1


@kernel
def transpose(vectors, values, indices, starts):
    """A sparse stack read the other way: `starts` holds zeros at first, and one more number than there are new vectors."""
    length = starts.shape[0] - 1
    for p in range(vectors.starts[vectors.starts.shape[0] - 1]):
        starts[np.uint64(vectors.indices[p]) + np.uint64(1)] += 1
    for j in range(length):
        starts[j + 1] += starts[j]
    scatter(vectors, starts, values, indices)
    for j in range(length, 0, -1):
        starts[j] = starts[j - 1]
    starts[0] = 0
