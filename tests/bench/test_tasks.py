"""Cells and tasks: strengths, parts, values."""

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.bench.compare import budget_for, cells_for, check_cells
from saddlery.bench.objectives import alpha_max
from saddlery.bench.sklearn_rivals import CoordinateDescent, Liblinear
from saddlery.bench.tasks import Cell, Task
from saddlery.errors import InputError

RNG = np.random.default_rng(1)
X = RNG.standard_normal((50, 5))
NUMBERS = X[:, 0] - X[:, 1] + RNG.standard_normal(50)
SIGNS = np.where(NUMBERS > 0, 1.0, -1.0)


def test_strengths():
    tops = alpha_max(X, SIGNS, "logistic", 0.5)
    assert Task(Cell("a", "", "fit", "logistic", 0.5, ratio=0.1), X, SIGNS).objective.alpha == pytest.approx(0.1 * tops)
    assert Task(Cell("a", "", "fit", "logistic", 0.5, alpha=0.3), X, SIGNS).objective.alpha == 0.3
    assert Task(Cell("a", "", "fit", "hinge", 0.0), X, SIGNS).objective.alpha == 1 / 50
    for cell in (Cell("a", "", "path", "logistic", 0.5, ratio=0.01), Cell("a", "", "path", "logistic", 0.5, alpha=0.01 * tops)):
        path = Task(cell, X, SIGNS)
        assert path.alphas.size == len(path.parts) == 20
        assert path.alphas[-1] == pytest.approx(0.01 * tops)
        assert path.alphas[0] < tops


def test_a_path_and_folds_are_judged_point_by_point():
    for task, parts in (("path", 20), ("cv", 100)):
        cell = Task(Cell("a", "", task, "squared", 1.0, ratio=0.01), X, NUMBERS)
        rival = CoordinateDescent()
        answer = np.concatenate([np.atleast_2d(w) for w in cell.run(rival, cell.prepare(rival), 1e-8)()])
        assert answer.shape == (parts, 5)
        assert np.all(cell.values(answer) <= cell.scales())


def test_one_against_the_rest_is_one_objective():
    codes = np.arange(50) % 3
    task = Task(Cell("a", "", "ovr", "logistic", 1.0, ratio=0.1), X, codes)
    rival = Liblinear()
    answer = task.run(rival, task.prepare(rival), 1e-6)()
    assert answer.shape == (3, 5)
    single = [part.objective.value(X, np.where(codes == k, 1.0, -1.0), answer[k]) for k, part in enumerate(task.parts)]
    assert task.values(answer) == pytest.approx([sum(single)])
    assert task.scales() == pytest.approx([3 * np.log(2)])


def test_names():
    names = [cell.name for cell in cells_for("my data", "path", "squared", "l1", ratios=[0.1, 0.01, 0.1])]
    assert names == ["my data:path-squared-l1-0.1", "my data:path-squared-l1-0.01"]
    assert cells_for("my/data", "fit", "hinge", "l2")[0].file == "my-data-hinge-l2"
    assert [cell.ratio for cell in cells_for("a", "fit", "logistic", "l1")] == [0.1, 0.01]
    assert cells_for("a", "fit", "logistic", "elasticnet", 1.0)[0].kind == ("logistic", "l1")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"penalty": "elasticnet", "l1_ratio": 2.0}, "l1_ratio must lie between 0 and 1"),
        ({"penalty": "l1", "alphas": [-1.0]}, "must be a positive number, not -1"),
        ({"penalty": "l2", "ratios": [0.1]}, "l2 never makes all weights zero: give alpha"),
        ({"penalty": "l2", "task": "path"}, "a path needs a penalty with an l1 part"),
        ({"penalty": "l1", "task": "path", "ratios": [1.0]}, "below 1"),
    ],
)
def test_bad_cells(options, reason):
    with pytest.raises(InputError, match=reason):
        cells_for(**{"data": "a", "task": "fit", "loss": "logistic", **options})


@pytest.mark.parametrize(
    ("cell", "columns", "y", "reason"),
    [
        ({"ratio": 0.1}, X, np.zeros(50), "the targets are all zero"),
        ({"ratio": 0.1}, np.zeros((50, 2)), NUMBERS, "no column goes with the targets"),
        ({"ratio": 0.1}, sp.csr_array(np.full((50, 1), np.nan)), NUMBERS, "NaN"),
        ({"alpha": 99.0, "task": "path"}, X, NUMBERS, "alpha = 99 makes all weights zero"),
    ],
)
def test_data_that_cannot_be_measured(cell, columns, y, reason):
    fields = {"name": "a", "data": "a", "task": "fit", "loss": "squared", "l1_ratio": 1.0, **cell}
    with pytest.raises(InputError, match=reason):
        check_cells([Cell(**fields)], columns, y)


def test_budgets():
    budget = budget_for([1e-6, 1e-2, 1e-6], 2.0)
    assert (budget.targets, budget.last) == ((1e-2, 1e-6), 1e-6)
    assert budget.limit(0.1) == 2.0
    assert budget.limit(0.01) == 1.0
    assert [budget.repeats(seconds) for seconds in (0.1, 2.0)] == [3, 1]
    assert budget_for([1e-9]).accuracy == pytest.approx(1e-11)
    for arguments in ([[1e-12]], [[1.0]], [[1e-3], 0.0], [[1e-3], float("nan")]):
        with pytest.raises(InputError):
            budget_for(*arguments)
