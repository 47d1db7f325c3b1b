"""The line search of Newton steps on linear models: sizes are tried on the margins, of which a step is a straight line."""

from __future__ import annotations

from saddlery.parts import kernel
from saddlery.penalties.base import sum_values

__all__ = ["balancing_shift", "expand_at", "model_slopes", "search_along", "stretch"]

BALANCED, TRIES = 4e-16, 10  # share of the sum of sizes below which slopes balance, and Newton steps to get there
LONGER = 0.1  # share of its first slope that the objective may still have at the end of a step without another try further on


@kernel(fast_sums=True)
def expand_at(loss, y, s, z, along, size, b, new_z, a, r, h):
    """At z + size along + b: a = l', r = s a, h = s l''; returns sum_i s_i l. The margins (without b) go to new_z."""
    total = 0.0
    for i in range(y.shape[0]):
        margin = z[i] + size * along[i]
        new_z[i] = margin
        value, slope, curvature = loss.expand(y[i], margin + b)
        a[i] = slope
        r[i] = s[i] * slope
        h[i] = s[i] * curvature
        total += s[i] * value
    return total


@kernel(fast_sums=True)
def rise(loss, r, along, shift):
    """The slope sum_i r_i (along_i + shift) of the loss."""
    total = 0.0
    for i in range(r.shape[0]):
        total += r[i] * (along[i] + shift)
    return total


@kernel
def search_along(loss, penalty, y, s, z, along, b, shift, r, value, W, origin, move, l2, w, trial, new_z, a, new_r, h):
    """A size among 1, 1/2, 1/4, ... with sufficient descent; w and the margins, slopes and curvatures are moved there.

    Sufficient is not enough where the model overshot into flat parts of the loss: while the fall is less than a quarter of
    what the model promised, shorter steps are tried as long as they fall further. Where slopes saturate, as those of separable
    classes, models promise too little: a full step goes on, by secants (mushrooms, l2: 10 -> 6 rounds, 20 -> 13 ms), if the
    penalty is nothing but l2 / 2 |w|^2; l2 < 0 says that it is another, whose zeros longer steps would undo. Returns the size
    (0 if there is none), and the loss and the penalty there.
    """
    old = sum_values(penalty, origin[: W.shape[0]])
    base, fall = value + old, 0.0
    size, chosen, best, best_loss, best_penalty = 1.0, 0.0, 0.0, value, old
    while size >= 1e-7:
        loss_there = expand_at(loss, y, s, z, along, size, b + size * shift, new_z, a, new_r, h)
        for k in range(W.shape[0]):
            trial[k] = origin[k] + size * move[k]
        penalty_there = sum_values(penalty, trial)
        total = loss_there + penalty_there
        if size == 1.0:
            fall = rise(loss, r, along, shift) + penalty_there - old
        if chosen > 0.0 and total >= best:
            break
        if total <= base + 1e-4 * size * min(fall, 0.0) + 1e-15 * abs(base):
            chosen, best, best_loss, best_penalty = size, total, loss_there, penalty_there
            if l2 >= 0.0 and size >= 1.0:
                first = rise(loss, r, along, shift) + l2 * rise(loss, origin[: W.shape[0]], move[: W.shape[0]], 0.0)
                last = rise(loss, new_r, along, shift) + l2 * rise(loss, trial, move[: W.shape[0]], 0.0)
                if last < LONGER * first:
                    size *= min(4.0, first / (first - last))
                    continue
            if size > 1.0 or base - total >= -0.25 * size * fall:
                break
        size *= 0.5
    if chosen > 0.0:
        if chosen != size:
            expand_at(loss, y, s, z, along, chosen, b + chosen * shift, new_z, a, new_r, h)
        for k in range(W.shape[0]):
            w[W[k]] = origin[k] + chosen * move[k]
    return chosen, best_loss, best_penalty


@kernel(fast_sums=True)
def stretch(loss, y, s, z, b, linear, square, value, r, h, most, new_z, a, new_r, new_h):
    """A t >= 1 near the minimum of sum_i s_i l(t z_i + b) + t linear + t^2 square / 2, by up to `most` Newton steps.

    Margins, slopes and curvatures are moved there; t is at most doubled in a step. Returns t and the loss.
    """
    size, total, best = 1.0, value + linear + 0.5 * square, value
    slope, bend = linear + square, square
    for i in range(y.shape[0]):
        slope += r[i] * z[i]
        bend += h[i] * z[i] * z[i]
    for _ in range(most):
        if slope >= 0.0 or bend <= 0.0:
            break
        trial = size + min(-slope / bend, size)
        loss_there = expand_at(loss, y, s, z, z, trial - 1.0, b, new_z, a, new_r, new_h)
        there = loss_there + trial * (linear + 0.5 * trial * square)
        if there >= total:
            break
        size, total, best = trial, there, loss_there
        slope, bend = linear + size * square, square
        for i in range(y.shape[0]):
            slope += new_r[i] * z[i]
            bend += new_h[i] * z[i] * z[i]
    if size > 1.0:
        expand_at(loss, y, s, z, z, size - 1.0, b, new_z, a, new_r, new_h)
    return size, best


@kernel
def model_slopes(loss, y, s, a, h, along, shift, out, weighted):
    """out = a + (h / s) (along + shift), the slopes of the quadratic model, moved into the domain of l*; weighted = s out."""
    for i in range(y.shape[0]):
        rise = h[i] / s[i] if s[i] > 0.0 else 0.0
        slope = a[i] + rise * (along[i] + shift)
        low, high = loss.dual_lower(y[i]), loss.dual_upper(y[i])
        slope = slope if slope > low else low
        out[i] = slope if slope < high else high
        weighted[i] = s[i] * out[i]


@kernel(fast_sums=True)
def balancing_shift(loss, y, s, a, h, along, shift):
    """The shift near the given one with which the slopes of the model, moved into the domain of l*, sum to zero.

    Before they are moved, those of a solved model do. To balance them by a mixture with a constant point costs far more of the dual
    value (housing, huber with l2: 0.84 -> 0.22 ms; w8a, squared hinge with l2: 3 -> 2 rounds).
    """
    for _ in range(TRIES):
        total, size, bend = 0.0, 0.0, 0.0
        for i in range(y.shape[0]):
            rise = h[i] / s[i] if s[i] > 0.0 else 0.0
            slope = a[i] + rise * (along[i] + shift)
            low, high = loss.dual_lower(y[i]), loss.dual_upper(y[i])
            inside = slope if slope > low else low
            inside = inside if inside < high else high
            total += s[i] * inside
            size += s[i] * abs(inside)
            bend += h[i] if inside == slope else 0.0
        if abs(total) <= BALANCED * size or bend <= 0.0:
            break
        shift -= total / bend
    return shift
