"""Every example runs to its end, without warnings, in a process of its own."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


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


def test_readme_shows_what_it_prints(tmp_path):
    """The block in the README prints the words beside it, and the numbers up to the tolerance of its solvers."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", text, re.DOTALL).groups()
    answer = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    number = r"\d+\.?\d*(?:e-?\d+)?"
    assert re.sub(number, "#", answer.stdout) == re.sub(number, "#", shown)
    for printed, written in zip(re.findall(number, answer.stdout), re.findall(number, shown), strict=True):
        assert math.isclose(float(printed), float(written), rel_tol=1e-3, abs_tol=1e-5)


@pytest.mark.parametrize("page", ["cluster", "constraints", "multiclass", "store", "sublinear-svm"])
def test_code_of_pages_runs(page, tmp_path):
    """All blocks in order, in one process, without warnings."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    script = tmp_path / "page.py"  # a file, so that the compiler finds the source
    script.write_text(code, encoding="utf-8")
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]), ids=lambda path: path.name)
def test_links_of_the_documentation_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
