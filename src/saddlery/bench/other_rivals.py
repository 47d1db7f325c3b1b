"""Adapters for liblinear-official, celer, skglm, cyanure, snapml, python-glmnet, glum and blitzl1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from saddlery.bench.objectives import Objective
from saddlery.bench.rivals import Rival, columns_first, rows_first, tolerances
from saddlery.bench.sklearn_rivals import LOGISTIC, RIDGE, SQUARED, cost

__all__ = ["RIVALS"]


# --------------------------------------------------------------------------- LIBLINEAR


class Liblinear(Rival):
    """liblinear-official; its ``problem`` is built outside of the timing."""

    name = "liblinear"
    package = "liblinear-official"
    modules = ("liblinear.liblinearutil",)
    types: ClassVar = {("logistic", "l1"): 6, ("logistic", "l2"): 0, ("squared_hinge", "l1"): 5, ("squared_hinge", "l2"): 2}
    kinds = frozenset(types)
    threaded = True

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        from liblinear.liblinearutil import problem

        return problem(y, sp.csr_matrix(rows_first(X))), X.shape

    def prepare_classes(self, X: Any, codes: np.ndarray) -> Any:
        return self.prepare(X, codes.astype(np.float64))

    def _train(self, data: Any, objective: Objective, setting: float) -> Any:
        from liblinear.liblinearutil import train

        problem, (n, _) = data
        kind = self.types[objective.kind]
        return train(problem, f"-q -s {kind} -c {cost(objective, n):.17g} -e {setting:.3g} -B -1")

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1.0, 1e-9)

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        model = self._train(data, objective, setting)
        return np.ctypeslib.as_array(model.w, (data[1][1],)) * model.label[0]  # w belongs to the label that came first

    def fit_classes(self, data: Any, objective: Objective, setting: float) -> np.ndarray:
        model = self._train(data, objective, setting)
        weights = np.ctypeslib.as_array(model.w, (data[1][1] * model.nr_class,)).reshape(-1, model.nr_class)
        return weights.T[np.argsort(model.label[: model.nr_class])]


class LiblinearDual(Liblinear):
    """Its dual coordinate descent; for the hinge loss the only choice, with a fixed limit of 300 rounds."""

    name = "liblinear-dual"
    types: ClassVar = {("logistic", "l2"): 7, ("hinge", "l2"): 3, ("squared_hinge", "l2"): 1}
    kinds = frozenset(types)


# --------------------------------------------------------------------------- celer and skglm


class Celer(Rival):
    """celer: working sets and dual extrapolation; for the logistic loss by prox-Newton."""

    name = "celer"
    package = "celer"
    modules = ("celer",)
    kinds = SQUARED | {("logistic", "l1")}
    newton: ClassVar[bool] = True

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-1, 1e-11)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return columns_first(X), y

    def path(self, data: Any, objective: Objective, alphas: np.ndarray, setting: float) -> np.ndarray:
        from celer import celer_path

        logistic = objective.loss == "logistic"
        _, weights, _ = celer_path(
            *data,
            pb="logreg" if logistic else "lasso",
            alphas=alphas * (len(data[1]) if logistic else 1),
            l1_ratio=objective.l1_ratio,
            tol=setting,
            max_iter=1_000,
            use_PN=logistic and self.newton,
        )
        return weights.T

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        return self.path(data, objective, np.array([objective.alpha]), setting)[0]


class CelerCd(Celer):
    """Its coordinate descent for the logistic loss."""

    name = "celer-cd"
    kinds = frozenset({("logistic", "l1")})
    newton = False


class Skglm(Rival):
    """skglm: prox-Newton for the logistic loss, coordinate descent with Anderson acceleration for squares and the SVM dual."""

    name = "skglm"
    package = "skglm"
    modules = ("skglm",)
    kinds = SQUARED | LOGISTIC
    warm = True

    def ladder(self, objective: Objective) -> Sequence[float]:
        return [objective.alpha * tol for tol in tolerances(3.0, 3e-9)]  # its tolerance is on the gradient

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return columns_first(X), y

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from skglm.datafits import Logistic, Quadratic
        from skglm.penalties import L1, L2, L1_plus_L2
        from skglm.solvers import LBFGS, AndersonCD, ProxNewton

        X, y = data
        penalty = {"l1": L1, "l2": L2}.get(objective.penalty, lambda alpha: L1_plus_L2(alpha, objective.l1_ratio))(objective.alpha)
        w = np.zeros(X.shape[1]) if start is None else start.copy()
        Xw = np.zeros(X.shape[0]) if start is None else X @ w
        if objective.penalty == "l2":
            return LBFGS(tol=setting, max_iter=100_000).solve(X, y, Logistic(), penalty, w, Xw)[0]
        if objective.loss == "logistic":
            solver, datafit = ProxNewton(tol=setting, max_iter=1_000, fit_intercept=False), Logistic()
        else:
            solver, datafit = AndersonCD(tol=setting, max_iter=1_000, fit_intercept=False), Quadratic()
        return solver.solve(X, y, datafit, penalty, w, Xw)[0]


class SkglmGram(Skglm):
    """Its coordinate descent on the Gram matrix, which is computed within the timing."""

    name = "skglm-gram"
    kinds = SQUARED
    max_columns = 3_000

    def can(self, objective: Objective, X: Any) -> bool:
        return super().can(objective, X) and X.shape[0] >= X.shape[1]

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from skglm.penalties import L1, L1_plus_L2
        from skglm.solvers import GramCD

        X, y = data
        penalty = L1(objective.alpha) if objective.penalty == "l1" else L1_plus_L2(objective.alpha, objective.l1_ratio)
        solver = GramCD(tol=setting, max_iter=1_000_000, fit_intercept=False)
        return solver.solve(X, y, None, penalty, start.copy() if start is not None else None)[0]


class SkglmSvc(Rival):
    """Its LinearSVC for the hinge loss."""

    name = "skglm-svc"
    package = "skglm"
    modules = ("skglm",)
    kinds = frozenset({("hinge", "l2")})

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-2, 1e-8)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return columns_first(X), y

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from skglm import LinearSVC

        model = LinearSVC(C=cost(objective, data[0].shape[0]), tol=setting, fit_intercept=False)
        return model.fit(*data).coef_[0]


# --------------------------------------------------------------------------- cyanure and snapml


class Cyanure(Rival):
    """cyanure: variance-reduced and quasi-Newton methods with a duality gap."""

    name = "cyanure"
    package = "cyanure"
    modules = ("cyanure.estimators",)
    kinds = LOGISTIC | SQUARED | {RIDGE, ("squared_hinge", "l1"), ("squared_hinge", "l2"), ("squared_hinge", "elasticnet")}
    warm = True
    solver: ClassVar[str] = "auto"

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return rows_first(X), y

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from cyanure.estimators import Classifier, Regression

        loss = {"squared_hinge": "sqhinge"}.get(objective.loss, objective.loss)
        model = Regression() if objective.loss == "squared" else Classifier(loss=loss)
        model.set_params(
            penalty=objective.penalty,
            lambda_1=objective.l2 if objective.penalty == "l2" else objective.l1,
            lambda_2=0.0 if objective.penalty == "l2" else objective.l2,
            solver=self.solver,
            fit_intercept=False,
            tol=setting,
            max_iter=2_000,  # its default; more would outlast every budget where it does not converge
            verbose=False,
            n_threads=self.threads,
            warm_start=start is not None,
        )
        if start is not None:
            model.coef_, model.intercept_ = start, 0.0
        return np.ravel(model.fit(*data).coef_)


class CyanureQning(Cyanure):
    """Its proximal quasi-Newton method."""

    name = "cyanure-qning"
    solver = "qning-ista"


class Snapml(Rival):
    """snapml: coordinate descent in C++ on data in single precision; the SVMs and l2 in the dual."""

    name = "snapml"
    package = "snapml"
    modules = ("snapml",)
    kinds = frozenset(
        {("logistic", "l1"), ("logistic", "l2"), ("hinge", "l2"), ("squared_hinge", "l2"), ("squared", "l1")},
    )
    dual_l2: ClassVar[bool] = True

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-1, 1e-9)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return rows_first(X, np.float32), columns_first(X, np.float32), y

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from snapml import LinearRegression, LogisticRegression, SupportVectorMachine

        rows, columns, y = data
        dual = objective.penalty == "l2" and self.dual_l2
        strength = objective.alpha * len(y) * (2.0 if objective.loss == "squared_hinge" else 1.0)  # its squared hinge has no 1/2
        options = {"regularizer": strength, "tol": setting, "max_iter": 100_000 if dual else 2_000, "n_jobs": self.threads}
        if objective.loss in ("hinge", "squared_hinge"):
            model: Any = SupportVectorMachine(loss=objective.loss, **options)
        else:
            cls = LogisticRegression if objective.loss == "logistic" else LinearRegression
            model = cls(penalty=objective.penalty, dual=dual, **options)
        return np.ravel(model.fit(rows if dual else columns, y).coef_)


class SnapmlPrimal(Snapml):
    """Its primal method for l2 logistic."""

    name = "snapml-primal"
    kinds = frozenset({("logistic", "l2")})
    dual_l2 = False


# --------------------------------------------------------------------------- glmnet, glum, blitzl1


class Glmnet(Rival):
    """glmnet: IRLS and coordinate descent along a path with active sets, here through its given strengths."""

    name = "glmnet"
    package = "python-glmnet"
    modules = ("glmnet",)
    kinds = LOGISTIC | SQUARED | {RIDGE}

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-2, 1e-16)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return columns_first(X), y

    def path(self, data: Any, objective: Objective, alphas: np.ndarray, setting: float) -> np.ndarray:
        from glmnet import ElasticNet, LogitNet

        X, y = data
        ratio, strengths = objective.l1_ratio, np.asarray(alphas, dtype=np.float64)
        if objective.loss == "squared":
            # It divides y by its standard deviation, which changes the balance of the two penalties: undo that beforehand.
            size = float(np.std(y))
            mixed = ratio + (1.0 - ratio) * size
            ratio, strengths = ratio / mixed, strengths * mixed
        options = {"alpha": ratio, "lambda_path": strengths, "standardize": False, "fit_intercept": False, "n_splits": 0}
        cls = ElasticNet if objective.loss == "squared" else LogitNet
        model = cls(tol=setting, max_iter=10_000_000, **options)
        model._fit(X, y, np.ones(len(y)) if objective.loss == "squared" else None, None)
        weights = np.zeros((len(strengths), X.shape[1]))  # glmnet leaves a path early once the fit is nearly perfect
        found = model.coef_path_.reshape(X.shape[1], -1).T
        weights[: len(found)] = found
        return weights

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        return self.path(data, objective, np.array([objective.alpha]), setting)[0]


class Glum(Rival):
    """glum: Newton steps with a dense Hessian; not for many columns."""

    name = "glum"
    package = "glum"
    modules = ("glum", "tabmat")
    kinds = LOGISTIC | SQUARED | {RIDGE}
    max_columns = 1_000
    warm = True

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-1, 1e-9)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        import tabmat

        X = columns_first(X)
        return (tabmat.SparseMatrix(X) if sp.issparse(X) else tabmat.DenseMatrix(X)), y

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        from glum import GeneralizedLinearRegressor

        X, y = data
        logistic = objective.loss == "logistic"
        model = GeneralizedLinearRegressor(
            family="binomial" if logistic else "normal",
            alpha=objective.alpha,
            l1_ratio=objective.l1_ratio,
            fit_intercept=False,
            gradient_tol=setting,
            max_iter=1_000,
            start_params=start,
            copy_X=False,
        )
        return model.fit(X, (y + 1.0) / 2.0 if logistic else y).coef_


class Blitz(Rival):
    """blitzl1: working sets. NumPy 2 refuses one comparison of its wrapper, which is replaced here."""

    name = "blitzl1"
    package = "blitzl1"
    modules = ("blitzl1",)
    kinds = frozenset({("logistic", "l1"), ("squared", "l1")})
    warm = True

    def __init__(self, threads: int = 1):
        super().__init__(threads)
        import blitzl1
        from blitzl1 import _blitzl1

        _blitzl1.data_as = lambda array, kind: (array, array.ctypes.data_as(kind))  # the arrays have the right types already
        blitzl1.set_use_intercept(False)
        blitzl1.set_verbose(False)

    def ladder(self, objective: Objective) -> Sequence[float]:
        return tolerances(1e-1, 1e-10)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        import blitzl1

        X, y = columns_first(X), np.ascontiguousarray(y, dtype=np.float64)
        return [blitzl1.LogRegProblem(X, y) if set(np.unique(y)) == {-1.0, 1.0} else None, blitzl1.LassoProblem(X, y), len(y)]

    def fit(self, data: Any, objective: Objective, setting: float, start: np.ndarray | None = None) -> np.ndarray:
        import blitzl1

        logistic, squared, n = data
        blitzl1.set_tolerance(setting)
        problem = logistic if objective.loss == "logistic" else squared
        return problem.solve(objective.alpha * n, initial_x=None if start is None else start.copy()).x


RIVALS = (
    Liblinear,
    LiblinearDual,
    Celer,
    CelerCd,
    Skglm,
    SkglmGram,
    SkglmSvc,
    Cyanure,
    CyanureQning,
    Snapml,
    SnapmlPrimal,
    Glmnet,
    Glum,
    Blitz,
)
