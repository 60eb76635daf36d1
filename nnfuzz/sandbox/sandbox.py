"""Runs a service in a worker process that may crash, hang, eat memory or print without end.

One thread drives any number of sandboxes: `Sandbox.submit` never blocks, `wait` returns what has
happened in any of them. A death costs the job that caused it; the next `submit` gets a new worker.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

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
    Standstill,
    Trouble,
    WorkerFault,
    reads_as_out_of_memory,
)
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.own_time import OwnTime, is_stopped
from nnfuzz.sandbox.process import WorkerProcess
from nnfuzz.sandbox.worker import WHERE

TICK_SECONDS = 0.05
STILL_SECONDS, COMPUTING = 5.0, 0.05
"""The time between looks at whether a service computes, and the share of that time that counts as
computing. Waiting for other processes takes some thousandths."""
SWELLING = 200
"""A job that grows by such a part of its memory in a tick has used all of it in 10 seconds. It gets
twice the time, so that its memory decides the name of its end, not the smaller one of the limits.
"""
KILL_SECONDS = 10.0
MOST_RETRIES = 3
"""Retries of a job whose worker ends for a reason that is not the job's, as far as is known."""
MOST_KILLS, MOST_STARTS = 8, 50
"""The number of SIGKILLs from outside after which the job of the worker, or its start, is blamed
for them. A killer at random, such as the kernel that lacks memory, does not meet one job that
often.
"""
ROUND_BYTES = 64 << 20
"""The most that is read of one worker's answers before the campaign looks at them: the rest waits
in the socket, and the worker with it.
"""


_STACK = "(most recent call first):"
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+) in (\S+)')
"""A frame as faulthandler prints it."""


A = TypeVar("A")


@dataclass
class _InHand:
    job: Job[Any]
    take: Callable[[Any], Any]  # turns a part into the value of its event
    frame: bytes
    seconds: float  # for each part of the job
    clock: OwnTime = field(default_factory=OwnTime)  # of the current part of the job
    limit: float = 0.0  # its seconds
    worked: float | None = None  # by the worker when it was looked at last
    computed: float = 0.0  # on the clock, at the last look at which it had computed
    looked: float = 0.0  # on the clock
    baseline: int = 0
    grown: int = 0  # bytes beyond that
    swells: bool = False  # whether it grows so fast that its memory decides its kind
    parts: int = 0
    retries: int = 0
    kills: int = 0  # from outside, of workers that had begun it
    starts: int = 0  # that somebody outside has killed
    next_check: float = 0.0


class Sandbox:
    """One worker process at a time, hosting `service` ("pkg.module:factory"), one job at a time.

    `arguments` (JSON) go to the factory. `preload` names modules for the fork server that the
    sandbox starts for itself; pass `server` to share one, which then stays open. `code_paths`: of
    the latest worker.
    """

    def __init__(
        self,
        service: str,
        arguments: JsonObject | None = None,
        limits: Limits | None = None,
        preload: Iterable[str] = (),
        name: str = "",
        server: ForkClient | None = None,
        own_server: Callable[[], ForkServer] | None = None,
        lends: Sequence[ForkClient] = (),
    ):
        """own_server: makes the fork server where none is shared, instead of `preload`. lends: fork
        servers that the workers may use as well.
        """
        self.name = name or service
        self.limits = limits or Limits()
        self._service = service
        self.rearm(arguments or {})
        self._owns_server = server is None
        make = own_server or (lambda: ForkServer(preload))
        self.server = server if server is not None else make()
        self._lends = lends
        self._process: WorkerProcess | None = None
        self._job: _InHand | None = None
        self._looked = 0.0
        self.code_paths = CodePaths()
        self._standstills: list[Standstill] = []

    def rearm(self, arguments: JsonObject) -> None:
        """Sets the factory's arguments in workers that start from now on."""
        memory = 2 * self.limits.memory_bytes
        setup = {"service": self._service, "arguments": arguments, "memory_bytes": memory}
        self._setup = wire.encode({**setup, "explains": bool(self.limits.still_seconds)})

    @property
    def busy(self) -> bool:
        """Whether a job is in hand, so that `wait` will return its end."""
        return self._job is not None

    @property
    def pid(self) -> int | None:
        """The worker's process id, when one is known to be alive."""
        return self._process.pid if self._process and self._process.ended is None else None

    @property
    def waited(self) -> float:
        """Seconds since the current part of the job began, in which somebody looked after it; 0
        without one, or while it starts.
        """
        if self._job is None or self._process is None or not self._process.ready:
            return 0.0
        return self._job.clock.seconds

    @property
    def stage(self) -> str:
        """The stage of the job in hand that the service reported last."""
        process = self._process
        begun = process is not None and process.status.job == process.jobs
        return process.status.stage if process is not None and begun else ""

    def take_cpu(self) -> float:
        """CPU seconds of the present worker since the last call; 0 if unknown."""
        return self._process.take_cpu() if self._process else 0.0

    def take_standstills(self) -> list[Standstill]:
        """The standstills of the workers and of the fork server since the last call."""
        standstills = [*self._standstills, *self.server.standstills]
        self._standstills.clear()
        self.server.standstills.clear()
        return standstills

    @property
    def due(self) -> bool:
        """Whether to look after it though nothing may have come from it: for its limits."""
        return time.monotonic() - self._looked >= TICK_SECONDS

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
            raise RuntimeError(f"sandbox {self.name} is busy: wait for its event first")
        self.start()
        seconds = min(seconds, self.limits.seconds)
        self._send(_InHand(job, take, wire.encode(*job.to_frame()), seconds))

    def expire(self, why: str) -> None:
        """Ends the job in hand as if its time were over. why: for people."""
        if self._job is not None and self._process is not None and not self._process.killed:
            self._process.note = why
            self._process.kill(DeathKind.TIMEOUT)

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
        process.asked = False
        process.outgoing.extend(channel.pieces_of(channel.JOB, job.frame, process.jobs))
        self._start_clock(starting=not process.ready)
        process.push()

    def _start_clock(self, starting: bool) -> None:
        if self._job is None or self._process is None:
            return
        job = self._job
        job.limit = self.limits.start_seconds if starting else job.seconds
        job.clock, job.computed, job.looked = OwnTime(), 0.0, 0.0
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
        self._looked = time.monotonic()
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
        if (again := _again(process, job, begun)) and not job.parts:
            self._discard()
            self.start()
            self._send(replace(again, worked=None))
            return []
        self._job = None
        death = self._death(process, job, begun)
        self._discard()
        return [death]

    def _death(self, process: WorkerProcess, job: _InHand, begun: bool) -> Death:
        captured = process.capture.take_all()
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
                self.server.restart("a worker to be killed")
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
        waits = self.limits.stages.get(self.stage) if self.limits.stages else None
        limit = limit if waits is None else waits
        late = job.clock.exceeds(limit, process.pid or self.server.pid)
        if late or (waits is None and self._stands_still(process, job)):
            self._expire(process, job)

    def _stands_still(self, process: WorkerProcess, job: _InHand) -> bool:
        """Whether a service of nnfuzz itself has not computed for longer than it may."""
        limit, now = self.limits.still_seconds, job.clock.seconds
        if not limit or not process.ready:
            return False
        if now - job.looked > min(STILL_SECONDS, limit / 4):
            worked = process.worked()  # less than before where a descendant has ended
            before = worked if job.worked is None else job.worked
            if abs(worked - before) > COMPUTING * (now - job.looked):
                job.computed = now
            job.worked, job.looked = worked, now
        return now - job.computed > limit

    def _expire(self, process: WorkerProcess, job: _InHand) -> None:
        """Replaces a worker whose time is over; records a standstill of a service of nnfuzz."""
        limits, stopped = self.limits, is_stopped(process.pid or self.server.pid)
        rested = job.clock.seconds - job.computed
        still = stopped or (process.ready and 0 < min(limits.still_seconds, job.limit) / 2 < rested)
        explains = limits.still_seconds and process.ready and not stopped
        if explains and process.pid and not process.asked:
            process.asked = True  # it is killed at the next look
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, WHERE)
            return
        if (limits.still_seconds or stopped) and not self.server.importing:
            standstill = Standstill(self.name, self._where(process, job), job.clock.seconds)
            self._standstills.append(standstill)
        process.kill(DeathKind.STANDSTILL if still else DeathKind.TIMEOUT)
        if self.server.importing:
            self.server.restart("imports")

    def _where(self, process: WorkerProcess, job: _InHand) -> str:
        """The job, the stage and the line of code that the worker is at, for people."""
        stage = self.stage if process.ready else "start"
        parts = [job.job.about, stage and f"stage {stage}"]
        process.capture.drain()
        if frame := _FRAME.search(process.capture.latest().rpartition(_STACK)[2]):
            parts.append(f"{Path(frame[1]).name}:{frame[2]} in {frame[3]}")
        return ", ".join(filter(None, map(visible, parts)))


def wait(sandboxes: Iterable[Sandbox], timeout: float | None = None) -> list[tuple[Sandbox, Event]]:
    """Blocks until something happens in one of the sandboxes; enforces limits while it waits.

    Returns the events in order, or [] after `timeout` seconds or when no sandbox is busy. Each
    job ends with exactly one Reply, Fault or Death, after any number of Progress events.
    """
    sandboxes = list(sandboxes)
    end = None if timeout is None else time.monotonic() + timeout
    due = [sandbox for sandbox in sandboxes if sandbox.due]
    while True:
        events = [(sandbox, event) for sandbox in due for event in sandbox._collect()]
        busy = [sandbox for sandbox in sandboxes if sandbox.busy]
        if events or not busy:
            return events
        pause = TICK_SECONDS
        if end is not None:
            pause = min(pause, end - time.monotonic())
            if pause <= 0:
                return []
        ready = _poll(busy, pause)
        due = [sandbox for sandbox in sandboxes if sandbox in ready or sandbox.due]


def _poll(sandboxes: list[Sandbox], seconds: float) -> set[Sandbox]:
    """Waits for bytes, at most so long; returns the sandboxes that they concern."""
    poll = select.poll()
    concerned: dict[int, list[Sandbox]] = {}
    for sandbox in sandboxes:
        if sandbox.server.alive:
            concerned.setdefault(sandbox.server.fileno(), []).append(sandbox)
    for fd in concerned:
        poll.register(fd, select.POLLIN)
    for sandbox in sandboxes:
        if sandbox._process is not None:
            for fd, events in sandbox._process.interests():
                poll.register(fd, events)
                concerned[fd] = [sandbox]
    ready = poll.poll(max(1, int(seconds * 1000)))
    return {sandbox for fd, _ in ready for sandbox in concerned[fd]}


def _again(process: WorkerProcess, job: _InHand, begun: bool) -> _InHand | None:
    """The job as another worker gets it, if the end of this one was not its doing; else None."""
    if process.ended == -signal.SIGKILL and not process.cause:
        if begun:
            return replace(job, kills=job.kills + 1) if job.kills < MOST_KILLS else None
        return replace(job, starts=job.starts + 1) if job.starts < MOST_STARTS else None
    damaged = (
        process.cause is DeathKind.CRASH and not job.retries
    )  # an earlier job may have left that, too
    still = process.cause is DeathKind.STANDSTILL and not job.retries
    earlier = process.ready and not begun  # an earlier job caused its end
    innocent = (damaged or still or earlier) and job.retries < MOST_RETRIES
    return replace(job, retries=job.retries + 1) if innocent else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
