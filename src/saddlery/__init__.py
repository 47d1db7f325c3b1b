"""Saddlery: linear models by saddle-point optimisation, each with a certificate.

Public names are imported when first used, so that ``import saddlery`` is quick.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

__version__ = version("saddlery")

_PLACES = {
    "LinearProblem": "saddlery.problems.linear",
    "DaskLinearProblem": "saddlery.distributed.problem",
    "MulticlassProblem": "saddlery.problems.multiclass",
    "CURProblem": "saddlery.problems.cur",
    "SlackSVMProblem": "saddlery.problems.slack_svm",
    "OneVsRestSlackSVM": "saddlery.problems.slack_classes",
    "CompletionProblem": "saddlery.problems.completion",
    "LowRank": "saddlery.problems.completion",
    "FScoreProblem": "saddlery.problems.fscore",
    "FScoreClassifier": "saddlery.estimators.fscore",
    "Game": "saddlery.problems.games",
    "BoostingProblem": "saddlery.problems.boosting",
    "Certificate": "saddlery.certificate",
    "certify": "saddlery.certificate",
    "solve": "saddlery.solvers.loop",
    "Solution": "saddlery.solvers.base",
    "Status": "saddlery.solvers.base",
    "LinearClassifier": "saddlery.estimators.classifier",
    "LinearRegressor": "saddlery.estimators.regressor",
    "LPBoostClassifier": "saddlery.estimators.lpboost",
    "LinearClassifierCV": "saddlery.estimators.cv",
    "LinearRegressorCV": "saddlery.estimators.cv",
    "path": "saddlery.paths",
    "PathResult": "saddlery.paths",
    "MatrixCompletion": "saddlery.estimators.completion",
    "SublinearSVC": "saddlery.estimators.sublinear_svc",
    "FeaturesOnDemand": "saddlery.matrix.fetched",
    "FetchedMatrix": "saddlery.matrix.fetched",
    "RandomBinning": "saddlery.estimators.random_binning",
    "CURDecomposition": "saddlery.estimators.cur",
    "audit": "saddlery.estimators.audit",
    "save": "saddlery.model_file",
    "load": "saddlery.model_file",
    "read_data": "saddlery.data",
    "convert": "saddlery.data.store",
    "open_store": "saddlery.matrix.store",
    "ConvergenceDisplay": "saddlery.report.displays",
    "PathDisplay": "saddlery.report.displays",
    "InputError": "saddlery.errors",
    "UnsupportedError": "saddlery.errors",
}
_MODULES = ("geometry", "losses", "penalties", "solvers")

__all__ = [
    "BoostingProblem",
    "CURDecomposition",
    "CURProblem",
    "Certificate",
    "CompletionProblem",
    "ConvergenceDisplay",
    "DaskLinearProblem",
    "FScoreClassifier",
    "FScoreProblem",
    "FeaturesOnDemand",
    "FetchedMatrix",
    "Game",
    "InputError",
    "LPBoostClassifier",
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearProblem",
    "LinearRegressor",
    "LinearRegressorCV",
    "LowRank",
    "MatrixCompletion",
    "MulticlassProblem",
    "OneVsRestSlackSVM",
    "PathDisplay",
    "PathResult",
    "RandomBinning",
    "SlackSVMProblem",
    "Solution",
    "Status",
    "SublinearSVC",
    "UnsupportedError",
    "__version__",
    "audit",
    "certify",
    "convert",
    "geometry",
    "load",
    "losses",
    "open_store",
    "path",
    "penalties",
    "read_data",
    "save",
    "solve",
    "solvers",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"saddlery.{name}")
    if name in _PLACES:
        found = globals()[name] = getattr(importlib.import_module(_PLACES[name]), name)  # the next time it is there
        return found
    raise AttributeError(f"module 'saddlery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:  # what type checkers and editors see
    from saddlery import geometry, losses, penalties, solvers
    from saddlery.certificate import Certificate, certify
    from saddlery.data import read_data
    from saddlery.data.store import convert
    from saddlery.distributed.problem import DaskLinearProblem
    from saddlery.errors import InputError, UnsupportedError
    from saddlery.estimators.audit import audit
    from saddlery.estimators.classifier import LinearClassifier
    from saddlery.estimators.completion import MatrixCompletion
    from saddlery.estimators.cur import CURDecomposition
    from saddlery.estimators.cv import LinearClassifierCV, LinearRegressorCV
    from saddlery.estimators.fscore import FScoreClassifier
    from saddlery.estimators.lpboost import LPBoostClassifier
    from saddlery.estimators.random_binning import RandomBinning
    from saddlery.estimators.regressor import LinearRegressor
    from saddlery.estimators.sublinear_svc import SublinearSVC
    from saddlery.matrix.fetched import FeaturesOnDemand, FetchedMatrix
    from saddlery.matrix.store import open_store
    from saddlery.model_file import load, save
    from saddlery.paths import PathResult, path
    from saddlery.problems.boosting import BoostingProblem
    from saddlery.problems.completion import CompletionProblem, LowRank
    from saddlery.problems.cur import CURProblem
    from saddlery.problems.fscore import FScoreProblem
    from saddlery.problems.games import Game
    from saddlery.problems.linear import LinearProblem
    from saddlery.problems.multiclass import MulticlassProblem
    from saddlery.problems.slack_classes import OneVsRestSlackSVM
    from saddlery.problems.slack_svm import SlackSVMProblem
    from saddlery.report.displays import ConvergenceDisplay, PathDisplay
    from saddlery.solvers.base import Solution, Status
    from saddlery.solvers.loop import solve
