"""Newton systems of the proximal dual of the multiclass hinge: in the weights, in the free classes of the rows, or by products.

The formulas are in multiclass_simplex.py. With m free classes and d k weights, a system in W costs (d k)^3 / 3 and one in the
faces m^3 / 3; where both are too many, conjugate gradients multiply by the rows that have faces. Intercepts, which nothing
penalises, are given the curvature of a feature as large as a mean row: little, compared with that of the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from saddlery.solvers.multiclass_simplex import face_blocks, face_system, gather_faces, list_faces, primal_system, spread_faces

__all__ = ["Faces", "RowProducts", "faces_of", "mean_square", "newton_direction", "system_costs"]

BLAS, SPARSE, OVERHEAD = 0.1, 2.0, 15.0  # nanoseconds, about: a multiplication by BLAS, one of sparse data, a class of a row
MOST_KEPT = 2000  # rows whose products are kept, unless more have faces at once
MAX_DIRECT = 3000  # unknowns of a system that is solved by Cholesky
PRODUCTS = 200  # of conjugate gradients at most; as many are expected, or they would take the place of epochs too early
CG_TOL = 0.1
LOOSE = 1e3  # curvature of a row with a face, in units of that which intercepts are given, at least


class Faces(NamedTuple):
    """The rows with several classes in V, and a variable for each but the largest of these: place of the row, class, reference."""

    rows: np.ndarray
    at: np.ndarray
    cls: np.ndarray
    ref: np.ndarray

    @property
    def m(self) -> int:
        return len(self.at)

    def counts(self, c: np.ndarray, k: int) -> np.ndarray:
        """sum_p c_p (e_l - e_r)."""
        return np.bincount(self.cls, c, k) - np.bincount(self.ref, c, k)


class RowProducts:
    """<x_i, x_j> of the rows that had faces, kept from step to step: most rows that have them have had them before."""

    def __init__(self, n: int):
        self.slot = np.full(n, -1, dtype=np.int64)
        self.rows = np.empty(0, dtype=np.int64)
        self.values = np.empty((0, 0))

    def slots_of(self, problem: Any, rows: np.ndarray) -> np.ndarray:
        """Where these rows are in `values`; products that are missing are computed."""
        new = rows[self.slot[rows] < 0]
        if len(new) == 0:
            return self.slot[rows]
        if len(self.rows) + len(new) > max(MOST_KEPT, len(rows)):
            self.slot[:] = -1
            self.rows, self.values, new = self.rows[:0], self.values[:0, :0], rows
        old = len(self.rows)
        self.rows = np.concatenate([self.rows, new])
        self.slot[new] = np.arange(old, len(self.rows))
        products = _rows_of(problem, self.rows) @ _rows_of(problem, new).T
        products = products.toarray() if sp.issparse(products) else products
        values = np.empty((len(self.rows), len(self.rows)))
        values[:old, :old] = self.values
        values[:, old:] = products
        values[old:, :old] = products[:old].T
        self.values = values
        return self.slot[rows]


def faces_of(problem: Any, V: np.ndarray) -> Faces:
    """The faces of the rows of V."""
    rows = np.empty(problem.n, dtype=np.int64)
    lists = [np.empty(np.count_nonzero(V), dtype=np.int64) for _ in range(3)]
    count, m = list_faces(problem.loss, problem.s, V, rows, *lists)
    return Faces(rows[:count], *(part[:m] for part in lists))


def system_costs(problem: Any, rows: int, m: int) -> dict[str, float]:
    """Cost of a system of each form, in nanoseconds or so."""
    unknowns, width = float(problem.k * (problem.d + problem.fit_intercept)), problem.size / problem.n
    forms = {"products": 4.0 * SPARSE * PRODUCTS * m * width}
    if m <= MAX_DIRECT:
        forms["faces"] = BLAS * m**3 / 6.0 + m * m + rows * rows * width * (SPARSE if problem.matrix.is_sparse else 0.5 * BLAS)
    if unknowns <= MAX_DIRECT:
        forms["primal"] = BLAS * unknowns**3 / 6.0 + unknowns**2 + 1.5 * m * problem.d**2
    return forms


def mean_square(problem: Any) -> float:
    """The mean squared length of a row."""
    return max(float(problem.matrix.row_square_norms.mean()), 1e-100)


def _length(problem: Any, rho: float) -> float:
    """Squared length of the column of ones: that of a mean row, and such that rows with faces bend more than mu / length."""
    return max(mean_square(problem), LOOSE * problem.penalty.strong_convexity * rho)


def newton_direction(
    problem: Any, gram: RowProducts, faces: Faces, form: str, rho: float, rest: np.ndarray, slope: np.ndarray, by_class: bool
) -> tuple[np.ndarray, np.ndarray, int]:
    """Moves of W and b, minus the inverse of H times their slopes `rest` and `slope`, and the number of products it took."""
    costs = system_costs(problem, len(faces.rows), faces.m)
    form = min(costs, key=costs.__getitem__) if form == "auto" else form
    if form == "primal":
        return *_by_weights(problem, faces, rho, rest, slope, by_class), 0
    if form == "faces":
        c, products = _by_faces(problem, gram, faces, rho, rest, slope, by_class), 0
    else:
        c, products = _by_products(problem, faces, rho, rest, slope, by_class)
    move = np.empty_like(rest)  # (U c - slope) / mu
    spread_faces(problem.matrix.rows, faces.rows, faces.at, faces.cls, faces.ref, c, by_class, move)
    move -= rest
    move /= problem.penalty.strong_convexity
    if not problem.fit_intercept:
        return move, np.zeros(problem.k), products
    return move, (faces.counts(c, problem.k) - slope) * (_length(problem, rho) / problem.penalty.strong_convexity), products


def _by_weights(
    problem: Any, faces: Faces, rho: float, rest: np.ndarray, slope: np.ndarray, by_class: bool
) -> tuple[np.ndarray, np.ndarray]:
    k, d, width, mu = problem.k, problem.d, problem.d + problem.fit_intercept, problem.penalty.strong_convexity
    X = np.ones((len(faces.rows), width))
    values = _rows_of(problem, faces.rows)
    X[:, :d] = values.toarray() if sp.issparse(values) else values
    diagonal = np.full(width, mu)
    diagonal[d:] = mu / _length(problem, rho)
    system, right = np.empty((k * width, k * width)), np.empty((k, width))
    primal_system(problem.loss, X, problem.s[faces.rows] / rho, faces.at, faces.cls, faces.ref, diagonal, system)
    right[:, :d] = rest if by_class else rest.T
    right[:, d:] = slope[:, None]
    move = -_solve(system, right.ravel()).reshape(k, width)
    shift = move[:, d].copy() if problem.fit_intercept else np.zeros(k)
    return np.ascontiguousarray(move[:, :d] if by_class else move[:, :d].T), shift


def _by_faces(
    problem: Any, gram: RowProducts, faces: Faces, rho: float, rest: np.ndarray, slope: np.ndarray, by_class: bool
) -> np.ndarray:
    length = _length(problem, rho) if problem.fit_intercept else 0.0
    slots = gram.slots_of(problem, faces.rows)
    system, right = np.empty((faces.m, faces.m)), np.empty(faces.m)
    ridge = problem.penalty.strong_convexity * rho / problem.s[faces.rows]
    where = (faces.at, faces.cls, faces.ref)
    face_system(problem.loss, gram.values, length, slots, *where, ridge, np.zeros(problem.k), system)
    gather_faces(problem.matrix.rows, faces.rows, *where, rest, by_class, right)
    if problem.fit_intercept:
        right += length * (slope[faces.cls] - slope[faces.ref])
    return _solve(system, right)


def _by_products(
    problem: Any, faces: Faces, rho: float, rest: np.ndarray, slope: np.ndarray, by_class: bool
) -> tuple[np.ndarray, int]:
    """The system of the faces by conjugate gradients, with the rows' own blocks as preconditioner."""
    mu, length = problem.penalty.strong_convexity, _length(problem, rho) if problem.fit_intercept else 0.0
    where = (problem.matrix.rows, faces.rows, faces.at, faces.cls, faces.ref)
    ridge = mu * rho / problem.s[faces.rows]
    own = ridge + problem.matrix.row_square_norms[faces.rows] + length
    room, extra = np.empty_like(rest), np.empty(faces.m)

    def add_intercepts(counts: np.ndarray, out: np.ndarray) -> None:
        if problem.fit_intercept:
            out += length * (counts[faces.cls] - counts[faces.ref])

    def times(c: np.ndarray) -> np.ndarray:
        spread_faces(*where, c, by_class, room)
        out = np.empty(faces.m)
        gather_faces(*where, room, by_class, out)
        face_blocks(problem.loss, faces.at, ridge, c, False, extra)
        out += extra
        add_intercepts(faces.counts(c, problem.k), out)
        return out

    residual, scaled = np.empty(faces.m), np.empty(faces.m)
    gather_faces(*where, rest, by_class, residual)
    add_intercepts(slope, residual)
    c, direction, before, goal = np.zeros(faces.m), np.zeros(faces.m), np.inf, 0.0
    share = min(1.0, float((ridge / own).min())) if faces.m else 1.0  # W is further from its place than c is, by the inverse of it
    for done in range(PRODUCTS):
        face_blocks(problem.loss, faces.at, own, residual, True, scaled)
        size = float(residual @ scaled)
        if done == 0:
            goal = (CG_TOL * share) ** 2 * size
        if size <= goal:
            return c, done
        direction = scaled + size / before * direction
        bent = times(direction)
        step = size / float(direction @ bent)
        c += step * direction
        residual -= step * bent
        before = size
    return c, PRODUCTS


def _rows_of(problem: Any, rows: np.ndarray) -> Any:
    """Some rows of X in float64."""
    values = problem.matrix.csr[rows] if problem.matrix.is_sparse else problem.matrix.values[rows]
    return values.astype(np.float64, copy=False)


def _solve(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of a positive definite system whose lower half is given; what rounding took from it is added to the diagonal."""
    for ridge in (0.0, 1e-12, 1e-8, 1e-4):
        trial = system if ridge == 0.0 else system + ridge * np.diag(system.diagonal())
        factor, failed = scipy.linalg.lapack.dpotrf(trial.T, lower=0, clean=0)
        if not failed:
            return scipy.linalg.lapack.dpotrs(factor, right, lower=0)[0]
    raise np.linalg.LinAlgError("the Newton system is not positive definite")
