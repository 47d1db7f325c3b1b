"""SIMBA on sparse data in memory: an iteration costs the entries of one row and one column, times a logarithm.

The steps are those of ``simba.py`` in the capped form, with L -= rate * clip(v) for the log-weights. Nothing dense is touched:

- w is f S with a number f; the columns' law w_j^2 needs only the tree of S_j^2, whose root is ||S||^2;
- the average of w is (F S - S') / A with A = sum a_t, F = sum a_t f_t and S' += F z_i when row i is added;
- p is in a capped tree (``sampling/capped_tree.py``), one for each class if the intercept is free;
- the average of p is kept for each row up to the last time it changed: while it stays, it grows by cap s_i a_t if capped, else by
  cap s_i r_i a_t / theta_t, so two running sums are enough (S1 and S2 below).

Ratios are exp(L_i - shift); when theta leaves [1/bound, bound] all averages are brought up to date and the shift moves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.sampling.capped import Caps
from saddlery.sampling.capped_tree import draw_capped, new_capped_tree, place, rebuild_capped, settle, threshold, write
from saddlery.sampling.sum_tree import draw_leaf, new_tree, rebuild, set_leaf
from saddlery.solvers.base import State
from saddlery.solvers.draws import Draws
from saddlery.solvers.reads import Reads

__all__ = ["SparseState", "sparse_iterations"]

BOUND = 1e100  # theta stays within 1 / BOUND and BOUND
FARTHEST = 600.0  # logarithm of the largest ratio: what is farther from theta does not count, but can come back
CHUNK = 4096  # iterations for which numbers are drawn at once
# places in the array of numbers
T, F, S1, S2, SHIFT, LONGEST, WEIGHT, SQUARES, ACCESSES, STORED, ROWS, COLS = 0, 1, 2, 3, 5, 7, 8, 9, 10, 11, 12, 13


@kernel
def flush_row(caps, i, c, numbers, ratio, capped, mark, p_sum):
    """The average of p_i up to now."""
    now = numbers[S1] if capped[i] else numbers[S2 + c]
    p_sum[i] += caps.s[i] * caps.cap * (1.0 if capped[i] else ratio[i]) * (now - mark[i])
    mark[i] = now


@kernel
def settle_side(caps, c, room, tree, members, numbers, ratio, capped, mark, p_sum):
    """Move rows between capped and free until all are on their side."""
    leaf = settle(tree, room)
    while leaf >= 0:
        i = members[leaf]
        flush_row(caps, i, c, numbers, ratio, capped, mark, p_sum)
        capped[i] = not capped[i]
        mark[i] = numbers[S1] if capped[i] else numbers[S2 + c]
        place(tree, leaf, ratio[i], caps.s[i], capped[i])
        leaf = settle(tree, room)


@kernel
def reshift(caps, c, room, tree, members, numbers, L, ratio, capped, mark, p_sum):
    """Take ratios to the present theta; all averages are brought up to date first."""
    numbers[SHIFT + c] += np.log(threshold(tree, room))
    for leaf in range(members.shape[0]):
        i = members[leaf]
        flush_row(caps, i, c, numbers, ratio, capped, mark, p_sum)
        ratio[i] = np.exp(min(max(L[i] - numbers[SHIFT + c], -FARTHEST), FARTHEST))
        write(tree, leaf, ratio[i], caps.s[i], capped[i])
    rebuild_capped(tree)


@kernel
def read_column(
    caps, cols, j, a, factor, rate, y, side, leaf, trees, numbers, L, ratio, capped, mark, p_sum, m_sum, row_flags, new
):
    """v_i = z_ij ||w||^2 / w_j for the rows of column j: L_i -= rate clip(v_i), and the leaves of these rows."""
    count, size = cols.last(j) - cols.first(j), trees.shape[2] // 2
    whole = count * np.log2(size + 1.0) > 2.0 * size  # many leaves: all nodes are computed anew
    for q in range(cols.first(j), cols.last(j)):
        i = cols.position(j, q)
        if new and not row_flags[i]:
            numbers[STORED] += 1.0
        v = y[i] * cols.entry(q) * factor
        m_sum[i] += a * v
        if leaf[i] < 0:
            continue
        c = side[i]
        flush_row(caps, i, c, numbers, ratio, capped, mark, p_sum)
        L[i] -= min(max(rate * v, -1.0), 1.0)
        ratio[i] = np.exp(min(max(L[i] - numbers[SHIFT + c], -FARTHEST), FARTHEST))
        if whole:
            write(trees[c], leaf[i], ratio[i], caps.s[i], capped[i])
        else:
            place(trees[c], leaf[i], ratio[i], caps.s[i], capped[i])
    if whole:
        for c in range(trees.shape[0]):
            rebuild_capped(trees[c])
    numbers[ACCESSES] += count
    numbers[COLS] += 1.0


@kernel
def row_norm(rows, i):
    """||x_i||."""
    total = 0.0
    for q in range(rows.first(i), rows.last(i)):
        value = 1.0 * rows.entry(q)
        total += value * value
    return np.sqrt(total)


@kernel
def read_row(rows, i, c, sign, a, S, S_late, drawn, tree, numbers, col_flags, new):
    """S += z_i, S' += F z_i, and the tree of S_j^2."""
    count, size = rows.last(i) - rows.first(i), tree.shape[0] // 2
    whole = count * np.log2(size + 1.0) > 2.0 * size
    for q in range(rows.first(i), rows.last(i)):
        j = rows.position(i, q)
        if new and not col_flags[j]:
            numbers[STORED] += 1.0
        z = sign * rows.entry(q)
        S[j] += z
        S_late[j] += numbers[F] * z
        drawn[c, j] += a * z
        if whole:
            tree[size + np.int64(j)] = S[j] * S[j]
        else:
            set_leaf(tree, np.int64(j), S[j] * S[j])
    if whole:
        rebuild(tree)
    numbers[ACCESSES] += count
    numbers[ROWS] += 1.0


@kernel
def sparse_iterations(
    caps, rows, cols, y, options, uniforms, limit, side, leaf, members, starts, trees, S_tree, numbers, L, ratio, capped, mark,
    p_sum, m_sum, S, S_late, drawn, drawn_rows, row_flags, col_flags
):  # fmt: skip
    """An iteration for each row of `uniforms`, while fewer than `limit` entries were read; returns how many were made.

    `options` = (eta, step size, power of the average, log n, bound); rows of classes c are members[starts[c] : starts[c + 1]].
    """
    eta, step_size, power, log_n, bound = options
    sides = trees.shape[0]
    room = caps.mass / caps.cap
    for k in range(uniforms.shape[0]):
        if numbers[ACCESSES] >= limit:
            return k
        numbers[T] += 1.0
        t = numbers[T]
        # draws, all before anything changes
        c = 0 if sides == 1 or uniforms[k, 0] < 0.5 else 1
        u = uniforms[k, 0] if sides == 1 else 2.0 * uniforms[k, 0] - c
        i = members[starts[c] + draw_capped(trees[c], room, u, uniforms[k, 1])]
        total = S_tree[1]
        j = draw_leaf(S_tree, uniforms[k, 2]) if total > 0.0 else -1
        # averages of what stands before the updates
        a = t**power
        f = 0.0
        if t > 1.0 and numbers[LONGEST] > 0.0:
            step = step_size / (numbers[LONGEST] * np.sqrt(t - 1.0))
            f = step / max(1.0, step * np.sqrt(total))
        numbers[WEIGHT] += a
        numbers[SQUARES] += a * a
        numbers[F] += a * f
        numbers[S1] += a
        for b in range(sides):
            numbers[S2 + b] += a / threshold(trees[b], room)
        # updates
        numbers[LONGEST] = max(numbers[LONGEST], row_norm(rows, i))
        rate = min(0.5, eta * np.sqrt(log_n / t)) / max(numbers[LONGEST], 1e-300)
        if j >= 0:
            new = not col_flags[j]
            factor = f * total / S[j]
            read_column(
                caps, cols, j, a, factor, rate, y, side, leaf, trees, numbers, L, ratio, capped, mark, p_sum, m_sum, row_flags, new
            )  # fmt: skip
            col_flags[j] = True
        read_row(rows, i, c, y[i], a, S, S_late, drawn, S_tree, numbers, col_flags, not row_flags[i])
        row_flags[i] = True
        drawn_rows[i] += a
        for b in range(sides):
            mine = members[starts[b] : starts[b + 1]]
            settle_side(caps, b, room, trees[b], mine, numbers, ratio, capped, mark, p_sum)
            theta = threshold(trees[b], room)
            if not 1.0 / bound < theta < bound:
                reshift(caps, b, room, trees[b], mine, numbers, L, ratio, capped, mark, p_sum)
    return uniforms.shape[0]


class SparseState(State):
    """The lazy state of one problem in the capped form."""

    def __init__(self, problem: Any, options: Any, rng: np.random.Generator, bound: float = BOUND):
        n, d = problem.n, problem.d
        self.rng, self.iterations, self.bound = rng, 0, bound
        self.options = (float(options.eta), float(options.step_size), 1.0 if options.average == "linear" else 0.0)
        self.reads = Reads((n, d), True)
        self.members = np.concatenate([rows for rows, _ in problem.sides])
        self.starts = np.cumsum([0, *(len(rows) for rows, _ in problem.sides)])
        self.side, self.leaf = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        count = max(len(rows) for rows, _ in problem.sides)
        self.trees = np.stack([new_capped_tree(count) for _ in problem.sides])
        self.S_tree, self.numbers = new_tree(d), np.zeros(14)
        self.L, self.ratio, self.capped, self.mark = np.zeros(n), np.ones(n), np.zeros(n, dtype=bool), np.zeros(n)
        self.p_sum, self.m_sum, self.S, self.S_late = np.zeros(n), np.zeros(n), np.zeros(d), np.zeros(d)
        self.drawn, self.drawn_rows = np.zeros((2, d)), np.zeros(n)
        for c, (rows, mass) in enumerate(problem.sides):
            self.side[rows], self.leaf[rows] = c, np.arange(len(rows))
            # without room for a free row all are capped, for ever
            self.capped[rows] = mass * problem.slack >= problem.s[rows].sum() * (1.0 - 1e-14)
            half = self.trees.shape[2] // 2
            for number, values in enumerate(
                (
                    np.where(self.capped[rows], 0.0, problem.s[rows]),
                    np.where(self.capped[rows], problem.s[rows], 0.0),
                    np.where(self.capped[rows], -1.0, 1.0),
                    np.where(self.capped[rows], 1.0, np.inf),
                )
            ):
                self.trees[c, number, half : half + len(rows)] = values
            rebuild_capped(self.trees[c])

    @property
    def t(self) -> float:
        """Draws so far."""
        return float(self.numbers[T])

    @property
    def counts(self) -> dict[str, float]:
        return {"iterations": float(self.iterations), **self.reads.counts}

    def run(self, problem: Any, uniforms: np.ndarray, limit: float) -> int:
        """Iterations with the given numbers; returns how many were made before the limit."""
        matrix = problem.matrix
        caps = Caps(problem.s, self.members, 1.0 / problem.slack, problem.sides[0][1])
        options = (*self.options, max(math.log(problem.n), 1.0), self.bound)
        done = sparse_iterations(
            caps, matrix.rows, matrix.cols, problem.y, options, uniforms, limit, self.side, self.leaf, self.members, self.starts,
            self.trees, self.S_tree, self.numbers, self.L, self.ratio, self.capped, self.mark, self.p_sum, self.m_sum, self.S,
            self.S_late, self.drawn, self.drawn_rows, self.reads.row_flags, self.reads.col_flags,
        )  # fmt: skip
        self.iterations += done
        self.reads.total, self.reads.stored = float(self.numbers[ACCESSES]), float(self.numbers[STORED])
        self.reads.rows, self.reads.columns = float(self.numbers[ROWS]), float(self.numbers[COLS])
        self.accesses = self.reads.total
        return done

    def advance(self, problem: Any, count: int, limit: float) -> None:
        """`count` iterations, or fewer where the limit of entries is met."""
        while count > 0:
            now = min(count, CHUNK)
            count -= now
            if self.run(problem, self.rng.random((now, 3)), limit) < now:
                return

    def weights(self, problem: Any) -> np.ndarray:
        """p as it stands."""
        theta = np.array([threshold(tree, mass * problem.slack) for tree, (_, mass) in zip(self.trees, problem.sides, strict=True)])
        p = problem.s / problem.slack * np.where(self.capped, 1.0, np.minimum(self.ratio / theta[self.side], 1.0))
        return np.where(self.leaf >= 0, p, 0.0)

    def averages(self, problem: Any) -> tuple[np.ndarray, np.ndarray]:
        """The averages of w and p, with what is still pending; the state stays as it is."""
        weight = self.numbers[WEIGHT]
        pending = np.where(self.capped, self.numbers[S1], self.numbers[S2 + self.side]) - self.mark
        p = self.p_sum + problem.s / problem.slack * np.where(self.capped, 1.0, self.ratio) * pending
        return (self.numbers[F] * self.S - self.S_late) / weight, np.where(self.leaf >= 0, p, 0.0) / weight

    def point(self, problem: Any) -> Point:
        """The averages; w is brought to length 1, and b is the best for the margins that the columns estimated."""
        w, p = self.averages(problem)
        w = w if w.any() else self.S  # after the first iteration, whose w is 0, the row drawn
        norm = float(np.linalg.norm(w)) or 1.0
        margins = self.m_sum / (self.numbers[WEIGHT] * norm)
        weight = float(self.numbers[WEIGHT])
        spread = math.sqrt(self.numbers[SQUARES]) / weight
        aux = Draws(self.drawn[None] / weight, self.drawn_rows[None] / weight, spread, float(self.numbers[LONGEST]))
        return Point(w / norm, problem.best_b(problem.y * margins), self._dual(problem, p), aux=aux)

    def _dual(self, problem: Any, p: np.ndarray) -> np.ndarray:
        return -problem.y * np.divide(p, problem.s, out=np.zeros(problem.n), where=problem.s > 0.0)
