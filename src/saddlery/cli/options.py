"""Options that several commands share, and what they stand for. Nothing heavy is imported at the top."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saddlery.errors import InputError
from saddlery.registry import LOSSES, READERS

if TYPE_CHECKING:
    import numpy as np

    from saddlery.data import Data

__all__ = [
    "add_data_options",
    "add_objective_options",
    "add_solver_options",
    "check_output",
    "class_weight_of",
    "is_store",
    "known_target",
    "loss_of",
    "read",
    "task_of",
]

NAMED_PENALTIES = ("l1", "l2", "elasticnet", "l1_ball", "l2_ball", "simplex", "box")  # what a name and a number or two describe
LOSS_OPTIONS = {"smooth_hinge": "gamma", "huber": "delta"}


def add_data_options(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """DATA, which may be left out if `optional`, and how to read it."""
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?" if optional else None,
        help="LIBSVM/svmlight text (plain, .gz, .bz2, .xz), .csv, .npz, .parquet or a store",
    )
    group = parser.add_argument_group("data")
    group.add_argument("--target", metavar="NAME", help="target column of a CSV file (default: target, y or label)")
    group.add_argument("--n-features", type=int, metavar="D", help="number of columns, if the svmlight file does not show all")
    group.add_argument("--format", metavar="NAME", help=f"{', '.join(READERS.builtin)}; by default told by the suffix")
    group.add_argument("--max-memory", metavar="SIZE", help="most memory for the data of a store, such as 2GB (default: a quarter)")


def add_objective_options(parser: argparse.ArgumentParser) -> Any:
    """Loss, penalty, intercept; the group is returned for more."""
    group = parser.add_argument_group("objective")
    group.add_argument(
        "--task", choices=("auto", "classification", "regression"), default="auto", help="what the targets are (default: auto)"
    )
    group.add_argument(
        "--loss", metavar="NAME", help=f"{', '.join(LOSSES.builtin)} (default: logistic for classes, squared for numbers)"
    )
    group.add_argument("--gamma", type=float, metavar="G", help="width of the rounded part of smooth_hinge (default: 1)")
    group.add_argument("--delta", type=float, metavar="D", help="residual from which huber grows linearly (default: 1)")
    group.add_argument("--penalty", metavar="NAME", default="l1", help=f"{', '.join(NAMED_PENALTIES)} (default: l1)")
    group.add_argument("--l1-ratio", type=float, metavar="R", default=0.5, help="share of l1 in elasticnet (default: 0.5)")
    group.add_argument("--no-intercept", action="store_true", help="fit no intercept")
    group.add_argument(
        "--class-weight", metavar="W", help="'balanced', or weights of classes as LABEL=WEIGHT,LABEL=WEIGHT (default: none)"
    )
    return group


def add_solver_options(parser: argparse.ArgumentParser, tol: float) -> Any:
    """Solver, tolerance, budgets; the group is returned for more."""
    group = parser.add_argument_group("solver")
    group.add_argument("--solver", metavar="NAME", default="auto", help="see 'saddlery solvers' (default: auto)")
    group.add_argument("--tol", type=float, default=tol, help=f"relative gap to certify (default: {tol:g})")
    group.add_argument("--max-epochs", type=int, metavar="N", default=1000, help="budget in epochs (default: 1000)")
    group.add_argument("--max-seconds", type=float, metavar="S", help="budget in seconds (default: none)")
    group.add_argument("--seed", type=int, default=0, help="seed of solvers that draw (default: 0)")
    return group


def read(args: Any, target: Any = None, n_features: int | None = None) -> Data:
    """The data that the options name.

    `target` stands in for an option that was not given. So does `n_features`, where the file alone does not tell the number.
    """
    from saddlery.data import format_of, read_data

    if is_store(args):
        return _open_store(args)
    if args.max_memory is not None:
        raise InputError("--max-memory is for stores: make one by 'saddlery convert', or leave it out")
    format = format_of(args.data) if args.format is None else args.format
    if args.n_features is None and format != "svmlight":
        n_features = None
    return read_data(
        args.data,
        target=target if args.target is None else args.target,
        n_features=args.n_features or n_features,
        format=args.format,
    )


def is_store(args: Any) -> bool:
    """Whether DATA is a directory written by 'saddlery convert'."""
    return Path(args.data).is_dir() and args.format is None


def _open_store(args: Any) -> Data:
    from saddlery.data import Data
    from saddlery.matrix.store import open_store

    if args.target is not None or args.n_features is not None:
        raise InputError("a store knows its target and its columns: leave out --target and --n-features")
    store = open_store(args.data, max_memory=args.max_memory)
    return Data(store, store.y, store.feature_names, store.name)


def known_target(args: Any, file: Any) -> str | None:
    """The target column that the model was fitted on, if both files are tables with names."""
    from saddlery.data import format_of

    if is_store(args):
        return None
    format = format_of(args.data) if args.format is None else args.format
    return None if format == "svmlight" else file.content["about"].get("target")


def loss_of(args: Any, name: str) -> Any:
    """The loss: its name, or an instance if it has options."""
    given = {option: getattr(args, option) for option in LOSS_OPTIONS.values() if getattr(args, option) is not None}
    own = LOSS_OPTIONS.get(name)
    wrong = [option for option in given if option != own]
    if wrong:
        owner = next(loss for loss, option in LOSS_OPTIONS.items() if option == wrong[0])
        raise InputError(f"--{wrong[0]} belongs to --loss {owner}, not to {name}")
    return LOSSES.get(name)(**given) if given else name


def task_of(args: Any, y: np.ndarray) -> str:
    """Whether the targets are classes or numbers: as asked for, by the loss, or by the targets if they leave no doubt."""
    import numpy as np

    if y is None:
        raise InputError(f"{args.data} has no targets: convert the data again with their target column")
    if args.task != "auto":
        return args.task
    if args.loss is not None:
        return "regression" if _is_real(args.loss) and y.dtype.kind in "iuf" else "classification"
    if y.dtype.kind not in "iuf":
        return "classification"
    distinct = np.unique(y)
    if not np.all(distinct == np.rint(distinct)):
        return "regression"
    if distinct.size <= 2:
        return "classification"
    raise InputError(f"the targets are {distinct.size} different whole numbers: say --task classification or --task regression")


def _is_real(loss: str) -> bool:
    return LOSSES.get(loss)().targets == "real"


def class_weight_of(text: str | None, y: np.ndarray) -> Any:
    """The class weights that an option stands for, with labels of the type that the data have."""
    if text is None or text == "balanced":
        return text
    labels = {str(label): label for label in set(y.tolist())}
    weights = {}
    for item in text.split(","):
        name, equals, weight = (piece.strip() for piece in item.rpartition("="))
        if not equals:
            raise InputError(f"--class-weight: {item!r} is not LABEL=WEIGHT, nor 'balanced'")
        if name not in labels:
            raise InputError(f"--class-weight: the class {name!r} is not in the data; the classes are {', '.join(sorted(labels))}")
        try:
            weights[labels[name]] = float(weight)
        except ValueError as error:
            raise InputError(f"--class-weight: the weight {weight!r} of {name!r} is not a number") from error
    return weights


def check_output(*paths: str | None) -> None:
    """Refuse places that cannot be written before any work is done for them."""
    for path in paths:
        if path is None:
            continue
        place = Path(path)
        if place.is_dir():
            raise InputError(f"{path} is a directory: give a file name")
        if not place.resolve().parent.is_dir():
            raise InputError(f"{path} cannot be written: the directory {place.resolve().parent.name} does not exist")
