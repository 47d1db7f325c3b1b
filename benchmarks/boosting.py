"""Boosting as a game on a9a: pairs of products and seconds to a certified gap, test accuracy, and what projections cost and err.

Run: python benchmarks/boosting.py --data DIR        (a folder with a9a/a9a.xz and a9a/a9a.t.xz; about two minutes)
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import saddlery as sd
from saddlery.data import read_data
from saddlery.geometry import CappedSimplex
from saddlery.solvers.breg_svrg import BregSVRG
from saddlery.solvers.extragradient import Extragradient

HERE = Path(__file__).resolve().parent
LEVELS = (1e-2, 1e-4, 1e-6)
OPTIMA = {False: -0.0675378801, True: -0.0431301}  # published, and of the implementer's notes
SETTINGS = [
    ("extragradient", Extragradient(iterations=1)),
    ("breg_svrg, step by sweep", BregSVRG()),
    ("breg_svrg, step 0.4, 40 steps an epoch", BregSVRG(step_size=0.4, epoch_length=40)),
    ("breg_svrg, step 1e-3, 651 steps (paper)", BregSVRG(step_size=1e-3, epoch_length=651)),
]


def certified(problem: Any, solver: Any, most: float) -> list[str]:
    """Effective passes and CPU seconds until each absolute gap is certified, and the bounds at the end."""
    sd.solve(problem, solver, max_epochs=1)  # compile
    began, marks = time.process_time(), {}

    def note(record: Any) -> bool:
        spent = time.process_time() - began
        passes = record.counts.get("effective_passes", record.counts.get("pairs"))
        for level in LEVELS:
            if record.gap <= level:
                marks.setdefault(level, f"{passes:.0f}, {spent:.2f} s")
        return record.gap <= LEVELS[-1] or spent > most

    solution = sd.solve(problem, solver, tol=0.0, max_epochs=10**9, callbacks=[note])
    bounds = f"{-solution.certificate.primal:.10f} to {-solution.certificate.dual:.10f}"
    return [*(marks.get(level, "-") for level in LEVELS), bounds]


def solvers(X: Any, y: np.ndarray, most: float) -> Iterator[str]:
    for complements, known in OPTIMA.items():
        problem = sd.BoostingProblem(X, y, nu=0.1, row_entropy=0.01, weight_entropy=0.01, complements=complements)
        yield f"## a9a, {'with complements' if complements else 'features as they are'}: passes and seconds to a certified gap"
        yield ""
        yield f"| solver | {' | '.join(f'{level:g}' for level in LEVELS)} | value of the game |"
        yield "|---|---|---|---|---|"
        for name, solver in SETTINGS:
            yield f"| {name} | {' | '.join(certified(problem, solver, most))} |"
        best = sd.solve(problem, "extragradient", tol=1e-12, max_epochs=2000).certificate
        yield ""
        value = -best.primal
        yield f"Optimum by extragradient at a gap of {best.gap:.1e}: {value:.12f}; known: {known}, difference {value - known:.1e}."
        yield ""


def accuracies(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Iterator[str]:
    models = {
        "LPBoostClassifier('features')": sd.LPBoostClassifier("features"),
        "LPBoostClassifier('stumps')": sd.LPBoostClassifier("stumps"),
        "LPBoostClassifier('features', complements=False)": sd.LPBoostClassifier("features", complements=False),
        "LogisticRegression()": LogisticRegression(max_iter=1000),
        "AdaBoostClassifier(n_estimators=200), stumps": AdaBoostClassifier(n_estimators=200, random_state=0),
        "HistGradientBoostingClassifier()": HistGradientBoostingClassifier(random_state=0),
    }
    yield "## a9a: accuracy on the 16,281 test rows"
    yield ""
    yield "| model | accuracy | fit, CPU s |"
    yield "|---|---|---|"
    for name, model in models.items():
        dense = isinstance(model, HistGradientBoostingClassifier)
        data, test = (X.toarray(), X_test.toarray()) if dense else (X, X_test)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data[:500], y[:500])  # compile
            began = time.process_time()
            model.fit(data, y)
            spent = time.process_time() - began
        yield f"| `{name}` | {model.score(test, y_test):.4f} | {spent:.1f} |"
    yield ""


def projections() -> Iterator[str]:
    getcontext().prec = 50
    yield "## KL projection onto capped simplices"
    yield ""
    yield "| weights | capped | microseconds | largest error (50 digits) |"
    yield "|---|---|---|---|"
    rng = np.random.default_rng(0)
    for n, room in ((30, 1.3), (1000, 2.0), (32561, 3000.0)):
        logs = rng.standard_normal(n) * 3.0
        player = CappedSimplex(n, room / n, geometry="entropy")
        state, zero = player.start()._replace(log=logs), np.zeros(n)
        new = player.prox(state, zero, 1.0)
        began = time.process_time()
        for _ in range(200):
            player.prox(state, zero, 1.0)
        spent = (time.process_time() - began) / 200 * 1e6
        error = f"{_error(logs, room / n, new.x):.1e}" if n <= 1000 else "-"
        yield f"| {n:,} | {int((new.x >= room / n).sum()):,} | {spent:.0f} | {error} |"
    yield ""


def _error(logs: np.ndarray, cap: float, x: np.ndarray) -> float:
    """Against a bisection in fifty digits."""
    terms, most = [Decimal(float(v)).exp() for v in logs], Decimal(cap)
    low, high = Decimal(0), Decimal(10) ** 9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(min(middle * term, most) for term in terms) < 1 else (low, middle)
    return max(abs(float(min(high * term, most) - Decimal(float(v)))) for term, v in zip(terms, x, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--most-seconds", type=float, default=15.0, help="of each run")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "boosting.md")
    options = parser.parse_args()
    train, test = (read_data(options.data / "a9a" / name, n_features=123) for name in ("a9a.xz", "a9a.t.xz"))
    y, y_test = (np.where(np.asarray(part.y) > 0, 1.0, -1.0) for part in (train, test))
    lines = [
        "# Boosting as a game",
        "",
        "Written by `python benchmarks/boosting.py --data DIR`: entropies 0.01, nu = 0.1, one thread, CPU seconds. A pair of",
        "products is one pass, a step of variance reduction (n + m) / (n m) of one. Gaps are absolute, values have the signs of",
        "the literature.",
        "",
        *solvers(train.X, y, options.most_seconds),
        *accuracies(train.X, y, test.X, y_test),
        *projections(),
    ]
    text = "\n".join(lines).rstrip() + "\n"
    options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
