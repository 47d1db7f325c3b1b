"""A certified fit of data that are never in memory as a whole: write a store in chunks, fit it within a limit, predict by blocks.

Run: python examples/larger_than_memory.py
"""

import tempfile
from pathlib import Path

import numpy as np

import saddlery as sd

ROWS, COLUMNS = 6_000, 1_000


def chunks():
    """Generated rows, 500 at a time: an iterator of (X, y), as a database or a simulation would give them."""
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(COLUMNS) < 10, 1.0, 0.0)
    for _ in range(ROWS // 500):
        X = rng.standard_normal((500, COLUMNS), dtype=np.float32)
        yield X, np.where(X @ truth + rng.standard_normal(500) > 0.0, "yes", "no")


with tempfile.TemporaryDirectory() as folder:
    path = sd.convert(chunks(), Path(folder) / "store", max_memory="16MB")
    with sd.open_store(path, max_memory="8MB", verify=True) as store:
        print(store)
        model = sd.LinearClassifier(penalty="l1", alpha=0.02, tol=1e-6).fit(store)  # y=None: the labels of the store
        certificate = model.certificate_
        print(f"{model.solver_}: objective {certificate.primal:.6f}, optimum at least {certificate.dual:.6f}")
        print(f"within {certificate.relative_gap:.1e} of the optimum, {np.count_nonzero(model.coef_)} columns used")
        print(f"read {store.bytes_read / (4 * store.nnz):.1f} times the data, {store.max_memory / 1e6:.0f} MB at a time at most")
        print(f"right on {np.mean(model.predict(store) == store.y):.1%} of the rows")
