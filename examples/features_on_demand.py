"""Learn from features that are computed only when they are drawn.

A kernel machine by random Fourier features: 10,000 rows of two numbers each, and 10,000 features cos(omega_j . x_i + phase_j), a
matrix of 800 MB that nobody ever makes. `SublinearSVC` asks for single rows and columns, keeps to its budget, and counts them.

Run: python examples/features_on_demand.py
"""

import numpy as np

import saddlery as sd


class FourierFeatures:
    """X_ij = sqrt(2 / d) cos(omega_j . x_i + phase_j): all that the library asks for is `shape`, `row` and `column`."""

    def __init__(self, points, d, gamma, seed=0):
        rng = np.random.default_rng(seed)
        self.points = points
        self.omega = np.sqrt(2.0 * gamma) * rng.standard_normal((points.shape[1], d))
        self.phase = rng.uniform(0.0, 2.0 * np.pi, d)
        self.shape = (len(points), d)

    def row(self, i):
        return np.sqrt(2.0 / self.shape[1]) * np.cos(self.points[i] @ self.omega + self.phase)

    def column(self, j):
        return np.sqrt(2.0 / self.shape[1]) * np.cos(self.points @ self.omega[:, j] + self.phase[j])


def rings(n, rng):
    """Two rings, one in the other: no straight line tells them apart."""
    y = rng.integers(2, size=n)
    angle, radius = rng.uniform(0.0, 2.0 * np.pi, n), np.where(y == 1, 1.0, 0.5)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + 0.07 * rng.standard_normal((n, 2)), y


rng = np.random.default_rng(0)
points, y = rings(10_000, rng)
new_points, new_y = rings(500, rng)

X = sd.FetchedMatrix(FourierFeatures(points, 10_000, gamma=4.0))  # to read its own counts; the object itself would do
X.check_agreement()  # rows and columns of a source must tell the same

before = X.counts["entries"]
model = sd.SublinearSVC(slack=0.05, budget="4%", certificate=None, random_state=0).fit(X, y)
told, asked = model.feature_accesses_, X.counts["entries"] - before
print(
    f"{model.n_iter_} steps: {told['rows']:.0f} rows and {told['columns']:.0f} columns, {100 * told['share']:.1f} % of all entries"
)
print(f"entries by the solver's count {told['total']:.0f}, asked of the matrix {asked}, computed {X.counts['entries_fetched']}")
print(f"error on new points: {np.mean(model.predict(FourierFeatures(new_points, 10_000, gamma=4.0)) != new_y):.3f}")

# The fair rival: as many entries as whole rows, and an exact SVM on them. Here it is no worse, since any rows show both rings;
# docs/sublinear-svm.md has data where rows are not enough.
rows = rng.permutation(len(y))[: int(told["total"] / X.shape[1])]
rival = sd.LinearClassifier(loss="hinge", penalty="l2", alpha=1e-4, tol=1e-3, random_state=0)
rival.fit(X.take_rows(rows).values, y[rows])
new = FourierFeatures(new_points, 10_000, gamma=4.0)
wrong = np.mean(rival.predict(np.stack([new.row(i) for i in range(500)])) != new_y)
print(f"an exact SVM on {len(rows)} rows, the same reads: {wrong:.3f}")
