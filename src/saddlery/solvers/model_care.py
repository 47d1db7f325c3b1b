"""How well a Newton model is to be solved: well enough for its round, and no better than the tolerance needs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.solvers.working_set import takes_near_ones

__all__ = ["goal_of", "goal_of_thinned", "needs_care", "sufficient_violation", "sweeps_ahead"]

LATE = 0.08  # relative gap below which columns are swept with care: the support is about right
LAST = 1e-3  # relative gap below which that is so whatever columns lack
FEW_LACK = 0.2  # columns that want a weight, for each that has one: so few are about all that will, if no curvature changes
NEAR, REACH = 1e-3, 3e-4  # relative gap and share of a violation from which on one model may bring the end
COARSE = 1e-4  # share of a violation that columns in 16 bits can leave
NEARLY_LAST = 1000.0  # times the tolerance: after such a forecast the next step may be the last, and is solved with care
ROUGHLY, STRICT = 1e-2, 0.3  # share of the violation that other models leave, and share of what suffices that those leave


def goal_of(problem: Any, state: Any, block: Any, violation: float) -> float:
    """The violation to which a model is to be solved with care: 3 % of what it was.

    What suffices for the tolerance is known: where the dual point must be scaled into the feasible set, a violation v costs
    v ||w||_1, and else v^2 / (2 l2) for each weight. Models that are no approximations are solved to that at once, others no
    further.
    """
    goal, l2 = 0.03 * violation, problem.penalty.strong_convexity
    constant = getattr(problem.loss, "curvature_is_constant", False)
    if (l2 > 0.0 and not (constant and block.dense)) or (state.penalty <= 0.0 and not constant):
        return goal
    suffices = sufficient_violation(problem, state)
    if l2 > 0.0:
        suffices = max(suffices, 0.3 * math.sqrt(2.0 * l2 * state.tol * problem.scale / block.m))
    if constant:
        return min(goal, max(suffices, (COARSE if block.dense and not state.slow else 1e-6) * violation))
    if not block.dense and state.relative_gap <= NEAR and suffices >= REACH * violation:
        goal = suffices  # models are right by now, and the end is not far: a round less (news20, logistic at 0.001: 9 -> 8)
    return max(goal, min(suffices, 0.3 * violation))


def sufficient_violation(problem: Any, state: Any) -> float:
    """A violation with which the dual point, scaled into the feasible set, leaves a third of the tolerance."""
    most = state.penalty or problem.scale  # no solution has a larger penalty than the value at zero
    return 0.3 * state.tol * problem.scale * problem.penalty.threshold / max(most, 1e-300)


def goal_of_thinned(problem: Any, state: Any, violation: float) -> float:
    """How well a thinned model is solved: roughly, but where its dual point may be the last, for what the tolerance allows."""
    if state.forecast > NEARLY_LAST * state.tol:
        return ROUGHLY * violation
    return min(1e-3 * violation, max(1e-6 * violation, STRICT * sufficient_violation(problem, state)))


def needs_care(problem: Any, state: Any) -> bool:
    """Whether models are to be solved well.

    At once if they are no approximations and sweeps are cheaper than rounds; of sparse data, once few columns lack, which tells
    more than the gap where that is due to them alone. With a threshold, once the support is about right.
    Without, once models are: the last step had the length that its model said (5000 x 2000, logistic with l2: 0.95 -> 0.6 s),
    or, where curvature jumps and lengths tell little, rounds gain little.
    """
    constant = getattr(problem.loss, "curvature_is_constant", False)
    if constant and not problem.matrix.is_sparse:
        return True
    if takes_near_ones(problem) and not state.followed and not state.slow:
        return state.lacking <= FEW_LACK or state.relative_gap <= LAST
    if state.relative_gap > LATE and not state.slow:
        return False
    if problem.penalty.threshold > 0.0:
        return True
    return state.size == 1.0 or (state.slow and not getattr(problem.loss, "curvature_is_smooth", False))


def sweeps_ahead(problem: Any, state: Any) -> int:
    """How many sweeps over sparse columns the next model takes, if it is solved with care and they go as the last; 0 if unknown.

    News20 lasso at 0.01: 30, so that the Gram matrix is formed a round earlier (23 -> 20 ms).
    """
    if not takes_near_ones(problem) or not 0.0 < state.rate < 1.0 or not needs_care(problem, state):
        return 0
    excess = float(np.abs(state.products.centres).max()) - problem.penalty.threshold
    goal = 0.03 * excess if problem.penalty.strong_convexity > 0.0 else sufficient_violation(problem, state)
    return math.ceil(math.log(excess / goal) / -math.log(state.rate)) if excess > goal > 0.0 else 0
