"""The fork server's process: imports heavy libraries once, then forks workers on request.

Started by `forkserver.ForkServer` as ``python -m nnfuzz.execute.zygote FD``. It stays
single-threaded, is the parent of all workers, and watches the campaign: when the campaign's end of
the control socket closes, for whatever reason, every worker and its descendants are killed.

Unlike `multiprocessing.forkserver` there can be several per campaign, one per set of libraries;
nothing of the campaign's `__main__` is imported again; and workers die with the campaign.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MESSAGE_BYTES = 1 << 16


def prctl(option: int, value: int) -> None:
    """Linux prctl(2); failure is ignored, since each use only adds a second line of defence."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Zygote:
    """Forks workers, reports their ends, and cleans up behind them."""

    def __init__(self, control: socket.socket, scratch: Path):
        self._control = control
        self._scratch = scratch
        self._pids: dict[int, int] = {}  # worker id -> process id, equal to its process group
        self._fds: dict[int, int] = {}  # pidfd -> worker id

    def serve(self) -> None:
        """Answers requests until the campaign is gone, then kills everything it started."""
        try:
            while self._step():
                pass
        finally:
            for pid in self._pids.values():
                _kill_group(pid)
            _kill_children()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _step(self) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        for fd in self._fds:
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        for fd in ready & self._fds.keys():
            self._bury(fd)
        _reap_orphans(set(self._pids.values()))
        return self._control.fileno() not in ready or self._request()

    def _request(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 3)
        except ConnectionError:
            return False
        if not data:
            return False
        request = json.loads(data)
        if request["do"] == "fork":
            self._fork(request["worker"], fds)
        elif request["worker"] in self._pids:
            _kill_group(self._pids[request["worker"]])
        return True

    def _fork(self, worker: int, fds: list[int]) -> None:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_worker(worker, fds, zygote)
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # also done by the child: whoever comes first
        self._pids[worker] = pid
        self._fds[os.pidfd_open(pid)] = worker
        self._tell(worker=worker, pid=pid)

    def _become_worker(self, worker: int, fds: list[int], zygote: int) -> None:
        """Never returns."""
        try:
            os.setpgid(0, 0)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != zygote:
                os._exit(1)
            self._control.close()
            for fd in self._fds:
                os.close(fd)
            from nnfuzz.execute import worker as module

            channel, output, status = fds
            module.main(channel, output, status, self._scratch / f"worker-{worker}")
        finally:
            os._exit(1)

    def _bury(self, fd: int) -> None:
        worker = self._fds.pop(fd)
        pid = self._pids.pop(worker)
        os.close(fd)
        # Kill the group before the pid is reaped and may be given to somebody else.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        self._tell(worker=worker, status=os.waitstatus_to_exitcode(status))
        shutil.rmtree(self._scratch / f"worker-{worker}", ignore_errors=True)

    def _tell(self, **message: int) -> None:
        with contextlib.suppress(ConnectionError):  # the campaign is gone; `_step` will notice
            self._control.send(json.dumps(message).encode())


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _reap_orphans(workers: set[int]) -> None:
    """Reaps descendants of workers that this process inherited as their subreaper."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in workers:
            return
        os.waitpid(found.si_pid, 0)


def _kill_children() -> None:
    """Kills every child, inherited ones included, until none is left."""
    me = str(os.getpid())
    for _ in range(10):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _parent(entry) == me:
                os.kill(int(entry.name), signal.SIGKILL)
        try:
            while os.waitpid(-1, 0):
                pass
        except ChildProcessError:
            pass


def _parent(entry: Path) -> str:
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def _watch_campaign() -> None:
    """Leaves, once a second, if the campaign died while an import is still running."""
    campaign = os.getppid()

    def check(signum: int, frame: object) -> None:
        if os.getppid() != campaign:
            os._exit(1)

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)


def _warm_up(factory: str, arguments: dict[str, Any]) -> None:
    from nnfuzz.execute.worker import build_service

    build_service(factory, arguments)


def _attempt(what: str, action: Callable[[], object]) -> None:
    """Does it if it can: the worker that needs it meets the same error and reports it."""
    try:
        action()
    except (Exception, SystemExit) as error:
        print(f"{what} failed: {error!r}", file=sys.stderr, flush=True)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    setup = json.loads(control.recv(MESSAGE_BYTES))
    sys.path[:] = setup["path"]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _watch_campaign()
    for name in ("nnfuzz.execute.worker", *setup["preload"]):
        _attempt(f"preload of {name}", partial(importlib.import_module, name))
    if setup["warm"]:
        _attempt(f"warming up {setup['warm'][0]}", lambda: _warm_up(*setup["warm"]))
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    gc.collect()
    gc.freeze()  # keeps the collector from touching, and so copying, the preloaded pages
    Zygote(control, Path(setup["scratch"])).serve()


if __name__ == "__main__":
    main()
