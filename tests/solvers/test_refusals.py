"""What a solver cannot do it refuses before anything is compiled, and it names those that can."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.losses import loss
from saddlery.parts import _KERNELS
from saddlery.penalties import L1, L2, ElasticNet
from saddlery.registry import LOSSES, PENALTIES, ROW_LOSSES, SOLVERS
from saddlery.solvers.auto import _rules, choose

X = np.random.default_rng(0).standard_normal((6, 8))
Y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])


STRENGTHS = [name for name in PENALTIES.names() if not getattr(PENALTIES.get(name), "bounded", False)]
SETS = [
    sd.penalties.L1Ball(1.5),
    sd.penalties.Simplex(1.5),
    sd.penalties.L2InBall(0.1, 1.5),
    sd.penalties.GroupBall(1.5, [0, 0, 1, 1] * 2),
]


def problems():
    for name, penalty, intercept in itertools.product(LOSSES.names(), STRENGTHS, (False, True)):
        yield sd.LinearProblem(X, Y, name, PENALTIES.get(penalty)(0.1), fit_intercept=intercept)
    for name, penalty, intercept in itertools.product(("logistic", "squared"), SETS, (False, True)):
        yield sd.LinearProblem(X, Y, name, penalty, fit_intercept=intercept)


def compiled():
    return sum(len(getattr(kernel, "signatures", ())) for kernel in _KERNELS)


def test_refused_before_compiling_with_names_that_can():
    refused = 0
    for problem in problems():
        able = sd.solvers.available(problem)
        for name in set(SOLVERS.names()) - set(able):
            before = compiled()
            with pytest.raises(UnsupportedError) as caught:
                sd.solve(problem, name)
            assert compiled() == before
            message = str(caught.value)
            assert message.startswith(f"{name} cannot solve ")
            assert sorted(message.partition("; these can: ")[2].split(", ")) == sorted(able)
            refused += 1
    assert refused > 30


@pytest.mark.parametrize(
    ("solver", "loss_name", "penalty", "intercept", "reason"),
    [
        ("sdca", "logistic", L1(0.1), False, "a strongly convex penalty"),
        ("sdca", "hinge", L2(0.1), True, "a problem without intercept, or a smooth loss \\(the hinge loss is not\\)"),
        ("spdc", "logistic", L2(0.1), True, "a problem without intercept"),
        ("prox_newton", "hinge", L2(0.1), False, "a smooth loss \\(the hinge loss is not\\)"),
        ("sdca", "logistic", ElasticNet(0.1, 1.0), False, "a strongly convex penalty"),
        (
            "row_space",
            "hinge",
            ElasticNet(0.1, 0.5),
            True,
            "a penalty that depends on the length of w alone \\(l2; elasticnet does not\\)",
        ),
        ("augmented_newton", "logistic", L1(0.1), True, "a loss with kinks in its slope \\(the logistic loss has none\\)"),
        ("spdc", "hinge", L1(0.1), True, "a smooth loss .* and a strongly convex penalty .* and a problem without intercept"),
    ],
)
def test_reasons(solver, loss_name, penalty, intercept, reason):
    with pytest.raises(UnsupportedError, match=reason):
        sd.solve(sd.LinearProblem(X, Y, loss_name, penalty, fit_intercept=intercept), solver)


def test_refusals_are_input_errors():
    assert issubclass(UnsupportedError, InputError)
    assert issubclass(InputError, ValueError)


def test_available_lists_the_best_first_and_nothing_else():
    for problem in problems():
        names = sd.solvers.available(problem)
        assert names[0] == choose(problem)
        assert len(set(names)) == len(names)
        for name in SOLVERS.names():
            assert (name in names) == (not SOLVERS.get(name).needs.missing(problem))


def test_auto_serves_everything():
    """Every loss with every penalty, with and without intercept: the table's choice can do it."""
    for problem in problems():
        assert not SOLVERS.get(choose(problem)).needs.missing(problem)


def test_the_table_is_data():
    """Rules name registered solvers and give reasons; the last one for linear problems catches all."""
    for kind in ("linear", "multiclass"):
        assert all(rule["solver"] in SOLVERS.names() and len(rule["why"]) > 10 for rule in _rules(kind))
    assert _rules("linear")[-1]["when"] == {}


def test_needs_are_declared():
    """Every solver says what it calls, and its verbs exist on the library's own losses and penalties."""
    for name in SOLVERS.names():
        solver = SOLVERS.get(name)
        assert solver.name == name
        assert solver.paper
        assert solver.__doc__
        if set(solver.needs.kinds) <= {"game", "fscore", "slack_svm", "slack_svm_classes"}:  # games have neither loss nor penalty
            continue
        assert solver.needs.loss or solver.needs.row_loss
        assert solver.needs.penalty
        if "linear" in solver.needs.kinds:
            assert all(hasattr(LOSSES.get(other), verb) for verb in solver.needs.loss for other in LOSSES.names())
        if "multiclass" in solver.needs.kinds:
            verbs = solver.needs.row_loss or solver.needs.loss
            assert all(any(hasattr(ROW_LOSSES.get(other), verb) for other in ROW_LOSSES.names()) for verb in verbs)


@loss
class Partial(NamedTuple):
    """A user's loss with only what primal methods call."""

    @property
    def smoothness(self):
        return 1.0

    @property
    def targets(self):
        return "real"

    def value(self, y, z):
        return 0.5 * (z - y) * (z - y)

    def slope(self, y, z):
        return z - y

    def curvature(self, y, z):
        return 1.0

    def conjugate(self, y, a):
        return y * a + 0.5 * a * a

    def dual_lower(self, y):
        return -np.inf

    def dual_upper(self, y):
        return np.inf


def test_a_missing_verb_is_named_before_compiling():
    problem = sd.LinearProblem(X, Y, Partial(), ElasticNet(2.0, 0.01))
    before = compiled()
    with pytest.raises(UnsupportedError, match="the verb 'dual_prox' of the loss; these can: prox_newton"):
        sd.solve(problem, "sdca")
    assert compiled() == before


def test_auto_passes_over_solvers_that_cannot():
    """Where the table prefers a dual method, a loss without dual prox goes to the next that can."""
    penalty, more, targets = L2(2000.0), np.tile(X, (100, 70)), np.tile(Y, 100)
    assert choose(sd.LinearProblem(more, targets, sd.losses.Huber(), penalty)) == "sdca"
    assert sd.solve(sd.LinearProblem(more, targets, Partial(), penalty)).status is sd.Status.CONVERGED


def test_row_space_refuses_many_rows():
    tall = sd.LinearProblem(np.ones((5_001, 1)), np.resize([1.0, -1.0], 5_001), "hinge", L2(0.1))
    with pytest.raises(UnsupportedError, match="at most 5,000 rows \\(these data have 5,001\\)"):
        sd.solve(tall, "row_space")
