"""``predict``, ``certify`` and ``inspect``: what can be done with a model file."""

import json
import subprocess
import sys

import numpy as np
import pytest

import saddlery as sd


@pytest.fixture(scope="module")
def models(folder, tmp_path_factory):
    """One model for each data file, fitted by the command line."""
    from saddlery.cli.main import main

    place = tmp_path_factory.mktemp("models")
    fits = {
        "binary": ("binary.svm", "--alpha", "0.01"),
        "three": ("three.svm", "--task", "classification", "--loss", "squared_hinge", "--penalty", "elasticnet"),
        "words": ("words.csv", "--target", "kind", "--class-weight", "balanced", "--alpha", "0.01"),
        "house": ("house.csv", "--loss", "huber", "--alpha", "0.01"),
        "early": ("real.npz", "--alpha", "1e-3", "--tol", "1e-12", "--max-epochs", "0", "--solver", "prox_newton"),
    }
    for name, (file, *args) in fits.items():
        assert main(["fit", str(folder / file), *args, "-q", "-o", str(place / name)]) == (3 if name == "early" else 0)
    return place


# --------------------------------------------------------------------------- predict


@pytest.mark.parametrize(
    ("name", "file"), [("binary", "binary.svm"), ("three", "three.svm"), ("words", "words.csv"), ("house", "house.csv")]
)
def test_predictions_are_those_of_the_library(saddlery, models, folder, numbers, name, file):
    done = saddlery("predict", models / name, folder / file)
    assert (done.code, done.err) == (0, "")
    model = sd.load(models / name)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    expected = model.predict(numbers[0])
    if name == "house":  # products of the same numbers in other memory may differ in the last digit
        np.testing.assert_allclose(np.array(done.out.split(), dtype=float), expected, rtol=1e-12, atol=1e-14)
    else:
        assert done.out.split() == [str(value) for value in expected.tolist()]


def test_probabilities(saddlery, models, folder, numbers, tmp_path):
    done = saddlery("predict", models / "binary", folder / "binary.svm", "--proba", "--output", tmp_path / "p.csv")
    assert (done.code, done.out) == (0, "")
    head, *rows = (tmp_path / "p.csv").read_text().splitlines()
    assert head == "-1,1"
    found = np.array([row.split(",") for row in rows], dtype=float)
    np.testing.assert_allclose(found, sd.load(models / "binary").predict_proba(numbers[0]), rtol=1e-12)


def test_tables_without_targets_and_with_other_columns(saddlery, models, folder, tmp_path):
    rows = [line.split(",") for line in (folder / "words.csv").read_text().split()]
    keep = [*range(5, -1, -1)]  # other order, no target, one column more
    (tmp_path / "new.csv").write_text(
        "\n".join(",".join([*(row[j] for j in keep), "extra" if not i else "1"]) for i, row in enumerate(rows))
    )
    assert (
        saddlery("predict", models / "words", tmp_path / "new.csv").out
        == saddlery("predict", models / "words", folder / "words.csv").out
    )


def test_few_columns_in_svmlight_are_filled_up(saddlery, models, tmp_path):
    (tmp_path / "few.svm").write_text("0 1:2\n0 1:-2\n")
    assert saddlery("predict", models / "binary", tmp_path / "few.svm").out == "1\n-1\n"


@pytest.mark.parametrize(
    ("name", "text", "file", "reason"),
    [
        ("binary", "0 9:1\n", "a.svm", "a.svm:1: index 9 is larger than n_features = 6"),
        ("words", "c0,c1\n1,2\n", "a.csv", "the data have no column 'c2' and 3 more, which the model was trained on"),
        ("binary", "c0,c1\n1,2\n", "a.csv", "the data have 2 columns, but the model was trained on 6"),
        ("early", "c0,c1\n1,2\n", "a.csv", "the data have 2 columns, but the model was trained on 6"),
    ],
)
def test_other_features_are_refused(saddlery, models, tmp_path, name, text, file, reason):
    (tmp_path / file).write_text(text)
    done = saddlery("predict", models / name, tmp_path / file)
    assert done.code == 2
    assert reason in done.sentence()


def test_no_probabilities_without_logistic_loss(saddlery, models, folder):
    for name, file in (("three", "three.svm"), ("house", "house.csv")):
        done = saddlery("predict", models / name, folder / file, "--proba")
        assert done.code == 2
        assert "logistic" in done.sentence()


# --------------------------------------------------------------------------- certify


@pytest.mark.parametrize(
    ("name", "file", "code"),
    [
        ("binary", "binary.svm", 0),
        ("three", "three.svm", 0),
        ("words", "words.csv", 0),
        ("house", "house.csv", 0),
        ("early", "real.npz", 3),
    ],
)
def test_certificates_agree(saddlery, models, folder, name, file, code):
    done = saddlery("certify", models / name, folder / file)
    assert (done.code, done.err) == (code, "")
    assert "NO" not in done.out.replace("NOT certified", "")
    told = json.loads(saddlery("certify", models / name, folder / file, "--json").out)
    assert told["agrees"]
    assert told["certified"] == (code == 0)
    for problem in told["problems"]:
        assert problem["recomputed"]["repair"] <= 1e-9
        for field in ("primal", "dual", "scale"):
            assert problem["recomputed"][field] == pytest.approx(problem["stored"][field], rel=1e-10, abs=1e-12)


def test_rows_of_weight_zero_may_have_any_label(saddlery, folder, numbers, tmp_path):
    X, score, three = numbers
    labels = np.where(score > 0, 1, -1)
    model = sd.LinearClassifier(alpha=0.01).fit(X, np.where(three == 1, 0, labels), np.where(three == 1, 0.0, 2.0 + X[:, 0] ** 2))
    sd.save(model, tmp_path / "m")
    assert model.classes_.tolist() == [-1, 1]
    np.savez(tmp_path / "d.npz", X=X, y=np.where(three == 1, 0, labels))
    assert saddlery("certify", tmp_path / "m", tmp_path / "d.npz").code == 0


def test_other_data_do_not_agree(saddlery, models, folder, tmp_path):
    text = (folder / "house.csv").read_text().splitlines()
    text[7] = text[7].replace(text[7].split(",")[0], "0.125", 1)  # one cell
    (tmp_path / "other.csv").write_text("\n".join(text))
    done = saddlery("certify", models / "house", tmp_path / "other.csv")
    assert done.code == 2
    assert "NO" in done.out
    assert "does not agree" in done.sentence()


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("binary", lambda text: text + "1 1:1\n", "the data have 81 rows, but the model was fitted on 80"),
        (
            "binary",
            lambda text: "7" + text[text.index(" ") :],
            "row 1 has the label 7, which the model does not know: its classes are -1, 1",
        ),
    ],
)
def test_data_that_cannot_be_those_of_the_fit(saddlery, models, folder, tmp_path, name, change, reason):
    (tmp_path / "d.svm").write_text(change((folder / f"{name}.svm").read_text()))
    done = saddlery("certify", models / name, tmp_path / "d.svm")
    assert done.code == 2
    assert reason in done.sentence()


def test_certify_needs_no_solver_and_no_compiler(models, folder):
    code = (
        "import sys\nfrom saddlery.cli.main import main\nassert main(sys.argv[1:]) == 0\n"
        "wrong = ('saddlery.losses', 'saddlery.penalties', 'saddlery.problems', 'saddlery.solvers', 'saddlery.matrix')\n"
        "assert not [m for m in sys.modules if m in ('numba', 'sklearn') or m.startswith(wrong)]"
    )
    for name, file in (("words", "words.csv"), ("three", "three.svm")):
        args = ["certify", models / name, folder / file, "--json"]
        subprocess.run([sys.executable, "-c", code, *map(str, args)], check=True, capture_output=True)


def test_text_targets_for_a_regression(saddlery, models, folder):
    done = saddlery("certify", models / "house", folder / "words.csv", "--target", "kind")
    assert done.code == 2
    assert "the model is a regression" in done.sentence()


# --------------------------------------------------------------------------- inspect


def test_inspect(saddlery, models):
    done = saddlery("inspect", models / "words", "--top", "2")
    assert done.code == 0
    for text in (
        "LinearClassifier",
        "logistic, l1 (alpha = 0.01), intercept",
        "bad, good",
        "80 rows, 6 columns",
        "stored",
        "c0",
        "kind",
    ):
        assert text in done.out
    told = json.loads(saddlery("inspect", models / "three", "--json").out)
    assert told["estimator"] == "LinearClassifier"
    assert told["arrays"]["coef_"] == {"shape": [3, 6], "dtype": "float64"}
    assert {"feature", "class", "coefficient"} == set(told["largest"][0])


@pytest.mark.parametrize("command", ["inspect", "predict", "certify"])
def test_bad_model_files(saddlery, folder, tmp_path, models, command):
    data = [] if command == "inspect" else [folder / "binary.svm"]
    damaged = tmp_path / "m"
    damaged.write_bytes((models / "binary").read_bytes()[:-3])
    for path, reason in (
        (damaged, "damaged or cut short"),
        (tmp_path / "no", "no such model file"),
        (folder / "binary.svm", "is no saddlery model"),
    ):
        done = saddlery(command, path, *data)
        assert (done.code, done.out) == (2, "")
        assert reason in done.sentence()
