"""The experiments of Lu and Freund on small files under the names of their data: shared runs, honest counts, traceable rows."""

import io
import json

import numpy as np
import pytest

import saddlery as sd
from saddlery.experiments import frank_wolfe, frank_wolfe_runs, harness
from saddlery.experiments.data import find, load
from saddlery.experiments.frank_wolfe_table3 import PRINTED
from saddlery.experiments.progress import Progress

NAMES = ["frank-wolfe-table3", "frank-wolfe-figure1", "frank-wolfe-figure2"]
PASSES = {"Frank-Wolfe": 900, "GSFW": 60, "SCGM": 30, "SFW": 20, "SVRF": 20, "SCGS": 20, "SAG-FW": 30, "Saddlery default": 50}


class CountingProgress(Progress):
    labels: list[str]

    def __init__(self, runs, cost):
        super().__init__(runs, cost, io.StringIO())

    def start(self, label, cost):
        self.labels.append(label)
        return super().start(label, cost)


@pytest.fixture(scope="module")
def reports(data_folder, tmp_path_factory):
    """All three experiments on a9a and mushrooms, w8a and gisette not there; budgets cut down."""
    output = tmp_path_factory.mktemp("out")
    CountingProgress.labels = []
    with pytest.MonkeyPatch.context() as patch:
        methods = {name: {**method, "most_passes": PASSES[name]} for name, method in frank_wolfe.METHODS.items()}
        seeds = {"GSFW": [0, 1, 2], "SAG-FW": [0, 1]}
        patch.setattr(frank_wolfe, "FULL", {**frank_wolfe.FULL, "methods": methods, "seeds": seeds, "target": 1e-3})
        plans = harness.plan(NAMES, data_folder)
        found = harness.reproduce(plans, output, "saddlery reproduce all", CountingProgress)
    return {report.name: report for report in found} | {"output": output, "labels": CountingProgress.labels}


def rows_of(report, table=0):
    return [row["values"] for row in report.content["tables"][table]["rows"]]


def test_table_and_figures_share_their_runs(reports):
    labels = reports["labels"]
    assert len(labels) == len(set(labels)) == 2 * (1 + 1 + 3 + 1 + 2 + 1 + 3)  # optimum, FW, GSFW, SCGM, SAG-FW, default, figures
    used = {path for name in NAMES for path in reports[name].content["records"]}
    assert len(used) == len(labels)
    assert len(list((reports["output"] / "records").iterdir())) == len(labels)


def test_what_is_missing_is_said(reports):
    for name in NAMES:
        assert reports[name].content["missing"] == ["w8a", "gisette"]
        assert any(note.startswith("gisette: not available") for note in reports[name].outcome.notes)
    rows = [row for row in rows_of(reports["frank-wolfe-table3"]) if row["data"] == "gisette"]
    assert [(row["method"], row["paper"], row["here"]) for row in rows] == [
        ("Frank-Wolfe", 1045, "not available"),
        ("GSFW", 109_000, "not available"),
    ]


def test_counts_are_those_of_the_solvers(reports, data_folder):
    """Frank-Wolfe by hand, from the formulas: the first step with P - P* <= target, and n sample gradients for each."""
    for data in ("a9a", "mushrooms"):
        X, y = load(find(data_folder, data), data)
        X, n = X.toarray(), len(y)
        best = next(row["P*"] for row in rows_of(reports["frank-wolfe-table3"], 3) if row["data"] == data)
        w, values = np.zeros(X.shape[1]), []
        for k in range(901):
            values.append(np.logaddexp(0.0, -y * (X @ w)).mean() - best)
            gradient = X.T @ (-y / (1.0 + np.exp(y * (X @ w)))) / n
            j = int(np.argmax(np.abs(gradient)))
            atom = np.zeros(X.shape[1])
            atom[j] = -5.0 * np.sign(gradient[j])
            w = w + 2.0 / (k + 2.0) * (atom - w)
        first = int(np.argmax(np.array(values) <= 1e-3))
        calls = next(r for r in rows_of(reports["frank-wolfe-table3"], 0) if (r["data"], r["method"]) == (data, "Frank-Wolfe"))
        gradients = next(r for r in rows_of(reports["frank-wolfe-table3"], 1) if (r["data"], r["method"]) == (data, "Frank-Wolfe"))
        assert 0 < first == calls["here"]
        assert gradients["here"] == pytest.approx(first * n / 1e6)
        at = next(row for row in rows_of(reports["frank-wolfe-table3"], 2) if row["data"] == data)
        assert at["P - P* at k"] == pytest.approx(values[PRINTED[data]["Frank-Wolfe"].oracle_calls], rel=1e-6, abs=1e-12)


def test_gradients_at_the_start_are_not_counted(reports):
    record = next(path for path in reports["frank-wolfe-figure1"].content["records"] if "gsfw-on-a9a" in path)
    result = json.loads((reports["output"] / record).read_text())["result"]
    assert result["sample_gradients"][0] == result["initial_gradients"] == 600
    assert result["oracle_calls"][0] == 0
    assert result["sample_gradients"][1] - 600 == 6 * result["oracle_calls"][1]  # batches of 1 %


def test_optimum_is_certified(reports, data_folder):
    for row in rows_of(reports["frank-wolfe-table3"], 3):
        X, y = load(find(data_folder, row["data"]), row["data"])
        problem = sd.LinearProblem(X, y, "logistic", sd.penalties.L1Ball(5.0))
        solution = sd.solve(problem, tol=1e-9)
        assert row["gap proved"] <= 1e-12
        assert solution.certificate.dual - 1e-12 <= row["P*"] <= solution.certificate.primal + 1e-12


def test_certificates_in_the_records_are_bounds(reports):
    for path in (reports["output"] / "records").glob("*.json"):
        result = json.loads(path.read_text())["result"]
        if "oracle_calls" in result:
            primal, dual = np.array(result["primal"]), np.array(result["dual"])
            assert (primal - dual >= -1e-12).all()
            assert (np.diff(dual) >= 0.0).all()
            assert (np.diff(result["oracle_calls"]) >= 0).all()
            assert (np.diff(result["sample_gradients"]) >= 0).all()


def test_rows_lead_to_records(reports):
    for name in NAMES:
        for table in reports[name].content["tables"]:
            for row in table["rows"]:
                assert row["records"] or row["values"]["here"] == "not available"
                assert all((reports["output"] / path).is_file() for path in row["records"])


def test_the_default_is_far_ahead(reports):
    for data in ("a9a", "mushrooms"):
        ours = {row["method"]: row for row in rows_of(reports["frank-wolfe-table3"], 1) if row["data"] == data}
        assert ours["Saddlery default"]["here until proved"] < 0.1 * ours["Frank-Wolfe"]["here"]


def test_pictures(reports):
    for name in NAMES[1:]:
        folder = reports["output"] / name
        assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / "figure.svg").read_text()
        assert "![" in (folder / "result.md").read_text()
        assert {row["method"] for row in rows_of(reports[name])} == set(PASSES) - {"Frank-Wolfe"}
        claims = [note for note in reports[name].outcome.notes if note.startswith(("a9a:", "mushrooms:"))]
        assert len(claims) == 2
        assert all(rival in claim for claim in claims for rival in ("SFW", "SVRF", "SCGM", "SCGS"))


def test_curves():
    values = np.array([3.0, 1.0, 2.0, 0.5, 0.4])
    curve = frank_wolfe.Curve("m", None, values, values, values, values)
    assert curve.first(values, 1.0) == 1
    assert curve.stays(values, 1.0) == 3
    assert curve.first(values, 0.1) is None
    assert curve.stays(values, 0.1) is None


def test_a_run_ends_at_its_tolerance(data_folder):
    data = load(find(data_folder, "a9a"), "a9a")
    shares = []
    options = {"radius": 5.0, "most_passes": 1000.0, "most_oracle_calls": 1e6, "tol": 1e-6, "seed": 0}
    result = frank_wolfe_runs.trajectory(data, shares.append, solver="auto", options={}, **options)
    assert result["solver"] == "corrective"
    assert result["primal"][-1] - result["dual"][-1] <= 1e-6
    assert shares == sorted(shares)
    assert shares[-1] < 1.0
