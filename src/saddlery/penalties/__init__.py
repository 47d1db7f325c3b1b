"""Penalties: one file each; see :mod:`saddlery.penalties.base` for the protocol."""

from saddlery.penalties.base import separable
from saddlery.penalties.elastic_net import ElasticNet
from saddlery.penalties.l1 import L1
from saddlery.penalties.l2 import L2

__all__ = ["L1", "L2", "ElasticNet", "separable"]
