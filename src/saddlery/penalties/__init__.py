"""Penalties and constraints: one file each; see :mod:`saddlery.penalties.base` for the protocol."""

from saddlery.penalties.base import bounded, separable
from saddlery.penalties.box import Box
from saddlery.penalties.capped_simplex import CappedSimplex
from saddlery.penalties.cur_ball import CURBall
from saddlery.penalties.elastic_net import ElasticNet
from saddlery.penalties.group_ball import GroupBall
from saddlery.penalties.in_ball import ElasticNetInBall, L1InBall, L2InBall
from saddlery.penalties.k_support import KSupport
from saddlery.penalties.l1 import L1
from saddlery.penalties.l1_ball import L1Ball
from saddlery.penalties.l2 import L2
from saddlery.penalties.l2_ball import L2Ball
from saddlery.penalties.nuclear_ball import NuclearBall
from saddlery.penalties.simplex import Simplex

__all__ = [
    "L1",
    "L2",
    "Box",
    "CURBall",
    "CappedSimplex",
    "ElasticNet",
    "ElasticNetInBall",
    "GroupBall",
    "KSupport",
    "L1Ball",
    "L1InBall",
    "L2Ball",
    "L2InBall",
    "NuclearBall",
    "Simplex",
    "bounded",
    "separable",
]
