"""Softmax and multiclass hinge with an l1 penalty: all classes in one problem, one certificate.

Run: python examples/joint_multiclass.py
"""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

import saddlery as sd

X, y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)
names = load_iris().target_names[y]

for loss in ("logistic", "hinge"):
    model = sd.LinearClassifier(multiclass="joint", loss=loss, penalty="l1", alpha=0.01, tol=1e-3).fit(X, names)
    print(f"{loss}: {model.status_} by {model.solver_}, {np.count_nonzero(model.coef_)} of {model.coef_.size} weights")
    print(f"  objective {model.certificate_.primal:.5f}, optimum at least {model.certificate_.dual:.5f}")
    print(f"  accuracy {model.score(X, names):.3f}")
    assert model.certificate_.relative_gap <= 1e-3

# The same as a problem: classes are numbers, W has a column for each, and any pair of points can be certified.
problem = sd.MulticlassProblem(X, y, loss="hinge", penalty=sd.penalties.L1(0.01), fit_intercept=True)
again = sd.certify(problem, model.coef_.T, model.dual_coef_, b=model.intercept_)
print(f"recomputed: relative gap {again.relative_gap:.1e}; solvers: {', '.join(sd.solvers.available(problem))}")
assert abs(again.primal - model.certificate_.primal) <= 1e-12
