"""The round of the distributed proximal Newton method: all that a step needs, in one pass over the partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from saddlery.distributed.blocks import Block, Reading
from saddlery.distributed.dual import unpack
from saddlery.distributed.rounds import Visitor
from saddlery.matrix.vectors import weighted_square_norms
from saddlery.parts import kernel
from saddlery.problems.row_sums import mean_loss, ray_sums
from saddlery.solvers.newton_search import expand_at
from saddlery.solvers.prox_newton import model_slopes
from saddlery.solvers.working_block import WorkingBlock

__all__ = ["NewtonRound", "NewtonTask", "Product", "ProductTask", "unpack_gram"]


class NewtonTask(NamedTuple):
    """The point (w, b), the step (move, shift) from it, and what is wanted at its end.

    `W` are the columns of the Gram matrix (None: its diagonal over all columns); `sizes` shorter steps whose loss is wanted;
    `grid` the scales at which l* is summed; `model` whether the dual point of the old quadratic model is wanted too.
    """

    loss: Any
    reading: Reading
    d: int
    w: Any
    b: float
    move: Any
    shift: float
    W: Any
    sizes: tuple[float, ...]
    grid: tuple[float, ...]
    model: bool
    floor: float
    old_floor: float
    intercept: bool


@kernel
def grid_sums(loss, y, s, a, grid, out):
    """out_k += sum_i s_i l*(y_i, grid_k a_i)."""
    for i in range(y.shape[0]):
        if s[i] > 0.0:
            for k in range(grid.shape[0]):
                out[k] += s[i] * loss.conjugate(y[i], grid[k] * a[i])


class _Dual:
    """Sums over one dual point: X'(s a), sums of s a over the classes and of its size, sums of l* on the grid or along the ray."""

    def __init__(self, task: NewtonTask):
        self.Xta, self.totals = np.zeros(task.d), np.zeros(3)
        self.ray = np.zeros(2 if hasattr(task.loss, "conjugate_curvature") else 0)
        self.grid = np.array(task.grid if not len(self.ray) else ())
        self.conjugates = np.zeros(len(self.grid))

    def add(self, block: Block, loss: Any, y: np.ndarray, s: np.ndarray, a: np.ndarray, weighted: np.ndarray) -> None:
        self.Xta += block.matrix.rmatvec(weighted)
        self.totals += (weighted[y > 0.0].sum(), weighted[y <= 0.0].sum(), np.abs(weighted).sum())
        if len(self.ray):
            self.ray += ray_sums(loss, y, s, a)
        else:
            grid_sums(loss, y, s, a, self.grid, self.conjugates)

    def sums(self, name: str) -> dict[str, np.ndarray]:
        parts = {"Xta": self.Xta, "totals": self.totals, "ray": self.ray, "conjugates": self.conjugates}
        return {f"{name}.{key}": value for key, value in parts.items()}


class NewtonRound(Visitor):
    """At w + move: losses of all step sizes, slopes as a dual point, second derivatives on W; the dual point of the model."""

    def __init__(self, task: NewtonTask):
        self.task = task
        self.w, self.move = unpack(task.w, task.d), None if task.move is None else unpack(task.move, task.d)
        self.losses = np.zeros(1 + len(task.sizes))
        self.slopes = _Dual(task)
        self.model = _Dual(task) if task.model else None
        size = 0 if task.W is None else len(task.W) + task.intercept
        self.gram = np.zeros((size, size))
        self.diagonal = np.zeros(task.d + 1 if task.W is None else 0)

    def visit(self, block: Block, extra: Any) -> None:
        task, n = self.task, block.n
        loss, y, s = task.loss, block.y(task.reading), block.s(task.reading)
        z = block.matrix.matvec(self.w)
        along = np.zeros(n) if self.move is None else block.matrix.matvec(self.move)
        for k, size in enumerate(task.sizes):
            self.losses[k + 1] += mean_loss(loss, y, s, z + size * along, task.b + size * task.shift)
        new_z, a, r, h = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        if self.model is not None:
            expand_at(loss, y, s, z, along, 0.0, task.b, new_z, a, r, h)
            h = np.maximum(h, task.old_floor * loss.smoothness * s)
            dual = np.empty(n)
            model_slopes(loss, y, s, a, h, along, task.shift, dual, r)
            self.model.add(block, loss, y, s, dual, r)
        self.losses[0] += expand_at(loss, y, s, z, along, 1.0, task.b + task.shift, new_z, a, r, h)
        self.slopes.add(block, loss, y, s, a, r)
        h = np.maximum(h, task.floor * loss.smoothness * s)
        if task.W is None:
            norms = np.zeros(task.d)
            weighted_square_norms(block.matrix.cols, h, norms)
            self.diagonal[:-1] += norms
            self.diagonal[-1] += h.sum()
        elif len(task.W):
            view = SimpleNamespace(matrix=block.matrix, n=n, d=task.d, s=s, fit_intercept=task.intercept)
            columns = WorkingBlock(view, task.W, gram_form=True, exact=getattr(loss, "curvature_is_constant", False))
            columns.update_gram(h)
            self.gram += columns.gram
        elif task.intercept:
            self.gram += h.sum()

    def sums(self) -> dict[str, Any]:
        out = {"losses": self.losses, "gram": _packed(self.gram), "diagonal": self.diagonal, **self.slopes.sums("slopes")}
        return out if self.model is None else {**out, **self.model.sums("model")}


def _packed(gram: np.ndarray) -> np.ndarray:
    """The lower triangle, row by row."""
    return gram[np.tri(len(gram), dtype=bool)]


def unpack_gram(values: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix again."""
    gram = np.zeros((size, size))
    gram[np.tri(size, dtype=bool)] = values
    diagonal = gram.diagonal().copy()
    gram += gram.T
    np.fill_diagonal(gram, diagonal)
    return gram


class ProductTask(NamedTuple):
    """A direction that is multiplied by the second derivatives at (w, b)."""

    loss: Any
    reading: Reading
    d: int
    w: Any
    b: float
    move: Any
    shift: float
    floor: float


class Product(Visitor):
    """X' diag(h) (X move + shift), and the sum of h (X move + shift): one product of conjugate gradients."""

    def __init__(self, task: ProductTask):
        self.task = task
        self.w, self.move = unpack(task.w, task.d), unpack(task.move, task.d)
        self.product = np.zeros(task.d + 1)

    def visit(self, block: Block, extra: Any) -> None:
        task, n = self.task, block.n
        s = block.s(task.reading)
        a, r, h, z = np.empty(n), np.empty(n), np.empty(n), block.matrix.matvec(self.w)
        expand_at(task.loss, block.y(task.reading), s, z, z, 0.0, task.b, np.empty(n), a, r, h)
        bent = np.maximum(h, task.floor * task.loss.smoothness * s) * (block.matrix.matvec(self.move) + task.shift)
        self.product[:-1] += block.matrix.rmatvec(bent)
        self.product[-1] += bent.sum()

    def sums(self) -> dict[str, Any]:
        return {"product": self.product}
