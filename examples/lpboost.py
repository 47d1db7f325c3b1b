"""Boosting with a certificate: stumps, weighed all at once, and a forest whose trees are weighed anew.

Run: python examples/lpboost.py
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import saddlery as sd

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(data.data, data.target, random_state=0)

# All stumps of all features take part from the beginning; no rounds, no learning rate.
model = sd.LPBoostClassifier("stumps", nu=0.05).fit(X, y)
low, high = model.value_bounds_
print(f"{model.hypotheses_.count} stumps, {model.status_}: the best soft margin lies between {low:.6f} and {high:.6f}")
print(f"accuracy {model.score(X_test, y_test):.3f} on rows that were left out")
for k in np.argsort(-np.abs(model.estimator_weights_))[:3]:
    feature, threshold = data.feature_names[model.hypotheses_.features[k]], model.hypotheses_.thresholds[k]
    print(f"  weight {model.estimator_weights_[k]:+.3f}: {feature} > {threshold:.4g}")

# The opponent's weights say which rows are hard.
hardest = np.argsort(-model.sample_weights_)[:5]
print("hardest rows:", ", ".join(f"{i} ({model.sample_weights_[i]:.3f})" for i in hardest))

# Trees that are there already: which of them are worth their place?
forest = RandomForestClassifier(100, max_depth=2, random_state=0).fit(X, y)
boosted = sd.LPBoostClassifier(forest.estimators_, complements=False, nu=0.05).fit(X, y)
print(
    f"forest of 100 trees: accuracy {forest.score(X_test, y_test):.3f}, weighed anew {boosted.score(X_test, y_test):.3f}, "
    f"{np.count_nonzero(boosted.estimator_weights_ > 0.01)} trees have more than 1 % of the weight"
)
