"""Softmax loss of k classes: log sum_l exp(z_l) - z_y."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.losses.elementary import decaying_exp, entropy_term
from saddlery.losses.rows import ROUNDING, row_loss
from saddlery.parts import kernel

__all__ = ["Softmax"]

_EPS = 2.220446049250313e-16


@kernel
def _wright_omega(x):
    """The w > 0 with w + log w = x: a start for each range, then steps of fourth order (Fritsch, Shafer & Crowley 1973)."""
    if x < -36.0:
        return math.exp(x)  # w + log w = x, and w is lost beside it
    if x < -2.0:
        w = math.exp(x)
        w = w * (1.0 - w)
    elif x < 4.0:
        t = x - 1.0
        w = 1.0 + 0.5 * t + t * t * (1.0 / 16.0 - t * (1.0 / 192.0))
    else:
        w = x - math.log(x)
    for _ in range(4):
        r = x - w - math.log(w)
        if abs(r) <= 4.0 * _EPS * (abs(x) + w):
            break
        p = 2.0 * (1.0 + w) * (1.0 + w + 2.0 / 3.0 * r)
        w *= 1.0 + r / (1.0 + w) * (p - r) / (p - 2.0 * r)
    return w


@row_loss
class Softmax(NamedTuple):
    """Softmax loss ``log sum_l exp(z_l) - z_y`` of a row of class y with margins z, also called multinomial logistic.

    Its slope is ``p - e_y`` with the probabilities ``p_l = exp(z_l) / sum_m exp(z_m)``, its conjugate the entropy
    ``sum_l v_l log v_l`` of ``v = a + e_y`` in the simplex.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(Softmax().row_value(1, np.zeros(4), np.zeros(4))), 6)  # log 4
    1.386294
    """

    @property
    def smoothness(self) -> float:
        return 0.5

    def row_value(self, y, z, b):
        top = -math.inf
        for m in range(z.shape[0]):
            top = z[m] + b[m] if z[m] + b[m] > top else top
        total = 0.0
        for m in range(z.shape[0]):
            total += decaying_exp(z[m] + b[m] - top)
        return top - (z[y] + b[y]) + math.log(total)

    def row_slope(self, y, z, b, out):
        top = -math.inf
        for m in range(z.shape[0]):
            top = z[m] + b[m] if z[m] + b[m] > top else top
        total = 0.0
        for m in range(z.shape[0]):
            e = decaying_exp(z[m] + b[m] - top)
            out[m] = e
            total += e
        for m in range(z.shape[0]):
            out[m] /= total
        out[y] -= 1.0
        return top - (z[y] + b[y]) + math.log(total)

    def row_conjugate(self, y, a, scale):
        # Sums alone, so that loops become vector code: the class y, whose a is negative, is added to them at the end.
        total, balance, outside = 0.0, 0.0, 0.0
        for m in range(a.shape[0]):
            v = scale * a[m]
            balance += v
            outside += v if v < 0.0 else 0.0
            inside = v if v > 0.0 else 0.0
            total += entropy_term(inside if inside < 1.0 else 1.0)
        v = scale * a[y] + 1.0
        outside += (v if v < 0.0 else 0.0) - (scale * a[y] if a[y] < 0.0 else 0.0)
        total += entropy_term(1.0 if v > 1.0 else (v if v > 0.0 else 0.0))
        if a[y] > 0.0:  # not in the simplex but for rounding
            total -= entropy_term(scale * a[y] if scale * a[y] < 1.0 else 1.0)
        return total if outside >= -a.shape[0] * ROUNDING and abs(balance) <= ROUNDING else math.inf

    def row_dual_prox(self, y, a, step, out):
        # v + step log v = c - t with c = a + e_y, so v = step omega((c - t) / step - log step). The sum of all v falls in t and is
        # convex, and it is at least 1 where the largest v is 1: from there Newton's method comes to the root without a safeguard.
        # For large steps the sum falls like an exponential, so the first steps from above are those for its logarithm.
        k, log_step, top = a.shape[0], math.log(step), -math.inf
        for m in range(k):
            c = a[m] + (1.0 if m == y else 0.0)
            top = c if c > top else top
        t, high, total = top - 1.0, top - 1.0 / k + step * math.log(k), 1.0  # the largest v is 1 at the one, 1 / k at the other
        for tried in range(100):
            total, fall = 0.0, 0.0
            for m in range(k):
                c = a[m] + (1.0 if m == y else 0.0)
                v = step * _wright_omega((c - t) / step - log_step)
                out[m] = v
                total += v
                fall += v / (v + step)
            move = (total - 1.0) / fall
            if abs(move) <= 4.0 * _EPS * (k + abs(t)):
                break
            t += total * math.log(total) / fall if total > 1.0 and tried < 4 else move
            t = t if t < high else high
        for m in range(k):
            out[m] /= total
        out[y] -= 1.0

    def row_entropy_prox(self, y, p, z, step, out):
        # (1 + step) log v = p + step z + const
        top = -math.inf
        for m in range(p.shape[0]):
            out[m] = (p[m] + step * z[m]) / (1.0 + step)
            top = out[m] if out[m] > top else top
        total = 0.0
        for m in range(p.shape[0]):
            total += decaying_exp(out[m] - top)
        shift = top + math.log(total)
        for m in range(p.shape[0]):
            out[m] -= shift
