"""A digest of the sources that a computation depends on: a record is used again as long as they are the same.

A module counts with all that it imports of its own package and of this library, also inside functions. Solvers that are called by
their names are followed like imports. An edit of a command or of a page thus leaves the records valid.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from saddlery.registry import SOLVERS

__all__ = ["modules_behind", "sources_digest"]

# A table of names and the wording of errors change no number.
LEFT_OUT = frozenset({"saddlery", "saddlery.registry", "saddlery.errors"})


@functools.cache
def sources_digest(module: str, solvers: tuple[str, ...] = ()) -> str:
    """Digest of `module`, of the registered solvers named, and of all that they import."""
    digest = hashlib.sha256()
    for name, path in sorted(modules_behind([module, *_solver_modules(solvers)]).items()):
        digest.update(name.encode())
        digest.update(path.read_bytes())
        table = path.with_suffix(".json")  # a table that a module reads lies beside it under the same name
        if table.is_file():
            digest.update(table.read_bytes())
    return digest.hexdigest()[:16]


def modules_behind(modules: Iterable[str]) -> dict[str, Path]:
    """The given modules and all that they import of their packages and of this library, with their files.

    Examples
    --------
    >>> sorted(modules_behind(["saddlery.certificate"]))
    ['saddlery.certificate']
    """
    found: dict[str, Path] = {}
    waiting = list(modules)
    packages = {name.split(".")[0] for name in waiting} | {"saddlery"}
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if name in found or name in LEFT_OUT or path is None:
            continue
        found[name] = path
        waiting += [other for other in _imports(path) if other.split(".")[0] in packages]
    return found


def _solver_modules(names: tuple[str, ...]) -> list[str]:
    """Where the solvers live; "auto" may mean any of them."""
    places = SOLVERS.places()
    wanted = [*places] if "auto" in names else names
    return [places[name].split(":")[0] for name in wanted]


@functools.cache
def _file_of(module: str) -> Path | None:
    """The file of a module; None for what is not a module but a name inside one."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
