"""Errors that the command line reports in one line, with the fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

OK, FINDINGS, USAGE, FAULT, NOT_COMPARED = 0, 1, 2, 3, 4
"""Exit codes: nothing found, findings, wrong usage, a fault of nnfuzz itself, nothing compared."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


class UsageError(Exception):
    """Bad input; the message names the fix. Exit code 2."""


def tell(line: str) -> None:
    """Shows a line to people, beside a command's output."""
    import sys

    print(f"note: {line}", file=sys.stderr)


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Raises: UsageError that names the path for an OSError in the block."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def plain_message(error: Exception) -> str:
    """The error's text without the class name that a worker put in front."""
    from nnfuzz.backend.contract import BackendUnavailable as named

    return str(error).replace(f"{named.__module__}.{named.__qualname__}: ", "").strip()
