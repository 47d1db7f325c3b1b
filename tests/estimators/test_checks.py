"""scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import saddlery as sd

ESTIMATORS = [
    sd.LinearClassifier(),
    sd.LinearRegressor(),
    sd.LinearClassifierCV(),
    sd.LinearRegressorCV(),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
