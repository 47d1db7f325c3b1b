"""Problems on a part of the rows."""

import numpy as np

import saddlery as sd
from saddlery.solvers.row_sample import _one_of_each, sample_rows


def test_one_of_each_stretch():
    """As many numbers as stretches, ascending, each in its own; over many draws all come up equally often."""
    rng, seen = np.random.default_rng(0), np.zeros(70)
    for _ in range(2000):
        chosen = _one_of_each(70, 20, rng)
        assert (np.diff(chosen) > 0).all()
        assert ((chosen >= np.floor(np.arange(20) * 3.5)) & (chosen < np.floor(np.arange(1, 21) * 3.5))).all()
        seen[chosen] += 1
    np.testing.assert_allclose(seen / 2000, 20 / 70, atol=0.08)


def test_classes_keep_their_weight():
    """Of a rare class all rows are taken, and of the others as many as fit, with the weights of their whole class."""
    y = np.where(np.arange(400) % 40 == 7, 1.0, -1.0)
    problem = sd.LinearProblem(np.arange(400.0)[:, None], y, penalty=sd.penalties.L1(0.1))
    small = sample_rows(problem, np.random.default_rng(1), 100)
    assert np.count_nonzero(small.y > 0) == 10
    assert np.count_nonzero(small.y < 0) == 50
    assert abs(small.s[small.y > 0].sum() - 10 / 400) < 1e-15
    rows = small.matrix.values[:, 0]
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(small.y, y[rows.astype(int)])
