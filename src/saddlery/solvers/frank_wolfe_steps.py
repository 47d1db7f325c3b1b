"""What the Frank-Wolfe solvers share: atoms, the lazily scaled iterate, batches of rows, sampled gradients.

All of them move towards an atom, ``w <- (1 - t) w + t u`` with ``u = argmin_u c.u + g(u)``, and differ in the vector c that
stands for the gradient X'(s l'(Xw)). Those that sample rows share three conventions:

- rows are drawn uniformly, without replacement within a batch, among the n rows that have weight: a row of weight 0 is no row;
- weights enter the sums, so that ``(n / m) sum_{i in B} s_i l'(x_i.w) x_i`` over m rows is an unbiased gradient;
- a *sample gradient* is one evaluation of l' at a new margin of one row, an *oracle call* is one atom. The papers do not count
  the full gradient at the start; `counts` does, and says how much it was (`initial_gradients`), so that it can be subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from saddlery.errors import InputError
from saddlery.matrix.vectors import combine_of
from saddlery.parts import kernel
from saddlery.penalties.base import atom_buffers
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = [
    "SAMPLING",
    "FrankWolfeState",
    "GrowingBatches",
    "atom_margins",
    "batch_size",
    "draw",
    "epoch_batches",
    "feasible_start",
    "largest_eigenvalue",
    "move_to_atom",
    "run_sampled_steps",
    "sampled_gradient",
    "spread",
]

SMALLEST_SCALE = 1e-9  # below, it is multiplied in: far from underflow, and rare
SAMPLING = Needs(loss=("slope", "conjugate"), penalty=("atom", "atom_value"), smooth=True, no_intercept=True)


# --------------------------------------------------------------------------- kernels


@kernel(inline=True)
def draw(rows, order, k, number):
    """Place k of a shuffle that goes on from `order` (Fisher-Yates): a row not yet drawn, by a number in [0, 1)."""
    other = k + int(number * (order.shape[0] - k))
    i = order[other]
    order[other] = order[k]
    order[k] = i
    return i


@kernel
def move_to_atom(penalty, v, scale, step, index, value, count):
    """w = scale v <- (1 - step) w + step u, in as many operations as u has entries; returns the new scale."""
    if step >= 1.0:
        v[:] = 0.0
        scale = 1.0
    else:
        scale *= 1.0 - step
        if scale < SMALLEST_SCALE:
            v *= scale
            scale = 1.0
    for k in range(count):
        v[index[k]] += step / scale * value[k]
    return scale


@kernel
def spread(penalty, index, value, count, out):
    """out = u: the entries of an atom at their places, in a vector that is zero elsewhere."""
    for k in range(count):
        out[index[k]] = value[k]


@kernel(fast_sums=True)
def sampled_gradient(loss, rows, y, s, order, draws, anchor, w, factor, out):
    """out += factor (n / m) sum_{i in B} s_i (l'(x_i.w) - anchor_i) x_i for a batch B of m new rows; returns the entries read.

    `anchor` holds slopes that are known already and taken out; zeros if there are none.
    """
    m, reads = draws.shape[0], 0
    for k in range(m):
        i = draw(rows, order, k, draws[k])
        slope = loss.slope(y[i], rows.dot(i, w)) - anchor[i]
        rows.axpy(i, factor * order.shape[0] / m * s[i] * slope, out)
        reads += 2 * (rows.last(i) - rows.first(i))
    return reads


@kernel(fast_sums=True)
def sampled_steps(loss, penalty, rows, y, s, order, draws, batches, blends, steps, anchor, center, c, w, index, value):
    """Frank-Wolfe steps with sampled gradients; batch m_k, blend rho_k and step t_k are given for every iteration k:

    c <- (1 - rho_k) c + rho_k (center + (n / m_k) sum_{i in B} s_i (l'(x_i.w) - anchor_i) x_i),   w <- (1 - t_k) w + t_k u(c).
    """
    begin, reads = 0, 0
    for k in range(batches.shape[0]):
        for j in range(c.shape[0]):
            c[j] += blends[k] * (center[j] - c[j])
        end = begin + batches[k]
        reads += sampled_gradient(loss, rows, y, s, order, draws[begin:end], anchor, w, blends[k], c)
        begin = end
        count = penalty.atom(c, index, value)
        for j in range(w.shape[0]):  # the atom cost as much: no need to be lazy here
            w[j] *= 1.0 - steps[k]
        for p in range(count):
            w[index[p]] += steps[k] * value[p]
    return reads


# --------------------------------------------------------------------------- states


def feasible_start(problem: Any, start: Point | None) -> np.ndarray:
    """The weights to start from: those given, moved into the set if they are not in it; else zero or what is nearest to it."""
    if start is None:
        return problem.first_point().w
    return start.w.copy() if np.isfinite(problem.penalty.value(start.w)) else problem.penalty.prox(start.w, 1.0)


class FrankWolfeState(State):
    """w = scale v, buffers for an atom, the rows in a random order, and what was counted."""

    def __init__(self, problem: Any, start: Point | None, rng: np.random.Generator):
        self.rng = rng
        self.order = np.flatnonzero(problem.s > 0.0)
        self.v, self.scale = feasible_start(problem, start), 1.0
        self.index, self.value = atom_buffers(problem.penalty, problem.d)
        self.iterations = self.sample_gradients = self.initial_gradients = self.oracle_calls = 0

    @property
    def w(self) -> np.ndarray:
        return self.scale * self.v

    @property
    def counts(self) -> dict[str, float]:
        names = ("sample_gradients", "initial_gradients", "oracle_calls")
        return {name: getattr(self, name) for name in names}


def run_sampled_steps(problem: Any, state: Any, batches: Any, blends: Any, steps: Any) -> None:
    """:func:`sampled_steps` on a state with `c`, `anchor` and `center`, and the counting."""
    sizes = np.asarray(batches, dtype=np.int64)
    state.accesses += sampled_steps(
        problem.loss, problem.penalty, problem.matrix.rows, problem.y, problem.s, state.order, state.rng.random(int(sizes.sum())),
        sizes, np.asarray(blends, dtype=np.float64), np.asarray(steps, dtype=np.float64),
        state.anchor, state.center, state.c, state.v, state.index, state.value,
    )  # fmt: skip
    state.iterations += len(sizes)
    state.oracle_calls += len(sizes)
    state.sample_gradients += int(sizes.sum())


@dataclass(frozen=True)
class GrowingBatches(Solver):
    """What the rivals with growing batches share: iteration k draws `growth` times a power of k rows; w alone is judged."""

    needs = SAMPLING

    growth: float = 1.0

    def __post_init__(self) -> None:
        if not self.growth > 0.0:
            raise InputError(f"growth must be positive, not {self.growth!r}")

    def point(self, problem: Any, state: Any) -> Point:
        return Point(state.v, 0.0, None)


# --------------------------------------------------------------------------- sizes


def batch_size(batch: int | None, n: int) -> int:
    """The rows of a batch: as asked for, or one in a hundred."""
    if batch is None:
        return max(1, n // 100)
    if not 1 <= batch <= n:
        raise InputError(f"batch must be from 1 to {n:,}, the number of rows that have weight, not {batch!r}")
    return int(batch)


def atom_margins(matrix: Any, index: np.ndarray, value: np.ndarray) -> np.ndarray:
    """X u for an atom with these entries, read from its columns alone if they are few."""
    if 4 * len(index) >= matrix.shape[1]:
        u = np.zeros(matrix.shape[1])
        u[index] = value
        return matrix.matvec(u)
    if not matrix.is_sparse:
        return matrix.values[:, index] @ value
    out = np.zeros(matrix.shape[0])
    combine_of(matrix.cols, index, value, out)
    return out


def epoch_batches(size: Callable[[int], float], k: int, n: int, most: int | None = None) -> np.ndarray:
    """The batches of iterations k, k + 1, ...: ceil(size(k)), at most n / 2; as many as hold n rows together, at most `most`.

    Examples
    --------
    >>> epoch_batches(lambda k: k**2, 1, 20)
    array([ 1,  4,  9, 10])
    """
    sizes: list[int] = []
    total = 0
    while total < n and len(sizes) != most:
        sizes.append(min(max(1, n // 2), math.ceil(size(k))))
        total, k = total + sizes[-1], k + 1
    return np.array(sizes)


def largest_eigenvalue(problem: Any, means: np.ndarray | None = None) -> tuple[float, int]:
    """The largest eigenvalue of X' diag(s) X, not below it but for the last digits, and the passes over X that it took.

    With the means X's of the columns it is that of the centred data.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[2.0, 0.0], [0.0, 1.0]], [1.0, 1.0], "squared", sd.penalties.L1Ball(1.0))
    >>> largest_eigenvalue(problem)  # rows of weight 1/2
    (2.0, 5)
    """
    matrix, s, d = problem.matrix, problem.s, problem.d
    trace, passes = float(s @ matrix.row_square_norms), 1
    if means is not None:
        trace = max(trace - float(means @ means), 0.0)

    def product(v: np.ndarray) -> np.ndarray:
        nonlocal passes
        passes += 2
        v = np.ravel(v)
        out = matrix.rmatvec(s * matrix.matvec(v))
        return out if means is None else out - means * float(means @ v)

    if trace == 0.0:
        return 0.0, passes
    if d <= 20:
        return float(np.linalg.eigvalsh(np.column_stack([product(e) for e in np.eye(d)]))[-1]), passes
    first = np.random.default_rng(0).standard_normal(d)
    top = eigsh(LinearOperator((d, d), product, dtype=float), k=1, v0=first, tol=1e-4, return_eigenvectors=False)[0]
    return min(trace, float(top) * (1.0 + 1e-3)), passes
