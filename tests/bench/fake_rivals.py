"""Peers that behave as told: they know the optimum of ridge regression, and come as near to it as their setting says."""

import os
import time

import numpy as np

from saddlery.bench.rivals import Rival

clock = []  # seconds that fits pretend to have taken


def timed(function, warm=False):
    """In place of what measures: the same on every machine, and quick."""
    clock.clear()
    result = function()
    seconds = sum(clock) or 0.01
    return seconds, seconds, result


class Good(Rival):
    """Arrives."""

    name = "good"
    kinds = frozenset({("squared", "l2")})

    def ladder(self, objective):
        return [1e-1, 1e-2, 1e-4]

    def fit(self, data, objective, setting, start=None):
        X, y = data
        X = X.toarray() if hasattr(X, "toarray") else X
        best = np.linalg.solve(X.T @ X / len(y) + objective.alpha * np.eye(X.shape[1]), X.T @ y / len(y))
        return (1.0 + setting) * best


class Coarse(Good):
    """Comes to the end of its ladder before the last target."""

    name = "coarse"

    def ladder(self, objective):
        return [1e-1, 3e-2]


class Slow(Good):
    """Takes longer than its budget, on the clock of the tests."""

    name = "slow"

    def fit(self, data, objective, setting, start=None):
        clock.append(100.0)
        return super().fit(data, objective, 1.0)


class Raises(Good):
    """Fails in an orderly way."""

    name = "raises"

    def fit(self, data, objective, setting, start=None):
        raise ZeroDivisionError("of all things")


class Crashes(Good):
    """Takes the process with it, once it should be accurate."""

    name = "crashes"

    def fit(self, data, objective, setting, start=None):
        if setting < 1e-2 and data[0].shape[0] != 60:  # the warm-up has 60 rows
            os._exit(7)
        return super().fit(data, objective, setting)


class CrashesAtOnce(Good):
    """Cannot even be imported."""

    name = "crashes-at-once"

    def __init__(self, threads=1):
        os._exit(9)


class HangsAtOnce(Good):
    """Cannot be imported in finite time."""

    name = "hangs-at-once"

    def __init__(self, threads=1):
        time.sleep(1000)


class NotInstalled(Good):
    """Needs what nobody has."""

    name = "not-installed"
    modules = ("no_such_module_anywhere",)
