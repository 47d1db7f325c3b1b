"""A lasso with a proof: how far from the best possible objective is it, at most?

Run: python examples/certified_lasso.py
"""

from sklearn.datasets import load_diabetes

import saddlery as sd

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = sd.LinearRegressor(loss="squared", penalty="l1", alpha=0.5, tol=1e-8).fit(X, y)
certificate = model.certificate_

print(f"{model.status_} by {model.solver_}")
print(f"objective {certificate.primal:.6f}; no lasso with this alpha can have less than {certificate.dual:.6f}")
print(f"relative gap {certificate.relative_gap:.1e}")
for name, weight in zip(X.columns, model.coef_, strict=True):
    if weight != 0:
        print(f"  {name:4s} {weight:8.2f}")

# The proof does not depend on how the model was found: any pair of points can be certified, by anybody.
problem = sd.LinearProblem(X, y, loss=sd.losses.Squared(), penalty=sd.penalties.L1(0.5), fit_intercept=True)
again = sd.certify(problem, model.coef_, model.dual_coef_, b=model.intercept_)
rounded = sd.certify(problem, model.coef_.round(), model.dual_coef_, b=round(model.intercept_))
print(f"recomputed: relative gap {again.relative_gap:.1e}; with rounded coefficients: {rounded.relative_gap:.1e}")
assert again.relative_gap <= 1e-8
assert rounded.primal >= certificate.dual
