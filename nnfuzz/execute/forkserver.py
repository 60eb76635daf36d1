"""The campaign's handle on a fork server: starts it, asks it for workers, hears of their ends."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

SINGLE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    )
}
_MESSAGE_BYTES = 1 << 16


class ForkServer:
    """A process that has imported `preload` once and forks workers from there in milliseconds.

    Several sandboxes may share one. `environment` is added to the environment of this process and
    reaches every worker, as does what makes numeric libraries single-threaded, since a library
    that ran threads before a fork hangs after it. `warm`, a service's factory "pkg.module:factory"
    with its arguments (JSON), is called once ahead: what it loads and caches, workers begin with.
    """

    def __init__(
        self,
        preload: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        warm: tuple[str, dict[str, Any]] | None = None,
    ):
        self.preload = tuple(dict.fromkeys(preload))
        self.warm = warm
        self._environment = {**SINGLE_THREAD, **(environment or {})}
        self._on_end: dict[int, Callable[[int], None]] = {}
        self._on_start: dict[int, Callable[[int], None]] = {}
        self._next = 0
        self._launch()

    def _launch(self) -> None:
        self.alive, self._forking = True, False
        self.scratch = Path(tempfile.mkdtemp(prefix="nnfuzz-"))
        self._log = self.scratch / "preload.log"
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nnfuzz.execute.zygote", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **self._environment},
                start_new_session=True,  # Ctrl-C in the terminal reaches the campaign alone
            )
        path = [os.path.abspath(entry) for entry in sys.path]
        setup = {
            "path": path,
            "preload": self.preload,
            "warm": self.warm,
            "scratch": str(self.scratch),
        }
        self._control.send(json.dumps(setup).encode())
        self._control.setblocking(False)

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
        socket.send_fds(self._control, [_request("fork", worker)], fds)
        self._on_start[worker], self._on_end[worker] = on_start, on_end
        return worker

    def kill(self, worker: int) -> None:
        """Kills the worker's whole process group; on_end follows. No effect on a dead worker."""
        try:
            self._control.send(_request("kill", worker))
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
            message = json.loads(data)
            if "pid" in message:
                self._forking = True
                self._on_start.pop(message["worker"])(message["pid"])
            else:
                self._on_end.pop(message["worker"])(message["status"])

    def restart(self) -> None:
        """Kills a fork server that no longer answers; its workers end with it."""
        self._process.kill()
        self._lost()

    def log(self) -> str:
        """What the libraries printed while they were imported."""
        try:
            return self._log.read_text(errors="replace")
        except OSError:
            return ""

    def close(self) -> None:
        """Ends the process, all its workers and their descendants; idempotent."""
        self._control.close()
        self.alive = False
        if not self._forking:  # still importing, perhaps for seconds, and without any worker
            self._process.kill()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:  # stuck in an import
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lost(self) -> None:
        self.alive = False
        self._control.close()
        code = self._process.wait()
        self._on_start.clear()
        ends, self._on_end = self._on_end, {}
        for on_end in ends.values():
            on_end(code)
        shutil.rmtree(self.scratch, ignore_errors=True)


def _request(action: str, worker: int) -> bytes:
    return json.dumps({"do": action, "worker": worker}).encode()
