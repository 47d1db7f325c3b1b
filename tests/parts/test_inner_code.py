"""Kernels inside of kernels: typed once, optimised where Python calls, and no different from outside."""

import numba
import numpy as np
import pytest

from saddlery.parts import JIT_DISABLED, kernel
from saddlery.penalties import L1

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="about compiled code")

PENALTY, W = L1(0.5), np.array([1.0, -2.0, 4.0])


@kernel
def doubled(penalty, w, out):
    for j in range(w.shape[0]):
        out[j] = 2.0 * penalty.coordinate_value(w[j])


@kernel
def fourfold(penalty, w, out):
    doubled(penalty, w, out)
    doubled(penalty, out, out)


@kernel
def root(penalty, x):
    if x < 0.0:
        raise ValueError("no root of a negative number")
    return np.sqrt(x)


@kernel
def two_roots(penalty, x, y):
    return root(penalty, x) + root(penalty, y)


@kernel
def with_default(penalty, x, times=3.0):
    return times * x


@kernel
def calls_with_default(penalty, x):
    return with_default(penalty, x) + with_default(penalty, x, times=1.0)


def inner(function):
    return function.get_call_template.__self__


def test_inner_kernels_have_neither_machine_code_nor_a_wrapper():
    out = np.empty(3)
    fourfold(PENALTY, W, out)
    assert out == pytest.approx(np.abs(W))
    assert not doubled.overloads
    (result,) = inner(doubled).overloads.values()
    assert result.library.get_pointer_to_function(result.fndesc.llvm_cpython_wrapper_name) == 0
    assert result.fndesc.llvm_cpython_wrapper_name not in result.library.get_llvm_str()


def test_python_and_kernels_share_what_is_typed():
    """Called from both sides, a kernel is typed once; the signatures that Python sees are those that Python called."""
    out, typed = np.empty(3), len(inner(fourfold).overloads)
    fourfold(PENALTY, W, out)
    doubled(PENALTY, W, out)
    doubled(PENALTY, W, out)
    assert out == pytest.approx(np.abs(W))
    assert len(inner(doubled).overloads) == len(doubled.overloads) == 1
    assert len(inner(fourfold).overloads) == max(1, typed)


def test_errors_inside_reach_python():
    assert two_roots(PENALTY, 4.0, 9.0) == 5.0
    with pytest.raises(ValueError, match="no root of a negative number"):
        two_roots(PENALTY, 4.0, -9.0)
    with pytest.raises(ValueError, match="no root of a negative number"):
        root(PENALTY, -1.0)


def test_default_arguments():
    assert calls_with_default(PENALTY, 2.0) == 8.0
    assert with_default(PENALTY, 2.0) == 6.0
    assert with_default(PENALTY, 2.0, times=1.0) == 2.0


def test_functions_of_others_may_call_kernels():
    @numba.njit
    def mine(penalty, x):
        return 1.0 + two_roots(penalty, x, x)

    assert mine(PENALTY, 4.0) == 5.0


SCRIPT = """
import json
import numpy as np
from saddlery.parts import _KERNELS
from saddlery.penalties import L1
from saddlery.penalties.base import sum_values
from saddlery.problems.row_sums import {name}
import saddlery as sd

loss, penalty, one = sd.losses.Squared(), L1(0.5), np.ones(2)
value = {call}
print(json.dumps([value, sum(sum(k.stats.cache_hits.values()) for k in _KERNELS), [str(s) for s in sum_values.signatures]]))
"""


def test_another_process_finds_inner_code_on_disk(tmp_path, run_script):
    """Its kernel is new, but what is inside was typed before, by a process that never called it from Python."""
    first = SCRIPT.format(name="primal_value", call="primal_value(loss, penalty, one, one, 3.0 * one, 0.0, one, np.empty(2))")
    second = SCRIPT.format(name="primal_value", call="sum_values(penalty, one)")
    assert run_script(first, NUMBA_CACHE_DIR=str(tmp_path)) == [5.0, 0, []]
    value, hits, signatures = run_script(second, NUMBA_CACHE_DIR=str(tmp_path))
    assert (value, hits, len(signatures)) == (1.0, 1, 1)


@kernel
def fresh_array(penalty, n):
    return np.empty(n)


@kernel
def first_of_fresh(penalty, n):
    out = fresh_array(penalty, n)
    out[0] = 7.0
    return out[0]


def test_arrays_are_returned_to_kernels_only():
    assert first_of_fresh(PENALTY, 3) == 7.0
    with pytest.raises(TypeError, match="kernels fill arrays that they are given"):
        fresh_array(PENALTY, 3)
