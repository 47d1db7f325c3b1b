"""Certificates of the SVM as a game from a sample of the rows: they read little and hold with a stated probability.

Primal. For any theta the capped value is at least ``theta - E (theta - m)_+ / slack``, and a level g can be bought by the budget if
``E (g - m)_+ <= slack``. Thetas and levels are chosen on a fifth of the sample, the means bounded on the rest, which the
choice has not seen, by the empirical Bernstein inequality (Maurer & Pontil 2009).

Dual. A solver that draws rows i ~ p_t knows the mean of the drawn z_i, a martingale around Z'p for its average p. They differ by
more than ``2 R sqrt(2 log(2 / delta)) spread`` with probability at most delta (Pinelis 1994), where R bounds the rows and spread^2
is the sum of the squared weights of the draws. No row is read for it. In the end the draws themselves serve as a dual point of the
capped form, which holds for certain: p_i = min(cap s_i, c * weight of the draws of i). Only the rows at the cap are read again for
it, and only if they are not more than the sample has; where too few rows were drawn to carry all mass, there is no such point.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.point import Point
from saddlery.problems.tails import lower_tail, water_level
from saddlery.sampling.capped import Caps, project_capped

__all__ = ["RowSample"]

CHOICE = 5  # one row in so many serves to choose thetas and levels
SHARES = np.linspace(0.95, 0.1, 18)  # of the budget, for the levels that are tried


class RowSample:
    """Some rows of a problem, drawn with the law s and read once, to judge points that do not depend on them.

    Parameters
    ----------
    problem : SlackSVMProblem or OneVsRestSlackSVM
        The problem.
    rows : int
        How many rows to draw.
    confidence : float
        Probability with which each certificate holds, for data without rows longer than those seen.
    rng : Generator
        Of the draw.

    Attributes
    ----------
    reads : float
        Entries of X that were read.
    """

    def __init__(self, problem: Any, rows: int, confidence: float, rng: np.random.Generator):
        if rows < 2 * CHOICE or not 0.0 < confidence < 1.0:
            raise InputError(f"a sample needs at least {2 * CHOICE} rows and a confidence between 0 and 1")
        self.confidence = confidence
        law = np.cumsum(problem.s)
        drawn = np.minimum(np.searchsorted(law, rng.random(rows) * law[-1], side="right"), problem.n - 1)
        index, self.where = np.unique(drawn, return_inverse=True)
        self.drawn, self.taken = drawn, problem.matrix.take_rows(index)
        self.reads = float(self.taken.nnz)
        self.longest = math.sqrt(float(self.taken.row_square_norms.max()))
        self.basis = f"sampled: {rows:,} rows; holds with probability {confidence:g} for data without longer rows than those read"

    def judge(self, problem: Any, point: Point, last: bool = False) -> Certificate:
        """The certificate of a point; the dual value is minus infinity if the solver tells nothing of its draws.

        For the `last` point the rows that were drawn often are read once more, if they give a better bound.
        """
        classes = getattr(problem, "classes", [problem])
        w, b = point.w.reshape(len(point.w), -1), np.atleast_1d(point.b)
        dual: Any = None if point.dual is None else point.dual.reshape(len(point.dual), -1)
        delta = 0.5 * (1.0 - self.confidence) / len(classes)
        Xw = self.taken.matvec(w)[self.where]
        longest = self.longest if point.aux is None else max(self.longest, point.aux.longest)
        primal, bound = 0.0, 0.0
        for c, each in enumerate(classes):
            primal -= self._value(each, Xw[:, c], float(b[c]), float(np.linalg.norm(w[:, c])), longest, delta)
            usable = point.aux is not None and dual is not None and (each.form == "capped" or not each.is_balanced)
            if not usable:
                bound = -math.inf
                continue
            radius = 2.0 * longest * point.aux.spread * math.sqrt(2.0 * math.log(2.0 / delta))
            price = float(np.linalg.norm(point.aux.sums[c].sum(axis=0))) + radius + each.price(np.abs(dual[:, c]))
            if last and each.form == "capped":
                price = min(price, self._drawn_price(each, point.aux.sums[c], point.aux.weights[c]))
            bound -= price
        gap, scale = primal - bound, max(abs(primal), abs(bound)) if math.isfinite(bound) else abs(primal)
        relative = gap / scale if math.isfinite(gap) and scale > 0.0 else gap
        return Certificate(primal, bound, gap, relative, scale, self.basis)

    def _drawn_price(self, problem: Any, sums: np.ndarray, weights: np.ndarray) -> float:
        """||Z'p|| for the p that the draws make, brought under the cap; infinite if they make none that is cheap to know."""
        total, p, ratio = np.zeros(problem.d), np.zeros(problem.n), np.empty(problem.n)
        often = []
        with np.errstate(divide="ignore"):
            logs = np.log(np.divide(weights, problem.s, out=np.zeros(problem.n), where=problem.s > 0.0))
        for side, (rows, mass) in enumerate(problem.sides):
            members = rows[weights[rows] > 0.0]
            if problem.s[members].sum() < mass * problem.slack:
                return math.inf
            project_capped(Caps(problem.s, members, 1.0 / problem.slack, mass), 1.0, logs, ratio, p, 0.0)
            capped = p[members] >= problem.s[members] / problem.slack * (1.0 - 1e-12)
            free = members[~capped]
            factor = float(p[free].sum() / weights[free].sum()) if len(free) else 0.0
            total += factor * sums[side]
            p[free] = factor * weights[free]
            often.append((members[capped], factor))
        again = np.concatenate([rows for rows, _ in often])
        if len(again) > len(self.drawn):
            return math.inf
        if len(again):
            excess = np.concatenate([p[rows] - factor * weights[rows] for rows, factor in often])
            taken = problem.matrix.take_rows(again)
            self.reads += float(taken.nnz)
            total += taken.rmatvec(problem.y[again] * excess)
        return float(np.linalg.norm(total))

    def _value(self, problem: Any, Xw: np.ndarray, b: float, norm: float, longest: float, delta: float) -> float:
        """A lower bound of what (w, b) is worth, w brought into the ball."""
        inside = 1.0 / max(1.0, norm)
        m = problem.y[self.drawn] * inside * (Xw + b)
        farthest = inside * (longest * norm + abs(b))  # no margin is larger in size
        cut = len(m) // CHOICE
        chosen, rest, s = m[:cut], m[cut:], np.full(cut, 1.0 / cut)
        if problem.form == "capped":
            theta = lower_tail(chosen, s, problem.slack).level
            return max(-farthest, theta - _upper_mean(np.maximum(theta - rest, 0.0), theta + farthest, delta) / problem.slack)
        levels = [water_level(chosen, s, share * problem.slack, problem.cap) for share in SHARES]
        for g in levels:
            if _upper_mean(np.maximum(g - rest, 0.0), g + farthest, delta / len(SHARES)) <= problem.slack:
                return min(g, problem.cap - farthest)
        return -farthest


def _upper_mean(x: np.ndarray, most: float, delta: float) -> float:
    """An upper bound of the mean of a law on [0, most], from independent draws; fails with probability delta."""
    log, n = math.log(2.0 / delta), len(x)
    return float(x.mean() + math.sqrt(2.0 * x.var(ddof=1) * log / n) + 7.0 * max(most, 0.0) * log / (3.0 * (n - 1)))
