"""A third party's experiment, and small files under the names of the real data sets."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from saddlery.registry import EXPERIMENTS

HERE = Path(__file__).parent


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The experiment "tiny" is registered in this process; the answer reads its log."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setitem(EXPERIMENTS.__dict__, "_others", {"tiny": "tiny_experiment:Tiny"})
    monkeypatch.setenv("TINY_LOG", str(tmp_path / "log"))
    return lambda: _log(tmp_path)


def _log(folder):
    file = folder / "log"
    return file.read_text().split() if file.exists() else []


@pytest.fixture
def reproduce_tiny(tmp_path):
    """reproduce_tiny(): start ``saddlery reproduce tiny`` as a process, which finds the experiment by its entry point."""
    plugin = tmp_path / "plugin"
    info = plugin / "tiny-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[saddlery.experiments]\ntiny = tiny_experiment:Tiny\n")
    (plugin / "tiny_experiment.py").write_text((HERE / "tiny_experiment.py").read_text())

    def start(*args, **environment):
        path = os.pathsep.join([str(plugin), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**os.environ, "PYTHONPATH": path, "TINY_LOG": str(tmp_path / "log"), **environment}
        command = [sys.executable, "-m", "saddlery", "reproduce", "tiny", "-o", str(tmp_path / "out"), *args]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    start.log = lambda: _log(tmp_path)
    start.output = tmp_path / "out"
    return start


def _mushrooms(n, d, labels, seed):
    """Binary data with as many ones in each row, as mushrooms has; the label depends on a few columns."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        on = np.sort(rng.choice(d, size=8, replace=False))
        score = np.isin(on, [0, 3, 5]).sum() - np.isin(on, [1, 2, 7]).sum() + 0.3 * rng.standard_normal()
        lines.append(f"{labels[int(score > 0)]} " + " ".join(f"{j + 1}:1" for j in on))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory):
    """A folder with small files called a9a and mushrooms (in a folder of its own)."""
    folder = tmp_path_factory.mktemp("sets")
    (folder / "a9a").write_text(_mushrooms(600, 30, (-1, 1), 0))
    (folder / "mushrooms").mkdir()
    (folder / "mushrooms" / "mushrooms").write_text(_mushrooms(500, 20, (1, 2), 1))
    return folder
