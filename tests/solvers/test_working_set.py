"""Which columns are worked on, and how well: sparse squares."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.penalties import L1, L2, ElasticNet
from saddlery.solvers import working_set
from saddlery.solvers.model_care import needs_care, sweeps_ahead
from saddlery.solvers.working_set import choose_columns, lacking_share, nearly, takes_near_ones


def _problem(n=200, d=900, loss="squared", penalty=None, heavy=0, **options):
    """Sparse columns; the first `heavy` ones are nearly dense."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < np.where(np.arange(d) < heavy, 0.9, 0.02))
    w = np.where(rng.random(d) < 0.03, rng.standard_normal(d), 0.0)
    y = X @ w + 0.1 * rng.standard_normal(n)
    y = np.sign(y) if loss == "logistic" else y
    return sd.LinearProblem(sp.csc_array(X), y, loss, penalty or L1(0.01), **options)


def test_columns_that_lack_are_counted():
    problem = _problem(penalty=L1(1.0))
    w, products = np.zeros(problem.d), np.zeros(problem.d)
    w[:4], products[:4], products[4:6], products[6] = 1.0, -1.0, (1.5, -1.5), 0.99
    assert lacking_share(problem, w, products) == 0.5
    assert lacking_share(problem, np.zeros(problem.d), products) == 2.0


def test_the_fewer_lack_the_fewer_near_ones_are_taken():
    assert nearly(0.7) == working_set.NEAR
    assert nearly(0.02) == pytest.approx(0.98)
    assert nearly(0.0) == 1.0


def test_near_ones_are_taken_of_wide_sparse_squares_with_a_threshold_only():
    assert takes_near_ones(_problem())
    assert takes_near_ones(_problem(penalty=ElasticNet(0.01, 0.5)))
    assert not takes_near_ones(_problem(penalty=L2(0.01)))
    assert not takes_near_ones(_problem(loss="logistic"))
    assert not takes_near_ones(_problem(n=200, d=40))


@pytest.mark.parametrize("heavy", [5, 0])
def test_first_sets_are_larger_where_that_adds_few_entries(monkeypatch, heavy):
    """As with words: the frequent columns rank first, and hold most of the entries."""
    monkeypatch.setattr(working_set, "FEW", 50)
    monkeypatch.setattr(working_set, "FIRST_WIDE", 50)
    monkeypatch.setattr(working_set, "MANY", 150)
    problem = _problem(heavy=heavy, penalty=L1(1.0))
    products = np.linspace(9.0, 2.0, problem.d)
    W = choose_columns(problem, np.zeros(problem.d), products, 1.0)
    assert np.array_equal(W, np.arange(150 if heavy else 50))


def test_models_are_solved_with_care_once_few_columns_lack():
    problem = _problem()
    state = SimpleNamespace(lacking=0.1, relative_gap=0.3, followed=False, slow=False, size=1.0)
    assert needs_care(problem, state)
    state.lacking = 0.5
    assert not needs_care(problem, state)
    state.relative_gap = 1e-4
    assert needs_care(problem, state)
    state.lacking, state.relative_gap = 0.1, 0.3  # which says nothing of losses whose curvature changes
    assert not needs_care(_problem(loss="logistic"), state)


def test_sweeps_are_foretold_from_the_rate_of_the_last():
    problem = _problem()
    centres = np.zeros(problem.d)
    centres[0] = 2.0 * problem.penalty.threshold
    state = SimpleNamespace(lacking=0.1, relative_gap=0.3, followed=False, slow=False, size=1.0, penalty=1.0, tol=1e-6)
    state.products, state.rate = SimpleNamespace(centres=centres), 0.1
    assert 0 < sweeps_ahead(problem, state) < 12
    state.rate = 0.8
    assert sweeps_ahead(problem, state) > 40
    state.rate = 1.0
    assert sweeps_ahead(problem, state) == 0


@pytest.mark.parametrize("penalty", [L1(1e-3), ElasticNet(2e-3, 0.5)])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": True, "sample_weight": np.linspace(0.1, 2.0, 200)}])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_solutions_are_certified_from_the_data(penalty, options, tol):
    problem = _problem(heavy=5, penalty=penalty, **options)
    solution = sd.solve(problem, "prox_newton", tol=tol)
    assert sd.certify(problem, solution.w, solution.dual, solution.b).relative_gap <= tol * (1.0 + 1e-6)
