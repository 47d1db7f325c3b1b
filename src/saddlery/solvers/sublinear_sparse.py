"""The steps of the sublinear algorithm on sparse X, at the cost of the entries of one row and one column (and O(k) for the draws).

Three things differ from ``sublinear_steps.py``, because no step may look at all rows:

- The row j is drawn from the fixed law ~ s_j tau_j, and rho_j = 2 (1 - vy_j) goes into the step instead: unbiased all the same,
  with steps that are never longer.
- A row of V is kept up to its sum: V_jl = v_jl / N_j and vy_j = Theta g_j / N_j with N_j = Z_j + Theta g_j, where Z_j is the sum of
  its v and Theta = theta^t is common to all rows. Then a step changes nothing of the rows where column i of X is zero.
- The sum of 1 / N_j over the m steps since row j was looked at is taken from its integral, by Euler and Maclaurin's formula.

========  ==================================================================================
here      meaning
========  ==================================================================================
g, Z, B   weight of the true class, sum of the others, sum of 1 / N over the steps till `seen`
whole     Z when it was last computed afresh
seen      steps since the last flush when B was brought up to date
kappa     -log theta, so that Theta = exp(-kappa t)
========  ==================================================================================
"""

from __future__ import annotations

import math

import numpy as np

from saddlery.parts import kernel
from saddlery.solvers.sublinear_steps import (
    ALPHA,
    BLOCK,
    DONE,
    DUAL_SLOTS,
    FLUSH,
    MASS,
    MOST_DRIFT,
    PRIMAL_SLOTS,
    SMALLEST,
    TOTAL,
    WEIGHT,
    C,
    draw_class,
    find,
    find_entry,
    open_column,
    open_rows,
    take_slot,
    total,
    vector_exp,
)

__all__ = ["settle_rows", "sparse_steps"]

FEW, LONG_STEP = 8, 0.01  # so many steps, and such as are longer, are added one by one
SHORT, THREE = 0.05, math.sqrt(0.6)  # of kappa m, for which three nodes are enough, and where they lie
LEGENDRE = (  # seven nodes in [-1, 1], and their weights
    (0.0, 0.4179591836734694),
    (-0.4058451513773972, 0.3818300505051189),
    (0.4058451513773972, 0.3818300505051189),
    (-0.7415311855993945, 0.2797053914892766),
    (0.7415311855993945, 0.2797053914892766),
    (-0.9491079123427585, 0.1294849661688697),
    (0.9491079123427585, 0.1294849661688697),
)
SMALL_PART = 1e-3  # of its last exact value: below, a sum that is kept by increments is taken afresh


@kernel
def step_sum(Z, G, kappa, m):
    """sum_{s < m} f(s), f(s) = 1 / (Z + G exp(-kappa s)), by Euler and Maclaurin's formula up to the third derivative.

    integral + (f(0) - f(m)) / 2 + (f'(m) - f'(0)) / 12 - (f3(m) - f3(0)) / 720. With q = 1 - Z f the derivatives are f' = kappa f q
    and f3 = kappa^3 f q (6 q^2 - 6 q + 1); the next term is of the order of kappa^5 f. Few or long steps are added one by one.
    """
    if kappa == 0.0:
        return m / (Z + G)
    if m <= FEW or kappa > LONG_STEP:
        out, decay, count = 0.0, math.exp(-kappa), min(m, int(40.0 / kappa) + 1)
        for _ in range(count):
            out += 1.0 / (Z + G)
            G *= decay
        return out + (m - count) / Z if m > count else out
    end = G * math.exp(-kappa * m)
    first, last = 1.0 / (Z + G), 1.0 / (Z + end)
    if kappa * m < SHORT:  # by Gauss and Legendre: the logarithm would cancel
        middle, root = G * math.exp(-0.5 * kappa * m), math.exp(0.5 * kappa * m * THREE)
        integral = m * (4.0 / (Z + middle) + 2.5 / (Z + middle * root) + 2.5 / (Z + middle / root)) / 9.0
    elif kappa * m < 1.0:
        integral = 0.0
        for node, weight in LEGENDRE:
            integral += weight / (Z + G * math.exp(-0.5 * kappa * m * (1.0 + node)))
        integral *= 0.5 * m
    else:
        integral = (m + math.log((Z + end) * first) / kappa) / Z
    q, r = G * first, end * last
    slopes = kappa * (last * r - first * q)
    bends = kappa**3 * (last * r * (6.0 * r * r - 6.0 * r + 1.0) - first * q * (6.0 * q * q - 6.0 * q + 1.0))
    return integral + 0.5 * (first - last) + slopes / 12.0 - bends / 720.0


@kernel
def look_at_row(j, t, kappa, share, g, Z, B, seen):
    """Bring B_j up to date: the iterates seen_j ... t - 1 enter."""
    if seen[j] < t:
        B[j] += share * step_sum(Z[j], g[j] * math.exp(-kappa * seen[j]), kappa, t - seen[j])
        seen[j] = t


@kernel
def settle_rows(rows, t, kappa, share, g, Z, B, seen, beta, vy):
    """Bring all rows up to date, and write beta = 1 / N and vy, the form in which `flush_dual` takes them; then t is 0 again."""
    theta = math.exp(-kappa * t)
    for j in range(g.shape[0]):
        look_at_row(j, t, kappa, share, g, Z, B, seen)
        true = theta * g[j]
        beta[j] = 1.0 / (Z[j] + true)
        vy[j] = true * beta[j]
        seen[j] = 0


@kernel
def flush_row(rows, j, y, used, v, v_sums, v_blocks, base, base_sums, v_slot, theta, g, Z, whole, B, size):
    """One row, which is up to date: add v B to its sums, divide it by N, and take its sums afresh; then B_j = 0."""
    keep = 1.0 / (Z[j] + theta * g[j])
    base_sums[j] += base[j] * B[j]
    base[j] *= keep
    Z[j] = (v_slot.shape[0] - used - (1 if v_slot[y[j]] >= used else 0)) * base[j]
    for b in range((used + size - 1) // size):
        v_blocks[b, j] = 0.0
    for slot in range(used):
        v_sums[slot, j] += v[slot, j] * B[j]
        v[slot, j] = max(v[slot, j] * keep, SMALLEST) if v[slot, j] > 0.0 else 0.0
        v_blocks[slot // size, j] += v[slot, j]
        Z[j] += v[slot, j]
    g[j] *= keep
    B[j], whole[j] = 0.0, Z[j]


@kernel
def sparse_steps(
    rows,
    cols,
    y,
    law,
    scales,
    sigma,
    sigma_blocks,
    steps,
    uniforms,
    numbers,
    counts,
    used,
    u,
    u_sums,
    u_blocks,
    columns,
    u_order,
    u_slot,
    v,
    v_sums,
    v_blocks,
    base,
    base_sums,
    v_order,
    v_slot,
    g,
    Z,
    whole,
    B,
    seen,
    size,
):
    """One step for each row of `uniforms`, as `dense_steps`; `law` is the running sum of s tau.

    ``counts`` is [steps since the flush, entries of X read].
    """
    n, d, k = y.shape[0], sigma.shape[0], u_order.shape[0]
    cU, kappa, shrink, _, radius, share = steps
    sigma_total = total(sigma_blocks)
    for step in range(uniforms.shape[0]):
        t = counts[0]
        theta = math.exp(-kappa * t)
        alpha, c = numbers[ALPHA], numbers[C]
        # (j, l): eta = X(j, :) sign rho_j sum(s tau) / tau_j
        label, factor = -1, 0.0
        if law[n - 1] > 0.0:
            j = min(np.searchsorted(law, law[n - 1] * uniforms[step, 0], side="right"), n - 1)
            rho = 2.0 * Z[j] / (Z[j] + theta * g[j])
            if uniforms[step, 1] < 0.5:
                label, sign = y[j], -1.0
            else:
                label, sign = (
                    draw_class(j, y, v, v_blocks, base, v_order, v_slot, used[1], size, 2.0 * uniforms[step, 1] - 1.0),
                    1.0,
                )
            factor = cU * sign * rho * law[n - 1] * scales[j]
            if u_slot[label] >= used[0] and used[0] == u.shape[0]:
                return step, PRIMAL_SLOTS
        # (i, l'): xi = +-X(:, i) W / sigma_i
        stored = total(columns[WEIGHT, : used[0]])
        root = math.sqrt(c)
        rest = (k - used[0]) * 2.0 * root * sigma_total
        W = alpha * (stored + rest)
        other, entry, move = -1, -1, 0.0
        if W > 0.0:
            left = (stored + rest) * uniforms[step, 2]
            slot = -1
            if left < stored or used[0] == k:
                slot = find(columns[WEIGHT, : used[0]], left)
            if slot >= 0:
                other = u_order[slot]
                entry, sign = find_entry(sigma, u[slot], c, u_blocks[slot], columns[WEIGHT, slot] * uniforms[step, 3])
            else:
                other = u_order[used[0] + min(int((left - stored) / rest * (k - used[0])), k - used[0] - 1)]
                half = 2.0 * uniforms[step, 3]
                sign = 1.0 if half < 1.0 else -1.0
                entry = find(sigma, sigma_total * (half if half < 1.0 else half - 1.0))
            move = kappa * sign * W / sigma[entry]
            if v_slot[other] >= used[1] and used[1] == v.shape[0]:
                return step, DUAL_SLOTS
        # primal, at the entries of row j
        numbers[TOTAL] += share * alpha
        if label >= 0:
            if u_slot[label] >= used[0]:
                take_slot(u_order, u_slot, used[0], label)
                open_column(u, u_sums, u_blocks, sigma_blocks, columns, used[0], c, 0.0)
                columns[MASS, used[0]], columns[WEIGHT, used[0]] = 2.0 * root * d, 2.0 * root * sigma_total
                used[0] += 1
            slot = u_slot[label]
            for p in range(rows.first(j), rows.last(j)):
                i = rows.position(j, p)
                before, down = u[slot, i], c / u[slot, i]
                q = vector_exp(factor * rows.entry(p))
                up = before / q
                change = up - before + down * (q - 1.0)
                u[slot, i] = up
                u_sums[slot, i] -= numbers[TOTAL] * (up - before - down * (q - 1.0))
                u_blocks[slot, i // BLOCK] += sigma[i] * change
                columns[MASS, slot] += change
                columns[WEIGHT, slot] += sigma[i] * change
            counts[1] += rows.last(j) - rows.first(j)
        M = alpha * (total(columns[MASS, : used[0]]) + (k - used[0]) * 2.0 * root * d)
        alpha *= shrink if M * shrink <= radius else radius / M
        numbers[ALPHA] = alpha
        # dual, at the entries of column i
        if other >= 0:
            if v_slot[other] >= used[1]:
                take_slot(v_order, v_slot, used[1], other)
                open_rows(v, v_sums, v_blocks, base, base_sums, y, used[1], other, size)
                used[1] += 1
            slot = v_slot[other]
            for p in range(cols.first(entry), cols.last(entry)):
                j = cols.position(entry, p)
                look_at_row(j, t + 1, kappa, share, g, Z, B, seen)
                w = vector_exp(move * cols.entry(p))
                change = v[slot, j] * (w - 1.0)
                v[slot, j] += change
                v_sums[slot, j] -= change * B[j]
                v_blocks[slot // size, j] += change
                Z[j] += change
                if y[j] == other:
                    g[j] *= w
                N = Z[j] + theta * g[j]
                if not math.exp(-0.5 * MOST_DRIFT) < N < math.exp(0.5 * MOST_DRIFT) or Z[j] < SMALL_PART * whole[j]:
                    flush_row(rows, j, y, used[1], v, v_sums, v_blocks, base, base_sums, v_slot, theta, g, Z, whole, B, size)
            counts[1] += cols.last(entry) - cols.first(entry)
        counts[0] = t + 1
        if abs(math.log(alpha)) > MOST_DRIFT or kappa * counts[0] > MOST_DRIFT:
            return step + 1, FLUSH
    return uniforms.shape[0], DONE
