"""Figure 1 of Lu and Freund (2020): P - P* of the stochastic Frank-Wolfe methods against the number of sample gradients."""

from __future__ import annotations

from saddlery.experiments.frank_wolfe import PAPER
from saddlery.experiments.frank_wolfe_curves import GapFigure

__all__ = ["FrankWolfeFigure1"]


class FrankWolfeFigure1(GapFigure):
    """See the module."""

    title = "Stochastic Frank-Wolfe methods: how P - P* falls with the sample gradients"
    paper = f"{PAPER}, Figure 1"
    axis = "sample_gradients"
    what = "sample gradients"
    marks = (2.0, 10.0, 100.0, 500.0)
