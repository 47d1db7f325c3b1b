"""From the arrays that people have: the same raw array given to us and to scikit-learn, validation and all conversions timed.

`peers.py` gives everyone the favourite format outside of the timing. Here nobody gets that: each fit starts from CSR, CSC, a C- or
a Fortran-ordered array, in double or single precision, with short or long indices, and what it must check, copy or turn is part of
its time. Ours are ``sd.solve(sd.LinearProblem(X, y, ...))`` and the estimator; the peer is scikit-learn's own model of the same
objective (LogisticRegression with liblinear or saga, LinearSVC, Lasso, ElasticNet), the fastest of its settings whose solution is
within the target of the optimum, without a certificate. No intercept: liblinear would penalise it.

Times are CPU milliseconds, medians of interleaved rounds. Sparse matrices are wrapped anew for each fit (outside of the timing), so
that nobody finds the answer to a check that SciPy has kept from the fit before.
"""

from __future__ import annotations

import argparse
import math
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import scipy.sparse as sp

import saddlery as sd

TARGET = 1e-6  # of the optimum
SLOW = 30.0  # a ladder ends with a fit that took so many times ours
TOLERANCES = [10.0**-k for k in range(1, 13)]
EPOCHS = [2**k for k in range(2, 12)]
LAYOUTS = ("rows", "columns", "rows-float32", "rows-int64")
CELLS = [
    *(("mushrooms", loss) for loss in ("l1log-0.1", "l2log")),
    *(("a9a", loss) for loss in ("l1log-0.1", "l1log-0.01", "l2log", "hinge", "sqhinge", "lasso-0.1")),
    *(("w8a", loss) for loss in ("l1log-0.1", "l2log", "lasso-0.1")),
    *(("ijcnn1", loss) for loss in ("l1log-0.1", "sqhinge")),
    *(("news20", loss) for loss in ("l1log-0.1", "enlog-0.1", "l2log", "hinge", "lasso-0.1", "lasso-0.01")),
    *(("mnist8", loss) for loss in ("l1log-0.1",)),
    *(("leu", loss) for loss in ("l1log-0.1", "lasso-0.1")),
    *(("housing", loss) for loss in ("lasso-0.1", "enet-0.1")),
    *(("cpusmall", loss) for loss in ("lasso-0.1", "enet-0.1")),
    *(("synth_sparse", loss) for loss in ("l1log-0.1", "l2log")),
    *(("synth_sparse_reg", loss) for loss in ("lasso-0.1", "lasso-0.01", "enet-0.01")),
    *(("synth_dense", loss) for loss in ("l1log-0.1",)),
    *(("synth_dense_reg", loss) for loss in ("lasso-0.1", "enet-0.1")),
]
QUICK = [cell for cell in CELLS if cell[0] in ("mushrooms", "a9a", "leu", "housing", "synth_sparse_reg")]


class Objective(NamedTuple):
    """Mean loss + alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)."""

    loss: str
    alpha: float
    l1_ratio: float

    def value(self, X: Any, y: np.ndarray, w: np.ndarray) -> float:
        """The objective, in plain NumPy."""
        w = np.asarray(w, dtype=np.float64).ravel()
        z = np.asarray(X @ w).ravel()
        losses = {
            "logistic": lambda: np.logaddexp(0.0, -y * z),
            "hinge": lambda: np.maximum(0.0, 1.0 - y * z),
            "squared_hinge": lambda: 0.5 * np.maximum(0.0, 1.0 - y * z) ** 2,
            "squared": lambda: 0.5 * (z - y) ** 2,
        }[self.loss]()
        return float(losses.mean() + self.alpha * (self.l1_ratio * np.abs(w).sum() + 0.5 * (1.0 - self.l1_ratio) * (w @ w)))

    @property
    def penalty(self) -> str:
        """Its name for the estimators."""
        return {1.0: "l1", 0.0: "l2"}.get(self.l1_ratio, "elasticnet")


def objective_of(name: str, X: Any, y: np.ndarray) -> Objective:
    """The objective called so: l1 at a share of the strength at which all weights are zero, l2 at 1 / n."""
    kind, _, share = name.partition("-")
    loss, l1_ratio = {
        "l1log": ("logistic", 1.0),
        "enlog": ("logistic", 0.5),
        "l2log": ("logistic", 0.0),
        "hinge": ("hinge", 0.0),
        "sqhinge": ("squared_hinge", 0.0),
        "lasso": ("squared", 1.0),
        "enet": ("squared", 0.5),
    }[kind]
    if l1_ratio == 0.0:
        return Objective(loss, 1.0 / len(y), 0.0)
    slopes = -0.5 * y if loss == "logistic" else -y
    return Objective(loss, float(share) * float(np.abs(X.T @ slopes).max()) / len(y) / l1_ratio, l1_ratio)


def laid_out(X: Any, layout: str) -> Callable[[], Any] | None:
    """What makes the raw array of a layout, at no cost; None if these data have no such layout."""
    order, _, kind = layout.partition("-")
    if kind == "float32":
        X = X.astype(np.float32)
    if not sp.issparse(X):
        array = np.asarray(X, order="C" if order == "rows" else "F")
        return None if kind == "int64" else lambda: array
    whole = X.tocsr() if order == "rows" else X.tocsc()
    index = np.int64 if kind == "int64" else np.int32
    arrays = (whole.data, whole.indices.astype(index), whole.indptr.astype(index))

    def fresh() -> Any:
        out = type(whole)(whole.shape, dtype=whole.dtype)  # a constructor with arrays would shorten the indices
        out.data, out.indices, out.indptr = arrays
        return out

    return fresh


# --------------------------------------------------------------------------- the two sides

Fit = Callable[[Any], np.ndarray]


def ours(objective: Objective, y: np.ndarray, tol: float) -> dict[str, Fit]:
    """Our entry points: from X to weights whose relative gap is certified."""
    strength = (objective.alpha,) if objective.penalty != "elasticnet" else (objective.alpha, objective.l1_ratio)
    penalty = {"l1": sd.penalties.L1, "l2": sd.penalties.L2, "elasticnet": sd.penalties.ElasticNet}[objective.penalty](*strength)
    estimator = sd.LinearRegressor if objective.loss == "squared" else sd.LinearClassifier
    options = {"alpha": objective.alpha, "l1_ratio": objective.l1_ratio, "tol": tol, "max_epochs": 100_000, "random_state": 0}
    model = estimator(loss=objective.loss, penalty=objective.penalty, fit_intercept=False, **options)
    return {
        "solve": lambda X: sd.solve(sd.LinearProblem(X, y, objective.loss, penalty), tol=tol, max_epochs=100_000).w,
        "estimator": lambda X: model.fit(X, y).coef_.ravel(),
    }


def scikit(objective: Objective, y: np.ndarray) -> dict[str, Iterator[Fit]]:
    """Settings of each of scikit-learn's models of the objective, ever more accurate."""
    from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression
    from sklearn.svm import LinearSVC

    C = 1.0 / (objective.alpha * len(y))
    plain = {"fit_intercept": False, "random_state": 0}

    def ladder(make: Callable[[Any], Any], settings: list[Any]) -> Iterator[Fit]:
        for setting in settings:
            yield lambda X, setting=setting: make(setting).fit(X, y).coef_.ravel()

    def logistic(solver: str, **options: Any) -> Callable[[Any], Any]:
        return lambda setting: LogisticRegression(
            C=C,
            l1_ratio=objective.l1_ratio,
            solver=solver,
            **plain,
            **options,
            **({"max_iter": setting, "tol": 1e-14} if isinstance(setting, int) else {"max_iter": 100_000, "tol": setting}),
        )

    if objective.loss == "logistic":
        out = {"saga": ladder(logistic("saga"), EPOCHS)}
        if objective.penalty != "elasticnet":
            out["liblinear"] = ladder(logistic("liblinear"), TOLERANCES)
        if objective.penalty == "l2":
            out["liblinear-dual"] = ladder(logistic("liblinear", dual=True), TOLERANCES)
            out["lbfgs"] = ladder(logistic("lbfgs"), TOLERANCES)
        return out
    if objective.loss in ("hinge", "squared_hinge"):
        name, factor = ("hinge", 1.0) if objective.loss == "hinge" else ("squared_hinge", 0.5)
        return {
            f"LinearSVC{'-dual' * dual}": ladder(
                lambda tol, dual=dual: LinearSVC(C=factor * C, loss=name, dual=dual, tol=tol, max_iter=1_000_000, **plain),
                TOLERANCES,
            )
            for dual in (False, True)
            if dual or name == "squared_hinge"
        }
    rounds = {"fit_intercept": False, "max_iter": 1_000_000}
    if objective.penalty == "l1":
        return {"Lasso": ladder(lambda tol: Lasso(objective.alpha, tol=tol, **rounds), TOLERANCES)}
    return {
        "ElasticNet": ladder(lambda tol: ElasticNet(objective.alpha, l1_ratio=objective.l1_ratio, tol=tol, **rounds), TOLERANCES)
    }


# --------------------------------------------------------------------------- times


def timed(fit: Fit, fresh: Callable[[], Any]) -> tuple[float, np.ndarray]:
    """CPU milliseconds of one fit, and its weights; small ones are repeated, behind one that warms the caches."""
    times = []
    while not times or (sum(times) < 20.0 and len(times) < 50):
        X = fresh()
        began = time.process_time()
        w = fit(X)
        times.append(1e3 * (time.process_time() - began))
    return float(np.median(times[1:] or times)), w


def best_setting(settings: Iterator[Fit], fresh: Callable[[], Any], good: Callable[[np.ndarray], bool], limit: float) -> Fit | None:
    """The first of a ladder that is good enough; None if none is before the limit in milliseconds."""
    for fit in settings:
        try:
            spent, w = timed(fit, fresh)
        except ValueError:  # liblinear takes no long indices
            return None
        if good(w):
            return fit
        if spent > limit:
            return None
    return None


class Row(NamedTuple):
    """One line of the table; nan where nothing arrived."""

    cell: str
    layout: str
    solve: float
    estimator: float
    peer: float
    name: str

    def __str__(self) -> str:
        ratio = self.peer / self.estimator
        peer = f"{self.peer:.3g}" if math.isfinite(self.peer) else "-"
        shown = f"{ratio:.2f}" if math.isfinite(ratio) else "-"
        return f"| {self.cell} | {self.layout} | {self.solve:.3g} | {self.estimator:.3g} | {peer} | {self.name} | {shown} |"


def measure(cell: str, layout: str, fresh: Callable[[], Any], y: np.ndarray, name: str, rounds: int) -> Row:
    """Times of one cell in one layout."""
    X = fresh()
    exact = X.astype(np.float64)  # the objective of these very numbers
    objective = objective_of(name, exact, y)
    first = sd.LinearProblem(exact, y, objective.loss, sd.penalties.L2(1.0))
    loose = ours(objective, y, 1e-4)["solve"](exact)
    share = objective.value(exact, y, loose) / first.scale  # the target is relative to the optimum, gaps to the constant model
    optimum = objective.value(exact, y, ours(objective, y, 1e-3 * TARGET * share)["solve"](exact))
    fits = ours(objective, y, TARGET * share)

    def good(w: np.ndarray) -> bool:
        return objective.value(exact, y, w) <= optimum * (1.0 + TARGET)

    for fit in fits.values():
        timed(fit, fresh)
    limit = SLOW * max(timed(fits["estimator"], fresh)[0], 1.0)
    peers = {peer: best_setting(settings, fresh, good, limit) for peer, settings in scikit(objective, y).items()}
    everyone = {**fits, **{peer: fit for peer, fit in peers.items() if fit is not None}}
    times: dict[str, list[float]] = {who: [] for who in everyone}
    for _ in range(rounds):
        for who, fit in everyone.items():
            spent, w = timed(fit, fresh)
            assert good(w) or who in peers, f"{who} did not arrive on {cell}"
            times[who].append(spent)
    medians = {who: float(np.median(values)) for who, values in times.items()}
    rivals = {who: spent for who, spent in medians.items() if who in peers}
    best = min(rivals, key=lambda who: rivals[who], default="-")
    return Row(cell, layout, medians["solve"], medians["estimator"], rivals.get(best, math.nan), best)


def report(rows: list[Row]) -> str:
    """The table, and the geometric mean of the ratios of each layout."""
    lines = ["| cell | layout | solve, ms | estimator, ms | scikit-learn, ms | model | scikit-learn / estimator |"]
    lines += ["|---|---|---|---|---|---|---|", *map(str, rows), ""]
    for layout in LAYOUTS:
        ratios = [row.peer / row.estimator for row in rows if row.layout == layout and math.isfinite(row.peer)]
        if ratios:
            mean, behind = math.exp(np.mean(np.log(ratios))), sum(ratio < 1.0 for ratio in ratios)
            lines.append(f"- {layout}: geometric mean {mean:.2f} over {len(ratios)}, least {min(ratios):.2f}, behind in {behind}")
    return "\n".join(lines)


def main() -> None:
    """Print the table line by line, and write it."""
    parser = argparse.ArgumentParser(description="From raw arrays, ours beside scikit-learn.")
    shared = Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=shared, metavar="DIR", help="the data sets, as for peers.py")
    parser.add_argument("--cells", default="", help="regular expression for data:objective")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS[:2]), help="which raw arrays")
    parser.add_argument("--quick", action="store_true", help="few data sets, three rounds")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "raw.md", help="where the table goes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, loaded = [], ("", (None, np.empty(0)))
    for name, objective in QUICK if options.quick else CELLS:
        cell = f"{name}:{objective}"
        if not re.search(options.cells, cell):
            continue
        if loaded[0] != name:
            loaded = (name, datasets.load(name, options.data))
        X, y = loaded[1]
        for layout in options.layouts:
            fresh = laid_out(X, layout)
            if fresh is not None:
                rows.append(measure(cell, layout, fresh, y, objective, 3 if options.quick else 5))
                print(rows[-1], flush=True)
    text = report(rows)
    print(text[text.rfind("|") + 1 :].strip())
    command = f"python benchmarks/raw.py{' --quick' * options.quick}"
    head = f"# From raw arrays\n\nWritten by `{command}`; `benchmarks/README.md` says how to read it. "
    head += f"CPU times of one thread to {TARGET:g} of the optimum.\n\n"
    options.output.write_text(head + text + "\n")


if __name__ == "__main__":
    main()
