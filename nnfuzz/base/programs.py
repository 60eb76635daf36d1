"""Runs other programs, none of which imports Python files of the working directory."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from nnfuzz.base.safe_path import safe_environment

MOST_PRINTED = 1 << 20
"""Bytes of each stream of a program that are kept: the last ones."""
_CLOSING_SECONDS = 1.0  # until a stream that somebody still holds is given up


def run_program(
    command: Sequence[str | Path],
    /,
    environment: dict[str, str] | None = None,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Waits for a program; returns its exit code and the last that it has printed, as text.

    The program has nothing to read. When it ends, or this process stops waiting for it, all that it
    has started ends as well. environment: variables in addition to those of this process. options:
    those of subprocess.Popen. Raises: OSError, subprocess.TimeoutExpired.
    """
    words = [str(word) for word in command]
    process = subprocess.Popen(
        words,
        env=safe_environment(**(environment or {})),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **options,
    )
    kept = bytearray(), bytearray()
    streams = zip((process.stdout, process.stderr), kept)
    readers = [threading.Thread(target=_read, args=each, daemon=True) for each in streams]
    for reader in readers:
        reader.start()
    try:
        code = process.wait(timeout)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for reader in readers:
            reader.join(_CLOSING_SECONDS)
    printed = (bytes(own[-MOST_PRINTED:]).decode(errors="replace") for own in kept)
    return subprocess.CompletedProcess(words, code, *printed)


def _read(stream: IO[bytes], kept: bytearray) -> None:
    """Reads a stream to its end, and keeps its last bytes."""
    with stream:
        while piece := os.read(stream.fileno(), MOST_PRINTED):
            kept += piece
            del kept[: max(0, len(kept) - 2 * MOST_PRINTED)]
