"""Values as people type them: durations, lists, dtypes, exporters."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from nnfuzz.base.setting import DURATION, names
from nnfuzz.cli.errors import UsageError

_BYTES = {"": 1, "k": 1000, "m": 10**6, "g": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", re.IGNORECASE)


def duration(text: str, option: str = "--time") -> float:
    """ "4h", "90s", "1h30m" -> seconds, more than 0. Raises: UsageError."""
    try:
        return DURATION.read(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def size(text: str, option: str = "--max-bytes") -> int:
    """ "20M", "512k", "1000" -> bytes, more than 0. Raises: UsageError."""
    match = _SIZE.fullmatch(text.strip())
    count = float(match[1]) * _BYTES[match[2].lower()] if match else 0
    if count < 1:
        raise UsageError(f"{option} {text!r} is no size: write 4000, 64k, 20M or 1G")
    return int(count)


def spoken(seconds: float) -> str:
    """Seconds -> "1h02m", "3m05s" or "9s"."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"


def listed(values: Iterable[str] | None) -> tuple[str, ...]:
    """All names of an option that may be repeated and may hold several with commas between."""
    return tuple(name for value in values or () for name in names(value))


def require_folder(option: str, path: Path) -> None:
    """Raises: UsageError if no files can be written into a folder, which may be made first."""
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"{option} {path}: {there} is a file: name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {path}: {there} may not be written to: name another folder")


def require_file(option: str, path: Path) -> None:
    """Raises: UsageError if a file cannot be written there."""
    if path.is_dir():
        raise UsageError(f"{option} {path}: that is a folder: name a file")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}: make it first")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise UsageError(f"{option} {path} may not be written: name another file")
