"""Fill in the ratings that were never given, and prove that no matrix of the same size fits the given ones much better.

Run: python examples/complete_ratings.py
"""

import numpy as np
import scipy.sparse as sp

import saddlery as sd

# 300 people rate 120 films from 1 to 5; two hidden tastes decide, and one rating in five is given.
rng = np.random.default_rng(0)
tastes, films = rng.standard_normal((300, 2)), rng.standard_normal((120, 2))
truth = np.clip(3.0 + 0.4 * rng.standard_normal((300, 1)) + 0.8 * tastes @ films.T, 1.0, 5.0)
rows, cols = np.nonzero(rng.random(truth.shape) < 0.2)
ratings = np.clip(truth[rows, cols] + 0.3 * rng.standard_normal(len(rows)), 1.0, 5.0).round(1)
given = rng.random(len(rows)) < 0.9  # a tenth is kept for the test
X = sp.csr_array((ratings[given], (rows[given], cols[given])), shape=truth.shape)

# Stored entries count as observed. The radius is chosen on a part of them.
model = sd.MatrixCompletion(center="both", random_state=0).fit(X)
test = (rows[~given], cols[~given], ratings[~given])
print(f"{model.status_}: rank {model.rank_} at radius {model.radius_:.0f}, by {model.solver_} in {model.n_iter_} rounds")
print(f"root mean squared error: {model.score(X):.3f} on the ratings given, {model.score(test):.3f} on those kept back")

means_only = sd.MatrixCompletion(radius=1e-6, center="both").fit(X)
print(f"means of people and films alone: {means_only.score(test):.3f} on those kept back")

certificate = model.certificate_
print(f"objective {certificate.primal:.6f}; no matrix within the radius has less than {certificate.dual:.6f} ({certificate.basis})")
assert certificate.relative_gap <= model.tol
assert model.score(test) < means_only.score(test)

person = 7
unseen = np.setdiff1d(np.arange(120), cols[given][rows[given] == person])
guesses = model.predict(person, unseen)
for k in np.argsort(-guesses)[:3]:
    print(f"person {person} has not rated film {unseen[k]}, and would give it {guesses[k]:.1f}")
