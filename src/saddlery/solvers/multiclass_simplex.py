"""Rows of the dual of the multiclass hinge with a proximal term, and the Newton systems of their faces.

For a centre U and rho > 0 the best row is v = P(u + m / rho), m = z + 1 - e_y, P the projection to the simplex. Its face is the set
S of classes with v_l > 0; on a face v moves with the margins by (I - 11'/|S|) / rho. With a reference class r for each row and one
variable p = (i, l) for every other class of its face, the Newton system of the primal is

    H = mu I + sum_i s_i / rho  x_i x_i' (I_S - 11'/|S|)          that of the faces    M = <x_i, x_j> <e_l - e_r, e_l' - e_r'>
                                                                       + (i = j) mu rho / s_i (1 + (l = l'))

and by the identity of Woodbury  H^-1 g = (g - U M^-1 U'g) / mu  with the columns U_p = x_i (e_l - e_r)'.
"""

from __future__ import annotations

import numpy as np

from saddlery.parts import kernel

__all__ = [
    "add_changes",
    "face_blocks",
    "face_system",
    "fade",
    "gather_faces",
    "list_faces",
    "primal_system",
    "project_rows",
    "spread_faces",
]


@kernel(fast_sums=True)
def project_rows(loss, codes, s, rho, Z, along, size, b, centre, new, room):
    """new_i = P(centre_i + m / rho), m = z + 1 - e_y, at the margins z = Z + size along + b.

    Returns sum_i s_i of the proximal loss <v, m> - z_y - rho |v - u|^2 / 2, of the hinge, of 1 - v_y, and of <v - e_y, along>.
    """
    n, k = Z.shape
    smooth, hinge, against, slope = 0.0, 0.0, 0.0, 0.0
    inverse = 1.0 / rho
    for i in range(n):
        if s[i] == 0.0:
            continue
        y = codes[i]
        z, dz, u, v = Z[i], along[i], centre[i], new[i]
        for l in range(k):
            room[l] = z[l] + size * dz[l] + b[l] + 1.0
        room[y] -= 1.0
        own, most = room[y], room[0]
        for l in range(k):
            most = max(most, room[l])
        top = u[0] + inverse * room[0]
        for l in range(k):
            v[l] = u[l] + inverse * room[l]
            top = max(top, v[l])
        t, before = top - 1.0, 0.0
        for _ in range(k + 1):
            total, count = 0.0, 0.0
            for l in range(k):
                above = 1.0 if v[l] > t else 0.0
                total += above * v[l]
                count += above
            if count == before:
                break
            before = count
            t = (total - 1.0) / count
        value, far, tilt = 0.0, 0.0, 0.0
        for l in range(k):
            new_l = v[l] - t if v[l] > t else 0.0
            v[l] = new_l
            value += new_l * room[l]
            far += (new_l - u[l]) * (new_l - u[l])
            tilt += new_l * dz[l]
        smooth += s[i] * (value - own - 0.5 * rho * far)
        hinge += s[i] * (most - own)
        against += s[i] * (1.0 - v[y])
        slope += s[i] * (tilt - dz[y])
    return smooth, hinge, against, slope


@kernel(fast_sums=True)
def add_changes(rows, s, new, old, by_class, G):
    """G += X'(s (new - old)), from the entries that differ; G is by classes or by features."""
    n, k = new.shape
    for i in range(n):
        for l in range(k):
            move = s[i] * (new[i, l] - old[i, l])
            if move != 0.0:
                if by_class:
                    rows.axpy(i, move, G[l])
                else:
                    for p in range(rows.first(i), rows.last(i)):
                        G[rows.position(i, p), l] += move * rows.entry(p)


@kernel(fast_sums=True)
def fade(loss, last, mean, share):
    """mean += share (last - mean)."""
    for j in range(mean.shape[0]):
        mean[j] += share * (last[j] - mean[j])


@kernel
def list_faces(loss, s, V, chosen, at, cls, ref):
    """Rows with more than one class in V, and a variable for each but the largest of these. Returns how many rows and variables."""
    n, k = V.shape
    count, m = 0, 0
    for i in range(n):
        if s[i] == 0.0:
            continue
        best, held = 0, 0
        for l in range(k):
            held += 1 if V[i, l] > 0.0 else 0
            best = l if V[i, l] > V[i, best] else best
        if held < 2:
            continue
        if m + held - 1 > at.shape[0]:
            return -1, -1
        for l in range(k):
            if V[i, l] > 0.0 and l != best:
                at[m], cls[m], ref[m] = count, l, best
                m += 1
        chosen[count] = i
        count += 1
    return count, m


@kernel(fast_sums=True)
def face_system(loss, products, length, slot, at, cls, ref, ridge, sign, out):
    """The lower half of M. <x_i, x_j> + length is found in products by the slots of the rows; ridge is mu rho / s of the rows.

    `sign` is a table of k zeros: e_l - e_r of a variable is written there, so that its products with others need no branches.
    """
    first = 0
    for p in range(at.shape[0]):
        first = first if at[first] == at[p] else p
        sign[cls[p]] += 1.0
        sign[ref[p]] -= 1.0
        row, line = products[slot[at[p]]], out[p]
        for q in range(p + 1):
            line[q] = (row[slot[at[q]]] + length) * (sign[cls[q]] - sign[ref[q]])
        for q in range(first, p + 1):
            line[q] += ridge[at[p]]
        line[p] += ridge[at[p]]
        sign[cls[p]] = 0.0
        sign[ref[p]] = 0.0


@kernel(fast_sums=True)
def primal_system(loss, X, weights, at, cls, ref, diagonal, out):
    """The lower half of H, by classes; X are the chosen rows, weights s / rho of them, diagonal that of the penalty."""
    d = X.shape[1]
    out[:] = 0.0
    S = np.empty(out.shape[0] // d, dtype=np.int64)
    p = 0
    while p < at.shape[0]:
        i, c = at[p], 0
        r, placed = ref[p], False
        while p < at.shape[0] and at[p] == i:
            if not placed and cls[p] > r:
                S[c] = r
                c += 1
                placed = True
            S[c] = cls[p]
            c += 1
            p += 1
        if not placed:
            S[c] = r
            c += 1
        x = X[i]
        for a in range(c):
            for e in range(a + 1):
                g = weights[i] * ((1.0 if a == e else 0.0) - 1.0 / c)
                low = S[e] * d
                for f in range(d):
                    line, scale = out[S[a] * d + f, low : low + d], g * x[f]
                    if scale != 0.0:
                        for h in range(d):
                            line[h] += scale * x[h]
    for f in range(out.shape[0]):
        out[f, f] += diagonal[f % d]


@kernel(fast_sums=True)
def spread_faces(rows, chosen, at, cls, ref, c, by_class, out):
    """out = U c: the sum of c_p x_i (e_l - e_r)'; by classes or by features."""
    out[:] = 0.0
    for p in range(at.shape[0]):
        i, l, r = chosen[at[p]], cls[p], ref[p]
        if by_class:
            rows.axpy(i, c[p], out[l])
            rows.axpy(i, -c[p], out[r])
        else:
            for e in range(rows.first(i), rows.last(i)):
                x, line = c[p] * rows.entry(e), out[rows.position(i, e)]
                line[l] += x
                line[r] -= x


@kernel(fast_sums=True)
def gather_faces(rows, chosen, at, cls, ref, g, by_class, out):
    """out_p = (U'g)_p = <x_i, g_l - g_r>."""
    for p in range(at.shape[0]):
        i, l, r = chosen[at[p]], cls[p], ref[p]
        product = 0.0
        if by_class:
            first, upper, lower = np.uint64(rows.first(i)), g[l], g[r]
            for j in range(g.shape[1]):
                product += rows.entry(first + np.uint64(j)) * (upper[j] - lower[j])
        else:
            for e in range(rows.first(i), rows.last(i)):
                line = g[rows.position(i, e)]
                product += rows.entry(e) * (line[l] - line[r])
        out[p] = product


@kernel
def face_blocks(loss, at, diagonal, c, inverse, out):
    """out = (I + 11') c for the variables of each row, times or divided by the row's number in `diagonal`."""
    p, m = 0, at.shape[0]
    while p < m:
        first, total = p, 0.0
        while p < m and at[p] == at[first]:
            total += c[p]
            p += 1
        scale, share = diagonal[at[first]], total
        if inverse:
            scale, share = 1.0 / scale, -total / (p - first + 1.0)
        for q in range(first, p):
            out[q] = scale * (c[q] + share)
