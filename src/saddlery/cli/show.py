"""Tables and JSON on standard output."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["print_facts", "print_json", "print_table"]


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print one line for each fact, its name in front."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:<{width}}  {value}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, title: str = "") -> None:
    """Print a table; the first `left` columns are aligned left, the others right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Into a pipe nothing is folded or cut: 80 columns are for eyes, not for programs.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 10_000, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left", pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as captured:  # printed by ourselves, because rich ends the program when a pipe breaks
        console.print(table)
    print(captured.get(), end="")


def print_json(value: Any) -> None:
    """Print one JSON object; what is not finite becomes null, because JSON has no word for it."""
    print(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
