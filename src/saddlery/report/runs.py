"""One view of whatever has been solved: a Solution, a fitted estimator, a trace, or several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.solvers.base import Record, Solution, Status, Trace

__all__ = ["Run", "runs_of"]


class Run(NamedTuple):
    """One solve, as a table or a picture sees it.

    `best_dual` is the largest dual value known for the problem of this run: no model has a smaller objective. It is the dual
    value of its last record, or a better one if other runs solved the same problem.
    """

    label: str
    trace: Trace
    certificate: Certificate
    status: Status | None
    best_dual: float

    def column(self, name: str) -> np.ndarray:
        """A field of the records, or ``"suboptimality"``: what the primal point lacks at most, known in hindsight."""
        if name != "suboptimality":
            return self.trace.column(name)
        excess = np.maximum(self.trace.column("primal") - self.best_dual, 0.0)
        return excess / self.certificate.scale if self.certificate.scale > 0 else excess


def runs_of(source: Any, label: str = "", same_problem: bool = False) -> list[Run]:
    """The runs behind `source`.

    Parameters
    ----------
    source : Solution, fitted estimator, Trace, list or dict of these
        A one-vs-rest classifier gives one run for each class. The keys of a dict are the labels.
    label : str
        Label of a single run.
    same_problem : bool
        Whether several sources solved the same problem, so that the best dual value of any bounds all.

    Returns
    -------
    list of Run

    Examples
    --------
    >>> trace = Trace([Record(0, 0.0, 1.0, 0.7, 0.0, 0.7, 1.0, 0), Record(1, 0.1, 2.0, 0.5, 0.4, 0.1, 0.14, 1)])
    >>> [run.label for run in runs_of({"first": trace})]
    ['first']
    """
    runs = _collect(source, label)
    if same_problem:
        best = max(run.best_dual for run in runs)
        runs = [run._replace(best_dual=best) for run in runs]
    return runs


def _collect(source: Any, label: str) -> list[Run]:
    if isinstance(source, Solution):
        return [_run(label or source.solver, source.trace, source.certificate, source.status)]
    if isinstance(source, Trace):
        return [_run(label, source, None, None)]
    if hasattr(source, "certificate_"):
        return _of_estimator(source, label)
    if isinstance(source, Mapping):
        return [run for key, item in source.items() for run in _collect(item, str(key))]
    if isinstance(source, Sequence) and not isinstance(source, str):
        if source and all(isinstance(item, Record) for item in source):
            return _collect(Trace(source), label)
        return [run for item in source for run in _collect(item, label)]
    kind = type(source).__name__
    raise InputError(
        f"expected a solution, a fitted saddlery estimator or a trace, not {kind}: fit it first, or give what solve returns"
    )


def _of_estimator(estimator: Any, label: str) -> list[Run]:
    """One run for each problem of a fitted estimator: a single one, or one for each class."""
    certificates = getattr(estimator, "certificates_", [estimator.certificate_])
    count = len(certificates)
    traces = getattr(estimator, "traces_", None) or [Trace()] * count  # a model from a file may have come without them
    if count == 1:
        return [_run(label, traces[0], certificates[0], estimator.status_)]
    names = [str(name) for name in getattr(estimator, "classes_", range(count))]
    prefix = f"{label}, " if label else ""
    return [
        _run(f"{prefix}class {name}", trace, certificate, _status(estimator, certificate))
        for name, trace, certificate in zip(names, traces, certificates, strict=True)
    ]


def _status(estimator: Any, certificate: Certificate) -> Status:
    """The status of one of several fits: the estimator keeps that of the least certified one."""
    return Status.CONVERGED if certificate.relative_gap <= estimator.tol else estimator.status_


def _run(label: str, trace: Trace, certificate: Certificate | None, status: Status | None) -> Run:
    if certificate is None:
        if not trace:
            raise InputError("there is nothing to show: the trace is empty")
        last = trace[-1]
        scale = last.gap / last.relative_gap if last.relative_gap > 0 else _scale_of(trace)
        certificate = Certificate(last.primal, last.dual, last.gap, last.relative_gap, scale)
    return Run(label, trace, certificate, status, max([certificate.dual, *(record.dual for record in trace)]))


def _scale_of(trace: Trace) -> float:
    """The unit of the relative gaps, from a record that shows it."""
    return next((record.gap / record.relative_gap for record in trace if record.relative_gap > 0), 1.0)
