"""Across processes: the second one compiles nothing, whoever wrote the loss; without the compiler the numbers are the same."""

import numpy as np
import pytest

DATA = """
import json
import sys
import numpy as np
from scipy.sparse import csr_array
import saddlery as sd
from saddlery.registry import LOSSES, PENALTIES

rng = np.random.default_rng(0)
X = rng.standard_normal((24, 6)) * (rng.random((24, 6)) < 0.6)
full = rng.standard_normal(X.shape)
z = X @ rng.standard_normal(6) + 0.3 + 0.5 * rng.standard_normal(24)

strengths = [PENALTIES.get(name)(0.05) for name in PENALTIES.names() if not getattr(PENALTIES.get(name), "bounded", False)]
sets = [sd.penalties.L1Ball(1.0)]

def problems(X, losses, intercepts=(False, True)):
    for loss in losses:
        for penalty in [*strengths, *(sets if loss == "logistic" else [])]:
            for intercept in intercepts:
                y = np.where(z > 0, 1.0, -1.0) if LOSSES.get(loss)().targets == "signs" else z
                problem = sd.LinearProblem(X, y, loss, penalty, fit_intercept=intercept)
                yield f"{loss} {PENALTIES.name_of(penalty)} {intercept} {problem.matrix.is_sparse} ", problem

def first_steps(loss):
    out = {}
    for name, problem in [*problems(full, [loss], [True]), *problems(csr_array(X), [loss], [False])]:
        for solver in sd.solvers.available(problem):
            if solver == "dgpd" and problem.matrix.is_sparse:
                continue  # rows with few entries tie, and then rounding decides which of them is the greediest
            solution = sd.solve(problem, solver, tol=0.0, max_epochs=2)
            last = solution.trace[-1]
            out[name + solver] = [last.primal, last.dual, last.nonzeros, solution.b, *solution.w, *solution.dual]
    return out
"""

PAIRS = f"""{DATA}
from saddlery.parts import cache_misses
for _, problem in [*problems(X, ["logistic", "hinge", "squared"]), *problems(csr_array(X), ["logistic"], [False])]:
    assert sd.solve(problem, max_epochs=50).certificate.gap < 1.0
print(json.dumps(cache_misses()))
"""

NOTEBOOK = """
import json
from typing import NamedTuple
import numba
import numpy as np
import saddlery as sd

@numba.njit
def half(u):
    return 0.5 * u

@sd.losses.loss
class Doubled(NamedTuple):
    factor: float = 2.0

    @property
    def smoothness(self):
        return self.factor

    @property
    def targets(self):
        return "real"

    def value(self, y, z):
        return half(self.factor * (z - y) ** 2)

    def slope(self, y, z):
        return self.factor * (z - y)

    def curvature(self, y, z):
        return self.factor

    def conjugate(self, y, a):
        return y * a + half(a * a / self.factor)

    def dual_prox(self, y, a, step):
        return (a - step * y) / (1.0 + step / self.factor)

    def dual_lower(self, y):
        return -np.inf

    def dual_upper(self, y):
        return np.inf

rng = np.random.default_rng(0)
X, y = rng.standard_normal((20, 5)), rng.standard_normal(20)
problem = sd.LinearProblem(X, y, Doubled(), sd.penalties.ElasticNet(0.2))
same = sd.LinearProblem(X, y, sd.losses.Squared(), sd.penalties.ElasticNet(0.1))
values = [sd.solve(problem, solver, tol=1e-10).certificate.primal for solver in ("sdca", "prox_newton")]
from saddlery.parts import cache_misses
print(json.dumps([cache_misses(), values, 2.0 * sd.solve(same, tol=1e-10).certificate.primal]))
"""


def kept(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_second_process_compiles_nothing(tmp_path, run_script):
    """Losses of all sorts by the default solver, dense and CSR: 0 misses, by our count and by what is written to disk."""
    assert run_script(PAIRS, NUMBA_CACHE_DIR=str(tmp_path)) > 20
    before = kept(tmp_path)
    assert run_script(PAIRS, NUMBA_CACHE_DIR=str(tmp_path)) == 0
    assert kept(tmp_path) == before


def test_a_class_of_a_script_is_cached(tmp_path, run_script):
    """Defined in __main__, as in a notebook; and an edit of its helper gives new numbers, not old ones."""
    script = tmp_path / "cell.py"
    script.write_text(NOTEBOOK)
    cache = str(tmp_path / "cache")
    misses, values, expected = run_script(script, NUMBA_CACHE_DIR=cache)
    assert misses > 0
    assert values == pytest.approx([expected, expected], rel=1e-8)
    assert run_script(script, NUMBA_CACHE_DIR=cache)[0] == 0
    script.write_text(NOTEBOOK.replace("return 0.5 * u", "return 0.25 * u"))
    misses, values, _ = run_script(script, NUMBA_CACHE_DIR=cache)
    assert misses > 0
    assert values != pytest.approx([expected, expected], rel=1e-3)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber"])  # smooth, with a kink, of real targets
def test_without_the_compiler(loss, run_script):
    """NUMBA_DISABLE_JIT=1 in another process: every solver on every problem takes the same steps as here, to rounding."""
    scope = {}
    exec(DATA, scope)
    on = scope["first_steps"](loss)
    off = run_script(f"{DATA}\nprint(json.dumps(first_steps({loss!r})))", NUMBA_DISABLE_JIT="1")
    assert len(on) > 8
    assert on.keys() == off.keys()
    for key, values in on.items():
        # Products of newton_cg and lbfgs are in single precision; models of augmented_newton end once a sweep moves little, which
        # rounding may put off by one; other models are solved to 1e-12.
        close = {"newton_cg": 1e-6, "lbfgs": 1e-6, "augmented_newton": 1e-4}.get(key.split()[-1], 1e-10)
        np.testing.assert_allclose(off[key], values, rtol=close, atol=close, err_msg=key)
