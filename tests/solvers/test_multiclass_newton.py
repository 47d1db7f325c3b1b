"""The default solvers of multiclass problems: against a conic solver, on degenerate data, and their promises to the loop."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.problems.multiclass import MulticlassProblem
from saddlery.solvers.multiclass_newton import MulticlassNewton
from saddlery.solvers.multiclass_smoothed import MulticlassSmoothed

PENALTIES = {
    "l1": sd.penalties.L1(0.03),
    "elasticnet": sd.penalties.ElasticNet(0.03, l1_ratio=0.5),
    "l2": sd.penalties.L2(0.05),
}
SOLVER = {"logistic": MulticlassNewton, "hinge": MulticlassSmoothed}


def data(seed: int = 0, n: int = 60, d: int = 7, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    y = np.argmax(X @ rng.standard_normal((d, k)) + rng.standard_normal((n, k)), axis=1)
    y[:k] = np.arange(k)
    return X, y


def reference(problem: Any) -> float:
    """The optimal value by a conic solver."""
    X = problem.matrix.values
    X = X.toarray() if sp.issparse(X) else X
    n, d, k = problem.n, problem.d, problem.k
    W, b = cp.Variable((d, k)), cp.Variable((1, k))
    Y = np.eye(k)[problem.codes]
    Z = X @ W + (np.ones((n, 1)) @ b if problem.fit_intercept else 0.0)
    own = cp.sum(cp.multiply(Y, Z), axis=1)
    hinge = np.isinf(problem.loss.smoothness)
    rows = cp.max(Z + 1.0 - Y, axis=1) if hinge else cp.log_sum_exp(Z, axis=1)
    l1, l2 = problem.penalty.threshold, problem.penalty.strong_convexity
    value = problem.s @ (rows - own) + l1 * cp.sum(cp.abs(W)) + 0.5 * l2 * cp.sum_squares(W)
    return float(cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL"))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", SOLVER)
def test_agrees_with_a_conic_solver(loss, penalty, intercept):
    X, y = data(1)
    weights = np.random.default_rng(2).random(len(y))
    weights[5] = 0.0
    for sparse in (False, True):
        values = sp.csr_array(X) if sparse else X
        problem = MulticlassProblem(values, y, loss, PENALTIES[penalty], sample_weight=weights, fit_intercept=intercept)
        best = reference(problem)
        for form in ("gram", "columns"):
            tol = 1e-7 if loss == "logistic" or form == "gram" else 1e-6  # sweeps crawl where the hinge is hardly smoothed
            solution = sd.solve(problem, SOLVER[loss](form=form), tol=tol)
            assert solution.certificate.relative_gap <= tol, (sparse, form)
            assert solution.certificate.primal == pytest.approx(best, abs=1e-6), (sparse, form)
