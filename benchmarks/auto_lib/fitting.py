"""The search for rules: a table is changed move by move, each time by the one that gains most.

Moves: a new rule before all others or before the last one, another solver for a rule, another bound or one condition less, a rule
less. What a table costs is the sum of its regrets and a price for each rule and condition. A move must gain on two sets at least:
what is left of its gain without the set where it gains most must still be worth it. Rules about facts that no problem here has
(constraints, data read in parts) are left alone, and so are rules that decide nothing here: there is no evidence against them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from .sheet import Rule, Sheet

__all__ = ["cross_validated", "fit"]

RULE, CONDITION = 1.0, 0.2  # prices in regrets: a factor of e on one problem each
LEAST_GAIN = 0.5  # of a move, after the price
LEAST_ELSEWHERE = 0.5  # of a move, without the set where it gains most
MOST_MOVES = 60
ABSENT = ("bounded", "corners", "ball", "partial")
NEW = {"partial": False}  # a new rule knows nothing of data that are read in parts
FLAGS = ("smooth", "kinks", "quadratic", "signs", "strongly_convex", "selects", "intercept", "sparse")
LADDERS: dict[str, tuple[float, ...]] = {
    "n": (100, 500, 2000, 4000, 10_000, 20_000),
    "d": (40, 127, 250, 500, 1000, 3000),
    "columns_per_row": (0.01, 0.05, 0.2, 0.5, 0.8, 1.5),
    "gram_passes": (5.0, 20.0, 50.0, 200.0),
    "conditioning": (0.5, 2.0, 8.0, 30.0, 100.0, 1000.0, 10_000.0),
    "alignment": (1.5, 4.0),
}
NEEDS = {"conditioning": {"selects": False}, "alignment": {"selects": False, "sparse": True}}  # cost a pass: asked for there only


def price(rules: list[Rule]) -> float:
    """Of a table, apart from its regrets."""
    return sum(RULE + CONDITION * len(rule["when"]) for rule in rules)


def is_fixed(rule: Rule) -> bool:
    """Whether a rule is about facts that no problem here has."""
    return any(rule["when"].get(name) is True for name in ABSENT)


def _distinct(sheet: Sheet, conditions: Iterator[dict[str, Any]]) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Conditions that no simpler one equals on these problems, and which problems fulfil them."""
    masks: dict[bytes, tuple[dict[str, Any], np.ndarray]] = {}
    for when in conditions:
        mask = sheet.fulfil(when)
        if mask.any():
            masks.setdefault(np.packbits(mask).tobytes(), (when, mask))
    return [when for when, _ in masks.values()], np.array([mask for _, mask in masks.values()], dtype=np.float32)


def _flags() -> Iterator[dict[str, Any]]:
    for count in range(4):
        for names in itertools.combinations(FLAGS, count):
            for values in itertools.product((True, False), repeat=count):
                yield dict(zip(names, values, strict=True))


def _ranges() -> Iterator[dict[str, Any]]:
    bounds = [(name, side, value) for name, values in LADDERS.items() for side in (0, 1) for value in values]
    yield {}
    for count in (1, 2):
        for chosen in itertools.combinations(bounds, count):
            when: dict[str, Any] = {}
            for name, side, value in chosen:
                span = when.setdefault(name, [None, None])
                span[side] = value if span[side] is None else np.nan
            if all(low is None or high is None or low < high for low, high in when.values()):  # false for NaN
                needs: dict[str, Any] = {}
                for name in when:
                    needs |= NEEDS.get(name, {})
                yield needs | when


class _Search:
    """The conditions that occur on a sheet, and the moves from a table."""

    def __init__(self, sheet: Sheet):
        self.sheet = sheet
        self.flags, self.flag_masks = _distinct(sheet, _flags())
        self.ranges, self.range_masks = _distinct(sheet, _ranges())
        self.sizes = CONDITION * (np.array([len(a) for a in self.flags])[:, None] + np.array([len(b) for b in self.ranges]))

    def additions(self, rules: list[Rule], costs: np.ndarray, first: int) -> Iterator[list[Rule]]:
        """For each solver and place the new rule that gains most and that helps two sets."""
        owners = self.sheet.owners(rules)
        for place in (first, len(rules) - 1):
            free = (owners < 0) | (owners >= place)
            for j, solver in enumerate(self.sheet.solvers):
                open_ = free & self.sheet.able[solver]
                gains = np.where(open_, costs - np.where(open_, self.sheet.regrets[:, j], 0.0), 0.0).astype(np.float32)
                net = (self.flag_masks * gains) @ self.range_masks.T - self.sizes
                for flat in np.argsort(net, axis=None)[: -1 - 200 : -1]:
                    a, b = np.unravel_index(flat, net.shape)
                    if net[a, b] < RULE + CONDITION * len(NEW) + LEAST_GAIN:
                        break
                    mask = (self.flag_masks[a] * self.range_masks[b]) > 0
                    if _elsewhere(self.sheet, np.where(mask, gains, 0.0)) >= LEAST_ELSEWHERE:
                        rule = {"when": {**self.flags[a], **self.ranges[b], **NEW}, "solver": solver}
                        yield [*rules[:place], rule, *rules[place:]]
                        break

    def changes(self, rules: list[Rule], first: int) -> Iterator[list[Rule]]:
        """Other bounds, other solvers, conditions less, rules less."""
        used = set(self.sheet.owners(rules))
        for number, rule in enumerate(rules[:-1]):
            if is_fixed(rule) or number not in used or number < first:
                continue
            others = [{**rule, "solver": solver} for solver in self.sheet.solvers if solver != rule["solver"]]
            others += [{**rule, "when": when} for when in _neighbours(rule["when"])]
            for other in others:
                other.pop("why", None)
                yield [*rules[:number], other, *rules[number + 1 :]]
            yield [*rules[:number], *rules[number + 1 :]]


def _neighbours(when: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Conditions with one of them moved or left out."""
    for name, condition in when.items():
        if name in ABSENT:
            continue
        rest = {other: value for other, value in when.items() if other != name}
        if not any(name in needs and other in rest for other, needs in NEEDS.items()):
            yield rest
        if isinstance(condition, list):
            for side, value in itertools.product((0, 1), LADDERS[name]):
                span = list(condition)
                span[side] = value
                if condition[side] not in (None, value) and (None in span or span[0] < span[1]):
                    yield {**when, name: span}
        elif not any(name in needs and other in when for other, needs in NEEDS.items()):
            yield {**when, name: not condition}


def _elsewhere(sheet: Sheet, gains: np.ndarray) -> float:
    """The gain without the set where it is largest."""
    sums = sheet.by_set(gains)
    return float(sums.sum() - sums.max(initial=0.0))


def fit(sheet: Sheet, rules: list[Rule]) -> list[Rule]:
    """The table to which the moves lead from `rules`, whose last rule is for all that is left."""
    search = _Search(sheet)
    first = max((number + 1 for number, rule in enumerate(rules) if rule["when"].get("bounded") is True), default=0)
    for _ in range(MOST_MOVES):
        costs = sheet.costs(rules)
        best, taken = LEAST_GAIN, None
        for trial in itertools.chain(search.additions(rules, costs, first), search.changes(rules, first)):
            gains = costs - sheet.costs(trial)
            saved = price(rules) - price(trial)
            gain = float(gains.sum()) + saved
            if gain > best and (_elsewhere(sheet, gains) >= LEAST_ELSEWHERE or (saved > 0.0 and gains.sum() > -saved / 2)):
                best, taken = gain, trial
        if taken is None:
            break
        rules = taken
    return [explained(sheet, rules, number) for number in range(len(rules))]


def explained(sheet: Sheet, rules: list[Rule], number: int) -> Rule:
    """A rule with a reason: what it gains on how many problems over the table without it."""
    rule = rules[number]
    if "why" in rule:
        return rule
    rest = [*rules[:number], *rules[number + 1 :]]
    mine = sheet.owners(rules) == number
    gain = float(np.exp(np.mean((sheet.costs(rest) - sheet.costs(rules))[mine]))) if mine.any() else 1.0
    sets = [sheet.sets[k] for k in np.unique(sheet.data[mine])]
    shown = ", ".join(sets[:4]) + (f" and {len(sets) - 4} more" if len(sets) > 4 else "")
    return {**rule, "why": f"fitted: {gain:.2f} times as fast as without it on {mine.sum()} problems of {shown}"}


def cross_validated(sheet: Sheet, rules: list[Rule]) -> tuple[np.ndarray, list[str]]:
    """Costs and choices on each set of the table fitted on all other sets."""
    costs, chosen = np.zeros(len(sheet.names)), [""] * len(sheet.names)
    for name in sheet.sets:
        fitted = fit(sheet.without(name), rules)
        out = np.array([entry["data"] == name for entry in sheet.entries])
        part = sheet.part(out)
        costs[out] = part.costs(fitted)
        for i, solver in zip(np.flatnonzero(out), part.chosen(fitted), strict=True):
            chosen[i] = solver
    return costs, chosen
