"""The distributed problem is the linear problem: same values, same scale, same certificate as on the collected data."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.distributed.dual import DualRows, pack

PENALTIES = [sd.penalties.L1(0.03), sd.penalties.ElasticNet(0.05, 0.5), sd.penalties.L2(0.1), sd.penalties.L1Ball(1.5)]


def pair(tall, split, loss, penalty, intercept, weighted=True, count=5):
    X, signs, numbers, weights = tall
    y = signs if loss.targets == "signs" else numbers
    weights = weights if weighted else None
    there = sd.DaskLinearProblem(split(X, count), y, loss, penalty, weights, intercept)
    return there, sd.LinearProblem(X, y, loss, penalty, weights, intercept)


@pytest.mark.parametrize("intercept", [False, True], ids=["no b", "b"])
def test_facts(tall, split, any_loss, intercept):
    """Scale, best constant, gradient there and the largest alpha are those of the collected data."""
    there, here = pair(tall, split, any_loss, PENALTIES[0], intercept)
    assert there.scale == pytest.approx(here.scale, rel=1e-12)
    assert there.constant == pytest.approx(here.constant, rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(there.constant_gradient, here.constant_gradient, atol=1e-12)
    assert there.alpha_max() == pytest.approx(here.alpha_max(), rel=1e-10)
    assert (there.n, there.d) == (here.n, here.d)


@pytest.mark.parametrize("penalty", PENALTIES, ids=["l1", "elasticnet", "l2", "l1_ball"])
@pytest.mark.parametrize("intercept", [False, True], ids=["no b", "b"])
def test_certify_any_pair(tall, split, any_loss, penalty, intercept):
    """Of slopes and of given dual points, far from the optimum too."""
    there, here = pair(tall, split, any_loss, penalty, intercept)
    rng = np.random.default_rng(2)
    w, b = 0.1 * rng.standard_normal(here.d), 0.2 * intercept
    duals = [None, 0.3 * rng.standard_normal(here.n)]
    for dual in duals:
        one, other = sd.certify(there, w, dual, b), sd.certify(here, w, dual, b)
        assert one.primal == pytest.approx(other.primal, abs=1e-10)
        assert one.dual == pytest.approx(other.dual, abs=1e-10)
        assert one.scale == pytest.approx(other.scale, abs=1e-10)


@pytest.mark.parametrize("count", [1, 7])
def test_dual_points_are_lazy_arrays(tall, split, count):
    """Slopes, model slopes, mixes and shifts: what partitions compute is what the formula says; rows without weight get 0."""
    there, here = pair(tall, split, sd.losses.Logistic(), PENALTIES[0], True, count=count)
    rng = np.random.default_rng(3)
    w, move = 0.2 * rng.standard_normal(here.d), 0.1 * rng.standard_normal(here.d)
    a = here.slopes(here.margins(w), 0.3)
    counted = here.s > 0.0
    point = DualRows(pack(w), 0.3)
    np.testing.assert_allclose(there.dual_array(point).compute(), np.where(counted, a, 0.0), atol=1e-15)
    mixed = point.mixed(0.25, -1.0, 0.0).scaled(0.5)
    expected = 0.5 * (0.75 * a + 0.25 * np.where(here.y > 0.0, -1.0, 0.0))
    np.testing.assert_allclose(there.dual_array(mixed).compute(), np.where(counted, expected, 0.0), atol=1e-15)
    z = here.margins(w) + 0.3
    curvature = np.exp(z) / (1.0 + np.exp(z)) ** 2
    model = np.clip(a + curvature * (here.margins(move) - 0.1), np.where(here.y > 0, -1.0, 0.0), np.where(here.y > 0, 0.0, 1.0))
    lazy = there.dual_array(DualRows(pack(w), 0.3, pack(move), -0.1, 1e-9))
    assert lazy.shape == (here.n,)
    np.testing.assert_allclose(lazy.compute(), np.where(counted, model, 0.0), atol=1e-12)


def test_starts_and_points_are_checked(tall, split):
    there, _ = pair(tall, split, sd.losses.Logistic(), PENALTIES[0], False)
    with pytest.raises(sd.InputError, match="12 columns"):
        sd.certify(there, np.zeros(3))
    with pytest.raises(sd.InputError, match="900 rows"):
        sd.certify(there, np.zeros(12), np.zeros(3))
    with pytest.raises(sd.InputError, match="no intercept"):
        sd.certify(there, np.zeros(12), None, 1.0)
    with pytest.raises(sd.InputError, match="finite"):
        sd.certify(there, np.full(12, np.nan))
    with pytest.raises(sd.InputError, match="stay with their partitions"):
        there.margins(np.zeros(12))
    X, signs, numbers, _ = tall
    with pytest.raises(sd.InputError, match="-1 and"):
        sd.DaskLinearProblem(split(X, 2), numbers, "logistic", PENALTIES[0])
    with pytest.raises(sd.InputError, match="one class only"):
        sd.DaskLinearProblem(split(X, 2), np.ones(900), "logistic", PENALTIES[0])
    with pytest.raises(sd.InputError, match="with its strength"):
        sd.DaskLinearProblem(split(X, 2), signs, "logistic", "l1")
    assert "900 x 12 in 5 partitions" in repr(there)
