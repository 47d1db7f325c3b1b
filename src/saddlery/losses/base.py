"""The protocol of a loss: pointwise functions of a target y and a margin z, unweighted.

==================  =====================================================================================
verb                meaning
==================  =====================================================================================
value(y, z)         l(z; y)
slope(y, z)         l'(z; y), or a subgradient
curvature(y, z)     l''(z; y), or an element of the generalised second derivative; 0 where l is not smooth
expand(y, z)        value, slope and curvature together; made of the three unless a loss shares work between them
conjugate(y, a)     l*(a; y) = max_z a z - l(z; y); infinity outside its domain
dual_prox(y, a, t)  argmin_u t l*(u; y) + (u - a)^2 / 2
dual_step(y, a, z,  dual_prox(y, a + t z, t), perhaps to a few digits less; a loss whose prox is a search may know where to begin
t)
dual_lower(y)       lower end of the domain of l*
dual_upper(y)       upper end of the domain of l*
==================  =====================================================================================

Facts: `smoothness` is the Lipschitz constant of the slope (infinity if there is none) and `targets` says what y may
be: ``"signs"`` (-1 or +1) or ``"real"``. A loss whose conjugate is ``y a + c a^2 / 2`` on a cone may say so by
`conjugate_curvature` = c: its dual points are then scaled in closed form; one for which that holds between bounds, by
`conjugate_bend` = c: then rows at no bound may be moved together to where the dual has its peak. One whose curvature is
continuous and positive may say so by `curvature_is_smooth` = True: Newton steps then need no safeguard to begin with; if it is
even the same everywhere, by `curvature_is_constant` = True: then one exact Newton step is enough. Zero lies in the domain of
every l*.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from saddlery.parts import JIT_DISABLED, part, verb

__all__ = ["LOSS_VERBS", "loss"]

LOSS_VERBS = {
    "value": "y, z",
    "slope": "y, z",
    "curvature": "y, z",
    "expand": "y, z",
    "conjugate": "y, a",
    "dual_prox": "y, a, step",
    "dual_step": "y, a, z, step",
    "dual_lower": "y",
    "dual_upper": "y",
}
for _name, _arguments in LOSS_VERBS.items():
    verb(_name, _arguments)


def loss(cls: type) -> type:
    """Make a ``NamedTuple`` with the verbs above a loss: a part whose methods take arrays too when called from Python.

    Examples
    --------
    >>> from saddlery.losses import Squared
    >>> Squared().value([0.0, 1.0], [2.0, 1.0])
    array([2., 0.])
    """
    if not hasattr(cls, "expand"):
        cls.expand = _expand  # type: ignore[attr-defined]
    if not hasattr(cls, "dual_step"):
        cls.dual_step = _dual_step  # type: ignore[attr-defined]
    cls = part(cls)
    if not JIT_DISABLED:  # without the compiler, kernels call the methods directly: keep them bare
        for name in LOSS_VERBS:
            if name in vars(cls) and name != "expand":
                setattr(cls, name, _elementwise(vars(cls)[name]))
    return cls


def _expand(self, y, z):  # type: ignore[no-untyped-def] # a verb
    return self.value(y, z), self.slope(y, z), self.curvature(y, z)


def _dual_step(self, y, a, z, step):  # type: ignore[no-untyped-def] # a verb
    return self.dual_prox(y, a + step * z, step)


def _elementwise(scalar: Callable[..., float]) -> Callable[..., Any]:
    """The scalar method, applied to every element where an argument is an array."""

    @functools.wraps(scalar)
    def method(self: Any, *args: Any) -> Any:
        if all(np.ndim(arg) == 0 for arg in args):
            return scalar(self, *args)
        return np.vectorize(lambda *values: scalar(self, *values), otypes=[np.float64])(*args)

    method.scalar = scalar  # type: ignore[attr-defined]
    return method
