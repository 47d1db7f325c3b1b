"""``saddlery fit``: fit a linear model to a data file, show how its certificate falls, and keep it."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import asdict
from typing import Any

from saddlery.cli import options
from saddlery.cli.exits import code_for
from saddlery.errors import InputError

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "fit",
        help="fit a linear model to a data file",
        description="Fit a linear model and show, epoch by epoch, how far from optimal it can be at most.",
        epilog="exit codes: 0 certified to --tol, 2 bad usage or input, 3 stopped before it (budget, Ctrl-C); the model is saved",
    )
    options.add_data_options(parser)
    objective = options.add_objective_options(parser)
    objective.add_argument(
        "--radius",
        type=float,
        metavar="R",
        help="size of l1_ball, l2_ball, simplex or box; with l1, l2 or elasticnet a ball around them",
    )
    objective.add_argument(
        "--multiclass",
        choices=("ovr", "joint"),
        default="ovr",
        help="three or more classes: one against the rest, or all at once, where logistic is softmax (default: ovr)",
    )
    strength = objective.add_mutually_exclusive_group()
    strength.add_argument("--alpha", type=float, metavar="A", help="strength of the penalty (default: 1e-3)")
    strength.add_argument("--alpha-ratio", type=float, metavar="F", help="the same, as a part of the one that makes all weights 0")
    solver = options.add_solver_options(parser, tol=1e-4)
    solver.add_argument("--jobs", type=int, metavar="N", help="threads over the classes, with three or more (default: 1)")
    output = parser.add_argument_group("output")
    output.add_argument("--output", "-o", metavar="MODEL", help="write the model, by custom as NAME.saddle")
    output.add_argument("--report", metavar="PAGE", help="write an HTML page with curve, certificate and largest coefficients")
    output.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    output.add_argument("--quiet", "-q", action="store_true", help="do not show the live table")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Fit, report, save."""
    options.check_output(args.output, args.report)
    data = options.read(args)
    model = _make_model(args, data)
    began = time.perf_counter()
    _fit(model, data)
    seconds = time.perf_counter() - began
    if args.output is not None:
        from saddlery.model_file import save

        save(model, args.output, about={"data": data.name, "target": args.target, "seconds": round(seconds, 3)})
    if args.report is not None:
        from saddlery.report.html import write_report

        write_report(args.report, model, title=f"{data.name}: {_words(model)}", feature_names=data.feature_names)
    (_print_json if args.json else _print_text)(args, data, model, seconds)
    return code_for([certificate.relative_gap for certificate in model.certificates_], args.tol)


def _make_model(args: Any, data: Any) -> Any:
    from saddlery import LinearClassifier, LinearRegressor

    task = options.task_of(args, data.y)
    common: dict[str, Any] = {
        "loss": options.loss_of(args, args.loss or ("logistic" if task == "classification" else "squared")),
        "penalty": args.penalty,
        "alpha": 1e-3 if args.alpha is None else args.alpha,
        "l1_ratio": args.l1_ratio,
        "radius": args.radius,
        "fit_intercept": not args.no_intercept,
        "solver": args.solver,
        "tol": args.tol,
        "max_epochs": args.max_epochs,
        "max_seconds": args.max_seconds,
        "random_state": args.seed,
        "n_jobs": args.jobs,
        "verbose": 0 if args.json or args.quiet else 1,
    }
    if task == "regression":
        if args.class_weight is not None:
            raise InputError("--class-weight is for classification: leave it out, or say --task classification")
        if data.y.dtype.kind not in "iuf":
            raise InputError("the targets are text, but regression needs numbers: say --task classification")
        if args.multiclass != "ovr":
            raise InputError("--multiclass is for classification: leave it out, or say --task classification")
        model = LinearRegressor(**common)
    else:
        weight = options.class_weight_of(args.class_weight, data.y)
        model = LinearClassifier(**common, multiclass=args.multiclass, class_weight=weight)
    _check_strength(args)
    if args.alpha_ratio is not None:
        model.alpha = _alpha_from_ratio(args.alpha_ratio, model, data)
    return model


def _check_strength(args: Any) -> None:
    """Refuse a strength that the constraint does not have."""
    from saddlery.registry import PENALTIES

    cls = PENALTIES.get(args.penalty)
    given = [name for name in ("--alpha", "--alpha-ratio") if getattr(args, name[2:].replace("-", "_")) is not None]
    if given and getattr(cls, "bounded", False) and not _has_strength(cls):
        raise InputError(f"{args.penalty} has a size and no strength: leave {given[0]} out and give --radius")


def _has_strength(penalty: Any) -> bool:
    return "alpha" in penalty._fields


def _alpha_from_ratio(ratio: float, model: Any, data: Any) -> float:
    """`ratio` times the smallest strength at which all weights (of all classes) are zero."""
    from saddlery.cli.targets import problems_of

    problems = problems_of(model, data.X, data.y)
    if problems[0].penalty.threshold == 0.0:
        raise InputError("--alpha-ratio needs a penalty with an l1 part, because l2 never makes all weights zero: give --alpha")
    if not ratio > 0.0:
        raise InputError(f"--alpha-ratio must be a positive number, not {ratio:g}")
    return ratio * max(problem.alpha_max() for problem in problems)


def _fit(model: Any, data: Any) -> None:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is printed and decides the exit code
        try:
            model.fit(data.X, data.y)
        except ValueError as error:  # scikit-learn has sentences of its own for input that does not fit
            raise InputError(str(error)) from error
    if data.feature_names is not None:
        import numpy as np

        model.feature_names_in_ = np.array(data.feature_names, dtype=object)


def _words(model: Any) -> str:
    loss = model.loss if isinstance(model.loss, str) else repr(model.loss)
    return f"{loss} loss, {model.penalty} {'penalty' if _has_strength(model.penalty_) else 'constraint'}"


def _sizes(model: Any) -> dict[str, Any]:
    """Strength and radius, those that the objective has."""
    return {"alpha": model.alpha if _has_strength(model.penalty_) else None, "radius": model.radius}


def _print_text(args: Any, data: Any, model: Any, seconds: float) -> None:
    from saddlery.cli.show import print_facts
    from saddlery.matrix import count_nonzero

    n, d = data.X.shape
    worst = model.certificate_
    several = f" (worst of {len(model.certificates_)} classes)" if len(model.certificates_) > 1 else ""
    sizes = ", ".join(f"{name} = {value:.6g}" for name, value in _sizes(model).items() if value is not None)
    written = [("model", args.output), ("report", args.report)]
    print_facts(
        [
            ("data", f"{data.name}: {n} rows, {d} columns"),
            ("objective", f"{_words(model)}, {sizes}"),
            ("status", str(model.status_)),
            ("solver", f"{model.solver_}, {model.n_iter_} epochs, {seconds:.2f} s"),
            ("value", f"{worst.primal:.10g}{several}"),
            ("optimum", f"at least {worst.dual:.10g}"),
            ("relative gap", f"{worst.relative_gap:.3g} (asked for: {args.tol:g})"),
            ("non-zeros", f"{count_nonzero(model.coef_)} of {math.prod(model.coef_.shape)}"),
            *[(what, place) for what, place in written if place is not None],
        ]
    )


def _print_json(args: Any, data: Any, model: Any, seconds: float) -> None:
    from saddlery.cli.show import print_json
    from saddlery.matrix import count_nonzero

    n, d = data.X.shape
    print_json(
        {
            "data": {"name": data.name, "rows": n, "columns": d},
            "estimator": type(model).__name__,
            "loss": args.loss or model.loss,
            "penalty": model.penalty,
            **_sizes(model),
            "tol": args.tol,
            "status": model.status_.name.lower(),
            "certified": all(certificate.relative_gap <= args.tol for certificate in model.certificates_),
            "certificate": asdict(model.certificate_),
            "certificates": [asdict(certificate) for certificate in model.certificates_],
            "classes": getattr(model, "classes_", None),
            "solver": model.solver_,
            "epochs": model.n_iter_,
            "seconds": seconds,
            "nonzeros": count_nonzero(model.coef_),
            "trace": model.trace_.as_dict(),
            "model": args.output,
            "report": args.report,
        }
    )
