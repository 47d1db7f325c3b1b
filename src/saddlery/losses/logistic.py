"""Logistic loss: log(1 + exp(-y z)), y in {-1, +1}."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddlery.losses.base import loss
from saddlery.losses.elementary import decaying_exp, entropy_term, log_of_rest, unit_log1p
from saddlery.parts import kernel

__all__ = ["Logistic"]

_EPS = 2.220446049250313e-16


@kernel
def _sigmoid(t):
    """1 / (1 + exp(-t)) without overflow."""
    e = decaying_exp(-abs(t))
    return (1.0 if t >= 0.0 else e) / (1.0 + e)


@kernel
def _solve_logit(p, m, step, short):
    """Root of h(u) = step (m + u) + sigmoid(u) - p: safeguarded steps of Halley in the logit u.

    h grows, so [-m + (p - 1) / step, -m + p / step] holds the root. No further derivative is larger than the first, so a step
    that starts at a distance e ends within e^3: one that is `short` was the last. Near the root rounding would push steps out of
    the bracket and leave the rest to bisection, hence the rule on h itself.
    """
    low, high = -m + (p - 1.0) / step, -m + p / step
    u = min(max(-m, low), high)
    for _ in range(100):
        e = decaying_exp(-abs(u))
        rest = 1.0 / (1.0 + e)
        q, bend = (1.0 if u >= 0.0 else e) * rest, e * rest * rest
        h = step * (m + u) + q - p
        if abs(h) <= 2.0 * _EPS * (1.0 + step * (abs(m) + abs(u))):
            break
        if h > 0.0:
            high = u
        else:
            low = u
        slope = step + bend
        newton = h / slope
        move = newton / max(1.0 - 0.5 * newton * bend * (1.0 - 2.0 * q) / slope, 0.5)
        u -= move
        if not low < u < high:
            u = 0.5 * (low + high)
            if u in (low, high):
                break
        elif abs(move) < short:
            break
    return u


@kernel
def _ascend(p, m, step):
    """The sigmoid of the root of h(u), above: by one step of Halley from -m where its error cannot matter, else by many.

    The move of the logit is -1 / step times that of p, and a step of the length e ends within e^3 / 12, so that p is wrong by less
    than a twelfth of its move where e^2 sigmoid' < step; towards the end that is nothing. Of short moves the exponential is a
    polynomial: one call of exp instead of three (mushrooms, an epoch of dual ascent: 1.3 -> 0.8 ms).
    """
    e = decaying_exp(-abs(m))
    rest = 1.0 / (1.0 + e)
    q, bend = (e if m > 0.0 else 1.0) * rest, e * rest * rest
    slope = step + bend
    square = slope * slope
    move = (q - p) * slope / max(square - 0.5 * (q - p) * bend * (1.0 - 2.0 * q), 0.5 * square)
    if abs(move) > 0.5 or bend * move * move > step:
        return _sigmoid(_solve_logit(p, m, step, 1e-3))
    t = -move if m > 0.0 else move
    e *= 1.0 + t * (1.0 + t * (0.5 + t * (1.0 / 6.0 + t * (1.0 / 24.0 + t * (1.0 / 120.0)))))
    return (e if m > 0.0 else 1.0) / (1.0 + e)


@loss
class Logistic(NamedTuple):
    """Logistic loss ``log(1 + exp(-y z))`` for y in {-1, +1}.

    Its conjugate is the entropy ``p log p + (1 - p) log(1 - p)`` of ``p = -y a`` in [0, 1].

    Examples
    --------
    >>> round(Logistic().value(1.0, 0.0), 6)
    0.693147
    """

    @property
    def smoothness(self) -> float:
        return 0.25

    @property
    def curvature_is_smooth(self) -> bool:
        return True

    @property
    def targets(self) -> str:
        return "signs"

    def value(self, y, z):
        return self.expand(y, z)[0]

    def slope(self, y, z):
        return self.expand(y, z)[1]

    def curvature(self, y, z):
        return self.expand(y, z)[2]

    def expand(self, y, z):
        m = y * z
        e = decaying_exp(-abs(m))
        p = 1.0 / (1.0 + e)
        value = (0.0 if m > 0.0 else -m) + unit_log1p(e)
        return value, -y * (e if m > 0.0 else 1.0) * p, e * p * p

    def conjugate(self, y, a):
        p = -y * a
        inside = p if p > 0.0 else 0.0
        inside = inside if inside < 1.0 else 1.0
        q = inside if inside < 0.5 else 1.0 - inside  # entropy is symmetric, and the smaller part keeps its digits
        value = entropy_term(q) + (1.0 - q) * log_of_rest(q)  # before the question, or the loop would branch
        return value if p == inside else math.inf

    def dual_prox(self, y, a, step):
        # argmin t l*(u) + (u - a)^2 / 2 with u = -y p solves  t logit(p) + p - p0 = 0,  p0 = -y a
        return -y * _sigmoid(_solve_logit(-y * a, 0.0, step, 1e-5))

    def dual_step(self, y, a, z, step):
        return -y * _ascend(-y * a, y * z, step)

    def dual_lower(self, y):
        return -1.0 if y > 0.0 else 0.0

    def dual_upper(self, y):
        return 0.0 if y > 0.0 else 1.0
