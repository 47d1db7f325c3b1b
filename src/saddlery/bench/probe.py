"""Which peers are here: imported in a process of their own, because a peer may crash or hang as soon as it is imported."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saddlery.bench.log import Log
from saddlery.bench.rivals import INSTALL, known, load
from saddlery.bench.supervise import environment

__all__ = ["Found", "Peer", "main", "probe"]

PATIENCE = 120.0  # seconds for all imports together, of which some compile


class Peer(NamedTuple):
    """A peer that can be imported."""

    name: str
    version: str
    kinds: list[tuple[str, str]]


class Found(NamedTuple):
    """The peers that are here, by the name that :func:`saddlery.bench.rivals.load` takes; and why the others are not."""

    here: dict[str, Peer]
    missing: dict[str, str]


def probe(names: Sequence[str], patience: float = PATIENCE) -> Found:
    """Import the peers of these names elsewhere, one after the other; who ends that process is missing, and the rest go on."""
    here: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events")
        while todo := [name for name in names if name not in here and name not in missing]:
            why = _run([sys.executable, "-m", "saddlery.bench.probe", str(path), *todo], patience)
            events = Log(path).events
            path.unlink(missing_ok=True)
            for event in events:
                if event["event"] == "here":
                    here[event["solver"]] = Peer(event["name"], event["version"], [(loss, pen) for loss, pen in event["kinds"]])
                elif event["event"] == "missing":
                    missing[event["solver"]] = event["why"]
            began = [event["solver"] for event in events if event["event"] == "start"] or todo[:1]
            if began[-1] not in here:
                missing.setdefault(began[-1], f"{why} when it is imported")
    return Found(here, missing)


def _run(command: list[str], patience: float) -> str:
    try:
        done = subprocess.run(
            command, env=environment(1), timeout=patience, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    return f"crashes (exit {done.returncode})"


def main(path: str, names: Sequence[str]) -> None:
    """In the other process: write what becomes of each."""
    log = Log(Path(path))
    for name in names:
        log.write(event="start", solver=name)
        try:
            cls = load(name)
            cls()
            told: dict[str, Any] = {"name": cls.name, "version": cls.version(), "kinds": sorted(cls.kinds)}
            json.dumps(told)  # an adapter that says nonsense is missing, too
            log.write(event="here", solver=name, **told)
        except Exception as error:  # a broken peer must not stop the others
            log.write(event="missing", solver=name, why=_reason(name, error))


def _reason(name: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and name in known():
        return f"not installed: {INSTALL}"
    return f"{type(error).__name__}: {error}"[:200]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
