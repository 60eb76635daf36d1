"""Values as people type them: durations, lists, dtypes, exporters."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nnfuzz.cli.errors import UsageError

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}
_BYTES = {"": 1, "k": 1000, "m": 10**6, "g": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", re.IGNORECASE)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms]?)", re.IGNORECASE)


def duration(text: str, option: str = "--time") -> float:
    """ "4h", "90s", "1h30m" -> seconds, more than 0. Raises: UsageError."""
    seconds, position = 0.0, 0
    for match in _PART.finditer(text):
        if match.start() != position:
            break
        seconds += float(match.group(1)) * _UNITS[match.group(2).lower()]
        position = match.end()
    if position == len(text) and text[-1:].isdigit() and seconds:
        raise UsageError(f"{option} {text!r} lacks a unit: write {text}s, {text}m or {text}h")
    if position != len(text) or not seconds:
        raise UsageError(f"{option} {text!r} is no duration: write 90s, 10m, 4h or 1h30m")
    return seconds


def size(text: str, option: str = "--max-bytes") -> int:
    """ "20M", "512k", "1000" -> bytes, more than 0. Raises: UsageError."""
    match = _SIZE.fullmatch(text.strip())
    found = float(match[1]) * _BYTES[match[2].lower()] if match else 0
    if found < 1:
        raise UsageError(f"{option} {text!r} is no size: write 4000, 64k, 20M or 1G")
    return int(found)


def spoken(seconds: float) -> str:
    """Seconds -> "1h02m", "3m05s" or "9s"."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"


def listed(values: Iterable[str] | None) -> tuple[str, ...]:
    """All names of an option that may be repeated and may hold several with commas between."""
    parts = (part.strip() for value in values or () for part in value.split(","))
    return tuple(part for part in parts if part)


def chosen_dtypes(
    only: Iterable[str] | None, without: Iterable[str] | None
) -> dict[str, float | None]:
    """CaseConfig.dtypes for `--dtypes` and `--exclude-dtypes`; {} if neither is given.

    Raises: UsageError for an unknown dtype, or if none is left.
    """
    from nnfuzz.generate.config import dtype_weights

    try:
        return dtype_weights(listed(only), listed(without))
    except ValueError as error:
        raise UsageError(str(error)) from error


def chosen_engine(name: str | None) -> str | None:
    """CaseConfig.engine for `--engine`. Raises: UsageError for an unknown one."""
    from nnfuzz.backend.contract import suggest
    from nnfuzz.generate.config import ENGINES

    if name is not None and name not in ENGINES:
        raise UsageError(f"--engine: there is no engine {name!r}; {suggest(name, ENGINES)}")
    return name


def exporting(text: str | None, opset: int | None = None) -> tuple[str, ...]:
    """The exporters that `--exporter` names: "mixed" (the default), or several with commas between.

    Of several, those that do not reach the opset are left out. Raises: UsageError.
    """
    from nnfuzz.backend.contract import meant
    from nnfuzz.materialize.opsets import MIXED, OPSETS, opset_range

    names = MIXED if text in (None, "mixed") else tuple(dict.fromkeys(listed([text])))
    known = [*OPSETS, "mixed"]
    for unknown in (name for name in names if name not in OPSETS):
        hint = meant(unknown, known)
        raise UsageError(f"unknown exporter {unknown!r}; {hint}known: {', '.join(known)}")
    ranges = {name: opset_range(name) for name in names}
    reach = [name for name, (lo, hi) in ranges.items() if opset is None or lo <= opset <= hi]
    return tuple(reach) or names[:1]


def seeded(folder: Path | None) -> dict[str, Any]:
    """The fields of CaseConfig that `--seed-models` sets; {} without it. Raises: UsageError."""
    from nnfuzz.testcase.seeds import SeedError, digest, seed_files

    if folder is None:
        return {}
    try:
        files = seed_files(folder)
        return {"seed_models": tuple(map(str, files)), "seed_digest": digest(files)}
    except SeedError as error:
        raise UsageError(str(error)) from error


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
