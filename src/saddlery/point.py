"""A pair of points, as it travels between problem, solver and loop."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Point"]


class Point(NamedTuple):
    """A primal point (w, b) and a dual point, with the products that a solver has at hand.

    For linear problems all are arrays; other problems may use records of arrays, which only they look into.

    Attributes
    ----------
    w, b : array, float
        Primal point; with k classes at once w is (d, k), an array or sparse, and b an array of k numbers.
    dual : array or None
        Dual point `a`, feasible or not; None stands for the slopes of the loss at (w, b).
    Xw, Xta : array or None
        The products X w (without b) and X'(s a), if they are known. Entries of Xta that cannot matter, being below the threshold of
        the penalty, may be bounds of the absolute value instead.
    loss : float or None
        The loss of (w, b) without the penalty, if it is known.
    fresh : bool
        Whether Xta was computed from the data for this very dual point, and not by increments.
    aux : object
        Room for a further primal variable of problems that have one.
    exact : bool
        Whether Xw was computed from the data for this very w, and not by increments.
    """

    w: Any
    b: Any
    dual: Any
    Xw: Any = None
    Xta: Any = None
    loss: float | None = None
    fresh: bool = False
    aux: Any = None
    exact: bool = False
