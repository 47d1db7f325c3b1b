"""Measured problems as arrays: what a choice of solver costs on each, and what a table of rules costs on all.

The regret of a problem is the logarithm of the time of the solver chosen for it over that of the fastest, the mean over the gaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from saddlery.solvers.auto import holds

__all__ = ["Judgement", "Sheet", "regret"]

TABLE_WEIGHT = 3.0  # of the cells of the comparison, for which the table is fitted in the first place
Rule = dict[str, Any]  # "when": conditions by fact, "solver": name, "why": words


def regret(times: Mapping[str, list[float | None]], solver: str, missing: float) -> float:
    """Mean over the gaps of log(time / best time); `missing` for a gap that others reached and this solver did not."""
    total = 0.0
    for k, mine in enumerate(times[solver]):
        best = min((values[k] for values in times.values() if values[k] is not None), default=None)
        if best is not None:
            total += missing if mine is None else math.log(mine / best)
    return total / len(times[solver])


class Judgement(NamedTuple):
    """Factors to the fastest solver: the geometric mean, the largest and where it is, and how often the last gap is not reached."""

    mean: float
    worst: float
    where: str
    missed: int

    def __str__(self) -> str:
        return f"mean {self.mean:.3f}, worst {self.worst:6.2f} ({self.where}), not arrived {self.missed}"


class Sheet:
    """Problems x solvers.

    Attributes
    ----------
    regrets : array of shape (problems, solvers)
        Infinite where the solver cannot solve the problem.
    families : array of shape (problems,)
        The kind of data of each problem, by number.
    weights : array of shape (problems,)
        How much a problem counts in a fit.
    """

    def __init__(self, entries: Mapping[str, Mapping[str, Any]], missing: float):
        self.names = [name for name, entry in entries.items() if entry["times"]]
        self.entries = [entries[name] for name in self.names]
        self.solvers = sorted({solver for entry in self.entries for solver in entry["times"]})
        self.families = np.unique([entry["family"] for entry in self.entries], return_inverse=True)[1]
        self.weights = np.array([TABLE_WEIGHT if entry["in_table"] else 1.0 for entry in self.entries])
        self.regrets = np.full((len(self.names), len(self.solvers)), np.inf)
        for i, entry in enumerate(self.entries):
            for solver in entry["times"]:
                self.regrets[i, self.solvers.index(solver)] = regret(entry["times"], solver, missing)
        able = np.isfinite(self.regrets)
        self.able = {solver: able[:, j] for j, solver in enumerate(self.solvers)}
        self.slowest = np.max(np.where(able, self.regrets, 0.0), axis=1, initial=0.0)
        self._masks: dict[tuple[str, str], np.ndarray] = {}

    def part(self, mask: np.ndarray) -> Sheet:
        """Some of the problems, with the solvers and families of all."""
        out = object.__new__(Sheet)
        index = np.flatnonzero(mask)
        out.names, out.entries = [self.names[i] for i in index], [self.entries[i] for i in index]
        out.solvers, out.regrets = self.solvers, self.regrets[index]
        out.families, out.weights = self.families[index], self.weights[index]
        out.able, out.slowest = {solver: able[index] for solver, able in self.able.items()}, self.slowest[index]
        out._masks = {}
        return out

    def fulfil(self, when: Mapping[str, Any]) -> np.ndarray:
        """Which problems fulfil all conditions."""
        out = np.ones(len(self.names), dtype=bool)
        for name, condition in when.items():
            key = (name, repr(condition))
            if key not in self._masks:
                facts = (entry["facts"].get(name) for entry in self.entries)  # a fact that is not there fulfils nothing
                self._masks[key] = np.array([fact is not None and holds(condition, fact) for fact in facts], dtype=bool)
            out &= self._masks[key]
        return out

    def owners(self, rules: Iterable[Rule]) -> np.ndarray:
        """The number of the rule that decides each problem, as ``auto`` reads them; -1 where none does."""
        out = np.full(len(self.names), -1)
        for number, rule in enumerate(rules):
            if rule["solver"] in self.able:
                out[(out < 0) & self.able[rule["solver"]] & self.fulfil(rule["when"])] = number
        return out

    def costs(self, rules: list[Rule], owners: np.ndarray | None = None) -> np.ndarray:
        """The regret of a table on each problem; a problem without a rule costs as much as with its slowest solver."""
        owners = self.owners(rules) if owners is None else owners
        out = self.slowest.copy()
        columns = np.array([self.solvers.index(rule["solver"]) if rule["solver"] in self.able else -1 for rule in rules])
        index = np.flatnonzero(owners >= 0)
        out[index] = self.regrets[index, columns[owners[index]]]
        return out

    def chosen(self, rules: list[Rule]) -> list[str]:
        """The solver that a table gives each problem; "" where no rule holds."""
        return [rules[number]["solver"] if number >= 0 else "" for number in self.owners(rules)]

    def pains(self, costs: np.ndarray) -> np.ndarray:
        """What a fit minimises: r + r^2 for a regret r, so that small differences, which are noise, count little."""
        return self.weights * (costs + costs * costs)

    def by_family(self, values: np.ndarray) -> np.ndarray:
        """Sums over the problems of each family."""
        return np.bincount(self.families, weights=values)

    def judge(self, costs: np.ndarray, chosen: list[str], mask: np.ndarray | None = None) -> Judgement:
        """How good choices are, on all problems or on some."""
        index = np.arange(len(costs)) if mask is None else np.flatnonzero(mask)
        worst = index[np.argmax(costs[index])]
        missed = sum(self.entries[i]["times"].get(chosen[i], [None])[-1] is None for i in index)
        return Judgement(math.exp(costs[index].mean()), math.exp(costs[worst]), self.names[worst], missed)
