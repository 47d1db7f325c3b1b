"""npz archives: dense arrays, the pieces of sparse matrices, and what is refused."""

import io

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.data import read_data
from saddlery.errors import InputError

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
y = np.array([1, -1])


def save(tmp_path, **arrays):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, **arrays)
    return path


def test_dense(tmp_path):
    data = read_data(save(tmp_path, X=X.astype(np.float32), y=np.array(["a", "b"]), feature_names=np.array(["p", "q", "r"])))
    np.testing.assert_array_equal(data.X, X)
    assert data.X.dtype == np.float32
    assert data.y.tolist() == ["a", "b"]
    assert data.feature_names == ["p", "q", "r"]


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_sparse_as_scipy_saves_it(tmp_path, kind):
    buffer = io.BytesIO()
    sp.save_npz(buffer, sp.csr_array(X).asformat(kind))
    buffer.seek(0)
    with np.load(buffer) as pieces:
        data = read_data(save(tmp_path, y=y, **pieces))
    assert data.X.format == "csr"
    np.testing.assert_array_equal(data.X.toarray(), X)
    np.testing.assert_array_equal(data.y, y)


def test_targets(tmp_path):
    path = save(tmp_path, X=X, price=y)
    assert read_data(path, target=False).y is None
    np.testing.assert_array_equal(read_data(path, target="price").y, y)
    with pytest.raises(InputError, match="no array y"):
        read_data(path)
    with pytest.raises(InputError, match="did you mean 'price'"):
        read_data(path, target="prize")


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"X": X, "y": y[:1]}, r"y has shape \(1,\), but there are 2 rows"),
        ({"X": X[0], "y": y}, "give a matrix of numbers"),
        ({"X": np.array([["a"], ["b"]]), "y": y}, "give a matrix of numbers"),
        ({"X": np.array([[None], [1]], dtype=object), "y": y}, "plain arrays"),
        ({"Z": X, "y": y}, "holds Z, y: give X"),
        ({"X": X, "y": y, "feature_names": np.array(["a"])}, "1 feature_names for 3 columns"),
        ({"data": y, "indices": [0, 9], "indptr": [0, 1, 2], "shape": [2, 3], "y": y}, "make no sparse matrix"),
        ({"data": y, "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 3], "format": "bsr", "y": y}, "save it as csr or csc"),
    ],
)
def test_bad_archives(tmp_path, arrays, reason):
    with pytest.raises(InputError, match=reason) as caught:
        read_data(save(tmp_path, **arrays))
    assert "\n" not in str(caught.value)


def test_damaged_and_foreign_files(tmp_path):
    path = save(tmp_path, X=np.random.default_rng(0).normal(size=(100, 10)), y=np.zeros(100))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="npz archive"):
        read_data(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes(8) + whole[middle + 8 :])
    with pytest.raises(InputError, match="npz archive"):
        read_data(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="npz archive"):
        read_data(path)
    path.write_text("hello")
    with pytest.raises(InputError, match="npz archive"):
        read_data(path)
    with path.open("wb") as handle:
        np.save(handle, X)
    with pytest.raises(InputError, match="one array without a name"):
        read_data(path)
    with pytest.raises(InputError, match="not n_features = 4"):
        read_data(save(tmp_path, X=X, y=y), n_features=4)
