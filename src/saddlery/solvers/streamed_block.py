"""Working blocks of data that are read in parts: a copy in memory where there is room, else products and Gram matrix by streaming.

A copy of the columns W is an ordinary :class:`~saddlery.solvers.working_block.WorkingBlock`. Where it does not fit, Newton's model
still does, because it only needs the small matrix X_W' diag(h) X_W: it is summed over slabs, some rows of the columns W at a time.
Where W itself has more columns than either way can carry, the ones that violate optimality most are taken: block coordinate
descent, slower, but inside the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.matrix import Matrix, sparse_stack
from saddlery.parts import kernel
from saddlery.solvers.scaled_columns import DenseCopies
from saddlery.solvers.working_block import LOOSE, MAX_GRAM, WorkingBlock, add_gram, is_array, mirror

__all__ = ["DENSE_BYTES", "StreamedBlock", "make_block", "trim"]

DENSE_BYTES = 20  # of an entry of a dense copy: double precision, what was read, what is swept over
SPARSE_BYTES = 40  # of an entry of a sparse copy: by columns, by rows, and what was read


@kernel
def violations(penalty, w, gradient, out):
    """out_j = distance of -gradient_j from the subdifferential of g_j at w_j."""
    for j in range(w.shape[0]):
        out[j] = penalty.coordinate_distance(w[j], -gradient[j])


def _bytes(matrix: Any) -> int:
    return SPARSE_BYTES if matrix.is_sparse else DENSE_BYTES


def trim(problem: Any, W: np.ndarray, w: np.ndarray, Xta: np.ndarray) -> np.ndarray:
    """The columns of W that a block can carry: all in memory or few; else those that violate optimality most."""
    matrix = problem.matrix
    if matrix.compiled or len(W) <= MAX_GRAM or matrix.holds(float(matrix.col_counts[W].sum()), _bytes(matrix)):
        return W
    score = np.empty(len(W))
    violations(problem.penalty, w[W], Xta[W], score)
    order = np.argsort(-score, kind="stable")
    carried = np.cumsum(matrix.col_counts[W[order]]) * _bytes(matrix) <= matrix.room
    carried[:MAX_GRAM] = True
    return np.sort(W[order[carried]])


def make_block(problem: Any, W: np.ndarray, gram_form: bool, exact: bool, copies: DenseCopies | None = None) -> Any:
    """The block of the columns W: a copy in memory, or one that streams. Data in memory may have `copies` for sweeps."""
    matrix = problem.matrix
    if matrix.compiled:
        return WorkingBlock(problem, W, gram_form, exact, copies)
    entries = int(matrix.col_counts[W].sum())
    spread = matrix.is_sparse and gram_form and is_array(problem, entries, len(W))
    if not matrix.holds(entries, _bytes(matrix)) or (spread and not matrix.holds(problem.n * len(W), DENSE_BYTES)):
        return StreamedBlock(problem, W, exact)
    block = WorkingBlock(problem.with_matrix(matrix.take_cols(W)), np.arange(len(W)), gram_form, exact)
    block.W = W
    block.slab = max(1, matrix.block_bytes // (16 * len(W)))  # copies of slices only, where memory is scarce
    return block


class StreamedBlock:
    """The columns W of data that are read in parts: as :class:`~saddlery.solvers.working_block.WorkingBlock` in Gram form.

    Parameters
    ----------
    problem : LinearProblem
        Whose columns.
    W : array of int
        Which columns, in ascending order.
    exact : bool
        Whether one step on the Gram matrix shall be the solution.
    """

    gram_form = True
    sampled = False
    cols = None

    def __init__(self, problem: Any, W: np.ndarray, exact: bool):
        self.matrix, self.W, self.m, self.n = problem.matrix, W, len(W), problem.n
        self.intercept, self.exact, self.s = int(problem.fit_intercept), exact, problem.s
        self.entries = int(self.matrix.col_counts[W].sum())
        self.gram = np.zeros((0, 0))
        self.weights = np.zeros(self.n)

    def __deepcopy__(self, memo: Any) -> StreamedBlock:
        other = StreamedBlock.__new__(StreamedBlock)
        other.__dict__.update(self.__dict__)  # the data are shared; what is written is replaced, never changed in place
        other.gram = self.gram.copy()
        return other

    def product(self, u: np.ndarray) -> np.ndarray:
        """X_W u."""
        out = np.zeros(self.n)
        for part, slab in self.matrix.slabs(self.W):
            out[part] = Matrix(slab).matvec(u)
        return out

    def transposed(self, r: np.ndarray) -> np.ndarray:
        """X_W' r."""
        out = np.zeros(self.m)
        for part, slab in self.matrix.slabs(self.W):
            out += Matrix(slab).rmatvec(r[part])
        return out

    def update_gram(self, h: np.ndarray, rows: np.ndarray | None = None, strictly: bool = False) -> None:
        """Bring the Gram matrix near the weights h, from all rows: reading costs more than adding."""
        if self.gram.shape[0]:
            change = np.abs(h - self.weights)
            if not (change > (0.0 if strictly else LOOSE * np.maximum(self.weights, self.s * h.sum()))).any():
                return
        m = self.m
        gram = np.zeros((m + self.intercept, m + self.intercept))
        for part, slab in self.matrix.slabs(self.W):
            weights = h[part]
            if self.matrix.is_sparse:
                add_gram(sparse_stack(slab.tocsr()), weights, gram)
            else:
                columns = slab.T.astype(np.float64, copy=False)
                gram[:m, :m] += (columns * weights) @ columns.T
            if self.intercept:
                gram[m, :m] += Matrix(slab).rmatvec(weights)
        if self.matrix.is_sparse:
            mirror(sparse_stack(slab.tocsr()), gram, m)
        if self.intercept:
            gram[:m, m] = gram[m, :m]
            gram[m, m] = h.sum()
        self.gram, self.weights = gram, h
