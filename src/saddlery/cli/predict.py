"""``saddlery predict``: predictions of a model file for a data file, one line for each row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from saddlery.cli import options
from saddlery.cli.exits import DONE
from saddlery.errors import InputError

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "predict",
        help="predict with a model file",
        description="Print one prediction for each row of the data; targets are not needed.",
    )
    parser.add_argument("model", metavar="MODEL", help="a file written by 'saddlery fit --output' or saddlery.save")
    options.add_data_options(parser)
    parser.add_argument(
        "--proba", action="store_true", help="print probabilities, one column for each class, below a line of labels"
    )
    parser.add_argument("--output", "-o", metavar="FILE", help="write there instead of standard output")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Load, read, predict, write."""
    options.check_output(args.output)
    from saddlery.cli.features import matching_columns
    from saddlery.files import write_atomically
    from saddlery.model_file import read_model, restore

    file = read_model(args.model)
    model = restore(file)
    data = options.read(args, target=_target(args, file), n_features=model.n_features_in_)
    X = matching_columns(data, model.n_features_in_, getattr(model, "feature_names_in_", None))
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the names were compared just now, and plain arrays carry none
    text = "\n".join(_lines(model, X, args.proba)) + "\n"
    if args.output is None:
        sys.stdout.write(text)
    else:
        write_atomically(args.output, text.encode())
    return DONE


def _target(args: Any, file: Any) -> Any:
    """The column that is no feature: the target of the training data, if this table has it too."""
    from saddlery.data import format_of
    from saddlery.data.csv import column_names

    if options.is_store(args):
        return None
    name = file.content["about"].get("target")
    format = format_of(args.data) if args.format is None else args.format
    return name if format == "csv" and name in column_names(Path(args.data)) else False


def _lines(model: Any, X: Any, proba: bool) -> list[str]:
    if not proba:
        return [str(value) for value in model.predict(X).tolist()]
    if not hasattr(model, "predict_proba"):
        raise InputError("probabilities need a classifier with --loss logistic: other losses do not estimate them")
    rows = model.predict_proba(X).tolist()
    return [",".join(map(str, model.classes_.tolist())), *(",".join(map(repr, row)) for row in rows)]
