"""Paths: every point certified, warm starts that pay, stopping, grids."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.paths import alpha_grid

PENALTIES = [sd.penalties.L1(1.0), sd.penalties.ElasticNet(3.0, 0.4), sd.penalties.L2(2.0)]


def make(loss="logistic", penalty=PENALTIES[0], fit_intercept=True, d=20):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, d))
    y = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(80)
    return sd.LinearProblem(X, np.sign(y) if loss != "squared" else y, loss, penalty, fit_intercept=fit_intercept)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: type(penalty).__name__)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_every_point_is_solved(loss, penalty):
    problem = make(loss, penalty)
    result = sd.path(problem, n_alphas=6, tol=1e-8)
    assert len(result) == 6
    assert (np.diff(result.alphas) < 0).all()
    assert result.coefs.shape == (6, 20)
    assert set(result.statuses) == {sd.Status.CONVERGED}
    for alpha, w, b, certificate in zip(result.alphas, result.coefs, result.intercepts, result.certificates, strict=True):
        one = problem.with_penalty(penalty.scaled(alpha / penalty.alpha))
        assert certificate.relative_gap <= 1e-8
        assert one.primal(w, b) == pytest.approx(certificate.primal, rel=1e-12)
        assert one.primal(w, b) == pytest.approx(sd.solve(one, tol=1e-10).certificate.primal, abs=1e-7 * one.scale)


def test_the_first_point_is_empty_and_the_next_is_not():
    result = sd.path(make(), n_alphas=20)
    assert result.nonzeros[0] == 0
    assert result.nonzeros[1] > 0
    assert result.alphas[-1] == pytest.approx(1e-3 * result.alphas[0])


def test_warm_starts_pay():
    problem = make(d=200)
    result = sd.path(problem, n_alphas=20)
    cold = sum(sd.solve(problem.with_penalty(sd.penalties.L1(alpha))).epochs for alpha in result.alphas)
    assert sum(solution.epochs for solution in result.solutions) < cold


def test_given_alphas_are_sorted():
    result = sd.path(make(), alphas=[0.01, 0.1, 0.05])
    assert result.alphas.tolist() == [0.1, 0.05, 0.01]
    assert all(solution.w.base is not None and solution.state is None for solution in result.solutions)


def test_callbacks_end_a_path():
    result = sd.path(make(), n_alphas=10, on_solution=lambda alpha, solution: len(solution.w[solution.w != 0]) >= 3)
    assert len(result) < 10
    assert result.nonzeros[-1] >= 3 > result.nonzeros[-2]
    seen = []
    result = sd.path(make(), n_alphas=10, callbacks=[lambda record: seen.append(record) or len(seen) == 5])
    assert len(seen) == 5
    assert len(result) == len(result.coefs) == len(result.intercepts) < 10


def test_interruption_keeps_what_is_there():
    calls = []

    def interrupt(record):
        calls.append(record)
        if len(calls) == 6:
            raise KeyboardInterrupt

    result = sd.path(make(), n_alphas=10, callbacks=[interrupt])
    assert result.statuses[-1] is sd.Status.INTERRUPTED
    assert 1 < len(result) < 10


def test_a_start_is_used():
    problem = make()
    done = sd.path(problem, alphas=[0.01], solver="prox_newton")
    again = sd.path(problem, alphas=[0.01], solver="prox_newton", start=done.solutions[0])
    first, second = (result.solutions[0].trace[0] for result in (done, again))
    assert second.epoch == 0 < first.epoch
    assert second.relative_gap <= 1e-4


def test_grids():
    problems = [make(), make(penalty=PENALTIES[1])]
    assert alpha_grid(problems, 3)[0] == pytest.approx(max(problem.alpha_max() for problem in problems))
    assert alpha_grid([make()], 1).shape == (1,)
    wide = alpha_grid([make(penalty=PENALTIES[2])], 3)
    assert wide[-1] == pytest.approx(1e-5 * wide[0])
    assert alpha_grid([make()], 3, 0.1)[-1] == pytest.approx(0.1 * make().alpha_max())


def test_at_the_top_of_an_l2_grid_every_direction_is_halved():
    problem = make("squared", PENALTIES[2], fit_intercept=False)
    top = alpha_grid([problem])[0]
    X, y, n = problem.matrix.values, problem.y, problem.n
    values, vectors = np.linalg.eigh(X.T @ X / n)
    shrunk = vectors.T @ sd.path(problem, alphas=[top], tol=1e-12).coefs[0]
    free = vectors.T @ np.linalg.lstsq(X, y, rcond=None)[0]
    assert (np.abs(shrunk) <= 0.5 * np.abs(free) + 1e-9).all()
    assert values.max() <= top


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"alphas": [1.0, 0.0]}, "alphas must be positive numbers, not 0"),
        ({"alphas": []}, "at least one number"),
        ({"alphas": ["a"]}, "must hold numbers"),
        ({"n_alphas": 0}, "n_alphas must be 1 or more"),
        ({"alpha_min_ratio": 1.5}, "between 0 and 1"),
        ({"solver": "prox_newtom"}, "did you mean 'prox_newton'"),
    ],
)
def test_refusals(options, reason):
    with pytest.raises(sd.InputError, match=reason):
        sd.path(make(), **options)


def test_no_signal_no_grid():
    problem = sd.LinearProblem(np.zeros((4, 2)), [1, -1, 1, -1], penalty=sd.penalties.L1(1.0))
    with pytest.raises(sd.InputError, match="no column of X tells anything"):
        sd.path(problem)


def test_the_function_is_not_hidden_by_a_module():
    assert callable(sd.path)
    assert "saddlery.path" not in sys.modules


@pytest.mark.parametrize("kind", ["tall", "wide"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_what_is_handed_on_does_not_change_the_solutions(kind, loss):
    """States follow along the path; each solution is that of a solve on its own, within the certified gaps."""
    rng = np.random.default_rng(1)
    n, d = (300, 20) if kind == "tall" else (40, 200)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] - X[:, 1] + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L1(1.0))
    result = sd.path(problem, n_alphas=8, alpha_min_ratio=0.01, tol=1e-8)
    assert all(status is sd.Status.CONVERGED for status in result.statuses)
    for alpha, solution in zip(result.alphas, result.solutions, strict=True):
        alone = problem.with_penalty(sd.penalties.L1(float(alpha)))
        value = sd.solve(alone, tol=1e-8).certificate.primal
        assert solution.certificate.primal == pytest.approx(value, abs=2e-8 * problem.scale)
        again = sd.certify(alone, solution.w, solution.dual)
        assert again.gap <= solution.certificate.gap + 1e-13


def test_points_of_another_strength_are_certified_after_a_step_only():
    """Where the threshold fell a good deal they are known not to be solutions; where it hardly fell they may be."""
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 200), density=0.1, rng=rng, format="csc")
    problem = sd.LinearProblem(X, X @ np.where(np.arange(200) < 5, 1.0, 0.0), loss="squared", penalty=sd.penalties.L1(1.0))
    top = problem.alpha_max()
    result = sd.path(problem, alphas=[0.7 * top, 0.3 * top, 0.3 * top * (1.0 - 1e-9)], solver="prox_newton", tol=1e-6)
    assert [solution.trace[0].epoch for solution in result.solutions] == [0, 1, 0]
    assert result.solutions[-1].epochs == 0
    assert all(c.relative_gap <= 1e-6 for c in result.certificates)
