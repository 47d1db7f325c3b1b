"""Figure 3 of Shi, Zhang and Yu (2017): adversarial prediction on ionosphere, primal gap and F-score against passes and time."""

from __future__ import annotations

from typing import Any, ClassVar

from saddlery.experiments.fscore_curves import PAPER, FScoreFigure, methods

__all__ = ["FScoreFigure3"]


class FScoreFigure3(FScoreFigure):
    """See the module."""

    title = "Adversarial prediction of the F-score on ionosphere: primal gap and test F against passes and time"
    paper = f"{PAPER}, Figure 3"
    number = 3
    full: ClassVar[dict[str, Any]] = {
        "data": ["ionosphere"],
        "train": [122, 89],
        "test": [52, 37],
        "alpha": 0.01,
        "smoothing": 1.0,
        "tol": 1e-11,
        "most_passes": 60.0,
        "most_seconds": 120.0,
        "methods": methods(1e-2, 1e-7, 211),
        "seed": 0,
    }
    quick: ClassVar[dict[str, Any]] = {
        "train": [35, 25],
        "most_passes": 20.0,
        "most_seconds": 5.0,
        "methods": methods(3e-2, 1e-6, 60),
    }
