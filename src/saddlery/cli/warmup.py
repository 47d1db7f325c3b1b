"""``saddlery warmup``: compile the usual combinations now, so that later fits start at once."""

from __future__ import annotations

import sys
import time
from typing import Any

from saddlery.cli.exits import DONE

__all__ = ["add_parser", "run"]

PAIRS = {
    "classification": [
        ("logistic", "l1"),
        ("logistic", "elasticnet"),
        ("squared_hinge", "l1"),
        ("smooth_hinge", "l1"),
        ("hinge", "l2"),
    ],
    "regression": [("squared", "l1"), ("squared", "elasticnet"), ("huber", "l1")],
}


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "warmup",
        help="compile the usual combinations in advance",
        description="Compile the default solvers for the usual losses and penalties, on small, dense and sparse data.",
    )
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Fit a small problem of each kind."""
    import numpy as np
    import scipy.sparse as sp

    from saddlery import LinearClassifier, LinearRegressor
    from saddlery.parts import cache_misses

    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 70))
    y = X[:, 0] + 0.1 * rng.standard_normal(80)
    kinds = {"small": X[:, :8].copy(), "dense": X, "sparse": sp.csr_array(X)}  # few columns are solved by kernels of their own
    began = time.perf_counter()
    for task, pairs in PAIRS.items():
        make = LinearClassifier if task == "classification" else LinearRegressor
        target = np.sign(y) if task == "classification" else y
        for loss, penalty in pairs:
            for kind, data in kinds.items():
                start = time.perf_counter()
                make(loss=loss, penalty=penalty, alpha=0.01).fit(data, target)
                print(f"{loss:<14} {penalty:<11} {kind:<7} {time.perf_counter() - start:6.2f} s", file=sys.stderr)
    print(f"ready in {time.perf_counter() - began:.1f} s; {cache_misses()} kernels were compiled, the others came from the cache")
    return DONE
