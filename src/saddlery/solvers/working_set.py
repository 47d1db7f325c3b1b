"""Which columns a round of a working-set method works on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.solvers.working_block import WORTH_SWEEPS, correlates, swept_in_few_bits

__all__ = [
    "FIRST_WIDE",
    "LITTLE",
    "choose_columns",
    "expected_level",
    "lacking_share",
    "level",
    "nearly",
    "pick_columns",
    "takes_near_ones",
]

FIRST_WIDE, FEW = 100, 400  # columns of the smallest working set of wide data, and of sparse data whose columns are cheaper
# Columns of such a set where squares are solved once and for all, if they hold so many times the entries of the few: as with words,
# of which the frequent ones rank first (20,000 x 50,000 lasso at 0.01: 3 -> 2 rounds).
MANY, HOLD = 1000, 1.5
FIRST = 25  # columns of the smallest working set of tall data, where each has many rows (mushrooms 0.1: 13.2 -> 9.4 ms)
LITTLE = 32  # columns: so many are always taken and solved with care, so that rows that are repeated count as weights do
SLACK = 1.25  # of dense data a few columns more are taken if these are all (5000 x 2000, logistic at 0.1: 4 -> 3 rounds)
NEAR = 0.9  # least share of the threshold from which on sparse columns are taken
MOST_COLUMNS = 0.6  # share of the columns from which on all are taken: no copies, no change of the set


@kernel
def pick_columns(penalty, w, Xta, level, out):
    """The columns with a weight, or with |Xta_j| above the level; returns their number and that of the weights.

    Every column is written, and the next over it if it was not wanted: no branch to be guessed (62,061 columns: 0.12 -> 0.04 ms).
    So there must be room for one more.
    """
    count, support = 0, 0
    for j in range(w.shape[0]):
        out[count] = j
        count += (w[j] != 0.0) | (abs(Xta[j]) > level)
        support += w[j] != 0.0
    return count, support


@kernel
def count_lacking(penalty, w, Xta, level):
    """The number of columns without a weight and with |Xta_j| above the level, and that of the weights."""
    lacking, support = 0, 0
    for j in range(w.shape[0]):
        support += w[j] != 0.0
        lacking += (w[j] == 0.0) & (abs(Xta[j]) > level)
    return lacking, support


@kernel
def rank_columns(penalty, w, Xta, W, out):
    """out_k = -|Xta_j| for j = W[k], and -infinity for columns with a weight: the smallest are wanted most."""
    for k in range(W.shape[0]):
        out[k] = -math.inf if w[W[k]] != 0.0 else -abs(Xta[W[k]])


def level(problem: Any) -> float:
    """Columns whose product with the slopes exceeds this belong into the working set; cheap ones also if they nearly do.

    That is on tall data, and where dense columns are swept over (5000 x 2000 lasso at 0.1: 3 -> 2 rounds).
    """
    return (0.8 if problem.d <= problem.n / 4 or _sweeps_are_cheap(problem) else 1.0) * problem.penalty.threshold


def takes_near_ones(problem: Any) -> bool:
    """Whether columns that nearly reach the threshold are taken from the second round on: sparse ones, of which few take long.

    They are those that will be missing (20,000 x 50,000 lasso at 0.01: 4 % more columns hold all that 3 rounds found).
    """
    wide = problem.matrix.is_sparse and problem.d > problem.n / 4 and problem.penalty.threshold > 0.0
    return wide and getattr(problem.loss, "curvature_is_constant", False)


def nearly(lacking: float) -> float:
    """The share of the threshold from which on they are taken: the fewer columns lack, the less will products still rise."""
    return max(NEAR, 1.0 - lacking)


def lacking_share(problem: Any, w: np.ndarray, Xta: np.ndarray) -> float:
    """How many columns want a weight and have none, for each that has one."""
    lacking, support = count_lacking(problem.penalty, w, Xta, problem.penalty.threshold)
    return lacking / max(support, 1)


def _sweeps_are_cheap(problem: Any) -> bool:
    """Whether sweeps over a quarter of the columns take no longer than what a round takes anyway, and Gram matrices do."""
    tall = problem.n >= 2 * problem.d  # on wide data small sets that are solved fast beat large ones
    dear = problem.n * _quarter(problem) ** 2 > 48.0 * WORTH_SWEEPS
    return tall and swept_in_few_bits(problem) and dear and not correlates(problem)


def _quarter(problem: Any) -> int:
    return min(max(FEW, problem.d // 4), problem.n)


def expected_level(problem: Any, before: float, rise: float) -> float:
    """The level for products that were made under another threshold, if they may rise by `rise` times the fall of it.

    Strong rules assume 1; most columns rise by less, and how much is worth expecting depends on the data (20 lassos: on news20
    76 ms with 0 and 105 with 1, on 20,000 x 50,000 sparse data 148 and 125).
    """
    threshold = problem.penalty.threshold
    return min(level(problem), max(threshold - rise * max(before - threshold, 0.0), 0.5 * threshold))


def choose_columns(problem: Any, w: np.ndarray, Xta: np.ndarray, gap: float, above: float | None = None) -> np.ndarray:
    """The columns with a weight and those that want one most: all of these, or a few times as many as there are weights.

    Those want one whose product exceeds the level, or what is given instead.
    """
    threshold = problem.penalty.threshold
    if threshold == 0.0:
        return np.arange(problem.d)
    tall = problem.d <= problem.n / 4
    W = np.empty(problem.d + 1, dtype=np.int64)
    count, support = pick_columns(problem.penalty, w, Xta, level(problem) if above is None else above, W)
    W = W[:count]
    growth = 2 if tall or gap < 0.01 else 4
    # A lasso has no more weights than rows: small sets that are solved fast beat large ones that hold all.
    cap = max(_first_size(problem, count), min(growth * support, support + problem.n))
    if count > cap * (1.0 if problem.matrix.is_sparse else SLACK):
        rank = np.empty(count)
        rank_columns(problem.penalty, w, Xta, W, rank)
        if support == 0 and takes_near_ones(problem):
            cap = _extended(problem, W, rank, cap)
        W = np.sort(W[np.argpartition(rank, cap - 1)[:cap]])
    if len(W) > MOST_COLUMNS * problem.d:
        return np.arange(problem.d)
    return W if count > 0 else np.array([int(np.argmax(np.abs(Xta)))])


def _extended(problem: Any, W: np.ndarray, rank: np.ndarray, cap: int) -> int:
    """How many of W are taken: many more than `cap` if these hold few more entries."""
    more = min(MANY, len(W))
    if more <= cap:
        return cap
    counts = problem.matrix.col_counts[W[np.argpartition(rank, (cap - 1, more - 1))]]
    return more if counts[:more].sum() <= HOLD * counts[:cap].sum() else cap


def _first_size(problem: Any, count: int) -> int:
    """The smallest working set: of sparse columns the more the better, if they are solved once and for all, or if many wait.

    (20,000 x 50,000 lasso at 0.01: 32 -> 23 ms; news20 logistic at 0.001: 174 -> 142 ms, but at 0.01 30 -> 34 ms.) Where dense data
    have more rows than columns and most columns wait, most will stay: all are taken at once (5000 x 2000 lasso at 0.03: 121 -> 90
    ms, logistic at 0.01 to 1e-4: 510 -> 390 ms).
    """
    if problem.d <= problem.n / 4:
        return FIRST
    least = min(FIRST_WIDE, max(problem.n, LITTLE))
    if not problem.matrix.is_sparse:
        if correlates(problem):
            return least
        if problem.n >= 2 * problem.d and count > MOST_COLUMNS * problem.d:
            return problem.d
        return _quarter(problem) if _sweeps_are_cheap(problem) else least
    most = FEW if getattr(problem.loss, "curvature_is_constant", False) else min(FEW, count // 20)
    return max(least, min(most, problem.n))
