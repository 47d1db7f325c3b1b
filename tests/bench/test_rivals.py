"""Every adapter whose peer is installed minimises what it is said to; the optima are SciPy's, from smooth problems with bounds."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from saddlery.bench.check import ACCURACY, best_of, is_excused, problems
from saddlery.bench.rivals import known

SLOPES = {
    "logistic": lambda y, z: -y / (1.0 + np.exp(y * z)),
    "squared_hinge": lambda y, z: -y * np.maximum(0.0, 1.0 - y * z),
    "squared": lambda y, z: z - y,
}
PRECISELY = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 40}


def smooth_optimum(X, y, objective):
    """The optimum over w = p - q with p, q >= 0, where the l1 norm is a sum."""
    d = X.shape[1]

    def function(pq):
        w = pq[:d] - pq[d:]
        slope = X.T @ SLOPES[objective.loss](y, X @ w) / len(y) + objective.l2 * w
        smooth = objective.value(X, y, w) - objective.l1 * np.abs(w).sum()
        return smooth + objective.l1 * pq.sum(), np.concatenate([slope, -slope]) + objective.l1

    pq = minimize(function, np.zeros(2 * d), jac=True, bounds=[(0.0, None)] * (2 * d), method="L-BFGS-B", options=PRECISELY).x
    return objective.value(X, y, pq[:d] - pq[d:])


def hinge_optimum(X, y, objective):
    """The optimum of the hinge with l2 by its dual: max mean(b) - ||X'(y b)||^2 / (2 l2 n^2) over 0 <= b <= 1."""
    n = len(y)

    def function(b):
        w = X.T @ (y * b) / (n * objective.l2)
        return 0.5 * objective.l2 * w @ w - b.mean(), (y * (X @ w) - 1.0) / n

    return -minimize(function, np.full(n, 0.5), jac=True, bounds=[(0.0, 1.0)] * n, method="L-BFGS-B", options=PRECISELY).fun


@pytest.fixture(scope="module")
def tasks():
    """Data, objectives and their optima."""
    return [
        (X, y, objective, (hinge_optimum if objective.loss == "hinge" else smooth_optimum)(X, y, objective))
        for X, y, objective in problems()
    ]


@pytest.mark.parametrize("name", known())
def test_optimum(name, tasks):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rival = known()[name]()
    except ImportError as error:
        pytest.skip(str(error))
    mine = [task for task in tasks if rival.can(task[2], task[0]) and not is_excused(rival, task[2])]
    for X, y, objective, optimum in mine:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert -ACCURACY / 10 <= best_of(rival, X, y, objective, optimum) <= ACCURACY, objective


def test_scikit_learn_covers_all_kinds():
    """Whoever installs nothing else still has somebody to compare with."""
    mine = {kind for cls in known().values() if cls.package == "scikit-learn" for kind in cls.kinds}
    assert mine >= {kind for cls in known().values() for kind in cls.kinds}
