"""The Euclidean geometry of rows in the simplex: steps are proxes in the usual sense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.parts import kernel

__all__ = ["RowEuclidean"]


@kernel
def euclidean_step(loss, codes, A, S, step, row, out):
    """out_i = argmin_a step (l*(a; y) - a.S_i) + ||a - A_i||^2 / 2; `row` is room for one row."""
    for i in range(codes.shape[0]):
        for m in range(row.shape[0]):
            row[m] = A[i, m] + step * S[i, m]
        loss.row_dual_prox(codes[i], row, step, out[i])


@dataclass(frozen=True)
class RowEuclidean:
    """The potential sum_i s_i ||V_i||^2 / 2 of rows in the simplex: compatible with the norm 2x2 (paper's Appendix E, Table 2).

    A point is A = V - Y.
    """

    problem: Any

    @property
    def omega(self) -> float:
        """(1 - 1 / k) / 2: the largest divergence from the start; the paper gives it up to a factor, times n."""
        return 0.5 * (1.0 - 1.0 / self.problem.k)

    def start(self) -> np.ndarray:
        """V = 1 / k."""
        A = np.full((self.problem.n, self.problem.k), 1.0 / self.problem.k)
        A[np.arange(self.problem.n), self.problem.codes] -= 1.0
        return A

    def slopes(self, point: np.ndarray) -> np.ndarray:
        """A = V - Y."""
        return point

    def step(self, point: np.ndarray, S: np.ndarray, gamma: float) -> np.ndarray:
        """argmin_V sum_i s_i (l*(V_i - Y_i) - V_i.S_i) + D(V, point) / (2 gamma omega)."""
        out, room = np.empty_like(point), np.empty(self.problem.k)
        euclidean_step(self.problem.loss, self.problem.codes, point, S, 2.0 * gamma * self.omega, room, out)
        return out

    def divergence(self, one: np.ndarray, other: np.ndarray) -> float:
        """D(one, other) / omega."""
        return 0.5 * float(self.problem.s @ np.square(one - other).sum(axis=1)) / self.omega
