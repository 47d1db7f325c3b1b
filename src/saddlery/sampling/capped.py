"""Weights on a capped simplex, from their logarithms: the projection of multiplicative updates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddlery.parts import kernel, part

__all__ = ["Caps", "project_capped"]


@part
class Caps(NamedTuple):
    """The set ``{p : 0 <= p_i <= cap * s_i, sum p = mass}`` over the rows of `members`."""

    s: np.ndarray
    members: np.ndarray
    cap: float
    mass: float


@kernel
def project_capped(caps, scale, logs, ratio, p, reference):
    """p_i = s_i min(cap, c exp(scale * logs_i)) with the c that gives sum p = mass; returns log of cap / c.

    This is the projection in relative entropy of s_i exp(scale * logs_i). With r_i = exp(scale * logs_i - reference) and theta
    = cap / c there is theta = sum of s r over the free rows / (mass / cap - sum of s over the capped ones); rows above theta are
    capped until none is left.
    `reference` is the last answer: ratios are taken to it, so that neither large nor small weights leave the range of numbers.
    """
    members, s = caps.members, caps.s
    room = caps.mass / caps.cap  # weight of rows that could be capped
    free, whole = 0.0, 0.0
    for k in range(members.shape[0]):
        i = members[k]
        ratio[i] = np.exp(scale * logs[i] - reference)
        free += s[i] * ratio[i]
        whole += s[i]
    if room >= whole * (1.0 - 1e-14):
        for k in range(members.shape[0]):
            p[members[k]] = s[members[k]] * caps.mass / whole
        return reference
    used = 0.0
    while True:
        if not 1e-250 < free < 1e250:  # all that is free has faded, or nothing was near: take ratios to the largest of them
            top = -np.inf
            for k in range(members.shape[0]):
                i = members[k]
                if ratio[i] >= 0.0:
                    top = max(top, scale * logs[i])
            reference, free = top, 0.0
            for k in range(members.shape[0]):
                i = members[k]
                if ratio[i] >= 0.0:
                    ratio[i] = np.exp(scale * logs[i] - reference)
                    free += s[i] * ratio[i]
        theta = free / (room - used)
        capped, rest = 0.0, 0.0
        for k in range(members.shape[0]):
            i = members[k]
            if ratio[i] > theta and used + capped + s[i] < room:
                ratio[i] = -1.0  # capped
                capped += s[i]
            elif ratio[i] >= 0.0:
                rest += s[i] * ratio[i]
        if capped == 0.0:
            break
        used, free = used + capped, rest
    for k in range(members.shape[0]):
        i = members[k]
        p[i] = s[i] * caps.cap * (1.0 if ratio[i] < 0.0 else min(1.0, ratio[i] / theta))
    return reference + np.log(theta)
