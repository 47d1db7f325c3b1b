"""Dual points of distributed problems: recipes from which each partition computes its own rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddlery.distributed.blocks import Block, Reading
from saddlery.problems.row_sums import clip_to_domain, slopes
from saddlery.solvers.newton_search import expand_at
from saddlery.solvers.prox_newton import model_slopes

__all__ = ["DualRows", "dual_rows", "pack", "unpack"]


def pack(w: np.ndarray) -> tuple[Any, np.ndarray]:
    """A vector as it travels: indices and values if most are zero, else all."""
    index = np.flatnonzero(w)
    return (index.astype(np.int32), w[index]) if 3 * len(index) < 2 * len(w) else (None, w)


def unpack(packed: tuple[Any, np.ndarray], d: int) -> np.ndarray:
    """The vector again."""
    index, values = packed
    if index is None:
        return values
    out = np.zeros(d)
    out[index] = values
    return out


@dataclass(frozen=True)
class DualRows:
    """A dual point: ``a_i = factor * base_i + level``, where the level is `upper` for rows with y > 0 and `lower` for the others.

    The base are the slopes of the loss at (w, b); or, if there is a `move`, those of the quadratic model of the loss there after
    the move (curvatures being at least `floor`); or numbers that the driver keeps (`blocks`). Nothing else of it travels.

    Attributes
    ----------
    w, b : packed vector, float
        Where the slopes are taken.
    move, shift : packed vector or None, float
        The Newton step, of the weights and of the intercept.
    floor : float
        The least curvature in the model.
    blocks : tuple of arrays or None
        The base itself, partition by partition.
    factor, upper, lower : float
        See above.
    """

    w: Any = None
    b: float = 0.0
    move: Any = None
    shift: float = 0.0
    floor: float = 0.0
    blocks: Any = None
    factor: float = 1.0
    upper: float = 0.0
    lower: float = 0.0

    def scaled(self, t: float) -> DualRows:
        """t times the point."""
        return replace(self, factor=t * self.factor, upper=t * self.upper, lower=t * self.lower)

    def mixed(self, share: float, upper: float, lower: float) -> DualRows:
        """The point, moved by `share` of the way to one that is constant on each class."""
        point = self.scaled(1.0 - share)
        return replace(point, upper=point.upper + share * upper, lower=point.lower + share * lower)

    def shifted(self, amount: float) -> DualRows:
        """The point plus a constant."""
        return replace(self, upper=self.upper + amount, lower=self.lower + amount)

    def recipe(self) -> DualRows:
        """What travels to all partitions."""
        return replace(self, blocks=None) if self.blocks is not None else self


def dual_rows(block: Block, common: tuple[Any, Reading, int, DualRows], extra: Any, Xw: np.ndarray | None = None) -> np.ndarray:
    """The rows of a dual point that belong to a block; `extra` is the base where the driver keeps it."""
    loss, reading, d, point = common
    y, s, n = block.y(reading), block.s(reading), block.n
    a = np.empty(n)
    if extra is not None:
        clip_to_domain(loss, y, extra, a)
    else:
        z = block.matrix.matvec(unpack(point.w, d)) if Xw is None else Xw
        if point.move is None:
            slopes(loss, y, z, point.b, a)
        else:
            a0, r, h, z0 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
            expand_at(loss, y, s, z, z, 0.0, point.b, z0, a0, r, h)
            h = np.maximum(h, point.floor * loss.smoothness * s)
            model_slopes(loss, y, s, a0, h, block.matrix.matvec(unpack(point.move, d)), point.shift, a, r)
    if point.upper == point.lower == 0.0:
        if point.factor != 1.0:
            a *= point.factor
        return a
    out = np.empty(n)
    clip_to_domain(loss, y, point.factor * a + np.where(y > 0.0, point.upper, point.lower), out)  # rounding may leave it by a hair
    return out
