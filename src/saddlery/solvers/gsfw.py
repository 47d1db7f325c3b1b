"""Generalized stochastic Frank-Wolfe with substitute gradient (GSFW): Algorithm 1 of Lu & Freund, with batches (Remark 3.4).

A table holds a predictor z_i and its slope a_i = l'(z_i) for each row, and c = X'(s a), the *substitute* gradient. Iteration i:

    u = argmin_u c.u + g(u)
    for the rows j of a batch:  z_j <- (1 - eta_i) z_j + eta_i x_j.u,   a_j <- l'(z_j),   c += s_j (change of a_j) x_j
    w <- (1 - alpha_i) w + alpha_i u

This is mirror descent on random coordinates of the dual (Algorithm 2), so a is dual feasible and certifies for free. The
predictors are not Xw. With weights s_i the reference function is sum_i s_i l*(a_i): the weights cancel in the step of z_j, and
uniform draws keep the rate.

==========  ==========================================  =====================================================
here        meaning                                     letters of the paper
==========  ==========================================  =====================================================
w, u        average of the atoms, atom                  bar beta, tilde beta
z, a, c     predictors, table, substitute gradient      s, w, d
b, N        rows of a batch, n / b                      1 and n in Algorithm 1
eta, alpha  steps of the table and of w                 2N/(2N+i+1) and 2(2N+i)/((i+1)(4N+i)), Theorem 3.1
mu, sigma   strong convexity, relative smoothness       mu, sigma of Theorem 3.2; see :func:`relative_smoothness`
==========  ==========================================  =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.parts import kernel
from saddlery.point import Point
from saddlery.solvers.base import Solver
from saddlery.solvers.frank_wolfe_steps import (
    SAMPLING,
    FrankWolfeState,
    batch_size,
    draw,
    largest_eigenvalue,
    move_to_atom,
    spread,
)

__all__ = ["GSFW", "convex_steps", "relative_smoothness", "strongly_convex_steps"]


@kernel(fast_sums=True)
def substitute_steps(loss, penalty, rows, y, s, order, draws, etas, alphas, z, a, c, v, scale, index, value, u):
    """Algorithm 1: one iteration for each row of `draws`, whose numbers choose the batch. Returns scale and entries read."""
    reads = 0
    for i in range(etas.shape[0]):
        count = penalty.atom(c, index, value)
        spread(penalty, index, value, count, u)
        for k in range(draws.shape[1]):
            j = draw(rows, order, k, draws[i, k])
            z[j] += etas[i] * (rows.dot(j, u) - z[j])
            slope = loss.slope(y[j], z[j])
            rows.axpy(j, s[j] * (slope - a[j]), c)
            a[j] = slope
            reads += 2 * (rows.last(j) - rows.first(j))
        for k in range(count):
            u[index[k]] = 0.0
        scale = move_to_atom(penalty, v, scale, alphas[i], index, value, count)
    return scale, reads


def convex_steps(i: np.ndarray, N: float) -> tuple[np.ndarray, np.ndarray]:
    """eta_i and alpha_i of Theorem 3.1: w is the mean of the atoms with weights 2N + i.

    Examples
    --------
    >>> convex_steps(np.arange(2.0), 5.0)
    (array([0.90909091, 0.83333333]), array([1.        , 0.52380952]))
    """
    return 2.0 * N / (2.0 * N + i + 1.0), 2.0 * (2.0 * N + i) / ((i + 1.0) * (4.0 * N + i))


def strongly_convex_steps(i: np.ndarray, N: float, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """eta_i and alpha_i of Theorem 3.2: w is the mean of the atoms with weights q^i, q = N sigma / (N sigma - 1), without overflow.

    Examples
    --------
    >>> strongly_convex_steps(np.array([0.0, 1e9]), 5.0, 2.0)
    (array([0.5, 0.5]), array([1. , 0.1]))
    """
    share = 1.0 / (N * sigma)
    with np.errstate(divide="ignore"):  # N sigma = 1: the last atom alone
        log_q = -np.log1p(-share)
    return np.full(len(i), 1.0 / sigma), share / -np.expm1(-(i + 1.0) * log_q)


def relative_smoothness(problem: Any, batch: int) -> tuple[float, int]:
    """sigma of -D relative to sum_i s_i l*(a_i), in expectation over batches of b of the n rows, and the passes it took.

    1 + gamma / mu ((1 - r) max_i s_i ||x_i||^2 + r lambda_max(X' diag(s) X)) with r = (b - 1) / (n - 1). Remark 3.4 of the
    paper leaves sigma as it is for b = 1, and diverges where rows are alike: they all overshoot together.
    """
    n = int(np.count_nonzero(problem.s))
    top, passes = float(np.max(problem.s * problem.matrix.row_square_norms)), 1
    if batch > 1:
        share = (batch - 1) / (n - 1)
        whole, passes = largest_eigenvalue(problem)
        top = (1.0 - share) * top + share * whole
    return 1.0 + problem.loss.smoothness / problem.penalty.strong_convexity * top, passes


class _State(FrankWolfeState):
    """Predictors z, their slopes a, c = X'(s a), and the average w of the atoms."""

    def __init__(self, problem: Any, start: Point | None, rng: np.random.Generator, batch: int | None, strongly_convex: bool):
        super().__init__(problem, start, rng)
        self.batch = batch_size(batch, self.order.size)
        self.sigma, passes = relative_smoothness(problem, self.batch) if strongly_convex else (0.0, 0)  # 0: the convex rule
        self.u = np.zeros(problem.d)
        self.z = np.zeros(problem.n) if start is None else problem.margins(self.v)
        self.a = problem.slopes(self.z)
        self.c = problem.matrix.rmatvec(problem.s * self.a)
        self.accesses += (1 + passes + (start is not None)) * problem.matrix.nnz
        self.initial_gradients = self.sample_gradients = self.order.size


@dataclass(frozen=True)
class GSFW(Solver):
    """Generalized stochastic Frank-Wolfe of Lu & Freund, for smooth losses and bounded penalties, without intercept.

    The faithful reference of the paper; `sag_fw` needs far fewer oracle calls. An epoch draws about n rows. A start gives the
    predictors X w; the first iteration forgets w itself.

    Parameters
    ----------
    batch : int, optional
        Rows of a batch; by default one in a hundred.
    step_rule : {"auto", "convex", "strongly_convex"}
        The steps of Theorem 3.1, or those of Theorem 3.2 for strongly convex penalties; "auto" takes these where they apply.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0, 0.0], [0.0, 1.0]], [1, -1], "logistic", sd.penalties.L1Ball(2.0))
    >>> solution = sd.solve(problem, "gsfw", tol=1e-2)
    >>> solution.status
    <Status.CONVERGED: 'certified to the tolerance'>
    """

    name = "gsfw"
    paper = "Lu & Freund 2020, Algorithm 1, Remark 3.4 corrected"
    needs = SAMPLING

    batch: int | None = None
    step_rule: str = "auto"

    def __post_init__(self) -> None:
        if self.step_rule not in ("auto", "convex", "strongly_convex"):
            raise InputError(f'step_rule must be "auto", "convex" or "strongly_convex", not {self.step_rule!r}')

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        curved = problem.penalty.strong_convexity > 0.0
        if self.step_rule == "strongly_convex" and not curved:
            raise InputError('step_rule="strongly_convex" needs a strongly convex penalty: use "auto" or "convex"')
        return _State(problem, start, rng, self.batch, curved and self.step_rule != "convex")

    def step(self, problem: Any, state: _State) -> None:
        n, batch = state.order.size, state.batch
        i = state.iterations + np.arange(-(-n // batch), dtype=np.float64)
        etas, alphas = strongly_convex_steps(i, n / batch, state.sigma) if state.sigma else convex_steps(i, n / batch)
        draws = state.rng.random((len(i), batch))
        state.scale, reads = substitute_steps(
            problem.loss, problem.penalty, problem.matrix.rows, problem.y, problem.s, state.order, draws, etas, alphas,
            state.z, state.a, state.c, state.v, state.scale, state.index, state.value, state.u,
        )  # fmt: skip
        state.accesses += reads
        state.iterations += len(i)
        state.oracle_calls += len(i)
        state.sample_gradients += draws.size

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.w, 0.0, state.a, Xta=state.c)

    def resync(self, problem: Any, state: _State) -> None:
        state.c = problem.matrix.rmatvec(problem.s * state.a)
