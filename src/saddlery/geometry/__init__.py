"""Geometries of mirror methods: potentials with their steps, distances and sizes; one file for each kind of potential."""

from saddlery.geometry.entropy import RowEntropy, SignedEntropy
from saddlery.geometry.euclidean import RowEuclidean
from saddlery.geometry.mixed_norm import BlockPower

__all__ = ["BlockPower", "RowEntropy", "RowEuclidean", "SignedEntropy"]
