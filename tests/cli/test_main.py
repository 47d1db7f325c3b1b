"""The frame: help, usage, errors in one sentence."""

import errno
import json
import subprocess
import sys
import warnings

import pytest

from saddlery.cli import main as module
from saddlery.errors import InputError


def test_help_names_all_commands(saddlery):
    done = saddlery("--help")
    assert done.code == 0
    assert all(f"\n    {name} " in done.out for name in module.COMMANDS)
    assert "exit codes" in done.out


@pytest.mark.parametrize("name", module.COMMANDS)
def test_help_of_commands(saddlery, name):
    done = saddlery(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: saddlery {name} ")


def test_help_loads_nothing_heavy():
    """What makes --help quick, without a clock: none of the slow libraries is imported to answer it."""
    code = (
        "import json, sys\n"
        "from saddlery.cli.main import build_parser\n"
        "build_parser().format_help()\n"
        "heavy = {'numpy', 'scipy', 'numba', 'sklearn', 'rich', 'matplotlib', 'safetensors'}\n"
        "print(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == []


def test_version(saddlery):
    assert saddlery("--version").out.startswith("saddlery ")


def test_no_command_shows_help(saddlery):
    done = saddlery()
    assert done.code == 2
    assert done.out.startswith("usage: saddlery")


@pytest.mark.parametrize(
    "args",
    [
        ("fitt", "x"),
        ("fit",),
        ("fit", "x", "--alpha", "much"),
        ("fit", "x", "--alpha", "1", "--alpha-ratio", "1"),
        ("inspect", "a", "b"),
    ],
)
def test_bad_usage_is_one_line(saddlery, args):
    done = saddlery(*args)
    assert done.code == 2
    assert "--help" in done.sentence()


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputError("this is wrong:\n do that"), 2, "saddlery: this is wrong: do that"),
        (OSError(errno.EACCES, "Permission denied", "x.svm"), 2, "saddlery: x.svm: Permission denied"),
        (OSError("odd"), 2, "saddlery: odd"),
        (MemoryError(), 2, "saddlery: out of memory (no details): use fewer columns or a machine with more"),
        (KeyboardInterrupt(), 3, "saddlery: interrupted before there was a result"),
    ],
)
def test_errors_become_sentences(saddlery, monkeypatch, error, code, text):
    def fail(args):
        raise error

    monkeypatch.setattr("saddlery.cli.solvers.run", fail)
    done = saddlery("solvers")
    assert (done.code, done.sentence()) == (code, text)


def test_warnings_are_one_line(saddlery, monkeypatch):
    def warn(args):
        warnings.simplefilter("always")
        warnings.warn("mind the\n gap", stacklevel=1)
        return 0

    monkeypatch.setattr("saddlery.cli.solvers.run", warn)
    assert saddlery("solvers").sentence() == "saddlery: warning: mind the gap"


def test_bugs_are_not_hidden(saddlery, monkeypatch):
    def fail(args):
        raise RuntimeError("a bug")

    monkeypatch.setattr("saddlery.cli.solvers.run", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        saddlery("solvers")


def test_readers_that_leave_early(command):
    with command("solvers") as process:
        process.stdout.close()
        assert process.wait(timeout=60) == 3
        assert process.stderr.read() == ""
