"""Error against accesses on small problems: what is counted, what is compared, and what the notes say."""

import io

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.experiments import harness, simba_figure1
from saddlery.experiments.base import Record, Results, Run
from saddlery.experiments.data import SETS
from saddlery.experiments.progress import Progress
from saddlery.experiments.simba_runs import split_rows, topics_of


class Quiet(Progress):
    def __init__(self, runs, cost):
        super().__init__(runs, cost, io.StringIO())


PASSES = [0.05, 0.2, 0.5]
SMALL = {
    "data": ["a9a", "news20"],
    "seeds": [0, 1],
    "methods": simba_figure1.METHODS,
    "problems": {
        "a9a": {
            "data": "a9a",
            "source": {"train": 400, "unit_rows": True},
            "passes": PASSES,
            "longest": {"simba, paper's form": 0.2},
            "values": {"simba": [0.3, 0.5], "simba, paper's form": [0.1], "pegasos": [1e-3], "subsample": [1e-3]},
            "targets": [0.5, 0.01],
        },
        "news20": {"data": "news20", "source": {}, "passes": PASSES, "values": {"simba": [0.5]}, "targets": []},
        "topics": {
            "data": "",
            "source": {"n": 120, "common": 2, "rare": 2, "mass": 0.1, "in_memory": False},
            "passes": PASSES,
            "values": {"simba": [0.1], "pegasos": [1e-3], "subsample": [1e-3]},
            "targets": [0.2],
        },
    },
}


@pytest.fixture(scope="module")
def report(tmp_path_factory, data_folder):
    output = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simba_figure1, "FULL", SMALL)
        plans = harness.plan(["simba-figure1"], data_folder)
        return harness.reproduce(plans, output, "reproduce", Quiet)[0], output


def records(output, beginning):
    import json

    files = sorted((output / "records").glob(f"{beginning}*.json"))
    return [json.loads(file.read_text())["result"] for file in files]


def test_reads_are_counted_in_both_ways(report):
    _, output = report
    for result in records(output, "pegasos-0-001-on-a9a"):
        n, d = result["n"], result["d"]
        assert (n, d) == (400, 123)
        np.testing.assert_array_equal(result["dense"], np.array(result["steps"]) * d)
        assert all(value >= share * n * d for value, share in zip(result["dense"], PASSES, strict=True))
        assert result["dense"][-1] < 0.5 * n * d + d
        assert all(stored < 0.1 * dense for stored, dense in zip(result["nonzero"], result["dense"], strict=True))
    for result in records(output, "simba-0-1-on-topics"):
        assert result["dense"] == result["nonzero"]
        assert all(distinct <= dense for distinct, dense in zip(result["distinct"], result["dense"], strict=True))
        assert result["dense"][0] < 0.05 * 120**2 + 10 * 240
    for result in records(output, "subsample-0-001-on-topics"):
        assert result["steps"] == [6, 24, 60]
        assert result["dense"] == [6 * 120, 24 * 120, 60 * 120]


def test_what_is_shown(report):
    shown, output = report
    content = shown.content
    first = [row["values"] for row in content["tables"][0]["rows"]]
    assert [(row["data"], row["reads"]) for row in first] == [("a9a", "all")] * 2 + [("a9a", "stored")] * 2 + [("topics", "all")]
    errors = {row["values"]["method"]: row["values"] for row in content["tables"][1]["rows"]}
    assert list(errors) == list(simba_figure1.METHODS)
    assert errors["simba, paper's form"]["0.5"] is None  # it ends earlier
    assert errors["simba"]["slack or alpha"] in (0.3, 0.5)
    assert "news20: not available." in content["notes"]
    assert sum("'100 times fewer'" in note or "nothing can be said" in note for note in content["notes"]) == 3
    assert (output / "simba-figure1" / "figure.png").stat().st_size > 10_000


def line(method, value, errors, data="x"):
    """The run and the record of one method, on dense data of 100 entries, read at 1, 10 and 100 of them."""
    chosen = simba_figure1.METHODS[method]
    settings = {"source": {}, **chosen, "value": value}
    reads = [1.0, 10.0, 100.0][: len(errors)]
    result = {"n": 10, "d": 10, "nnz": 100, "dense": reads, "nonzero": reads, "error": errors}
    return Run("", "", settings, data), Record(f"{method}{value}", "", "", settings, 0, {}, "", result, 0.0, "", "", {})


def judged(*lines):
    values = {}
    for run, _ in lines:
        name = next(name for name, chosen in simba_figure1.METHODS.items() if chosen.items() <= run.settings.items())
        values.setdefault(name, []).append(run.settings["value"])
    problem = {"data": "x", "source": {}, "passes": [0.01, 0.1, 1.0], "values": values, "targets": [0.1]}
    settings = {"methods": simba_figure1.METHODS, "problems": {"x": problem}}
    outcome = simba_figure1.SimbaFigure1().outcome(settings, Results(list(lines)))
    return outcome.tables[0].rows[0].values, outcome.notes[-1]


def test_the_claim_is_judged_by_the_numbers():
    row, note = judged(line("simba", 0.1, [0.05, 0.0, 0.0]), line("pegasos", 1.0, [0.5, 0.4, 0.1]))
    assert row[3:] == [0.01, None, 1.0, None, "1e+02", None]
    assert "'100 times fewer' holds" in note
    row, note = judged(line("simba", 0.1, [0.5, 0.1, 0.0]), line("pegasos", 1.0, [0.5, 0.4, 0.1]))
    assert row[7] == "10"
    assert "does not hold; the largest factor over Pegasos is 10" in note
    row, note = judged(line("simba", 0.1, [0.5, 0.3, 0.2]), line("pegasos", 1.0, [0.5, 0.1, 0.0]))
    assert row[7] == "< 0.1"
    assert "does not hold" in note
    row, note = judged(line("simba", 0.1, [0.1, 0.1, 0.1]), line("pegasos", 1.0, [0.5, 0.4, 0.3]))
    assert row[7] == "> 1e+02"
    assert "nothing can be said" in note
    # of several trade-offs the one with the lowest error counts
    row, _ = judged(line("simba", 0.1, [0.1, 0.1, 0.1]), line("simba", 0.2, [0.3, 0.1, 0.0]), line("pegasos", 1.0, [0.5, 0.4, 0.1]))
    assert row[3] == 0.1


def test_rows_are_split_once_and_scaled():
    X = sp.csr_array(np.arange(1.0, 31.0).reshape(10, 3))
    y = np.where(np.arange(10) % 2 == 0, 1.0, -1.0)
    split = split_rows(X, y, 6)
    again = split_rows(X, y, 6)
    values = split.matrix.values.toarray()
    np.testing.assert_array_equal(values, again.matrix.values.toarray())
    assert values.shape == (6, 3)
    assert np.linalg.norm(X.toarray() / np.sqrt((X.toarray() ** 2).sum(1).max()), axis=1).max() == pytest.approx(1.0)
    outside = {round(value, 6) for value in (X.toarray() / np.linalg.norm(X.toarray()[9]))[:, 0]} - {
        round(v, 6) for v in values[:, 0]
    }
    assert len(outside) == 4
    assert split.error(np.zeros(3), 1.0) + split.error(np.zeros(3), -1.0) == pytest.approx(1.0)


def test_the_groups_of_news20_are_those_of_the_paper():
    """Ten groups against ten: sci.*, comp.* and misc.forsale on one side."""
    assert len(SETS["news20"].positive) == 10


def test_topics_in_memory_and_on_demand_are_the_same():
    options = {"n": 30, "common": 2, "rare": 2, "mass": 0.2}
    inside, demanded = topics_of(**options, in_memory=True), topics_of(**options, in_memory=False)
    np.testing.assert_array_equal(inside.matrix.values, demanded.matrix.take_rows(np.arange(30)).values)
    np.testing.assert_array_equal(inside.y, demanded.y)
