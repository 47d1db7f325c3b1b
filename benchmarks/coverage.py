"""Does ``solver="auto"`` certify every standard problem in time? Prints one line for each and a count.

Eleven classification sets x {l1, elastic net} x {0.1, 0.01, 0.001 of alpha_max} x {logistic, smooth hinge, squared hinge} to a
relative gap of 1e-6; the hinge with l2 (alpha = 1/n), with and without intercept, to 1e-4; four regression sets x {lasso,
elastic net, Huber with l1} x the same strengths to 1e-6. Exit code 1 if any is missing.

    python benchmarks/coverage.py [--data DIR] [--only NAME] [--intercept] [--max-seconds 60] [--json FILE]

Data are LIBSVM files in folders as listed in ``SETS`` below. Seconds include whatever a fit had to compile (column "compiled").
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import saddlery as sd
from saddlery.parts import cache_misses

RATIOS = (0.1, 0.01, 0.001)
TOL, HINGE_TOL = 1e-6, 1e-4
COLUMNS = {
    "data": 18, "loss": 13, "penalty": 10, "ratio": 5, "intercept": 9, "solver": 16, "status": 11, "gap": 8, "seconds": 7, "cpu": 7,
    "epochs": 6, "passes": 8, "nonzeros": 8, "compiled": 8,
}  # fmt: skip
FORMS = {"gap": "{:.1e}", "seconds": "{:.2f}", "cpu": "{:.2f}", "passes": "{:.1f}"}


class Set(NamedTuple):
    """A data set: its file, its number of columns, and what becomes of labels and values."""

    file: str
    columns: int
    positive: Callable[[np.ndarray], np.ndarray] | None = lambda y: y > 0
    prepare: Callable[[Any], Any] = lambda X: X


def unit_rows(X: Any) -> Any:
    """Rows scaled to unit length; empty ones stay empty."""
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / np.where(norms > 0.0, norms, 1.0)) @ X)


def dense(X: Any) -> np.ndarray:
    return X.toarray()


SETS = {
    "a9a": Set("a9a/a9a.xz", 123),
    "w8a": Set("w8a/w8a.xz", 300),
    "mushrooms": Set("mushrooms/mushrooms.xz", 112, lambda y: y == 1),
    "ijcnn1": Set("ijcnn1/ijcnn1.bz2", 22),
    "german.numer_scale": Set("german.numer/german.numer_scale.xz", 24),
    "splice": Set("splice/splice.xz", 60),
    "duke": Set("duke/duke.xz", 7129, prepare=dense),
    "leu": Set("leukemia/leu.xz", 7129, prepare=dense),
    "colon-cancer": Set("colon-cancer/colon-cancer.xz", 2000, prepare=dense),
    "news20": Set("news20/news20.bz2", 62061, lambda y: (y >= 2) & (y <= 6), unit_rows),  # comp.* against the rest
    "mnist": Set("mnist/mnist.bz2", 780, lambda y: y == 8, lambda X: X / 255.0),
    "housing": Set("housing/housing_scale", 13, None),
    "bodyfat": Set("bodyfat/bodyfat_scale", 14, None),
    "cpusmall": Set("cpusmall/cpusmall.xz", 12, None),
    "abalone": Set("abalone/abalone_scale.bz2", 8, None),
}


def load(folder: Path, name: str) -> tuple[Any, np.ndarray]:
    """X and y (signs for classification) of a data set."""
    entry = SETS[name]
    data = sd.read_data(folder / entry.file, n_features=entry.columns)
    y = np.asarray(data.y, dtype=np.float64) if entry.positive is None else np.where(entry.positive(data.y), 1.0, -1.0)
    return entry.prepare(data.X), y


def problems(name: str, X: Any, y: np.ndarray, intercept: bool) -> Iterator[tuple[dict[str, Any], Any, float]]:
    """The problems of a set with what is printed of them and the tolerance."""
    regression = SETS[name].positive is None
    losses = ("squared", "huber") if regression else ("logistic", "smooth_hinge", "squared_hinge")
    matrix = sd.LinearProblem(X, y, losses[0], sd.penalties.L2(1.0)).matrix  # normalised once, shared by all
    penalties = {"l1": sd.penalties.L1(1.0), "elasticnet": sd.penalties.ElasticNet(1.0, 0.5)}
    for loss in losses:
        for label in ("l1",) if loss == "huber" else penalties:
            base = sd.LinearProblem(matrix, y, loss, penalties[label], fit_intercept=intercept)
            for ratio in RATIOS:
                about = {"data": name, "loss": loss, "penalty": label, "ratio": ratio, "intercept": intercept}
                yield about, base.with_penalty(penalties[label].scaled(ratio * base.alpha_max())), TOL
    if not regression:
        for b in (False, True):
            about = {"data": name, "loss": "hinge", "penalty": "l2", "ratio": None, "intercept": b}
            yield about, sd.LinearProblem(matrix, y, "hinge", sd.penalties.L2(1.0 / len(y)), fit_intercept=b), HINGE_TOL


def run(about: dict[str, Any], problem: Any, tol: float, max_seconds: float) -> dict[str, Any]:
    """One fit, as a record."""
    compiled, wall, cpu = cache_misses(), time.perf_counter(), time.process_time()
    solution = sd.solve(problem, tol=tol, max_epochs=10**7, max_seconds=max_seconds)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    gap = solution.certificate.relative_gap
    return {
        **about, "solver": solution.solver, "status": solution.status.name, "gap": gap, "seconds": wall, "cpu": cpu,
        "epochs": solution.epochs, "passes": solution.passes, "nonzeros": int(np.count_nonzero(solution.w)),
        "compiled": cache_misses() - compiled, "tol": tol, "alpha": problem.penalty.alpha,
        "certified": bool(gap <= tol and wall <= max_seconds + 1.0),
    }  # fmt: skip


def show(record: dict[str, Any]) -> str:
    """A line of the table."""
    words: dict[Any, str] = {None: "-", True: "yes", False: "no"}
    texts = []
    for name, width in COLUMNS.items():
        value = record[name]
        plain = value is None or isinstance(value, bool)
        texts.append((words[value] if plain else FORMS.get(name, "{}").format(value)).ljust(width))
    return " ".join(texts).rstrip() + ("" if record["certified"] else "  MISSING")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=folder, help="folder of the data sets (../shared/data)")
    parser.add_argument("--only", action="append", metavar="NAME", help="a data set, loss or penalty; may be given again")
    parser.add_argument("--intercept", action="store_true", help="fit an intercept (the hinge is fitted both ways in any case)")
    parser.add_argument("--max-seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records there")
    options = parser.parse_args(arguments)
    wanted = set(options.only or ())
    chosen = [name for name in SETS if not wanted & set(SETS) or name in wanted]
    others = wanted - set(SETS)
    records: list[dict[str, Any]] = []
    print(" ".join(name.ljust(width) for name, width in COLUMNS.items()).rstrip())
    for name in chosen:
        X, y = load(options.data, name)
        for about, problem, tol in problems(name, X, y, options.intercept):
            if not others or {about["loss"], about["penalty"]} & others:
                records.append(run(about, problem, tol, options.max_seconds))
                print(show(records[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n")
    certified = sum(record["certified"] for record in records)
    slowest = max((record["seconds"] for record in records), default=0.0)
    print(f"{certified} of {len(records)} certified; the slowest took {slowest:.1f} s")
    return 0 if certified == len(records) else 1


if __name__ == "__main__":
    raise SystemExit(main())
