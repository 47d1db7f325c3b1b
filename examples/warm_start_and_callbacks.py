"""Watch a fit, stop it when you like, and go on later exactly where it stopped.

Run: python examples/warm_start_and_callbacks.py
"""

import numpy as np

import saddlery as sd
from saddlery.report import LiveTable

rng = np.random.default_rng(0)
X = rng.standard_normal((500, 300))
y = np.sign(X[:, :5].sum(axis=1) + rng.standard_normal(500))
problem = sd.LinearProblem(X, y, loss=sd.losses.Logistic(), penalty=sd.penalties.ElasticNet(0.01, l1_ratio=0.5))

# A callback sees every certificate; a true answer stops the run.
seen = []


def until_one_percent(record):
    seen.append(record.relative_gap)
    return record.relative_gap < 0.01


first = sd.solve(problem, solver="sdca", callbacks=[until_one_percent])
print(f"{first.status} ({first.epochs} epochs, relative gap {first.certificate.relative_gap:.1e}, {len(seen)} certificates)")

# The state resumes exactly; a solution, or any (w, b, dual), is a warm start for any solver.
resumed = sd.solve(problem, solver="sdca", start=first.state, tol=0.0, max_epochs=30)
whole = sd.solve(problem, solver="sdca", tol=0.0, max_epochs=first.epochs + 30)
same = np.array_equal(resumed.w, whole.w)
print(f"{first.epochs} epochs and 30 more are the same as {whole.epochs} in one go, to the last bit: {same}")
assert same
other = sd.solve(problem, solver="prox_newton", start=first)
print(f"prox_newton from there: {other.status}")

# A live table: on a terminal it is redrawn in place, in a log it is plain lines.
with LiveTable("from the start", tol=1e-6) as table:
    sd.solve(problem, callbacks=[table])

# Estimators: a path by hand, each fit from the last one.
model = sd.LinearClassifier(penalty="l1", warm_start=True, tol=1e-6)
for alpha in (0.1, 0.05, 0.02):
    model.set_params(alpha=alpha).fit(X, y)
    gap = model.certificate_.relative_gap
    print(f"alpha {alpha:<5} {model.n_iter_} epochs, {np.count_nonzero(model.coef_)} non-zeros, relative gap {gap:.1e}")
