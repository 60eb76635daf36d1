"""The campaign's end of a fork server: starts it, requests workers, receives their exit codes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nnfuzz.base.reading import JsonObject, read
from nnfuzz.base.safe_path import safe_environment
from nnfuzz.base.text import visible
from nnfuzz.sandbox import zygote

SINGLE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    )
}
MARK = "NNFUZZ_FORK_SERVER"
"""Environment variable of a fork server and its descendants; its value is the scratch folder."""
PREFIX = "nnfuzz-server-"
LOG_BYTES = 1 << 16
CLOSE_SECONDS = 10.0
_MESSAGE_BYTES = 1 << 16
_NNFUZZ = str(Path(zygote.__file__).parents[1] / "__init__.py")


@dataclass(frozen=True)
class _Message:
    """A report of the fork server: a worker has started (pid) or ended (status, its exit code)."""

    worker: int
    pid: int | None = None
    status: int | None = None


@dataclass(frozen=True)
class Home:
    """A Python environment for workers, other than the one of this process.

    lent: module or package of this process -> file from which it is imported there.
    """

    python: Path
    lent: Mapping[str, str]


class ServerLost(RuntimeError):
    """A fork server that was lent is gone."""


class ForkClient:
    """A connection to a fork server: requests workers, and receives their exit codes.

    pid: of the server; 0 if it is not known yet.
    """

    def __init__(self, fd: int) -> None:
        """fd: a connection that somebody has lent to this process (`lend`)."""
        self._begin()
        self._control = socket.socket(fileno=fd)
        self._control.setblocking(False)
        self.alive = True

    def _begin(self) -> None:
        self._next = self._pid = 0
        self._forking = False  # whether it has answered, and so has ended its imports
        self._on_end: dict[int, Callable[[int], None]] = {}
        self._on_start: dict[int, Callable[[int], None]] = {}

    def _launch(self) -> None:
        """Raises: ServerLost, since only its owner can start it again."""
        raise ServerLost("a fork server is gone")

    @property
    def pid(self) -> int:
        return self._pid

    def fileno(self) -> int:
        """Readable when `pump` has something to do."""
        return self._control.fileno()

    def fork(
        self, fds: list[int], on_start: Callable[[int], None], on_end: Callable[[int], None]
    ) -> int:
        """Requests a worker that inherits `fds`; returns its number at once.

        `pump` later calls on_start(process id) and on_end(exit code, or minus the signal number).
        A fork server that has died is started again.
        """
        self.pump()
        if not self.alive:
            self._launch()
        self._next += 1
        worker = self._next
        self._on_start[worker], self._on_end[worker] = on_start, on_end
        try:
            socket.send_fds(self._control, [_request("fork", worker)], fds)
        except BlockingIOError:  # it no longer reads requests
            self.restart()
        except ConnectionError:  # it has died since
            self._lost()
        return worker

    def lend(self) -> int:
        """A new connection to the server, for another process that makes a ForkClient of it. The
        workers of that process end with it, or with this one. The caller closes it.
        """
        self.pump()
        if not self.alive:
            self._launch()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(self._control, [_request("lend", 0)], [theirs.fileno()])
            except (BlockingIOError, ConnectionError):  # it no longer answers, or has died since
                ours.close()
                self.restart()
                return self.lend()
        return ours.detach()

    def kill(self, worker: int) -> None:
        """Kills the worker's whole process group; on_end follows. No effect on a dead worker."""
        try:
            self._control.send(_request("kill", worker))
        except BlockingIOError:
            self.restart()
        except ConnectionError:
            self.pump()

    def pump(self) -> None:
        """Delivers the messages that have arrived, without blocking."""
        while self.alive:
            try:
                data = self._control.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                self._lost()
                return
            try:
                self._deliver(read(_Message, json.loads(data)))
            except (ValueError, RecursionError):  # an imported library wrote to the socket
                self.restart()

    def _deliver(self, message: _Message) -> None:
        self._forking = True
        if not message.worker and message.pid is not None:
            self._pid = message.pid  # of the server itself
        elif message.pid is not None:
            self._on_start.pop(message.worker, print)(message.pid)
        if message.status is not None:
            self._on_end.pop(message.worker, print)(message.status)

    def restart(self) -> None:
        """Kills a fork server that no longer answers; its workers end with it."""
        self._end()
        self._lost()

    def _end(self) -> None:
        """Ends a server that does not behave, as far as this process can."""

    def _lost(self) -> None:
        self._bury()
        self._on_start.clear()
        ends, self._on_end = self._on_end, {}
        for on_end in ends.values():
            on_end(-signal.SIGKILL)  # every worker dies with its fork server

    def _bury(self) -> None:
        self.alive = False
        self._control.close()

    def log(self) -> str:
        """The output of the libraries during their imports."""
        return ""

    def close(self) -> None:
        """Ends all workers of this connection; idempotent."""
        self._bury()


class ForkServer(ForkClient):
    """A process that imports `preload` once and then forks workers in milliseconds.

    Several sandboxes may share one. environment: variables of the fork server and its workers
    beside those of this process; numeric libraries are made single-threaded in addition, since a
    library that ran threads before a fork hangs after it. warm: a service's factory
    "pkg.module:factory" and its arguments (JSON), called once before the first fork, so that
    workers inherit the modules and caches that it loads. home: the Python environment; None for
    that of this process.
    """

    def __init__(
        self,
        preload: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        warm: tuple[str, JsonObject] | None = None,
        home: Home | None = None,
    ):
        self.preload = tuple(dict.fromkeys(preload))
        self.warm = warm
        self._begin()
        self._home = home
        self._environment = {**SINGLE_THREAD, **(environment or {})}
        self._log = _unnamed_file()
        self._launch()

    def _launch(self) -> None:
        """Starts the process.

        Only the fork server makes named files, so only it has to remove them, whichever process is
        killed. This process has just the name of the folder, and unnamed files.
        """
        self.alive, self._forking = True, False
        sweep(Path(tempfile.gettempdir()))
        self.scratch = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(8)}"
        self._log.close()
        self._log = _unnamed_file()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, _unnamed_file() as setup:
            setup.write(json.dumps(self._setup()).encode())
            setup.seek(0)
            self._process = subprocess.Popen(
                [*self._command(), zygote.__file__, str(theirs.fileno())],
                stdin=setup,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                env=safe_environment(**self._environment, **{MARK: str(self.scratch)}),
                start_new_session=True,  # Ctrl-C in the terminal reaches the campaign alone
            )
        self._control.setblocking(False)
        self._pid = self._process.pid

    def _command(self) -> list[str]:
        """An interpreter; in another environment than this one without the user's PYTHONPATH."""
        return [str(self._home.python), "-I"] if self._home else [sys.executable]

    def _setup(self) -> dict[str, object]:
        # An interactive Python has "" first, the working directory: its modules hide no others.
        own = [os.path.abspath(entry) for entry in sorted(sys.path, key=lambda entry: not entry)]
        return {
            "campaign": os.getpid(),
            "safe_path": os.environ.get("PYTHONSAFEPATH"),
            "path": own if self._home is None else None,
            "lent": dict(self._home.lent) if self._home else {"nnfuzz": _NNFUZZ},
            "preload": self.preload,
            "warm": self.warm,
            "scratch": str(self.scratch),
        }

    def log(self) -> str:
        """The output of the libraries during their imports."""
        return visible(os.pread(self._log.fileno(), LOG_BYTES, 0).decode(errors="replace"))

    def close(self) -> None:
        """Ends the process, all its workers and their descendants; idempotent."""
        if not self._forking:  # still importing, perhaps for seconds, and without any worker
            self._process.kill()
        self._bury()
        self._log.close()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self) -> None:
        self._process.kill()

    def _bury(self) -> None:
        """Waits for the end of the process; cleans up in its place if it was killed."""
        self.alive = False
        self._control.close()
        try:
            code = self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:  # stuck in an import
            self._process.kill()
            code = -signal.SIGKILL
            with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel's business
                self._process.wait(CLOSE_SECONDS)
        if code:
            _kill_all(f"{MARK}={self.scratch}".encode())
        zygote.remove_tree(Path(self.scratch))


def sweep(folder: Path) -> None:
    """Removes what is left of fork servers that died with their campaigns, as when memory runs out:
    their processes and scratch folders.
    """
    for left in folder.glob(f"{PREFIX}{'[0-9a-f]' * 16}"):
        with contextlib.suppress(OSError):  # gone meanwhile, somebody else's, or in use
            fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_uid == os.getuid():
                    _kill_all(f"{MARK}={left}".encode())
                    zygote.remove_tree(left)
            finally:
                os.close(fd)


def _unnamed_file() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _kill_all(mark: bytes) -> None:
    """Kills every process whose environment contains the variable `mark`, "NAME=VALUE"."""
    for _ in range(10):  # again, since a process may fork before it is killed
        marked = [entry for entry in Path("/proc").glob("[0-9]*") if _carries(entry, mark)]
        for entry in marked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)
        if not marked:
            return
        time.sleep(0.01)


def _carries(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is somebody else's
        return False


def _request(action: str, worker: int) -> bytes:
    return json.dumps({"do": action, "worker": worker}).encode()
