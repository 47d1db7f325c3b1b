"""``saddlery path``: the same model for many strengths of the penalty, each certified, each the start of the next."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from saddlery.cli import options
from saddlery.cli.exits import STOPPED, code_for
from saddlery.errors import InputError

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "path",
        help="fit a path of penalty strengths",
        description="Fit the same model for many strengths of the penalty, from large to small, each started from the one before.",
        epilog="exit codes: 0 all certified to --tol, 2 bad usage or input, 3 stopped before (budget or Ctrl-C)",
    )
    options.add_data_options(parser)
    options.add_objective_options(parser)
    parser.add_argument("--positive", metavar="LABEL", help="this class against the rest; needed with three or more classes")
    grid = parser.add_argument_group("strengths")
    grid.add_argument("--alphas", metavar="A,B,...", help="strengths, separated by commas (default: a logarithmic grid)")
    grid.add_argument("--n-alphas", type=int, metavar="N", default=20, help="number of strengths of the grid (default: 20)")
    grid.add_argument("--min-ratio", type=float, metavar="F", help="smallest strength as a part of the largest (default: 1e-3)")
    options.add_solver_options(parser, tol=1e-6)
    output = parser.add_argument_group("output")
    output.add_argument("--report", metavar="PAGE", help="write an HTML page with the table and the convergence of all fits")
    output.add_argument("--plot", metavar="FILE", help="draw the coefficients against the strength (.png, .svg, .pdf)")
    output.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Read, fit the path, show."""
    options.check_output(args.report, args.plot)
    alphas = _alphas(args.alphas)
    data = options.read(args)
    problem = _problem(args, data)
    from saddlery import path

    began = time.perf_counter()
    result = path(
        problem,
        alphas,
        n_alphas=args.n_alphas,
        alpha_min_ratio=args.min_ratio,
        solver=args.solver,
        tol=args.tol,
        max_epochs=args.max_epochs,
        max_seconds=args.max_seconds,
        random_state=args.seed,
    )
    _show(args, data, problem, result, time.perf_counter() - began)
    planned = args.n_alphas if alphas is None else len(alphas)
    if len(result) < planned:
        return STOPPED
    return code_for([certificate.relative_gap for certificate in result.certificates], args.tol)


def _alphas(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(item) for item in text.split(",")]
    except ValueError as error:
        raise InputError(f"--alphas takes numbers separated by commas, not {text!r}") from error


def _problem(args: Any, data: Any) -> Any:
    """The problem with a penalty of strength 1: the path sets the strength."""
    from saddlery import LinearClassifier, LinearRegressor
    from saddlery.cli.targets import one_against_rest, problems_of
    from saddlery.estimators.parameters import check_strength

    check_strength(args.penalty)
    y = data.y
    if args.positive is not None:
        y = one_against_rest(y, args.positive)
    task = "classification" if args.positive is not None else options.task_of(args, y)
    loss = options.loss_of(args, args.loss or ("logistic" if task == "classification" else "squared"))
    common: dict[str, Any] = {"loss": loss, "penalty": args.penalty, "alpha": 1.0, "l1_ratio": args.l1_ratio}
    common["fit_intercept"] = not args.no_intercept
    if task == "regression":
        return problems_of(LinearRegressor(**common), data.X, y)[0]
    problems = problems_of(LinearClassifier(**common, class_weight=options.class_weight_of(args.class_weight, y)), data.X, y)
    if len(problems) > 1:
        raise InputError(f"the data have {len(problems)} classes: choose one against the rest by --positive LABEL")
    return problems[0]


def _rows(result: Any) -> list[dict[str, Any]]:
    items = zip(result.alphas, result.solutions, result.nonzeros, strict=True)
    return [
        {
            "alpha": float(alpha),
            "nonzeros": int(nonzeros),
            **asdict(solution.certificate),
            "status": solution.status.name.lower(),
            "solver": solution.solver,
            "epochs": solution.epochs,
            "seconds": solution.seconds,
        }
        for alpha, solution, nonzeros in items
    ]


def _show(args: Any, data: Any, problem: Any, result: Any, seconds: float) -> None:
    from saddlery.cli.show import print_json, print_table

    rows = _rows(result)
    columns = ["alpha", "non-zeros", "objective", "gap", "relative gap", "epochs", "seconds", "status"]
    cells = [
        [
            f"{row['alpha']:.4g}",
            str(row["nonzeros"]),
            f"{row['primal']:.8g}",
            f"{row['gap']:.2e}",
            f"{row['relative_gap']:.2e}",
            str(row["epochs"]),
            f"{row['seconds']:.3f}",
            row["status"],
        ]
        for row in rows
    ]
    title = f"{data.name}: {problem.loss!r}, {type(problem.penalty).__name__}, {len(rows)} strengths in {seconds:.2f} s"
    if args.plot is not None:
        _plot(args.plot, result, data.feature_names)
    if args.report is not None:
        from saddlery.report.html import Table, write_report

        table = Table(
            "The path", "From the largest to the smallest strength; each fit started from the one before.", columns, cells
        )
        write_report(args.report, result.solutions[-1], title=title, feature_names=data.feature_names, tol=args.tol, tables=[table])
    if args.json:
        print_json({"data": data.name, "tol": args.tol, "seconds": seconds, "path": rows, "report": args.report, "plot": args.plot})
    else:
        print_table(columns, cells, left=0, title=title)


def _plot(place: str, result: Any, names: Any) -> None:
    from saddlery.report.displays import PathDisplay

    display = PathDisplay.from_path(result, feature_names=names)
    display.figure_.savefig(place, dpi=150)
