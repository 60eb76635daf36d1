"""A process for attacks by files, which can only write below one folder, and may die.

The kernel (Landlock) prevents other writes of every library; without it nothing is attacked.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.torment.attack import SECONDS, Attack, one
from scripts.torment.attack.confinement import confine

INSIDE = 1 / 2  # of the time limit: then the process itself says where an attack hangs, if it can
MEMORY_BYTES = 4 << 30
LAST_WORDS = 2000  # bytes of what a process wrote that died


class _Process:
    """A process that carries out attacks until it dies of one."""

    def __init__(self, folder: Path, prepare: Callable[[], Attack], seconds: float) -> None:
        """Waits until the process is ready. Raises: OSError if it cannot be confined."""
        context = multiprocessing.get_context("fork")
        self._log = folder / "log"
        self._ours, theirs = context.Pipe()
        work = (theirs, self._ours, folder, prepare, self._log, INSIDE * seconds)
        self._process = context.Process(target=_serve, args=work, daemon=True)
        self._process.start()
        theirs.close()
        self.alive = True
        if problem := self._received():
            raise OSError(f"nothing is attacked: {problem}")

    def attack(self, rng: random.Random) -> str:
        self._ours.send(rng)
        try:
            return self._received()
        except BaseException:  # it has taken too long
            self.end()
            raise

    def end(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.join()
        self._ours.close()

    def _received(self) -> str:
        try:
            return self._ours.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            words = self._log.read_bytes()[-LAST_WORDS:].decode(errors="replace")
            self.end()
            return f"the process has ended with {self._process.exitcode}\n{words}"


def _serve(
    theirs, ours, folder: Path, prepare: Callable[[], Attack], log: Path, seconds: float
) -> None:
    """The process's main loop: sends "" when it is ready, and then the result of each attack."""
    ours.close()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = sys.stderr = open(log, "a")  # noqa: SIM115 (for good)
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(dir=folder)
    confine([folder])
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    attack = prepare()
    theirs.send("")
    while True:
        try:
            rng = theirs.recv()
        except EOFError:
            return
        theirs.send(one(attack, rng, seconds))


@contextmanager
def confined(
    folder: Path, prepare: Callable[[], Attack], seconds: float = SECONDS
) -> Iterator[Attack]:
    """Attacks in a process that can only write below a folder.

    prepare: makes the attack in that process. seconds: time limit of an attack. Raises: OSError if
    the kernel cannot confine it.
    """
    process = _Process(folder, prepare, seconds)

    def attack(rng: random.Random) -> str:
        nonlocal process
        if not process.alive:
            process = _Process(folder, prepare, seconds)
        return process.attack(rng)

    try:
        yield attack
    finally:
        process.end()
