"""What a solver that draws rows knows of them, for sampled certificates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Draws"]


class Draws(NamedTuple):
    """What the drawn rows say of Z'p: their weighted mean for each class, the root of the sum of the squared weights, the longest row."""

    mean: np.ndarray
    spread: float
    longest: float
