"""The protocol of a row loss: a function of the class y of a row and of its k margins z + b, unweighted.

Row losses do not change when all margins of a row grow by the same number, and grow at most as fast as the largest margin. Their
slopes are therefore ``a = v - e_y`` with v in the simplex (v_l >= 0, sum_l v_l = 1), and that is the domain of every conjugate.

==================================  =================================================================================
verb                                meaning
==================================  =================================================================================
row_value(y, z, b)                  l(z + b; y)
row_slope(y, z, b, out)             writes a slope (a subgradient at kinks) into `out`; returns l(z + b; y)
row_conjugate(y, a, scale)          l*(scale a; y) = max_z scale a.z - l(z; y); infinity outside its domain
row_dual_prox(y, a, step, out)      argmin_u step l*(u; y) + ||u - a||^2 / 2
row_entropy_prox(y, p, z, step, o)  writes log v for argmin_v step (l*(v - e_y; y) - v.z) + KL(v, exp(p)), where p = log of a
                                    point of the simplex: the step of mirror descent; for mirror methods only
==================================  =================================================================================

Facts: `smoothness` is the Lipschitz constant of the slope in the Euclidean norm (infinity if there is none);
`conjugate_is_linear` = True says that l*(t a) = t l*(a) for 0 <= t <= 1: then rays are searched without reading the rows again.
Every l*(0; y) is 0.
"""

from __future__ import annotations

from saddlery.parts import kernel, part, verb

__all__ = ["ROW_VERBS", "inside_simplex", "project_row", "row_loss"]

ROW_VERBS = {
    "row_value": "y, z, b",
    "row_slope": "y, z, b, out",
    "row_conjugate": "y, a, scale",
    "row_dual_prox": "y, a, step, out",
    "row_entropy_prox": "y, p, z, step, out",
}
for _name, _arguments in ROW_VERBS.items():
    verb(_name, _arguments)

ROUNDING = 1e-12  # by which a row may leave the simplex: sums in another order must not make it infeasible


def row_loss(cls: type) -> type:
    """Make a ``NamedTuple`` with the verbs above a row loss.

    Examples
    --------
    >>> import numpy as np
    >>> from saddlery.losses import MulticlassHinge
    >>> float(MulticlassHinge().row_value(0, np.array([0.5, 0.0, 0.0]), np.zeros(3)))
    0.5
    """
    return part(cls)


@kernel(fast_sums=True)
def inside_simplex(loss, y, a, scale):
    """Whether scale a + e_y lies in the simplex, up to rounding. Sums alone, so that the loop becomes vector code."""
    total, outside = 0.0, 0.0
    for m in range(a.shape[0]):
        v = scale * a[m]
        total += v
        outside += 1.0 if v < -ROUNDING else 0.0
    v = scale * a[y]
    outside += (1.0 if v < -1.0 - ROUNDING else 0.0) - (1.0 if v < -ROUNDING else 0.0)
    return outside == 0.0 and abs(total) <= ROUNDING


@kernel(fast_sums=True)
def simplex_threshold(loss, v):
    """The t for which sum_l max(v_l - t, 0) = 1: Newton's method from below, which ends after finitely many steps.

    Without branches and with counts kept as sums, so that the loops become vector code (200 classes, a row: 3.6 -> 0.5 us).
    """
    top, total, before = v[0], 0.0, 0.0
    for m in range(v.shape[0]):
        total += v[m]
    for m in range(v.shape[0]):
        top = max(top, v[m])
    t = max(top - 1.0, (total - 1.0) / v.shape[0])
    for _ in range(v.shape[0] + 1):
        total, count = 0.0, 0.0
        for m in range(v.shape[0]):
            above = 1.0 if v[m] > t else 0.0
            total += above * v[m]
            count += above
        if count in (before, 0.0):
            break
        before = count
        t = (total - 1.0) / count
    return t


@kernel
def project_row(loss, y, a, shift, out):
    """out = the nearest point to a - shift e_y among those with out + e_y in the simplex."""
    for m in range(a.shape[0]):
        out[m] = a[m]
    out[y] += 1.0 - shift
    t = simplex_threshold(loss, out)
    for m in range(a.shape[0]):
        out[m] = out[m] - t if out[m] > t else 0.0
    out[y] -= 1.0
