"""``saddlery inspect``: what a model file holds."""

from __future__ import annotations

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
        ("non-zeros", f"{np.count_nonzero(known['coef_'])} of {known['coef_'].size}"),
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

    coefs, names, classes = np.atleast_2d(file.attribute("coef_")), file.attribute("feature_names_in_"), file.attribute("classes_")
    order = np.argsort(-np.abs(coefs), axis=None, kind="stable")[: min(max(top, 0), np.count_nonzero(coefs))]
    out = []
    for k, j in zip(*np.unravel_index(order, coefs.shape), strict=True):
        item = {"feature": f"x{j}" if names is None else str(names[j])}
        if coefs.shape[0] > 1:
            item["class"] = str(classes[k])
        out.append({**item, "coefficient": float(coefs[k, j])})
    return out
