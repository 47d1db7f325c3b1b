"""What the experiments of Lei, Yen, Wu, Dhillon and Ravikumar (2017) compute: a class against the rest, smooth hinge, elastic net.

The paper's strengths lambda (l1) and mu (l2) are those of the sum of the losses; divided by n they go with the mean that is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from saddlery.estimators.random_binning import RandomBinning
from saddlery.losses.smooth_hinge import SmoothHinge
from saddlery.matrix import Matrix, as_matrix
from saddlery.penalties.elastic_net import ElasticNet
from saddlery.problems.linear import LinearProblem
from saddlery.registry import SOLVERS
from saddlery.solvers.auto import resolve
from saddlery.solvers.loop import solve
from saddlery.threads import small_products_on_one_thread

__all__ = ["make_problem", "optimum", "trajectory"]

Report = Callable[[float], None]
FIRST = 20  # epochs after each of which values are computed
LOOKS = 1.03  # factor by which the clock grows between later ones
WARM = 40  # rows of the problem that is solved first, so that nothing is compiled while the clock runs


def make_problem(
    data: Any, features: dict[str, Any], label: float, lam: float, mu: float, rows: int | None = None
) -> LinearProblem:
    """One class against the rest on features of the data.

    `features` has the kind ("fourier", "binning", or "unit": rows of length one), the number of rows, and what the kind needs;
    rows are drawn by its seed. The features made last are kept, by rows and by columns: runs that share them follow each other,
    and making them takes longer than many a run.
    """
    key = (id(data[0]), repr(features), rows)
    if _LAST.get("key") != key:
        matrix, y = _make_features(data, features, rows)
        if rows is None:
            _LAST.update(key=key, source=data[0], made=(matrix, y))
    else:
        matrix, y = _LAST["made"]
    n = matrix.shape[0]
    penalty = ElasticNet((lam + mu) / n, lam / (lam + mu))
    return LinearProblem(matrix, np.where(y == label, 1.0, -1.0), SmoothHinge(), penalty)


_LAST: dict[str, Any] = {}


def _make_features(data: Any, features: dict[str, Any], rows: int | None) -> tuple[Matrix, np.ndarray]:
    X, y = data
    rng = np.random.default_rng(features["seed"])
    count = min(features.get("rows") or X.shape[0], X.shape[0]) if rows is None else rows
    chosen = np.sort(rng.choice(X.shape[0], size=count, replace=False))
    matrix = as_matrix(_KINDS[features["kind"]](X[chosen], features))
    _ = matrix.rows, matrix.cols
    return matrix, y[chosen]


def _fourier(X: Any, features: dict[str, Any]) -> np.ndarray:
    """sqrt(2 / D) cos(omega'x + u): their products approximate exp(-||x - x'||^2 / (2 width^2))."""
    from sklearn.kernel_approximation import RBFSampler

    gamma = 0.5 / features["width"] ** 2
    sampler = RBFSampler(gamma=gamma, n_components=features["count"], random_state=features["seed"])
    return sampler.fit_transform(_dense(X, features))


def _binning(X: Any, features: dict[str, Any]) -> Any:
    """Random binning: products approximate exp(-||x - x'||_1 / width)."""
    grids = RandomBinning(n_grids=features["count"], scale=features["width"], random_state=features["seed"])
    return grids.fit_transform(X * (1.0 / features["largest"]))


def _unit(X: Any, features: dict[str, Any]) -> Any:
    from sklearn.preprocessing import normalize

    return normalize(X)


def _dense(X: Any, features: dict[str, Any]) -> np.ndarray:
    return np.asarray(X.todense()) / features["largest"]


_KINDS = {"fourier": _fourier, "binning": _binning, "unit": _unit}


def _method(solver: str, options: dict[str, Any]) -> Any:
    return "auto" if solver == "auto" else SOLVERS.get(solver)(**options)


def optimum(
    data: Any, report: Report, *, features: dict[str, Any], label: float, lam: float, mu: float, tol: float
) -> dict[str, Any]:
    """The optimal value and what the problem looks like, by the default solver."""
    problem = make_problem(data, features, label, lam, mu)
    solution = solve(problem, tol=tol)
    return {
        "primal": solution.certificate.primal,
        "dual": solution.certificate.dual,
        "nonzero_primal": int(np.count_nonzero(solution.w)),
        "nonzero_dual": int(np.count_nonzero(solution.dual)),
        "n": problem.n,
        "d": problem.d,
        "entries": problem.matrix.nnz,
        "status": str(solution.status),
    }


def trajectory(
    data: Any,
    report: Report,
    *,
    features: dict[str, Any],
    label: float,
    lam: float,
    mu: float,
    solver: str,
    options: dict[str, Any],
    most_seconds: float,
    most_epochs: int,
    tol: float,
    seed: int,
) -> dict[str, Any]:
    """Primal value, best dual value and non-zeros of both points along a run, with the seconds of the processor until there.

    The values are computed outside of the clock, after each of the first epochs and then whenever the clock has grown by a small
    part: single epochs of some methods are much shorter than the computation of the values. It ends at a relative gap of `tol`,
    after `most_seconds`, or after `most_epochs`.
    """
    small = make_problem(data, features, label, lam, mu, rows=WARM)
    solve(small, _method(solver, options), tol=0.0, max_epochs=2)
    problem = make_problem(data, features, label, lam, mu)
    columns: dict[str, list[float]] = {
        name: [] for name in ("seconds", "epoch", "primal", "dual", "nonzero_primal", "nonzero_dual")
    }
    best, spent, epoch = -np.inf, 0.0, 0
    with small_products_on_one_thread(problem.size):
        began = time.process_time()
        method = resolve(problem, _method(solver, options))
        state = method.init(problem, None, np.random.default_rng(seed))
        spent += time.process_time() - began
        while True:
            point = method.point(problem, state)
            primal, dual = problem.evaluate(point)
            best = max(best, dual.value)
            state.relative_gap = (primal - best) / problem.scale
            values = (spent, epoch, primal, best, int(np.count_nonzero(point.w)), int(np.count_nonzero(dual.a)))
            for column, value in zip(columns.values(), values, strict=True):
                column.append(float(value))
            share = max(spent / most_seconds, epoch / most_epochs)
            report(min(share, 1.0))
            if share >= 1.0 or state.relative_gap <= tol or state.stalled:
                break
            look = LOOKS * spent if epoch >= FIRST else 0.0
            began, stop = time.process_time(), False
            while not stop:
                method.step(problem, state)
                epoch += 1
                gone = time.process_time() - began
                stop = spent + gone >= min(look, most_seconds) or epoch >= most_epochs or state.stalled
            spent += gone
    return {"name": method.name, "n": problem.n, "d": problem.d, **columns}
