"""The weights of the F-score game for many rows: cutting planes in (w, b), each from one game on segments.

For scores c the game is worth ``v(c) <= concedes - c.ybar``, whatever c, where the adversary's mixture has the marginals ybar and
concedes
max_z E F. So ``max_{w, b} <labels, X w + b>/n - alpha/2 |w|^2 + v((X w + b)/n)`` is bounded by a model with one plane for each
game that was
played. Its dual is a small quadratic problem over weights of the cuts, which mix the adversaries of all cuts into one:

    min_t  t.concedes + |X'(labels - sum_t ybar_t) / n|^2 / (2 alpha)      t in the simplex (sizes balanced if b is free)

The next weights are between the best so far and those of the model. When both bounds on the grid agree, the grid is refined.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlery.losses.squared import Squared
from saddlery.parts import kernel
from saddlery.problems.fscore_intervals import SizedTable
from saddlery.problems.fscore_prefixes import spread_prefixes
from saddlery.problems.matrix_games import solve_matrix_game
from saddlery.solvers.fscore_segments import Mixture, SegmentGame

__all__ = ["Bundle", "Cut"]

PART = Squared()  # any part: it keys the compiled kernel
IDLE = 15  # rounds after which an unused cut is dropped
MODEL_TOL = 1e-9
INNER = 0.2  # accuracy of a game on segments, in units of that of the stage
UNUSED = 1e-7


class Cut(NamedTuple):
    """A mixture of the adversary: what it concedes, X' ybar / n, sum ybar / n, and the order of the rows that it speaks of."""

    concedes: float
    slope: np.ndarray
    size: float
    mixture: Mixture
    order: np.ndarray


@kernel
def add_mixture(part, order, segments, shares, out):
    """out[order[r]] += shares[segments[r]] for all ranks r: marginals by sizes, a row of `out` for each row of the data."""
    for rank in range(order.shape[0]):
        k, s = order[rank], segments[rank]
        for i in range(shares.shape[1]):
            out[k, i] += shares[s, i]


class Bundle:
    """Cuts, the best weights, and the game on segments; plain data that a copy resumes exactly."""

    def __init__(self, problem: Any, ratio: float, w: np.ndarray | None, b: float):
        self.game = SegmentGame(problem.n, ratio, problem.beta2)
        m = self.game.ends.size
        none = Mixture(np.ones(1), np.zeros((1, m)), np.zeros(1))
        everyone = Mixture(np.ones(1), self.game.lengths[None, :].copy(), np.array([float(problem.n)]))
        order = np.arange(problem.n)
        means = problem.matrix.rmatvec(np.ones(problem.n)) / problem.n
        # two cuts that are always there: with them sizes can be balanced, so that the model is bounded in b
        self.cuts = [Cut(1.0, np.zeros(problem.d), 0.0, none, order), Cut(1.0, means, 1.0, everyone, order)]
        self.idle = [0, 0]
        self.shares = np.array([1.0, 0.0])
        self.w, self.b = (np.zeros(problem.d) if w is None else w), b
        self.best_w, self.best_b = self.w, self.b
        self.lower, self.upper = -np.inf, np.inf
        self.rounds = 0

    def round(self, problem: Any, tol: float) -> None:
        """One game, one cut, one model."""
        c = (problem.matrix.matvec(self.w) + self.b) / problem.n
        order = np.argsort(-c, kind="stable")
        answer = self.game.solve(self.game.means(c[order]), INNER * tol)
        value = problem.linear(self.w, self.b) + answer.lower
        if value > self.lower:
            self.lower, self.best_w, self.best_b = value, self.w, self.b
        self.cuts.append(self._cut(problem, answer.concedes, answer.mixture, order))
        self.idle.append(0)
        w, b = self._model(problem)
        self.rounds += 1
        if self.rounds % 4:  # the model alone jumps: mostly go half of the way
            w, b = 0.5 * (w + self.best_w), 0.5 * (b + self.best_b)
        self.w, self.b = w, b

    def _cut(self, problem: Any, concedes: float, mixture: Mixture, order: np.ndarray) -> Cut:
        counts = mixture.p @ mixture.counts
        ybar = np.empty(problem.n)
        ybar[order] = np.repeat(counts / self.game.lengths, self.game.whole)
        return Cut(
            concedes, problem.matrix.rmatvec(ybar) / problem.n, float(counts.sum()) / problem.n, mixture, order.astype(np.int32)
        )

    def _model(self, problem: Any) -> tuple[np.ndarray, float]:
        """Weights of the cuts; returns the maximiser of the model and sets its value, the upper bound on the grid."""
        count = len(self.cuts)
        concedes = np.array([cut.concedes for cut in self.cuts])
        away = problem.means - np.array([cut.slope for cut in self.cuts])
        E, e = np.ones((1, count)), np.ones(1)
        if problem.fit_intercept:
            E = np.vstack([E, [cut.size for cut in self.cuts]])
            e = np.array([1.0, problem.positives / problem.n])
        found = solve_matrix_game(concedes[None, :], np.zeros(count), away @ away.T / problem.alpha, E, e, MODEL_TOL)
        w = away.T @ found.p / problem.alpha
        self.upper = float(found.p @ concedes) + 0.5 * problem.alpha * float(w @ w)
        self.shares = found.p
        idle = [0 if share > UNUSED else idle + 1 for share, idle in zip(found.p, self.idle, strict=True)]
        kept = [at for at in range(count) if at < 2 or idle[at] < IDLE]
        self.cuts, self.idle = [self.cuts[at] for at in kept], [idle[at] for at in kept]
        self.shares = found.p[kept]
        return w, float(-found.multipliers[1]) if problem.fit_intercept else 0.0

    def refine(self, problem: Any) -> None:
        """Halve the segments; cuts are judged anew, since predictions of more sizes are now looked at."""
        inside, shares = self.game.refine()
        cuts = []
        for cut in self.cuts:
            mixture = cut.mixture.refined(inside, shares)
            cuts.append(cut._replace(mixture=mixture, concedes=self.game.concession(mixture)[0]))
        self.cuts = cuts
        self.lower = -np.inf  # a finer grid may be worth less or more: the best weights are judged anew
        self.w, self.b = self.best_w, self.best_b

    # -- points

    def adversary(self, problem: Any) -> SizedTable:
        """The adversaries of all cuts mixed by the weights of the model."""
        m, n = self.game.ends.size, problem.n
        shares = self.shares / self.shares.sum()
        segments = np.repeat(np.arange(m, dtype=np.int32), self.game.whole)
        out = np.zeros((n, m))
        for share, cut in zip(shares, self.cuts, strict=True):
            p, counts, sizes = cut.mixture
            if share <= UNUSED:
                continue
            some = sizes > 0.0
            table = np.zeros((m, m))
            np.add.at(
                table, np.searchsorted(self.game.sizes, sizes[some]), (share * p[some])[:, None] * counts[some] / self.game.lengths
            )
            add_mixture(PART, cut.order, segments, np.ascontiguousarray(table.T), out)
        return SizedTable(self.game.ends, out.T)

    def predictor(self, problem: Any, tol: float) -> np.ndarray:
        """The best mixture of prefixes for the best weights."""
        c = (problem.matrix.matvec(self.best_w) + self.best_b) / problem.n
        return spread_prefixes(c[np.argsort(-c, kind="stable")], problem.beta2, tol)
