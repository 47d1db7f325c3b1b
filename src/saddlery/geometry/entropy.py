"""Entropies: of a matrix inside an l1 ball, and of rows in the simplex. Their steps are multiplicative.

A point of the l1 ball is split into positive and negative parts, W = U+ - U- with sum (U+ + U-) <= radius. Both start alike, a step
multiplies the one by exp(-x) and the other by exp(x), and the ball and the l1 penalty multiply all by one number. So
U+ = exp(log_mass - theta), U- = exp(log_mass + theta): one matrix theta and one number are the whole state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.parts import kernel

__all__ = ["RowEntropy", "SignedEntropy", "SplitPoint"]


class SplitPoint(NamedTuple):
    """A point of the solid simplex of the parts: U+ = exp(log_mass - theta), U- = exp(log_mass + theta), with its sum."""

    theta: np.ndarray
    log_mass: float
    total: float


@kernel(fast_sums=True)
def split_sum(loss, theta, top):
    """sum exp(theta - top) + exp(-theta - top)."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += math.exp(theta[j] - top) + math.exp(-theta[j] - top)
    return total


@kernel
def net_of(loss, theta, log_mass, out):
    """out = U+ - U-."""
    for j in range(theta.shape[0]):
        out[j] = math.exp(log_mass - theta[j]) - math.exp(log_mass + theta[j])


@dataclass(frozen=True)
class SignedEntropy:
    """The potential R^2 H(U / R), H(U) = sum U log U - U, of the split l1 ball of radius R, compatible with the norm 1x1.

    These are (18) to (20) of the paper.

    Attributes
    ----------
    loss : part
        Any part; it keys the compiled kernels.
    shape : tuple
        Features and classes.
    radius, alpha : float
        Radius of the ball, and strength of the l1 penalty (0 for none).
    """

    loss: Any
    shape: tuple[int, int]
    radius: float
    alpha: float

    @property
    def omega(self) -> float:
        """R^2 log(2 d k): the largest divergence from the start (paper's (20))."""
        return self.radius**2 * math.log(2.0 * self.shape[0] * self.shape[1])

    def start(self) -> SplitPoint:
        """All parts alike, with the sum R: W = 0 (paper's (Init))."""
        d, k = self.shape
        return SplitPoint(np.zeros((d, k)), math.log(self.radius / (2.0 * d * k)), self.radius)

    def weights(self, point: SplitPoint) -> np.ndarray:
        """W = U+ - U-."""
        out = np.empty(self.shape)
        net_of(self.loss, point.theta.reshape(-1), point.log_mass, out.reshape(-1))
        return out

    def step(self, point: SplitPoint, gradient: np.ndarray, gamma: float) -> SplitPoint:
        """argmin_U <gradient, U> + alpha sum U + D(U, point) / (2 gamma omega) over the ball: the paper's (24)."""
        c = 2.0 * gamma * self.omega / self.radius
        theta = point.theta + c * gradient
        top = max(float(theta.max()), -float(theta.min()))
        log_total = point.log_mass + top + math.log(split_sum(self.loss, theta.reshape(-1), top))
        shift = min(-c * self.alpha, math.log(self.radius) - log_total)
        return SplitPoint(theta, point.log_mass + shift, math.exp(log_total + shift))

    def divergence(self, one: SplitPoint, W: np.ndarray, other: SplitPoint) -> float:
        """D(one, other) / omega, where W are the weights of `one`.

        R sum U log(U / U') - U + U' over both parts; log(U / U') differs between them in a sign only, so one product is enough.
        """
        ratio = one.total * (one.log_mass - other.log_mass) - float(np.vdot(W, one.theta - other.theta))
        return self.radius * (ratio - one.total + other.total) / self.omega


@kernel
def entropy_step(loss, codes, p, S, step, out):
    """out_i = log v for argmin_v step (l*(v - e_y; y) - v.S_i) + KL(v, exp(p_i)): the paper's (25) for the hinge."""
    for i in range(codes.shape[0]):
        loss.row_entropy_prox(codes[i], p[i], S[i], step, out[i])


@kernel
def slopes_of_logs(loss, codes, p, out):
    """out_i = exp(p_i) - e_y."""
    for i in range(codes.shape[0]):
        for m in range(p.shape[1]):
            out[i, m] = math.exp(p[i, m])
        out[i, codes[i]] -= 1.0


@kernel(fast_sums=True)
def kl_of_rows(loss, s, p, q):
    """sum_i s_i sum_l exp(p_il) (p_il - q_il)."""
    total = 0.0
    for i in range(p.shape[0]):
        row = 0.0
        for m in range(p.shape[1]):
            row += math.exp(p[i, m]) * (p[i, m] - q[i, m])
        total += s[i] * row
    return total


@dataclass(frozen=True)
class RowEntropy:
    """The potential sum_i s_i sum_l V_il log V_il of rows in the simplex: compatible with the norm 2x1 (paper's (16), (17)).

    A point is log V.
    """

    problem: Any

    @property
    def omega(self) -> float:
        """log k: the largest divergence from the start; the paper's is n times that, as its norm is not weighted."""
        return math.log(self.problem.k)

    def start(self) -> np.ndarray:
        """V = 1 / k."""
        return np.full((self.problem.n, self.problem.k), -math.log(self.problem.k))

    def slopes(self, point: np.ndarray) -> np.ndarray:
        """A = V - Y."""
        out = np.empty_like(point)
        slopes_of_logs(self.problem.loss, self.problem.codes, point, out)
        return out

    def step(self, point: np.ndarray, S: np.ndarray, gamma: float) -> np.ndarray:
        """argmin_V sum_i s_i (l*(V_i - Y_i) - V_i.S_i) + D(V, point) / (2 gamma omega)."""
        out = np.empty_like(point)
        entropy_step(self.problem.loss, self.problem.codes, point, S, 2.0 * gamma * self.omega, out)
        return out

    def divergence(self, one: np.ndarray, other: np.ndarray) -> float:
        """D(one, other) / omega."""
        return float(kl_of_rows(self.problem.loss, self.problem.s, one, other)) / self.omega
