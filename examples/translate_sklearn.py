"""The table of docs/scikit-learn.md, proved: scikit-learn's solution certifies as optimal for the objective it is translated to.

Run: python examples/translate_sklearn.py
"""

import warnings

import numpy as np
from sklearn import linear_model, svm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

import saddlery as sd
from saddlery.losses import Hinge, Huber, Logistic, Squared, SquaredHinge
from saddlery.penalties import L1, L2, ElasticNet

X, y = load_breast_cancer(return_X_y=True)
X, y = scale(X), 2.0 * y - 1.0
X_real, y_real = load_diabetes(return_X_y=True)
X_real, y_real = scale(X_real), scale(y_real)
n, n_real = len(y), len(y_real)

C, A, B = 0.1, 0.01, 0.1
tight = {"tol": 1e-9, "max_iter": 100_000}
logistic = {"C": C, "solver": "saga", **tight}
old_words = linear_model.LogisticRegression().get_params()["penalty"] == "l2"  # before scikit-learn 1.8
lasso_words = {"penalty": "l1"} if old_words else {"l1_ratio": 1}
mixed_words = {"penalty": "elasticnet", "l1_ratio": 0.3} if old_words else {"l1_ratio": 0.3}
no_bias = {"fit_intercept": False}  # liblinear, which LinearSVC uses, penalises the intercept
sgd = {"alpha": B, "tol": None, "max_iter": 300, "random_state": 0, "average": 1000}
slow_sgd = {**sgd, "learning_rate": "constant", "eta0": 2e-4}  # the default steps diverge for squares

# what scikit-learn minimises, and the loss and penalty that stand for the same here
rows = [
    ("LogisticRegression(C), l1", linear_model.LogisticRegression(**lasso_words, **logistic), Logistic(), L1(1 / (C * n))),
    ("LogisticRegression(C), l2", linear_model.LogisticRegression(C=C, **tight), Logistic(), L2(1 / (C * n))),
    (
        "LogisticRegression(C, l1_ratio)",
        linear_model.LogisticRegression(**mixed_words, **logistic),
        Logistic(),
        ElasticNet(1 / (C * n), 0.3),
    ),
    ("LinearSVC(C, hinge), l2", svm.LinearSVC(C=C, loss="hinge", **no_bias, **tight), Hinge(), L2(1 / (C * n))),
    ("LinearSVC(C, squared_hinge), l2", svm.LinearSVC(C=C, **no_bias, **tight), SquaredHinge(), L2(1 / (2 * C * n))),
    (
        "LinearSVC(C, squared_hinge), l1",
        svm.LinearSVC(C=C, penalty="l1", dual=False, **no_bias, **tight),
        SquaredHinge(),
        L1(1 / (2 * C * n)),
    ),
    ("SGDClassifier(alpha, log_loss)", linear_model.SGDClassifier(loss="log_loss", **sgd), Logistic(), L2(B)),
    ("SGDClassifier(alpha, hinge)", linear_model.SGDClassifier(loss="hinge", **sgd), Hinge(), L2(B)),
    (
        "SGDClassifier(alpha, squared_hinge)",
        linear_model.SGDClassifier(loss="squared_hinge", **slow_sgd),
        SquaredHinge(),
        L2(B / 2),
    ),
    ("Lasso(alpha)", linear_model.Lasso(alpha=A, **tight), Squared(), L1(A)),
    ("ElasticNet(alpha, l1_ratio)", linear_model.ElasticNet(alpha=A, l1_ratio=0.3, **tight), Squared(), ElasticNet(A, 0.3)),
    ("Ridge(alpha)", linear_model.Ridge(alpha=A), Squared(), L2(A / n_real)),
    ("SGDRegressor(alpha, huber)", linear_model.SGDRegressor(loss="huber", epsilon=0.5, **sgd), Huber(0.5), L2(B)),
]

for name, model, loss, penalty in rows:
    real = loss.targets == "real"
    data, targets = (X_real, y_real) if real else (X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of them do not reach such a tolerance; the certificate says how far they came
        model.fit(data, targets)
    problem = sd.LinearProblem(data, targets, loss, penalty, fit_intercept=model.fit_intercept)
    best = sd.solve(problem, tol=1e-9)
    value = problem.primal(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]) if model.fit_intercept else 0.0)
    excess = (value - best.certificate.dual) / best.certificate.scale
    print(f"{name:36s} {type(loss).__name__:13s} {type(penalty).__name__:11s} alpha={penalty.alpha:<9.3g} excess {excess:.0e}")
    assert -1e-12 <= excess <= (1e-3 if "SGD" in name else 1e-6), "the translation is wrong"
