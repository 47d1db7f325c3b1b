"""Pegasos and the exact solver on a subsample: steps, certificates, counted reads."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.matrix.partial import PartialMatrix
from saddlery.solvers.pegasos import pegasos_steps
from saddlery.solvers.subsampled import subsampled


class Asked(PartialMatrix):
    """An array that is read in parts, and remembers what was asked for."""

    def __init__(self, X):
        self.X, self.entries = X, 0
        super().__init__(X.shape, X.size, False, X.dtype)

    def read_rows(self, index):
        self.entries += len(index) * self.shape[1]
        return np.ascontiguousarray(self.X[index])

    def read_cols(self, index):
        self.entries += len(index) * self.shape[0]
        return np.asfortranarray(self.X[:, index])


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    X[rng.random(X.shape) < 0.4] = 0.0
    y = np.sign(X @ rng.standard_normal(6) + 0.5 * rng.standard_normal(80))
    y[y == 0.0] = 1.0
    return sd.LinearProblem(X, y, "hinge", sd.penalties.L2(0.05))


def test_steps_are_those_of_the_paper(problem):
    """u = alpha t w, with the decay never written down."""
    X, y, alpha = problem.matrix.values, problem.y, 0.05
    order = np.random.default_rng(1).integers(80, size=300)
    u, slopes, w = np.zeros(6), np.zeros(80), np.zeros(6)
    pegasos_steps(problem.loss, problem.matrix.rows, y, order, order, alpha, 0.0, u, slopes)
    for t, i in enumerate(order, start=1):
        inside = y[i] * (X[i] @ w) < 1.0
        w = (1.0 - 1.0 / t) * w + inside * y[i] * X[i] / (alpha * t)
    np.testing.assert_allclose(u / (alpha * 300), w, rtol=1e-9)
    np.testing.assert_allclose(-X.T @ slopes, u, rtol=1e-9, atol=1e-12)


def test_approaches_the_optimum_with_certificates(problem):
    best = sd.solve(problem, tol=1e-9).certificate.primal
    solution = sd.solve(problem, "pegasos", tol=1e-2, max_epochs=400)
    assert solution.status is sd.Status.CONVERGED
    for record in solution.trace:
        assert record.dual <= best + 1e-9 <= record.primal + 2e-9
    assert solution.trace[-1].counts["accesses"] == solution.state.t * 6


def test_sparse_and_in_parts_are_the_same_run(problem):
    """Dense, sparse and read in parts: the same draws, so the same points; reads are counted as each has them."""
    X, y = problem.matrix.values, problem.y
    asked = Asked(X)
    runs = {}
    for name, data in (("dense", X), ("sparse", sp.csr_array(X)), ("parts", asked)):
        other = sd.LinearProblem(data, y, "hinge", problem.penalty)
        runs[name] = sd.solve(other, "pegasos", max_epochs=3, certificate=None)
    for name in ("sparse", "parts"):
        np.testing.assert_allclose(runs[name].w, runs["dense"].w, rtol=1e-9)
    counts = {name: run.trace[-1].counts for name, run in runs.items()}
    assert counts["dense"]["accesses"] == counts["sparse"]["dense_accesses"] == asked.entries == 240 * 6
    rows = np.flatnonzero(runs["sparse"].state.reads.row_flags)
    assert counts["sparse"]["distinct_accesses"] == np.count_nonzero(X[rows])
    assert counts["dense"]["distinct_accesses"] == len(rows) * 6
    assert np.isnan(runs["dense"].certificate.gap)


def test_budget_and_weights(problem):
    solution = sd.solve(problem, "pegasos", max_accesses=100, certificate=None)
    assert solution.status is sd.Status.MAX_ACCESSES
    assert 100 <= solution.trace[-1].counts["accesses"] <= 106
    weights = np.zeros(80)
    weights[:10] = 1.0
    some = sd.LinearProblem(problem.matrix, problem.y, "hinge", problem.penalty, sample_weight=weights)
    run = sd.solve(some, "pegasos", max_epochs=2)
    assert not run.state.reads.row_flags[10:].any()


def test_refusals(problem):
    with pytest.raises(UnsupportedError, match="bounded slopes"):
        sd.solve(sd.LinearProblem(problem.matrix, problem.y, "squared_hinge", sd.penalties.L2(0.1)), "pegasos")
    with pytest.raises(UnsupportedError, match="depends on the length of w alone"):
        sd.solve(sd.LinearProblem(problem.matrix, problem.y, "hinge", sd.penalties.L1(0.1)), "pegasos")


def test_subsampled(problem):
    """Exact on its rows, which alone are read."""
    asked = Asked(problem.matrix.values)
    solution, accesses = subsampled(sd.LinearProblem(asked, problem.y, "hinge", problem.penalty), 30, random_state=3, tol=1e-8)
    assert accesses == asked.entries == 30 * 6
    assert solution.status is sd.Status.CONVERGED
    assert solution.dual.shape == (30,)
    whole, accesses = subsampled(problem, 80, tol=1e-8)
    assert whole.certificate.primal == pytest.approx(sd.solve(problem, tol=1e-8).certificate.primal, abs=1e-7)
    rare = sd.LinearProblem(np.eye(20), np.append(np.ones(19), -1.0), "hinge", problem.penalty)
    for seed in range(5):
        assert subsampled(rare, 2, random_state=seed)[0].status is sd.Status.CONVERGED
    with pytest.raises(InputError, match="between 1 and 80"):
        subsampled(problem, 0)
