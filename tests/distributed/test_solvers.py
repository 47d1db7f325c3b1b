"""The distributed solvers: the optimum of one machine, valid certificates on the way, the same answer for any division."""

import dask
import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.distributed.gsfw import DaskGSFW, block_smoothness
from saddlery.distributed.local_sdca import DaskSDCA
from saddlery.distributed.prox_newton import DaskProxNewton
from saddlery.distributed.rounds import add_sums, assign, payload
from saddlery.registry import SOLVERS

L1, EN, L2 = sd.penalties.L1, sd.penalties.ElasticNet, sd.penalties.L2


def both(X, y, split, count, *rest):
    return sd.DaskLinearProblem(split(X, count), y, *rest), sd.LinearProblem(X, y, *rest)


def check(there, here, solver="auto", tol=1e-7, **options):
    """Solve both; the values agree within the certified gaps, the certificate is that of the collected data."""
    solution, best = sd.solve(there, solver, tol=tol, **options), sd.solve(here, tol=1e-10, max_epochs=5000)
    assert solution.status is sd.Status.CONVERGED
    assert 0.0 <= solution.certificate.gap <= tol * here.scale
    assert abs(solution.certificate.primal - best.certificate.primal) <= (tol + 1e-9) * here.scale
    again = here.certify(solution.w, there.dual_array(solution.dual).compute(), solution.b)
    assert again.primal == pytest.approx(solution.certificate.primal, abs=1e-10)
    assert again.dual == pytest.approx(solution.certificate.dual, abs=1e-10)
    for record in solution.trace:  # a lower bound that is one, at each check
        assert record.dual <= best.certificate.primal + 1e-12
    return solution


@pytest.mark.parametrize("count", [1, 2, 7, 50])
@pytest.mark.parametrize("penalty", [L1(0.01), EN(0.01, 0.5)], ids=["l1", "elasticnet"])
def test_logistic_on_wide_sparse_data(wide, split, penalty, count):
    solution = check(*both(*wide, split, count, "logistic", penalty.scaled(0.2)))
    assert solution.solver == "dask_prox_newton"
    counts = solution.trace[-1].counts
    assert counts["rounds"] <= 14
    assert counts["bytes_up"] > 0 < counts["bytes_down"]
    assert counts["round_seconds"] >= counts["task_seconds"] > 0.0


@pytest.mark.parametrize("intercept", [False, True], ids=["no b", "b"])
@pytest.mark.parametrize("penalty", [L1(0.01), EN(0.01, 0.3), L2(0.05)], ids=["l1", "elasticnet", "l2"])
def test_smooth_losses(tall, split, any_loss, penalty, intercept):
    X, signs, numbers, weights = tall
    if np.isinf(any_loss.smoothness):
        pytest.skip("not smooth")
    y = signs if any_loss.targets == "signs" else numbers
    check(*both(X, y, split, 5, any_loss, penalty, weights, intercept))


def test_division_and_threads_do_not_matter(tall, split):
    """Other divisions agree to rounding; the same division agrees to the last digit whoever computes."""
    X, y, _, weights = tall
    problem = ("logistic", L1(0.01), weights, True)
    solver = DaskProxNewton()
    weights_of = [sd.solve(sd.DaskLinearProblem(split(X, count), y, *problem), solver, tol=1e-10).w for count in (1, 3, 20)]
    np.testing.assert_allclose(weights_of[1], weights_of[0], atol=1e-6)
    np.testing.assert_allclose(weights_of[2], weights_of[0], atol=1e-6)
    there = sd.DaskLinearProblem(split(X, 20), y, *problem)
    with dask.config.set(scheduler="synchronous"):
        alone = sd.solve(there, solver, tol=1e-10)
    np.testing.assert_array_equal(alone.w, weights_of[2])


def test_sample_start(split):
    """Tall data start from a part of their rows, of a rare class as many as of the other; fewer rounds than without."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((12_000, 8))
    y = np.where(X @ rng.standard_normal(8) + rng.standard_normal(12_000) > 4.0, 1.0, -1.0)
    assert (y > 0).mean() < 0.15
    rounds = {}
    for start in (True, False):
        there, here = both(X, y, split, 6, "logistic", L1(1e-3), None, True)
        check(there, here, DaskProxNewton(sample_start=start))
        rounds[start] = there.meter.rounds
    assert rounds[True] <= rounds[False]


def test_l2_by_products(split):
    """So many columns that no Gram matrix travels: conjugate gradients, a round for each product, with an intercept too."""
    rng = np.random.default_rng(5)
    X = sp.random_array((200, 3200), density=0.01, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(3200) + 0.3 > 0.0, 1.0, -1.0)
    for loss in ("squared_hinge", "logistic"):
        there, here = both(X, y, split, 3, loss, L2(0.01), None, True)
        assert check(there, here).solver == "dask_prox_newton"
        assert there.meter.bytes_up / there.meter.rounds < 4 * 8 * 4 * 3200
    there, here = both(X, y, split, 3, "logistic", L2(0.2))
    assert check(there, here, tol=1e-6).solver == "dask_sdca"  # l2 so strong that partitions hardly disturb each other


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge"])
def test_local_sdca(tall, split, loss):
    X, y, _, weights = tall
    there, here = both(X, y, split, 7, loss, EN(0.2, 0.2), weights)
    solution = check(there, here, "dask_sdca", tol=1e-5, max_epochs=600)
    assert len(solution.dual.blocks) == 7
    again = sd.solve(there, DaskSDCA(), tol=1e-5, start=solution)
    assert len(again.trace) == 1  # it was there already
    primal, dual = np.array([(record.primal, record.dual) for record in solution.trace]).T
    assert (np.diff(dual) >= -1e-12).all()  # adding is safe: the dual never falls
    assert (primal >= dual).all()


def test_dual_steps_serve_where_the_loss_has_kinks(tall, split):
    X, y, _, _ = tall
    there = sd.DaskLinearProblem(split(X, 3), y, "hinge", L2(0.2))
    assert sd.solvers.available(there) == ["dask_sdca"]
    with pytest.raises(sd.UnsupportedError, match="no solver can solve"):
        sd.solve(sd.DaskLinearProblem(split(X, 3), y, "hinge", L1(0.1)))
    with pytest.raises(sd.UnsupportedError, match="this is a distributed problem"):
        sd.solve(there, "prox_newton")
    assert all("distributed" not in SOLVERS.get(name).needs.kinds for name in SOLVERS.names() if not name.startswith("dask_"))


@pytest.mark.parametrize("batch", [None, 1, 7])
def test_gsfw_in_balls(tall, split, batch):
    X, y, _, weights = tall
    there, here = both(X, y, split, 7, "logistic", sd.penalties.L1Ball(1.0), weights)
    check(there, here, DaskGSFW(batch), tol=2e-2, max_epochs=300)
    assert there.meter.rounds > 3


def test_gsfw_with_curvature_converges_linearly(tall, split):
    X, _, z, _ = tall
    there, here = both(X, z, split, 4, "squared", sd.penalties.L2InBall(0.5, 3.0))
    check(there, here, DaskGSFW(2), tol=1e-6, max_epochs=600)


def test_corrected_step_of_remark_3_4(split):
    """Identical rows in identical partitions, all in one batch: sigma must be that of the whole, or steps overshoot together."""
    X, mu = np.ones((100, 1)), 0.1
    there = sd.DaskLinearProblem(split(X, 10), np.full(100, 3.0), "squared", sd.penalties.L2InBall(mu, 10.0))
    assert block_smoothness(there, 10) == pytest.approx(1.0 + 1.0 / mu)
    largest = max(there.partitions.lengths) / 100
    assert block_smoothness(there, 1) == pytest.approx(1.0 + largest / mu)
    assert sd.solve(there, DaskGSFW(10), tol=1e-8, max_epochs=500).status is sd.Status.CONVERGED


def test_interruption_and_budgets_return_the_best_certified_point(tall, split):
    X, y, _, _ = tall
    there, here = both(X, y, split, 4, "logistic", L1(1e-3))

    def interrupt(record):
        if record.epoch == 1:
            raise KeyboardInterrupt

    for options, status in (({"callbacks": [interrupt]}, "INTERRUPTED"), ({"max_epochs": 2}, "MAX_EPOCHS")):
        solution = sd.solve(there, tol=1e-12, **options)
        assert solution.status.name == status
        again = here.certify(solution.w, there.dual_array(solution.dual).compute(), solution.b)
        assert again.dual == pytest.approx(solution.certificate.dual, abs=1e-10)
        assert again.primal == pytest.approx(solution.certificate.primal, abs=1e-10)
    resumed = sd.solve(there, tol=1e-9, start=solution.state)
    assert resumed.status is sd.Status.CONVERGED
    assert sd.solve(there, tol=1e-6, start=resumed).epochs == 0


def test_owners_are_stable_and_fair():
    rng = np.random.default_rng(6)
    owners: dict[int, str] = {}
    for _ in range(300):
        names = rng.choice(list("abcdefg"), rng.integers(1, 7), replace=False)
        threads = {str(name): int(rng.integers(1, 4)) for name in names}
        runs = int(rng.integers(1, 40))
        new = assign(runs, threads, owners)
        assert sorted(new) == list(range(runs))
        assert set(new.values()) <= set(threads)
        for name, count in threads.items():
            assert abs(list(new.values()).count(name) - runs * count / sum(threads.values())) < 1.0
        assert assign(runs, threads, new) == new
        owners = new


def test_sums_and_sizes():
    one, other = ({"x": np.ones(2), "t": 1.0}, ["a"], 0.5), ({"x": np.ones(2), "t": 2.0}, ["b"], 0.1)
    sums, owns, seconds = add_sums([one, other])
    assert sums["x"].tolist() == [2.0, 2.0]
    assert (sums["t"], owns, seconds) == (3.0, ["a", "b"], 0.5)
    assert one[0]["x"].tolist() == [1.0, 1.0]  # arguments are not written over
    assert payload((np.zeros(3), {"a": [1.0, "word"]}, sp.csr_array((2, 2)))) == 24 + 8 + 12
