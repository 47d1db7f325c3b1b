"""CUR: the oracle against HiGHS, the optimum against a conic solver, and what the two solvers cost as radius and size grow.

Run: python benchmarks/cur.py            (some minutes: most of them are HiGHS and Clarabel; --quick leaves out the slowest)
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

import saddlery as sd
from saddlery.penalties import CURBall
from saddlery.solvers.cur_corrective import CURCorrective

HERE = Path(__file__).resolve().parent
LEVELS = (1e-2, 1e-4, 1e-6)


def timed(call: Callable[[], Any], runs: int = 1) -> tuple[Any, float]:
    """The answer of a call and its least time over some runs."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        answer = call()
        times.append(time.perf_counter() - began)
    return answer, min(times)


def low_rank(n: int, d: int, rank: int = 4, noise: float = 0.3, seed: int = 0) -> np.ndarray:
    """A random matrix of low rank with noise."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))


def in_units(M: np.ndarray, units: float) -> sd.CURProblem:
    """The problem with a radius of so many times 1 / the largest singular value."""
    problem = sd.CURProblem(M, 1.0)
    return problem.with_radius(units * problem.unit)


# --------------------------------------------------------------------------- the oracle


def highs(C: np.ndarray) -> float:
    """max sum_ij C_ij z_ij over z_ij <= r_i, z_ij <= c_j, sum r <= 1, sum c <= 1."""
    p, q = C.shape
    entries = sp.identity(p * q)
    rows, columns = sp.kron(sp.identity(p), np.ones((q, 1))), sp.kron(np.ones((p, 1)), sp.identity(q))
    sums = sp.csr_array(np.vstack([np.r_[np.zeros(p * q), np.ones(p), np.zeros(q)], np.r_[np.zeros(p * q + p), np.ones(q)]]))
    A = sp.vstack([sp.hstack([entries, -rows, 0 * columns]), sp.hstack([entries, 0 * rows, -columns]), sums]).tocsr()
    accuracy = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    answer = linprog(
        -np.r_[C.ravel(), np.zeros(p + q)], A_ub=A, b_ub=np.r_[np.zeros(2 * p * q), 1.0, 1.0], method="highs", options=accuracy
    )
    return float(-answer.fun)


def gradients(size: int) -> Iterator[tuple[str, np.ndarray]]:
    """Matrices for the oracle: random ones, and the gradient at the end of a run, where nearly all atoms are alike."""
    rng = np.random.default_rng(0)
    yield "Gaussian", rng.standard_normal((size, size))
    yield "rank 3", rng.standard_normal((size, 3)) @ rng.standard_normal((3, size))
    problem = in_units(low_rank(size, size), 3.0)
    solution = sd.solve(problem, tol=1e-6)
    yield "gradient at a relative gap of 1e-6", problem.gradient(solution.dual)


def oracle_table(size: int, with_highs: bool) -> list[str]:
    """Value, bound and time of the oracle, beside HiGHS."""
    lines = [
        f"| {size} x {size} matrix | min cuts | oracle, s | HiGHS, s | times faster | oracle against HiGHS | bound over value |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, G in gradients(size):
        (W, shared), seconds = timed(partial(CURBall(1.0).best_response, G), 5)
        attained = float(-np.vdot(G, W))
        if with_highs:
            value, other = timed(lambda G=G: highs(np.abs(G) / np.abs(G).max()) * np.abs(G).max())
            beside = f"{other:.1f} | {other / seconds:.0f} | {abs(attained - value) / value:.1e}"
        else:
            beside = "- | - | -"
        lines.append(f"| {name} | {shared.flows} | {seconds:.4f} | {beside} | {(shared.bound - attained) / attained:.1e} |")
        print(lines[-1])
    return lines


# --------------------------------------------------------------------------- the optimum


def conic(M: np.ndarray, radius: float) -> float:
    """The optimal value by CVXPY and Clarabel."""
    import cvxpy as cp

    W = cp.Variable(M.shape[::-1])
    budgets = [cp.sum(cp.max(cp.abs(W), axis=axis)) <= radius for axis in (0, 1)]
    model = cp.Problem(cp.Minimize(cp.sum_squares(M @ W @ M - M) / (2 * M.size)), budgets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(model.value)


def optimum_table(all_radii: tuple[float, ...]) -> list[str]:
    """30 x 20: our certified values beside those of the conic solver."""
    lines = [
        "| radius x top | Clarabel, s | optimum / P(0) | solver | seconds | relative gap | (P - optimum) / P(0) |",
        "|---|---|---|---|---|---|---|",
    ]
    M = low_rank(30, 20)
    for units in all_radii:
        problem = in_units(M, units)
        optimum, slow = timed(partial(conic, M, problem.penalty.radius))
        for solver in ("cur_hybrid", "cur_splitting", "cur_corrective"):
            call = partial(sd.solve, problem, solver, tol=1e-7, max_epochs=5000, max_seconds=20)
            solution, seconds = timed(call)
            error = (solution.certificate.primal - optimum) / problem.scale
            lines.append(
                f"| {units:g} | {slow:.1f} | {optimum / problem.scale:.6f} | {solver} | {seconds:.2f} | "
                f"{solution.certificate.relative_gap:.1e} | {error:.1e} |"
            )
            print(lines[-1])
    return lines


# --------------------------------------------------------------------------- the solvers


def first_at(solution: sd.Solution, value: Callable[[Any], str]) -> str:
    """What stood in the trace when each level of the relative gap was reached."""
    cells = []
    for level in LEVELS:
        record = next((record for record in solution.trace if record.relative_gap <= level), None)
        cells.append("-" if record is None else value(record))
    return " / ".join(cells)


def solver_table(shapes: tuple[tuple[int, int], ...], seconds: float) -> list[str]:
    """Time, and oracle calls, to relative gaps of 1e-2, 1e-4 and 1e-6."""
    lines = [
        "| data | radius x top | hybrid (default), s | splitting, s | corrective, s | its oracle calls | those of line search |",
        "|---|---|---|---|---|---|---|",
    ]
    for shape in shapes:
        for units in (0.5, 1.5, 5.0, 50.0):
            problem = in_units(low_rank(*shape), units)
            both, fast, fully, line = (
                sd.solve(problem, solver, tol=1e-6, max_epochs=10_000, max_seconds=seconds)
                for solver in ("cur_hybrid", "cur_splitting", "cur_corrective", CURCorrective(step_rule="line_search"))
            )
            calls = [first_at(solution, lambda record: f"{record.counts['oracle_calls']:g}") for solution in (fully, line)]
            times = [first_at(solution, lambda record: f"{record.seconds:.2f}") for solution in (both, fast, fully)]
            lines.append(
                f"| {shape[0]} x {shape[1]} | {units:g} | {times[0]} | {times[1]} | {times[2]} | {calls[0]} | {calls[1]} |"
            )
            print(lines[-1])
    return lines


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller matrices, shorter runs")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "cur.md")
    options = parser.parse_args()
    sd.solve(sd.CURProblem(low_rank(5, 4), 0.1))  # compiled
    shapes = ((30, 20), (60, 40)) if options.quick else ((30, 20), (100, 100), (300, 200))
    text = [
        "# CUR",
        "",
        "Written by `python benchmarks/cur.py`: data of rank 4 with noise 0.3 (`low_rank`), one thread; `radius x top` is the",
        "radius times the largest singular value of the data.",
        "",
        "## The oracle against HiGHS",
        "",
        *oracle_table(30 if options.quick else 100, True),
        "",
        *([] if options.quick else [*oracle_table(400, False), ""]),
        "## The optimum against a conic solver, 30 x 20",
        "",
        *optimum_table((1.5,) if options.quick else (0.5, 1.5, 5.0, 50.0)),
        "",
        "## Cost to relative gaps of 1e-2 / 1e-4 / 1e-6",
        "",
        f"At most {5 if options.quick else 20} seconds a run; - is not reached.",
        "",
        *solver_table(shapes, 5.0 if options.quick else 20.0),
    ]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("\n".join(text) + "\n", encoding="utf-8")
    print(f"written to {options.output.name}")


if __name__ == "__main__":
    main()
