"""Dual ascent by rows for all classes at once: strongly convex penalties, hinge and softmax.

The dual point A = V - Y determines the weights, W = map(-G) with G = X'(s A), so a row of k numbers is moved at a time:

* hinge: the best point of the simplex, a projection; classes that stay far from the largest margin are left out for some epochs;
* softmax: the best point between v and softmax(z), z = x_i W; that direction is as good as the best of all (7 to 57 epochs to 1e-6)
  and needs no inverse of an entropy.

The gap is a sum of row gaps, which the epoch meets anyway. What ascent would only approach, `multiclass_alm` ends by Newton steps.

=========  ==================================================================  ============================
here       meaning                                                             letters of the notes
=========  ==================================================================  ============================
A, G       dual point V - Y, by rows; X'(s A), by classes if X is dense        V - Y, G
z          margins of a row, x_i map(-G)                                       s
q          s_i |x_i|^2 / mu, mu the strong convexity of the penalty            q_j
order      rows, those that take part in the next epoch first                  -
r          balance sum_i s_i A_i, 0 at the optimum if there are intercepts     -
=========  ==================================================================  ============================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.losses.multiclass_hinge import MulticlassHinge
from saddlery.losses.rows import simplex_threshold
from saddlery.losses.softmax import Softmax
from saddlery.parts import kernel
from saddlery.penalties.base import map_each
from saddlery.point import Point
from saddlery.solvers.base import Solver, State
from saddlery.solvers.multiclass_rows import RowNeeds, gradient_of

__all__ = ["MulticlassSDCA"]

INSIDE = 1e-3  # share of the uniform distribution in the first V of softmax, which must lie inside the simplex
SLACK = 0.5  # by which a class must be worse than the best to be left out
FULL = 20  # epochs after which all rows and classes take part again
SOLVED = 0.1  # share of the last full epoch's row gaps at which they do so earlier
FADE = 0.15  # share of the last epoch in the mean whose weights are shown: they are 2 to 4 times nearer to the optimum
FEW = 5  # classes of a sparse row that are read and written one after the other
STEPS = 4  # Newton steps of the search between v and softmax(z)


# --------------------------------------------------------------------------- kernels

# The steps of a row are pasted into the loop over rows: calls, which count references to arrays, took half of the time.


@kernel(fast_sums=True, inline=True)
def read_row(penalty, rows, i, G, by_class, live, z):
    """z = x_i map(-G), for the classes in `live`: all of them, in order, unless G is by classes or they are few.

    Unsigned indices make the loop vector code (617 features, a class: 380 -> 100 ns); four features at a time keep sums of
    sparse rows out of memory (news20: a quarter less time).
    """
    if by_class:
        first = np.uint64(rows.first(i))
        for c in range(live.shape[0]):
            g, total = G[live[c]], 0.0
            for j in range(g.shape[0]):
                total += rows.entry(first + np.uint64(j)) * penalty.coordinate_map(-g[j])
            z[c] = total
        return
    if live.shape[0] <= FEW:
        for c in range(live.shape[0]):
            column, product = np.uint64(live[c]), 0.0
            for p in range(rows.first(i), rows.last(i)):
                product += rows.entry(p) * penalty.coordinate_map(-G[rows.position(i, p), column])
            z[c] = product
        return
    z[:] = 0.0
    p, last = rows.first(i), rows.last(i)
    while p + 4 <= last:
        x, x2, x3, x4 = rows.entry(p), rows.entry(p + 1), rows.entry(p + 2), rows.entry(p + 3)
        g, g2 = G[rows.position(i, p)], G[rows.position(i, p + 1)]
        g3, g4 = G[rows.position(i, p + 2)], G[rows.position(i, p + 3)]
        for l in range(z.shape[0]):
            near = x * penalty.coordinate_map(-g[l]) + x2 * penalty.coordinate_map(-g2[l])
            z[l] += near + x3 * penalty.coordinate_map(-g3[l]) + x4 * penalty.coordinate_map(-g4[l])
        p += 4
    while p < last:
        x, g = rows.entry(p), G[rows.position(i, p)]
        for l in range(z.shape[0]):
            z[l] += x * penalty.coordinate_map(-g[l])
        p += 1


@kernel(fast_sums=True, inline=True)
def write_row(penalty, rows, i, scale, live, move, G, by_class):
    """G += scale x_i move', for the classes in `live`."""
    if by_class:
        for c in range(live.shape[0]):
            if move[c] != 0.0:
                rows.axpy(i, scale * move[c], G[live[c]])
        return
    moved = 0
    for c in range(move.shape[0]):
        moved += 1 if move[c] != 0.0 else 0
    if moved > FEW:
        for p in range(rows.first(i), rows.last(i)):
            x, g = scale * rows.entry(p), G[rows.position(i, p)]
            for l in range(move.shape[0]):
                g[l] += x * move[l]
        return
    for c in range(move.shape[0]):
        if move[c] != 0.0:
            size, column = scale * move[c], np.uint64(live[c])
            for p in range(rows.first(i), rows.last(i)):
                G[rows.position(i, p), column] += size * rows.entry(p)


@kernel(inline=True)
def hinge_row(loss, y, a, live, z, q, move):
    """The best point of the simplex for a row, v + m / q projected, m = z + 1 - e_y. Its move goes to `move`, m to z.

    Returns the row gap max(m) - <m, v>, the largest m, and the largest |move|.
    """
    top, inner = -math.inf, 0.0
    for c in range(live.shape[0]):
        own = 1.0 if live[c] == y else 0.0
        m, v = z[c] + 1.0 - own, a[live[c]] + own
        z[c] = m
        top = m if m > top else top
        inner += m * v
        move[c] = v + m / q
    if top <= inner:  # solved already, as most rows that are of one class
        return 0.0, top, 0.0
    t, largest = simplex_threshold(loss, move), 0.0
    for c in range(live.shape[0]):
        own = 1.0 if live[c] == y else 0.0
        old = a[live[c]]
        new = (move[c] - t if move[c] > t else 0.0) - own
        a[live[c]] = new
        move[c] = new - old
        largest = max(largest, abs(move[c]))
    return top - inner, top, largest


@kernel(inline=True)
def drop_classes(loss, y, a, live, m, top, slack, most):
    """Leave out the classes that have no part in V and an m that is lower than the largest by `slack`, if at most `most` stay.

    Returns how many stay.
    """
    kept = 0
    for c in range(live.shape[0]):
        own = 1.0 if live[c] == y else 0.0
        kept += 1 if a[live[c]] + own > 0.0 or m[c] >= top - slack else 0
    if kept > most:
        return live.shape[0]
    kept = 0
    for c in range(live.shape[0]):
        own = 1.0 if live[c] == y else 0.0
        if a[live[c]] + own > 0.0 or m[c] >= top - slack:
            live[kept] = live[c]
            kept += 1
    return kept


@kernel
def softmax_row(loss, y, a, z, q, out):
    """out = a + c (softmax(z) - v), v = a + e_y, with the best c of the dual in (0, 1]. Returns the row gap."""
    k, top = a.shape[0], -math.inf
    for l in range(k):
        top = z[l] if z[l] > top else top
    total = 0.0
    for l in range(k):
        out[l] = math.exp(z[l] - top)
        total += out[l]
    gap = top + math.log(total) - z[y]
    linear, square = 0.0, 0.0
    for l in range(k):
        v = a[l] + (1.0 if l == y else 0.0)
        gap += (v * math.log(v) if v > 0.0 else 0.0) - a[l] * z[l]
        out[l] = out[l] / total - v
        linear += out[l] * z[l]
        square += out[l] * out[l]
    low, high, c = 0.0, 1.0, 1.0 / (1.0 + 0.5 * q)
    for _ in range(STEPS):  # h'(c) = <u, z> - sum_l u_l log(v_l + c u_l) - q c |u|^2 falls; its root, or 1, is sought
        slope, fall = linear - q * c * square, q * square
        for l in range(k):
            at = a[l] + (1.0 if l == y else 0.0) + c * out[l]
            if out[l] != 0.0:
                at = max(at, 1e-300)
                slope -= out[l] * math.log(at)
                fall += out[l] * out[l] / at
        if slope > 0.0:
            low = c
        else:
            high = c
        if fall <= 0.0:
            break
        trial = c + slope / fall
        trial = trial if low < trial < high else (high if trial >= high == 1.0 else 0.5 * (low + high))
        done = abs(trial - c) <= 1e-3 * c
        c = trial
        if done:
            break
    for l in range(k):
        out[l] = a[l] + c * out[l]
    return gap


@kernel
def ascend_hinge(loss, penalty, rows, codes, s, squares, mu, order, count, classes, held, A, G, by_class, b, r, sigma, room, step):
    """One epoch over the first `count` rows of `order`, over the first held_i classes of each; a row with one class left goes to
    the end. Intercepts are b - sigma r, where r = sum_i s_i A_i. Returns how many rows stay, sum s_i gap_i, and the number of
    multiplications.
    """
    total, work, t = 0.0, 0.0, 0
    while t < count:
        i = order[t]
        q = s[i] * (squares[i] / mu + sigma)
        if q == 0.0:
            t += 1
            continue
        live = classes[i, : held[i]]
        z, move = room[: held[i]], step[: held[i]]
        read_row(penalty, rows, i, G, by_class, live, z)
        if sigma > 0.0:
            for c in range(held[i]):
                z[c] += b[live[c]] - sigma * r[live[c]]
        gap, top, moved = hinge_row(loss, codes[i], A[i], live, z, q, move)
        total += s[i] * gap
        work += held[i] * (rows.last(i) - rows.first(i))
        if moved > 0.0:
            write_row(penalty, rows, i, s[i], live, move, G, by_class)
            for c in range(held[i]):
                r[live[c]] += s[i] * move[c]
        held[i] = drop_classes(loss, codes[i], A[i], live, z, top, SLACK, held[i] if by_class else FEW)
        if held[i] == 1:
            count -= 1
            order[t], order[count] = order[count], i
            continue
        t += 1
    return count, total, work


@kernel
def ascend_softmax(loss, penalty, rows, codes, s, squares, mu, order, A, G, by_class, all_classes, z, new):
    """One epoch over all rows; returns sum s_i gap_i."""
    total = 0.0
    for i in order:
        q = s[i] * squares[i] / mu
        if q == 0.0:
            continue
        read_row(penalty, rows, i, G, by_class, all_classes, z)
        total += s[i] * softmax_row(loss, codes[i], A[i], z, q, new)
        for l in range(z.shape[0]):
            move = new[l] - A[i, l]
            A[i, l] = new[l]
            new[l] = move
        write_row(penalty, rows, i, s[i], all_classes, new, G, by_class)
    return total


def free_classes(problem: Any, A: np.ndarray) -> tuple[int, int]:
    """The rows with more than one class in V = A + Y, and by how many more, in all."""
    held = np.count_nonzero(A, axis=1)
    own = A[np.arange(problem.n), problem.codes]
    held += (own == 0.0).astype(int) - (own == -1.0)
    return int(np.count_nonzero(held > 1)), int(np.maximum(held - 1, 0).sum())


# --------------------------------------------------------------------------- the solver


class _State(State):
    def __init__(self, problem: Any, A: np.ndarray, rng: np.random.Generator):
        self.A, self.rng = A, rng
        self.by_class = not problem.matrix.is_sparse
        self.G: Any = None
        self.mean: Any = None  # of the last G
        self.averaged = 0
        self.order = np.arange(problem.n)
        self.count = problem.n
        self.work = 0.0  # multiplications
        self.visits = 0  # of rows
        # For callers that add intercepts b - sigma balance, balance = sum_i s_i A_i: an augmented Lagrangian of balance = 0.
        self.b, self.balance, self.sigma = np.zeros(problem.k), problem.s @ A, 0.0
        self.row_gap = self.full_gap = np.inf
        self.since = FULL
        self.classes = np.tile(np.arange(problem.k, dtype=np.int32), (problem.n, 1))
        self.held = np.full(problem.n, problem.k)

    @property
    def counts(self) -> dict[str, float]:
        return {"rows": self.count}


@dataclass(frozen=True)
class MulticlassSDCA(Solver):
    """Dual ascent by rows for hinge or softmax with l2 or elastic net, without intercepts."""

    name = "multiclass_sdca"
    paper = "Keerthi et al. 2008 (sequential dual method), Shalev-Shwartz & Zhang 2016 (prox-SDCA); see docs/solvers.md"
    needs = RowNeeds(
        kind="multiclass",
        only=(Softmax, MulticlassHinge),
        row_loss=("row_conjugate", "row_dual_prox"),
        penalty=("coordinate_map",),
        strongly_convex=True,
        no_intercept=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        if start is not None and start.dual is not None:
            A = problem.dual_point(start.dual).a.copy()
        elif self._is_hinge(problem):
            A = np.zeros((problem.n, problem.k))
        else:
            A = np.full((problem.n, problem.k), INSIDE / problem.k)
            A[np.arange(problem.n), problem.codes] -= INSIDE
        empty = problem.matrix.row_square_norms == 0.0  # all that x_i = 0 leaves: the best constant row
        A[empty] = problem.constant_dual[empty]
        state = _State(problem, A, rng)
        self.resync(problem, state)
        return state

    def _is_hinge(self, problem: Any) -> bool:
        return math.isinf(problem.loss.smoothness)

    def resync(self, problem: Any, state: _State) -> None:
        if not state.A.any():
            G = np.zeros((problem.d, problem.k))
        else:
            G = gradient_of(problem.matrix, problem.s[:, None] * state.A)
        state.G = np.ascontiguousarray(G.T) if state.by_class else G
        state.mean = state.G.copy()
        state.accesses += problem.size

    def point(self, problem: Any, state: _State) -> Point:
        G = np.ascontiguousarray(state.G.T) if state.by_class else state.G.copy()
        return Point(self._weights(problem, state, state.mean), np.zeros(problem.k), state.A.copy(), None, G)

    def _weights(self, problem: Any, state: _State, G: np.ndarray) -> np.ndarray:
        """W = map(-G)."""
        w = np.empty(G.size)
        map_each(problem.penalty, -np.ascontiguousarray(G.T if state.by_class else G).ravel(), w)
        return w.reshape(problem.d, problem.k)

    def step(self, problem: Any, state: _State) -> None:
        if self._is_hinge(problem):
            self._hinge_epoch(problem, state)
            return
        state.rng.shuffle(state.order)
        data = (problem.matrix.rows, problem.codes, problem.s, problem.matrix.row_square_norms, problem.penalty.strong_convexity)
        where = (state.order, state.A, state.G, state.by_class, np.arange(problem.k), np.empty(problem.k), np.empty(problem.k))
        ascend_softmax(problem.loss, problem.penalty, *data, *where)
        state.mean[:] = state.G
        state.accesses += 2.0 * problem.size

    def _hinge_epoch(self, problem: Any, state: _State) -> None:
        self.ascend(problem, state)
        state.averaged += 1
        state.mean += max(FADE, 1.0 / state.averaged) * (state.G - state.mean)
        if state.since == 1 and self._is_better(problem, state):
            state.mean[:], state.averaged = state.G, 0

    def ascend(self, problem: Any, state: _State) -> None:
        """One epoch over the rows and classes that take part."""
        if state.since >= FULL or state.count == 0 or state.row_gap <= SOLVED * state.full_gap:
            state.count, state.since = problem.n, 0
            state.held[:] = problem.k
            state.classes[:] = np.arange(problem.k)
        chosen = state.order[: state.count]
        state.rng.shuffle(chosen)
        data = (problem.matrix.rows, problem.codes, problem.s, problem.matrix.row_square_norms, problem.penalty.strong_convexity)
        where = (state.order, state.count, state.classes, state.held, state.A, state.G, state.by_class)
        rooms = (state.b, state.balance, state.sigma, np.empty(problem.k), np.empty(problem.k))
        state.count, state.row_gap, work = ascend_hinge(problem.loss, problem.penalty, *data, *where, *rooms)
        if state.since == 0:
            state.full_gap = state.row_gap
        state.since += 1
        state.visits += len(chosen)
        state.accesses += 2.0 * work / problem.k
        state.work += 2.0 * work

    def _is_better(self, problem: Any, state: _State) -> bool:
        """Whether the last weights are better than their mean; they are where few rows hold on to each other."""
        state.accesses += 2.0 * problem.size
        last, mean = (problem.primal(self._weights(problem, state, G)) for G in (state.G, state.mean))
        return bool(last < mean)
