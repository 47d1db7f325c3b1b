"""A table from a few of its own columns and rows: which terms and which documents stand for all?

Run: python examples/cur_selection.py
"""

import numpy as np
import scipy.linalg

import saddlery as sd

# Counts of 60 terms in 90 documents on 4 topics; some documents are long, some terms frequent.
rng = np.random.default_rng(0)
lengths, frequencies = np.exp(rng.standard_normal(90)), np.exp(1.5 * rng.standard_normal(60))
rates = 3.0 * lengths[:, None] * rng.dirichlet(np.full(4, 0.2), 90) @ rng.dirichlet(np.full(60, 0.3), 4) * frequencies * 60
counts = rng.poisson(rates).astype(float)


def error_of(columns, rows):
    """Relative error of the best C U R on these columns and rows."""
    C, R = counts[:, columns], counts[rows]
    return np.linalg.norm(counts - C @ np.linalg.pinv(C) @ counts @ np.linalg.pinv(R) @ R) / np.linalg.norm(counts)


sizes = np.linalg.svd(counts, compute_uv=False)
pivots = [scipy.linalg.qr(A, mode="r", pivoting=True)[1] for A in (counts, counts.T)]
print("radius x top  terms  documents  error under the budget  error of C U R  same number by pivoted QR  best of that rank")
for units in (0.5, 2.0, 5.0):
    model = sd.CURDecomposition(units / sizes[0]).fit(counts)
    k, m = model.columns_.size, model.rows_.size
    best = np.sqrt(np.sum(sizes[min(k, m) :] ** 2) / np.sum(sizes**2))
    print(
        f"{units:<12g} {k:6d} {m:10d} {model.weights_error_:23.3f} {model.reconstruction_error_:15.3f} "
        f"{error_of(pivots[0][:k], pivots[1][:m]):26.3f} {best:18.3f}"
    )

# What is proved: no weights within the budget have a smaller objective than the dual value.
certificate = model.certificate_
print(f"\n{model.status_} by {model.solver_}: objective {certificate.primal:.4f}, optimum at least {certificate.dual:.4f}")
most = np.argsort(-model.column_importances_)[:5]
print("most important terms:", ", ".join(f"{j} ({model.column_importances_[j]:.3f})" for j in most))

# New documents, all terms guessed from the counts of the selected ones.
others = rng.poisson(rates[rng.integers(0, 90, 40)]).astype(float)
guessed = model.inverse_transform(model.transform(others))
error = np.linalg.norm(guessed - others) / np.linalg.norm(others)
print(f"{model.columns_.size} of 60 counts give back all counts of 40 new documents with a relative error of {error:.3f}")
