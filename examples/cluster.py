"""The same estimators on a cluster: data in partitions, the same certificate, lazy predictions.

Two worker processes on this machine stand for the cluster; any other ``distributed.Client`` serves as well, and without one Dask's
threads do. Workers are started as new processes that import this file, hence the guard at the end.

Run: python examples/cluster.py
"""

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import saddlery as sd


def make_block(number: int, rows: int = 2_000, columns: int = 20) -> np.ndarray:
    """One partition: features, and the label in the last column."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((rows, columns))
    label = X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(rows) > 0.0
    return np.column_stack([X, label])


def main() -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        parts = [da.from_delayed(dask.delayed(make_block)(k), shape=(2_000, 21), dtype=float) for k in range(6)]
        data = da.concatenate(parts)
        X, y = data[:, :-1], data[:, -1].astype(int)

        model = sd.LinearClassifier(alpha=0.01, tol=1e-6).fit(X, y)
        counts = model.trace_[-1].counts
        print(f"{model.solver_}: {model.certificate_}")
        print(f"{counts['rounds']} rounds over 6 partitions, {counts['bytes_up'] / 1e3:.0f} kB to the driver")

        predicted = model.predict(X)  # lazy: nothing is computed yet
        print(f"accuracy {float((predicted == y).mean().compute()):.3f}, weights of {np.count_nonzero(model.coef_)} features")

    # What the workers computed is what one machine computes.
    rows = np.concatenate([make_block(k) for k in range(6)])
    here = sd.LinearClassifier(alpha=0.01, tol=1e-6).fit(rows[:, :-1], rows[:, -1].astype(int))
    print(f"difference of the objectives {abs(here.certificate_.primal - model.certificate_.primal):.1e}")


if __name__ == "__main__":
    main()
