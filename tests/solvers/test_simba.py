"""SIMBA: unbiased estimates, exact counts, lazy equals dense, certificates sampled and exact, classes that share columns."""

import copy
import math

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.matrix.partial import PartialMatrix
from saddlery.sampling.sum_tree import draw_leaf
from saddlery.solvers.simba import Simba, batch_sizes, draw
from saddlery.solvers.simba_sparse import SparseState


class Asked(PartialMatrix):
    """Data that are read in parts, and remember what was asked for."""

    def __init__(self, X):
        self.X, self.entries = X, 0
        self.rows_read, self.cols_read = set(), set()
        super().__init__(X.shape, X.nnz if sp.issparse(X) else X.size, sp.issparse(X), X.dtype)

    def read_rows(self, index):
        part = self.X[index]
        self.rows_read |= set(index.tolist())
        self.entries += part.nnz if self.is_sparse else part.size
        return sp.csr_array(part) if self.is_sparse else np.ascontiguousarray(part)

    def read_cols(self, index):
        part = self.X[:, index]
        self.cols_read |= set(index.tolist())
        self.entries += part.nnz if self.is_sparse else part.size
        return sp.csc_array(part) if self.is_sparse else np.asfortranarray(part)


def separable(n=120, d=50, seed=0, flips=0.05, gap=0.6):
    """Rows of length 1 at most, two classes along a direction, some labels flipped."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    w = rng.standard_normal(d)
    X = rng.standard_normal((n, d)) / math.sqrt(d) + gap * y[:, None] * w / np.linalg.norm(w)
    X /= np.linalg.norm(X, axis=1).max()
    return X, np.where(rng.random(n) < flips, -y, y)


def sparse_data(n=60, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.15, rng=rng, data_sampler=rng.standard_normal).tocsr()
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return X, y


# --------------------------------------------------------------------------- estimates


def test_column_estimates_by_enumeration():
    """Mean z_i.w and second moment ||x_i||^2 ||w||^2; for several classes the moment averaged over them is no larger."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((5, 7)), rng.standard_normal(7)
    w[2] = 0.0
    law = w**2 / (w @ w)
    some = law > 0.0
    values = X[:, some] * (w @ w) / w[some]
    np.testing.assert_allclose(values @ law[some], X @ w, atol=1e-14)
    np.testing.assert_allclose(values**2 @ law[some], (X[:, some] ** 2).sum(axis=1) * (w @ w), rtol=1e-13)
    W = rng.standard_normal((7, 3))
    W /= np.linalg.norm(W, axis=0)
    mix = (W**2).sum(axis=1) / 3.0
    estimates = X[:, :, None] * W[None] / mix[None, :, None]
    np.testing.assert_allclose(np.einsum("ijc,j->ic", estimates, mix), X @ W, atol=1e-14)
    moments = np.einsum("ijc,j->ic", estimates**2, mix)
    np.testing.assert_allclose(moments.mean(axis=1), (X**2).sum(axis=1), rtol=1e-13)


def test_row_estimates_of_several_classes_by_enumeration():
    """One row from each p_c, weights p_c(i) / sum_c' p_c'(i): the mean is Z_c'p_c for each class."""
    rng = np.random.default_rng(1)
    P, z = rng.random((3, 6)), rng.standard_normal((6, 4))
    P /= P.sum(axis=1, keepdims=True)
    shares = P / P.sum(axis=0)
    mean = sum(P[k, i] * shares[:, i, None] * z[i] for k in range(3) for i in range(6))
    np.testing.assert_allclose(mean, P @ z, atol=1e-14)


def test_draws():
    sums = np.cumsum([0.0, 0.25, 0.0, 0.75, 0.0])
    assert draw(sums, np.array([0.0, 0.2499, 0.25, 0.99, np.nextafter(1.0, 0.0)])).tolist() == [1, 1, 3, 3, 3]
    assert batch_sizes(1000, 1000, None, None) == (16, 16)
    assert batch_sizes(1000, 3, None, None) == (64, 3)
    assert batch_sizes(10, 10_000, 2, None) == (2, 16)


def test_regret_of_exponential_updates():
    """sum p.v <= min_i sum v + log n / eta + eta sum p.v^2 for v within 1 / eta, in any order."""
    rng = np.random.default_rng(0)
    eta, steps, n = 0.2, 200, 8
    v = np.clip(rng.standard_normal((steps, n)) * 3.0 + np.linspace(-0.5, 0.5, n), -1.0 / eta, 1.0 / eta)
    L, gained, squares = np.zeros(n), 0.0, 0.0
    for row in v:
        p = np.exp(L - L.max())
        p /= p.sum()
        gained, squares = gained + p @ row, squares + p @ row**2
        L -= eta * row
    assert gained <= v.sum(axis=0).min() + math.log(n) / eta + eta * squares
    np.testing.assert_allclose(L, -eta * v[::-1].sum(axis=0))


# --------------------------------------------------------------------------- counts


@pytest.mark.parametrize("intercept", [False, True])
def test_counts_of_dense_data_are_exact(intercept):
    """T (m d + k n), the first iteration without columns; what was asked for is what was counted, distinct ones too."""
    X, y = separable(30, 20)
    asked = Asked(X)
    solution = sd.solve(sd.SlackSVMProblem(asked, y, 0.4, fit_intercept=intercept), Simba(3, 2), max_epochs=9, certificate=None)
    counts = solution.trace[-1].counts
    iterations = counts["iterations"]
    assert counts["accesses"] == counts["dense_accesses"] == asked.entries == iterations * (3 * 20 + 2 * 30) - 2 * 30
    r, c = len(asked.rows_read), len(asked.cols_read)
    assert counts["distinct_accesses"] == r * 20 + c * 30 - r * c
    assert (counts["rows"], counts["columns"]) == (3 * iterations, 2 * (iterations - 1))
    assert solution.passes == asked.entries / 600


@pytest.mark.parametrize("form", ["capped", "budget"])
def test_counts_of_sparse_data_read_in_parts(form):
    X, y = sparse_data()
    asked = Asked(X)
    solution = sd.solve(sd.SlackSVMProblem(asked, y, 0.4, form), "simba", max_epochs=12, certificate=None)
    counts = solution.trace[-1].counts
    assert counts["accesses"] == asked.entries
    R, C = sorted(asked.rows_read), sorted(asked.cols_read)
    assert counts["distinct_accesses"] == X[R].nnz + X[:, C].nnz - X[R][:, C].nnz
    assert counts["dense_accesses"] == counts["rows"] * 40 + counts["columns"] * 60


def test_memory_and_parts_are_the_same_run():
    """The same draws on arrays, CSR, and data read in parts."""
    X, y = separable(40, 30)
    runs = [
        sd.solve(sd.SlackSVMProblem(data, y, 0.4), Simba(2, 2), max_epochs=12, certificate=None)
        for data in (X, Asked(X), sp.csr_array(X))
    ]
    for other in runs[1:]:
        np.testing.assert_allclose(other.w, runs[0].w, rtol=1e-9, atol=1e-12)
        assert other.b == pytest.approx(runs[0].b, abs=1e-9)


def test_the_budget_holds_to_an_iteration():
    X, y = separable()
    problem = sd.SlackSVMProblem(X, y, 0.3)
    solution = sd.solve(problem, Simba(1, 1), max_accesses=10_000, certificate=None)
    assert solution.status is sd.Status.MAX_ACCESSES
    assert 10_000 <= solution.trace[-1].counts["accesses"] < 10_000 + 170
    sparse = sd.solve(sd.SlackSVMProblem(sp.csr_array(X), y, 0.3), "simba", max_accesses=10_000, certificate=None)
    assert 10_000 <= sparse.trace[-1].counts["accesses"] <= 10_000 + 170


# --------------------------------------------------------------------------- lazy equals dense


class Dense:
    """The sparse iteration with nothing lazy: what `simba_sparse` must equal."""

    def __init__(self, problem, options):
        self.problem, self.options = problem, options
        self.X = problem.matrix.values.toarray()
        self.Z = problem.y[:, None] * self.X
        n, d = self.X.shape
        self.L, self.S, self.w_sum, self.p_sum, self.weight, self.longest = (
            np.zeros(n),
            np.zeros(d),
            np.zeros(d),
            np.zeros(n),
            0.0,
            0.0,
        )
        self.rows, self.cols, self.accesses = np.zeros(n, dtype=bool), np.zeros(d, dtype=bool), 0

    def weights(self):
        p = np.zeros(len(self.L))
        for rows, mass in self.problem.sides:
            s, slack = self.problem.s[rows], self.problem.slack
            ratio = np.exp(self.L[rows] - self.L[rows].max())
            p[rows] = s / s.sum() * mass
            if mass * slack < s.sum() * (1.0 - 1e-14):
                order = np.argsort(-ratio)
                for count in range(len(s)):
                    theta = (s * ratio)[order[count:]].sum() / (mass * slack - s[order[:count]].sum())
                    if ratio[order[count]] <= theta * (1.0 + 1e-14):
                        break
                p[rows] = s / slack * np.minimum(1.0, ratio / theta)
        return p

    def iterate(self, t, i, j):
        p, step, f = self.weights(), 0.0, 0.0
        if t > 1:
            step = self.options.step_size / (self.longest * math.sqrt(t - 1))
            f = step / max(1.0, step * np.linalg.norm(self.S))
        w = f * self.S
        self.weight, self.w_sum, self.p_sum = self.weight + t, self.w_sum + t * w, self.p_sum + t * p
        self.longest = max(self.longest, np.linalg.norm(self.X[i]))
        rate = min(0.5, self.options.eta * math.sqrt(max(math.log(len(p)), 1.0) / t)) / self.longest
        if j >= 0:
            self.L -= np.clip(rate * self.Z[:, j] * (w @ w) / w[j], -1.0, 1.0)
            self.accesses += np.count_nonzero(self.X[:, j])
            self.cols[j] = True
        self.S = self.S + self.Z[i]
        self.accesses += np.count_nonzero(self.X[i])
        self.rows[i] = True
        return p

    def distinct(self):
        X = self.X
        both = np.count_nonzero(X[np.ix_(self.rows, self.cols)])
        return np.count_nonzero(X[self.rows]) + np.count_nonzero(X[:, self.cols]) - both


@pytest.mark.parametrize("bound", [1e100, 1.5], ids=["plain", "rescaled"])
@pytest.mark.parametrize(
    ("slack", "intercept", "weighted"), [(0.05, False, True), (0.3, True, False), (0.5, True, True), (1.0, False, False)]
)
def test_lazy_equals_dense(slack, intercept, weighted, bound):
    """Averages, weights, thresholds and counts at every step, to 1e-12; with a bound of 1.5 ratios are rescaled all the time."""
    X, y = sparse_data()
    weights = np.random.default_rng(3).integers(0, 4, 60) if weighted else None
    problem = sd.SlackSVMProblem(X, y, slack, fit_intercept=intercept, sample_weight=weights)
    options = Simba(eta=3.0 if bound < 2.0 else 0.5, average="linear")
    lazy, dense = SparseState(problem, options, np.random.default_rng(0), bound), Dense(problem, options)
    for t, uniforms in enumerate(np.random.default_rng(4).random((250, 3)), start=1):
        j = draw_leaf(lazy.S_tree, uniforms[2]) if lazy.S_tree[1] > 0.0 else -1
        before, p = lazy.drawn_rows.copy(), lazy.weights(problem)
        lazy.run(problem, uniforms[None], np.inf)
        i = int(np.flatnonzero(lazy.drawn_rows != before)[0])
        np.testing.assert_allclose(p, dense.iterate(t, i, j), rtol=0.0, atol=1e-12)
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        assert (p <= problem.s / slack * (1.0 + 1e-12)).all()
        w_bar, p_bar = lazy.averages(problem)
        np.testing.assert_allclose(w_bar, dense.w_sum / dense.weight, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(p_bar, dense.p_sum / dense.weight, rtol=0.0, atol=1e-12)
        assert lazy.accesses == dense.accesses
        assert lazy.reads.stored == dense.distinct()
    assert (bound < 2.0 and slack < 1.0) == bool(lazy.numbers[5:7].any())  # shifts


# --------------------------------------------------------------------------- convergence


def value(problem):
    return -sd.solve(problem, tol=1e-6, max_epochs=60).certificate.primal


@pytest.mark.parametrize("intercept", [False, True])
def test_the_gap_falls(intercept):
    """Four times the iterations at least halve the gap; a batch of ten does the work of ten; certificates hold all the way."""
    X, y = separable()
    problem = sd.SlackSVMProblem(X, y, 0.4, fit_intercept=intercept)
    best = value(problem)
    gaps = {}
    for name, options, count in [("short", Simba(1, 1), 150), ("long", Simba(1, 1), 2400), ("batch", Simba(10, 10), 240)]:
        found = []
        for seed in range(2):
            run = sd.solve(
                problem, options, max_accesses=count * (120 + 50) * (options.rows or 1), certificate=None, random_state=seed
            )
            certificate = sd.certify(problem, run.w, run.dual, run.b)
            assert certificate.dual - 1e-9 <= -best <= certificate.primal + 1e-9
            found.append(certificate.gap / best)
            assert problem.certify(run.w, run.dual, None).primal >= certificate.primal - 0.05 * best  # the intercept is a good one
        gaps[name] = np.mean(found)
    assert gaps["long"] <= 0.5 * gaps["short"]
    assert gaps["batch"] <= 1.5 * gaps["long"]


def test_default_batches_and_sparse_data_reach_ten_percent():
    X, y = separable()
    X[np.abs(X) < 0.05] = 0.0
    for data in (X, sp.csr_array(X)):
        solution = sd.solve(sd.SlackSVMProblem(data, y, 0.4), "simba", tol=0.1, max_epochs=120)
        assert solution.status is sd.Status.CONVERGED


def test_the_form_of_the_paper():
    """Slacks, an intercept, uniform averages: certified, and near the optimum."""
    X, y = separable()
    for intercept in (False, True):
        problem = sd.SlackSVMProblem(X, y, 0.05, "budget", intercept)
        solution = sd.solve(problem, "simba", tol=0.1, max_epochs=90)
        assert solution.status is sd.Status.CONVERGED
        best = value(problem)
        assert solution.certificate.dual - 1e-9 <= -best <= solution.certificate.primal + 1e-9


def test_the_step_size_drops_out():
    """Once step ||S|| > 1, w is a direction: the runs are the same."""
    X, y = separable()
    problem = sd.SlackSVMProblem(X, y, 0.4)
    runs = [sd.solve(problem, Simba(2, 2, step_size=step), max_epochs=15, certificate=None) for step in (50.0, 200.0)]
    np.testing.assert_allclose(runs[0].w, runs[1].w, rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse", "budget"])
def test_same_seed_same_run_and_resume(kind):
    X, y = separable(40, 30)
    problem = sd.SlackSVMProblem(sp.csr_array(X) if kind == "sparse" else X, y, 0.4, "budget" if kind == "budget" else "capped")
    once = sd.solve(problem, "simba", tol=0.0, max_epochs=12, random_state=5)
    again = sd.solve(problem, "simba", tol=0.0, max_epochs=12, random_state=5)
    np.testing.assert_array_equal(once.w, again.w)
    assert [record.counts for record in once.trace] == [record.counts for record in again.trace]
    half = sd.solve(problem, "simba", tol=0.0, max_epochs=5, random_state=5)
    rest = sd.solve(problem, "simba", tol=0.0, max_epochs=7, start=copy.deepcopy(half.state))
    np.testing.assert_array_equal(rest.state.point(problem).w, once.state.point(problem).w)


def test_weights_act_as_repetitions_in_the_law_of_the_rows():
    X, y = separable(20, 10)
    weights = np.zeros(20)
    weights[np.flatnonzero(y > 0)[:4]], weights[np.flatnonzero(y < 0)[:4]] = 2.0, 1.0
    problem = sd.SlackSVMProblem(X, y, 0.5, sample_weight=weights)
    for data in (X, sp.csr_array(X)):
        other = sd.SlackSVMProblem(data, y, 0.5, sample_weight=weights)
        solution = sd.solve(other, "simba", tol=0.2, max_epochs=80)
        assert solution.status is sd.Status.CONVERGED
        assert not solution.state.reads.row_flags[weights == 0.0].any()
        assert solution.certificate.dual <= -value(problem) + 1e-6 <= solution.certificate.primal + 2e-6


# --------------------------------------------------------------------------- certificates


def test_without_certificates_nothing_else_is_read():
    X, y = separable(30, 20)
    asked = Asked(X)
    solution = sd.solve(sd.SlackSVMProblem(asked, y, 0.4), "simba", max_epochs=8, certificate=None)
    assert asked.entries == solution.trace[-1].counts["accesses"]
    assert solution.certificate.basis == "none: not asked for"
    assert np.isnan(solution.trace.column("gap")).all()
    np.testing.assert_array_equal(solution.w, solution.state.point(sd.SlackSVMProblem(X, y, 0.4)).w)


@pytest.mark.parametrize(("form", "slack"), [("capped", 0.4), ("budget", 0.05)])
def test_sampled_certificates(form, slack):
    """They hold (here), read what they say, and the draws of the solver do not change."""
    X, y = separable(2000, 20)
    problem = sd.SlackSVMProblem(Asked(X), y, slack, form, fit_intercept=form == "capped")
    exact = sd.SlackSVMProblem(X, y, slack, form, fit_intercept=form == "capped")
    best = value(exact)
    for seed in range(3):
        problem.matrix.entries = 0
        run = sd.solve(problem, Simba(4, 1), max_accesses=300_000, certificate="sampled", random_state=seed)
        assert run.certificate.dual <= -best <= run.certificate.primal
        assert "sampled: 1,000 rows; holds with probability 0.95" in str(run.certificate)
        counts = run.trace[-1].counts
        assert counts["certificate_accesses"] + counts["accesses"] == problem.matrix.entries
        assert run.trace[-1].gap == run.certificate.gap
        plain = sd.solve(
            exact,
            Simba(4, 1),
            max_accesses=300_000 - run.trace[0].counts["certificate_accesses"],
            certificate=None,
            random_state=seed,
        )
        np.testing.assert_allclose(plain.w, run.w, rtol=1e-9, atol=1e-12)
    wide = sd.solve(problem, Simba(4, 1), max_accesses=500_000, certificate=problem.sample(1, rows=4000))
    assert wide.certificate.gap < 3.0 * best


def test_draws_as_a_dual_point_are_exact():
    """In the end the rows drawn make a feasible p, whose value is recomputed from rows already read."""
    X, y = separable(60, 20)
    for intercept in (False, True):
        for data in (X, sp.csr_array(X)):
            problem = sd.SlackSVMProblem(data, y, 0.4, fit_intercept=intercept)
            run = sd.solve(problem, "simba", max_epochs=45, certificate="sampled")
            draws = run.state.point(problem).aux
            np.testing.assert_allclose(draws.sums[0].sum(axis=0), (y * draws.weights[0]) @ X, atol=1e-12)
            best = value(sd.SlackSVMProblem(X, y, 0.4, fit_intercept=intercept))
            assert best - 1e-9 <= -run.certificate.dual <= 1.5 * best


def test_who_has_no_sample_says_so():
    X, y = separable(20, 5)
    linear = sd.LinearProblem(X, y, "hinge", sd.penalties.L2(0.1))
    with pytest.raises(UnsupportedError, match="no sampled certificate"):
        sd.solve(linear, "pegasos", certificate="sampled")
    with pytest.raises(InputError, match="'exact', 'sampled', None"):
        sd.solve(linear, "pegasos", certificate="yes")


# --------------------------------------------------------------------------- classes, options, edges


def test_classes_share_columns():
    """Three classes: each column is read once for all, and each class is learnt."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=90)
    X = rng.standard_normal((90, 40)) / 8.0 + rng.standard_normal((3, 40))[codes] / 5.0
    asked = Asked(X)
    problem = sd.OneVsRestSlackSVM(asked, codes, 0.3)
    run = sd.solve(problem, Simba(2, 4), max_epochs=45, certificate=None)
    counts = run.trace[-1].counts
    assert counts["accesses"] == asked.entries == counts["iterations"] * (3 * 2 * 40 + 4 * 90) - 4 * 90
    assert (np.argmax(X @ run.w + run.b, axis=1) == codes).mean() > 0.95
    certified = sd.solve(sd.OneVsRestSlackSVM(X, codes, 0.3), "simba", tol=0.2, max_epochs=80)
    assert certified.status is sd.Status.CONVERGED
    sampled = sd.solve(sd.OneVsRestSlackSVM(X, codes, 0.3), "simba", max_epochs=30, certificate="sampled")
    assert sampled.certificate.dual <= certified.certificate.primal
    assert sampled.certificate.primal >= certified.certificate.dual


def test_edges():
    """One row, one column, zero columns, p fixed, rows of any length."""
    one = sd.solve(sd.SlackSVMProblem([[3.0]], [1], 0.5, fit_intercept=False), "simba", tol=0.01, max_epochs=30)
    assert one.status is sd.Status.CONVERGED
    X, y = separable(30, 10)
    X[:, 3] = 0.0
    fixed = sd.solve(sd.SlackSVMProblem(X, y, 1.0, fit_intercept=False), Simba(30, 1), tol=0.05, max_epochs=80)
    mean = (y[:, None] * X).mean(axis=0)
    assert fixed.w @ mean / np.linalg.norm(mean) > 0.95
    long = sd.solve(sd.SlackSVMProblem(1e6 * X, y, 0.4), Simba(2, 2), max_epochs=10, certificate=None)
    unit = sd.solve(sd.SlackSVMProblem(X, y, 0.4), Simba(2, 2), max_epochs=10, certificate=None)
    np.testing.assert_allclose(long.w, unit.w, rtol=1e-6)
    assert long.b == pytest.approx(1e6 * unit.b, rel=1e-6)
    zero = sd.solve(sd.SlackSVMProblem(np.zeros((4, 3)), [1, -1, 1, -1], 0.5), "simba", max_epochs=5)
    assert zero.certificate.gap == 0.0


def test_options_are_checked():
    X, y = separable(20, 5)
    for bad in (Simba(rows=0), Simba(cols=0), Simba(eta=-1.0), Simba(average="none"), Simba(step_size=0.0)):
        with pytest.raises(InputError):
            sd.solve(sd.SlackSVMProblem(X, y, 0.4), bad)
    with pytest.raises(UnsupportedError, match="slack_svm or slack_svm_classes problem"):
        sd.solve(sd.LinearProblem(X, y, "hinge", sd.penalties.L2(0.1)), "simba")
    with pytest.raises(UnsupportedError, match="slacks without a cap"):
        sd.solve(sd.SlackSVMProblem(X, y, 0.1, "budget", cap=2.0), "slack_exact")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_where_classes_overlap_there_is_still_a_direction(kind):
    """No direction has a positive value, so w = 0 would be optimal: the run ends by its budget with one, and a finite gap."""
    X, y = separable(60, 10, flips=0.4)
    problem = sd.SlackSVMProblem(sp.csr_array(X) if kind == "sparse" else X, y, 0.05)
    solution = sd.solve(problem, "simba", tol=1e-3, max_epochs=20)
    assert solution.status is sd.Status.MAX_EPOCHS
    assert np.linalg.norm(solution.w) == pytest.approx(1.0)
    assert solution.certificate.primal > 0.0
    assert np.isfinite(solution.certificate.relative_gap)
