"""The problems on which solvers are timed for ``solver="auto"``.

Single fits of the comparison with the peers, the same with an intercept, and what that table lacks but rules must decide: other
strengths of l2, l2 for regression, the hinge with l1, further losses, further data (real ones, and small generated kinds).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import scipy.sparse as sp
from peers_cells import CELLS

import saddlery as sd
from saddlery.bench.ours import prepared
from saddlery.solvers.auto import Facts

__all__ = ["SETS", "Kind", "Trial", "facts_of", "trials"]

FLAGS = ("smooth", "kinks", "quadratic", "signs", "strongly_convex", "selects", "intercept", "sparse")
NUMBERS = ("n", "d", "cells", "columns_per_row", "gram_passes")
OF_L2 = ("conditioning", "mean_conditioning", "alignment", "overlap")  # read data: asked for only where nothing is selected
ABSENT = ("bounded", "corners", "ball", "partial")  # facts that no problem of the grid has
HUGE = 1e300  # stands for infinity, which JSON has not


@dataclass(frozen=True, order=True)
class Kind:
    """An objective: loss, penalty (1: l1, 0: l2, between: elastic net) and strength.

    `strength` is a part of that at which all weights vanish, or for l2 a multiple of 1 / n.
    """

    loss: str
    l1_ratio: float
    strength: float

    @property
    def name(self) -> str:
        """As in ``logistic:l1-0.01``."""
        return f"{self.loss}:{ {1.0: 'l1', 0.0: 'l2'}.get(self.l1_ratio, 'en') }-{self.strength:g}".replace(" ", "")


def _kinds(*rows: tuple[str, float, tuple[float, ...]]) -> tuple[Kind, ...]:
    return tuple(Kind(loss, ratio, strength) for loss, ratio, strengths in rows for strength in strengths)


MORE_BINARY = _kinds(
    ("logistic", 0.0, (0.1, 100.0)), ("hinge", 0.0, (0.1, 100.0)), ("squared_hinge", 0.0, (0.1, 100.0)),
    ("smooth_hinge", 0.0, (1.0,)), ("hinge", 1.0, (0.01,)), ("hinge", 0.5, (0.01,)),
)  # fmt: skip
MORE_REGRESSION = _kinds(("squared", 0.0, (1.0, 100.0)), ("huber", 0.0, (1.0,)), ("huber", 1.0, (0.01,)))
OTHER_BINARY = _kinds(
    ("logistic", 1.0, (0.1, 0.01)), ("logistic", 0.5, (0.01,)), ("logistic", 0.0, (1.0,)), ("hinge", 0.0, (1.0,)),
    ("squared_hinge", 0.0, (1.0,)), ("squared_hinge", 1.0, (0.01,)),
)  # fmt: skip
OTHER_REGRESSION = _kinds(("squared", 1.0, (0.1, 0.01)), ("squared", 0.5, (0.01,)))
REAL_BINARY = ("letter", "satimage", "dna", "rcv1", "isolet", "splice", "sonar", "german", "ionosphere", "diabetes")
REAL_REGRESSION = ("bodyfat", "mg", "satimage", "rcv1", "isolet")  # labels are numbers, too
FAMILIES = {  # sets of one kind: a rule that helps one family only is not accepted
    "normal": ("correlated", "dense_wide", "dense_square", "dense_half", "dense_tall", "synth_dense", "wide_regression"),
    "random signs": ("sparse_tall", "synth_sparse"),
    "microarrays": ("leu", "duke", "colon"),
    "tiny": ("tiny", "tiny_wide"),
}
DEAR = ("mnist8", "synth_dense")  # minutes each: the cells of the comparison only


def _targets(rng: np.random.Generator, X: Any) -> np.ndarray:
    """A sum of a tenth of the columns, with noise; their signs are labels."""
    w = np.where(rng.random(X.shape[1]) < 0.1, rng.standard_normal(X.shape[1]), 0.0)
    w[0] = 1.0
    z = np.asarray(X @ w).ravel()
    return z / z.std() + 0.5 * rng.standard_normal(len(z))


def _correlated(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Neighbouring columns correlate by 0.9."""
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(1.0 - 0.9**2) * X[:, j]
    return X


def _counts(rng: np.random.Generator, n: int, d: int, per_row: int) -> sp.csr_array:
    """Positive entries in columns drawn by Zipf's law, rows of unit length."""
    return sp.csr_array(abs(datasets.sparse_features(rng, n, d, per_row)))


GENERATED: dict[str, Callable[[np.random.Generator], Any]] = {
    "correlated": lambda rng: _correlated(rng, 3000, 200),
    "dense_wide": lambda rng: rng.standard_normal((300, 3000)),
    "dense_square": lambda rng: rng.standard_normal((1000, 900)),
    "dense_half": lambda rng: rng.standard_normal((400, 250)),
    "dense_tall": lambda rng: rng.standard_normal((20_000, 60)),
    "sparse_tall": lambda rng: sp.csr_array(sp.random(30_000, 400, 0.03, format="csr", rng=rng, data_rvs=rng.standard_normal)),
    "sparse_counts": lambda rng: _counts(rng, 5000, 3000, 60),
    "tiny": lambda rng: rng.standard_normal((60, 6)),
    "tiny_wide": lambda rng: rng.standard_normal((40, 120)),
    "wide_regression": lambda rng: rng.standard_normal((1000, 3000)),
}
REGRESSION = ("wide_regression", *REAL_REGRESSION)


def _table() -> dict[str, set[Kind]]:
    """The kinds of the single fits of the comparison, by data."""
    out: dict[str, set[Kind]] = {}
    for cell in CELLS:
        if cell.task == "fit":
            out.setdefault(cell.data, set()).add(Kind(cell.loss, cell.l1_ratio, cell.ratio or 1.0))
    return out


TABLE = _table()
SETS = (*GENERATED, *REAL_BINARY, *dict.fromkeys((*(name for name in TABLE if name not in DEAR), *REAL_REGRESSION)), *DEAR)


def kinds_of(name: str) -> list[Kind]:
    """All kinds of a set."""
    kinds = set(TABLE.get(name, ()))
    if name in DEAR:
        return sorted(kinds)
    if name in REAL_BINARY or (name in GENERATED and name not in REGRESSION):
        kinds |= {*OTHER_BINARY, *MORE_BINARY}
    if name in REGRESSION:
        kinds |= {*OTHER_REGRESSION, *MORE_REGRESSION}
    if any(kind.loss == "logistic" for kind in kinds):
        kinds |= set(MORE_BINARY)
    if any(kind.loss == "squared" for kind in kinds):
        kinds |= set(MORE_REGRESSION)
    return sorted(kinds)


@dataclass(frozen=True)
class Trial:
    """A problem with its name; `make` gives it anew, knowing nothing but the data by rows and by columns."""

    name: str
    data: str
    family: str
    in_table: bool
    make: Callable[[], Any]


def load(name: str, data: Path) -> tuple[Any, np.ndarray]:
    """A data set."""
    if name not in GENERATED:
        return datasets.load(name, data)
    rng = np.random.default_rng(1)
    X = GENERATED[name](rng)
    y = _targets(rng, X)
    return X, y if name in REGRESSION else np.where(y > 0.0, 1.0, -1.0)


def trials(data: Path, wanted: Callable[[str], bool]) -> Iterator[Trial]:
    """All problems of the sets that are there and `wanted`, a set at a time."""
    for name in filter(wanted, SETS):
        try:
            X, y = load(name, data)
        except FileNotFoundError:
            print(f"{name}: no such file")
            continue
        data_name = name.removesuffix("_reg")
        family = next((family for family, names in FAMILIES.items() if data_name in names), data_name)
        fresh = prepared(X)
        for kind in kinds_of(name):
            for intercept in (False, True):
                full = f"{name}:{kind.name}{':b' if intercept else ''}"
                listed = not intercept and kind in TABLE.get(name, ())
                yield Trial(full, data_name, family, listed, _maker(fresh, y, kind, intercept))


def _maker(fresh: Callable[[], Any], y: np.ndarray, kind: Kind, intercept: bool) -> Callable[[], Any]:
    unit = {1.0: sd.penalties.L1(1.0), 0.0: sd.penalties.L2(1.0)}.get(kind.l1_ratio, sd.penalties.ElasticNet(1.0, kind.l1_ratio))

    def make(penalty: Any) -> Any:
        return sd.LinearProblem(fresh(), y, loss=kind.loss, penalty=penalty, fit_intercept=intercept)

    top = 1.0 / len(y) if kind.l1_ratio == 0.0 else make(unit).alpha_max()
    penalty = unit.scaled(kind.strength * top)
    return lambda: make(penalty)


def facts_of(problem: Any) -> dict[str, Any]:
    """The facts that conditions may ask for; None: not to be asked for, as it costs a pass and would not be remembered."""
    facts = Facts(problem)
    out = {name: getattr(facts, name) for name in (*FLAGS, *NUMBERS, *ABSENT)}
    asked = [name for name in OF_L2 if not facts.selects and name != ("overlap" if facts.sparse else "alignment")]
    return out | dict.fromkeys(OF_L2) | {name: min(float(f"{getattr(facts, name):.4g}"), HUGE) for name in asked}
