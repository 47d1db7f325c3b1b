"""What judges all answers: formulas against others that are written out, row by row."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.bench.objectives import Objective, alpha_max

ONE = {  # the loss of one row
    "logistic": lambda y, z: math.log1p(math.exp(-y * z)),
    "hinge": lambda y, z: 1 - y * z if y * z < 1 else 0,
    "squared_hinge": lambda y, z: (1 - y * z) ** 2 / 2 if y * z < 1 else 0,
    "squared": lambda y, z: (y - z) ** 2 / 2,
}


def data(loss):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((25, 6)) * (rng.random((25, 6)) < 0.7)
    z = X @ rng.standard_normal(6) + rng.standard_normal(25)
    return X, z if loss == "squared" else np.where(z > 0, 1.0, -1.0), rng


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("loss", ONE)
def test_values(loss, l1_ratio):
    X, y, rng = data(loss)
    w, objective = rng.standard_normal(6), Objective(loss, 0.2, l1_ratio)
    losses = [ONE[loss](y[i], sum(X[i, j] * w[j] for j in range(6))) for i in range(25)]
    penalty = 0.2 * sum(l1_ratio * abs(wj) + (1 - l1_ratio) / 2 * wj * wj for wj in w)
    expected = sum(losses) / 25 + penalty
    assert objective.value(X, y, w) == pytest.approx(expected, rel=1e-13)
    assert objective.value(sp.csr_array(X), y, w) == pytest.approx(expected, rel=1e-13)
    assert objective.at_zero(y) == pytest.approx(objective.value(X, y, np.zeros(6)), rel=1e-13)
    assert objective.at(0.7).alpha == 0.7
    assert objective.kind == (loss, {1.0: "l1", 0.3: "elasticnet", 0.0: "l2"}[l1_ratio])


def test_what_is_not_an_answer():
    X, y, _ = data("squared")
    assert Objective("squared", 1.0, 1.0).value(X, y, np.full(6, np.nan)) == math.inf
    with pytest.raises(ValueError, match="5 weights for 6 columns"):
        Objective("squared", 1.0, 1.0).value(X, y, np.zeros(5))


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("loss", ONE)
def test_alpha_max(loss, l1_ratio):
    """Above it no small step of a single weight gains anything, below some does; convexity does the rest."""
    X, y, _ = data(loss)
    top = alpha_max(X, y, loss, l1_ratio)
    steps = [sign * 1e-5 * axis for axis in np.eye(6) for sign in (1, -1)]
    for factor, gains in ((1.01, False), (0.99, True)):
        objective = Objective(loss, factor * top, l1_ratio)
        assert any(objective.value(X, y, step) < objective.at_zero(y) for step in steps) == gains
