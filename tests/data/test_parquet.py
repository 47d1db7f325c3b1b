"""Parquet tables: types, names, targets, and what is refused."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.errors import InputError

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

FRAME = pandas.DataFrame({"a": [1.5, 2.0, -1.0], "b": [1, 2, 3], "c": [True, False, True], "label": ["x", "y", "x"]})


def save(tmp_path, frame, **options):
    frame.to_parquet(tmp_path / "table.parquet", **options)
    return tmp_path / "table.parquet"


def test_numbers_and_labels(tmp_path):
    data = sd.read_data(save(tmp_path, FRAME))
    np.testing.assert_array_equal(data.X, [[1.5, 1, 1], [2, 2, 0], [-1, 3, 1]])
    assert (data.X.dtype, data.y.tolist(), data.feature_names, data.name) == (np.float64, ["x", "y", "x"], ["a", "b", "c"], "table")
    single = FRAME[["a", "label"]].astype({"a": np.float32, "label": "category"})
    data = sd.read_data(save(tmp_path, single))
    assert (data.X.dtype, data.y.tolist()) == (np.float32, ["x", "y", "x"])


def test_targets(tmp_path):
    path = save(tmp_path, FRAME.set_index(pandas.Index([7, 8, 9])))  # labels of rows are no column
    numbers = sd.read_data(save(tmp_path, FRAME.drop(columns="label")), target="b")
    assert (numbers.y.tolist(), numbers.feature_names) == ([1, 2, 3], ["a", "c"])
    assert sd.read_data(path, target=False).y is None
    with pytest.raises(InputError, match="no column named target, y, label"):
        sd.read_data(path)
    with pytest.raises(InputError, match="unknown target column"):
        sd.read_data(path, target="z")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.assign(d=["u", "v", "w"]), "column 'd' holds .*string, which is no number"),
        (FRAME.assign(a=[1.0, None, 2.0]), r"column 'a' (has a missing value|holds a number that is not finite) in row 2"),
        (FRAME.assign(a=[1.0, 2.0, np.inf]), "column 'a' holds a number that is not finite in row 3"),
        (FRAME.assign(label=["x", None, "y"]), "column 'label' has no target in row 2"),
        (FRAME[["label"]], "no feature columns"),
        (FRAME[:0], "holds no rows"),
    ],
)
def test_refusals(tmp_path, frame, message):
    path = save(tmp_path, frame)
    with pytest.raises(InputError, match=message):
        sd.read_data(path)
    with pytest.raises(InputError, match="holds no rows" if not len(frame) else message):
        sd.convert(path, tmp_path / "store", chunk_rows=1)
    assert [file.name for file in tmp_path.iterdir()] == ["table.parquet"]


def test_damaged_files(tmp_path):
    path = save(tmp_path, FRAME)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="is not a whole Parquet file"):
        sd.read_data(path)
    with pytest.raises(FileNotFoundError):
        sd.read_data(tmp_path / "nothing.parquet")
    with pytest.raises(InputError, match="not n_features = 9"):
        sd.read_data(save(tmp_path, FRAME), n_features=9)
