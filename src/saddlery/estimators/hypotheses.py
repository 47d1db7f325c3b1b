"""Hypotheses of boosting: features as they are, decision stumps, or classifiers that are fitted already.

All give a matrix of outputs, kept as numbers that may be mostly 0, with scales and offsets that turn these into outputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from saddlery.errors import InputError
from saddlery.matrix import Matrix, as_matrix

__all__ = ["Features", "Fitted", "Outputs", "Stumps", "make_hypotheses"]


class Outputs(NamedTuple):
    """The outputs ``matrix * scales + offsets`` of hypotheses for rows; None stands for 1 and 0."""

    matrix: Matrix
    scales: np.ndarray | None = None
    offsets: np.ndarray | None = None

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """The combination of all hypotheses for each row."""
        out = self.matrix.matvec(weights if self.scales is None else weights * self.scales)
        return out if self.offsets is None else out + float(weights @ self.offsets)


class Features:
    """Each column is a hypothesis."""

    def __init__(self, count: int):
        self.count = count

    def outputs(self, matrix: Matrix) -> Outputs:
        """The columns themselves."""
        return Outputs(matrix)


class Stumps:
    """Hypotheses that are 1 where a feature exceeds a threshold, else -1.

    Parameters
    ----------
    features : array of int
        The feature of each stump.
    thresholds : array
        Its threshold.
    """

    def __init__(self, features: np.ndarray, thresholds: np.ndarray):
        self.features, self.thresholds = features, thresholds
        self.count = features.size

    @classmethod
    def of(cls, matrix: Matrix, most: int | None) -> Stumps:
        """Stumps between the values that occur in each column, at most `most` of them, evenly over the distinct values."""
        features, thresholds = [], []
        for j in range(matrix.shape[1]):
            values = _distinct(matrix, j)
            if values.size < 2:
                continue
            gaps = np.arange(values.size - 1)
            if most is not None and gaps.size > most:
                gaps = np.unique(np.linspace(0, gaps.size - 1, most + 2)[1:-1].round().astype(int))
            middle = values[gaps] + 0.5 * (values[gaps + 1] - values[gaps])
            # where no number lies between two neighbours the lower one serves, as the test is "greater than"
            thresholds.append(np.where(middle < values[gaps + 1], middle, values[gaps]))
            features.append(np.full(gaps.size, j))
        if not features:
            raise InputError("all features are constant, so there are no stumps: give features that vary")
        return cls(np.concatenate(features), np.concatenate(thresholds))

    def outputs(self, matrix: Matrix) -> Outputs:
        """Indicators of what a zero is not, so that sparse data stay sparse; scales and signs turn them into -1 and 1."""
        above = self.thresholds >= 0.0  # a zero is below such a threshold
        scales = np.where(above, 2.0, -2.0)
        if not matrix.is_sparse:
            chosen = matrix.values[:, self.features] > self.thresholds
            return Outputs(as_matrix(np.where(above, chosen, ~chosen).astype(np.float32)), scales, -0.5 * scales)
        columns = []
        for feature, threshold, is_above in zip(self.features, self.thresholds, above, strict=True):
            column = matrix.csc[:, [feature]]
            hit = column.data > threshold if is_above else column.data <= threshold
            columns.append((column.indices[hit], int(hit.sum())))
        starts = np.concatenate([[0], np.cumsum([count for _, count in columns])])
        rows = np.concatenate([where for where, _ in columns])
        shape = (matrix.shape[0], self.count)
        indicator = sp.csc_matrix((np.ones(rows.size, dtype=np.float32), rows, starts), shape=shape)
        return Outputs(as_matrix(indicator), scales, -0.5 * scales)


class Fitted:
    """Classifiers that are fitted already, for the same two classes."""

    def __init__(self, models: list[Any], classes: np.ndarray):
        self.models, self.classes, self.count = models, classes, len(models)
        for at, model in enumerate(models):
            if not hasattr(model, "predict"):
                raise InputError(f"hypothesis {at} is {model!r}: give fitted classifiers")
            try:
                check_is_fitted(model)
            except NotFittedError as error:
                raise InputError(
                    f"hypothesis {at}, {model!r}, is not fitted: fit it first, and wrap it in sklearn.frozen.FrozenEstimator where "
                    "this estimator is to be cloned"
                ) from error

    def outputs(self, matrix: Matrix) -> Outputs:
        """1 where a classifier predicts the second class, -1 where the first."""
        columns = np.empty((matrix.shape[0], self.count), order="F")
        for at, model in enumerate(self.models):
            labels = np.asarray(model.predict(matrix.values))
            second = labels == self.classes[1]
            if not (second | (labels == self.classes[0])).all():
                raise InputError(f"hypothesis {at} predicts labels that are not among the classes {self.classes.tolist()}")
            columns[:, at] = np.where(second, 1.0, -1.0)
        return Outputs(as_matrix(columns))


def make_hypotheses(given: Any, matrix: Matrix, classes: np.ndarray, max_thresholds: int | None) -> Any:
    """The hypotheses that a parameter of an estimator names."""
    if isinstance(given, str):
        if given == "features":
            return Features(matrix.shape[1])
        if given == "stumps":
            return Stumps.of(matrix, max_thresholds)
    elif isinstance(given, list | tuple) and len(given):
        return Fitted(list(given), classes)
    raise InputError(f"hypotheses must be 'features', 'stumps' or a list of fitted classifiers, not {given!r}")


def _distinct(matrix: Matrix, j: int) -> np.ndarray:
    """The values of a column, each once, in rising order."""
    if not matrix.is_sparse:
        return np.unique(matrix.values[:, j])
    values = matrix.csc.data[matrix.csc.indptr[j] : matrix.csc.indptr[j + 1]]
    return np.unique(np.append(values, 0.0) if values.size < matrix.shape[0] else values)
