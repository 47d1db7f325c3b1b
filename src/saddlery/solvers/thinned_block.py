"""Gram matrices of sparse tall data from the rows that matter: X_W' diag(h~) X_W with h~ = h on average, and mostly zero.

Curvatures are uneven. Most rows of a rare class's complement are sure, their h next to nothing, and they are the long ones, whose
pairs of entries a Gram matrix is made of. Rows with h_i >= tau stay as they are; of the others, row i is taken with the probability
h_i / tau, and then weighs tau (w8a, logistic: a tenth of the pairs give eigenvalues within 3 % of the whole matrix's).

The dual point of such a model, a + h~ / s (X_W u), is as feasible as that of the whole one, because it is made of the same weights;
what it loses in value, by the parabola at each row, is

    1/2 sum_i (s_i dual_i - s_i l'(z_i))^2 / h_i        z the margins after the step,

which takes no look at the data: so it is known before a certificate is asked for whether it would do (``fenchel_loss``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.parts import kernel
from saddlery.solvers.working_block import ColumnProducts, add_gram, mirror

__all__ = ["ThinnedBlock", "fenchel_loss", "forecast_gap", "worth_thinning"]

PAIRS = 2.0  # for each entry of the block: as many products of pairs are about a third of what the rest of a step costs
FULL = 0.5  # share of non-zeros from which on BLAS has the better of it, unless columns are
FULL_COLUMNS, FULL_ROWS = (4, 32), 500  # so many, with so many rows for each (ijcnn1, logistic at 0.001: 20 -> 13 ms)
LONG = 2.0  # entries of a row in the block, on average, from which on its pairs are many
PER_COLUMN = 160.0  # rows of weight tau for each column, at least
MOST_OF_ROWS = 8.0  # share of the entries, as 1 to so many, that W must hold: rows are read as a whole
LOOSE = 0.2  # rows whose weight moved by less than this share are left alone: thinning disturbs a model as much
FILTER = 2.0  # products that it takes to see whether an entry belongs to the block
INHERIT, MANY_MORE = 4.0, 1.5  # a Gram matrix serves on if new columns hold less than 1 in 4 entries, and are fewer than half
LEAST, CHEAP = 10_000, 100_000  # entries: below, all rows are taken, and pairs are not worth counting
LOOK = 500  # rows that say how uneven curvatures are
TINY, EPS = 1e-300, 1e-15  # keeps quotients of nothing finite; rounding
NOTHING = 1e-9  # a floor of curvature that is none


# --------------------------------------------------------------------------- kernels


@kernel
def thin_weights(rows, h, draws, tau, share, loose, weights, change):
    """weights_i = h~_i where that is another by more than `loose`, or a tenth of what it was; change_i is by how much.

    Returns how many changed.
    """
    count = 0
    for i in range(h.shape[0]):
        wanted = h[i]
        if wanted < tau:
            wanted = tau if draws[i] * tau < wanted else 0.0
        moved = wanted - weights[i]
        if abs(moved) <= max(share * weights[i], loose):
            moved = 0.0
        weights[i] += moved
        change[i] = moved
        count += moved != 0.0
    return count


@kernel(fast_sums=True)
def add_gram_within(rows, place, weights, free, at, values, gram):
    """gram += sum_i weights_i x_i x_i', lower triangle, on the columns j with place[j] >= 0; with `free` a column of ones, too.

    Rows are restricted on the way, so that nobody needs a copy of all (w8a, 89 of 300 columns: 1.7 ms).
    """
    last = gram.shape[0] - 1
    for i in range(weights.shape[0]):
        if weights[i] != 0.0:
            count = 0
            for p in range(rows.first(i), rows.last(i)):
                k = place[rows.position(i, p)]
                at[count] = k
                values[count] = rows.entry(p)
                count += k >= 0
            if free:
                at[count] = last
                values[count] = 1.0
                count += 1
            for p in range(count):
                scaled = weights[i] * values[p]
                k = np.uint64(at[p])
                for q in range(p + 1):
                    gram[k, np.uint64(at[np.uint64(q)])] += scaled * values[np.uint64(q)]


@kernel(fast_sums=True)
def add_columns_within(rows, cols, place, new, weights, free, gram):
    """The rows of gram that belong to new columns: gram[k, place[l]] += sum_i weights_i x_ij x_il, with k the place of j."""
    last = gram.shape[0] - 1
    for c in range(new.shape[0]):
        j = new[c]
        k = place[j]
        for p in range(cols.first(j), cols.last(j)):
            i = cols.position(j, p)
            if weights[i] != 0.0:
                scaled = weights[i] * cols.entry(p)
                for q in range(rows.first(i), rows.last(i)):
                    other = place[rows.position(i, q)]
                    if other >= 0:
                        gram[k, other] += scaled * rows.entry(q)
                if free:
                    gram[k, last] += scaled


@kernel(fast_sums=True)
def weighted_squares_of(vectors, chosen, weights, out):
    """out_k = sum_i weights_i v_ij^2 for the chosen vectors j."""
    for k in range(chosen.shape[0]):
        out[k] = vectors.weighted_square(chosen[k], weights)


@kernel(fast_sums=True)
def parabola_loss(loss, y, s, a, weights, along, shift, r, h):
    """What the dual point a + weights / s (along + shift) loses against the slopes r / s after the step, of curvature h.

    The parabola of a row holds as long as its slope moves by less than the curvature; beyond, the loss grows no faster than that.
    Returns it, and how many rows have left the domain of l*.
    """
    total, outside = 0.0, 0
    for i in range(s.shape[0]):
        weighted = s[i] * a[i] + weights[i] * (along[i] + shift)
        off = abs(weighted - r[i])
        total += off * off / (2.0 * h[i] + off + TINY)
        outside += (weighted < s[i] * loss.dual_lower(y[i])) | (weighted > s[i] * loss.dual_upper(y[i]))
    return total, outside


@kernel(fast_sums=True)
def conjugate_loss(loss, y, s, a, weights, along, shift, z):
    """The same where l* costs next to nothing, and curvature tells little: sum_i s_i (l(z_i) + l*(dual_i) - z_i dual_i)."""
    total, outside = 0.0, 0
    for i in range(s.shape[0]):
        slope = a[i] + (weights[i] / s[i] if s[i] > 0.0 else 0.0) * (along[i] + shift)
        low, high = loss.dual_lower(y[i]), loss.dual_upper(y[i])
        inside = slope if slope > low else low
        inside = inside if inside < high else high
        total += s[i] * (loss.value(y[i], z[i]) + loss.conjugate(y[i], inside) - z[i] * inside)
        outside += inside != slope
    return total, outside


@kernel
def add_excess(loss, rows, y, s, a, weights, along, shift, excess):
    """excess += X' of by how much the dual points that leave the domain of l* will be moved back."""
    for i in range(s.shape[0]):
        weighted = s[i] * a[i] + weights[i] * (along[i] + shift)
        low, high = s[i] * loss.dual_lower(y[i]), s[i] * loss.dual_upper(y[i])
        if weighted < low or weighted > high:
            rows.axpy(i, (low if weighted < low else high) - weighted, excess)


def fenchel_loss(problem: Any, model: tuple[Any, ...], z: np.ndarray, r: np.ndarray, h: np.ndarray) -> tuple[float, int]:
    """What the dual point of a model loses in value at margins z with slopes r and curvatures h; how many rows left the domain.

    A model is the slopes, its weights, the margins of its move and that of the intercept; see the top of the file.
    """
    data = (problem.loss, problem.y, problem.s)
    smooth = getattr(problem.loss, "curvature_is_smooth", False)
    lost, outside = parabola_loss(*data, *model, r, h) if smooth else conjugate_loss(*data, *model, z)
    return float(lost), int(outside)


def forecast_gap(problem: Any, model: tuple[Any, ...], here: tuple[np.ndarray, ...], size: float) -> float:
    """The gap that the dual point of a model will leave, if its working set holds what it must.

    `here` are margins, slopes and curvatures after the step, and `size` is the penalty there. A point that must be scaled into the
    feasible set loses as well by what moves it into the domain of l*.
    """
    penalty = problem.penalty
    lost, outside = fenchel_loss(problem, model, *here)
    if outside > 0 and penalty.strong_convexity == 0.0 and penalty.threshold > 0.0:
        excess = np.zeros(problem.d)
        add_excess(problem.loss, problem.matrix.rows, problem.y, problem.s, *model, excess)
        lost += float(np.abs(excess).max()) * size / penalty.threshold
    return lost


# --------------------------------------------------------------------------- the block


def worth_thinning(problem: Any, entries: int, m: int, few: bool = True) -> bool:
    """Whether the Gram matrix of m columns is better made of a part of the rows.

    They are sparse and short, the block holds much of them, and all their pairs take longer than a step's products with the data.
    With `few`, also where a few columns are not sparse.
    """
    matrix, loss = problem.matrix, problem.loss
    known = getattr(loss, "curvature_is_smooth", False) or getattr(loss, "conjugate_curvature", None)  # what dual points lose
    if not (matrix.compiled and matrix.is_sparse and matrix.by_columns and known):
        return False
    if getattr(loss, "curvature_is_constant", False):
        return False
    least, most = FULL_COLUMNS
    if entries > FULL * problem.n * m and not (few and least <= m <= most and problem.n >= FULL_ROWS * m):
        return False
    return entries >= LEAST and MOST_OF_ROWS * entries >= matrix.nnz and entries > LONG * problem.n


class ThinnedBlock(ColumnProducts):
    """The columns W of sparse data with a Gram matrix of some rows: as ``working_block.WorkingBlock`` in Gram form.

    Parameters
    ----------
    problem : LinearProblem
        Whose columns.
    W : array of int
        Which columns, in ascending order.
    entries : int
        How many numbers they hold.
    draws : array of shape (n,)
        Numbers in [0, 1) that decide which rows are taken: the same for all blocks, so that most rows stay when curvatures change.
    old : ThinnedBlock, optional
        The block before, whose Gram matrix serves on where most columns are the same.
    """

    sampled = False

    def __init__(self, problem: Any, W: np.ndarray, entries: int, draws: np.ndarray, old: Any = None):
        matrix = problem.matrix
        self.W, self.at, self.m, self.n, self.entries = W, W, len(W), problem.n, entries
        self.share = entries / max(matrix.nnz, 1)
        self.rows, self.cols, self.s, self.draws = matrix.rows, matrix.cols, problem.s, draws
        self.place = np.full(problem.d, -1, dtype=np.int64)
        self.place[W] = np.arange(self.m)
        self.free = int(problem.fit_intercept)
        self.gram = np.zeros((self.m + self.free, self.m + self.free))
        self.weights, self.tau, self.chosen_for = np.zeros(self.n), -1.0, self.m  # columns that tau was chosen for
        self.ridge = np.zeros(self.m + self.free)  # what the diagonal has more
        if isinstance(old, ThinnedBlock) and old.tau >= 0.0:
            self._inherit(matrix, old)

    def _inherit(self, matrix: Any, old: ThinnedBlock) -> None:
        """Take over the Gram matrix of a block, and add what belongs to new columns (w8a, 20 strengths: 98 -> 86 ms)."""
        known = old.place[self.W] >= 0
        new = self.W[~known]
        if INHERIT * matrix.count_entries(new) > self.entries or self.m > MANY_MORE * old.chosen_for:
            return
        self.weights, self.tau, self.chosen_for = old.weights.copy(), old.tau, old.chosen_for
        mine, theirs = np.flatnonzero(known), old.place[self.W[known]]
        if self.free:
            mine, theirs = np.append(mine, self.m), np.append(theirs, old.m)
        self.gram[mine[:, None], mine] = old.gram[theirs[:, None], theirs]
        self.ridge[mine] = old.ridge[theirs]
        if len(new):
            spots = self.place[new]
            add_columns_within(self.rows, self.cols, self.place, new, self.weights, self.free, self.gram)
            self.gram[:, spots] = self.gram[spots].T

    def bend_least(self, problem: Any, h: np.ndarray, floor: float) -> None:
        """Add floor * sum_i s_i x_ij^2 to the diagonal, in place of what was added before: no coordinate is free to leap then.

        So rows on flat parts of a loss need not be read. Columns of which no row was taken get what all rows say of the diagonal:
        they are rare, and would else not move at all.
        """
        ridge, spots = np.zeros(len(self.gram)), np.arange(len(self.gram))
        if floor > NOTHING:
            ridge[: self.m] = floor * np.square(problem.column_norms[self.W])
            ridge[self.m :] = floor
        diagonal = self.gram[spots, spots] - self.ridge
        missed = np.flatnonzero(diagonal[: self.m] <= EPS * self.ridge[: self.m])
        if len(missed):
            lacking = np.empty(len(missed))
            weighted_squares_of(self.cols, self.W[missed], h, lacking)
            ridge[missed] += lacking
        self.gram[spots, spots], self.ridge = diagonal + ridge, ridge

    def update_gram(self, h: np.ndarray, rows: np.ndarray | None = None, strictly: bool = False) -> None:
        """Bring the Gram matrix near the weights h: their thinned ones, or the weights themselves if `strictly`.

        Rows are left alone whose weight moved little since they were last added, as in ``working_block.WorkingBlock``.
        """
        if strictly:
            self.tau = 0.0
        elif self.tau < 0.0:
            self.tau = self._choose_tau(h)
        change = np.empty(self.n)
        loose = (-1.0, -1.0) if strictly else (LOOSE, LOOSE * float(h.mean()))
        if thin_weights(self.rows, h, self.draws, self.tau, *loose, self.weights, change) > 0:
            if self.m == len(self.place):  # all columns: none has to be looked for
                add_gram(self.rows, change, self.gram)
                if self.free:  # (w8a, logistic with l2: 48 -> 37 ms)
                    self.gram[self.m, : self.m] += self.transposed(change)
                    self.gram[self.m, self.m] += change.sum()
            else:
                room = np.empty(self.m + self.free + 1, dtype=np.int64), np.empty(self.m + self.free + 1)
                add_gram_within(self.rows, self.place, change, self.free, *room, self.gram)
            mirror(self.rows, self.gram, len(self.gram))

    def _choose_tau(self, h: np.ndarray) -> float:
        """The largest tau that leaves rows enough for each column, and as many pairs as a step is worth."""
        enough = float(h.sum()) / (PER_COLUMN * self.m)
        if self.entries < CHEAP:
            return enough
        index = np.arange(0, self.n, max(1, self.n // LOOK))
        lengths = self.rows.starts[index + 1] - self.rows.starts[index]
        order = np.argsort(-h[index])
        h_there, taken = h[index][order], lengths[order]
        work = FILTER * taken + 0.5 * (self.share * taken) ** 2
        kept = np.cumsum(work)
        below = np.cumsum((work * h_there)[::-1])[::-1] - work * h_there
        cost = (kept + below / np.maximum(h_there, 1e-300)) * (self.n / len(index))
        most = PAIRS * self.entries
        if cost[0] > most:  # even if none is taken as it is: curvatures are much the same
            return min(float(h_there[0] * cost[0]) / most, enough)
        k = int(np.searchsorted(cost, most))
        return min(float(h_there[k]) if k < len(index) else 0.0, enough)
