"""Commands that read files of others run in a child of the program, which may not take all memory.

A model of a hundred bytes can mean a tensor of terabytes, a stack that overflows, or a computation
without end, in libraries that nobody can ask beforehand. That ends the child at most; the program
then says so in one line, with exit code 2.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import NoReturn

from nnfuzz.base.untrusted import MAX_BYTES
from nnfuzz.cli.errors import FAULT, USAGE

UNLIMITED = frozenset(("fuzz", "backends", "ops"))
"""Commands that read files of others in workers only, which have limits of their own."""
MEMORY_BYTES = 4 << 30
"""Memory beside that for files: ten times as much as `check` takes for a model of 100 MB."""
CORE_BYTES = 64 << 20
"""Memory beside that per core: stacks and buffers of the threads of NumPy and PyTorch."""
TERM_SECONDS = 4.0
"""Systems that send SIGTERM kill some seconds later, and take no notice of children."""
COPIES = 8
"""Copies of a file in memory: its bytes, the parsed model, arrays, and these of a changed model."""
SHARE = 0.75
"""The largest share of the machine's memory."""
_BLOCK = 512  # bytes; the unit of st_blocks
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_FROM_TERMINAL = 0x80  # SI_KERNEL: the child, of the same process group, has got it, too
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


def limit_command(arguments: Iterable[str]) -> None:
    """Returns in a child that has limits; this process waits for it, and ends as it does.

    arguments: of the command line; the files that they name decide how much memory the child may
    have.
    """
    arguments = list(arguments)
    name = next((word for word in arguments if not word.startswith("-")), "")
    if not name or name in UNLIMITED or {"--help", "-h"} & {*arguments}:
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signals = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child, memory = os.fork(), allowance(arguments)
    if child:
        _end(_ended(child, signals), name, memory)
    _die_with_parent()
    signal.signal(signal.SIGTERM, _terminated)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _limit(resource.RLIMIT_DATA, memory)
    _limit(resource.RLIMIT_CORE, 0)


def allowance(arguments: Iterable[str]) -> int:
    """Bytes of memory for a command: more for larger files, as far as the disk really holds them.

    A model may have its weights beside it, so that the other files of its folder count, too.
    """
    files: set[Path] = set()
    held = 0
    with suppress(OSError, ValueError):
        for path in filter(Path.exists, map(Path, arguments)):
            files.update((path if path.is_dir() else path.parent).iterdir())
    for file in files:
        with suppress(OSError):
            held += file.stat().st_blocks * _BLOCK
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    wanted = MEMORY_BYTES + CORE_BYTES * (os.cpu_count() or 1) + COPIES * min(held, MAX_BYTES)
    return min(wanted, int(SHARE * machine))


@contextmanager
def computing(seconds: float) -> Iterator[None]:
    """Ends this process by SIGXCPU if the block computes for longer, CPU seconds of all threads.

    Nothing less ends a computation in a library that never returns to Python.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, ceil(used.ru_utime + used.ru_stime + seconds))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _limit(what: int, most: int) -> None:
    """Sets a limit that workers may raise again, unless there is a stricter one."""
    soft, hard = resource.getrlimit(what)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(what, (min([most, *known]), hard))


def _terminated(number: int, frame: object) -> None:
    """Ends the command as Ctrl-C does, with all that it has started, or else soon after."""
    signal.setitimer(signal.ITIMER_REAL, TERM_SECONDS)
    raise KeyboardInterrupt


def _die_with_parent() -> None:
    from nnfuzz.sandbox.zygote import PR_SET_PDEATHSIG, prctl

    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        os._exit(USAGE)


def _ended(child: int, signals: set[signal.Signals]) -> int:
    """Waits for the child, and forwards signals to it: its exit code, or minus its signal; minus
    SIGTERM if it got that, whatever it made of it.
    """
    terminated = False
    while True:
        came = signal.sigwaitinfo(signals)
        if came.si_signo != signal.SIGCHLD:
            terminated |= came.si_signo == signal.SIGTERM
            if came.si_code != _FROM_TERMINAL:
                os.kill(child, came.si_signo)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return -signal.SIGTERM if terminated else os.waitstatus_to_exitcode(status)


def _end(code: int, name: str, memory: int) -> NoReturn:
    """Ends as the child did; a child that died while reading a file was given wrong input."""
    if code >= 0:
        os._exit(code)
    number = signal.Signals(-code)
    if number == signal.SIGXCPU:
        reason = "it takes too long to compute what the given file means"
    elif number in _CRASHES:
        reason = (
            f"a library dies of the given file ({number.name}, of at most {memory >> 30} GiB of "
            "memory)"
        )
    elif number == signal.SIGKILL:
        print(
            f"error: nnfuzz {name}: its process was killed, as the system does where memory is "
            "short: free some, or ask for less at once",
            file=sys.stderr,
            flush=True,
        )
        os._exit(FAULT)
    else:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)
    print(f"error: nnfuzz {name}: {reason}", file=sys.stderr, flush=True)
    os._exit(USAGE)
