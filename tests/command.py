"""`nnfuzz ARGUMENTS` in this process: what it starts may come from the pool of fork servers."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from pathlib import Path

import pytest

from nnfuzz.cli.main import application, run


def nnfuzz(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What `nnfuzz ARGUMENTS` writes, and its exit code; with the environment of the caller."""
    command = [*map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd or os.curdir),
        pytest.raises(SystemExit) as end,
    ):
        run(lambda: application()(command))
    return subprocess.CompletedProcess(command, end.value.code, out.getvalue(), err.getvalue())


def told(*arguments: object) -> tuple[int, str]:
    """The exit code of `nnfuzz ARGUMENTS`, and all that it writes."""
    done = nnfuzz(*arguments)
    return done.returncode, done.stdout + done.stderr


def exit_code(*arguments: object) -> int:
    """The exit code of `nnfuzz ARGUMENTS`, which writes to the streams of the caller."""
    with pytest.raises(SystemExit) as end:
        run(lambda: application()([*map(str, arguments)]))
    return end.value.code
