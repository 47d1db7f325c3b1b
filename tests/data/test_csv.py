"""CSV: header, target column, and cells that are refused by line and column."""

import gzip

import numpy as np
import pytest

from saddlery.data import read_data
from saddlery.errors import InputError


@pytest.fixture
def csv_file(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_reads_numbers_and_names(csv_file):
    data = read_data(csv_file("a,target,b\n1,0,2.5\n-3e2,1,0\n"))
    np.testing.assert_array_equal(data.X, [[1, 2.5], [-300, 0]])
    np.testing.assert_array_equal(data.y, [0, 1])
    assert data.y.dtype == np.int64
    assert data.feature_names == ["a", "b"]
    assert data.name == "table"


def test_round_trip_is_exact(csv_file):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    rows = ["c0,c1,c2,c3,c4,y"] + [",".join(map(repr, map(float, [*row, label]))) for row, label in zip(X, y, strict=True)]
    data = read_data(csv_file("\r\n".join(rows)))
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_quotes_and_string_labels(csv_file, delimiter):
    text = '\ufeff"a b",kind\n1,"yes, it is"\n\n2,no\n'.replace(",", delimiter, 2).replace("2,no", f"2{delimiter}no")
    data = read_data(csv_file(text, "t.tsv"), target="kind")
    np.testing.assert_array_equal(data.X, [[1], [2]])
    assert data.y.tolist() == ["yes, it is", "no"]
    assert data.feature_names == ["a b"]


def test_compressed(csv_file):
    data = read_data(csv_file(gzip.compress(b"a,y\n1,2.5\n"), "t.csv.gz"))
    assert (data.X.tolist(), data.y.tolist(), data.name) == ([[1.0]], [2.5], "t")


def test_format_overrides_suffix(csv_file):
    assert read_data(csv_file("a,y\n1,2\n", "table.dat"), format="csv").feature_names == ["a"]


def test_files_without_targets(csv_file):
    path = csv_file("a,b\n1,2\n")
    assert read_data(path, target=False).y is None
    with pytest.raises(InputError, match="no column named target, y, label: name the target column, one of a, b"):
        read_data(path)
    with pytest.raises(InputError, match=r"unknown target column of .* 'bb': did you mean 'b'\?"):
        read_data(path, target="bb")


BAD = [
    ("a,b,y\n1,2,3\n4,x,6\n", r":3: column 'b' holds 'x', which is not a finite number"),
    ("a,b,y\n1,2,3\n4,inf,6\n", r":3: column 'b' holds 'inf', which is not a finite number"),
    ("a,b,y\n1,,3\n", r":2: column 'b' has a missing value"),
    ("a,b,y\n1,NaN,3\n", r":2: column 'b' has a missing value"),
    ("a,b,y\n\n1,2,\n", r":3: column 'y' is empty"),
    ("a,b,y\n1,2\n", r":2: 2 cells, but the header names 3 columns"),
    ("a,b,y\n1,2,3,4\n", r":2: 4 cells, but the header names 3 columns"),
    ("a,b,y\n1,2,nan\n", r"the target 'y' of row 1 is 'nan'"),
    ("a,a,y\n1,2,3\n", r":1: the column name 'a' is empty or comes twice"),
    ("a,,y\n1,2,3\n", r":1: the column name '' is empty or comes twice"),
    ("a,b,y\n", r"holds no rows"),
    ("y\n1\n", r"holds no feature columns"),
    ("", r"holds no header"),
    (b"a,y\n\xff\xfe,1\n", r"is not UTF-8 text"),
    (b"\x89PNG\x00\xff", r"is not UTF-8 text"),
    ('a,y\n"1,2\n', r"is not CSV"),
]


@pytest.mark.parametrize(("text", "reason"), BAD)
def test_bad_files(csv_file, text, reason):
    with pytest.raises(InputError, match=reason) as caught:
        read_data(csv_file(text))
    assert "\n" not in str(caught.value)


def test_number_of_features(csv_file):
    path = csv_file("a,b,y\n1,2,3\n")
    assert read_data(path, n_features=2).X.shape == (1, 2)
    with pytest.raises(InputError, match="2 feature columns, not n_features = 3"):
        read_data(path, n_features=3)
