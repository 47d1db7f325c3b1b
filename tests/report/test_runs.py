"""One view of solutions, estimators and traces."""

from __future__ import annotations

import numpy as np
import pytest

import saddlery as sd
from saddlery.report.runs import runs_of
from saddlery.solvers.base import Record, Status, Trace

TRACE = Trace([Record(0, 0.0, 1.0, 0.8, 0.2, 0.6, 1.2, 0), Record(1, 0.1, 2.0, 0.6, 0.5, 0.1, 0.2, 3)])


def test_suboptimality_is_measured_from_the_best_dual_value():
    (run,) = runs_of(TRACE)
    assert run.certificate.scale == pytest.approx(0.5)
    np.testing.assert_allclose(run.column("suboptimality"), [0.3 / 0.5, 0.1 / 0.5])
    assert np.all(run.column("suboptimality") <= run.column("relative_gap") + 1e-15)


def test_runs_of_the_same_problem_share_the_best_dual_value():
    better = Trace([TRACE[0]._replace(dual=0.55)])
    runs = runs_of({"a": TRACE, "b": better}, same_problem=True)
    assert [run.best_dual for run in runs] == [0.55, 0.55]
    assert [run.best_dual for run in runs_of({"a": TRACE, "b": better})] == [0.5, 0.55]


def test_one_vs_rest_has_one_run_for_each_class():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    model = sd.LinearClassifier(alpha=0.02).fit(X, np.repeat(["x", "y", "z"], 20))
    runs = runs_of(model)
    assert [run.label for run in runs] == ["class x", "class y", "class z"]
    assert {run.status for run in runs} == {Status.CONVERGED}


def test_a_list_of_records_is_a_trace():
    assert runs_of(list(TRACE))[0].trace == TRACE


@pytest.mark.parametrize("wrong", [3, "text", sd.LinearClassifier()])
def test_anything_else_is_refused_in_one_sentence(wrong):
    with pytest.raises(sd.InputError, match="fit it first"):
        runs_of(wrong)


def test_an_empty_trace_is_refused():
    with pytest.raises(sd.InputError, match="empty"):
        runs_of(Trace())
