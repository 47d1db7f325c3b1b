"""From collections and files to partitions: what is taken, what is refused, and how the refusal names its partition."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.distributed.blocks import PartitionError
from saddlery.distributed.partitions import Partitions

PENALTY = sd.penalties.L1(0.01)


def table(tall):
    X, signs, numbers, weights = tall
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return frame.assign(label=np.where(signs > 0, "yes", "no"), target=numbers, weight=weights, sign=signs)


def write(frame, path, count):
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), count)):
        frame.iloc[rows].to_parquet(path / f"part-{k}.parquet")
    return str(path)


@pytest.mark.parametrize("keep", [True, False])
def test_all_collections_are_one_problem(tall, split, tmp_path, keep):
    """Arrays, sparse blocks, columns in blocks, data frames and Parquet files, held or read again in each round."""
    X, signs, _, weights = tall
    frame = table(tall).drop(columns=["label", "target"])
    path = write(frame, tmp_path, 4)
    ddf = dd.from_pandas(frame, npartitions=4)
    features = [name for name in frame.columns if name.startswith("x")]
    unknown = ddf[features].to_dask_array()
    assert np.isnan(unknown.shape[0])
    sources = {
        "array": (split(X, 4), signs, weights),
        "blocks of columns": (
            da.from_array(X, chunks=(250, 5)),
            da.from_array(signs, chunks=123),
            da.from_array(weights, chunks=400),
        ),
        "sparse": (split(sp.csr_array(X), 4), da.from_array(signs, chunks=300), weights),
        "frame": (ddf, "sign", "weight"),
        "frame and series": (ddf[features], ddf["sign"], ddf["weight"]),
        "unknown sizes": (unknown, ddf["sign"].to_dask_array(), ddf["weight"].to_dask_array()),
        "array and series": (unknown, ddf["sign"], ddf["weight"]),
        "directory": (path, "sign", "weight"),
        "file": (f"{path}/part-2.parquet", "sign", "weight"),
    }
    here = sd.LinearProblem(X, signs, "logistic", PENALTY, weights)
    w = np.linspace(-0.5, 0.5, 12)
    for name, (data, y, s) in sources.items():
        there = sd.DaskLinearProblem(data, y, "logistic", PENALTY, s, keep=keep)
        assert there.partitions.kept is keep
        if name == "file":
            rows = slice(450, 675)
            here_part = sd.LinearProblem(X[rows], signs[rows], "logistic", PENALTY, weights[rows])
            assert there.certify(w).gap == pytest.approx(here_part.certify(w).gap, abs=1e-12)
        else:
            assert there.certify(w).gap == pytest.approx(here.certify(w).gap, abs=1e-12), name
            assert there.n == 900


def test_what_depends_on_other_partitions_is_computed_once(tall):
    """A scaled array needs the mean of all blocks: reading blocks by themselves would read all of them for each."""
    X, signs, _, _ = tall
    data = da.from_array(X, chunks=(100, 12))
    centred = data - data.mean(axis=0)
    there = sd.DaskLinearProblem(centred, signs, "logistic", PENALTY, keep=False)
    assert there.partitions.kept
    here = sd.LinearProblem(X - X.mean(axis=0), signs, "logistic", PENALTY)
    assert there.certify(np.ones(12)).gap == pytest.approx(here.certify(np.ones(12)).gap, abs=1e-10)


def test_empty_partitions_and_classes_of_some_partitions_only(tall):
    X, _, _, weights = tall
    labels = np.repeat(["a", "b", "c"], 300)  # each partition knows one class
    frame = table(tall).assign(label=labels)
    ddf = dd.from_pandas(frame, npartitions=6, sort=False)
    some = ddf[ddf["x0"] > 0.5]  # and some partitions may lose all rows
    features = [name for name in frame.columns if name.startswith("x")]
    chosen = frame["x0"] > 0.5
    for model in (sd.LinearClassifier(alpha=0.01, tol=1e-8), sd.LinearClassifier(alpha=0.01, tol=1e-8, class_weight="balanced")):
        there = model.fit(some[features], some["label"], sample_weight=some["weight"])
        coef = there.coef_
        assert there.classes_.tolist() == ["a", "b", "c"]
        model.fit(X[chosen], labels[chosen], sample_weight=weights[chosen])
        np.testing.assert_allclose(coef, model.coef_, atol=2e-4)
    none = ddf[(ddf["x0"] > 0.5) & (ddf["label"] == "c")]
    assert 0 in Partitions(none[features], none["target"]).lengths
    nothing = ddf[ddf["x0"] > 1e9]
    with pytest.raises(sd.InputError, match="no rows"):
        Partitions(nothing[features], nothing["target"])


def test_refusals_say_what_to_do(tall, split, tmp_path):
    X, signs, numbers, _ = tall
    data, frame = split(X, 3), table(tall)
    ddf = dd.from_pandas(frame, npartitions=3)
    bad = X.copy()
    bad[700, 3] = np.nan
    cases = [
        ((data[:, 0], signs), "two dimensions"),
        ((data, signs[:10]), r"y has shape \(10,\)"),
        ((data, "label"), "names a column"),
        ((ddf, "nothing"), "no column of X"),
        ((ddf, "target"), "'label' of X does not hold numbers"),
        ((ddf[["x0"]], numbers), "Dask collection with the partitions of X"),
        ((ddf[["x0"]], dd.from_pandas(frame, npartitions=2)["target"]), "2 partitions and X 3"),
        ((split(bad, 3), signs), "partition 2: X contains NaN at row"),
        ((data, np.where(np.arange(900) == 5, np.inf, 1.0)), "partition 0: y contains NaN or infinity at its row 5"),
        ((data, np.full(900, "a")), r"partition \d: y must hold numbers"),
        ((str(tmp_path / "none.parquet"), "y"), "does not exist"),
        ((str(tmp_path), "y"), "no Parquet files"),
    ]
    for arguments, words in cases:
        with pytest.raises(sd.InputError, match=words):
            Partitions(*arguments)
    with pytest.raises(PartitionError, match="partition 1: sample_weight must hold finite"):
        Partitions(data, signs, -(np.arange(900) == 300).astype(float))
    with pytest.raises(sd.InputError, match="all sample weights are zero"):
        Partitions(data, signs, np.zeros(900))
    with pytest.raises(sd.InputError, match="Unknown label type"):
        Partitions(data, numbers, labels=True)
    columns = da.concatenate([data[:300], da.from_array(np.ones((5, 12)))]).map_blocks(
        lambda rows, block_info: rows[:, :9] if block_info[0]["chunk-location"][0] == 2 else rows, dtype=float
    )
    with pytest.raises(PartitionError, match="partition 2 has 9 columns, but partition 0 has 12"):
        Partitions(columns, np.ones(305))


@pytest.mark.parametrize("keep", [True, False])
def test_unreadable_files_are_named(tall, tmp_path, keep):
    path = write(table(tall).drop(columns="label"), tmp_path, 4)
    broken = tmp_path / "part-2.parquet"
    whole = broken.read_bytes()
    broken.write_bytes(b"PAR1" + b"garbage " * 200 + whole[1604:])  # the footer can be read, the pages cannot
    with pytest.raises(PartitionError, match=r"partition 2 \(.*part-2.parquet\) cannot be read") as raised:
        Partitions(path, "target", keep=keep)
    assert raised.value.number == 2
    broken.write_bytes(b"no footer")
    with pytest.raises(PartitionError, match=r"partition 2 \(.*part-2.parquet\) cannot be read"):
        Partitions(path, "target", keep=keep)
