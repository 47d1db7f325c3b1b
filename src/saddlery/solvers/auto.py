"""Which solver for which problem: the table ``auto.json`` is read here, and requests that cannot be served are refused."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any

import numpy as np

from saddlery.errors import UnsupportedError
from saddlery.registry import LOSSES, PENALTIES, SOLVERS
from saddlery.solvers.base import Solver

__all__ = ["Facts", "available", "choose", "holds", "resolve"]


MOST_REMEMBERED = 1000  # choices; then all are forgotten


@functools.cache
def _rules(kind: str = "linear") -> list[dict[str, Any]]:
    """The rules for one kind of problem; of kinds without rules the first able solver of the registry is the best."""
    table = json.loads((files("saddlery.solvers") / "auto.json").read_text())
    return table["rules"] if kind == "linear" else table.get(kind, [])


class Facts:
    """Facts of a problem, each computed when a rule asks for it."""

    def __init__(self, problem: Any):
        self.problem = problem

    @property
    def smooth(self) -> bool:
        return bool(np.isfinite(self.problem.loss.smoothness))

    @property
    def kinks(self) -> bool:
        return not getattr(self.problem.loss, "curvature_is_smooth", False)

    @property
    def quadratic(self) -> bool:
        return getattr(self.problem.loss, "curvature_is_constant", False)

    @property
    def signs(self) -> bool:
        return self.problem.loss.targets == "signs"

    @property
    def strongly_convex(self) -> bool:
        return self.problem.penalty.strong_convexity > 0.0

    @property
    def bounded(self) -> bool:
        return getattr(self.problem.penalty, "bounded", False)

    @property
    def corners(self) -> bool:
        return hasattr(self.problem.penalty, "corners")

    @property
    def ball(self) -> bool:
        return hasattr(self.problem.penalty, "relaxed")

    @property
    def selects(self) -> bool:
        return self.problem.penalty.threshold > 0.0

    @property
    def intercept(self) -> bool:
        return self.problem.fit_intercept

    @property
    def sparse(self) -> bool:
        return self.problem.matrix.is_sparse

    @property
    def partial(self) -> bool:
        return not self.problem.matrix.compiled

    @property
    def n(self) -> int:
        return self.problem.n

    @property
    def d(self) -> int:
        return self.problem.d

    @property
    def cells(self) -> int:
        return self.problem.n * self.problem.d

    @property
    def columns_per_row(self) -> float:
        return self.problem.d / self.problem.n

    @property
    def conditioning(self) -> float:
        problem = self.problem
        if hasattr(problem, "conditioning"):  # rows that are elsewhere
            return problem.conditioning
        if problem.penalty.strong_convexity == 0.0:  # a set
            return float("inf")
        top = float(np.max(problem.s * problem.matrix.row_square_norms))
        return top * problem.loss.smoothness / problem.penalty.strong_convexity

    @property
    def alignment(self) -> float:
        return self.problem.matrix.alignment

    @property
    def overlap(self) -> float:
        return self.problem.matrix.overlap

    @property
    def gram_passes(self) -> float:
        """Cost of the Gram matrix of all columns and of a solution on it, in passes over the data."""
        n, d, entries = self.problem.n, self.problem.d, self.problem.matrix.nnz
        form = 0.78 * entries * (entries / n) if self.problem.matrix.is_sparse else n * d * d / 16.0
        return (form + d**3 / 10.0) / max(entries, 1)

    @property
    def classes_per_row(self) -> float:
        return self.problem.k / self.problem.n

    @property
    def pairs(self) -> int:
        return self.problem.d * self.problem.k

    @property
    def rows_per_pair(self) -> float:
        return self.problem.n / self.pairs

    @property
    def mean_conditioning(self) -> float:
        problem = self.problem
        if problem.penalty.strong_convexity == 0.0:
            return float("inf")
        return float(problem.s**2 @ problem.matrix.row_square_norms) / problem.penalty.strong_convexity


def holds(condition: Any, fact: Any) -> bool:
    """Whether a fact fulfils a condition: a value, or a range [low, high] with None for open ends."""
    if isinstance(condition, list):
        low, high = condition
        return (low is None or fact >= low) and (high is None or fact <= high)
    return fact == condition


_CHOSEN: dict[tuple[Any, ...], str] = {}  # by all facts but the strength, for penalties whose rules do not ask for it


def choose(problem: Any) -> str:
    """The name of the first solver in the table whose rule holds and that can solve `problem`."""
    if problem.kind != "linear":
        return _first_that_holds(problem)
    penalty, selects = problem.penalty, problem.penalty.threshold > 0.0
    kinds = (type(problem.loss), type(penalty), penalty.strong_convexity > 0.0, problem.fit_intercept, problem.matrix.is_sparse)
    key = (*kinds, problem.matrix.compiled, problem.n, problem.d, problem.matrix.nnz)
    name = _CHOSEN.get(key) if selects else None
    if name is None:
        name = _first_that_holds(problem)
        if selects:
            if len(_CHOSEN) >= MOST_REMEMBERED:
                _CHOSEN.clear()
            _CHOSEN[key] = name
    return name


def _first_that_holds(problem: Any) -> str:
    facts = Facts(problem)
    for rule in _rules(problem.kind):
        conditions = rule["when"].items()
        if all(holds(condition, getattr(facts, name)) for name, condition in conditions) and not _missing(problem, rule["solver"]):
            return rule["solver"]
    able = _able(problem)
    if able:
        return able[0]
    needs = (f"{name} needs {' and '.join(_missing(problem, name))}" for name in SOLVERS.names())
    raise UnsupportedError(f"no solver can solve {problem!r}: {'; '.join(needs)}")


def _missing(problem: Any, name: str) -> list[str]:
    return SOLVERS.get(name).needs.missing(problem)


def _able(problem: Any) -> list[str]:
    return [name for name in SOLVERS.names() if not _missing(problem, name)]


def available(problem: Any) -> list[str]:
    """Names of the solvers that can solve `problem`, best first.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[1.0], [-1.0]], [1, -1], loss="logistic", penalty=sd.penalties.L1(0.1))
    >>> available(problem)[0]
    'small_newton'
    """
    able = _able(problem)
    if not able:
        return []
    first = choose(problem)
    return [first, *(name for name in able if name != first)]


def resolve(problem: Any, solver: str | Solver) -> Solver:
    """The solver object for a request; refuses what it cannot serve and names those that can."""
    if solver == "auto":
        return SOLVERS.get(choose(problem))()
    method = solver if isinstance(solver, Solver) else SOLVERS.get(solver)()
    missing = method.needs.missing(problem)
    if missing:
        able = _able(problem)  # in no order: to find the best, data would have to be read
        others = f"these can: {', '.join(able)}" if able else "no solver can"
        what = f"a {problem.kind} problem"
        if problem.kind == "linear":
            what = f"{LOSSES.name_of(problem.loss)} with {PENALTIES.name_of(problem.penalty)}"
        raise UnsupportedError(f"{method.name} cannot solve {what}: it needs {' and '.join(missing)}; {others}")
    return method
