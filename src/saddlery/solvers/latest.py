"""Runs without exact certificates: the newest point counts, judged by a sample of the rows or not at all.

An exact certificate reads all data, so it has no place in a run that reads only some of them (C14, C15 of ``docs/families.md``).
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError, UnsupportedError
from saddlery.point import Point
from saddlery.solvers.base import Record

__all__ = ["Latest", "latest"]

UNASKED = "none: not asked for"


class Latest:
    """The newest point and what is known of it, in place of the best points of a certified run.

    Parameters
    ----------
    sample : object or None
        With ``judge(problem, point, last=False)`` and ``reads``, the entries of X that it took; a problem's `sample` makes
        it. None: no certificate at all, values are NaN.
    """

    def __init__(self, sample: Any = None):
        self.sample = sample
        self.w: Any = None
        self.b: Any = 0.0
        self.a: Any = None
        self.aux: Any = None
        self.known = Certificate(math.nan, math.nan, math.nan, math.nan, math.nan, UNASKED)

    @property
    def reads(self) -> float:
        """Entries of X that certificates took."""
        return 0.0 if self.sample is None else float(self.sample.reads)

    @property
    def counts(self) -> dict[str, float]:
        """For the records of the trace."""
        return {} if self.sample is None else {"certificate_accesses": self.reads}

    def update(self, problem: Any, point: Point) -> None:
        """Take the point, whatever it is worth: a choice by the sample would spoil the sample's word."""
        if self.sample is not None:
            self.known = self.sample.judge(problem, point)
        self.aux = point.aux
        self.w, self.b, self.a = copy.copy(point.w), copy.copy(point.b), copy.copy(point.dual)

    def certificate(self, problem: Any) -> Certificate:
        """What is known of the newest point."""
        return self.known

    def confirm(self, problem: Any) -> Certificate:
        """The last word, for which a sample may read a little more."""
        if self.sample is not None:
            self.known = self.sample.judge(problem, Point(self.w, self.b, self.a, aux=self.aux), last=True)
        return self.known

    def last_record(self, record: Record) -> Record:
        """The last record of the trace with what is known in the end."""
        known = self.known
        record = record._replace(primal=known.primal, dual=known.dual, gap=known.gap, relative_gap=known.relative_gap)
        return record._replace(counts={**record.counts, **self.counts})


def latest(problem: Any, certificate: Any, rng: np.random.Generator) -> Latest:
    """For ``certificate=None``, ``"sampled"`` or a sample that the caller made; others are refused.

    A sample has a generator of its own: the solver must not know it, and its draws stay the same.
    """
    if certificate is None:
        return Latest()
    if isinstance(certificate, str) and certificate == "sampled":
        if not hasattr(problem, "sample"):
            raise UnsupportedError(f"a {problem.kind} problem has no sampled certificate: use certificate='exact' or None")
        return Latest(problem.sample(rng.spawn(1)[0]))
    if hasattr(certificate, "judge"):
        return Latest(certificate)
    raise InputError(f"certificate must be 'exact', 'sampled', None or a sample of the problem, not {certificate!r}")
