"""svmlight text: what is read, and what is refused with the number of the line."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.data import read_data
from saddlery.data import svmlight as module
from saddlery.errors import InputError


def write_svmlight(X, y):
    rows = []
    for i, label in enumerate(y):
        row = X[[i]].tocoo()
        pairs = [f"{j + 1}:{float(value)!r}" for j, value in zip(row.coords[1], row.data, strict=True)]
        rows.append(" ".join([repr(float(label)), *pairs]))
    return ("\n".join(rows) + "\n").encode()


@pytest.fixture
def random_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 30)) * 10.0 ** rng.integers(-30, 30, (50, 30)) * (rng.random((50, 30)) < 0.2)
    return sp.csr_array(X), rng.normal(size=50)


COMPRESSIONS = [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]


@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), *COMPRESSIONS])
def test_round_trip_is_exact(tmp_path, random_data, suffix, compress):
    X, y = random_data
    path = tmp_path / f"some.data{suffix}"
    path.write_bytes(compress(write_svmlight(X, y)))
    data = read_data(path, n_features=30)
    assert data.name == "some.data"
    assert data.feature_names is None
    assert data.X.format == "csr"
    assert (data.X != X).nnz == 0
    np.testing.assert_array_equal(data.y, y)


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_blocks_do_not_matter(tmp_path, random_data, monkeypatch, block):
    X, y = random_data
    path = tmp_path / "some.svm"
    path.write_bytes(write_svmlight(X, y))
    whole = read_data(path)
    monkeypatch.setattr(module, "BLOCK", block)
    pieces = read_data(path)
    assert (whole.X != pieces.X).nnz == 0
    np.testing.assert_array_equal(whole.y, pieces.y)


def test_comments_blank_lines_qid_spaces_and_line_ends(tmp_path):
    path = tmp_path / "odd.svm"
    path.write_bytes(b"\xef\xbb\xbf# a head\n+1  1:1.\t3:.5e1 # why\r\n\n   \n-1 qid:7 2:-2 \n3\n0 3:0 4:1e-3")
    data = read_data(path)
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0, 5, 0], [0, -2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1e-3]])
    np.testing.assert_array_equal(data.y, [1, -1, 3, 0])
    assert data.y.dtype == np.int64  # the label 1 stays 1


def test_number_of_features_fills_up(tmp_path):
    path = tmp_path / "few.svm"
    path.write_text("1 1:1\n-1 2:1\n")
    assert read_data(path).X.shape == (2, 2)
    assert read_data(path, n_features=9).X.shape == (2, 9)


BAD_LINES = [
    ("one 1:1", "the label 'one' is not a finite number"),
    ("nan 1:1", "the label 'nan' is not a finite number"),
    ("1e999 1:1", "the label '1e999' is not a finite number"),
    ("1,2 1:1", "the label '1,2' is not a finite number"),
    ("1 0:1", "index 0 is less than 1"),
    ("1 -3:1", "index -3 is less than 1"),
    ("1 2:1 2:1", "index 2 comes twice"),
    ("1 3:1 2:1", "index 2 comes after 3"),
    ("1 2:nan", "the value 'nan' of index 2 is not a finite number"),
    ("1 2:inf", "the value 'inf' of index 2 is not a finite number"),
    ("1 2:1e400", "the value '1e400' of index 2 is not a finite number"),
    ("1 2:", "the value '' of index 2 is not a finite number"),
    ("1 2:1x", "the value '1x' of index 2 is not a finite number"),
    ("1 2:1_0", "the value '1_0' of index 2 is not a finite number"),
    ("1 2:1:3", "the value '1:3' of index 2 is not a finite number"),
    ("1 2", "'2' is not of the form index:value"),
    ("1 :2", "':2' is not of the form index:value"),
    ("1 2.0:1", "'2.0:1' is not of the form index:value"),
    ("1 x:1", "'x:1' is not of the form index:value"),
    ("1 2 :1", "'2' is not of the form index:value"),
    ("1 9999999999999999999:1", "is too large"),
    ("1 12:1", "index 12 is larger than n_features = 9"),
    ("\x00\x01\x02", "is not a finite number"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
@pytest.mark.parametrize("block", [4, 8 * 2**20])
def test_bad_lines_are_named(tmp_path, monkeypatch, line, reason, block):
    monkeypatch.setattr(module, "BLOCK", block)
    path = tmp_path / "bad.svm"
    path.write_text(f"# head\n1 1:1\n\n-1 2:1\n{line}\n1 1:1\n-1 broken\n")
    with pytest.raises(InputError) as caught:
        read_data(path, n_features=9)
    assert str(caught.value).startswith(f"{path}:5: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_first_bad_line_is_the_one_named(tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:1\n1 3:1 2:1\n1 what\n")
    with pytest.raises(InputError, match=r"bad\.svm:2: index 2 comes after 3"):
        read_data(path)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_no_rows(tmp_path, text):
    path = tmp_path / "empty.svm"
    path.write_text(text)
    with pytest.raises(InputError, match="holds no rows"):
        read_data(path)


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSIONS)
def test_damaged_compression(tmp_path, suffix, compress):
    whole = compress(b"".join(b"%d 1:%d\n" % (i % 2, i) for i in range(20000)))
    path = tmp_path / f"data{suffix}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        read_data(path)
    path.write_bytes(b"not compressed at all")
    with pytest.raises(InputError, match="damaged or not what its suffix says"):
        read_data(path)


def test_target_name_is_refused(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n")
    with pytest.raises(InputError, match="no named columns"):
        read_data(path, target="price")
