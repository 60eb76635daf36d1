"""Runs a service in a worker process that may crash, hang, eat memory or print without end.

One thread drives any number of sandboxes: `Sandbox.submit` never blocks, `wait` returns what has
happened in any of them. A death costs the job that caused it; the next `submit` gets a new worker.
"""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nnfuzz.execute import channel, wire
from nnfuzz.execute.capture import Capture
from nnfuzz.execute.forkserver import ForkServer
from nnfuzz.execute.worker import StatusPage

TICK_SECONDS = 0.05
KILL_SECONDS = 10.0
NOISY_BYTES = 8 << 20  # a job that printed more is read once a tick: it blocks, not the campaign
_PAGE_BYTES = resource.getpagesize()
_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|cannot allocate memory|can't allocate memory|not enough memory"
    r"|memory exhausted",
    re.IGNORECASE,
)


def reads_as_out_of_memory(text: str) -> bool:
    """Whether a message or captured output says that an allocation failed."""
    return _OUT_OF_MEMORY.search(text) is not None


@dataclass(frozen=True)
class Limits:
    """Wall-clock seconds and growth in bytes for each job, jobs until a worker is replaced.

    `memory_bytes` is watched every 50 ms as private resident memory above the level before the
    job; allocations beyond twice as much fail at once. 0 switches the limit off. The clock of a
    job starts anew with every partial answer. `start_seconds` bounds imports and the factory.
    """

    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    jobs_per_process: int = 200
    start_seconds: float = 120.0


class DeathKind(StrEnum):
    CRASH = "crash"
    EXIT = "exit"
    TIMEOUT = "timeout"
    MEMORY = "memory"


@dataclass(frozen=True)
class Reply:
    """The job's answer. `captured` is what the worker printed since the last event."""

    header: dict[str, Any]
    blobs: dict[str, Any]
    captured: str


@dataclass(frozen=True)
class Progress:
    """A part of the answer, sent ahead; more will follow."""

    header: dict[str, Any]
    blobs: dict[str, Any]
    captured: str


@dataclass(frozen=True)
class Fault:
    """The service itself failed with an exception: an error of its author, not of its subject."""

    error_type: str
    message: str
    traceback: str
    captured: str
    starting: bool


@dataclass(frozen=True)
class Death:
    """The worker died, or was killed, with a job in hand.

    `stage` is what the service reported last, "start" if the job had not begun; `signal` is a
    name like "SIGSEGV" for a crash, `exit_code` is set for an exit; `seconds` since the last event.
    """

    kind: DeathKind
    stage: str
    signal: str
    exit_code: int | None
    captured: str
    seconds: float


Event = Reply | Progress | Fault | Death


class _Process:
    """The campaign's end of one worker process."""

    def __init__(self, server: ForkServer, setup: bytes):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, channel.BUFFER_BYTES)
        output, output_theirs = os.pipe()
        page = os.memfd_create("nnfuzz-status")
        self.status = StatusPage(page)
        self.pid: int | None = None
        self.ended: int | None = None
        self.ready = False
        self.jobs = 0
        self.cause: DeathKind | None = None
        self.killed_at = 0.0
        self._server = server
        self.worker = server.fork([theirs.fileno(), output_theirs, page], self._start, self._end)
        theirs.close()
        os.close(output_theirs)
        os.close(page)
        ours.setblocking(False)
        os.set_blocking(output, False)
        self.sock = ours
        self.open = True
        self.capture = Capture(output)
        self.reader = channel.MessageReader(ours)
        self._statm = -1
        self.outgoing: deque[memoryview] = deque(channel.pack(channel.SETUP, setup))
        self.push()

    def _start(self, pid: int) -> None:
        self.pid = pid

    def _end(self, code: int) -> None:
        self.ended = code

    def push(self) -> None:
        """Sends as much as the socket takes."""
        try:
            while self.open and self.outgoing:
                piece = self.outgoing[0]
                count = self.sock.send(piece)
                if count < len(piece):
                    self.outgoing[0] = piece[count:]
                else:
                    self.outgoing.popleft()
        except BlockingIOError:
            pass
        except ConnectionError:
            self.outgoing.clear()  # its end will be reported by the fork server

    def register(self, poll: select.poll) -> None:
        if self.open:
            poll.register(self.sock, select.POLLIN | (select.POLLOUT if self.outgoing else 0))
        if self.capture.open and self.capture.total < NOISY_BYTES:
            poll.register(self.capture.fd, select.POLLIN)

    def private_bytes(self) -> int:
        """Resident memory that is not backed by files; 0 if unknown."""
        try:
            if self._statm < 0 and self.pid:
                self._statm = os.open(f"/proc/{self.pid}/statm", os.O_RDONLY)
            _, resident, shared, *_ = os.pread(self._statm, 256, 0).split()
        except (OSError, ValueError):
            return 0
        return (int(resident) - int(shared)) * _PAGE_BYTES

    def kill(self, cause: DeathKind | None, now: float) -> None:
        self.cause, self.killed_at = cause, now
        self._server.kill(self.worker)

    def close(self) -> None:
        self.sock.close()
        self.capture.close()
        self.status.close()
        if self._statm >= 0:
            os.close(self._statm)


@dataclass
class _Job:
    frame: bytes
    clock: float  # when the current part of the job began
    deadline: float
    baseline: int = 0
    retried: bool = False
    next_check: float = field(default=0.0)


class Sandbox:
    """One worker process at a time, hosting `service` ("pkg.module:factory"), one job at a time.

    `arguments` (JSON) go to the factory. `preload` names modules for the fork server that the
    sandbox starts for itself; pass `server` to share one, which then stays open.
    """

    def __init__(
        self,
        service: str,
        arguments: dict[str, Any] | None = None,
        limits: Limits | None = None,
        preload: Iterable[str] = (),
        name: str = "",
        server: ForkServer | None = None,
    ):
        self.name = name or service
        self.limits = limits or Limits()
        self._setup = wire.encode(
            {
                "service": service,
                "arguments": arguments or {},
                "memory_bytes": 2 * self.limits.memory_bytes,
            }
        )
        self._owns_server = server is None
        self.server = server if server is not None else ForkServer(preload)
        self._process: _Process | None = None
        self._job: _Job | None = None
        self._last_words = ""

    @property
    def busy(self) -> bool:
        """Whether a job is in hand, so that `wait` will return its end."""
        return self._job is not None

    @property
    def pid(self) -> int | None:
        """The worker's process id, when one is known to be alive."""
        return self._process.pid if self._process and self._process.ended is None else None

    def start(self) -> None:
        """Forks a worker ahead of the first job, without blocking."""
        self.server.pump()
        process = self._process
        if process and (process.ended is not None or process.jobs >= self.limits.jobs_per_process):
            self._discard()
        if self._process is None:
            self._process = _Process(self.server, self._setup)

    def submit(self, header: dict[str, Any], blobs: wire.Blobs | None = None) -> None:
        """Hands a job to the worker, which is replaced first if it died or has done its share.

        Returns at once. Raises: RuntimeError while a job is in hand.
        """
        if self._job is not None:
            raise RuntimeError(f"sandbox {self.name} is busy: wait for its event first")
        self.start()
        self._send(_Job(wire.encode(header, blobs), 0.0, 0.0))

    def call(
        self,
        header: dict[str, Any],
        blobs: wire.Blobs | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> Reply | Fault | Death:
        """Submits a job and waits for its end."""
        self.submit(header, blobs)
        while True:
            for _, event in wait([self]):
                if not isinstance(event, Progress):
                    return event
                on_progress(event)

    def close(self) -> None:
        """Kills the worker, and the fork server if it is this sandbox's own; idempotent."""
        self._job = None
        self._discard()
        if self._owns_server:
            self.server.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, job: _Job) -> None:
        process = self._process
        assert process is not None
        self._job = job
        process.jobs += 1
        process.outgoing.extend(channel.pack(channel.JOB, job.frame))
        self._start_clock(starting=not process.ready)
        process.push()

    def _start_clock(self, starting: bool) -> None:
        if self._job is None or self._process is None:
            return
        now = time.monotonic()
        seconds = self.limits.start_seconds if starting else self.limits.seconds
        self._job.clock, self._job.deadline = now, now + seconds
        if not starting and self.limits.memory_bytes:
            self._job.baseline = self._process.private_bytes()
            self._job.next_check = now + TICK_SECONDS

    def _discard(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.ended is None:
                process.kill(None, 0.0)
            process.close()

    def _collect(self) -> list[Event]:
        """Moves bytes without blocking and returns what has become complete."""
        self.server.pump()
        process = self._process
        if process is None:
            return []
        ended = process.ended is not None  # before reading: all that it sent is there by now
        process.push()
        process.capture.drain()
        events: list[Event] = []
        try:
            for kind, payload in process.reader.messages():
                events += self._message(process, kind, payload)
        except channel.Closed:
            process.open = False
        if ended:
            events += self._buried(process)
        elif self._job is not None:
            self._enforce(process, self._job)
        return events

    def _message(self, process: _Process, kind: bytes, payload: memoryview) -> list[Event]:
        if kind == channel.READY:
            process.ready = True
            self._start_clock(starting=False)
            return []
        process.capture.drain()
        captured = process.capture.take()
        header, blobs = wire.decode(payload)
        if kind == channel.PARTIAL:
            self._start_clock(starting=False)
            return [Progress(header, blobs, captured)]
        self._job = None
        if kind == channel.REPLY:
            return [Reply(header, blobs, captured)]
        if not process.ready:
            process.jobs = self.limits.jobs_per_process  # never used again
        return [Fault(**header, captured=captured, starting=not process.ready)]

    def _buried(self, process: _Process) -> list[Event]:
        job = self._job
        if job is None:
            self._discard()
            return []
        begun = process.status.job == process.jobs
        if process.ready and not (begun or process.cause or job.retried):
            # It died of an earlier job's doing before it began this one.
            self._discard()
            self.start()
            self._send(_Job(job.frame, 0.0, 0.0, retried=True))
            return []
        self._job = None
        death = self._death(process, job)
        self._discard()
        return [death]

    def _death(self, process: _Process, job: _Job) -> Death:
        captured = process.capture.take()
        code = process.ended or 0
        kind = process.cause
        if kind is None:
            kind = DeathKind.CRASH if code < 0 else DeathKind.EXIT
            if process.status.out_of_memory or (code < 0 and reads_as_out_of_memory(captured)):
                kind = DeathKind.MEMORY
        if not self.server.alive:
            captured += "\nthe fork server died\n" + self.server.log()
        return Death(
            kind=kind,
            stage=process.status.stage if process.status.job == process.jobs else "start",
            signal=_signal_name(-code) if code < 0 else "",
            exit_code=code if code >= 0 else None,
            captured=captured,
            seconds=time.monotonic() - job.clock,
        )

    def _enforce(self, process: _Process, job: _Job) -> None:
        now = time.monotonic()
        if process.killed_at:
            if now > process.killed_at + KILL_SECONDS:
                self.server.restart()
        elif now > job.deadline:
            process.kill(DeathKind.TIMEOUT, now)
        elif self.limits.memory_bytes and process.ready and now > job.next_check:
            job.next_check = now + TICK_SECONDS
            if process.private_bytes() - job.baseline > self.limits.memory_bytes:
                process.kill(DeathKind.MEMORY, now)


def wait(sandboxes: Iterable[Sandbox], timeout: float | None = None) -> list[tuple[Sandbox, Event]]:
    """Blocks until something happens in one of the sandboxes; enforces limits while it waits.

    Returns the events in order, or [] after `timeout` seconds or when no sandbox is busy. Each
    job ends with exactly one Reply, Fault or Death, after any number of Progress events.
    """
    sandboxes = list(sandboxes)
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        events = [(sandbox, event) for sandbox in sandboxes for event in sandbox._collect()]
        busy = [sandbox for sandbox in sandboxes if sandbox.busy]
        if events or not busy:
            return events
        pause = TICK_SECONDS
        if end is not None:
            pause = min(pause, end - time.monotonic())
            if pause <= 0:
                return []
        _poll(busy, pause)


def _poll(sandboxes: list[Sandbox], seconds: float) -> None:
    poll = select.poll()
    for server in {id(s.server): s.server for s in sandboxes}.values():
        if server.alive:
            poll.register(server, select.POLLIN)
    for sandbox in sandboxes:
        if sandbox._process is not None:
            sandbox._process.register(poll)
    poll.poll(max(1, int(seconds * 1000)))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
