"""Weights, scale, alpha_max and bad input of the linear problem."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError
from saddlery.penalties import L1, L2, ElasticNet

INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])


def sample(loss, n=14, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.3 * rng.standard_normal(n)
    return X, np.where(z > 0, 1.0, -1.0) if loss.targets == "signs" else z


def same(one, two, w, b, tol=1e-13):
    """Two problems with the same objective: values, scale, gradients and certificates agree."""
    assert one.primal(w, b) == pytest.approx(two.primal(w, b), rel=tol)
    assert one.scale == pytest.approx(two.scale, rel=tol)
    assert one.alpha_max() == pytest.approx(two.alpha_max(), rel=1e-9)
    mine, other = sd.certify(one, w, None, b), sd.certify(two, w, None, b)
    assert mine.gap == pytest.approx(other.gap, rel=1e-9)


# --------------------------------------------------------------------------- weights


@INTERCEPT
def test_weight_two_is_the_row_twice_and_zero_is_no_row(any_loss, intercept):
    X, y = sample(any_loss)
    counts = np.array([0, 2, 1, 3, 1, 1, 0, 1, 1, 2, 1, 1, 1, 1])
    weighted = sd.LinearProblem(X, y, any_loss, L1(0.05), counts, intercept)
    repeated = sd.LinearProblem(np.repeat(X, counts, 0), np.repeat(y, counts), any_loss, L1(0.05), None, intercept)
    w, b = np.array([0.3, -0.2, 0.0, 0.1]), 0.2 * intercept
    same(weighted, repeated, w, b)
    one, two = (sd.solve(problem, tol=1e-9, max_epochs=3000) for problem in (weighted, repeated))
    assert one.certificate.primal == pytest.approx(two.certificate.primal, abs=2e-9 * weighted.scale)


@INTERCEPT
def test_a_common_factor_of_the_weights_is_irrelevant(any_loss, intercept):
    X, y = sample(any_loss)
    s = np.random.default_rng(1).random(14)
    problems = [sd.LinearProblem(X, y, any_loss, ElasticNet(0.05), f * s, intercept) for f in (1.0, 1e-8, 1e8)]
    for other in problems[1:]:
        same(problems[0], other, np.array([0.3, -0.2, 0.0, 0.1]), 0.2 * intercept)
        np.testing.assert_allclose(other.s.sum(), 1.0)


def test_a_row_without_weight_may_hold_any_target(any_loss):
    X, y = sample(any_loss)
    s = np.ones(14)
    s[3] = 0.0
    other = y.copy()
    other[3] = -y[3]
    one, two = (sd.LinearProblem(X, t, any_loss, L1(0.05), s, True) for t in (y, other))
    same(one, two, np.array([0.3, -0.2, 0.0, 0.1]), 0.1)


def test_one_number_weights_all_rows_alike():
    loss = sd.losses.Squared()
    X, y = sample(loss)
    np.testing.assert_allclose(sd.LinearProblem(X, y, loss, L1(1.0), 3.0).s, 1 / 14)


# --------------------------------------------------------------------------- scale and alpha_max


@pytest.mark.parametrize("weights", [False, True])
@INTERCEPT
def test_scale_is_the_best_constant_model(any_loss, intercept, weights, make_problem):
    """No other constant is better, and without an intercept the constant is 0."""
    problem = make_problem(any_loss, L1(1.0), intercept=intercept, weights=weights)
    zero = np.zeros(problem.d)
    assert problem.scale == pytest.approx(problem.primal(zero, problem.constant))
    if not intercept:
        assert problem.constant == 0.0
    else:
        grid = np.concatenate([np.linspace(-5, 5, 2001), problem.y])
        assert problem.scale <= min(problem.primal(zero, b) for b in grid) + 1e-12


@pytest.mark.parametrize("penalty", [L1(1.0), ElasticNet(1.0, 0.3), ElasticNet(1.0, 1.0)], ids=["l1", "elasticnet", "all l1"])
@pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
@INTERCEPT
def test_alpha_max_is_tight(any_loss, penalty, intercept, weights, make_problem, optimum):
    """At alpha_max the zero model is optimal (and certified so); a tenth below it is not."""
    problem = make_problem(any_loss, penalty, intercept=intercept, weights=weights, ratio=1.0)
    at = problem.with_penalty(penalty.scaled(problem.alpha_max() * (1 + 1e-9) / penalty.alpha))
    assert optimum(at) == pytest.approx(at.scale, rel=1e-8)
    assert sd.certify(at, np.zeros(at.d), None, at.constant).relative_gap <= 1e-7
    solution = sd.solve(at, tol=1e-6)
    assert solution.status is sd.Status.CONVERGED
    if intercept and math.isinf(any_loss.smoothness):
        return  # at the kink many slopes are optimal; the least strength would take a linear programme
    below = problem.with_penalty(penalty.scaled(0.9 * problem.alpha_max() / penalty.alpha))
    assert optimum(below) < below.scale * (1 - 1e-6)
    assert sd.certify(below, np.zeros(below.d), None, below.constant).gap > 0.0


def test_alpha_max_without_a_threshold():
    X, y = sample(sd.losses.Squared())
    assert sd.LinearProblem(X, y, "squared", L2(1.0)).alpha_max() == math.inf
    assert sd.LinearProblem(X, y, "squared", ElasticNet(1.0, 0.0)).alpha_max() == math.inf


def test_alpha_max_does_not_depend_on_alpha():
    X, y = sample(sd.losses.Squared())
    assert sd.LinearProblem(X, y, "squared", L1(1.0)).alpha_max() == sd.LinearProblem(X, y, "squared", L1(1e-3)).alpha_max()


# --------------------------------------------------------------------------- use


def test_with_penalty_and_take_rows_leave_the_problem_alone():
    loss = sd.losses.Squared()
    X, y = sample(loss)
    problem = sd.LinearProblem(sp.csr_array(X), y, loss, L1(0.1), np.arange(1.0, 15.0), True)
    scale = problem.scale
    other = problem.with_penalty(L2(3.0))
    assert (problem.penalty, other.penalty) == (L1(0.1), L2(3.0))
    assert other.matrix is problem.matrix
    index = np.array([9, 2, 5, 7])
    part, direct = problem.take_rows(index), sd.LinearProblem(X[index], y[index], loss, L1(0.1), np.arange(1.0, 15.0)[index], True)
    same(part, direct, np.array([0.3, -0.2, 0.0, 0.1]), 0.2)
    assert problem.scale == scale
    assert problem.n == 14
    with pytest.raises(InputError, match="alpha must be"):
        problem.with_penalty(L1(-1.0))


def test_names_and_repr():
    problem = sd.LinearProblem([[1.0], [-1.0]], [1, -1], "hinge", L1(0.1), fit_intercept=True)
    assert problem.loss == sd.losses.Hinge()
    assert "2 x 1" in repr(problem)
    assert "intercept" in repr(problem)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, object])
def test_targets_of_any_number_type(dtype):
    assert sd.LinearProblem([[1.0], [-1.0]], np.array([1, -1], dtype=dtype), "hinge", L1(0.1)).y.dtype == np.float64


# --------------------------------------------------------------------------- bad input

GOOD = {"X": [[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]], "y": [1, -1, 1], "loss": "logistic", "penalty": L1(0.1)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1, -1]}, "y has shape .* X has 3 rows"),
        ({"y": [[1], [-1], [1]]}, "y has shape"),
        ({"y": [1, -1, np.nan]}, "y contains NaN or infinity at row 2"),
        ({"y": [1, np.inf, -1]}, "y contains NaN or infinity at row 1"),
        ({"y": ["a", "b", "a"]}, "y must hold numbers"),
        ({"y": [True, False, True]}, "targets -1 and \\+1, but y holds 0"),
        ({"y": [0, 1, 1]}, "targets -1 and \\+1, but y holds 0"),
        ({"y": [1, 1, 1]}, "one class only"),
        ({"y": [1, 1, -1], "sample_weight": [1, 1, 0]}, "one class only"),
        ({"sample_weight": [1, 1]}, "sample_weight has shape"),
        ({"sample_weight": [1, -1, 1]}, "negative at row 1"),
        ({"sample_weight": [0, 0, 0]}, "all sample weights are zero"),
        ({"sample_weight": [1, np.nan, 1]}, "NaN or infinity at row 1"),
        ({"sample_weight": 0.0}, "all sample weights are zero"),
        ({"X": [[1.0, np.nan], [3.0, 4.0], [0.0, 1.0]]}, "NaN at row 0, column 1"),
        ({"X": np.zeros((0, 2)), "y": []}, "at least one row"),
        ({"loss": "logistc"}, "unknown loss 'logistc': did you mean 'logistic'"),
        ({"loss": 3}, "loss"),
        ({"penalty": None}, "give the penalty with its strength"),
        ({"penalty": "l1"}, "give the penalty with its strength"),
        ({"penalty": L1(0.0)}, "alpha must be a positive number"),
        ({"penalty": 0.1}, "penalty"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(InputError, match=message):
        sd.LinearProblem(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3),), "w has shape"),
        ((np.zeros(2), np.zeros(5)), "dual point has shape"),
        ((np.zeros(2), None, 1.0), "no intercept"),
        ((np.array([np.nan, 0.0]),), "must be finite"),
        ((np.zeros(2), np.array([0.0, np.inf, 0.0])), "must be finite"),
    ],
)
def test_bad_points(arguments, message):
    with pytest.raises(InputError, match=message):
        sd.certify(sd.LinearProblem(**GOOD), *arguments)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge", "smooth_hinge"])
def test_what_two_classes_say(loss):
    """Scale and dual value at zero need no look at all rows; the weight of a rare class keeps its digits."""
    y, s = np.where(np.arange(1000) < 3, 1.0, -1.0), np.ones(1000)
    s[:3] = 1e-25
    problem = sd.LinearProblem(np.ones((1000, 1)), y, loss=loss, penalty=sd.penalties.L1(0.1), sample_weight=s)
    np.testing.assert_allclose(problem._class_weights, [3e-25 / s.sum(), 1.0], rtol=1e-12)
    problem = sd.LinearProblem(np.ones((1000, 1)), y, loss=loss, penalty=sd.penalties.L1(0.1), sample_weight=np.arange(1000.0))
    assert problem.scale == pytest.approx(problem.loss_value(np.zeros(1000)), rel=1e-13)
    assert problem._dual_at_zero == pytest.approx(problem.dual(np.zeros(1000), np.zeros(1)), abs=1e-15)
