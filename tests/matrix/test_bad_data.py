"""Data that cannot be used are refused in one sentence that says where and what to do."""

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.errors import InputError
from saddlery.matrix import as_matrix

KINDS = {"dense": np.asarray, "F": np.asfortranarray, "csr": sp.csr_array, "csc": sp.csc_array, "float32": np.float32}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_non_finite_entries_are_named(kind, value, word):
    X = np.ones((6, 4))
    X[3, 2] = value
    with pytest.raises(InputError, match=f"{word} at row 3, column 2"):
        as_matrix(KINDS[kind](X))


@pytest.mark.parametrize("kind", KINDS)
def test_opposite_infinities_do_not_cancel(kind):
    X = np.ones((6, 4))
    X[1, 3], X[4, 0] = np.inf, -np.inf
    with pytest.raises(InputError, match="infinity at row"):
        as_matrix(KINDS[kind](X))


@pytest.mark.parametrize("kind", ["dense", "csr", "float32"])
def test_large_finite_numbers_are_fine(kind):
    """Their sum overflows, they do not."""
    X = np.full((3, 3), 1e308 if kind != "float32" else 3e38)
    assert as_matrix(KINDS[kind](X)).shape == (3, 3)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("kind", [np.zeros, sp.csr_array])
def test_empty(kind, shape):
    with pytest.raises(InputError, match="at least one row and one column"):
        as_matrix(kind(shape))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.ones(3), "two dimensions"),
        (np.ones((2, 2, 2)), "two dimensions"),
        (3.0, "two dimensions"),
        (sp.coo_array(np.ones(3)), "two dimensions"),
        (np.ones((2, 2)) + 1j, "complex"),
        (sp.csr_array(np.ones((2, 2)) + 1j), "complex"),
        ([["a", "b"], ["c", "d"]], "must hold numbers"),
        (np.array([[None, 1.0]], dtype=object), "must hold numbers|NaN"),
        ([[{}, 1.0]], "must hold numbers"),
    ],
    ids=["vector", "cube", "scalar", "sparse vector", "complex", "sparse complex", "strings", "None", "dict"],
)
def test_not_a_matrix_of_numbers(data, message):
    with pytest.raises(InputError, match=message):
        as_matrix(data)


def test_ragged_lists():
    with pytest.raises(InputError):
        as_matrix([[1.0, 2.0], [3.0]])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.longdouble])
def test_other_numbers_become_float64(dtype):
    for form in (np.asarray, sp.csr_array):
        if form is sp.csr_array and dtype in (np.float16,):
            continue
        matrix = as_matrix(form(np.eye(3).astype(dtype)))
        assert matrix.values.dtype == np.float64
        np.testing.assert_array_equal(matrix.matvec(np.arange(3.0)), np.arange(3.0))
