"""The steps of Algorithm 1 of Babichev, Ostrovskii and Bach (2019) on dense X, corrected, at O(n + d + k) each.

The pair of points is U (d x k, in two halves U+ and U- that are not negative) and V (n x k, rows in the simplex). A step draws

    (j, l)  with probability ~ s_j tau_j |V - Y|_jl          tau_j = max_i |x_ji|
    (i, l') with probability ~ sigma_i (U+ + U-)_il'         sigma_i^2 = sum_j s_j x_ji^2

and multiplies column l of U and column l' of V by exponentials of row j and of column i of X. All else changes by scalars, which
are kept apart and multiplied in by the flushes:

========================  ==========================================================================================================
here                      meaning, and the letters of the paper
========================  ==========================================================================================================
u, c, alpha               U+ = alpha u and U- = alpha c / u: what multiplies one half divides the other, so one of them is enough
u_sums, A, read           sums of U+ - U- over the steps; A = sum of alpha (A), `read` = A when a column was last added (A_pr)
v, beta                   V_jl = beta_j v_jl for l != y_j (tilde V, beta)
vy, off                   V_jy and 1 - V_jy, kept normalised; rho_j = 2 off_j
v_sums, B                 V summed over the steps is v_sums + v B, B = sum of beta (B): v_sums loses (change of v) B at each change
slots                     columns are stored from the first time on that they are drawn; all others of U are alike, and so are
                          those of V but for the rows of that class: `base`
weights, blocks           sums of sigma (U+ + U-) over columns and over blocks of a column; sums of v over blocks of slots
========================  ==========================================================================================================

Both draws are made before anything changes, from the same iterate (the printed order draws (i, l') after the primal update).
"""

from __future__ import annotations

import math

from saddlery.parts import kernel

__all__ = ["BLOCK", "DUAL_SLOTS", "FLUSH", "PRIMAL_SLOTS", "dense_steps", "flush_dual", "flush_primal", "vector_exp"]

BLOCK = 64  # entries of a column whose weights are summed: a draw looks at d / 64 sums and then at 64 entries
ALPHA, TOTAL, C, DRIFT = 0, 1, 2, 3  # places in `numbers`: alpha, A, c, and how far beta may have moved since it was looked at
DONE, PRIMAL_SLOTS, DUAL_SLOTS, FLUSH = 0, 1, 2, 3  # why a call returned
MASS, WEIGHT, READ = 0, 1, 2  # rows of `columns`
LARGEST = 8.0  # exponents are cut here; sensible steps have a twentieth of it
SMALLEST = 1e-120  # of the entries of U and V: zeros would stay zero for ever
MOST_DRIFT = 7.0  # of log alpha and log beta between flushes: lazy sums lose as many digits as these move


# --------------------------------------------------------------------------- small pieces


@kernel(fast_sums=True, inline=True)
def vector_exp(x):
    """exp(x) with x cut to [-8, 8]: a Taylor polynomial of x/16 to the power 16, since calls of exp are not turned into vectors."""
    z = min(max(x, -LARGEST), LARGEST) * 0.0625
    p = 1.0 + z * (1.0 / 13.0)
    p = 1.0 + z * (1.0 / 12.0) * p
    p = 1.0 + z * (1.0 / 11.0) * p
    p = 1.0 + z * (1.0 / 10.0) * p
    p = 1.0 + z * (1.0 / 9.0) * p
    p = 1.0 + z * 0.125 * p
    p = 1.0 + z * (1.0 / 7.0) * p
    p = 1.0 + z * (1.0 / 6.0) * p
    p = 1.0 + z * 0.2 * p
    p = 1.0 + z * 0.25 * p
    p = 1.0 + z * (1.0 / 3.0) * p
    p = 1.0 + z * 0.5 * p
    p = 1.0 + z * p
    p = p * p
    p = p * p
    p = p * p
    return p * p


@kernel(fast_sums=True)
def total(values):
    """sum_i values_i."""
    out = 0.0
    for i in range(values.shape[0]):
        out += values[i]
    return out


@kernel(fast_sums=True)
def product(t, off):
    """sum_j t_j off_j: half of Q, the sum of the law of (j, l)."""
    out = 0.0
    for j in range(t.shape[0]):
        out += t[j] * off[j]
    return out


@kernel
def find(values, left):
    """The first i whose running sum of `values` exceeds `left`; the last positive one if rounding leaves none."""
    n = values.shape[0]
    for start in range(0, n, BLOCK):
        block = values[start : min(start + BLOCK, n)]
        size = total(block)
        if left < size:
            last = -1
            for i in range(block.shape[0]):
                if block[i] > 0.0:
                    last = i
                    if left < block[i]:
                        break
                    left -= block[i]
            if last >= 0:
                return start + last
        left -= size
    for i in range(n - 1, -1, -1):
        if values[i] > 0.0:
            return i
    return -1


@kernel
def find_row(t, off, left):
    """The first row j whose running sum of t off exceeds `left`; the last possible one if rounding leaves none."""
    n, last = t.shape[0], -1
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        size = product(t[start:stop], off[start:stop])
        if size > 0.0:
            last = start
        if left < size:
            break
        left -= size
    if last < 0:
        return -1
    row = -1
    for j in range(last, min(last + BLOCK, n)):
        weight = t[j] * off[j]
        if weight > 0.0:
            row = j
            if left < weight:
                break
            left -= weight
    return row


@kernel
def find_entry(sigma, u, c, blocks, left):
    """The entry i of a column, and the sign of its half, with probability ~ sigma_i u_i and sigma_i c / u_i."""
    block = 0
    for b in range(blocks.shape[0]):
        if blocks[b] > 0.0:
            block = b
            if left < blocks[b]:
                break
            left -= blocks[b]
    entry, sign = -1, 1.0
    for i in range(block * BLOCK, min((block + 1) * BLOCK, sigma.shape[0])):
        if sigma[i] > 0.0:
            entry, sign = i, 1.0
            left -= sigma[i] * u[i]
            if left < 0.0:
                break
            sign = -1.0
            left -= sigma[i] * c / u[i]
            if left < 0.0:
                break
    return entry, sign


# --------------------------------------------------------------------------- the two updates


@kernel(fast_sums=True)
def raise_column(x, factor, c, pending, sigma, u, sums):
    """sums += pending (u - c/u), u *= exp(-factor x): TRACKPRIMAL, UPDATEPRIMAL; returns sums of u + c/u and sigma (u + c/u)."""
    mass, weight = 0.0, 0.0
    for i in range(u.shape[0]):
        other = c / u[i]
        sums[i] += pending * (u[i] - other)
        q = vector_exp(factor * x[i])
        up, down = u[i] / q, other * q
        u[i] = up
        mass += up + down
        weight += sigma[i] * (up + down)
    return mass, weight


@kernel(fast_sums=True)
def raise_rows(x, factor, theta, share, label, y, v, sums, block, beta, B, vy, off):
    """Multiply column `label` of V by w_j = exp(factor x_j) and the true classes by theta: TRACKDUAL, and UPDATEDUAL corrected.

    chi_j = off_j + beta_j v_j (w_j - 1) + vy_j wy_j,   wy_j = theta (w_j if y_j is the label, else 1)

    The paper has 1 + beta_j v_j (w_j - 1) + vy_j (wy_j - 1), which loses all digits of 1 - vy_j where that is small.
    """
    for j in range(v.shape[0]):
        w = vector_exp(factor * x[j])
        wy = theta * (w if y[j] == label else 1.0)
        change = v[j] * (w - 1.0)
        b = beta[j]
        past = B[j] + share * b
        others, true = off[j] + b * change, vy[j] * wy
        keep = 1.0 / (others + true)
        B[j] = past
        v[j] += change
        sums[j] -= change * past
        block[j] += change
        off[j] = others * keep
        vy[j] = true * keep
        beta[j] = b * keep


@kernel(fast_sums=True)
def fade_rows(theta, share, beta, B, vy, off):
    """The same without a column: only the true classes are multiplied by theta."""
    for j in range(beta.shape[0]):
        b = beta[j]
        keep = 1.0 / (off[j] + vy[j] * theta)
        B[j] += share * b
        off[j] *= keep
        vy[j] *= theta * keep
        beta[j] = b * keep


@kernel
def has_moved(beta):
    """Whether a scale has left [exp(-7), exp(7)]."""
    low, high = beta[0], beta[0]
    for j in range(beta.shape[0]):
        low, high = min(low, beta[j]), max(high, beta[j])
    return not (low > math.exp(-MOST_DRIFT) and high < math.exp(MOST_DRIFT))


# --------------------------------------------------------------------------- slots


@kernel
def take_slot(order, slot_of, used, label):
    """Give `label` the slot `used`: it changes places in `order` with the class that stands there."""
    at, other = slot_of[label], order[used]
    order[at], order[used] = other, label
    slot_of[other], slot_of[label] = at, used


@kernel
def open_column(u, sums, blocks, sigma_blocks, columns, slot, c, A):
    """A primal column that was never drawn: u = sqrt(c) everywhere, so that both halves are alike."""
    start = math.sqrt(c)
    u[slot] = start
    sums[slot] = 0.0
    for b in range(blocks.shape[1]):
        blocks[slot, b] = 2.0 * start * sigma_blocks[b]
    columns[READ, slot] = A


@kernel
def open_rows(v, sums, blocks, base, base_sums, y, slot, label, size):
    """A dual column that was never drawn: `base`, but 0 where it is the true class."""
    block = blocks[slot // size]
    for j in range(y.shape[0]):
        mine = y[j] != label
        v[slot, j] = base[j] if mine else 0.0
        sums[slot, j] = base_sums[j] if mine else 0.0
        block[j] += v[slot, j]


@kernel
def draw_class(j, y, v, blocks, base, order, slot_of, used, size, share):
    """A class l != y_j of row j with probability ~ v_jl: by sums over blocks of slots, then inside the block.

    `share` in [0, 1) is the uniform number. Classes without a slot all have base_j; one of them is taken evenly.
    """
    k = order.shape[0]
    stored = 0.0
    for b in range((used + size - 1) // size):
        stored += blocks[b, j]
    stored = max(stored, 0.0)
    rest = k - used - (1 if slot_of[y[j]] >= used else 0)
    left = share * (stored + rest * base[j])
    if left < stored or rest == 0:
        last = -1
        for b in range((used + size - 1) // size):
            if left < blocks[b, j] or (b + 1) * size >= used:
                for slot in range(b * size, min((b + 1) * size, used)):
                    if v[slot, j] > 0.0:
                        last = slot
                        if left < v[slot, j]:
                            break
                        left -= v[slot, j]
                if last >= 0:
                    return order[last]
            left -= blocks[b, j]
        for slot in range(used):  # rounding emptied the last block: the first class that is possible
            if v[slot, j] > 0.0:
                return order[slot]
        return y[j]
    at = used + min(int((left - stored) / base[j]), rest - 1)
    if slot_of[y[j]] >= used and at >= slot_of[y[j]]:
        at += 1
    return order[at]


# --------------------------------------------------------------------------- the loop over draws


@kernel
def dense_steps(
    rows,
    cols,
    y,
    t,
    scales,
    sigma,
    sigma_blocks,
    tops,
    steps,
    uniforms,
    numbers,
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
    beta,
    B,
    vy,
    off,
    size,
):
    """One step for each row of `uniforms`, until slots run out or a flush is due; returns how many were done and why it ended.

    ``steps`` is [cU, cV, exp(-cU lambda), theta, radius, share] with cU = 2 gamma L R, cV = 2 gamma log k, theta = exp(-cV) and the
    share of an iterate in the sums; `t` is s tau, `scales` 1 / tau, `tops` max_j |x_ji|; `columns` holds mass, weight and `read` of
    each primal slot, `size` is the number of slots in a block of v.
    """
    n, d, k = y.shape[0], sigma.shape[0], u_order.shape[0]
    cU, cV, shrink, theta, radius, share = steps
    sigma_total = total(sigma_blocks)
    for step in range(uniforms.shape[0]):
        alpha, c = numbers[ALPHA], numbers[C]
        # (j, l), sign of V - Y there, and the step of the primal: eta = X(j, :) sign Q / tau_j
        Q = 2.0 * product(t, off)
        j = find_row(t, off, 0.5 * Q * uniforms[step, 0])
        label, factor = -1, 0.0
        if j >= 0:
            if uniforms[step, 1] < 0.5:
                label, sign = y[j], -1.0
            else:
                label, sign = (
                    draw_class(j, y, v, v_blocks, base, v_order, v_slot, used[1], size, 2.0 * uniforms[step, 1] - 1.0),
                    1.0,
                )
            factor = cU * sign * Q * scales[j]
            if u_slot[label] >= used[0] and used[0] == u.shape[0]:
                return step, PRIMAL_SLOTS
        # (i, l') and the step of the dual: xi = +-X(:, i) W / sigma_i
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
                at = used[0] + min(int((left - stored) / rest * (k - used[0])), k - used[0] - 1)
                other = u_order[at]
                half = 2.0 * uniforms[step, 3]
                sign = 1.0 if half < 1.0 else -1.0
                entry = find(sigma, sigma_total * (half if half < 1.0 else half - 1.0))
            move = cV * sign * W / sigma[entry]
            if v_slot[other] >= used[1] and used[1] == v.shape[0]:
                return step, DUAL_SLOTS
        # primal: iterate t enters the sums, then one column and the common scale change
        numbers[TOTAL] += share * alpha
        if label >= 0:
            if u_slot[label] >= used[0]:
                take_slot(u_order, u_slot, used[0], label)
                open_column(u, u_sums, u_blocks, sigma_blocks, columns, used[0], c, numbers[TOTAL])
                used[0] += 1
            slot = u_slot[label]
            pending = numbers[TOTAL] - columns[READ, slot]
            columns[READ, slot] = numbers[TOTAL]
            mass, weight = 0.0, 0.0
            for block in range(sigma_blocks.shape[0]):
                low, high = block * BLOCK, min((block + 1) * BLOCK, d)
                x = rows.values[j * d + low : j * d + high]
                part = raise_column(x, factor, c, pending, sigma[low:high], u[slot, low:high], u_sums[slot, low:high])
                mass += part[0]
                weight += part[1]
                u_blocks[slot, block] = part[1]
            columns[MASS, slot], columns[WEIGHT, slot] = mass, weight
        M = alpha * (total(columns[MASS, : used[0]]) + (k - used[0]) * 2.0 * root * d)
        alpha *= shrink if M * shrink <= radius else radius / M
        numbers[ALPHA] = alpha
        # dual
        if other >= 0:
            if v_slot[other] >= used[1]:
                take_slot(v_order, v_slot, used[1], other)
                open_rows(v, v_sums, v_blocks, base, base_sums, y, used[1], other, size)
                used[1] += 1
            slot = v_slot[other]
            x = cols.values[entry * n : (entry + 1) * n]
            raise_rows(x, move, theta, share, other, y, v[slot], v_sums[slot], v_blocks[slot // size], beta, B, vy, off)
        else:
            fade_rows(theta, share, beta, B, vy, off)
        numbers[DRIFT] += cV + (abs(move) * tops[entry] if other >= 0 else 0.0)
        if abs(math.log(alpha)) > MOST_DRIFT:
            return step + 1, FLUSH
        if numbers[DRIFT] > 0.4 * MOST_DRIFT:
            numbers[DRIFT] = 0.0
            if has_moved(beta):
                return step + 1, FLUSH
    return uniforms.shape[0], DONE


# --------------------------------------------------------------------------- flush


@kernel(fast_sums=True)
def flush_column(pending, c, alpha, after, sigma, u, sums):
    """sums += pending (u - c/u), then u = alpha u and c = alpha^2 c; returns the sums of u + c/u and of sigma (u + c/u).

    Where c is kept from falling (after > alpha^2 c), the larger half of an entry keeps its value.
    """
    mass, weight, lift = 0.0, 0.0, after / (alpha * alpha * c)
    for i in range(u.shape[0]):
        sums[i] += pending * (u[i] - c / u[i])
        up = alpha * u[i] * (1.0 if u[i] * u[i] >= c else lift)
        u[i] = up
        mass += up + after / up
        weight += sigma[i] * (up + after / up)
    return mass, weight


@kernel
def flush_primal(rows, sigma, numbers, used, u, u_sums, u_blocks, columns):
    """Multiply alpha into u and add what is pending to the sums, so that alpha = 1 and A = 0."""
    d, alpha, c = sigma.shape[0], numbers[ALPHA], numbers[C]
    after = max(alpha * alpha * c, SMALLEST * SMALLEST)
    for slot in range(used[0]):
        pending = numbers[TOTAL] - columns[READ, slot]
        columns[READ, slot], columns[MASS, slot], columns[WEIGHT, slot] = 0.0, 0.0, 0.0
        for block in range(u_blocks.shape[1]):
            low, high = block * BLOCK, min((block + 1) * BLOCK, d)
            part = flush_column(pending, c, alpha, after, sigma[low:high], u[slot, low:high], u_sums[slot, low:high])
            columns[MASS, slot] += part[0]
            columns[WEIGHT, slot] += part[1]
            u_blocks[slot, block] = part[1]
    numbers[ALPHA], numbers[TOTAL], numbers[C] = 1.0, 0.0, after


@kernel(fast_sums=True)
def flush_rows(beta, B, v, sums, off):
    """sums += v B, v = beta v, off += v."""
    for j in range(v.shape[0]):
        sums[j] += v[j] * B[j]
        v[j] = max(beta[j] * v[j], SMALLEST) if v[j] > 0.0 else 0.0
        off[j] += v[j]


@kernel(fast_sums=True)
def scale_rows(factor, v, block):
    """v = factor v, block += v."""
    for j in range(v.shape[0]):
        v[j] *= factor[j]
        block[j] += v[j]


@kernel
def flush_dual(rows, y, numbers, used, v, v_sums, v_blocks, base, base_sums, v_slot, beta, B, vy, off, size):
    """Multiply beta into v, add what is pending to the sums, and make the rows of V sum to one again; then beta = 1 and B = 0."""
    n, k = y.shape[0], v_slot.shape[0]
    for j in range(n):
        base_sums[j] += base[j] * B[j]
        base[j] = max(beta[j] * base[j], SMALLEST)
        off[j] = (k - used[1] - (1 if v_slot[y[j]] >= used[1] else 0)) * base[j]
    for slot in range(used[1]):
        flush_rows(beta, B, v[slot], v_sums[slot], off)
    for j in range(n):
        beta[j], B[j] = 1.0 / (off[j] + vy[j]), 0.0
        base[j] *= beta[j]
        off[j] *= beta[j]
        vy[j] = max(vy[j] * beta[j], SMALLEST)
    v_blocks[:] = 0.0
    for slot in range(used[1]):
        scale_rows(beta, v[slot], v_blocks[slot // size])
    beta[:] = 1.0
    numbers[DRIFT] = 0.0
