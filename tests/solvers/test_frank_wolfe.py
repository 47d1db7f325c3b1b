"""Frank-Wolfe and its stochastic kin: equal to their plain twins, dual feasible all the way, at home in odd corners.

The letters of Lu & Freund are used in the twins: beta and tilde beta are w and u here, their w is a, their d is c.
"""

import functools
import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.losses import Logistic, Squared
from saddlery.penalties import L1Ball, Simplex
from saddlery.penalties.base import atom_buffers, bounded
from saddlery.registry import SOLVERS
from saddlery.solvers.frank_wolfe import FrankWolfe, best_step
from saddlery.solvers.frank_wolfe_steps import draw, largest_eigenvalue, move_to_atom, sampled_gradient
from saddlery.solvers.gsfw import GSFW, convex_steps, relative_smoothness, strongly_convex_steps, substitute_steps
from saddlery.solvers.sag_fw import SagFW
from saddlery.solvers.scgm import SCGM
from saddlery.solvers.scgs import SCGS
from saddlery.solvers.sfw import SFW
from saddlery.solvers.svrf import SVRF

NAMES = ["frank_wolfe", "gsfw", "sag_fw", "scgm", "sfw", "svrf", "scgs"]
EVERY = pytest.mark.parametrize("name", NAMES)
TABLES = pytest.mark.parametrize("solver", [GSFW(), SagFW()], ids=["gsfw", "sag_fw"])
LOSSES = pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=["logistic", "squared"])


@functools.cache
def _data(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    return X, X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n), rng.integers(0, 4, n).astype(float)


def make(loss=Logistic(), penalty=L1Ball(2.0), matrix=np.asarray, weights=False, n=60, d=8, seed=0):  # noqa: B008
    X, z, s = _data(n, d, seed)
    y = np.where(z > 0, 1.0, -1.0) if loss.targets == "signs" else z
    return sd.LinearProblem(matrix(X), y, loss, penalty, s if weights else None)


@functools.lru_cache(maxsize=None, typed=True)  # typed: losses without fields compare equal
def optimum(loss, n):
    """From a conic solver, for the problem of :func:`make`."""
    import cvxpy as cp

    problem = make(loss, n=n)
    w = cp.Variable(problem.d)
    z, y = problem.matrix.values @ w, problem.y
    terms = cp.logistic(-cp.multiply(y, z)) if loss.targets == "signs" else cp.square(z - y) / 2
    return float(cp.Problem(cp.Minimize(cp.sum(terms) / problem.n), [cp.norm1(w) <= 2.0]).solve(solver=cp.CLARABEL))


@bounded
class RidgeInBall(NamedTuple):
    """alpha / 2 ||w||^2 on ||w|| <= radius: a strongly convex penalty with a bounded domain."""

    alpha: float
    radius: float

    @property
    def strong_convexity(self):
        return self.alpha

    def atom_size(self, d):
        return d

    def atom(self, c, index, value):
        norm = 0.0
        for j in range(c.shape[0]):
            norm += c[j] * c[j]
        norm = math.sqrt(norm)
        factor = 1.0 / self.alpha if norm <= self.alpha * self.radius else self.radius / norm
        for j in range(c.shape[0]):
            index[j], value[j] = j, -factor * c[j]
        return c.shape[0]

    def atom_value(self, value, count):
        total = 0.0
        for k in range(count):
            total += value[k] * value[k]
        return 0.5 * self.alpha * total

    def value(self, w):
        norm = float(np.linalg.norm(w))
        return 0.5 * self.alpha * norm**2 if norm <= self.radius * (1.0 + 1e-12) else math.inf

    def prox(self, v, step):
        v = np.asarray(v) / (1.0 + step * self.alpha)
        return v * min(1.0, self.radius / max(float(np.linalg.norm(v)), 1e-300))


def advance(problem, state, draws, etas, alphas):
    """Iterations of GSFW with these draws and steps."""
    state.scale, _ = substitute_steps(
        problem.loss, problem.penalty, problem.matrix.rows, problem.y, problem.s, state.order, np.atleast_2d(draws),
        np.atleast_1d(etas), np.atleast_1d(alphas),
        state.z, state.a, state.c, state.v, state.scale, state.index, state.value, state.u,
    )  # fmt: skip


def shuffled(order, numbers):
    """The batch that the numbers in [0, 1) choose; `order` goes on from there."""
    for k, number in enumerate(numbers):
        other = k + int(number * (len(order) - k))
        order[k], order[other] = order[other], order[k]
    return order[: len(numbers)].copy()


# --------------------------------------------------------------------------- the paper's method and its twin


def conjugate_slope(loss, y, a):
    """l*'(a)."""
    return a + y if loss.targets == "real" else -y * np.log(-y * a / (1.0 + y * a))


def inverse_of_conjugate_slope(loss, y, t):
    """The a with l*'(a) = t."""
    return t - y if loss.targets == "real" else -y / (1.0 + np.exp(y * t))


def mirror_descent(problem, batch, iterations, rng):
    """Algorithm 2: w_j <- argmin_w -eta g_j (w - w_j) + D_h(w, w_j) on the rows of a batch, in dense NumPy; tables and atoms."""
    X, y, s, loss, n = problem.matrix.values, problem.y, problem.s, problem.loss, problem.n
    w, N, order = loss.slope(y, np.zeros(n)), n / batch, np.arange(n)
    tables, atoms = [w.copy()], []
    numbers = iter(np.concatenate([rng.random((-(-n // batch), batch)) for _ in range(-(-iterations * batch // n) + 1)]))
    for i in range(iterations):
        u = problem.penalty.linear_oracle(X.T @ (s * w))
        B, eta = shuffled(order, next(numbers)), 2 * N / (2 * N + i + 1)
        gradient = s[B] * (X[B] @ u - conjugate_slope(loss, y[B], w[B]))  # of the dual, on the batch
        w[B] = inverse_of_conjugate_slope(loss, y[B], conjugate_slope(loss, y[B], w[B]) + eta * gradient / s[B])
        tables.append(w.copy())
        atoms.append(u)
    return np.array(tables), np.array(atoms)


@LOSSES
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
def test_algorithm_1_is_algorithm_2(loss, batch, weights):
    """The same draws give the same tables, to 1e-12; w is the mean of the atoms with weights 2N + i."""
    problem = make(loss, weights=False)
    if weights:
        problem.s = np.random.default_rng(5).random(problem.n) + 0.1
        problem.s /= problem.s.sum()
    state, epochs, N = GSFW(batch).init(problem, None, np.random.default_rng(3)), 4, problem.n / batch
    tables, atoms = mirror_descent(problem, batch, epochs * problem.n // batch, np.random.default_rng(3))
    for epoch in range(1, epochs + 1):
        GSFW(batch).step(problem, state)
        k = epoch * problem.n // batch
        np.testing.assert_allclose(state.a, tables[k], rtol=0, atol=1e-12)
        shares = 2 * N + np.arange(k)
        np.testing.assert_allclose(state.w, shares @ atoms[:k] / shares.sum(), rtol=0, atol=1e-12)
        assert shares.sum() == pytest.approx((4 * N + k - 1) * k / 2, rel=1e-14)


def test_the_mirror_step_minimises():
    """The twin's closed form is the minimiser of the prox problem of Algorithm 2, found by a method that only sees values."""
    problem, eta, x_u = make(), 0.7, 0.9
    y, a = 1.0, -0.3

    def model(w):
        gradient = x_u - conjugate_slope(problem.loss, y, a)
        bregman = problem.loss.conjugate(y, w) - conjugate_slope(problem.loss, y, a) * (w - a)
        return -eta * gradient * w + bregman

    best = minimize_scalar(model, bounds=(-1.0, 0.0), method="bounded", options={"xatol": 1e-10}).x
    target = (1.0 - eta) * conjugate_slope(problem.loss, y, a) + eta * x_u
    assert inverse_of_conjugate_slope(problem.loss, y, target) == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize("N", [1.0, 7.3, 100.0])
def test_steps_are_weighted_means(N):
    """alpha_0 = 1, and unrolled the steps give atom i the weight 2N + i, or q^i in the strongly convex case."""
    i, sigma = np.arange(50.0), 1.7
    q = N * sigma / (N * sigma - 1.0)
    for (_, alphas), shares in (
        (convex_steps(i, N), 2 * N + i),
        (strongly_convex_steps(i, N, sigma), q**i),
    ):
        assert alphas[0] == pytest.approx(1.0, rel=1e-14)
        left = np.append(np.cumprod((1.0 - alphas)[:0:-1])[::-1], 1.0)
        np.testing.assert_allclose(alphas * left, shares / shares.sum(), rtol=1e-10)


def test_strongly_convex_steps_do_not_overflow():
    """The printed formula has sigma^i; at large i the step is 1 / (N sigma)."""
    etas, alphas = strongly_convex_steps(np.array([0.0, 1e3, 1e6, 1e12]), 100.0, 3.0)
    np.testing.assert_allclose(alphas[[0, 2, 3]], [1.0, 1.0 / 300.0, 1.0 / 300.0], rtol=1e-12)
    np.testing.assert_array_equal(etas, 1.0 / 3.0)
    np.testing.assert_array_equal(strongly_convex_steps(np.arange(3.0), 1.0, 1.0)[1], 1.0)  # N sigma = 1


def test_dual_steps_are_unbiased():
    """b = 1: over all rows the mean of the sampled direction is 1/n of the gradient of D, here by differences."""
    problem = make(weights=True)
    state = GSFW(1).init(problem, None, np.random.default_rng(0))
    GSFW(1).step(problem, state)
    n, mean, eta = state.order.size, np.zeros(problem.n), 0.3
    for k in range(n):
        copy = pickle.loads(pickle.dumps(state))
        advance(problem, copy, (k + 0.5) / n, eta, 0.1)
        assert set(np.flatnonzero(copy.z != state.z)) <= {state.order[k]}
        mean += problem.s * (copy.z - state.z) / eta / n
    slope, h = np.zeros(problem.n), 1e-6
    for i in state.order:
        up, down = state.a.copy(), state.a.copy()
        up[i] += h
        down[i] -= h
        slope[i] = (problem.dual(up) - problem.dual(down)) / (2 * h)
    np.testing.assert_allclose(mean, slope / n, atol=1e-9)


def test_sampled_gradients_are_unbiased():
    """Over all rows the mean of the sampled gradient is the gradient; a batch of all rows is the gradient itself."""
    problem, rng = make(weights=True), np.random.default_rng(0)
    w, rows = rng.standard_normal(problem.d), np.flatnonzero(problem.s)
    n = len(rows)
    true = problem.matrix.rmatvec(problem.s * problem.slopes(problem.margins(w)))

    def sample(draws):
        out, order = np.zeros(problem.d), rows.copy()
        data = problem.matrix.rows, problem.y, problem.s
        reads = sampled_gradient(problem.loss, *data, order, np.atleast_1d(draws), np.zeros(problem.n), w, 1.0, out)
        assert reads == 2 * problem.d * np.size(draws)
        return out

    np.testing.assert_allclose(np.mean([sample((k + 0.5) / n) for k in range(n)], axis=0), true, atol=1e-13)
    np.testing.assert_allclose(sample(rng.random(n)), true, atol=1e-13)


def test_a_batch_draws_each_row_once():
    problem, rng = make(), np.random.default_rng(0)
    for m in (1, 7, 60):
        order, seen = np.arange(60), np.zeros(60)
        for _ in range(300):
            numbers = np.append(rng.random(m - 1), 1.0 - 1e-16)  # the largest number below 1 at the end
            batch = [draw(problem.matrix.rows, order, k, numbers[k]) for k in range(m)]
            assert len(set(batch)) == m
            seen[batch] += 1
        assert sorted(order) == list(range(60))
        if m == 7:
            assert seen.min() > 10  # 35 expected


# --------------------------------------------------------------------------- products and the lazy iterate


@TABLES
@LOSSES
@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_the_substitute_gradient_belongs_to_the_table(solver, loss, matrix):
    """c = X'(s a) after each epoch, and every a in the domain of l*."""
    problem = make(loss, matrix=matrix, weights=True)
    state = solver.init(problem, None, np.random.default_rng(1))
    for _ in range(30):
        solver.step(problem, state)
        np.testing.assert_allclose(state.c, problem.matrix.values.T @ (problem.s * state.a), atol=1e-13)
        assert np.isfinite(problem.dual(state.a))
        assert np.isfinite(problem.penalty.value(state.w))
    state.c += 1.0
    solver.resync(problem, state)
    np.testing.assert_allclose(state.c, problem.matrix.values.T @ (problem.s * state.a), atol=1e-13)


def test_the_scaled_iterate_is_the_plain_one():
    """Full steps start afresh, and a scale that became tiny is multiplied in."""
    rng, d = np.random.default_rng(0), 6
    penalty = RidgeInBall(1.0, 2.0)
    v, scale, w, folds = np.zeros(d), 1.0, np.zeros(d), 0
    index, value = atom_buffers(penalty, d)
    for k in range(400):
        step = 1.0 if k in (0, 50) else rng.random() ** 2
        c = rng.standard_normal(d)
        count = penalty.atom(c, index, value)
        before = scale
        scale = move_to_atom(penalty, v, scale, step, index, value, count)
        folds += scale > before
        w = (1.0 - step) * w + step * penalty.linear_oracle(c)
        np.testing.assert_allclose(scale * v, w, atol=1e-13)
    assert folds > 3


def test_sag_fw_is_its_plain_twin():
    problem = make(matrix=sp.csr_array)
    X, y, s, n, b = problem.matrix.values.toarray(), problem.y, problem.s, problem.n, 7
    state, rng = SagFW(b).init(problem, None, np.random.default_rng(2)), np.random.default_rng(2)
    w, a, order, i = np.zeros(problem.d), problem.slopes(np.zeros(n)), np.arange(n), 0
    for _ in range(5):
        SagFW(b).step(problem, state)
        for numbers in rng.random((-(-n // b), b)):
            w += 2.0 / (i + 2.0) * (problem.penalty.linear_oracle(X.T @ (s * a)) - w)
            B = shuffled(order, numbers)
            a[B] = problem.loss.slope(y[B], X[B] @ w)
            i += 1
        np.testing.assert_allclose(state.w, w, atol=1e-12)
        np.testing.assert_allclose(state.a, a, atol=1e-12)


def test_largest_eigenvalue():
    for d in (1, 8, 40):
        for weights in (False, True):
            problem = make(d=d, weights=weights)
            true = np.linalg.eigvalsh(problem.matrix.values.T @ (problem.s[:, None] * problem.matrix.values))[-1]
            top, passes = largest_eigenvalue(problem)
            assert true * (1 - 1e-9) <= top <= true * 1.002
            assert passes >= 1
    assert largest_eigenvalue(sd.LinearProblem(np.zeros((3, 30)), [1, -1, 1], penalty=L1Ball(1.0)))[0] == 0.0


# --------------------------------------------------------------------------- strongly convex penalties


def dual_optimum(problem):
    """For RidgeInBall with squared loss: by GSFW itself with its safest step, certified."""
    solution = sd.solve(problem, GSFW(1), tol=1e-12, max_epochs=20_000)
    assert solution.status is sd.Status.CONVERGED
    return solution.certificate.dual


@LOSSES
def test_the_dual_rises_with_every_row(loss):
    """Strongly convex penalty, b = 1: no step lowers D; the gap falls at the rate of Theorem 3.2."""
    problem = make(loss, RidgeInBall(0.1, 5.0), weights=True)
    solver = GSFW(1)
    state = solver.init(problem, None, np.random.default_rng(0))
    n = state.order.size
    etas, alphas = strongly_convex_steps(np.arange(6.0 * n), float(n), state.sigma)
    value = first = problem.dual(state.a)
    for eta, alpha in zip(etas, alphas, strict=True):
        advance(problem, state, state.rng.random(), eta, alpha)
        new = problem.dual(state.a)
        assert new >= value - 1e-14
        value = new
    assert value > first
    solution = sd.solve(problem, solver, tol=1e-9, max_epochs=2000)
    assert solution.status is sd.Status.CONVERGED


@pytest.mark.parametrize("batch", [5, 20, 100])
def test_strongly_convex_batches_converge(batch):
    problem = make(Squared(), RidgeInBall(0.1, 50.0), n=100, d=10)
    solution = sd.solve(problem, GSFW(batch), tol=1e-8, max_epochs=5000)
    assert solution.status is sd.Status.CONVERGED


def test_erratum_of_remark_3_4():
    """Identical rows, b = n = 100: sigma as printed for batches (that of b = 1) never converges, sigma_b does."""
    n, mu = 100, 0.1
    problem = sd.LinearProblem(np.ones((n, 1)), np.full(n, 3.0), Squared(), RidgeInBall(mu, 10.0))
    printed = 1.0 + 1.0 / (n * mu)
    sigma, _ = relative_smoothness(problem, n)
    assert sigma == pytest.approx(1.0 + 1.0 / mu)
    assert relative_smoothness(problem, 1)[0] == pytest.approx(printed)
    best = dual_optimum(problem)
    gaps = {}
    for value in (printed, sigma):
        state = GSFW(n).init(problem, None, np.random.default_rng(0))
        etas, alphas = strongly_convex_steps(np.arange(500.0), 1.0, value)
        advance(problem, state, state.rng.random((500, n)), etas, alphas)
        gaps[value] = best - problem.dual(state.a)
    assert gaps[printed] > 1.0
    assert abs(gaps[sigma]) < 1e-10


def test_step_rules():
    """auto takes the strongly convex steps where they apply; asking for them elsewhere is refused."""
    flat, curved = make(), make(penalty=RidgeInBall(0.1, 5.0))
    rng = np.random.default_rng(0)
    assert GSFW().init(flat, None, rng).sigma == 0.0
    assert GSFW().init(curved, None, rng).sigma == relative_smoothness(curved, 1)[0] > 1.0
    assert GSFW(step_rule="convex").init(curved, None, rng).sigma == 0.0
    with pytest.raises(InputError, match="needs a strongly convex penalty"):
        sd.solve(flat, GSFW(step_rule="strongly_convex"))
    assert sd.solve(curved, GSFW(step_rule="convex"), tol=1e-2, max_epochs=500).status is sd.Status.CONVERGED


# --------------------------------------------------------------------------- full gradients


@LOSSES
@pytest.mark.parametrize("penalty", [L1Ball(2.0), RidgeInBall(0.1, 1.0)], ids=["l1_ball", "ridge in ball"])
def test_open_loop_is_its_plain_twin(loss, penalty):
    """w_{k+1} = (1 - 2/(k+2)) w_k + 2/(k+2) u_k from w_0 = 0, one iteration an epoch."""
    problem = make(loss, penalty, weights=True)
    X, w = problem.matrix.values, np.zeros(problem.d)
    solver = FrankWolfe()
    state = solver.init(problem, None, np.random.default_rng(0))
    for k in range(40):
        gradient = X.T @ (problem.s * loss.slope(problem.y, X @ w))
        w = (1 - 2 / (k + 2)) * w + 2 / (k + 2) * penalty.linear_oracle(gradient)
        solver.step(problem, state)
        np.testing.assert_allclose(solver.point(problem, state).w, w, atol=1e-12)
        np.testing.assert_allclose(state.Xw, X @ w, atol=1e-12)
    n = state.order.size
    assert state.counts == {"sample_gradients": 41 * n, "initial_gradients": n, "oracle_calls": 40}


@pytest.mark.parametrize("loss", [Logistic(), Squared(), sd.losses.SmoothHinge(0.3)], ids=["logistic", "squared", "smooth_hinge"])
@pytest.mark.parametrize("penalty", [L1Ball(2.0), RidgeInBall(0.1, 1.0)], ids=["l1_ball", "ridge in ball"])
def test_line_search_never_goes_up(loss, penalty):
    problem, solver = make(loss, penalty), FrankWolfe("line_search")
    state = solver.init(problem, None, np.random.default_rng(0))
    values = []
    for _ in range(60):
        values.append(problem.primal(state.v))
        solver.step(problem, state)
    assert np.all(np.diff(values) <= 1e-15)
    assert values[-1] < values[0]
    certificate = sd.certify(problem, state.v)
    assert certificate.relative_gap < 0.02


@pytest.mark.parametrize("tilt", [-10.0, -0.1, 0.0, 0.1, 10.0])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), sd.losses.SquaredHinge()], ids=["logistic", "squared", "squared_hinge"])
def test_best_step_against_a_generic_method(loss, tilt):
    problem, rng = make(loss), np.random.default_rng(0)
    for size in (0.01, 1.0, 100.0):
        z, change = rng.standard_normal(problem.n), size * rng.standard_normal(problem.n)
        t = best_step(loss, problem.y, problem.s, z, change, tilt)

        def value(t, z=z, change=change):
            return problem.loss_value(z + t * change) + t * tilt

        other = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10})
        assert 0.0 <= t <= 1.0
        assert value(t) <= min(other.fun, value(0.0), value(1.0)) + 1e-12 * (1 + abs(other.fun))


# --------------------------------------------------------------------------- every solver


@EVERY
@LOSSES
def test_weak_duality_at_every_check(name, loss):
    """Whatever the solver, dual <= optimum <= primal, and both come nearer."""
    problem, best = make(loss, n=1000), optimum(loss, 1000)
    solution = sd.solve(problem, name, tol=5e-3, max_epochs=500)
    slack = 1e-8 * problem.scale  # of the conic solver
    for record in solution.trace:
        assert record.dual <= best + slack
        assert record.primal >= best - slack
    assert solution.certificate.primal - best <= solution.certificate.gap + slack
    assert solution.certificate.relative_gap <= 1e-2  # batches of at most n / 2 leave noise: sfw and scgs do not come much nearer
    again = sd.certify(problem, solution.w, solution.dual)
    assert again.gap == pytest.approx(solution.certificate.gap, abs=1e-13)


@EVERY
def test_dense_is_sparse(name):
    """The same draws on dense and sparse data: the same points, to rounding."""
    method, points = SOLVERS.get(name)(), []
    for matrix in (np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array):
        problem = make(matrix=matrix, weights=True)
        state = method.init(problem, None, np.random.default_rng(4))
        for _ in range(3):
            method.step(problem, state)
        points.append((method.point(problem, state).w, state.counts))
    for w, counts in points[1:]:
        np.testing.assert_allclose(w, points[0][0], atol=1e-11)
        assert counts == points[0][1]


@EVERY
def test_the_same_seed_gives_the_same_trace(name):
    problem = make()
    runs = [sd.solve(problem, name, tol=0.0, max_epochs=12, random_state=seed) for seed in (3, 3, 4)]
    traces = [[record._replace(seconds=0.0) for record in run.trace] for run in runs]
    assert traces[0] == traces[1]
    if name != "frank_wolfe":
        assert traces[0] != traces[2]


@EVERY
@pytest.mark.parametrize("cut", [1, 4])
def test_resumed_equals_uninterrupted(name, cut):
    """From a state that was stored; the old solution stays as it was."""
    problem, method = make(weights=True), SOLVERS.get(name)()
    whole = sd.solve(problem, name, tol=0.0, max_epochs=8)
    first = sd.solve(problem, name, tol=0.0, max_epochs=cut)
    before = method.point(problem, first.state).w.copy()
    second = sd.solve(problem, name, tol=0.0, max_epochs=8 - cut, start=pickle.loads(pickle.dumps(first.state)))
    np.testing.assert_array_equal(method.point(problem, whole.state).w, method.point(problem, second.state).w)
    assert whole.state.counts == second.state.counts
    assert whole.state.accesses == second.state.accesses
    np.testing.assert_array_equal(before, method.point(problem, first.state).w)


@EVERY
def test_rows_without_weight_are_no_rows(name):
    """Leaving them out changes nothing at all."""
    X, z, s = _data(60, 8, 0)
    y, there = np.where(z > 0, 1.0, -1.0), s > 0.0
    full = sd.LinearProblem(X, y, penalty=L1Ball(2.0), sample_weight=s)
    part = sd.LinearProblem(X[there], y[there], penalty=L1Ball(2.0), sample_weight=s[there])
    one, two = (sd.solve(problem, name, tol=0.0, max_epochs=5) for problem in (full, part))
    np.testing.assert_allclose(one.w, two.w, atol=1e-12)
    np.testing.assert_allclose(one.trace.column("primal"), two.trace.column("primal"), rtol=1e-12)
    assert one.trace[-1].counts == two.trace[-1].counts


@EVERY
def test_a_set_without_zero(name):
    """The simplex: the start is feasible, and so are all points."""
    problem = make(Squared(), Simplex(3.0))
    solution = sd.solve(problem, name, tol=0.1, max_epochs=500)
    assert solution.trace[0].primal < np.inf
    assert solution.status is sd.Status.CONVERGED
    assert solution.w.sum() == pytest.approx(3.0)
    assert solution.w.min() >= 0.0


@EVERY
def test_nothing_to_learn(name):
    """X = 0: the gradient is 0, any feasible point is optimal, and so it is after more steps."""
    problem = sd.LinearProblem(np.zeros((4, 3)), [1, -1, 1, 1], penalty=L1Ball(1.0))
    solution = sd.solve(problem, name)
    assert solution.epochs == 0
    assert solution.certificate.gap == 0.0
    method = SOLVERS.get(name)()
    state = method.init(problem, None, np.random.default_rng(0))
    for _ in range(5):
        method.step(problem, state)
    assert sd.certify(problem, method.point(problem, state).w).gap == 0.0


@EVERY
def test_odd_data(name):
    """Empty rows, a column twice, a row of each class, fewer rows than a hundred: two equal columns, and the first one is taken."""
    X, z, _ = _data(30, 5, 1)
    X = np.column_stack([X, X[:, 1]])
    X[10:20] = 0.0
    problem = sd.LinearProblem(sp.csr_array(X), np.where(z > 0, 1.0, -1.0), penalty=L1Ball(1.0))
    solution = sd.solve(problem, name, tol=1e-2, max_epochs=500)
    assert solution.status is sd.Status.CONVERGED
    assert solution.w[5] == 0.0 or name == "scgs"  # its prox steps tell equal columns apart
    tiny = sd.LinearProblem([[1.0], [-2.0]], [1, -1], penalty=L1Ball(0.5))
    assert sd.solve(tiny, name, tol=1e-6).w == pytest.approx([0.5], abs=1e-3)


@EVERY
def test_a_ball_that_does_not_bind(name):
    """Optimum inside: the certificate is a bound there too, and falls."""
    problem = make(Squared(), L1Ball(100.0))
    best = problem.primal(np.linalg.lstsq(problem.matrix.values, problem.y, rcond=None)[0])
    solution = sd.solve(problem, name, tol=1e-6, max_epochs=400)
    for record in solution.trace:
        assert record.dual <= best + 1e-12 <= record.primal + 2e-12
    assert solution.certificate.gap < solution.trace[0].gap


@pytest.mark.parametrize("solver", [GSFW, SagFW, SCGM])
def test_batch_sizes(solver):
    """One row, all rows, and the default of one in a hundred; an epoch draws about n."""
    for n, batch, rows in ((60, 1, 1), (60, 60, 60), (60, 7, 7), (60, None, 1), (350, None, 3)):
        problem, method = make(n=n), solver(batch)
        state = method.init(problem, None, np.random.default_rng(0))
        assert state.batch == rows
        for _ in range(3):
            method.step(problem, state)
        calls = 3 * math.ceil(n / rows)
        first = 0 if solver is SCGM else n
        assert state.counts == {"sample_gradients": first + calls * rows, "initial_gradients": first, "oracle_calls": calls}
        assert state.accesses >= 2 * calls * rows * problem.d
    for bad in (0, -1, 61):
        with pytest.raises(InputError, match="batch must be from 1 to 60"):
            sd.solve(make(), solver(bad))


def test_counts_of_the_rivals():
    """SFW draws k^2 rows, SVRF 96 (k + 1) after a full gradient, SCGS k^3; all at most n / 2."""
    problem = make(n=60)
    states = {}
    for solver in (SFW(), SVRF(), SCGS()):
        state = states[solver.name] = solver.init(problem, None, np.random.default_rng(0))
        for _ in range(8):
            solver.step(problem, state)
    assert states["sfw"].counts == {"sample_gradients": 85 + 7 * 60, "initial_gradients": 0, "oracle_calls": 6 + 7 * 2}
    assert states["svrf"].counts == {"sample_gradients": 60 + 8 * 60 + 60, "initial_gradients": 60, "oracle_calls": 16}
    assert states["scgs"].counts["sample_gradients"] == 1 + 8 + 27 + 30 + 7 * 60
    assert states["scgs"].counts["oracle_calls"] >= states["scgs"].iterations
    assert states["scgs"].D == pytest.approx(4.0)  # of a ball of radius 2


@EVERY
def test_starts(name):
    """Weights outside of the set are moved into it; what was given stays as it was."""
    problem, w = make(), np.full(8, 10.0)
    solution = sd.solve(problem, name, tol=0.0, max_epochs=2, start=(w, 0.0, None))
    assert np.isfinite(solution.trace[0].primal)
    assert np.all(w == 10.0)
    good = sd.solve(problem, "frank_wolfe", tol=1e-3, max_epochs=5000)
    again = sd.solve(problem, name, tol=1e-2, start=good)
    assert again.epochs == 0
    assert again.status is sd.Status.CONVERGED


@EVERY
def test_refusals(name):
    """No intercept, smooth losses, penalties with an oracle; said before anything is compiled."""
    X, y = [[1.0], [-2.0]], [1, -1]
    for options, reason in (
        ({"penalty": L1Ball(1.0), "fit_intercept": True}, "a problem without intercept"),
        ({"penalty": L1Ball(1.0), "loss": "hinge"}, "a smooth loss"),
        ({"penalty": sd.penalties.L1(1.0)}, "the verb 'atom' of the penalty"),
    ):
        with pytest.raises(UnsupportedError, match=reason):
            sd.solve(sd.LinearProblem(X, y, **options), name)


@pytest.mark.parametrize(
    ("make_solver", "words"),
    [
        (lambda: FrankWolfe("short"), "step_rule must be"),
        (lambda: GSFW(step_rule="fast"), "step_rule must be"),
        (lambda: SCGM(step_factor=3.0), "step_factor must be"),
        (lambda: SFW(growth=0.0), "growth must be positive"),
        (lambda: SVRF(growth=-1.0), "growth must be positive"),
        (lambda: SCGS(growth=math.nan), "growth must be positive"),
    ],
)
def test_bad_options(make_solver, words):
    with pytest.raises(InputError, match=words):
        make_solver()
