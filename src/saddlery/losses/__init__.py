"""Losses: one file each; see :mod:`saddlery.losses.base` for the protocol."""

from saddlery.losses.base import loss
from saddlery.losses.hinge import Hinge
from saddlery.losses.huber import Huber
from saddlery.losses.logistic import Logistic
from saddlery.losses.multiclass_hinge import MulticlassHinge
from saddlery.losses.rows import row_loss
from saddlery.losses.smooth_hinge import SmoothHinge
from saddlery.losses.softmax import Softmax
from saddlery.losses.squared import Squared
from saddlery.losses.squared_hinge import SquaredHinge

__all__ = [
    "Hinge",
    "Huber",
    "Logistic",
    "MulticlassHinge",
    "SmoothHinge",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "loss",
    "row_loss",
]
