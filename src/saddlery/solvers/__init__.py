"""Solvers: one file each, one loop for all; see :mod:`saddlery.solvers.base` for the protocol."""

from saddlery.point import Point
from saddlery.solvers.auto import available
from saddlery.solvers.base import Record, Solution, Solver, State, Status, Trace
from saddlery.solvers.loop import solve

__all__ = ["Point", "Record", "Solution", "Solver", "State", "Status", "Trace", "available", "solve"]
