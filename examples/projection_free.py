"""A constraint instead of a penalty: the paper's stochastic Frank-Wolfe, and the default that ends on the right face.

Run: python examples/projection_free.py
"""

import numpy as np

import saddlery as sd

rng = np.random.default_rng(0)
n, d = 5000, 200
X = (rng.random((n, d)) < 0.1).astype(float)
truth = np.zeros(d)
truth[:8] = rng.standard_normal(8) * 3
y = np.where(X @ truth + rng.logistic(size=n) > 0, 1.0, -1.0)
problem = sd.LinearProblem(X, y, loss="logistic", penalty=sd.penalties.L1Ball(radius=8.0))

print("solver         oracle calls  sample gradients  certified gap  weights")
for solver, epochs in (("gsfw", 100), ("sag_fw", 100), ("pairwise_fw", 500), ("auto", 100)):
    solution = sd.solve(problem, solver, tol=1e-6, max_epochs=epochs)
    counts = solution.trace[-1].counts
    print(
        f"{solution.solver:13s} {counts['oracle_calls']:13,d} {counts['sample_gradients']:17,d} "
        f"{solution.certificate.relative_gap:14.1e} {np.count_nonzero(solution.w):8d}"
    )

# An estimator takes the same constraint by name; the intercept stays free.
model = sd.LinearClassifier(penalty="l1_ball", radius=8.0, tol=1e-6).fit(X, y)
print(f"{model.status_}; sum of absolute weights {np.abs(model.coef_).sum():.6f}")
assert np.abs(model.coef_).sum() <= 8.0 * (1 + 1e-12)
