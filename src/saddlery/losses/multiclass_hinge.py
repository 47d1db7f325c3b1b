"""Multiclass hinge of Crammer and Singer: max_l (1[l != y] + z_l) - z_y."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.losses.elementary import decaying_exp
from saddlery.losses.rows import inside_simplex, project_row, row_loss

__all__ = ["MulticlassHinge"]


@row_loss
class MulticlassHinge(NamedTuple):
    """Multiclass hinge ``max_l (1[l != y] + z_l) - z_y`` of a row of class y with margins z; not smooth.

    It is 0 where the margin of the row's class exceeds all others by 1. Its conjugate is ``v_y - 1`` for ``v = a + e_y`` in the
    simplex.

    Examples
    --------
    >>> import numpy as np
    >>> float(MulticlassHinge().row_value(1, np.array([0.0, 0.75, 0.25]), np.zeros(3)))
    0.5
    """

    @property
    def smoothness(self) -> float:
        return math.inf

    @property
    def conjugate_is_linear(self) -> bool:
        return True

    def row_value(self, y, z, b):
        own = z[y] + b[y]
        top = own
        for m in range(z.shape[0]):
            other = 1.0 + z[m] + b[m]
            top = other if m != y and other > top else top
        return top - own

    def row_slope(self, y, z, b, out):
        own, best, top = z[y] + b[y], 0, -math.inf
        for m in range(z.shape[0]):
            out[m] = 0.0
            other = own if m == y else 1.0 + z[m] + b[m]
            if other > top:  # of equals the first
                best, top = m, other
        out[best] = 1.0
        out[y] -= 1.0
        return top - own

    def row_conjugate(self, y, a, scale):
        return scale * a[y] if inside_simplex(self, y, a, scale) else math.inf

    def row_dual_prox(self, y, a, step, out):
        project_row(self, y, a, step, out)

    def row_entropy_prox(self, y, p, z, step, out):
        # v is proportional to exp(p + step (z - e_y))
        top = -math.inf
        for m in range(p.shape[0]):
            out[m] = p[m] + step * (z[m] - (1.0 if m == y else 0.0))
            top = out[m] if out[m] > top else top
        total = 0.0
        for m in range(p.shape[0]):
            total += decaying_exp(out[m] - top)
        shift = top + math.log(total)
        for m in range(p.shape[0]):
            out[m] -= shift
