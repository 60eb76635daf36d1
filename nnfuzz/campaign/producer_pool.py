"""Producers of test cases: processes that work under the configuration of an epoch."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nnfuzz.base.writing import as_json
from nnfuzz.records.config import ProducerSettings
from nnfuzz.sandbox.events import Death, Limits, Reply, Trouble, WorkerFault, event_line
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.pool import Ended, JobWorker, Pool
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import Probe, TestId
from nnfuzz.testcase.jobs import Configure, ListVocabulary, Produce

A = TypeVar("A")
MAKING = (Configure, Produce, ListVocabulary)
UNSTARTED = -2  # in place of an epoch
PATIENCE = 20  # faults in a row after which a pool is beyond help


class PoolError(RuntimeError):
    """Workers fail one after the other: the campaign cannot go on. test: at which that showed, if
    it has no record.
    """

    def __init__(self, message: str, test: TestId | None = None) -> None:
        super().__init__(message)
        self.test = test


def _ignore(event: Ended, epoch: int, seconds: float) -> None:
    """Does nothing at the end of a job that nobody waits for."""


@dataclass(frozen=True)
class ProducerOrder:
    """Work for a producer. done: called with its end, the epoch and the seconds that it took."""

    job: Job[Any]
    done: Callable[[Ended, int, float], None] = _ignore

    @property
    def purpose(self) -> str:
        """The account of its CPU time: "producers", "judge" or "probes"."""
        if not isinstance(self.job, MAKING):
            return "judge"
        probes = isinstance(self.job, Produce) and isinstance(self.job.test, Probe)
        return "probes" if probes else "producers"


class ProducerSlot(JobWorker[ProducerOrder]):
    """epoch: of the configuration that the worker has."""

    epoch = UNSTARTED


class ProducerPool(Pool[ProducerSlot, ProducerOrder, Ended]):
    """Producers. Verdicts are urgent; `dispatch` asks for everything else.

    An epoch is a configuration under which test cases are made; a worker of an older epoch is
    configured anew before its next job.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        seed: int,
        count: int,
        config: CaseConfig,
        cache: Path | None = None,
    ) -> None:
        """config: later epochs only add refusals to it. cache: folder in which producers keep
        what other processes need not find out again.
        """
        self.settings = settings
        self.seed = seed
        self._config = config
        self._cache = str(cache or "")
        warm = settings.service, self._arguments()
        self.server = ForkServer(settings.preload, warm=warm, name="producers")
        super().__init__(self._worker(number) for number in range(1, count + 1))
        self.epoch = -1
        self.cpu: defaultdict[str, float] = defaultdict(float)
        """CPU seconds of making test cases ("producers"), of judging them ("judge"), of probes."""
        self._faults = 0

    def configure(self, epoch: int, config: CaseConfig) -> None:
        """Has jobs run under this configuration from now on. Idle workers get it at once."""
        self.epoch, self._config = epoch, config
        for worker in self.workers:
            if worker.order is None:
                self.prepare(worker)

    def call(self, job: Job[A]) -> Reply[A] | Trouble:
        """Has the first worker do a job, and waits for it; again if somebody else has killed it."""
        worker = self.workers[0]
        self.prepare(worker)
        for _ in range(PATIENCE):
            event = worker.sandbox.call(job)
            if not (isinstance(event, Death) and event.from_outside):
                break
        return event

    def prepare(self, worker: ProducerSlot) -> None:
        """Starts a worker, or has it take over the configuration of the epoch."""
        if worker.epoch == self.epoch:
            return
        worker.sandbox.rearm(self._arguments())
        if worker.epoch == UNSTARTED:
            worker.sandbox.start()
        else:
            self.begin(worker, ProducerOrder(Configure(self._config)))
        worker.epoch = self.epoch

    def ended(self, worker: ProducerSlot, order: ProducerOrder, result: Ended) -> None:
        """Raises: PoolError."""
        self.cpu[order.purpose] += worker.sandbox.take_cpu()
        self._count(result, order)
        order.done(result, worker.epoch, time.monotonic() - worker.began)

    def close(self) -> None:
        super().close()
        self.server.close()

    def _worker(self, number: int) -> ProducerSlot:
        s = self.settings
        limits = Limits(s.seconds, s.memory_bytes, s.jobs, still_seconds=s.seconds)
        name = f"producer {number}"
        return ProducerSlot(Sandbox(s.service, self._arguments(), limits, (), name, self.server))

    def _arguments(self) -> dict[str, object]:
        """The arguments of the service's factory."""
        return {"seed": self.seed, "config": as_json(self._config), "cache": self._cache}

    def _count(self, event: Ended, order: ProducerOrder) -> None:
        if isinstance(event, Reply):
            self._faults = 0
            return
        self._faults += 1
        configuring = isinstance(order.job, Configure)
        settings = isinstance(event, WorkerFault) and (event.starting or configuring)
        if settings or self._faults >= PATIENCE:
            raise PoolError(f"producers cannot work: {event_line(event)}")
