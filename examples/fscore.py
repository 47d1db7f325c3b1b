"""The F-score by adversarial prediction: what is guaranteed, what is predicted row by row, and what for a batch together.

Run: python examples/fscore.py
"""

import numpy as np
from sklearn.metrics import f1_score

import saddlery as sd

rng = np.random.default_rng(0)
y = (rng.random(200) < 0.2).astype(int)
X = rng.standard_normal((200, 5)) + 0.9 * y[:, None]
train, test = slice(0, 100), slice(100, 200)

model = sd.FScoreClassifier(alpha=0.01, tol=1e-2).fit(X[train], y[train])
low, high = model.score_bounds_
print(f"guaranteed score, less the penalty: between {low:.4f} and {high:.4f} ({model.status_})")
print(f"F1 on the training rows {f1_score(y[train], model.predict(X[train])):.3f}: the truth is kinder than the worst labelling")
print(f"F1 on test rows, one by one (score > 0) {f1_score(y[test], model.predict(X[test])):.3f}")
print(f"F1 on test rows, as a batch             {f1_score(y[test], model.predict_set(X[test])):.3f}")

# The bounds hold for all 2^100 labellings, and anybody can compute them again from the pair of points.
problem = sd.FScoreProblem(X[train], y[train], alpha=0.01, fit_intercept=True)
solution = sd.solve(problem, tol=1e-2)
again = sd.certify(problem, solution.w, solution.dual, solution.b)
print(f"certified again, with a predictor found anew: {-again.primal:.4f} to {-again.dual:.4f}")

# beta weighs recall against precision; row by row a threshold other than 0 is then in order, a batch finds its own.
for beta in (0.5, 2.0):
    other = sd.FScoreClassifier(beta=beta, alpha=0.01, tol=5e-2).fit(X[train], y[train])
    print(f"beta = {beta}: {other.predict_set(X[test]).sum()} of {y[test].size} rows predicted positive, {y[test].sum()} are")
