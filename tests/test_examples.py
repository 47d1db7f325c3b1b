"""Every example runs to its end, without warnings, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(script, tmp_path):
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.strip(), "an example shows something"
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_says_how_to_run_it(script):
    assert f"Run: python examples/{script.name}" in script.read_text(encoding="utf-8")
