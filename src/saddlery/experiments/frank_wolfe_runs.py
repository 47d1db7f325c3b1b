"""What the experiments of Lu and Freund (2020) compute: an optimum that owes nothing to their methods, and runs of those methods.

The problem is theirs, eq. (25): mean logistic loss over the l1 ball, no intercept, data as they are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from saddlery.losses.logistic import Logistic
from saddlery.penalties.l1_ball import L1Ball
from saddlery.problems.linear import LinearProblem
from saddlery.registry import SOLVERS
from saddlery.solvers.auto import resolve
from saddlery.threads import small_products_on_one_thread

__all__ = ["optimum", "trajectory"]

CHECK_EVERY = 25  # steps of the projected gradient between two certificates
GRID = 1.03  # certificates of a run are this factor of oracle calls apart, since each costs up to two passes
FIRST = 200  # steps of a run that all get a certificate

Report = Callable[[float], None]


def _problem(data: Any, radius: float) -> LinearProblem:
    X, y = data
    return LinearProblem(X, y, Logistic(), L1Ball(radius))


def optimum(data: Any, report: Report, *, radius: float, tol: float, most_steps: int) -> dict[str, Any]:
    """The optimal value by accelerated projected gradient steps with backtracking and restarts, to a certified relative gap `tol`.

    Beck and Teboulle 2009 for the step, O'Donoghue and Candes 2015 for the restart. It shares no line with the solvers that are
    measured by its answer, other than the problem itself.
    """
    problem = _problem(data, radius)
    w = np.zeros(problem.d)
    v, momentum, step = w, 1.0, 1.0
    certificate, steps = problem.certify(w), 0
    with small_products_on_one_thread(problem.size):
        while certificate.relative_gap > tol and steps < most_steps:
            Xv = problem.margins(v)
            value, gradient = problem.loss_value(Xv), problem.matrix.rmatvec(problem.s * problem.slopes(Xv))
            step *= 1.1
            while True:
                new = problem.penalty.prox(v - step * gradient, step)
                move = new - v
                bound = value + gradient @ move + move @ move / (2.0 * step)
                if problem.primal(new) <= bound + 1e-15:  # slack for rounding
                    break
                step *= 0.5
            if (v - new) @ (new - w) > 0.0:  # the momentum points uphill: start it anew
                momentum = 1.0
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            v, w, momentum = new + (momentum - 1.0) / following * (new - w), new, following
            steps += 1
            if steps % CHECK_EVERY == 0:
                certificate = problem.certify(w)
                report(math.log(max(certificate.relative_gap, tol)) / math.log(tol))
    return {
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.gap,
        "relative_gap": certificate.relative_gap,
        "steps": steps,
        "nonzeros": int(np.count_nonzero(w)),
        "n": problem.n,
        "d": problem.d,
        "nnz": problem.matrix.nnz,
    }


def trajectory(
    data: Any,
    report: Report,
    *,
    solver: str,
    options: dict[str, Any],
    radius: float,
    most_passes: float,
    most_oracle_calls: float,
    tol: float,
    seed: int,
) -> dict[str, Any]:
    """Primal values, best dual values and counted calls of a solver, after each of its steps.

    It ends when one of the budgets is used up or the relative gap is certified to `tol`. Dual values are looked at less and less
    often; in between the last one stands, which is a bound all the same. ``initial_gradients`` says how many of the sample
    gradients belong to a full gradient at the start, which the paper does not count.
    """
    problem = _problem(data, radius)
    method = resolve(problem, "auto" if solver == "auto" else SOLVERS.get(solver)(**options))
    columns: dict[str, list[float]] = {name: [] for name in ("oracle_calls", "sample_gradients", "passes", "primal", "dual")}
    best, checked = -math.inf, 0.0
    with small_products_on_one_thread(problem.size):
        state = method.init(problem, None, np.random.default_rng(seed))
        while True:
            counts, point, steps = state.counts, method.point(problem, state), len(columns["primal"])
            if steps <= FIRST or counts["oracle_calls"] >= GRID * checked:
                primal, dual = problem.evaluate(point)
                best, checked = max(best, dual.value), counts["oracle_calls"]
                state.relative_gap = (primal - best) / problem.scale
            else:
                primal = problem.primal(point.w, point.b, point.Xw)
            values = (counts["oracle_calls"], counts["sample_gradients"], state.accesses / problem.size, primal, best)
            for column, value in zip(columns.values(), values, strict=True):
                column.append(float(value))
            shares = (counts["sample_gradients"] / (most_passes * problem.n), counts["oracle_calls"] / most_oracle_calls)
            report(max(shares))
            if max(shares) >= 1.0 or state.stalled or state.relative_gap <= tol:
                break
            method.step(problem, state)
    initial = float(counts.get("initial_gradients", 0.0))
    about = {"solver": method.name, "options": dataclasses.asdict(method), "n": problem.n, "d": problem.d}
    return {**about, "initial_gradients": initial, **columns}
