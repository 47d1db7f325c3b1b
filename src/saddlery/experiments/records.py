"""The records of runs: one JSON file each, found again by the digest of what was computed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from saddlery.errors import InputError
from saddlery.experiments.base import Record, Run
from saddlery.experiments.sources import sources_digest
from saddlery.files import write_atomically

__all__ = ["Store", "key_of", "versions"]

LIBRARIES = ("saddlery", "numpy", "scipy", "numba")


def key_of(run: Run, data_digest: str) -> str:
    """Digest of a run: function, settings, bytes of the data file, and the sources behind all that.

    Examples
    --------
    >>> run = Run("a", "saddlery.experiments.records:key_of", {"seed": 0})
    >>> key_of(run, "") == key_of(run._replace(label="b", cost=9.0), ""), key_of(run, "") == key_of(run, "other data")
    (True, False)
    """
    content = [run.function, dict(run.settings), run.data, data_digest, sources_digest(run.function.split(":")[0], run.solvers)]
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that compute."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


class Store:
    """A folder of records."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, run: Run, key: str) -> Path:
        """The file of a record: what it is for eyes, and the key."""
        return self.folder / f"{re.sub(r'[^a-z0-9]+', '-', run.label.lower()).strip('-')}-{key}.json"

    def get(self, run: Run, key: str) -> Record | None:
        """The record under this key, or None."""
        path = self.path(run, key)
        try:
            content = json.loads(path.read_bytes())
            record = Record(**content)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} is damaged: delete it, and the run is done again ({error})") from error
        if record.key != key:
            raise InputError(f"{path} holds the record of another run ({record.key}): delete it, and the run is done again")
        return record

    def put(self, run: Run, record: Record) -> Path:
        """Write a record, whole or not at all."""
        path = self.path(run, record.key)
        self.folder.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        write_atomically(path, (json.dumps(content, allow_nan=False) + "\n").encode())
        return path
