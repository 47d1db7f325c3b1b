"""double_oracle: the unsmoothed F-score game on few and on many rows, and what the pieces of the large design promise."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError, UnsupportedError
from saddlery.problems.fscore_intervals import SizedTable
from saddlery.solvers.double_oracle import DoubleOracle, _answers, _scores
from saddlery.solvers.fscore_bundle import Bundle
from saddlery.solvers.fscore_segments import SegmentGame, batch_marginals


def data(n, d=4, seed=0, share=0.2):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(float)
    y[:2] = [1.0, 0.0]
    return rng.standard_normal((n, d)) + 0.8 * y[:, None], y


@pytest.fixture(scope="module")
def many():
    """A problem beyond the reach of labellings, and its solution."""
    X, y = data(400, d=2)
    problem = sd.FScoreProblem(X, y, 0.05, fit_intercept=True)
    return problem, sd.solve(problem, tol=2e-2)


def test_scores_and_answers():
    """Scores of labellings, and best answers for every size, against their definitions."""
    rng = np.random.default_rng(0)
    Y, Z = (rng.random((2, 6, 5)) < 0.4).astype(float)
    Y[0] = Z[0] = 0.0
    F = _scores(Y, Z, 4.0)
    for a, z in enumerate(Z):
        for b, y in enumerate(Y):
            both = 4.0 * y.sum() + z.sum()
            assert F[a, b] == pytest.approx(5.0 * (y @ z) / both if both else 1.0)
    gain = rng.standard_normal((5, 5))
    chosen, values = _answers(gain, -1.0)
    for i in range(5):
        assert chosen[i].sum() == i + 1
        assert values[i] == pytest.approx(np.sort(gain[i])[: i + 1].sum())


def test_both_designs_bracket_the_same_value():
    """The bounds of one lie around those of the other; labellings close the gap."""
    X, y = data(40, d=3)
    problem = sd.FScoreProblem(X, y, 0.05, fit_intercept=True)
    exact = sd.solve(problem, DoubleOracle("labellings"), tol=1e-6)
    assert exact.status.name == "CONVERGED"
    rough = sd.solve(problem, DoubleOracle("segments"), tol=1e-3, max_epochs=1)
    assert rough.certificate.primal >= exact.certificate.dual - 1e-9
    assert rough.certificate.dual <= exact.certificate.primal + 1e-9
    assert rough.certificate.gap < 0.1


def test_extragradient_agrees_without_smoothing():
    X, y = data(15)
    problem = sd.FScoreProblem(X, y, 0.1)
    exact = sd.solve(problem, tol=1e-8).certificate
    slow = sd.solve(problem, "extragradient", tol=1e-2, max_epochs=100).certificate
    assert slow.dual - 1e-9 <= exact.primal
    assert exact.dual <= slow.primal + 1e-9


def test_many_rows_are_certified(many):
    problem, solution = many
    assert solution.status.name == "CONVERGED"
    assert solution.certificate.relative_gap <= 2e-2
    assert isinstance(solution.dual, SizedTable)
    primals, duals = solution.trace.column("primal"), solution.trace.column("dual")
    assert (np.diff(primals) <= 0.0).all()
    assert (np.diff(duals) >= 0.0).all()
    assert solution.dual.rows.sum() == pytest.approx(problem.positives, rel=1e-9)
    again = sd.certify(problem, solution.w, solution.dual, solution.b)
    assert again.relative_gap <= 2.5e-2


def test_the_dual_point_is_one_of_labellings(many):
    """Entries of each size are at most its mass; sampled labellings never beat the bound that is certified."""
    problem, solution = many
    table = solution.dual
    assert (table.rows >= 0.0).all()
    assert (table.rows.max(axis=1) <= table.masses + 1e-12).all()
    assert table.masses.sum() <= 1.0 + 1e-12
    w = problem.weights(table.rows.sum(axis=0))
    high = -solution.certificate.dual - 0.5 * problem.alpha * float(w @ w)
    rng = np.random.default_rng(1)
    for _ in range(20):
        j = int(rng.integers(1, problem.n))
        gain = (2.0 / (table.sizes + j)) @ table.rows
        assert np.sort(gain)[::-1][:j].sum() <= high


def test_the_predictor_is_worth_what_is_claimed(many):
    """Against many labellings y the mixed prediction earns F(y, .) - c.y of at least the bound; none of them is below."""
    problem, solution = many
    c = (problem.matrix.matvec(solution.w) + solution.b) / problem.n
    order = np.argsort(-c, kind="stable")
    low = -solution.certificate.primal - problem.linear(solution.w, solution.b)
    q = solution.aux
    j = np.arange(1.0, problem.n + 1.0)
    rng = np.random.default_rng(2)
    labellings = [(rng.random(problem.n) < rng.random()).astype(float) for _ in range(20)]
    labellings += [(c > np.quantile(c, share)).astype(float) for share in (0.3, 0.7, 0.9, 0.99)]
    for y in labellings:
        hits = np.cumsum(y[order])
        expected = float(q[1:] @ (2.0 * hits / (y.sum() + j))) + (q[0] if not y.any() else 0.0)
        assert expected - c @ y >= low - 1e-12


def test_dense_and_sparse_data_give_the_same():
    X, y = data(220, d=6)
    X[np.abs(X) < 0.7] = 0.0
    one, two = (sd.solve(sd.FScoreProblem(part, y, 0.1), tol=5e-2) for part in (X, sp.csr_array(X)))
    assert one.certificate.primal == pytest.approx(two.certificate.primal, abs=1e-6)


def test_a_resumed_run_goes_on():
    X, y = data(220, d=2)
    problem = sd.FScoreProblem(X, y, 0.2)
    whole = sd.solve(problem, tol=0.0, max_epochs=2)
    part = sd.solve(problem, tol=0.0, max_epochs=1)
    rest = sd.solve(problem, tol=0.0, max_epochs=1, start=copy.deepcopy(part.state))
    assert rest.certificate.primal == whole.certificate.primal
    assert rest.certificate.dual == whole.certificate.dual


def test_ties_and_a_start():
    """Ten points thirty times: many equal scores. A start from weights is taken up."""
    X, y = data(10, d=2, share=0.4)
    problem = sd.FScoreProblem(np.repeat(X, 30, axis=0), np.repeat(y, 30), 0.1, fit_intercept=True)
    solution = sd.solve(problem, tol=3e-2)
    assert solution.certificate.gap < 0.03
    again = sd.solve(problem, tol=3e-2, start=solution)
    assert again.certificate.relative_gap <= 3e-2


def test_refinement_keeps_strategies():
    """A finer grid holds the same strategies: values of mixtures against old predictions stay."""
    game = SegmentGame(200, 1.3, 1.0)
    rng = np.random.default_rng(3)
    c = np.sort(rng.standard_normal(200) / 200)[::-1].copy()
    answer = game.solve(game.means(c), 1e-4)
    assert answer.lower <= answer.upper <= answer.lower + 1e-4
    before = game.payoff()
    kept = game.ends.size + 1
    inside, shares = game.refine()
    mixture = answer.mixture.refined(inside, shares)
    np.testing.assert_allclose(mixture.counts.sum(axis=1), mixture.sizes)
    assert game.concession(mixture)[0] >= answer.concedes - 1e-12  # more predictions to choose from
    old = np.isin(game.column_sizes[: game.ends.size + 1], np.concatenate([[0], np.unique(game.column_sizes[kept:]), [200]]))
    assert old.any()
    assert game.payoff().shape[0] > before.shape[0]
    while not game.is_finest and game.ends.size < 200:
        size = game.ends.size
        game.refine()
        if game.ends.size == size:
            break
    assert (np.diff(game.ends) > 0).all()


def test_cuts_bound_the_value_everywhere():
    """v(c) <= concedes - c.ybar for other scores than those that the cut was made at."""
    X, y = data(30)
    problem = sd.FScoreProblem(X, y, 0.05)
    bundle = Bundle(problem, 1.0, None, 0.0)  # all sizes: the grid loses nothing
    for _ in range(3):
        bundle.round(problem, 1e-3)
    rng = np.random.default_rng(4)
    for _ in range(3):
        w = rng.standard_normal(problem.d)
        value = -problem.primal(w, 0.0) - problem.linear(w, 0.0)
        for cut in bundle.cuts:
            assert value <= cut.concedes - w @ cut.slope + 1e-9
    assert bundle.lower <= bundle.upper + 1e-9


def test_batches():
    """Marginals are probabilities that fall with the score; a batch of one row is answered."""
    rng = np.random.default_rng(5)
    for n in (1, 30, 400):
        c = 3.0 * rng.standard_normal(n) / n
        s = batch_marginals(c)
        assert ((s >= -1e-12) & (s <= 1.0 + 1e-9)).all()
        assert s[np.argmax(c)] >= s[np.argmin(c)] - 1e-6
    assert batch_marginals(np.array([5.0]))[0] > 0.99


def test_refusals():
    X, y = data(20)
    with pytest.raises(UnsupportedError, match="smoothing=0"):
        sd.solve(sd.FScoreProblem(X, y, 0.1, smoothing=0.5), "double_oracle")
    with pytest.raises(InputError, match="design"):
        sd.solve(sd.FScoreProblem(X, y, 0.1), DoubleOracle("rows"))
    assert sd.solvers.available(sd.FScoreProblem(X, y, 0.1)) == ["double_oracle", "extragradient", "breg_svrg"]
    assert sd.solvers.available(sd.FScoreProblem(X, y, 0.1, 0.5))[0] == "extragradient"
