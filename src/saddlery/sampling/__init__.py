"""Sampling from laws that change a little at each step: capped simplices, sum trees; each has a brute-force twin in the tests."""

from saddlery.sampling.capped import Caps, project_capped

__all__ = ["Caps", "project_capped"]
