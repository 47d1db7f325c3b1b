"""The geometry of the norm 1x2, the sum of the Euclidean lengths of the rows of W: sparse in features, Euclidean in classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel

__all__ = ["BlockPower"]


@kernel(fast_sums=True)
def shrunk_lengths(loss, C, alpha, out):
    """out_i = the length of soft(C_i, alpha)."""
    for i in range(C.shape[0]):
        total = 0.0
        for m in range(C.shape[1]):
            rest = abs(C[i, m]) - alpha
            total += rest * rest if rest > 0.0 else 0.0
        out[i] = math.sqrt(total)


@kernel
def place_rows(loss, C, alpha, lengths, sizes, out):
    """out_i = -soft(C_i, alpha) scaled to the length sizes_i."""
    for i in range(C.shape[0]):
        scale = sizes[i] / lengths[i] if lengths[i] > 0.0 else 0.0
        for m in range(C.shape[1]):
            rest = abs(C[i, m]) - alpha
            out[i, m] = -math.copysign(rest, C[i, m]) * scale if rest > 0.0 and scale > 0.0 else 0.0


@dataclass(frozen=True)
class BlockPower:
    """The power potential of Nesterov and Nemirovski (2013) in the ball sum_i ||W_i||_2 <= R: compatible with the norm 1x2.

    phi(W) = R^2 / (p gamma) sum_i (||W_i||_2 / R)^p with p = 1 + 1 / ln d, gamma = 1 / (e ln d) (d >= 3). The paper's Appendix E
    pairs it with the norm 1x2 as penalty; the entrywise l1 penalty that is kept here has a closed step too: for a given length the
    best row points along soft(., alpha). A point is W itself.

    Attributes
    ----------
    loss : part
        Any part; it keys the compiled kernels.
    shape : tuple
        Features and classes.
    radius, alpha : float
        Radius of the ball, and strength of the l1 penalty.
    """

    loss: Any
    shape: tuple[int, int]
    radius: float
    alpha: float

    @property
    def power(self) -> float:
        return 1.0 + 1.0 / math.log(self.shape[0]) if self.shape[0] > 2 else 2.0

    @property
    def gamma(self) -> float:
        d = self.shape[0]
        return 1.0 / (math.e * math.log(d)) if d > 2 else 1.0 / d

    @property
    def omega(self) -> float:
        """R^2 / (p gamma): the largest value of the potential, e R^2 ln d but for a factor (paper's Table 2)."""
        return self.radius**2 / (self.power * self.gamma)

    def start(self) -> np.ndarray:
        """W = 0."""
        return np.zeros(self.shape)

    def weights(self, point: np.ndarray) -> np.ndarray:
        return point

    def _slope(self, W: np.ndarray) -> np.ndarray:
        """The gradient of the potential: (R^(2 - p) / gamma) ||W_i||^(p - 2) W_i."""
        lengths = np.sqrt(np.square(W).sum(axis=1, keepdims=True))
        factor = np.divide(1.0, lengths ** (2.0 - self.power), out=np.zeros_like(lengths), where=lengths > 0.0)
        return self.radius ** (2.0 - self.power) / self.gamma * factor * W

    def step(self, point: np.ndarray, gradient: np.ndarray, gamma: float) -> np.ndarray:
        """argmin_W <gradient, W> + alpha ||W||_1 + D(W, point) / (2 gamma omega) over the ball.

        A row has the length ((||soft(C_i, alpha)|| - mu)_+ / kappa)^(1 / (p - 1)), with C = gradient - slope / (2 gamma omega) and
        mu = 0, or the mu for which the lengths sum to R, found by bisection.
        """
        share = 1.0 / (2.0 * gamma * self.omega)
        C = gradient - share * self._slope(point)
        kappa = share * self.radius ** (2.0 - self.power) / self.gamma
        lengths, out = np.empty(self.shape[0]), np.empty(self.shape)
        shrunk_lengths(self.loss, C, self.alpha, lengths)

        def sizes(mu: float) -> np.ndarray:
            base = np.minimum(np.maximum(lengths - mu, 0.0) / kappa, 2.0 * self.radius ** (self.power - 1.0))
            return base ** (1.0 / (self.power - 1.0))

        low, high = 0.0, float(lengths.max())
        size = sizes(0.0)
        if size.sum() > self.radius:
            for _ in range(100):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if sizes(middle).sum() > self.radius else (low, middle)
            size = sizes(high)
        place_rows(self.loss, C, self.alpha, lengths, size, out)
        return out

    def divergence(self, one: np.ndarray, W: np.ndarray, other: np.ndarray) -> float:
        """D(one, other) / omega; `one` and its weights W are the same here."""
        values = [np.sqrt(np.square(point).sum(axis=1)) ** self.power for point in (one, other)]
        scale = self.radius ** (2.0 - self.power) / (self.power * self.gamma)
        change = scale * float(values[0].sum() - values[1].sum())
        return (change - float(np.vdot(self._slope(other), one - other))) / self.omega
