"""Solvers of constrained problems against a conic solver, and the identities of their steps."""

import numpy as np
import pytest

import saddlery as sd
from saddlery.penalties import Box, L1Ball, L2Ball, L2InBall, Simplex
from saddlery.registry import LOSSES, SOLVERS
from saddlery.solvers.away_steps import BlendedPairwiseFW, PairwiseFW

LOSS = pytest.mark.parametrize("loss", ["logistic", "squared", "hinge"])
INTERCEPT = pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])


@LOSS
@INTERCEPT
def test_auto_agrees_with_a_conic_solver(any_set, loss, intercept, make_problem, optimum):
    """Every set, smooth losses and the hinge, weighted rows."""
    problem = make_problem(LOSSES.get(loss)(), any_set, "dense", intercept, weights=True)
    best = optimum(problem)
    solution = sd.solve(problem, tol=1e-7, max_epochs=20_000)
    assert solution.status is sd.Status.CONVERGED
    assert np.isfinite(any_set.value(solution.w))
    assert solution.certificate.primal == pytest.approx(best, abs=2e-7 * problem.scale)
    assert solution.certificate.dual <= best + 1e-8 * problem.scale


@pytest.mark.parametrize("solver", ["multiplier", "projected_gradient", "pdhg", "pairwise_fw", "blended_pairwise_fw", "away_fw"])
@pytest.mark.parametrize("penalty", [L1Ball(1.5), Simplex(1.5), L2Ball(0.8)], ids=["l1_ball", "simplex", "l2_ball"])
def test_solvers_agree(solver, penalty, make_problem, optimum):
    problem = make_problem(sd.losses.Logistic(), penalty, "csr")
    if SOLVERS.get(solver).needs.missing(problem):
        pytest.skip("not for this set")
    tol = 1e-4 if penalty == L2Ball(0.8) and solver.endswith("fw") else 1e-6  # a ball has no faces: steps zig-zag along its border
    solution = sd.solve(problem, solver, tol=tol, max_epochs=5000)
    assert solution.status is sd.Status.CONVERGED
    assert solution.certificate.primal == pytest.approx(optimum(problem), abs=1.5 * tol * problem.scale)


@pytest.mark.parametrize("solver", ["multiplier", "projected_gradient", "pdhg", "corrective"])
def test_a_set_so_large_that_it_does_not_bind(solver, make_problem):
    """The optimum is inside: the gradient vanishes there, and the certificate is still tight."""
    problem = make_problem(sd.losses.Squared(), L1Ball(1e3), n=60, d=5)
    solution = sd.solve(problem, solver, tol=1e-7, max_epochs=20_000)
    assert solution.status is sd.Status.CONVERGED
    assert np.abs(solution.w).sum() < 1e3
    assert np.abs(problem.matrix.rmatvec(problem.s * problem.slopes(problem.margins(solution.w)))).max() < 1e-3


def test_multiplier_of_a_penalty_that_keeps_inside(make_problem):
    """Where the penalty alone keeps w inside the ball, no multiplier is searched: one problem is solved better and better."""
    problem = make_problem(sd.losses.Logistic(), L2InBall(0.5, radius=100.0))
    solution = sd.solve(problem, "multiplier", tol=1e-7)
    alone = sd.solve(problem.with_penalty(sd.penalties.L2(0.5)), tol=1e-10)
    assert solution.state.inside.mu == 0.0
    assert solution.trace[-1].counts["penalised_solves"] <= 6
    np.testing.assert_allclose(solution.w, alone.w, atol=1e-3)


def test_multiplier_meets_the_border(make_problem):
    problem = make_problem(sd.losses.Logistic(), L2Ball(0.3))
    solution = sd.solve(problem, "multiplier", tol=1e-8)
    assert np.linalg.norm(solution.w) == pytest.approx(0.3, rel=1e-6)


def test_blended_steps_ask_for_fewer_atoms(make_problem):
    """They use up what is there before they take a new atom, so they hold no more of them."""
    problem = make_problem(sd.losses.Logistic(), L1Ball(3.0), n=80, d=30)
    pairwise, blended = (sd.solve(problem, method, tol=1e-6, max_epochs=5000) for method in (PairwiseFW(), BlendedPairwiseFW()))
    assert blended.trace[-1].counts["atoms"] <= pairwise.trace[-1].counts["atoms"]


def test_shares_of_atoms_make_up_w(make_problem):
    problem = make_problem(sd.losses.Logistic(), L1Ball(1.5))
    state = sd.solve(problem, "away_fw", tol=1e-6, max_epochs=2000).state
    assert sum(atom.share for atom in state.atoms.values()) == pytest.approx(1.0, abs=1e-9)
    w = np.zeros(problem.d)
    for atom in state.atoms.values():
        atom.add_to(w, atom.share)
    np.testing.assert_allclose(w, state.w, atol=1e-9)
    np.testing.assert_allclose(problem.margins(w), state.Xw, atol=1e-9)


def test_pdhg_serves_what_others_refuse(make_problem):
    """The hinge on a box: no other solver takes it."""
    problem = make_problem(sd.losses.Hinge(), Box(-0.2, 0.5), intercept=True)
    assert sd.solvers.available(problem) == ["pdhg"]
    assert sd.solve(problem, tol=1e-6, max_epochs=20_000).status is sd.Status.CONVERGED


def test_a_certified_start_stays_certified(any_set, make_problem):
    """Also where a solver cannot begin at the points that it is given."""
    problem = make_problem(sd.losses.Logistic(), any_set)
    solution = sd.solve(problem, tol=1e-6, max_epochs=20_000)
    for name in sd.solvers.available(problem):
        again = sd.solve(problem, name, tol=2e-6, start=solution)
        assert again.status is sd.Status.CONVERGED
        assert again.epochs == 0
