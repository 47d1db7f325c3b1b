"""Problems: data, loss and penalty, with their primal and dual values; no algorithms."""

from saddlery.problems.boosting import BoostingProblem
from saddlery.problems.completion import CompletionProblem, LowRank
from saddlery.problems.cur import CURProblem
from saddlery.problems.games import Game
from saddlery.problems.linear import LinearProblem
from saddlery.problems.multiclass import MulticlassProblem

__all__ = ["BoostingProblem", "CURProblem", "CompletionProblem", "Game", "LinearProblem", "LowRank", "MulticlassProblem"]
