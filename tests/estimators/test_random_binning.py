"""Random binning: the kernel by Monte Carlo, new bins, hashing, layouts."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

import saddlery as sd

X = np.random.default_rng(0).standard_normal((25, 3))


@pytest.mark.parametrize("scale", [0.5, 3.0])
@pytest.mark.parametrize("n_columns", [None, 2**22])
def test_inner_products_approximate_the_laplacian_kernel(scale, n_columns):
    n_grids = 4000
    Z = sd.RandomBinning(n_grids, scale, n_columns, random_state=0).fit_transform(X)
    kernel = np.exp(-np.abs(X[:, None] - X[None]).sum(axis=-1) / scale)
    error = np.sqrt(kernel * (1 - kernel) / n_grids)  # of a mean of n_grids coins
    estimate = (Z @ Z.T).toarray()
    collisions = 0.0 if n_columns is None else 5e-3
    assert (np.abs(estimate - kernel) <= 4.5 * error + 1e-3 + collisions).all()  # 300 pairs
    if n_columns is None:
        np.testing.assert_allclose(np.diag(estimate), 1.0)


def test_every_row_has_one_entry_for_each_grid():
    Z = sd.RandomBinning(n_grids=50, random_state=0).fit_transform(X)
    assert Z.format == "csr"
    assert (np.diff(Z.indptr) == 50).all()
    np.testing.assert_allclose(Z.data, 1 / np.sqrt(50))


def test_new_bins_are_left_out_or_hashed():
    far = X + 1000.0
    dictionary = sd.RandomBinning(n_grids=50, random_state=0).fit(X)
    assert dictionary.transform(far).nnz == 0
    assert (dictionary.transform(X) != dictionary.fit_transform(X)).nnz == 0
    hashed = sd.RandomBinning(n_grids=50, n_columns=10_000, random_state=0).fit(X)
    np.testing.assert_allclose(hashed.transform(far).sum(axis=1), np.sqrt(50))
    assert hashed.transform(far).shape == (25, 10_000)


def test_sparse_equals_dense():
    holes = np.where(np.abs(X) > 0.7, X, 0.0)
    model = sd.RandomBinning(n_grids=30, random_state=0).fit(holes)
    for make in (sp.csr_array, sp.csc_matrix, np.asfortranarray):
        assert (model.transform(make(holes)) != model.transform(holes)).nnz == 0
        assert (sd.RandomBinning(n_grids=30, random_state=0).fit_transform(make(holes)) != model.transform(holes)).nnz == 0


def test_names_and_frames():
    model = sd.RandomBinning(n_grids=5, sparse_output=False, random_state=0).set_output(transform="pandas")
    frame = model.fit_transform(X)
    assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    assert frame.shape[1] == sum(map(len, model.bins_))


def test_a_linear_model_on_bins_is_a_kernel_machine():
    rng = np.random.default_rng(1)
    data = rng.uniform(-1, 1, (400, 2))
    labels = (data[:, 0] * data[:, 1] > 0).astype(int)  # no linear model of the data can do this
    model = make_pipeline(sd.RandomBinning(200, 1.0, random_state=0), sd.LinearClassifier(penalty="l2", alpha=1e-3))
    assert model.fit(data[:300], labels[:300]).score(data[300:], labels[300:]) > 0.9


def test_hash_wraps_without_complaint():
    model = sd.RandomBinning(n_grids=3, random_state=0).fit([[1e12, -1e12], [1e15, 3.0]])
    assert [len(found) for found in model.bins_] == [2, 2, 2]
