"""Rows of k numbers: products with the data, and the probabilities of Newton models."""

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.losses.softmax import Softmax
from saddlery.matrix import as_matrix
from saddlery.solvers.four_wide import WIDTH, _plain_add_four, padded
from saddlery.solvers.multiclass_rows import BLOCK, gradient_of, model_rows, new_room


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [2, 3, 4, 5, 9])
def test_sparse_products_are_those_of_arrays(k, dtype):
    rng = np.random.default_rng(k)
    X = sp.random_array((40, 13), density=0.3, rng=rng, format="csr").astype(dtype)
    by_classes = rng.standard_normal((k, 40))
    exact = X.toarray().astype(np.float64).T @ by_classes.T
    for weighted in (by_classes.T, np.ascontiguousarray(by_classes.T)):  # over the rows of X, and over its columns
        product = gradient_of(as_matrix(X), weighted)
        assert product.flags.c_contiguous
        np.testing.assert_allclose(product, exact, rtol=1e-12, atol=1e-12)


def test_four_at_once_without_the_compiler():
    out, x = np.arange(8.0), np.arange(10.0, 18.0)
    _plain_add_four(out, 4, 2.0, x, 1)
    np.testing.assert_array_equal(out, [0.0, 1.0, 2.0, 3.0, 4.0 + 22.0, 5.0 + 24.0, 6.0 + 26.0, 7.0 + 28.0])
    assert [padded(count) for count in (1, WIDTH, WIDTH + 1)] == [WIDTH, WIDTH, 2 * WIDTH]


@pytest.mark.parametrize("size", [0.01, 3.0])
def test_rows_of_a_model_are_probabilities_and_its_own_where_it_says_so(size):
    rng = np.random.default_rng(0)
    k, n = 5, BLOCK + 7
    V = rng.dirichlet(np.ones(k), n).T.copy()
    Z = size * rng.standard_normal((k, n))
    own = V * (1.0 + Z - (V * Z).sum(axis=0))
    inside = (own >= 0.0).all(axis=0)
    assert inside.all() == (size < 1.0)
    assert inside.any()
    model_rows(Softmax(), V, 0, Z, new_room(k))
    np.testing.assert_allclose(Z[:, inside], own[:, inside], rtol=1e-12, atol=1e-15)
    assert (Z >= 0.0).all()
    np.testing.assert_allclose(Z.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(Z == 0.0, own <= 0.0)
