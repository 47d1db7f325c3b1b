"""Figure 2 of Lu and Freund (2020): P - P* of the stochastic Frank-Wolfe methods against the number of oracle calls."""

from __future__ import annotations

from saddlery.experiments.frank_wolfe import PAPER
from saddlery.experiments.frank_wolfe_curves import GapFigure

__all__ = ["FrankWolfeFigure2"]


class FrankWolfeFigure2(GapFigure):
    """See the module."""

    title = "Stochastic Frank-Wolfe methods: how P - P* falls with the oracle calls"
    paper = f"{PAPER}, Figure 2"
    axis = "oracle_calls"
    what = "oracle calls"
    marks = (10.0, 200.0, 2000.0, 20_000.0)
