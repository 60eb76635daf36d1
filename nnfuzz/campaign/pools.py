"""Worker processes and their queues: producers of test cases, and worker slots of one backend.

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
from nnfuzz.execute.deviation import Deviation
from nnfuzz.execute.events import Death, Event, Fault, Limits, Progress, Reply, described
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
from nnfuzz.experiment.pending import Pending
from nnfuzz.experiment.result import Run
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.triage.survey import learn_habits

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
class _ProducerSlot:
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
        self.slots = [_ProducerSlot() for _ in range(count)]
        self.epoch = -1
        self._faults = 0

    def configure(self, epoch: int, config: CaseConfig) -> None:
        """From now on, jobs run under this configuration, which idle workers are told at once."""
        self.epoch, self._config = epoch, config
        for slot in self.slots:
            if slot.job is None:
                self._renew(slot)

    def call(self, header: dict[str, Any]) -> Reply | Fault | Death:
        """Has the first worker do a job, and waits for it."""
        slot = self.slots[0]
        self._renew(slot)
        assert slot.sandbox is not None
        return slot.sandbox.call(header)

    def dispatch(self, supply: Callable[[], Job | None]) -> None:
        for slot in self.slots:
            if slot.job is None:
                self._renew(slot)
            if slot.job is None:
                job = self.urgent.popleft() if self.urgent else supply()
                if job is None:
                    return
                self._submit(slot, job)

    def sandboxes(self) -> Iterator[Sandbox]:
        return (slot.sandbox for slot in self.slots if slot.sandbox)

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was this pool's. Raises: PoolError."""
        slot = next((slot for slot in self.slots if slot.sandbox is sandbox), None)
        if slot is None:
            return False
        if isinstance(event, Progress) or slot.job is None:
            return True
        job, slot.job = slot.job, None
        self._count(event, job)
        job.done(event, slot.epoch, time.perf_counter() - slot.began)
        return True

    @property
    def busy(self) -> bool:
        return bool(self.urgent) or any(slot.job for slot in self.slots)

    def close(self) -> None:
        for sandbox in self.sandboxes():
            sandbox.close()
        self.server.close()

    def _submit(self, slot: _ProducerSlot, job: Job) -> None:
        slot.job, slot.began = job, time.perf_counter()
        assert slot.sandbox is not None, "renewed first"
        slot.sandbox.submit(job.header, job.blobs)

    def _renew(self, slot: _ProducerSlot) -> None:
        """Starts a worker, or has it take over the configuration of the epoch."""
        if slot.epoch == self.epoch:
            return
        slot.epoch = self.epoch
        arguments = self._arguments()
        if slot.sandbox is None:
            s = self.settings
            limits = Limits(s.seconds, s.memory_bytes, s.jobs)
            slot.sandbox = Sandbox(s.service, arguments, limits, (), "producer", self.server)
            slot.sandbox.start()
        else:
            slot.sandbox.rearm(arguments)
            self._submit(slot, Job({"do": CONFIGURE, "config": arguments["config"]}, _ignore))

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
            raise PoolError(f"producers cannot work: {described(event)}")


def _ignore(event: Reply | Fault | Death, epoch: int, seconds: float) -> None:
    """The end of a job that nobody waits for."""


Answer = Pending[list[Outcome] | RunnerError]
"""The outcomes of a run, or the fault of nnfuzz or of the adapter."""


@dataclass
class _Slot:
    runner: BackendRunner
    fresh: BackendRunner | None = None
    active: BackendRunner | None = None
    done: Answer | None = None


class BackendPool:
    """The worker slots of one backend, its queue, and the seconds spent in the compiler."""

    def __init__(
        self, spec: BackendSpec, registry: BackendRegistry, levels: Iterable[str], count: int
    ) -> None:
        """Raises: RunnerError if the backend is not installed; OptionError for unknown levels."""
        self.spec = spec
        self.registry = registry
        backend = registry.get(spec.name)
        self.all_levels = backend.levels
        self.levels = tuple(levels) or backend.default_levels()
        self.queue: deque[tuple[Run, Answer]] = deque()
        self.urgent: deque[tuple[Run, Answer]] = deque()
        self.seconds = 0.0
        self._faults = 0
        self.server = fork_server_of(backend)
        self.slots = [_Slot(BackendRunner(spec, registry, self.server)) for _ in range(count)]
        for slot in self.slots:
            slot.runner.sandbox.start()

    @property
    def name(self) -> str:
        return self.spec.label

    def versions(self) -> dict[str, str]:
        """Waits for the first worker. Raises: RunnerError if it cannot start."""
        versions = self.slots[0].runner.versions()
        for slot in self.slots:
            slot.runner.release = self.slots[0].runner.release
        return versions

    def learn_habits(self) -> tuple[Deviation, ...]:
        """Asks the first worker. Raises: RunnerError."""
        return learn_habits(self.slots[0].runner)

    @property
    def habits(self) -> tuple[Deviation, ...]:
        """What the compiler computes otherwise everywhere, as far as it was asked."""
        return self.slots[0].runner.habits

    def submit(self, run: Run, urgent: bool = False) -> Answer:
        """Queues a run; urgent ones go first."""
        answer: Answer = Pending()
        (self.urgent if urgent else self.queue).append((run, answer))
        return answer

    def dispatch(self) -> None:
        for slot in self.slots:
            if slot.done is None and (self.urgent or self.queue):
                self._start(slot, *(self.urgent or self.queue).popleft())

    def sandboxes(self) -> Iterator[Sandbox]:
        for slot in self.slots:
            yield slot.runner.sandbox
            if slot.fresh and slot.active is slot.fresh:
                yield slot.fresh.sandbox

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was this pool's. Raises: PoolError."""
        slot = next((x for x in self.slots if x.active and x.active.sandbox is sandbox), None)
        if slot is None or slot.active is None or slot.done is None:
            return False
        try:
            result: list[Outcome] | RunnerError | None = slot.active.feed(event)
        except RunnerError as error:
            result = error
        if result is not None:
            done, slot.done, slot.active = slot.done, None, None
            self._count(result)
            done.complete(result)
        return True

    @property
    def busy(self) -> bool:
        return bool(self.queue or self.urgent) or any(slot.done for slot in self.slots)

    def close(self) -> None:
        for slot in self.slots:
            slot.runner.close()
            if slot.fresh:
                slot.fresh.close()
        self.server.close()

    def _start(self, slot: _Slot, run: Run, answer: Answer) -> None:
        slot.done = answer
        slot.active = self._fresh(slot) if run.fresh else slot.runner
        run.submit(slot.active)

    def _fresh(self, slot: _Slot) -> BackendRunner:
        """A runner that gets a new process for every job."""
        if slot.fresh is None:
            limits = replace(limits_of(slot.runner.options), jobs_per_process=1)
            slot.fresh = BackendRunner(self.spec, self.registry, self.server, limits)
            slot.fresh.release = slot.runner.release
        return slot.fresh

    def _count(self, result: list[Outcome] | RunnerError) -> None:
        if isinstance(result, RunnerError):
            self._faults += 1
            if isinstance(result, AdapterFault) or self._faults >= PATIENCE:
                raise PoolError(str(result))
            return
        self._faults = 0
        self.seconds += sum(sum(outcome.seconds.values()) for outcome in result)
