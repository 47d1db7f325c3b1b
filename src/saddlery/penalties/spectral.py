"""Singular values of sparse matrices: pairs from below (block Krylov), bounds from above (Cholesky, Chebyshev).

A Ritz value never exceeds the largest singular value sigma_1, so alone it proves nothing. Two bounds from above are offered:

* :func:`proves`: if tau^2 I - G'G has a Cholesky factor, then sigma_1(G) < tau. The factor needs d (d + 1) / 2 numbers, d being
  the smaller side. A floating-point factorisation that runs to its end proves the same for tau enlarged by its rounding errors
  (Rump 2006).
* :func:`chebyshev_bound`: with Gaussian b, x = T_m(2 G'G / tau^2 - I) b has ||x|| >= T_m(1 + 2 e) |u.b| if
  sigma_1^2 = tau^2 (1 + e) with the unit vector u, and |u.b| >= t but with probability t sqrt(2 / pi) at most. So ||x|| bounds e,
  for any tau and m, with a chance of error that is chosen beforehand. It needs a few vectors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from scipy.linalg.lapack import dpftrf

from saddlery.parts import kernel, part

__all__ = ["Bound", "Pattern", "Sparse", "chebyshev_bound", "leading_pairs", "proves", "singular_bound", "top_pairs"]

EPS = float(np.finfo(float).eps)
EXACT_LIMIT = 5_000  # smaller side: the triangle of its Gram matrix then takes 100 MB
FAILURE = 1e-9  # chance of error of the randomised bound
SMALL = 40_000  # cells: such matrices are written out and decomposed
BLOCK = 8
EXCESSES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)


# --------------------------------------------------------------------------- sparse matrices of fixed pattern


@part
class Pattern(NamedTuple):
    """Where the entries of a sparse matrix are, by rows: those of row r have the columns ``indices[starts[r]:starts[r + 1]]``."""

    indices: np.ndarray
    starts: np.ndarray


@kernel(fast_sums=True)
def multiply(pattern, values, B, out):
    """out = G B."""
    for r in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[r, j] = 0.0
        for q in range(pattern.starts[r], pattern.starts[r + 1]):
            c, g = np.uint64(pattern.indices[q]), values[q]
            for j in range(out.shape[1]):
                out[r, j] += g * B[c, j]


@kernel(fast_sums=True)
def multiply_back(pattern, values, A, out):
    """out = G'A."""
    out[:] = 0.0
    for r in range(A.shape[0]):
        for q in range(pattern.starts[r], pattern.starts[r + 1]):
            c, g = np.uint64(pattern.indices[q]), values[q]
            for j in range(out.shape[1]):
                out[c, j] += g * A[r, j]


@kernel
def subtract_gram(pattern, values, d, packed):
    """packed -= G'G in rectangular full packed form (normal, lower), for sorted columns.

    Element (i, j), i >= j, of the first half of the columns stands where it is in a tall rectangle, at (i + 1, j) for even d and
    at (i, j) for odd d; the triangle that is left stands transposed in its upper corner.
    """
    half = (d + 1) // 2
    height = d + 1 - d % 2
    down, right = 1 - d % 2, d % 2
    for r in range(pattern.starts.shape[0] - 1):
        for q in range(pattern.starts[r], pattern.starts[r + 1]):
            j, value = np.int64(pattern.indices[q]), values[q]
            if j < half:
                first = j * height + down
                for p in range(q, pattern.starts[r + 1]):
                    packed[np.uint64(first + pattern.indices[p])] -= value * values[p]
            else:
                first = (right - half) * height + j - half
                for p in range(q, pattern.starts[r + 1]):
                    packed[np.uint64(first + pattern.indices[p] * height)] -= value * values[p]


class Sparse(NamedTuple):
    """A sparse matrix of fixed pattern: new values in `values` make a new matrix.

    Examples
    --------
    >>> G = Sparse.of(sp.csr_array([[0.0, 2.0], [1.0, 0.0]]))
    >>> G.times(np.array([[1.0], [3.0]])).ravel()
    array([6., 1.])
    """

    pattern: Pattern
    values: np.ndarray
    shape: tuple[int, int]

    @classmethod
    def of(cls, G: Any) -> Sparse:
        """From any sparse matrix."""
        G = sp.csr_array(G, dtype=np.float64)
        G.sum_duplicates()
        return cls(Pattern(G.indices, G.indptr), G.data, G.shape)

    @property
    def scipy(self) -> sp.csr_array:
        """The same as a SciPy array; nothing is copied."""
        return sp.csr_array((self.values, self.pattern.indices, self.pattern.starts), shape=self.shape)

    def times(self, B: np.ndarray) -> np.ndarray:
        """G B."""
        out = np.empty((self.shape[0], B.shape[1]))
        multiply(self.pattern, self.values, np.ascontiguousarray(B), out)
        return out

    def back(self, A: np.ndarray) -> np.ndarray:
        """G'A."""
        out = np.empty((self.shape[1], A.shape[1]))
        multiply_back(self.pattern, self.values, np.ascontiguousarray(A), out)
        return out


# --------------------------------------------------------------------------- from below: pairs


def orthonormal(X: np.ndarray, against: np.ndarray | None = None) -> np.ndarray:
    """An orthonormal basis of the columns of X that are not in the span of `against` (orthonormal columns) up to rounding."""
    before = np.linalg.norm(X, axis=0)
    for _ in range(2):  # twice is enough
        if against is not None and against.shape[1]:
            X = X - against @ (against.T @ X)
    Q, R = sl.qr(X, mode="economic", check_finite=False)
    diagonal = np.abs(np.diag(R))
    return Q[:, diagonal > 1e-10 * max(float(before.max(initial=0.0)), 1e-300)]


def leading_pairs(
    G: Any, start: np.ndarray, steps: int, left: np.ndarray | None = None, right: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ritz triples (u, sigma, v) of (I - left left') G (I - right right') from a block Krylov space, falling.

    Parameters
    ----------
    G : Sparse, or anything with `shape`, `times` and `back`
        The matrix.
    start : array of shape (columns, block)
        Block to start with; as much of it is used as there is room for.
    steps : int
        How often G'G is applied.
    left, right : arrays with orthonormal columns, optional
        What to stay away from on both sides.

    Returns
    -------
    u, sigma, v : arrays
        Singular values from below, with orthonormal vectors; at most as many as the Krylov space has dimensions.
    """
    n, d = G.shape
    left = np.zeros((n, 0)) if left is None else left
    right = np.zeros((d, 0)) if right is None else right
    room = min(n - left.shape[1], d - right.shape[1])
    if n * d <= SMALL:
        whole = G.times(np.eye(d))
        size = np.linalg.norm(whole)
        whole -= left @ (left.T @ whole)
        whole -= (whole @ right) @ right.T
        u, sigma, vt = sl.svd(whole, full_matrices=False, check_finite=False)
        kept = sigma > 4.0 * EPS * size  # the vectors of the others may lie anywhere
        return u[:, kept], sigma[kept], vt[kept].T
    if n < d:  # bases of the smaller side are smaller, and cannot miss a direction when they are full
        v, sigma, u = leading_pairs(_Turned(G), G.times(start), steps, right, left)
        return u, sigma, v
    block = orthonormal(start[:, :room], right)
    basis, images = block, np.zeros((n, 0))
    for count in range(steps + 1):
        image = G.times(block)
        image -= left @ (left.T @ image)
        images = np.hstack([images, image])
        width = min(block.shape[1], room - basis.shape[1])
        if count == steps or width == 0:
            break
        block = orthonormal(G.back(image[:, :width]), np.hstack([right, basis]))
        basis = np.hstack([basis, block])
    if not basis.shape[1]:
        return images, np.zeros(0), basis
    u, sigma, vt = sl.svd(images, full_matrices=False, check_finite=False)
    return u, sigma, basis @ vt.T


class _Turned(NamedTuple):
    """The transpose of a matrix, by its products."""

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.matrix.shape
        return d, n

    def times(self, B: np.ndarray) -> np.ndarray:
        return self.matrix.back(B)

    def back(self, A: np.ndarray) -> np.ndarray:
        return self.matrix.times(A)


def top_pairs(
    G: Any, start: np.ndarray | None = None, tol: float = 1e-7, restarts: int = 20
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest singular values of G with their vectors: Krylov spaces restarted from their best block until sigma_1 stays.

    Examples
    --------
    >>> G = Sparse.of(sp.csr_array(np.diag([1.0, 3.0, 2.0])))
    >>> float(top_pairs(G)[1][0])
    3.0
    """
    d = G.shape[1]
    rng = np.random.default_rng(d)
    fresh = rng.standard_normal((d, BLOCK // 2))
    if start is not None and start.shape[1]:
        if start.shape[1] > BLOCK:  # what G stretches most of the space given
            start = start @ sl.svd(G.times(start), full_matrices=False, check_finite=False)[2][:BLOCK].T
        fresh = np.hstack([start, fresh])
    before = -1.0
    for _ in range(restarts):
        u, sigma, v = leading_pairs(G, fresh, 3)
        if G.shape[0] * d <= SMALL or not sigma.size or sigma[0] <= before * (1.0 + tol):
            break
        one, other = u[:, :1], v[:, :1]
        # What is left of G'u = sigma v or of G v = sigma u, whichever does not hold by itself: sigma is off by its square.
        rest = G.back(one) - sigma[0] * other if G.shape[0] >= d else G.times(other) - sigma[0] * one
        if float(np.vdot(rest, rest)) <= tol * sigma[0] ** 2:
            break
        before, fresh = sigma[0], v[:, :BLOCK]
    return u, sigma, v


# --------------------------------------------------------------------------- from above: bounds


def proves(G: Sparse, tau: float) -> float:
    """A number of at least sigma_1(G), very near to tau, if a Cholesky factor of tau^2 I - G'G exists; else infinity.

    The rounding of the factorisation is below (d + 3) eps times the trace, that of G'G below (longest column + 3) eps ||G||_F^2.
    """
    if G.shape[0] < G.shape[1]:
        G = Sparse.of(G.scipy.T)
    d = G.shape[1]
    packed = np.zeros(d * (d + 1) // 2)
    height = d + 1 - d % 2
    half = (d + 1) // 2
    j = np.arange(half)
    packed[j * height + j + 1 - d % 2] = tau * tau
    j = np.arange(d - half)
    packed[(j + d % 2) * height + j] = tau * tau
    subtract_gram(G.pattern, G.values, d, packed)
    _, failed = dpftrf(d, packed, transr="N", uplo="L", overwrite_a=1)
    if failed:
        return math.inf
    longest = int(np.bincount(G.pattern.indices, minlength=1).max(initial=0))
    size = float(G.values @ G.values)
    slack = EPS * ((d + 3) * d * tau * tau + (longest + 3) * size)
    return math.sqrt(tau * tau + slack) * (1.0 + 8.0 * EPS) + 2.0 * EPS * math.sqrt(size)


def chebyshev_bound(G: Any, tau: float, steps: int, failure: float = FAILURE) -> float:
    """A number of at least sigma_1(G), but with probability `failure`: see the head of this file. `tau` should be near sigma_1.

    Several vectors b are taken at once: it is enough that one of them has |u.b| >= t.
    """
    d = G.shape[1]
    b = np.random.default_rng([d, steps]).standard_normal((d, BLOCK))
    x, before = 2.0 / tau**2 * G.back(G.times(b)) - b, b
    log_size = 0.0
    for _ in range(steps - 1):
        x, before = 4.0 / tau**2 * G.back(G.times(x)) - 2.0 * x - before, x
        top = float(np.abs(x).max())
        if top > 1e100:  # tau was far too small: go on, scaled
            x, before, log_size = x / top, before / top, log_size + math.log(top)
    longest = float(np.linalg.norm(x, axis=0).max())
    log_ratio = math.log(max(longest, 1e-300)) + log_size - math.log(_least_share(failure))
    # T_m(c) >= exp(m arccosh c) / 2, so c <= cosh((log 2 + log ratio) / m); a millionth for the rounding of the recurrence
    c = math.cosh(max(math.log(2.0) + log_ratio + 1e-6, 0.0) / steps)
    return tau * math.sqrt((1.0 + c) / 2.0) * (1.0 + steps * EPS)


def _least_share(failure: float) -> float:
    """The t for which all of the |u.b| are below t with the probability `failure` at most."""
    return failure ** (1.0 / BLOCK) * math.sqrt(math.pi / 2.0)


class Bound(NamedTuple):
    """An upper bound of the largest singular value; `proved` is False if it may fail with a small probability."""

    value: float
    proved: bool


def singular_bound(G: Sparse, start: np.ndarray | None = None, exact_limit: int = EXACT_LIMIT, accuracy: float = 2e-5) -> Bound:
    """An upper bound of sigma_1(G), as a rule tight to 1e-6.

    Parameters
    ----------
    G : Sparse
        The matrix.
    start : array of shape (columns, any), optional
        Where the right singular vectors are thought to be.
    exact_limit : int
        Largest smaller side for which the bound is proved by a factorisation; beyond it the randomised bound is used.
    accuracy : float
        Relative accuracy of the randomised bound; its work grows like 1 / sqrt(accuracy).

    Examples
    --------
    >>> G = Sparse.of(sp.csr_array(np.diag([1.0, 3.0, 2.0])))
    >>> bound = singular_bound(G)
    >>> bool(3.0 <= bound.value <= 3.0 * (1 + 1e-6)), bound.proved
    (True, True)
    """
    if not np.any(G.values):
        return Bound(0.0, True)
    largest = float(np.abs(G.values).max())
    G = G._replace(values=G.values / largest)  # products must neither overflow nor vanish
    sizes = abs(G.scipy)
    ceiling = math.sqrt(float(sizes.sum(axis=0).max()) * float(sizes.sum(axis=1).max())) * (1.0 + max(G.shape) * EPS)
    small = G.shape[0] * G.shape[1] <= SMALL
    _, sigma, v = top_pairs(G, start)
    if min(G.shape) > exact_limit:
        log_ratio = math.log(2.0 * math.sqrt(G.shape[1]) / _least_share(FAILURE))
        steps = math.ceil(log_ratio / (2.0 * math.sqrt(2.0 * accuracy)))
        value = chebyshev_bound(G, float(sigma[0]), steps)
        return Bound(min(value, ceiling) * largest, value >= ceiling)
    for excess in (1e-9, *EXCESSES) if small else EXCESSES:
        value = proves(G, float(sigma[0]) * (1.0 + excess))
        if value < math.inf or sigma[0] * (1.0 + excess) >= ceiling:
            break
        _, sigma, v = top_pairs(G, v[:, :BLOCK], tol=1e-9)  # there is a larger one
    return Bound(min(value, ceiling) * largest, True)
