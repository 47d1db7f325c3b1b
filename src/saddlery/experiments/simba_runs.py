"""What the experiment of Hazan, Koren and Srebro (2011) computes: test error against entries of X that were read.

Entries are counted twice: *dense* takes a row for d entries and a column for n, zeros included, and *non-zero* counts those that
are stored. Nothing but the reads of the method is counted: the test error is looked at from outside.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from saddlery.experiments.topics import Topics, rare_shares
from saddlery.matrix import Matrix, as_matrix
from saddlery.penalties.l2 import L2
from saddlery.problems.linear import LinearProblem
from saddlery.problems.slack_svm import SlackSVMProblem
from saddlery.registry import SOLVERS
from saddlery.solvers.subsampled import subsampled

__all__ = ["curve", "split_rows", "topics_of"]

SPLIT_SEED = 0
EXACT_TOL = 1e-3  # relative gap of the exact solver: its error on test rows does not change below

Report = Callable[[float], None]


class Split(NamedTuple):
    """Rows to learn from, and the share of others that weights get wrong."""

    matrix: Matrix
    y: np.ndarray
    error: Callable[[np.ndarray, float], float]


def split_rows(X: Any, y: np.ndarray, train: int) -> Split:
    """The first `train` rows of a fixed permutation to learn from, the others to test; rows have norm 1 at most."""
    order = np.random.default_rng(SPLIT_SEED).permutation(X.shape[0])
    X = sp.csr_array(X)
    X = X / np.sqrt(X.multiply(X).sum(axis=1).max())
    inside, outside = X[order[:train]], X[order[train:]]
    y_inside, y_outside = y[order[:train]], y[order[train:]]
    return Split(as_matrix(inside), y_inside, lambda w, b: float(np.mean(np.where(outside @ w + b > 0.0, 1.0, -1.0) != y_outside)))


@functools.lru_cache(maxsize=1)
def topics_of(n: int, common: int, rare: int, mass: float, in_memory: bool) -> Split:
    """Topics with n rows and columns, in memory or on demand."""
    X = Topics(n, n, rare_shares(common, rare, mass), seed=SPLIT_SEED)
    return Split(as_matrix(X.array() if in_memory else X), X.y, X.error)


def _split(data: Any, source: dict[str, Any]) -> Split:
    if data is None:
        return topics_of(**source)
    X, y = data
    if source["unit_rows"]:
        X = sp.csr_array(X)
        X = sp.diags_array(1.0 / np.sqrt(X.multiply(X).sum(axis=1))) @ X
    return split_rows(X, y, source["train"])


class _Curve:
    """Errors at the marks: each is looked at as soon as so many entries have been read, zeros counted."""

    def __init__(self, marks: Sequence[float], error: Callable[[np.ndarray, float], float], report: Report):
        self.marks, self.error, self.report = list(marks), error, report
        self.columns: dict[str, list[float]] = {name: [] for name in ("dense", "nonzero", "distinct", "error", "steps", "seconds")}
        self.began = time.process_time()

    @property
    def is_done(self) -> bool:
        return len(self.columns["error"]) == len(self.marks)

    def is_due(self, dense: float) -> bool:
        return not self.is_done and dense >= self.marks[len(self.columns["error"])]

    def add(self, w: np.ndarray, b: float, **values: float) -> None:
        """Note the error of (w, b) for all marks that have been passed."""
        values["seconds"] = time.process_time() - self.began
        values["error"] = self.error(w, b)
        while self.is_due(values["dense"]):
            for name, column in self.columns.items():
                column.append(float(values[name]))
        self.report(len(self.columns["error"]) / len(self.marks))
        self.began = time.process_time() - values["seconds"]  # the look at test rows is not the method's time


def curve(
    data: Any,
    report: Report,
    *,
    source: dict[str, Any],
    method: str,
    options: dict[str, Any],
    value: float,
    passes: Sequence[float],
    seed: int,
) -> dict[str, Any]:
    """The curve of one method with the trade-off `value` (slack of `simba`, alpha of the others), at so many passes over X."""
    split = _split(data, source)
    n, d = split.matrix.shape
    out = _Curve([share * n * d for share in passes], split.error, report)
    if method == "subsample":
        _subsample(split, value, out, seed)
    else:
        _walk(split, method, options, value, out, seed)
    return {"n": n, "d": d, "nnz": split.matrix.nnz, **out.columns}


def _walk(split: Split, method: str, options: dict[str, Any], value: float, out: _Curve, seed: int) -> None:
    """Steps of a solver, its point looked at whenever a mark is passed."""
    matrix, y = split.matrix, split.y
    problem: Any
    if method == "simba":
        problem = SlackSVMProblem(matrix, y, slack=value, form=options.get("form", "capped"), fit_intercept=False)
    else:
        problem = LinearProblem(matrix, y, "hinge", L2(value))
    solver = SOLVERS.get(method)(**{name: option for name, option in options.items() if name != "form"})
    state = solver.init(problem, None, np.random.default_rng(seed))
    while not out.is_done:
        mark = out.marks[len(out.columns["error"])]
        if method == "pegasos" or not matrix.is_sparse:  # a mark can be met to a row or a batch, unless columns differ in length
            state.access_limit = max(mark * matrix.nnz / (matrix.shape[0] * matrix.shape[1]), state.accesses + 1.0)
        solver.step(problem, state)
        counts = state.counts
        if out.is_due(counts["dense_accesses"]):
            point = solver.point(problem, state)
            out.add(
                point.w,
                float(point.b),
                dense=counts["dense_accesses"],
                nonzero=counts["accesses"],
                distinct=counts["distinct_accesses"],
                steps=counts["iterations"],
            )


def _subsample(split: Split, alpha: float, out: _Curve, seed: int) -> None:
    """Exact fits of the first rows of a random order, as many as a mark allows for."""
    n, d = split.matrix.shape
    problem = LinearProblem(split.matrix, split.y, "hinge", L2(alpha))
    for mark in out.marks:
        rows = min(max(2, math.ceil(mark / d)), n)
        solution, read = subsampled(problem, rows, seed, "sdca", tol=EXACT_TOL, max_epochs=200)
        out.add(solution.w, 0.0, dense=max(mark, float(rows * d)), nonzero=read, distinct=read, steps=rows)
