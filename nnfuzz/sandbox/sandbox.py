"""Runs a service in a worker process that may crash, hang, eat memory or print without end.

One thread drives any number of sandboxes: `Sandbox.submit` never blocks, `wait` returns what has
happened in any of them. A death costs the job that caused it; the next `submit` gets a new worker.
"""

from __future__ import annotations

import math
import re
import select
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

from nnfuzz.base.code_paths import CodePaths
from nnfuzz.base.reading import JsonObject, read, read_fields
from nnfuzz.base.text import visible
from nnfuzz.sandbox import channel, wire
from nnfuzz.sandbox.events import (
    Death,
    DeathKind,
    Event,
    Limits,
    Progress,
    Reply,
    Trouble,
    WorkerFault,
    reads_as_out_of_memory,
)
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.process import OwnTime, WorkerProcess

TICK_SECONDS = 0.05
SWELLING = 200
"""A job that grows by such a part of its memory in a tick has used all of it in 10 seconds. It gets
twice the time, so that its memory decides the name of its end, not the smaller one of the limits.
"""
KILL_SECONDS = 10.0
MOST_RETRIES, MOST_KILLS, MOST_STARTS = 3, 8, 50
"""The number of retries of a job whose worker ended because of an earlier job, was killed from
outside, or was killed from outside before it began the job; after these the job is blamed. A killer
at random, such as the kernel that lacks memory, does not meet one job that often.
"""
_MODULES = re.compile(r"\n*^Extension modules: [^\n]*\(total: \d+\)$", re.MULTILINE)
"""What faulthandler prints behind the stack of a crash; it says nothing about the crash."""
ROUND_BYTES = 64 << 20
"""The most that is read of one worker's answers before the campaign looks at them: the rest waits
in the socket, and the worker with it.
"""


A = TypeVar("A")


@dataclass
class _InHand:
    job: Job[Any]
    take: Callable[[Any], Any]  # turns a part into the value of its event
    frame: bytes
    seconds: float  # for each part of the job
    clock: OwnTime = field(default_factory=OwnTime)  # of the current part of the job
    limit: float = 0.0  # its seconds
    baseline: int = 0
    grown: int = 0  # bytes beyond that
    swells: bool = False  # whether it grows so fast that its memory decides its kind
    parts: int = 0
    retries: int = 0  # after workers whose end was not its doing
    next_check: float = 0.0


class Sandbox:
    """One worker process at a time, hosting `service` ("pkg.module:factory"), one job at a time.

    `arguments` (JSON) go to the factory. `server`: a fork server to share, which stays open.
    `code_paths`: of the latest worker.
    """

    def __init__(
        self,
        service: str,
        arguments: JsonObject | None = None,
        limits: Limits | None = None,
        server: ForkClient | None = None,
        own_server: Callable[[], ForkServer] | None = None,
        lends: Sequence[ForkClient] = (),
    ):
        """own_server: makes the fork server where none is shared. lends: fork servers that the
        workers may use as well.
        """
        self.limits = limits or Limits()
        self._service = service
        self.rearm(arguments or {})
        self._owns_server = server is None
        self.server = server if server is not None else (own_server or ForkServer)()
        self._lends = lends
        self._process: WorkerProcess | None = None
        self._job: _InHand | None = None
        self.code_paths = CodePaths()

    def rearm(self, arguments: JsonObject) -> None:
        """Sets the factory's arguments in workers that start from now on."""
        memory = 2 * self.limits.memory_bytes
        setup = {"service": self._service, "arguments": arguments, "memory_bytes": memory}
        self._setup = wire.encode(setup)

    @property
    def busy(self) -> bool:
        """Whether a job is in hand, so that `wait` will return its end."""
        return self._job is not None

    @property
    def pid(self) -> int | None:
        """The worker's process id, when one is known to be alive."""
        return self._process.pid if self._process and self._process.ended is None else None

    @property
    def stage(self) -> str:
        """The stage of the job in hand that the service reported last."""
        process = self._process
        begun = process is not None and process.status.job == process.jobs
        return process.status.stage if process is not None and begun else ""

    def take_cpu(self) -> float:
        """CPU seconds of the present worker since the last call; 0 if unknown."""
        return self._process.take_cpu() if self._process else 0.0

    def start(self) -> None:
        """Forks a worker ahead of the first job, without blocking."""
        self.server.pump()
        process = self._process
        if process and (
            process.ended is not None
            or process.spent
            or process.jobs >= self.limits.jobs_per_process
            or process.burns()
        ):
            self._discard()
        if self._process is None:
            self._process = WorkerProcess(self.server, self._setup, self._lends)

    def submit(
        self,
        job: Job[Any],
        seconds: float = math.inf,
        take: Callable[[Any], Any] = lambda part: part,
    ) -> None:
        """Hands a job to the worker, which is replaced first if it died or has done its share.

        seconds: for each part, where that is less than the limits say. take: makes of a part what
        its Progress holds. An answer that the job does not accept, or a part for which `take`
        raises, is damaged, which ends the worker and the job. Returns at once. Raises: RuntimeError
        while a job is in hand.
        """
        if self._job is not None:
            raise RuntimeError(f"the sandbox of {self._service} is busy: wait for its event first")
        self.start()
        seconds = min(seconds, self.limits.seconds)
        self._send(_InHand(job, take, wire.encode(*job.to_frame()), seconds))

    def call(self, job: Job[A]) -> Reply[A] | Trouble:
        """Submits a job without parts and waits for its end."""
        self.submit(job)
        while True:
            for _, event in wait([self]):
                if not isinstance(event, Progress):
                    return event

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

    def _send(self, job: _InHand) -> None:
        process = self._process
        assert process is not None
        self._job = job
        process.jobs += 1
        process.outgoing.extend(channel.pieces_of(channel.JOB, job.frame, process.jobs))
        self._start_clock(starting=not process.ready)
        process.push()

    def _start_clock(self, starting: bool) -> None:
        if self._job is None or self._process is None:
            return
        job = self._job
        job.limit = self.limits.start_seconds if starting else job.seconds
        job.clock = OwnTime()
        if not starting and self.limits.memory_bytes and not job.baseline:
            job.baseline = self._process.private_bytes(resting=True)
            job.next_check = time.monotonic() + TICK_SECONDS

    def _discard(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.ended is None:
                process.kill(None)
            process.close()

    def _collect(self) -> list[Event]:
        """Moves bytes without blocking and returns the events that are complete."""
        self.server.pump()
        process = self._process
        if process is None:
            return []
        ended = process.ended is not None  # before reading: all that it sent is there by now
        process.push()
        process.capture.drain()
        events: list[Event] = []
        try:
            taken = 0
            for kind, job, payload in process.reader.messages() if process.open else ():
                events += self._message(process, kind, job, payload)
                taken += len(payload)
                if taken > ROUND_BYTES and not ended:
                    break
        except channel.Closed:
            process.open = False
        except Exception as error:  # a worker that wrote where it should not may cause any error
            process.open = False
            process.note = f"the worker's answer is damaged: {visible(str(error))[:200]}"
            process.kill(DeathKind.CRASH)
        if ended:
            events += self._buried(process)
        elif self._job is not None:
            self._enforce(process, self._job)
        elif process.ready and events and self._has_leaked(process):
            self._discard()
            self.start()
        return events

    def _has_leaked(self, process: WorkerProcess) -> bool:
        limit = self.limits.leak_bytes
        return limit > 0 and process.private_bytes(resting=True) - process.baseline > limit

    def _message(
        self, process: WorkerProcess, kind: bytes, number: int, payload: memoryview
    ) -> list[Event]:
        """The one place where answers are read. Raises: any error, for a damaged answer."""
        if kind == channel.READY and not process.ready and not number:
            # The worker's own figure: by now it may be deep in its first job.
            header = wire.decode(payload)[0]
            reported = read(int, header["private_bytes"])
            self.code_paths = read(CodePaths, header["code_paths"])
            process.ready, process.baseline = True, min(reported, process.private_bytes())
            if self._job is not None:
                self._job.baseline = process.baseline
            self._start_clock(starting=False)
            return []
        process.capture.drain()
        captured = process.capture.take()
        job, starting = self._job, not process.ready
        if job is None or number != (0 if starting else process.jobs):
            raise wire.WireError("an answer that nobody waits for")
        header, blobs = wire.decode(payload)
        if kind == channel.PARTIAL and not starting:
            part = job.job.read_part(job.parts, header, blobs)
            event: Event = Progress(job.take(part), captured)
            job.parts += 1
            self._start_clock(starting=False)
            return [event]
        if kind == channel.REPLY and not starting:
            if job.parts < job.job.parts:
                raise wire.WireError(f"an answer after {job.parts} of {job.job.parts} parts")
            event = Reply(job.job.read_answer(header, blobs), captured)
        elif kind == channel.FAULT:
            texts = read_fields(WorkerFault, header, "error_type", "message", "traceback")
            event = WorkerFault(**texts, captured=captured, starting=starting)
            process.spent = True  # a failed job may have left anything behind
        else:
            raise wire.WireError(f"a message of kind {kind!r} out of turn")
        self._job = None
        process.rest()
        return [event]

    def _buried(self, process: WorkerProcess) -> list[Event]:
        job = self._job
        if job is None:
            self._discard()
            return []
        # Damage to the page itself counts as begun.
        begun = process.ready and process.status.job != process.jobs - 1
        if job.retries < _most_retries(process, begun) and not job.parts:
            self._discard()
            self.start()
            self._send(replace(job, retries=job.retries + 1))
            return []
        self._job = None
        death = self._death(process, job, begun)
        self._discard()
        return [death]

    def _death(self, process: WorkerProcess, job: _InHand, begun: bool) -> Death:
        captured = _MODULES.sub("", process.capture.take_all())
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
            stage=process.status.stage if begun else "start",
            signal=_signal_name(-code) if code < 0 else "",
            exit_code=code if code >= 0 else None,
            captured=captured,
            seconds=time.monotonic() - job.clock.began,
            note=process.note,
        )

    def _enforce(self, process: WorkerProcess, job: _InHand) -> None:
        if process.killed:
            if process.killed.exceeds(KILL_SECONDS, self.server.pid):
                self.server.restart()
            return
        now = time.monotonic()
        if self.limits.memory_bytes and process.ready and now > job.next_check:
            job.next_check = now + TICK_SECONDS
            before, job.grown = job.grown, process.private_bytes() - job.baseline
            job.swells = job.grown - before > self.limits.memory_bytes // SWELLING
            if job.grown > self.limits.memory_bytes:
                process.kill(DeathKind.MEMORY)
                return
        limit = job.limit * (2 if job.swells else 1)
        limit = self.limits.stages.get(self.stage, limit) if self.limits.stages else limit
        if job.clock.exceeds(limit, process.pid or self.server.pid):
            process.kill(DeathKind.TIMEOUT)
            if process.pid is None:  # the fork server is still importing, or no longer answers
                self.server.restart()


def wait(
    sandboxes: Iterable[Sandbox], timeout: float | None = None, tick: float = TICK_SECONDS
) -> list[tuple[Sandbox, Event]]:
    """Blocks until something happens in one of the sandboxes; enforces limits every `tick` seconds
    while it waits.

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
        pause = tick
        if end is not None:
            pause = min(pause, end - time.monotonic())
            if pause <= 0:
                return []
        _poll(busy, pause)


def _poll(sandboxes: Iterable[Sandbox], seconds: float) -> None:
    """Waits for bytes from the sandboxes, at most so long."""
    poll = select.poll()
    for sandbox in sandboxes:
        if sandbox.server.alive:
            poll.register(sandbox.server.fileno(), select.POLLIN)
        if sandbox._process is not None:
            for fd, events in sandbox._process.interests():
                poll.register(fd, events)
    poll.poll(max(1, int(seconds * 1000)))


def _most_retries(process: WorkerProcess, begun: bool) -> int:
    """The number of retries of a job whose worker ended in this way. begun: whether it had begun
    the job.
    """
    if process.cause is DeathKind.CRASH:
        return 1  # an earlier job may have damaged it
    if process.cause is None and process.ended == -signal.SIGKILL:
        return MOST_KILLS if begun else MOST_STARTS
    return MOST_RETRIES if process.ready and not begun else 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


Order = TypeVar("Order")
AnyWorker = TypeVar("AnyWorker", bound="Worker[Any]")
Ended = Reply[Any] | Trouble
"""The event that ends a job."""


class Worker(ABC, Generic[Order]):
    """Carries out one order at a time in a sandbox. order: the one in hand."""

    order: Order | None = None

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    @abstractmethod
    def begin(self, order: Order) -> None:
        """Starts work on an order, without blocking."""

    def progress(self, part: Any) -> None:
        """Takes a part of the answer that is sent ahead."""


class Pool(ABC, Generic[AnyWorker, Order]):
    """Workers, and the orders that they have in hand. A context manager.

    tick: seconds between two looks at the limits of workers.
    """

    tick = TICK_SECONDS

    def __init__(self, workers: Iterable[AnyWorker] = ()) -> None:
        self.workers = [*workers]

    def prepare(self, worker: AnyWorker) -> None:
        """Called for an idle worker before it gets an order; may give it one of the pool's own."""

    @abstractmethod
    def ended(self, worker: AnyWorker, order: Order, result: Ended) -> None:
        """Called when an order has ended, and its worker is idle again."""

    def dispatch(self, more: Callable[[AnyWorker], Order | None]) -> None:
        """Hands orders to idle workers. more: the next one for a worker; None if there is none."""
        for worker in self.workers:
            if worker.order is None:
                self.prepare(worker)
            if worker.order is None and (order := more(worker)) is not None:
                self.begin(worker, order)

    def begin(self, worker: AnyWorker, order: Order) -> None:
        worker.order = order
        worker.begin(order)

    def wait(self, timeout: float | None = None) -> None:
        """Blocks until something happens in a worker, at most for `timeout` seconds."""
        owners = {worker.sandbox: worker for worker in self.workers}
        for sandbox, event in wait(owners, timeout, self.tick):
            self.feed(owners[sandbox], event)

    def feed(self, worker: AnyWorker, event: Event) -> None:
        """Takes an event of a worker."""
        order = worker.order
        if order is None:
            return
        if isinstance(event, Progress):
            worker.progress(event.value)
        else:
            worker.order = None
            self.ended(worker, order, event)

    def close(self) -> None:
        for worker in self.workers:
            worker.sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
