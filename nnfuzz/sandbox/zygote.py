"""The fork server's process: imports heavy libraries once, then forks workers on request.

Started by `forkserver.ForkServer` as ``python zygote.py FD``, perhaps in an environment of its own,
where nnfuzz is lent. It imports nothing of nnfuzz by itself, stays single-threaded, is the parent
of all workers, and watches the campaign: when the campaign's end of the control socket closes, for
whatever reason, every worker and its descendants are killed.

Unlike `multiprocessing.forkserver` there can be several per campaign, one per set of libraries;
nothing of the campaign's `__main__` is imported again; and workers die with the campaign.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MESSAGE_BYTES = 1 << 16
MOST_FDS = 64  # that come with a request: three of the worker, and those that are lent to it
KILL_SECONDS = 10.0  # until a process that SIGKILL does not end is left to the kernel


def prctl(option: int, value: int) -> None:
    """Linux prctl(2); failure is ignored, since each use only adds a second line of defence."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


Worker = tuple[int, int]
"""The number of a client, and the number that this one has given to its worker."""


class Zygote:
    """Forks workers, reports their ends, and cleans up behind them.

    It serves the campaign, which is client 0, and processes to which that lends it
    (forkserver.ForkServer.lend). The workers of a client end with it.
    """

    def __init__(self, control: socket.socket, scratch: Path):
        self._clients = {0: control}
        self._next = 1
        self._scratch = scratch
        self._pids: dict[Worker, int] = {}  # to its process id, equal to its process group
        self._fds: dict[int, Worker] = {}  # by pidfd
        self._own = children(os.getpid())  # of the libraries that were imported

    def serve(self) -> None:
        """Answers requests until the campaign is gone, then kills everything it started."""
        try:
            while self._step():
                pass
        finally:
            _kill_children()
            remove_tree(self._scratch)

    def _step(self) -> bool:
        poll = select.poll()
        for fd in (*(own.fileno() for own in self._clients.values()), *self._fds):
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        for fd in ready & self._fds.keys():
            self._bury(fd)
        asking = [n for n, own in self._clients.items() if own.fileno() in ready]
        for number in asking:
            if not self._request(number):
                self._end(number)
        return 0 in self._clients

    def _request(self, client: int) -> bool:
        """Carries out the request of a client; returns False if the client is gone."""
        try:
            control = self._clients[client]
            data, fds, _, _ = socket.recv_fds(control, MESSAGE_BYTES, MOST_FDS)
        except ConnectionError:
            return False
        if not data:
            return False
        request = json.loads(data)
        worker = client, request["worker"]
        if request["do"] == "fork":
            self._fork(worker, fds)
        elif request["do"] == "lend":
            self._clients[self._next] = socket.socket(fileno=fds[0])
            self._report((self._next, 0), pid=os.getpid())
            self._next += 1
        elif worker in self._pids:
            _kill_group(self._pids[worker])
        return True

    def _end(self, client: int) -> None:
        """Ends the workers of a client that is gone."""
        self._clients.pop(client).close()
        for worker in [own for own in self._pids if own[0] == client]:
            _kill_group(self._pids[worker])

    def _fork(self, worker: Worker, fds: list[int]) -> None:
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # too many processes
            print(f"fork failed: {error}", file=sys.stderr, flush=True)
            pid = -1
        if pid == 0:
            self._become_worker(worker, fds, zygote)
        for fd in fds:
            os.close(fd)
        if pid < 0:
            self._report(worker, status=1)
            return
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # the child does so, too; the order does not matter
        self._pids[worker] = pid
        self._fds[os.pidfd_open(pid)] = worker
        self._report(worker, pid=pid)

    def _become_worker(self, worker: Worker, fds: list[int], zygote: int) -> None:
        """Runs the worker in the forked child. Never returns."""
        try:
            os.setpgid(0, 0)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            # Orphaned descendants become children of the worker, whatever their session, and of the
            # fork server when the worker dies. So every child of the fork server that it did not
            # start belonged to a dead worker.
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            if os.getppid() != zygote:
                os._exit(1)
            for client in self._clients.values():
                client.close()
            for fd in self._fds:
                os.close(fd)
            from nnfuzz.sandbox import worker as module

            channel, output, status, *module.lent = fds
            module.main(channel, output, status, self._folder(worker))
        finally:
            os._exit(1)

    def _bury(self, fd: int) -> None:
        """Kills the descendants of a worker that has ended, and reports its end. fd: its pidfd."""
        worker = self._fds.pop(fd)
        pid = self._pids.pop(worker)
        os.close(fd)
        # Kill the group before the pid is reaped and may be given to somebody else.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        _kill_children(self._own | {*self._pids.values()})
        self._report(worker, status=os.waitstatus_to_exitcode(status))
        remove_tree(self._folder(worker))

    def _folder(self, worker: Worker) -> Path:
        return self._scratch / "worker-{}-{}".format(*worker)

    def _report(self, worker: Worker, **message: int) -> None:
        client, number = worker
        with contextlib.suppress(KeyError, ConnectionError):  # it is gone; `_step` will notice
            self._clients[client].send(json.dumps({"worker": number, **message}).encode())


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def children(pid: int) -> set[int]:
    """Process ids of the children of a process, inherited and dead ones included.

    The set is incomplete if the process ends meanwhile.
    """
    pids: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            pids |= set(map(int, (thread / "children").read_text().split()))
    return pids


def _kill_children(spared: Collection[int] = ()) -> None:
    """Kills and reaps all children that are not spared, and the descendants that they leave."""
    deadline = time.monotonic() + KILL_SECONDS
    while (left := children(os.getpid()).difference(spared)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def remove_tree(folder: Path) -> None:
    """Removes a folder with all that programs have left in it."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # folders too deep for Python, or without permissions
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(folder)], stderr=subprocess.DEVNULL)


class _Lent:
    """Finds modules of the campaign's environment in another one."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        file = self._files.get(name)
        return importlib.util.spec_from_file_location(name, file) if file else None


def _make(scratch: str) -> None:
    """Makes the scratch folder, locked as long as this process or a worker lives.

    `forkserver.sweep` removes folders without a lock.
    """
    new = f"{scratch}.new"
    os.mkdir(new, 0o700)
    fcntl.flock(os.open(new, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH)
    os.rename(new, scratch)


def _watch(campaign: int, scratch: str) -> None:
    """Checks every second, during imports, that the campaign lives; ends this process if not."""

    def check(signum: int, frame: object) -> None:
        if os.getppid() != campaign:
            _kill_children()
            remove_tree(Path(scratch))
            os._exit(1)

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 1.0)  # the first check at once: it may be dead


def _warm_up(factory: str, arguments: dict[str, Any]) -> None:
    from nnfuzz.sandbox.worker import build_service

    build_service(factory, arguments)


def _attempt(name: str, action: Callable[[], object]) -> None:
    """Calls `action`. An error is only logged: the worker that needs the result reports it."""
    try:
        action()
    except (Exception, SystemExit) as error:
        print(f"{name} failed: {error!r}", file=sys.stderr, flush=True)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    setup = json.load(sys.stdin)
    if setup["path"] is not None:
        sys.path[:] = setup["path"]
    sys.meta_path.insert(0, _Lent(setup["lent"]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    _make(setup["scratch"])
    os.environ["TMPDIR"] = setup["scratch"]  # libraries leave files there as they are imported
    _watch(setup["campaign"], setup["scratch"])
    gc.disable()  # a fifth of the time of imports, in which little becomes garbage
    for name in ("nnfuzz.sandbox.worker", *setup["preload"]):
        _attempt(f"preload of {name}", partial(importlib.import_module, name))
    if setup["warm"]:
        _attempt(f"warming up {setup['warm'][0]}", lambda: _warm_up(*setup["warm"]))
    if setup["safe_path"] is None:  # workers have folders of their own, and programs as they like
        del os.environ["PYTHONSAFEPATH"]
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    gc.enable()
    gc.collect()
    gc.freeze()  # keeps the collector from touching, and so copying, the preloaded pages
    Zygote(control, Path(setup["scratch"])).serve()


if __name__ == "__main__":
    main()
