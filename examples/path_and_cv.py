"""A whole path of lasso models, each certified and each the start of the next; then the strength chosen by cross-validation.

Run: python examples/path_and_cv.py
"""

import importlib.util
import tempfile
from pathlib import Path

from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import saddlery as sd

frame = load_diabetes(as_frame=True)
X, y = StandardScaler().fit_transform(frame.data), frame.target.to_numpy()
names = list(frame.data.columns)

problem = sd.LinearProblem(X, y, loss=sd.losses.Squared(), penalty=sd.penalties.L1(1.0), fit_intercept=True)
result = sd.path(problem, n_alphas=8, tol=1e-8)
print("alpha     non-zeros  epochs  relative gap")
for alpha, solution, nonzeros in zip(result.alphas, result.solutions, result.nonzeros, strict=True):
    print(f"{alpha:<9.3g} {nonzeros:9d}  {solution.epochs:6d}  {solution.certificate.relative_gap:.1e}")
assert max(certificate.relative_gap for certificate in result.certificates) <= 1e-8

search = sd.LinearRegressorCV(n_alphas=20, cv=5).fit(X, y)
kept = [name for name, weight in zip(names, search.coef_, strict=True) if weight != 0.0]
print(f"cross-validation takes alpha = {search.alpha_:.3g}: {', '.join(kept)} ({search.status_})")

if importlib.util.find_spec("matplotlib"):  # an extra: pip install 'saddlery[plot]'
    with tempfile.TemporaryDirectory() as folder:
        display = sd.PathDisplay.from_path(result, feature_names=names)
        display.figure_.savefig(Path(folder) / "path.png")
        print("the picture of the path has", len(display.ax_.lines) - 1, "lines")
