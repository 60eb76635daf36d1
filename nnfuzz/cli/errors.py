"""Exit codes, errors that name their fix, and the files that commands write."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.setting import names

OK, FINDINGS, USAGE, FAULT, NOT_COMPARED = 0, 1, 2, 3, 4
"""Exit codes: nothing found, findings, wrong usage, a fault of nnfuzz itself, nothing compared."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


class UsageError(Unreadable):
    """Bad input; the message names the fix. Exit code 2."""


def tell(line: str) -> None:
    """Shows a line to people, beside a command's output."""
    print(f"note: {line}", file=sys.stderr)


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Raises: UsageError that names the path for an OSError in the block."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def write_whole(file: Path, data: bytes) -> None:
    """Writes a file whole, with the folders that it needs; a pipe or device as it is.

    Raises: UsageError.
    """
    from nnfuzz.base.files import write_atomically

    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            file.write_bytes(data)
        else:
            write_atomically(file, data)


def write_json(file: Path, data: object) -> None:
    """Writes data as `write_whole` does. Raises: UsageError."""
    write_whole(file, json.dumps(data, indent=1, default=str).encode() + b"\n")


def plain_message(error: Exception) -> str:
    """The error's text without the class name that a worker put in front."""
    from nnfuzz.backend.contract import BackendUnavailable as named

    return str(error).replace(f"{named.__module__}.{named.__qualname__}: ", "").strip()


def spoken(seconds: float) -> str:
    """Seconds -> "1h02m", "3m05s" or "9s"."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"


def listed(values: Iterable[str] | None) -> tuple[str, ...]:
    """All names of an option that may be repeated and may hold several with commas between."""
    return tuple(name for value in values or () for name in names(value))
