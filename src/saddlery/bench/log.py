"""The log of a cell, by which a worker goes on where another died, and its parent sees what it is doing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["OURS", "RAW", "REFERENCE", "Log"]

OURS, RAW, REFERENCE = "saddlery", "saddlery from raw arrays", "reference"  # all other names in logs are those of peers


class Log:
    """A file of events, one JSON object a line: what was measured, and what was under way when a process died."""

    def __init__(self, path: Path):
        self.path = path
        self.events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def write(self, **event: Any) -> None:
        """Append an event."""
        self.events.append(event)
        with self.path.open("a") as handle:
            handle.write(json.dumps(event) + "\n")

    def find(self, event: str, solver: str) -> list[dict[str, Any]]:
        """Events of one kind about one solver."""
        return [entry for entry in self.events if entry["event"] == event and entry["solver"] == solver]
