"""Everything that a campaign knows about one test or probe, ready to be recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.compare.flip import NOBODY, Blame, right_release, state_of
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.result import Result
from nnfuzz.materialize.opsets import exporter_of
from nnfuzz.records.rows import EventRow
from nnfuzz.records.schedule import place_of
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import Probe, TestId
from nnfuzz.triage.signature import Failure, export_failure


@dataclass(frozen=True)
class Evidence:
    """Everything that is known about one test or probe.

    result: the result of its experiment; None if there was no model. failed: why there was none;
    None if the producer was lost. status: "run", or why nothing ran. events: faults of nnfuzz,
    deaths of workers and the like during the test.
    """

    test: TestId
    epoch: int
    result: Result | None = None
    failed: NotProduced | None = None
    status: str = "run"
    events: tuple[EventRow, ...] = ()

    @property
    def made(self) -> TestCase | NotProduced | None:
        """The test case, or why there is none; None if its producer was lost."""
        return self.result.case if self.result else self.failed

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of the targets, or that of the exporter if it failed to write the model."""
        if self.result:
            return self.result.outcomes
        failed = self.failed
        return (_export_outcome(failed),) if failed and failed.stage == Stage.EXPORT else ()

    @cached_property
    def confirmed(self) -> tuple[Failure, ...]:
        """The failures that fresh workers repeated, or that were known before."""
        if self.result:
            return self.result.failures
        failed = self.failed
        if failed is None or failed.stage != Stage.EXPORT or failed.unsupported:
            return ()
        error = failed.error_type, failed.message, failed.traceback
        return (export_failure(exporter_of(failed.generated_for), *error),)

    @property
    def flaky(self) -> tuple[Failure, ...]:
        """The failures that fresh workers did not repeat."""
        return self.result.flaky if self.result else ()

    @property
    def verdict(self) -> Verdict | None:
        return self.result.verdict if self.result else None

    @property
    def seconds(self) -> Mapping[str, float]:
        """Phase of the test -> seconds."""
        if self.result is None:
            return self.failed.seconds if self.failed else {}
        ran = sum(sum(outcome.seconds.values()) for outcome in self.result.outcomes)
        return {**self.result.case.seconds, "execute": ran, "compare": self.result.seconds}

    @property
    def place(self) -> int:
        """The position among all tests and probes, see nnfuzz.records.schedule.place_of."""
        return self.test.place if isinstance(self.test, Probe) else place_of(self.test.index or 0)

    def blame(self, failure: Failure) -> Blame:
        return self.result.blame(failure) if self.result else NOBODY

    def repeats(self, failure: Failure) -> tuple[int, int]:
        """Returns (repetitions that failed in the same way, all repetitions)."""
        repeats = self.result.repeats if self.result else {}
        return repeats.get(failure.signature.hash, (0, 0))

    def right_release(self, failure: Failure) -> str:
        """Another release that is right for this test; "" for none."""
        return right_release(failure.targets, {o.target: state_of(o) for o in self.outcomes})


def _export_outcome(failed: NotProduced) -> Outcome:
    return Outcome(
        OutcomeKind.UNSUPPORTED if failed.unsupported else OutcomeKind.EXCEPTION,
        Stage.EXPORT,
        Target(exporter_of(failed.generated_for), pipeline="export"),
        failed.error_type,
        failed.message,
        failed.traceback,
        seconds={"export": failed.seconds.get("export", 0.0)},
    )
