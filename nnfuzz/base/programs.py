"""Runs other programs, none of which imports Python files of the working directory."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnfuzz.base.safe_path import safe_environment


def run_program(
    command: Sequence[str | Path], /, environment: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Waits for a program; returns its exit code and what it has printed, as text.

    environment: variables in addition to those of this process. options: those of subprocess.run.
    Without an input the program has nothing to read. Raises: OSError, subprocess.TimeoutExpired.
    """
    if "input" not in options:
        options["stdin"] = subprocess.DEVNULL
    return subprocess.run(
        [str(word) for word in command],
        env=safe_environment(**(environment or {})),
        capture_output=True,
        text=True,
        errors="replace",
        **options,
    )
