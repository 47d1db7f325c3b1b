"""The best convex combination of zero and a few atoms for a quadratic loss: a small quadratic program, solved exactly."""

from __future__ import annotations

import numpy as np

__all__ = ["best_weights"]

TINY = 1e-13  # slopes below this share of the largest are rounding


def best_weights(gram: np.ndarray, linear: np.ndarray, start: np.ndarray) -> np.ndarray:
    """argmin x' gram x / 2 - linear'x over x >= 0, sum x <= 1, by an active-set method from a feasible `start`.

    On the support of x the equations are solved; if the solution leaves the set, x goes to its border and drops what became 0, else
    the variable with the steepest slope enters, until none has one. The objective falls at every step.

    Parameters
    ----------
    gram : array of shape (k, k)
        Positive semidefinite.
    linear, start : arrays of shape (k,)

    Returns
    -------
    array of shape (k,)

    Examples
    --------
    >>> best_weights(np.eye(2), np.array([2.0, 1.5]), np.zeros(2))
    array([0.75, 0.25])
    """
    x, entered = start.copy(), -1
    support = x > 0.0
    for _ in range(100 + 10 * linear.size):  # far more than it takes: with exact arithmetic no support would come twice
        inside = np.flatnonzero(support)
        target, price = _solve_on(gram[np.ix_(inside, inside)], linear[inside])
        if (target <= 0.0).any():
            now = x[inside]
            low = target <= 0.0
            steps = now[low] / (now[low] - target[low])
            if entered >= 0 and target[inside == entered].max(initial=1.0) <= 0.0:
                return x  # its slope was rounding
            x[inside] = now + steps.min() * (target - now)
            x[inside[low][steps == steps.min()]] = 0.0
            support, entered = x > 0.0, -1
            continue
        x[inside] = target
        slopes = np.where(support, 0.0, linear - gram @ x - price)
        entered = int(slopes.argmax()) if slopes.size else -1
        if entered < 0 or slopes[entered] <= TINY * np.abs(linear).max():
            return x
        support[entered] = True
    return x


def _solve_on(gram: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, float]:
    """argmin over sum x <= 1 without the signs, and the price of that constraint; of several the shortest."""
    x = np.linalg.lstsq(gram, linear, rcond=TINY)[0]
    if x.sum() <= 1.0:
        return x, 0.0
    k = linear.size
    system = np.zeros((k + 1, k + 1))
    system[:k, :k], size = gram, gram.max()
    system[:k, k] = system[k, :k] = size  # of the size of the other entries, or the cut of small singular values would be arbitrary
    solution = np.linalg.lstsq(system, np.append(linear, size), rcond=TINY)[0]
    return solution[:k], float(solution[k] * size)
