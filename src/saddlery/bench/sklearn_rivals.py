"""Adapters for scikit-learn: liblinear, saga, lbfgs, newton-cg, newton-cholesky, SGD, coordinate descent, ridge, LinearSVC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from saddlery.bench.objectives import Objective
from saddlery.bench.rivals import Rival, columns_first, rounds, tolerances

__all__ = ["RIVALS"]

LOGISTIC = frozenset({("logistic", "l1"), ("logistic", "l2"), ("logistic", "elasticnet")})
SQUARED = frozenset({("squared", "l1"), ("squared", "elasticnet")})
RIDGE = ("squared", "l2")
PENALTIES = ("l1", "l2", "elasticnet")


def cost(objective: Objective, n: int) -> float:
    """LIBLINEAR's C: its objective is C * sum(losses) + penalty, and its squared hinge has no factor 1/2."""
    return (0.5 if objective.loss == "squared_hinge" else 1.0) / (objective.alpha * n)


class _Logistic(Rival):
    """LogisticRegression with one of its solvers."""

    package = "scikit-learn"
    modules = ("sklearn.linear_model",)
    solver: ClassVar[str]
    dual: ClassVar[bool] = False
    warm = True
    iterations = 100_000

    def fit(self, data: Any, objective: Objective, setting: Any, start: np.ndarray | None = None) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        (X, y), steps = data, isinstance(setting, int)
        model = LogisticRegression(
            C=cost(objective, X.shape[0]),
            l1_ratio=objective.l1_ratio,
            solver=self.solver,
            dual=self.dual,
            fit_intercept=False,
            tol=1e-14 if steps else setting,
            max_iter=setting if steps else self.iterations,
            random_state=0,
            warm_start=start is not None,
        )
        if start is not None:
            model.coef_, model.intercept_ = start[None, :], np.zeros(1)
        return model.fit(X, y).coef_[0]


class Liblinear(_Logistic):
    """LIBLINEAR as scikit-learn wraps it; it cannot start from given weights."""

    name = "sklearn-liblinear"
    kinds = frozenset({("logistic", "l1"), ("logistic", "l2")})
    solver = "liblinear"
    warm = False
    threaded = True


class LiblinearDual(Liblinear):
    """Its dual coordinate descent for l2."""

    name = "sklearn-liblinear-dual"
    kinds = frozenset({("logistic", "l2")})
    dual = True


class Saga(_Logistic):
    """SAGA, by numbers of epochs: its tolerance is on the change of weights."""

    name = "sklearn-saga"
    kinds = LOGISTIC
    solver = "saga"
    threaded = True

    def ladder(self, objective: Objective) -> Sequence[int]:
        return rounds(3, 20_000)


class Lbfgs(_Logistic):
    """Limited-memory BFGS."""

    name = "sklearn-lbfgs"
    kinds = frozenset({("logistic", "l2")})
    solver = "lbfgs"

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-1, 1e-9)


class NewtonCg(Lbfgs):
    """Newton with conjugate gradients."""

    name = "sklearn-newton-cg"
    solver = "newton-cg"


class NewtonCholesky(Lbfgs):
    """Newton with a dense Hessian."""

    name = "sklearn-newton-cholesky"
    solver = "newton-cholesky"
    max_columns = 3_000


class Sgd(Rival):
    """SGDClassifier and SGDRegressor with their default step sizes, by numbers of epochs."""

    name = "sklearn-sgd"
    package = "scikit-learn"
    modules = ("sklearn.linear_model",)
    kinds = frozenset((loss, penalty) for loss in ("logistic", "squared", "hinge", "squared_hinge") for penalty in PENALTIES)
    warm = True
    losses: ClassVar = {"logistic": "log_loss", "squared": "squared_error"}

    def ladder(self, objective: Objective) -> Sequence[int]:
        return rounds(2, 3_000, 2.0)

    def fit(self, data: Any, objective: Objective, setting: int, start: np.ndarray | None = None) -> np.ndarray:
        from sklearn.linear_model import SGDClassifier, SGDRegressor

        X, y = data
        model = (SGDRegressor if objective.loss == "squared" else SGDClassifier)(
            loss=self.losses.get(objective.loss, objective.loss),
            penalty=objective.penalty,
            alpha=objective.alpha * (2.0 if objective.loss == "squared_hinge" else 1.0),
            l1_ratio=objective.l1_ratio,
            fit_intercept=False,
            max_iter=setting,
            tol=None,
            random_state=0,
        )
        return model.fit(X, y, coef_init=start).coef_.ravel()


class CoordinateDescent(Rival):
    """Lasso and ElasticNet: cyclic coordinate descent with gap-safe screening."""

    name = "sklearn-cd"
    package = "scikit-learn"
    modules = ("sklearn.linear_model",)
    kinds = SQUARED
    threaded = True
    gram: ClassVar[bool] = False

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-1, 1e-11)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return columns_first(X), y

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from sklearn.linear_model import ElasticNet

        model = ElasticNet(
            alpha=objective.alpha,
            l1_ratio=objective.l1_ratio,
            fit_intercept=False,
            precompute=self.gram,
            copy_X=False,
            tol=setting,
            max_iter=1_000_000,
        )
        return model.fit(*data).coef_

    def path(self, data: Any, objective: Objective, alphas: np.ndarray, setting: float) -> np.ndarray:
        from sklearn.linear_model import enet_path

        _, weights, _ = enet_path(
            *data, l1_ratio=objective.l1_ratio, alphas=alphas, precompute=self.gram, copy_X=False, tol=setting, max_iter=1_000_000
        )
        return weights.T


class GramDescent(CoordinateDescent):
    """The same on the Gram matrix, which is computed within the timing."""

    name = "sklearn-cd-gram"
    max_columns = 3_000
    gram = True

    def can(self, objective: Objective, X: Any) -> bool:
        return super().can(objective, X) and X.shape[0] >= X.shape[1]


class Ridge(Rival):
    """Ridge by a dense system of the smaller side, which has no setting."""

    name = "sklearn-ridge-cholesky"
    package = "scikit-learn"
    modules = ("sklearn.linear_model",)
    kinds = frozenset({RIDGE})
    threaded = True
    solver: ClassVar[str] = "cholesky"

    def can(self, objective: Objective, X: Any) -> bool:
        return super().can(objective, X) and min(X.shape) <= 3_000

    def ladder(self, objective: Objective) -> Sequence[float]:
        return [1e-4]

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from sklearn.linear_model import Ridge as Model

        X, y = data  # its objective is the sum of squares + alpha ||w||^2
        model = Model(alpha=objective.alpha * len(y), fit_intercept=False, solver=self.solver, tol=setting, max_iter=100_000)
        return model.fit(X, y).coef_


class RidgeLsqr(Ridge):
    """Ridge by LSQR."""

    name = "sklearn-ridge-lsqr"
    solver = "lsqr"

    def can(self, objective: Objective, X: Any) -> bool:
        return Rival.can(self, objective, X)

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-1, 1e-12)


class RidgeCg(RidgeLsqr):
    """Ridge by conjugate gradients."""

    name = "sklearn-ridge-cg"
    solver = "sparse_cg"


class DualSvc(Rival):
    """LinearSVC by dual coordinate descent."""

    name = "sklearn-linearsvc-dual"
    package = "scikit-learn"
    modules = ("sklearn.svm",)
    kinds = frozenset({("hinge", "l2"), ("squared_hinge", "l2")})
    threaded = True
    dual: ClassVar[bool] = True

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1.0, 1e-8)

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from sklearn.svm import LinearSVC

        model = LinearSVC(
            penalty=objective.penalty,
            loss=objective.loss,
            dual=self.dual,
            C=cost(objective, data[0].shape[0]),
            fit_intercept=False,
            tol=setting,
            max_iter=1_000_000,
            random_state=0,
        )
        return model.fit(*data).coef_[0]


class PrimalSvc(DualSvc):
    """LinearSVC in the primal: a trust-region Newton method for l2, coordinate descent for l1."""

    name = "sklearn-linearsvc"
    kinds = frozenset({("squared_hinge", "l1"), ("squared_hinge", "l2")})
    dual = False


RIVALS: tuple[type[Rival], ...] = (
    Liblinear,
    LiblinearDual,
    Saga,
    Lbfgs,
    NewtonCg,
    NewtonCholesky,
    Sgd,
    CoordinateDescent,
    GramDescent,
    Ridge,
    RidgeLsqr,
    RidgeCg,
    DualSvc,
    PrimalSvc,
)
