"""The same SVM in other words: slack of the two games, strength alpha of the l2 penalty, scikit-learn's C and nu.

Let w, b, a solve ``sum_i s_i [1 - y_i (x_i.w + b)]_+ + alpha / 2 ||w||^2``. Then, with N = sum_i s_i abs(a_i),

- the capped form with slack N and the budget form with slack (mean hinge) / ||w|| are solved by w / ||w|| and a / N,
- gamma = 1 / ||w|| is the level of the budget form, V = alpha ||w|| / N the value of the capped one, and gamma = V + budget / N,
- back: alpha = N gamma V, where N is the share of rows that count and gamma the margin up to which they do.

scikit-learn adds the losses up: C = 1 / (alpha * total weight), n in place of the weight if there are no weights. `NuSVC(nu)` is
the capped form with slack nu. `LinearSVC` penalises its intercept, so only its models without one translate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlery.errors import InputError

__all__ = ["C_from_alpha", "Slacks", "alpha_from_C", "alpha_of_game", "slacks_of_svm"]


class Slacks(NamedTuple):
    """What an ordinary SVM is as a game: slack of the capped form, of the budget form, and the values of both."""

    capped: float
    budget: float
    value: float
    level: float


def C_from_alpha(alpha: float, weight: float) -> float:
    """scikit-learn's C for a strength alpha; `weight` is the number of rows, or the sum of their weights.

    Examples
    --------
    >>> C_from_alpha(0.01, 50)
    2.0
    """
    return 1.0 / (alpha * weight)


def alpha_from_C(C: float, weight: float) -> float:
    """The strength alpha for scikit-learn's C; `weight` is the number of rows, or the sum of their weights.

    Examples
    --------
    >>> alpha_from_C(2.0, 50)
    0.01
    """
    return 1.0 / (C * weight)


def slacks_of_svm(problem: Any, w: np.ndarray, dual: np.ndarray, b: float = 0.0) -> Slacks:
    """The slacks of both games that a solved SVM stands for.

    Parameters
    ----------
    problem : LinearProblem
        Hinge with l2.
    w, dual, b : arrays, float
        Its solution.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.LinearProblem([[2.0], [-1.0], [1.0]], [1, -1, -1], "hinge", sd.penalties.L2(0.5))
    >>> solution = sd.solve(problem, tol=1e-10)
    >>> [round(float(x), 6) for x in slacks_of_svm(problem, solution.w, solution.dual)]
    [0.791667, 1.333333, 0.315789, 2.0]
    """
    size = float(np.linalg.norm(w))
    if size == 0.0:
        raise InputError("the weights are all zero: such a model has no margin, so it is no game")
    mass = float(problem.s @ np.abs(dual))
    risk = float(problem.s @ np.maximum(1.0 - problem.y * (problem.margins(w) + b), 0.0))
    return Slacks(mass, risk / size, problem.penalty.strong_convexity * size / mass, 1.0 / size)


def alpha_of_game(problem: Any, w: np.ndarray, dual: np.ndarray, b: float = 0.0) -> float:
    """The strength alpha of the ordinary SVM that a solved game stands for; its weights are w / level.

    Parameters
    ----------
    problem : SlackSVMProblem
        Either form.
    w, dual, b : arrays, float
        Its solution.

    Examples
    --------
    >>> import saddlery as sd
    >>> problem = sd.SlackSVMProblem([[2.0], [-1.0], [1.0]], [1, -1, -1], 19 / 24, fit_intercept=False)
    >>> solution = sd.solve(problem, tol=1e-10)
    >>> round(alpha_of_game(problem, solution.w, solution.dual), 6)
    0.5
    """
    level = problem.level(problem.margins(w), b)
    if level <= 0.0:
        raise InputError(
            "rows count only up to a margin that is not positive: no ordinary SVM stands for this game; take more slack"
        )
    share = problem.slack if problem.form == "capped" else 1.0 / float(np.abs(dual[problem.s > 0.0]).max())
    return share * level * float(np.linalg.norm(problem.matrix.rmatvec(problem.s * dual)))
