"""The protocol of a penalty g(w).

Every penalty offers, on whole vectors: ``value(w)``, ``prox(v, step)`` = argmin_w step g(w) + ||w - v||^2 / 2,
``conjugate(u)`` = max_w u.w - g(w), ``dual_scale(u)`` = the largest t in [0, 1] for which g*(t u) is finite.

A *separable* penalty g(w) = sum_j g_j(w_j) is written by its coordinate verbs, which kernels call; the decorator
:func:`separable` derives the vector forms from them.

============================  ==========================================================================
coordinate verb               meaning
============================  ==========================================================================
coordinate_value(w)           g_j(w)
coordinate_prox(v, step)      argmin_w step g_j(w) + (w - v)^2 / 2
coordinate_conjugate(u)       g_j*(u), infinity outside its domain
coordinate_map(u)             argmax_w u w - g_j(w) = g_j*'(u); needs strong convexity
coordinate_distance(w, u)     distance of u from the subdifferential of g_j at w: 0 where u = -gradient is optimal
============================  ==========================================================================

Facts: `strong_convexity` (0 if none), `threshold`: g_j is zero-attracting, w_j = 0 is optimal for ``|u_j|`` up to it
and the domain of g* is ``|u_j| <= threshold`` if `strong_convexity` is 0. ``scaled(factor)`` is the penalty times a factor. A
penalty that depends on the length of w alone may say so by `is_round` = True: problems may then be rotated.

A *bounded* penalty is a constraint: g is 0, or a penalty, on a bounded set, and infinite outside. Its conjugate is finite
everywhere, so every dual point certifies and `dual_scale` is 1. It is written by four methods, from which the decorator
:func:`bounded` derives the rest, ``linear_oracle(c)`` = argmin_w c.w + g(w) among them:

============================  ==========================================================================
method                        meaning
============================  ==========================================================================
atom(c, index, value)         a verb: writes the entries of argmin_w c.w + g(w), an atom, and returns their number; of equals the
                              one with the lowest index; feasible for c = 0 too
atom_value(value, count)      a verb: g at an atom with these entries; 0 for sets
value(w)                      g(w), for vectors: infinite outside of the set, by more than `EXCESS` of its size
prox(v, step)                 as above, for vectors; the projection for sets
============================  ==========================================================================

Facts of bounded penalties: `strong_convexity` and `threshold` (0 for sets), `bounded` = True, ``atom_size(d)``, the most
entries that an atom has. Those for one number of columns only have ``check_columns(d)``. Polytopes whose corners lie on the axes
say so: `corners` is "signed" (``+-radius e_j``, 0 is inside) or "positive" (``radius e_j``, and nothing else). A ball,
``size(w) <= radius``, may offer ``relaxed(mu)``: the separable penalty with which mu times the ball's function takes the place of
the constraint, and ``largest_multiplier(gradient)``: a mu that is surely large enough, given the gradient at w = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.parts import kernel, part, verb

__all__ = ["EXCESS", "PENALTY_VERBS", "bounded", "separable"]

# A point scaled onto the border of the feasible set must still be inside for those who sum in another order.
ROUNDING = 1e-13
EXCESS = 1e-12  # by which a point may leave a set, as a share of its size: sums in another order must not make it infeasible

PENALTY_VERBS = {
    "coordinate_value": "w",
    "coordinate_prox": "v, step",
    "coordinate_conjugate": "u",
    "coordinate_map": "u",
    "coordinate_distance": "w, u",
    "atom": "c, index, value",
    "atom_value": "value, count",
}
for _name, _arguments in PENALTY_VERBS.items():
    verb(_name, _arguments)


@kernel(fast_sums=True)
def sum_values(penalty, w):
    """g(w) = sum_j g_j(w_j)."""
    total = 0.0
    for j in range(w.shape[0]):
        total += penalty.coordinate_value(w[j])
    return total


@kernel(fast_sums=True)
def sum_conjugates(penalty, u, scale):
    """g*(scale u) = sum_j g_j*(scale u_j): infinite if one of them is, in whatever order they are added."""
    total = 0.0
    for j in range(u.shape[0]):
        total += penalty.coordinate_conjugate(scale * u[j])
    return total


@kernel
def largest(penalty, u):
    """max_j |u_j|, 0 for none; in four chains, which the processor follows at the same time (7129 columns: 5.3 -> 1.6 us)."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = u.shape[0] - u.shape[0] % 4
    for j in range(0, whole, 4):
        first = abs(u[j]) if abs(u[j]) > first else first
        second = abs(u[j + 1]) if abs(u[j + 1]) > second else second
        third = abs(u[j + 2]) if abs(u[j + 2]) > third else third
        fourth = abs(u[j + 3]) if abs(u[j + 3]) > fourth else fourth
    for j in range(whole, u.shape[0]):
        first = abs(u[j]) if abs(u[j]) > first else first
    return max(first, second, third, fourth)


@kernel
def prox_each(penalty, v, step, out):
    """out_j = prox of step g_j at v_j."""
    for j in range(v.shape[0]):
        out[j] = penalty.coordinate_prox(v[j], step)


@kernel
def map_each(penalty, u, out):
    """out_j = argmax_w u_j w - g_j(w)."""
    for j in range(u.shape[0]):
        out[j] = penalty.coordinate_map(u[j])


def separable(cls: Any) -> Any:
    """Make a ``NamedTuple`` with coordinate verbs a penalty: a part that also has the vector forms.

    Examples
    --------
    >>> from saddlery.penalties import L1
    >>> L1(0.5).prox([2.0, -0.2], 1.0)
    array([1.5, 0. ])
    """

    def value(self: Any, w: Any) -> float:
        return float(sum_values(self, np.asarray(w, dtype=np.float64)))

    def prox(self: Any, v: Any, step: float) -> np.ndarray:
        v = np.asarray(v, dtype=np.float64)
        out = np.empty_like(v)
        prox_each(self, v, float(step), out)
        return out

    def conjugate(self: Any, u: Any, scale: float = 1.0) -> float:
        return float(sum_conjugates(self, np.asarray(u, dtype=np.float64), float(scale)))

    def dual_map(self: Any, u: Any) -> np.ndarray:
        u = np.asarray(u, dtype=np.float64)
        out = np.empty_like(u)
        map_each(self, u, out)
        return out

    def dual_scale(self: Any, u: Any) -> float:
        if self.strong_convexity > 0.0:
            return 1.0
        top = largest(self, np.asarray(u, dtype=np.float64))
        return 1.0 if top <= self.threshold else self.threshold / top * (1.0 - ROUNDING)

    cls = part(cls)
    for method in (value, prox, conjugate, dual_map, dual_scale):
        if method.__name__ not in vars(cls):  # a penalty may know better
            setattr(cls, method.__name__, method)
    cls.separable = True
    return cls


@kernel
def best_atom(penalty, c, index, value):
    """The atom argmin_w c.w + g(w): its number of entries, and that minimum."""
    count = penalty.atom(c, index, value)
    total = penalty.atom_value(value, count)
    for k in range(count):
        total += c[index[k]] * value[k]
    return count, total


def bounded(cls: Any) -> Any:
    """Make a ``NamedTuple`` with `atom`, `atom_value`, `value` and `prox` a bounded penalty: a part with all vector forms.

    Examples
    --------
    >>> from saddlery.penalties import L1Ball
    >>> L1Ball(5.0).linear_oracle([1.0, -3.0])
    array([0., 5.])
    """

    def linear_oracle(self: Any, c: Any) -> np.ndarray:
        c = np.asarray(c, dtype=np.float64)
        index, value = atom_buffers(self, c.shape[0])
        count, _ = best_atom(self, c, index, value)
        w = np.zeros(c.shape[0])
        w[index[:count]] = value[:count]
        return w

    def conjugate(self: Any, u: Any, scale: float = 1.0) -> float:
        c = -float(scale) * np.asarray(u, dtype=np.float64)
        return -float(best_atom(self, c, *atom_buffers(self, c.shape[0]))[1])

    def dual_scale(self: Any, u: Any) -> float:
        return 1.0

    def scaled(self: Any, factor: float) -> Any:
        return self

    cls = part(cls)
    facts = {"strong_convexity": 0.0, "threshold": 0.0}
    for method in (linear_oracle, conjugate, dual_scale, scaled):
        facts[method.__name__] = method  # type: ignore[assignment]
    for name, fact in facts.items():
        if name not in vars(cls):
            setattr(cls, name, fact)
    cls.bounded = True
    return cls


def atom_buffers(penalty: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Room for the indices and values of an atom."""
    size = penalty.atom_size(d)
    return np.empty(size, dtype=np.int64), np.empty(size)
