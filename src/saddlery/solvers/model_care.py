"""How well a Newton model is to be solved: well enough for its round, and no better than the tolerance needs."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["goal_of", "goal_of_thinned", "needs_care", "sufficient_violation"]

LATE = 0.08  # relative gap below which columns are swept with care: the support is about right
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


def needs_care(problem: Any, state: Any, block: Any) -> bool:
    """Whether models are to be solved well.

    At once if they are no approximations and sweeps are cheaper than rounds. With a threshold, once the support is about right.
    Without, once models are: the last step had the length that its model said (5000 x 2000, logistic with l2: 0.95 -> 0.6 s),
    or, where curvature jumps and lengths tell little, rounds gain little.
    """
    if block.dense and getattr(problem.loss, "curvature_is_constant", False):
        return True
    if state.relative_gap > LATE and not state.slow:
        return False
    if problem.penalty.threshold > 0.0:
        return True
    return state.size == 1.0 or (state.slow and not getattr(problem.loss, "curvature_is_smooth", False))
