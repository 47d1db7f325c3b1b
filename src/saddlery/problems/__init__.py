"""Problems: data, loss and penalty, with their primal and dual values; no algorithms."""

from saddlery.problems.completion import CompletionProblem, LowRank
from saddlery.problems.cur import CURProblem
from saddlery.problems.linear import LinearProblem
from saddlery.problems.multiclass import MulticlassProblem
from saddlery.problems.slack_classes import OneVsRestSlackSVM
from saddlery.problems.slack_svm import SlackSVMProblem

__all__ = [
    "CURProblem",
    "CompletionProblem",
    "LinearProblem",
    "LowRank",
    "MulticlassProblem",
    "OneVsRestSlackSVM",
    "SlackSVMProblem",
]
