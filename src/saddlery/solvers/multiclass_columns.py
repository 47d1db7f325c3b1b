"""The column form of the Newton model of a multiclass problem: H is never formed, which suits sparse columns.

The letters are those of multiclass_newton.py. With Z = X v and Q_i = <V_i, Z_i> a coordinate step costs two passes over one column,
whatever k is. Where pairs depend on each other sweeps of such steps take long, and models whose dual point should end the run
(multiclass_state.py) must be solved well: conjugate gradients on the signed support do that, with the blocks of single classes as
preconditioner. On news20 at 0.01 alpha_max to 1e-4 this and steps that may reach further and further took 1.5 s down to 1.1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.linalg.lapack

from saddlery.parts import kernel
from saddlery.solvers.multiclass_model import Pairs, bend, new_bend_room
from saddlery.solvers.multiclass_rows import add_pairs
from saddlery.solvers.multiclass_state import NewtonState, Present

__all__ = ["ColumnStep"]

BOX = 2.0  # how far a weight may move in one step of the column form, in units of 1 / max_i |x_ij|
RIDGE = 1e-6  # of the diagonal of a preconditioner
TINY = 1e-12  # least curvature of a pair: one without any must still return to zero (skipping it stalls at a gap of 0.28)
MOST_SWEEPS = 200  # in one Newton step, products included
SWEEPS = 25  # before conjugate gradients,
AFTER = 6  # and after them
MOST_CONJUGATE = 40  # products in a row
CARE = 0.05  # fall of the residual that they are asked for at a time: the support may change
SHARP = 0.8  # of what is asked for that may be lost when the dual point of a model is scaled to be feasible
CLOSE = 2.0  # fall that a model promises, in units of what is asked for, from which on it may end the run
BOUND = 0.999  # share of its box that a move may take in a model that may end the run


@kernel(fast_sums=True)
def pair_products(cols, feature, cls, Z, out):
    """out_p = sum_i x_ij Z_il, for every pair p = (j, l)."""
    for p in range(out.shape[0]):
        out[p] = cols.dot(feature[p], Z[cls[p]])


@kernel(fast_sums=True)
def pair_curvature(penalty, cols, j, weighted, row):
    """sum_i s_i x_ij^2 V_il (1 - V_il) / tau."""
    total = 0.0
    for p in range(cols.first(j), cols.last(j)):
        i = cols.position(j, p)
        x = cols.entry(p)
        total += x * x * weighted[i] * (1.0 - row[i])
    return total


@kernel(fast_sums=True)
def column_sweep(penalty, cols, place, cls, V, weighted, gradient, curvature, boxes, start, u, Z, Q, only_nonzero):
    """One sweep: slope q_p + sum_i s_i x_ij V_il (Z_il - Q_i), then Z_l += x_j move, Q += V_l x_j move; the largest |move| H_pp."""
    largest = 0.0
    for p in range(place.shape[0]):
        if only_nonzero and u[p] == 0.0:
            continue
        j, l = place[p], cls[p]
        weights, row, along = weighted[l], V[l], Z[l]
        slope = gradient[p]
        for e in range(cols.first(j), cols.last(j)):
            i = cols.position(j, e)
            slope += cols.entry(e) * weights[i] * (along[i] - Q[i])
        trial = penalty.coordinate_prox(u[p] - slope / curvature[p], 1.0 / curvature[p])
        trial = min(max(trial, start[p] - boxes[p]), start[p] + boxes[p])
        move = trial - u[p]
        if move != 0.0:
            u[p] = trial
            for e in range(cols.first(j), cols.last(j)):
                i = cols.position(j, e)
                step = cols.entry(e) * move
                along[i] += step
                Q[i] += row[i] * step
            largest = max(largest, abs(move) * curvature[p])
    return largest


@kernel(fast_sums=True)
def intercept_sweep(penalty, V, weighted, gradient, shift, Z, Q):
    """The same for the intercepts, whose columns are all ones. Returns the largest slope met."""
    largest = 0.0
    for l in range(shift.shape[0]):
        weights, row, along = weighted[l], V[l], Z[l]
        slope, curvature = gradient[l], TINY
        for i in range(Q.shape[0]):
            slope += weights[i] * (along[i] - Q[i])
            curvature += weights[i] * (1.0 - row[i])
        move = -slope / curvature
        shift[l] += move
        for i in range(Q.shape[0]):
            along[i] += move
            Q[i] += row[i] * move
        largest = max(largest, abs(slope))
    return largest


@kernel
def column_model(penalty, cols, place, cls, V, weighted, gradient, boxes, start, u, free, shift, Z, Q, curvature, goal, most):
    """Minimise the model from u = start, in place; one sweep over all pairs, then four over the non-zeros, and again.

    `free` holds the slopes of the intercepts (none if it is empty), `shift` their moves. Returns the number of sweeps.
    """
    for p in range(place.shape[0]):
        curvature[p] = max(pair_curvature(penalty, cols, place[p], weighted[cls[p]], V[cls[p]]), TINY)
    done = 0
    while done < most:
        nonzero = done % 5 > 0
        largest = column_sweep(penalty, cols, place, cls, V, weighted, gradient, curvature, boxes, start, u, Z, Q, nonzero)
        if free.shape[0] > 0:
            largest = max(largest, intercept_sweep(penalty, V, weighted, free, shift, Z, Q))
        done += 1
        if largest <= goal:
            if not nonzero:
                break
            done += (5 - done % 5) % 5  # what is left of the cycle is skipped
    return done


@kernel(fast_sums=True)
def class_block(penalty, cols, feature, weights, head, after, place, value, block):
    """block_pr = sum_i x_ij x_ij' weights_i for the pairs p = (j, l), r = (j', l) of one class; the lower triangle.

    Entries met so far are kept in one list for each row, the last first.
    """
    head[:] = -1
    block[:] = 0.0
    count = 0
    for p in range(feature.shape[0]):
        j = feature[p]
        for e in range(cols.first(j), cols.last(j)):
            i = cols.position(j, e)
            x = cols.entry(e)
            after[count], place[count], value[count] = head[i], p, x
            head[i] = count
            at, scaled = count, x * weights[i]
            while at >= 0:
                block[p, place[at]] += scaled * value[at]
                at = after[at]
            count += 1


def class_factors(penalty: Any, cols: Any, counts: Any, pairs: Pairs, face: Any, V: Any, weighted: Any) -> Callable[..., Any]:
    """Solves, on any face, with the blocks of H that belong to one class each and pairs of this face, the diagonal elsewhere.

    As preconditioner of news20 at 0.01 alpha_max they do in 15 products what the diagonal does not in 60.
    """
    starts = np.searchsorted(pairs.cls[face], np.arange(len(V) + 1))
    most = max((int(counts[pairs.feature[face[a:z]]].sum()) for a, z in itertools.pairwise(starts)), default=0)
    work = (np.empty(V.shape[1], dtype=np.int32), np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32), np.empty(most))
    scales, factors = np.full(pairs.m, np.inf), []
    for l, (a, z) in enumerate(itertools.pairwise(starts)):
        if z > a:
            block, spots = np.empty((z - a, z - a)), np.arange(z - a)
            class_block(penalty, cols, pairs.feature[face[a:z]], weighted[l] * (1.0 - V[l]), *work, block)
            block[spots, spots] += TINY + RIDGE * block.diagonal() + penalty.strong_convexity
            scales[face[a:z]] = block.diagonal()
            factor, failed = scipy.linalg.lapack.dpotrf(block.T, lower=0, clean=0)
            if not failed:
                factors.append((face[a:z], factor))
    for p in np.flatnonzero(np.isinf(scales)):
        l = pairs.cls[p]
        scales[p] = max(pair_curvature(penalty, cols, pairs.feature[p], weighted[l], V[l]), TINY) + penalty.strong_convexity

    def solve(places: np.ndarray, x: np.ndarray) -> np.ndarray:
        whole = np.zeros(pairs.m)
        whole[places] = x
        out = whole / scales
        for part, factor in factors:
            out[part] = scipy.linalg.lapack.dpotrs(factor, whole[part], lower=0)[0]
        return out[places]

    return solve


def conjugate_steps(residual: np.ndarray, prepare: Callable[..., Any], product: Callable[..., Any], tol: float, most: int) -> Any:
    """v with |residual + H v| <= tol by conjugate gradients with a preconditioner; and the number of products taken."""
    v, left = np.zeros(len(residual)), -residual
    direction, done = prepare(left), 0
    size = float(left @ direction)
    while done < most and np.abs(left).max(initial=0.0) > tol:
        bent = product(direction)
        done += 1
        curvature = float(direction @ bent)
        if not curvature > 0.0:
            break
        v += size / curvature * direction
        left -= size / curvature * bent
        ready = prepare(left)
        size, last = float(left @ ready), size
        direction = ready + size / last * direction
    return v, done


@kernel
def largest_entries(cols, chosen, out):
    """max_i |x_ij| of the chosen columns."""
    for k in range(chosen.shape[0]):
        top = 0.0
        for e in range(cols.first(chosen[k]), cols.last(chosen[k])):
            top = max(top, abs(cols.entry(e)))
        out[k] = top


class ColumnStep(Present):
    """The part of a Newton solver that minimises models in column form."""

    samples_models: ClassVar[bool] = True

    def _may_end(self, problem: Any, state: NewtonState) -> bool:
        """Whether the dual point of a model may end the run: for l1, where D is known on the whole of W."""
        last = len(state.strengths) == 1 and state.tol > 0.0
        l1_only = problem.penalty.threshold > 0.0 and problem.penalty.strong_convexity == 0.0
        return last and l1_only and self.samples_models and state.keys is None

    def _solve_columns(
        self, problem: Any, state: NewtonState, penalty: Any, start: Any, slopes: Any, violation: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pairs, cols, (k, n) = state.pairs, problem.matrix.cols, state.V.shape
        tops = np.empty(pairs.m)
        largest_entries(cols, pairs.feature, tops)
        u, Z, Q, shift = start.copy(), np.zeros((k, n)), np.zeros(n), np.zeros(k)
        weighted = state.V * (problem.s / state.tau)
        boxes = state.reach * BOX / np.maximum(tops, 1e-300)
        free = state.slope if problem.fit_intercept else np.empty(0)
        model = (pairs.feature, pairs.cls, state.V, weighted, slopes, boxes, start)
        work = (u, free, shift, Z, Q)
        prepare: Any = None
        passes, goal, sharp = 0, 0.1 * violation, not self._may_end(problem, state)
        while passes < MOST_SWEEPS:
            most = SWEEPS if passes == 0 else AFTER
            done = column_model(penalty, cols, *model, *work, np.empty(pairs.m), goal, most)
            state.sweeps += done
            passes += done
            if done < most:
                fall = float(slopes @ (u - start)) + float(state.slope @ shift) + penalty.value(u) - penalty.value(start)
                if sharp or -fall > CLOSE * state.tol * problem.scale or (np.abs(u - start) >= BOUND * boxes).any():
                    break
                goal, sharp = min(goal, max(1e-4 * violation, SHARP * self._excess_worth(problem, state))), True
            if prepare is None:
                prepare = class_factors(penalty, cols, problem.matrix.col_counts, pairs, np.flatnonzero(u), state.V, weighted)
            slack = boxes - np.abs(u - start)
            passes += self._finish_columns(problem, state, penalty, weighted, slopes, prepare, *work, slack, goal)
        state.accesses += 2.0 * passes * float(problem.matrix.col_counts[pairs.feature].sum())
        move = u - start
        if sharp and self._may_end(problem, state):
            bent = Z.copy()
            bend(penalty, state.V, weighted, bent, new_bend_room(np.float64))
            ends = np.empty(pairs.m)
            pair_products(cols, pairs.feature, pairs.cls, bent, ends)
            ends += slopes
            if len(free):
                ends = np.concatenate([ends, free + bent.sum(axis=1)])
            Z -= shift[:, None]
            state.forecast = self._foresee(problem, state, start, move, shift, slopes, ends, Z)
        else:
            Z -= shift[:, None]
        return move, shift, Z

    def _finish_columns(
        self,
        problem: Any,
        state: NewtonState,
        penalty: Any,
        weighted: np.ndarray,
        slopes: np.ndarray,
        prepare: Any,
        u: np.ndarray,
        free: np.ndarray,
        shift: np.ndarray,
        Z: np.ndarray,
        Q: np.ndarray,
        slack: np.ndarray,
        goal: float,
    ) -> int:
        """Minimise the model on the signed support of u, in place, by conjugate gradients. Returns the number of products.

        Where the pairs depend on each other sweeps take long: the last model of news20 at 0.01 alpha_max took 76 of them. Weights
        that would cross zero become zero, others stay in their boxes; if that raises the model, all stop with the first of them.
        """
        pairs, cols, room = state.pairs, problem.matrix.cols, new_bend_room(np.float64)
        face = np.flatnonzero((u != 0.0) & (slack > 0.0))
        feature, cls, count = pairs.feature[face], pairs.cls[face], len(face)
        along = np.empty_like(Z)

        def bent_by(Y: np.ndarray) -> np.ndarray:
            out = np.empty(count)
            bend(penalty, state.V, weighted, Y, room)
            pair_products(cols, feature, cls, Y, out)
            return np.concatenate([out, Y.sum(axis=1)]) if len(free) else out

        def spread(move: np.ndarray) -> np.ndarray:
            along[:] = move[count:, None] if len(free) else 0.0
            add_pairs(cols, feature, cls, move[:count], along)
            return along

        def product(move: np.ndarray) -> np.ndarray:
            out = bent_by(spread(move))
            out[:count] += penalty.strong_convexity * move[:count]
            return out

        along[:] = Z
        residual = bent_by(along)
        residual[:count] += slopes[face] + penalty.threshold * np.sign(u[face]) + penalty.strong_convexity * u[face]
        residual[count:] += free
        mass = np.maximum(weighted.sum(axis=1)[: len(free)], TINY)

        def prepared(left: np.ndarray) -> np.ndarray:
            return np.concatenate([prepare(face, left[:count]), left[count:] / mass])

        goal = max(goal, CARE * float(np.abs(residual).max(initial=0.0)))  # the support may change
        move, done = conjugate_steps(residual, prepared, product, goal, MOST_CONJUGATE)
        old, full = u[face], move[:count].copy()
        new = np.clip(np.where((old + full) * old < 0.0, 0.0, old + full), old - slack[face], old + slack[face])
        for _ in range(2):
            move[:count] = new - old
            change = float(residual @ move) + 0.5 * float(product(move) @ move)  # no sign changes: the penalty is linear
            if change <= 0.0 or np.array_equal(move[:count], full):
                break
            size = float(np.min((new - old)[full != 0.0] / full[full != 0.0], initial=1.0))  # as far as all may go
            move *= size
            new = old + size * full
        if change > 0.0:
            return done + 2
        u[face] = new
        if len(free):
            shift += move[count:]
        Z += spread(move)
        np.einsum("ij,ij->j", state.V, Z, out=Q)
        return done + 2
