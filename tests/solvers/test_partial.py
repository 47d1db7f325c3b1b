"""The solvers of the foundation on data that are read in parts: the same certified optimum as in memory, inside the limit."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.registry import SOLVERS
from saddlery.solvers.streamed_block import StreamedBlock, make_block, trim
from saddlery.solvers.working_block import WorkingBlock

N, D = 90, 24


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.6)
    return X, np.where(X @ rng.standard_normal(D) + 0.4 > 0.0, 1.0, -1.0)


@pytest.fixture(scope="module")
def places(data, tmp_path_factory):
    folder, (X, y) = tmp_path_factory.mktemp("stores"), data
    return {"dense": sd.convert((X, y), folder / "dense"), "sparse": sd.convert((sp.csr_array(X), y), folder / "sparse")}


def opened(place, room):
    """A store whose blocks hold about four rows."""
    store = sd.open_store(place, load=False)
    store.block_bytes, store.room = 800, room
    return store


SMALL, ENOUGH = 400, 10**6  # bytes for copies: next to nothing, and all that is asked for
KEEP_NO_COPIES = ("sdca", "spdc", "primal_cd", "dgpd", "row_space")
CASES = [
    ("prox_newton", "logistic", sd.penalties.L1(0.02), True),
    ("prox_newton", "logistic", sd.penalties.ElasticNet(0.02, 0.5), False),
    ("active_sdca", "logistic", sd.penalties.ElasticNet(0.02, 0.5), False),
    ("sdca", "logistic", sd.penalties.ElasticNet(0.02, 0.5), False),
    ("spdc", "logistic", sd.penalties.ElasticNet(0.02, 0.5), False),
    ("primal_cd", "logistic", sd.penalties.L1(0.02), True),
    ("dgpd", "logistic", sd.penalties.ElasticNet(0.02, 0.5), False),
    ("dgpd_active", "logistic", sd.penalties.ElasticNet(0.02, 0.5), False),
    ("augmented_newton", "hinge", sd.penalties.L1(0.02), True),
    ("proximal_point", "logistic", sd.penalties.ElasticNet(0.02, 0.5), True),
    ("row_space", "logistic", sd.penalties.L2(0.02), True),
]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("solver", "loss", "penalty", "intercept"), CASES, ids=[f"{case[0]}-{case[1]}-{case[3]}" for case in CASES]
)
def test_same_optimum_as_in_memory(places, data, kind, solver, loss, penalty, intercept):
    X, y = data
    tol = {"dgpd": 2e-2, "spdc": 1e-2, "dgpd_active": 1e-3, "primal_cd": 1e-4}.get(solver, 1e-6)
    memory = sd.LinearProblem(X if kind == "dense" else sp.csr_array(X), y, loss, penalty, fit_intercept=intercept)
    known = sd.solve(memory, solver, tol=tol, max_epochs=4000)
    for room in (ENOUGH,) if solver in KEEP_NO_COPIES else (SMALL, ENOUGH):
        with opened(places[kind], room) as store:
            problem = sd.LinearProblem(store, store.y, loss, penalty, fit_intercept=intercept)
            solution = sd.solve(problem, solver, tol=tol, max_epochs=4000)
        assert solution.status is sd.Status.CONVERGED
        again = sd.certify(memory, solution.w, solution.dual, b=solution.b)  # exact: the same values from data in memory
        assert again.primal == pytest.approx(solution.certificate.primal, abs=1e-12)
        assert again.dual == pytest.approx(solution.certificate.dual, abs=1e-12)
        assert solution.certificate.primal >= known.certificate.dual - 1e-12
        assert known.certificate.primal >= solution.certificate.dual - 1e-12
        assert solution.certificate.primal - known.certificate.primal <= known.certificate.gap + solution.certificate.gap + 1e-12


def test_every_solver_of_the_foundation_says_so():
    assert all(SOLVERS.get(name).needs.partial for name, *_ in CASES)


@pytest.mark.parametrize("penalty", [sd.penalties.L1(0.02), sd.penalties.L2(0.02)])
@pytest.mark.parametrize("intercept", [False, True])
def test_auto(places, data, penalty, intercept):
    with opened(places["dense"], ENOUGH) as store:
        problem = sd.LinearProblem(store, data[1], "logistic", penalty, fit_intercept=intercept)
        assert sd.solve(problem, tol=1e-8).status is sd.Status.CONVERGED


def test_weights_and_a_path(places, data):
    """Unequal weights, zeros among them, along a path without intercept, where products are screened by columns."""
    X, y = data
    s = np.random.default_rng(0).integers(0, 3, N).astype(float)
    memory = sd.LinearProblem(X, y, "logistic", sd.penalties.L1(1.0), s)
    with opened(places["dense"], ENOUGH) as store:
        result = sd.path(sd.LinearProblem(store, y, "logistic", sd.penalties.L1(1.0), s), n_alphas=4, tol=1e-8)
    want = sd.path(memory, result.alphas, solver="prox_newton", tol=1e-8)
    np.testing.assert_allclose(result.coefs, want.coefs, atol=1e-5)
    assert all(certificate.relative_gap <= 1e-8 for certificate in result.certificates)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
def test_streamed_blocks_equal_copies(places, data, kind, intercept):
    X, y = data
    W, rng = np.array([0, 3, 4, 17]), np.random.default_rng(1)
    memory = sd.LinearProblem(X, y, "logistic", sd.penalties.L1(0.1), fit_intercept=intercept)
    want = WorkingBlock(memory, W, True)
    with opened(places[kind], SMALL) as store:
        problem = sd.LinearProblem(store, y, "logistic", sd.penalties.L1(0.1), fit_intercept=intercept)
        streamed = make_block(problem, W, True, False)
        store.room = ENOUGH
        copied = make_block(problem, W, True, False)
        copied.slab = 7
        assert isinstance(streamed, StreamedBlock)
        assert isinstance(copied, WorkingBlock)
        u, r = rng.standard_normal(4), rng.standard_normal(N)
        for h in (rng.random(N), rng.random(N)):
            want.update_gram(h, strictly=True)
            for block in (streamed, copied):
                block.update_gram(h, strictly=True)
                np.testing.assert_allclose(block.gram, want.gram, atol=1e-12)
                np.testing.assert_allclose(block.product(u), want.product(u), atol=1e-12)
                np.testing.assert_allclose(block.transposed(r), want.transposed(r), atol=1e-12)
        assert streamed.entries == copied.entries == (want.entries if kind == "dense" else np.count_nonzero(X[:, W]))


def test_more_columns_than_a_block_can_carry(places, data, monkeypatch):
    """Those that violate optimality most are taken, and the fit still ends certified."""
    monkeypatch.setattr("saddlery.solvers.streamed_block.MAX_GRAM", 5)
    with opened(places["dense"], SMALL) as store:
        problem = sd.LinearProblem(store, data[1], "logistic", sd.penalties.L2(0.02))
        gradient = np.arange(D, dtype=float)
        assert trim(problem, np.arange(D), np.zeros(D), gradient).tolist() == [19, 20, 21, 22, 23]
        assert len(trim(problem, np.arange(4), np.zeros(D), gradient)) == 4
        assert sd.solve(problem, "prox_newton", tol=1e-6).status is sd.Status.CONVERGED


def test_row_space_refuses_what_does_not_fit(places, data):
    with (
        opened(places["dense"], SMALL) as store,
        pytest.raises(sd.UnsupportedError, match="row_space keeps 90 x 90 numbers: give max_memory of"),
    ):
        sd.solve(sd.LinearProblem(store, data[1], "logistic", sd.penalties.L2(0.02)), "row_space")
