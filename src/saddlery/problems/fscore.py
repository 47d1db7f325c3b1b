"""The F-score game: weights whose scores do best against the worst labelling that agrees with the data.

Adversarial prediction of Shi, Zhang & Yu (2017), section 5: the predictor chooses a distribution over labellings z, the adversary
one over y that must agree with the data in ``X' E[y] / n = X' labels / n``, and the predictor earns F(y, z). The weights w are the
multipliers of the agreement; l2 stands for agreement up to an error. Here, as everywhere in this library, the learner minimises:

    min_{w, b, x} max_y  -F(y, x) + <E[y] - labels, X w + b> / n + alpha/2 |w|^2 + mu R(x) - mu R(y),      R(x) = sum x log x

over tables x (predictor) and y (adversary) in S (:mod:`saddlery.geometry.fscore_set`), so values are minus those of the paper.

=============  ==================================================  ==========================================
here           meaning                                             letters of the paper
=============  ==================================================  ==========================================
x              predictor, minimises; `aux` of a point              beta, q, z; maximises there
y              adversary, maximises; `dual` of a point             alpha, p, y; minimises there
w, b           weights, free intercept                             theta (no intercept there)
alpha, mu      penalty, smoothing                                  lambda, mu
-P, -D         bounds of the score from below, above               min and max of (15), with the constant 1
=============  ==================================================  ==========================================
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.geometry.fscore_set import FScoreSet, marginals, mix_to_size
from saddlery.matrix import as_matrix
from saddlery.point import Point
from saddlery.problems.fscore_intervals import SizedTable, prefix_value, table_value
from saddlery.problems.fscore_prefixes import spread_prefixes
from saddlery.problems.fscore_sampling import ScoreFactors, TableSampling, score_factors
from saddlery.problems.games import GameProblem, Sampling

__all__ = ["FScoreDualPoint", "FScoreProblem"]

SMALL = 1500  # rows up to which bounds of the unsmoothed game are exact: all sizes are looked at
SLACK = 3e-5  # of the bounds beyond
PREFIX_TOL = 1e-5


class FScoreDualPoint(NamedTuple):
    """A feasible table of the adversary, the gradient of the predictor there (None for tables by sizes), and the dual value."""

    a: Any
    Xta: Any
    value: float


class FScoreProblem(GameProblem):
    """Maximise the F-score that is guaranteed against every labelling that agrees with the data; see the top of this file.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Data.
    y : array of shape (n,)
        Labels: 0 and 1, or -1 and +1.
    alpha : float
        Strength of ``alpha/2 |w|^2``, the paper's lambda.
    smoothing : float, default=0.0
        Strength of the entropies, the paper's mu. 0 is the F-score game itself; with smoothing both players hold tables of n x n
        numbers, so that n is limited to a few thousand, and values are no longer between 0 and 1.
    beta : float, default=1.0
        Recall counts so much more than precision, ``F = (1 + beta^2) hits / (beta^2 positives + predicted)``. All that is said
        here is exact for every beta.
    fit_intercept : bool, default=False
        Whether there is a free intercept. The adversary must then expect as many positives as the data have.
    geometry : {"entropy", "euclidean"}
        Of the steps that solvers of games make.

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> X, y = np.array([[2.0], [1.0], [-1.0], [-2.0]]), np.array([1, 1, 0, 0])
    >>> problem = sd.FScoreProblem(X, y, alpha=0.1)
    >>> solution = sd.solve(problem, tol=1e-6)
    >>> round(-solution.certificate.primal, 4)  # what no labelling in agreement with the data can undercut, less the penalty
    0.9111
    """

    kind = "fscore"
    least_scale = 1e-2  # scores lie between 0 and 1: gaps are never measured in a smaller unit
    aux_is_primal = True  # the predictor belongs to the primal point: the loop keeps both together
    schemes: ClassVar[tuple[str, ...]] = ("independent", "rows")

    def __init__(
        self,
        X: Any,
        y: Any,
        alpha: float = 1e-3,
        smoothing: float = 0.0,
        beta: float = 1.0,
        fit_intercept: bool = False,
        geometry: str = "entropy",
    ):
        self.matrix = as_matrix(X)
        self.n, self.d = self.matrix.shape
        self.labels = _as_labels(y, self.n)
        self.alpha, self.smoothing = _as_number("alpha", alpha, True), _as_number("smoothing", smoothing, False)
        self.beta = _as_number("beta", beta, True)
        self.beta2 = self.beta * self.beta
        self.fit_intercept, self.geometry = bool(fit_intercept), geometry
        self.positives = float(self.labels.sum())
        if self.fit_intercept and not 0.0 < self.positives < self.n:
            raise InputError("a free intercept needs rows of both labels: give fit_intercept=False, or more rows")
        if self.smoothing > 0.0:
            _ = self.players  # refuses what is too large, before anything is computed

    def __repr__(self) -> str:
        return f"FScoreProblem({self.n:,} x {self.d:,}, alpha={self.alpha:g}, smoothing={self.smoothing:g}, beta={self.beta:g})"

    @cached_property
    def players(self) -> tuple[FScoreSet, FScoreSet]:  # type: ignore[override]
        """(predictor, adversary); the adversary's expected size is fixed by a free intercept."""
        fixed = self.positives if self.fit_intercept else None
        return (
            FScoreSet(self.n, self.smoothing, self.geometry),
            FScoreSet(self.n, self.smoothing, self.geometry, size=fixed),
        )

    @cached_property
    def sizes(self) -> np.ndarray:
        """1, ..., n."""
        return np.arange(1.0, self.n + 1.0)

    @cached_property
    def scores(self) -> ScoreFactors:
        """C of all sizes."""
        return score_factors(self.n, self.beta2)

    @cached_property
    def means(self) -> np.ndarray:
        """X' labels / n."""
        return self.matrix.rmatvec(self.labels) / self.n

    @property
    def size(self) -> int:
        """Entries of a table."""
        return self.n * self.n

    # -- the coupling of tables

    def weights(self, ybar: np.ndarray) -> np.ndarray:
        """The best w for an adversary with the marginals ybar: X'(labels - ybar) / (alpha n)."""
        return self.matrix.rmatvec(self.labels - ybar) / (self.alpha * self.n)

    def pull(self, y: np.ndarray) -> np.ndarray:
        """X w / n for the best w: what a positive label of each row earns the adversary."""
        return self.matrix.matvec(self.weights(marginals(y))) / self.n

    def gradient_x(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """-(C'y) + 1 - sum y."""
        out = self.scores.predicted @ -(self.scores.true.T @ y)
        out += 1.0 - y.sum()
        return out

    def gradient_y(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """-(C x) + 1 - sum x + i (X w)_k / n with the best w for y."""
        return self._gradient_at(x, self.pull(y))

    def _gradient_at(self, x: np.ndarray, pull: np.ndarray) -> np.ndarray:
        out = np.outer(self.sizes, pull)
        out -= self.scores.true @ (self.scores.predicted.T @ x)
        out += 1.0 - x.sum()
        return out

    def sampling(self, scheme: str, probabilities: str) -> Sampling:
        return TableSampling(self, scheme, probabilities)

    def pair(self, x: np.ndarray, y: np.ndarray, gx: np.ndarray | None = None, gy: np.ndarray | None = None) -> Point:
        """`Xw` of the point is the gradient of the adversary, `Xta` that of the predictor."""
        w = self.weights(marginals(y))
        gy = self._gradient_at(x, self.matrix.matvec(w) / self.n) if gy is None else gy
        b = -self.n * self.players[1].price(gy) if self.fit_intercept else 0.0
        return Point(w, b, y, gy, gx, aux=x)

    def players_at(self, point: Point) -> tuple[np.ndarray | None, np.ndarray | None]:
        x, y = point.aux, point.dual
        return (x if isinstance(x, np.ndarray) and x.ndim == 2 else None), (y if isinstance(y, np.ndarray) else None)

    # -- values

    def linear(self, w: np.ndarray, b: float) -> float:
        """<labels, X w + b> / n - alpha/2 |w|^2: the part of the lower bound that knows no player."""
        return float(w @ self.means) + b * self.positives / self.n - 0.5 * self.alpha * float(w @ w)

    def primal(self, w: np.ndarray, b: float, aux: Any = None, gy: np.ndarray | None = None) -> float:
        """P: minus the score that w, b and the predictor `aux` are sure of.

        `aux` is a table of n x n, or probabilities of the prefixes of the rows sorted by scores (largest first), n + 1 numbers; if
        there is none, a good mixture of prefixes is found. `gy` is the gradient of the adversary without b, if it is known.
        """
        if isinstance(aux, np.ndarray) and aux.ndim == 2:
            gy = self._gradient_at(aux, self.matrix.matvec(w) / self.n) if gy is None else gy
            high = self.players[0].plain_support(gy if b == 0.0 else gy + (self.sizes * (b / self.n))[:, None])
            return high + self.players[0].value(aux) - (1.0 - float(aux.sum())) - self.linear(w, b)
        if self.smoothing > 0.0:
            raise InputError("with smoothing a predictor is a table of n x n numbers")
        c = (self.matrix.matvec(w) + b) / self.n
        c = c[np.argsort(-c, kind="stable")]
        q = spread_prefixes(c, self.beta2, PREFIX_TOL) if aux is None else self._as_prefixes(aux)
        return -prefix_value(q, c, self.beta2, 0.0 if self.n <= SMALL else SLACK) - self.linear(w, b)

    def _as_prefixes(self, q: Any) -> np.ndarray:
        q = np.maximum(np.asarray(q, dtype=np.float64), 0.0)
        if q.shape != (self.n + 1,) or not 0.0 < q.sum() < math.inf:
            raise InputError(f"a mixture of prefixes has {self.n + 1} probabilities, not the shape {q.shape}")
        return q / q.sum()

    def dual_point(self, a: Any, gx: np.ndarray | None = None) -> FScoreDualPoint:
        """The adversary's table brought into its set, with D; without smoothing it may be a :class:`SizedTable`."""
        if isinstance(a, SizedTable):
            return self._sized_point(a)
        table = self.players[1].project(a)
        if self.fit_intercept:
            balanced = mix_to_size(table, self.positives)
            table = table if np.abs(balanced - table).max() <= 1e-15 else balanced
        gx = self.gradient_x(np.empty(0), table) if gx is None or table is not a else gx
        w = self.weights(marginals(table))
        high = 1.0 - float(table.sum()) + self.players[0].support(-gx) + self._entropy(table)
        return FScoreDualPoint(table, gx, -high - 0.5 * self.alpha * float(w @ w))

    def _entropy(self, table: np.ndarray) -> float:
        return self.players[0].value(table)

    def _sized_point(self, table: SizedTable) -> FScoreDualPoint:
        if self.smoothing > 0.0:
            raise InputError("with smoothing an adversary is a table of n x n numbers")
        table = _feasible(table, self.n)
        if self.fit_intercept:
            table = _balanced(table, self.positives)
        w = self.weights(table.rows.sum(axis=0))
        high = table_value(table, self.beta2, 0.0 if self.n <= SMALL else SLACK)
        return FScoreDualPoint(table, None, -high - 0.5 * self.alpha * float(w @ w))

    # -- for the loop

    def evaluate(self, point: Point) -> tuple[float, FScoreDualPoint]:
        """The primal value of a point, and its dual point with the value."""
        aux, gy = point.aux, point.Xw
        if aux is None and self.smoothing > 0.0:  # the best response to the adversary
            y = self.first_point().dual if point.dual is None else point.dual
            aux, gy = self.players[0].response(-self.gradient_x(np.empty(0), y)), None
        primal = self.primal(point.w, point.b, aux, gy)
        dual = self.first_point().dual if point.dual is None else point.dual
        return primal, self.dual_point(dual, point.Xta)

    def certify(self, w: Any, dual: Any = None, b: float = 0.0) -> Certificate:
        """See :func:`saddlery.certify`. The predictor is found anew; the adversary is the truth if there is no `dual`."""
        primal, best = self.evaluate(self.as_point(w, b, dual))
        return self.certificate(primal, best.value, best.a)

    def magnitude(self, a: Any) -> float:
        return 2.0 if isinstance(a, SizedTable) else 2.0 + self.players[0].magnitude(a)

    def first_point(self) -> Point:
        """w = 0, and an adversary who says the truth."""
        if self.smoothing > 0.0:
            x, y = (player.point(player.start()) for player in self.players)
            return Point(np.zeros(self.d), 0.0, y, aux=x)
        return Point(np.zeros(self.d), 0.0, self.truth(), aux=np.eye(1, self.n + 1)[0])

    def truth(self) -> SizedTable:
        """The labels themselves, as an adversary."""
        if self.positives == 0.0:
            return SizedTable(np.array([self.n]), np.zeros((1, self.n)))
        return SizedTable(np.array([int(self.positives)]), self.labels[None, :].copy())

    def as_point(self, w: Any, b: Any, dual: Any) -> Point:
        w = np.zeros(self.d) if w is None else np.array(w, dtype=np.float64)
        b = 0.0 if b is None else float(b)
        if w.shape != (self.d,) or not (np.isfinite(w).all() and math.isfinite(b)):
            raise InputError(f"w needs {self.d} finite numbers, and b must be finite: w has the shape {w.shape}")
        if b != 0.0 and not self.fit_intercept:
            raise InputError("this problem has no intercept: give b=0, or fit_intercept=True")
        if dual is not None and not isinstance(dual, SizedTable):
            dual = np.array(dual, dtype=np.float64)
            if dual.shape != (self.n, self.n) or not np.isfinite(dual).all():
                raise InputError(f"the adversary needs a table of {self.n} x {self.n} finite numbers, not the shape {dual.shape}")
        return Point(w, b, dual)

    def nonzeros(self, w: np.ndarray) -> int:
        """Weights that are not zero."""
        return int(np.count_nonzero(w))

    def check_cost(self, point: Point) -> float:
        """Entries of tables that :meth:`evaluate` goes through; solvers without tables end their epochs when a check is due."""
        return 0.0 if isinstance(point.dual, SizedTable) else 2.0 * self.size


def _feasible(table: SizedTable, n: int) -> SizedTable:
    """Rounding repaired: no negative entry, none above the mass of its row, masses of a sum of at most 1."""
    sizes, rows = np.asarray(table.sizes), np.asarray(table.rows, dtype=np.float64)
    if rows.shape != (sizes.size, n) or not np.isfinite(rows).all() or (sizes < 1).any() or (sizes > n).any():
        raise InputError(f"the adversary needs for each of its sizes (1 to {n}) a row of {n} finite probabilities")
    if rows.size and rows.min() < 0.0:
        rows = np.maximum(rows, 0.0)
    table = SizedTable(sizes, rows)
    excess = rows.max(axis=1) - table.masses
    if excess.size and excess.max() > 0.0:
        if excess.max() > 1e-9:
            raise InputError("an entry of the adversary's table exceeds the mass of its row: no distribution has such marginals")
        # mix each row with its even distribution, just enough
        share = np.clip(excess / np.maximum(excess + table.masses * (1.0 - sizes / n), 1e-300), 0.0, 1.0)
        table = SizedTable(sizes, (1.0 - share)[:, None] * rows + (share * table.masses * sizes / n)[:, None])
    total = float(table.masses.sum())
    return table if total <= 1.0 else SizedTable(sizes, table.rows / total)


def _balanced(table: SizedTable, positives: float) -> SizedTable:
    """Mixed with the full or the empty labelling, so that the expected size is that of the data."""
    n, now = table.rows.shape[1], float(table.rows.sum())
    if abs(now - positives) <= 1e-13 * positives:
        return table
    if now > positives:
        return SizedTable(table.sizes, table.rows * (positives / now))
    share = (positives - now) / (n - now)
    rows = (1.0 - share) * table.rows
    full = np.flatnonzero(table.sizes == n)
    if full.size:
        rows[full[0]] += share
        return SizedTable(table.sizes, rows)
    return SizedTable(np.append(table.sizes, n), np.vstack([rows, np.full((1, n), share)]))


def _as_labels(y: Any, n: int) -> np.ndarray:
    y = np.asarray(y)
    if y.shape != (n,):
        raise InputError(f"y has the shape {y.shape}, but X has {n} rows: give one label for each")
    values = set(np.unique(y).tolist())
    if not (values <= {0, 1} or values <= {-1, 1}):
        raise InputError("labels must be 0 and 1, or -1 and +1: use FScoreClassifier for other labels")
    return (y > 0).astype(np.float64)


def _as_number(name: str, value: Any, positive: bool) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, not {value!r}") from error
    if not (0.0 < number < math.inf or (number == 0.0 and not positive)):
        raise InputError(f"{name} must be {'a positive number' if positive else 'a number of 0 or more'}, not {value!r}")
    return number
