"""``saddlery inspect``: what a model file holds."""

from __future__ import annotations

import math
from typing import Any

from saddlery.cli.exits import DONE

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "inspect",
        help="show what a model file holds",
        description="Show objective, certificate, coefficients and versions of a model file.",
    )
    parser.add_argument("model", metavar="MODEL", help="a file written by 'saddlery fit --output' or saddlery.save")
    parser.add_argument("--top", type=int, metavar="N", default=10, help="number of largest coefficients to show (default: 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Read and print."""
    from saddlery.cli.show import print_json
    from saddlery.model_file import read_model

    file = read_model(args.model)
    if args.json:
        arrays = {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in file.arrays.items()}
        print_json({**file.content, "arrays": arrays, "largest": _largest(file, args.top)})
    else:
        _print_text(file, args.top)
    return DONE


def _print_text(file: Any, top: int) -> None:
    import numpy as np

    from saddlery.cli.show import print_facts, print_table
    from saddlery.matrix import count_nonzero

    content, known = file.content, {name: file.attribute(name) for name in file.content["attributes"]}
    objective = file.objective()
    parts = [_words(objective["loss"]), _words(objective["penalty"]), "intercept" if objective["fit_intercept"] else "no intercept"]
    rows = [
        ("estimator", content["estimator"]),
        ("objective", ", ".join(parts)),
        ("status", str(known["status_"])),
        ("certificate", str(known["certificate_"])),
        ("solver", f"{known['solver_']}, {known['n_iter_']} epochs"),
        ("fitted on", f"{known['dual_coef_'].shape[0]} rows, {known['n_features_in_']} columns"),
        ("row weights", "equal" if content["row_weights"] is None else "stored"),
        ("non-zeros", f"{count_nonzero(known['coef_'])} of {math.prod(known['coef_'].shape)}"),
        ("intercept", ", ".join(f"{b:.6g}" for b in np.atleast_1d(known["intercept_"]))),
    ]
    if "classes_" in known:
        rows.insert(2, ("classes", ", ".join(map(str, known["classes_"].tolist()))))
    rows += [(name, str(value)) for name, value in content["about"].items() if value is not None]
    rows.append(("written by", ", ".join(f"{name} {number}" for name, number in content["versions"].items())))
    print_facts(rows)
    largest = _largest(file, top)
    if largest:
        several = any("class" in item for item in largest)
        columns = ["feature", *(["class"] if several else []), "coefficient"]
        cells = [[item["feature"], *([item["class"]] if several else []), f"{item['coefficient']:.6g}"] for item in largest]
        print_table(columns, cells, left=len(columns) - 1, title="largest coefficients")


def _words(part: dict[str, Any]) -> str:
    options = ", ".join(f"{name} = {_number(value)}" for name, value in part.items() if name != "name")
    return f"{part['name']} ({options})" if options else part["name"]


def _number(value: Any) -> str:
    """A parameter: its value, or how many numbers it consists of."""
    if getattr(value, "size", 1) > 1:
        return f"{value.size} numbers"
    return f"{value.item() if hasattr(value, 'item') else value:.6g}"


def _largest(file: Any, top: int) -> list[dict[str, Any]]:
    """The largest coefficients with the names of their features, and of their classes if there are several."""
    import numpy as np
    from scipy.sparse import coo_array

    coefs, names, classes = (file.attribute(name) for name in ("coef_", "feature_names_in_", "classes_"))
    entries = coefs.tocoo() if hasattr(coefs, "tocoo") else coo_array(np.atleast_2d(coefs))
    order = np.argsort(-np.abs(entries.data), kind="stable")[: max(top, 0)]
    out = []
    for k, j, value in zip(entries.row[order], entries.col[order], entries.data[order], strict=True):
        item = {"feature": f"x{j}" if names is None else str(names[j])}
        if entries.shape[0] > 1:
            item["class"] = str(classes[k])
        out.append({**item, "coefficient": float(value)})
    return out
