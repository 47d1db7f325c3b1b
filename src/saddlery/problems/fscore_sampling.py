"""The scores C_ij of the F-score game as a product of two thin matrices, and estimates of its gradients from single sizes.

``C_ij = (1 + beta^2) i j / (beta^2 i + j)``, i being the true and j the predicted number of positives. With
``1 / x = int exp(-x s) ds`` it is an integral of products of a function of i and one of j; the trapezoidal rule in log s
converges so fast that
some hundred nodes give all digits, and a singular value decomposition leaves 10 to 30 of them. For beta = 1 the matrix is positive
semidefinite; for other beta it is not even symmetric, but of low rank all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saddlery.errors import InputError
from saddlery.problems.couplings import Snapshot, draw_from, probabilities_of

if TYPE_CHECKING:
    from saddlery.problems.fscore import FScoreProblem

__all__ = ["ScoreFactors", "TableSampling", "score_factors"]

SPACING = 0.3  # of the nodes in log s: an error of exp(-2 pi^2 / 0.3) at most
SMALL = 1e-15


class ScoreFactors(NamedTuple):
    """C = true @ predicted.T."""

    true: np.ndarray
    predicted: np.ndarray


def score_factors(n: int, beta2: float) -> ScoreFactors:
    """C for sizes 1, ..., n in thin factors.

    Examples
    --------
    >>> factors = score_factors(3, 1.0)
    >>> (factors.true @ factors.predicted.T).round(6)[0]
    array([1.      , 1.333333, 1.5     ])
    """
    i = np.arange(1.0, n + 1.0)
    low, high = np.log(1e-17 / (n * (1.0 + beta2))), np.log(45.0 / (1.0 + beta2))
    nodes = np.arange(low, high + SPACING, SPACING)
    s = np.exp(nodes)
    weights = np.sqrt((1.0 + beta2) * SPACING * s)
    # in units of sqrt(i j), where all scores have the size of one, so that small sizes are as exact as large ones
    left = np.sqrt(i)[:, None] * np.exp(-beta2 * np.outer(i, s)) * weights
    right = np.sqrt(i)[:, None] * np.exp(-np.outer(i, s)) * weights
    (q1, r1), (q2, r2) = np.linalg.qr(left), np.linalg.qr(right)
    u, sizes, v = np.linalg.svd(r1 @ r2.T)
    rank = max(int(np.count_nonzero(sizes > SMALL * sizes[0])), 1)
    root = np.sqrt(i)[:, None]
    return ScoreFactors(root * (q1 @ (u[:, :rank] * sizes[:rank])), root * (q2 @ v[:rank].T))


class TableSampling:
    """Gradients from the rows of one size: ``C x = sum_j C_:j x_j`` is estimated by ``C_:j x_j / p_j``; the rest is exact.

    ``scheme="independent"`` draws a size for each player; ``"rows"``, the paper's (c), draws one for both: the adversary sees the
    predictions of this size only, and of the predictor this row alone is moved, by n times its gradient.
    """

    def __init__(self, problem: FScoreProblem, scheme: str, kind: str):
        if scheme not in problem.schemes:
            raise InputError(f"scheme must be one of {', '.join(problem.schemes)}, not {scheme!r}")
        self.problem, self.scheme = problem, scheme
        self.C = problem.scores.true @ problem.scores.predicted.T
        self.p = probabilities_of(np.linalg.norm(self.C, axis=1), kind)
        self.q = probabilities_of(np.linalg.norm(self.C, axis=0), kind)
        self.components, self.cost = problem.n, 2.0 * problem.n

    def draw(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """True and predicted sizes (from 0) of `count` steps."""
        j = draw_from(self.q, rng, count)
        return (j if self.scheme == "rows" else draw_from(self.p, rng, count)), j

    def gradients(self, draws: Any, t: int, x: np.ndarray, y: np.ndarray, snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray]:
        """Estimates of both gradients."""
        i = draws[0][t]
        change = y - snapshot.y
        vx = snapshot.gx - change.sum()
        if self.scheme == "rows":
            vx[i] -= (self.C[:, i] @ change) / self.q[i]
        else:
            vx -= np.outer(self.C[i] / self.p[i], change[i])
        return vx, self.gradient_y(draws, t, x, y, snapshot)

    def gradient_y(self, draws: Any, t: int, x: np.ndarray, y: np.ndarray, snapshot: Snapshot) -> np.ndarray:
        """The estimate of the gradient of the adversary."""
        j = draws[1][t]
        pull = self.problem.pull(y) - self.problem.pull(snapshot.y)
        vy = snapshot.gy - (x - snapshot.x).sum() + np.outer(self.problem.sizes, pull)
        vy -= np.outer(self.C[:, j] / self.q[j], x[j] - snapshot.x[j])
        return vy
