"""What a person sees: the live table, the displays (matplotlib) and the HTML page."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["ConvergenceDisplay", "LiveTable", "PathDisplay", "Table", "write_report"]

_PLACES = {
    "LiveTable": "saddlery.report.live",
    "ConvergenceDisplay": "saddlery.report.displays",
    "PathDisplay": "saddlery.report.displays",
    "Table": "saddlery.report.html",
    "write_report": "saddlery.report.html",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'saddlery.report' has no attribute {name!r}")


if TYPE_CHECKING:
    from saddlery.report.displays import ConvergenceDisplay, PathDisplay
    from saddlery.report.html import Table, write_report
    from saddlery.report.live import LiveTable
