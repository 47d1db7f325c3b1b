"""The loops of the player on the F-score set: the KL scaling of a table in closed form, its Euclidean projection by sorting.

The set is S = {x >= 0, sum x <= 1, i x_ik <= sum_k x_ik}: row i (from 1) of a table holds labellings with i positives. A row is its
mass r_i times a vector u_i of the sum 1 with entries of at most 1 / i, and so every problem over S is one problem for each row and
one for the masses.
"""

from __future__ import annotations

import math

from saddlery.parts import kernel

__all__ = ["kl_of_tables", "project_rows", "row_scale", "scale_rows", "step_logs", "table_entropy", "top_means", "write_rows"]


@kernel
def step_logs(part, log_x, gradient, step, entropy, out):
    """out = (log x - step g - step mu) / (1 + step mu): log b of the KL step (27) of Shi, Zhang & Yu."""
    shrink = 1.0 / (1.0 + step * entropy)
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = (log_x[i, k] - step * gradient[i, k] - step * entropy) * shrink


@kernel
def row_scale(part, i, b, u):
    """u = min(c exp(b), 1/i) with the sum 1; returns E = sum u (log u - b), minus the log of the row's mass, and log c.

    Caps are found without a sort: what exceeds 1/i is capped and the rest scaled anew until nothing exceeds. The set of capped
    entries only grows, and holds at most i - 1.
    """
    n, cap = b.shape[0], 1.0 / i
    top, value = -math.inf, 0.0
    for k in range(n):
        top = max(top, b[k])
    if i >= n:  # all entries are 1/n
        for k in range(n):
            value -= b[k] / n
            u[k] = 1.0 / n
        return value - math.log(float(n)), math.inf
    total = 0.0
    for k in range(n):
        u[k] = math.exp(b[k] - top)
        total += u[k]
    capped, c, log_c = 0, 1.0 / total, -math.log(total) - top
    while True:
        more = False
        for k in range(n):
            if u[k] >= 0.0 and u[k] * c > cap and capped < i - 1:
                value += cap * (math.log(cap) - b[k])
                u[k] = -1.0  # marks a capped entry
                capped += 1
                more = True
        if not more:
            break
        rest, total = 1.0 - capped * cap, 0.0
        for k in range(n):
            if u[k] >= 0.0:
                total += u[k]
        if total < 1e-100:  # what is left is too small for this maximum: take its own
            top = -math.inf
            for k in range(n):
                if u[k] >= 0.0:
                    top = max(top, b[k])
            total = 0.0
            for k in range(n):
                if u[k] >= 0.0:
                    u[k] = math.exp(b[k] - top)
                    total += u[k]
        c = rest / total
        log_c = math.log(rest) - math.log(total) - top
    for k in range(n):
        u[k] = cap if u[k] < 0.0 else min(u[k] * c, cap)
    return value + (1.0 - capped * cap) * log_c, log_c


@kernel
def scale_rows(part, b, u, log_r, log_c):
    """All rows: u_i in u, -E_i, the log of the mass before masses are scaled, in log_r, and the log of the scale in log_c."""
    for i in range(b.shape[0]):
        value, log_c[i] = row_scale(part, i + 1, b[i], u[i])
        log_r[i] = -value


@kernel
def write_rows(part, log_r, log_c, b, x, log_x):
    """x_i = r_i u_i with u in x, and its logs, log r_i + min(log c_i + b, -log i), also of entries too small for a number."""
    for i in range(x.shape[0]):
        r, log_cap = math.exp(log_r[i]), -math.log(i + 1.0)
        for k in range(x.shape[1]):
            log_x[i, k] = log_r[i] + min(log_c[i] + b[i, k], log_cap)
            x[i, k] *= r


@kernel(fast_sums=True)
def kl_of_tables(part, x, log_x, log_y):
    """sum x log(x / y) - x + y."""
    total = 0.0
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            total += x[i, k] * (log_x[i, k] - log_y[i, k] - 1.0) + math.exp(log_y[i, k])
    return total


@kernel
def table_entropy(part, x):
    """sum x log x, and the sum of its absolute terms."""
    total, size = 0.0, 0.0
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            if x[i, k] > 0.0:
                term = x[i, k] * math.log(x[i, k])
                total += term
                size += abs(term)
    return total, size


@kernel
def top_means(part, ordered, out):
    """out_i = mean of the i first entries of row i (sorted, largest first): h_0 without the maximum over rows."""
    for i in range(ordered.shape[0]):
        total = 0.0
        for k in range(i + 1):
            total += ordered[i, k]
        out[i] = total / (i + 1)


@kernel
def _row_split(part, a, sums, nu, k):
    """For x = clip(a + nu, 0, cap) with k cap = sum x: how many entries are capped and positive, and cap. `a` falls."""
    n = a.shape[0]
    low, high = 0, n  # positive entries
    while low < high:
        mid = (low + high) // 2
        if a[mid] + nu > 0.0:
            low = mid + 1
        else:
            high = mid
    p = low
    low, high = 0, min(k - 1, p)
    while low < high:  # the largest m <= k - 1 for which entry m is at least the cap that belongs to m
        mid = (low + high + 1) // 2
        cap = (sums[p] - sums[mid] + (p - mid) * nu) / (k - mid)
        if a[mid - 1] + nu >= cap:
            low = mid
        else:
            high = mid - 1
    m = low
    return m, p, (sums[p] - sums[m] + (p - m) * nu) / (k - m)


@kernel
def _project_row(part, a, sums, k, rho):
    """min |x - a|^2 / 2 + rho sum x with x_l <= sum x / k: returns nu and cap of x = clip(a + nu, 0, cap), and d(sum x)/d(rho).

    With m capped and p positive entries the slope condition is nu (k - m + m (p - m)/(k - m)) = P_m - k rho - m (P_p - P_m)/(k -
    m), P being sums of the sorted a; the piece is found by Newton's method in a bracket.
    """
    n = a.shape[0]
    mean = sums[k] / k
    if mean <= rho:
        return 0.0, 0.0, 0.0
    if k == n:
        return 0.0, mean - rho, -float(n)  # all entries are cap
    low, high = max(-a[k - 1], -rho), -rho + mean - a[k - 1]
    nu, cap, slope = low, 0.0, 0.0
    for _ in range(200):
        m, p, cap = _row_split(part, a, sums, nu, k)
        weight = k - m + m * (p - m) / (k - m)
        exact = (sums[m] - k * rho - m * (sums[p] - sums[m]) / (k - m)) / weight
        slope = -k * k * (p - m) / ((k - m) * weight)
        if abs(exact - nu) <= 1e-16 * (abs(nu) + abs(exact)):
            break
        if exact > nu:
            low = nu
        else:
            high = nu
        trial = exact if low <= exact <= high else 0.5 * (low + high)
        if trial == nu or high - low <= 1e-16 * (abs(low) + abs(high)):
            break
        nu = trial
    m, p, cap = _row_split(part, a, sums, nu, k)
    return nu, max(cap, 0.0), slope


@kernel
def project_rows(part, v, ordered, sums, rho, x):
    """The table nearest to v whose rows obey i x_ik <= sum x_i, with price rho of mass; returns mass and d(mass)/d(rho)."""
    n = v.shape[0]
    mass, slope = 0.0, 0.0
    for i in range(n):
        nu, cap, change = _project_row(part, ordered[i], sums[i], i + 1, rho)
        slope += change
        total = 0.0
        for k in range(n):
            x[i, k] = cap if i + 1 == n else min(max(v[i, k] + nu, 0.0), cap)
            total += x[i, k]
        mass += total
    return mass, slope
