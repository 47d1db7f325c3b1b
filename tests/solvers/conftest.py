"""Every registered solver with every problem that it accepts."""

from dataclasses import dataclass
from typing import Any

import pytest

import saddlery as sd
from saddlery.registry import LOSSES, PENALTIES, SOLVERS


@dataclass(frozen=True)
class Case:
    """A solver and a kind of problem."""

    solver: str
    loss: Any
    penalty: Any
    intercept: bool

    def __str__(self):
        names = LOSSES.name_of(self.loss), PENALTIES.name_of(self.penalty)
        return "-".join([*names, *["intercept"] * self.intercept, self.solver])


def _cases():
    """Grouped by loss and penalty, so that neighbours share compiled kernels."""
    for loss in (LOSSES.get(name)() for name in LOSSES.names()):
        for penalty in (cls(0.7) for cls in map(PENALTIES.get, PENALTIES.names()) if not getattr(cls, "matrix", False)):
            for intercept in (False, True):
                problem = sd.LinearProblem([[1.0], [2.0]], [1, -1], loss, penalty, fit_intercept=intercept)
                for name in SOLVERS.names():
                    if not SOLVERS.get(name).needs.missing(problem):
                        yield Case(name, loss, penalty, intercept)


@pytest.fixture(params=_cases(), ids=str)
def case(request):
    """Every solver with every problem that it accepts."""
    return request.param


@pytest.fixture(scope="session")
def problem_of(make_problem):
    """problem_of(case, ...): the small random problem of a case."""
    return lambda case, matrix="dense", **options: make_problem(case.loss, case.penalty, matrix, case.intercept, **options)
