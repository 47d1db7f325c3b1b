"""Geometries: potentials of mirror methods with their steps, distances and sizes, and the players of games."""

from saddlery.geometry.balls import Ball, Box, Space
from saddlery.geometry.entropy import RowEntropy, SignedEntropy
from saddlery.geometry.euclidean import RowEuclidean
from saddlery.geometry.fscore_set import FScoreSet
from saddlery.geometry.mixed_norm import BlockPower
from saddlery.geometry.players import Player
from saddlery.geometry.simplices import CappedSimplex, ProductOfSimplices, Simplex

__all__ = [
    "Ball",
    "BlockPower",
    "Box",
    "CappedSimplex",
    "FScoreSet",
    "Player",
    "ProductOfSimplices",
    "RowEntropy",
    "RowEuclidean",
    "SignedEntropy",
    "Simplex",
    "Space",
]
