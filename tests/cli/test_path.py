"""``saddlery path``."""

import json

import pytest


def test_path(saddlery, folder, tmp_path):
    done = saddlery(
        "path", folder / "house.csv", "--n-alphas", "4", "--report", tmp_path / "page.html", "--plot", tmp_path / "p.png"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.count("converged") == 4
    assert "<html" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_json_and_given_strengths(saddlery, folder):
    args = ("--positive", "2", "--loss", "squared_hinge", "--class-weight", "balanced", "--alphas", "0.001,0.1", "--json")
    done = saddlery("path", folder / "three.svm", *args)
    told = json.loads(done.out)
    assert done.code == 0
    assert [row["alpha"] for row in told["path"]] == [0.1, 0.001]
    assert all(row["relative_gap"] <= 1e-6 for row in told["path"])
    assert told["path"][0]["nonzeros"] <= told["path"][1]["nonzeros"]


def test_budget(saddlery, folder):
    done = saddlery("path", folder / "binary.svm", "--n-alphas", "3", "--max-epochs", "0", "--tol", "1e-9")
    assert done.code == 3


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("three.svm", "--task", "classification"), "the data have 3 classes: choose one against the rest by --positive LABEL"),
        (("three.svm", "--positive", "9"), "no row has the label '9'; the labels are 0, 1, 2"),
        (("binary.svm", "--alphas", "1,x"), "--alphas takes numbers separated by commas"),
        (("binary.svm", "--alphas", "1,-1"), "alphas must be positive numbers"),
        (("binary.svm", "--n-alphas", "0"), "n_alphas must be 1 or more"),
        (("binary.svm", "--min-ratio", "2"), "alpha_min_ratio must lie between 0 and 1"),
        (("binary.svm", "--loss", "squared_hinge", "--solver", "spdc"), "spdc cannot solve"),
    ],
)
def test_bad_input(saddlery, folder, args, reason):
    done = saddlery("path", folder / args[0], *args[1:])
    assert (done.code, done.out) == (2, "")
    assert reason in done.sentence()
