"""What a solver that draws rows knows of them, for sampled certificates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Draws"]


class Draws(NamedTuple):
    """The rows that a solver has drawn, for each of k classes.

    Attributes
    ----------
    sums : array of shape (k, 2, d)
        The weighted mean of the drawn z_i, in two terms: of rows of the class and of the others (in the first alone if there is no
        free intercept). Together they estimate Z'p.
    weights : array of shape (k, n)
        The weight of each row in that mean.
    spread : float
        Root of the sum of the squared weights of all draws.
    longest : float
        The largest norm of a row that was read.
    """

    sums: np.ndarray
    weights: np.ndarray
    spread: float
    longest: float
