"""The protocol of a solver, and the records that travel between solver, loop and caller.

A solver is a frozen dataclass of options. ``init`` makes a state, ``step`` moves it by one epoch (a sweep of a coordinate
method, an outer round of a working-set method), ``point`` reads the pair off it. The loop does everything else. A solver that has
solution and certificate at once, for any strengths of the penalty, also has ``points`` (solvers/at_once.py).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.losses.hinge import Hinge
from saddlery.losses.squared import Squared
from saddlery.point import Point
from saddlery.registry import LOSSES, PENALTIES

__all__ = ["Needs", "Point", "Record", "Solution", "Solver", "State", "Status", "Trace"]


class Status(enum.Enum):
    """How a solve ended, in a sentence."""

    CONVERGED = "certified to the tolerance"
    MAX_EPOCHS = "stopped at max_epochs before the tolerance was certified"
    MAX_SECONDS = "stopped at max_seconds before the tolerance was certified"
    MAX_ACCESSES = "stopped at max_accesses before the tolerance was certified"
    INTERRUPTED = "interrupted; this is the best certified point so far"
    CALLBACK = "stopped by a callback; this is the best certified point so far"
    ZERO_VALUE = "the optimal value is zero within the gap: no relative tolerance can be met"
    STALLED = "no further progress in floating point; this is the best certified point"

    def __str__(self) -> str:
        return self.value


class Record(NamedTuple):
    """One certificate of a run, as it stood after `epoch` epochs and `passes` times nnz(X) entries read.

    `counts` holds what else a solver counts, such as calls of an oracle.
    """

    epoch: int
    seconds: float
    passes: float
    primal: float
    dual: float
    gap: float
    relative_gap: float
    nonzeros: int
    counts: Mapping[str, float] = MappingProxyType({})


class Trace(list[Record]):
    """The certificates of a run in order: a list of records, with columns as arrays.

    Examples
    --------
    >>> trace = Trace([Record(0, 0.0, 1.0, 0.7, 0.0, 0.7, 1.0, 0)])
    >>> trace.column("gap")
    array([0.7])
    """

    def column(self, name: str) -> np.ndarray:
        """One field of all records."""
        return np.array([getattr(record, name) for record in self])

    def as_dict(self) -> dict[str, list[float]]:
        """All fields as lists, ready for JSON or a data frame."""
        return {name: [getattr(record, name) for record in self] for name in Record._fields}


class State:
    """What a solver moves: arrays, numbers and a random generator, so that a copy resumes exactly.

    `accesses` counts the entries of X that were read; `stalled` says that no further step can improve anything; `premature`
    that the point before the first step is too rough to be worth a certificate, `far` that it is zero and known to be far from the
    optimum, which is worth one only to listeners; `expected_gap` is the relative gap that the solver expects of its point, if it
    can tell. `relative_gap` is the last certified one and `tol` the one asked for, written by the loop
    for solvers that adapt to them; `access_limit` is the number of accesses at which the budget ends, for solvers whose epochs are
    long. `solver` and `best` are the loop's too: whose state this is, and the best pair of points so far.
    """

    solver: str = ""
    best: Any = None

    accesses: float = 0.0
    stalled: bool = False
    relative_gap: float = float("inf")
    tol: float = 0.0
    premature: bool = False
    far: bool = False
    expected_gap: float | None = None
    access_limit: float = float("inf")

    @property
    def counts(self) -> dict[str, float]:
        """What else this solver counts; copied into every record of the trace."""
        return {}


@dataclass
class Solution:
    """What :func:`saddlery.solve` returns.

    Attributes
    ----------
    w, b : array of shape (d,), float
        The best primal point found; (d, k) and (k,) where k classes are learned at once.
    dual : array of shape (n,)
        The best feasible dual point found; (n, k) for k classes at once.
    certificate : Certificate
        Values of these two points, recomputed from the data at the end.
    trace : Trace
        Certificates on the way.
    status : Status
        How the run ended.
    solver : str
        Name of the solver that ran.
    epochs, seconds, passes : int, float, float
        What it cost.
    state : State
        The solver's state; give it as `start` to go on exactly where this run stopped.
    aux : object
        The further primal variable of problems that have one: the predictor of an F-score game.
    """

    w: Any
    b: Any
    dual: Any
    certificate: Certificate
    trace: Trace
    status: Status
    solver: str
    epochs: int = 0
    seconds: float = 0.0
    passes: float = 0.0
    state: State | None = field(default=None, repr=False)
    aux: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Needs:
    """What a solver asks of a problem, checked before anything is compiled.

    `kind` is the kind of problem that it solves, or several; `loss` and `penalty` are the verbs that it calls, `row_loss` those of
    row losses if it solves problems of both sorts; `partial` says that it takes data which are read in parts
    (:class:`~saddlery.matrix.partial.PartialMatrix`).
    """

    kind: str | tuple[str, ...] = "linear"
    loss: tuple[str, ...] = ()
    row_loss: tuple[str, ...] = ()
    penalty: tuple[str, ...] = ()
    smooth: bool = False
    kinks: bool = False
    rotates: bool = False
    most_rows: int | None = None
    most_columns: int | None = None
    squared: bool = False
    hinge: bool = False
    strongly_convex: bool = False
    constraint: bool = False
    no_intercept: bool = False
    smooth_with_intercept: bool = False
    signs: bool = False
    dense_weights: bool = False
    l1: bool = False
    partial: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of problems that it solves."""
        return (self.kind,) if isinstance(self.kind, str) else self.kind

    def missing(self, problem: Any) -> list[str]:
        """What `problem` lacks, as phrases."""
        if problem.kind not in self.kinds:  # nothing else can be asked of it
            return [f"a {' or '.join(self.kinds)} problem (this is a {problem.kind} problem)"]
        loss, penalty = problem.loss, problem.penalty
        verbs = self.row_loss if self.row_loss and hasattr(loss, "row_value") else self.loss
        phrases = [f"the verb {name!r} of the loss" for name in verbs if not hasattr(loss, name)]
        phrases += [f"the verb {name!r} of the penalty" for name in self.penalty if not hasattr(penalty, name)]
        if self.smooth and math.isinf(loss.smoothness):
            phrases.append(f"a smooth loss (the {LOSSES.name_of(loss)} loss is not)")
        if self.kinks and getattr(loss, "curvature_is_smooth", False):
            phrases.append(f"a loss with kinks in its slope (the {LOSSES.name_of(loss)} loss has none)")
        if self.most_rows is not None and problem.n > self.most_rows:
            phrases.append(f"at most {self.most_rows:,} rows (these data have {problem.n:,})")
        if self.most_columns is not None and problem.d > self.most_columns:
            phrases.append(f"at most {self.most_columns:,} columns (these data have {problem.d:,})")
        if self.squared and type(loss) is not Squared:  # its formulas are written out: constant curvature is not enough
            phrases.append(f"the squared loss (this is the {LOSSES.name_of(loss)} loss)")
        if self.hinge and type(loss) is not Hinge:  # likewise
            phrases.append(f"the hinge loss (this is the {LOSSES.name_of(loss)} loss)")
        if self.rotates and not getattr(penalty, "is_round", False):
            phrases.append(f"a penalty that depends on the length of w alone (l2; {PENALTIES.name_of(penalty)} does not)")
        if self.strongly_convex and penalty.strong_convexity == 0.0:
            phrases.append(f"a strongly convex penalty (l2 or elasticnet; {PENALTIES.name_of(penalty)} is not)")
        if self.constraint and not (getattr(penalty, "bounded", False) and penalty.threshold == penalty.strong_convexity == 0.0):
            phrases.append(f"a constraint without a penalty beside it (such as l1_ball; {PENALTIES.name_of(penalty)} is not one)")
        if self.signs and loss.targets != "signs":
            phrases.append(f"a loss of signs (the {LOSSES.name_of(loss)} loss is for real targets)")
        if self.l1 and not _is_l1(penalty):
            phrases.append(f"an l1 penalty or an l1 ball ({PENALTIES.name_of(penalty)} is neither)")
        if self.dense_weights and getattr(problem, "is_large", False):
            phrases.append(
                f"fewer weights (it keeps all of W in memory: {problem.d:,} features x {problem.k:,} classes are too many)"
            )
        matrix = getattr(problem, "matrix", None)
        if matrix is not None and not matrix.compiled and not self.partial:
            phrases.append(f"data in memory ({matrix!r} is read in parts)")
        if self.no_intercept and problem.fit_intercept:
            phrases.append("a problem without intercept")
        if self.smooth_with_intercept and problem.fit_intercept and math.isinf(loss.smoothness):
            phrases.append(f"a problem without intercept, or a smooth loss (the {LOSSES.name_of(loss)} loss is not)")
        return phrases


def _is_l1(penalty: Any) -> bool:
    """Whether a penalty is alpha times the l1 norm, a bound on it, or both."""
    if getattr(penalty, "bounded", False):
        return getattr(penalty, "corners", "") == "signed"
    return penalty.strong_convexity == 0.0 and penalty.threshold > 0.0


@dataclass(frozen=True)
class Solver:
    """Base of all solvers. Options are fields; what moves is in the state."""

    name: ClassVar[str]
    paper: ClassVar[str]
    needs: ClassVar[Needs]
    # How many epochs `points` takes at most for one strength: who asks for fewer, or to hear of each, gets them one by one.
    epochs_at_once: ClassVar[int] = 0
    from_moments: ClassVar[bool] = False  # whether `points` needs nothing of the data but their second moments
    random: ClassVar[bool] = True  # False for solvers that draw nothing: making a generator takes as long as a small certificate

    def init(self, problem: Any, start: Point | None, rng: Any) -> Any:
        """A state at the start point (or at zero); `rng` is a generator, or None if the solver is not random."""
        raise NotImplementedError

    def step(self, problem: Any, state: Any) -> None:
        """Move the state by one epoch."""
        raise NotImplementedError

    def point(self, problem: Any, state: Any) -> Point:
        """The pair of points that the state stands for."""
        raise NotImplementedError

    def has_points(self, problem: Any, count: int) -> bool:
        """Whether there is a method `points` for so many strengths of the penalty: solutions and their certificates at once.

        It has the signature ``points(problem, factors, tol, rng)``, with None for the generator if the solver is not random, and
        returns :class:`~saddlery.solvers.at_once.CertifiedPoints`.
        """
        return False

    def follow(self, problem: Any, state: Any) -> Any:
        """The state with which to go on where only the penalty has changed, or None: `init` starts from the last points then."""
        return None

    def resync(self, problem: Any, state: Any) -> None:
        """Recompute what is kept by increments; called when a fresh certificate disagrees with the running one."""
