"""The one loop: it alone owns time, budgets, certificates, callbacks and interruption.

Certificates are computed when the solver has read about nine times as many entries of X as the check will read, so they take
about a tenth of the work, and earlier if the solver or the last two let expect that the tolerance is reached; what is at hand
(``Point.Xw``, ``Point.Xta``) is free. The schedule counts entries and not seconds, so that the same seed gives the same trace. The
best primal and the best dual point are kept apart: any two of them certify each other. Before a run ends as converged its
certificate is computed afresh from the data.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.point import Point
from saddlery.solvers.at_once import may_be_at_once, solutions_at_once
from saddlery.solvers.auto import resolve
from saddlery.solvers.base import Record, Solution, Solver, State, Status, Trace
from saddlery.solvers.latest import Latest, latest
from saddlery.threads import small_products_on_one_thread

__all__ = ["Handover", "generator_for", "solve"]

ONE = np.ones(1)
WRITTEN = frozenset({"solver", "best", "tol", "access_limit"})  # by the loop, into every state; a solver's own would be lost

CHECK_SHARE = 9.0
FAR = 0.1  # the largest tolerance at which zero may go without a certificate
QUIET = 16  # most epochs without a certificate of a solver that foresees its gaps
NEARLY = 1.2  # times the tolerance: the gap expected by a solver at which it is worth a certificate


class _Best:
    """The best primal and the best dual point so far."""

    reads, counts = 0.0, MappingProxyType[str, float]({})  # exact certificates are not counted

    def __init__(self) -> None:
        self.primal, self.dual = np.inf, -np.inf
        self.w: Any = None
        self.b: Any = 0.0
        self.a: Any = None
        self.Xw: Any = None
        self.Xta: Any = None
        self.aux: Any = None
        self.proven = (False, False)  # whether primal and dual value were computed from nothing but data and points

    def update(self, problem: Any, point: Point) -> None:
        if hasattr(problem, "complete"):  # what follows from w is not left to the solver, such as the best intercept
            point = problem.complete(point)
        primal, dual = problem.evaluate(point)
        plain = point.aux is None and getattr(problem, "evaluates_from_data", False)
        known = point.dual is not None and point.Xta is not None and not point.fresh  # a product kept by increments
        from_data = (plain and point.Xw is None and point.loss is None, plain and not known)
        if primal < self.primal:
            self.proven = (from_data[0], self.proven[1])
            self.primal, self.w = primal, copy.copy(point.w)
            self.Xw = point.Xw.copy() if point.exact else None
            self.aux = copy.copy(point.aux) if getattr(problem, "aux_is_primal", False) else None
            self.b = point.b.copy() if isinstance(point.b, np.ndarray) and point.b.ndim else float(point.b)
        if dual.value > self.dual:
            self.proven = (self.proven[0], from_data[1])
            self.dual, self.a = dual.value, copy.copy(dual.a)
            self.Xta = dual.Xta if point.fresh else None

    def certificate(self, problem: Any) -> Certificate:
        return problem.certificate(self.primal, self.dual, self.a)

    def confirm(self, problem: Any) -> Certificate:
        """The certificate of the best points, recomputed from the data where it was not computed from them in the first place."""
        if all(self.proven):
            return self.certificate(problem)
        if self.proven[1] and self.aux is None:  # the dual value stands: no other would come out
            self.primal = problem.primal(self.w, self.b, self.Xw)
            return self.certificate(problem)
        if self.proven[0] and hasattr(problem, "dual_point"):
            dual = problem.dual_point(self.a, self.Xta)
        else:
            self.primal, dual = problem.evaluate(Point(self.w, self.b, self.a, self.Xw, self.Xta, aux=self.aux))
        self.dual, self.a, self.Xta = dual.value, dual.a, dual.Xta
        return self.certificate(problem)


class _Schedule:
    """When to certify: after the first two epochs, then when it is cheap, or when the gap should have come down to `tol`."""

    def __init__(self, tol: float):
        self.tol, self.work, self.wait, self.quiet = tol, 0.0, math.inf, 0
        self.last = (0.0, math.inf)

    def is_due(self, epoch: int, work: float, cost: float, forecast: float | None) -> bool:
        self.work += work
        self.quiet += 1
        if forecast is not None:
            return self.quiet >= QUIET or forecast <= NEARLY * self.tol
        since = self.work - self.last[0]
        return epoch <= 2 or since >= CHECK_SHARE * cost or since >= max(cost, self.wait)

    def checked(self, gap: float) -> None:
        """Expect the gap to go on falling by the same factor for the same work."""
        work, before = self.last
        self.last, self.wait, self.quiet = (self.work, gap), math.inf, 0
        if math.isfinite(before) and self.tol < gap < before and self.tol > 0.0:
            self.wait = (self.work - work) * math.log(gap / self.tol) / math.log(before / gap)


class Handover(NamedTuple):
    """A start from the solution of the same data under another penalty, whose state may be used up."""

    solution: Solution


def _as_start(problem: Any, start: Any) -> Point | None:
    """A start point from a Solution, a Point, or a tuple (w, b, dual) with None for what is unknown."""
    if start is None:
        return None
    if isinstance(start, Handover):
        start = start.solution
    if isinstance(start, Solution):
        start = (start.w, start.b, start.dual)
    w, b, dual = (*tuple(start)[:3], None, None)[:3]
    return problem.as_point(w, b, dual)


def generator_for(method: Solver, random_state: Any) -> np.random.Generator | None:
    """The generator of a run; None for a solver that draws nothing."""
    return _as_generator(random_state) if method.random else None


def _as_generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def solve(
    problem: Any,
    solver: str | Solver = "auto",
    tol: float = 1e-6,
    max_epochs: int = 1000,
    max_seconds: float | None = None,
    start: Any = None,
    random_state: Any = 0,
    callbacks: Iterable[Callable[[Record], Any]] = (),
    max_accesses: float | None = None,
    certificate: Any = "exact",
) -> Solution:
    """Solve a problem until its relative gap is certified to be at most `tol`.

    Parameters
    ----------
    problem : LinearProblem, CompletionProblem or another
        What to solve.
    solver : str or Solver
        A name, a solver with options, or ``"auto"``: chosen from facts of the problem.
    tol : float
        Bound on the relative gap; means the same for every solver.
    max_epochs : int
        Budget in epochs: sweeps of a coordinate method, rounds of a working-set method.
    max_seconds : float, optional
        Budget in seconds, looked at after each epoch.
    start : Solution, Point, (w, b, dual) or State, optional
        Where to start. A `State` of the same solver goes on exactly where that run stopped.
    random_state : int, Generator or None
        Seed. The same seed gives the same trace.
    callbacks : iterable of callables
        Called with each :class:`~saddlery.solvers.base.Record`; a true answer stops the run.
    max_accesses : float, optional
        Budget in entries of X that the solver reads, looked at after each epoch; exact certificates are not counted.
    certificate : {"exact", "sampled", None} or a sample
        Exact certificates read all of X. ``"sampled"`` (for problems that have it) reads some rows once, counted, and holds with
        a probability that the certificate states; None asks for none. In these two cases the last point is returned, not the best.

    Returns
    -------
    Solution
        Also after Ctrl-C: the best certified point so far, with a status that says so.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, -1.0, 1.0])
    >>> problem = sd.LinearProblem(X, y, loss=sd.losses.Logistic(), penalty=sd.penalties.L1(0.01))
    >>> solution = sd.solve(problem, tol=1e-6)
    >>> solution.status, solution.certificate.relative_gap <= 1e-6
    (<Status.CONVERGED: 'certified to the tolerance'>, True)
    """
    if not tol >= 0.0:
        raise InputError(f"tol must be 0 or more, not {tol!r}")
    if max_epochs < 0 or (max_seconds is not None and max_seconds < 0) or (max_accesses is not None and max_accesses < 0):
        raise InputError("max_epochs, max_seconds and max_accesses must be 0 or more")
    method = resolve(problem, solver)
    if isinstance(start, State) and start.solver != method.name:
        raise InputError(f"the state is one of {start.solver}: go on with solver={start.solver!r}, or start from its solution")
    with small_products_on_one_thread(problem.size):
        budget = (max_epochs, math.inf if max_seconds is None else max_seconds, math.inf if max_accesses is None else max_accesses)
        exact = isinstance(certificate, str) and certificate == "exact"
        best = _Best() if exact else latest(problem, certificate, _as_generator(random_state))
        return _Run(problem, method, best, tol, callbacks).solution(start, random_state, budget)


class _Run:
    """One run of a solver: where it stands, what was certified so far, and what it has cost."""

    def __init__(
        self, problem: Any, method: Solver, best: _Best | Latest, tol: float, callbacks: Iterable[Callable[[Record], Any]]
    ):
        self.problem, self.method, self.best, self.tol, self.callbacks = problem, method, best, tol, tuple(callbacks)
        self.began, self.epoch = time.perf_counter(), 0
        self.state: Any = None
        self.trace, self.schedule = Trace(), _Schedule(tol)

    def solution(self, start: Any, random_state: Any, budget: tuple[int, float, float]) -> Solution:
        """Begin, go on until something says stop, and hand over the best points with a certificate from the data."""
        try:
            if start is None and isinstance(self.best, _Best) and self._may_be_at_once(*budget):
                (known,), self.state = solutions_at_once(
                    self.problem, self.method, ONE, self.tol, generator_for(self.method, random_state)
                )
                if known.status is Status.CONVERGED:
                    for callback in self.callbacks:
                        callback(known.trace[0])
                    known.state = self.state
                    return known
            stop = self._resume(start) if isinstance(start, State) else self._begin(start, random_state)
            self.state.tol = self.tol
            stop = stop or self._advance(*budget)
            if not self.trace and not isinstance(start, State):  # no step was taken
                stop = self._check() or stop
            status = stop or Status.MAX_EPOCHS
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            if self.best.w is None:
                self.best.update(self.problem, self.problem.first_point())
        return self._finish(status)

    def _may_be_at_once(self, max_epochs: int, max_seconds: float, max_accesses: float) -> bool:
        heard = bool(self.callbacks) or math.isfinite(max_accesses)
        return may_be_at_once(self.problem, self.method, 1, self.tol, heard, max_epochs, max_seconds)

    def _begin(self, start: Any, random_state: Any) -> Status | None:
        """The first state: of the solver's own, of a point, or that of a run under another penalty."""
        problem, method = self.problem, self.method
        if isinstance(start, Handover) and start.solution.solver == method.name and start.solution.state is not None:
            self.state = method.follow(problem, start.solution.state)
        if self.state is None:
            self.state = method.init(problem, _as_start(problem, start), generator_for(method, random_state))
            if taken := WRITTEN.intersection(vars(self.state)):
                raise TypeError(f"the state of {method.name} keeps its own {sorted(taken)}: the loop writes there")
        self.state.solver, self.state.best = method.name, self.best
        given = None if isinstance(start, Handover) else _as_start(problem, start)
        if given is not None and given.dual is not None:
            self.best.update(problem, given)  # what was certified stays certified, also where a solver cannot begin at these points
        return None if self.state.premature or (start is None and self._knows_zero()) else self._check()

    def _knows_zero(self) -> bool:
        """Whether zero is not worth a certificate: it is far, or later gaps are foreseen, and nobody listens.

        (1000 x 47117: 0.2 of 2.2 ms.)
        """
        return (self.state.far or self.state.expected_gap is not None) and self.tol < FAR and not self.callbacks

    def _resume(self, start: State) -> Status | None:
        """Go on from the state of an earlier run, exactly."""
        state = self.state = copy.deepcopy(start)
        if type(state.best) is not type(self.best):  # another sort of certificate is asked for
            state.best = self.best
            return self._check()
        self.best = state.best
        if self.best.certificate(self.problem).relative_gap <= self.tol:
            return Status.CONVERGED
        return Status.STALLED if state.stalled else None

    def _advance(self, max_epochs: int, max_seconds: float, max_accesses: float) -> Status | None:
        """Epochs until the tolerance is certified or a budget is used up."""
        problem, method, state, best = self.problem, self.method, self.state, self.best
        while self.epoch < max_epochs:
            if time.perf_counter() - self.began >= max_seconds:
                return Status.MAX_SECONDS
            if state.accesses + best.reads >= max_accesses:
                return Status.MAX_ACCESSES
            before, state.access_limit = state.accesses, max_accesses - best.reads
            method.step(problem, state)
            self.epoch += 1
            work = max(state.accesses - before, 1.0)
            cost = self._check_cost() if isinstance(best, _Best) else 0.0
            if self.schedule.is_due(self.epoch, work, cost, state.expected_gap) or self.epoch == max_epochs or state.stalled:
                stop = self._check()
                if stop is not None or state.stalled:
                    return stop or Status.STALLED
        return None

    def _check_cost(self) -> float:
        """What a certificate of the current point reads; nobody asks where gaps are foreseen, and points need not be made."""
        if self.state.expected_gap is not None:
            return 0.0
        return self.problem.check_cost(self.method.point(self.problem, self.state))

    def _check(self) -> Status | None:
        """Certify the current point, record it, and say whether to stop."""
        problem, state, best, tol = self.problem, self.state, self.best, self.tol
        best.update(problem, self.method.point(problem, state))
        stop = None
        certificate = best.certificate(problem)
        if certificate.relative_gap <= tol:
            certificate = best.confirm(problem)
            if certificate.relative_gap <= tol:
                stop = Status.CONVERGED
            else:
                self.method.resync(problem, state)
        elif isinstance(best, _Best) and hasattr(problem, "is_zero") and problem.is_zero(certificate, tol):
            stop = Status.ZERO_VALUE
        state.relative_gap = certificate.relative_gap
        self.schedule.checked(certificate.relative_gap)
        values = (certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap)
        seconds, passes = time.perf_counter() - self.began, state.accesses / max(problem.size, 1)
        counts = {**state.counts, **best.counts}
        self.trace.append(Record(self.epoch, seconds, passes, *values, problem.nonzeros(best.w), counts))
        for callback in self.callbacks:
            if callback(self.trace[-1]) and stop is None:
                stop = Status.CALLBACK
        return stop

    def _finish(self, status: Status) -> Solution:
        """The best points; their certificate is computed from the data if that was not done already."""
        problem, state, trace = self.problem, self.state, self.trace
        best = copy.copy(self.best)  # the state keeps its own, or a resumed run would differ from an uninterrupted one
        if status is not Status.CONVERGED or not trace:
            best.confirm(problem)
        if isinstance(best, Latest) and trace:  # sampled certificates read more in the end, and then say more
            trace[-1] = best.last_record(trace[-1])
        return Solution(
            w=best.w,
            b=best.b,
            dual=best.a,
            certificate=best.certificate(problem),
            trace=trace,
            status=status,
            solver=self.method.name,
            epochs=self.epoch,
            seconds=time.perf_counter() - self.began,
            passes=state.accesses / max(problem.size, 1) if state is not None else 0.0,
            state=state,
            aux=best.aux,
        )
