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
    = cap / c there is theta = sum of s r over the free rows / (mass / cap - sum of s over the capped ones). `reference` is the
    last answer: ratios are taken to it, so that neither large nor small weights leave the range of numbers, and 1 is a good
    guess of theta.
    """
    members, s = caps.members, caps.s
    room = caps.mass / caps.cap  # weight of rows that could be capped
    whole = 0.0
    for k in range(members.shape[0]):
        i = members[k]
        ratio[i] = np.exp(scale * logs[i] - reference)
        whole += s[i]
    if room >= whole * (1.0 - 1e-14):
        for k in range(members.shape[0]):
            p[members[k]] = s[members[k]] * caps.mass / whole
        return reference
    theta = _newton(s, members, room, ratio)
    if theta <= 0.0:
        reference, theta = _careful(s, members, room, scale, logs, ratio)
    for k in range(members.shape[0]):
        i = members[k]
        p[i] = s[i] * caps.cap * min(1.0, ratio[i] / theta)
    return reference + np.log(theta)


@kernel
def _newton(s, members, room, ratio):
    """theta by Newton's method from 1, or 0 where numbers get out of range.

    The weight sum_i s_i min(1, r_i c) is concave in c = 1 / theta, so after a first step theta falls, rows are only added to the
    capped ones, and the end is exact. It takes two or three rounds.
    """
    theta, last = 1.0, -1.0
    for turn in range(100):
        used, free, above = 0.0, 0.0, 0.0
        for k in range(members.shape[0]):
            i = members[k]
            if ratio[i] > theta:
                used += s[i]
                above += s[i] * ratio[i]
            else:
                free += s[i] * ratio[i]
        if turn == 0 and used >= room * (1.0 - 1e-12):  # the guess is too low: begin above all
            used, free = 0.0, free + above
        if not (used < room * (1.0 - 1e-12) and 1e-250 < free < 1e250):
            return 0.0
        if used == last:
            return theta
        theta, last = free / (room - used), used
    return 0.0


@kernel
def _careful(s, members, room, scale, logs, ratio):
    """Reference and theta from scratch: the largest ratios are capped until none is above theta.

    Where all that is free has faded against the capped rows, ratios are taken to the largest free one.
    """
    reference, free, used = 0.0, 0.0, 0.0
    for k in range(members.shape[0]):
        ratio[members[k]] = 0.0  # not capped
    while True:
        if not 1e-250 < free < 1e250:
            reference, free = -np.inf, 0.0
            for k in range(members.shape[0]):
                if ratio[members[k]] >= 0.0:
                    reference = max(reference, scale * logs[members[k]])
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
                ratio[i] = -1.0
                capped += s[i]
            elif ratio[i] >= 0.0:
                rest += s[i] * ratio[i]
        if capped == 0.0:
            break
        used, free = used + capped, rest
    for k in range(members.shape[0]):
        if ratio[members[k]] < 0.0:
            ratio[members[k]] = np.inf
    return reference, theta
