"""A small task, and peers that behave as told."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.bench.tasks import Cell, Task

HERE = str(Path(__file__).parent)
sys.path.append(HERE)  # for fake_rivals, here and in other processes


@pytest.fixture
def elsewhere(monkeypatch):
    """Other processes find fake_rivals, too."""
    paths = [HERE, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


@pytest.fixture(scope="session")
def ridge():
    """A task of ridge regression."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.standard_normal((40, 4)))
    return Task(
        Cell("small:ridge", "small", "fit", "squared", 0.0, alpha=0.1), X, X @ [1.0, -2.0, 0.5, 0.0] + rng.standard_normal(40)
    )
