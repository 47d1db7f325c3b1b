"""The sublinear algorithm: its lazy state against a dense twin, its samples by enumeration, its invariants, and its manners."""

import copy
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.solvers.stochastic_mirror_descent import StochasticMirrorDescent, sample_dual, sample_primal
from saddlery.solvers.sublinear import LazyPair, Sublinear
from saddlery.solvers.sublinear_sparse import step_sum
from saddlery.solvers.sublinear_steps import ALPHA, C, vector_exp

# --------------------------------------------------------------------------- the dense twin of Algorithm 1


class Twin:
    """Algorithm 1 on whole matrices, from its formulas; only the order in which classes are drawn is taken from the lazy state.

    `printed` makes the dual update as the paper prints it (Procedure 2, lines 10 and 11), `static` draws rows by s tau alone.
    """

    def __init__(self, problem, radius, printed=False, static=False):
        n, d, k = problem.n, problem.d, problem.k
        self.X = problem.matrix.values.toarray() if problem.matrix.is_sparse else np.asarray(problem.matrix.values, dtype=float)
        self.s, self.y, self.printed, self.static = problem.s, problem.codes, printed, static
        self.U, self.V = np.full((2 * d, k), radius / (2 * d * k)), np.full((n, k), 1.0 / k)
        self.sum_U, self.sum_V, self.weight = np.zeros((2 * d, k)), np.zeros((n, k)), 0.0
        self.tau, self.sigma = np.abs(self.X).max(axis=1), np.sqrt(self.s @ self.X**2)
        self.Y = np.eye(k)[self.y]

    def rows_law(self):
        rho = np.abs(self.V - self.Y).sum(axis=1)
        return self.s * self.tau * (1.0 if self.static else rho), rho

    def draw(self, pair, r):
        """(j, l, sign) and (i, l', sign) of the uniform numbers r."""
        d = self.X.shape[1]
        law, _ = self.rows_law()
        first = second = None
        if law.sum() > 0.0:
            j = pick(law, r[0])
            label, sign = self.y[j], -1.0
            if r[1] >= 0.5:
                others = np.where(pair.v_order == self.y[j], 0.0, self.V[j, pair.v_order])
                label, sign = pair.v_order[pick(others, 2 * r[1] - 1)], 1.0
            first = (j, label, sign)
        weights = np.tile(self.sigma, 2)[:, None] * self.U
        if weights.sum() > 0.0:
            at = pick(weights.sum(axis=0)[pair.u_order], r[2])
            label = pair.u_order[at]
            if at < pair.used[0]:  # both halves of an entry, one after the other
                which = pick(weights[:, label].reshape(2, d).T.reshape(-1), r[3])
                second = (which // 2, label, 1.0 if which % 2 == 0 else -1.0)
            else:
                which = pick(weights[:, label], r[3])
                second = (which % d, label, 1.0 if which < d else -1.0)
        return first, second

    def step(self, first, second, steps):
        cU, cV, shrink, theta, radius, share = steps
        X, d, k = self.X, self.X.shape[1], self.V.shape[1]
        law, rho = self.rows_law()
        W = (np.tile(self.sigma, 2)[:, None] * self.U).sum()
        self.sum_U += share * self.U
        self.sum_V += share * self.V
        self.weight += share
        U, V = self.U.copy(), self.V.copy()
        if first is not None:
            j, label, sign = first
            eta = X[j] * sign * (rho[j] * law.sum() if self.static else law.sum()) / self.tau[j]
            U[:, label] *= np.exp(-cU * np.concatenate([eta, -eta]))
        M = U.sum()
        U *= min(shrink, radius / M)
        grown = np.ones((len(V), k))
        if second is not None:
            i, label, sign = second
            grown[:, label] = np.exp(cV * sign * X[:, i] * W / self.sigma[i])
        if self.printed:
            wide = grown[:, [label]] if second is not None else 1.0
            V = V * grown * np.where(self.Y > 0, theta, 1.0)  # line 10
            V = np.where(self.Y > 0, self.V * wide * theta * np.where(grown == 1.0, 1.0, wide * theta), V)  # line 11
        else:
            V = V * grown * np.where(self.Y > 0, theta, 1.0)
        self.U, self.V = U, V / V.sum(axis=1, keepdims=True)
        assert self.U.shape == (2 * d, k)


def pick(law, share):
    sums = np.cumsum(law)
    return min(int(np.searchsorted(sums, share * sums[-1], side="right")), len(law) - 1)


def full_state(problem, pair, steps):
    """U, V and their sums, of a copy of the lazy state that is flushed."""
    pair = copy.deepcopy(pair)
    pair.flush(problem, steps)
    d, n, k = problem.d, problem.n, problem.k
    c = pair.numbers[C]
    assert pair.numbers[ALPHA] == 1.0
    U, V, net, sum_V = np.full((2 * d, k), math.sqrt(c)), np.repeat(pair.base[:, None], k, 1), np.zeros((d, k)), np.zeros((n, k))
    for slot in range(pair.used[0]):
        label = pair.u_order[slot]
        U[:, label] = np.concatenate([pair.u[slot], c / pair.u[slot]])
        net[:, label] = pair.u_sums[slot]
    sum_V[:] = pair.base_sums[:, None]
    for slot in range(pair.used[1]):
        V[:, pair.v_order[slot]], sum_V[:, pair.v_order[slot]] = pair.v[slot], pair.v_sums[slot]
    here = np.arange(n)
    V[here, problem.codes] = pair.vy
    return U, V, net, sum_V


def make(n=23, d=9, k=6, sparse=False, seed=0, penalty=None, weights=True, absent=False, density=0.4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if sparse:
        X *= rng.random((n, d)) < density
    y = np.argmax(X @ rng.standard_normal((d, k - 2 if absent else k)), axis=1)
    s = rng.random(n) + 0.2 if weights else None
    return sd.MulticlassProblem(
        sp.csr_array(X) if sparse else X, y, "hinge", penalty or sd.penalties.L1(0.02), sample_weight=s, n_classes=k
    )


def compare(problem, radius=7.0, exponent=0.3, count=60, every=None, seed=1, printed=False, boost=1.0):
    """Run lazy and dense side by side; the largest relative errors of iterates and of sums at any step."""
    solver = Sublinear(exponent=exponent, radius=radius)
    state = solver.init(problem, None, np.random.default_rng(0))
    pair, steps = state.pair, list(solver._factors(problem, state))
    steps[0], steps[1] = steps[0] * boost, steps[1] * boost
    steps[2], steps[3] = math.exp(-steps[0] * problem.penalty.threshold), math.exp(-steps[1])
    steps = tuple(steps)
    assert pair.radius == radius
    twin = Twin(problem, radius, printed, static=problem.matrix.is_sparse)
    here = np.arange(problem.n)
    worst = np.zeros(4)
    for t, r in enumerate(np.random.default_rng(seed).random((count, 4))):
        first, second = twin.draw(pair, r)
        pair.run(problem, steps, r[None, :])
        twin.step(first, second, steps)
        if every and (t + 1) % every == 0:
            pair.flush(problem, steps)
        U, V, net, sum_V = full_state(problem, pair, steps)
        expected = twin.sum_V.copy()
        expected[here, problem.codes] = sum_V[here, problem.codes]  # not kept: the rows of V sum to one
        d = problem.d
        errors = (
            np.max(np.abs(U / twin.U - 1)),
            np.max(np.abs(V / twin.V - 1)),
            np.max(np.abs(net - twin.sum_U[:d] + twin.sum_U[d:])) / np.max(twin.sum_U),
            np.max(np.abs(sum_V - expected)) / twin.weight,
        )
        worst = np.maximum(worst, errors)
    if printed:
        return worst
    check_invariants(problem, pair, steps, twin)
    W, A = flushed(problem, pair, steps).averages(problem, twin.weight)
    np.testing.assert_allclose(W, (twin.sum_U[:d] - twin.sum_U[d:]) / twin.weight, rtol=0, atol=1e-12 * radius)
    np.testing.assert_allclose(A, twin.sum_V / twin.weight - twin.Y, rtol=0, atol=1e-12)
    return worst


def flushed(problem, pair, steps):
    pair = copy.deepcopy(pair)
    pair.flush(problem, steps)
    return pair


def check_invariants(problem, pair, steps, twin=None):
    """Rows of V sum to one, U is inside its simplex, sums are sums, untouched classes have no net weight."""
    U, V, net, _ = full_state(problem, pair, steps)
    pair = flushed(problem, pair, steps)
    np.testing.assert_allclose(V.sum(axis=1), 1.0, rtol=1e-13)
    assert U.sum() <= pair.radius * (1 + 1e-12)
    assert (pair.vy >= 0.0).all()
    assert (pair.vy <= 1.0).all()
    np.testing.assert_allclose(pair.vy + pair.off, 1.0, rtol=1e-13)
    untouched = pair.u_order[pair.used[0] :]
    np.testing.assert_array_equal(net[:, untouched], 0.0)
    np.testing.assert_array_equal(U[: problem.d, untouched], U[problem.d :, untouched])
    weights = np.tile(pair.sigma, 2)[:, None] * U
    touched = pair.u_order[: pair.used[0]]
    np.testing.assert_allclose(pair.columns[1, : pair.used[0]], weights.sum(axis=0)[touched], rtol=1e-12)
    np.testing.assert_allclose(pair.columns[0, : pair.used[0]], U.sum(axis=0)[touched], rtol=1e-12)
    np.testing.assert_allclose(pair.u_blocks[: pair.used[0]].sum(axis=1), weights.sum(axis=0)[touched], rtol=1e-12)
    for order, slot_of in ((pair.u_order, pair.u_slot), (pair.v_order, pair.v_slot)):
        np.testing.assert_array_equal(slot_of[order], np.arange(problem.k))
    if twin is not None:
        rho = np.abs(twin.V - twin.Y).sum(axis=1)
        np.testing.assert_allclose(2.0 * pair.off, rho, rtol=1e-9, atol=1e-14)


SHAPES = [{}, {"k": 2}, {"n": 8, "k": 15}, {"n": 70, "d": 130, "k": 12}, {"absent": True}, {"weights": False}]


@pytest.mark.parametrize("every", [None, 1, 7])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_lazy_equals_dense(sparse, shape, every):
    """Iterates and sums after every step, with and without forced flushes, as slots are filled and grow."""
    assert compare(make(sparse=sparse, **shape), every=every).max() < 1e-12


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_lazy_equals_dense_in_a_ball(sparse):
    assert compare(make(sparse=sparse, penalty=sd.penalties.L1Ball(3.0)), radius=3.0).max() < 1e-12


@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_the_printed_dual_update_is_another_one(shape):
    """Procedure 2 as printed multiplies the true class by omega twice, or where it should not: the comparison tells."""
    worst = compare(make(**shape), count=20, printed=True)
    assert worst[1] > 1e-3


@pytest.mark.parametrize("every", [10, 50])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_flushes_keep_long_steps_exact(sparse, every):
    """At 20 times the step, scales move by many orders of magnitude; flushes at fixed counts or when asked for keep all digits."""
    problem = make(70, 33, 12, sparse=sparse)
    assert compare(problem, count=150, every=every, boost=20.0, exponent=0.05).max() < 1e-12


def test_rare_alternatives_keep_their_digits():
    """Rows whose true class has all but 1e-12 of the weight: the rest is known to a relative, not to an absolute accuracy."""
    problem = make(12, 4, 3, penalty=sd.penalties.L1(0.001))
    solver = Sublinear(exponent=1.0, radius=40.0)
    state = solver.init(problem, None, np.random.default_rng(0))
    steps = solver._factors(problem, state)
    for _ in range(30):
        state.pair.run(problem, steps, state.rng.random((500, 4)))
        state.pair.flush(problem, steps)
        _, V, _, _ = full_state(problem, state.pair, steps)
        here = np.arange(problem.n)
        V[here, problem.codes] = 0.0
        np.testing.assert_allclose(V.sum(axis=1), state.pair.off, rtol=1e-10)
    assert state.pair.off.min() < 1e-9


def test_vector_exp():
    x = np.linspace(-8.0, 8.0, 4001)
    got = np.array([vector_exp(value) for value in x])
    assert np.max(np.abs(got / np.exp(x) - 1.0)) < 3e-14
    assert vector_exp(50.0) == vector_exp(8.0)


@pytest.mark.parametrize("kappa", [0.0, 1e-6, 1e-4, 3e-3, 0.05, 2.0])
@pytest.mark.parametrize("m", [1, 7, 9, 100, 20_000])
def test_sums_over_steps(kappa, m):
    """The closed form of sum_s 1 / (Z + G exp(-kappa s)) against the sum itself."""
    for Z, G in ((1.0, 0.1), (1e-6, 1.0), (0.5, 0.5), (1.0, 1e-9)):
        terms = 1.0 / (Z + G * np.exp(-kappa * np.arange(m)))
        assert step_sum(Z, G, kappa, m) == pytest.approx(math.fsum(terms), rel=2e-10 if kappa * m > 1 else 1e-12)


# --------------------------------------------------------------------------- the laws, by enumeration


class Fixed:
    """Stands for a generator: gives the uniform numbers that lead to a chosen outcome."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def middle(law, i):
    """The uniform number in the middle of the share of outcome i, and the probability of that outcome."""
    p = law / law.sum()
    return p[:i].sum() + 0.5 * p[i], p[i]


@pytest.mark.parametrize("sampling", ["partial", "full"])
def test_sampled_gradients_are_unbiased(sampling):
    """All outcomes, weighted by their probabilities: X'(s A) and X W; second moments are the squares of the sums of the laws."""
    problem = make(7, 4, 3, weights=True)
    rng = np.random.default_rng(5)
    V = rng.dirichlet(np.ones(3), 7)
    A = V - np.eye(3)[problem.codes]
    halves = rng.random((8, 3))
    X, s = problem.matrix.values, problem.s
    t, sigma = s * np.abs(X).max(axis=1), np.sqrt(s @ X**2)
    size = np.abs(A)
    law = t * (size.max(axis=1) if sampling == "partial" else size.sum(axis=1))
    mean, moment, total = np.zeros((4, 3)), 0.0, 0.0
    for j in range(7):
        r, p = middle(law, j)
        for label in range(3) if sampling == "full" else [0]:
            r2, p2 = middle(size[j], label) if sampling == "full" else (0.0, 1.0)
            eta = sample_primal(problem, A, t, sampling, Fixed(r, r2))
            mean += p * p2 * eta
            moment += p * p2 * np.abs(eta).max() ** 2
            total += p * p2
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(mean, X.T @ (s[:, None] * A), atol=1e-13)
    assert moment == pytest.approx(law.sum() ** 2)
    law = np.tile(sigma, 2) * (halves.max(axis=1) if sampling == "partial" else halves.sum(axis=1))
    mean, moment = np.zeros((7, 3)), 0.0
    for i in range(8):
        r, p = middle(law, i)
        for label in range(3) if sampling == "full" else [0]:
            r2, p2 = middle(halves[i], label) if sampling == "full" else (0.0, 1.0)
            xi = sample_dual(problem, halves, sigma, sampling, Fixed(r, r2))
            mean += p * p2 * xi
            moment += p * p2 * (s @ np.abs(xi).max(axis=1) ** 2)
    np.testing.assert_allclose(mean, X @ (halves[:4] - halves[4:]), atol=1e-13)
    assert moment == pytest.approx(law.sum() ** 2)


def test_no_other_law_has_smaller_second_moments():
    """E max|eta|^2 = sum_j (s_j tau_j |A_jl|)^2 / q_jl is least at q ~ s tau |A|."""
    problem = make(7, 4, 3)
    rng = np.random.default_rng(2)
    A = rng.dirichlet(np.ones(3), 7) - np.eye(3)[problem.codes]
    sizes = (problem.s * np.abs(problem.matrix.values).max(axis=1))[:, None] * np.abs(A)
    for _ in range(200):
        q = rng.dirichlet(np.ones(sizes.size)).reshape(sizes.shape)
        assert (sizes**2 / q).sum() >= sizes.sum() ** 2


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_kernel_draws_by_the_law(sparse):
    """Frequencies of the classes that a first step opens, over many uniform numbers, against the law of that state."""
    problem = make(9, 5, 4, sparse=sparse)
    solver = Sublinear(radius=5.0)
    state = solver.init(problem, None, np.random.default_rng(0))
    steps = solver._factors(problem, state)
    state.pair.run(problem, steps, state.rng.random((300, 4)))
    state.pair.flush(problem, steps)
    U, V, _, _ = full_state(problem, state.pair, steps)
    Y, size = np.eye(4)[problem.codes], np.abs(V - np.eye(4)[problem.codes])
    rows = state.pair.t * (1.0 if sparse else size.sum(axis=1))
    expected = (rows / rows.sum()) @ (size / size.sum(axis=1, keepdims=True))
    weights = (np.tile(state.pair.sigma, 2)[:, None] * U).sum(axis=0)
    counts, others = np.zeros(4), np.zeros(4)
    for r in np.random.default_rng(3).random((3000, 4)):
        pair = copy.deepcopy(state.pair)
        before_u, before_v = pair.u.copy(), pair.v.copy()
        pair.run(problem, steps, r[None, :])
        counts[pair.u_order[np.flatnonzero((pair.u != before_u).any(axis=1)[: pair.used[0]])]] += 1
        others[pair.v_order[np.flatnonzero((pair.v != before_v).any(axis=1)[: pair.used[1]])]] += 1
    assert Y.shape == V.shape
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.03)
    np.testing.assert_allclose(others / others.sum(), weights / weights.sum(), atol=0.03)


# --------------------------------------------------------------------------- edges


def run(problem, steps=4000, epochs=3, **options):
    return sd.solve(problem, Sublinear(steps_per_epoch=steps, **options), tol=0.0, max_epochs=epochs)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_empty_rows_and_columns(sparse):
    """Rows and columns of zeros are never drawn, and nothing is divided by their size."""
    X = np.random.default_rng(0).standard_normal((30, 8))
    X[3], X[:, 2], X[:, 7] = 0.0, 0.0, 0.0
    problem = sd.MulticlassProblem(sp.csr_array(X) if sparse else X, np.arange(30) % 4, "hinge", sd.penalties.L1(0.01))
    solution = run(problem)
    assert np.isfinite(solution.certificate.gap)
    assert not solution.w[[2, 7]].any()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_no_data_at_all(sparse):
    X = np.zeros((6, 3))
    problem = sd.MulticlassProblem(sp.csr_array(X) if sparse else X, np.arange(6) % 3, "hinge", sd.penalties.L1(0.1))
    solution = run(problem)
    assert not solution.w.any()
    assert solution.certificate.gap < 0.1


def test_zero_is_optimal_for_strong_penalties():
    problem = make(40, 6, 3)
    strong = problem.with_penalty(sd.penalties.L1(1.5 * problem.alpha_max()))
    solution = run(strong)
    assert solution.certificate.primal == pytest.approx(1.0, abs=1e-6)
    assert solution.certificate.gap < 1e-6


def test_one_class_with_rows():
    """All rows of one class among three: any margin will do, and the gap closes."""
    X = np.abs(np.random.default_rng(0).standard_normal((20, 3)))
    problem = sd.MulticlassProblem(X, np.ones(20, dtype=int), "hinge", sd.penalties.L1(1e-3), n_classes=3)
    assert run(problem, 20000).certificate.gap < 0.05


def test_all_mass_on_the_true_class():
    """Q = 0: no row can be drawn, the primal only shrinks."""
    problem = make(10, 4, 3)
    solver = Sublinear(radius=5.0)
    state = solver.init(problem, None, np.random.default_rng(0))
    state.pair.off[:], state.pair.vy[:], state.pair.beta[:] = 0.0, 1.0, 0.0
    steps = solver._factors(problem, state)
    state.pair.run(problem, steps, state.rng.random((1, 4)))
    assert state.pair.used[0] == 0
    assert state.pair.numbers[ALPHA] == pytest.approx(steps[2])


def test_rows_without_weight_do_not_count():
    problem = make(20, 5, 3, weights=False)
    s = np.ones(20)
    s[[4, 9]] = 0.0
    X, y = problem.matrix.values.copy(), problem.codes
    one = sd.MulticlassProblem(X, y, "hinge", sd.penalties.L1(0.02), sample_weight=s, n_classes=3)
    X[[4, 9]] = 1e3
    two = sd.MulticlassProblem(X, y, "hinge", sd.penalties.L1(0.02), sample_weight=s, n_classes=3)
    assert run(one).certificate.gap == pytest.approx(run(two).certificate.gap, rel=1e-9)


def test_single_precision():
    problem = make(30, 8, 4)
    single = sd.MulticlassProblem(problem.matrix.values.astype(np.float32), problem.codes, "hinge", problem.penalty, problem.s)
    assert run(single).certificate.gap == pytest.approx(run(problem).certificate.gap, rel=0.1)


# --------------------------------------------------------------------------- slots and memory


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_slots_grow_and_untouched_classes_take_none(sparse):
    """Forty classes, few steps: what was not drawn has no column; what is asked for later gets one."""
    problem = make(60, 12, 40, sparse=sparse)
    few = run(problem, 30, 1).state.pair
    assert few.used[0] <= 30
    assert len(few.u) == (16 if few.used[0] <= 16 else 40)
    many = run(problem, 4000, 1).state.pair
    assert many.used[0] == many.used[1] == 40
    assert len(many.u) == len(many.v) == len(many.u_sums) == many.columns.shape[1] == 40


def test_memory_does_not_grow_with_d_times_k():
    """k = 5,000 classes and 20,000 features on sparse data: W stays sparse, and its columns are those that were drawn."""
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 20_000), density=2e-3, format="csr", rng=rng)
    problem = sd.MulticlassProblem(X, rng.integers(0, 5000, 200), "hinge", sd.penalties.L1(0.01), n_classes=5000)
    assert problem.is_large
    solution = run(problem, 60, 1)
    assert sp.issparse(solution.w)
    pair = solution.state.pair
    assert pair.u.nbytes + pair.u_sums.nbytes <= 2 * 64 * 20_000 * 8


# --------------------------------------------------------------------------- the solver


@pytest.mark.parametrize(("sparse", "tol"), [(False, 0.06), (True, 0.12)], ids=["dense", "sparse"])
def test_the_gap_falls(sparse, tol):
    """A rough solution, certified. On sparse data rows are drawn by a fixed law, which costs some accuracy."""
    problem = make(80, 20, 5, sparse=sparse, penalty=sd.penalties.L1(0.01))
    solution = sd.solve(problem, "sublinear", tol=tol, max_epochs=300)
    assert solution.status is sd.Status.CONVERGED
    best = sd.solve(problem, "pdhg", tol=1e-4, max_epochs=5000).certificate
    assert solution.certificate.dual <= best.primal + 1e-9
    assert best.dual - 1e-9 <= solution.certificate.primal <= best.primal + tol


def test_in_a_ball():
    problem = make(60, 10, 4, penalty=sd.penalties.L1Ball(4.0))
    solution = sd.solve(problem, "sublinear", tol=0.05, max_epochs=300)
    assert solution.status is sd.Status.CONVERGED
    assert np.abs(solution.w).sum() <= 4.0 * (1 + 1e-12)


def test_weights_are_repetitions():
    """Weight 2 is the row twice: the same laws, so the same expected gap; here only that both converge to the same optimum."""
    problem = make(40, 8, 3, weights=False, penalty=sd.penalties.L1(0.02))
    s = np.ones(40)
    s[:10] = 2.0
    X, y = problem.matrix.values, problem.codes
    weighted = sd.MulticlassProblem(X, y, "hinge", problem.penalty, sample_weight=s, n_classes=3)
    twice = sd.MulticlassProblem(np.vstack([X, X[:10]]), np.concatenate([y, y[:10]]), "hinge", problem.penalty, n_classes=3)
    one, two = (sd.solve(item, "sublinear", tol=0.03, max_epochs=300).certificate for item in (weighted, twice))
    assert one.primal == pytest.approx(two.primal, abs=0.05)
    pairs = [LazyPair(item, 5.0) for item in (weighted, twice)]
    np.testing.assert_allclose(pairs[0].sigma, pairs[1].sigma)
    assert pairs[0].t.sum() == pytest.approx(pairs[1].t.sum())


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_same_seed_same_trace_and_resume(sparse):
    problem = make(40, 70, 20, sparse=sparse)
    runs = [sd.solve(problem, "sublinear", tol=0.0, max_epochs=5, random_state=4) for _ in range(2)]
    assert [record._replace(seconds=0) for record in runs[0].trace] == [record._replace(seconds=0) for record in runs[1].trace]
    other = sd.solve(problem, "sublinear", tol=0.0, max_epochs=5, random_state=5)
    assert other.trace[-1].gap != runs[0].trace[-1].gap
    first = sd.solve(problem, "sublinear", tol=0.0, max_epochs=2, random_state=4)
    second = sd.solve(problem, "sublinear", tol=0.0, max_epochs=3, start=pickle.loads(pickle.dumps(first.state)))
    np.testing.assert_array_equal(second.state.last.w, runs[0].state.last.w)
    np.testing.assert_array_equal(second.state.last.dual, runs[0].state.last.dual)
    assert second.state.accesses == runs[0].state.accesses


def test_the_radius_shrinks_and_stays_valid():
    problem = make(80, 20, 5, penalty=sd.penalties.L1(0.01))
    trace = sd.solve(problem, "sublinear", tol=0.0, max_epochs=40).trace
    radius = np.array([record.counts["radius"] for record in trace])
    assert radius[0] == pytest.approx(100.0)
    assert (np.diff(radius) <= 0.0).all()
    best = sd.solve(problem, "pdhg", tol=1e-4, max_epochs=5000)
    assert radius[-1] >= np.abs(best.w).sum()
    assert radius[-1] < 0.9 * radius[0]
    kept = sd.solve(problem, Sublinear(radius=50.0), tol=0.0, max_epochs=3)
    assert all(record.counts["radius"] == 50.0 for record in kept.trace)


def test_a_start_bounds_the_radius():
    problem = make(80, 20, 5, penalty=sd.penalties.L1(0.01))
    start = sd.solve(problem, "pdhg", tol=1e-3, max_epochs=5000)
    solution = sd.solve(problem, "sublinear", tol=0.0, max_epochs=1, start=start)
    assert solution.trace[0].counts["radius"] == pytest.approx(start.certificate.primal / 0.01)
    assert solution.certificate.gap <= start.certificate.gap * (1 + 1e-9)


def test_overflow_begins_anew_with_shorter_steps():
    problem = make(20, 5, 3)
    solver = Sublinear(steps_per_epoch=100)
    state = solver.init(problem, None, np.random.default_rng(0))
    state.pair.vy[3] = np.nan
    solver.step(problem, state)
    assert state.restarts == 1
    assert state.exponent == solver.exponent / 4
    assert state.steps == 0
    solver.step(problem, state)
    assert state.steps == 100
    assert np.isfinite(state.last.w).all()


def test_the_step_is_halved_when_a_check_got_worse():
    problem = make(20, 5, 3)
    solver = Sublinear(steps_per_epoch=2000)
    state = solver.init(problem, None, np.random.default_rng(0))
    solver.step(problem, state)
    assert state.judged == 2000
    state.gap = 1e-9
    solver.step(problem, state)
    assert state.exponent == solver.exponent / 2
    solver.step(problem, state)  # not yet twice as many steps
    assert state.exponent == solver.exponent / 2
    assert state.judged == 4000


def test_the_exponent_falls_on_long_runs():
    problem = make(20, 5, 3)
    solver = Sublinear()
    state = solver.init(problem, None, np.random.default_rng(0))
    short = solver._factors(problem, state)
    state.steps = 4_000_000
    assert solver._factors(problem, state)[0] == pytest.approx(0.5 * short[0])


def test_what_it_refuses():
    X, y = np.eye(4), np.array([0, 1, 2, 0])
    for options, reason in [
        ({"loss": "logistic", "penalty": sd.penalties.L1(0.1)}, "the multiclass hinge"),
        ({"loss": "hinge", "penalty": sd.penalties.L2(0.1)}, "an l1 penalty or an l1 ball"),
        ({"loss": "hinge", "penalty": sd.penalties.L1(0.1), "fit_intercept": True}, "without intercept"),
    ]:
        with pytest.raises(UnsupportedError, match=reason):
            sd.solve(sd.MulticlassProblem(X, y, **options), "sublinear")
    with pytest.raises(UnsupportedError, match="multiclass problem"):
        sd.solve(sd.LinearProblem(X, [1, -1, 1, 1], "hinge", sd.penalties.L1(0.1)), "sublinear")
    for bad in ({"exponent": 0.0}, {"exponent": 3.0}, {"steps_per_epoch": 0}, {"radius": -1.0}):
        with pytest.raises(InputError):
            sd.solve(sd.MulticlassProblem(X, y, "hinge", sd.penalties.L1(0.1)), Sublinear(**bad))


# --------------------------------------------------------------------------- budgets


def test_a_budget_in_accesses():
    problem = make(40, 10, 4)
    solution = sd.solve(problem, Sublinear(steps_per_epoch=100), tol=0.0, max_accesses=50 * 1000)
    assert solution.status is sd.Status.MAX_ACCESSES
    assert solution.state.accesses == 50_000
    assert "max_accesses" in str(solution.status)
    assert solution.trace[-1].counts["steps"] == 1000
    with pytest.raises(InputError, match="max_accesses"):
        sd.solve(problem, "sublinear", max_accesses=-1)


def test_a_budget_in_steps():
    problem = make(40, 10, 4)
    assert run(problem, 250, 4).trace[-1].counts["steps"] == 1000


# --------------------------------------------------------------------------- stochastic mirror descent


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("sampling", ["partial", "full"])
def test_stochastic_mirror_descent(sampling, loss):
    """Both samplings come near the optimum for both losses, with certificates that hold."""
    problem = make(30, 8, 3, penalty=sd.penalties.L1(0.05))
    problem = sd.MulticlassProblem(problem.matrix.values, problem.codes, loss, problem.penalty, problem.s, n_classes=3)
    solution = sd.solve(problem, StochasticMirrorDescent(sampling, steps=1500), tol=0.0, max_epochs=3)
    best = sd.solve(problem, "pdhg", tol=1e-5, max_epochs=5000).certificate
    assert solution.certificate.relative_gap < 0.2
    assert solution.certificate.primal >= best.dual - 1e-9
    assert solution.certificate.dual <= best.primal + 1e-9


def test_stochastic_mirror_descent_repeats_and_resumes():
    problem = make(20, 6, 3, sparse=True)
    method = StochasticMirrorDescent(steps=50)
    whole = sd.solve(problem, method, tol=0.0, max_epochs=4, random_state=1)
    first = sd.solve(problem, method, tol=0.0, max_epochs=1, random_state=1)
    second = sd.solve(problem, method, tol=0.0, max_epochs=3, start=first.state)
    np.testing.assert_array_equal(second.state.last.w, whole.state.last.w)
    with pytest.raises(InputError, match="sampling"):
        StochasticMirrorDescent("some")
    with pytest.raises(InputError, match="exponent"):
        StochasticMirrorDescent(exponent=9.0)
    with pytest.raises(InputError, match="steps"):
        StochasticMirrorDescent(steps=0)


def test_full_sampling_and_the_sublinear_solver_are_the_same_method():
    """The same laws and steps: after as many steps the gaps are alike."""
    problem = make(40, 10, 4, penalty=sd.penalties.L1(0.02))
    one = sd.solve(problem, StochasticMirrorDescent("full", radius=20.0, steps=3000), tol=0.0, max_epochs=2)
    gaps = [
        sd.solve(problem, Sublinear(radius=20.0, steps_per_epoch=3000), tol=0.0, max_epochs=2, random_state=seed).certificate.gap
        for seed in range(5)
    ]
    assert 0.5 * min(gaps) <= one.certificate.gap <= 2.0 * max(gaps)
