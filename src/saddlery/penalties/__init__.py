"""Penalties and constraints: one file each; see :mod:`saddlery.penalties.base` for the protocol."""

from saddlery.penalties.base import bounded, separable
from saddlery.penalties.elastic_net import ElasticNet
from saddlery.penalties.l1 import L1
from saddlery.penalties.l1_ball import L1Ball
from saddlery.penalties.l2 import L2
from saddlery.penalties.nuclear_ball import NuclearBall
from saddlery.penalties.simplex import Simplex

__all__ = ["L1", "L2", "ElasticNet", "L1Ball", "NuclearBall", "Simplex", "bounded", "separable"]
