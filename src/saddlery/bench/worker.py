"""In the worker: measure cells that share their data, one after the other, and keep each as soon as it is done.

``python -m saddlery.bench.worker FOLDER CELL ...`` measures cells of a plan that :mod:`saddlery.bench.compare` left there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saddlery.bench.log import Log
from saddlery.bench.measure import Budget, measure_cell
from saddlery.bench.rivals import load
from saddlery.bench.tasks import Cell, Task
from saddlery.files import write_atomically

__all__ = ["keep_data", "kept_data", "main", "work"]


def work(
    folder: Path,
    cells: Sequence[Cell],
    X: Any,
    y: np.ndarray,
    peers: Sequence[str],
    budget: Budget,
    threads: int = 1,
    known: Callable[[Cell], dict[str, Any] | None] = lambda cell: None,
    peers_too: bool = True,
) -> None:
    """Measure; `known` and `peers_too` are those of :func:`saddlery.bench.measure.measure_cell`."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    with threadpool_limits(threads):
        rivals = [load(name)(threads) for name in peers]
        for cell in cells:
            partial = folder / f"{cell.file}.partial"
            result = measure_cell(Task(cell, X, y), rivals, budget, threads, Log(partial), known(cell), peers_too)
            write_atomically(folder / f"{cell.file}.json", (json.dumps(result) + "\n").encode())
            partial.unlink(missing_ok=True)


def keep_data(folder: Path, X: Any, y: np.ndarray) -> None:
    """Write data for workers, in a form that is read at once."""
    import scipy.sparse as sp

    np.save(folder / "y.npy", y)
    if sp.issparse(X):
        sp.save_npz(folder / "X.npz", X, compressed=False)
    else:
        np.save(folder / "X.npy", X)


def kept_data(folder: Path) -> tuple[Any, np.ndarray]:
    """Read what :func:`keep_data` wrote."""
    import scipy.sparse as sp

    sparse = folder / "X.npz"
    return (sp.load_npz(sparse) if sparse.exists() else np.load(folder / "X.npy")), np.load(folder / "y.npy")


def main(place: str, names: Sequence[str]) -> None:
    """Measure the cells of these names."""
    folder = Path(place)
    plan = json.loads((folder / "plan").read_text())
    cells = [Cell(**fields) for fields in plan["cells"] if fields["name"] in names]
    budget = Budget(**{**plan["budget"], "targets": tuple(plan["budget"]["targets"])})
    work(folder, cells, *kept_data(folder), plan["peers"], budget, plan["threads"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
