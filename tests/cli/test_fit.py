"""``saddlery fit``: exit codes, what is written, what is refused."""

import json
import signal

import numpy as np
import pytest

import saddlery as sd


def test_certified_fit_writes_model_and_page(saddlery, folder, tmp_path):
    model, page = tmp_path / "m.saddle", tmp_path / "page.html"
    done = saddlery("fit", folder / "binary.svm", "--alpha", "0.01", "--output", model, "--report", page)
    assert done.code == 0
    assert "certified to the tolerance" in done.out
    assert str(model) in done.out
    assert "relative gap" in done.err  # the live table
    loaded = sd.load(model)
    assert loaded.certificate_.relative_gap <= 1e-4
    assert loaded.classes_.tolist() == [-1, 1]
    assert "<html" in page.read_text()


def test_json(saddlery, folder):
    done = saddlery(
        "fit", folder / "real.npz", "--penalty", "elasticnet", "--l1-ratio", "0.8", "--alpha", "0.1", "--tol", "1e-8", "--json"
    )
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert told["certified"]
    assert told["status"] == "converged"
    assert told["estimator"] == "LinearRegressor"
    assert told["certificate"]["relative_gap"] <= 1e-8
    assert told["data"] == {"name": "real", "rows": 80, "columns": 6}
    assert told["trace"]["gap"][-1] == told["certificate"]["gap"]


def test_same_answer_as_the_library(saddlery, folder, tmp_path, numbers):
    X, score, _ = numbers
    args = ("--loss", "huber", "--delta", "0.5", "--penalty", "l2", "--alpha", "0.1", "--no-intercept", "--seed", "3", "-q")
    assert saddlery("fit", folder / "house.csv", *args, "-o", tmp_path / "m").code == 0
    model = sd.load(tmp_path / "m")
    own = sd.LinearRegressor(loss=sd.losses.Huber(0.5), penalty="l2", alpha=0.1, fit_intercept=False, random_state=3).fit(X, score)
    np.testing.assert_array_equal(model.coef_, own.coef_)
    assert model.feature_names_in_.tolist() == [f"c{j}" for j in range(6)]


@pytest.mark.parametrize("budget", [("--max-epochs", "0"), ("--max-seconds", "0")])
def test_budget_ends_with_3_and_saves(saddlery, folder, tmp_path, budget):
    done = saddlery("fit", folder / "binary.svm", "--tol", "1e-9", *budget, "-q", "-o", tmp_path / "m.saddle")
    assert done.code == 3
    assert "before the tolerance was certified" in done.out
    assert sd.load(tmp_path / "m.saddle").status_.name == budget[0][2:].replace("-", "_").upper()


def test_several_classes(saddlery, folder, tmp_path):
    done = saddlery("fit", folder / "three.svm", "--task", "classification", "--jobs", "2", "--json", "-o", tmp_path / "m")
    told = json.loads(done.out)
    assert (done.code, told["classes"], len(told["certificates"])) == (0, [0, 1, 2], 3)


@pytest.mark.parametrize(("ratio", "empty"), [("1.001", True), ("0.5", False)])
@pytest.mark.parametrize("file", ["three.svm", "binary.svm"])
def test_alpha_ratio(saddlery, folder, ratio, empty, file):
    done = saddlery("fit", folder / file, "--loss", "logistic", "--alpha-ratio", ratio, "--class-weight", "balanced", "--json")
    assert (json.loads(done.out)["nonzeros"] == 0) is empty


def test_class_weights_by_name(saddlery, folder, tmp_path):
    args = ("fit", folder / "words.csv", "--target", "kind", "--alpha", "0.01", "-q", "-o", tmp_path / "m")
    assert saddlery(*args, "--class-weight", "good=2,bad=0.5").code == 0
    model = sd.load(tmp_path / "m")
    assert model.class_weight == {"good": 2.0, "bad": 0.5}
    assert np.unique(model._row_weights).size == 2


BAD = [
    (("nowhere.svm",), "nowhere.svm: No such file or directory"),
    (("binary.svm", "--loss", "logistik"), "unknown loss 'logistik': did you mean 'logistic'?"),
    (("binary.svm", "--penalty", "l7"), "unknown penalty 'l7'"),
    (("binary.svm", "--solver", "sgd"), "unknown solver 'sgd'"),
    (("binary.svm", "--solver", "dgpd"), "dgpd cannot solve"),
    (("binary.svm", "--alpha", "0"), "alpha must be a positive number"),
    (("binary.svm", "--penalty", "l2", "--alpha-ratio", "0.1"), "--alpha-ratio needs a penalty with an l1 part"),
    (("binary.svm", "--alpha-ratio", "-1"), "--alpha-ratio must be a positive number"),
    (("binary.svm", "--tol", "-1"), "tol must be 0 or more"),
    (("binary.svm", "--gamma", "2"), "--gamma belongs to --loss smooth_hinge, not to logistic"),
    (("binary.svm", "--loss", "smooth_hinge", "--gamma", "-2"), "gamma must be a positive number"),
    (("binary.svm", "--n-features", "2"), "binary.svm:1: index 3 is larger than n_features = 2"),
    (("binary.svm", "--class-weight", "7=1"), "the class '7' is not in the data; the classes are -1, 1"),
    (("binary.svm", "--class-weight", "much"), "'much' is not LABEL=WEIGHT"),
    (("binary.svm", "--class-weight", "1=big"), "the weight 'big' of '1' is not a number"),
    (("binary.svm", "--output", "no/such/m.saddle"), "cannot be written"),
    (("binary.svm", "--report", "."), "is a directory"),
    (("three.svm",), "3 different whole numbers: say --task classification or --task regression"),
    (("words.csv",), "no column named target, y, label"),
    (("words.csv", "--target", "kin"), "did you mean 'kind'?"),
    (("words.csv", "--target", "kind", "--task", "regression"), "regression needs numbers"),
    (("house.csv", "--loss", "logistic"), "label"),
    (("house.csv", "--class-weight", "balanced"), "--class-weight is for classification"),
    (("house.csv", "--format", "svmlight"), "house.csv:1: the label"),
    (("one.svm",), "one class only"),
    (("bad.svm",), "bad.svm:2: the value 'x' of index 1 is not a finite number"),
]


@pytest.mark.parametrize(("args", "reason"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_bad_input_is_one_sentence(saddlery, folder, monkeypatch, args, reason):
    monkeypatch.chdir(folder)
    (folder / "one.svm").write_text("1 1:1\n1 1:2\n")
    (folder / "bad.svm").write_text("1 1:1\n-1 1:x\n")
    done = saddlery("fit", *args, "-q")
    assert (done.code, done.out) == (2, "")
    assert reason in done.sentence()


def test_json_errors_go_to_stderr_too(saddlery, tmp_path):
    done = saddlery("fit", tmp_path / "nothing.svm", "--json")
    assert (done.code, done.out) == (2, "")
    assert "No such file" in done.sentence()


def test_a_failing_save_is_a_sentence(saddlery, folder, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = saddlery("fit", folder / "binary.svm", "-q", "-o", tmp_path / "m")
    assert done.code == 2
    assert "could not write" in done.sentence()


def test_interruption_saves_the_best_point(command, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 100))
    np.savez(tmp_path / "data.npz", X=X, y=np.sign(X[:, 0] + rng.normal(size=300)))
    options = ("--solver", "sdca", "--penalty", "l2", "--alpha", "1e-6", "--no-intercept", "--tol", "0", "--max-epochs", str(10**9))
    with command("fit", tmp_path / "data.npz", *options, "-o", tmp_path / "m.saddle") as process:
        epochs = (line.split()[0] for line in process.stderr if line.split()[:1])
        assert any(epoch.isdigit() and int(epoch) > 0 for epoch in epochs)  # waits until an epoch is shown
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 3
    assert "interrupted; this is the best certified point so far" in out
    model = sd.load(tmp_path / "m.saddle")
    assert model.status_.name == "INTERRUPTED"
    assert 0.0 < model.certificate_.relative_gap < 1.0
