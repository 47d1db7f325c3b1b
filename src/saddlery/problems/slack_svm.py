"""The SVM as a game of margins: max_{||w|| <= 1, b} of the mean of the smallest margins, or of a level that slacks can buy.

With z_i = y_i x_i, margins m_i = z_i.w + b y_i and weights p on the rows (p_i = s_i abs(a_i), sum p = 1):

=========  ==================================================  ==============================================================
form       the learner maximises                               its opponent minimises
=========  ==================================================  ==============================================================
"capped"   V = mean of the smallest margins, a share `slack`   ||Z'p|| over p_i <= s_i / slack (Schoelkopf's nu, NuSVC's)
           of all weight
"budget"   gamma = min_i m_i + xi_i over slacks xi >= 0 with   ||Z'p|| + slack * max_i p_i / s_i (Hazan, Koren & Srebro's nu)
           sum_i s_i xi_i <= slack
=========  ==================================================  ==============================================================

A free intercept balances p: the classes have mass 1/2 each. The library's learner minimises, so P = -V or -gamma and D is minus
the opponent's value. Nothing here asks for ||x_i|| <= 1: values scale with X.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.matrix import Matrix, as_matrix
from saddlery.point import Point
from saddlery.problems.linear import _as_targets, _as_weights
from saddlery.problems.slack_sample import RowSample
from saddlery.problems.tails import best_level, lower_tail, shift_to_mass, tail_weights, top_sum, water_level

__all__ = ["DualPoint", "SlackSVMProblem"]

FORMS = ("capped", "budget")


class DualPoint(NamedTuple):
    """A feasible dual point, its product X'(s a) and its value."""

    a: np.ndarray
    Xta: np.ndarray
    value: float


class SlackSVMProblem:
    """A soft-margin SVM in the form of a game, with ``||w|| <= 1``; see the top of this module for the two forms.

    Parameters
    ----------
    X : array-like, sparse matrix or Matrix of shape (n, d)
        Data.
    y : array of shape (n,)
        Targets -1 and +1.
    slack : float
        "capped": the share of the weight whose mean margin counts, in (0, 1], as `nu` of scikit-learn's NuSVC. "budget": the mean
        slack that may be spent, 0 or more, in units of X.
    form : {"capped", "budget"}
        Which game.
    fit_intercept : bool
        Whether there is a free intercept b.
    sample_weight : array of shape (n,), optional
        Non-negative weights; they are divided by their sum. Weight 2 is the row twice.
    cap : float
        "budget" only: bound on each slack, and twice the bound on abs(b); 2 in the paper, where rows are at most 1 long.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.SlackSVMProblem([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [1, 1, -1], slack=0.5)
    >>> solution = sd.solve(problem, tol=1e-6)
    >>> round(-solution.certificate.primal, 6), solution.status.name  # the mean of the smallest margins
    (1.06066, 'CONVERGED')
    """

    kind = "slack_svm"
    loss = penalty = None

    def __init__(
        self,
        X: Any,
        y: Any,
        slack: float = 0.1,
        form: str = "capped",
        fit_intercept: bool = True,
        sample_weight: Any = None,
        cap: float = math.inf,
    ):
        self.matrix: Matrix = as_matrix(X)
        self.n, self.d = self.matrix.shape
        self.fit_intercept = bool(fit_intercept)
        self.s = _as_weights(sample_weight, self.n)
        self.y = _as_targets(y, self.n, "signs" if self.fit_intercept else "reals", self.s)
        if not np.isin(self.y, (-1.0, 1.0)).all():
            raise InputError(f"this problem needs targets -1 and +1, but y holds {self.y[np.abs(self.y) != 1.0][0]:g}")
        if form not in FORMS:
            raise InputError(f"form must be 'capped' or 'budget', not {form!r}")
        self.form, self.slack, self.cap = form, _as_slack(slack, form), _as_cap(cap, form)
        if form == "capped" and self.fit_intercept and self.slack > self.most_slack * (1.0 + 1e-12):
            raise InputError(
                f"slack={self.slack:g} is too much for these classes: with an intercept it can be at most {self.most_slack:g}, "
                "twice the weight of the smaller class; take less, or fit_intercept=False"
            )

    def __repr__(self) -> str:
        intercept = ", intercept" if self.fit_intercept else ""
        return f"SlackSVMProblem({self.matrix!r}, slack={self.slack:g}, {self.form}{intercept})"

    @property
    def size(self) -> int:
        """Entries that one pass over the data reads."""
        return self.matrix.nnz

    @cached_property
    def most_slack(self) -> float:
        """The largest slack of the capped form: 1, or twice the weight of the smaller class if there is an intercept."""
        if not self.fit_intercept:
            return 1.0
        positive = float(self.s[self.y > 0.0].sum())
        return 2.0 * min(positive, float(self.s.sum()) - positive)

    @cached_property
    def sides(self) -> tuple[tuple[np.ndarray, float], ...]:
        """The capped simplices that p lives in: rows and mass of each; one for each class if there is a free intercept."""
        present = self.s > 0.0
        if self.is_balanced:
            return tuple((np.flatnonzero(present & (self.y == sign)), 0.5) for sign in (1.0, -1.0))
        return ((np.flatnonzero(present), 1.0),)

    @property
    def is_balanced(self) -> bool:
        """Whether the opponent must give both classes the same mass: a free intercept without bound."""
        return self.fit_intercept and math.isinf(self.cap)

    # -- values

    def margins(self, w: np.ndarray) -> np.ndarray:
        """X w."""
        return self.matrix.matvec(w)

    def value(self, Xw: np.ndarray, b: float) -> float:
        """What the learner gets for (w, b): the tail mean, or the level. Larger is better."""
        m = self.y * (Xw + b)
        if self.form == "capped":
            return lower_tail(m, self.s, self.slack).total / self.slack
        return water_level(m, self.s, self.slack, self.cap)

    def level(self, Xw: np.ndarray, b: float) -> float:
        """The margin up to which rows count: the w of an ordinary SVM is w divided by it (Lemma 2.1 of the paper)."""
        if self.form == "capped":
            return lower_tail(self.y * (Xw + b), self.s, self.slack).level
        return self.value(Xw, b)

    def best_b(self, Xw: np.ndarray) -> float:
        """The intercept that gives (w, b) the largest value."""
        if not self.fit_intercept:
            return 0.0
        if self.form == "budget":
            return best_level(self.y * Xw, self.y, self.s, self.slack, self.cap).b
        plus, minus = (lower_tail(self.y[rows] * Xw[rows], self.s[rows], 0.5 * self.slack).level for rows, _ in self.sides)
        return 0.5 * (minus - plus)

    def dual_point(self, a: np.ndarray, Xta: np.ndarray | None = None) -> DualPoint:
        """The given point brought into the game's set, with its value; `Xta` is X'(s a) if it is known.

        Signs are corrected, masses made 1 (1/2 for each class if p must be balanced), and in the capped form all is shifted and
        clipped to at most 1 / slack. A feasible point stays as it is.
        """
        size = np.maximum(-self.y * np.asarray(a, dtype=np.float64), 0.0)
        out = np.zeros(self.n)
        moved = False
        for rows, mass in self.sides:
            values, s = size[rows], self.s[rows]
            total = float(s @ values)
            if not total > 0.0:
                values, total = np.ones(len(rows)), float(s.sum())
            if abs(total - mass) > 1e-12 * mass:
                values, moved = values * (mass / total), True
            if self.form == "capped" and values.max() > (1.0 + 1e-12) / self.slack:
                values, moved = shift_to_mass(values, s, 1.0 / self.slack, mass), True
            out[rows] = values
        feasible = -self.y * out
        if Xta is None or moved or not np.array_equal(feasible, a):
            Xta = self.matrix.rmatvec(self.s * feasible)
        return DualPoint(feasible, Xta, -float(np.linalg.norm(Xta)) - self.price(out))

    def price(self, size: np.ndarray) -> float:
        """H(a) for sizes abs(a_i): what slacks (and a bounded intercept) can earn against p."""
        if self.form == "capped":
            return 0.0
        price = top_sum(size, self.s, self.slack, self.cap) if self.slack else 0.0
        if self.fit_intercept and not self.is_balanced:
            price += 0.5 * self.cap * abs(float(self.s @ (self.y * size)))
        return price

    def own_dual(self, Xw: np.ndarray, b: float) -> np.ndarray:
        """The opponent's answer to (w, b): all its mass on the smallest margins."""
        m = self.y * (Xw + b)
        size = np.zeros(self.n)
        for rows, mass in self.sides:
            share = mass * self.slack if self.form == "capped" else float(self.s[rows][m[rows] <= self.level(Xw, b)].sum())
            share = min(max(share, float(self.s[rows].min())), float(self.s[rows].sum()))
            size[rows] = tail_weights(m[rows], self.s[rows], share) / (self.s[rows] * share) * mass
        return -self.y * size

    # -- certificate

    def certify(self, w: Any, dual: Any = None, b: float | None = 0.0) -> Certificate:
        """See :func:`saddlery.certify`; w (with b) is scaled into the unit ball, and ``b=None`` stands for the best intercept."""
        if b and not self.fit_intercept:
            raise InputError("the problem has no intercept: build it with fit_intercept=True, or give b=0")
        point = self.as_point(w, b, dual)
        Xw = self.margins(point.w)
        if b is None:
            point = point._replace(b=self.best_b(Xw))
        primal, feasible = self.evaluate(point._replace(Xw=Xw))
        return self.certificate(primal, feasible.value, feasible.a)

    def certificate(self, primal: float, dual: float, a: np.ndarray, basis: str = "exact") -> Certificate:
        """The certificate of two values; the unit is the larger of them, and a gap at the value zero counts as it is."""
        size = abs(primal) + abs(dual)
        if primal < dual:  # only then does it matter how large the terms were that cancelled
            size += float(self.s @ (np.abs(a) * np.sqrt(self.matrix.row_square_norms)))
        return Certificate.of(primal, dual, max(abs(primal), abs(dual)), size, basis)

    def is_zero(self, certificate: Certificate, tol: float) -> bool:
        """Whether the value is zero as far as can be told: no direction has a positive one, and the bound is `tol` times a row.

        No relative tolerance can be met then: in the capped form the hulls of the classes touch, and w = 0 is best.
        """
        if certificate.basis != "exact" or (self.form == "budget" and self.slack > 0.0) or certificate.primal < 0.0:
            return False  # what follows may read all data
        return -certificate.dual <= tol * math.sqrt(float(self.s @ self.matrix.row_square_norms))

    def sample(self, random_state: Any = 0, rows: int = 1000, confidence: float = 0.95) -> RowSample:
        """Rows for sampled certificates: give it as `certificate` to :func:`saddlery.solve` where the defaults do not suit."""
        return RowSample(self, min(rows, 10 * self.n), confidence, np.random.default_rng(random_state))

    # -- for the loop

    def first_point(self) -> Point:
        """No direction at all."""
        return Point(np.zeros(self.d), 0.0, None)

    def complete(self, point: Point) -> Point:
        """The point with its best intercept, and with w in the unit ball, or on its border where that is better."""
        Xw = self.margins(point.w) if point.Xw is None else point.Xw
        norm = float(np.linalg.norm(point.w))
        found = []
        for factor in {1.0 / max(norm, 1.0), 1.0 / norm if norm > 0.0 else 1.0}:
            b = self.best_b(factor * Xw)
            found.append((self.value(factor * Xw, b), factor, b))
        _, factor, b = max(found)
        return point._replace(w=factor * point.w, Xw=factor * Xw, b=b)

    def evaluate(self, point: Point) -> tuple[float, DualPoint]:
        """The primal value of a point in the ball and its dual made feasible, using the products that come with it."""
        Xw = self.margins(point.w) if point.Xw is None else point.Xw
        inside = 1.0 / max(1.0, float(np.linalg.norm(point.w)))
        a, Xta = (self.own_dual(Xw, point.b), None) if point.dual is None else (point.dual, point.Xta)
        b = inside * point.b
        if self.fit_intercept and not self.is_balanced:
            b = min(max(b, -0.5 * self.cap), 0.5 * self.cap)
        return -self.value(inside * Xw, b), self.dual_point(a, Xta)

    def nonzeros(self, w: np.ndarray) -> int:
        """The number of weights that are not zero."""
        return int(np.count_nonzero(w))

    def check_cost(self, point: Point) -> float:
        """Entries of X that :meth:`evaluate` reads."""
        return self.matrix.nnz * float((point.Xw is None) + (point.dual is None or point.Xta is None))

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        """A start point from arrays (None for what is unknown), copied, checked and scaled into the unit ball."""
        w = np.zeros(self.d) if w is None else np.array(w, dtype=np.float64)
        dual = None if dual is None else np.array(dual, dtype=np.float64)
        if w.shape != (self.d,) or (dual is not None and dual.shape != (self.n,)):
            raise InputError(f"the points do not fit the problem: w needs {self.d} numbers and the dual {self.n}")
        b = float(b or 0.0) if self.fit_intercept else 0.0
        if not (np.isfinite(w).all() and (dual is None or np.isfinite(dual).all()) and math.isfinite(b)):
            raise InputError("w, b and the dual point must be finite")
        norm = float(np.linalg.norm(w))
        return Point(w / norm, b / norm, dual) if norm > 1.0 else Point(w, b, dual)


# --------------------------------------------------------------------------- input


def _as_slack(slack: Any, form: str) -> float:
    try:
        value = float(slack)
    except (TypeError, ValueError) as error:
        raise InputError(f"slack must be a number, not {slack!r}") from error
    if form == "capped" and not 0.0 < value <= 1.0:
        raise InputError(f"slack is a share of the rows in the capped form: above 0 and at most 1, not {slack!r}")
    if form == "budget" and not 0.0 <= value < math.inf:
        raise InputError(f"slack is a mean slack in the budget form: 0 or more, not {slack!r}")
    return value


def _as_cap(cap: Any, form: str) -> float:
    value = float(cap)
    if not value > 0.0:
        raise InputError(f"cap must be positive, not {cap!r}")
    if form == "capped" and math.isfinite(value):
        raise InputError("the capped form has no slacks that could be bounded: leave out cap, or use form='budget'")
    return value
