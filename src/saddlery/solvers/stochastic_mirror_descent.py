"""Stochastic mirror descent of Babichev, Ostrovskii and Bach (2019), on sampled products, for k classes at once with l1.

Instead of X'(s A) and X W a step takes unbiased estimates eta and xi of them, both from the same iterate:

    partial    eta = x_j A_j' s_j / q_j           q_j  ~ s_j tau_j max_l |A_jl|
               xi  = +-x^i U_i' / p_i             p_i  ~ sigma_i max_l U_il
    full       eta = x_j A_jl s_j / q_jl e_l'     q_jl ~ s_j tau_j |A_jl|
               xi  = +-x^i U_il / p_il e_l'       p_il ~ sigma_i U_il

with tau_j = max_i |x_ji|, sigma_i^2 = sum_j s_j x_ji^2 and i over both halves of W = U+ - U-. These laws have the least second
moments. Steps are made on the whole matrices here, at O((n + d) k) each, for any row loss: a reference for ``sublinear``, which
makes the full ones at O(n + d + k).

============  ==============================================  ====================================================
here          meaning                                         letters of the paper
============  ==============================================  ====================================================
eta, xi       estimates of X'(s A) and X W                    eta / n of (Part-SS), (Full-SS), and xi
gamma         step                                            gamma of Theorem 3.1 and (35); see `exponent`
============  ==============================================  ====================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry import RowEntropy, SignedEntropy
from saddlery.matrix.vectors import weighted_square_norms
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.mirror_descent import first_radius, strength
from saddlery.solvers.sublinear import BALANCE, largest_entries

__all__ = ["StochasticMirrorDescent", "sample_dual", "sample_primal"]

SAMPLING = ("partial", "full")


def _draw(law: np.ndarray, rng: np.random.Generator) -> int:
    """An index with probability ~ law; -1 if all are zero."""
    sums = np.cumsum(law)
    return int(np.searchsorted(sums, sums[-1] * rng.random(), side="right")) if sums[-1] > 0.0 else -1


def _vector(stack: Any, i: int) -> np.ndarray:
    """Row or column i of X as an array."""
    out = np.zeros(stack.length)
    stack.axpy(i, 1.0, out)
    return out


def sample_primal(problem: Any, A: np.ndarray, t: np.ndarray, sampling: str, rng: np.random.Generator) -> np.ndarray:
    """An unbiased estimate of X'(s A) from one row of X; `t` is s tau."""
    size = np.abs(A)
    law = t * (size.max(axis=1) if sampling == "partial" else size.sum(axis=1))
    j = _draw(law, rng)
    eta = np.zeros((problem.d, problem.k))
    if j >= 0:
        row = _vector(problem.matrix.rows, j) * (problem.s[j] * law.sum() / law[j])
        if sampling == "partial":
            eta[:] = np.outer(row, A[j])
        else:
            label = _draw(size[j], rng)
            eta[:, label] = row * (math.copysign(1.0, A[j, label]) * size[j].sum())
    return eta


def sample_dual(problem: Any, halves: np.ndarray, sigma: np.ndarray, sampling: str, rng: np.random.Generator) -> np.ndarray:
    """An unbiased estimate of X W from one column of X; `halves` are U+ and U-, one below the other."""
    law = np.tile(sigma, 2) * (halves.max(axis=1) if sampling == "partial" else halves.sum(axis=1))
    i = _draw(law, rng)
    xi = np.zeros((problem.n, problem.k))
    if i >= 0:
        sign = 1.0 if i < problem.d else -1.0
        column = _vector(problem.matrix.cols, i % problem.d) * (sign * law.sum() / law[i])
        if sampling == "partial":
            xi[:] = np.outer(column, halves[i])
        else:
            xi[:, _draw(halves[i], rng)] = column * halves[i].sum()
    return xi


class _State(State):
    def __init__(self, problem: Any, radius: float, rng: np.random.Generator):
        self.radius, self.rng = radius, rng
        tau, squares = np.empty(problem.n), np.empty(problem.d)
        largest_entries(problem.matrix.rows, tau)
        weighted_square_norms(problem.matrix.cols, problem.s, squares)
        self.t, self.sigma = problem.s * tau, np.sqrt(squares)
        self.u: Any = None
        self.v: Any = None
        self.sum_W, self.sum_A = np.zeros((problem.d, problem.k)), np.zeros((problem.n, problem.k))
        self.weight, self.steps = 0.0, 0
        self.last: Point = problem.first_point()

    @property
    def counts(self) -> dict[str, float]:
        return {"steps": self.steps, "radius": self.radius}


@dataclass(frozen=True)
class StochasticMirrorDescent(Solver):
    """Stochastic mirror descent with sampled products: a reference implementation, for any row loss with an l1 penalty or ball.

    A step reads one row and one column of X, but moves whole matrices. Expect a gap of one tenth at best: ``sublinear`` makes the
    steps of ``sampling="full"`` at a fraction of the cost, and is limited to the hinge.

    Parameters
    ----------
    sampling : {"partial", "full"}
        What is sampled: a whole row of A and of W, or one entry of each.
    exponent : float
        The largest exponent by which a primal step may multiply an entry of W.
    radius : float, optional
        A bound on ``||W||_1``; by default the penalty's own, or P(0) / alpha, lowered to P(W) / alpha when a check finds a lower
        objective P(W).
    steps : int
        Steps in an epoch.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> X = np.random.default_rng(0).standard_normal((30, 10))
    >>> problem = sd.MulticlassProblem(X, np.argmax(X[:, :3], axis=1), "logistic", sd.penalties.L1(0.05))
    >>> solution = sd.solve(problem, StochasticMirrorDescent(steps=2000), tol=0.2, max_epochs=10)
    >>> solution.status
    <Status.CONVERGED: 'certified to the tolerance'>
    """

    name = "stochastic_mirror_descent"
    paper = "Babichev, Ostrovskii & Bach 2019, (SMD)"
    needs = Needs(
        kind="multiclass",
        loss=("row_value", "row_slope", "row_conjugate", "row_entropy_prox"),
        penalty=("value", "conjugate"),
        l1=True,
        no_intercept=True,
        dense_weights=True,
    )

    sampling: str = "partial"
    exponent: float = 0.3
    radius: float | None = None
    steps: int = 500

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLING:
            raise InputError(f"sampling must be one of {', '.join(SAMPLING)}, not {self.sampling!r}")
        if not 0.0 < self.exponent <= 2.0:
            raise InputError(f"exponent must lie in (0, 2], not {self.exponent!r}")
        if self.steps < 1:
            raise InputError(f"steps must be at least 1, not {self.steps!r}")

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        """The iterates begin at the centre; of a start only the certificate is taken."""
        state = _State(problem, first_radius(problem, self.radius), rng)
        state.u, state.v = self._primal(problem, state).start(), RowEntropy(problem).start()
        if start is not None:
            state.last = start
        return state

    def _primal(self, problem: Any, state: _State) -> SignedEntropy:
        return SignedEntropy(problem.loss, (problem.d, problem.k), state.radius, strength(problem.penalty))

    def step(self, problem: Any, state: _State) -> None:
        primal, dual = self._primal(problem, state), RowEntropy(problem)
        length = 4.0 * state.radius * math.log(2.0 * problem.d * problem.k) * float(state.t.sum())
        gamma = self.exponent / length if length > 0.0 else 1.0
        for _ in range(self.steps):
            up, down = np.exp(state.u.log_mass - state.u.theta), np.exp(state.u.log_mass + state.u.theta)
            A = dual.slopes(state.v)
            state.sum_W += gamma * (up - down)
            state.sum_A += gamma * A
            eta = sample_primal(problem, A, state.t, self.sampling, state.rng)
            xi = sample_dual(problem, np.concatenate([up, down]), state.sigma, self.sampling, state.rng)
            state.u = primal.step(state.u, eta, gamma)
            state.v = dual.step(state.v, xi, BALANCE * gamma)
        state.steps += self.steps
        state.weight += gamma * self.steps
        state.accesses += self.steps * problem.size * (1.0 / problem.n + 1.0 / problem.d)
        W, A = state.sum_W / state.weight, state.sum_A / state.weight
        state.last = Point(W, np.zeros(problem.k), A, Xw=problem.margins(W), Xta=problem.gradient(A), fresh=True)
        alpha = strength(problem.penalty)
        if self.radius is None and alpha > 0.0:
            state.radius = min(state.radius, problem.primal(W, None, state.last.Xw) / alpha)

    def point(self, problem: Any, state: _State) -> Point:
        return state.last
