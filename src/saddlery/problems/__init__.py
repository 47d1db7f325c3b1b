"""Problems: data, loss and penalty, with their primal and dual values; no algorithms."""

from saddlery.problems.linear import LinearProblem
from saddlery.problems.multiclass import MulticlassProblem

__all__ = ["LinearProblem", "MulticlassProblem"]
