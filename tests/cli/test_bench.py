"""``saddlery bench``."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.bench import probe


def test_a_file_from_the_shell(command, folder, tmp_path, fake_peers):
    """As users do, with a peer that takes its process with it: the table, the files, the exit code."""
    peers = "sklearn-ridge-cholesky,fake_rivals:Crashes,fake_rivals:Nobody"
    args = ("--loss", "squared", "--penalty", "l2", "--target-gap", "1e-6", "1e-2", "--peers", peers, "-o", tmp_path / "out")
    with command("bench", folder / "binary.svm", *args) as process:
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "binary: 80 rows, 6 columns; CPU times, 1 thread of" in out
    assert "squared-l2: did not arrive at 1e-6: crashes (crashed (exit 7))" in out
    assert "not here: fake_rivals:Nobody (AttributeError: " in out
    told = json.loads((tmp_path / "out" / "bench.json").read_text())
    (cell,) = told["cells"]
    assert list(cell["ours"]) == ["1e-02", "1e-06"]
    assert all(ours["reached"] for ours in cell["ours"].values())
    assert cell["raw"]["cpu"] > 0
    assert cell["peers"]["sklearn-ridge-cholesky"]["times"]["1e-06"]["cpu"] > 0
    assert cell["peers"]["crashes"]["times"]["1e-02"]["setting"] == 0.01
    assert told["summary"]["1e-06"]["cells"] == 1
    assert "| binary:squared-l2 |" in (tmp_path / "out" / "bench.md").read_text()
    assert (tmp_path / "out" / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert [line for line in out.splitlines() if line.startswith("wrote ")] == [
        f"wrote {tmp_path / 'out' / name}" for name in ("bench.json", "bench.md", "bench.png")
    ]


@pytest.fixture
def measured(monkeypatch):
    """What would be measured, without measuring: the arguments of `compare`."""
    seen = []

    def compare(X, y, cells, peers, budget, threads, now):
        seen.append((X, y, cells, peers, budget, threads))
        return []

    monkeypatch.setattr("saddlery.bench.compare.compare", compare)
    monkeypatch.setattr(probe, "_run", lambda command, patience: "was not started")
    return seen


@pytest.mark.parametrize(
    ("args", "names", "values"),
    [
        (("binary.svm",), ["binary:logistic-l1-0.1", "binary:logistic-l1-0.01"], [-1, 1]),
        (("words.csv", "--target", "kind", "--loss", "hinge", "--penalty", "l2"), ["words:hinge-l2"], [-1, 1]),
        (("three.svm", "--task", "classification", "--alpha", "0.1"), ["three:ovr-logistic-l1-alpha-0.1"], [0, 1, 2]),
        (("three.svm", "--positive", "2", "--path"), ["three:path-logistic-l1-0.01"], [-1, 1]),
        (("house.csv", "--penalty", "elasticnet", "--alpha-ratio", "0.5"), ["house:squared-elasticnet-0.5"], None),
        (("binary.svm", "--loss", "squared", "--path"), ["binary:path-squared-l1-0.01"], [-1, 1]),
        (("real.npz", "--threads", "2"), ["real:squared-l1-0.1", "real:squared-l1-0.01"], None),
    ],
)
def test_what_is_measured(saddlery, folder, measured, args, names, values):
    done = saddlery("bench", folder / args[0], *args[1:], "--json")
    assert done.code == 3  # nothing was
    ((X, y, cells, _, budget, threads),) = measured
    assert [cell.name for cell in cells] == names
    assert values is None or np.unique(y).tolist() == values
    assert isinstance(X, np.ndarray) or sp.issparse(X)
    assert (X.dtype, budget.targets) == (np.float64, (1e-3, 1e-4, 1e-6))
    assert threads == (2 if "--threads" in args else 1)


def test_a_store_is_read_into_memory(saddlery, folder, measured, tmp_path):
    saddlery("convert", folder / "binary.svm", tmp_path / "binary.store")
    assert saddlery("bench", tmp_path / "binary.store").code == 3
    assert measured[0][0].shape == (80, 6)


def test_a_cell_without_result(saddlery, folder, monkeypatch):
    monkeypatch.setattr(
        "saddlery.bench.compare.compare", lambda *args, **options: [{"cell": "binary:hinge-l2", "error": "crashed"}]
    )
    done = saddlery("bench", folder / "binary.svm", "--loss", "hinge", "--penalty", "l2", "--peers", "sklearn-linearsvc")
    assert done.code == 3
    assert "binary:hinge-l2: given up, crashed" in done.out


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ((), "name a data file"),
        (("nothing.svm",), "nothing.svm: No such file or directory"),
        (("binary.svm", "--peers", "nobody"), "no peer is called 'nobody': 'saddlery bench --list' lists them"),
        (("one.svm", "--loss", "logistic"), "the data hold one class only (1)"),
        (("house.csv", "--loss", "hinge"), "--loss hinge is for classes, but the targets are numbers: take --loss squared"),
        (("house.csv", "--task", "regression", "--loss", "hinge"), "take --loss squared"),
        (("counts.svm", "--loss", "hinge"), "30 different numbers in 30 rows: take --loss squared, or say --task classification"),
        (("words.csv", "--target", "kind", "--loss", "squared"), "the targets are text"),
        (("three.svm",), "say --task classification or --task regression"),
        (("three.svm", "--task", "classification", "--loss", "squared"), "--loss squared is for numbers"),
        (("three.svm", "--task", "classification", "--path"), "for a path choose one against the rest by --positive LABEL"),
        (("three.svm", "--positive", "9"), "no row has the label '9'"),
        (("binary.svm", "--penalty", "l2", "--alpha-ratio", "0.1"), "l2 never makes all weights zero"),
        (("binary.svm", "--target-gap", "1e-12"), "a target gap must lie between 1e-09 and 1"),
        (("binary.svm", "--threads", "none"), "'none' is neither a number from 1 nor 'all'"),
        (("binary.svm", "--loss", "huber"), "invalid choice: 'huber'"),
        (("binary.svm", "-o", "binary.svm"), "File exists"),
    ],
)
def test_bad_input(saddlery, folder, measured, monkeypatch, args, reason):
    monkeypatch.chdir(folder)
    Path("one.svm").write_text("1 1:1\n1 2:1\n")
    Path("counts.svm").write_text("".join(f"{k} 1:1\n" for k in range(30)))
    done = saddlery("bench", *args)
    assert (done.code, done.out) == (2, "")
    assert reason in done.sentence()
    assert not measured


def test_list(saddlery, monkeypatch):
    monkeypatch.setattr(probe, "_run", lambda command, patience: probe.main(command[3], command[4:]))  # in this process
    done = saddlery("bench", "--list", "--peers", "sklearn-cd,sklearn-linearsvc")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines() if "sklearn" in line]
    assert [line[0] for line in lines] == ["sklearn-cd", "sklearn-linearsvc"]
    assert "squared_hinge (l1, l2)" in done.out
    told = json.loads(saddlery("bench", "--list", "--peers", "sklearn-cd", "--json").out)
    assert told["peers"][0]["kinds"] == [["squared", "elasticnet"], ["squared", "l1"]]
