"""`audit`: how far from optimal a fitted linear model provably is at most, whoever fitted it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from saddlery.certificate import Certificate
from saddlery.estimators.inputs import check_matrix, check_rows, check_targets
from saddlery.estimators.objectives import Reading, find_reader
from saddlery.matrix import Matrix, as_matrix
from saddlery.problems.linear import LinearProblem
from saddlery.registry import LOSSES, PENALTIES
from saddlery.solvers.loop import solve

__all__ = ["Audit", "audit"]

FEW, MANY = 5, 1000  # epochs


@dataclass(frozen=True)
class Audit(Certificate):
    """A certificate for a model that someone else may have fitted.

    Values are in the unit of this library's objective, the weighted mean loss plus a penalty; times `factor` they are in that of
    the model's own objective.

    Attributes
    ----------
    primal, dual, gap, relative_gap, scale : float
        As in :class:`Certificate`; of several classes those of the least certified one.
    objective : str
        What the parameters of the model say that it minimises, in words.
    factor : float
        The model's own objective is this many times ours: ``C * n`` for `LogisticRegression`, for example.
    per_class : tuple of Certificate
        One for each class against the rest; a single one for two classes and for regression.
    """

    objective: str = ""
    factor: float = 1.0
    per_class: tuple[Certificate, ...] = ()

    def __str__(self) -> str:
        return f"{self.objective}: {super().__str__()}"


def audit(estimator: Any, X: Any, y: Any, sample_weight: Any = None, tighten: bool | None = None) -> Audit:
    """Certify a fitted linear model: derive its objective from its parameters and bound how far it is from the optimum.

    The objective is that of the data given here: give those of the fit. The dual point comes from the model's predictions and,
    where it keeps them, its own dual coefficients; predictions of a rough model make a loose bound, so a few rounds of a solver
    that starts there improve the dual point. The primal point is the model's, untouched.

    Parameters
    ----------
    estimator : fitted estimator
        scikit-learn's `LogisticRegression` (two classes), `LinearSVC`, `SVC` (linear, two classes), `SGDClassifier`,
        `SGDRegressor`, `Perceptron`, `Lasso`, `LassoLars`, `ElasticNet`, `Ridge`, `RidgeClassifier`, most of their cross-validated
        forms, or an estimator of this library.
    X : array-like or sparse matrix of shape (n_rows, n_features)
        The data it was fitted on.
    y : array-like of shape (n_rows,)
        Labels or targets.
    sample_weight : array-like of shape (n_rows,), optional
        The weights it was fitted with.
    tighten : bool, optional
        True goes on until the bound is tight, which costs about as much as a fit: the gap is then the model's true distance from
        the optimum, to 1e-6 of the scale. False takes the predictions alone. By default five rounds, but as many as needed for the
        hinge, where predictions do not determine a dual point.

    Returns
    -------
    Audit
        A `Certificate` with the objective in words: ``primal - optimum <= gap``.

    Notes
    -----
    The perceptron's loss ``max(0, -m)`` is convex, but all zeros is optimal with the value 0: its certificate says so, with the
    objective itself as gap and a scale of 0, for which `relative_gap` is the gap.

    Examples
    --------
    >>> import saddlery as sd
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> certificate = sd.audit(LogisticRegression(max_iter=1000).fit(X, y), X, y)
    >>> certificate.objective
    'mean logistic loss + 0.00175747 / 2 * ||w||^2, intercept free'
    >>> certificate.relative_gap < 1e-4
    True
    """
    reader = find_reader(estimator)
    check_is_fitted(estimator)
    matrix = check_matrix(estimator, X, reset=False)
    n = matrix.shape[0]
    y = check_targets(estimator, y, n)
    rows = check_rows(sample_weight, n)
    s = np.ones(n) if rows.weights is None else rows.spread(rows.weights)
    widened: dict[float, Matrix] = {}
    readings, certificates = list(reader(estimator, y, s)), []
    for reading in readings:
        if reading.loss is None:
            certificates.append(_certify_perceptron(reading, matrix))
            continue
        if reading.scaling and reading.scaling not in widened:
            widened[reading.scaling] = _with_constant(matrix, reading.scaling)
        certificates.append(_certify(reading, widened[reading.scaling] if reading.scaling else matrix, tighten))
    worst = max(range(len(certificates)), key=lambda k: certificates[k].relative_gap)
    words, factor = _describe(readings[worst]), float(readings[worst].factor)
    return Audit(**vars(certificates[worst]), objective=words, factor=factor, per_class=tuple(certificates))


def _certify(reading: Reading, matrix: Matrix, tighten: bool | None) -> Certificate:
    """The best certificate of the dual points at hand. A penalised intercept is the weight of the last, constant column."""
    free = reading.scaling == 0.0
    w, b = (np.append(reading.w, reading.b / reading.scaling), 0.0) if reading.scaling else (reading.w, reading.b if free else 0.0)
    problem = LinearProblem(matrix, reading.y, reading.loss, reading.penalty, reading.weights, fit_intercept=free)
    duals: list[np.ndarray | None] = [None] if reading.dual is None else [None, reading.dual]
    if tighten is not False:
        rounds = MANY if tighten or np.isinf(problem.loss.smoothness) else FEW
        duals.append(solve(problem, tol=1e-6, max_epochs=rounds, start=(w, b, duals[-1])).dual)
    return min((problem.certify(w, dual, b) for dual in duals), key=lambda certificate: certificate.gap)


def _certify_perceptron(reading: Reading, matrix: Matrix) -> Certificate:
    """The optimum is 0, at all zeros: no dual point could say more."""
    margins = reading.y * (matrix.matvec(reading.w) + reading.b)
    value = float(reading.weights @ np.maximum(0.0, -margins)) / float(reading.weights.sum())
    value += reading.penalty.value(reading.w) if reading.penalty is not None else 0.0
    return Certificate(value, 0.0, value, value, 0.0)


def _with_constant(matrix: Matrix, value: float) -> Matrix:
    """The data with a last column of one value."""
    column = np.full((matrix.shape[0], 1), value, dtype=matrix.values.dtype)
    if matrix.is_sparse:
        return as_matrix(sp.hstack([matrix.values, sp.csr_array(column)], format=matrix.values.format))
    return as_matrix(np.hstack([matrix.values, column]))


def _describe(reading: Reading) -> str:
    """The objective in words."""
    loss = "perceptron" if reading.loss is None else LOSSES.name_of(reading.loss)
    fields = {} if reading.loss is None else reading.loss._asdict()
    options = "".join(f" ({name} {value:g})" for name, value in fields.items())
    intercept = {None: "no intercept", 0.0: "intercept free"}.get(reading.scaling, "intercept penalised")
    return f"mean {loss.replace('_', ' ')} loss{options}{_penalty_text(reading.penalty)}, {intercept}"


def _penalty_text(penalty: Any) -> str:
    if penalty is None:
        return ""
    l1, l2 = penalty.threshold, penalty.strong_convexity
    if PENALTIES.name_of(penalty) not in PENALTIES.builtin:
        return f" + {penalty!r}"
    return (f" + {l1:.6g} * ||w||_1" if l1 > 0.0 else "") + (f" + {l2:.6g} / 2 * ||w||^2" if l2 > 0.0 else "")
