"""A loss and a penalty of your own: write the formulas, and solvers, certificates and estimators take them.

The loss is the *expectile*: squares that cost more on one side, for forecasts where being short is worse than being over. The
penalty is a ridge that keeps weights from becoming negative. Nothing of the library is touched; both compile and are cached.

Run: python examples/custom_loss.py
"""

import math
from typing import NamedTuple

import numpy as np

import saddlery as sd


@sd.losses.loss
class Expectile(NamedTuple):
    """``c (z - y)^2 / 2`` with c = 2 q where the forecast z is short of y, and 2 (1 - q) where it is over."""

    q: float = 0.9

    @property
    def smoothness(self):
        return 2.0 * max(self.q, 1.0 - self.q)

    @property
    def targets(self):
        return "real"

    def value(self, y, z):
        return (self.q if z < y else 1.0 - self.q) * (z - y) * (z - y)

    def slope(self, y, z):
        return 2.0 * (self.q if z < y else 1.0 - self.q) * (z - y)

    def curvature(self, y, z):
        return 2.0 * (self.q if z < y else 1.0 - self.q)

    def conjugate(self, y, a):  # max over z of a z - value(y, z)
        return y * a + a * a / (4.0 * (self.q if a < 0.0 else 1.0 - self.q))

    def dual_prox(self, y, a, step):  # argmin over u of step * conjugate(y, u) + (u - a)^2 / 2
        v = a - step * y
        return v / (1.0 + step / (2.0 * (self.q if v < 0.0 else 1.0 - self.q)))

    def dual_lower(self, y):
        return -math.inf

    def dual_upper(self, y):
        return math.inf


@sd.penalties.separable
class NonNegativeRidge(NamedTuple):
    """``alpha / 2 ||w||^2`` for w >= 0, infinity elsewhere."""

    alpha: float

    @property
    def strong_convexity(self):
        return self.alpha

    @property
    def threshold(self):
        return 0.0

    def coordinate_value(self, w):
        return 0.5 * self.alpha * w * w if w >= 0.0 else math.inf

    def coordinate_prox(self, v, step):
        return max(v, 0.0) / (1.0 + step * self.alpha)

    def coordinate_conjugate(self, u):
        return 0.5 * max(u, 0.0) * max(u, 0.0) / self.alpha

    def coordinate_map(self, u):
        return max(u, 0.0) / self.alpha

    def coordinate_distance(self, w, u):
        return max(u, 0.0) if w == 0.0 else abs(u - self.alpha * w)


rng = np.random.default_rng(0)
X = rng.standard_normal((200, 12))
y = X @ np.maximum(rng.standard_normal(12), 0.0) + rng.standard_normal(200)

for q in (0.5, 0.9):
    problem = sd.LinearProblem(X, y, loss=Expectile(q), penalty=NonNegativeRidge(0.01), fit_intercept=True)
    solution = sd.solve(problem, tol=1e-8)
    short = np.mean(X @ solution.w + solution.b < y)
    print(f"q={q}: {short:.0%} of the forecasts are short, least weight {solution.w.min():.3f}; {solution.certificate}")
    assert solution.w.min() >= 0.0
    assert solution.certificate.relative_gap <= 1e-8

print("solvers that can do it:", ", ".join(sd.solvers.available(problem)))
model = sd.LinearRegressor(loss=Expectile(0.9), penalty="l1", alpha=0.05).fit(X, y)
print(f"the same loss in an estimator, with l1: {np.count_nonzero(model.coef_)} non-zeros, {model.status_}")
