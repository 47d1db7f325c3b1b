"""The unsmoothed F-score game by generated strategies: exact labellings for few rows, sorted scores for many.

Up to :data:`FEW` rows (`DoubleOracle` with ``design="labellings"``) the game of the labellings found so far, with the weights
eliminated, is a small quadratic problem,

    min_p max_q  q'F p + |X'(labels - Y'p) / n|^2 / (2 alpha)

Y being labellings of the adversary and F their scores against those of the predictor. Best responses of both sides are added; both
are sums of largest or smallest entries, for every size. Beyond (``design="segments"``) the rows are sorted by score and cut into
segments (:mod:`saddlery.solvers.fscore_bundle`). An epoch is then a stage: the game is solved on a grid of sizes, certified on all
rows and all sizes, and the grid refined for the next.

=========  ===========================================  ======================================
here       meaning                                      letters of the paper
=========  ===========================================  ======================================
p, q       mixed strategies over labellings             p, q
Y, Z       labellings of adversary and predictor        y, z
w, b       weights (multipliers of the agreement)       theta, none
=========  ===========================================  ======================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.point import Point
from saddlery.problems.fscore_intervals import SizedTable
from saddlery.problems.matrix_games import solve_matrix_game
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.fscore_bundle import Bundle

__all__ = ["DoubleOracle"]

FEW = 200  # rows up to which labellings are generated
NEW = 3  # best responses of each side in a round
IDLE_LABELLINGS, IDLE_PREDICTIONS = 8, 24  # rounds after which an unused one is dropped
ROUNDS = 10  # of labellings in an epoch
UNUSED = 1e-9
FIRST_RATIO, FIRST_TOL, SHARPER = (
    1.2,
    1e-3,
    0.4,
)  # of stages: grid and accuracy of the first, and the accuracy of the next in units of the last
MOST_ROUNDS = 80  # of a stage in an epoch
ENOUGH = 0.95  # a stage is worth the next if it left at most this share of the gap


class _Needs(Needs):
    """An F-score problem without smoothing."""

    def missing(self, problem: Any) -> list[str]:
        phrases = super().missing(problem)
        if not phrases and problem.smoothing > 0.0:
            phrases.append(f"smoothing=0 (here it is {problem.smoothing:g})")
        return phrases


class _Segments(State):
    """A bundle and its stage."""

    def __init__(self, problem: Any, start: Point | None):
        w, b = (None, 0.0) if start is None else (start.w, start.b)
        self.bundle = Bundle(problem, FIRST_RATIO, w, b)
        self.grid_tol, self.stage, self.done = FIRST_TOL, 0, False
        self.gap_before = np.inf
        first = problem.first_point()
        self.now = first if start is None else first._replace(w=start.w, b=start.b, dual=start.dual or first.dual, aux=None)

    @property
    def counts(self) -> dict[str, float]:
        game = self.bundle.game
        return {"rounds": self.bundle.rounds, "turns": game.turns, "stage": self.stage, "sizes": game.ends.size}


class _Labellings(State):
    """Labellings of both players, and bounds of the whole game."""

    def __init__(self, problem: Any, start: Point | None):
        n = problem.n
        self.Y = np.vstack([np.zeros(n), np.ones(n), problem.labels])
        self.Z = np.vstack([np.zeros(n), np.ones(n), problem.labels])
        self.idle_y, self.idle_z = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
        self.rounds = 0
        first = problem.first_point()
        self.now = first if start is None else first._replace(w=start.w, b=start.b, aux=None)

    @property
    def counts(self) -> dict[str, float]:
        return {"rounds": self.rounds, "labellings": len(self.Y), "predictions": len(self.Z)}


@dataclass(frozen=True)
class DoubleOracle(Solver):
    """Generated strategies for the F-score game without smoothing, certified for all labellings of all rows.

    Parameters
    ----------
    design : {"auto", "labellings", "segments"}
        Whole labellings (exact, for some hundred rows), or segments of sorted scores (any number of rows; the gap is limited to
        some 1e-4 by the predictor's prefixes). ``"auto"`` takes labellings for up to 200 rows.
    """

    design: str = "auto"

    name = "double_oracle"
    paper = "McMahan, Gordon & Blum 2003; game of Shi, Zhang & Yu 2017"
    needs = _Needs(kind="fscore")

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> Any:
        if self.design not in ("auto", "labellings", "segments"):
            raise InputError(f"design must be 'auto', 'labellings' or 'segments', not {self.design!r}")
        few = problem.n <= FEW if self.design == "auto" else self.design == "labellings"
        return _Labellings(problem, start) if few else _Segments(problem, start)

    def step(self, problem: Any, state: Any) -> None:
        if isinstance(state, _Labellings):
            for _ in range(ROUNDS):
                if not state.stalled:
                    _exchange(problem, state)
        else:
            _stage(problem, state)

    def point(self, problem: Any, state: Any) -> Point:
        return state.now


# --------------------------------------------------------------------------- sorted scores


def _stage(problem: Any, state: _Segments) -> None:
    """Solve on the grid, or go on with it, and make points of what was found; refine first if the last stage was done."""
    bundle = state.bundle
    if state.done:
        # a gap that no longer falls is that between prefixes and all labellings: finer grids would not close it
        state.stalled = state.relative_gap > ENOUGH * state.gap_before
        state.gap_before = state.relative_gap
        if state.stalled:
            return
        if not bundle.game.is_finest:
            bundle.refine(problem)
        state.grid_tol, state.done, state.stage = SHARPER * state.grid_tol, False, state.stage + 1
    for _ in range(MOST_ROUNDS):
        bundle.round(problem, state.grid_tol)
        state.accesses += 2.0 * problem.matrix.nnz
        if bundle.upper - bundle.lower <= state.grid_tol:
            state.done = True
            break
    state.now = Point(
        bundle.best_w, bundle.best_b, bundle.adversary(problem), aux=bundle.predictor(problem, min(1e-5, 0.05 * state.grid_tol))
    )


# --------------------------------------------------------------------------- labellings


def _scores(Y: np.ndarray, Z: np.ndarray, beta2: float) -> np.ndarray:
    """F of all predictions Z (rows) against all labellings Y (columns)."""
    true, predicted = Y.sum(axis=1), Z.sum(axis=1)[:, None]
    both = beta2 * true + predicted
    return np.where(both > 0.0, (1.0 + beta2) * (Z @ Y.T) / np.maximum(both, 1e-300), 1.0)


def _exchange(problem: Any, state: _Labellings) -> None:
    """Solve the game of the labellings at hand, and let both sides answer."""
    n, beta2 = problem.n, problem.beta2
    away = problem.matrix.rmatvec((problem.labels - state.Y).T).T / n
    E, e = np.ones((1, len(state.Y))), np.ones(1)
    if problem.fit_intercept:
        E, e = np.vstack([E, state.Y.sum(axis=1) / n]), np.array([1.0, problem.positives / n])
    F = _scores(state.Y, state.Z, beta2)
    p, q, multipliers, _ = solve_matrix_game(F, np.zeros(len(state.Y)), away @ away.T / problem.alpha, E, e, 1e-11)
    w, b = away.T @ p / problem.alpha, float(-multipliers[1]) if problem.fit_intercept else 0.0
    sizes = np.arange(1.0, n + 1.0)
    c = (problem.matrix.matvec(w) + b) / n
    adversary, predictor = _table(state.Y, p), _table(state.Z, q)
    state.now = Point(w, b, adversary, aux=_square(predictor, n))
    # what a positive label of row k costs at each size of the other side, and the best answers of all sizes
    against = _gain(predictor, sizes, beta2, predicted=True) - c
    towards = _gain(adversary, sizes, beta2, predicted=False)
    Y, low = _answers(against, -1.0)
    Z, high = _answers(towards, 1.0)
    value = min(float(predictor.empty), float(low.min()))
    worth = max(float(adversary.empty), float(high.max()))
    state.rounds += 1
    state.accesses += 2.0 * problem.matrix.nnz
    before = len(state.Y) + len(state.Z)
    gap = worth - float(adversary.rows.sum(axis=0) @ c) - value
    state.idle_y, state.idle_z = np.where(p > UNUSED, 0, state.idle_y + 1), np.where(q > UNUSED, 0, state.idle_z + 1)
    state.Y, state.idle_y = _kept(state.Y, state.idle_y, IDLE_LABELLINGS)
    state.Z, state.idle_z = _kept(state.Z, state.idle_z, IDLE_PREDICTIONS)
    state.Y, state.idle_y, more = _with(state.Y, state.idle_y, Y[np.argsort(low)[:NEW]])
    state.Z, state.idle_z, others = _with(state.Z, state.idle_z, Z[np.argsort(-high)[:NEW]])
    state.stalled = (more + others == 0 and before == len(state.Y) + len(state.Z)) or gap <= 0.0


def _kept(rows: np.ndarray, idle: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    kept = idle < most
    kept[:2] = True  # none and all: sizes can always be balanced
    return rows[kept], idle[kept]


def _with(rows: np.ndarray, idle: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows with those of `new` that are not there yet."""
    there = {row.tobytes() for row in rows}
    fresh = []
    for row in new:
        if row.tobytes() not in there:
            there.add(row.tobytes())
            fresh.append(row)
    if not fresh:
        return rows, idle, 0
    return np.vstack([rows, fresh]), np.concatenate([idle, np.zeros(len(fresh), dtype=np.int64)]), len(fresh)


def _table(rows: np.ndarray, p: np.ndarray) -> SizedTable:
    """The table of a mixture of labellings."""
    sizes = rows.sum(axis=1).astype(np.int64)
    present = np.unique(sizes[sizes > 0])
    out = np.zeros((present.size, rows.shape[1]))
    some = sizes > 0
    np.add.at(out, np.searchsorted(present, sizes[some]), p[some][:, None] * rows[some])
    return SizedTable(present, out)


def _square(table: SizedTable, n: int) -> np.ndarray:
    """The same as n x n numbers, row i divided by i."""
    out = np.zeros((n, n))
    out[table.sizes - 1] = table.rows / table.sizes[:, None]
    return out


def _gain(table: SizedTable, sizes: np.ndarray, beta2: float, predicted: bool) -> np.ndarray:
    """E[(1 + beta^2) y_k / (beta^2 true + predicted)] for all sizes of the other side; `predicted`: of the predictor's table."""
    own = table.sizes.astype(np.float64)
    both = (beta2 * sizes[:, None] + own) if predicted else (beta2 * own + sizes[:, None])
    return ((1.0 + beta2) / both) @ table.rows


def _answers(gain: np.ndarray, sign: float) -> tuple[np.ndarray, np.ndarray]:
    """For each size i the labelling with the i largest (sign 1) or least (-1) entries of row i, and their sums."""
    n = gain.shape[0]
    order = np.argsort(-sign * gain, axis=1, kind="stable")
    chosen = np.zeros((n, n))
    np.put_along_axis(chosen, order, (np.arange(n)[None, :] <= np.arange(n)[:, None]).astype(np.float64), axis=1)
    return chosen, (chosen * gain).sum(axis=1)
