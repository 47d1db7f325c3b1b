"""The doubly-greedy experiments on small data: the problem is the paper's, and figure and table agree with the records."""

import io

import numpy as np
import pytest

from saddlery.experiments import doubly_greedy, harness
from saddlery.experiments.doubly_greedy_runs import make_problem, trajectory
from saddlery.experiments.progress import Progress

FEATURES = {
    "fourier": {"kind": "fourier", "rows": 60, "count": 20, "width": 2.0, "largest": 4.0, "seed": 0},
    "binning": {"kind": "binning", "rows": 60, "count": 5, "width": 3.0, "largest": 4.0, "seed": 0},
    "unit": {"kind": "unit", "rows": None, "seed": 0},
}


def _lines(n=80, d=12, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for label in rng.integers(0, 3, n):
        values = rng.integers(0, 4, d) + 2 * (np.arange(d) % 3 == label)
        lines.append(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(values) if v))
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path):
    for seed, name in enumerate(("mnist", "news20")):
        (tmp_path / name).write_text(_lines(seed=seed))
    return tmp_path


def test_strengths_are_those_of_the_sum():
    """lambda ||w||_1 + mu/2 ||w||^2 + sum of losses is n times the problem."""
    rng = np.random.default_rng(0)
    import scipy.sparse as sp

    X, y = sp.csr_array(np.abs(rng.standard_normal((50, 8)))), rng.integers(0, 3, 50)
    problem = make_problem((X, y), FEATURES["unit"], 1, 0.3, 0.02)
    w = rng.standard_normal(8)
    z = problem.y * problem.margins(w)
    loss = np.where(z >= 1, 0.0, np.where(z <= 0, 0.5 - z, 0.5 * (1 - z) ** 2)).sum()
    assert problem.n * problem.primal(w, 0.0) == pytest.approx(loss + 0.3 * np.abs(w).sum() + 0.01 * w @ w)
    assert np.allclose(problem.matrix.row_square_norms, 1.0)


@pytest.mark.parametrize("kind", FEATURES)
def test_trajectories_fall_to_the_optimum(kind, folder):
    from saddlery.experiments import data

    pair = data.load(folder / "mnist", "mnist")
    limits = {"most_seconds": 20.0, "most_epochs": 400, "tol": 1e-5, "seed": 0}
    ends = {}
    for solver in ("sdca", "auto"):
        shares = []
        result = trajectory(
            pair, shares.append, features=FEATURES[kind], label=1, lam=0.1, mu=0.1, solver=solver, options={}, **limits
        )
        assert np.all(np.diff(result["seconds"]) >= 0)
        assert result["dual"][-1] <= result["primal"][-1]
        assert shares == sorted(shares)
        ends[solver] = result["primal"][-1]
    assert ends["sdca"] == pytest.approx(ends["auto"], rel=1e-4)


def test_figure_and_table(folder, tmp_path, monkeypatch):
    for name, entry in doubly_greedy.SETS.items():
        monkeypatch.setitem(doubly_greedy.SMALL, name, {"rows": 60, **({"count": 6} if "count" in entry["features"] else {})})
        monkeypatch.setitem(doubly_greedy.SETS, name, {**entry, "labels": [1, 2]})
    monkeypatch.setitem(doubly_greedy.QUICK, "most_seconds", 1.0)
    methods = {name: doubly_greedy.METHODS[name] for name in ("SDCA", "Saddlery default")}
    monkeypatch.setitem(doubly_greedy.QUICK, "methods", methods)
    plans = harness.plan(["doubly-greedy-figure1", "doubly-greedy-table2"], folder, quick=True)
    figure, table = harness.reproduce(plans, tmp_path / "out", "", lambda n, cost: Progress(n, cost, io.StringIO()))
    assert len(figure.outcome.charts) == 6
    rows = figure.outcome.tables[0].rows
    assert len(rows) == 3 * len(methods)
    assert all(row.values[-1] < 1e-4 for row in rows)
    assert [row.values[0] for row in table.outcome.tables[0].rows] == list(doubly_greedy.SETS)
    assert len(set(table.content["records"]) & set(figure.content["records"])) == 3  # the optima are shared
