"""A start from a part of the rows: brought to the driver in one round and solved there, roughly."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from saddlery.distributed.sums import Sample, SampleTask
from saddlery.problems.linear import LinearProblem
from saddlery.solvers.loop import solve

__all__ = ["sample_start"]

SHARE = 1.0 / 16.0
MOST_ROWS = 100_000
MOST_BYTES = 64_000_000
ROUGH = 1e-2  # relative gap on the sample: more would fit its noise


def sample_start(problem: Any, rng: np.random.Generator) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Weights, intercept and products X'(s l') of a rough solution on some rows; None if they would not do.

    Where the products of the classes are needed and not known, the same round brings them.
    """
    share = min(SHARE, MOST_ROWS / problem.n, MOST_BYTES / (12.0 * problem.size))
    products = problem.fit_intercept and problem.loss.targets == "signs" and "_class_products" not in problem.__dict__
    shares = (share, share)
    if problem.loss.targets == "signs":  # of a rare class as many as of the other, with weights that make up for it
        shares = (min(1.0, 0.5 * share / problem.positive), min(1.0, 0.5 * share / (1.0 - problem.positive)))
    task = SampleTask(problem.reading, problem.d, shares, int(rng.integers(2**31)), products)
    sums, found = problem.run(Sample, task)
    if products:
        problem.__dict__["_class_products"] = (sums["upper"], sums["lower"])
    found = [part for part in found if part is not None]
    if not found:
        return None
    y, s = (np.concatenate([part[k] for part in found]) for k in (1, 2))
    if problem.loss.targets == "signs" and (y.min() > 0.0 or y.max() < 0.0):
        return None
    rows = [part[0] for part in found]
    X = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.concatenate(rows)
    small = LinearProblem(X, y, problem.loss, problem.penalty, s, problem.fit_intercept)
    solution = solve(small, "prox_newton", tol=ROUGH, max_epochs=50)
    slopes = small.slopes(small.margins(solution.w), solution.b)
    return solution.w, solution.b, small.gradient(slopes)
