"""Data files: one reader for each format, chosen by the suffix of the file.

A reader is a module with a function ``read(path, *, target, n_features) -> Data`` and the tuple ``SUFFIXES``; a line in
:data:`saddlery.registry.READERS` (or an entry point of the group ``saddlery.readers``) makes it known. With a function
``open_source`` (see :mod:`saddlery.data.chunks`) its files are converted in chunks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal

from saddlery.data.base import COMPRESSED, Data
from saddlery.errors import InputError
from saddlery.registry import READERS

__all__ = ["Data", "format_of", "read_data"]

# LIBSVM's own files carry no suffix (a9a, housing_scale, news20.t), so what no other reader claims is read as svmlight.
DEFAULT_FORMAT = "svmlight"


def read_data(
    path: str | os.PathLike[str],
    target: str | Literal[False] | None = None,
    n_features: int | None = None,
    format: str | None = None,
) -> Data:
    """Read a data file: LIBSVM/svmlight text, CSV with a header, npz, or Parquet.

    Text may be compressed (``.gz``, ``.bz2``, ``.xz``).

    Parameters
    ----------
    path : str or path
        The file. ``.csv`` and ``.tsv`` are read as CSV, ``.npz`` as npz, ``.parquet`` as Parquet, everything else as svmlight.
    target : str, False or None
        Name of the target column of a CSV file (or of the target array of an npz file). None looks for ``target``, ``y`` or
        ``label`` and refuses a file without one. False takes a file without targets too, as for prediction.
    n_features : int, optional
        Number of columns. A svmlight file shows only the largest index it uses: give the number of the training data.
    format : {"svmlight", "csv", "npz", "parquet"}, optional
        Overrides the choice by suffix.

    Returns
    -------
    Data
        With ``X`` (CSR for svmlight), ``y``, ``feature_names`` and ``name``.

    Examples
    --------
    >>> import pathlib, tempfile, saddlery as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "two.svm")
    ...     _ = file.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    ...     data = sd.read_data(file)
    >>> data.X.toarray(), data.y
    (array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]]), array([ 1, -1]))
    """
    path = Path(path)
    if n_features is not None and (not isinstance(n_features, int) or n_features < 1):
        raise InputError(f"n_features must be a positive whole number, not {n_features!r}")
    if path.is_dir():
        store = (path / "store.json").is_file()
        raise InputError(f"{path} is a {'store: open it by saddlery.open_store' if store else 'directory: give a data file'}")
    chosen = _claimed_by(path) if format is None else format
    reader = READERS.get(chosen or DEFAULT_FORMAT)
    try:
        return reader(path, target=target, n_features=n_features)
    except InputError as error:
        if chosen is None:
            raise InputError(f"{error} (read as {DEFAULT_FORMAT} because of its name; give the format if it is another)") from error
        raise


def format_of(path: str | os.PathLike[str]) -> str:
    """The name of the format in which :func:`read_data` reads `path`.

    Examples
    --------
    >>> format_of("table.csv.gz"), format_of("a9a.t")
    ('csv', 'svmlight')
    """
    return _claimed_by(Path(path)) or DEFAULT_FORMAT


def _claimed_by(path: Path) -> str | None:
    """The format whose suffix `path` has, after that of the compression."""
    name = path.name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    for format in READERS.names():
        if name.endswith(_suffixes(READERS.get(format))):
            return format
    return None


def _suffixes(reader: Any) -> tuple[str, ...]:
    return getattr(sys.modules[reader.__module__], "SUFFIXES", ())
