"""Dual ascent by rows for k classes: against a conic solver, its row steps, the Newton step on the face, the choice of `auto`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.losses import MulticlassHinge, Softmax
from saddlery.problems.multiclass import MulticlassProblem
from saddlery.solvers.auto import choose
from saddlery.solvers.multiclass_sdca import MulticlassSDCA, hinge_row, softmax_row
from tests.solvers.test_multiclass_newton import PENALTIES, data, reference


@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_agrees_with_a_conic_solver(loss, penalty):
    X, y = data(1)
    X[3] = 0.0
    weights = np.random.default_rng(2).random(len(y))
    weights[5] = 0.0
    for values in (X, sp.csr_array(X)):
        problem = MulticlassProblem(values, y, loss, PENALTIES[penalty], sample_weight=weights)
        solution = sd.solve(problem, MulticlassSDCA(), tol=1e-7, max_epochs=20_000)
        assert solution.certificate.relative_gap <= 1e-7
        assert solution.certificate.primal == pytest.approx(reference(problem), abs=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_every_epoch_raises_the_dual(loss):
    X, y = data(3)
    problem = MulticlassProblem(X, y, loss, sd.penalties.L2(0.02))
    method = MulticlassSDCA()
    state = method.init(problem, None, np.random.default_rng(0))
    before = problem.dual(state.A)
    for _ in range(15):
        method.step(problem, state)
        after = problem.dual(state.A)
        assert after >= before - 1e-14
        before = after
    np.testing.assert_allclose(state.G.T, problem.gradient(state.A), atol=1e-13)


def test_row_steps_are_the_best_on_their_lines():
    rng = np.random.default_rng(4)
    for _ in range(50):
        k, q = int(rng.integers(2, 6)), float(10.0 ** rng.uniform(-2, 2))
        y, v, z = int(rng.integers(k)), rng.dirichlet(np.ones(k)), 2.0 * rng.standard_normal(k)
        a = v - np.eye(k)[y]

        def value(loss, new, a=a, z=z, q=q, y=y):
            return new @ z - loss.row_conjugate(y, new, 1.0) - 0.5 * q * float((new - a) @ (new - a))

        moved, step = a.copy(), np.empty(k)
        gap, _, _ = hinge_row(MulticlassHinge(), y, moved, np.arange(k), z.copy(), q, step)
        np.testing.assert_allclose(moved - a, step, atol=1e-15)
        rivals = [rng.dirichlet(np.ones(k)) - np.eye(k)[y] for _ in range(30)]
        assert gap >= -1e-14
        assert value(MulticlassHinge(), moved) >= max(value(MulticlassHinge(), r) for r in rivals) - 1e-12

        out = np.empty(k)
        gap = softmax_row(Softmax(), y, a, z.copy(), q, out)
        direction = np.exp(z - z.max()) / np.exp(z - z.max()).sum() - v
        line = [value(Softmax(), a + c * direction) for c in np.linspace(0.0, 1.0, 101)]
        assert gap >= -1e-14
        assert value(Softmax(), out) >= max(line) - 1e-3 * max(gap, 1e-6)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_resumed_runs_go_on_exactly(loss):
    X, y = data(6)
    problem = MulticlassProblem(X, y, loss, sd.penalties.L2(0.01))
    whole = sd.solve(problem, MulticlassSDCA(), tol=1e-6, random_state=1, max_epochs=5000)
    part = sd.solve(problem, MulticlassSDCA(), tol=1e-6, random_state=1, max_epochs=4)
    rest = sd.solve(problem, MulticlassSDCA(), tol=1e-6, start=part.state, max_epochs=5000)
    assert rest.certificate.relative_gap <= 1e-6
    assert rest.certificate.primal == pytest.approx(whole.certificate.primal, abs=2e-6)


def test_auto_knows_the_multiclass_solvers():
    X, y = data(7, n=200)

    def chosen(loss, penalty, **options):
        return choose(MulticlassProblem(X, y, loss, penalty, **options))

    assert chosen("logistic", sd.penalties.L1(0.1)) == "multiclass_newton"
    assert chosen("logistic", sd.penalties.L2(0.1)) == "multiclass_sdca"
    assert chosen("logistic", sd.penalties.L2(1e-5)) == "multiclass_newton"
    assert chosen("logistic", sd.penalties.L2(0.1), fit_intercept=True) == "multiclass_newton"
    assert chosen("hinge", sd.penalties.L1(0.1)) == "multiclass_smoothed"
    assert chosen("hinge", sd.penalties.L2(0.1)) == "multiclass_alm"
    assert chosen("hinge", sd.penalties.L2(0.1), fit_intercept=True) == "multiclass_alm"
    assert chosen("hinge", sd.penalties.L2(0.1), n_classes=60) == "multiclass_alm"
    assert chosen("hinge", sd.penalties.ElasticNet(0.1, l1_ratio=0.5)) == "multiclass_smoothed"
    assert chosen("hinge", sd.penalties.L1(0.1), fit_intercept=True) == "pdhg"
    assert chosen("hinge", sd.penalties.L1(0.1), n_classes=60) == "pdhg"
    assert chosen("logistic", sd.penalties.L1Ball(1.0)) == "pdhg"
