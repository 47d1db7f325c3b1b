"""The F-score figures on small data: what is computed, what the tables and the notes say."""

import io

import numpy as np
import pytest

from saddlery.experiments import harness
from saddlery.experiments.fscore_curves import methods
from saddlery.experiments.fscore_figure2 import FScoreFigure2
from saddlery.experiments.fscore_figure3 import FScoreFigure3
from saddlery.experiments.fscore_runs import split_data
from saddlery.experiments.progress import Progress


class Quiet(Progress):
    def __init__(self, runs, cost):
        super().__init__(runs, cost, io.StringIO())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small file under the name of ionosphere."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([1, -1], [26, 20]))
    lines = [f"{label} " + " ".join(f"{j + 1}:{value:.4f}" for j, value in enumerate(rng.random(34) + 0.3 * label)) for label in y]
    folder = tmp_path_factory.mktemp("sets")
    (folder / "ionosphere_scale").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def reports(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("out")
    small = {"train": [12, 8], "test": [10, 8], "most_passes": 15.0, "most_seconds": 2.0, "methods": methods(3e-2, 1e-5, 20)}
    with pytest.MonkeyPatch.context() as patch:
        for figure in (FScoreFigure2, FScoreFigure3):
            patch.setattr(figure, "quick", small)
        plans = harness.plan(["fscore-figure2", "fscore-figure3"], folder, quick=True)
        return {report.name: report for report in harness.reproduce(plans, output, "reproduce", Quiet)}


def rows_of(report, table=0):
    return [row["values"] for row in report.content["tables"][table]["rows"]]


@pytest.mark.parametrize("name", ["fscore-figure2", "fscore-figure3"])
def test_tables_and_notes(reports, name):
    report = reports[name]
    passes, ends = rows_of(report), rows_of(report, 1)
    assert [row["method"] for row in ends] == list(methods(1.0, 1.0, 1))
    for row in passes:
        known = [row[f"gap {mark:g}"] for mark in (1e-1, 1e-2, 1e-4, 1e-6) if row[f"gap {mark:g}"] is not None]
        assert known == sorted(known)
    assert all(row["last gap"] >= 0.0 and 0.0 <= row["test F"] <= 1.0 for row in ends)
    assert any("optimum lies between" in note for note in report.outcome.notes)


def test_entropy_is_ahead_on_the_synthetic_data(reports):
    ends = {row["method"]: row["last gap"] for row in rows_of(reports["fscore-figure2"], 1)}
    assert ends["Entropy, saddle"] < 1e-3 * ends["Euclid, saddle"]


def test_splits():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 3)), np.repeat([1.0, -1.0], 15)
    split = split_data((X, y), [6, 5], [3, 4], 0)
    assert (split.y.sum(), split.y.size, split.y_test.sum(), split.y_test.size) == (6, 11, 3, 7)
    both = np.vstack([split.X, split.X_test])
    assert len(np.unique(both[:, 0])) == 18  # no row is in both parts
    np.testing.assert_array_equal(split.X, split_data((X, y), [6, 5], [3, 4], 0).X)
