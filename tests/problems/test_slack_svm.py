"""The SVM as a game: both forms against a conic solver, weak duality, weights as repetitions, translations, edges."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC, LinearSVC, NuSVC

import saddlery as sd
from saddlery.errors import InputError
from saddlery.problems.slack_svm import SlackSVMProblem
from saddlery.problems.svm_translations import C_from_alpha, alpha_from_C, alpha_of_game, slacks_of_svm
from saddlery.problems.tails import best_level, fill, lower_tail, shift_to_mass, tail_weights, top_sum, water_level

FORMS = [("capped", np.inf), ("budget", np.inf), ("budget", 2.0)]


def conic(problem):
    """Value, w, b and p of the game, written down for a conic solver."""
    Z, y, s, n = problem.y[:, None] * problem.matrix.values, problem.y, problem.s, problem.n
    w, b, g, u = cp.Variable(problem.d), cp.Variable(), cp.Variable(), cp.Variable(n, nonneg=True)
    present = s > 0.0
    margins = (Z @ w + (cp.multiply(y, b) if problem.fit_intercept else 0.0))[present]
    covered = margins + u[present] >= g
    constraints = [cp.norm(w) <= 1.0, covered]
    if problem.form == "capped":
        objective = g - s @ u / problem.slack
    else:
        objective = g
        constraints.append(s @ u <= problem.slack)
        if np.isfinite(problem.cap):
            constraints += [u <= problem.cap, cp.abs(b) <= problem.cap / 2]
    game = cp.Problem(cp.Maximize(objective), constraints)
    game.solve(solver=cp.CLARABEL)
    p = np.zeros(n)
    p[present] = covered.dual_value
    return game.value, w.value, (float(b.value) if problem.fit_intercept else 0.0), p


def data(seed, weighted=False, n=24, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if seed % 3 == 2:
        X = np.round(X)  # ties
    y = np.sign(X @ rng.standard_normal(d) + 0.6 * rng.standard_normal(n) + 0.1)
    y[y == 0.0] = 1.0
    y[:2] = 1.0, -1.0
    weights = np.append([1.0, 1.0], rng.integers(0, 4, n - 2)) if weighted else None
    return X, y, weights


def make(seed, form, cap, intercept, weighted, share):
    """`share` of the largest slack that makes sense: of `most_slack`, or of 1 for budgets."""
    X, y, weights = data(seed, weighted)
    most = SlackSVMProblem(X, y, 1e-9, fit_intercept=intercept, sample_weight=weights).most_slack if form == "capped" else 1.0
    return SlackSVMProblem(X, y, share * most, form, intercept, weights, cap)


CASES = [
    (seed, *FORMS[seed % 3], bool(seed // 3 % 2), bool(seed // 6 % 2), share)
    for seed, share in enumerate([0.0, 0.3, 0.6, 1.0, 0.2, 0.05, 0.5, 0.0, 1.0, 0.7, 0.4, 0.1])
    if not (seed % 3 == 0 and share == 0.0)
]


@pytest.mark.parametrize(("seed", "form", "cap", "intercept", "weighted", "share"), CASES)
def test_certificates_at_the_conic_solution_and_anywhere(seed, form, cap, intercept, weighted, share):
    """Primal and dual meet the conic optimum at its points, and never cross it elsewhere."""
    problem = make(seed, form, cap, intercept, weighted, share)
    value, w, b, p = conic(problem)
    a = -problem.y * np.divide(p, problem.s, out=np.zeros(problem.n), where=problem.s > 0.0)
    at = sd.certify(problem, w, a, b)
    assert -at.primal == pytest.approx(value, abs=1e-6)
    assert -at.dual == pytest.approx(value, abs=1e-6)
    assert problem.certify(w, a, None).primal <= at.primal + 1e-9
    rng = np.random.default_rng(seed)
    for _ in range(20):
        v, dual = rng.standard_normal(problem.d), rng.standard_normal(problem.n)
        other = sd.certify(problem, v, dual, rng.standard_normal() if intercept else 0.0)
        assert other.dual - 1e-7 <= -value <= other.primal + 1e-7
        assert other.gap >= 0.0
        best = problem.complete(problem.as_point(v, None, None))
        primal, answer = problem.evaluate(best)  # the opponent's own answer
        assert answer.value - 1e-7 <= -value <= primal + 1e-7
        for b in rng.standard_normal(5) if intercept else ():
            assert problem.value(best.Xw, np.clip(b, -0.5 * cap, 0.5 * cap)) <= -primal + 1e-9


@pytest.mark.parametrize(("form", "cap"), FORMS)
@pytest.mark.parametrize("intercept", [False, True])
def test_weights_are_repetitions(form, cap, intercept):
    X, y, weights = data(4, weighted=True)
    often = weights.astype(int)
    once = SlackSVMProblem(X, y, 0.3, form, intercept, weights, cap)
    many = SlackSVMProblem(np.repeat(X, often, axis=0), np.repeat(y, often), 0.3, form, intercept, None, cap)
    rng = np.random.default_rng(0)
    for _ in range(10):
        w, a = rng.standard_normal(4), -y * rng.random(len(y)) ** 3
        first, second = sd.certify(once, w, a, 0.0), sd.certify(many, w, np.repeat(a, often), 0.0)
        assert first.primal == pytest.approx(second.primal, abs=1e-12)
        assert first.dual == pytest.approx(second.dual, abs=1e-12)
        assert once.best_b(X @ w) == pytest.approx(many.best_b(np.repeat(X, often, axis=0) @ w), abs=1e-9)


def test_exact_solutions_by_default():
    """`auto` solves both forms to 1e-6, certified, also where the budget leaves w inside of the ball."""
    for seed, form, intercept, slack in [
        (1, "capped", False, 0.6),
        (4, "capped", True, 0.7),
        (5, "budget", True, 0.3),
        (7, "budget", False, 0.05),
    ]:
        X, y, weights = data(seed, weighted=seed == 4, n=40)
        problem = SlackSVMProblem(X, y, slack, form, intercept, weights)
        solution = sd.solve(problem, tol=1e-6, max_epochs=60)
        assert solution.solver == "slack_exact"
        assert solution.status is sd.Status.CONVERGED
        value = conic(problem)[0]
        assert -solution.certificate.primal == pytest.approx(value, rel=2e-6)
        assert np.linalg.norm(solution.w) <= 1.0 + 1e-12
        again = sd.certify(problem, solution.w, solution.dual, solution.b)
        assert again.relative_gap <= 1.01e-6


def test_value_zero_ends_and_says_so():
    """Classes on top of each other: no direction has a positive value, and no relative gap can be met."""
    X, y, _ = data(3)
    problem = SlackSVMProblem(np.vstack([X, X]), np.concatenate([y, -y]), 0.4)
    solution = sd.solve(problem, tol=1e-6, max_epochs=60)
    assert solution.status is sd.Status.ZERO_VALUE
    assert solution.certificate.primal == pytest.approx(0.0, abs=1e-12)
    assert -1e-5 < solution.certificate.dual <= 0.0
    zero = sd.certify(problem, np.zeros(4), -problem.y)
    assert zero.primal == 0.0
    assert zero.dual == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(zero.relative_gap)


# --------------------------------------------------------------------------- translations


def overlapping(n=120, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return rng.standard_normal((n, d)) + 0.8 * y[:, None] * np.append([1.0, -0.5, 0.3], np.zeros(d - 3)), y


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("C", [0.02, 0.1])
def test_round_trips(intercept, C):
    """C -> slacks -> game -> C to 1e-4, both forms; gamma = V + budget / share.

    With many columns: where as many rows lie on the margin as there are columns, a range of C has the same w, so the same budget.
    """
    X, y = overlapping(d=60)
    alpha = alpha_from_C(C, len(y))
    svm = sd.LinearProblem(X, y, "hinge", sd.penalties.L2(alpha), fit_intercept=intercept)
    model = sd.solve(svm, tol=1e-12, max_epochs=5000)
    slacks = slacks_of_svm(svm, model.w, model.dual, model.b)
    assert slacks.level == pytest.approx(slacks.value + slacks.budget / slacks.capped, rel=1e-5)
    for form, slack in (("capped", slacks.capped), ("budget", slacks.budget)):
        game = SlackSVMProblem(X, y, slack, form, intercept)
        solution = sd.solve(game, tol=1e-9, max_epochs=60)
        assert -solution.certificate.primal == pytest.approx(slacks.value if form == "capped" else slacks.level, rel=1e-5)
        np.testing.assert_allclose(solution.w, model.w / np.linalg.norm(model.w), atol=1e-4)
        level = game.level(game.margins(solution.w), solution.b)
        np.testing.assert_allclose(solution.w / level, model.w, rtol=1e-3, atol=1e-4)
        assert C_from_alpha(alpha_of_game(game, solution.w, solution.dual, solution.b), len(y)) == pytest.approx(C, rel=1e-4)


def test_slacks_of_scikit_learns_models():
    """SVC's dual gives the slack of the capped form; NuSVC with that nu has the same direction and intercept."""
    X, y = overlapping()
    C = 0.5
    svc = SVC(kernel="linear", C=C, tol=1e-9).fit(X, y)
    nu = np.abs(svc.dual_coef_).sum() / (len(y) * C)
    game = SlackSVMProblem(X, y, nu)
    solution = sd.solve(game, tol=1e-9, max_epochs=60)
    other = NuSVC(kernel="linear", nu=nu, tol=1e-9).fit(X, y)
    for model in (svc, other):
        size = np.linalg.norm(model.coef_)
        np.testing.assert_allclose(model.coef_[0] / size, solution.w, atol=1e-4)
        assert model.intercept_[0] / size == pytest.approx(solution.b, abs=1e-4)
    assert C_from_alpha(alpha_of_game(game, solution.w, solution.dual, solution.b), len(y)) == pytest.approx(C, rel=1e-4)
    linear = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-9, max_iter=1_000_000, dual=True).fit(X, y)
    w = linear.coef_[0]
    budget = np.maximum(1.0 - y * (X @ w), 0.0).mean() / np.linalg.norm(w)
    solution = sd.solve(SlackSVMProblem(X, y, budget, "budget", False), tol=1e-9, max_epochs=60)
    np.testing.assert_allclose(solution.w, w / np.linalg.norm(w), atol=1e-4)
    assert -solution.certificate.primal == pytest.approx(1.0 / np.linalg.norm(w), rel=1e-4)


def test_lemma_of_the_paper():
    """w with level gamma - eps, scaled to level 1, has hinge risk and length within eps / gamma of the best (Lemma 2.1)."""
    X, y = overlapping()
    game = SlackSVMProblem(X, y, 0.5, "budget", False)
    best = sd.solve(game, tol=1e-7, max_epochs=60)
    gamma = -best.certificate.primal
    B = 1.0 / gamma
    rng = np.random.default_rng(1)
    for _ in range(50):
        w = best.w + 0.2 * rng.standard_normal(5)
        w /= max(1.0, np.linalg.norm(w))
        level = game.value(X @ w, 0.0)
        eps = gamma - level
        if eps * B >= 1.0:
            continue
        scaled = w / level
        risk = np.maximum(1.0 - y * (X @ scaled), 0.0).mean()
        assert np.linalg.norm(scaled) <= B / (1.0 - eps * B) + 1e-9
        assert risk <= game.slack * B / (1.0 - eps * B) + 1e-9
    with pytest.raises(InputError, match="take more slack"):
        alpha_of_game(SlackSVMProblem(X, y, 0.01, fit_intercept=False), np.zeros(5), -y)


# --------------------------------------------------------------------------- pieces


def test_pieces_against_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(2, 12))
        m, s, y = np.round(rng.standard_normal(n), 1), rng.random(n) + 0.1, np.where(np.arange(n) % 2, 1.0, -1.0)
        weight = rng.random() * s.sum()
        weights = tail_weights(m, s, weight)
        assert weights.sum() == pytest.approx(weight)
        assert (weights <= s + 1e-15).all()
        assert lower_tail(m, s, weight).total == pytest.approx(weights @ m)
        budget = rng.random()
        level = water_level(m, s, budget)
        assert s @ np.maximum(level - m, 0.0) == pytest.approx(budget)
        best = best_level(m, y, s, budget)
        assert best.level == pytest.approx(water_level(m + best.b * y, s, budget), abs=1e-9)
        assert all(water_level(m + b * y, s, budget) <= best.level + 1e-9 for b in best.b + rng.standard_normal(20))
        a, cap = rng.random(n), 0.7
        xi = fill(a, s, budget, cap)
        assert s @ xi == pytest.approx(min(budget, cap * s.sum()))
        assert top_sum(a, s, budget, cap) == pytest.approx(s @ (a * xi))
        ceiling, mass = 1.3, rng.random() * 1.3 * s.sum()
        shifted = shift_to_mass(a, s, ceiling, mass)
        assert s @ shifted == pytest.approx(mass)
        assert 0.0 <= shifted.min() <= shifted.max() <= ceiling + 1e-12


def test_nearest_point_of_the_capped_simplex():
    rng = np.random.default_rng(2)
    a, s = rng.random(9), rng.random(9) + 0.2
    s /= s.sum()
    p = cp.Variable(9)
    cp.Problem(cp.Minimize(cp.sum(cp.multiply(s, cp.square(p - a)))), [p >= 0, p <= 1.2, s @ p == 1.0]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(shift_to_mass(a, s, 1.2, 1.0), p.value, atol=1e-6)


# --------------------------------------------------------------------------- edges


def test_edges():
    """One row, one column, the whole weight, hard margins, duplicates, zero rows."""
    one = SlackSVMProblem([[3.0, 4.0]], [1], 0.5, fit_intercept=False)
    assert sd.certify(one, [0.6, 0.8], [-1.0]) == sd.certify(one, [6.0, 8.0])
    assert sd.certify(one, [0.6, 0.8]).primal == sd.certify(one, [0.6, 0.8]).dual == -5.0
    assert sd.solvers.available(one) == ["simba"]  # no ordinary SVM has one class
    assert -sd.solve(SlackSVMProblem([[3.0], [-1.0]], [1, -1], 0.5), tol=1e-8).certificate.primal == pytest.approx(2.0)
    X, y, _ = data(1)
    whole = SlackSVMProblem(X, y, 1.0, fit_intercept=False)
    solution = sd.solve(whole, tol=1e-8)
    mean = (y[:, None] * X).mean(axis=0)
    np.testing.assert_allclose(solution.w, mean / np.linalg.norm(mean), atol=1e-6)
    rng = np.random.default_rng(3)
    wide = rng.standard_normal((10, 20))
    signs = np.where(np.arange(10) % 2, 1.0, -1.0)
    hard = SlackSVMProblem(wide, signs, 0.0, "budget")
    least = SlackSVMProblem(wide, signs, 0.1 + 1e-9)  # the cap cannot bind
    first, second = sd.solve(hard, tol=1e-7, max_epochs=60), sd.solve(least, tol=1e-7, max_epochs=60)
    assert first.certificate.primal == pytest.approx(conic(hard)[0] * -1.0, rel=1e-5)
    assert second.certificate.relative_gap <= 1e-7
    zero_row = SlackSVMProblem(np.vstack([X, np.zeros(4)]), np.append(y, 1.0), 0.5, fit_intercept=False)
    assert -sd.solve(zero_row, tol=1e-7).certificate.primal == pytest.approx(conic(zero_row)[0], abs=1e-6)
    assert sd.certify(SlackSVMProblem(sp.csr_array(X), y, 0.4), solution.w, -y).gap == pytest.approx(
        sd.certify(SlackSVMProblem(X, y, 0.4), solution.w, -y).gap, abs=1e-12
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slack": 0.0}, "above 0 and at most 1"),
        ({"slack": 1.5}, "above 0 and at most 1"),
        ({"slack": "much"}, "must be a number"),
        ({"slack": -0.1, "form": "budget"}, "0 or more"),
        ({"form": "other"}, "'capped' or 'budget'"),
        ({"slack": 0.9}, "twice the weight of the smaller class"),
        ({"y": np.ones(4)}, "one class only"),
        ({"y": np.array([1.0, -1.0, 2.0, 1.0])}, "targets -1 and \\+1"),
        ({"cap": 2.0}, "capped form has no slacks"),
        ({"cap": -2.0, "form": "budget"}, "cap must be positive"),
    ],
)
def test_refused(options, message):
    options = {"X": np.eye(4), "y": np.array([1.0, -1.0, -1.0, -1.0]), "slack": 0.2, **options}
    with pytest.raises(InputError, match=message):
        SlackSVMProblem(**options)


def test_points_are_checked():
    X, y, _ = data(1)
    problem = SlackSVMProblem(X, y, 0.3, fit_intercept=False)
    with pytest.raises(InputError, match="has no intercept"):
        sd.certify(problem, np.zeros(4), None, 1.0)
    with pytest.raises(InputError, match="w needs 4 numbers and the dual 24"):
        sd.certify(problem, np.zeros(3))
    with pytest.raises(InputError, match="finite"):
        sd.certify(problem, np.full(4, np.nan))
    w = np.array([30.0, 40.0, 0.0, 0.0])
    assert sd.certify(problem, w, -y).primal == pytest.approx(sd.certify(problem, w / 50.0, -y).primal)


def test_classes_against_the_rest():
    """The sum of the problems of all classes, with the same values."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=40)
    X = rng.standard_normal((40, 6)) + np.eye(6)[codes]
    problem = sd.OneVsRestSlackSVM(X, codes, [0.3, 0.4, 0.2])
    w, a = rng.standard_normal((6, 3)), rng.standard_normal((40, 3))
    parts = [each.certify(w[:, c], a[:, c], None) for c, each in enumerate(problem.classes)]
    whole = sd.certify(problem, w, a, None)
    assert whole.dual == pytest.approx(sum(part.dual for part in parts))
    assert whole.primal <= sum(part.primal for part in parts) + 1e-12
    solution = sd.solve(problem, tol=1e-6, max_epochs=60)
    singles = [sd.solve(each, tol=1e-7, max_epochs=60).certificate.primal for each in problem.classes]
    assert solution.certificate.primal == pytest.approx(sum(singles), rel=1e-5)
    with pytest.raises(InputError, match="whole number"):
        sd.OneVsRestSlackSVM(X, codes[:-1])
