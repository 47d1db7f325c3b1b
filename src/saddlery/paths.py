"""A path: the same problem for many strengths of the penalty, each solution the start of the next.

(The module is not called ``path``: it would then hide the function ``saddlery.path`` as soon as anything imported it.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.matrix import ROOM
from saddlery.problems.linear import LinearProblem
from saddlery.solvers.at_once import may_be_at_once, solutions_at_once
from saddlery.solvers.auto import resolve
from saddlery.solvers.base import Record, Solution, Solver, Status
from saddlery.solvers.loop import Handover, generator_for, solve
from saddlery.threads import small_products_on_one_thread

__all__ = ["PathResult", "alpha_grid", "path"]

WORTH_COLUMNS = 4  # strengths: from here on a copy of the data by columns pays on wide data (folds of news20: 1.33 -> 0.98 s)


@dataclass
class PathResult:
    """What :func:`saddlery.path` returns: m solutions, from the largest to the smallest strength.

    Attributes
    ----------
    alphas : array of shape (m,)
        Strengths of the penalty.
    coefs : array of shape (m, d)
        Weights, one row for each strength.
    intercepts : array of shape (m,)
        Intercepts.
    solutions : list of Solution
        The solutions with their dual points, traces and costs. Their weights are rows of `coefs`.
    """

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    solutions: list[Solution]

    @property
    def certificates(self) -> list[Certificate]:
        """The certificate of each solution."""
        return [solution.certificate for solution in self.solutions]

    @property
    def statuses(self) -> list[Status]:
        """How each solve ended."""
        return [solution.status for solution in self.solutions]

    @property
    def nonzeros(self) -> np.ndarray:
        """Number of weights that are not zero, for each strength."""
        return np.count_nonzero(self.coefs, axis=1)

    def __len__(self) -> int:
        return len(self.solutions)


def alpha_grid(problems: Sequence[LinearProblem], n_alphas: int = 100, alpha_min_ratio: float | None = None) -> np.ndarray:
    """Strengths on a logarithmic grid, from the one at which all weights are zero downwards.

    A penalty without an l1 part never makes weights zero. Its grid starts where it outweighs the loss, at an upper bound on the
    largest eigenvalue of the Hessian of the loss, which shrinks every direction at least by half.

    Parameters
    ----------
    problems : sequence of LinearProblem
        One or more problems that are to share a grid, such as those of the classes of one-vs-rest.
    n_alphas : int
        Number of strengths.
    alpha_min_ratio : float, optional
        Smallest strength as a part of the largest; by default 1e-3, or 1e-5 for a penalty without an l1 part.

    Returns
    -------
    array of shape (n_alphas,)
        From large to small.
    """
    if n_alphas < 1:
        raise InputError(f"n_alphas must be 1 or more, not {n_alphas!r}")
    sparse = all(problem.penalty.threshold > 0.0 for problem in problems)
    ratio = (1e-3 if sparse else 1e-5) if alpha_min_ratio is None else float(alpha_min_ratio)
    if not 0.0 < ratio < 1.0:
        raise InputError(f"alpha_min_ratio must lie between 0 and 1, not {alpha_min_ratio!r}")
    top = max(problem.alpha_max() if sparse else _curvature_bound(problem) for problem in problems)
    if not top > 0.0:
        raise InputError("no column of X tells anything about y, so all weights are zero for every alpha: check X, or give alphas")
    return np.geomspace(top, top * ratio, n_alphas) if n_alphas > 1 else np.array([top])


def _curvature_bound(problem: LinearProblem) -> float:
    """``smoothness * sum_i s_i ||x_i||^2``, which bounds the Hessian of the loss (smoothness 1 for losses that have none)."""
    smoothness = problem.loss.smoothness if math.isfinite(problem.loss.smoothness) else 1.0
    return smoothness * float(problem.s @ problem.matrix.row_square_norms)


def path(
    problem: LinearProblem,
    alphas: Any = None,
    n_alphas: int = 100,
    alpha_min_ratio: float | None = None,
    solver: str | Solver = "auto",
    tol: float = 1e-6,
    max_epochs: int = 1000,
    max_seconds: float | None = None,
    start: Any = None,
    random_state: Any = 0,
    callbacks: Iterable[Callable[[Record], Any]] = (),
    on_solution: Callable[[float, Solution], Any] | None = None,
) -> PathResult:
    """Solve a problem for many strengths of its penalty, from large to small, each certified.

    Every solve starts from the primal and the dual point of the one before it.

    Parameters
    ----------
    problem : LinearProblem
        Data, loss and penalty. Of the penalty only its kind counts (and its l1_ratio), not its strength.
    alphas : array of shape (m,), optional
        Strengths, positive; they are sorted from large to small. By default a grid, see :func:`alpha_grid`.
    n_alphas, alpha_min_ratio : int, float
        Size and extent of the default grid, which starts at the smallest strength for which all weights are zero and ends at
        `alpha_min_ratio` times it (1e-3, or 1e-5 for a penalty without an l1 part).
    solver, tol, max_epochs, max_seconds, random_state
        As for :func:`saddlery.solve`; budgets are for each strength.
    start : Solution, Point or (w, b, dual), optional
        Where to start at the largest strength.
    callbacks : iterable of callables
        Called with each record of each solve; a true answer ends the path.
    on_solution : callable, optional
        Called with each strength and its solution; a true answer ends the path.

    Returns
    -------
    PathResult
        After Ctrl-C or a true answer of a callback: the solutions so far, with a status that says so.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 6))
    >>> problem = sd.LinearProblem(X, X[:, 0] - X[:, 1], loss="squared", penalty=sd.penalties.L1(1.0))
    >>> result = sd.path(problem, n_alphas=5)
    >>> result.coefs.shape, result.nonzeros[0], result.nonzeros[-1] >= 2
    ((5, 6), np.int64(0), np.True_)
    >>> max(certificate.relative_gap for certificate in result.certificates) <= 1e-6
    True
    """
    if getattr(problem.penalty, "bounded", False):
        raise InputError(
            f"a path is over strengths alpha, but {problem.penalty!r} is a constraint of a fixed size: solve one by one"
        )
    grid = alpha_grid([problem], n_alphas, alpha_min_ratio) if alphas is None else check_alphas(alphas)
    coefs = np.zeros((grid.size, problem.d))
    solutions: list[Solution] = []
    stops: list[Record] = []
    listeners = tuple(callbacks)

    def listen(record: Record) -> bool:
        answers = [callback(record) for callback in listeners]
        if any(answers):
            stops.append(record)  # the status will not tell if the solve has converged at the same time
        return bool(stops)

    options = {
        "tol": tol,
        "max_epochs": max_epochs,
        "max_seconds": max_seconds,
        "random_state": random_state,
        "callbacks": (listen,) if listeners else (),
    }
    with small_products_on_one_thread(problem.matrix.nnz):
        each = _solved(problem, grid, solver, start, options)
        try:
            for row, alpha, solution in zip(coefs, grid, each, strict=True):
                row[:] = solution.w
                # A state holds copies of much that is here already, but the next solve may want it.
                solutions.append(solution if solution.state is None else replace(solution, state=None))
                solutions[-1].w = row
                enough = on_solution is not None and on_solution(float(alpha), solutions[-1])
                if enough or stops or solution.status is Status.INTERRUPTED:
                    break
        except KeyboardInterrupt:  # between two solves: these return what they have
            if not solutions:
                raise
            solutions[-1] = replace(solutions[-1], status=Status.INTERRUPTED)
    done = len(solutions)
    return PathResult(grid[:done], coefs[:done], np.array([solution.b for solution in solutions]), solutions)


def wants_columns(matrix: Any, penalty: Any, strengths: int) -> bool:
    """Whether a path of so many strengths, or as many problems on the same data, are worth a copy of them by columns."""
    wide = matrix.shape[1] > matrix.shape[0] / 4 and matrix.nnz <= ROOM and matrix.compiled
    return wide and strengths >= WORTH_COLUMNS and penalty.threshold > 0.0


def _solved(
    problem: LinearProblem, grid: np.ndarray, solver: str | Solver, start: Any, options: dict[str, Any]
) -> Iterator[Solution]:
    """The solutions for all strengths, each the start of the next; those that can be had together are."""
    if wants_columns(problem.matrix, problem.penalty, grid.size):
        _ = problem.matrix.cols  # most rounds will then read a few columns only
    first = resolve(problem, solver)
    if problem.penalty.strong_convexity == 0.0:
        solver = first  # no rule of the choice asks how strong an l1 penalty is
    rest = grid
    seconds = math.inf if options["max_seconds"] is None else options["max_seconds"]
    at_once = may_be_at_once(problem, first, grid.size, options["tol"], False, options["max_epochs"], seconds)
    if at_once and start is None and not options["callbacks"]:
        rng = generator_for(first, options["random_state"])
        known, state = solutions_at_once(problem, first, grid / problem.penalty.alpha, options["tol"], rng)
        done = next((k for k, solution in enumerate(known) if solution.status is not Status.CONVERGED), len(known))
        yield from known[:done]
        if done == grid.size:
            return
        rest, start = grid[done:], Handover(replace(known[-1], state=state))
    _ = problem.scale, problem.constant_gradient, problem._dual_at_zero  # shared by the problems of all strengths
    for alpha in rest:
        single = problem.with_penalty(problem.penalty.scaled(alpha / problem.penalty.alpha))
        solution = solve(single, solver, start=start, **options)
        yield solution
        start = Handover(solution)


def check_alphas(alphas: Any) -> np.ndarray:
    """Strengths as an array from large to small; refuses what is not positive."""
    try:
        values = np.array(alphas, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"alphas must hold numbers: {error}") from error
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"alphas must be a list of at least one number, not an array of shape {values.shape}")
    if not ((values > 0.0) & np.isfinite(values)).all():
        raise InputError(f"alphas must be positive numbers, not {values[~((values > 0.0) & np.isfinite(values))][0]:g}")
    return np.sort(values)[::-1]
