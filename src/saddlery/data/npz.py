"""NumPy archives: arrays ``X`` and ``y``, or pieces of a sparse matrix (``data``, ``indices``, ``indptr``, ``shape``) and ``y``.

The pieces are those of :func:`scipy.sparse.save_npz`; an array ``feature_names`` is used where there is one. Nothing is unpickled.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from saddlery.data.base import TARGET_NAMES, Data, data_name
from saddlery.errors import InputError, unknown_name

__all__ = ["SUFFIXES", "read"]

SUFFIXES = (".npz",)
PIECES = ("data", "indices", "indptr", "shape")


def read(path: Path, *, target: str | bool | None = None, n_features: int | None = None) -> Data:
    """Read an npz archive; see :func:`saddlery.read_data`."""
    arrays = _load(path)
    X = _matrix(path, arrays)
    if n_features is not None and n_features != X.shape[1]:
        raise InputError(f"{path} has {X.shape[1]} columns, not n_features = {n_features}")
    names = arrays.get("feature_names")
    if names is not None and names.shape != (X.shape[1],):
        raise InputError(f"{path} has {names.size} feature_names for {X.shape[1]} columns: give one for each")
    features = None if names is None else [str(name) for name in names]
    return Data(X, _targets(path, arrays, target, X.shape[0]), features, data_name(path, SUFFIXES))


def _load(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as handle:  # opened here, because NumPy leaves the file open when the archive is damaged
            archive = np.load(handle, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(f"{path} holds one array without a name: save X and y with numpy.savez")
            return {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise InputError(f"{path} is not a whole npz archive ({error}): save it again with numpy.savez") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not an npz archive of plain arrays: save numbers and strings with numpy.savez") from error


def _matrix(path: Path, arrays: dict[str, np.ndarray]) -> Any:
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise InputError(f"{path}: X has shape {X.shape} and type {X.dtype}: give a matrix of numbers")
        return X
    if not all(name in arrays for name in PIECES):
        raise InputError(f"{path} holds {', '.join(arrays) or 'nothing'}: give X, or {', '.join(PIECES)} of a sparse matrix")
    kind = arrays.get("format", np.array("csr")).item()
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if kind not in ("csr", "csc"):
        raise InputError(f"{path} holds a sparse matrix in the format {kind}: save it as csr or csc")
    make = sp.csr_array if kind == "csr" else sp.csc_array
    try:
        matrix = make((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"].tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} holds pieces that make no sparse matrix: {error}") from error
    return sp.csr_array(matrix)


def _targets(path: Path, arrays: dict[str, np.ndarray], target: str | bool | None, n: int) -> np.ndarray | None:
    if isinstance(target, str):
        if target not in arrays:
            raise unknown_name(f"target array of {path}", target, arrays)
        name = target
    else:
        found = [name for name in TARGET_NAMES if name in arrays]
        if not found and target is False:
            return None
        if not found:
            raise InputError(f"{path} has no array y: add it, or name the target array, one of {', '.join(arrays)}")
        name = found[0]
    y = arrays[name]
    if y.shape != (n,):
        raise InputError(f"{path}: {name} has shape {y.shape}, but there are {n} rows: give one target for each row")
    return y
