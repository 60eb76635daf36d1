"""`nnfuzz ARGUMENTS` in a process of its own, forked from one that has imported what commands need.

A new interpreter would import PyTorch for every command, seconds each; here that is done once for
each process of pytest.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

PRELOADED = ("nnfuzz.cli.main", "nnfuzz.campaign.session", "nnfuzz.reduction.case")


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def nnfuzz(
    *arguments: object, cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """What `nnfuzz ARGUMENTS` writes, and its exit code; with the environment of the caller.

    Raises: subprocess.TimeoutExpired.
    """
    command = ["nnfuzz", *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        told = [Path(folder, name) for name in ("stdout", "stderr")]
        for file in told:
            file.touch()
        place = (dict(os.environ), str(cwd or Path.cwd()), *map(str, told))
        process = _context().Process(target=_main, args=(command, *place))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, timeout)
        texts = [file.read_text() for file in told]
        return subprocess.CompletedProcess(command, process.exitcode, *texts)


def _main(command: list[str], env: dict[str, str], cwd: str, out: str, err: str) -> None:
    from nnfuzz.cli.main import main

    for number, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_WRONLY), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = command
    main()
