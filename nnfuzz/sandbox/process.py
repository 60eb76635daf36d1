"""The campaign's end of one worker process: its channel, its output, its status page."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import time
from collections.abc import Iterable, Iterator

from nnfuzz.sandbox import channel
from nnfuzz.sandbox.channel import Capture
from nnfuzz.sandbox.events import DeathKind
from nnfuzz.sandbox.forkserver import ForkClient
from nnfuzz.sandbox.worker import StatusPage, private_bytes
from nnfuzz.sandbox.zygote import children

NOISY_BYTES = 2 << 30
"""Output of a job beyond which it is read only once a tick, so that the job blocks instead of the
campaign. Reading so much takes the campaign about a second.
"""
PIPE_BYTES = 1 << 20  # the most that the kernel admits without privileges; the default is 64 KB
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, see fcntl(2)
IDLE_SECONDS = 0.05  # time between jobs that is needed to see whether a worker still computes
LISTED_SECONDS = 1.0  # age up to which a list of descendants is used again
TIDY_SECONDS = 0.005  # CPU time that a worker may take behind a job to free memory
_CPUCLOCK_SCHED = 2  # the CPU clock of a process, see clock_getcpuclockid(3)


class WorkerProcess:
    """One worker process as the campaign sees it. No method blocks.

    pid: None until it has started. ended: its exit code, or minus the signal number; None while it
    lives. spent: whether it gets no further job. cause: why the campaign killed it. killed: CPU and
    wall time since then. note: the damage that it has done, for people.
    """

    def __init__(self, server: ForkClient, setup: bytes, lends: Iterable[ForkClient] = ()):
        """lends: the fork servers that the worker may use as well."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, channel.BUFFER_BYTES)
        output, output_theirs = os.pipe()
        with contextlib.suppress(OSError):  # a user's pipes may have 64 MB in all
            fcntl.fcntl(output, _SET_PIPE_SIZE, PIPE_BYTES)
        page = os.memfd_create("nnfuzz-status", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.status = StatusPage(page)
        fcntl.fcntl(page, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)  # or reading it would kill us
        self.pid: int | None = None
        self.ended: int | None = None
        self.ready = False
        self.jobs = 0
        self.spent = False
        self.cause: DeathKind | None = None
        self.killed: OwnTime | None = None
        self.note = ""
        self._rested_at = self._rested_cpu = self._idle = self._burnt = self._taken = 0.0
        self._family: list[int] = []
        self._listed = -LISTED_SECONDS
        self._server = server
        given = [theirs.detach(), output_theirs, page, *(own.lend() for own in lends)]
        self.worker = server.fork(given, self._start, self._end)
        for fd in given:
            os.close(fd)
        ours.setblocking(False)
        os.set_blocking(output, False)
        self.sock = ours
        self.open = True
        self.capture = Capture(output)
        self.reader = channel.MessageReader(ours)
        self.baseline = 0  # private bytes when it was ready for its first job
        self.outgoing = channel.pieces_of(channel.SETUP, setup)
        self.push()

    def _start(self, pid: int) -> None:
        self.pid = pid

    def _end(self, code: int) -> None:
        self.ended = code

    def push(self) -> None:
        """Sends as much as the socket takes."""
        try:
            while self.open and self.outgoing:
                count = self.sock.sendmsg(self.outgoing)
                self.outgoing = channel.unsent(self.outgoing, count)
        except BlockingIOError:
            pass
        except ConnectionError:
            self.outgoing.clear()  # its end will be reported by the fork server

    def interests(self) -> Iterator[tuple[int, int]]:
        """The files to poll: for messages, and for output once there is some.

        The first lines of a job wait for its next message or tick: a wake-up for each of them,
        and for the mark before every answer, would cost the campaign more than the test.
        """
        if self.open:
            yield self.sock.fileno(), select.POLLIN | (select.POLLOUT if self.outgoing else 0)
        if self.capture.open and 0 < self.capture.total < NOISY_BYTES:
            yield self.capture.fd, select.POLLIN

    def private_bytes(self, resting: bool = False) -> int:
        """Resident bytes of the worker and its descendants that no file backs; 0 if unknown.

        resting: whether no job runs; the list of descendants may then be LISTED_SECONDS old.
        """
        if not self.pid:
            return 0
        now = time.monotonic()
        if not resting or now - self._listed > LISTED_SECONDS:
            self._family, self._listed = list(_tree(self.pid)), now
        return sum(map(private_bytes, self._family))

    def rest(self) -> None:
        """Starts to measure idle time: a job is over, so the worker should not compute."""
        self._rested_at, self._rested_cpu = time.monotonic(), self._cpu_seconds()

    def burns(self) -> bool:
        """Whether threads that a finished job has left behind kept computing since `rest`."""
        if self._rested_cpu > 0:
            self._idle += time.monotonic() - self._rested_at
            self._burnt += max(0.0, self._cpu_seconds() - self._rested_cpu - TIDY_SECONDS)
            self._rested_cpu = 0.0
        if self._idle < IDLE_SECONDS:
            return False
        share = self._burnt / self._idle
        self._idle = self._burnt = 0.0
        return share > 0.1  # a thread gets no more than that where the machine is busy

    def _cpu_seconds(self) -> float:
        """CPU time of all threads of the worker; 0 if unknown."""
        return _cpu_seconds(self.pid) if self.pid else 0.0

    def take_cpu(self) -> float:
        """CPU seconds of the worker since the last call; 0 if unknown."""
        before, now = self._taken, self._cpu_seconds()
        self._taken = max(before, now)
        return self._taken - before

    def kill(self, cause: DeathKind | None) -> None:
        self.cause, self.killed, self.spent = cause, OwnTime(), True
        self._server.kill(self.worker)

    def close(self) -> None:
        self.sock.close()
        self.capture.close()
        self.status.close()


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process; 0 if unknown."""
    try:
        return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def _tree(pid: int) -> Iterator[int]:
    """A process and its descendants, as far as they have not ended meanwhile."""
    yield pid
    for child in children(pid):
        yield from _tree(child)


LOOK_SECONDS = 1.0
"""The most that counts between two looks. Only after this time are waits for cores subtracted,
since that takes reading a file of the kernel.
"""


class OwnTime:
    """The time that a process has had for a job, which its limits are compared with; the owner
    polls it regularly.

    A wall clock blames a process for the work of others. Time in which it waited for a core does
    not count; nor does time in which nobody polled, since the campaign itself was stopped or waited
    for its disk: the answer may lie there.
    """

    def __init__(self) -> None:
        self.began = self._looked = time.monotonic()
        self._seconds = 0.0
        self._pid = 0
        self._waited = 0.0

    @property
    def seconds(self) -> float:
        """Seconds by now, its waits for cores included."""
        return self._seconds + min(time.monotonic() - self._looked, LOOK_SECONDS)

    def exceeds(self, limit: float, pid: int | None) -> bool:
        """Whether the process has had more seconds than that; to be asked at every look."""
        self._seconds, self._looked = self.seconds, time.monotonic()
        if pid and pid != self._pid and self._seconds > LOOK_SECONDS:
            self._pid, self._waited = pid, core_wait(pid)
        if self._seconds <= limit:
            return False
        waited = core_wait(self._pid) - self._waited if self._pid else 0.0
        return self._seconds - waited > limit


def core_wait(pid: int) -> float:
    """Seconds for which the first thread of a process was ready to run and had no core; 0 if
    unknown.

    Source: /proc/PID/schedstat, see sched-stats in Linux's documentation.
    """
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
