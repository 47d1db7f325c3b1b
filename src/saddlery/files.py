"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

__all__ = ["sync_folder", "write_atomically"]


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
