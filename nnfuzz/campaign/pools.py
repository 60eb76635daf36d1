"""Worker processes and their queues: producers of test cases, and lanes of one backend.

Neither pool blocks. The loop calls `dispatch` to hand work to idle workers, waits on `sandboxes()`
and passes each event to `feed`, which calls back whoever asked for the work.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nnfuzz.campaign.config import ProducerSettings
from nnfuzz.execute.events import Death, Event, Fault, Limits, Progress, Reply
from nnfuzz.execute.forkserver import ForkServer
from nnfuzz.execute.outcome import Outcome
from nnfuzz.execute.registry import BackendRegistry, BackendSpec
from nnfuzz.execute.runner import (
    AdapterFault,
    BackendRunner,
    RunnerError,
    fork_server_of,
    limits_of,
)
from nnfuzz.execute.sandbox import Sandbox
from nnfuzz.testcase.case import CaseConfig, TestCase

CONFIGURE = "configure"
PATIENCE = 20  # faults in a row after which a pool is beyond help


class PoolError(RuntimeError):
    """Workers fail one after the other: the campaign cannot go on."""


@dataclass(frozen=True)
class Job:
    """Work for a producer. done: called with its end, the epoch and the seconds that it took."""

    header: dict[str, Any]
    done: Callable[[Reply | Fault | Death, int, float], None]
    blobs: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _ProducerLane:
    epoch: int = -2  # of the configuration that the worker was told; -2: it has none
    sandbox: Sandbox | None = None
    job: Job | None = None
    began: float = 0.0


class ProducerPool:
    """Producer workers. Urgent jobs (verdicts) go first; `supply` makes one when there is none.

    An epoch is a configuration under which test cases are made; a worker of an older epoch is told
    the new one before its next job.
    """

    def __init__(
        self, settings: ProducerSettings, seed: int, count: int, config: CaseConfig
    ) -> None:
        """config: what later epochs only add refusals to."""
        self.settings = settings
        self.seed = seed
        self._config = config
        self.server = ForkServer(settings.preload, warm=(settings.service, self._arguments()))
        self.urgent: deque[Job] = deque()
        self.lanes = [_ProducerLane() for _ in range(count)]
        self.epoch = -1
        self._faults = 0

    def configure(self, epoch: int, config: CaseConfig) -> None:
        """From now on, jobs run under this configuration, which idle workers are told at once."""
        self.epoch, self._config = epoch, config
        for lane in self.lanes:
            if lane.job is None:
                self._renew(lane)

    def call(self, header: dict[str, Any]) -> Reply | Fault | Death:
        """Has the first worker do a job, and waits for it."""
        self._renew(self.lanes[0])
        return self.lanes[0].sandbox.call(header)

    def dispatch(self, supply: Callable[[], Job | None]) -> None:
        for lane in self.lanes:
            if lane.job is None:
                self._renew(lane)
            if lane.job is None:
                job = self.urgent.popleft() if self.urgent else supply()
                if job is None:
                    return
                self._submit(lane, job)

    def sandboxes(self) -> Iterator[Sandbox]:
        return (lane.sandbox for lane in self.lanes if lane.sandbox)

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was this pool's. Raises: PoolError."""
        lane = next((lane for lane in self.lanes if lane.sandbox is sandbox), None)
        if lane is None:
            return False
        if isinstance(event, Progress) or lane.job is None:
            return True
        job, lane.job = lane.job, None
        self._count(event, job)
        job.done(event, lane.epoch, time.perf_counter() - lane.began)
        return True

    @property
    def busy(self) -> bool:
        return bool(self.urgent) or any(lane.job for lane in self.lanes)

    def close(self) -> None:
        for sandbox in self.sandboxes():
            sandbox.close()
        self.server.close()

    def _submit(self, lane: _ProducerLane, job: Job) -> None:
        lane.job, lane.began = job, time.perf_counter()
        lane.sandbox.submit(job.header, job.blobs)

    def _renew(self, lane: _ProducerLane) -> None:
        """Starts a worker, or has it take over the configuration of the epoch."""
        if lane.epoch == self.epoch:
            return
        lane.epoch = self.epoch
        arguments = self._arguments()
        if lane.sandbox is None:
            s = self.settings
            limits = Limits(s.seconds, s.memory_bytes, s.jobs)
            lane.sandbox = Sandbox(s.service, arguments, limits, (), "producer", self.server)
            lane.sandbox.start()
        else:
            lane.sandbox.rearm(arguments)
            self._submit(lane, Job({"do": CONFIGURE, "config": arguments["config"]}, _ignore))

    def _arguments(self) -> dict[str, Any]:
        """What the factory of the service is called with."""
        return {"seed": self.seed, "config": self._config.to_json()}

    def _count(self, event: Reply | Fault | Death, job: Job) -> None:
        if isinstance(event, Reply):
            self._faults = 0
            return
        self._faults += 1
        settings = isinstance(event, Fault) and (event.starting or job.header["do"] == CONFIGURE)
        if settings or self._faults >= PATIENCE:
            raise PoolError(f"producers cannot work: {describe(event)}")


def _ignore(event: Reply | Fault | Death, epoch: int, seconds: float) -> None:
    """The end of a job that nobody waits for."""


@dataclass(frozen=True)
class Run:
    """Work for a backend's lane: a test case at some levels, in a fresh process if asked.

    done: called with the outcomes, or with the fault of nnfuzz or of the adapter.
    """

    case: TestCase
    levels: tuple[str, ...]
    done: Callable[[list[Outcome] | RunnerError], None]
    fresh: bool = False


@dataclass
class _Lane:
    runner: BackendRunner
    fresh: BackendRunner | None = None
    active: BackendRunner | None = None
    run: Run | None = None


class BackendPool:
    """The lanes of one backend, its queue, and the seconds that were spent in the compiler."""

    def __init__(
        self, spec: BackendSpec, registry: BackendRegistry, levels: Iterable[str], count: int
    ) -> None:
        """Raises: RunnerError if the backend is not installed; OptionError for unknown levels."""
        self.spec = spec
        self.registry = registry
        backend = registry.get(spec.name)
        self.levels = tuple(levels) or backend.default_levels()
        self.queue: deque[Run] = deque()
        self.urgent: deque[Run] = deque()
        self.seconds = 0.0
        self._faults = 0
        self.server = fork_server_of(backend)
        self.lanes = [_Lane(BackendRunner(spec, registry, self.server)) for _ in range(count)]
        for lane in self.lanes:
            lane.runner.sandbox.start()

    @property
    def name(self) -> str:
        return self.spec.label

    def versions(self) -> dict[str, str]:
        """Waits for the first worker. Raises: RunnerError if it cannot start."""
        return self.lanes[0].runner.versions()

    def dispatch(self) -> None:
        for lane in self.lanes:
            if lane.run is None and (self.urgent or self.queue):
                self._start(lane, (self.urgent or self.queue).popleft())

    def sandboxes(self) -> Iterator[Sandbox]:
        for lane in self.lanes:
            yield lane.runner.sandbox
            if lane.fresh and lane.active is lane.fresh:
                yield lane.fresh.sandbox

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was this pool's. Raises: PoolError."""
        lane = next((x for x in self.lanes if x.active and x.active.sandbox is sandbox), None)
        if lane is None or lane.active is None or lane.run is None:
            return False
        try:
            result: list[Outcome] | RunnerError | None = lane.active.feed(event)
        except RunnerError as error:
            result = error
        if result is not None:
            run, lane.run, lane.active = lane.run, None, None
            self._count(result)
            run.done(result)
        return True

    @property
    def busy(self) -> bool:
        return bool(self.queue or self.urgent) or any(lane.run for lane in self.lanes)

    def close(self) -> None:
        for lane in self.lanes:
            lane.runner.close()
            if lane.fresh:
                lane.fresh.close()
        self.server.close()

    def _start(self, lane: _Lane, run: Run) -> None:
        lane.run = run
        lane.active = self._fresh(lane) if run.fresh else lane.runner
        lane.active.submit(run.case.model, run.case.inputs, run.levels)

    def _fresh(self, lane: _Lane) -> BackendRunner:
        """A runner that gets a new process for every job."""
        if lane.fresh is None:
            limits = replace(limits_of(lane.runner.options), jobs_per_process=1)
            lane.fresh = BackendRunner(self.spec, self.registry, self.server, limits)
        return lane.fresh

    def _count(self, result: list[Outcome] | RunnerError) -> None:
        if isinstance(result, RunnerError):
            self._faults += 1
            if isinstance(result, AdapterFault) or self._faults >= PATIENCE:
                raise PoolError(str(result))
            return
        self._faults = 0
        self.seconds += sum(sum(outcome.seconds.values()) for outcome in result)


def describe(event: Fault | Death) -> str:
    """One line on what happened to a worker."""
    if isinstance(event, Fault):
        return f"{event.error_type}: {event.message}"
    how = event.signal or (f"exit code {event.exit_code}" if event.exit_code is not None else "")
    return f"worker ended by {event.kind} {how}".strip() + f" in stage {event.stage or 'start'}"
