"""The command line with all classes at once: fit, inspect, predict, certify."""

import json

import numpy as np
import pytest

import saddlery as sd


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_from_fit_to_certify(saddlery, folder, tmp_path, loss):
    model = tmp_path / "m.saddle"
    options = ("--multiclass", "joint", "--loss", loss, "--alpha-ratio", "0.1", "--tol", "1e-3")
    done = saddlery("fit", folder / "three.svm", *options, "--output", model, "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["certified"]
    assert len(told["certificates"]) == 1
    assert told["nonzeros"] == np.count_nonzero(sd.load(model).coef_)
    assert "class" in saddlery("inspect", model).out
    assert len(saddlery("predict", model, folder / "three.svm").out.split()) == 80
    again = saddlery("certify", model, folder / "three.svm", "--json")
    assert again.code == 0
    assert json.loads(again.out)["agrees"]
    assert len(json.loads(again.out)["problems"]) == 1


def test_refusals(saddlery, folder):
    told = saddlery("fit", folder / "real.npz", "--task", "regression", "--multiclass", "joint").sentence()
    assert "--multiclass is for classification" in told
    told = saddlery("fit", folder / "three.svm", "--multiclass", "joint", "--loss", "squared_hinge").sentence()
    assert "use multiclass='ovr'" in told
