"""Small matrix games with a quadratic term, by an interior-point method: the core of the F-score game.

    min_p max_q  q'A p + f'p + p'H p / 2        p >= 0, E p = e;   q in the simplex

Solutions lie in the middle of the optimal face. That is why it is preferred to a simplex method here: strategies that are spread
are less easily exploited, so that far fewer rounds of column generation are needed (ijcnn1, n = 10,000: 12 rounds instead of 48).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["Strategies", "solve_matrix_game", "solve_plain_game"]

MOST_ITERATIONS = 80
TO_THE_WALL = 0.995  # share of the way to the boundary that a step may go


class Strategies(NamedTuple):
    """Both strategies, the multipliers of E p = e, and the iterations that it took."""

    p: np.ndarray
    q: np.ndarray
    multipliers: np.ndarray
    iterations: int


def solve_plain_game(A: np.ndarray, f: np.ndarray, tol: float) -> Strategies:
    """min_p max_q q'A p + f'p over two simplices: the larger side is eliminated, the smaller makes the linear systems."""
    if A.shape[1] <= A.shape[0]:
        return solve_matrix_game(A, f, tol=tol)
    q, p, multipliers, iterations = solve_matrix_game(-(A + f).T, np.zeros(A.shape[0]), tol=tol)
    return Strategies(p, q, multipliers, iterations)


def solve_matrix_game(
    A: np.ndarray,
    f: np.ndarray,
    H: np.ndarray | None = None,
    E: np.ndarray | None = None,
    e: np.ndarray | None = None,
    tol: float = 1e-9,
) -> Strategies:
    """Both strategies up to `tol` in value, by Mehrotra's predictor and corrector.

    Parameters
    ----------
    A : array of shape (k, m)
        What p pays to q.
    f, H : arrays of shape (m,), (m, m)
        Linear and quadratic cost of p.
    E, e : arrays of shape (c, m), (c,)
        Equations of p; by default its sum is 1. The first row of E is ones.
    tol : float
        Bound on the complementarity and on the residuals.

    Returns
    -------
    Strategies
        p and q are not negative and sum to 1; other equations hold up to `tol`.

    Examples
    --------
    >>> game = np.array([[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    >>> solve_matrix_game(game, np.zeros(3)).p.round(4)
    array([0.3333, 0.4167, 0.25  ])
    """
    k, m = A.shape
    E = np.ones((1, m)) if E is None else E
    e = np.ones(1) if e is None else e
    p, q, s = np.full(m, 1.0 / m), np.full(k, 1.0 / k), np.ones(m)
    t = float((A @ p).max()) + 1.0
    u, nu = t - A @ p, np.zeros(E.shape[0])
    iterations = 0
    for iterations in range(MOST_ITERATIONS):  # noqa: B007
        rd = f + A.T @ q + E.T @ nu - s + (0.0 if H is None else H @ p)
        rt, ru, re = 1.0 - q.sum(), t - A @ p - u, e - E @ p
        mu = float(p @ s + q @ u) / (m + k)
        residual = max(float(np.abs(rd).max()), abs(rt), float(np.abs(ru).max()), float(np.abs(re).max()))
        if mu * (m + k) < tol and (residual < tol or mu * (m + k) < 0.01 * tol):  # residuals may have come down to rounding
            break
        system = _Newton(A, H, E, p, q, s, u)
        dp, dt, dnu, ds, du, dq = system.direction(rd, rt, ru, re, -p * s, -q * u)
        forth, back = min(_room(p, dp), _room(u, du)), min(_room(s, ds), _room(q, dq))
        ahead = float((p + forth * dp) @ (s + back * ds) + (q + back * dq) @ (u + forth * du)) / (m + k)
        target = mu * (ahead / mu) ** 3
        dp, dt, dnu, ds, du, dq = system.direction(rd, rt, ru, re, target - p * s - dp * ds, target - q * u - dq * du)
        forth, back = min(_room(p, dp), _room(u, du)), min(_room(s, ds), _room(q, dq))
        forth, back = min(1.0, TO_THE_WALL * forth), min(1.0, TO_THE_WALL * back)
        if H is not None:  # with curvature both sides share residuals: one step for all
            forth = back = min(forth, back)
        if not np.isfinite(dp).all() or max(forth, back) < 1e-12:
            break  # rounding has the last word; whoever asks evaluates what is returned
        p, u, t = p + forth * dp, u + forth * du, t + forth * dt
        s, q, nu = s + back * ds, q + back * dq, nu + back * dnu
    p, q = np.maximum(p, 0.0), np.maximum(q, 0.0)
    return Strategies(p / p.sum(), q / q.sum(), nu, iterations)


def _room(x: np.ndarray, change: np.ndarray) -> float:
    """The longest step of at most 1 that keeps x >= 0."""
    falls = change < 0.0
    return min(1.0, float((-x[falls] / change[falls]).min())) if falls.any() else 1.0


class _Newton:
    """The linear system of one iteration, reduced to p and bordered by t and the equations; factorised once, used twice."""

    def __init__(
        self,
        A: np.ndarray,
        H: np.ndarray | None,
        E: np.ndarray,
        p: np.ndarray,
        q: np.ndarray,
        s: np.ndarray,
        u: np.ndarray,
    ):
        self.A, self.p, self.q, self.s, self.u = A, p, q, s, u
        weights = q / u
        K = (A.T * weights) @ A
        if H is not None:
            K += H
        diagonal = np.arange(K.shape[0])
        K[diagonal, diagonal] += s / p
        self.factor: Any = _factorised(K, diagonal)
        self.border = np.column_stack([-(A.T @ weights), E.T])
        self.solved = cho_solve(self.factor, self.border, check_finite=False)
        self.schur = self.border.T @ self.solved
        self.schur[0, 0] -= weights.sum()

    def direction(
        self, rd: np.ndarray, rt: float, ru: np.ndarray, re: np.ndarray, ps: np.ndarray, qu: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Changes of p, t, multipliers, s, u, q where s dp + p ds = ps, q du + u dq = qu and residuals vanish."""
        A, p, q, s, u = self.A, self.p, self.q, self.s, self.u
        pushed = (qu - q * ru) / u
        g = cho_solve(self.factor, -rd + ps / p - A.T @ pushed, check_finite=False)
        right = self.border.T @ g - np.concatenate([[pushed.sum() - rt], re])
        y = _solve_small(self.schur, right)
        dp = g - self.solved @ y
        ds, du = (ps - s * dp) / p, y[0] - A @ dp + ru
        return dp, float(y[0]), y[1:], ds, du, (qu - q * du) / u


def _solve_small(S: np.ndarray, right: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.solve(S, right)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(S, right, rcond=None)[0]


def _factorised(K: np.ndarray, diagonal: np.ndarray) -> Any:
    """Cholesky factors, with as much added to the diagonal as rounding asks for."""
    extra = 1e-14 * float(K[diagonal, diagonal].max())
    for _ in range(8):
        try:
            return cho_factor(K, lower=True, check_finite=False)
        except LinAlgError:
            K[diagonal, diagonal] += extra
            extra *= 100.0
    raise ArithmeticError("a matrix game could not be solved: its numbers are not finite or differ too much in size")
