"""One test of a campaign on its way: an experiment on worker pools, and its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.runner import RunnerError
from nnfuzz.backend.target import Target
from nnfuzz.campaign.backend_pool import BackendPool
from nnfuzz.campaign.pace import Waiting
from nnfuzz.campaign.producer_pool import ProducerOrder
from nnfuzz.experiment import procedure
from nnfuzz.experiment.asking import Asking, TimedEnd
from nnfuzz.experiment.judgement import unknown_outputs
from nnfuzz.experiment.pending import Pending, Task
from nnfuzz.experiment.procedure import REPEATS, Procedure
from nnfuzz.experiment.result import Event, Judging, Plan, Result, Run
from nnfuzz.records.rows import EventRow
from nnfuzz.sandbox.events import Death, DeathKind, Reply, Trouble, WorkerFault, event_line
from nnfuzz.sandbox.exceptions import described_error
from nnfuzz.sandbox.job import Job
from nnfuzz.store.evidence import Evidence
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import TestId
from nnfuzz.triage.signature import Failure, failures

A = TypeVar("A")
FAULT, DEATH = procedure.FAULT, procedure.DEATH
REFERENCE = "inputs"
"""The stage in which a producer has PyTorch compute the expected outputs."""


class RunServices(Protocol):
    """The services of the campaign that a test run needs."""

    def judge(self, order: ProducerOrder) -> None: ...
    def knows(self, signature: str, test: TestId) -> bool: ...
    def ended(self, run: TestRun, evidence: Evidence) -> None: ...
    def suspected(self, run: TestRun, waiting: Waiting) -> str: ...
    def dropped(self, run: TestRun) -> None: ...


class TestRun(Asking):
    """A test case, or a probe, from its production to its record.

    `backends` are the pools to run on, each with its levels; `sampled` asks for the judge even if
    the outputs agree. outcomes: by backend, once it ended. bytes: of its arrays, and of those to
    come.
    """

    def __init__(
        self,
        services: RunServices,
        test: TestId,
        case: TestCase,
        backends: Sequence[tuple[BackendPool, tuple[str, ...]]],
        epoch: int,
        sampled: bool = False,
        slow: bool = False,
    ) -> None:
        """slow: whether it is known to hang."""
        self.services, self.test, self.case, self.sampled = services, test, case, sampled
        self.agreed = False
        self.outcomes: dict[str, list[Outcome]] = {pool.name: [] for pool, _ in backends}
        self.epoch = epoch
        self.bytes = _size(case.inputs) + _size(case.weights)
        self.bytes += _size(case.expected) * (1 + sum(len(levels) for _, levels in backends))
        self._pools = {pool.name: pool for pool, _ in backends}
        self._levels = {pool.name: levels for pool, levels in backends}
        # A verdict on one backend needs the outputs of all others, which do not know of it.
        alone = len(backends) == 1 and not sampled and not case.fault and not unknown_outputs(case)
        plan = Plan(
            runs=[
                Run(pool.name, case, levels, slow=slow, compares=alone) for pool, levels in backends
            ],
            judging=Judging.ALWAYS if sampled else Judging.DOUBTFUL,
            repeats=self._repeats,
            isolates=lambda failure: not self._knows(failure),
            levels={pool.spec.name: pool.all_levels for pool, _ in backends},
            habits={pool.name: pool.habits for pool, _ in backends},
        )
        self._procedure = Procedure(case, plan, self)

    def start(self) -> None:
        Task(self._result(), self._ended)

    async def _result(self) -> Result:
        """Carries out the procedure. A defect of nnfuzz that one test brings to light is a fault
        of this test, and does not end the campaign.
        """
        try:
            return await self._procedure.result()
        except Exception as error:
            described = described_error(error)
            message = f"{described['error_type']}: {described['message']}"
            event = Event(FAULT, "", "campaign", "", message, described["traceback"])
            return Result(self.case, (), events=(event,))

    @property
    def settling(self) -> bool:
        """Whether every backend has answered."""
        return self._procedure.settling

    def _repeats(self, failure: Failure) -> int:
        """Runs in fresh workers that must all fail in the same way before it counts.

        Exceptions come from the same code on the same model: one suffices. A known failure
        counts at once, but for mismatches, whose signatures are weak evidence.
        """
        known = self._knows(failure)
        if failure.kind is OutcomeKind.MISMATCH:
            return 1 if known else REPEATS
        if known:
            return 0
        sure = failure.kind in (OutcomeKind.EXCEPTION, OutcomeKind.ACCEPTED)
        return 1 if sure else REPEATS

    def _knows(self, failure: Failure) -> bool:
        return self.services.knows(failure.signature.hash, self.test)

    # -- runs that take long --------------------------------------------------------------------

    def suspected(self, waiting: Waiting) -> str:
        return self.services.suspected(self, waiting)

    def dropped(self) -> None:
        self.services.dropped(self)

    def failure(self, waiting: Waiting) -> Failure:
        """The failure that it is if it never answers: the levels before that one did well."""
        pool = self._pools[waiting.backend]
        compiler = pool.spec.name
        label = "" if waiting.backend == compiler else waiting.backend
        levels = self._levels[waiting.backend]
        fine = levels[: levels.index(waiting.level)] if waiting.level in levels else ()
        ends = [(OutcomeKind.OK, Stage.EXECUTE, level) for level in fine]
        ends.append((OutcomeKind.TIMEOUT, waiting.stage, waiting.level))
        outcomes = [
            Outcome(kind, stage, Target(compiler, pipeline=level), label=label)
            for kind, stage, level in ends
        ]
        (failure,) = failures(outcomes, graph=self.case.graph, fault=self.case.fault)
        return failure

    # -- services of the experiment -------------------------------------------------------------

    def run(self, run: Run) -> Pending[list[Outcome] | RunnerError]:
        """Planned runs wait for their turn; runs that settle a test go first."""
        return self._pools[run.backend].submit(run, urgent=self.settling, watcher=self)

    def ask(self, job: Job[A]) -> Pending[TimedEnd[A]]:
        pending: Pending[TimedEnd[A]] = Pending()

        def answer(event: Reply[A] | Trouble, epoch: int, seconds: float) -> None:
            pending.complete((event, seconds))

        self.services.judge(ProducerOrder(job, answer))
        return pending

    # -- record ---------------------------------------------------------------------------------

    def _ended(self, result: Result) -> None:
        self.agreed = result.agreed
        self.outcomes |= result.by_backend()
        status = "run" if result.outcomes else FAULT
        events = tuple(EventRow(self.test, **vars(event)) for event in result.events)
        evidence = Evidence(self.test, self.epoch, result, status=status, events=events)
        self.services.ended(self, evidence)


def _size(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())


# -- tests without a model ------------------------------------------------------------------------


def lost(test: TestId, event: Trouble, epoch: int) -> Evidence:
    """A producer failed or died: a fault of nnfuzz, never an outcome. If PyTorch died of the inputs
    (an integer division raises SIGFPE), the test has no reference, and nobody is at fault.
    """
    if isinstance(event, Death) and event.stage == REFERENCE and _own(event):
        end = EventRow(test, DEATH, "", REFERENCE, event.signal, event_line(event), event.captured)
        return Evidence(test, epoch, status=REFERENCE, events=(end,))
    stage = event.stage if isinstance(event, Death) else "produce"
    signal = event.signal if isinstance(event, Death) else ""
    details = event.traceback if isinstance(event, WorkerFault) else event.captured
    row = EventRow(test, FAULT, "", stage or "start", signal, event_line(event), details)
    return Evidence(test, epoch, status=FAULT, events=(row,))


def _own(death: Death) -> bool:
    """Whether a worker died of its own computation."""
    return death.kind in (DeathKind.CRASH, DeathKind.MEMORY) and not death.from_outside


def not_produced(test: TestId, failed: NotProduced, epoch: int) -> Evidence:
    """Generation, input search or the exporter gave up, or nnfuzz itself failed."""
    row = EventRow(test, FAULT, "", "produce", "", failed.message, failed.traceback)
    events = (row,) if failed.stage == FAULT else ()
    return Evidence(test, epoch, failed=failed, status=failed.stage, events=events)
