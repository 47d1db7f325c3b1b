"""Every registered solver with every problem that it accepts."""

from dataclasses import dataclass
from typing import Any

import pytest

import saddlery as sd
from saddlery.registry import LOSSES, PENALTIES, SOLVERS

# Their gap falls like 1 / k, so no small tolerance is asked of them: test_frank_wolfe.py and test_pegasos.py have their tests.
SLOW = {"frank_wolfe", "gsfw", "sag_fw", "scgm", "sfw", "svrf", "scgs", "pegasos"}
# The first two see loss and penalty by their proxes alone, the third shares its steps with prox_newton: some losses stand for all.
PLAIN = {"pdhg", "projected_gradient", "small_newton"}
SETS = (sd.penalties.L1Ball(1.5), sd.penalties.Simplex(1.5))  # two of them, with two losses: kernels of each are compiled anew


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
    strengths = [PENALTIES.get(name)(0.7) for name in PENALTIES.names() if not getattr(PENALTIES.get(name), "bounded", False)]
    for loss in (LOSSES.get(name)() for name in LOSSES.names()):
        for penalty in [*strengths, *(SETS if LOSSES.name_of(loss) in ("logistic", "squared") else ())]:
            for intercept in (False, True):
                problem = sd.LinearProblem([[1.0], [2.0]], [1, -1], loss, penalty, fit_intercept=intercept)
                for name in SOLVERS.names():
                    if name in PLAIN and LOSSES.name_of(loss) not in ("logistic", "squared", "hinge"):
                        continue
                    if name not in SLOW and not SOLVERS.get(name).needs.missing(problem):
                        yield Case(name, loss, penalty, intercept)


@pytest.fixture(scope="session")
def slow_solvers():
    """Names of solvers whose gap falls like 1 / k."""
    return SLOW


@pytest.fixture(params=_cases(), ids=str)
def case(request):
    """Every solver with every problem that it accepts."""
    return request.param


@pytest.fixture(scope="session")
def problem_of(make_problem):
    """problem_of(case, ...): the small random problem of a case."""
    return lambda case, matrix="dense", **options: make_problem(case.loss, case.penalty, matrix, case.intercept, **options)
