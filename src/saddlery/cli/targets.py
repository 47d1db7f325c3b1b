"""From the targets of a file to those of the problems: one for numbers or two classes, else one for each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.errors import InputError

__all__ = ["class_codes", "one_against_rest", "problems_of", "signed_targets"]


def signed_targets(y: np.ndarray, classes: np.ndarray) -> list[np.ndarray]:
    """-1 and +1 for each of the problems that a classifier with these classes solves.

    Examples
    --------
    >>> signed_targets(np.array(["no", "yes"]), np.array(["no", "yes"]))
    [array([-1.,  1.])]
    """
    _refuse_others(y, classes)
    return [np.where(y == label, 1.0, -1.0) for label in (classes[1:] if classes.size == 2 else classes)]


def one_against_rest(y: np.ndarray, positive: str) -> np.ndarray:
    """+1 for the label that was given as text, -1 for all others.

    Examples
    --------
    >>> one_against_rest(np.array([3, 5, 3]), "3")
    array([ 1, -1,  1])
    """
    names = y.astype(str)
    if positive not in names:
        raise InputError(f"--positive: no row has the label {positive!r}; the labels are {', '.join(np.unique(names)[:20])}")
    return np.where(names == positive, 1, -1)


def class_codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The classes of rows as numbers from 0.

    Examples
    --------
    >>> class_codes(np.array(["b", "a"]), np.array(["a", "b", "c"]))
    array([1, 0])
    """
    _refuse_others(y, classes)
    return np.searchsorted(classes, y)


def _refuse_others(y: np.ndarray, classes: np.ndarray) -> None:
    strange = ~np.isin(y, classes)
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        raise InputError(
            f"row {row + 1} has the label {y[row]!s}, which the model does not know: its classes are {_listed(classes)}"
        )


def problems_of(model: Any, X: Any, y: np.ndarray) -> list[Any]:
    """The problems that the model would solve on these data."""
    from saddlery.estimators.inputs import class_weights, encode_labels
    from saddlery.estimators.parameters import make_loss, make_penalty, make_row_loss
    from saddlery.matrix import as_matrix
    from saddlery.problems.linear import LinearProblem
    from saddlery.problems.multiclass import MulticlassProblem

    matrix, penalty = as_matrix(X), make_penalty(model.penalty, model.alpha, model.l1_ratio, model.radius)
    if not hasattr(model, "class_weight"):
        return [LinearProblem(matrix, y, make_loss(model.loss, "regression"), penalty, None, model.fit_intercept)]
    classes, codes = encode_labels(y)
    if classes.size < 2:
        raise InputError(f"the data hold one class only ({classes[0]!s}): give rows of at least two classes")
    weights = class_weights(model.class_weight, classes, codes, None)
    if model.multiclass == "joint":
        return [MulticlassProblem(matrix, codes, make_row_loss(model.loss), penalty, weights, model.fit_intercept)]
    loss = make_loss(model.loss, "classification")
    return [LinearProblem(matrix, signs, loss, penalty, weights, model.fit_intercept) for signs in signed_targets(y, classes)]


def _listed(classes: np.ndarray) -> str:
    names = [str(label) for label in classes[:20]]
    return ", ".join(names) + (f" and {classes.size - 20} more" if classes.size > 20 else "")
