"""Parts as arguments of kernels: with fields, without, nested, of the user's own making."""

import os
import pickle
from typing import NamedTuple

import numba
import numpy as np
import pytest

import saddlery as sd
from saddlery.losses import loss
from saddlery.parts import JIT_DISABLED, kernel, part, verb
from saddlery.penalties import L1, L2, ElasticNet
from saddlery.penalties.base import sum_values

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="about compiled code")


@part
class Empty(NamedTuple):
    def value(self, y, z):
        return y - z


@part
class Weighted(NamedTuple):
    """A part with parts inside, one of them empty."""

    one: Empty
    other: object
    share: float

    def value(self, y, z):
        return self.share * self.one.value(y, z) + (1.0 - self.share) * self.other.value(y, z)


@kernel
def total(function, y, z):
    out = 0.0
    for i in range(z.shape[0]):
        out += function.value(y, z[i])
    return out


@kernel
def passed_on(function, y, z):
    return total(function, y, z) + function.value(y, 0.0)


Z = np.linspace(-2.0, 2.0, 9)


def test_empty_part():
    assert total(Empty(), 1.0, Z) == pytest.approx(np.sum(1.0 - Z))
    assert passed_on(Empty(), 1.0, Z) == pytest.approx(np.sum(1.0 - Z) + 1.0)


@pytest.mark.parametrize("other", [Empty(), sd.losses.Huber(0.5), sd.losses.Logistic()])
def test_nested_part(other):
    nested = Weighted(Empty(), other, 0.3)
    expected = sum(0.3 * (1.0 - z) + 0.7 * other.value(1.0, float(z)) for z in Z)
    assert total(nested, 1.0, Z) == pytest.approx(expected)
    assert passed_on(nested, 1.0, Z) == pytest.approx(expected + nested.value(1.0, 0.0))


def test_types_travel():
    """Types are pickled into the cache's index, so they must come back equal."""
    for value in (Empty(), L1(0.5), Weighted(Empty(), sd.losses.Huber(), 0.5)):
        kind = numba.typeof(value)
        assert pickle.loads(pickle.dumps(kind)) == kind
        assert hash(pickle.loads(pickle.dumps(kind))) == hash(kind)


def test_classes_with_equal_fields_are_different_types():
    assert numba.typeof(L1(0.5)) != numba.typeof(L2(0.5))
    assert numba.typeof(sd.losses.Hinge()) != numba.typeof(sd.losses.Squared())


def test_annotations_fix_the_types():
    """L1(1), L1(1.0) and L1(np.float32(1)) run one compiled kernel and mean the same."""
    w = np.array([1.0, -2.0])
    before = None
    for alpha in (1.0, 1, np.float32(1), np.float64(1), np.int64(1), True):
        assert sum_values(L1(alpha), w) == 3.0
        before = len(sum_values.signatures) if before is None else before
        assert len(sum_values.signatures) == before
    assert numba.typeof(ElasticNet(1, 0)) == numba.typeof(ElasticNet(1.0, 0.5))


def test_verbs_are_registered_once():
    with pytest.raises(ValueError, match="registered already"):
        verb("slope", "y, z")


def cell(formula, fields=""):
    """What a notebook does when a cell with a class is run, perhaps again after an edit."""
    scope = {"NamedTuple": NamedTuple, "part": part}
    exec(f"@part\nclass Again(NamedTuple):\n    {fields or 'pass'}\n    def value(self, y, z):\n        return {formula}\n", scope)
    return scope["Again"]


def test_an_edited_cell_gives_new_numbers():
    """A class of the same name with another formula, in the same process: no kernel may run the old one."""
    assert total(cell("z")(), 1.0, Z) == pytest.approx(0.0)
    assert total(cell("2.0 * z + 1.0")(), 1.0, Z) == pytest.approx(9.0)


def test_an_edited_cell_with_fields_gives_new_numbers():
    assert total(cell("self.c * z", "c: float")(1.0), 1.0, Z) == pytest.approx(0.0)
    assert total(cell("self.c + z", "c: float")(2.0), 1.0, Z) == pytest.approx(18.0)


def test_a_users_class_may_have_the_name_of_ours():
    """A Huber of one's own is not taken for saddlery.losses.Huber, though names and fields agree."""

    @part
    class Huber(NamedTuple):
        delta: float = 1.0

        def value(self, y, z):
            return self.delta

    assert total(sd.losses.Huber(2.0), 0.0, Z) == pytest.approx(np.sum(Z**2) / 2)
    assert total(Huber(2.0), 0.0, Z) == pytest.approx(18.0)


def test_closures_do_not_share_code():
    """A factory of losses gives each its own number, in Python and in kernels."""

    def make(k):
        @part
        class Scaled(NamedTuple):
            def value(self, y, z):
                return k * (y - z)

        return Scaled()

    assert [total(make(k), 1.0, Z) for k in (1.0, 3.0)] == pytest.approx([9.0, 27.0])


@loss
class LogCosh(NamedTuple):
    """A user's loss: log cosh(z - y), whose dual prox has no closed form and is left out."""

    @property
    def smoothness(self):
        return 1.0

    @property
    def targets(self):
        return "real"

    def value(self, y, z):
        u = abs(z - y)
        return u + np.log1p(np.exp(-2.0 * u)) - np.log(2.0)

    def slope(self, y, z):
        return np.tanh(z - y)

    def curvature(self, y, z):
        return 1.0 - np.tanh(z - y) ** 2

    def conjugate(self, y, a):
        if abs(a) > 1.0:
            return np.inf
        if abs(a) == 1.0:
            return y * a + np.log(2.0)
        return y * a + 0.5 * ((1.0 + a) * np.log1p(a) + (1.0 - a) * np.log1p(-a))

    def dual_lower(self, y):
        return -1.0

    def dual_upper(self, y):
        return 1.0


@pytest.mark.parametrize("penalty", [L1(0.02), L2(0.1), ElasticNet(0.05, 0.5)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", [(30, 6), (10, 20)])
def test_a_users_loss_can_be_solved(penalty, intercept, shape):
    """solver='auto' finds one that can do without a dual prox, and the certificate agrees with a general optimiser."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    y = X[:, 0] - X[:, 1] + 0.2 + 0.1 * rng.standard_normal(shape[0])
    problem = sd.LinearProblem(X, y, LogCosh(), penalty, fit_intercept=intercept)
    solution = sd.solve(problem, tol=1e-8)
    assert solution.status is sd.Status.CONVERGED

    def objective(v):  # w = p - q with p, q >= 0 makes the l1 norm smooth
        p, q, b = v[: shape[1]], v[shape[1] : -1], v[-1] * intercept
        z = X @ (p - q) + b - y
        smooth = np.mean(np.logaddexp(z, -z) - np.log(2.0)) + penalty.strong_convexity / 2 * np.sum((p - q) ** 2)
        return smooth + penalty.threshold * np.sum(p + q)

    bounds = [(0, None)] * (2 * shape[1]) + [(None, None)]
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxfun": 10**6, "maxiter": 10**5}
    best = minimize(objective, np.zeros(2 * shape[1] + 1), method="L-BFGS-B", bounds=bounds, options=options)
    assert solution.certificate.primal <= best.fun + 1e-8
    assert solution.certificate.dual <= best.fun + 1e-12


def test_kernels_release_the_lock_and_are_cached():
    from saddlery.parts import _KERNELS

    assert len(_KERNELS) > 20
    assert all(k.targetoptions.get("nogil") for k in _KERNELS)


def test_cache_dir_variable_is_respected(tmp_path, run_script):
    """Without a writable place the library says so once and still works."""
    script = (
        "import json, warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import saddlery as sd, numpy as np\n"
        "    value = sd.penalties.L1(0.5).value(np.ones(2))\n"
        "print(json.dumps([value, [str(w.message) for w in caught if 'NUMBA_CACHE_DIR' in str(w.message)]]))\n"
    )
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    value, said = run_script(script, NUMBA_CACHE_DIR=str(folder))
    assert value == 1.0
    assert len(said) == 1
