"""Augmented Lagrangian for the multiclass hinge with l2: proximal steps of the dual, each by semismooth Newton steps of the primal.

A round moves the dual point to the optimum of the dual with a proximal term, V = argmax D(V) - rho sum_i s_i |v_i - u_i|^2 / 2 around
the last one, u. The primal of that problem is smooth: its loss has the slope v - e_y with v = P(u + m / rho), m = z + 1 - e_y, and
is quadratic as long as the faces of the rows stay (simplex_face.py). Newton steps with a line search minimise it, two to five a round.
V is feasible at every step, so the gap is known all the time. rho falls as long as rounds need few steps; it need not become small.

A step costs one system, in W or in the free classes of the rows, whichever are fewer: no more than d k of these are left in the end,
however many rows there are. Epochs of dual ascent come before, as long as they gain more than Newton steps would for the same work.

=========  ==================================================================  ============================
here       meaning                                                             letters of the papers
=========  ==================================================================  ============================
V, centre  dual point A + Y, rows in the simplex; the centre u of the round    x, x^k
rho        weight of the proximal term, in units of the rows' own curvature    1 / sigma_k
W, G       weights and X'(s A), by classes if X is dense; Z = X W              y, -
rest       mu W + G, the slope of the smooth primal                            grad phi
=========  ==================================================================  ============================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from saddlery.losses.multiclass_hinge import MulticlassHinge
from saddlery.point import Point
from saddlery.solvers.base import Solver, State
from saddlery.solvers.multiclass_rows import RowNeeds, gradient_of
from saddlery.solvers.multiclass_sdca import MulticlassSDCA, free_classes
from saddlery.solvers.simplex_face import (
    add_changes,
    face_blocks,
    face_system,
    fade,
    gather_faces,
    list_faces,
    primal_system,
    project_rows,
    spread_faces,
)

__all__ = ["MulticlassALM"]

FIRST, EVERY, MOST_EPOCHS = 10, 5, 50  # epochs: before Newton steps, between two looks whether they pay, in a step
MULTIPLY = 2  # epochs between two multiplier steps of the intercepts
NEARLY = 1.5  # sum of the row gaps, in units of the gap, that is worth a check
SHARE, FAST = 0.5, 0.75  # share of the last weights in the mean that is shown, unless gaps fall by this factor in an epoch
PER_DECADE = 5.0  # Newton steps that a digit of the gap takes, about
BLAS, SPARSE, OVERHEAD, ROW = 0.1, 2.0, 15.0, 150.0  # about ns: a multiplication by BLAS, of sparse data; a class of a row; a row
INNER = 0.3  # share of the gap below which the rest of a round is small enough
AT_LEAST = 0.1
MOST_INNER = 20  # Newton steps of a round
FALL = (0.3, 0.3, 0.3, 0.5, 0.7)  # factor of rho after rounds of 0, 1, 2, ... Newton steps; 1 after more
LEAST_RHO = 1e-10
ARMIJO, WOLFE, TRIALS = 1e-4, 0.5, 10  # of the line search
PROGRESS = 0.1  # fall of the gap that is worth a check
MOST_ROUNDS = 20  # between two checks
CG_TOL = 0.1
IDLE = 8  # rounds without progress after which there is none
MAX_DIRECT = 3000  # unknowns of a system that is solved by Cholesky
PRODUCTS, MOST_PRODUCTS = 40, 200  # of conjugate gradients: usual number, most


class Faces(NamedTuple):
    """The rows with several classes in V, and their variables: place of the row, class, and reference class."""

    rows: np.ndarray
    at: np.ndarray
    cls: np.ndarray
    ref: np.ndarray

    @property
    def m(self) -> int:
        return len(self.at)


class _State(State):
    def __init__(self, problem: Any, rng: np.random.Generator):
        n, k = problem.n, problem.k
        self.rng = rng
        self.ascent: Any = None  # the state of dual ascent, as long as it lasts
        self.by_class = not problem.matrix.is_sparse
        self.W = self.G = np.empty(0)
        self.b = np.zeros(k)
        self.V = self.centre = self.spare = self.Z = np.empty((0, k))
        self.slope = np.zeros(k)  # sum_i s_i A_i
        self.rho, self.base = 1.0, np.empty(0)
        self.smooth = self.hinge = self.against = 0.0
        self.gap = self.rest = np.inf
        self.lowest, self.idle = np.inf, 0
        self.room = (np.empty(k), np.empty(n, dtype=np.int64))
        self.epochs = self.rounds = self.newton_steps = self.products = 0
        self.history: list[tuple[float, float]] = []  # work and gap after epochs

    @property
    def counts(self) -> dict[str, float]:
        return {"epochs": self.epochs, "rounds": self.rounds, "newton_steps": self.newton_steps, "products": self.products}


@dataclass(frozen=True)
class MulticlassALM(Solver):
    """Augmented Lagrangian with semismooth Newton steps for the multiclass hinge with l2, with or without intercepts.

    Parameters
    ----------
    ascent : bool
        Begin with epochs of dual ascent.
    form : {"auto", "faces", "primal", "products"}
        Newton systems: of the free classes of the rows, of the weights, or by conjugate gradients; "auto" takes the cheapest.
    """

    ascent: bool = True
    form: str = "auto"

    name = "multiclass_alm"
    paper = "Rockafellar 1976 (proximal point), Li, Sun & Toh 2018 (semismooth Newton); see docs/solvers.md"
    needs = RowNeeds(
        kind="multiclass",
        only=(MulticlassHinge,),
        row_loss=("row_conjugate", "row_dual_prox"),
        penalty=("coordinate_map",),
        strongly_convex=True,
        rotates=True,
        dense_weights=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        state = _State(problem, rng)
        curvature = problem.s * problem.matrix.row_square_norms / problem.penalty.strong_convexity
        state.base = np.full(problem.n, max(float(curvature.mean()), 1e-300))
        if start is None and self.ascent:
            state.ascent = MulticlassSDCA(newton=False).init(problem, None, rng)
            if problem.fit_intercept:  # as if there were a feature as large as a mean row
                state.ascent.sigma = _mean_square(problem) / problem.penalty.strong_convexity
            return state
        A = problem.constant_dual if start is None else start.dual
        W = problem.zeros() if start is None else start.w
        b = problem.constant if start is None else np.broadcast_to(start.b, (problem.k,))
        A = problem.dual_point(problem.slopes(problem.margins(W), b) if A is None else A).a
        self._begin(problem, state, A, b)
        return state

    def _begin(self, problem: Any, state: _State, A: np.ndarray, b: np.ndarray) -> None:
        """Go over to Newton steps, from a feasible dual point and its own weights."""
        state.V, state.centre, state.spare = np.array(A), np.empty_like(A), np.empty_like(A)
        state.V[np.arange(problem.n), problem.codes] += 1.0
        state.b, state.ascent = np.array(b, dtype=np.float64), None
        state.W = -self._product(problem, state) / problem.penalty.strong_convexity
        self.resync(problem, state)

    def resync(self, problem: Any, state: _State) -> None:
        if state.ascent is not None:
            MulticlassSDCA().resync(problem, state.ascent)
            state.ascent.balance = problem.s @ state.ascent.A
            return
        state.G = self._product(problem, state)
        state.slope = problem.s @ state.V - problem.class_weights
        state.Z = np.ascontiguousarray(problem.margins(self._weights(state)))
        state.accesses += 2.0 * problem.size

    def _product(self, problem: Any, state: _State) -> np.ndarray:
        """X'(s A), by classes if X is dense."""
        weighted = problem.s[:, None] * state.V
        weighted[np.arange(problem.n), problem.codes] -= problem.s
        G = gradient_of(problem.matrix, weighted)
        return np.ascontiguousarray(G.T) if state.by_class else G

    def _weights(self, state: _State) -> np.ndarray:
        return state.W.T if state.by_class else state.W

    def point(self, problem: Any, state: _State) -> Point:
        if state.ascent is not None:
            point = MulticlassSDCA().point(problem, state.ascent)
            return Point(point.w, _intercepts(state.ascent), point.dual, None, point.Xta)
        A = state.V.copy()
        A[np.arange(problem.n), problem.codes] -= 1.0
        G = state.G.T if state.by_class else state.G
        return Point(np.ascontiguousarray(self._weights(state)), state.b - state.b.mean(), A, state.Z, np.ascontiguousarray(G))

    def step(self, problem: Any, state: _State) -> None:
        """Epochs of dual ascent or rounds, until the gap has fallen enough to be worth a check."""
        goal = max(PROGRESS * state.relative_gap, state.tol)
        if state.ascent is not None and not self._ascend(problem, state, NEARLY * goal):
            return
        for _ in range(MOST_ROUNDS):
            self._round(problem, state)
            if state.gap <= goal or state.stalled:
                break

    # -- dual ascent

    def _ascend(self, problem: Any, state: _State, goal: float) -> bool:
        """Epochs until the sum of the row gaps is below `goal`; True if Newton steps are expected to gain more than they do."""
        ascent, method = state.ascent, MulticlassSDCA(newton=False)
        width, before = problem.size / problem.n, ascent.accesses
        for _ in range(MOST_EPOCHS):
            method.ascend(problem, ascent)
            state.epochs += 1
            gap = ascent.row_gap / problem.scale
            if problem.fit_intercept:
                gap += float(np.max(ascent.balance / problem.class_weights))
                if state.epochs % MULTIPLY == 0:
                    ascent.b = _intercepts(ascent)
            cost = ROW * ascent.visits + 0.5 * ascent.work * (OVERHEAD / width + (SPARSE if problem.matrix.is_sparse else 0.3))
            state.history.append((cost, gap))
            last = state.history[-FIRST:]
            share = SHARE if gap > FAST ** len(last) * last[0][1] else 1.0
            fade(problem.loss, ascent.G.reshape(-1), ascent.mean.reshape(-1), share)
            newton = state.epochs >= FIRST and state.epochs % EVERY == 0 and self._newton_pays(problem, state)
            if newton or gap <= goal:
                break
        state.accesses += ascent.accesses - before
        if newton:
            self._begin(problem, state, ascent.A, _intercepts(ascent))
        return newton

    def _newton_pays(self, problem: Any, state: _State) -> bool:
        """Whether Newton steps are expected to gain a digit for less work than the last epochs did."""
        (earlier, high), (now, low) = state.history[len(state.history) // 2], state.history[-1]
        decades = math.log10(high / low) if 0.0 < low < high else 0.0
        costs = self._costs(problem, *free_classes(problem, state.ascent.A))
        rows = problem.k * (OVERHEAD * problem.n + problem.size * (SPARSE if problem.matrix.is_sparse else BLAS))
        return PER_DECADE * (min(costs.values()) + rows) * decades <= now - earlier

    def _costs(self, problem: Any, rows: int, m: int) -> dict[str, float]:
        """Cost of a system of each form, in nanoseconds or so."""
        unknowns, width = float(problem.k * (problem.d + problem.fit_intercept)), problem.size / problem.n
        forms = {"products": 4.0 * SPARSE * PRODUCTS * m * width}
        if m <= MAX_DIRECT:
            forms["faces"] = BLAS * m**3 / 6.0 + m * m + rows * rows * width * (SPARSE if problem.matrix.is_sparse else 0.5 * BLAS)
        if unknowns <= MAX_DIRECT:
            forms["primal"] = BLAS * unknowns**3 / 6.0 + unknowns**2 + 1.5 * m * problem.d**2
        return forms

    # -- rounds

    def _project(self, problem: Any, state: _State, along: np.ndarray, size: float, out: np.ndarray) -> tuple[float, ...]:
        return project_rows(
            problem.loss,
            problem.codes,
            problem.s,
            state.rho * state.base,
            state.Z,
            along,
            size,
            state.b,
            state.centre,
            out,
            state.room[0],
        )

    def _round(self, problem: Any, state: _State) -> None:
        """One proximal step of the dual."""
        state.centre[:] = state.V
        state.smooth, state.hinge, state.against, _ = self._project(problem, state, state.Z, 0.0, state.spare)
        self._accept(problem, state)
        steps = 0
        goal = AT_LEAST * state.rest
        while steps < MOST_INNER and state.rest > min(goal, INNER * max(state.gap - state.rest, 0.0)) and state.gap > state.tol:
            if not self._newton_step(problem, state):
                break
            steps += 1
        state.rounds += 1
        state.idle = 0 if state.gap < 0.99 * state.lowest else state.idle + 1
        state.lowest = min(state.lowest, state.gap)
        state.stalled = state.idle >= IDLE
        state.rho = max(state.rho * (FALL[steps] if steps < len(FALL) else 1.0), LEAST_RHO)

    def _accept(self, problem: Any, state: _State) -> None:
        """Take the rows in `spare`: G follows, and the gap."""
        add_changes(problem.matrix.rows, problem.s, state.spare, state.V, state.by_class, state.G)
        state.V, state.spare = state.spare, state.V
        mu = problem.penalty.strong_convexity
        squares, product, dual = _square(state.W), float(np.vdot(state.W, state.G)), _square(state.G)
        rest = 0.5 / mu * max(mu * mu * squares + 2.0 * mu * product + dual, 0.0)
        gap = state.hinge + 0.5 * mu * squares - state.against + 0.5 / mu * dual
        if problem.fit_intercept:
            state.slope = problem.s @ state.V - problem.class_weights
            off = 2.0 * float(np.max(state.slope / problem.class_weights))
            rest, gap = rest + off * problem.scale, gap + off * problem.scale  # what balancing the dual point may cost
        state.rest, state.gap = rest / problem.scale, gap / problem.scale

    def _newton_step(self, problem: Any, state: _State) -> bool:
        mu = problem.penalty.strong_convexity
        rest = mu * state.W + state.G
        move, shift = self._direction(problem, state, rest)
        along = problem.margins(move.T if state.by_class else move)
        if problem.fit_intercept:
            along += shift
        state.accesses += problem.size
        state.newton_steps += 1
        squares, product, bend = _square(state.W), float(np.vdot(state.W, move)), _square(move)
        value, slope = state.smooth + 0.5 * mu * squares, float(np.vdot(rest, move)) + float(state.slope @ shift)
        if not slope < 0.0:
            return False
        size, low, high, tilt = 1.0, 0.0, math.inf, slope
        for _ in range(TRIALS):
            smooth, hinge, against, inner = self._project(problem, state, along, size, state.spare)
            new = smooth + 0.5 * mu * (squares + 2.0 * size * product + size * size * bend)
            now = inner + mu * (product + size * bend)
            if new <= value + ARMIJO * size * slope + 1e-14 * abs(value) and now <= -WOLFE * slope:
                break
            high = size
            share = tilt / (tilt - now) if now > 0.0 else 0.5
            size = low + (high - low) * min(max(share, 0.1), 0.9)
        state.W = state.W + size * move
        state.Z += size * (along - shift)
        state.b = state.b + size * shift
        state.smooth, state.hinge, state.against = smooth, hinge, against
        self._accept(problem, state)
        return True

    # -- Newton systems

    def _direction(self, problem: Any, state: _State, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moves of W and b: minus the inverse of the Hessian times the slope."""
        faces = self._faces(problem, state)
        costs = self._costs(problem, len(faces.rows), faces.m)
        form = min(costs, key=costs.__getitem__) if self.form == "auto" else self.form
        mu = problem.penalty.strong_convexity
        ones = mu / _mean_square(problem)  # curvature that intercepts are given, as if ones were as large as a mean row
        if form == "primal":
            return self._by_weights(problem, state, faces, rest, ones)
        if form == "faces":
            return self._by_faces(problem, state, faces, rest, ones)
        return self._by_products(problem, state, faces, rest, ones)

    def _faces(self, problem: Any, state: _State) -> Faces:
        most = int(np.count_nonzero(state.V))
        lists = [np.empty(most, dtype=np.int64) for _ in range(3)]
        count, m = list_faces(problem.loss, problem.s, state.V, state.room[1], *lists)
        return Faces(state.room[1][:count], *(part[:m] for part in lists))

    def _by_weights(
        self, problem: Any, state: _State, faces: Faces, rest: np.ndarray, ones: float
    ) -> tuple[np.ndarray, np.ndarray]:
        k, d, width = problem.k, problem.d, problem.d + problem.fit_intercept
        X = np.ones((len(faces.rows), width))
        X[:, :d] = _rows_of(problem, faces.rows, dense=True)
        system = np.empty((k * width, k * width))
        weights = problem.s[faces.rows] / (state.rho * state.base[faces.rows])
        diagonal = np.full(width, problem.penalty.strong_convexity)
        diagonal[d:] = ones
        primal_system(problem.loss, X, weights, faces.at, faces.cls, faces.ref, diagonal, system)
        right = np.empty((k, width))
        right[:, :d] = rest if state.by_class else rest.T
        right[:, d:] = state.slope[:, None]
        move = -_solve(system, right.ravel()).reshape(k, width)
        shift = move[:, d].copy() if problem.fit_intercept else np.zeros(k)
        return np.ascontiguousarray(move[:, :d] if state.by_class else move[:, :d].T), shift

    def _by_faces(self, problem: Any, state: _State, faces: Faces, rest: np.ndarray, ones: float) -> tuple[np.ndarray, np.ndarray]:
        mu, X = problem.penalty.strong_convexity, _rows_of(problem, faces.rows)
        products = X @ X.T
        products = products.toarray() if sp.issparse(products) else products
        along = X @ (rest.T if state.by_class else rest)
        if problem.fit_intercept:
            products += mu / ones
            along += state.slope * (mu / ones)
        right = along[faces.at, faces.cls] - along[faces.at, faces.ref]
        system = np.empty((faces.m, faces.m))
        ridge = mu * state.rho * state.base[faces.rows] / problem.s[faces.rows]
        face_system(problem.loss, products, faces.at, faces.cls, faces.ref, ridge, system)
        return self._spread(problem, state, faces, rest, _solve(system, right), ones)

    def _spread(
        self, problem: Any, state: _State, faces: Faces, rest: np.ndarray, c: np.ndarray, ones: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(U c - slope) / mu."""
        move = np.empty_like(rest)
        spread_faces(problem.matrix.rows, faces.rows, faces.at, faces.cls, faces.ref, c, state.by_class, move)
        move -= rest
        move /= problem.penalty.strong_convexity
        if not problem.fit_intercept:
            return move, np.zeros(problem.k)
        counts = np.bincount(faces.cls, c, problem.k) - np.bincount(faces.ref, c, problem.k)
        return move, (counts - state.slope) / ones

    def _by_products(
        self, problem: Any, state: _State, faces: Faces, rest: np.ndarray, ones: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The system of the faces by conjugate gradients, with the rows' own blocks as preconditioner."""
        rows, mu = problem.matrix.rows, problem.penalty.strong_convexity
        where = (rows, faces.rows, faces.at, faces.cls, faces.ref)
        ridge = mu * state.rho * state.base[faces.rows] / problem.s[faces.rows]
        own = ridge + problem.matrix.row_square_norms[faces.rows] + (mu / ones if problem.fit_intercept else 0.0)
        room, extra = np.empty_like(rest), np.empty(faces.m)

        def times(c: np.ndarray) -> np.ndarray:
            spread_faces(*where, c, state.by_class, room)
            out = np.empty(faces.m)
            gather_faces(*where, room, state.by_class, out)
            face_blocks(problem.loss, faces.at, ridge, c, False, extra)
            out += extra
            if problem.fit_intercept:
                counts = (np.bincount(faces.cls, c, problem.k) - np.bincount(faces.ref, c, problem.k)) * (mu / ones)
                out += counts[faces.cls] - counts[faces.ref]
            return out

        residual = np.empty(faces.m)
        gather_faces(*where, rest, state.by_class, residual)
        if problem.fit_intercept:
            residual += (state.slope[faces.cls] - state.slope[faces.ref]) * (mu / ones)
        c, scaled, before = np.zeros(faces.m), np.empty(faces.m), 1.0
        direction, first = np.zeros(faces.m), 0.0
        goal = (CG_TOL * min(1.0, state.rho)) ** 2  # W is further from its place than c is, by 1 / rho
        for t in range(MOST_PRODUCTS):
            face_blocks(problem.loss, faces.at, own, residual, True, scaled)
            size = float(residual @ scaled)
            first = size if t == 0 else first
            if size <= goal * first or size == 0.0:
                break
            direction = scaled + (size / before if t else 0.0) * direction
            bent = times(direction)
            step = size / float(direction @ bent)
            c += step * direction
            residual -= step * bent
            before = size
            state.products += 1
        return self._spread(problem, state, faces, rest, c, ones)


def _intercepts(ascent: Any) -> np.ndarray:
    """The intercepts of dual ascent."""
    return ascent.b - ascent.sigma * ascent.balance


def _rows_of(problem: Any, rows: np.ndarray, dense: bool = False) -> Any:
    """Some rows of X in float64."""
    if not problem.matrix.is_sparse:
        return problem.matrix.values[rows].astype(np.float64, copy=False)
    values = problem.matrix.csr[rows].astype(np.float64)
    return values.toarray() if dense else values


def _mean_square(problem: Any) -> float:
    """The mean squared length of a row."""
    return max(float(problem.matrix.row_square_norms.mean()), 1e-100)


def _square(values: np.ndarray) -> float:
    return float(np.vdot(values, values))


def _solve(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of a positive definite system whose lower half is given."""
    for ridge in (0.0, 1e-12, 1e-8, 1e-4):
        work = system if ridge == 0.0 else system + ridge * np.diag(system.diagonal())
        factor, failed = scipy.linalg.lapack.dpotrf(work.T, lower=0, overwrite_a=0, clean=0)
        if not failed:
            return scipy.linalg.lapack.dpotrs(factor, right, lower=0)[0]
    raise np.linalg.LinAlgError("the Newton system is not positive definite")
