"""A small task, and peers that behave as told."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.bench.tasks import Cell, Task

sys.path.append(str(Path(__file__).parent))  # for fake_rivals


@pytest.fixture(scope="session")
def ridge():
    """A task of ridge regression."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.standard_normal((40, 4)))
    return Task(
        Cell("small:ridge", "small", "fit", "squared", 0.0, alpha=0.1), X, X @ [1.0, -2.0, 0.5, 0.0] + rng.standard_normal(40)
    )
