"""Re-fit the table behind ``solver="auto"`` (``src/saddlery/solvers/auto.json``) on measured times.

Examples::

    python benchmarks/fit_auto.py measure              time every solver on every problem of the grid; goes on where it was stopped
    python benchmarks/fit_auto.py                      judge the present table, fit a new one, show both
    python benchmarks/fit_auto.py --write              and write the new one

A table is a list of rules; the first whose conditions hold names the solver. Rules are found one after the other: of all
conjunctions of a few conditions and all solvers the one that takes most from the regret of the problems not yet covered. The regret
of a problem is the logarithm of the time of the solver chosen for it over that of the fastest, for the gaps 1e-4 and 1e-6.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(HERE))

import datasets  # noqa: E402

import saddlery as sd  # noqa: E402
from saddlery.solvers.auto import Facts, holds  # noqa: E402

TABLE = HERE.parent / "src" / "saddlery" / "solvers" / "auto.json"
TIMES = HERE / "results" / "auto_times.json"
GAPS = (1e-4, 1e-6)
SOLVERS = ("prox_newton", "active_sdca", "augmented_newton", "proximal_point", "row_space", "sdca")
BINARY = ("leu", "a9a", "news20", "w8a", "colon", "ijcnn1", "mushrooms", "letter", "satimage", "dna")
REGRESSION = ("housing", "leu", "cpusmall")
FLAGS = ("smooth", "signs", "strongly_convex", "selects", "intercept", "sparse")
NUMBERS = ("n", "d", "columns_per_row")
LIMITS = {"n": (500, 2000, 20_000), "d": (100, 500, 2000), "columns_per_row": (0.05, 0.3, 1.0, 1.5)}
MOST_RULES, LEAST_GAIN = 10, 0.5
HOPELESS = 15.0  # a solver that takes so many times as long as another is given up
PENALTY = 4.0  # regret of a solver that did not arrive: as if it took e^4 times as long


def problems(data: Path) -> Iterator[tuple[str, Any]]:
    """All problems of the grid with their names."""
    for sets, losses in ((BINARY, ("logistic", "squared_hinge", "hinge")), (REGRESSION, ("squared",))):
        for name in sets:
            try:
                X, y = datasets.load(name, data)
            except (FileNotFoundError, KeyError):
                continue
            X = sd.LinearProblem(X, y, loss=losses[0], penalty=sd.penalties.L1(1.0)).matrix
            _ = X.rows, X.cols
            for loss, intercept in itertools.product(losses, (False, True)):
                base = sd.LinearProblem(X, y, loss=loss, penalty=sd.penalties.L1(1.0), fit_intercept=intercept)
                top = base.alpha_max()
                penalties = {f"l1-{r}": sd.penalties.L1(r * top) for r in (0.1, 0.01)}
                penalties |= {f"en-{r}": sd.penalties.ElasticNet(2 * r * top, 0.5) for r in (0.1, 0.01)}
                penalties |= {"l2": sd.penalties.L2(1.0 / base.n)}
                for kind, penalty in penalties.items():
                    yield f"{name}:{loss}:{kind}{':b' if intercept else ''}", base.with_penalty(penalty)


def measure(data: Path, seconds: float) -> None:
    """Time what is missing in the file of times."""
    known = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    TIMES.parent.mkdir(exist_ok=True)
    for name, problem in problems(data):
        entry = known.setdefault(name, {"facts": facts_of(problem), "times": {}})
        able = set(sd.solvers.available(problem))
        for solver in (solver for solver in SOLVERS if solver in able and solver not in entry["times"]):
            fastest = [min((t[k] for t in entry["times"].values() if t[k] is not None), default=seconds) for k in range(len(GAPS))]
            limits = [min(seconds, max(0.1, HOPELESS * time)) for time in fastest]
            entry["times"][solver] = [timed(problem, solver, gap, limit) for gap, limit in zip(GAPS, limits, strict=True)]
            TIMES.write_text(json.dumps(known) + "\n")
        best = {solver: times[-1] for solver, times in entry["times"].items() if times[-1] is not None}
        print(f"{name:40}", min(best, key=best.__getitem__) if best else "-", flush=True)


def facts_of(problem: Any) -> dict[str, Any]:
    """The facts that conditions may ask for."""
    facts = Facts(problem)
    return {name: getattr(facts, name) for name in (*FLAGS, *NUMBERS)}


def timed(problem: Any, solver: str, gap: float, seconds: float) -> float | None:
    """CPU seconds to a certified relative gap, the lesser of two runs; None if it is not reached in time."""
    times = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):  # the first may compile, and be given up for that
            began = time.process_time()
            solution = sd.solve(problem, solver, tol=gap, max_epochs=10**6, max_seconds=seconds)
            times.append(time.process_time() - began)
            if solution.status is not sd.Status.CONVERGED and len(times) > 1:
                return None
            if times[-1] > 0.5 and len(times) > 1:
                break
    return min(times[1:] or times)


# --------------------------------------------------------------------------- fitting


def regret(entry: dict[str, Any], solver: str) -> float | None:
    """Mean over the gaps of log(time / best time); None if the solver cannot solve the problem at all."""
    if solver not in entry["times"]:
        return None
    total = 0.0
    for k in range(len(GAPS)):
        times = {name: values[k] for name, values in entry["times"].items() if values[k] is not None}
        mine = times.get(solver)
        total += PENALTY if mine is None else math.log(mine / min(times.values()))
    return total / len(GAPS)


def chosen(rules: list[dict[str, Any]], entry: dict[str, Any]) -> str:
    """The solver that a table gives a problem."""
    for rule in rules:
        asked = {name: value for name, value in rule["when"].items() if name in entry["facts"]}
        if len(asked) < len(rule["when"]):  # it asks for something that is not measured here: taken as not true
            continue
        if rule["solver"] in entry["times"] and all(holds(value, entry["facts"][name]) for name, value in asked.items()):
            return rule["solver"]
    return next(iter(entry["times"]))


def total_regret(rules: list[dict[str, Any]], entries: list[dict[str, Any]]) -> float:
    """The sum over all problems."""
    return sum(regret(entry, chosen(rules, entry)) or 0.0 for entry in entries)


def conditions() -> list[dict[str, Any]]:
    """Conjunctions of at most two flags and one range."""
    flags = [{name: value} for name in FLAGS for value in (True, False)]
    ranges = [{name: [low, None]} for name in NUMBERS for low in LIMITS[name]]
    ranges += [{name: [None, high]} for name in NUMBERS for high in LIMITS[name]]
    pairs = [{}, *flags, *({**a, **b} for a, b in itertools.combinations(flags, 2) if not set(a) & set(b))]
    return [{**pair, **span} for pair in pairs for span in ({}, *ranges)]


def fit(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rules, the most useful first; a problem belongs to the first that holds for it."""
    names = [solver for solver in SOLVERS if any(solver in entry["times"] for entry in entries)]
    rules: list[dict[str, Any]] = [{"when": {}, "solver": "prox_newton"}]
    while len(rules) < MOST_RULES:
        before = total_regret(rules, entries)
        best = (LEAST_GAIN, None)
        for when, solver in itertools.product(conditions(), names):
            trial = [*rules[:-1], {"when": when, "solver": solver}, rules[-1]]
            # Each condition costs a little, so that of two that do the same the simpler is taken.
            gain = before - total_regret(trial, entries) - 0.05 * len(when)
            if gain > best[0]:
                best = (gain, trial)
        if best[1] is None:
            break
        rules = best[1]
    return rules


def main() -> None:
    """Measure, or fit."""
    parser = argparse.ArgumentParser(description="Re-fit the table behind solver='auto' on measured times.")
    parser.add_argument("what", nargs="?", choices=("measure", "fit"), default="fit")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", metavar="DIR", help="the data sets")
    parser.add_argument("--seconds", type=float, default=3.0, help="after which a solver is given up")
    parser.add_argument("--write", action="store_true", help="write the fitted table")
    options = parser.parse_args()
    if options.what == "measure":
        measure(options.data, options.seconds)
        return
    entries = [entry for entry in json.loads(TIMES.read_text()).values() if entry["times"]]
    table = json.loads(TABLE.read_text())
    best = total_regret([{"when": {}, "solver": "prox_newton"}], entries)
    print(f"{len(entries)} problems; mean factor to the fastest solver:")
    print(f"  prox_newton wherever it can   {math.exp(best / len(entries)):.3f}")
    print(f"  the present table             {math.exp(total_regret(table['rules'], entries) / len(entries)):.3f}")
    rules = fit(entries)
    print(f"  the fitted table              {math.exp(total_regret(rules, entries) / len(entries)):.3f}")
    for rule in rules:
        print("   ", json.dumps(rule))
    for name, entry in json.loads(TIMES.read_text()).items():
        loss = regret(entry, chosen(table["rules"], entry)) if entry["times"] else None
        if loss is not None and loss > math.log(1.5):
            print(f"  {name:40} {chosen(table['rules'], entry)} is {math.exp(loss):.1f} times slower than the fastest")
    if options.write:
        table["rules"] = [{**rule, "why": rule.get("why", "fitted by benchmarks/fit_auto.py")} for rule in rules]
        TABLE.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
