"""All classes at once, against the peers: CPU seconds to the same objective value, ours with a certificate and theirs without.

Cells: softmax with l1 against scikit-learn's saga and cyanure; hinge with l2 against liblinear's Crammer-Singer; hinge with l1 and
the synthetic problem of the paper of the sublinear solver, which nobody else solves. Ours is the time of one solve, conversion of
the data and certificate included, until the relative gap is certified. A peer is run with a ladder of settings; its time is that of
the first fit whose objective is within the same distance of the optimum, whatever it says itself. Strengths: shares of alpha_max.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from constraints import table
from scipy.special import logsumexp

import saddlery as sd
from saddlery.data import read_data

FILES = {
    "dna": ("dna/dna.scale.xz", 180),
    "letter": ("letter/letter.scale.xz", 16),
    "satimage": ("satimage/satimage_raw.xz", 36),
    "isolet1560": ("isolet1560/isolet1560.xz", 617),
    "news20": ("news20/news20.bz2", 62061),
    "mnist": ("mnist/mnist.bz2", 780),
}
SPARSE = ("news20", "mnist")
FIT_SECONDS = 60.0  # a ladder ends with the first fit that took longer
LADDER = 60.0  # or with the first that took so many times our time


class Cell(NamedTuple):
    """One problem: the penalty is l1 at a share of alpha_max, or l2 at 1 / n (liblinear's C = 1)."""

    data: str
    loss: str
    penalty: str
    share: float
    tol: float

    @property
    def name(self) -> str:
        return f"{self.data} {self.loss} {self.penalty}{f' {self.share:g}' if self.share else ''}"


SOFTMAX = [Cell(name, "logistic", "l1", share, 1e-4) for name in FILES for share in (0.1, 0.01)]
HINGE_L1 = [Cell(name, "hinge", "l1", 0.1, 1e-6) for name in ("digits", "dna", "satimage")]
HINGE_L2 = [Cell(name, "hinge", "l2", 0.0, 1e-4) for name in ("digits", "dna", "satimage", "letter", "isolet1560", "news20")]
PAPER = [Cell(f"synthetic{size}", "hinge", "fixed", 0.0, 1e-2) for size in (200, 1000)]
CELLS = [*SOFTMAX, *HINGE_L1, *HINGE_L2, *PAPER]
QUICK = [cell for cell in CELLS if cell.data in ("dna", "satimage", "digits", "synthetic200")]


def load(name: str, folder: str) -> tuple[Any, np.ndarray]:
    """Data and classes from 0: news20 with unit rows, mnist divided by 255, satimage scaled to [-1, 1]."""
    if name.startswith("synthetic"):
        size, rng = int(name.removeprefix("synthetic")), np.random.default_rng(0)
        X = rng.standard_normal((size, size))
        return X, np.argmax(X + rng.standard_normal((size, size)) / math.sqrt(size), axis=1)
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X / 16.0, y
    file, columns = FILES[name]
    data = read_data(Path(folder) / file, n_features=columns)
    X, y = sp.csr_array(data.X).astype(np.float64), np.unique(data.y, return_inverse=True)[1]
    if name == "news20":
        norms = np.sqrt(X.multiply(X).sum(axis=1))
        X = sp.csr_array(X.multiply(1.0 / np.where(norms > 0.0, norms, 1.0)[:, None]))
    if name == "mnist":
        X = X / 255.0
    if name in SPARSE:
        return sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape), y
    X = X.toarray()
    if name == "satimage":
        low, high = X.min(axis=0), X.max(axis=0)
        X = 2.0 * (X - low) / (high - low) - 1.0
    return np.ascontiguousarray(X), y


def problem_of(cell: Cell, X: Any, y: np.ndarray) -> sd.MulticlassProblem:
    """The problem of a cell; alpha_max is that of softmax for the hinge too."""
    return sd.MulticlassProblem(X, y, loss=cell.loss, penalty=penalty_of(cell, X, y), n_classes=classes_of(cell, X, y))


def classes_of(cell: Cell, X: Any, y: np.ndarray) -> int:
    """The number of classes."""
    return X.shape[1] if cell.penalty == "fixed" else int(y.max()) + 1


def penalty_of(cell: Cell, X: Any, y: np.ndarray) -> Any:
    """The penalty of a cell; it is given to all, so that the time to find alpha_max is nobody's."""
    if cell.penalty == "l1":
        k = classes_of(cell, X, y)
        return sd.penalties.L1(cell.share * float(np.abs(X.T @ (1.0 / k - np.eye(k)[y])).max()) / len(y))
    return sd.penalties.L2(1.0 / len(y)) if cell.penalty == "l2" else sd.penalties.L1(1e-3)


def objective(problem: sd.MulticlassProblem, X: Any, W: np.ndarray) -> float:
    """The objective by plain NumPy."""
    S, rows = X @ W, np.arange(problem.n)
    own = S[rows, problem.codes]
    if problem.loss.smoothness < 1.0:
        loss = float(np.mean(logsumexp(S, axis=1) - own))
    else:
        S = S + 1.0
        S[rows, problem.codes] -= 1.0
        loss = float(np.mean(S.max(axis=1) - own))
    l1, l2 = problem.penalty.threshold, problem.penalty.strong_convexity
    return loss + l1 * float(np.abs(W).sum()) + 0.5 * l2 * float((W * W).sum())


# --------------------------------------------------------------------------- the peers


def saga(problem: Any, X: Any, y: np.ndarray) -> Iterator[Callable[[], np.ndarray]]:
    """scikit-learn's saga with more and more epochs."""
    from sklearn.linear_model import LogisticRegression

    for epochs in (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 36, 46, 60, 80, 100, 130, 170, 220, 300, 400, 550, 750, 1000):
        model = LogisticRegression(
            penalty="l1",
            C=1.0 / (problem.penalty.alpha * problem.n),
            solver="saga",
            fit_intercept=False,
            max_iter=epochs,
            tol=1e-15,
            random_state=0,
        )
        yield lambda model=model: model.fit(X, y).coef_.T


def cyanure(problem: Any, X: Any, y: np.ndarray) -> Iterator[Callable[[], np.ndarray]]:
    """cyanure's default with smaller and smaller tolerances; on large CSR data it breaks, so mnist is given as an array."""
    from cyanure.estimators import Classifier

    values = X.toarray() if sp.issparse(X) and X.shape[1] < 1000 else X
    for tol in (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5):
        options = {"loss": "multiclass-logistic", "penalty": "l1", "lambda_1": problem.penalty.alpha, "fit_intercept": False}
        model = Classifier(**options, tol=tol, max_iter=1000, n_threads=1, verbose=False)
        yield lambda model=model: np.asarray(model.fit(values, y).coef_).reshape(problem.d, problem.k)


def liblinear(problem: Any, X: Any, y: np.ndarray) -> Iterator[Callable[[], np.ndarray]]:
    """liblinear -s 4 with smaller and smaller tolerances; conversion of the data is not counted."""
    from liblinear import liblinear as native
    from liblinear import liblinearutil as tools

    data = native.problem(y.astype(float), sp.csr_matrix(X))

    def fit(tol: float) -> np.ndarray:
        model = tools.train(data, native.parameter(f"-s 4 -c 1 -e {tol} -q"))
        W = np.array(model.w[: problem.d * problem.k]).reshape(problem.d, problem.k)
        return W[:, np.argsort(np.array(model.get_labels()))]

    for tol in (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4):
        yield lambda tol=tol: fit(tol)


RIVALS = {("logistic", "l1"): {"saga": saga, "cyanure": cyanure}, ("hinge", "l2"): {"liblinear": liblinear}}


# --------------------------------------------------------------------------- measuring


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds and the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        result = function()
        return time.process_time() - began, result


def climb(ladder: Iterator[Callable[[], np.ndarray]], goal: float, value: Callable[[np.ndarray], float], most: float) -> float:
    """CPU seconds of the first rung whose objective is at most `goal`, the better of two runs if short; infinity if none is."""
    for fit in ladder:
        seconds, W = timed(fit)
        reached = value(W) <= goal
        if reached:
            return min(seconds, timed(fit)[0]) if seconds < 1.0 else seconds
        if seconds > most:
            break
    return math.inf


def measure(cell: Cell, folder: str, repeats: int) -> list[str]:
    """A row of the table."""
    X, y = load(cell.data, folder)
    penalty, k = penalty_of(cell, X, y), classes_of(cell, X, y)

    def solve() -> Any:
        problem = sd.MulticlassProblem(X, y, loss=cell.loss, penalty=penalty, n_classes=k)
        return sd.solve(problem, tol=cell.tol, max_epochs=100_000)

    solve()  # compile
    ours, solution = math.inf, None  # the last one only: each that is kept makes the next run ask the system for fresh memory
    for _ in range(repeats):
        seconds, solution = timed(solve)
        ours = min(ours, seconds)
    problem = problem_of(cell, X, y)
    optimum = solution.certificate.dual
    if (cell.loss, cell.penalty) in RIVALS:
        optimum = sd.solve(problem, tol=0.02 * cell.tol, max_epochs=100_000, start=solution).certificate.dual
    goal = optimum + cell.tol * problem.scale
    assert objective(problem, X, solution.w) <= goal * (1.0 + 1e-9)
    row = [cell.name, f"{cell.tol:g}", solution.solver, f"{ours:.3f}"]
    most = min(FIT_SECONDS, max(1.0, LADDER * ours))
    times = {}
    for name, rival in RIVALS.get((cell.loss, cell.penalty), {}).items():
        times[name] = climb(rival(problem, X, y), goal, lambda W: objective(problem, X, W), most)
    shown = [f"{times[name]:.3f}" if math.isfinite(times.get(name, math.inf)) else "-" for name in ("saga", "cyanure", "liblinear")]
    ratios = {name: seconds / ours for name, seconds in times.items()}
    row += shown
    row.append(
        ", ".join(
            f"{name} {ratio:.1f}" if math.isfinite(ratio) else f"{name} > {most / ours:.0f}" for name, ratio in ratios.items()
        )
    )
    print(" | ".join(row), flush=True)
    return row


def earlier_rows(file: Path) -> dict[str, list[str]]:
    """The rows of an earlier table, by the names of their cells."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [[part.strip() for part in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    return {row[0]: row for row in rows if row[0] in {cell.name for cell in CELLS}}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data", help="directory of the LIBSVM files")
    parser.add_argument("--output", default="benchmarks/results", help="where multiclass.md goes")
    parser.add_argument("--cells", default="", help="only cells whose name contains this; the other rows of the table stay")
    parser.add_argument("--quick", action="store_true", help="small data, one repetition")
    args = parser.parse_args()
    cells = [cell for cell in (QUICK if args.quick else CELLS) if args.cells in cell.name]
    file = Path(args.output, "multiclass.md")
    known = {} if args.quick or not args.cells else earlier_rows(file)
    for cell in cells:
        known[cell.name] = measure(cell, args.data, 1 if args.quick else 5)
    rows = [known[cell.name] for cell in CELLS if cell.name in known]
    head = ["cell", "relative gap", "our solver", "ours", "saga", "cyanure", "liblinear", "peer / ours"]
    text = f"""# All classes at once

`python benchmarks/multiclass.py{" --quick" if args.quick else ""}` (with `--cells TEXT` for some of the rows), one thread
(`OMP_NUM_THREADS=1`), CPU seconds, warm, on a machine with other work (times vary by 30 %). Ours: to a certified relative gap,
conversion of the data and certificate included. Peers: least time of a ladder of settings to an objective within the same distance
of the optimum, which they need not prove; "-" was not reached within {LADDER:g} times our time or {FIT_SECONDS:g} s a fit.

{table(head, rows)}"""
    file.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
