"""Small data files, and two ways to run the command line: inside this process, and as users do."""

import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from saddlery.cli.main import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    def sentence(self):
        """The one line on standard error; fails if there are more, or a traceback."""
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.strip()


@pytest.fixture
def saddlery(capsys):
    """saddlery("fit", "data.svm", ...): run a command in this process."""

    def run(*args):
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as stop:  # from the parser
            code = stop.code
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run


@pytest.fixture(scope="session")
def command():
    """command("fit", ...): start a command as a process of its own."""

    def start(*args, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen([sys.executable, "-m", "saddlery", *map(str, args)], env=dict(os.environ), **pipes)

    return start


@pytest.fixture(scope="session")
def numbers():
    """Data, a score that depends on them, and that score cut into three classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)).round(3)
    score = (2 * X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=80)).round(3)
    return X, score, np.digitize(score, [-1.0, 1.0])


def svmlight(X, y):
    rows = zip(X, y, strict=True)
    return "".join(f"{label:g} {' '.join(f'{j + 1}:{value:g}' for j, value in enumerate(row) if value)}\n" for row, label in rows)


def csv(X, y, name):
    rows = zip(X, y, strict=True)
    head = ",".join([*(f"c{j}" for j in range(X.shape[1])), name])
    return "\n".join([head, *(",".join([*map(repr, row.tolist()), str(label)]) for row, label in rows)]) + "\n"


@pytest.fixture(scope="session")
def folder(tmp_path_factory, numbers):
    """A directory with data files: binary.svm, three.svm, words.csv (target "kind"), house.csv (numbers), real.npz."""
    X, score, three = numbers
    place = tmp_path_factory.mktemp("data")
    (place / "binary.svm").write_text(svmlight(X, np.where(score > 0, 1, -1)))
    (place / "three.svm").write_text(svmlight(X, three))
    (place / "words.csv").write_text(csv(X, np.where(score > 0, "good", "bad"), "kind"))
    (place / "house.csv").write_text(csv(X, score, "target"))
    np.savez(place / "real.npz", X=X, y=score)
    return place
