"""Do the columns of a data file fit those that a model was trained on?"""

from __future__ import annotations

from typing import Any

from saddlery.errors import InputError

__all__ = ["matching_columns"]


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
        return X[:, [place[name] for name in names]]
    if X.shape[1] != count:
        raise InputError(f"the data have {X.shape[1]} columns, but the model was trained on {count}: give the same columns")
    return X
