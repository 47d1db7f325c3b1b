"""Distributed proximal Newton, one round for each step.

The driver keeps the weights and the second derivatives on a working set W; partitions keep nothing. A step solves on the driver

    min_u  g_W.u + 1/2 u'G u + sum_{j in W} g_j(w_j + u_j)          g = X'(s l'(Xw + b)),   G = X_W' diag(s l'') X_W

and then asks all partitions, in one round, for everything at w + u: the loss (for some shorter steps too), the new gradient,
the sums of its certificate, and G on the working set that the *old* gradient predicts. Near the end the dual point of the
quadratic model is asked for too: it is nearer to feasibility than the slopes.

The scale t with which a dual point becomes feasible is known only after the sum. As t -> sum_i s_i l*(t a_i) is convex and 0 at
0, the chord through its values on a grid is an upper bound, so the certificate on the way is valid; the final one is a round of
its own at the chosen t. The repair for the intercept is bounded in the same way.

Where the penalty selects no columns and there are too many for a Gram matrix, steps are solved by conjugate gradients, a round
for each product.

=============  ==================================================================
here           meaning
=============  ==================================================================
move, shift    the Newton step of the weights and of the intercept
W, gram        working set and second derivatives on it (last row: the intercept)
Xta            X'(s a) of the slopes, the gradient of the loss
=============  ==================================================================
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.distributed.dual import DualRows, pack
from saddlery.distributed.newton_round import NewtonRound, NewtonTask, Product, ProductTask, unpack_gram
from saddlery.distributed.problem import GRID
from saddlery.distributed.sample import sample_start
from saddlery.penalties.base import largest
from saddlery.point import Point
from saddlery.problems.linear import DualPoint
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.gram_model import minimise, worst_violation

__all__ = ["DaskProxNewton"]

SIZES = (0.5, 0.125, 1.0 / 64.0)  # shorter steps whose loss comes with each round
LEVEL = 0.8  # columns whose product exceeds this share of the threshold belong into the working set
ALL_COLUMNS = 150  # so few are always taken all
MOST_COLUMNS = 3000  # of a Gram matrix that travels, unless the solution itself has more
MODEL_DUAL = 0.05  # relative gap below which the dual point of the model is asked for
MOST_PRODUCTS = 30  # of conjugate gradients in one step


class _State(State):
    """Where the solver stands; see the table at the top of the file."""

    def __init__(self, problem: Any, w: np.ndarray, b: float):
        self.w, self.b, self.meter = w, b, problem.meter
        self.loss, self.Xta, self.totals = math.inf, np.zeros(0), np.zeros(3)
        self.W: Any = None
        self.gram, self.diagonal = np.zeros((0, 0)), np.zeros(0)
        self.floor = 1e-9 if getattr(problem.loss, "curvature_is_smooth", False) else 1e-3
        self.dual: Any = None
        self.idle = 0
        self.driver_seconds = 0.0

    @property
    def counts(self) -> dict[str, float]:
        columns = 0 if self.W is None else len(self.W)
        return {**self.meter.counts(), "driver_seconds": round(self.driver_seconds, 6), "working_set": columns}


@dataclass(frozen=True)
class DaskProxNewton(Solver):
    """Proximal Newton over partitions, for smooth losses with l1, l2 or elastic net, with or without intercept.

    Parameters
    ----------
    sample_start : bool
        Start tall problems (n >= 10,000 and n >= 16 d) from a rough solution on a part of the rows, brought to the driver.
    """

    sample_start: bool = True

    name = "dask_prox_newton"
    paper = "proximal Newton with one round for each step; see docs/cluster.md"
    needs = Needs(
        kind="distributed",
        loss=("value", "slope", "curvature", "conjugate"),
        penalty=("coordinate_prox", "coordinate_distance", "coordinate_conjugate"),
        smooth=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w, b, guide = np.zeros(problem.d), 0.0, None
        if start is not None:
            w, b = start.w, start.b
        elif self.sample_start and problem.n >= max(10_000, 16 * problem.d):
            found = sample_start(problem, rng)
            w, b, guide = (w, problem.constant, None) if found is None else found
        else:
            b = problem.constant
        state = _State(problem, w, b)
        if guide is None:
            guide = problem.constant_gradient if not w.any() else None
        state.W = self._working_set(problem, w, guide)
        self._look(problem, state, np.zeros(problem.d), 0.0, state.W, model=False)
        return state

    # -- one round

    def _look(
        self, problem: Any, state: _State, move: np.ndarray, shift: float, W: Any, model: bool, old_floor: float = 0.0
    ) -> dict[str, Any]:
        """A round at w + move; takes its second derivatives, judges its dual points; returns its sums."""
        moving = bool(move.any() or shift)
        task = NewtonTask(
            problem.loss, problem.reading, problem.d, pack(state.w), state.b, pack(move) if moving else None, shift, W,
            SIZES if moving else (), GRID, model and moving, state.floor, old_floor, problem.fit_intercept,
        )  # fmt: skip
        sums, _ = problem.run(NewtonRound, task)
        state.accesses += (2.0 + moving + 2.0 * model) * problem.size
        if W is None:
            state.diagonal = sums["diagonal"]
        else:
            state.gram = unpack_gram(sums["gram"], len(W) + problem.fit_intercept)
        state.W, state.loss = W, float(sums["losses"][0])
        state.Xta, state.totals = sums["slopes.Xta"], sums["slopes.totals"]
        new = state.w + move
        best = judge(problem, sums, "slopes", DualRows(pack(new), state.b + shift))
        if model and moving:
            other = judge(problem, sums, "model", DualRows(pack(state.w), state.b, pack(move), shift, old_floor))
            best = max(best, other, key=lambda point: point.value)
        state.dual = best
        return sums

    def step(self, problem: Any, state: _State) -> None:
        penalty = problem.penalty
        before = state.loss + penalty.value(state.w)
        if state.W is None:
            move, shift = self._by_products(problem, state)
        else:
            began = time.perf_counter()
            move, shift = self._by_gram(problem, state)
            state.driver_seconds += time.perf_counter() - began
        fall = float(state.Xta @ move) + shift * float(state.totals[:2].sum())
        fall += penalty.value(state.w + move) - penalty.value(state.w)
        if not (move.any() or shift):
            state.idle += 1
        W = self._working_set(problem, state.w + move, state.Xta)
        model = state.relative_gap <= MODEL_DUAL and not getattr(problem.loss, "curvature_is_constant", False)
        floor, old = state.floor, (state.loss, state.Xta, state.totals, state.W, state.gram, state.diagonal)
        for _ in range(8):
            sums = self._look(problem, state, move, shift, W, model, floor)
            sizes = (1.0, *SIZES) if move.any() or shift else (1.0,)
            values = [float(loss) + penalty.value(state.w + size * move) for size, loss in zip(sizes, sums["losses"], strict=True)]
            if values[0] <= before + 1e-4 * min(fall, 0.0) + 1e-12 * abs(before):
                break
            size = sizes[int(np.argmin(values[1:])) + 1]  # the round was in vain but for this
            move, shift, fall, model = size * move, size * shift, size * fall, False
            state.floor = min(1.0, 10.0 * state.floor)
        else:
            state.loss, state.Xta, state.totals, state.W, state.gram, state.diagonal = old
            state.stalled = True
            return
        if state.floor == floor:
            state.floor = max(1e-9, 0.1 * floor)
        state.w, state.b = state.w + move, state.b + shift
        state.idle = 0 if values[0] < before - 1e-14 * abs(before) else state.idle + 1
        state.stalled = state.idle >= 5

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, state.b, state.dual.a, Xta=state.dual.Xta, loss=state.loss, fresh=True, aux=state.dual)

    # -- the driver's part

    def _working_set(self, problem: Any, w: np.ndarray, Xta: Any) -> Any:
        """The support and the columns whose products are large; None where nothing is selected and there are too many columns."""
        d, threshold = problem.d, problem.penalty.threshold
        if d <= ALL_COLUMNS or (threshold == 0.0 and d <= MOST_COLUMNS):
            return np.arange(d)
        if threshold == 0.0:
            return None
        chosen = w != 0.0
        support = int(np.count_nonzero(chosen))
        if Xta is not None:
            chosen |= np.abs(Xta) > LEVEL * threshold
        W = np.flatnonzero(chosen)
        cap = max(100, min(2 * support, MOST_COLUMNS), support)
        if len(W) > cap:
            score = np.where(w[W] != 0.0, np.inf, np.abs(Xta[W]))
            W = np.sort(W[np.argpartition(-score, cap - 1)[:cap]])
        return W

    def _by_gram(self, problem: Any, state: _State) -> tuple[np.ndarray, float]:
        """The step that minimises the quadratic model on W: coordinate descent and solves on its support."""
        penalty, W, free = problem.penalty, state.W, int(problem.fit_intercept)
        total = float(state.totals[:2].sum())
        origin = np.append(state.w[W], state.b) if free else state.w[W].copy()
        q = np.append(state.Xta[W], total) if free else state.Xta[W].copy()
        move = np.zeros(problem.d)
        if len(origin) == 0:
            return move, 0.0
        violation = worst_violation(penalty, state.w[W], state.Xta[W]) if len(W) else 0.0
        violation = max(violation, abs(total)) if free else violation
        u, tol = origin.copy(), (1e-12 if getattr(problem.loss, "curvature_is_constant", False) else 1e-3) * violation
        minimise(penalty, state.gram, u, q, free, tol)
        move[W] = u[: len(W)] - state.w[W]
        return move, float(u[-1] - state.b) if free else 0.0

    def _by_products(self, problem: Any, state: _State) -> tuple[np.ndarray, float]:
        """The same by conjugate gradients with the diagonal as preconditioner, a round for each product; for l2 alone."""
        l2, free = problem.penalty.strong_convexity, int(problem.fit_intercept)
        total = float(state.totals[:2].sum()) if free else 0.0
        residual = -np.append(state.Xta + l2 * state.w, total)
        diagonal = state.diagonal + np.append(np.full(problem.d, l2), 0.0)
        x = np.zeros(problem.d + 1)
        scaled = residual / np.where(diagonal > 0.0, diagonal, 1.0)
        if not free:
            scaled[-1] = 0.0
        direction = scaled.copy()
        size = start = float(residual @ scaled)
        goal = min(0.1, max(state.relative_gap, 1e-4)) if math.isfinite(state.relative_gap) else 0.1
        for _ in range(MOST_PRODUCTS):
            if size <= goal**2 * start or size == 0.0:
                break
            parts = (pack(direction[:-1]), float(direction[-1]), state.floor)
            task = ProductTask(problem.loss, problem.reading, problem.d, pack(state.w), state.b, *parts)
            product = problem.run(Product, task)[0]["product"]
            state.accesses += 3.0 * problem.size
            product[:-1] += l2 * direction[:-1]
            if not free:
                product[-1] = 0.0
            length = size / float(direction @ product)
            x += length * direction
            residual -= length * product
            scaled = residual / np.where(diagonal > 0.0, diagonal, 1.0)
            if not free:
                scaled[-1] = 0.0
            size, last = float(residual @ scaled), size
            direction = scaled + size / last * direction
        return x[:-1], float(x[-1])


# --------------------------------------------------------------------------- certificates on the way


def judge(problem: Any, sums: dict[str, Any], name: str, a: DualRows) -> DualPoint:
    """The best point on the ray of a dual point that a round has summed up, after the repair for the intercept."""
    Xta, totals, ray, grid = (sums[f"{name}.{key}"] for key in ("Xta", "totals", "ray", "conjugates"))
    if problem.fit_intercept:
        a, Xta, ray, grid = _repaired(problem, a, Xta, totals, ray, grid)
    penalty, c = problem.penalty, getattr(problem.loss, "conjugate_curvature", None)

    def conjugate(t: float) -> float:
        """sum_i s_i l*(t a_i), or a bound from above."""
        if c is not None:
            return float(t * ray[0] + 0.5 * c * t * t * ray[1])
        return float(np.interp(t, (0.0, *GRID), np.append(0.0, grid)))

    if penalty.strong_convexity == 0.0:
        peak = 1.0 if c is None else min(max(0.0, -ray[0] / (ray[1] * c)), 2.0) if ray[1] > 0.0 else 1.0
        limit = peak * penalty.dual_scale(peak * Xta)
        scales = [limit] if c is not None else [limit, *(t for t in GRID if t < limit)]
        values = [-conjugate(t) for t in scales]  # g* is 0 there
    else:
        top, threshold = largest(penalty, Xta), penalty.threshold
        scales = [1.0, *((threshold / top,) if 0.0 < threshold < top else ())]
        scales += [t for t in GRID if scales[-1] < t < 1.0]
        values = [-conjugate(t) - penalty.conjugate(Xta, -t) for t in scales]
    best = int(np.argmax(values))
    if not values[best] > problem._dual_at_zero:
        return DualPoint(a.scaled(0.0), 0.0 * Xta, problem._dual_at_zero)
    t = scales[best]
    return DualPoint(a.scaled(t), t * Xta, values[best]) if t != 1.0 else DualPoint(a, Xta, values[best])


def _repaired(problem: Any, a: DualRows, Xta: np.ndarray, totals: np.ndarray, ray: np.ndarray, grid: np.ndarray) -> Any:
    """The point balanced; its sums along the ray exactly where l* is quadratic, else bounded by convexity."""
    upper, lower, size = totals
    a, Xta, share, level = problem.balanced(a, Xta, upper + lower, size)
    if level == 0.0:
        return a, Xta, ray, grid
    if problem.loss.targets == "signs":
        weight = problem.positive if level < 0.0 else 1.0 - problem.positive
        if len(ray):
            met = level * (upper if level < 0.0 else lower)  # sum_i s_i a_i e_i
            first = (1.0 - share) * ray[0] - share * weight
            second = (1.0 - share) ** 2 * ray[1] + 2.0 * share * (1.0 - share) * met + share**2 * weight
            return a, Xta, np.array([first, second]), grid
        ends = np.array([weight * problem.loss.conjugate(-level, t * level) for t in GRID])
        return a, Xta, ray, (1.0 - share) * grid + share * ends
    if share == 0.0:  # a shift of all rows by `level`
        first = ray[0] + level * problem._mean
        return a, Xta, np.array([first, ray[1] - level * level]), grid
    finite = [end for end in problem._dual_room if math.isfinite(end)]
    ends = problem._first["levels"][finite.index(level)]
    if len(ray):  # on a bounded domain the ray is not quadratic for all scales: keep to the grid
        raise AssertionError("a loss with a bounded domain has no conjugate_curvature")
    return a, Xta, ray, (1.0 - share) * grid + share * ends
