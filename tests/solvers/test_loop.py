"""The one loop: budgets, callbacks, interruption, starts and seeds mean the same for every solver."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import saddlery as sd
from saddlery.errors import InputError
from saddlery.penalties import L1, L2, ElasticNet
from saddlery.point import Point
from saddlery.registry import SOLVERS
from saddlery.solvers.base import Needs, Record, Solver, State, Trace

# The solver `covariance` is left out: it has its solution before the first epoch, and nothing to stop.
LINEAR = [name for name in SOLVERS.names() if "linear" in SOLVERS.get(name).needs.kinds and name != "covariance"]


@pytest.fixture(params=LINEAR)
def run(request, make_problem):
    """run(**options): every solver of linear problems on one that most of them accept; some need pure l2, others a constraint."""
    kinds = (ElasticNet(0.7), L2(0.7), sd.penalties.L1Ball(1.5))
    problems = (make_problem(loss, penalty) for loss in (sd.losses.SmoothHinge(), sd.losses.Hinge()) for penalty in kinds)
    problem = next(problem for problem in problems if not SOLVERS.get(request.param).needs.missing(problem))
    return lambda **options: (problem, sd.solve(problem, request.param, **options))


def check_certificate(problem, solution):
    """Whatever happened, the points returned prove what the certificate says."""
    again = sd.certify(problem, solution.w, solution.dual, solution.b)
    assert again.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert again.dual >= solution.certificate.dual - 1e-12
    assert np.isfinite(again.gap)


# --------------------------------------------------------------------------- budgets


def test_max_epochs(run):
    for count in (1, 2, 5):
        problem, solution = run(tol=0.0, max_epochs=count)
        assert solution.status in (sd.Status.MAX_EPOCHS, sd.Status.STALLED, sd.Status.CONVERGED)
        assert solution.epochs == solution.trace[-1].epoch <= count
        check_certificate(problem, solution)


def test_no_epoch_at_all(run):
    """The start is certified and returned."""
    problem, solution = run(max_epochs=0)
    assert solution.status is sd.Status.MAX_EPOCHS
    assert len(solution.trace) == 1
    check_certificate(problem, solution)


def test_max_seconds(run):
    run(tol=0.0, max_epochs=1)  # compiled
    began = time.perf_counter()
    problem, solution = run(tol=0.0, max_epochs=10**9, max_seconds=0.1)
    assert time.perf_counter() - began < 5.0
    assert solution.status in (sd.Status.MAX_SECONDS, sd.Status.STALLED, sd.Status.CONVERGED)
    if solution.status is sd.Status.MAX_SECONDS:
        assert solution.seconds >= 0.1
    check_certificate(problem, solution)
    assert run(tol=0.0, max_seconds=0)[1].status is sd.Status.MAX_SECONDS


def test_tol_zero_ends(run, slow_solvers):
    """What cannot be reached does not run for ever: the budget ends it, or rounding is noticed."""
    problem, solution = run(tol=0.0, max_epochs=300)
    assert solution.certificate.relative_gap <= 1e-6 or solution.solver in slow_solvers
    check_certificate(problem, solution)


def test_a_loose_tolerance_needs_no_epoch(run):
    assert run(tol=1.0 + 1e-12)[1].epochs == 0  # the gap of zero is 1, to rounding


# --------------------------------------------------------------------------- callbacks and interruption


def test_callbacks_see_every_record_and_can_stop(run):
    seen = []
    problem, solution = run(tol=0.0, max_epochs=50, callbacks=[seen.append, lambda record: record.epoch >= 2])
    assert solution.status is sd.Status.CALLBACK or solution.certificate.gap == 0.0
    assert seen == list(solution.trace)
    assert solution.epochs == 2 or solution.trace[-2].epoch < 2
    check_certificate(problem, solution)


def test_an_error_in_a_callback_is_not_swallowed(run):
    def fail(record):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        run(callbacks=[fail])


@pytest.mark.parametrize("when", [0, 1, 3])
def test_keyboard_interrupt_in_a_callback(run, when):
    def interrupt(record):
        if record.epoch >= when:
            raise KeyboardInterrupt

    problem, solution = run(tol=0.0, max_epochs=50, callbacks=[interrupt])
    if solution.certificate.gap > 0.0 or when == 0:  # else it was done before
        assert solution.status is sd.Status.INTERRUPTED
        assert "interrupted" in str(solution.status)
    assert solution.certificate.relative_gap <= 1.0 + 1e-12
    check_certificate(problem, solution)


class Interrupted(Solver):
    """A solver that is interrupted before it has any point."""

    name, paper, needs = "interrupted", "", Needs()

    def init(self, problem, start, rng):
        raise KeyboardInterrupt


def test_interrupt_before_the_first_point(make_problem):
    """The best constant model is returned, certified."""
    problem = make_problem(sd.losses.Logistic(), L1(0.7), intercept=True)
    solution = sd.solve(problem, Interrupted())
    assert solution.status is sd.Status.INTERRUPTED
    assert not solution.w.any()
    assert solution.certificate.primal == pytest.approx(problem.scale)
    check_certificate(problem, solution)


SLOW = """
    import json, sys
    import numpy as np
    import saddlery as sd

    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 50))
    problem = sd.LinearProblem(X, np.sign(X[:, 0] + rng.standard_normal(2000)), "logistic", sd.penalties.ElasticNet(1e-5))
    def say(record, said=[]):
        if record.epoch >= 1 and not said:
            said.append(print("running", flush=True))
    solution = sd.solve(problem, "sdca", tol=0.0, max_epochs=10**9, max_seconds=120, callbacks=[say])
    again = sd.certify(problem, solution.w, solution.dual)
    print(json.dumps([solution.status.name, solution.epochs, again.gap, solution.certificate.gap]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_real_interrupt():
    """Ctrl-C during a run: the process goes on with the best certified point so far."""
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(SLOW)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline().strip() == "running"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        status, epochs, again, gap = json.loads(child.communicate(timeout=60)[0])
    assert child.returncode == 0
    assert status == "INTERRUPTED"
    assert epochs >= 1
    assert again == pytest.approx(gap, rel=1e-6, abs=1e-12)


class Lying(Solver):
    """A solver whose products are those of better points than its own, until it is asked to compute them afresh."""

    name, paper, needs = "lying", "", Needs()

    def init(self, problem, start, rng):
        state = State()
        state.honest, state.good = False, sd.solve(problem, "prox_newton", tol=1e-10)
        return state

    def step(self, problem, state):
        state.accesses += problem.matrix.nnz

    def point(self, problem, state):
        good = state.good
        w, a = (good.w, good.dual) if state.honest else (np.zeros(problem.d), good.dual)
        return Point(w, good.b, a, problem.margins(good.w), problem.matrix.rmatvec(problem.s * good.dual))

    def resync(self, problem, state):
        state.honest = True


def test_converged_is_only_said_after_a_fresh_certificate(make_problem):
    """Products kept by increments may drift: the last word is computed from the data, and the solver is told."""
    problem = make_problem(sd.losses.Logistic(), L2(0.7))
    solution = sd.solve(problem, Lying(), tol=0.05)
    assert solution.status is sd.Status.CONVERGED
    assert solution.epochs >= 1
    assert solution.w.any()
    assert sd.certify(problem, solution.w, solution.dual).relative_gap <= 0.05
    assert problem.primal(np.zeros(problem.d)) > problem.primal(solution.w) + 0.05 * problem.scale


# --------------------------------------------------------------------------- starts, seeds, arguments


def test_seeds(make_problem):
    """An int, a Generator and a RandomState are all fine; another seed gives another path to the same optimum."""
    problem = make_problem(sd.losses.SmoothHinge(), ElasticNet(0.7))
    runs = [sd.solve(problem, "sdca", tol=0.0, max_epochs=2, random_state=seed).w for seed in (0, 0, 1, np.random.default_rng(0))]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[3])
    assert (runs[0] != runs[2]).any()
    assert sd.solve(problem, "sdca", random_state=np.random.RandomState(0)).status is sd.Status.CONVERGED
    assert sd.solve(problem, "sdca", random_state=None).status is sd.Status.CONVERGED


def test_start_at_a_neighbouring_strength_is_quicker(make_problem):
    problem = make_problem(sd.losses.Logistic(), L1(0.7), n=60, d=30, ratio=0.02)
    first = sd.solve(problem, "primal_cd", tol=1e-8)
    next_problem = problem.with_penalty(problem.penalty.scaled(0.95))
    cold, warm = (sd.solve(next_problem, "primal_cd", tol=1e-6, start=start) for start in (None, first))
    assert warm.epochs < cold.epochs
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=1e-5)


def test_resuming_with_a_looser_tolerance_goes_on(make_problem):
    problem = make_problem(sd.losses.Logistic(), L1(0.7))
    first = sd.solve(problem, "primal_cd", tol=1e-2)
    second = sd.solve(problem, "primal_cd", tol=1e-9, start=first.state)
    assert second.status is sd.Status.CONVERGED
    assert second.passes > first.passes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1.0}, "tol must be 0 or more"),
        ({"tol": float("nan")}, "tol must be 0 or more"),
        ({"max_epochs": -1}, "must be 0 or more"),
        ({"max_seconds": -0.5}, "must be 0 or more"),
        ({"start": (np.zeros(3), 0.0, None)}, "start does not fit the problem"),
        ({"start": (None, 0.0, np.zeros(3))}, "start does not fit the problem"),
        ({"solver": "prox_newtn"}, "unknown solver 'prox_newtn': did you mean 'prox_newton'"),
        ({"solver": "SDCA"}, "did you mean 'sdca'"),
        ({"solver": None}, "unknown solver None"),
        ({"start": (np.full(12, np.nan), 0.0, None)}, "finite"),
    ],
)
def test_bad_arguments(options, message, make_problem):
    with pytest.raises(InputError, match=message):
        sd.solve(make_problem(sd.losses.Logistic(), ElasticNet(0.7)), **options)


def test_a_state_of_another_solver_is_refused(make_problem):
    problem = make_problem(sd.losses.SmoothHinge(), ElasticNet(0.7))
    state = sd.solve(problem, "sdca", max_epochs=1).state
    with pytest.raises(InputError):
        sd.solve(problem, "prox_newton", start=state)


# --------------------------------------------------------------------------- records


def test_trace_columns():
    trace = Trace([Record(0, 0.0, 0.0, 0.7, 0.0, 0.7, 1.0, 0), Record(2, 0.1, 4.0, 0.5, 0.4, 0.1, 0.2, 3)])
    np.testing.assert_array_equal(trace.column("epoch"), [0, 2])
    assert trace.as_dict()["gap"] == [0.7, 0.1]


def test_statuses_are_sentences():
    assert all(len(str(status)) > 20 and str(status) == status.value for status in sd.Status)


def test_a_solver_with_options(make_problem):
    """Options are fields of the solver; a solver object is as good as its name."""
    from saddlery.solvers.dgpd_active import DGPDActive

    problem = make_problem(sd.losses.SmoothHinge(), ElasticNet(0.7))
    one, two = (sd.solve(problem, solver, tol=1e-6, max_epochs=3000) for solver in ("dgpd_active", DGPDActive()))
    assert [record.primal for record in one.trace] == [record.primal for record in two.trace]
    printed = sd.solve(problem, DGPDActive(grow=1), tol=1e-6, max_epochs=3000)
    assert printed.status is sd.Status.CONVERGED
    assert printed.epochs > one.epochs
    assert isinstance(printed.state, State)


@pytest.mark.parametrize("shortcut", ["Xw", "Xta", "loss", "aux"])
def test_what_a_point_brings_along_is_never_taken_as_proved(shortcut, make_problem):
    """A solver that claims too much: the certificate at the end is that of the data."""
    problem = make_problem(sd.losses.Squared(), L1(0.1))

    class Boasting(SOLVERS.get("primal_cd")):
        def point(self, problem, state):
            w = np.zeros(problem.d)
            lies = {"Xw": problem.y.copy(), "Xta": np.zeros(problem.d), "loss": 0.0, "aux": "anything"}
            dual = problem.slopes(np.zeros(problem.n)) if shortcut == "Xta" else None
            return Point(w, 0.0, dual)._replace(**{shortcut: lies[shortcut]})

    solution = sd.solve(problem, Boasting(), tol=1e-6, max_epochs=3)
    assert solution.certificate.primal == pytest.approx(problem.primal(np.zeros(problem.d)), rel=1e-12)
    assert solution.certificate.dual <= sd.solve(problem, tol=1e-10).certificate.primal + 1e-9
    assert solution.status is not sd.Status.CONVERGED


def test_names_of_the_loop_are_refused(make_problem):
    """What a solver kept under them would be overwritten before its first step."""

    class Careless(SOLVERS.get("sdca")):
        def init(self, problem, start, rng):
            state = super().init(problem, start, rng)
            state.tol = 1e-3
            return state

    with pytest.raises(TypeError, match=r"sdca keeps its own \['tol'\]"):
        sd.solve(make_problem(sd.losses.Logistic(), L2(0.1)), Careless(), callbacks=[lambda record: False])


@pytest.mark.parametrize(("share", "far"), [(0.1, True), (0.8, False)])
def test_a_zero_that_is_far_is_certified_for_listeners_only(share, far):
    """Far below the strength that makes all weights zero nothing is learnt from their certificate; who ends there has one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 300))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(900)
    problem = sd.LinearProblem(X, y, loss="squared", penalty=sd.penalties.L1(share * np.abs(X.T @ y).max() / 900))

    def first(**options):
        return sd.solve(problem, "prox_newton", tol=1e-6, **options).trace[0].epoch

    assert first() == (1 if far else 0)
    assert first(callbacks=[lambda *_: None]) == 0
    assert first(max_epochs=0) == 0
    state = SOLVERS.get("prox_newton")().init(problem, None, rng)
    if far:  # what is taken for its gap is about right
        true = sd.certify(problem, np.zeros(300), -y).relative_gap
        assert state.relative_gap == pytest.approx(true, rel=1e-6)
