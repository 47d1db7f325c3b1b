"""``saddlery``: reads the command line, runs the command, and turns errors into one sentence and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from typing import Any, NoReturn

from saddlery.cli.exits import BAD_INPUT, STOPPED
from saddlery.errors import InputError

__all__ = ["build_parser", "main"]

# Each is a module of this package with add_parser(subparsers) and run(args) -> exit code.
COMMANDS = ("demo", "fit", "predict", "certify", "inspect", "path", "convert", "solvers", "warmup", "reproduce", "bench")

EPILOG = """\
exit codes: 0 certified to the tolerance (or done), 2 bad usage or input, 3 stopped before the tolerance was certified
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser with all commands; imports no numerics."""
    parser = _Parser(
        prog="saddlery",
        description="Linear models by saddle-point optimisation, each with a certificate of how near to the optimum it is.",
        epilog=EPILOG,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    subparsers = parser.add_subparsers(metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f"saddlery.cli.{name}").add_parser(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : list of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        The exit code: 0 certified (or done), 2 bad usage or input, 3 stopped before the tolerance was certified.

    Examples
    --------
    >>> main(["certify", "nothing.saddle", "nothing.svm"])  # says why on standard error
    2
    """
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.version:
        from saddlery import __version__

        print(f"saddlery {__version__}")
        return 0
    if not hasattr(args, "run"):
        parser.print_help()
        return BAD_INPUT
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _run(args)


def _run(args: Any) -> int:
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _fail("interrupted before there was a result", STOPPED)
    except BrokenPipeError:
        # The reader of our output has left, as `head` does. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STOPPED
    except InputError as error:
        return _fail(str(error), BAD_INPUT)
    except MemoryError as error:
        return _fail(f"out of memory ({str(error) or 'no details'}): use fewer columns or a machine with more", BAD_INPUT)
    except OSError as error:
        return _fail(_sentence(error), BAD_INPUT)


def _fail(sentence: str, code: int) -> int:
    print("saddlery: " + " ".join(sentence.split()), file=sys.stderr)
    return code


def _sentence(error: OSError) -> str:
    if error.strerror is None:
        return str(error) or type(error).__name__
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: str | None = None) -> None:
    print(f"saddlery: warning: {' '.join(str(message).split())}", file=sys.stderr)
