"""The fair rival of all methods that read only some of the data: take some rows, solve exactly on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.solvers.base import Solution
from saddlery.solvers.loop import solve

__all__ = ["subsampled"]


def subsampled(problem: Any, rows: int, random_state: Any = 0, solver: Any = "auto", **options: Any) -> tuple[Solution, float]:
    """Solve a linear problem exactly on some of its rows, drawn without replacement.

    Parameters
    ----------
    problem : LinearProblem
        Such as the hinge with l2; data may be read in parts.
    rows : int
        How many rows to take.
    random_state : int or Generator
        Seed of the draw and of the solver.
    solver, **options
        For :func:`saddlery.solve`.

    Returns
    -------
    solution : Solution
        Of the problem on these rows; its certificate is one of that problem.
    accesses : float
        Entries of X that were read: those of the rows.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> X, y = np.eye(4), np.array([1.0, 1.0, -1.0, -1.0])
    >>> problem = sd.LinearProblem(X, y, "hinge", sd.penalties.L2(0.1))
    >>> solution, accesses = subsampled(problem, 3)
    >>> accesses, solution.status.name
    (12.0, 'CONVERGED')
    """
    if not 1 <= rows <= problem.n:
        raise InputError(f"rows must be between 1 and {problem.n}, not {rows!r}")
    rng = np.random.default_rng(random_state)
    index = np.sort(rng.permutation(problem.n)[:rows])
    present = problem.y[index]
    if problem.loss.targets == "signs" and present.min() == present.max():  # one row of the other class, or nothing could be fitted
        others = np.flatnonzero(problem.y != present[0])
        index[0] = rng.choice(others)
        index.sort()
    part = problem.take_rows(index)
    return solve(part, solver, random_state=rng, **options), float(part.size)
