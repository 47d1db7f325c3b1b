"""Sweeps of dual ascent, ascents on faces of the dual, and Newton steps by conjugate gradients: what each piece promises."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.matrix import Matrix
from saddlery.solvers import dual_epochs, sdca
from saddlery.solvers.active_sdca import DualSearch
from saddlery.solvers.auto import choose
from saddlery.solvers.balance import NONE, balance, common_part, offset_around
from saddlery.solvers.dual_face import ascend_on_face, climb
from saddlery.solvers.newton_cg import model_product
from saddlery.solvers.newton_search import balancing_shift, model_slopes
from saddlery.solvers.prox_newton import ProxNewton

MU = 0.002  # so weak that the peak lies between bounds
LOSSES = [sd.losses.Hinge(), sd.losses.SquaredHinge(), sd.losses.SmoothHinge(0.5)]

LISTENS = (lambda record: False,)  # to whom epochs are told one by one


def noisy(n, d, seed=0):
    """Dense data of two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] + rng.standard_normal(n) > 0.0, 1.0, -1.0)


def test_shuffle_gives_every_order_alike():
    rng, rows = np.random.default_rng(0), Matrix(np.zeros((4, 1))).rows
    seed, counts = dual_epochs.new_seed(rng), np.zeros((4, 4))
    for _ in range(4000):
        order = np.arange(4)
        dual_epochs.shuffle(rows, order, seed)
        counts[np.arange(4), order] += 1.0
    assert np.abs(counts / 1000.0 - 1.0).max() < 0.15


def test_large_data_are_visited_in_groups(monkeypatch):
    matrix = Matrix(sp.random_array((1003, 40), density=0.2, rng=1, format="csr"))
    assert np.count_nonzero(np.diff(dual_epochs.row_order(np.random.default_rng(0), matrix)) == 1) < 20
    monkeypatch.setattr(dual_epochs, "IN_CACHE", 0)
    order = dual_epochs.row_order(np.random.default_rng(0), matrix)
    assert np.array_equal(np.sort(order), np.arange(1003))
    assert np.count_nonzero(np.diff(order) == 1) > 800
    assert np.any(np.diff(order) < 0)


def test_gap_at_end_of_gaps_that_fall_evenly():
    """Means over epochs of exp(-3 t): what is expected is the value at the end."""
    loss = sd.losses.Hinge()
    mean = (1.0 - math.exp(-3.0)) / 3.0
    assert dual_epochs.gap_at_end(loss, mean * math.exp(-3.0), mean) == pytest.approx(math.exp(-6.0))
    assert dual_epochs.gap_at_end(loss, 2.0, 1.0) == 2.0


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_sdca_foresees_its_gap(loss):
    """Within a factor of ten once it converges, so that few certificates are enough."""
    X, y = noisy(300, 20)
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(0.5))
    solver, rng = sdca.SDCA(), np.random.default_rng(0)
    state = solver.init(problem, None, rng)
    for _ in range(3):
        solver.step(problem, state)
    gap = problem.certify(solver.point(problem, state).w, state.a).relative_gap
    assert gap / 10.0 < state.expected_gap < 10.0 * gap
    assert len(sd.solve(problem, "sdca", tol=1e-6).trace) <= 5


def test_dual_step_is_the_prox():
    """To a tenth of the move, whatever the strength is; to many digits towards the end."""
    loss = sd.losses.Logistic()
    cases = [(1.0, -0.3, 0.7, 2.0), (-1.0, 0.999, -3.0, 0.01), (1.0, 0.0, 30.0, 1.0), (1.0, -1.0, -5.0, 1e-4)]
    rng = np.random.default_rng(0)
    for _ in range(300):
        y = rng.choice([-1.0, 1.0])
        cases.append((y, -y * rng.random(), 3.0 * rng.standard_normal(), 10.0 ** rng.uniform(-8.0, 2.0)))
    for y, a, z, step in cases:
        best = loss.dual_prox(y, a + step * z, step)
        assert loss.dual_step(y, a, z, step) == pytest.approx(best, abs=0.1 * abs(best - a) + 1e-15)
        assert 0.0 <= -y * loss.dual_step(y, a, z, step) <= 1.0
        if step > 1e-4:
            near = best + 1e-4 * (a - best)
            again = loss.dual_step(y, near, z + (a - near) / step, step)
            assert again == pytest.approx(best, abs=1e-12 + 1e-4 * abs(near - best))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("kind", ["no intercept", "as they are", "centred"])
def test_ascent_on_a_face(loss, kind):
    """The dual rises, bounds and balance are kept, v and the intercept follow; without bounds in the way the slopes vanish."""
    X, y = noisy(60, 30)
    X = X + 0.5
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(MU))
    rng = np.random.default_rng(3)
    a = -y * np.where(rng.random(60) < 0.5, rng.uniform(0.3, 0.7, 60), 0.0)
    free, data, offset = a != 0.0, (problem.matrix, y, problem.s), NONE
    if kind != "no intercept":
        assert balance(loss, y, problem.s, a, float(problem.s @ a), np.empty(60))
        m = common_part(loss, *data, a) if kind == "centred" else None
        offset = offset_around(0.3, 0.0, 40.0, problem.matrix, m, -X.T @ (problem.s * a), MU)
    before, v = a.copy(), -X.T @ (problem.s * a)
    ascend_on_face(loss, *data, a, v, offset, MU)
    assert problem.dual(a) > problem.dual(before)
    assert np.array_equal(a[~free], before[~free])
    assert np.isfinite(loss.conjugate(y, a)).all()
    np.testing.assert_allclose(v, -X.T @ (problem.s * a), atol=1e-12)
    for _ in range(60):
        ascend_on_face(loss, *data, a, v, offset, MU)
    if kind != "no intercept":
        assert abs(problem.s @ a) < 1e-14
    inside = free & (np.abs(a) > 0.0) & ((np.abs(a) < 1.0) | isinstance(loss, sd.losses.SquaredHinge))
    slopes = X @ v / MU + offset.numbers[2] - offset.numbers[1] - y - loss.conjugate_bend * a
    assert np.count_nonzero(inside) >= 5
    assert np.abs(slopes[inside]).max() < 1e-3


def test_free_rows_stay_in_the_block():
    X, y = noisy(50, 5)
    problem = sd.LinearProblem(X, y, loss="hinge", penalty=sd.penalties.L2(0.1))
    search = DualSearch(problem, problem.penalty, 0.1, -y * np.where(np.arange(50) < 10, 0.5, 0.0))
    search.row_gap[:] = 0.0
    search.row_gap[20], search.gap = 1.0, 1.0
    assert np.array_equal(search.choose_rows(problem), [*range(10), 20])


@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("sparse", [False, True])
def test_product_of_a_model(sparse, free):
    X, _ = noisy(20, 7)
    chosen, p, out = np.array([1, 4, 19]), np.arange(7.0 + free), np.empty(7 + free)
    h = np.array([0.5, 2.0, 0.1])
    bend = model_product(Matrix(sp.csr_array(X) if sparse else X).rows, chosen, h, 0.3, p, out)
    with_ones = np.column_stack([X[chosen], np.ones((3, free))])
    expected = with_ones.T @ (h * (with_ones @ p)) + 0.3 * p * (np.arange(7 + free) < 7)
    np.testing.assert_allclose(out, expected)
    assert bend == pytest.approx(p @ expected)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_newton_cg_where_others_have_no_room(loss, sparse, intercept):
    """Weak l2, weighted rows: certified, and by few passes."""
    X, y = noisy(400, 60)
    X = X + 1.0 if intercept else X
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 400)
    penalty = sd.penalties.L2(1e-4)
    data = sp.csr_array(X) if sparse else X
    problem = sd.LinearProblem(data, y, loss=loss, penalty=penalty, sample_weight=weights, fit_intercept=intercept)
    solution = sd.solve(problem, "newton_cg", tol=1e-9)
    assert solution.status is sd.Status.CONVERGED
    assert solution.passes < 300


def test_auto_takes_newton_cg_where_gram_matrices_are_dear():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 1000)), np.where(rng.random(3000) < 0.5, 1.0, -1.0)

    def chosen(loss, X=X, **options):
        return choose(sd.LinearProblem(X, y[: len(X)], loss=loss, penalty=sd.penalties.L2(1e-4), **options))

    assert chosen("logistic") == "newton_cg"
    assert chosen("squared_hinge") == "newton_cg"
    assert chosen("squared_hinge", X[:2200]) == "active_sdca"
    assert chosen("logistic", fit_intercept=True) == "newton_cg"
    assert chosen("logistic", X[:, :100]) == chosen("squared_hinge", X[:, :100], fit_intercept=True) == "lbfgs"
    assert chosen("logistic", X[:600], fit_intercept=True) == "newton_cg"  # wide and dense, where dual ascent crawls


def test_auto_takes_dual_sweeps_where_l2_is_strong_and_newton_for_wide_regression():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 70)) / 8.0, np.where(rng.random(600) < 0.5, 1.0, -1.0)

    def chosen(loss, X=X, alpha=10.0, **options):
        return choose(sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(alpha), **options))

    assert chosen("squared_hinge") == "sdca"
    assert chosen("squared_hinge", alpha=1e-4) == chosen("squared_hinge", fit_intercept=True) == "lbfgs"
    wide = rng.standard_normal((600, 1200))
    assert chosen("squared", wide, 1e-3) == chosen("huber", wide, 1e-3, fit_intercept=True) == "sdca"
    shared = rng.standard_normal((600, 5)) @ rng.standard_normal((5, 1200))  # rows are in each other's way
    assert chosen("squared", shared, 1e-3) == chosen("squared", shared, 1e-3, fit_intercept=True) == "prox_newton"
    words = sp.random_array((600, 1200), density=0.01, format="csr", rng=rng)
    for loss in ("squared", "huber", "logistic", "smooth_hinge"):
        assert chosen(loss, words, 1.0, fit_intercept=True) == "sdca"
    assert chosen("hinge", words, 1.0, fit_intercept=True) == "active_sdca"
    assert chosen("squared_hinge", wide, 1e-3) == "sdca"
    assert chosen("logistic", wide, 1e-3) == chosen("logistic", wide, 1e-4) == "sdca"
    assert chosen("hinge", wide, 1e-3) == "sdca"
    assert chosen("hinge", wide, 1e-5) == "active_sdca"


def test_newton_starts_from_an_epoch_of_dual_ascent():
    X, y = noisy(500, 20)
    problem = sd.LinearProblem(X, y, loss="squared_hinge", penalty=sd.penalties.L2(0.1))
    solver = ProxNewton()
    state = solver.init(problem, None, np.random.default_rng(0))
    assert state.w.any()
    assert state.floor == 0.0  # rows beyond the kink are not read
    with_intercept = sd.LinearProblem(X, y, loss="squared_hinge", penalty=sd.penalties.L2(0.1), fit_intercept=True)
    state = solver.init(with_intercept, None, np.random.default_rng(0))
    assert state.w.any()
    assert abs(state.r.sum()) <= 1e-12  # the intercept is the best one for these weights


def rare_words(n=300, d=4000, seed=0):
    """Sparse rows over few of many columns."""
    rng = np.random.default_rng(seed)
    X = sp.lil_array((n, d))
    X[:, rng.permutation(d)[:500]] = sp.random_array((n, 500), density=0.04, rng=rng)
    X = sp.csr_array(X)
    return X, np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smooth_hinge", "squared", "huber"])
@pytest.mark.parametrize("penalty", [sd.penalties.L2(0.02), sd.penalties.ElasticNet(0.02, 0.5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_dual_ascent_finds_a_free_intercept(loss, penalty, weighted):
    """The one that Newton's method finds, with a dual point that balances."""
    X, y = rare_words(d=1000)
    y[: len(y) // 2] = 1.0
    s = np.random.default_rng(1).random(len(y)) if weighted else None
    problem = sd.LinearProblem(abs(X), y, loss=loss, penalty=penalty, sample_weight=s, fit_intercept=True)
    solution, other = (sd.solve(problem, solver, tol=1e-9) for solver in ("sdca", "prox_newton"))
    assert solution.certificate.relative_gap <= 1e-9
    assert abs(problem.s @ solution.dual) <= 1e-14
    np.testing.assert_allclose(solution.w, other.w, atol=2e-3)
    assert solution.b == pytest.approx(other.b, abs=2e-3)
    again = sd.solve(problem, "sdca", tol=1e-9, start=solution)
    assert again.epochs == 0


def test_the_intercept_is_pulled_harder_where_weights_can_do_its_work(monkeypatch):
    """Indicators of which each row has half: any constant is nearly a sum of weights, and b is hardly felt."""
    rng = np.random.default_rng(2)
    X = 1.0 * (rng.random((1000, 80)) < 0.5)
    y = np.where(X @ rng.standard_normal(80) + rng.standard_normal(1000) > 2.0, 1.0, -1.0)
    problem = sd.LinearProblem(X, y, loss="logistic", penalty=sd.penalties.L2(0.04), fit_intercept=True)
    epochs = sd.solve(problem, "sdca", tol=1e-7).epochs
    monkeypatch.setattr(sdca, "GROWS", 1.0)
    assert 2 * epochs < sd.solve(problem, "sdca", tol=1e-7).epochs


@pytest.mark.parametrize("loss", ["squared_hinge", "smooth_hinge", "huber", "logistic"])
def test_slopes_of_a_model_balance_after_they_are_moved(loss):
    """Into the domain of l*, which most of these leave."""
    rng = np.random.default_rng(3)
    n = 200
    problem = sd.LinearProblem(np.ones((n, 1)), np.where(rng.random(n) < 0.3, 1.0, -1.0), loss, sd.penalties.L2(1.0))
    a, h, along = problem.slopes(rng.standard_normal(n)), problem.s * (0.1 + rng.random(n)), 2.0 * rng.standard_normal(n)
    parts = (problem.loss, problem.y, problem.s, a, h, along)
    out, weighted = np.empty(n), np.empty(n)
    model_slopes(*parts, 0.7, out, weighted)
    assert abs(weighted.sum()) > 1e-3
    model_slopes(*parts, balancing_shift(*parts, 0.7), out, weighted)
    assert abs(weighted.sum()) <= 1e-14


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_last_leg_is_a_part_of_an_epoch(monkeypatch, loss):
    """It is taken where the gap is expected close to the tolerance, saves reading, and is certified like all else."""
    X, y = rare_words()
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(0.03))

    def passes():
        solutions = [sd.solve(problem, "sdca", tol=tol, callbacks=LISTENS) for tol in np.logspace(-3.0, -8.0, 11)]
        assert all(solution.status is sd.solvers.base.Status.CONVERGED for solution in solutions)
        return sum(solution.passes for solution in solutions)

    with_legs = passes()
    monkeypatch.setattr(sdca, "REACH", 0.0)
    assert with_legs < passes()


def test_last_leg_only_near_the_tolerance():
    X, y = rare_words()
    problem = sd.LinearProblem(X, y, loss="logistic", penalty=sd.penalties.L2(0.01))
    state = sdca.SDCA().init(problem, None, np.random.default_rng(0))
    cases = [(2e-6, 1e-5, True), (2e-6, 3e-6, False), (1e-5, 1e-4, False), (5e-7, 1e-5, False), (math.inf, math.inf, False)]
    for expected, met, wanted in cases:
        state.tol, state.expected_gap, state.met = 1e-6, expected, met
        assert state.has_last_leg(1.0) is wanted


@pytest.mark.parametrize("solver", ["sdca", "active_sdca"])
def test_zero_is_not_certified_before_the_first_epoch(solver):
    """But with no epoch to come, or where the start is another point, or somebody listens."""
    X, y = rare_words()
    problem = sd.LinearProblem(X, y, loss="squared_hinge", penalty=sd.penalties.L2(0.01))
    first = sd.solve(problem, solver, tol=1e-6)
    assert first.trace[0].epoch > 0
    assert [record.epoch for record in sd.solve(problem, solver, max_epochs=0).trace] == [0]
    assert sd.solve(problem, solver, tol=1e-6, start=first).epochs == 0
    assert sd.solve(problem, solver, tol=1e-6, callbacks=[lambda record: False]).trace[0].epoch == 0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_climb_ends_at_its_goal(loss):
    """With a goal the gap of the face is below it in the end, by no more ascents than it takes to have the peak."""
    X, y = rare_words()
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(1.0 / len(y)))
    search = DualSearch(problem, problem.penalty, 1.0 / len(y), np.zeros(problem.n))
    rng = np.random.default_rng(0)
    for _ in range(4):
        search.sweep(problem, rng, 0.0, 10, 0.01)
        search.search(problem)
    args = (problem.loss, problem.matrix, y, problem.s, search.a, search.v, NONE, search.mu)
    goal = 1e-9
    climb(*args, goal)
    assert ascend_on_face(*args, goal)[2] is False
    search.search(problem)
    free = (np.abs(search.a) > 0.0) & ((np.abs(search.a) < 1.0) | (loss == "squared_hinge"))
    assert np.count_nonzero(free) > 5
    assert problem.s[free] @ search.row_gap[free] <= goal * (1.0 + 1e-6)
    np.testing.assert_allclose(search.v, -X.T @ (problem.s * search.a), atol=1e-12)


def test_block_of_all_columns_keeps_v():
    X, y = rare_words()
    problem = sd.LinearProblem(X, y, loss="hinge", penalty=sd.penalties.L2(0.01))
    search = DualSearch(problem, problem.penalty, 0.01, np.zeros(problem.n))
    assert search.choose_columns(0.0) is None
    for _ in range(3):
        search.sweep(problem, np.random.default_rng(0), 0.0, 5, 0.0)
        search.search(problem)
        np.testing.assert_allclose(search.v, -X.T @ (problem.s * search.a), atol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_rows_in_single_precision_end_in_double(monkeypatch, loss, fit_intercept):
    """Dense data larger than a cache: most epochs read rounded rows, and gaps below their reach are certified too."""
    if fit_intercept and loss == "hinge":
        pytest.skip("sdca takes an intercept with smooth losses")
    X, y = noisy(60, 80)
    problem = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(0.05), fit_intercept=fit_intercept)
    double = sd.solve(problem, "sdca", tol=1e-12, max_epochs=5000, callbacks=LISTENS)
    monkeypatch.setattr(sdca, "IN_CACHE", 0)
    assert "single_rows" not in vars(problem.matrix)
    single = sd.solve(problem, "sdca", tol=1e-12, max_epochs=5000, callbacks=LISTENS)
    assert "single_rows" in vars(problem.matrix)
    assert single.certificate.relative_gap <= 1e-12
    np.testing.assert_allclose(single.w, double.w, atol=1e-5)
    coarse = sd.solve(problem, "sdca", tol=1e-4, callbacks=LISTENS)
    value = problem.primal(coarse.w, coarse.b) - problem.dual_point(coarse.dual).value
    assert coarse.certificate.gap == pytest.approx(value, rel=1e-6)  # of the data as they are


def test_rows_that_single_precision_would_lose_are_read_in_double(monkeypatch):
    X, y = noisy(60, 80)
    monkeypatch.setattr(sdca, "IN_CACHE", 0)
    for solver, sizes in (("sdca", (1e-40, 1e30)), ("lbfgs", (1e-40, 1e-17, 1e17, 1e30))):
        for size in sizes:
            problem = sd.LinearProblem(size * X, y, loss="squared_hinge", penalty=sd.penalties.L2(0.05 * size * size))
            assert sd.solve(problem, solver, tol=1e-6, callbacks=LISTENS).certificate.relative_gap <= 1e-6
            assert "single_rows" not in vars(problem.matrix)


@pytest.mark.parametrize("penalty", [sd.penalties.L2(0.01), sd.penalties.ElasticNet(0.02, 0.5)])
@pytest.mark.parametrize("loss", LOSSES)
def test_longer_steps_never_let_the_dual_fall(loss, penalty):
    X, y = noisy(80, 40)
    problem = sd.LinearProblem(X, y, loss=loss, penalty=penalty)
    solver, values = sdca.SDCA(), []
    state = solver.init(problem, None, np.random.default_rng(0))
    assert np.allclose(state.steps, dual_epochs.LONGER * penalty.strong_convexity / (problem.s * problem.matrix.row_square_norms))
    for _ in range(30):
        solver.step(problem, state)
        values.append(problem.dual_point(state.a).value)
    assert np.all(np.diff(values) > -1e-14)


def test_overlap_of_rows():
    rng = np.random.default_rng(0)
    assert Matrix(rng.standard_normal((2000, 1000))).overlap == pytest.approx(2.0, rel=0.2)
    shared = rng.standard_normal((500, 5)) @ rng.standard_normal((5, 2000))
    assert Matrix(shared).overlap == pytest.approx(500 / 5, rel=0.3)
    assert Matrix(np.eye(100)).overlap == 0.0
    assert Matrix(np.ones((1, 3))).overlap == 0.0
    assert Matrix(np.zeros((4, 3))).overlap == 0.0


@pytest.mark.parametrize(
    ("loss", "shape", "factors", "solver"),
    [
        ("logistic", (600, 1200), 0, "sdca"),
        ("squared_hinge", (600, 1200), 0, "sdca"),
        ("squared_hinge", (600, 1200), 5, "active_sdca"),
        ("logistic", (600, 1200), 5, "newton_cg"),
        ("squared_hinge", (600, 600), 0, "sdca"),
        ("squared_hinge", (400, 250), 0, "sdca"),
        ("logistic", (400, 250), 0, "newton_cg"),
        ("logistic", (300, 1200), 0, "sdca"),
        ("hinge", (300, 1200), 0, "sdca"),
        ("logistic", (300, 1200), 5, "row_space"),
        ("logistic", (1000, 400), 3, "lbfgs"),
    ],
)
def test_choice_for_wide_dense_data(loss, shape, factors, solver):
    """Whether rows are in each other's way decides."""
    rng, (n, d) = np.random.default_rng(0), shape
    X = rng.standard_normal((n, d)) if factors == 0 else rng.standard_normal((n, factors)) @ rng.standard_normal((factors, d))
    y = np.where(rng.standard_normal(n) > 0.0, 1.0, -1.0)
    assert choose(sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L2(0.1 / n))) == solver
