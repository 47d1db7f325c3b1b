"""Dual coordinate ascent inside partitions with safe adding (CoCoA+): for any loss and strongly convex penalties.

A round sends v = -X'(s a) to K runs of partitions, which know nothing of each other. By convexity

    g*(v + sum_k dv_k)  <=  (1 / K) sum_k g*(v + K dv_k)

so each run may ascend its own share of the dual, with K times the change of v that it causes, and all changes may be added.
Steps are those of ``sdca`` and ``active_sdca``, on the rows that carry the gap. The first thing that a run computes are the
margins at w = map(v): they give the exact certificate of the point that the round started from. Dual blocks travel with their
partitions and come back, so that a lost worker loses nothing.

=========  ==========================================  ================================
here       meaning                                     letters of CoCoA+
=========  ==========================================  ================================
a, v       dual point, -X'(s a)                        alpha, v
K          runs of partitions that go in parallel      K
K s_i      weight of a row's change in its run         sigma' = K (gamma = 1, "adding")
=========  ==========================================  ================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.distributed.blocks import Block, Reading
from saddlery.distributed.dual import DualRows, dual_rows, pack
from saddlery.distributed.rounds import Visitor
from saddlery.penalties.base import map_each
from saddlery.point import Point
from saddlery.problems.linear import DualPoint
from saddlery.problems.row_sums import conjugate_terms, mean_loss
from saddlery.solvers.active_sdca import row_gaps
from saddlery.solvers.balance import NONE
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.dual_epochs import dual_epoch, dual_steps

__all__ = ["DaskSDCA"]

ACTIVE = 0.01  # rows are visited whose gap exceeds this share of the mean gap of their partition


class AscentTask(NamedTuple):
    """v, and how to ascend from it."""

    loss: Any
    penalty: Any
    reading: Reading
    v: np.ndarray
    runs: int
    epochs: int
    seed: int


class Ascent(Visitor):
    """Ascends block after block; v of the run goes with it, so that inside a run nothing is lost by dividing."""

    def __init__(self, task: AscentTask):
        self.task, self.v = task, task.v.copy()
        self.w = np.empty(len(task.v))
        map_each(task.penalty, task.v, self.w)
        self.loss, self.conjugate = 0.0, 0.0

    def visit(self, block: Block, extra: Any) -> np.ndarray:
        task, n = self.task, block.n
        y, s = block.y(task.reading), block.s(task.reading)
        a = np.zeros(n) if extra is None else np.array(extra)
        z, terms = block.matrix.matvec(self.w), np.empty(n)
        self.loss += mean_loss(task.loss, y, s, z)
        conjugate_terms(task.loss, y, s, a, 1.0, terms)
        self.conjugate += float(terms.sum())
        gap = row_gaps(task.loss, y, s, z, a, terms)
        rows = np.flatnonzero(terms * s.sum() > ACTIVE * gap)
        weights = task.runs * s
        steps = dual_steps(block.matrix.row_square_norms, weights, task.penalty.strong_convexity)
        rng = np.random.default_rng([task.seed, block.number])
        for _ in range(task.epochs if len(rows) else 0):
            order = rng.permutation(rows)
            dual_epoch(task.loss, task.penalty, block.matrix.rows, y, weights, steps, order, a, self.v, *NONE)
        return a

    def sums(self) -> dict[str, Any]:
        change = (self.v - self.task.v) / self.task.runs
        return {"loss": self.loss, "conjugate": self.conjugate, "change": change}


class Products(Visitor):
    """X'(s a) of a dual point, and its rows."""

    def __init__(self, task: Any):
        self.task, self.Xta = task, np.zeros(task[2])

    def visit(self, block: Block, extra: Any) -> np.ndarray:
        a = dual_rows(block, self.task, extra)
        self.Xta += block.matrix.rmatvec(block.s(self.task[1]) * a)
        return a

    def sums(self) -> dict[str, Any]:
        return {"Xta": self.Xta}


class _State(State):
    def __init__(self, problem: Any, blocks: list[Any], v: np.ndarray, rng: np.random.Generator):
        self.blocks, self.v, self.rng, self.meter = blocks, v, rng, problem.meter
        self.judged: Point | None = None
        self.rounds = 0

    @property
    def counts(self) -> dict[str, float]:
        return self.meter.counts()


@dataclass(frozen=True)
class DaskSDCA(Solver):
    """Local dual coordinate ascent with safe adding (CoCoA+), for any loss, strongly convex penalties, no intercept.

    Takes many rounds where l2 is weak; pays for strong l2, for losses with kinks, and where too many columns are active for
    Gram matrices.

    Parameters
    ----------
    epochs : int
        Passes over the active rows of a partition in each round.
    """

    epochs: int = 2

    name = "dask_sdca"
    paper = "Ma et al. 2015 (CoCoA+) on the steps of SDCA; see docs/cluster.md"
    needs = Needs(
        kind="distributed",
        loss=("dual_prox", "slope", "conjugate"),
        penalty=("coordinate_map",),
        strongly_convex=True,
        no_intercept=True,
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        blocks: list[Any] = [np.zeros(length) for length in problem.partitions.lengths]
        v = np.zeros(problem.d)
        if start is not None and (start.dual is not None or start.w.any()):
            point = DualRows(pack(start.w), start.b) if start.dual is None else problem.dual_point(start.dual).a
            sums, blocks = problem.run(Products, (problem.loss, problem.reading, problem.d, point.recipe()), point.blocks)
            v = -sums["Xta"]
        state = _State(problem, blocks, v, rng)
        self.step(problem, state)  # the round that tells the values at the start
        return state

    def step(self, problem: Any, state: _State) -> None:
        runs, seed = len(problem.partitions.pool.runs), int(state.rng.integers(2**31))
        task = AscentTask(problem.loss, problem.penalty, problem.reading, state.v, runs, self.epochs, seed)
        sums, blocks = problem.run(Ascent, task, state.blocks)
        state.accesses += (2.0 + 2.0 * self.epochs) * problem.size
        value = -float(sums["conjugate"]) - problem.penalty.conjugate(state.v)
        point = DualPoint(DualRows(blocks=tuple(state.blocks)), -state.v, value)
        state.judged = Point(problem.penalty.dual_map(state.v), 0.0, point.a, Xta=-state.v, loss=float(sums["loss"]), aux=point)
        state.blocks = [np.zeros(0) if block is None else block for block in blocks]
        state.v = state.v + sums["change"]
        state.rounds += 1
        if state.rounds % 50 == 0:
            self.resync(problem, state)

    def point(self, problem: Any, state: _State) -> Point:
        assert state.judged is not None
        return state.judged

    def resync(self, problem: Any, state: _State) -> None:
        task = (problem.loss, problem.reading, problem.d, DualRows())
        state.v = -problem.run(Products, task, state.blocks)[0]["Xta"]
