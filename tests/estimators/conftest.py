"""Small data sets, loaded once."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import scale


@pytest.fixture(scope="session")
def two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="session")
def three_classes():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="session")
def numbers():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y


@pytest.fixture
def weights():
    return lambda n: np.random.default_rng(0).integers(0, 4, n).astype(float)
