"""SIMBA: a soft-margin SVM from few rows and few columns of X (Hazan, Koren & Srebro 2011), corrected, with two forms.

The learner follows the sum of sampled rows, its opponent weighs the rows by multiplicative updates from sampled columns: an
iteration draws rows i ~ p and columns j ~ w_j^2, reads only those, and

    v_i = z_ij ||w||^2 / w_j   (its mean is z_i.w)        V += clip(v)        p_i = s_i min(cap, c exp(-rate V_i))
    S  += z_i                  (its mean is Z'p)          w = S step / max(1, step ||S||)

All draws are known when an iteration begins, so data on disk or features on demand are asked for once. With batches, a mean over
k columns counts k times, in V, in S and in the average: the run is then as good as one of single draws for the same reading, and
much quicker. The result is the average with weights t, where t counts the draws; the intercept follows from the margins that the
columns estimated. What was wrong in print and how the capped form differs is in ``docs/sublinear-svm.md``.

=============  ======================================================  ====================================================
here           meaning                                                 letters of the paper
=============  ======================================================  ====================================================
S, w           sum of the rows drawn; its direction                    u_t (Alg. 1, l. 5 without x_{i_t}), w_t (l. 6)
V, p           sum of estimated margins; weights of the rows           q_t, p_t (l. 10-13, with exp for 1 - z + z^2)
rate           eta_t / longest row seen, eta_t = eta sqrt(log n / t)   eta (Sec. 6: sqrt(log(n) / t))
slack, cap     "capped": p_i <= s_i / slack, no slacks                 form of the notes, equivalent by Lemma 2.1's scale
slack          "budget": mean slack                                    nu
=============  ======================================================  ====================================================

Several classes against the rest (`OneVsRestSlackSVM`) share their columns, j ~ sum_c w_cj^2, and all use the rows that each draws,
with weights p_c(i) / sum_c' p_c'(i).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.point import Point
from saddlery.problems.tails import fill
from saddlery.sampling.capped import Caps, project_capped
from saddlery.solvers.base import Needs, Solver, State
from saddlery.solvers.draws import Draws
from saddlery.solvers.reads import Reads
from saddlery.solvers.simba_sparse import SparseState

__all__ = ["Simba", "batch_sizes", "classes_of", "draw"]

GROWTH = 1.1  # iterations grow by this factor from one epoch to the next
COLUMNS, FEWEST, MOST = 16, 4, 64  # columns of a batch; rows: as many as read as much, within these bounds
WIDEN = 32  # iterations after which batches grow by a column, until they are full: small budgets would not carry full ones
EPOCH = 100_000_000  # entries that an epoch reads at most, so that budgets and Ctrl-C hold


def draw(cumulative: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Indices with the law whose running sum is given; entries of probability zero never come."""
    index = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
    return np.minimum(index, len(cumulative) - 1)


def batch_sizes(n: int, d: int, rows: int | None, cols: int | None) -> tuple[int, int]:
    """Rows and columns of an iteration: about as many entries of both."""
    cols = min(COLUMNS, d) if cols is None else cols
    return (min(max(round(cols * n / d), FEWEST), MOST) if rows is None else rows), cols


def classes_of(problem: Any) -> list[Any]:
    """The problems of all classes, or the one problem there is."""
    return getattr(problem, "classes", [problem])


class _Taken(State):
    """The capped form for one or several classes, on rows and columns that are taken from the data."""

    def __init__(self, problem: Any, options: Simba, rng: np.random.Generator):
        classes = classes_of(problem)
        n, d, count = problem.n, problem.d, len(classes)
        self.rng, self.iterations, self.t, self.longest = rng, 0, 0.0, 0.0
        self.m, self.k = batch_sizes(n, d, options.rows, options.cols)
        if options.rows is None:  # all classes use all rows
            self.m = max(1, self.m // count)
        self.grows = options.rows is None and options.cols is None
        self.power = 1.0 if options.average == "linear" else 0.0
        self.eta, self.step = float(options.eta or 0.0), options.step_size
        self.y = np.array([each.y for each in classes])
        self.s = problem.s
        self.reads = Reads(problem.matrix.shape, problem.matrix.is_sparse)
        self.V, self.p, self.ratio = np.zeros((count, n)), np.zeros((count, n)), np.empty(n)
        self.S, self.f = np.zeros((count, d)), np.zeros(count)
        # sums of iterates with weights t^power, and of what the draws of the same iterations estimate
        self.weight, self.squares = 0.0, 0.0
        self.w_sum, self.p_sum, self.m_sum = np.zeros((count, d)), np.zeros((count, n)), np.zeros((count, n))
        self.drawn, self.drawn_rows = np.zeros((count, 2, d)), np.zeros((count, n))
        self.other = self.y < 0.0 if all(each.is_balanced for each in classes) else np.zeros((count, n), dtype=bool)
        self.reference = np.zeros((count, 2))
        self.weigh_rows(problem)

    @property
    def counts(self) -> dict[str, float]:
        return {"iterations": float(self.iterations), **self.reads.counts}

    @property
    def step_eta(self) -> float:
        """eta_t of the next iteration."""
        return min(max(0.5, self.eta), self.eta * math.sqrt(max(math.log(self.p.shape[1]), 1.0) / max(self.t, 1.0)))

    def weigh_rows(self, problem: Any) -> None:
        """p from V, on the capped simplex of each class, or on two if the intercept is free."""
        rate = self.step_eta / self.longest if self.longest > 0.0 else 0.0
        for c, each in enumerate(classes_of(problem)):
            for side, (members, mass) in enumerate(each.sides):
                caps = Caps(self.s, members, 1.0 / each.slack, mass)
                reference = project_capped(caps, -rate, self.V[c], self.ratio, self.p[c], self.reference[c, side])
                self.reference[c, side] = reference

    def update_rows(self, problem: Any, v: np.ndarray, draws: int) -> None:
        """V += draws * clip(v), then p."""
        bound = self.longest / self.step_eta
        self.V += draws * np.clip(v, -bound, bound)
        self.weigh_rows(problem)

    def batch(self) -> tuple[int, int]:
        """Rows and columns of the next iteration."""
        k = min(self.k, 1 + self.iterations // WIDEN) if self.grows else self.k
        return (max(1, round(self.m * k / self.k)), k) if self.grows else (self.m, k)

    def advance(self, problem: Any, count: int, limit: float) -> None:
        """`count` iterations, or fewer where the limit of entries is met."""
        last = self.iterations + count
        while self.iterations < last and self.accesses < limit:
            self.iterate(problem)
            self.accesses = self.reads.total

    def iterate(self, problem: Any) -> None:
        """One iteration: draw, read, update; the averages take what stood before it."""
        m, k = self.batch()
        self.iterations, self.t = self.iterations + 1, self.t + k
        matrix, count = problem.matrix, len(self.p)
        chosen = np.concatenate([draw(np.cumsum(p), self.rng.random(m)) for p in self.p])
        law = np.einsum("c,cj,cj->j", self.f**2, self.S, self.S)
        moves = bool(law.any())  # w = 0 at first: its margins are 0, and no column is needed to know it
        if moves:
            columns = draw(np.cumsum(law), self.rng.random(k))
            coefficients = self.f * self.S[:, columns].T * (law.sum() / (law[columns] * k))[:, None]  # (k, classes)
        rows = self.reads.take_rows(matrix, chosen)
        self.longest = max(self.longest, math.sqrt(float(rows.row_square_norms.max())))
        v = np.zeros_like(self.p)
        if moves:
            cols = self.reads.take_cols(matrix, columns)
            v = self.y * (cols.matvec(coefficients[:, 0])[None] if count == 1 else cols.matvec(coefficients).T)
        a = k * self.t**self.power
        self.weight += a
        self.squares += a * a * count / m
        self.w_sum += (a * self.f)[:, None] * self.S
        self.p_sum += a * self.p
        self.m_sum += a * v
        shares = self.p[:, chosen] / self.p[:, chosen].sum(axis=0)
        signed = shares * self.y[:, chosen] / m
        halves = np.stack([np.where(self.other[:, chosen], 0.0, signed), np.where(self.other[:, chosen], signed, 0.0)], axis=1)
        means = rows.rmatvec(np.ascontiguousarray(halves.reshape(2 * count, -1).T)).T.reshape(count, 2, -1)
        self.drawn += a * means
        for c in range(count):
            self.drawn_rows[c] += np.bincount(chosen, a * shares[c] / m, minlength=self.drawn_rows.shape[1])
        self.S += k * means.sum(axis=1)
        self.update_rows(problem, v, k)
        step = self.step / (max(self.longest, 1e-300) * math.sqrt(self.t))
        self.f = step / np.maximum(1.0, step * np.linalg.norm(self.S, axis=1))

    def point(self, problem: Any) -> Point:
        """The averages; w is brought to length 1, and b is the best for the margins that the columns estimated."""
        w = self.w_sum if self.w_sum.any() else self.S  # after the first iteration, whose w is 0, the rows drawn
        norms = np.linalg.norm(w, axis=1, keepdims=True)
        scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
        w, m = scale * w, scale * self.m_sum
        b = np.array([each.best_b(each.y * m[c]) for c, each in enumerate(classes_of(problem))])
        sizes = self.p_sum / self.weight
        dual = -self.y * np.divide(sizes, self.s, out=np.zeros_like(sizes), where=self.s > 0.0)
        if hasattr(problem, "classes"):
            return Point(np.ascontiguousarray(w.T), b, np.ascontiguousarray(dual.T), aux=self.draws())
        return Point(w[0].copy(), float(b[0]), dual[0], aux=self.draws())

    def draws(self) -> Draws:
        """The rows drawn, for sampled certificates."""
        spread = math.sqrt(self.squares) / self.weight
        return Draws(self.drawn / self.weight, self.drawn_rows / self.weight, spread, self.longest)


class _Budget(_Taken):
    """The form of the paper: slacks and an intercept that answer p at once, p on the whole simplex."""

    def __init__(self, problem: Any, options: Simba, rng: np.random.Generator):
        self.b_sum = 0.0
        super().__init__(problem, options, rng)

    @property
    def step_eta(self) -> float:
        return min(1.0, self.eta * math.sqrt(max(math.log(self.p.shape[1]), 1.0) / max(self.t, 1.0)))

    def weigh_rows(self, problem: Any) -> None:
        """p = softmax of V (which holds log-weights here), times the weights of the rows."""
        p = self.s * np.exp(self.V[0] - self.V[0][self.s > 0.0].max())
        self.p[0] = p / p.sum()

    def update_rows(self, problem: Any, v: np.ndarray, draws: int) -> None:
        """xi_t and b_t answer p_t (l. 3 of the notes); V -= eta_t clip(v + xi_t + b_t y)."""
        cap = problem.cap if math.isfinite(problem.cap) else 2.0 * self.longest
        sizes = np.divide(self.p[0], self.s, out=np.zeros_like(self.s), where=self.s > 0.0)
        gain = v[0] + fill(sizes, self.s, problem.slack, cap)
        if problem.fit_intercept:
            b = 0.5 * cap * float(np.sign(self.p[0] @ problem.y))
            gain += b * problem.y
            self.b_sum += draws * self.t**self.power * b
        eta = self.step_eta
        bound = self.longest / eta
        self.V[0] -= draws * eta / max(self.longest, 1e-300) * np.clip(gain, -bound, bound)
        self.weigh_rows(problem)

    def point(self, problem: Any) -> Point:
        point = super().point(problem)
        if not problem.fit_intercept:
            return point._replace(b=0.0)
        return point._replace(b=self.b_sum / self.weight)


@dataclass(frozen=True)
class SlackNeeds(Needs):
    """Several classes only in the capped form."""

    def missing(self, problem: Any) -> list[str]:
        if problem.kind not in self.kinds:
            return [f"a {' or '.join(self.kinds)} problem (this is a {problem.kind} problem)"]
        return []


@dataclass(frozen=True)
class Simba(Solver):
    """Sublinear SVM: reads a batch of sampled rows and columns in each iteration, and nothing else.

    Made for features that are dear: on demand, on disk, remote. For exact solutions of data in memory use `slack_exact`.

    Parameters
    ----------
    rows, cols : int, optional
        Rows (for each class) and columns that each iteration reads. By default they grow from 1 column to 16, with as many rows as
        read about as much; 1 and 1 in the budget form, as in the paper, and on sparse data in memory.
    eta : float, optional
        Rate of the multiplicative updates: eta_t = eta sqrt(log n / t); by default 0.5, and 1 in the budget form.
    average : {"linear", "uniform"}, optional
        Weights of the average: t or 1; by default "linear", and "uniform" in the budget form.
    step_size : float
        Step of the dual averaging; it drops out as soon as w has length 1, after a few iterations.
    most : int, optional
        Iterations after which nothing more is read.
    """

    name = "simba"
    paper = "Hazan, Koren & Srebro 2011, Algorithm 1; capped form"
    needs = SlackNeeds(kind=("slack_svm", "slack_svm_classes"), partial=True)

    rows: int | None = None
    cols: int | None = None
    eta: float | None = None
    average: str | None = None
    step_size: float = 5.0
    most: int | None = None

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> Any:
        faithful = getattr(problem, "form", "capped") == "budget"
        one, eta, average = (1, 1.0, "uniform") if faithful else (None, 0.5, "linear")
        options = Simba(
            rows=one if self.rows is None else self.rows,
            cols=one if self.cols is None else self.cols,
            eta=eta if self.eta is None else self.eta,
            average=average if self.average is None else self.average,
            step_size=self.step_size,
        )
        if options.average not in ("linear", "uniform"):
            raise InputError(f"average must be 'linear' or 'uniform', not {options.average!r}")
        sizes = [size for size in (options.rows, options.cols) if size is not None]
        if any(size < 1 for size in sizes) or not (options.eta or 0.0) > 0.0 or not self.step_size > 0.0:
            raise InputError("rows and cols must be 1 or more, eta and step_size positive")
        matrix = problem.matrix
        lazy = matrix.is_sparse and matrix.compiled and options.rows is options.cols is None and not hasattr(problem, "classes")
        kind: Any = _Budget if faithful else SparseState if lazy else _Taken
        state = kind(problem, options, rng)
        state.advance(problem, 1, math.inf)  # w = 0 is no model, and where classes overlap too much it would stay the best point
        return state

    def step(self, problem: Any, state: Any) -> None:
        last = math.ceil(max(state.iterations, 1) * GROWTH)
        if self.most is not None:
            last = min(last, self.most)
        state.advance(problem, last - state.iterations, min(state.access_limit, state.accesses + EPOCH))

    def point(self, problem: Any, state: Any) -> Point:
        return state.point(problem)
