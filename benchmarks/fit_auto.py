"""Re-fit the table behind ``solver="auto"`` (``src/saddlery/solvers/auto.json``) on measured times.

Examples::

    python benchmarks/fit_auto.py measure              time all solvers on all problems of the grid; goes on where it was stopped
    python benchmarks/fit_auto.py measure --only leu   the same for some sets
    python benchmarks/fit_auto.py                      judge the present table, fit a new one from it, show both
    python benchmarks/fit_auto.py --left-out           and judge each set by the table that is fitted on all others
    python benchmarks/fit_auto.py --write              and write the new table

The problems are in ``auto_lib/grid.py``, the search for rules in ``auto_lib/fitting.py``. Half an hour for
the times, ten seconds for a fit, and that for each set with ``--left-out``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402
from auto_lib import grid, times  # noqa: E402
from auto_lib.fitting import cross_validated, fit  # noqa: E402
from auto_lib.sheet import Sheet  # noqa: E402

TABLE = HERE.parent / "src" / "saddlery" / "solvers" / "auto.json"
TIMES = HERE / "results" / "auto_times.json"
NOTHING = [  # what a fit from nothing starts with
    {"when": {"smooth": False}, "solver": "proximal_point", "why": "the only one that can always"},
    {"when": {}, "solver": "prox_newton", "why": "the fastest all-rounder"},
]
SHOWN = 1.5  # a choice that is so many times slower than the fastest is listed


def report(sheet: Sheet, title: str, costs: np.ndarray, chosen: list[str]) -> None:
    """Judgements of choices on all problems and on parts of them."""
    entries = sheet.entries
    listed = np.array([entry["in_table"] for entry in entries])
    intercept = np.array([entry["facts"]["intercept"] for entry in entries])
    print(title)
    parts = {"all": listed | True, "cells of peers.py": listed, "no intercept": ~intercept, "intercept": intercept}
    for name, mask in parts.items():
        if mask.any():
            print(f"  {name:18} {sheet.judge(costs, chosen, mask)}")


def weak_choices(sheet: Sheet, rules: list[dict[str, Any]]) -> None:
    """The problems for which a table does not choose well, and those that nobody solves in time."""
    for name, entry, cost, solver in zip(sheet.names, sheet.entries, sheet.costs(rules), sheet.chosen(rules), strict=True):
        best = {key: values[-1] for key, values in entry["times"].items() if values[-1] is not None}
        fastest = min(best, key=best.__getitem__, default="nobody")
        if cost > math.log(SHOWN) or not best:
            factor, seconds = math.exp(cost), best.get(fastest, math.nan)
            print(f"  {name:40} {solver:16} {factor:6.2f} times slower than the fastest (to 1e-6 {fastest}, {seconds:.4f} s)")


def written(table: dict[str, Any]) -> str:
    """A table as text, one rule a line."""
    parts = []
    for key, value in table.items():
        if isinstance(value, list):
            lines = ",\n".join(f"    {json.dumps(rule)}" for rule in value)
            parts.append(f"  {json.dumps(key)}: [\n{lines}\n  ]")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Measure, or fit."""
    parser = argparse.ArgumentParser(description="Re-fit the table behind solver='auto' on measured times.")
    parser.add_argument("what", nargs="?", choices=("measure", "fit"), default="fit")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data", metavar="DIR", help="the data sets")
    parser.add_argument("--only", action="append", metavar="SET", help="a data set to measure; may be given again")
    parser.add_argument("--seconds", type=float, default=2.0, help="after which a solver is given up")
    parser.add_argument("--left-out", action="store_true", help="judge on sets that the fit has not seen")
    parser.add_argument("--from-nothing", action="store_true", help="start from two rules instead of the present table")
    parser.add_argument("--write", action="store_true", help="write the fitted table")
    options = parser.parse_args()
    if options.what == "measure":
        times.measure(grid.trials(options.data, lambda name: name in (options.only or grid.SETS)), TIMES, options.seconds)
        return
    table = json.loads(TABLE.read_text())
    sheet = Sheet(json.loads(TIMES.read_text()), missing=math.log(times.HOPELESS))
    sets = {entry["data"] for entry in sheet.entries}
    print(f"{len(sheet.names)} problems of {len(sets)} data sets; factors to the fastest solver:")
    present, start = table["rules"], NOTHING if options.from_nothing else table["rules"]
    report(sheet, "the present table", sheet.costs(present), sheet.chosen(present))
    fitted = fit(sheet, start)
    report(sheet, "the fitted table", sheet.costs(fitted), sheet.chosen(fitted))
    if options.left_out:
        report(sheet, "tables fitted without the set that they are judged on", *cross_validated(sheet, start))
    for rule in present:
        if rule not in fitted:
            print("  -", json.dumps(rule))
    for rule in fitted:
        if rule not in present:
            print("  +", json.dumps(rule))
    weak_choices(sheet, fitted)
    if options.write:
        table["rules"] = fitted
        TABLE.write_text(written(table))


if __name__ == "__main__":
    main()
