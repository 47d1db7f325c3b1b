"""Generalized stochastic Frank-Wolfe whose batches are partitions, visited in parallel (Lu & Freund, Remark 3.4, with corrected
steps).

The method is that of ``solvers/gsfw.py``. A batch of b of the P partitions takes the place of a batch of rows, so N = P / b. A
round is one iteration: the atom u of the substitute gradient c goes out with the predictors z of the chosen partitions; these
move to

    z <- (1 - eta) z + eta X u,    a = l'(z),    c += X'(s (change of a))

and come back. The table a is dual feasible and certifies for free; the value at the mean of the atoms is one more round, after each
pass over all partitions.

Rows of a partition move together, so the relative smoothness of Theorem 3.2 is that of blocks: in expectation over batches of b
of P

    sigma = 1 + gamma / mu ((1 - r) max_k L_k + r L),     r = (b - 1) / (P - 1)

with L_k and L the largest eigenvalues of X' diag(s) X over partition k and over all. L <= sum_k L_k is what is used: partitions
of alike rows reach it. Remark 3.4 leaves sigma as it is for single rows, and diverges there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from saddlery.distributed.blocks import Block, Reading
from saddlery.distributed.dual import DualRows
from saddlery.distributed.rounds import Visitor
from saddlery.errors import InputError
from saddlery.penalties.base import atom_buffers, best_atom
from saddlery.point import Point
from saddlery.problems.linear import DualPoint
from saddlery.problems.row_sums import conjugate_terms, slopes
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.frank_wolfe_steps import feasible_start
from saddlery.solvers.gsfw import convex_steps, strongly_convex_steps

__all__ = ["DaskGSFW", "block_smoothness"]

SMALL = 64  # rows: smaller partitions have a bound instead of an eigenvalue


class TableTask(NamedTuple):
    """The atom (as indices and values), and the step of the predictors towards it."""

    loss: Any
    reading: Reading
    d: int
    places: np.ndarray
    values: np.ndarray
    eta: float
    first: bool


class TableStep(Visitor):
    """z <- (1 - eta) z + eta X u for one partition; returns z and its sum of l*, and adds the change of X'(s a)."""

    def __init__(self, task: TableTask):
        self.task, self.change = task, np.zeros(task.d)
        self.u = np.zeros(task.d)
        self.u[task.places] = task.values

    def visit(self, block: Block, extra: Any) -> Any:
        task, n = self.task, block.n
        y, s = block.y(task.reading), block.s(task.reading)
        before, a, terms = np.zeros(n), np.empty(n), np.empty(n)
        if not task.first:
            slopes(task.loss, y, extra, 0.0, before)
        z = np.zeros(n) if extra is None else np.array(extra)
        z += task.eta * (block.matrix.matvec(self.u) - z)
        slopes(task.loss, y, z, 0.0, a)
        self.change += block.matrix.rmatvec(s * (a - before))
        conjugate_terms(task.loss, y, s, a, 1.0, terms)
        return z, a, float(terms.sum())

    def sums(self) -> dict[str, Any]:
        return {"change": self.change}


class Eigenvalue(Visitor):
    """The largest eigenvalue of X' diag(s) X of each partition, with 5 % more for what the iteration left out."""

    def __init__(self, task: tuple[Reading, int]):
        self.task = task

    def visit(self, block: Block, extra: Any) -> float:
        reading, d = self.task
        roots = np.sqrt(block.s(reading))
        if min(block.n, d) <= SMALL:
            return float((block.s(reading) * block.matrix.row_square_norms).sum())

        def product(r: np.ndarray) -> np.ndarray:
            return roots * block.matrix.matvec(block.matrix.rmatvec(roots * r.ravel()))

        gram = LinearOperator((block.n, block.n), matvec=product, dtype=np.float64)
        return 1.05 * float(eigsh(gram, k=1, tol=0.01, v0=np.ones(block.n), return_eigenvectors=False)[0])


def block_smoothness(problem: Any, batch: int) -> float:
    """sigma of -D relative to sum_i s_i l*(a_i), in expectation over batches of partitions; see the top of the file. One round."""
    found = problem.run(Eigenvalue, (problem.reading, problem.d))[1]
    tops = np.array([0.0 if top is None else top for top in found])
    share = (batch - 1) / (len(tops) - 1) if len(tops) > 1 else 1.0
    return 1.0 + problem.loss.smoothness / problem.penalty.strong_convexity * ((1.0 - share) * tops.max() + share * tops.sum())


class _State(State):
    def __init__(self, problem: Any, w: np.ndarray, batch: int, sigma: float, rng: np.random.Generator):
        self.w, self.batch, self.sigma, self.rng, self.meter = w, batch, sigma, rng, problem.meter
        self.index, self.value = atom_buffers(problem.penalty, problem.d)
        count = len(problem.partitions.lengths)
        self.z: list[Any] = [None] * count
        self.a: list[Any] = [np.zeros(length) for length in problem.partitions.lengths]
        self.conjugates, self.c = np.zeros(count), np.zeros(problem.d)
        self.iterations = self.oracle_calls = 0

    @property
    def counts(self) -> dict[str, float]:
        return {**self.meter.counts(), "oracle_calls": self.oracle_calls}


@dataclass(frozen=True)
class DaskGSFW(Solver):
    """Generalized stochastic Frank-Wolfe with partitions as batches, for smooth losses and bounded penalties, without intercept.

    Parameters
    ----------
    batch : int, optional
        Partitions of a batch; by default as many as there are runs, so that all workers are busy.

    Examples
    --------
    >>> import dask.array as da, numpy as np, saddlery as sd
    >>> X = da.from_array(np.array([[1.0, 0.0], [0.0, 1.0]]), chunks=(1, 2))
    >>> problem = sd.DaskLinearProblem(X, np.array([1.0, -1.0]), "logistic", sd.penalties.L1Ball(2.0))
    >>> sd.solve(problem, "dask_gsfw", tol=1e-2).status
    <Status.CONVERGED: 'certified to the tolerance'>
    """

    batch: int | None = None

    name = "dask_gsfw"
    paper = "Lu & Freund 2020, Algorithm 1, partitions as the batches of Remark 3.4, corrected"
    needs = Needs(kind="distributed", loss=("slope", "conjugate"), penalty=("atom", "atom_value"), smooth=True, no_intercept=True)

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            raise InputError(f"batch must be at least one partition, not {self.batch!r}")

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        count = len(problem.partitions.lengths)
        batch = min(count, len(problem.partitions.pool.runs) if self.batch is None else self.batch)
        sigma = block_smoothness(problem, batch) if problem.penalty.strong_convexity > 0.0 else 0.0
        state = _State(problem, feasible_start(problem, start), batch, sigma, rng)
        self._move(problem, state, np.flatnonzero(state.w), state.w[state.w != 0.0], 1.0, None)  # the predictors X w
        return state

    def _move(self, problem: Any, state: _State, index: np.ndarray, value: np.ndarray, eta: float, only: Any) -> None:
        """One round: the predictors of some partitions move, the table and c follow."""
        task = TableTask(problem.loss, problem.reading, problem.d, index, value, eta, only is None)
        sums, found = problem.run(TableStep, task, state.z, only)
        state.c = state.c + sums["change"]
        for k, own in enumerate(found):
            if own is not None:
                state.z[k], state.a[k], state.conjugates[k] = own
        state.accesses += 2.0 * problem.size * (1.0 if only is None else len(only) / len(state.z))

    def step(self, problem: Any, state: _State) -> None:
        count, batch = len(state.z), state.batch
        for _ in range(-(-count // batch)):
            i, N = np.array([float(state.iterations)]), count / batch
            (eta,), (alpha,) = strongly_convex_steps(i, N, state.sigma) if state.sigma else convex_steps(i, N)
            size, _ = best_atom(problem.penalty, state.c, state.index, state.value)
            index, value = state.index[:size].copy(), state.value[:size].copy()
            only = set(state.rng.choice(count, batch, replace=False).tolist())
            self._move(problem, state, index, value, float(eta), only)
            state.w = (1.0 - alpha) * state.w
            state.w[index] += alpha * value
            state.iterations += 1
            state.oracle_calls += 1

    def point(self, problem: Any, state: _State) -> Point:
        value = -float(state.conjugates.sum()) - problem.penalty.conjugate(state.c, -1.0)
        dual = DualPoint(DualRows(blocks=tuple(state.a)), state.c, value)
        return Point(state.w, 0.0, dual.a, Xta=state.c, aux=dual)

    def resync(self, problem: Any, state: _State) -> None:
        state.c = problem._judged(None, 0.0, DualRows(blocks=tuple(state.a)), (1.0,))["Xta"]
