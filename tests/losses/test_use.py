"""How losses are handled: facts, arrays, copies, parameters."""

import copy
import math
import pickle

import numpy as np
import pytest

import saddlery as sd
from saddlery.errors import InputError
from saddlery.losses.base import LOSS_VERBS
from saddlery.registry import LOSSES

SAMPLES = {
    "y": np.array([-1.0, 1.0, 1.0]),
    "z": np.array([-0.3, 0.4, 2.0]),
    "a": np.array([0.2, -0.4, 0.0]),
    "step": np.array([0.5, 1.0, 2.0]),
}


def test_facts(any_loss):
    assert any_loss.smoothness > 0.0
    assert any_loss.targets in ("signs", "real")
    assert all(callable(getattr(any_loss, verb)) for verb in LOSS_VERBS)


def test_expand_is_value_slope_and_curvature(any_loss):
    for y, z in ((1.0, 0.3), (-1.0, 2.0), (1.0, -40.0), (-1.0, 800.0)):
        expected = any_loss.value(y, z), any_loss.slope(y, z), any_loss.curvature(y, z)
        np.testing.assert_allclose(any_loss.expand(y, z), expected, rtol=1e-15)


@pytest.mark.parametrize("verb", [verb for verb in LOSS_VERBS if verb != "expand"])
def test_arrays_broadcast(any_loss, verb):
    """Any argument may be an array; the result is the scalar one, element by element."""
    names = LOSS_VERBS[verb].replace(" ", "").split(",")
    method = getattr(any_loss, verb)
    expected = np.array([method(*(float(SAMPLES[name][k]) for name in names)) for k in range(3)])
    result = method(*(SAMPLES[name] for name in names))
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, expected)
    grid = method(1.0, *(SAMPLES[name][:, None] * np.ones(2) for name in names[1:])) if len(names) > 1 else method(np.ones((3, 2)))
    assert grid.shape == (3, 2)
    assert np.ndim(method(*(1.0 if name == "y" else 0.0 for name in names[:-1]), 1.0 if names[-1] in ("y", "step") else 0.0)) == 0


def test_copies(any_loss):
    for twin in (pickle.loads(pickle.dumps(any_loss)), copy.copy(any_loss), copy.deepcopy(any_loss)):
        assert type(twin) is type(any_loss)
        assert twin == any_loss
        assert twin.value(1.0, 0.3) == any_loss.value(1.0, 0.3)


@pytest.mark.parametrize("name", LOSSES.names())
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_parameters_are_refused(name, bad):
    """By the problem, in a sentence that names the parameter."""
    cls = LOSSES.get(name)
    for field in cls._fields:
        with pytest.raises(InputError, match=field):
            sd.LinearProblem([[1.0], [2.0]], [-1, 1], cls(**{field: bad}), sd.penalties.L1(0.1))


def test_formulas_by_hand():
    """A few numbers that anyone can check."""
    losses = sd.losses
    assert losses.Logistic().value(-1.0, 0.0) == pytest.approx(math.log(2.0))
    assert losses.Hinge().value(1.0, 0.5) == 0.5
    assert losses.SmoothHinge(gamma=0.5).value(1.0, 0.0) == 0.75
    assert losses.SmoothHinge(gamma=0.5).value(1.0, 0.75) == pytest.approx(0.0625)
    assert losses.SquaredHinge().value(-1.0, 1.0) == 2.0
    assert losses.Squared().value(3.0, 1.0) == 2.0
    assert losses.Huber(delta=0.5).value(0.0, -2.0) == 0.875
