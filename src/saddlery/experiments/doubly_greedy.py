"""Settings and runs that the figure and the table of Lei, Yen, Wu, Dhillon and Ravikumar (2017) share.

The paper's Aloi, RCV1-Regions and Sector are not used; news20 stands for sparse text. Kernel widths are not printed, so those here
are our choice, and the sizes are ours too.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from saddlery.experiments.base import Record, Results, Run
from saddlery.experiments.papers import DOUBLY_GREEDY

__all__ = ["METHODS", "PAPER", "method_run", "optimum_of", "optimum_runs", "records_of", "settings_of"]

PAPER = DOUBLY_GREEDY.citation
MODULE = "saddlery.experiments.doubly_greedy_runs"
METHODS: dict[str, dict[str, Any]] = {
    "DGPD, active sets": {"solver": "dgpd_active", "options": {}},
    "active sets, row by row": {"solver": "active_sdca", "options": {}},
    "primal CD": {"solver": "primal_cd", "options": {}},
    "SDCA": {"solver": "sdca", "options": {}},
    "SPDC": {"solver": "spdc", "options": {}},
    "Saddlery default": {"solver": "auto", "options": {}},
}
SETS: dict[str, dict[str, Any]] = {
    "mnist, Fourier": {
        "data": "mnist",
        "labels": [8, 3, 0],
        "features": {"kind": "fourier", "rows": 20_000, "count": 4000, "width": 5.0, "largest": 255.0, "seed": 0},
    },
    "mnist, binning": {
        "data": "mnist",
        "labels": [8, 3, 0],
        "features": {"kind": "binning", "rows": 58_000, "count": 1000, "width": 40.0, "largest": 255.0, "seed": 0},
        "without": ["SPDC"],  # it changes all d weights for each row, and d is 1.5 million here
    },
    "news20": {"data": "news20-classes", "labels": [1, 8, 15], "features": {"kind": "unit", "rows": None, "seed": 0}},
}
FULL: dict[str, Any] = {
    "data": ["mnist", "news20-classes"],
    "sets": SETS,
    "strengths": [[0.1, 0.01], [0.1, 0.1], [0.1, 1.0], [0.01, 0.01], [0.01, 0.1], [0.01, 1.0]],  # the first is Figure 1's
    "methods": METHODS,
    "most_seconds": 20.0,
    "most_epochs": 20_000,
    "tol": 1e-6,
    "optimum_tol": 1e-8,
    "seed": 0,
}
SMALL = {"mnist, Fourier": {"rows": 3000, "count": 600}, "mnist, binning": {"rows": 4000, "count": 50}, "news20": {"rows": 5000}}
QUICK: dict[str, Any] = {"strengths": [[0.1, 0.01]], "most_seconds": 3.0, "optimum_tol": 1e-8}


def settings_of(quick: bool) -> dict[str, Any]:
    """All choices; a quick run has fewer rows, one class and the strengths of Figure 1."""
    settings = copy.deepcopy({**FULL, **(QUICK if quick else {})})
    if quick:
        for name, entry in settings["sets"].items():
            entry["features"].update(SMALL[name])
            entry["labels"] = entry["labels"][:1]
            entry.pop("without", None)
    return settings


def _problem(settings: dict[str, Any], name: str, label: float, strengths: Sequence[float]) -> dict[str, Any]:
    lam, mu = strengths
    return {"features": settings["sets"][name]["features"], "label": label, "lam": lam, "mu": mu}


def optimum_runs(settings: dict[str, Any], name: str, strengths: Sequence[float], labels: Sequence[float]) -> list[Run]:
    """The optimal values of some classes."""
    data = settings["sets"][name]["data"]
    return [
        Run(
            f"optimum of {name}, class {label}, lambda {strengths[0]:g}, mu {strengths[1]:g}",
            f"{MODULE}:optimum",
            {**_problem(settings, name, label, strengths), "tol": settings["optimum_tol"]},
            data,
            ("auto",),
            20.0,
        )
        for label in labels
    ]


def method_run(settings: dict[str, Any], name: str, strengths: Sequence[float], label: float, method: str) -> Run:
    """One method on one class."""
    chosen = settings["methods"][method]
    limits = {key: settings[key] for key in ("most_seconds", "most_epochs", "tol", "seed")}
    return Run(
        f"{method} on {name}, class {label}, lambda {strengths[0]:g}, mu {strengths[1]:g}",
        f"{MODULE}:trajectory",
        {**_problem(settings, name, label, strengths), **chosen, **limits},
        settings["sets"][name]["data"],
        (chosen["solver"],),
        settings["most_seconds"],
    )


def records_of(
    settings: dict[str, Any], results: Results, name: str, strengths: Sequence[float], label: float, method: str
) -> Record | None:
    """The record of a method, if it was run."""
    chosen = settings["methods"][method]
    wanted = {**_problem(settings, name, label, strengths), **chosen}
    found = results.of(settings["sets"][name]["data"], **wanted)
    return found[0] if found else None


def optimum_of(settings: dict[str, Any], results: Results, name: str, strengths: Sequence[float], label: float) -> Record:
    """The record of an optimal value."""
    wanted = _problem(settings, name, label, strengths)
    return results.of(settings["sets"][name]["data"], **wanted, tol=settings["optimum_tol"])[0]
