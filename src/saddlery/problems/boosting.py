"""Boosting as a game: LPBoost with entropies (Warmuth, Glocer & Vishwanathan 2008; section 6.1 of Shi, Zhang & Yu 2017).

The paper's game is ``min_d max_w d'U w + lambda sum d log d - gamma sum w log w`` with U the margins of the hypotheses,
0 <= d <= nu. Here the learner w minimises and the rows d maximise, so that values have the other sign.

================  =============================================  ======================
here              meaning                                        letters of the paper
================  =============================================  ======================
w                 weights of the hypotheses                      w
dual              weights of the rows                            d
row_entropy       strength of the entropy of the rows            lambda
weight_entropy    strength of the entropy of the hypotheses      gamma
nu                largest weight of a row                        nu
H, y              outputs of the hypotheses, labels; U = y * H   X, y; U
================  =============================================  ======================
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saddlery.errors import InputError
from saddlery.geometry.simplices import CappedSimplex, Simplex
from saddlery.matrix import as_matrix
from saddlery.problems.couplings import Coupling
from saddlery.problems.games import Game

__all__ = ["BoostingProblem"]


class BoostingProblem(Game):
    """``min_w max_d  -sum_i d_i y_i (H w)_i + weight_entropy * sum w log w - row_entropy * sum d log d``.

    w is a distribution over the hypotheses, the columns of H; d is one over the rows, none of which may have more than `nu`. So w
    has the largest margin on a soft minimum over rows, and d the weights of the rows that boosting would use. The value of the
    game is the negative of the one in the literature, which lets w maximise.

    Parameters
    ----------
    H : array-like or sparse matrix of shape (n, m)
        Outputs of the hypotheses for the rows, such as -1 and 1.
    y : array of shape (n,)
        Labels, -1 and 1.
    nu : float, default=0.1
        Largest weight of a row; ``nu * n`` must be 1 or more.
    row_entropy, weight_entropy : float, default=0.01
        Strengths of both entropies, 0 or more: the smaller, the nearer to LPBoost without them, and the slower.
    complements : bool, default=True
        Whether each hypothesis comes with its negative; the weights w of these are the second half of all.
    sample_weight : array of shape (n,), optional
        Positive weights: a row of weight 2 counts as the same row twice, with a cap of 2 nu.
    scales, offsets : arrays of shape (m,), optional
        The outputs are ``H * scales + offsets``; so indicators that are mostly 0 may stand for outputs -1 and 1.
    geometry : {"entropy", "euclidean"}, optional
        How steps are measured, for both players.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.BoostingProblem([[1, 1, -1], [1, -1, 1], [-1, 1, 1]], [1, 1, 1], nu=1.0)
    >>> solution = sd.solve(problem, tol=1e-6)
    >>> solution.w[:3].round(3), round(-solution.certificate.primal, 3)
    (array([0.333, 0.333, 0.333]), 0.333)
    """

    def __init__(
        self,
        H: Any,
        y: Any,
        nu: float = 0.1,
        row_entropy: float = 0.01,
        weight_entropy: float = 0.01,
        complements: bool = True,
        sample_weight: Any = None,
        scales: Any = None,
        offsets: Any = None,
        geometry: str | None = None,
    ):
        matrix = as_matrix(H)
        n, d = matrix.shape
        self.y = _as_labels(y, n)
        weights = _as_weights(sample_weight, n)
        self.nu = _as_nu(nu, n if weights is None else float(weights.sum()))
        numbers = [None if v is None else np.broadcast_to(np.asarray(v, dtype=np.float64), (d,)).copy() for v in (scales, offsets)]
        coupling = Coupling(matrix, -self.y, bool(complements), *numbers)
        learner = Simplex(coupling.shape[1], weight_entropy, geometry=geometry)
        caps = self.nu * (1.0 if weights is None else weights)
        rows = CappedSimplex(n, caps, row_entropy, reference=weights, geometry=geometry)
        self._set_up(coupling, learner, rows, None, None)

    @property
    def n(self) -> int:
        """Rows."""
        return self.coupling.shape[0]

    def net_weights(self, w: np.ndarray) -> np.ndarray:
        """The weights of the hypotheses less those of their complements."""
        d = self.matrix.shape[1]
        return w[:d] - w[d:] if self.coupling.complements else w.copy()

    def scores(self, w: np.ndarray) -> np.ndarray:
        """H w: the combined output for each row."""
        return -self.y * self.coupling.times(w)


def _as_labels(y: Any, n: int) -> np.ndarray:
    labels = np.array(y, dtype=np.float64)
    if labels.shape != (n,):
        raise InputError(f"y has shape {labels.shape}, but there are {n} rows: give one label for each")
    if len(strange := np.flatnonzero(np.abs(labels) != 1.0)):
        raise InputError(f"the labels must be -1 and 1, but that of row {strange[0]} is {labels[strange[0]]:g}")
    return labels


def _as_weights(sample_weight: Any, n: int) -> np.ndarray | None:
    if sample_weight is None:
        return None
    weights = np.array(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}, but there are {n} rows: give one weight for each")
    if not ((weights > 0.0) & (weights < math.inf)).all():
        raise InputError("sample weights must be positive and finite: leave out rows that must not count")
    return weights


def _as_nu(nu: Any, total: float) -> float:
    try:
        number = float(nu)
    except (TypeError, ValueError) as error:
        raise InputError(f"nu must be a positive number, not {nu!r}") from error
    if not 0.0 < number < math.inf:
        raise InputError(f"nu must be a positive number, not {nu!r}")
    if number * total < 1.0 - 1e-12:
        raise InputError(
            f"nu={number:g} is too small: {total:g} rows of weight at most nu cannot sum to 1; give nu={1.0 / total:.6g} or more"
        )
    return number
