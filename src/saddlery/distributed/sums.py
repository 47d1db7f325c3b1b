"""What partitions return: exact sums of a certificate, gradients of constant models, samples of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlery.distributed.blocks import Block, Reading
from saddlery.distributed.dual import DualRows, dual_rows, unpack
from saddlery.distributed.rounds import Visitor
from saddlery.problems.row_sums import conjugate_terms, mean_loss, ray_sums, slopes, total_slope

__all__ = ["First", "FirstTask", "Judge", "JudgeTask", "Sample", "SampleTask", "Slope"]


class JudgeTask(NamedTuple):
    """A primal point (or None), a dual point (or None) and the scales at which the conjugate of the loss is summed."""

    loss: Any
    reading: Reading
    d: int
    w: Any
    b: float
    point: DualRows | None
    scales: tuple[float, ...]


class Judge(Visitor):
    """The sums that a certificate is made of, each by the formula of the problem on one machine."""

    def __init__(self, task: JudgeTask):
        self.task = task
        self.w = None if task.w is None else unpack(task.w, task.d)
        self.loss, self.totals, self.size = 0.0, np.zeros(3), 0.0
        self.conjugates, self.ray = np.zeros(len(task.scales)), np.zeros(2)
        self.Xta = np.zeros(task.d if task.point is not None else 0)

    def visit(self, block: Block, extra: Any) -> None:
        task = self.task
        y, s = block.y(task.reading), block.s(task.reading)
        Xw = None
        if self.w is not None:
            Xw = block.matrix.matvec(self.w)
            self.loss += mean_loss(task.loss, y, s, Xw, task.b)
        if task.point is None:
            return
        shared = Xw if task.point.w is task.w else None
        a = dual_rows(block, (task.loss, task.reading, task.d, task.point), extra, shared)
        weighted = s * a
        self.Xta += block.matrix.rmatvec(weighted)
        self.totals += (weighted[y > 0.0].sum(), weighted[y <= 0.0].sum(), np.abs(weighted).sum())
        terms = np.empty(block.n)
        for k, scale in enumerate(task.scales):
            conjugate_terms(task.loss, y, s, a, scale, terms)
            self.conjugates[k] += terms.sum()
            if k == 0:
                self.size += float(np.abs(terms).sum() + s @ np.abs(y * a))
        if hasattr(task.loss, "conjugate_curvature"):
            self.ray += ray_sums(task.loss, y, s, a)

    def sums(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "Xta": self.Xta,
            "totals": self.totals,
            "size": self.size,
            "conjugates": self.conjugates,
            "ray": self.ray,
        }


class FirstTask(NamedTuple):
    """The constant model, and constants whose conjugate is wanted on a grid of scales."""

    loss: Any
    reading: Reading
    d: int
    b: float
    levels: tuple[float, ...]
    grid: tuple[float, ...]


class First(Visitor):
    """At w = 0: the loss, X'(s e) for the indicators e of y > 0 and of the rest, and for real targets X'(s l') of the constant."""

    def __init__(self, task: FirstTask):
        self.task = task
        self.real = task.loss.targets != "signs"
        self.loss, self.upper, self.lower = 0.0, np.zeros(task.d), np.zeros(task.d)
        self.gradient = np.zeros(task.d if self.real else 0)
        self.levels = np.zeros((len(task.levels), len(task.grid)))

    def visit(self, block: Block, extra: Any) -> None:
        task, n = self.task, block.n
        y, s = block.y(task.reading), block.s(task.reading)
        zeros, a = np.zeros(n), np.empty(n)
        self.loss += mean_loss(task.loss, y, s, zeros, task.b)
        positive = y > 0.0
        self.upper += block.matrix.rmatvec(s * positive)
        self.lower += block.matrix.rmatvec(s * ~positive)
        if self.real:
            slopes(task.loss, y, zeros, task.b, a)
            self.gradient += block.matrix.rmatvec(s * a)
        terms = np.empty(n)
        for k, level in enumerate(task.levels):
            for j, scale in enumerate(task.grid):
                conjugate_terms(task.loss, y, s, np.full(n, level), scale, terms)
                self.levels[k, j] += terms.sum()

    def sums(self) -> dict[str, Any]:
        return {"loss": self.loss, "upper": self.upper, "lower": self.lower, "gradient": self.gradient, "levels": self.levels}


class Slope(Visitor):
    """Slope, curvature and size of b -> sum_i s_i l(y_i, b)."""

    def __init__(self, task: tuple[Any, Reading, float]):
        self.task, self.total = task, np.zeros(3)

    def visit(self, block: Block, extra: Any) -> None:
        loss, reading, b = self.task
        self.total += total_slope(loss, block.y(reading), block.s(reading), np.zeros(block.n), b)

    def sums(self) -> dict[str, Any]:
        return {"total": self.total}


class SampleTask(NamedTuple):
    """Which shares of the rows with y > 0 and of the others to send; whether to send the products of the classes too."""

    reading: Reading
    d: int
    shares: tuple[float, float]
    seed: int
    products: bool


class Sample(Visitor):
    """A random part of the rows of each partition, drawn by the seed and the number of the partition alone."""

    def __init__(self, task: SampleTask):
        self.task = task
        self.upper, self.lower = (np.zeros(task.d if task.products else 0) for _ in range(2))

    def visit(self, block: Block, extra: Any) -> Any:
        task = self.task
        y, s = block.y(task.reading), block.s(task.reading)
        if task.products:
            self.upper += block.matrix.rmatvec(s * (y > 0.0))
            self.lower += block.matrix.rmatvec(s * (y <= 0.0))
        rng = np.random.default_rng([task.seed, block.number])
        shares = np.where(y > 0.0, *task.shares)
        chosen = np.flatnonzero((rng.random(block.n) < shares) & (s > 0.0))
        return (block.matrix.take_rows(chosen).values, y[chosen], s[chosen] / shares[chosen]) if len(chosen) else None

    def sums(self) -> dict[str, Any]:
        return {"upper": self.upper, "lower": self.lower}
