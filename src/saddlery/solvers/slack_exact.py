"""Exact solutions of the SVM in the form of a game: ordinary SVMs for a few strengths, until the slack is the one asked for.

All forms trace the same path. Where w, b, a solve the hinge with l2 of strength alpha, w / ||w|| and a / sum_i s_i abs(a_i) solve

- the capped form with slack sum_i s_i abs(a_i), which rises with alpha and is piecewise linear in it,
- the budget form with slack (mean hinge) / ||w||, which rises with alpha too.

So a root search for alpha remains. Duals are linear between two ends on the same piece, hence the mix of the two nearest ends is
the solution as soon as nothing changes sides between them. The translations are those of ``problems/svm_translations.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlery.losses.hinge import Hinge
from saddlery.penalties.l2 import L2
from saddlery.point import Point
from saddlery.problems.linear import LinearProblem
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.simba import classes_of

__all__ = ["SlackExact", "hinge_problem"]

WIDEN, PATIENCE = 8.0, 3  # factor of alpha while there is no bracket; its square after so many steps
MOST_EPOCHS = 1000  # of an ordinary SVM: what cannot be solved better is good enough for the ends
FIRST, FINEST = 1e-4, 1e-14  # tolerances of the ordinary SVMs: the first, and the smallest
WEAKEST = 1e-12  # alpha in units of a squared row: what is asked for cannot be reached then
EXACT = 1e-13  # of the slack
# Solvers of ordinary SVMs that end some digits before rounding, without and with an intercept.
INEXACT = {False: ("interior_point",), True: ("interior_point", "active_sdca")}


class _End(NamedTuple):
    """An ordinary SVM that was solved: strength, slack, dual point, X'(s a), and w with X w, scaled to what the slack can pay."""

    alpha: float
    slack: float
    a: np.ndarray
    Xta: np.ndarray
    w: np.ndarray
    Xw: np.ndarray
    tol: float


class _Search:
    """The search for one problem."""

    def __init__(self, problem: Any):
        self.low: _End | None = None
        self.high: _End | None = None
        self.last: Any = None
        self.done, self.kept, self.side = False, 1.0, 0
        self.tol, self.steps = FIRST, 0
        self.square = 0.0
        self.point = Point(np.zeros(problem.d), 0.0, None)


class _State(State):
    def __init__(self, problem: Any, rng: np.random.Generator):
        self.rng, self.solves = rng, 0
        self.searches = [_Search(each) for each in classes_of(problem)]

    @property
    def counts(self) -> dict[str, float]:
        return {"solves": float(self.solves)}


def hinge_problem(problem: Any, alpha: float = 1.0) -> LinearProblem:
    """The ordinary SVM on the same data: hinge loss, ``alpha / 2 ||w||^2``.

    Examples
    --------
    >>> import saddlery as sd
    >>> hinge_problem(sd.SlackSVMProblem([[1.0], [-1.0]], [1, -1], 0.5), 0.1).penalty
    L2(alpha=0.1)
    """
    return LinearProblem(problem.matrix, problem.y, Hinge(), L2(alpha), problem.s, problem.fit_intercept)


@dataclass(frozen=True)
class UncappedNeeds(Needs):
    """Slacks without a bound: ordinary SVMs have none."""

    def missing(self, problem: Any) -> list[str]:
        if problem.kind not in self.kinds:
            return [f"a {' or '.join(self.kinds)} problem (this is a {problem.kind} problem)"]
        phrases = [] if math.isinf(getattr(problem, "cap", math.inf)) else ["slacks without a cap"]
        if any(np.ptp(each.y[each.s > 0.0]) == 0.0 for each in classes_of(problem)):
            phrases.append("rows of both classes")
        return phrases


@dataclass(frozen=True)
class SlackExact(Solver):
    """Root search over the strength of ordinary SVMs, each solved by the best solver for it; an epoch is one of them."""

    name = "slack_exact"
    paper = "the nu-SVM's path (Schoelkopf et al. 2000); piecewise linear as in Hastie et al. 2004"
    needs = UncappedNeeds(kind=("slack_svm", "slack_svm_classes"), partial=True)

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        return _State(problem, rng)

    def step(self, problem: Any, state: _State) -> None:
        for search, each in zip(state.searches, classes_of(problem), strict=True):
            if not search.done:
                self._advance(each, search, state)
        state.stalled = all(search.done for search in state.searches)

    def point(self, problem: Any, state: _State) -> Point:
        points = [search.point for search in state.searches]
        if not hasattr(problem, "classes"):
            return points[0]
        columns = zip(*[(each.w, np.zeros(problem.n) if each.dual is None else each.dual) for each in points], strict=True)
        w, dual = (np.stack(column, axis=1) for column in columns)
        return Point(w, np.array([each.b for each in points]), dual)

    # -- pieces

    def _advance(self, problem: Any, search: _Search, state: _State) -> None:
        """Solve one more ordinary SVM and look between the ends."""
        from saddlery.solvers.auto import available
        from saddlery.solvers.loop import solve

        if search.last is None:
            search.square = float(problem.s @ problem.matrix.row_square_norms) or 1.0
            state.accesses += problem.size
        alpha = self._next(problem, search)
        inner = hinge_problem(problem, alpha)
        start = None if search.last is None else (search.last.w, search.last.b, search.last.dual)
        exact = next(name for name in available(inner) if name not in INEXACT[problem.fit_intercept])
        solution = solve(inner, exact, tol=search.tol, max_epochs=MOST_EPOCHS, start=start, random_state=state.rng)
        search.last = solution
        state.solves += 1
        search.steps += 1
        Xta = problem.matrix.rmatvec(problem.s * solution.dual)
        Xw = problem.margins(solution.w)
        state.accesses += (solution.passes + 3.0) * problem.size
        self._place(problem, search, self._end(problem, solution, alpha, Xw, Xta, search.tol))
        search.tol = max(FINEST, min(0.1 * search.tol, 1e-3 * state.relative_gap))
        search.point = self._between(problem, search)

    def _end(self, problem: Any, solution: Any, alpha: float, Xw: np.ndarray, Xta: np.ndarray, tol: float) -> _End:
        """The slack that an ordinary SVM stands for, and its w on the sphere, or inside where the budget pays for no more."""
        size = float(np.linalg.norm(solution.w))
        risk = float(problem.s @ np.maximum(1.0 - problem.y * (Xw + solution.b), 0.0))
        scale = 1.0 / size if size > 0.0 else 0.0
        slack = float(problem.s @ np.abs(solution.dual))
        if problem.form == "budget":
            slack = risk / size if size > 0.0 else math.inf
            if 0.0 < problem.slack < scale * risk:
                scale = problem.slack / risk
        return _End(alpha, slack, solution.dual, Xta, scale * solution.w, scale * Xw, tol)

    def _place(self, problem: Any, search: _Search, end: _End) -> None:
        """The end is the new lower or upper one; the search is over where it hits, or where nothing weaker makes sense."""
        miss = end.slack - problem.slack
        side = 1 if miss > 0.0 else -1
        search.kept = 0.5 * search.kept if side == search.side else 1.0
        search.side = side
        if side > 0:
            search.high = end
            if search.low is not None and search.low.alpha >= end.alpha:
                search.low = None
        else:
            search.low = end
            if search.high is not None and search.high.alpha <= end.alpha:
                search.high = None
        found = abs(miss) <= EXACT * max(problem.slack, 1e-300) and end.tol <= 100.0 * FINEST
        narrow = search.low is not None and search.high is not None and search.high.alpha <= search.low.alpha * (1.0 + 1e-13)
        weakest = side > 0 and end.alpha <= WEAKEST * search.square and end.tol <= 100.0 * FINEST
        search.done = found or narrow or weakest

    def _next(self, problem: Any, search: _Search) -> float:
        """Regula falsi in the Illinois form between the ends, other powers of 8 before."""
        low, high, target = search.low, search.high, problem.slack
        if low is None and high is None:
            return 1e-2 * search.square
        if low is None:
            assert high is not None
            if abs(high.slack - target) <= EXACT * target:  # it hits already, solved loosely
                return high.alpha
            factor = WIDEN if search.steps <= PATIENCE else WIDEN**2
            return max(high.alpha / factor, WEAKEST * search.square)
        if high is None:
            return low.alpha if abs(low.slack - target) <= EXACT * target else low.alpha * WIDEN
        if not (math.isfinite(high.slack) and high.alpha < 16.0 * low.alpha):
            return math.sqrt(low.alpha * high.alpha)
        below, above = low.slack - target, high.slack - target
        if search.side > 0:
            below *= search.kept
        else:
            above *= search.kept
        share = -below / (above - below)
        return low.alpha + min(max(share, 1e-3), 1.0 - 1e-3) * (high.alpha - low.alpha)

    def _between(self, problem: Any, search: _Search) -> Point:
        """The dual point with the right slack between the ends; w along -X'(s a), or that of an end if it is better."""
        low, high = search.low, search.high
        ends = [end for end in (low, high) if end is not None]
        if low is None or high is None or not math.isfinite(high.slack):
            a, Xta = ends[0].a, ends[0].Xta
        else:
            t = (problem.slack - low.slack) / (high.slack - low.slack)
            a, Xta = low.a + t * (high.a - low.a), low.Xta + t * (high.Xta - low.Xta)
        points = [Point(end.w, 0.0, a, Xw=end.Xw) for end in ends]
        norm = float(np.linalg.norm(Xta))
        if norm > 0.0:
            points.append(Point(-Xta / norm, 0.0, a, Xw=problem.margins(-Xta / norm)))
        points = [problem.complete(point) for point in points]
        return max(points, key=lambda point: problem.value(point.Xw, point.b))._replace(Xw=None)
