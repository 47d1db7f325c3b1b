"""The F-score game: certified gaps against time, small and large, and test scores beside logistic regression.

Run: OMP_NUM_THREADS=1 python benchmarks/fscore.py [--data DIR] [--bars] [--table] [--quick]

``--bars`` measures how fast gaps are certified: the paper's synthetic game (n = 100, smoothing 1), the same law at n = 2,000, and
the
game without smoothing on ijcnn1 (100,000 rows of both files) and w8a (49,749 rows), certificate included. ``--table`` compares mean
test F1 over ten splits with logistic regression, with and without tuned thresholds. Without either, both. Results go to
``results/fscore.md``. Seconds are those of the processor, compilation not included.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

import saddlery as sd
from saddlery.data import read_data
from saddlery.estimators.fscore import best_threshold
from saddlery.experiments.fscore_runs import split_data

RESULTS = Path(__file__).parent / "results" / "fscore.md"
KEPT = Path(__file__).parent / "results" / "fscore.json"
STRENGTHS_C = (0.1, 1.0, 10.0, 100.0)
ALPHAS = (1e-3, 1e-4)
FOLDS = 3


# --------------------------------------------------------------------------- data


def read(folder: Path, *files: str, columns: int) -> tuple[Any, np.ndarray]:
    """All rows of some files, and their labels."""
    parts = [read_data(folder / file, n_features=columns, format="svmlight") for file in files]
    return sp.csr_array(sp.vstack([part.X for part in parts])), np.concatenate([np.asarray(part.y, dtype=float) for part in parts])


def standardised(X: Any) -> np.ndarray:
    """Dense, each column with mean 0 and variance 1."""
    X = X.toarray()
    spread = X.std(axis=0)
    return np.ascontiguousarray((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def load(name: str, folder: Path) -> tuple[Any, np.ndarray]:
    """X and 0/1 labels: "ijcnn1" as it is, "ijcnn1 standardised", "w8a", "a9a", "satimage" (class 4 against the rest)."""
    if name.startswith("ijcnn1"):
        X, y = read(folder, "ijcnn1/ijcnn1.bz2", "ijcnn1/ijcnn1.t.bz2", columns=22)
        return (standardised(X) if "standardised" in name else X.toarray()), (y > 0).astype(float)
    if name == "satimage":
        X, y = read(folder, "satimage/satimage_raw.xz", "satimage/satimage_raw.t.xz", columns=36)
        return standardised(X), (y == 4).astype(float)
    files = {"w8a": ("w8a/w8a.xz",), "w8a all": ("w8a/w8a.xz", "w8a/w8a.t.xz"), "a9a": ("a9a/a9a.xz",)}[name]
    X, y = read(folder, *files, columns=300 if name.startswith("w8a") else 123)
    return X, (y > 0).astype(float)


# --------------------------------------------------------------------------- bars


def small_games(quick: bool) -> list[str]:
    """The paper's law with smoothing 1, by extragradient."""
    lines = [
        "| n | seed | certified gap | iterations | seconds |",
        "|---|---|---|---|---|",
    ]
    for n, seed, tol in [(100, 0, 1e-6), (100, 1, 1e-6), (100, 2, 1e-6), *([] if quick else [(2000, 0, 1e-4)])]:
        split = split_data(None, [n // 2, n // 2], [1, 1], seed)
        problem = sd.FScoreProblem(split.X, split.y, 0.1, smoothing=1.0)
        began = time.process_time()
        done = sd.solve(problem, "extragradient", tol=0.0, callbacks=[lambda record, tol=tol: record.gap <= tol])
        seconds = time.process_time() - began
        lines.append(f"| {n:,} | {seed} | {done.certificate.gap:.1e} | {done.trace[-1].counts['iterations']} | {seconds:.2f} |")
    return lines


def large_games(folder: Path, quick: bool) -> list[str]:
    """The game without smoothing, until its gap is certified to be at most the mark; all stages are shown."""
    lines = [
        "| data | n, d | alpha | guaranteed F less penalty | gap, seconds of each certificate |",
        "|---|---|---|---|---|",
    ]
    cells: list[tuple[str, int, float]] = [
        ("ijcnn1", 100_000, 1e-3),
        ("ijcnn1 standardised", 100_000, 1e-3),
        ("ijcnn1 standardised", 100_000, 1e-4),
        ("w8a", 49_749, 1e-3),
        ("w8a", 49_749, 1e-4),
        ("a9a", 32_561, 1e-3),
        ("satimage", 6_435, 1e-3),
    ]
    for name, n, alpha in cells[:1] if quick else cells:
        X, y = load(name, folder)
        if n < X.shape[0]:
            rows = np.random.default_rng(0).permutation(X.shape[0])[: 5_000 if quick else n]
            X, y = X[rows], y[rows]
        problem = sd.FScoreProblem(X, y, alpha, fit_intercept=True)
        stages: list[str] = []
        began = time.process_time()

        def note(record: Any, began: float = began, stages: list[str] = stages) -> bool:
            seconds = time.process_time() - began
            if record.epoch:
                stages.append(f"{record.gap:.1e} ({seconds:.1f})")
            return seconds > 45.0

        done = sd.solve(problem, tol=0.0, max_epochs=3, callbacks=[note])
        seconds = time.process_time() - began  # with the last certificate, computed afresh
        low, high = -done.certificate.primal, -done.certificate.dual
        shape = f"{X.shape[0]:,}, {X.shape[1]}"
        lines.append(f"| {name} | {shape} | {alpha:g} | {low:.5f} to {high:.5f} | {', '.join(stages)}; end {seconds:.1f} |")
        print(lines[-1], flush=True)
    return lines


# --------------------------------------------------------------------------- test scores


def out_of_fold(make: Any, X: Any, y: np.ndarray, seed: int) -> np.ndarray:
    """Scores of rows by models that were fitted without them."""
    scores = np.empty(y.size)
    for train, held_out in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(y.size), y):
        scores[held_out] = make().fit(X[train], y[train]).decision_function(X[held_out])
    return scores


def tuned(makers: list[Any], X: Any, y: np.ndarray, seed: int) -> tuple[Any, float]:
    """The maker and the threshold whose out-of-fold scores have the largest F1."""
    best: tuple[float, Any, float] = (-1.0, None, 0.0)
    for make in makers:
        scores = out_of_fold(make, X, y, seed)
        t = best_threshold(scores, y > 0)
        best = max(best, (f1_score(y, scores > t), make, t), key=lambda entry: entry[0])
    return best[1], best[2]


def scores_of_split(X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int) -> dict[str, Any]:
    """F1 on the test rows of all methods, and seconds of the processor."""
    out: dict[str, Any] = {}

    def judge(name: str, values: np.ndarray, t: float, seconds: float) -> None:
        out[name] = (float(f1_score(y[test], values > t, zero_division=0.0)), seconds)

    def logistic(C: float) -> Any:
        return lambda: LogisticRegression(C=C, max_iter=300)

    def ours(alpha: float) -> Any:
        return lambda: sd.FScoreClassifier(alpha=alpha, tol=3e-2)

    for kind, makers, plain in (
        ("logistic", [logistic(C) for C in STRENGTHS_C], logistic(1.0)),
        ("F-score", [ours(alpha) for alpha in ALPHAS], ours(ALPHAS[-1])),
    ):
        began = time.process_time()
        model = plain().fit(X[train], y[train])
        judge(f"{kind}, threshold 0", model.decision_function(X[test]), 0.0, time.process_time() - began)
        began = time.process_time()
        make, t = tuned(makers, X[train], y[train], seed)
        model = make().fit(X[train], y[train])
        values = model.decision_function(X[test])
        judge(f"{kind}, tuned", values, t, time.process_time() - began)
        if kind == "F-score":
            began = time.process_time()
            out["F-score, sets"] = (float(f1_score(y[test], model.predict_set(X[test]))), time.process_time() - began)
    return out


def comparison(folder: Path, quick: bool, rows: int = 2000, most_test: int = 20_000) -> list[str]:
    """Mean F1 over splits."""
    names = ["logistic, threshold 0", "logistic, tuned", "F-score, threshold 0", "F-score, tuned", "F-score, sets"]
    lines = ["| data (train, test, positives) | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    times = dict.fromkeys(names, 0.0)
    splits = 2 if quick else 10
    for name in ("satimage",) if quick else ("w8a all", "ijcnn1 standardised", "satimage"):
        X, y = load(name, folder)
        found: dict[str, list[float]] = {method: [] for method in names}
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(y.size)
            train, test = order[:rows], order[rows : rows + most_test]
            for method, (score, seconds) in scores_of_split(X, y, train, test, seed).items():
                found[method].append(score)
                times[method] += seconds
        cells = [f"{np.mean(found[method]):.3f} ± {np.std(found[method]):.3f}" for method in names]
        head = f"{name} ({rows:,}, {min(most_test, y.size - rows):,}, {100 * y.mean():.1f} %)"
        lines.append("| " + " | ".join([head, *cells]) + " |")
        print(lines[-1], flush=True)
    count = splits * (1 if quick else 3)
    lines.append("| seconds per split, tuning included | " + " | ".join(f"{times[method] / count:.2f}" for method in names) + " |")
    return lines


# --------------------------------------------------------------------------- report


def warm_up() -> None:
    """Compile what is timed later."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((220, 3)), np.repeat([0.0, 1.0], 110)
    sd.solve(sd.FScoreProblem(X, y, 0.1, fit_intercept=True), tol=0.5, max_epochs=1)
    sd.solve(sd.FScoreProblem(sp.csr_array(X), y, 0.1, fit_intercept=True), tol=0.5, max_epochs=1)
    sd.solve(sd.FScoreProblem(X[:20], np.repeat([0.0, 1.0], 10), 0.1, smoothing=1.0), tol=1e-2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the LIBSVM files")
    parser.add_argument("--bars", action="store_true", help="only how fast gaps are certified")
    parser.add_argument("--table", action="store_true", help="only the comparison of test scores")
    parser.add_argument("--quick", action="store_true", help="less of everything; nothing is written")
    options = parser.parse_args()
    both = options.bars == options.table
    warm_up()
    parts: dict[str, list[str]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if options.bars or both:
        parts["small"] = small_games(options.quick)
        print("\n".join(parts["small"]), flush=True)
        parts["large"] = large_games(options.data, options.quick)
    if options.table or both:
        parts["table"] = comparison(options.data, options.quick)
        print("\n".join(parts["table"]), flush=True)
    if options.quick:
        return
    KEPT.write_text(json.dumps(parts, indent=1) + "\n")
    text = ["# The F-score game", "", "`OMP_NUM_THREADS=1 python benchmarks/fscore.py --data DIR`; seconds of one processor.", ""]
    for key, title in (
        ("small", "## Smoothed, smoothing 1, alpha 0.1, the paper's synthetic law (200 features), by `extragradient`"),
        (
            "large",
            "## Without smoothing, free intercept, by `double_oracle`; every gap is certified for all labellings of all rows",
        ),
        ("table", "## Mean test F1 over 10 splits (± standard deviation)"),
    ):
        if key in parts:
            text += [title, "", *parts[key], ""]
    RESULTS.write_text("\n".join(text))


if __name__ == "__main__":
    main()
