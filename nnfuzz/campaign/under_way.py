"""Tests under way: from the answer of a producer to the record."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeGuard

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.text import one_line
from nnfuzz.campaign.backend_pool import BackendPool
from nnfuzz.campaign.cpu import CpuMeter
from nnfuzz.campaign.pace import Waiting
from nnfuzz.campaign.producer_pool import ProducerOrder, ProducerPool
from nnfuzz.campaign.suspects import Suspects
from nnfuzz.campaign.testrun import FAULT, TestRun, lost, not_produced
from nnfuzz.feedback.probe import Prober
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import EventRow
from nnfuzz.sandbox.events import Reply, Trouble
from nnfuzz.sandbox.exceptions import described_error
from nnfuzz.store.database import DAMAGE, StoreError
from nnfuzz.store.evidence import Evidence
from nnfuzz.store.recorder import Recorder
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered, Probe, TestId

MOST_ANNOUNCED = 5
"""Different faults that a session prints; all are in the table `events`."""


class UnderWay:
    """The tests of a session that have been produced and are not recorded yet.

    It starts the experiment of each test case, and serves it (nnfuzz.campaign.testrun.RunServices).
    faults: of nnfuzz or of an adapter. probes: that were produced. note: prints a line.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        producers: ProducerPool,
        backends: list[BackendPool],
        prober: Prober,
        suspects: Suspects,
        cpu: CpuMeter,
        note: Callable[[str], None],
    ) -> None:
        self.runs: set[TestRun] = set()
        self.faults = self.probes = 0
        self._config = config
        self._recorder = recorder
        self._producers = producers
        self._backends = backends
        self._prober = prober
        self._suspects = suspects
        self._cpu = cpu
        self._note = note
        self._announced: set[str] = set()

    @property
    def unsuspected(self) -> set[TestRun]:
        """The runs that do not look like hangs."""
        return self.runs - self._suspects.runs

    def few_probes(self) -> bool:
        """Whether workers are about to be done with all probes: when their time is over, what is
        under way ends soon.
        """
        probes = (run for run in self.unsuspected if isinstance(run.test, Probe))
        return sum(1 for _ in probes) <= self._config.workers

    def produced(
        self, test: TestId, event: Reply[TestCase | NotProduced] | Trouble, epoch: int
    ) -> None:
        """Starts the experiment on a test case, or records why there is none."""
        if isinstance(event, Reply) and not isinstance(test, Probe):
            self._cpu.add_phases(event.value.cpu)
        self.probes += isinstance(test, Probe)
        if not isinstance(event, Reply):
            self._keep(lost(test, event, epoch))
            if self._asked(test):
                self._prober.finished(test, {})
        elif isinstance(made := event.value, NotProduced):
            self._keep(not_produced(test, made, epoch))
            if self._asked(test):
                self._prober.not_produced(test, made)
        else:
            sampled = isinstance(test, Numbered) and self._config.sampled(test.index)
            slow = test in self._suspects.earlier
            run = TestRun(self, test, made, self._pools_of(test), epoch, sampled, slow)
            self.runs.add(run)
            if slow:
                self._suspects.runs.add(run)
            run.start()

    def _asked(self, test: TestId) -> TypeGuard[Probe]:
        """Whether a test is a probe whose answer somebody waits for."""
        return isinstance(test, Probe) and not self._suspects.gives_up(test)

    def _pools_of(self, test: TestId) -> list[tuple[BackendPool, tuple[str, ...]]]:
        if not isinstance(test, Probe):
            return [(pool, pool.levels_of(test, self._config)) for pool in self._backends]
        names: Collection[str] = self._prober.backends(test)
        if self._suspects.gives_up(test):
            names = self._suspects.earlier.get(test, ())
        levels = self._prober.levels
        return [(pool, tuple(levels[pool.name])) for pool in self._backends if pool.name in names]

    # -- services of a test run ---------------------------------------------------------------

    def judge(self, order: ProducerOrder) -> None:
        """Hands the job of a verdict to the next free producer."""
        self._producers.urgent.append(order)

    def knows(self, signature: str, test: TestId) -> bool:
        return signature in self._suspects.known or self._recorder.knows(signature, test)

    def ended(self, run: TestRun, evidence: Evidence) -> None:
        """Records the evidence and learns from it."""
        self.dropped(run)
        self._suspects.earlier.pop(run.test, None)
        if run.sampled and run.agreed:
            figures = self._recorder.figures
            figures.full_checks += 1
            figures.full_check_finds += any(
                failure.kind is OutcomeKind.MISMATCH for failure in evidence.confirmed
            )
        self._keep(evidence)
        self._suspects.confirm(evidence.confirmed)
        if self._asked(run.test):
            self._prober.finished(run.test, run.outcomes)

    def suspected(self, run: TestRun, waiting: Waiting) -> str:
        """Keeps a run that looks like a hang. Returns its signature."""
        return self._suspects.add(run, waiting)

    def dropped(self, run: TestRun) -> None:
        """Forgets a run that will report nothing more."""
        self.runs.discard(run)
        self._suspects.runs.discard(run)

    def blame_for_end(self, test: TestId | None, message: str, epoch: int) -> None:
        """Records that the session ended at a test, so that later sessions do not all end there.

        epoch: the present one.
        """
        if isinstance(test, Numbered):
            epoch = next((run.epoch for run in self.runs if run.test == test), epoch)
            event = EventRow(test, FAULT, "", "run", "", message)
            self._keep(Evidence(test, epoch, status=FAULT, events=(event,)))

    def _keep(self, evidence: Evidence) -> None:
        for event in evidence.events:
            if event.kind == FAULT:
                self.faults += 1
                self._announce(event)
        try:
            self._recorder.record(evidence)
        except (OSError, StoreError, *DAMAGE):
            raise
        except Exception as error:  # a finding that nnfuzz cannot write costs its test alone
            if evidence.status == FAULT:
                raise
            text = described_error(error)
            message = f"{text['error_type']}: {text['message']}"
            event = EventRow(evidence.test, FAULT, "", "record", "", message, text["traceback"])
            self._keep(Evidence(evidence.test, evidence.epoch, status=FAULT, events=(event,)))

    def _announce(self, event: EventRow) -> None:
        """Prints what went wrong, but not the same again, and nothing more after a few."""
        line = one_line(event.message.partition("\n")[0])
        if line not in self._announced and len(self._announced) < MOST_ANNOUNCED:
            self._announced.add(line)
            whose = "" if line.startswith("adapter of") else "fault of nnfuzz: "
            self._note(f"{event.test}: {whose}{line}")
