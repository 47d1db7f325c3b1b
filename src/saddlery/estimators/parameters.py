"""From the parameters of an estimator to a loss, a penalty and settings, each fault in one sentence."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from saddlery.errors import InputError, UnsupportedError, unknown_name
from saddlery.registry import LOSSES, PENALTIES

__all__ = ["check_settings", "make_loss", "make_penalty"]

CONSTRAINTS = ("l1_ball", "l2_ball", "simplex")


def make_loss(loss: Any, task: str) -> Any:
    """The loss object for a name or an instance.

    Parameters
    ----------
    loss : str or loss
        A registered name, or an instance such as ``sd.losses.Huber(delta=2.0)``.
    task : {"classification", "regression"}
        A classifier takes any loss (its labels become -1 and +1), a regressor only those of real targets.
    """
    if isinstance(loss, str):
        loss = LOSSES.get(loss)()
    if isinstance(loss, type) or not hasattr(loss, "conjugate"):
        raise InputError(f"loss must be a name or an instance such as saddlery.losses.Logistic(), not {loss!r}")
    if hasattr(loss, "check"):
        loss.check()
    if task == "regression" and loss.targets == "signs":
        raise InputError(
            f"the {LOSSES.name_of(loss)} loss is for two classes: use LinearClassifier, or loss='squared' or 'huber' for numbers"
        )
    return loss


def make_penalty(penalty: Any, alpha: Any, l1_ratio: Any, radius: Any = None) -> Any:
    """The penalty object for a name and its strength, or for an instance, which carries its own strength."""
    if radius is not None or (isinstance(penalty, str) and penalty in CONSTRAINTS):
        raise UnsupportedError(
            "constraints (l1_ball, l2_ball, simplex with a radius) are not available in this version: "
            "leave radius=None and use penalty='l1', 'l2' or 'elasticnet' with alpha"
        )
    if isinstance(penalty, str):
        cls = PENALTIES.get(penalty)
        check_number("alpha", alpha)
        if "l1_ratio" in cls._fields:
            check_number("l1_ratio", l1_ratio)
            penalty = cls(float(alpha), float(l1_ratio))
        else:
            penalty = cls(float(alpha))
    if isinstance(penalty, type) or not hasattr(penalty, "dual_scale"):
        raise unknown_name("penalty", penalty, PENALTIES.names())
    if hasattr(penalty, "check"):
        penalty.check()
    return penalty


def check_number(name: str, value: Any, kind: type = Real) -> None:
    """Refuse what is not a number, before it fails in the middle of something."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"{name} must be {'a whole number' if kind is Integral else 'a number'}, not {value!r}")


def check_settings(estimator: Any) -> None:
    """Refuse settings of the solver that make no sense; the solver's name is checked where the problem is known."""
    check_number("tol", estimator.tol)
    check_number("max_epochs", estimator.max_epochs, Integral)
    if estimator.max_seconds is not None:
        check_number("max_seconds", estimator.max_seconds)
    if not estimator.tol >= 0.0:
        raise InputError(f"tol must be 0 or more, not {estimator.tol!r}")
    if estimator.max_epochs < 0 or (estimator.max_seconds is not None and not estimator.max_seconds >= 0.0):
        raise InputError("max_epochs and max_seconds must be 0 or more")
