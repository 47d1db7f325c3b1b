"""Errors that say in one sentence what is wrong and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["InputError", "UnsupportedError", "unknown_name"]


class InputError(ValueError):
    """The input cannot be used as it is."""


class UnsupportedError(InputError):
    """The pieces are fine, but nothing here can handle their combination."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """An error for a name that is not registered, with the nearest one that is."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {kind} {name!r}: {hint}choose one of {', '.join(names)}")
