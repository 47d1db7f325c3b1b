"""Doubly greedy primal-dual coordinate descent (DGPD), Algorithm 1 of Lei, Yen, Wu, Dhillon & Ravikumar (ICML 2017).

Each step moves the one weight and the one dual number that promise most; it costs O(n + d) beside one row and one column,
so this is a reference: ``dgpd_active`` and ``active_sdca`` are the ways to use the idea. docs/errata.md lists the corrections.

    wbar = map(-u),  j = argmin_k u_k (wbar_k - w_k) + g_k(wbar_k) - g_k(w_k),  w_j = wbar_j,  Xw += dw_j x^j         (5), (6)
    i = argmax_k s_k |move of a_k|,  a_i = prox of tau_i l* at a_i + tau_i z_i,  u += s_i da_i x_i                    (7), (8)

=========  ===============================  ===============================================================
here       meaning                          letters of the paper
=========  ===============================  ===============================================================
w, Xw      primal point and X w             x, w
a, u       dual point and X'(s a)           y, z / n
tau_i      mu rho / (s_i R^2)               eta / n with eta = n^2 mu rho / R^2
=========  ===============================  ===============================================================

The step of the paper's theorem is n^2 mu / R^2 over 5 times (2.5 as printed) the number of weights that differ from wbar, and
unusably small; that number stands for how little one column gains of what all would gain. rho is that share itself, so the step
is SDCA's when one column is all.

Rows are chosen by the move that they would really make: the derivative that is printed is infinite for the logistic loss at the
start, and elsewhere picks rows that sit at a bound and cannot move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.matrix.vectors import combine
from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.sdca import starting_dual

__all__ = ["DGPD"]


@kernel
def greedy_column(penalty, u, w):
    """The column whose optimal weight lowers the Lagrangian most, that weight (5), and its share of what all columns would gain."""
    best, column, weight, total = 0.0, -1, 0.0, 0.0
    for k in range(w.shape[0]):
        trial = penalty.coordinate_map(-u[k])
        change = u[k] * (trial - w[k]) + penalty.coordinate_value(trial) - penalty.coordinate_value(w[k])
        if change < -1e-14 * abs(u[k]) * (abs(trial) + abs(w[k])):  # more than rounding: else the shares below are noise
            total += change
            if change < best:
                best, column, weight = change, k, trial
    return column, weight, (best / total if best < 0.0 else 1.0)


@kernel
def greedy_row(loss, y, s, steps, share, a, Xw):
    """The row with the largest weighted move of its dual number, and that move (7)."""
    best, row, step = 0.0, -1, 0.0
    for k in range(y.shape[0]):
        if s[k] == 0.0:
            continue
        tau = share * steps[k]
        move = loss.dual_prox(y[k], a[k] + tau * Xw[k], tau) - a[k]
        if s[k] * abs(move) > best:
            best, row, step = s[k] * abs(move), k, move
    return row, step


@kernel
def greedy_steps(loss, penalty, rows, cols, y, s, steps, count, w, Xw, a, u):
    """`count` steps of Algorithm 1; returns how many entries of X were read."""
    read = 0
    for _ in range(count):
        j, weight, share = greedy_column(penalty, u, w)
        if j >= 0:
            cols.axpy(j, weight - w[j], Xw)
            w[j] = weight
            read += cols.last(j) - cols.first(j)
        i, move = greedy_row(loss, y, s, steps, share, a, Xw)
        if i >= 0:
            rows.axpy(i, s[i] * move, u)
            a[i] += move
            read += rows.last(i) - rows.first(i)
        if i < 0 and j < 0:
            break
    return read


def greedy_steps_in_parts(problem: Any, steps: np.ndarray, count: int, state: Any) -> int:
    """The same on data that are read in parts: each step reads one column and one row."""
    read, matrix = 0, problem.matrix
    for _ in range(count):
        j, weight, share = greedy_column(problem.penalty, state.u, state.w)
        if j >= 0:
            column = matrix.take_cols(np.array([j]))
            combine(column.cols, np.array([weight - state.w[j]]), state.Xw)
            state.w[j] = weight
            read += column.nnz
        i, move = greedy_row(problem.loss, problem.y, problem.s, steps, share, state.a, state.Xw)
        if i >= 0:
            row = matrix.take_rows(np.array([i]))
            combine(row.rows, np.array([problem.s[i] * move]), state.u)
            state.a[i] += move
            read += row.nnz
        if i < 0 and j < 0:
            break
    return read


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, a: np.ndarray):
        self.w, self.a = w, a
        self.Xw = problem.margins(w)
        self.u = problem.matrix.rmatvec(problem.s * a)


@dataclass(frozen=True)
class DGPD(Solver):
    """Doubly greedy primal-dual coordinate descent, faithful: smooth losses, strongly convex penalties, no intercept.

    Parameters
    ----------
    steps : int, optional
        Greedy steps in one epoch; n by default.
    """

    steps: int | None = None

    name = "dgpd"
    paper = "Lei et al. 2017, Algorithm 1"
    needs = Needs(
        loss=("dual_prox", "conjugate"),
        penalty=("coordinate_map",),
        smooth=True,
        strongly_convex=True,
        no_intercept=True,
        partial=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        w = np.zeros(problem.d) if start is None else start.w
        return _State(problem, w, starting_dual(problem, start))

    def step(self, problem: Any, state: _State) -> None:
        top = float(problem.matrix.row_square_norms.max()) or 1.0
        taus = np.divide(problem.penalty.strong_convexity / top, problem.s, out=np.ones(problem.n), where=problem.s > 0.0)
        if not problem.matrix.compiled:
            state.accesses += greedy_steps_in_parts(problem, taus, self.steps or problem.n, state)
            return
        state.accesses += greedy_steps(
            problem.loss, problem.penalty, problem.matrix.rows, problem.matrix.cols, problem.y, problem.s,
            taus, self.steps or problem.n, state.w, state.Xw, state.a, state.u,
        )  # fmt: skip

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, 0.0, state.a, state.Xw, state.u)

    def resync(self, problem: Any, state: _State) -> None:
        state.Xw, state.u = problem.margins(state.w), problem.matrix.rmatvec(problem.s * state.a)
