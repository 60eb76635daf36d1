"""A process for attacks by files, which can only write below one folder, and may die.

The kernel (Landlock) prevents other writes of every library; without it nothing is attacked.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import resource
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nnfuzz.sandbox.zygote import prctl
from scripts.torment.attack import SECONDS, Attack, one

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls
_BENEATH_PATH = 1
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_WRITING = _WRITE_FILE | _TRUNCATE | sum(1 << bit for bit in range(4, 14))
"""Rights of linux/landlock.h to write, make, remove, link, rename and truncate files."""
_LEAST_VERSION = 3  # of Linux 6.2, the first one that knows all of these
INSIDE = SECONDS / 2  # after which the process itself says where an attack hangs, if it can
MEMORY_BYTES = 4 << 30
LAST_WORDS = 2000  # bytes of what a process wrote that died


def confine(folder: Path) -> None:
    """Restricts writes of this process and its descendants to the folder.

    Raises: OSError if this kernel cannot do that.
    """
    if not confines():
        raise OSError("this kernel cannot confine a process: it takes Landlock of Linux 6.2")
    rules = _call(_CREATE_RULESET, struct.pack("<Q", _WRITING), 8, 0)
    for path, rights in ((folder, _WRITING), (Path(os.devnull), _WRITE_FILE | _TRUNCATE)):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        _call(_ADD_RULE, rules, _BENEATH_PATH, struct.pack("<Qi", rights, place), 0)
        os.close(place)
    prctl(_NO_NEW_PRIVILEGES, 1)
    _call(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def confines() -> bool:
    """Whether this kernel can confine a process."""
    try:
        return _call(_CREATE_RULESET, None, 0, 1) >= _LEAST_VERSION
    except OSError:
        return False


def _call(number: int, *arguments: object) -> int:
    """A system call. Raises: OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(number, *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


class _Process:
    """A process that carries out attacks until it dies of one."""

    def __init__(self, folder: Path, prepare: Callable[[], Attack]) -> None:
        """Waits until the process is ready. Raises: OSError if it cannot be confined."""
        context = multiprocessing.get_context("fork")
        self._log = folder / "log"
        self._ours, theirs = context.Pipe()
        work = (theirs, self._ours, folder, prepare, self._log)
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


def _serve(theirs, ours, folder: Path, prepare: Callable[[], Attack], log: Path) -> None:
    """The process's main loop: sends "" when it is ready, and then the result of each attack."""
    ours.close()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = sys.stderr = open(log, "a")  # noqa: SIM115 (for good)
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(dir=folder)
    confine(folder)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    attack = prepare()
    theirs.send("")
    while True:
        try:
            rng = theirs.recv()
        except EOFError:
            return
        theirs.send(one(attack, rng, INSIDE))


@contextmanager
def confined(folder: Path, prepare: Callable[[], Attack]) -> Iterator[Attack]:
    """Attacks in a process that can only write below a folder.

    prepare: makes the attack in that process. Raises: OSError if the kernel cannot confine it.
    """
    process = _Process(folder, prepare)

    def attack(rng: random.Random) -> str:
        nonlocal process
        if not process.alive:
            process = _Process(folder, prepare)
        return process.attack(rng)

    try:
        yield attack
    finally:
        process.end()
