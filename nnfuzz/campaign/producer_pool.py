"""Producers of test cases: their processes and their queue.

A pool never blocks. The loop calls `dispatch` to hand work to idle workers, waits on `sandboxes()`
and passes each event to `feed`, which calls back whoever asked for the work.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from nnfuzz.base.writing import as_json
from nnfuzz.records.config import ProducerSettings
from nnfuzz.sandbox.events import (
    Death,
    Event,
    Fault,
    Limits,
    Progress,
    Reply,
    Trouble,
    described,
)
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import Probe, TestId
from nnfuzz.testcase.jobs import Configure, ListVocabulary, Produce

A = TypeVar("A")
MAKING = (Configure, Produce, ListVocabulary)
PATIENCE = 20  # faults in a row after which a pool is beyond help


class PoolError(RuntimeError):
    """Workers fail one after the other: the campaign cannot go on. test: at which that showed, if
    it has no record.
    """

    def __init__(self, message: str, test: TestId | None = None) -> None:
        super().__init__(message)
        self.test = test


@dataclass(frozen=True)
class Order:
    """Work for a producer. done: called with its end, the epoch and the seconds that it took."""

    job: Job[Any]
    done: Callable[[Reply[Any] | Trouble, int, float], None]

    @property
    def purpose(self) -> str:
        """What its CPU time is counted as: "producers", "judge" or "probes"."""
        if not isinstance(self.job, MAKING):
            return "judge"
        probes = isinstance(self.job, Produce) and isinstance(self.job.test, Probe)
        return "probes" if probes else "producers"


@dataclass
class _ProducerSlot:
    epoch: int = -2  # of the configuration that the worker was told; -2: it has none
    sandbox: Sandbox | None = None
    order: Order | None = None
    began: float = 0.0


class ProducerPool:
    """Producer workers. Urgent jobs (verdicts) go first; `dispatch` asks for others.

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
        warm = settings.service, self._arguments()
        self.server = ForkServer(settings.preload, warm=warm, name="producers")
        self.urgent: deque[Order] = deque()
        self.slots = [_ProducerSlot() for _ in range(count)]
        self.epoch = -1
        self.cpu: defaultdict[str, float] = defaultdict(float)
        """CPU seconds of making test cases ("producers"), of judging them ("judge"), of probes."""
        self._faults = 0

    def configure(self, epoch: int, config: CaseConfig) -> None:
        """From now on, jobs run under this configuration, which idle workers are told at once."""
        self.epoch, self._config = epoch, config
        for slot in self.slots:
            if slot.order is None:
                self._renew(slot)

    def call(self, job: Job[A]) -> Reply[A] | Trouble:
        """Has the first worker do a job, and waits for it; again if somebody else has killed it."""
        slot = self.slots[0]
        self._renew(slot)
        assert slot.sandbox is not None
        for _ in range(PATIENCE):
            event = slot.sandbox.call(job)
            if not (isinstance(event, Death) and event.from_outside):
                break
        return event

    def dispatch(self, next_order: Callable[[], Order | None]) -> None:
        """Gives every idle worker a job. next_order: asked where none is urgent; None means that
        there is nothing to do at the moment.
        """
        for slot in self.slots:
            if slot.order is None:
                self._renew(slot)
            if slot.order is None:
                order = self.urgent.popleft() if self.urgent else next_order()
                if order is None:
                    return
                self._submit(slot, order)

    def sandboxes(self) -> Iterator[Sandbox]:
        return (slot.sandbox for slot in self.slots if slot.sandbox)

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was this pool's. Raises: PoolError."""
        slot = next((slot for slot in self.slots if slot.sandbox is sandbox), None)
        if slot is None:
            return False
        if isinstance(event, Progress) or slot.order is None:
            return True
        order, slot.order = slot.order, None
        self.cpu[order.purpose] += sandbox.take_cpu()
        self._count(event, order)
        order.done(event, slot.epoch, time.perf_counter() - slot.began)
        return True

    @property
    def busy(self) -> bool:
        return bool(self.urgent) or any(slot.order for slot in self.slots)

    def close(self) -> None:
        for sandbox in self.sandboxes():
            sandbox.close()
        self.server.close()

    def _submit(self, slot: _ProducerSlot, order: Order) -> None:
        slot.order, slot.began = order, time.perf_counter()
        assert slot.sandbox is not None, "renewed first"
        slot.sandbox.submit(order.job)

    def _renew(self, slot: _ProducerSlot) -> None:
        """Starts a worker, or has it take over the configuration of the epoch."""
        if slot.epoch == self.epoch:
            return
        slot.epoch = self.epoch
        arguments = self._arguments()
        if slot.sandbox is None:
            s = self.settings
            limits = Limits(s.seconds, s.memory_bytes, s.jobs, still_seconds=s.seconds)
            name = f"producer {self.slots.index(slot) + 1}"
            slot.sandbox = Sandbox(s.service, arguments, limits, (), name, self.server)
            slot.sandbox.start()
        else:
            slot.sandbox.rearm(arguments)
            self._submit(slot, Order(Configure(self._config), _ignore))

    def _arguments(self) -> dict[str, Any]:
        """What the factory of the service is called with."""
        return {"seed": self.seed, "config": as_json(self._config)}

    def _count(self, event: Reply[Any] | Trouble, order: Order) -> None:
        if isinstance(event, Reply):
            self._faults = 0
            return
        self._faults += 1
        settings = isinstance(event, Fault) and (event.starting or isinstance(order.job, Configure))
        if settings or self._faults >= PATIENCE:
            raise PoolError(f"producers cannot work: {described(event)}")


def _ignore(event: Reply[Any] | Trouble, epoch: int, seconds: float) -> None:
    """The end of a job that nobody waits for."""
