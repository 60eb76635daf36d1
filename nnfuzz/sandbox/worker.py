"""The worker's side of a sandbox: one process, one service, one job after the other.

A service (nnfuzz.sandbox.job.Service) is made by a factory ``pkg.module:factory``, called as
``factory(**arguments)`` once in the worker. An exception that escapes from one of its jobs is a
fault of the service, not of its subject, and reaches the campaign as a `Fault`; `SystemExit` ends
the process, as its author intended.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import mmap
import os
import resource
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnfuzz.base.code_paths import CodePaths
from nnfuzz.base.text import visible
from nnfuzz.base.writing import as_json
from nnfuzz.sandbox import channel, wire
from nnfuzz.sandbox.channel import MARK
from nnfuzz.sandbox.events import described_error
from nnfuzz.sandbox.job import Report, Service

PAGE_BYTES = resource.getpagesize()
SHARED_BYTES = 1 << 30
"""Fewer shared bytes than this are taken for libraries; of more, the kernel is asked what they are,
which takes longer."""
lent: list[int] = []
"""Connections to fork servers that were lent to this worker (forkserver.ForkServer.lend)."""
_LIBC = ctypes.CDLL(None)
_IOLBF = 1  # glibc and musl


class StatusPage:
    """A page shared by worker and campaign: survives the worker, and writing it costs nothing."""

    SIZE = 4096

    def __init__(self, fd: int):
        os.ftruncate(fd, self.SIZE)
        self._map = mmap.mmap(fd, self.SIZE)

    def begin(self, job: int) -> None:
        """Notes that job number `job` has started, at no stage yet."""
        self._map[8:10] = b"\0\0"
        self._map[:8] = job.to_bytes(8, "little")

    @property
    def job(self) -> int:
        """The last job that has started; 0 before the first."""
        return int.from_bytes(self._map[:8], "little")

    @property
    def stage(self) -> str:
        return visible(self._map[10 : 10 + self._map[9]].decode(errors="replace"))

    @stage.setter
    def stage(self, text: str) -> None:
        data = text.encode()[:255]
        self._map[9] = 0
        self._map[10 : 10 + len(data)] = data
        self._map[9] = len(data)

    @property
    def out_of_memory(self) -> bool:
        return self._map[8] == 1

    def set_out_of_memory(self) -> None:
        self._map[8] = 1

    def close(self) -> None:
        self._map.close()


def main(channel_fd: int, output_fd: int, status_fd: int, scratch: Path) -> None:
    """Runs the worker in a freshly forked process; never returns."""
    code = 1
    try:
        marks = os.dup(output_fd)  # a compiler may close or redirect the other two
        _redirect(output_fd)
        for fd in (channel_fd, *lent):
            os.set_inheritable(fd, False)
        _isolate(scratch)
        status = StatusPage(status_fd)
        os.close(status_fd)
        with socket.socket(fileno=channel_fd) as sock:
            _serve(sock, status, marks, scratch)
        code = 0
    except (channel.Closed, ConnectionError):
        code = 0  # the campaign is done with this worker, or gone
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except BaseException:
        traceback.print_exc()
    finally:
        flush()
        os._exit(code)  # no atexit handlers: they belong to the fork server's libraries


def _serve(sock: socket.socket, status: StatusPage, marks: int, scratch: Path) -> None:
    number = 0

    def answer(kind: bytes, payload: bytes) -> None:
        """Sends an answer, with a mark in the output between the text before and after it."""
        flush()
        with contextlib.suppress(OSError):
            os.write(marks, MARK)
        channel.send(sock, kind, payload, number)

    setup, _ = wire.decode(channel.receive(sock)[1])
    try:
        service = build_service(setup["service"], setup["arguments"])
    except Exception as error:
        answer(channel.FAULT, wire.encode(described_error(error)))
        return
    # After the imports: some libraries install handlers of their own.
    faulthandler.enable(file=2, all_threads=False)
    ready = {"private_bytes": private_bytes(os.getpid()), "code_paths": as_json(CodePaths.here())}
    channel.send(sock, channel.READY, wire.encode(ready))

    def enter(stage: str) -> None:
        status.stage = stage

    report = Report(enter, lambda payload: answer(channel.PARTIAL, payload))
    while True:
        _, frame = channel.receive(sock)
        number += 1
        enter_scratch(scratch)
        status.begin(number)
        header, blobs = wire.decode(frame)
        del frame
        limit_memory(setup["memory_bytes"])
        kind, payload = _handle(service, header, blobs, report, status)
        del header, blobs
        answer(kind, payload)


def _handle(
    service: Service,
    header: dict[Any, Any],
    blobs: dict[Any, Any],
    report: Report,
    status: StatusPage,
) -> tuple[bytes, bytes]:
    try:
        return channel.REPLY, wire.encode(*service.handle(header, blobs, report))
    except MemoryError:
        status.set_out_of_memory()
        os._exit(1)
    except SystemExit:
        raise
    except BaseException as error:
        return channel.FAULT, wire.encode(described_error(error))


def limit_memory(growth: int) -> None:
    """Lets this process grow by at most `growth` bytes of private memory from now on (0: no limit).

    RLIMIT_DATA counts anonymous memory, not mapped files or reserved address space, so that it
    suits runtimes that reserve terabytes. Allocation beyond it fails.
    """
    if growth:
        pages = _pages("self")[5]
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = min(pages * PAGE_BYTES + growth, sys.maxsize)
        if hard == resource.RLIM_INFINITY or soft < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def private_bytes(pid: int) -> int:
    """Resident memory of a process that is not backed by files on a disk; 0 if unknown."""
    try:
        _, resident, shared, *_ = _pages(str(pid))
        large = shared * PAGE_BYTES > SHARED_BYTES
        return (resident - shared) * PAGE_BYTES + (_shared_memory(pid) if large else 0)
    except (OSError, ValueError):
        return 0


def _shared_memory(pid: int) -> int:
    """Resident bytes of shared memory of a process, without files on a disk.

    Raises: OSError, ValueError.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) << 10
    return 0


def _pages(process: str) -> list[int]:
    """The kernel's counts of a process's pages, see proc(5). Raises: OSError, ValueError.

    It is read several times per test: a file object takes longer than the kernel does.
    """
    file = os.open(f"/proc/{process}/statm", os.O_RDONLY)
    try:
        return [int(field) for field in os.read(file, 256).split()]
    finally:
        os.close(file)


def flush() -> None:
    """Pushes everything printed so far, by Python and by C, into the pipe."""
    for stream in (sys.stdout, sys.stderr):
        # A compiler may have closed or replaced the stream.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    _LIBC.fflush(None)


def _redirect(output_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.close(null)
    os.close(output_fd)
    sys.stdin = os.fdopen(0, closefd=False)
    # By lines, in Python and in C: text that is still in a buffer is lost with the process.
    _LIBC.setvbuf(ctypes.c_void_p.in_dll(_LIBC, "stdout"), None, _IOLBF, 0)
    sys.stdout = os.fdopen(1, "w", errors="backslashreplace", closefd=False, buffering=1)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False, buffering=1)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]


def _isolate(scratch: Path) -> None:
    """Own scratch directory and shared memory, no core dumps, deaf to Ctrl-C, own numpy
    randomness.
    """
    with contextlib.suppress(OSError):
        own_shared_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    enter_scratch(scratch)
    os.environ["TMPDIR"] = str(scratch)
    tempfile.tempdir = str(scratch)
    # `random` reseeds itself after a fork; numpy's global state does not.
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def enter_scratch(scratch: Path) -> None:
    """Makes the scratch directory, or makes it again where somebody has tidied up; enters it."""
    if not scratch.is_dir():
        scratch.parent.mkdir(mode=0o700, exist_ok=True)
        scratch.mkdir()
        os.chdir(scratch)


def build_service(service: str, arguments: Mapping[str, object]) -> Service:
    """Calls the factory "pkg.module:factory" of a service."""
    module, _, factory = service.partition(":")
    return getattr(importlib.import_module(module), factory)(**arguments)


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)
    return 1


CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 1 << 1, 1 << 2, 1 << 14, 1 << 18
SHARED_MEMORY = Path("/dev/shm")


def own_shared_memory() -> bool:
    """Gives this process and its descendants an empty /dev/shm of their own, which the kernel
    frees when the last of them has ended. The process must have a single thread.

    Returns whether it did: Linux needs the privilege to mount, or namespaces of users for that.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not SHARED_MEMORY.is_dir() or not _own_mounts(libc):
        return False
    everything = libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    flags = MS_NOSUID | MS_NODEV
    return not everything and not libc.mount(b"shm", bytes(SHARED_MEMORY), b"tmpfs", flags, None)


def _own_mounts(libc: ctypes.CDLL) -> bool:
    """Whether mounts of this process are its own now."""
    if libc.unshare(CLONE_NEWNS) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    # Without a map of its user a process could not make files any more.
    writable = os.access("/proc/self/uid_map", os.W_OK)
    if not writable or libc.unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True
