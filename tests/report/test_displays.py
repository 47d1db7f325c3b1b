"""Displays: attributes, scales, and a clear word when matplotlib is missing."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

import saddlery as sd

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 20))
    return sd.LinearProblem(
        X, np.sign(X[:, 0] + 0.1 * rng.standard_normal(60)), penalty=sd.penalties.ElasticNet(0.02, l1_ratio=0.5)
    )


@pytest.mark.parametrize(("x", "label"), [("seconds", "seconds"), ("passes", "passes over the data"), ("epoch", "epochs")])
def test_convergence_of_a_solution(problem, x, label):
    solution = sd.solve(problem)
    display = sd.ConvergenceDisplay.from_solution(solution, x=x, tol=1e-6)
    assert display.ax_.figure is display.figure_
    assert display.ax_.get_yscale() == "log"
    assert display.ax_.get_xlabel() == label
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), solution.trace.column(x))
    gaps = solution.trace.column("relative_gap")
    np.testing.assert_array_equal(line.get_ydata()[gaps > 1e-17], gaps[gaps > 1e-17])


def test_several_solutions_on_given_axes(problem):
    _, ax = plt.subplots()
    runs = {name: sd.solve(problem, solver=name, tol=1e-3) for name in ("sdca", "prox_newton")}
    display = sd.ConvergenceDisplay.from_solutions(runs, ax=ax, x="passes", xscale="log")
    assert display.ax_ is ax
    assert ax.get_xscale() == "log"
    assert [line.get_label() for line in display.lines_] == ["sdca", "prox_newton"]
    assert display.runs[0].best_dual == display.runs[1].best_dual


def test_estimator_and_trace():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    model = sd.LinearClassifier(alpha=0.02).fit(X, np.repeat([0, 1, 2], 20))
    assert len(sd.ConvergenceDisplay.from_estimator(model).lines_) == 3
    display = sd.ConvergenceDisplay.from_trace(model.trace_, name="one", hindsight=False)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["one"]


def test_a_wrong_axis_is_refused(problem):
    with pytest.raises(sd.InputError, match="seconds, passes, epoch"):
        sd.ConvergenceDisplay.from_solution(sd.solve(problem), x="minutes")


def test_path_display(problem):
    alphas = problem.alpha_max() * np.array([0.5, 0.1, 0.02])
    result = sd.path(problem, alphas)
    names = [f"name {j}" for j in range(problem.d)]
    display = sd.PathDisplay.from_path(result, feature_names=names, top=3)
    assert display.ax_.figure is display.figure_
    assert display.gap_ax_.get_yscale() == "log"
    assert display.gap_ax_.get_xscale() == "log"
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert len(labels) == 3
    assert labels[0] == "name 0"
    _, ax = plt.subplots()
    assert display.plot(ax=ax).gap_ax_ is None
    assert display.ax_ is ax


def test_path_display_refuses_what_does_not_fit():
    with pytest.raises(sd.InputError, match="one row"):
        sd.PathDisplay([1.0, 0.1], np.zeros((3, 3)), [0.0, 0.0])
    with pytest.raises(sd.InputError, match="2 feature names"):
        sd.PathDisplay([1.0], np.zeros((1, 3)), [0.0], feature_names=["a", "b"])


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from saddlery.solvers.base import Record\n"
        "import saddlery as sd\n"
        "try:\n"
        "    sd.ConvergenceDisplay.from_trace([Record(0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0)])\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'saddlery[plot]'" in answer.stdout
