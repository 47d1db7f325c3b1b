"""Do the columns of a data file fit those that a model was trained on?"""

from __future__ import annotations

from typing import Any

from saddlery.errors import InputError

__all__ = ["matching_columns", "plain_rows", "take_columns"]


def matching_columns(data: Any, count: int, names: Any) -> Any:
    """X with the columns of the model: taken by name where both have names, else counted.

    Parameters
    ----------
    data : Data
        What was read.
    count : int
        Number of columns that the model was trained on.
    names : sequence of str or None
        Their names, if they had any.
    """
    X = data.X
    if names is not None and data.feature_names is not None:
        place = {name: at for at, name in enumerate(data.feature_names)}
        missing = [name for name in names if name not in place]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(f"the data have no column {missing[0]!r}{more}, which the model was trained on")
        return take_columns(X, [place[name] for name in names])
    if X.shape[1] != count:
        raise InputError(f"the data have {X.shape[1]} columns, but the model was trained on {count}: give the same columns")
    return X


def take_columns(X: Any, columns: list[int]) -> Any:
    """Some columns, in this order; of a store without a copy, and the store itself if these are all."""
    if not hasattr(X, "compiled"):
        return X[:, columns]
    if columns == list(range(X.shape[1])):
        return X
    if X.compiled:
        return X.values[:, columns]
    import numpy as np

    return X.select(None, np.array(columns))


def plain_rows(X: Any, kept: Any = None) -> Any:
    """X for formulas in plain NumPy: what has `shape`, `X @ w` and `X.T @ a`; only the rows `kept` if given."""
    if not hasattr(X, "compiled"):
        return X if kept is None else X[kept]
    if X.compiled:
        return plain_rows(X.values, kept)
    import numpy as np
    from scipy.sparse.linalg import LinearOperator

    part = X if kept is None else X.select(np.flatnonzero(kept))
    return LinearOperator(
        part.shape, matvec=part.matvec, rmatvec=part.rmatvec, matmat=part.matvec, rmatmat=part.rmatvec, dtype=np.float64
    )
