"""A problem on a random part of its rows, whose rough solution is a good start for the whole."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["sample_rows"]


def sample_rows(problem: Any, rng: np.random.Generator, rows: int) -> Any:
    """The problem on about `rows` of its rows, or None if they would not do.

    Rows are random, one of each of as many stretches (strides meet periodic rows), of a rare class as many as of the other, with
    weights that make up for it.

    Parameters
    ----------
    problem : LinearProblem
        The whole.
    rng : Generator
        Draws the rows.
    rows : int
        How many to take.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem(np.eye(8), [1, -1, 1, 1, 1, 1, 1, 1], penalty=sd.penalties.L1(0.1))
    >>> sample_rows(problem, np.random.default_rng(0), 4).y.tolist()
    [-1.0, 1.0, 1.0]
    """
    signs = problem.loss.targets == "signs"
    classes = [np.flatnonzero(problem.y > 0.0), np.flatnonzero(problem.y < 0.0)] if signs else [np.arange(problem.n)]
    share = rows // len(classes)
    parts = [part if len(part) <= share else part[_one_of_each(len(part), share, rng)] for part in classes]
    factors = [np.full(len(part), len(whole) / len(part)) for part, whole in zip(parts, classes, strict=True)]
    chosen = np.concatenate(parts)
    order = np.argsort(chosen, kind="stable")  # which is quick where there are two ascending parts
    weights = (problem.s[chosen] * np.concatenate(factors))[order]
    chosen = chosen[order]
    if any(weights[problem.y[chosen] == y].sum() == 0.0 for y in ((-1.0, 1.0) if signs else ())) or not weights.any():
        return None
    return problem.take_rows(chosen, weights)


def _one_of_each(count: int, stretches: int, rng: np.random.Generator) -> np.ndarray:
    """A random one of each of so many stretches of numbers below `count`, in ascending order."""
    edges = np.arange(stretches + 1) * count // stretches
    return edges[:-1] + (rng.random(stretches) * np.diff(edges)).astype(np.int64)
