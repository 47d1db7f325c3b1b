"""Estimators on Dask collections and Parquet paths: the one place where they are told from data in memory.

Nothing here imports Dask before such data have been seen.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from saddlery.errors import InputError
from saddlery.estimators.callbacks import FitTask
from saddlery.estimators.inputs import Rows, class_weights

__all__ = ["is_distributed", "lazy_rows", "on_clusters"]

# What the solvers of data in memory are called here: the same methods, in rounds.
NAMES = {"prox_newton": "dask_prox_newton", "active_sdca": "dask_sdca", "sdca": "dask_sdca", "gsfw": "dask_gsfw"}
KEPT = ("classes_", "coef_", "feature_names_in_", "intercept_", "loss_", "n_features_in_", "penalty_")  # what predictions need


def is_distributed(X: Any) -> bool:
    """Whether X is a Dask collection, or a path of Parquet files."""
    if isinstance(X, str):
        return True  # no string is a table of numbers
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") or hasattr(X, "__fspath__")


class DaskRows(Rows):
    """Rows of a distributed problem: dual points become lazy arrays."""

    def spread(self, values: Any, problem: Any = None) -> Any:
        return problem.dual_array(values)

    def columns(self, values: Sequence[Any]) -> Any:
        import dask.array as da

        return values[0] if len(values) == 1 else da.stack(values, axis=1)


def on_clusters(fit: Any) -> Any:
    """``fit`` of an estimator that takes distributed data too."""

    @functools.wraps(fit)
    def call(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        return fit_distributed(self, X, y, sample_weight) if is_distributed(X) else fit(self, X, y, sample_weight)

    return call


def lazy_rows(method: Any) -> Any:
    """A method of X, whose answer is a lazy dask array if X is distributed."""

    @functools.wraps(method)
    def call(self: Any, X: Any) -> Any:
        return _lazily(self, method, X) if is_distributed(X) else method(self, X)

    return call


def fit_distributed(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit an estimator on distributed data."""
    from saddlery.distributed.partitions import Partitions
    from saddlery.distributed.problem import DaskLinearProblem
    from saddlery.estimators.parameters import check_settings, make_loss, make_penalty

    classifies = hasattr(model, "class_weight")
    if getattr(model, "multiclass", "ovr") != "ovr":
        raise InputError("multiclass='joint' takes data in memory only: use multiclass='ovr' for distributed data")
    loss = make_loss(model.loss, "classification" if classifies else "regression")
    penalty = make_penalty(model.penalty, model.alpha, model.l1_ratio, model.radius)
    check_settings(model)
    if y is None:
        raise InputError(f"{type(model).__name__} requires y to be passed: give a collection, or the name of a column of X")
    partitions = Partitions(X, y, sample_weight, labels=classifies)
    model.n_features_in_ = partitions.d
    if partitions.features is not None:
        model.feature_names_in_ = partitions.features
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    before, labels, factors = getattr(model, "classes_", None), ["y"], None
    classes: list[int | None] = [None]
    if classifies:
        model.classes_ = partitions.classes
        if model.classes_.size < 2:
            raise InputError(f"y holds one class only ({model.classes_[0]!r}): give rows of at least two classes")
        if model.class_weight is not None:
            codes = np.arange(model.classes_.size)
            factors = class_weights(model.class_weight, model.classes_, codes, partitions.class_totals) / partitions.class_totals  # type: ignore[operator]
        labels, classes = model._labels(), [1] if model.classes_.size == 2 else list(range(model.classes_.size))
    problems = [
        DaskLinearProblem(partitions, None, loss, penalty, None, model.fit_intercept, positive=k, factors=factors) for k in classes
    ]
    same = not classifies or (before is not None and np.array_equal(before, model.classes_))
    starts: list[Any] = [None] * len(problems)
    if model.warm_start and same and np.shape(getattr(model, "coef_", ()))[-1:] == (partitions.d,):
        coefs = np.atleast_2d(model.coef_)
        starts = [(w, b, None) for w, b in zip(coefs, np.ravel(model.intercept_), strict=True)]
    task = FitTask(model, X, y, sample_weight, [f"class {label}" for label in labels] if len(labels) > 1 else ())
    with _renamed(model):
        model._fit_problems(problems, starts, labels, DaskRows(partitions.n), task)
    task.end()
    return model


class _renamed:
    """While it is open, the solver of a model goes by its name on clusters."""

    def __init__(self, model: Any):
        self.model, self.solver = model, model.solver

    def __enter__(self) -> None:
        if isinstance(self.solver, str):
            self.model.solver = NAMES.get(self.solver, self.solver)

    def __exit__(self, *_: object) -> None:
        self.model.solver = self.solver


def _lazily(model: Any, method: Callable[..., Any], X: Any) -> Any:
    """The method, applied to each partition when the answer is asked for."""
    import dask.array as da
    from dask import delayed

    from saddlery.distributed.partitions import as_collections

    check_is_fitted(model)
    slim = copy.copy(model)
    for name in set(vars(slim)) - set(KEPT) - set(model.get_params(deep=False)):
        delattr(slim, name)
    parts = as_collections(X)
    names = parts.features
    known = getattr(model, "feature_names_in_", None)
    wanted = None if known is None or names is None else [name for name in known if name in set(names)]
    call, shared = delayed(_apply, pure=False), delayed(slim, traverse=False)
    like = method(slim, np.zeros((1, model.n_features_in_)) if known is None else _frame(known))
    pieces = [
        da.from_delayed(call(method.__name__, shared, part, wanted), shape=(length, *like.shape[1:]), dtype=like.dtype)
        for part, length in zip(parts.X, parts.lengths, strict=True)
    ]
    return da.concatenate(pieces)


def _frame(names: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(np.zeros((1, len(names))), columns=names)


def _apply(name: str, model: Any, rows: Any, columns: Any) -> Any:
    rows = rows if columns is None else rows[columns]  # a table may hold the target too
    if rows.shape[0]:
        return getattr(model, name)(rows)
    like = getattr(model, name)(np.zeros((1, model.n_features_in_)) if columns is None else _frame(columns))
    return like[:0]
