"""Swap the last step of a scikit-learn pipeline; everything around it stays as it was.

Run: python examples/pipeline_swap.py
"""

from sklearn.datasets import load_breast_cancer
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import saddlery as sd

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

before = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(X_train, y_train)
alpha = 1.0 / (1.0 * len(X_train))  # scikit-learn's C is 1 / (n alpha): docs/scikit-learn.md
after = make_pipeline(StandardScaler(), sd.LinearClassifier(penalty="l2", alpha=alpha, tol=1e-8)).fit(X_train, y_train)
print(f"accuracy before {before.score(X_test, y_test):.4f}, after {after.score(X_test, y_test):.4f}")
difference = abs(before[-1].coef_ - after[-1].coef_).max()
print(f"largest difference of a coefficient: {difference:.1e} (whose it is: examples/audit_sklearn.py)")
print(f"certificate of the new one: {after[-1].certificate_}")

# Grid search, feature selection, set_params, clone: an estimator is an estimator.
search = GridSearchCV(
    make_pipeline(StandardScaler(), sd.LinearClassifier()), {"linearclassifier__alpha": [0.03, 0.01, 0.003]}, cv=3
)
search.fit(X_train, y_train)
print(f"best alpha {search.best_params_['linearclassifier__alpha']}, accuracy {search.score(X_test, y_test):.4f}")
select = make_pipeline(StandardScaler(), SelectFromModel(sd.LinearClassifier(alpha=0.03))).set_output(transform="pandas")
print(f"left at alpha=0.03: {', '.join(select.fit_transform(X, y).columns)}")
