"""The experiment on boosting with small data: curves, the optimum, and what the notes say."""

import io

import numpy as np
import pytest

from saddlery.experiments import data as data_sets
from saddlery.experiments import harness, lpboost_figure1
from saddlery.experiments.progress import Progress


class Quiet(Progress):
    def __init__(self, runs, cost):
        super().__init__(runs, cost, io.StringIO())


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data_folder):
    """The small a9a with test rows beside it."""
    place = tmp_path_factory.mktemp("adult")
    lines = (data_folder / "a9a").read_text().splitlines(keepends=True)
    (place / "a9a").write_text("".join(lines[:400]))
    (place / "a9a.t").write_text("".join(lines[400:]))
    return place


@pytest.fixture(scope="module")
def report(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("out")
    settings = {**lpboost_figure1.FULL, "rows": 400, "most_passes": 8.0, "marks": [4.0, 8.0], "strength": 0.05, "tol": 1e-8}
    chosen = ("Entropy, saddle", "Entropy, convex", "Euclid, saddle", "Saddlery default")
    settings["methods"] = {name: dict(lpboost_figure1.METHODS[name]) for name in chosen}
    for name in chosen[:3]:
        settings["methods"][name]["options"] = {**settings["methods"][name]["options"], "epoch_length": 20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lpboost_figure1, "FULL", settings)
        return harness.reproduce(harness.plan(["lpboost-figure1"], folder), output, "reproduce", Quiet)[0]


def test_tables(report):
    assert [len(table["rows"]) for table in report.content["tables"]] == [4, 4]
    for table in report.content["tables"]:
        rows = {row["values"]["method"]: row["values"] for row in table["rows"]}
        assert all(row["8 passes"] >= 0.0 and 0.0 <= row["accuracy"] <= 1.0 for row in rows.values())
        assert rows["Saddlery default"]["8 passes"] <= rows["Saddlery default"]["4 passes"]


def test_notes(report):
    text = " ".join(report.outcome.notes)
    assert "can only predict the positive class" in text
    assert "(29) of the paper" in text
    assert text.count("proved by") == 2
    assert text.count("convex form is") == 2
    assert {path.suffix for path in report.files} == {".md", ".json", ".png", ".svg"}


def test_the_curve_is_that_of_the_objective(folder):
    """The end of a long run is the optimum, from either side."""
    from saddlery.experiments.boosting_runs import curve, optimum

    loaded = data_sets.load(data_sets.find(folder, "adult"), "adult")
    assert len(loaded) == 4
    assert loaded[0].shape[0] == 400
    assert loaded[2].shape[0] == 200
    shared = {"rows": 400, "complements": True, "strength": 0.1, "nu": 0.1}
    best = optimum(loaded, lambda share: None, tol=1e-9, **shared)
    run = curve(
        loaded, lambda share: None, geometry="entropy", solver="extragradient", options={}, most_passes=300.0, seed=0, **shared
    )
    assert run["upper"][-1] == pytest.approx(best["upper"], abs=1e-8)
    assert run["lower"][-1] == pytest.approx(best["lower"], abs=1e-8)
    assert (np.array(run["upper"]) >= best["lower"] - 1e-12).all()
    assert (np.diff(run["passes"]) > 0.0).all()


def test_without_test_rows_the_data_are_missing(tmp_path, data_folder):
    (tmp_path / "a9a").write_text((data_folder / "a9a").read_text())
    assert data_sets.find(tmp_path, "adult") is None
    assert data_sets.find(tmp_path, "a9a") is not None
    assert "a9a, a9a.t" in data_sets.say_missing(["adult"], tmp_path)
