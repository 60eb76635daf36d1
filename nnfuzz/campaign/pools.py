"""Worker processes and their queues: producers of test cases, and worker slots of one backend.

Neither pool blocks. The loop calls `dispatch` to hand work to idle workers, waits on `sandboxes()`
and passes each event to `feed`, which calls back whoever asked for the work.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nnfuzz.campaign.config import ProducerSettings
from nnfuzz.campaign.pace import Pace, Waiting
from nnfuzz.execute.deviation import Deviation
from nnfuzz.execute.events import (
    Death,
    Event,
    Fault,
    Limits,
    Progress,
    Reading,
    Reply,
    described,
    unread,
)
from nnfuzz.execute.forkserver import ForkServer
from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.execute.registry import BackendRegistry, BackendSpec
from nnfuzz.execute.runner import (
    AdapterFault,
    BackendRunner,
    RunnerError,
    fork_server_of,
)
from nnfuzz.execute.sandbox import Sandbox
from nnfuzz.experiment.pending import Pending
from nnfuzz.experiment.result import Run
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.triage.survey import learn_habits

CONFIGURE = "configure"
PATIENCE = 20  # faults in a row after which a pool is beyond help
SUSPECTS = max(1, min(3, (os.cpu_count() or 1) // 2))
"""Runs that look like hangs and go on: half of the cores, since a hang may compute. No more than
the repetitions of one hang, which then run side by side."""
DOUBTFUL = 4  # runs of one backend that go on aside before they look like hangs


class PoolError(RuntimeError):
    """Workers fail one after the other: the campaign cannot go on."""


@dataclass(frozen=True)
class Job:
    """Work for a producer. done: called with its end, the epoch and the seconds that it took.

    reading: of its answer.
    """

    header: dict[str, Any]
    done: Callable[[Reply | Fault | Death, int, float], None]
    blobs: Mapping[str, Any] = field(default_factory=dict)
    reading: Reading = unread


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

    def call(self, header: dict[str, Any], reading: Reading) -> Reply | Fault | Death:
        """Has the first worker do a job, and waits for it."""
        slot = self.slots[0]
        self._renew(slot)
        assert slot.sandbox is not None
        return slot.sandbox.call(header, reply=reading)

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
        slot.sandbox.submit(job.header, job.blobs, job.reading)

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


class Watcher(Protocol):
    """Who has asked for a run, and wants to know what becomes of it."""

    def suspected(self, waiting: Waiting) -> None:
        """It looks like a hang. Its answer is still to come, however late."""
        ...

    def dropped(self) -> None:
        """It looks like a hang, and there is no answer to come in this session."""
        ...


@dataclass
class _Order:
    """A run that was asked for. suspect: whether it is taken to hang."""

    run: Run
    answer: Answer
    watcher: Watcher | None
    suspect: bool

    def suspected(self, waiting: Waiting) -> None:
        """Tells it once."""
        if not self.suspect and self.watcher:
            self.watcher.suspected(waiting)
        self.suspect = True


@dataclass
class _Slot:
    """A place for one worker. active: the runner that carries out the order."""

    runner: BackendRunner
    fresh: BackendRunner | None = None
    active: BackendRunner | None = None
    order: _Order | None = None


@dataclass(frozen=True)
class _Aside:
    """A run that goes on beside the slots, in a worker of its own."""

    runner: BackendRunner
    order: _Order


class BackendPool:
    """The worker slots of one backend, its queue, and the seconds spent in the compiler.

    A run that takes much longer than usual (nnfuzz.campaign.pace) goes on aside, in its worker, and
    its slot gets a new one. What then looks like a hang is told to whoever asked for it. SUSPECTS
    of these go on up to the time limit, which alone decides what came of them; others are stopped
    and begin anew when it is their turn, as do the repetitions of hangs.
    """

    def __init__(
        self,
        spec: BackendSpec,
        registry: BackendRegistry,
        levels: Iterable[str],
        count: int,
        backlog: float = math.inf,
    ) -> None:
        """backlog: how many suspects may wait for their turn; of more of them none is kept.

        Raises: RunnerError if the backend is not installed; OptionError for unknown levels.
        """
        self.spec = spec
        self.registry = registry
        backend = registry.get(spec.name)
        self.all_levels = backend.levels
        self.levels = tuple(levels) or backend.default_levels()
        self.queue: deque[_Order] = deque()
        self.urgent: deque[_Order] = deque()
        self.suspects: deque[_Order] = deque()
        self.seconds = 0.0
        self.habits: tuple[Deviation, ...] = ()
        """What the compiler computes otherwise everywhere, as far as it was asked."""
        self.hung = 0
        """Elementary models that the compiler did not answer in time when it was asked."""
        self._backlog = backlog
        self._faults = 0
        self._release = ""
        self.server = fork_server_of(backend)
        self.slots = [_Slot(self._runner()) for _ in range(count)]
        self.aside: list[_Aside] = []
        self.pace = Pace(self.slots[0].runner.sandbox.limits.seconds)

    @property
    def name(self) -> str:
        return self.spec.label

    def versions(self) -> dict[str, str]:
        """Waits for the first worker. Raises: RunnerError if it cannot start."""
        versions = self.slots[0].runner.versions()
        self._release = self.slots[0].runner.release
        for slot in self.slots:
            slot.runner.release = self._release
        return versions

    def learn_habits(self) -> tuple[Deviation, ...]:
        """Asks the first worker. Raises: RunnerError."""
        runner = self.slots[0].runner
        self.habits = learn_habits(runner)
        self.hung = runner.hung
        if runner.elementary:
            self.pace.expect(runner.elementary)
        return self.habits

    def submit(self, run: Run, urgent: bool = False, watcher: Watcher | None = None) -> Answer:
        """Queues a run; urgent ones go first, and what is known to be slow goes aside."""
        order = _Order(run, Pending(), watcher, run.slow)
        if not run.slow:
            (self.urgent if urgent else self.queue).append(order)
        elif run.fresh:  # the repetitions of one hang before the next one is tried
            self.suspects.appendleft(order)
        else:
            self.suspects.append(order)
        return order.answer

    def dispatch(self) -> None:
        """Hands work to idle workers, and looks after what takes long."""
        self._look_after()
        while self.suspects and self._suspected() < SUSPECTS:
            order = self.suspects.popleft()
            self.aside.append(_Aside(self._runner(), order))
            order.run.submit(self.aside[-1].runner)
        for slot in self.slots:
            if slot.order is None and (self.urgent or self.queue):
                self._start(slot, (self.urgent or self.queue).popleft())

    def sandboxes(self) -> Iterator[Sandbox]:
        for slot in self.slots:
            yield slot.runner.sandbox
            if slot.fresh and slot.active is slot.fresh:
                yield slot.fresh.sandbox
        for lane in self.aside:
            yield lane.runner.sandbox

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was this pool's. Raises: PoolError."""
        for slot in self.slots:
            if slot.active and slot.order and slot.active.sandbox is sandbox:
                if (result := _fed(slot.active, event)) is not None:
                    order, slot.order, slot.active = slot.order, None, None
                    self._count(result)
                    self._end(order, result)
                return True
        for lane in self.aside:
            if lane.runner.sandbox is sandbox:
                if (result := _fed(lane.runner, event)) is not None:
                    self._remove(lane)
                    self._count(result, beside=True)
                    self._end(lane.order, result)
                return True
        return False

    @property
    def busy(self) -> bool:
        waiting = self.queue or self.urgent or self.suspects or self.aside
        return bool(waiting) or any(slot.order for slot in self.slots)

    @property
    def due(self) -> float:
        """Seconds until some run takes longer than usual; infinite if none is under way."""
        left = [self.pace.unusual - s.active.sandbox.waited for s in self.slots if s.active]
        doubtful = (lane.runner for lane in self.aside if not lane.order.suspect)
        left += [self.pace.suspicious - runner.sandbox.waited for runner in doubtful]
        return min(left, default=math.inf)

    def waiting(self) -> list[Waiting]:
        """The suspects that are waited for, the longest first."""
        suspects = (lane for lane in self.aside if lane.order.suspect)
        found = [self._waiting(lane.runner, lane.order.run) for lane in suspects]
        return sorted(found, key=lambda waiting: -waiting.seconds)

    def undecided(self) -> bool:
        """Whether some run goes on aside that may still turn out not to hang."""
        return any(not lane.order.suspect for lane in self.aside)

    def give_up(self) -> None:
        """Stops what takes long, which is suspected to hang, and forgets what is queued."""
        for slot in self.slots:
            if slot.order and slot.active and slot.active.sandbox.waited > self.pace.unusual:
                slot.order.suspected(self._waiting(slot.active, slot.order.run))
        for lane in [*self.aside]:
            lane.order.suspected(self._waiting(lane.runner, lane.order.run))
            self._remove(lane)
        for queue in (self.queue, self.urgent, self.suspects):
            queue.clear()

    def close(self) -> None:
        for slot in self.slots:
            slot.runner.close()
            if slot.fresh:
                slot.fresh.close()
        for lane in self.aside:
            lane.runner.close()
        self.server.close()

    # -- slots ----------------------------------------------------------------------------------

    def _start(self, slot: _Slot, order: _Order) -> None:
        slot.order = order
        slot.active = self._fresh(slot) if order.run.fresh else slot.runner
        order.run.submit(slot.active)

    def _runner(self, fresh: bool = False) -> BackendRunner:
        """One with a worker that is about to start. fresh: with a new process for every job."""
        runner = BackendRunner(self.spec, self.registry, self.server)
        if fresh:
            runner.sandbox.limits = replace(runner.sandbox.limits, jobs_per_process=1)
        runner.release = self._release
        runner.sandbox.start()
        return runner

    def _fresh(self, slot: _Slot) -> BackendRunner:
        if slot.fresh is None:
            slot.fresh = self._runner(fresh=True)
        return slot.fresh

    def _end(self, order: _Order, result: list[Outcome] | RunnerError) -> None:
        for outcome in [] if isinstance(result, RunnerError) else result:
            if outcome.kind is OutcomeKind.TIMEOUT:
                seconds = sum(outcome.seconds.values())
                told = self.name, outcome.level, outcome.stage
                order.suspected(Waiting(order.run.case.id, *told, seconds))
        order.answer.complete(result)

    def _count(self, result: list[Outcome] | RunnerError, beside: bool = False) -> None:
        """beside: whether no slot was busy with it."""
        if isinstance(result, RunnerError):
            self._faults += 1
            if isinstance(result, AdapterFault) or self._faults >= PATIENCE:
                raise PoolError(str(result))
            return
        self._faults = 0
        for outcome in result:
            seconds = sum(outcome.seconds.values())
            self.seconds += 0.0 if beside else seconds
            if outcome.kind is not OutcomeKind.TIMEOUT:
                self.pace.add(seconds)

    # -- aside ----------------------------------------------------------------------------------

    def _look_after(self) -> None:
        for slot in self.slots:
            room = len(self.aside) - self._suspected() < DOUBTFUL
            if slot.active and slot.active.sandbox.waited > self.pace.unusual and room:
                self._move_aside(slot)
        for lane in [*self.aside]:
            if not lane.order.suspect and lane.runner.sandbox.waited > self.pace.suspicious:
                self._suspect(lane)

    def _move_aside(self, slot: _Slot) -> None:
        assert slot.active is not None and slot.order is not None
        self.aside.append(_Aside(slot.active, slot.order))
        if slot.active is slot.fresh:
            slot.fresh = None
        else:
            slot.runner = self._runner()
        slot.active = slot.order = None

    def _suspect(self, lane: _Aside) -> None:
        lane.order.suspected(self._waiting(lane.runner, lane.order.run))
        if self._suspected() <= SUSPECTS:
            return
        self._remove(lane)
        if len(self.suspects) < self._backlog:
            self.suspects.append(lane.order)
        elif lane.order.watcher:
            lane.order.watcher.dropped()

    def _suspected(self) -> int:
        return sum(lane.order.suspect for lane in self.aside)

    def _remove(self, lane: _Aside) -> None:
        self.aside.remove(lane)
        lane.runner.close()

    def _waiting(self, runner: BackendRunner, run: Run) -> Waiting:
        """What the worker says is not to be trusted: it becomes a level and stage of the run."""
        told, _, level = runner.sandbox.stage.partition(" ")
        level = level if level in run.levels else run.levels[0]
        stage = next((stage for stage in Stage if stage == told), Stage.IMPORT)
        return Waiting(run.case.id, self.name, level, stage, runner.sandbox.waited)


def _fed(runner: BackendRunner, event: Event) -> list[Outcome] | RunnerError | None:
    try:
        return runner.feed(event)
    except RunnerError as error:
        return error
