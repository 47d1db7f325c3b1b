"""``saddlery solvers``: the solvers, their papers and what they need."""

from __future__ import annotations

from typing import Any

from saddlery.cli.exits import DONE
from saddlery.registry import LOSSES, PENALTIES, SOLVERS

__all__ = ["add_parser", "run"]

EXAMPLE = {"radius": 1.0, "cap": 1.0, "k": 1, "groups": [0], "low": -1.0, "high": 1.0}  # arguments of constraints


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = subparsers.add_parser(
        "solvers",
        help="list the solvers and what they need",
        description="List the solvers with their papers and needs; with a loss or a penalty, those that can solve it, best first.",
    )
    parser.add_argument("--loss", metavar="NAME", help=", ".join(LOSSES.builtin))
    parser.add_argument("--penalty", metavar="NAME", help=", ".join(PENALTIES.builtin))
    parser.add_argument("--intercept", action="store_true", help="with an intercept")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Collect and print."""
    from saddlery.cli.show import print_json, print_table

    names = SOLVERS.names()
    chosen = args.loss is not None or args.penalty is not None or args.intercept
    if chosen:
        names = _able(args)
    rows = [{"name": name, "needs": _needs(SOLVERS.get(name).needs), "paper": SOLVERS.get(name).paper} for name in names]
    if args.json:
        print_json({"solvers": rows})
        return DONE
    title = f"for {args.loss or 'any loss'} with {args.penalty or 'any penalty'} on small data, best first" if chosen else ""
    print_table(["solver", "needs", "paper"], [list(row.values()) for row in rows], left=3, title=title)
    return DONE


def _able(args: Any) -> list[str]:
    """Solvers that can solve a small problem of this kind; what is not given is what asks for least."""
    from saddlery.problems.linear import LinearProblem
    from saddlery.solvers import available

    loss = LOSSES.get(args.loss or "logistic")()
    problem = LinearProblem([[1.0], [-1.0], [0.5]], [1, -1, 1], loss, _example(args.penalty or "elasticnet"), None, args.intercept)
    return available(problem)


def _example(name: str) -> Any:
    """A penalty or constraint of this name for one column."""
    import inspect

    cls = PENALTIES.get(name)
    arguments = {argument.name for argument in inspect.signature(cls).parameters.values() if argument.default is argument.empty}
    return cls(**{argument: EXAMPLE.get(argument, 0.1) for argument in arguments})


def _needs(needs: Any) -> str:
    if needs.kind != "linear":
        return f"a {' or '.join(needs.kinds)} problem"
    wanted = {
        "smooth": "smooth loss",
        "strongly_convex": "l2 part in the penalty",
        "rotates": "l2 penalty",
        "kinks": "loss with kinks",
        "constraint": "constraint",
        "no_intercept": "no intercept",
        "smooth_with_intercept": "no intercept or a smooth loss",
    }
    words = [words for name, words in wanted.items() if getattr(needs, name) and not (name == "strongly_convex" and needs.rotates)]
    if needs.most_columns is not None:
        words.append(f"at most {needs.most_columns:,} columns")
    if "corners" in needs.penalty:
        words.append("l1 ball or simplex")
    elif "relaxed" in needs.penalty:
        words.append("l1 or l2 ball")
    elif "atom" in needs.penalty and not needs.constraint:
        words.append("set with an oracle")
    return ", ".join(words) or "nothing"
