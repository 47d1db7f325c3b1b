"""Bad input gets one sentence that says what is wrong and what to do."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import saddlery as sd
from saddlery.estimators.inputs import encode_labels

X = np.random.default_rng(0).standard_normal((12, 3))
Y = np.arange(12) % 2
NAN, INFINITE = X.copy(), X.copy()
NAN[4, 1] = np.nan
INFINITE[7, 2] = np.inf


def refusal(call):
    with pytest.raises(ValueError) as error:  # noqa: PT011  (the caller looks at the message)
        call()
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "make", [sd.LinearClassifier, sd.LinearRegressor, sd.LinearClassifierCV, sd.LinearRegressorCV, sd.RandomBinning]
)
def test_data(make):
    fit = make().fit
    assert "NaN at row 4, column 1" in refusal(lambda: fit(NAN, Y))
    assert "infinity at row 7, column 2" in refusal(lambda: fit(INFINITE, Y))
    assert "NaN at row 4, column 1" in refusal(lambda: fit(sp.csr_array(NAN), Y))
    assert "0 sample" in refusal(lambda: fit(X[:0], Y[:0]))
    assert "0 feature" in refusal(lambda: fit(X[:, :0], Y))
    with pytest.raises(ValueError, match="could not convert string to float"):
        fit([["a", "b"]] * 12, Y)


@pytest.mark.parametrize("make", [sd.LinearClassifier, sd.LinearRegressor, sd.LinearClassifierCV, sd.LinearRegressorCV])
def test_targets_and_weights(make):
    fit = make().fit
    assert "y has 11 values, but X has 12 rows" in refusal(lambda: fit(X, Y[:11]))
    assert "NaN or infinity at row 3" in refusal(lambda: fit(X, np.where(np.arange(12) == 3, np.nan, Y)))
    assert "requires y" in refusal(lambda: fit(X, None))
    assert "sample_weight has shape (11,), but X has 12 rows" in refusal(lambda: fit(X, Y, np.ones(11)))
    assert "negative at row 5" in refusal(lambda: fit(X, Y, np.where(np.arange(12) == 5, -1.0, 1.0)))
    assert "all sample weights are zero" in refusal(lambda: fit(X, Y, np.zeros(12)))
    assert "weight contains NaN or infinity at row 2" in refusal(lambda: fit(X, Y, np.where(np.arange(12) == 2, np.nan, 1.0)))
    assert "sample_weight must hold numbers" in refusal(lambda: fit(X, Y, ["a"] * 12))


@pytest.mark.parametrize("make", [sd.LinearClassifier, sd.LinearClassifierCV])
def test_labels(make):
    assert "one class only" in refusal(lambda: make().fit(X, np.ones(12)))
    assert "rows of positive weight hold one class only" in refusal(lambda: make().fit(X, Y, Y.astype(float)))
    assert "continuous" in refusal(lambda: make().fit(X, X[:, 0]))
    assert "no such class" in refusal(lambda: make(class_weight={7: 1.0}).fit(X, Y))
    assert "positive" in refusal(lambda: make(class_weight={1: 0.0}).fit(X, Y))
    assert "'balanced'" in refusal(lambda: make(class_weight="balance").fit(X, Y))
    assert "row 1" in refusal(lambda: make().fit(X, np.array(["a", None, *["b"] * 10], dtype=object)))


@pytest.mark.parametrize("make", [sd.LinearRegressor, sd.LinearRegressorCV])
def test_labels_where_numbers_are_needed(make):
    assert "y must hold numbers" in refusal(lambda: make().fit(X, np.array(["a", "b"])[Y]))
    assert "use LinearClassifier" in refusal(lambda: make(loss="logistic").fit(X, Y))


@pytest.mark.parametrize("make", [sd.LinearClassifier, sd.LinearRegressor])
def test_parameters(make):
    assert "alpha must be a positive number, not 0" in refusal(lambda: make(alpha=0).fit(X, Y))
    assert "alpha must be a positive number" in refusal(lambda: make(alpha=-1.0).fit(X, Y))
    assert "alpha must be a number" in refusal(lambda: make(alpha="1").fit(X, Y))
    assert "l1_ratio must lie between 0 and 1" in refusal(lambda: make(penalty="elasticnet", l1_ratio=2).fit(X, Y))
    assert "did you mean 'elasticnet'?" in refusal(lambda: make(penalty="elastic_net").fit(X, Y))
    assert "unknown penalty None" in refusal(lambda: make(penalty=None).fit(X, Y))
    assert "did you mean 'squared'?" in refusal(lambda: make(loss="square").fit(X, Y))
    assert "loss must be a name or an instance" in refusal(lambda: make(loss=sd.losses.Squared).fit(X, Y))
    assert "did you mean 'prox_newton'?" in refusal(lambda: make(solver="proxnewton").fit(X, Y))
    assert re.search("sdca cannot solve .* with l1: it needs .*; these can: ", refusal(lambda: make(solver="sdca").fit(X, Y)))
    assert "tol must be 0 or more" in refusal(lambda: make(tol=-1).fit(X, Y))
    assert "max_epochs must be a whole number" in refusal(lambda: make(max_epochs=1.5).fit(X, Y))
    assert "must be 0 or more" in refusal(lambda: make(max_seconds=-1).fit(X, Y))


def test_schemes_of_classes():
    with pytest.raises(sd.UnsupportedError, match="to GridSearchCV"):
        sd.LinearClassifierCV(multiclass="joint").fit(X, Y)
    assert "did you mean 'ovr'?" in refusal(lambda: sd.LinearClassifier(multiclass="over").fit(X, Y))


def test_prediction():
    model = sd.LinearClassifier()
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, Y)
    assert "X has 2 features, but LinearClassifier is expecting 3" in refusal(lambda: model.predict(X[:, :2]))
    assert "NaN at row 4, column 1" in refusal(lambda: model.predict(NAN))


def test_search():
    assert "alphas must be positive" in refusal(lambda: sd.LinearRegressorCV(alphas=[1.0, -1.0]).fit(X, Y))
    assert "n_alphas must be a whole number" in refusal(lambda: sd.LinearRegressorCV(n_alphas=2.5).fit(X, Y))
    assert "alpha_min_ratio must lie between" in refusal(lambda: sd.LinearRegressorCV(alpha_min_ratio=2).fit(X, Y))
    assert "need penalty='elasticnet'" in refusal(lambda: sd.LinearRegressorCV(l1_ratio=[0.1, 0.5]).fit(X, Y))
    split = [(np.arange(6) * 2, np.arange(6) * 2 + 1)]
    assert "no rows of class" in refusal(lambda: sd.LinearClassifierCV(cv=split).fit(X, Y))


def test_random_binning():
    assert "scale must be a positive number" in refusal(lambda: sd.RandomBinning(scale=0).fit(X))
    assert "n_grids must be a whole number" in refusal(lambda: sd.RandomBinning(n_grids="10").fit(X))
    assert "1 or more" in refusal(lambda: sd.RandomBinning(n_columns=0).fit(X))


@pytest.mark.parametrize(
    "y", [[2.0, -1.0, 2.0], [3, 1, 2, 1], ["b", "a", "b"], [True, False, True], np.array(["x", "yy", "x"], dtype=object)], ids=str
)
def test_labels_are_numbered_as_numpy_does(y):
    y = np.asarray(y)
    classes, codes = encode_labels(y)
    expected, inverse = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, inverse)
    assert codes.dtype == np.intp
