"""The certificate: a primal value, a dual value from a feasible point, and the gap between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Certificate", "certify"]

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Certificate:
    """A proof of how near a point is to the optimum: ``primal - optimum <= gap``.

    Attributes
    ----------
    primal : float
        Objective value of the primal point.
    dual : float
        Value of a feasible dual point: no model has a smaller objective.
    gap : float
        ``primal - dual``; negative values within rounding are reported as 0.
    relative_gap : float
        ``gap / scale``.
    scale : float
        Objective of the best constant model (``w = 0``), the unit of `relative_gap`.
    basis : str
        What the dual value rests on: "exact" for a closed form, else a phrase that names what is only estimated.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    scale: float
    basis: str = "exact"

    @classmethod
    def of(cls, primal: float, dual: float, scale: float, size: float, basis: str = "exact") -> Certificate:
        """The certificate of two values; `size` is the sum of the absolute terms that they were computed from."""
        gap = primal - dual
        if -32 * EPS * size <= gap < 0.0:
            gap = 0.0
        return cls(float(primal), float(dual), float(gap), float(gap / scale) if scale > 0 else float(gap), float(scale), basis)

    def __str__(self) -> str:
        words = f"primal {self.primal:.10g}, dual {self.dual:.10g}, gap {self.gap:.3g} ({self.relative_gap:.3g} of {self.scale:.6g})"
        return words if self.basis == "exact" else f"{words}, {self.basis}"


def certify(problem: Any, w: Any, dual: Any = None, b: float = 0.0) -> Certificate:
    """Certify any pair of points, from any solver.

    The dual point is first made feasible (clipped to the domain of the conjugate, balanced if there is an intercept,
    scaled into the domain of the penalty's conjugate), so the gap is a bound whatever is given.

    Parameters
    ----------
    problem : LinearProblem
        The problem: data, loss and penalty.
    w : array of shape (d,)
        Primal weights.
    dual : array of shape (n,), optional
        Dual point `a`; by default the slopes of the loss at `w`, `b`.
    b : float
        Intercept; must be 0 for a problem without one.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np, saddlery as sd
    >>> X, y = np.eye(2), np.array([1.0, -1.0])
    >>> problem = sd.LinearProblem(X, y, loss=sd.losses.Squared(), penalty=sd.penalties.L1(1.0))
    >>> certify(problem, np.zeros(2)).gap  # alpha is so large that zero is optimal
    0.0
    """
    return problem.certify(w, dual, b)
