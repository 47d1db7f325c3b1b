"""What the tests share: every loss and penalty of the registry, small random problems, their optima from a conic solver.

A new loss or penalty is met by all families of tests once it is registered. It needs one line here: its formula, written
once for NumPy and CVXPY alike and by nobody who looked at its code. A constraint needs an instance for 12 columns and its
definition in CVXPY.
"""

import functools
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.registry import LOSSES, PENALTIES

# Beside its defaults every loss and penalty is tested with these parameters.
LOSS_VARIANTS = {"smooth_hinge": [{"gamma": 0.3}], "huber": [{"delta": 0.4}]}
PENALTY_VARIANTS = {"elasticnet": [{"l1_ratio": 0.9}, {"l1_ratio": 0.0}, {"l1_ratio": 1.0}]}


SETS = {
    "l1_ball": sd.penalties.L1Ball(1.5),
    "l2_ball": sd.penalties.L2Ball(0.8),
    "simplex": sd.penalties.Simplex(1.5),
    "capped_simplex": sd.penalties.CappedSimplex(1.3, cap=0.3),
    "box": sd.penalties.Box(-0.3, np.linspace(0.2, 0.9, 12)),
    "group_ball": sd.penalties.GroupBall(1.3, groups=[0, 1, 2, 0, 1, 2, 3, 3, 3, 0, 4, 1], weights=[1.0, 2.0, 0.5, 1.5, 1.0]),
    "k_support": sd.penalties.KSupport(1.0, k=3),
    "l1_in_ball": sd.penalties.L1InBall(0.02, radius=1.2),
    "l2_in_ball": sd.penalties.L2InBall(0.05, radius=0.7),
    "elasticnet_in_ball": sd.penalties.ElasticNetInBall(0.05, 0.4, radius=0.7),
}


def is_set(name):
    """Whether a registered penalty is a constraint."""
    return getattr(PENALTIES.get(name), "bounded", False)


def _cases(registry, variants, *first):
    for name in (name for name in registry.names() if registry is LOSSES or not is_set(name)):
        for options in [{}, *variants.get(name, [])]:
            label = "-".join([name, *(f"{key}={value}" for key, value in options.items())])
            yield pytest.param(registry.get(name)(*first, **options), id=label)


# --------------------------------------------------------------------------- who runs what


def same_worker(nodeid):
    """The group of a test: its file, and its loss if it is parametrised by one; tests that share a cluster are one group.

    The tests of a group share their kernels, and nearly all time is compilation: two workers that took turns at them would compile
    most of these twice (tests/solvers/test_constrained.py: 120 -> 98 compilations, 101 -> 86 s). Those of other groups find them in
    the cache on disk later on.
    """
    file, _, test = nodeid.partition("::")
    if file.startswith("tests/distributed/"):
        return "tests/distributed"
    words = test.partition("[")[2].rstrip("]").split("-")
    return " ".join([file, *(word for word in words if word in LOSSES.names())][:2])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With ``--dist loadscope``: groups as above. (Marks of groups are lost on the way from pytest 9 to xdist 3.8.)"""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByKernels(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return same_worker(nodeid)

    return ByKernels(config, log)


@pytest.fixture(params=_cases(LOSSES, LOSS_VARIANTS))
def any_loss(request):
    """Every registered loss."""
    return request.param


@pytest.fixture(params=_cases(PENALTIES, PENALTY_VARIANTS, 0.7))
def any_penalty(request):
    """Every registered penalty that is no constraint, with strength 0.7."""
    return request.param


@pytest.fixture(params=SETS.values(), ids=SETS.keys())
def any_set(request):
    """Every registered constraint on vectors, for 12 columns."""
    return request.param


@pytest.fixture(scope="session")
def all_sets():
    """The constraints on vectors by their names."""
    return SETS


# --------------------------------------------------------------------------- formulas, for NumPy and CVXPY alike


class NumPyMaths:
    """The few functions that the formulas below are written in."""

    square, abs, multiply, sum = np.square, np.abs, np.multiply, np.sum

    @staticmethod
    def pos(x):
        return np.maximum(x, 0.0)

    @staticmethod
    def logistic(x):
        return np.logaddexp(0.0, x)

    @staticmethod
    def huber(x, m):
        return np.where(np.abs(x) <= m, x * x, 2 * m * np.abs(x) - m * m)


LOSS_FORMULAS = {
    "logistic": lambda f, loss, y, z: f.logistic(-f.multiply(y, z)),
    "hinge": lambda f, loss, y, z: f.pos(1 - f.multiply(y, z)),
    "smooth_hinge": lambda f, loss, y, z: f.huber(f.pos(1 - f.multiply(y, z)), loss.gamma) / (2 * loss.gamma),
    "squared_hinge": lambda f, loss, y, z: f.square(f.pos(1 - f.multiply(y, z))) / 2,
    "squared": lambda f, loss, y, z: f.square(z - y) / 2,
    "huber": lambda f, loss, y, z: f.huber(z - y, loss.delta) / 2,
}
PENALTY_FORMULAS = {
    "l1": lambda f, penalty, w: penalty.alpha * f.sum(f.abs(w)),
    "l2": lambda f, penalty, w: penalty.alpha / 2 * f.sum(f.square(w)),
    "elasticnet": lambda f, penalty, w: (
        penalty.alpha * (penalty.l1_ratio * f.sum(f.abs(w)) + (1 - penalty.l1_ratio) / 2 * f.sum(f.square(w)))
    ),
}
for _name in ("l1", "l2", "elasticnet"):
    PENALTY_FORMULAS[f"{_name}_in_ball"] = PENALTY_FORMULAS[_name]


def k_support_constraints(cp, penalty, w):
    """||w||^2 = min sum_i w_i^2 / theta_i over 0 <= theta <= 1, sum theta <= k; tests/penalties check it by enumeration."""
    theta = cp.Variable(w.size)
    total = cp.sum([cp.quad_over_lin(w[i], theta[i]) for i in range(w.size)])
    return [theta <= 1, cp.sum(theta) <= penalty.k, total <= penalty.radius**2]


SET_DEFINITIONS = {
    "l1_ball": lambda cp, p, w: [cp.norm1(w) <= p.radius],
    "l2_ball": lambda cp, p, w: [cp.norm2(w) <= p.radius],
    "simplex": lambda cp, p, w: [w >= 0, cp.sum(w) == p.radius],
    "capped_simplex": lambda cp, p, w: [w >= 0, w <= p.cap, cp.sum(w) == p.radius],
    "box": lambda cp, p, w: [w >= np.broadcast_to(p.low, w.shape), w <= np.broadcast_to(p.high, w.shape)],
    "group_ball": lambda cp, p, w: [
        cp.sum([weight * cp.norm2(w[np.flatnonzero(p.groups == g)]) for g, weight in enumerate(p.weights)]) <= p.radius
    ],
    "k_support": k_support_constraints,
    "l1_in_ball": lambda cp, p, w: [cp.norm1(w) <= p.radius],
    "l2_in_ball": lambda cp, p, w: [cp.norm2(w) <= p.radius],
    "elasticnet_in_ball": lambda cp, p, w: [cp.norm2(w) <= p.radius],
}


def penalty_and_constraints(penalty, w):
    """g(w) in CVXPY: an expression, and a list of constraints."""
    import cvxpy as cp

    name = PENALTIES.name_of(penalty)
    value = PENALTY_FORMULAS[name](cp, penalty, w) if name in PENALTY_FORMULAS else 0.0
    return value, SET_DEFINITIONS[name](cp, penalty, w) if name in SET_DEFINITIONS else []


def solve_conic(model):
    """The optimal value of a CVXPY problem, as exact as can be had."""
    import cvxpy as cp

    for tol in (1e-11, 1e-10, 1e-9):  # the last digits are not always to be had
        accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_ktratio"), tol)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.solve(solver=cp.CLARABEL, **accuracy)
        if model.status == "optimal":
            return float(model.value)
    return pytest.fail(f"the conic solver gave up: {model.status}")


@pytest.fixture(scope="session")
def conic():
    """conic(penalty, d, objective): the optimal w and value of objective(w) + g(w), from CVXPY; `objective` takes a variable."""

    def solve(penalty, d, function):
        import cvxpy as cp

        w = cp.Variable(d)
        value, constraints = penalty_and_constraints(penalty, w)
        best = solve_conic(cp.Problem(cp.Minimize(function(cp, w) + value), constraints))
        return np.array(w.value), best

    return solve


def loss_part(maths, problem, X, w, b):
    """The weighted mean loss of a problem with the data X, by the formulas above."""
    values = LOSS_FORMULAS[LOSSES.name_of(problem.loss)](maths, problem.loss, problem.y, X @ w + b)
    return maths.sum(maths.multiply(problem.s, values))


@functools.cache
def _optimum(problem):
    import cvxpy as cp

    w, b = cp.Variable(problem.d), cp.Variable() if problem.fit_intercept else 0.0
    value, constraints = penalty_and_constraints(problem.penalty, w)
    return solve_conic(cp.Problem(cp.Minimize(loss_part(cp, problem, problem.matrix.values, w, b) + value), constraints))


@pytest.fixture(scope="session")
def optimum():
    """optimum(problem): the optimal value, from CVXPY and Clarabel."""
    return _optimum


@pytest.fixture(scope="session")
def plain_primal():
    """plain_primal(problem, w, b): the objective in plain NumPy."""

    def primal(problem, w, b=0.0):
        formula = PENALTY_FORMULAS[PENALTIES.name_of(problem.penalty)]
        return float(loss_part(NumPyMaths, problem, problem.matrix.values, w, b) + formula(NumPyMaths, problem.penalty, w))

    return primal


@pytest.fixture(scope="session")
def joint_optimum():
    """joint_optimum(problem): optimal value, W, b and dual point of a problem of all classes at once, from CVXPY."""

    @functools.cache
    def solve(problem):
        import cvxpy as cp

        n, d, k = problem.n, problem.d, problem.k
        W, S, Y = cp.Variable((d, k)), cp.Variable((n, k)), np.eye(k)[problem.codes]
        b = cp.Variable((1, k)) if problem.fit_intercept else np.zeros((1, k))
        values = problem.matrix.values.toarray() if problem.matrix.is_sparse else problem.matrix.values
        margins = S == values @ W + np.ones((n, 1)) @ b
        top = cp.log_sum_exp(S, axis=1) if np.isfinite(problem.loss.smoothness) else cp.max(S + 1 - Y, axis=1)
        value, constraints = penalty_and_constraints(problem.penalty, cp.vec(W, order="C"))
        objective = problem.s @ (top - cp.sum(cp.multiply(S, Y), axis=1)) + value
        best = solve_conic(cp.Problem(cp.Minimize(objective), [margins, *constraints]))
        A = np.divide(-margins.dual_value, problem.s[:, None], out=np.zeros((n, k)), where=problem.s[:, None] > 0.0)
        return best, W.value, np.ravel(b.value if problem.fit_intercept else b), A

    return solve


# --------------------------------------------------------------------------- problems

MATRICES = {"dense": np.ascontiguousarray, "fortran": np.asfortranarray, "csr": sp.csr_array, "csc": sp.csc_array}


@functools.cache
def _data(n, d, seed):
    """Half-empty Gaussian data with an empty row and an empty column, a signal, and unequal weights (one of them zero)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    X[n // 2] = 0.0
    X[:, d // 2] = 0.0
    z = X @ rng.standard_normal(d) + 0.3 + 0.5 * rng.standard_normal(n)
    s = rng.integers(0, 4, n).astype(float)
    s[:2], s[2] = 1.5, 0.0
    return X, z, s


@functools.lru_cache(maxsize=None, typed=True)  # typed: tuples of different classes compare equal
def _make_problem(loss, penalty, matrix, intercept, weights, ratio, n, d, seed, dtype):
    X, z, s = _data(n, d, seed)
    y = np.where(z > np.median(z) - 0.3, 1.0, -1.0) if loss.targets == "signs" else z
    X = MATRICES[matrix](X.astype(dtype))
    problem = sd.LinearProblem(X, y, loss, penalty, s if weights else None, intercept)
    if getattr(penalty, "bounded", False):
        return problem
    top = problem.alpha_max()
    alpha = ratio * top if np.isfinite(top) else ratio / 4
    return problem.with_penalty(penalty.scaled(alpha / penalty.alpha))


@pytest.fixture(scope="session")
def make_problem():
    """make_problem(loss, penalty, ...): a small random problem, the same object for the same arguments.

    A penalty has `ratio` times the strength alpha_max; a constraint stays as it is.
    """

    def make(loss, penalty, matrix="dense", intercept=False, weights=False, ratio=0.1, n=40, d=12, seed=0, dtype="float64"):
        return _make_problem(loss, penalty, matrix, intercept, weights, ratio, n, d, seed, dtype)

    return make


@functools.lru_cache(maxsize=None, typed=True)
def _make_joint(loss, penalty, matrix, intercept, weights, ratio, n, d, k, seed):
    X, _, s = _data(n, d, seed)
    rng = np.random.default_rng(seed + 1)
    y = np.argmax(X @ rng.standard_normal((d, k)) + 0.5 * rng.gumbel(size=(n, k)), axis=1)
    y[:k] = np.arange(k)
    s = np.where(np.arange(n) < k, 1.5, s)
    problem = sd.MulticlassProblem(MATRICES[matrix](X), y, loss, penalty, s if weights else None, intercept)
    if getattr(penalty, "bounded", False):
        return problem
    top = problem.alpha_max()
    return problem.with_penalty(penalty.scaled((ratio * top if np.isfinite(top) else ratio / 4) / penalty.alpha))


@pytest.fixture(scope="session")
def make_joint():
    """make_joint(loss, penalty, ...): a small random problem of all classes at once, the same object for the same arguments."""

    def make(loss, penalty, matrix="dense", intercept=False, weights=False, ratio=0.1, n=30, d=8, k=4, seed=0):
        return _make_joint(loss, penalty, matrix, intercept, weights, ratio, n, d, k, seed)

    return make


# --------------------------------------------------------------------------- other processes


@pytest.fixture(scope="session")
def run_script():
    """run_script(source, **environment): run Python code in a process of its own; the last line that it prints is read as JSON."""

    def run(source, *args, timeout=300, **environment):
        done = subprocess.run(
            [sys.executable, "-W", "error", *(["-c", source] if isinstance(source, str) else [os.fspath(source)]), *args],
            capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture
def fake_peers(monkeypatch):
    """Other processes can import the peers of tests/bench/fake_rivals.py, which behave as told."""
    paths = [str(Path(__file__).parent / "bench"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
