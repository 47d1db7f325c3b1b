"""How good are the models that scikit-learn fits with its default settings? A certificate for each, from the model alone.

Run: python examples/audit_sklearn.py
"""

import warnings

from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import ElasticNet, HuberRegressor, Lasso, LogisticRegression, Ridge, SGDClassifier
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

import saddlery as sd

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
X_real, y_real = load_diabetes(return_X_y=True)
X_real = scale(X_real)

classifiers = [
    LogisticRegression(),
    LogisticRegression(solver="saga"),
    LinearSVC(),
    LinearSVC(loss="hinge"),
    SGDClassifier(random_state=0),
]
regressors = [Lasso(), ElasticNet(), Ridge()]
print("relative gap   warning               model and its objective")
for model in classifiers + regressors:
    data, targets = (X, y) if model in classifiers else (X_real, y_real)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(data, targets)
    certificate = sd.audit(model, data, targets)
    told = caught[0].category.__name__ if caught else ""
    print(f"{certificate.relative_gap:<14.1e} {told:21s} {model}: {certificate.objective}")
    assert certificate.gap >= 0.0

# The bound comes from the model's own predictions; it can be improved by looking for a better dual point.
model = LogisticRegression().fit(X, y)
loose, tight = sd.audit(model, X, y), sd.audit(model, X, y, tighten=True)
print(
    f"LogisticRegression() is at most {loose.relative_gap:.1e} above the optimum, by a better dual point {tight.relative_gap:.1e}"
)

# What has no objective that is known and convex is refused in one sentence.
try:
    sd.audit(HuberRegressor(max_iter=1000).fit(X_real, y_real), X_real, y_real)
except sd.InputError as error:
    print("refused:", error)
