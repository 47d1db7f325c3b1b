"""Solvers of games: they reach what they certify, in either geometry, form and scheme, and resume as if never interrupted."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.geometry import CappedSimplex, Simplex
from saddlery.matrix.partial import PartialMatrix
from saddlery.solvers.breg_svrg import BregSVRG
from saddlery.solvers.extragradient import Extragradient, place_at


def boosting(n=60, m=5, seed=0, matrix="dense", **options):
    rng = np.random.default_rng(seed)
    H = rng.choice([-1.0, 0.0, 1.0], size=(n, m))
    y = np.where(H @ rng.standard_normal(m) + 0.5 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    H = {"dense": H, "csr": sp.csr_matrix(H), "csc": sp.csc_matrix(H)}[matrix]
    return sd.BoostingProblem(H, y, **{"nu": 0.05, "row_entropy": 0.1, "weight_entropy": 0.1, **options})


def falling(trace):
    """Primal values fall, dual values rise, and they never cross."""
    primal, dual = trace.column("primal"), trace.column("dual")
    return (np.diff(primal) <= 0.0).all() and (np.diff(dual) >= 0.0).all() and (primal >= dual - 1e-12).all()


SVRG = {
    "sweep": {},
    "norms": {"probabilities": "norms", "step_size": 0.1},
    "entries": {"scheme": "entries", "step_size": 0.02, "epoch_length": 60},
    "convex": {"form": "convex", "step_size": 0.3},
    "catalyst": {"catalyst": 0.05, "step_size": 0.1},
    "paper": {"step_size": 0.05, "epoch_length": 30},
}


@pytest.mark.parametrize("options", SVRG.values(), ids=SVRG)
def test_breg_svrg_reaches_the_optimum(options):
    problem = boosting()
    best = sd.solve(problem, "extragradient", tol=1e-10).certificate
    solution = sd.solve(problem, BregSVRG(**options), tol=1e-4, max_epochs=1500)
    assert solution.status is sd.Status.CONVERGED
    assert solution.certificate.dual - 1e-12 <= best.primal
    assert best.dual <= solution.certificate.primal + 1e-12
    assert falling(solution.trace)


@pytest.mark.parametrize("solver", ["extragradient", "breg_svrg"])
@pytest.mark.parametrize("geometry", ["entropy", "euclidean"])
def test_both_geometries_end_at_the_same_point(solver, geometry):
    best = sd.solve(boosting(), "extragradient", tol=1e-11)
    solution = sd.solve(boosting(geometry=geometry), solver, tol=1e-5, max_epochs=3000)
    assert solution.status is sd.Status.CONVERGED
    assert solution.w == pytest.approx(best.w, abs=0.02)
    assert solution.dual == pytest.approx(best.dual, abs=0.02)


@pytest.mark.parametrize("solver", ["extragradient", "breg_svrg"])
def test_runs_repeat_and_resume(solver):
    problem = boosting()
    one, two = (sd.solve(problem, solver, tol=0.0, max_epochs=12, random_state=3) for _ in range(2))
    assert one.trace.column("gap") == pytest.approx(two.trace.column("gap"), rel=1e-6, abs=1e-14)  # BLAS rounds by alignment
    assert [record.counts.keys() for record in one.trace] == [record.counts.keys() for record in two.trace]
    half = sd.solve(problem, solver, tol=0.0, max_epochs=5, random_state=3)
    rest = sd.solve(problem, solver, tol=0.0, max_epochs=7, start=half.state)
    assert rest.certificate.primal == pytest.approx(one.certificate.primal, rel=1e-12)
    assert rest.certificate.dual == pytest.approx(one.certificate.dual, rel=1e-12)


@pytest.mark.parametrize("solver", ["extragradient", "breg_svrg"])
@pytest.mark.parametrize("matrix", ["csr", "csc"])
def test_sparse_is_dense(solver, matrix):
    one, two = (sd.solve(boosting(matrix=kind), solver, tol=0.0, max_epochs=4).certificate for kind in ("dense", matrix))
    assert two.primal == pytest.approx(one.primal, rel=1e-8)
    assert two.dual == pytest.approx(one.dual, rel=1e-8)


@pytest.mark.parametrize("solver", ["extragradient", "breg_svrg"])
def test_start_from_a_solution(solver):
    problem = boosting()
    first = sd.solve(problem, solver, tol=1e-6, max_epochs=3000)
    again = sd.solve(problem, solver, tol=1e-5, start=first)
    assert again.epochs == 0
    assert again.status is sd.Status.CONVERGED


def test_accepted_steps_fulfil_the_inequality(monkeypatch):
    """step <G(z1) - G(z), z1 - z2> <= D(z1, z) + D(z2, z1), computed again from the places."""
    problem, seen = boosting(), []
    accepts = Extragradient._accepts

    def watched(self, problem, step, now, ahead, then):
        answer = accepts(self, problem, step, now, ahead, then)
        one, two = problem.players
        turn = (ahead.gx - now.gx) @ (ahead.x - then.x) - (ahead.gy - now.gy) @ (ahead.y - then.y)
        room = one.divergence(ahead.u, now.u) + two.divergence(ahead.v, now.v)
        room += one.divergence(then.u, ahead.u) + two.divergence(then.v, ahead.v)
        seen.append((answer, step * turn <= room))
        return answer

    monkeypatch.setattr(Extragradient, "_accepts", watched)
    solution = sd.solve(problem, Extragradient(step_size=1e4), tol=1e-8)
    assert all(answer == expected for answer, expected in seen)
    assert {answer for answer, _ in seen} == {True, False}
    assert solution.status is sd.Status.CONVERGED
    assert solution.trace[-1].counts["rejected"] > 0


def test_new_beginnings_pay_on_matrix_games():
    """From the mean the method begins anew: without, it would need many times as long."""
    K = np.random.default_rng(2).standard_normal((12, 15)) + 1.0
    with_them = sd.solve(sd.Game(K), Extragradient(), tol=1e-6, max_epochs=2000)
    without = sd.solve(sd.Game(K), Extragradient(restarts=False), tol=1e-6, max_epochs=with_them.epochs)
    assert with_them.status is sd.Status.CONVERGED
    assert with_them.trace[-1].counts["restarts"] > 0
    assert without.status is sd.Status.MAX_EPOCHS


def test_weights_of_a_wide_range():
    """A start whose weights are exp(400) apart: states are logs, so nothing is lost or infinite."""
    problem = boosting()
    w = np.zeros(problem.coupling.shape[1])
    w[0] = 1.0
    solution = sd.solve(problem, "extragradient", tol=1e-8, start=(w, 0.0, None))
    assert solution.status is sd.Status.CONVERGED
    assert all(math.isfinite(record.gap) for record in solution.trace)
    player = Simplex(3, entropy=0.1)
    state = player.prox(player.start(), np.array([0.0, 4000.0, -4000.0]), 1.0)
    assert np.isfinite(state.log).all()
    assert player.point(state)[2] == 1.0


def test_means_have_the_weights_of_the_paper():
    """The snapshot is sum_t (1 + step mu)^t z_t divided by the sum of the weights."""
    problem = boosting(n=20, row_entropy=0.5, weight_entropy=0.5)
    solver = BregSVRG(step_size=0.2, epoch_length=6)
    state = solver.init(problem, None, np.random.default_rng(1))
    one, two = problem.players
    sampling, rng = problem.sampling("independent", "uniform"), np.random.default_rng(1)
    draws, u, v, snapshot = sampling.draw(rng, 6), state.u, state.v, state.snapshot
    total, weights = np.zeros(20), 0.0
    for t in range(6):
        vx, vy = sampling.gradients(draws, t, one.point(u), two.point(v), snapshot)
        u, v = one.prox(u, vx, 0.2), two.prox(v, -vy, 0.2)
        total += 1.1 ** (t + 1) * two.point(v)
        weights += 1.1 ** (t + 1)
    solver.step(problem, state)
    assert state.snapshot.y == pytest.approx(total / weights, abs=1e-14)
    assert two.point(state.v) == pytest.approx(two.point(v), abs=1e-15)  # the iterates go on from the last one


def test_work_is_counted():
    problem = boosting()
    solver = BregSVRG(step_size=0.1, epoch_length=10)
    state = solver.init(problem, None, np.random.default_rng(0))
    solver.step(problem, state)
    n, m = problem.coupling.shape
    assert state.accesses == pytest.approx(4 * problem.size + 10 * problem.size * (1 / n + 1 / m))
    assert state.counts["effective_passes"] == pytest.approx(1 + 10 * (n + m) / (n * m))
    solution = sd.solve(problem, "extragradient", tol=0.0, max_epochs=3)
    counts = solution.trace[-1].counts
    assert counts["pairs"] == 1 + 2 * counts["iterations"] + counts["rejected"]
    assert solution.passes == pytest.approx(2.0 * counts["pairs"])


def test_no_progress_ends_a_run():
    """A gap of 0 cannot be proved for most games: the run ends as stalled, with the best point."""
    solution = sd.solve(boosting(), "extragradient", tol=0.0, max_epochs=1000)
    assert solution.status in (sd.Status.STALLED, sd.Status.CONVERGED)
    assert solution.certificate.relative_gap < 1e-12


def test_data_that_are_read_in_parts():
    """Extragradient needs products only; variance reduction draws rows and columns, and refuses."""

    class InParts(PartialMatrix):
        def read_rows(self, index):
            return np.ascontiguousarray(K[index])

        def read_cols(self, index):
            return np.asfortranarray(K[:, index])

    K = np.random.default_rng(4).standard_normal((30, 8))
    players = Simplex(8, entropy=0.1), Simplex(30, entropy=0.1)
    whole, parts = sd.Game(K, *players), sd.Game(InParts(K.shape, K.size, False, float, block_bytes=500), *players)
    one, two = (sd.solve(game, "extragradient", tol=1e-8).certificate for game in (whole, parts))
    assert two.primal == pytest.approx(one.primal, abs=1e-8)
    with pytest.raises(sd.UnsupportedError, match="data in memory"):
        sd.solve(parts, "breg_svrg")


def test_who_can_solve_games():
    assert sd.solvers.available(boosting())[:2] == ["extragradient", "breg_svrg"]
    with pytest.raises(sd.UnsupportedError, match="game"):
        sd.solve(boosting(), "sdca")


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (BregSVRG(form="other"), "form must be"),
        (BregSVRG(step_size=-1.0), "step_size must be"),
        (BregSVRG(epoch_length=0), "epoch_length must be"),
        (BregSVRG(catalyst=-1.0), "catalyst must be"),
        (BregSVRG(scheme="rows", step_size=1.0), "scheme must be"),
        (Extragradient(step_size=0.0), "step_size must be"),
    ],
)
def test_refused_options(solver, words):
    with pytest.raises(sd.InputError, match=words):
        sd.solve(boosting(), solver)


def test_convex_form_needs_a_regulariser():
    game = sd.Game(np.eye(3), Simplex(3), CappedSimplex(3, 0.5, entropy=0.1))
    with pytest.raises(sd.InputError, match="best response jumps"):
        sd.solve(game, BregSVRG(form="convex"))


def test_places():
    problem = boosting()
    place = place_at(problem, *(player.start() for player in problem.players))
    assert place.gx == pytest.approx(problem.coupling.transposed(place.y))
    assert place.gy == pytest.approx(problem.coupling.times(place.x))
