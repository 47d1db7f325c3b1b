"""From the parameters of an estimator to a loss, a penalty and settings, each fault in one sentence."""

from __future__ import annotations

import functools
import inspect
from numbers import Integral, Real
from typing import Any

from saddlery.errors import InputError, unknown_name
from saddlery.penalties.simplex import check_radius
from saddlery.registry import LOSSES, PENALTIES, ROW_LOSSES

__all__ = ["check_settings", "check_strength", "make_loss", "make_penalty", "make_row_loss"]

GIVEN = ("alpha", "l1_ratio", "radius")  # what an estimator has for its penalty
IN_BALL = {"l1": "l1_in_ball", "l2": "l2_in_ball", "elasticnet": "elasticnet_in_ball"}  # what these names mean with a radius
EXAMPLES = {
    "capped_simplex": "CappedSimplex(radius, cap=0.1)",
    "group_ball": "GroupBall(radius, groups=[0, 0, 1])",
    "k_support": "KSupport(radius, k=10)",
}


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
    if hasattr(loss, "row_conjugate") and not isinstance(loss, type):
        raise InputError(f"{loss!r} is a loss of all classes at once: use LinearClassifier(multiclass='joint')")
    if isinstance(loss, type) or not hasattr(loss, "conjugate"):
        raise InputError(f"loss must be a name or an instance such as saddlery.losses.Logistic(), not {loss!r}")
    if hasattr(loss, "check"):
        loss.check()
    if task == "regression" and loss.targets == "signs":
        raise InputError(
            f"the {LOSSES.name_of(loss)} loss is for two classes: use LinearClassifier, or loss='squared' or 'huber' for numbers"
        )
    return loss


def make_row_loss(loss: Any) -> Any:
    """The loss of all classes at once for the name of the binary loss whose place it takes, or for an instance.

    Parameters
    ----------
    loss : str or row loss
        ``"logistic"`` is the softmax loss, ``"hinge"`` the one of Crammer and Singer.
    """
    if isinstance(loss, str):
        if loss in LOSSES.names() and loss not in ROW_LOSSES.names():
            names = " and ".join(repr(name) for name in ROW_LOSSES.names())
            raise InputError(f"multiclass='joint' has the losses {names}: with loss={loss!r} use multiclass='ovr'")
        loss = ROW_LOSSES.get(loss)()
    if isinstance(loss, type) or not hasattr(loss, "row_conjugate"):
        raise InputError(f"multiclass='joint' needs a name or a row loss such as saddlery.losses.Softmax(), not {loss!r}")
    if hasattr(loss, "check"):
        loss.check()
    return loss


def make_penalty(penalty: Any, alpha: Any, l1_ratio: Any, radius: Any = None) -> Any:
    """The penalty or constraint for a name with its strength or radius, or for an instance, which carries its own."""
    if isinstance(penalty, str):
        penalty = _named(penalty, alpha, l1_ratio, radius)
    elif radius is not None:
        raise InputError("radius goes with the name of a constraint, such as penalty='l1_ball': an instance carries its own")
    if isinstance(penalty, type) or not hasattr(penalty, "dual_scale"):
        raise unknown_name("penalty", penalty, PENALTIES.names())
    if hasattr(penalty, "check"):
        penalty.check()
    return penalty


def _named(name: str, alpha: Any, l1_ratio: Any, radius: Any) -> Any:
    """The penalty of a name, from those of the numbers that it takes."""
    cls = PENALTIES.get(name if radius is None else IN_BALL.get(name, name))
    wanted = ("radius",) if name == "box" else _wanted(cls)
    more = [field for field in wanted if field not in GIVEN]
    if more:
        example = EXAMPLES.get(name, f"{cls.__name__}({', '.join(wanted)})")
        raise InputError(f"penalty={name!r} needs {' and '.join(more)}: pass an instance, such as saddlery.penalties.{example}")
    if radius is None and "radius" in wanted:
        raise InputError(f"penalty={name!r} is a constraint and needs a radius, such as radius=5.0")
    if radius is not None and "radius" not in wanted:
        raise InputError(f"penalty={name!r} has no radius: leave radius=None")
    numbers = {field: value for field, value in zip(GIVEN, (alpha, l1_ratio, radius), strict=True) if field in wanted}
    for field, value in numbers.items():
        check_number(field, value)
    if name == "box":
        check_radius(float(radius))
        return cls(-float(radius), float(radius))
    return cls(**{field: float(value) for field, value in numbers.items()})


@functools.cache
def _wanted(cls: Any) -> tuple[str, ...]:
    """The arguments of a penalty that have no default, and those that an estimator has."""
    arguments = inspect.signature(cls).parameters.values()
    return tuple(argument.name for argument in arguments if argument.default is argument.empty or argument.name in GIVEN)


def check_strength(penalty: Any) -> None:
    """Refuse a constraint, by name or instance, where strengths of penalties are searched."""
    kind = PENALTIES.get(penalty) if isinstance(penalty, str) else penalty
    if getattr(kind, "bounded", False):
        raise InputError(
            f"{PENALTIES.name_of(kind)} is a constraint with a fixed radius, but strengths alpha are searched here: "
            "use penalty='l1', 'l2' or 'elasticnet', or fit LinearClassifier or LinearRegressor for each radius"
        )


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
