"""Files that appear whole or not at all, and sizes in bytes as people write them."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from saddlery.errors import InputError

__all__ = ["as_bytes", "sync_folder", "write_atomically"]

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that it appears whole or not at all: beside its place, to the disk, then moved.

    Raises
    ------
    OSError
        If that fails; what was there before is untouched.
    """
    place = Path(os.path.realpath(path))  # a link stays a link
    draft = None
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, _mode(place))
        os.replace(draft, place)
    except BaseException as error:
        if draft is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
        if isinstance(error, OSError):
            kept = ": the file that was there is unchanged" if place.exists() else ""
            raise OSError(error.errno, f"could not write {path} ({error.strerror}){kept}") from error
        raise


def _mode(place: Path) -> int:
    """The permissions of the file that is replaced, or those of any new file."""
    if place.exists():
        return place.stat().st_mode & 0o777
    mask = os.umask(0)  # the only way to read it is to set it
    os.umask(mask)
    return 0o666 & ~mask


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def as_bytes(size: Any, what: str = "max_memory") -> int:
    """A number of bytes from a number or from text such as ``"2GB"`` or ``"512MiB"``.

    Examples
    --------
    >>> as_bytes("1.5 GB"), as_bytes("2GiB"), as_bytes(10**6)
    (1500000000, 2147483648, 1000000)
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?)?b?\s*", size.lower())
        if match is None:
            raise InputError(f"{what}={size!r} is not a size: give bytes, or text such as '2GB' or '512MiB'")
        number, unit = match.groups()
        return int(float(number) * UNITS[unit or ""])
    try:
        value = int(size)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what}={size!r} is not a size: give bytes, or text such as '2GB' or '512MiB'") from error
    if value <= 0:
        raise InputError(f"{what} must be positive, not {size!r}")
    return value
