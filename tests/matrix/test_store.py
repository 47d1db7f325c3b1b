"""Reading stores: any rows and columns, products, damage, and the same protocol for everything that is read in parts."""

import copy
import json
import pickle
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.matrix import as_matrix
from saddlery.matrix.store import Store, as_bytes, seal

N, D = 83, 19
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, D)) * (RNG.random((N, D)) < 0.5)
X[4], X[:, 3] = 0.0, 0.0
Y = np.where(X[:, 0] > 0, "yes", "no")


def full(values):
    return values.toarray() if sp.issparse(values) else np.asarray(values)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    sd.convert((X, Y), folder / "dense")
    sd.convert((sp.csr_array(X), Y), folder / "sparse")
    return folder


@pytest.fixture(params=["dense", "sparse"])
def store(request, places):
    with sd.open_store(places / request.param, load=False) as opened:
        opened.block_bytes = 1500
        yield opened


def test_facts(store):
    assert isinstance(store, Store)
    assert (store.shape, store.dtype, store.compiled) == ((N, D), np.float64, False)
    assert store.nnz == (np.count_nonzero(X) if store.is_sparse else N * D)
    np.testing.assert_array_equal(store.y, Y)
    assert as_matrix(store) is store
    assert as_bytes("3 kB") == 3000


@pytest.mark.parametrize(
    "index", [[], [0], [N - 1], [3, 4, 5, 6], [9, 2, 2, 3, 70], list(range(N)), [5, 4, 3]], ids=lambda index: f"{len(index)}"
)
def test_any_rows_and_columns(store, index):
    index = np.array(index, dtype=np.int64)
    np.testing.assert_array_equal(full(store.read_rows(index)), X[index])
    columns = index % D
    np.testing.assert_array_equal(full(store.read_cols(columns)), X[:, columns])
    if not store.is_sparse:
        assert store.read_rows(index).flags.c_contiguous
        assert store.read_cols(columns).flags.f_contiguous


def test_bytes_are_counted(store):
    before = store.bytes_read
    taken = store.take_rows(np.array([1, 7, 8]))
    assert store.bytes_read - before == taken.nnz * store.entry_bytes


def test_parts_cover_everything_once(store):
    for axis, parts in enumerate((store.row_parts, store.col_parts)):
        for rng in (None, np.random.default_rng(1)):
            seen = np.zeros(store.shape[axis], dtype=int)
            count = 0
            for part, block in parts(rng):
                seen[part] += 1
                count += 1
                np.testing.assert_array_equal(full(block.values), X[part] if axis == 0 else X[:, part])
                assert block.nnz * store.entry_bytes <= store.block_bytes
            assert (seen == 1).all()
            assert count > 3


def test_what_follows_from_reading(store):
    rng, memory = np.random.default_rng(2), as_matrix(X)
    for w in (rng.standard_normal(D), np.eye(D)[2], rng.standard_normal((D, 3)), np.zeros(D)):
        np.testing.assert_allclose(store.matvec(w), X @ w, atol=1e-12)
    for a in (rng.standard_normal(N), np.eye(N)[7], rng.standard_normal((N, 2)), np.zeros(N)):
        np.testing.assert_allclose(store.rmatvec(a), X.T @ a, atol=1e-12)
    s = rng.random(N)
    np.testing.assert_allclose(store.row_square_norms, memory.row_square_norms, atol=1e-12)
    np.testing.assert_allclose(store.col_square_norms, memory.col_square_norms, atol=1e-12)
    np.testing.assert_allclose(store.weighted_col_square_norms(s), s @ X**2, atol=1e-12)
    np.testing.assert_allclose(store.products_of(np.array([7, 1]), s), X[:, [7, 1]].T @ s, atol=1e-12)
    weights = sp.csr_array(rng.random((4, N)) * (rng.random((4, N)) < 0.3))
    np.testing.assert_allclose(store.left_product(weights), weights @ X, atol=1e-12)
    np.testing.assert_array_equal(store.col_counts, np.count_nonzero(X, axis=0) if store.is_sparse else np.full(D, N))
    columns = np.array([0, 5, 6, 18])
    for part, slab in store.slabs(columns):
        np.testing.assert_array_equal(full(slab), X[part][:, columns])


def test_selections(store):
    rows, columns = np.array([2, 3, 50, 51, 80]), np.array([1, 4, 5])
    for i, j in ((rows, columns), (rows, None), (None, columns), (None, None)):
        want = X[slice(None) if i is None else i][:, slice(None) if j is None else j]
        part = store.select(i, j)
        np.testing.assert_array_equal(full(part.compact().values), want)
        w, a = np.arange(1.0, 1 + want.shape[1]), np.arange(1.0, 1 + want.shape[0])
        np.testing.assert_allclose(part.matvec(w), want @ w, atol=1e-12)
        np.testing.assert_allclose(part.rmatvec(a), want.T @ a, atol=1e-12)
        np.testing.assert_allclose(part.row_square_norms, (want**2).sum(axis=1), atol=1e-12)
    np.testing.assert_array_equal(full(store.select(rows).read_cols(columns)), X[np.ix_(rows, columns)])


def test_the_whole_is_not_there(store):
    for name in ("rows", "cols", "values"):
        with pytest.raises(UnsupportedError, match="is read in parts"):
            getattr(store, name)
    with pytest.raises(UnsupportedError, match=r"pdhg cannot solve .* it needs data in memory"):
        sd.solve(sd.LinearProblem(store, np.where(Y == "yes", 1, -1), penalty=sd.penalties.L1(0.1)), "pdhg")


def test_loading(places):
    """What fits is loaded, and everything is at full speed."""
    for kind in ("dense", "sparse"):
        loaded = sd.open_store(places / kind)
        assert loaded.compiled
        assert loaded.name == "data"
        assert loaded.dtype == np.float64
        np.testing.assert_array_equal(full(loaded.values), X)
        np.testing.assert_array_equal(loaded.y, Y)
    assert not sd.open_store(places / "dense", max_memory=10**6, load=False).compiled


def test_copies_share_the_files(store):
    assert copy.deepcopy(store) is store
    again = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(full(again.read_rows(np.array([3]))), X[[3]])
    again.close()


# --------------------------------------------------------------------------- damage


FILES = ["rows.values", "cols.values", "targets", "rows.indices", "rows.starts", "cols.indices", "cols.starts"]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_is_found_and_named(places, tmp_path, name, monkeypatch):
    monkeypatch.setattr("saddlery.matrix.store.CHECKED", 256)
    monkeypatch.setattr("saddlery.data.store_files.CHECKED", 256)
    place = sd.convert((sp.csr_array(X), Y), tmp_path / "store")
    sd.open_store(place, verify=True, load=False).close()
    content = bytearray((place / name).read_bytes())
    for at in (0, len(content) // 2, len(content) - 1):
        damaged = content.copy()
        damaged[at] ^= 0x10
        (place / name).write_bytes(damaged)
        with pytest.raises(InputError, match=rf"{name} is damaged in block {at // 256} \(bytes"):
            sd.open_store(place, verify=True)


@pytest.mark.parametrize("name", FILES)
def test_cut_and_missing_files(places, tmp_path, name):
    place = shutil.copytree(places / "sparse", tmp_path / "store")
    content = (place / name).read_bytes()
    (place / name).write_bytes(content[:-1])
    with pytest.raises(InputError, match=rf"{name} has [0-9,]+ bytes in place of [0-9,]+: the store is damaged"):
        sd.open_store(place)
    (place / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        sd.open_store(place)


def test_descriptions_that_are_not_right(places, tmp_path):
    place = shutil.copytree(places / "dense", tmp_path / "store")
    about = (place / "store.json").read_bytes()
    for at in range(0, len(about), 41):  # anywhere
        flipped = bytearray(about)
        flipped[at] ^= 0x01
        (place / "store.json").write_bytes(flipped)
        try:
            harmless = json.loads(flipped) == json.loads(about)  # white space
        except ValueError:
            harmless = False
        if not harmless:
            with pytest.raises(InputError, match=r"damaged|does not describe a store|version"):
                sd.open_store(place)
    (place / "store.json").write_bytes(about[:100])
    with pytest.raises(InputError, match=r"store.json is damaged .* convert the data again"):
        sd.open_store(place)
    (place / "store.json").write_text(json.dumps(seal({**json.loads(about), "version": 99})))
    with pytest.raises(InputError, match="has version 99 of the format, but this saddlery reads 1"):
        sd.open_store(place)
    (place / "store.json").write_text('{"format": "other"}')
    with pytest.raises(InputError, match="does not describe a store"):
        sd.open_store(place)
    (place / "store.json").unlink()
    with pytest.raises(InputError, match=r"is no store: it has no store\.json"):
        sd.open_store(place)
    with pytest.raises(FileNotFoundError):
        sd.open_store(tmp_path / "nowhere")
    with pytest.raises(InputError, match="too little"):
        sd.open_store(places / "dense", max_memory=100)
