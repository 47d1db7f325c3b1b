"""Baselines for all classes at once: steps against a conic solver, optima, traces, radius search."""

import math
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest

import saddlery as sd
from saddlery.errors import InputError
from saddlery.geometry import BlockPower, RowEntropy, RowEuclidean, SignedEntropy
from saddlery.geometry.entropy import SplitPoint
from saddlery.solvers.mirror_descent import MirrorDescent, coupling, first_radius
from saddlery.solvers.mirror_prox import MirrorProx
from saddlery.solvers.pdhg import PDHG
from saddlery.solvers.subgradient import Subgradient

SOFTMAX, HINGE = sd.losses.Softmax(), sd.losses.MulticlassHinge()
LOSSES = pytest.mark.parametrize("loss", [SOFTMAX, HINGE], ids=["softmax", "hinge"])
L1 = sd.penalties.L1(0.7)


def paper_problem(n, loss="hinge", alpha=1e-3, seed=0):
    """The paper's synthetic problem with n rows, features and classes: Gaussian X, labels argmax(x_l + N(0, 1) / sqrt(d))."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n))
    y = np.argmax(X + rng.standard_normal((n, n)) / np.sqrt(n), axis=1)
    return sd.MulticlassProblem(X, y, loss, sd.penalties.L1(alpha), n_classes=n)


# --------------------------------------------------------------------------- steps


def minimise(objective, constraints=()):
    problem = cp.Problem(cp.Minimize(objective), list(constraints))
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"


@pytest.mark.parametrize(("radius", "alpha"), [(2.0, 0.05), (0.3, 0.05), (0.3, 0.0)], ids=["slack", "tight", "ball alone"])
def test_step_in_the_split_ball(radius, alpha):
    """(24) of the paper is the step that it says it is."""
    rng = np.random.default_rng(0)
    geometry = SignedEntropy(HINGE, (3, 2), radius, alpha)
    theta = rng.standard_normal((3, 2))
    log_mass = math.log(0.5 * radius / (np.exp(theta) + np.exp(-theta)).sum())
    place, gradient, gamma = SplitPoint(theta, log_mass, 0.5 * radius), rng.standard_normal((3, 2)), 0.02
    after = geometry.step(place, gradient, gamma)
    U, D = cp.Variable((3, 2)), cp.Variable((3, 2))
    old = np.exp(log_mass - theta), np.exp(log_mass + theta)
    far = radius * (cp.sum(cp.kl_div(U, old[0])) + cp.sum(cp.kl_div(D, old[1])))
    mass = cp.sum(U) + cp.sum(D)
    cost = cp.sum(cp.multiply(gradient, U - D)) + alpha * mass + far / (2 * gamma * geometry.omega)
    minimise(cost, [mass <= radius])
    assert np.allclose(geometry.weights(after), U.value - D.value, atol=1e-4)
    assert after.total == pytest.approx(mass.value, abs=1e-4)
    assert geometry.divergence(after, geometry.weights(after), place) * geometry.omega == pytest.approx(far.value, abs=1e-4)


@pytest.mark.parametrize("radius", [30.0, 0.2], ids=["slack", "tight"])
@pytest.mark.parametrize("d", [2, 4])
def test_step_of_block_powers(radius, d):
    rng = np.random.default_rng(1)
    geometry = BlockPower(HINGE, (d, 3), radius, 0.1)
    place = 0.1 * radius * rng.standard_normal((d, 3)) / d
    gradient, gamma = rng.standard_normal((d, 3)), 0.05
    after = geometry.step(place, gradient, gamma)
    assert np.sqrt((after**2).sum(axis=1)).sum() <= radius * (1 + 1e-9)

    def cost(W):
        far = geometry.divergence(W, W, place)
        return np.vdot(gradient, W) + 0.1 * np.abs(W).sum() + far / (2 * gamma)

    best = cost(after)
    for size in (1e-1, 1e-3, 1e-5):  # no feasible neighbour is better
        for _ in range(200):
            W = after + size * radius * rng.standard_normal((d, 3)) * (rng.random((d, 3)) < 0.5)
            W *= min(1.0, radius / np.sqrt((W**2).sum(axis=1)).sum())
            assert cost(W) >= best - 1e-12 * abs(best)
    assert geometry.divergence(after, after, after) == pytest.approx(0.0, abs=1e-12)
    assert geometry.divergence(after, after, place) > 0.0


@LOSSES
@pytest.mark.parametrize("kind", [RowEntropy, RowEuclidean])
def test_steps_of_rows(make_joint, loss, kind):
    problem = make_joint(loss, L1, weights=True, n=12)
    geometry = kind(problem)
    rng = np.random.default_rng(0)
    S, gamma, place = rng.standard_normal((12, 4)), 0.4, geometry.start()
    for _ in range(2):  # the second step from where the first led
        after = geometry.step(place, S, gamma)
        old, new = geometry.slopes(place), geometry.slopes(after)
        Y = np.eye(4)[problem.codes]
        v = cp.Variable((12, 4))
        conjugate = cp.sum(-cp.entr(v), axis=1) if loss is SOFTMAX else cp.sum(cp.multiply(v, Y), axis=1) - 1
        if kind is RowEntropy:
            far = cp.sum(cp.kl_div(v, old + Y), axis=1)
        else:
            far = cp.sum(cp.square(v - old - Y), axis=1) / 2
        gain = conjugate - cp.sum(cp.multiply(v, S), axis=1)
        minimise(problem.s @ (gain + far / (2 * gamma * geometry.omega)), [v >= 0, cp.sum(v, axis=1) == 1])
        counted = problem.s > 0.0
        assert np.allclose((new + Y)[counted], v.value[counted], atol=1e-4)
        assert geometry.divergence(after, place) * geometry.omega == pytest.approx(float(problem.s @ far.value), abs=1e-4)
        place = after


def test_largest_divergences(make_joint):
    """Omega bounds the divergence of every point from the start."""
    problem, rng = make_joint(HINGE, L1), np.random.default_rng(0)
    rows = RowEntropy(problem)
    corner = np.full((problem.n, problem.k), -700.0)
    corner[:, 1] = 0.0
    assert rows.divergence(corner, rows.start()) == pytest.approx(1.0)
    flat = RowEuclidean(problem)
    assert flat.divergence(np.zeros((problem.n, problem.k)), flat.start()) == pytest.approx(1.0)
    ball = SignedEntropy(HINGE, (5, 4), 3.0, 0.0)
    far = ball.step(ball.start(), 100.0 * rng.standard_normal((5, 4)), 10.0)
    assert 0.99 <= ball.divergence(far, ball.weights(far), ball.start()) <= 1.0 + 1e-12
    assert coupling(problem) == pytest.approx(np.sqrt((problem.matrix.values**2).mean(axis=0).max()))


# --------------------------------------------------------------------------- optima


@LOSSES
@pytest.mark.parametrize(
    "penalty",
    [L1, sd.penalties.L2(0.7), sd.penalties.ElasticNet(0.7), sd.penalties.L1Ball(2.0)],
    ids=["l1", "l2", "elasticnet", "l1_ball"],
)
@pytest.mark.parametrize(("intercept", "weights", "matrix"), [(False, False, "csr"), (True, True, "dense")])
def test_pdhg_agrees_with_a_conic_solver(make_joint, joint_optimum, loss, penalty, intercept, weights, matrix):
    problem = make_joint(loss, penalty, matrix, intercept, weights)
    solution = sd.solve(problem, "pdhg", tol=1e-5)
    best = joint_optimum(make_joint(loss, penalty, "dense", intercept, weights))[0]
    assert solution.status is sd.Status.CONVERGED
    assert -1e-8 <= solution.certificate.primal - best <= 1e-5 * problem.scale + 1e-8
    assert solution.certificate.dual <= best + 1e-8


@LOSSES
@pytest.mark.parametrize(
    "penalty", [L1, sd.penalties.L1Ball(2.0), sd.penalties.L1InBall(0.01, radius=1.5)], ids=["l1", "l1_ball", "l1_in_ball"]
)
def test_mirror_methods_agree_with_a_conic_solver(make_joint, joint_optimum, loss, penalty):
    problem = make_joint(loss, penalty, weights=True)
    best = joint_optimum(problem)[0]
    for solver, tol in ((MirrorProx(), 5e-3), (MirrorDescent(), 0.1)):
        solution = sd.solve(problem, solver, tol=tol, max_epochs=400)
        assert solution.status is sd.Status.CONVERGED
        assert -1e-9 <= solution.certificate.primal - best <= tol * problem.scale + 1e-9
        gaps = solution.trace.column("gap")
        assert (np.diff(gaps) <= 1e-15).all()  # the best of each side is kept


@pytest.mark.parametrize("primal", ["1x1", "1x2"])
@pytest.mark.parametrize("dual", ["2x1", "2x2"])
def test_all_geometries(make_joint, joint_optimum, primal, dual):
    problem = make_joint(HINGE, L1)
    solution = sd.solve(problem, MirrorDescent(primal, dual), tol=0.1, max_epochs=300)
    best = joint_optimum(problem)[0]
    assert solution.certificate.relative_gap <= 0.15
    assert solution.certificate.dual <= best + 1e-9 <= solution.certificate.primal + 2e-9


def test_subgradients_come_near(make_joint, joint_optimum):
    """The objective is good; the certificate is not tight, but valid."""
    for loss, intercept in ((SOFTMAX, True), (HINGE, False)):
        problem = make_joint(loss, L1, "csr", intercept)
        solution = sd.solve(problem, Subgradient(reach=3.0), tol=0.0, max_epochs=200)
        best = joint_optimum(make_joint(loss, L1, "dense", intercept))[0]
        assert -1e-9 <= solution.certificate.primal - best <= 0.05 * problem.scale
        assert solution.certificate.dual <= best + 1e-9


def test_postponed_shrinking_is_exact(make_joint):
    """Shrinking a row of W when it is read next equals shrinking all of W after every step."""
    problem = make_joint(HINGE, L1, "csr")
    solver = Subgradient(reach=2.0)
    state = solver.init(problem, None, np.random.default_rng(3))
    solver.step(problem, state)
    X, Y = problem.matrix.values.toarray(), np.eye(problem.k)
    size = math.sqrt(2.0 * float(problem.s @ (X**2).sum(axis=1)))
    W, rng = np.zeros((problem.d, problem.k)), np.random.default_rng(3)
    draws = np.searchsorted(np.cumsum(problem.s)[:-1], rng.random(problem.n), side="right")
    for t, i in enumerate(draws):
        step = 2.0 / size / math.sqrt(t + 1.0)
        z, y = X[i] @ W, problem.codes[i]
        slope = np.eye(problem.k)[np.argmax(z + 1 - Y[y])] - Y[y]
        W -= step * np.outer(X[i], slope)
        W = np.sign(W) * np.maximum(np.abs(W) - step * problem.penalty.alpha, 0.0)
    assert np.allclose(state.W, W, atol=1e-13)


# --------------------------------------------------------------------------- the paper's problem


def test_adaptive_mirror_prox_on_the_papers_problem():
    problem = paper_problem(100)
    solution = sd.solve(problem, MirrorProx(radius=100.0), tol=1e-2, max_epochs=40)
    assert solution.status is sd.Status.CONVERGED
    assert solution.trace[-1].counts["iterations"] < 200
    found = sd.solve(problem, "mirror_prox", tol=1e-2)
    assert found.status is sd.Status.CONVERGED
    assert found.trace[-1].counts["radius"] < 100.0  # P(W) / alpha came down from 1000
    assert np.abs(found.w).sum() <= found.trace[-1].counts["radius"] * (1 + 1e-9)


def test_pdhg_on_the_papers_problem():
    solution = sd.solve(paper_problem(100), "auto", tol=1e-2)
    assert solution.status is sd.Status.CONVERGED
    loose = sd.solve(paper_problem(100, "logistic"), "pdhg", tol=5e-2)
    assert loose.status is sd.Status.CONVERGED


# --------------------------------------------------------------------------- manners

SOLVERS = [PDHG(), MirrorProx(), MirrorDescent(), MirrorDescent(step_size="theory"), Subgradient()]


@pytest.mark.parametrize("solver", SOLVERS, ids=["pdhg", "mirror_prox", "mirror_descent", "theory", "subgradient"])
def test_same_seed_same_trace_and_resume(make_joint, solver):
    problem = make_joint(HINGE, L1)

    def facts(trace):
        return [(record.primal, record.dual, record.nonzeros, dict(record.counts)) for record in trace]

    runs = [sd.solve(problem, solver, tol=0.0, max_epochs=6, random_state=5) for _ in range(2)]
    assert facts(runs[0].trace) == facts(runs[1].trace)
    half = sd.solve(problem, solver, tol=0.0, max_epochs=3, random_state=5)
    rest = sd.solve(problem, solver, tol=0.0, max_epochs=3, start=half.state)
    assert rest.certificate == runs[0].certificate
    assert np.array_equal(rest.w, runs[0].w)


@pytest.mark.parametrize("solver", ["pdhg", "subgradient"])
def test_start_from_a_solution(make_joint, solver):
    problem = make_joint(SOFTMAX, L1, intercept=True)
    first = sd.solve(problem, "pdhg", tol=1e-5)
    again = sd.solve(problem, solver, tol=1e-4, start=first, max_epochs=5)
    assert again.trace[0].primal == pytest.approx(first.certificate.primal, rel=1e-6)


def test_what_each_refuses(make_joint):
    intercept = make_joint(HINGE, L1, intercept=True)
    for name in ("mirror_prox", "mirror_descent"):
        with pytest.raises(sd.UnsupportedError, match="without intercept"):
            sd.solve(intercept, name)
    with pytest.raises(sd.UnsupportedError, match="an l1 penalty or an l1 ball"):
        sd.solve(make_joint(HINGE, sd.penalties.L2(0.7)), "mirror_prox")
    with pytest.raises(sd.UnsupportedError, match="linear problem"):
        sd.solve(intercept, "sdca")
    with pytest.raises(sd.UnsupportedError, match="multiclass problem"):
        sd.solve(sd.LinearProblem(np.eye(2), [1, -1], "hinge", L1), "mirror_prox")
    plain = make_joint(HINGE, L1)
    for solver in (
        MirrorDescent("2x2"),
        MirrorDescent(dual="1x1"),
        MirrorDescent(step_size="huge"),
        MirrorDescent(radius=-1.0),
        MirrorProx("tuned"),
    ):
        with pytest.raises(InputError):
            sd.solve(plain, solver)
    with pytest.raises(InputError, match="1x1"):
        sd.solve(make_joint(HINGE, sd.penalties.L1Ball(1.0)), MirrorDescent("1x2"))
    assert sd.solvers.available(plain)[0]
    assert {"pdhg", "mirror_prox", "mirror_descent", "subgradient"} <= set(sd.solvers.available(plain))


def test_radius_that_holds_the_optimum(make_joint):
    problem = make_joint(HINGE, L1)
    assert first_radius(problem, None) == pytest.approx(1.0 / problem.penalty.alpha)
    assert first_radius(problem, 3.0) == 3.0
    inside = SimpleNamespace(penalty=sd.penalties.L1InBall(0.5, radius=1.5), scale=1.0)
    assert first_radius(inside, None) == 1.5
    inside.scale = 0.5
    assert first_radius(inside, None) == 1.0
