"""Figure 2 of Shi, Zhang and Yu (2017): adversarial prediction on synthetic data, gap and F-score against passes and time."""

from __future__ import annotations

from typing import Any, ClassVar

from saddlery.experiments.fscore_curves import PAPER, FScoreFigure, methods

__all__ = ["FScoreFigure2"]


class FScoreFigure2(FScoreFigure):
    """See the module."""

    title = "Adversarial prediction of the F-score on synthetic data: primal gap and test F against passes and time"
    paper = f"{PAPER}, Figure 2"
    number = 2
    full: ClassVar[dict[str, Any]] = {
        "train": [50, 50],
        "test": [100, 100],
        "alpha": 0.1,
        "smoothing": 1.0,
        "tol": 1e-11,
        "most_passes": 100.0,
        "most_seconds": 60.0,
        "methods": methods(1e-2, 1e-6, 100),
        "seed": 0,
    }
    quick: ClassVar[dict[str, Any]] = {
        "train": [20, 20],
        "test": [40, 40],
        "most_passes": 30.0,
        "most_seconds": 5.0,
        "methods": methods(3e-2, 1e-5, 40),
    }
