"""Budgets of learning from part of the data: feature accesses, a share of the data, seconds, or steps, each in one word."""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import Any, NamedTuple

from saddlery.errors import InputError

__all__ = ["Budget", "parse_budget"]

UNITS = {"%": "share", "s": "seconds", "steps": "steps", "step": "steps", "accesses": "accesses"}
FORMS = "1e7 (feature accesses), '5%' (of the entries of X), '10s' or '2000 steps'"


class Budget(NamedTuple):
    """How much may be spent; infinity where nothing was said."""

    accesses: float = math.inf
    seconds: float = math.inf
    steps: float = math.inf

    def __str__(self) -> str:
        parts = [f"{value:,.0f} {name}" if name != "seconds" else f"{value:g} seconds" for name, value in self._asdict().items()
                 if math.isfinite(value)]  # fmt: skip
        return " and ".join(parts) or "no bound"


def parse_budget(budget: Any, entries: int) -> Budget:
    """A budget from a number or a word, for data with so many entries.

    Parameters
    ----------
    budget : float or str
        A number of feature accesses, or ``"5%"``, ``"10s"``, ``"2000 steps"``, ``"1e7 accesses"``; several of them with commas
        between, and the first that is spent ends the fit.
    entries : int
        Stored entries of X: what 100 % is.

    Examples
    --------
    >>> parse_budget("5%, 10s", entries=1000)
    Budget(accesses=50.0, seconds=10.0, steps=inf)
    >>> str(parse_budget(1e6, 10**9))
    '1,000,000 accesses'
    """
    if isinstance(budget, Real) and not isinstance(budget, bool):
        return _one("accesses", float(budget), entries, budget)
    if not isinstance(budget, str):
        raise InputError(f"budget must be {FORMS}, not {budget!r}")
    out = Budget()
    for word in budget.split(","):
        found = re.fullmatch(r"\s*([0-9.eE+]+|[0-9.]+[eE]-[0-9]+)\s*(%|[a-z]+)?\s*", word)
        try:
            value = float(found[1]) if found else math.nan
        except ValueError:
            value = math.nan
        unit = UNITS.get((found[2] or "accesses") if found else "", "")
        if math.isnan(value) or not unit:
            raise InputError(f"budget={budget!r} cannot be read: write {FORMS}")
        one = _one(unit, value, entries, budget)
        out = Budget(*(min(a, b) for a, b in zip(out, one, strict=True)))
    return out


def _one(unit: str, value: float, entries: int, budget: Any) -> Budget:
    if not value > 0.0:
        raise InputError(f"budget={budget!r} leaves nothing to read: it must be positive")
    if unit == "share":
        return Budget(accesses=value / 100.0 * entries)
    return Budget()._replace(**{unit: value})
