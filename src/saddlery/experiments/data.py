"""Where the data of the experiments are: LIBSVM files, plain or compressed, in a folder that the user names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from saddlery.errors import unknown_name

if TYPE_CHECKING:
    import numpy as np

__all__ = ["SETS", "DataSet", "file_digest", "find", "load", "say_missing"]

SUFFIXES = ("", ".xz", ".bz2", ".gz")
SOURCE = "the LIBSVM data page, https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"


class DataSet(NamedTuple):
    """A file of the LIBSVM page: its name there, its number of columns, and the labels that become +1 (others become -1).

    Without such labels they stay as they are. `test` is the name of a second file, with rows to test on, which must be beside the
    first.
    """

    file: str
    columns: int
    positive: tuple[int, ...] | None = (1,)
    test: str = ""


SETS = {
    "a9a": DataSet("a9a", 123),
    "adult": DataSet("a9a", 123, test="a9a.t"),
    "ionosphere": DataSet("ionosphere_scale", 34),
    "w8a": DataSet("w8a", 300),
    "mushrooms": DataSet("mushrooms", 112),
    "gisette": DataSet("gisette_scale", 5000),
    "mnist": DataSet("mnist", 780, None),
    "news20-classes": DataSet("news20", 62_061, None),
    # sci.*, comp.* and misc.forsale against the others, the grouping of news20.binary
    "news20": DataSet("news20", 62_061, (2, 3, 4, 5, 6, 7, 12, 13, 14, 15)),
}


def find(folder: Path, name: str) -> Path | None:
    """The file of a data set: in the folder or in a folder of its own there, plain or compressed; None if it is not there."""
    if name not in SETS:
        raise unknown_name("data set", name, SETS)
    file = SETS[name].file
    places = (place / f"{file}{suffix}" for place in (folder, folder / name, folder / file) for suffix in SUFFIXES)
    found = next((place for place in places if place.is_file()), None)
    return found if found is None or not SETS[name].test or _test_file(found, name) is not None else None


def _test_file(path: Path, name: str) -> Path | None:
    """The file of the test rows beside the other."""
    places = (path.with_name(f"{SETS[name].test}{suffix}") for suffix in SUFFIXES)
    return next((place for place in places if place.is_file()), None)


def load(path: Path, name: str) -> tuple[Any, ...]:
    """X (CSR) and y (-1 and +1, or labels) of a data set; if it has test rows, these follow in the same way."""
    first = _load(path, name)
    test = _test_file(path, name) if SETS[name].test else None
    return first if test is None else (*first, *_load(test, name))


def _load(path: Path, name: str) -> tuple[Any, np.ndarray]:
    import numpy as np

    from saddlery.data import read_data

    entry = SETS[name]
    data = read_data(path, n_features=entry.columns, format="svmlight")
    labels = np.asarray(data.y)
    return data.X, labels if entry.positive is None else np.where(np.isin(labels, entry.positive), 1.0, -1.0)


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def say_missing(names: Iterable[str], folder: Path) -> str:
    """Which files are not there, and where they come from.

    Examples
    --------
    >>> say_missing(["a9a"], Path("data")).split(";")[0]
    'data has no a9a (plain or with .xz, .bz2, .gz)'
    """
    files = ", ".join(dict.fromkeys(file for name in names for file in (SETS[name].file, SETS[name].test) if file))
    return f"{folder} has no {files} (plain or with .xz, .bz2, .gz); {SOURCE} has them; name the folder by --data"
