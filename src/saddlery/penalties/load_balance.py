"""How to share the entries of a matrix among its rows and columns so that the largest loads are small: an exact method by min cuts.

For C >= 0 with p rows and q columns, each entry is split between its row and its column. With mu the largest load of a row and nu
that of a column,

    min  mu + nu   over all splits   =   max  sum_ij C_ij min(r_i, c_j)   over r, c >= 0, sum r <= 1, sum c <= 1.        (1)

The right side is linear on nested blocks of rows and columns: with cuts (S, T), r = sum_k t_k 1[S_k] and c = sum_k t_k 1[T_k],

    max  sum_k t_k C(S_k, T_k)   s.t.   sum_k t_k |S_k| <= 1,  sum_k t_k |T_k| <= 1,  t >= 0,                            (2)

whose dual is: min mu + nu s.t. mu |S| + nu |T| >= C(S, T) for every block. :func:`balance` takes a few blocks, solves (2) over
these and asks by one min cut whether another block violates mu, nu: source -> row i with what it cannot carry, (C(i, all) - mu)+;
row i -> column j with C_ij; column j -> sink with nu. The flow on C_ij is what the column carries of it, so that every flow is a
split, and its loads bound (1) from above however it was rounded. 5 to 15 cuts suffice; all is done in floating point.

==================  ======================================================================================
here                letters of Lu & Freund (2020), Example 1.3
==================  ======================================================================================
C                   absolute values of the gradient with respect to beta, d x n
r, c                bounds of the rows and columns of beta, for delta = 1
mu, nu              prices of the two constraints
==================  ======================================================================================
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlery.parts import kernel

__all__ = ["Balance", "balance"]

EPS = float(np.finfo(float).eps)
EXACT = 1e-12  # relative distance of the two sides of (1) at which they count as equal


class Balance(NamedTuple):
    """Both sides of (1): `rows` and `columns` attain `value`, none attain more than `bound`; `flows` is the number of min cuts."""

    rows: np.ndarray
    columns: np.ndarray
    value: float
    bound: float
    flows: int


# --------------------------------------------------------------------------- maximum flow


@kernel
def label_layers(penalty, C, flow, excess, room, tiny, row_layer, column_layer, queue):
    """Distances from the source in the residual network, -1 if out of reach, up to the first layer with room, if there is one."""
    p, q = C.shape
    row_layer[:] = -1
    column_layer[:] = -1
    head, tail, found, layer = 0, 0, False, 0
    for i in range(p):
        if excess[i] > tiny:
            row_layer[i] = 0
            queue[tail] = i
            tail += 1
    while head < tail and not found:
        middle = tail
        for k in range(head, middle):
            i = queue[k]
            for j in range(q):
                if column_layer[j] < 0 and C[i, j] - flow[i, j] > tiny:
                    column_layer[j] = layer + 1
                    queue[tail] = j
                    tail += 1
                    found = found or room[j] > tiny
        head, middle = middle, tail
        for k in range(head, middle if not found else head):
            j = queue[k]
            for i in range(p):
                if row_layer[i] < 0 and flow[i, j] > tiny:
                    row_layer[i] = layer + 2
                    queue[tail] = i
                    tail += 1
        head = middle
        layer += 2
    return found


@kernel
def find_path(penalty, C, flow, room, tiny, row_layer, column_layer, row_next, column_next, path):
    """From row path[0], layer by layer, to a column with room: its place in the path, or 0. Dead ends are not tried again."""
    p, q = C.shape
    k = 0
    while True:
        if k % 2 == 0:
            i = path[k]
            j = row_next[i]
            while j < q and not (column_layer[j] == row_layer[i] + 1 and C[i, j] - flow[i, j] > tiny):
                j += 1
            row_next[i] = j
            if j < q:
                k += 1
                path[k] = j
            elif k == 0:
                return 0
            else:
                k -= 1
                column_next[path[k]] += 1
        else:
            j = path[k]
            if room[j] > tiny:
                return k
            i = column_next[j]
            while i < p and not (row_layer[i] == column_layer[j] + 1 and flow[i, j] > tiny):
                i += 1
            column_next[j] = i
            if i < p:
                k += 1
                path[k] = i
            else:
                k -= 1
                row_next[path[k]] += 1


@kernel
def push_along(penalty, C, flow, excess, room, path, last):
    """Send as much as fits along a path: rows at even places, columns at odd ones."""
    amount = min(excess[path[0]], room[path[last]])
    for k in range(0, last, 2):
        amount = min(amount, C[path[k], path[k + 1]] - flow[path[k], path[k + 1]])
    for k in range(1, last, 2):
        amount = min(amount, flow[path[k + 1], path[k]])
    for k in range(0, last, 2):
        flow[path[k], path[k + 1]] += amount
    for k in range(1, last, 2):
        flow[path[k + 1], path[k]] -= amount
    excess[path[0]] -= amount
    room[path[last]] -= amount


@kernel
def fill_columns(penalty, C, flow, excess, room, tiny, row_layer, column_layer, row_next, column_next, queue, path):
    """Dinic's maximum flow from rows with `excess` to columns with `room`.

    What is labelled at the end is the source's side of a min cut. Less than `tiny`, a few ulp of the largest entry, counts as
    nothing.
    """
    while label_layers(penalty, C, flow, excess, room, tiny, row_layer, column_layer, queue):
        row_next[:] = 0
        column_next[:] = 0
        for i in range(C.shape[0]):
            while row_layer[i] == 0 and excess[i] > tiny:
                path[0] = i
                last = find_path(penalty, C, flow, room, tiny, row_layer, column_layer, row_next, column_next, path)
                if last == 0:
                    break
                push_along(penalty, C, flow, excess, room, path, last)


# --------------------------------------------------------------------------- cutting planes


class _Cuts:
    """Blocks (S, T) found so far, as masks, with their sizes and sums."""

    def __init__(self, C: np.ndarray, row_sums: np.ndarray, column_sums: np.ndarray):
        p, q = C.shape
        self.C = C
        self.S, self.T = np.ones((3, p), dtype=bool), np.ones((3, q), dtype=bool)
        self.S[0], self.T[1] = np.arange(p) == row_sums.argmax(), np.arange(q) == column_sums.argmax()
        self.sums = np.array([row_sums.max(), column_sums.max(), row_sums.sum()])
        self._count()

    def _count(self) -> None:
        self.heights, self.widths = self.S.sum(axis=1).astype(float), self.T.sum(axis=1).astype(float)

    def block_sum(self, S: np.ndarray, T: np.ndarray) -> float:
        """C(S, T)."""
        return float(self.C[S][:, T].sum())

    def has(self, S: np.ndarray, T: np.ndarray) -> bool:
        """Whether a block is among these."""
        return bool(((self.S == S).all(axis=1) & (self.T == T).all(axis=1)).any())

    def add(self, S: np.ndarray, T: np.ndarray, block_sum: float) -> None:
        self.S, self.T, self.sums = np.vstack([self.S, S]), np.vstack([self.T, T]), np.append(self.sums, block_sum)
        self._count()

    def best_mix(self) -> tuple[float, list[tuple[int, float]]]:
        """The value of (2) over these blocks, and (block, t) of an optimal basis: one block, or a tall and a wide one."""
        heights, widths, sums = self.heights, self.widths, self.sums
        single = sums / np.maximum(heights, widths)
        one = int(single.argmax())
        tall, wide = np.flatnonzero(heights > widths), np.flatnonzero(heights < widths)
        if tall.size and wide.size:  # both constraints hold with equality
            a, b, e, f = heights[tall][:, None], widths[tall][:, None], heights[wide], widths[wide]
            area = a * f - b * e
            t_tall, t_wide = (f - e) / area, (a - b) / area
            values = t_tall * sums[tall][:, None] + t_wide * sums[wide]
            k, m = np.unravel_index(values.argmax(), values.shape)
            if values[k, m] > single[one]:
                return float(values[k, m]), [(int(tall[k]), float(t_tall[k, m])), (int(wide[m]), float(t_wide[k, m]))]
        return float(single[one]), [(one, float(1.0 / max(heights[one], widths[one])))]

    def prices(self, value: float) -> tuple[float, float]:
        """mu + nu = value that no block violates: the middle of all such pairs, where the next cut tells most."""
        slope, need = self.heights - self.widths, self.sums - value * self.widths  # mu * slope >= need
        low = np.divide(need, slope, out=np.zeros_like(need), where=slope > 0.0).max(initial=0.0, where=slope > 0.0)
        high = np.divide(need, slope, out=np.zeros_like(need), where=slope < 0.0).min(initial=value, where=slope < 0.0)
        mu = min(max(0.5 * (low + high), 0.0), value)
        return mu, value - mu


def balance(penalty: Any, C: np.ndarray) -> Balance:
    """Solve (1).

    Parameters
    ----------
    penalty : part
        Keys the cache of the kernels.
    C : array of shape (p, q)
        Non-negative numbers.

    Examples
    --------
    >>> from saddlery.penalties import CURBall
    >>> shared = balance(CURBall(1.0), np.array([[3.0, 1.0], [1.0, 0.0]]))
    >>> shared.value, shared.rows, shared.columns
    (3.0, array([1., 0.]), array([1., 0.]))
    """
    p, q = C.shape
    top = C.max(initial=0.0)
    if top == 0.0:
        return Balance(np.full(p, 1.0 / p), np.full(q, 1.0 / q), 0.0, 0.0, 0)
    row_sums, column_sums = C.sum(axis=1), C.sum(axis=0)
    cuts = _Cuts(C, row_sums, column_sums)
    row_layer, column_layer, row_next, column_next = (np.empty(size, dtype=np.int64) for size in (p, q, p, q))
    queue, path = np.empty(p + q, dtype=np.int64), np.empty(p + q + 1, dtype=np.int64)
    bound, flows = np.inf, 0
    while True:
        value, basis = cuts.best_mix()
        mu, nu = cuts.prices(value)
        flow, excess, room = np.zeros_like(C), np.maximum(row_sums - mu, 0.0), np.full(q, nu)
        tiny = 4.0 * EPS * top
        fill_columns(penalty, C, flow, excess, room, tiny, row_layer, column_layer, row_next, column_next, queue, path)
        flows += 1
        bound = min(bound, float((C - flow).sum(axis=1).max() + flow.sum(axis=0).max()))
        S, T = row_layer >= 0, column_layer >= 0
        block_sum = cuts.block_sum(S, T)
        violation = block_sum - mu * np.count_nonzero(S) - nu * np.count_nonzero(T)
        if bound - value <= EXACT * bound or violation <= EXACT * value or cuts.has(S, T):  # known: it was rounding
            break
        cuts.add(S, T, block_sum)
    rows, columns = (sum(t * masks[k] for k, t in basis) for masks in (cuts.S, cuts.T))
    rounding = 1.0 + (8.0 + np.log2(p + q)) * EPS  # of the sums of loads, which NumPy adds in pairs
    return Balance(np.asarray(rows), np.asarray(columns), value, bound * rounding, flows)
