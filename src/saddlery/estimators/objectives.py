"""What scikit-learn's linear models minimise, from their parameters, in the terms of this library.

A reader takes a fitted model and its data and returns one `Reading` for each output: a weighted mean loss plus a penalty, with a
factor that turns our objective into the model's own. How each is written by scikit-learn:

====================  ===========================================================================================
LogisticRegression    ``C sum_i s_i l_i + r(w)``; liblinear also penalises the intercept, as a feature of constant value
LinearSVC             ``C sum_i s_i l_i + r(w)`` with an intercept like that; its squared hinge has no 1/2
SVC (linear kernel)   ``C sum_i s_i l_i + ||w||^2 / 2``, intercept free
SGD, Perceptron       ``1/n sum_i s_i l_i + alpha r(w)``, where n counts rows whatever their weights
Lasso, ElasticNet     ``1/2 sum_i s_i (y_i - z_i)^2 / sum_i s_i + alpha r(w)``
Ridge                 ``sum_i s_i (y_i - z_i)^2 + alpha ||w||^2``
====================  ===========================================================================================

Class weights multiply sample weights. In one-vs-rest, liblinear and SGD weigh only the positive class by its class weight.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from saddlery.errors import InputError, UnsupportedError
from saddlery.estimators.inputs import as_numbers, class_weights
from saddlery.losses import Hinge, Huber, Logistic, SmoothHinge, Squared, SquaredHinge
from saddlery.penalties import L1, L2, ElasticNet

__all__ = ["Reading", "find_reader"]


class Reading(NamedTuple):
    """One output of a model as a problem of this library, and its point.

    `loss` is None for the perceptron's ``max(0, -m)``. `scaling` is the constant feature of a penalised intercept, 0 for a free
    one, None for no intercept. The model's own objective is `factor` times ours.
    """

    y: np.ndarray
    weights: np.ndarray
    loss: Any
    penalty: Any
    scaling: float | None
    w: np.ndarray
    b: float
    factor: float
    dual: np.ndarray | None = None


Reader = Callable[[Any, np.ndarray, np.ndarray], Iterator[Reading]]


def find_reader(estimator: Any) -> Reader:
    """The reader for a model, or an error that says why there is none."""
    for cls in type(estimator).__mro__:
        package = cls.__module__.split(".")[0]
        if package in ("sklearn", "saddlery") and cls.__name__ in READERS:
            return READERS[cls.__name__]
        if package == "sklearn" and cls.__name__ in REFUSALS:
            raise UnsupportedError(f"{type(estimator).__name__} cannot be audited: {REFUSALS[cls.__name__]}")
    raise UnsupportedError(
        f"{type(estimator).__name__} cannot be audited: its objective is not convex, or not known here; "
        f"models with a known one are {', '.join(READERS)}"
    )


# --------------------------------------------------------------------------- pieces


def _make_penalty(alpha: float, l1_ratio: float) -> Any:
    """``alpha * (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)``."""
    if not 0.0 < alpha < math.inf:
        raise UnsupportedError("a model without penalty cannot be audited: predictions give no feasible point of its dual")
    return L1(alpha) if l1_ratio == 1.0 else (L2(alpha) if l1_ratio == 0.0 else ElasticNet(alpha, l1_ratio))


def _outputs(estimator: Any, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, float, np.ndarray]]:
    """For each output of a classifier: its signs, its weights, its intercept and the codes of the classes."""
    classes, codes = estimator.classes_, _codes(estimator, y)
    coefs = estimator.coef_.toarray() if sp.issparse(estimator.coef_) else np.atleast_2d(estimator.coef_)
    intercepts = np.broadcast_to(np.ravel(estimator.intercept_), len(coefs))
    positives = [1] if len(classes) == 2 else range(len(classes))
    for k, w, b in zip(positives, coefs, intercepts, strict=True):
        yield np.where(codes == k, 1.0, -1.0), w.astype(np.float64), float(b), codes


def _codes(estimator: Any, y: np.ndarray) -> np.ndarray:
    """The classes of rows as numbers."""
    codes = np.searchsorted(estimator.classes_, y)
    if not np.array_equal(estimator.classes_[np.minimum(codes, len(estimator.classes_) - 1)], y):
        raise InputError("y holds labels that the model was not fitted on: give the data of its fit")
    return codes


def _factors(estimator: Any, y: np.ndarray, s: np.ndarray, weighted: bool) -> np.ndarray:
    """Class weights as scikit-learn computes them; some models count sample weights in "balanced", in versions that can."""
    _codes(estimator, y)  # for its refusal of other labels, which is clearer
    able = "sample_weight" in inspect.signature(compute_class_weight).parameters
    options = {"sample_weight": s} if weighted and able else {}
    return compute_class_weight(estimator.class_weight, classes=estimator.classes_, y=y, **options)


def _one_sided(factors: np.ndarray, codes: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Class weights of rows: for two classes each its own, in one-vs-rest only the positive class."""
    if len(factors) == 2:
        return factors[codes]
    return np.where(signs > 0.0, factors[codes], 1.0)


# --------------------------------------------------------------------------- readers


def _logistic_regression(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    if len(estimator.classes_) > 2 or getattr(estimator, "multi_class", None) == "multinomial":
        raise UnsupportedError("the multinomial objective cannot be audited: use OneVsRestClassifier and audit its estimators_")
    chosen = hasattr(estimator, "C_")  # by cross-validation
    C = float(np.ravel(estimator.C_ if chosen else estimator.C)[0])
    penalty, ratio = estimator.penalty, estimator.l1_ratio_ if chosen else estimator.l1_ratio
    if penalty in ("deprecated", "elasticnet"):
        ratio = float(np.ravel(ratio)[0] or 0.0)  # None was l2 in older versions
    elif penalty is None or penalty == "none":
        C = math.inf
    else:
        ratio = {"l1": 1.0, "l2": 0.0}[penalty]
    penalised = estimator.fit_intercept and estimator.solver == "liblinear"
    scaling = float(estimator.intercept_scaling) if penalised else (0.0 if estimator.fit_intercept else None)
    factors = _factors(estimator, y, s, weighted=True)
    for signs, w, b, codes in _outputs(estimator, y):
        weights = s * factors[codes]
        total = weights.sum()
        yield Reading(signs, weights, Logistic(), _make_penalty(1.0 / (C * total), ratio), scaling, w, b, C * total)


def _linear_svc(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    if estimator.multi_class == "crammer_singer" and len(estimator.classes_) > 2:
        raise UnsupportedError("the Crammer-Singer objective cannot be audited: use LinearSVC(multi_class='ovr')")
    scaling = float(estimator.intercept_scaling) if estimator.fit_intercept else None
    loss, double = (Hinge(), 1.0) if estimator.loss == "hinge" else (SquaredHinge(), 2.0)
    factors = _factors(estimator, y, s, weighted=True)
    for signs, w, b, codes in _outputs(estimator, y):
        weights = s * _one_sided(factors, codes, signs)
        total = double * estimator.C * weights.sum()
        penalty = _make_penalty(1.0 / total, 1.0 if estimator.penalty == "l1" else 0.0)
        yield Reading(signs, weights, loss, penalty, scaling, w, b, total)


def _svc(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    if estimator.kernel != "linear" or len(estimator.classes_) > 2:
        raise UnsupportedError("of SVC only the linear kernel with two classes can be audited: use LinearSVC for more classes")
    factors = _factors(estimator, y, s, weighted=False)
    for signs, w, b, codes in _outputs(estimator, y):
        weights = s * factors[codes]
        total = estimator.C * weights.sum()
        dual, counted = None, np.flatnonzero(weights)  # libsvm numbers the rows that have a weight
        if estimator.support_.max() < len(counted):
            dual, support = np.zeros(len(y)), counted[estimator.support_]
            signed = estimator.dual_coef_.toarray() if sp.issparse(estimator.dual_coef_) else estimator.dual_coef_
            dual[support] = -np.ravel(signed) / (estimator.C * weights[support])
        yield Reading(signs, weights, Hinge(), _make_penalty(1.0 / total, 0.0), 0.0, w, b, total, dual)


def _sgd_loss(estimator: Any) -> tuple[Any, float]:
    """The loss, and how many of ours make one of scikit-learn's."""
    known: dict[str, tuple[Any, float]] = {
        "hinge": (Hinge(), 1.0),
        "squared_hinge": (SquaredHinge(), 2.0),
        "perceptron": (None, 1.0),
        "log_loss": (Logistic(), 1.0),
        "modified_huber": (SmoothHinge(2.0), 4.0),
        "squared_error": (Squared(), 1.0),
        "huber": (Huber(float(estimator.epsilon)), 1.0),
    }
    if estimator.loss not in known:
        raise UnsupportedError(f"loss={estimator.loss!r} cannot be audited: of SGD's losses {', '.join(known)} can")
    return known[estimator.loss]


def _sgd_penalty(estimator: Any, total: float, double: float, n: int) -> Any:
    ratio = {"l2": 0.0, "l1": 1.0, "elasticnet": estimator.l1_ratio, None: 0.0, "none": 0.0}[estimator.penalty]
    alpha = estimator.alpha if estimator.penalty not in (None, "none") else 0.0
    return _make_penalty(alpha * n / (double * total), float(ratio))


def _sgd_classifier(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    loss, double = _sgd_loss(estimator)
    factors = _factors(estimator, y, s, weighted=False)
    for signs, w, b, codes in _outputs(estimator, y):
        weights = s * _one_sided(factors, codes, signs)
        total = weights.sum()
        free = loss is None and estimator.penalty in (None, "none")  # the perceptron needs no penalty to have an optimum
        penalty = None if free else _sgd_penalty(estimator, total, double, len(y))
        scaling = 0.0 if estimator.fit_intercept else None
        yield Reading(signs, weights, loss, penalty, scaling, w, b, double * total / len(y))


def _sgd_regressor(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    loss, double = _sgd_loss(estimator)
    penalty = _sgd_penalty(estimator, s.sum(), double, len(y))
    yield _regression(estimator, y, s, loss, penalty, double * s.sum() / len(y))


def _elastic_net(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    alpha = estimator.alpha_ if hasattr(estimator, "alpha_") else estimator.alpha  # the former by cross-validation
    ratio = getattr(estimator, "l1_ratio_", getattr(estimator, "l1_ratio", 1.0))
    yield _regression(estimator, y, s, Squared(), _make_penalty(float(alpha), float(ratio)), 1.0)


def _ridge(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    total = s.sum()
    yield _regression(estimator, y, s, Squared(), _make_penalty(_ridge_alpha(estimator) / total, 0.0), 2.0 * total)


def _ridge_classifier(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    weights = s * compute_sample_weight(estimator.class_weight, y)
    total = weights.sum()
    for signs, w, b, _ in _outputs(estimator, y):
        penalty = _make_penalty(_ridge_alpha(estimator) / total, 0.0)
        yield Reading(signs, weights, Squared(), penalty, 0.0 if estimator.fit_intercept else None, w, b, 2.0 * total)


def _ridge_alpha(estimator: Any) -> float:
    alpha = np.ravel(estimator.alpha_ if hasattr(estimator, "alpha_") else estimator.alpha)
    if alpha.size != 1:
        raise UnsupportedError("a model with one alpha for each target cannot be audited: audit each target by itself")
    return float(alpha[0])


def _regression(estimator: Any, y: np.ndarray, s: np.ndarray, loss: Any, penalty: Any, factor: float) -> Reading:
    if getattr(estimator, "positive", False):
        raise UnsupportedError("positive=True adds a constraint that is not available in this version")
    coef = np.asarray(estimator.coef_, dtype=np.float64)
    if coef.ndim > 1 and coef.shape[0] > 1:
        raise UnsupportedError("a model of several targets cannot be audited as one: audit each target by itself")
    scaling = 0.0 if estimator.fit_intercept else None
    return Reading(as_numbers(y), s, loss, penalty, scaling, coef.ravel(), float(np.ravel(estimator.intercept_)[0]), factor)


def _own_classifier(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    if hasattr(estimator.loss_, "row_value"):
        raise UnsupportedError(
            "a model of all classes at once is not audited: its certificate_ is a proof, and MulticlassProblem(...).certify "
            "or 'saddlery certify' gives it once more"
        )
    scaling = 0.0 if estimator.fit_intercept else None
    duals = estimator.dual_coef_.reshape(-1, len(estimator.coef_)).T
    for number, (signs, w, b, codes) in enumerate(_outputs(estimator, y)):
        weights = class_weights(estimator.class_weight, estimator.classes_, codes, s)
        dual = duals[number] if duals.shape[1] == len(y) else None
        yield Reading(signs, np.asarray(weights), estimator.loss_, estimator.penalty_, scaling, w, b, 1.0, dual)


def _own_regressor(estimator: Any, y: np.ndarray, s: np.ndarray) -> Iterator[Reading]:
    dual = estimator.dual_coef_ if len(estimator.dual_coef_) == len(y) else None
    yield _regression(estimator, y, s, estimator.loss_, estimator.penalty_, 1.0)._replace(dual=dual)


READERS: dict[str, Reader] = {
    "LogisticRegression": _logistic_regression,
    "LogisticRegressionCV": _logistic_regression,
    "LinearSVC": _linear_svc,
    "SVC": _svc,
    "SGDClassifier": _sgd_classifier,
    "Perceptron": _sgd_classifier,
    "SGDRegressor": _sgd_regressor,
    "Lasso": _elastic_net,
    "LassoCV": _elastic_net,
    "LassoLars": _elastic_net,
    "LassoLarsCV": _elastic_net,
    "LassoLarsIC": _elastic_net,
    "ElasticNet": _elastic_net,
    "ElasticNetCV": _elastic_net,
    "Ridge": _ridge,
    "RidgeCV": _ridge,
    "RidgeClassifier": _ridge_classifier,
    "RidgeClassifierCV": _ridge_classifier,
    "LinearClassifier": _own_classifier,
    "LinearClassifierCV": _own_classifier,
    "LinearRegressor": _own_regressor,
    "LinearRegressorCV": _own_regressor,
}
REFUSALS = {
    "Pipeline": "audit its last step on the transformed data, audit(pipeline[-1], pipeline[:-1].transform(X), y)",
    "BaseSearchCV": "audit its best_estimator_",
    "OneVsRestClassifier": "audit each of its estimators_ with y == class",
    "MultiTaskElasticNet": "its penalty ties several targets together, which is not available in this version",
    "LinearSVR": "the epsilon-insensitive loss is not among the losses of this version",
    "LinearRegression": "without a penalty, predictions give no feasible point of its dual",
}
