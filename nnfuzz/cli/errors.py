"""Errors that the command line reports in one line, with the fix."""

from __future__ import annotations

OK, FINDINGS, USAGE, FAULT = 0, 1, 2, 3
"""Exit codes: nothing found, findings, wrong usage, a fault of nnfuzz itself."""


class UsageError(Exception):
    """Bad input; the message names the fix. Exit code 2."""


def unwritable(path: object, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written: {error.strerror or error}")
