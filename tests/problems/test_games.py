"""Games: values and certificates against linear programs and a conic solver, estimates against the gradients they stand for."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import saddlery as sd
from saddlery.geometry import Ball, Box, CappedSimplex, ProductOfSimplices, Simplex, Space
from saddlery.matrix import as_matrix
from saddlery.problems.couplings import Coupling
from saddlery.problems.games import Snapshot


def game_value(K):
    """The value of a zero-sum game: min t with K x <= t."""
    n, m = K.shape
    result = linprog(
        [*np.zeros(m), 1.0],
        A_ub=np.column_stack([K, -np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=[[*np.ones(m), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    return result.fun


def matrix_of(rng, n, m, kind="dense"):
    K = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.6)
    return sp.csr_matrix(K) if kind == "sparse" else K


@pytest.mark.parametrize(("n", "m"), [(2, 2), (4, 9), (15, 10), (1, 5), (6, 1)])
@pytest.mark.parametrize("geometry", ["entropy", "euclidean"])
def test_zero_sum_games_against_a_linear_program(n, m, geometry):
    K = matrix_of(np.random.default_rng(n + m), n, m) + 0.5
    game = sd.Game(K, Simplex(m, geometry=geometry), Simplex(n, geometry=geometry))
    solution = sd.solve(game, tol=1e-5, max_epochs=3000)
    assert solution.status is sd.Status.CONVERGED
    value = game_value(K)
    assert solution.certificate.dual - 1e-9 <= value <= solution.certificate.primal + 1e-9


PAIRS = {
    "entropies": lambda m, n: (Simplex(m, entropy=0.05), Simplex(n, entropy=0.1)),
    "caps": lambda m, n: (CappedSimplex(m, 0.3, entropy=0.05), CappedSimplex(n, 0.25, entropy=0.02)),
    "products": lambda m, n: (ProductOfSimplices([2, m - 2], entropy=0.1), Simplex(n, entropy=0.1)),
    "ball and box": lambda m, n: (Ball(m, 0.8, l2=0.3), Box(-1.0, 0.5, n, l2=0.2)),
    "space and simplex": lambda m, n: (Space(m, l2=0.5), Simplex(n)),
}


@pytest.mark.parametrize("matrix", ["dense", "sparse"])
@pytest.mark.parametrize("name", PAIRS)
def test_optimum_against_a_conic_solver(name, matrix):
    """Both values of a certified pair once more, with the best responses of a conic solver: their gap leaves no room elsewhere."""
    rng = np.random.default_rng(3)
    n, m = 8, 6
    K, c, e = matrix_of(rng, n, m, matrix), rng.standard_normal(m), rng.standard_normal(n)
    players = PAIRS[name](m, n)
    game = sd.Game(K, *players, c=c, e=e)
    solution = sd.solve(game, tol=1e-8, max_epochs=3000)
    assert solution.status is sd.Status.CONVERGED
    dense = K.toarray() if sp.issparse(K) else K
    best_x = -conic_support(players[0], -(dense.T @ solution.dual + c))
    best_y = conic_support(players[1], dense @ solution.w + e)
    assert c @ solution.w + players[0].value(solution.w) + best_y == pytest.approx(solution.certificate.primal, abs=1e-6)
    assert e @ solution.dual - players[1].value(solution.dual) + best_x == pytest.approx(solution.certificate.dual, abs=1e-6)


def conic_support(player, gradient):
    """max_x <gradient, x> - R(x) by a conic solver, whose point is brought into the set."""
    x = cp.Variable(gradient.size)
    value, limits = conic_value(player, x)
    cp.Problem(cp.Maximize(gradient @ x - value), limits).solve(solver="CLARABEL")
    point = player.project(x.value)
    return gradient @ point - player.value(point)


def conic_value(player, x):
    """A regulariser and the constraints of its set, for cvxpy."""
    value = 0.5 * getattr(player, "l2", 0.0) * cp.sum_squares(x)
    if hasattr(player, "blocks"):
        value = value - player.entropy * cp.sum(cp.entr(x)) if player.entropy > 0.0 else value
        starts = player.blocks.starts
        limits = [x >= 0, *(cp.sum(x[a:b]) == 1 for a, b in itertools.pairwise(starts))]
        return value, limits + ([x <= player.blocks.caps] if player.blocks.caps.size else [])
    if isinstance(player, Ball):
        return value, [cp.norm(x, 2) <= player.radius]
    return value, [x >= player.lower, x <= player.upper] if isinstance(player, Box) else []


@pytest.mark.parametrize("name", PAIRS)
def test_weak_duality_everywhere(name):
    rng = np.random.default_rng(4)
    game = sd.Game(matrix_of(rng, 8, 6), *PAIRS[name](6, 8), c=rng.standard_normal(6))
    for _ in range(20):
        x, y = game.players[0].project(rng.standard_normal(6)), game.players[1].project(rng.standard_normal(8))
        cert = sd.certify(game, x, y)
        assert math.isfinite(cert.gap)
        assert cert.gap >= 0.0
        assert sd.certify(game, x).primal == cert.primal  # the best response stands in for y
        value = y @ game.coupling.times(x) + game.c @ x + game.players[0].value(x) - game.players[1].value(y)
        assert cert.dual - 1e-12 <= value <= cert.primal + 1e-12


def dense_of(coupling):
    """K entry by entry, from its definition."""
    M = coupling.matrix.values
    H = (M.toarray() if sp.issparse(M) else M) * (1.0 if coupling.scales is None else coupling.scales)
    H = H + (0.0 if coupling.offsets is None else coupling.offsets)
    H = np.hstack([H, -H]) if coupling.complements else H
    return H if coupling.signs is None else coupling.signs[:, None] * H


@pytest.mark.parametrize("matrix", ["dense", "sparse"])
@pytest.mark.parametrize("complements", [False, True])
@pytest.mark.parametrize("extras", [{}, {"signs": 1}, {"signs": 1, "scales": 1, "offsets": 1}])
def test_couplings(matrix, complements, extras):
    """Products, rows, columns, entries and norms of a coupling are those of the matrix that it stands for."""
    rng = np.random.default_rng(8)
    sizes = {"signs": 5, "scales": 4, "offsets": 4}
    chosen = {key: np.sign(v) if key == "signs" else v for key in extras for v in [rng.standard_normal(sizes[key])]}
    coupling = Coupling(as_matrix(matrix_of(rng, 5, 4, matrix)), complements=complements, **chosen)
    K = dense_of(coupling)
    assert coupling.shape == K.shape
    x, y = rng.standard_normal(K.shape[1]), rng.standard_normal(5)
    assert coupling.times(x) == pytest.approx(K @ x, abs=1e-13)
    assert coupling.transposed(y) == pytest.approx(K.T @ y, abs=1e-13)
    assert coupling.row_norms == pytest.approx(np.linalg.norm(K, axis=1), abs=1e-7)
    assert coupling.col_norms == pytest.approx(np.linalg.norm(K, axis=0), abs=1e-7)
    for i, j in itertools.product(range(5), range(K.shape[1])):
        assert coupling.entry(i, j) == pytest.approx(K[i, j], abs=1e-15)
        row, column = np.ones(K.shape[1]), np.ones(5)
        coupling.add_row(i, 2.0, row)
        coupling.add_column(j, 3.0, column)
        assert row == pytest.approx(1.0 + 2.0 * K[i], abs=1e-13)
        assert column == pytest.approx(1.0 + 3.0 * K[:, j], abs=1e-13)


@pytest.mark.parametrize("scheme", ["independent", "entries"])
@pytest.mark.parametrize("probabilities", ["uniform", "norms"])
def test_estimates_are_unbiased(scheme, probabilities):
    """Their mean over all draws, weighted by the probabilities, is the gradient."""
    rng = np.random.default_rng(9)
    problem = sd.BoostingProblem(rng.standard_normal((5, 3)), np.sign(rng.standard_normal(5)), nu=1.0)
    sampling = problem.sampling(scheme, probabilities)
    n, m = problem.coupling.shape
    x, y, x0, y0 = rng.random(m), rng.random(n), rng.random(m), rng.random(n)
    snapshot = Snapshot(x0, y0, *problem.gradients(x0, y0))
    means = [np.zeros(m), np.zeros(n)]
    for i, j in itertools.product(range(n), range(m)):
        estimates = sampling.gradients((np.array([i]), np.array([j])), 0, x, y, snapshot)
        assert sampling.gradient_y((np.array([i]), np.array([j])), 0, x, y, snapshot) == pytest.approx(estimates[1])
        means = [mean + sampling.p[i] * sampling.q[j] * estimate for mean, estimate in zip(means, estimates, strict=True)]
    for mean, gradient in zip(means, problem.gradients(x, y), strict=True):
        assert mean == pytest.approx(gradient, abs=1e-13)
    draws = sampling.draw(np.random.default_rng(0), 1000)
    assert [len(d) for d in draws] == [1000, 1000]
    assert draws[0].max() < n
    assert draws[1].max() < m


@pytest.mark.parametrize(("nu", "capped"), [(0.034, 20), (0.05, 8), (0.5, 0)])
def test_boosting_with_active_caps(nu, capped):
    """The optimum agrees with a conic solver where no, some and nearly all rows are at their cap."""
    rng = np.random.default_rng(11)
    H, y = np.sign(rng.standard_normal((30, 6))), np.sign(rng.standard_normal(30))
    problem = sd.BoostingProblem(H, y, nu=nu, row_entropy=0.002, weight_entropy=0.03)
    solution = sd.solve(problem, tol=1e-9, max_epochs=5000)
    U = y[:, None] * np.hstack([H, -H])
    d = cp.Variable(30)
    objective = 0.03 * cp.log_sum_exp(U.T @ d / 0.03) - 0.002 * cp.sum(cp.entr(d))
    conic = cp.Problem(cp.Minimize(objective), [cp.sum(d) == 1, d <= nu]).solve(solver="CLARABEL")
    assert -solution.certificate.primal == pytest.approx(conic, abs=1e-8)
    assert (solution.dual >= nu * (1.0 - 1e-9)).sum() >= capped
    assert solution.dual.max() <= nu * (1.0 + 1e-12)


def test_the_smallest_cap_leaves_no_choice():
    H, y = np.sign(np.random.default_rng(12).standard_normal((10, 3))), np.tile([1.0, -1.0], 5)
    solution = sd.solve(sd.BoostingProblem(H, y, nu=0.1), tol=1e-9)
    assert solution.dual == pytest.approx(np.full(10, 0.1), abs=1e-12)
    with pytest.raises(sd.InputError, match=r"nu=0\.1 or more"):
        sd.BoostingProblem(H, y, nu=0.099)


def test_weights_are_repetitions():
    rng = np.random.default_rng(13)
    H, y, weights = rng.standard_normal((12, 4)), np.sign(rng.standard_normal(12)), rng.integers(1, 4, 12)
    once = sd.BoostingProblem(H, y, nu=0.08, sample_weight=weights)
    often = sd.BoostingProblem(np.repeat(H, weights, axis=0), np.repeat(y, weights), nu=0.08)
    one, other = (sd.solve(problem, tol=1e-10, max_epochs=5000) for problem in (once, often))
    assert one.certificate.primal == pytest.approx(other.certificate.primal, abs=1e-9)
    spread = np.add.reduceat(other.dual, np.concatenate([[0], np.cumsum(weights)[:-1]]))
    assert one.dual == pytest.approx(spread, abs=1e-5)


def test_scores_and_net_weights():
    rng = np.random.default_rng(14)
    H, y = rng.standard_normal((6, 3)), np.sign(rng.standard_normal(6))
    problem = sd.BoostingProblem(H, y, nu=1.0)
    w = rng.random(6)
    assert problem.scores(w) == pytest.approx(H @ (w[:3] - w[3:]), abs=1e-14)
    assert problem.net_weights(w) == pytest.approx(w[:3] - w[3:])
    assert (problem.n, problem.size) == (6, 18)


def test_games_of_value_zero():
    """max(|P|, |D|) is no unit where both vanish: a thousandth of the largest payoff takes its place."""
    assert sd.certify(sd.Game(np.zeros((3, 2))), [0.5, 0.5], [1.0, 0.0, 0.0]).relative_gap == 0.0
    fair = np.array([[0.0, -1.0, 2.0], [1.0, 0.0, -2.0], [-2.0, 2.0, 0.0]])
    game = sd.Game(fair)
    solution = sd.solve(game, tol=1e-6)
    assert solution.status is sd.Status.CONVERGED
    assert solution.certificate.scale == game.least_scale == 2e-3
    assert solution.certificate.gap <= 2e-9
    assert sd.Game(fair, Ball(3), Simplex(3)).least_scale == 0.0


def test_what_makes_no_game():
    K = np.eye(3)
    for make, words in [
        (lambda: sd.Game(K, Simplex(2)), "minimiser has 2 coordinates, but K has 3 columns"),
        (lambda: sd.Game(K, None, Simplex), "maximiser must be a player"),
        (lambda: sd.Game(K, c=[1.0]), "c needs 3 finite numbers"),
        (lambda: sd.Game(K).certify([1.0, 2.0]), "w needs 3 finite numbers"),
        (lambda: sd.Game(K).certify([1.0, 0.0, 0.0], b=1.0), "no intercept"),
        (lambda: sd.Game(K).sampling("rows", "uniform"), "scheme must be one of"),
        (lambda: sd.Game(K).sampling("entries", "some"), "probabilities must be"),
        (lambda: sd.BoostingProblem(K, [1, 2, 1], nu=1.0), "that of row 1 is 2"),
        (lambda: sd.BoostingProblem(K, [1, 1], nu=1.0), "one label for each"),
        (lambda: sd.BoostingProblem(K, [1, 1, -1], nu=1.0, sample_weight=[1.0, 0.0, 1.0]), "must be positive"),
        (lambda: sd.BoostingProblem(K, [1, 1, -1], nu=1.0, sample_weight=[1.0]), "one weight for each"),
        (lambda: sd.BoostingProblem(K, [1, 1, -1], nu="x"), "nu must be a positive number"),
        (lambda: sd.BoostingProblem(K, [1, 1, -1], nu=-1.0), "nu must be a positive number"),
    ]:
        with pytest.raises(sd.InputError, match=words):
            make()
