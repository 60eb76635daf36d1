"""The campaign's handle on a fork server: starts it, asks it for workers, hears of their ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
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
from nnfuzz.base.text import visible
from nnfuzz.sandbox import zygote
from nnfuzz.sandbox.events import Standstill
from nnfuzz.sandbox.own_time import OwnTime

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
"""In the environment of a fork server and all that descend from it; its scratch folder."""
PREFIX = "nnfuzz-server-"
LOG_BYTES = 1 << 16
CLOSE_SECONDS = 10.0
ANSWER_SECONDS = 20.0
"""In which a fork server that has imported everything answers: twice what it may take to bury a
worker (zygote.KILL_SECONDS)."""
_MESSAGE_BYTES = 1 << 16


@dataclass(frozen=True)
class _Message:
    """Of the fork server: a worker has begun as a process, or ended (see `ForkServer.fork`)."""

    worker: int
    pid: int | None = None
    status: int | None = None


@dataclass(frozen=True)
class Home:
    """An environment that workers run in instead of this process's own.

    lent: files of the modules and packages of this process that are imported there, by name.
    """

    python: Path
    lent: Mapping[str, str]


class ForkServer:
    """A process that has imported `preload` once and forks workers from there in milliseconds.

    Several sandboxes may share one. `environment` is added to the environment of this process and
    reaches every worker, as does what makes numeric libraries single-threaded, since a library
    that ran threads before a fork hangs after it. `warm`, a service's factory "pkg.module:factory"
    with its arguments (JSON), is called once ahead: what it loads and caches, workers begin with.
    `home`: where it runs; None for where this process does. `name`: of its workers, for people.
    """

    def __init__(
        self,
        preload: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        warm: tuple[str, JsonObject] | None = None,
        home: Home | None = None,
        name: str = "",
    ):
        self.preload = tuple(dict.fromkeys(preload))
        self.warm = warm
        self.name = f"fork server of {name or 'workers'}"
        self.standstills: list[Standstill] = []
        """What it was replaced for."""
        self.looks = 0
        """How often messages were asked for."""
        self._home = home
        self._environment = {**SINGLE_THREAD, **(environment or {})}
        self._on_end: dict[int, Callable[[int], None]] = {}
        self._on_start: dict[int, Callable[[int], None]] = {}
        self._next = 0
        self._log = _unnamed_file()
        self._launch()

    def _launch(self) -> None:
        """Starts the process, which alone makes files in the file system, so that it alone has to
        remove them, whoever is killed: here are only a name, and files without one.
        """
        self.alive, self._forking = True, False
        self._asked = OwnTime()
        sweep(Path(tempfile.gettempdir()))
        self.scratch = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(8)}"
        self._log.close()
        self._log = _unnamed_file()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, _unnamed_file() as setup:
            setup.write(json.dumps(self._setup()).encode())
            setup.seek(0)
            self._process = subprocess.Popen(
                [*self._command(), str(theirs.fileno())],
                stdin=setup,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **self._environment, MARK: str(self.scratch)},
                start_new_session=True,  # Ctrl-C in the terminal reaches the campaign alone
            )
        self._control.setblocking(False)

    def _command(self) -> list[str]:
        if self._home is None:
            return [sys.executable, "-m", zygote.__name__]
        return [str(self._home.python), "-I", zygote.__file__]  # deaf to PYTHONPATH

    def _setup(self) -> dict[str, object]:
        own = [os.path.abspath(entry) for entry in sys.path]
        return {
            "campaign": os.getpid(),
            "path": own if self._home is None else None,
            "lent": dict(self._home.lent) if self._home else {},
            "preload": self.preload,
            "warm": self.warm,
            "scratch": str(self.scratch),
        }

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """Readable when `pump` has something to do."""
        return self._control.fileno()

    def fork(
        self, fds: list[int], on_start: Callable[[int], None], on_end: Callable[[int], None]
    ) -> int:
        """Asks for a worker that inherits `fds`; returns its number at once.

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
        except BlockingIOError:  # it reads no more
            self.restart("new workers")
        except ConnectionError:  # it has died since
            self._lost()
        return worker

    def kill(self, worker: int) -> None:
        """Kills the worker's whole process group; on_end follows. No effect on a dead worker."""
        try:
            self._control.send(_request("kill", worker))
        except BlockingIOError:
            self.restart("workers to be killed")
        except ConnectionError:
            self.pump()

    def pump(self) -> None:
        """Delivers the messages that have arrived, without blocking."""
        self.looks += 1
        while self.alive:
            try:
                data = self._control.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                self._expect()
                return
            except ConnectionError:
                data = b""
            if not data:
                self._lost()
                return
            try:
                self._told(read(_Message, json.loads(data)))
            except (ValueError, RecursionError):  # a library that it has imported wrote there
                self._process.kill()
                self._lost()

    @property
    def importing(self) -> bool:
        """Whether it has not answered yet."""
        return self.alive and not self._forking

    def _expect(self) -> None:
        """Replaces it if it owes an answer for too long; how long imports take, sandboxes know."""
        if not self._on_start:
            self._asked = OwnTime()
        elif self._forking and self._asked.exceeds(ANSWER_SECONDS, self.pid):
            self.restart("a new worker")

    def _told(self, message: _Message) -> None:
        self._asked = OwnTime()
        if message.pid is not None:
            self._forking = True
            self._on_start.pop(message.worker, print)(message.pid)
        if message.status is not None:
            self._on_end.pop(message.worker, print)(message.status)

    def restart(self, about: str) -> None:
        """Kills a fork server that no longer answers; its workers end with it.

        about: what it was asked for.
        """
        seconds = time.monotonic() - self._asked.began
        self.standstills.append(Standstill(self.name, about, seconds))
        self._process.kill()
        self._lost()

    def log(self) -> str:
        """What the libraries printed while they were imported."""
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

    def _lost(self) -> None:
        self._bury()
        self._on_start.clear()
        ends, self._on_end = self._on_end, {}
        for on_end in ends.values():
            on_end(-signal.SIGKILL)  # as every worker does then

    def _bury(self) -> None:
        """Waits for the end of the process, and does what it may not have lived to do."""
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
        shutil.rmtree(self.scratch, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Removes scratch folders of which nobody is alive: their fork server and its campaign were
    both killed, by the kernel for want of memory, say.
    """
    for left in folder.glob(f"{PREFIX}{'[0-9a-f]' * 16}"):
        with contextlib.suppress(OSError):  # gone meanwhile, somebody else's, or in use
            fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_uid == os.getuid():
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(fd)


def _unnamed_file() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _kill_all(mark: bytes) -> None:
    """Kills every process with a variable "NAME=VALUE" in its environment, until there is none."""
    for _ in range(10):  # what forks meanwhile is found again
        found = [entry for entry in Path("/proc").glob("[0-9]*") if _carries(entry, mark)]
        for entry in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)


def _carries(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is somebody else's
        return False


def _request(action: str, worker: int) -> bytes:
    return json.dumps({"do": action, "worker": worker}).encode()
