"""The experiments of Babichev, Ostrovskii and Bach on small problems: what is timed, what is compared, and what the notes say."""

import io

import numpy as np
import pytest

from saddlery.experiments import harness, sublinear_figure1, sublinear_table1
from saddlery.experiments.progress import Progress
from saddlery.experiments.sublinear_runs import synthetic


class Quiet(Progress):
    def __init__(self, runs, cost):
        super().__init__(runs, cost, io.StringIO())


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Both experiments, much smaller than the paper's."""
    output = tmp_path_factory.mktemp("out")
    table = {"sizes": [20, 40], "steps": [100, 200], "more": 100, "repeats": 2, "alpha": 1e-2, "seed": 0}
    figure = {**sublinear_figure1.FULL, "n": 20, "alpha": 1e-2, "most_seconds": 0.2, "tol": 1e-2}
    figure["seeds"] = {"Algorithm 1": [0, 1]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sublinear_table1.SublinearTable1, "settings", lambda self, quick: table)
        patch.setattr(sublinear_figure1, "FULL", figure)
        plans = harness.plan(["sublinear-table1", "sublinear-figure1"], output)
        return {report.name: report for report in harness.reproduce(plans, output, "reproduce", Quiet)}


def rows_of(report, table=0):
    return [row["values"] for row in report.content["tables"][table]["rows"]]


def test_times_of_steps(reports):
    rows = rows_of(reports["sublinear-table1"])
    assert [(row["n = d = k"], row["T"]) for row in rows] == [(20, 100), (40, 100), (20, 200), (40, 200)]
    assert all(row["here, s"] > 0.0 and row["paper, s"] is None for row in rows)
    assert rows[1]["ratio here"] == pytest.approx(rows[1]["here, s"] / rows[0]["here, s"])
    steps = rows_of(reports["sublinear-table1"], 1)
    assert steps[1]["ratio"] == pytest.approx(steps[1]["microseconds"] / steps[0]["microseconds"])


def test_the_printed_table_is_beside(reports):
    """At the sizes of the paper its seconds and their ratios are shown, and the claims are judged by the numbers."""
    from saddlery.experiments.base import Record, Results, Run

    def record(n, later):
        result = {"n": n, "steps": [10_000], "seconds": [[0.01, 0.02, 0.03]], "later": later, "columns": n}
        return Run("", "", {}), Record(str(n), "", "", {}, 0, {}, "", result, 0.0, "", "", {})

    experiment = sublinear_table1.SublinearTable1()
    settings = {**experiment.settings(True), "steps": [10_000]}
    good = experiment.outcome(settings, Results([record(400, [4.0]), record(800, [8.0])]))
    assert good.tables[0].rows[1].values[2:4] == [2.07, pytest.approx(2.07 / 1.17)]
    assert good.tables[0].rows[0].values[6] == pytest.approx(1.17 / 0.02)
    assert any("holds" in note and "not" not in note for note in good.notes)
    assert any("at most the 12" in note for note in good.notes)
    bad = experiment.outcome(settings, Results([record(400, [40.0]), record(800, [120.0])]))
    assert any("does not hold" in note for note in bad.notes)
    assert any("more than the 12" in note for note in bad.notes)


def test_curves(reports):
    """Every method has a row; gaps never grow; seconds until a gap are those of the curve."""
    report = reports["sublinear-figure1"]
    ends = {row["method"]: row for row in rows_of(report, 1)}
    assert list(ends) == list(sublinear_figure1.METHODS)
    assert ends["Algorithm 1"]["solver"] == "sublinear"
    assert min(row["P - best P"] for row in ends.values()) == 0.0
    assert ends["pdhg"]["gap"] <= 1e-2 * 1.001
    for row in rows_of(report):
        times = [row[f"gap {mark:g}"] for mark in sublinear_figure1.FULL["marks"]]
        known = [seconds for seconds in times if seconds is not None]
        assert known == sorted(known)
        assert times[: len(known)] == known
    assert any("Algorithm 1 against pdhg" in note for note in report.outcome.notes)


def test_the_problem_of_the_paper():
    problem = synthetic(50, 1e-3, 0)
    assert (problem.n, problem.d, problem.k) == (50, 50, 50)
    assert problem.primal(np.zeros((50, 50))) == 1.0
    assert np.mean(problem.codes == np.argmax(problem.matrix.values, axis=1)) > 0.7  # little noise
    np.testing.assert_array_equal(problem.codes, synthetic(50, 1e-2, 0).codes)
