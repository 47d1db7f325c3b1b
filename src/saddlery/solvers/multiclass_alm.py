"""Augmented Lagrangian for the multiclass hinge with l2: proximal steps of the dual, each by semismooth Newton steps of the primal.

A round moves the dual point to the optimum of the dual with a proximal term, V = argmax D(V) - rho sum_i s_i |v_i - u_i|^2 / 2
around the last one, u. The primal of that problem is smooth: its loss has the slope v - e_y with v = P(u + m / rho),
m = z + 1 - e_y, and is quadratic as long as the faces of the rows stay (multiclass_simplex.py). Newton steps with a line search
minimise it, two to five a round. V is feasible at every step, so the gap is known all the time. rho falls as long as rounds need
few steps; it need not become small.

A step costs one system (multiclass_faces.py), in W or in the free classes of the rows, whichever are fewer: no more than d k of
these are left in the end, however many rows there are. Epochs of dual ascent come before, as long as they gain more than Newton
steps would for the same work; intercepts are then the multipliers of the balance of the classes.

=========  ==================================================================  ============================
here       meaning                                                             letters of the papers
=========  ==================================================================  ============================
V, centre  dual point A + Y, rows in the simplex; the centre u of the round    x, x^k
rho        weight of the proximal term                                         1 / sigma_k
W, G       weights and X'(s A), by classes if X is dense; Z = X W              y, -
rest       mu W + G, the slope of the smooth primal                            grad phi
=========  ==================================================================  ============================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.losses.multiclass_hinge import MulticlassHinge
from saddlery.point import Point
from saddlery.solvers.base import Solver, State
from saddlery.solvers.multiclass_faces import (
    BLAS,
    OVERHEAD,
    SPARSE,
    RowProducts,
    faces_of,
    mean_square,
    newton_direction,
    system_costs,
)
from saddlery.solvers.multiclass_rows import RowNeeds, gradient_of
from saddlery.solvers.multiclass_sdca import MulticlassSDCA, free_classes
from saddlery.solvers.multiclass_simplex import add_changes, fade, project_rows

__all__ = ["MulticlassALM"]

FIRST, EVERY, MOST_EPOCHS = 10, 5, 50  # epochs: before Newton steps, between two looks whether they pay, in a step
MULTIPLY = 2  # epochs between two multiplier steps of the intercepts
NEARLY = 1.5  # sum of the row gaps, in units of the gap, that is worth a check
SHARE, FAST = 0.5, 0.75  # share of the last weights in the mean that is shown, unless gaps fall by this factor in an epoch
PER_DECADE = 5.0  # Newton steps that a digit of the gap takes, about
ROW = 150.0  # nanoseconds that a row of an epoch takes by itself, about
INNER = 0.3  # share of the gap below which the rest of a round is small enough
AT_LEAST = 0.1  # and the share of what it was at first: gaps may be large where the dual is nearly solved
MOST_INNER = 200  # Newton steps of a round, or of rounds without a check
START = (0.1, 10.0)  # least and most rho at first; margins, of which the hinge asks 1, move the rows by 1 / rho
FALL = (0.3, 0.3, 0.3, 0.5, 0.7)  # factor of rho after rounds of 0, 1, 2, ... Newton steps; 1 after more
RISE, SLOW = 2.0, 0.7  # factor of rho after rounds that did not end; fall of the gap with which rho is too large
LEAST_RHO = 1e-12
ARMIJO, WOLFE, TRIALS = 1e-4, 0.5, 30  # of the line search
PROGRESS, AHEAD = 0.1, 0.01  # fall of the gap that is worth a check: of rounds, of epochs
MOST_ROUNDS = 20  # between two checks
IDLE = 40  # rounds without progress after which there is none


class _State(State):
    def __init__(self, problem: Any, rng: np.random.Generator):
        k = problem.k
        self.rng = rng
        self.ascent: Any = None  # the state of dual ascent, as long as it lasts
        self.by_class = not problem.matrix.is_sparse
        self.W = self.G = np.empty(0)
        self.b = np.zeros(k)
        self.V = self.centre = self.spare = self.Z = np.empty((0, k))
        self.slope = np.zeros(k)  # sum_i s_i A_i
        self.rho = START[1]
        self.smooth = self.hinge = self.against = 0.0
        self.gap = self.rest = np.inf
        self.lowest, self.idle = np.inf, 0
        self.room = np.empty(k)
        self.gram = RowProducts(problem.n)
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
        state.rho = min(max(mean_square(problem) * float(problem.s.mean()) / problem.penalty.strong_convexity, START[0]), START[1])
        if start is None and self.ascent:
            state.ascent = MulticlassSDCA().init(problem, None, rng)
            if problem.fit_intercept:  # as if there were a feature as large as a mean row
                state.ascent.sigma = max(mean_square(problem) / problem.penalty.strong_convexity, 1.0)
            return state
        A = problem.constant_dual if start is None else start.dual
        W = problem.zeros() if start is None else start.w
        b = problem.constant if start is None else np.broadcast_to(start.b, (problem.k,))
        A = problem.dual_point(problem.slopes(problem.margins(W), b) if A is None else A).a
        self._begin(problem, state, A, b)
        return state

    def _begin(self, problem: Any, state: _State, A: np.ndarray, b: np.ndarray) -> None:
        """Go over to Newton steps, from a feasible dual point and its own weights."""
        state.V = np.array(A)
        state.V[np.arange(problem.n), problem.codes] += 1.0
        state.centre, state.spare = state.V.copy(), state.V.copy()  # rows without weight stay as they are
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
        if state.ascent is not None and not self._ascend(problem, state, max(AHEAD * state.relative_gap, NEARLY * state.tol)):
            return
        goal = max(PROGRESS * state.relative_gap, state.tol)
        before = state.newton_steps
        for _ in range(MOST_ROUNDS):
            self._round(problem, state)
            if state.gap <= goal or state.stalled or state.newton_steps - before >= MOST_INNER:
                break

    # -- dual ascent

    def _ascend(self, problem: Any, state: _State, goal: float) -> bool:
        """Epochs until the sum of the row gaps is below `goal`; True if Newton steps are expected to gain more than they do."""
        ascent, method = state.ascent, MulticlassSDCA()
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
        costs = system_costs(problem, *free_classes(problem, state.ascent.A))
        rows = problem.k * (OVERHEAD * problem.n + problem.size * (SPARSE if problem.matrix.is_sparse else BLAS))
        return PER_DECADE * (min(costs.values()) + rows) * decades <= now - earlier

    # -- rounds

    def _project(self, problem: Any, state: _State, along: np.ndarray, size: float, out: np.ndarray) -> tuple[float, ...]:
        return project_rows(
            problem.loss,
            problem.codes,
            problem.s,
            state.rho,
            state.Z,
            along,
            size,
            state.b,
            state.centre,
            out,
            state.room,
        )

    def _round(self, problem: Any, state: _State) -> None:
        """One proximal step of the dual."""
        before = state.gap
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
        factor = FALL[steps] if steps < len(FALL) else 1.0
        if steps >= MOST_INNER:
            factor = RISE
        elif state.gap > SLOW * before:
            factor = FALL[0]
        state.rho = max(factor * state.rho, LEAST_RHO)

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
        """Move W and b along the Newton direction; False if rounding leaves none. The line search takes secants of the slope."""
        mu, rest = problem.penalty.strong_convexity, problem.penalty.strong_convexity * state.W + state.G
        faces = faces_of(problem, state.V)
        where = (faces, self.form, state.rho, rest, state.slope, state.by_class)
        move, shift, products = newton_direction(problem, state.gram, *where)
        along = problem.margins(move.T if state.by_class else move)
        if problem.fit_intercept:
            along += shift
        state.accesses += problem.size
        state.newton_steps += 1
        state.products += products
        squares, product, bend = _square(state.W), float(np.vdot(state.W, move)), _square(move)
        value, slope = state.smooth + 0.5 * mu * squares, float(np.vdot(rest, move)) + float(state.slope @ shift)
        if not slope < 0.0:
            return False
        size = 1.0
        for trial in range(TRIALS):
            smooth, hinge, against, inner = self._project(problem, state, along, size, state.spare)
            new = smooth + 0.5 * mu * (squares + 2.0 * size * product + size * size * bend)
            now = inner + mu * (product + size * bend)
            falls = new <= value + ARMIJO * size * slope + 1e-14 * abs(value)
            if (falls and now <= -WOLFE * slope) or trial == TRIALS - 1:
                break
            size *= min(max(slope / (slope - now), 0.1), 0.9) if now > 0.0 else 0.5
        state.W = state.W + size * move
        if problem.fit_intercept:
            state.b = state.b + size * shift
            along -= shift
        along *= size
        state.Z += along
        state.smooth, state.hinge, state.against = smooth, hinge, against
        self._accept(problem, state)
        return True


def _intercepts(ascent: Any) -> np.ndarray:
    """The intercepts of dual ascent."""
    return ascent.b - ascent.sigma * ascent.balance


def _square(values: np.ndarray) -> float:
    return float(np.vdot(values, values))
