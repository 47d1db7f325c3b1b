"""The certificate once more, in plain NumPy: written from the formulas, sharing no code with problems, losses or solvers.

A primal point (w, b) and a dual point a of ``min sum_i s_i l(y_i, x_i.w + b) + g(w)`` go in, their values come out. The dual
point is made feasible first, whatever it was, so its value is a lower bound on the optimum and ``primal - dual`` bounds the
suboptimality:

1. ``a_i`` is clipped to the interval on which l*(.; y_i) is finite;
2. with an intercept, the a_i of the heavier sign are shrunk until ``sum_i s_i a_i = 0`` (0 lies in every interval);
3. if g* is finite only for ``|u_j| <= threshold``, a is scaled until ``u = -X'(s a)`` is there (that of a constraint is always).

`repair` says how far these steps moved the point; for a point that was feasible it is rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError, unknown_name

__all__ = ["verify", "verify_joint"]

EPS = float(np.finfo(float).eps)
SLACK = 1.0 + 1e-11  # by which a point may leave a set: sums in another order must not make it infeasible


def _sum(terms: np.ndarray) -> float:
    """The sum, rounded once: sums of many rows lose more digits than a gap may have."""
    return math.fsum(terms.tolist())


class _Loss(NamedTuple):
    """A loss of u = z - y (regression) or of m = y z (classification), by formulas on whole vectors."""

    signs: bool
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]  # l(y, z)
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]  # l'(y, z), only to find the best constant
    conjugate: Callable[[np.ndarray, np.ndarray], np.ndarray]  # l*(y, a) inside the domain
    reach: float  # the domain: -y a in [0, reach] for classification, |a| <= reach for regression


def _entropy(p: np.ndarray) -> np.ndarray:
    """p log p + (1 - p) log(1 - p), with 0 log 0 = 0."""
    out = np.zeros_like(p)
    inside = (p > 0.0) & (p < 1.0)
    q = p[inside]
    out[inside] = q * np.log(q) + (1.0 - q) * np.log1p(-q)
    return out


def _loss(name: str, gamma: float = 1.0, delta: float = 1.0) -> _Loss:
    def quadratic(c: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        return lambda y, a: y * a + 0.5 * c * a * a

    def lack(y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - y * z)

    def rounded(y: np.ndarray, z: np.ndarray) -> np.ndarray:
        t = lack(y, z)
        return np.where(t < gamma, t * t / (2.0 * gamma), t - 0.5 * gamma)

    def huber(y: np.ndarray, z: np.ndarray) -> np.ndarray:
        u = np.abs(z - y)
        return np.where(u <= delta, 0.5 * u * u, delta * (u - 0.5 * delta))

    table = {
        "logistic": _Loss(
            True,
            lambda y, z: np.logaddexp(0.0, -y * z),
            lambda y, z: -y * np.exp(-np.logaddexp(0.0, y * z)),
            lambda y, a: _entropy(-y * a),
            1.0,
        ),
        "hinge": _Loss(True, lack, lambda y, z: -y * (y * z < 1.0), lambda y, a: y * a, 1.0),
        "smooth_hinge": _Loss(True, rounded, lambda y, z: -y * np.minimum(1.0, lack(y, z) / gamma), quadratic(gamma), 1.0),
        "squared_hinge": _Loss(True, lambda y, z: 0.5 * lack(y, z) ** 2, lambda y, z: -y * lack(y, z), quadratic(1.0), np.inf),
        "squared": _Loss(False, lambda y, z: 0.5 * (z - y) ** 2, lambda y, z: z - y, quadratic(1.0), np.inf),
        "huber": _Loss(False, huber, lambda y, z: np.clip(z - y, -delta, delta), quadratic(1.0), delta),
    }
    if name not in table:
        raise unknown_name("loss", name, table)
    return table[name]


class _Penalty(NamedTuple):
    """A penalty or constraint, by formulas on whole vectors."""

    value: Callable[[np.ndarray], float]  # g(w), infinite outside of a set
    conjugate: Callable[[np.ndarray], float]  # g*(u)
    threshold: float = math.inf  # g* is finite for |u_j| up to this


def _penalty(name: str, **fields: Any) -> _Penalty:
    for field in ("alpha", "radius", "cap", "k", "weights"):
        if field in fields and not (np.asarray(fields[field]) > 0.0).all():
            raise InputError(f"the objective needs a positive {field}")
    if not 0.0 <= float(fields.get("l1_ratio", 0.5)) <= 1.0:
        raise InputError("the objective needs an l1_ratio between 0 and 1")
    table: dict[str, Callable[..., _Penalty]] = {
        "l1": lambda alpha: _mixed(alpha, 0.0),
        "l2": lambda alpha: _mixed(0.0, alpha),
        "elasticnet": lambda alpha, l1_ratio=0.5: _mixed(alpha * l1_ratio, alpha * (1.0 - l1_ratio)),
        "l1_ball": lambda radius: _set(lambda w: _size(w) <= radius * SLACK, lambda u: radius * _top(u)),
        "l2_ball": lambda radius: _set(lambda w: _length(w) <= radius * SLACK, lambda u: radius * _length(u)),
        "simplex": lambda radius: _capped(radius, radius),
        "capped_simplex": _capped,
        "box": lambda low, high: _box(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)),
        "group_ball": lambda radius, groups, weights: _grouped(radius, np.asarray(groups), np.asarray(weights, dtype=np.float64)),
        "k_support": lambda radius, k: _set(
            lambda w: _k_support(np.abs(w), int(k)) <= radius * SLACK, lambda u: radius * _length(np.sort(np.abs(u))[-int(k) :])
        ),
        "l1_in_ball": lambda alpha, radius: _set(
            lambda w: _size(w) <= radius * SLACK, lambda u: radius * max(0.0, _top(u) - alpha), lambda w: alpha * _size(w)
        ),
        "l2_in_ball": lambda alpha, radius: _mixed_in_ball(0.0, alpha, radius),
        "elasticnet_in_ball": lambda alpha, l1_ratio, radius: _mixed_in_ball(alpha * l1_ratio, alpha * (1.0 - l1_ratio), radius),
    }
    if name not in table:
        raise unknown_name("penalty", name, table)
    return table[name](**fields)


def _size(w: np.ndarray) -> float:
    return float(np.abs(w).sum())


def _top(u: np.ndarray) -> float:
    return float(np.abs(u).max(initial=0.0))


def _length(w: np.ndarray) -> float:
    return float(np.sqrt(np.sum(w * w)))


def _mixed(l1: float, l2: float) -> _Penalty:
    """``l1 ||w||_1 + l2/2 ||w||^2``."""

    def conjugate(u: np.ndarray) -> float:
        return float(np.sum(np.maximum(0.0, np.abs(u) - l1) ** 2)) / (2.0 * l2) if l2 > 0.0 else 0.0

    return _Penalty(lambda w: l1 * _size(w) + 0.5 * l2 * float(w @ w), conjugate, math.inf if l2 > 0.0 else l1)


def _set(
    holds: Callable[[np.ndarray], Any], conjugate: Callable[[np.ndarray], float], value: Callable[[np.ndarray], float] | None = None
) -> _Penalty:
    """A constraint, with a penalty inside if there is one."""
    return _Penalty(lambda w: (0.0 if value is None else value(w)) if holds(w) else math.inf, conjugate)


def _capped(radius: float, cap: float) -> _Penalty:
    """``0 <= w <= cap, sum w = radius``: the largest u_j get cap until the radius is used up."""

    def holds(w: np.ndarray) -> bool:
        slack = (SLACK - 1.0) * radius
        return bool(w.min() >= -slack and w.max() <= cap + slack and abs(w.sum() - radius) <= slack)

    def conjugate(u: np.ndarray) -> float:
        return float(np.sort(u)[::-1] @ np.clip(radius - cap * np.arange(u.size), 0.0, cap))

    return _set(holds, conjugate)


def _box(low: np.ndarray, high: np.ndarray) -> _Penalty:
    """``low <= w <= high``."""
    if not (low < high).all():
        raise InputError("the objective needs low < high")
    slack = (SLACK - 1.0) * np.maximum(np.abs(low), np.abs(high))
    return _set(
        lambda w: (w >= low - slack).all() and (w <= high + slack).all(),
        lambda u: float(np.maximum(u * low, u * high).sum()),
    )


def _grouped(radius: float, groups: np.ndarray, weights: np.ndarray) -> _Penalty:
    """``sum_g weight_g ||w_g|| <= radius``."""

    def lengths(w: np.ndarray) -> np.ndarray:
        return np.sqrt(np.bincount(groups, w * w, minlength=weights.size))

    return _set(
        lambda w: float(weights @ lengths(w)) <= radius * SLACK, lambda u: radius * float(np.max(lengths(u) / weights, initial=0.0))
    )


def _k_support(sizes: np.ndarray, k: int) -> float:
    """The k-support norm of numbers of these sizes: the p largest count in full, the others share k - p of the places."""
    sizes = np.sort(sizes)[::-1]
    k = min(k, sizes.size)
    for p in range(k):
        share = float(sizes[p:].sum()) / (k - p)
        if sizes[p] <= share or p == k - 1:
            break
    return math.sqrt(float(np.sum(sizes[:p] ** 2)) + (k - p) * share * share)


def _mixed_in_ball(l1: float, l2: float, radius: float) -> _Penalty:
    """``l1 ||w||_1 + l2/2 ||w||^2`` for ``||w||_2 <= radius``."""

    def conjugate(u: np.ndarray) -> float:
        size = _length(np.maximum(0.0, np.abs(u) - l1))
        reach = min(radius, size / l2) if l2 > 0.0 else radius  # the length of the maximiser
        return size * reach - 0.5 * l2 * reach * reach

    return _set(lambda w: _length(w) <= radius * SLACK, conjugate, lambda w: l1 * _size(w) + 0.5 * l2 * float(w @ w))


def verify(objective: dict[str, Any], X: Any, y: Any, s: Any, w: Any, b: float, dual: Any) -> dict[str, float]:
    """Recompute the certificate of a pair of points from the formulas.

    Parameters
    ----------
    objective : dict
        ``{"loss": {"name": ..., parameters}, "penalty": {"name": ..., parameters}, "fit_intercept": bool}``.
    X : array or sparse matrix of shape (n, d)
        The data.
    y : array of shape (n,)
        Targets: -1 and +1 for classification losses, numbers for regression.
    s : array of shape (n,) or None
        Row weights; they are divided by their sum. None means equal weights.
    w, b : array of shape (d,), float
        The primal point.
    dual : array of shape (n,)
        The dual point `a`.

    Returns
    -------
    dict
        ``primal``, ``dual``, ``gap``, ``relative_gap``, ``scale``, and ``repair``: the largest move of a dual coordinate
        that was needed to make the point feasible.

    Examples
    --------
    >>> import numpy as np
    >>> objective = {"loss": {"name": "squared"}, "penalty": {"name": "l1", "alpha": 1.0}, "fit_intercept": False}
    >>> X, y = np.eye(2), np.array([1.0, -1.0])
    >>> verify(objective, X, y, None, np.zeros(2), 0.0, -y)["gap"]
    0.0
    """
    y, w, a = (np.asarray(value, dtype=np.float64) for value in (y, w, dual))
    n, d = X.shape
    s = np.full(n, 1.0 / n) if s is None else np.asarray(s, dtype=np.float64) / np.sum(s, dtype=np.float64)
    loss, penalty, intercept = _read(objective)
    _check(n, d, y, s, w, b, a, loss.signs, intercept)

    z = X @ w + b
    primal = _sum(s * loss.value(y, z)) + penalty.value(w)
    scale = _sum(s * loss.value(y, np.full(n, _best_constant(loss, y, s) if intercept else 0.0)))

    feasible = _into_domain(loss, y, a)
    if intercept:
        feasible = _balanced(s, feasible)
    u = -(X.T @ (s * feasible))
    top = _top(u)
    if top > penalty.threshold:
        feasible, u = feasible * (penalty.threshold / top), u * (penalty.threshold / top)
    penalty_conjugate = penalty.conjugate(u)
    conjugates = loss.conjugate(y, feasible)
    value = -_sum(s * conjugates) - penalty_conjugate

    gap = primal - value
    terms = abs(primal) + _sum(s * np.abs(conjugates)) + abs(penalty_conjugate)
    if -8 * EPS * terms <= gap < 0.0:  # rounding of the sums, and no more than that
        gap = 0.0
    repair = float(np.max(np.abs(feasible - a)[s > 0.0], initial=0.0))
    relative = gap / scale if scale > 0.0 else gap
    return {"primal": primal, "dual": value, "gap": gap, "relative_gap": relative, "scale": scale, "repair": repair}


def _read(objective: dict[str, Any]) -> tuple[_Loss, _Penalty, bool]:
    """Loss, penalty and intercept; refuses what is not an objective."""
    try:
        return _loss(**objective["loss"]), _penalty(**objective["penalty"]), bool(objective["fit_intercept"])
    except (KeyError, TypeError) as error:
        raise InputError(f"this is no objective that can be verified: {error}") from error


def _check(n: int, d: int, y: Any, s: Any, w: Any, b: float, a: Any, signs: bool, intercept: bool) -> None:
    for name, array, length in (("y", y, n), ("s", s, n), ("w", w, d), ("dual", a, n)):
        if array.shape != (length,):
            raise InputError(f"{name} has shape {array.shape}, but the data are {n} x {d}: it needs {length} numbers")
        if not np.isfinite(array).all():
            raise InputError(f"{name} holds NaN or infinity: no certificate can be computed from it")
    if not np.isfinite(b) or (b != 0.0 and not intercept):
        raise InputError(f"the intercept is {b!r}, which does not fit the objective")
    if (s < 0.0).any():
        raise InputError("s holds negative weights: weights must be 0 or more")
    if signs and not np.isin(y, (-1.0, 1.0)).all():
        raise InputError("this loss needs targets -1 and +1")


def _into_domain(loss: _Loss, y: np.ndarray, a: np.ndarray) -> np.ndarray:
    return -y * np.clip(-y * a, 0.0, loss.reach) if loss.signs else np.clip(a, -loss.reach, loss.reach)


def _balanced(s: np.ndarray, a: np.ndarray) -> np.ndarray:
    """`a` with ``sum_i s_i a_i = 0``: the heavier sign is shrunk."""
    positive, negative = _sum(s * np.maximum(a, 0.0)), _sum(s * np.maximum(-a, 0.0))
    if abs(positive - negative) <= 4 * EPS * (positive + negative):
        return a
    if positive > negative:
        return np.where(a > 0.0, a * (negative / positive), a)
    return np.where(a < 0.0, a * (positive / negative), a)


def _best_constant(loss: _Loss, y: np.ndarray, s: np.ndarray) -> float:
    """argmin_b of the mean loss of a constant: the slope grows with b, so bisection finds where it changes sign."""
    if loss.signs:  # only the share of +1 matters; the loss is flat or the slope is 0 long before |b| = 800
        share = float(s[y > 0.0].sum())
        y, s, low, high = np.array([1.0, -1.0]), np.array([share, 1.0 - share]), -800.0, 800.0
    else:
        low, high = float(y[s > 0.0].min()), float(y[s > 0.0].max())
    while True:
        b = 0.5 * (low + high)
        if not low < b < high:
            return b
        if float(s @ loss.slope(y, np.full(y.shape, b))) > 0.0:
            high = b
        else:
            low = b


# --------------------------------------------------------------------------- all classes at once


def _softmax_terms(S: np.ndarray, codes: np.ndarray) -> np.ndarray:
    top = S.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(S - top).sum(axis=1)) - S[np.arange(len(S)), codes]


def _hinge_terms(S: np.ndarray, codes: np.ndarray) -> np.ndarray:
    rows, raised = np.arange(len(S)), S + 1.0
    raised[rows, codes] -= 1.0
    return raised.max(axis=1) - S[rows, codes]


def _row_entropies(V: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return (V * np.log(np.where(V > 0.0, V, 1.0))).sum(axis=1)


JOINT = {  # the loss of rows, and its conjugate at V - Y
    "logistic": (_softmax_terms, _row_entropies),
    "hinge": (_hinge_terms, lambda V, codes: V[np.arange(len(V)), codes] - 1.0),
}


def verify_joint(objective: dict[str, Any], X: Any, codes: Any, s: Any, W: Any, b: Any, dual: Any) -> dict[str, float]:
    """Recompute the certificate of ``min sum_i s_i l(x_i W + b; y_i) + g(W)`` over all classes at once.

    The dual point ``A = V - Y`` is made feasible first: negative entries of V are cut and its rows divided by their sums; with
    intercepts, the rows are mixed with one distribution until ``sum_i s_i A_i = 0``; then it is scaled as in :func:`verify`.

    Parameters
    ----------
    objective : dict
        As for :func:`verify`; the loss is ``"logistic"`` (softmax) or ``"hinge"`` (Crammer and Singer).
    X, s
        As for :func:`verify`.
    codes : array of int of shape (n,)
        The class of each row, from 0.
    W, b, dual : arrays of shape (d, k), (k,) and (n, k)
        The primal and the dual point; W may be sparse.

    Returns
    -------
    dict
        As from :func:`verify`.

    Examples
    --------
    >>> import numpy as np
    >>> objective = {"loss": {"name": "hinge"}, "penalty": {"name": "l1", "alpha": 1.0}, "fit_intercept": False}
    >>> verify_joint(objective, np.eye(2), [0, 1], None, np.zeros((2, 2)), np.zeros(2), [[-1.0, 1.0], [1.0, -1.0]])["gap"]
    0.0
    """
    codes, b, A = np.asarray(codes), np.asarray(b, dtype=np.float64), np.asarray(dual, dtype=np.float64)
    n, k = X.shape[0], W.shape[1]
    s = np.full(n, 1.0 / n) if s is None else np.asarray(s, dtype=np.float64) / np.sum(s, dtype=np.float64)
    name = objective.get("loss", {}).get("name", "")
    if name not in JOINT:
        raise unknown_name("row loss", name, JOINT)
    terms, conjugates = JOINT[name]
    penalty, intercept = _penalty(**objective["penalty"]), bool(objective["fit_intercept"])
    entries = W.data if hasattr(W, "tocsr") else np.asarray(W, dtype=np.float64).ravel()
    _check_joint(X, k, codes, s, W, entries, b, A, intercept)

    S = X @ W
    S = (S.toarray() if hasattr(S, "toarray") else np.asarray(S)) + b
    primal = _sum(s * terms(S, codes)) + penalty.value(entries)
    scale = _best_joint_constant(name, np.bincount(codes, s, k)) if intercept else _sum(s * terms(np.zeros((n, k)), codes))

    Y = np.zeros((n, k))
    Y[np.arange(n), codes] = 1.0
    V = np.maximum(A + Y, 0.0)
    V /= V.sum(axis=1, keepdims=True)
    if intercept:
        V = _mixed_rows(V, s, np.bincount(codes, s, k), s @ (V - Y))
    U = -(X.T @ (s[:, None] * (V - Y)))
    u = np.asarray(U, dtype=np.float64).ravel()
    top = _top(u)
    if top > penalty.threshold:
        V, u = Y + (V - Y) * (penalty.threshold / top), u * (penalty.threshold / top)
    values = conjugates(V, codes)
    penalty_conjugate = penalty.conjugate(u)
    value = -_sum(s * values) - penalty_conjugate

    gap, size = primal - value, abs(primal) + _sum(s * np.abs(values)) + abs(penalty_conjugate)
    if -32 * EPS * size <= gap < 0.0:  # rounding of the sums, and no more than that
        gap = 0.0
    repair = float(np.max(np.abs(V - Y - A)[s > 0.0], initial=0.0))
    relative = gap / scale if scale > 0.0 else gap
    return {"primal": primal, "dual": value, "gap": gap, "relative_gap": relative, "scale": scale, "repair": repair}


def _mixed_rows(V: np.ndarray, s: np.ndarray, shares: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """(1 - t) V + t 1 q' with the least t for which the classes have their shares: t q = t shares - (1 - t) excess >= 0."""
    present = shares > 0.0
    rho = float(np.max(excess[present] / shares[present]))
    if rho <= 4 * EPS:
        return V
    t = rho / (1.0 + rho)
    return (1.0 - t) * V + np.maximum(t * shares - (1.0 - t) * excess, 0.0)


def _best_joint_constant(name: str, shares: np.ndarray) -> float:
    """The objective of the best constant: the entropy of the classes; for the hinge 1, or 2 for all but a class of over half."""
    if name == "hinge":
        return float(min(1.0, 2.0 * (1.0 - shares.max())))
    present = shares[shares > 0.0]
    return -_sum(present * np.log(present))


def _check_joint(X: Any, k: int, codes: Any, s: Any, W: Any, entries: Any, b: Any, A: Any, intercept: bool) -> None:
    n, d = X.shape
    shapes = (("codes", codes, (n,)), ("s", s, (n,)), ("W", W, (d, k)), ("b", b, (k,)), ("dual", A, (n, k)))
    for name, array, shape in shapes:
        if array.shape != shape:
            raise InputError(f"{name} has shape {array.shape}, but {n} rows, {d} features and {k} classes need {shape}")
    for name, numbers in (("s", s), ("W", entries), ("b", b), ("dual", A)):
        if not np.isfinite(numbers).all():
            raise InputError(f"{name} holds NaN or infinity: no certificate can be computed from it")
    if b.any() and not intercept:
        raise InputError("there are intercepts, which do not fit the objective")
    if (s < 0.0).any():
        raise InputError("s holds negative weights: weights must be 0 or more")
    if codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= k:
        raise InputError(f"codes must be whole numbers from 0 to {k - 1}")
