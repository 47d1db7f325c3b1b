"""Settings, runs and curves that the table and the figures of Lu and Freund (2020) share.

| here | in the paper |
|---|---|
| oracle call | linear optimization oracle call |
| sample gradient | stochastic gradient computation: one for each row of each batch |
| pass | n sample gradients |
| primal - optimum | P(beta^k) - P(beta^*) |
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saddlery.experiments.base import Record, Results, Run
from saddlery.experiments.papers import FRANK_WOLFE

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PAPER", "Curve", "curves_of", "optimum_of", "runs_of", "settings_of"]

PAPER = FRANK_WOLFE.citation
MODULE = "saddlery.experiments.frank_wolfe_runs"

# Batches are those of the paper's Table 2: 1 % of the rows for GSFW and SCGM (the default of these solvers); min(k^2, n/2) rows for
# SFW, min(k, n/2) for SVRF, min(k^3, n/2) for SCGS, which is growth 1.
# "free_start": the full gradient before the first step is not counted, as the paper does not count that of GSFW. SVRF takes full
# gradients all the time, so they count; of the default everything counts.
METHODS: dict[str, dict[str, Any]] = {
    "Frank-Wolfe": {"solver": "frank_wolfe", "options": {"step_rule": "open_loop"}, "most_passes": 1100, "free_start": True},
    "GSFW": {"solver": "gsfw", "options": {"step_rule": "convex"}, "most_passes": 700, "free_start": True},
    "SCGM": {"solver": "scgm", "options": {"step_factor": 2.0}, "most_passes": 2000},
    "SFW": {"solver": "sfw", "options": {"growth": 1.0}, "most_passes": 2000},
    "SVRF": {"solver": "svrf", "options": {"growth": 1.0}, "most_passes": 1000},
    "SCGS": {"solver": "scgs", "options": {"growth": 1.0}, "most_passes": 1000},
    "SAG-FW": {"solver": "sag_fw", "options": {}, "most_passes": 150, "free_start": True},
    "Saddlery default": {"solver": "auto", "options": {}, "most_passes": 100},
}
FULL: dict[str, Any] = {
    "data": ["a9a", "w8a", "mushrooms", "gisette"],
    "radius": 5.0,
    "target": 1e-5,
    "optimum": {"tol": 1e-12, "most_steps": 50_000},
    "seeds": {"GSFW": [0, 1, 2, 3, 4], "SCGM": [0, 1, 2], "SAG-FW": [0, 1, 2, 3, 4]},
    "most_oracle_calls": 1e6,
    "tol": 1e-7,
    "methods": METHODS,
}
QUICK: dict[str, Any] = {"data": ["mushrooms"], "seeds": {"GSFW": [0, 1, 2]}, "most_oracle_calls": 1e5}


def settings_of(quick: bool, methods: Sequence[str]) -> dict[str, Any]:
    """The settings with the methods that are asked for."""
    settings = copy.deepcopy({**FULL, **(QUICK if quick else {})})
    settings["methods"] = {name: settings["methods"][name] for name in methods}
    settings["seeds"] = {name: settings["seeds"].get(name, [0]) for name in methods}
    return settings


def runs_of(settings: dict[str, Any], data: Sequence[str], seeds: int | None = None) -> list[Run]:
    """The optimum and all methods on all data; `seeds` limits how many of the seeds are run."""
    runs = []
    for name in data:
        runs.append(_optimum_run(settings, name))
        for method in settings["methods"]:
            runs += [_method_run(settings, name, method, seed) for seed in settings["seeds"][method][:seeds]]
    return runs


def _optimum_run(settings: dict[str, Any], data: str) -> Run:
    arguments = {"radius": settings["radius"], **settings["optimum"]}
    return Run(f"optimum of {data}", f"{MODULE}:optimum", arguments, data, cost=500.0)


def _method_run(settings: dict[str, Any], data: str, method: str, seed: int) -> Run:
    chosen = settings["methods"][method]
    arguments = {
        "solver": chosen["solver"],
        "options": chosen["options"],
        "radius": settings["radius"],
        "most_passes": chosen["most_passes"],
        "most_oracle_calls": settings["most_oracle_calls"],
        "tol": settings["tol"],
        "seed": seed,
    }
    return Run(
        f"{method} on {data}, seed {seed}", f"{MODULE}:trajectory", arguments, data, (chosen["solver"],), chosen["most_passes"]
    )


# --------------------------------------------------------------------------- reading the records


@dataclass
class Curve:
    """A run as the table and the figures see it: arrays, one value for each step of the solver."""

    method: str
    record: Record
    oracle_calls: np.ndarray
    sample_gradients: np.ndarray
    error: np.ndarray  # primal - optimum
    gap: np.ndarray  # primal - best dual value so far

    def first(self, values: np.ndarray, target: float) -> int | None:
        """The first step at which `values` are at most `target`, or None."""
        below = (values <= target).nonzero()[0]
        return int(below[0]) if below.size else None

    def stays(self, values: np.ndarray, target: float) -> int | None:
        """The step from which on `values` stay at most `target`, or None."""
        above = (values > target).nonzero()[0]
        step = int(above[-1]) + 1 if above.size else 0
        return step if step < values.size else None


def optimum_of(results: Results, data: str) -> Record:
    """The record of the optimum of a data set."""
    return next(record for run, record in results.pairs if run.data == data and run.function.endswith(":optimum"))


def curves_of(settings: dict[str, Any], results: Results, data: str, method: str) -> list[Curve]:
    """The runs of a method on a data set, one for each seed."""
    import numpy as np

    chosen = settings["methods"][method]
    best = optimum_of(results, data).result["primal"]
    curves = []
    for record in results.of(data, solver=chosen["solver"], options=chosen["options"]):
        columns = {name: np.array(record.result[name]) for name in ("oracle_calls", "sample_gradients", "primal", "dual")}
        gradients = columns["sample_gradients"] - (record.result["initial_gradients"] if chosen.get("free_start") else 0.0)
        primal = columns["primal"]
        curves.append(Curve(method, record, columns["oracle_calls"], gradients, primal - best, primal - columns["dual"]))
    return curves
