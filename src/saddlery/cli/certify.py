"""``saddlery certify``: recompute the certificate of a model file from the file and the data alone, in plain NumPy."""

from __future__ import annotations

import sys
from typing import Any

from saddlery.cli import options
from saddlery.cli.exits import BAD_INPUT, code_for

__all__ = ["add_parser", "run"]

FIELDS = ("primal", "dual", "gap", "relative_gap", "scale")
AGREEMENT = 1e-9  # of the scale: sums in another order differ by rounding, other data differ by more


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "certify",
        help="recompute the certificate of a model file from its data",
        description="Recompute the certificate from the file and the data alone, with code that shares nothing with the solvers, "
        "and say whether it agrees with the one in the file.",
        epilog="exit codes: 0 agrees and is certified to the model's tol, 3 agrees but is not, 2 does not agree, or bad input",
    )
    parser.add_argument("model", metavar="MODEL", help="a file written by 'saddlery fit --output' or saddlery.save")
    options.add_data_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Read, recompute, compare."""
    from saddlery.cli.show import print_json
    from saddlery.model_file import read_model

    file = read_model(args.model)
    data = options.read(args, target=options.known_target(args, file), n_features=file.attribute("n_features_in_"))
    results = _recompute(file, data)
    tol = float(file.content["parameters"].get("tol", 0.0))
    agrees = all(result["agrees"] for result in results)
    gaps = [result["recomputed"]["relative_gap"] for result in results]
    if args.json:
        certified = agrees and all(gap <= tol for gap in gaps)
        print_json({"agrees": agrees, "certified": certified, "tol": tol, "problems": results})
    else:
        _print_text(results, tol, gaps)
    if not agrees:
        print(
            "saddlery: the certificate does not agree with the one in the file: these are not the data of the fit",
            file=sys.stderr,
        )
        return BAD_INPUT
    return code_for(gaps, tol)


def _recompute(file: Any, data: Any) -> list[dict[str, Any]]:
    """For each problem of the model (one, or one for each class) the certificate in the file and the recomputed one."""
    import numpy as np

    from saddlery.cli.features import matching_columns, plain_rows
    from saddlery.cli.targets import class_codes, signed_targets
    from saddlery.errors import InputError
    from saddlery.verify import verify, verify_joint

    coefs, intercepts, objective = file.attribute("coef_"), np.atleast_1d(file.attribute("intercept_")), file.objective()
    coefs = coefs if hasattr(coefs, "tocsr") else np.atleast_2d(coefs)
    classes, duals, stored = (file.attribute(name) for name in ("classes_", "dual_coef_", "certificates_"))
    X, labels, s = matching_columns(data, coefs.shape[1], file.attribute("feature_names_in_")), data.y, file.row_weights()
    if labels is None:
        raise InputError(f"{data.name} has no targets: give the training data")
    if duals.shape[0] != X.shape[0]:
        raise InputError(f"the data have {X.shape[0]} rows, but the model was fitted on {duals.shape[0]}: give the training data")
    if s is not None:  # a row of weight 0 is no row, and may have any label
        kept = s > 0.0
        X, labels, duals, s = plain_rows(X, None if kept.all() else kept), labels[kept], duals[kept], s[kept]
    else:
        X = plain_rows(X)
    if objective.get("classes") == "joint":
        again = verify_joint(objective, X, class_codes(labels, classes), s, coefs.T, intercepts, duals)
        return [_compared("", stored[0], again)]
    if classes is not None:
        targets, names = signed_targets(labels, classes), [str(label) for label in classes]
    elif labels.dtype.kind in "iuf":
        targets, names = [labels], [""]
    else:
        raise InputError("the targets are text, but the model is a regression: name the column of numbers by --target")
    if not len(targets) == len(coefs) == len(intercepts) == len(stored) == duals.size / max(len(labels), 1):
        raise InputError(f"{file.path} holds arrays that do not fit each other: it was not written by saddlery")
    duals = duals.reshape(-1, len(targets)).T
    results = []
    for k, (y, w, b, a) in enumerate(zip(targets, coefs, intercepts, duals, strict=True)):
        again = verify(objective, X, y, s, w, float(b), a)
        results.append(_compared(names[k] if len(targets) > 1 else "", stored[k], again))
    return results


def _compared(name: str, stored: Any, again: dict[str, float]) -> dict[str, Any]:
    """The certificate in the file beside the recomputed one."""
    before = {field: getattr(stored, field) for field in FIELDS}
    allowed = AGREEMENT * max(before["scale"], abs(before["primal"]))
    agrees = all(abs(before[field] - again[field]) <= allowed for field in ("primal", "dual", "gap", "scale"))
    return {"problem": name, "stored": before, "recomputed": again, "agrees": agrees}


def _print_text(results: list[dict[str, Any]], tol: float, gaps: list[float]) -> None:
    from saddlery.cli.show import print_table

    rows = []
    for result in results:
        for what in ("stored", "recomputed"):
            values = [f"{result[what][field]:.12g}" for field in FIELDS]
            rows.append([result["problem"], what, *values, ("yes" if result["agrees"] else "NO") if what == "recomputed" else ""])
    several = len(results) > 1
    columns = ["class", "certificate", *(field.replace("_", " ") for field in FIELDS), "agrees"]
    print_table(columns if several else columns[1:], rows if several else [row[1:] for row in rows], left=2 if several else 1)
    moved = max(result["recomputed"]["repair"] for result in results)
    told = "was feasible as stored, up to" if moved <= AGREEMENT else "was NOT feasible as stored and was moved by up to"
    print(f"The dual point {told} {moved:.1e}.")
    worst = max(gaps)
    verdict = "certified to" if worst <= tol else "NOT certified to"
    print(f"The objective is within {worst:.3g} (relative) of the optimum: {verdict} tol = {tol:g}.")
