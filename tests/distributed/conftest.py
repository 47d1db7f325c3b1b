"""Small data in Dask collections, and one cluster of two real worker processes for all tests."""

import itertools

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp


@pytest.fixture(scope="session")
def cluster():
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": "2GB"}
    with LocalCluster(**options) as made, Client(made, set_as_default=False) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture
def client(cluster):
    """The cluster's client as the one in charge."""
    with cluster.as_current():
        yield cluster


@pytest.fixture(autouse=True)
def threads():
    """Two threads where there is no cluster, so that runs of partitions are the same as there."""
    with dask.config.set(num_workers=2):
        yield


@pytest.fixture(scope="session")
def tall():
    """900 rows, 12 columns, signs and numbers as targets, weights some of which are zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 12)) * (rng.random((900, 12)) < 0.6)
    z = X @ (rng.standard_normal(12) * (rng.random(12) < 0.6)) + 0.4 + 0.7 * rng.standard_normal(900)
    return X, np.where(z > 0.0, 1.0, -1.0), z, rng.integers(0, 3, 900).astype(float)


@pytest.fixture(scope="session")
def wide():
    """300 rows, 400 columns, sparse."""
    rng = np.random.default_rng(1)
    X = sp.random_array((300, 400), density=0.05, rng=rng, format="csr")
    z = X @ (rng.standard_normal(400) * (rng.random(400) < 0.1)) + 0.05 * rng.standard_normal(300)
    return X, np.where(z > 0.0, 1.0, -1.0)


@pytest.fixture(scope="session")
def split():
    """X in so many blocks of different sizes, dense or sparse as it is."""

    def blocks(X, count):
        ends = np.unique(np.round(np.linspace(0.0, 1.0, count + 1) ** 1.3 * X.shape[0]).astype(int))
        sizes = tuple(int(size) for size in np.diff(ends))
        if not sp.issparse(X):
            return da.from_array(X, chunks=(sizes, X.shape[1]))
        pieces = [dask.delayed(X[low:high]) for low, high in itertools.pairwise(ends)]
        like = sp.csr_array((0, X.shape[1]))
        arrays = [
            da.from_delayed(piece, (size, X.shape[1]), dtype=X.dtype, meta=like) for piece, size in zip(pieces, sizes, strict=True)
        ]
        return da.concatenate(arrays)

    return blocks
