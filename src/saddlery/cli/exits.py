"""Exit codes."""

from __future__ import annotations

from typing import Any

__all__ = ["BAD_INPUT", "DONE", "STOPPED", "code_for"]

DONE = 0
BAD_INPUT = 2
STOPPED = 3


def code_for(relative_gaps: Any, tol: float) -> int:
    """0 if all gaps are certified to the tolerance, else 3.

    Examples
    --------
    >>> code_for([1e-7, 2e-3], 1e-6)
    3
    """
    return DONE if all(gap <= tol for gap in relative_gaps) else STOPPED
