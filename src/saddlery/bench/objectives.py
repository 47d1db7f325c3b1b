"""Objectives in plain NumPy, sharing no code with the library: what every solver's answer is judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["Objective", "alpha_max"]


@dataclass(frozen=True)
class Objective:
    """Mean loss plus ``alpha * (l1_ratio * ||w||_1 + (1 - l1_ratio) / 2 * ||w||^2)``, no intercept.

    Losses: ``logistic``, ``hinge``, ``squared_hinge`` = max(0, 1 - y z)^2 / 2 and ``squared`` = (z - y)^2 / 2.
    """

    loss: str
    alpha: float
    l1_ratio: float  # 1: l1, 0: l2, between: elastic net

    @property
    def penalty(self) -> str:
        """Name of the penalty."""
        return {1.0: "l1", 0.0: "l2"}.get(self.l1_ratio, "elasticnet")

    @property
    def kind(self) -> tuple[str, str]:
        """(loss, penalty): what a solver must be able to do."""
        return self.loss, self.penalty

    @property
    def l1(self) -> float:
        """Strength of the l1 norm."""
        return self.alpha * self.l1_ratio

    @property
    def l2(self) -> float:
        """Strength of half the squared l2 norm."""
        return self.alpha * (1.0 - self.l1_ratio)

    def at(self, alpha: float) -> Objective:
        """The same with another strength."""
        return replace(self, alpha=float(alpha))

    def value(self, X: Any, y: np.ndarray, w: np.ndarray) -> float:
        """The objective at w; infinity if w is not finite."""
        w = np.asarray(w, dtype=np.float64).ravel()
        if w.shape != (X.shape[1],):
            raise ValueError(f"{w.shape[0]} weights for {X.shape[1]} columns")
        if not np.isfinite(w).all():
            return float("inf")
        z = np.asarray(X @ w).ravel()
        if self.loss == "logistic":
            losses = np.logaddexp(0.0, -y * z)
        elif self.loss == "hinge":
            losses = np.maximum(0.0, 1.0 - y * z)
        elif self.loss == "squared_hinge":
            losses = 0.5 * np.maximum(0.0, 1.0 - y * z) ** 2
        else:
            losses = 0.5 * (z - y) ** 2
        return float(losses.mean() + self.l1 * np.abs(w).sum() + 0.5 * self.l2 * (w @ w))

    def at_zero(self, y: np.ndarray) -> float:
        """The objective at w = 0."""
        return {"logistic": float(np.log(2.0)), "hinge": 1.0, "squared_hinge": 0.5}.get(self.loss, float(0.5 * np.mean(y**2)))


def alpha_max(X: Any, y: np.ndarray, loss: str, l1_ratio: float) -> float:
    """The least strength at which w = 0 is optimal."""
    slope = -0.5 * y if loss == "logistic" else -y  # of the loss at z = 0
    return float(np.abs(X.T @ slope).max() / len(y) / l1_ratio)
