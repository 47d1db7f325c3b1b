"""What a rival is: one small adapter for each peer; and how it is found by its name.

Every adapter fits ``Objective`` exactly: no intercept, no penalised bias, no standardised columns. `prepare` makes the peer's
favourite format outside of the timing; `fit` is what is timed. Adapters of one's own are named as ``module:Class``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from saddlery.bench.objectives import Objective
from saddlery.errors import InputError

__all__ = ["NOT_INSTALLABLE", "Rival", "columns_first", "known", "load", "rivals_of", "rounds", "rows_first", "tolerances"]

INSTALL = "pip install 'saddlery[bench]'"
NOT_INSTALLABLE = {"sklearn-contrib-lightning": "no wheel for this Python, and its source does not build with NumPy 2"}


def tolerances(first: float, last: float, per_decade: int = 1) -> list[float]:
    """A ladder of tolerances from loose to tight."""
    decades = round(np.log10(first / last))
    return [float(tol) for tol in np.geomspace(first, last, decades * per_decade + 1)]


def rounds(first: int, last: int, factor: float = 1.6) -> list[int]:
    """A ladder of iteration counts."""
    steps = int(np.ceil(np.log(last / first) / np.log(factor)))
    return sorted({round(first * factor**k) for k in range(steps + 1)})


def rows_first(X: Any, dtype: Any = np.float64) -> Any:
    """CSR matrix with 32-bit indices, or an array in C order."""
    return _sparse(sp.csr_matrix(X, dtype=dtype)) if sp.issparse(X) else np.ascontiguousarray(X, dtype=dtype)


def columns_first(X: Any, dtype: Any = np.float64) -> Any:
    """CSC matrix with 32-bit indices, or an array in Fortran order."""
    return _sparse(sp.csc_matrix(X, dtype=dtype)) if sp.issparse(X) else np.asfortranarray(X, dtype=dtype)


def _sparse(X: Any) -> Any:
    X = X.sorted_indices()  # a copy: the numbers may be shared with the data, whose order must stay
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


class Rival:
    """One peer with one algorithm.

    Class attributes: `name`; `package`, the distribution whose version is noted; `modules` to import; `kinds`, the pairs
    (loss, penalty) that it minimises exactly; `max_columns` beyond which it is not asked; `warm` says that `fit` uses `start`;
    `threaded` that it may run in several threads of one process at once. Settings are numbers, or else what JSON can hold.
    """

    name: ClassVar[str]
    package: ClassVar[str] = ""
    modules: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[frozenset[tuple[str, str]]]
    max_columns: ClassVar[float] = float("inf")
    warm: ClassVar[bool] = False
    threaded: ClassVar[bool] = False

    def __init__(self, threads: int = 1):
        self.threads = threads
        for module in self.modules:
            importlib.import_module(module)

    def can(self, objective: Objective, X: Any) -> bool:
        """Whether it minimises exactly this, on data of this size."""
        return objective.kind in self.kinds and X.shape[1] <= self.max_columns

    def ladder(self, objective: Objective) -> Sequence[Any]:
        """Settings from loose to tight."""
        return tolerances(1e-1, 1e-10)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        """The data in its favourite format; not timed."""
        return rows_first(X), y

    def fit(self, data: Any, objective: Objective, setting: Any, start: np.ndarray | None = None) -> np.ndarray:
        """The weights; timed."""
        raise NotImplementedError

    # -- many fits

    def path(self, data: Any, objective: Objective, alphas: np.ndarray, setting: Any) -> np.ndarray:
        """Weights for each strength, from large to small, each fit started from the last where that is possible."""
        weights: list[np.ndarray] = []
        for alpha in alphas:
            start = weights[-1] if weights and self.warm else None
            weights.append(np.array(self.fit(data, objective.at(alpha), setting, start), dtype=np.float64).ravel())
        return np.stack(weights)

    def prepare_classes(self, X: Any, codes: np.ndarray) -> Any:
        """The data of one-vs-rest; not timed. The formats are made once, since the matrix is the same."""
        first = self.prepare(X, np.where(codes == 0, 1.0, -1.0))
        if isinstance(first, tuple) and len(first) == 2:
            return [(first[0], np.where(codes == k, 1.0, -1.0)) for k in range(codes.max() + 1)]
        return [self.prepare(X, np.where(codes == k, 1.0, -1.0)) for k in range(codes.max() + 1)]

    def fit_classes(self, data: Any, objective: Objective, setting: Any) -> np.ndarray:
        """The weights of every class against the rest."""
        return np.stack(self.each(lambda part: np.ravel(self.fit(part, objective, setting)), data))

    def each(self, function: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
        """Independent fits: one after the other, or in threads where the peer stands it."""
        if self.threads > 1 and self.threaded:
            with ThreadPoolExecutor(self.threads) as pool:
                return list(pool.map(function, parts))
        return [function(part) for part in parts]

    @classmethod
    def version(cls) -> str:
        """The version of the peer."""
        return importlib.metadata.version(cls.package) if cls.package else ""


# --------------------------------------------------------------------------- by name


def known() -> dict[str, type[Rival]]:
    """The adapters that come with the library, by name; nothing of the peers is imported."""
    from saddlery.bench import other_rivals, sklearn_rivals

    classes: tuple[type[Rival], ...] = (*sklearn_rivals.RIVALS, *other_rivals.RIVALS)
    return {cls.name: cls for cls in classes}


def rivals_of(names: Sequence[str] | None = None, kind: tuple[str, str] | None = None) -> list[str]:
    """The names that :func:`load` takes, for names of peers, of their packages, or ``module:Class``.

    Parameters
    ----------
    names : sequence of str, optional
        All by default.
    kind : (loss, penalty), optional
        Leaves out those that are known not to minimise this.

    Raises
    ------
    InputError
        If there is no peer of a name.

    Examples
    --------
    >>> rivals_of(["glum", "liblinear-official"], ("logistic", "l1"))
    ['liblinear', 'glum']
    """
    table = known()
    wanted = set(table if names is None else names)
    own = [name for name in names or () if ":" in name]
    found = [name for name, cls in table.items() if name in wanted or cls.package in wanted]
    strange = wanted - set(own) - set(found) - {table[name].package for name in found}
    if strange:
        raise InputError(f"no peer is called {sorted(strange)[0]!r}: 'saddlery bench --list' lists them")
    return [name for name in found if kind is None or kind in table[name].kinds] + own


def load(name: str) -> type[Rival]:
    """The adapter of this name; ``module:Class`` is imported."""
    if ":" not in name:
        return known()[name]
    module, _, cls = name.partition(":")
    return getattr(importlib.import_module(module), cls)
