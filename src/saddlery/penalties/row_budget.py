"""Projection onto {W : sum_i max_j |W_ij| <= radius}, the mixed norm that selects rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlery.parts import kernel

__all__ = ["clip_rows", "project_rows"]


@kernel
def sort_rows(penalty, V, falling):
    """falling_i = the absolute values of row i, largest first; returns the sum of the largest ones."""
    total = 0.0
    for i in range(V.shape[0]):
        for j in range(V.shape[1]):
            falling[i, j] = -abs(V[i, j])
        falling[i].sort()
        for j in range(V.shape[1]):
            falling[i, j] = -falling[i, j]
        total += falling[i, 0]
    return total


@kernel
def find_caps(penalty, falling, caps, counts, tops):
    """The caps of the projection: sum_j (|V_ij| - cap_i)+ = theta in every row with cap_i > 0, and sum_i cap_i = radius.

    sum_i cap_i(theta) is convex and falls, so that Newton's method from theta = 0 rises to the root, exact after as many steps as
    there are pieces; in row i the first counts_i entries, of sum tops_i, lie above the cap.
    """
    p, q = falling.shape
    for i in range(p):
        counts[i], tops[i] = 1, falling[i, 0]
    theta = 0.0
    while True:
        total, slope = 0.0, 0.0
        for i in range(p):
            while 0 < counts[i] < q and tops[i] - theta < counts[i] * falling[i, counts[i]]:
                tops[i] += falling[i, counts[i]]
                counts[i] += 1
            if counts[i] > 0 and tops[i] <= theta:
                counts[i], caps[i] = 0, 0.0
            if counts[i] > 0:
                caps[i] = (tops[i] - theta) / counts[i]
                total += caps[i]
                slope += 1.0 / counts[i]
        step = (total - penalty.radius) / slope if slope > 0.0 else 0.0
        if theta + step <= theta:
            break
        theta += step


@kernel
def clip_rows(penalty, V, caps, out):
    """out_ij = V_ij clipped to [-cap_i, cap_i]."""
    for i in range(V.shape[0]):
        for j in range(V.shape[1]):
            out[i, j] = min(max(V[i, j], -caps[i]), caps[i])


def project_rows(penalty: Any, V: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The point of the set nearest to V, written to `out`; returns the caps of the rows, whose sum is at most ``penalty.radius``.

    Examples
    --------
    >>> from saddlery.penalties import CURBall
    >>> out = np.empty((2, 2))
    >>> project_rows(CURBall(1.0), np.array([[3.0, -1.0], [0.5, 0.5]]), out), out
    (array([1., 0.]), array([[ 1., -1.],
           [ 0.,  0.]]))
    """
    p = V.shape[0]
    falling = np.empty(V.shape)
    if sort_rows(penalty, V, falling) <= penalty.radius:
        out[:] = V
        return falling[:, 0].copy()
    caps = np.zeros(p)
    find_caps(penalty, falling, caps, np.empty(p, dtype=np.int64), np.empty(p))
    caps *= min(1.0, penalty.radius / caps.sum())  # the sum may exceed the radius by rounding
    clip_rows(penalty, V, caps, out)
    return caps
