"""Several SVMs in the form of games, one for each class against the rest, over the same data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.matrix import Matrix, as_matrix
from saddlery.point import Point
from saddlery.problems.slack_sample import RowSample
from saddlery.problems.slack_svm import SlackSVMProblem

__all__ = ["DualPoint", "OneVsRestSlackSVM"]


class DualPoint(NamedTuple):
    """Feasible dual points of all classes, their products X'(s a) and the sum of their values."""

    a: np.ndarray
    Xta: np.ndarray
    value: float


class OneVsRestSlackSVM:
    """One :class:`SlackSVMProblem` in the capped form for each class against the rest; their values are added.

    Solvers see all of them at once, so that `simba` reads a column once for all classes. Points are w (d, k), b (k,) and dual
    (n, k), one column for each class.

    Parameters
    ----------
    X : array-like, sparse matrix or Matrix of shape (n, d)
        Data.
    codes : array of int of shape (n,)
        The class of each row, from 0 to k - 1; each must have a row with a positive weight.
    slack : float or array of shape (k,)
        As for the capped form, of all or of each class. With an intercept it can be at most twice the weight of the class.
    fit_intercept : bool
        Whether each class has a free intercept.
    sample_weight : array of shape (n,), optional
        Non-negative weights.

    Attributes
    ----------
    classes : list of SlackSVMProblem
        The problem of each class.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> problem = OneVsRestSlackSVM(np.eye(3), np.array([0, 1, 2]), slack=0.5)
    >>> solution = sd.solve(problem, solver="simba", tol=0.1, max_epochs=100)
    >>> solution.w.shape, np.argmax(np.eye(3) @ solution.w + solution.b, axis=1).tolist()
    ((3, 3), [0, 1, 2])
    """

    kind = "slack_svm_classes"
    loss = penalty = None
    form = "capped"

    def __init__(self, X: Any, codes: Any, slack: Any = 0.1, fit_intercept: bool = True, sample_weight: Any = None):
        self.matrix: Matrix = as_matrix(X)
        self.n, self.d = self.matrix.shape
        codes = np.asarray(codes)
        if codes.shape != (self.n,) or codes.dtype.kind not in "iu" or codes.min() < 0:
            raise InputError(f"codes must be one whole number from 0 for each of the {self.n} rows")
        self.k, self.fit_intercept = int(codes.max()) + 1, bool(fit_intercept)
        slacks = np.broadcast_to(np.asarray(slack, dtype=np.float64), (self.k,))
        self.classes = [
            SlackSVMProblem(
                self.matrix, np.where(codes == c, 1.0, -1.0), slacks[c], fit_intercept=fit_intercept, sample_weight=sample_weight
            )
            for c in range(self.k)
        ]
        self.codes, self.s = codes, self.classes[0].s

    def __repr__(self) -> str:
        intercept = ", intercept" if self.fit_intercept else ""
        return f"OneVsRestSlackSVM({self.matrix!r}, {self.k} classes{intercept})"

    @property
    def size(self) -> int:
        """Entries that one pass over the data reads."""
        return self.matrix.nnz

    def margins(self, w: np.ndarray) -> np.ndarray:
        """X w, a column for each class."""
        return self.matrix.matvec(w)

    def certify(self, w: Any, dual: Any = None, b: Any = 0.0) -> Certificate:
        """See :func:`saddlery.certify`; ``b=None`` stands for the best intercepts."""
        point = self.as_point(w, b, dual)
        if b is None:
            point = self.complete(point)
        primal, feasible = self.evaluate(point)
        return self.certificate(primal, feasible.value, feasible.a)

    def certificate(self, primal: float, dual: float, a: np.ndarray) -> Certificate:
        """The certificate of two sums of values; the unit is the larger of them."""
        size = abs(primal) + abs(dual)
        if primal < dual:
            size += float(np.sum(self.s[:, None] * np.abs(a) * np.sqrt(self.matrix.row_square_norms)[:, None]))
        return Certificate.of(primal, dual, max(abs(primal), abs(dual)), size)

    def sample(self, random_state: Any = 0, rows: int = 1000, confidence: float = 0.95) -> RowSample:
        """Rows for sampled certificates of all classes together."""
        return RowSample(self, min(rows, 10 * self.n), confidence, np.random.default_rng(random_state))

    # -- for the loop

    def first_point(self) -> Point:
        """No direction at all."""
        return Point(np.zeros((self.d, self.k)), np.zeros(self.k), None)

    def _column(self, point: Point, c: int, Xw: np.ndarray | None, Xta: np.ndarray | None = None) -> Point:
        dual = None if point.dual is None else np.ascontiguousarray(point.dual[:, c])
        own = [None if values is None else np.ascontiguousarray(values[:, c]) for values in (Xw, Xta)]
        return Point(np.ascontiguousarray(point.w[:, c]), float(point.b[c]), dual, Xw=own[0], Xta=own[1])

    def complete(self, point: Point) -> Point:
        """The best intercept and length of each class."""
        Xw = self.margins(point.w) if point.Xw is None else point.Xw
        found = [each.complete(self._column(point, c, Xw)) for c, each in enumerate(self.classes)]
        w, Xw = (np.stack(columns, axis=1) for columns in ([each.w for each in found], [each.Xw for each in found]))
        return point._replace(w=w, Xw=Xw, b=np.array([each.b for each in found]))

    def evaluate(self, point: Point) -> tuple[float, DualPoint]:
        """The sum of the primal values and of the dual ones."""
        Xw = self.margins(point.w) if point.Xw is None else point.Xw
        Xta = self.matrix.rmatvec(self.s[:, None] * point.dual) if point.dual is not None and point.Xta is None else point.Xta
        values = [each.evaluate(self._column(point, c, Xw, Xta)) for c, each in enumerate(self.classes)]
        a, products = (np.stack(columns, axis=1) for columns in ([dual.a for _, dual in values], [dual.Xta for _, dual in values]))
        return sum(primal for primal, _ in values), DualPoint(a, products, sum(dual.value for _, dual in values))

    def nonzeros(self, w: np.ndarray) -> int:
        """The number of weights that are not zero."""
        return int(np.count_nonzero(w))

    def check_cost(self, point: Point) -> float:
        """Entries of X that :meth:`evaluate` reads."""
        return self.k * self.matrix.nnz * float((point.Xw is None) + (point.dual is None or point.Xta is None))

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        """A start point from arrays (None for what is unknown), copied, checked and scaled into the unit balls."""
        w = np.zeros((self.d, self.k)) if w is None else np.asarray(w, dtype=np.float64)
        b = np.broadcast_to(np.asarray(0.0 if b is None else b, dtype=np.float64), (self.k,))
        dual = None if dual is None else np.asarray(dual, dtype=np.float64)
        if w.shape != (self.d, self.k) or (dual is not None and dual.shape != (self.n, self.k)):
            raise InputError(
                f"the points do not fit the problem: w needs the shape ({self.d}, {self.k}) and the dual ({self.n}, {self.k})"
            )
        found = [each.as_point(w[:, c], b[c], None if dual is None else dual[:, c]) for c, each in enumerate(self.classes)]
        duals = None if dual is None else np.stack([each.dual for each in found], axis=1)
        return Point(np.stack([each.w for each in found], axis=1), np.array([each.b for each in found]), duals)
