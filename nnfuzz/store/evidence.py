"""Everything that a campaign knows about one test, ready to be recorded: a small row if it
agrees, and the result of its experiment if it fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nnfuzz.backend.outcome import Brief, Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import NOBODY, Blame, right_release, state_of
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.result import DEATH, FAULT, Result
from nnfuzz.feedback.support import signature_keys
from nnfuzz.ir.features import features
from nnfuzz.ir.sizes import of_call
from nnfuzz.ir.support_key import edge_keys, properties
from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.materialize.opsets import exporter_of, is_called
from nnfuzz.records.rows import EventRow, HangRow, TestRow
from nnfuzz.sandbox.events import (
    Death,
    DeathKind,
    Trouble,
    WorkerFault,
    described_error,
    event_line,
)
from nnfuzz.store.database import dumps
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered, TestId
from nnfuzz.triage.signature import Failure, export_failure

REFERENCE = "inputs"
"""The stage in which PyTorch computes the expected outputs."""


@dataclass(frozen=True)
class Evidence:
    """Everything that is known about one test; a lane's report on it.

    result: of its experiment; None if there was no model, or if a lane has left it out since
    nothing failed. failed: why there was no model; None if the lane was lost. status: "run", or why
    nothing ran. events: faults of nnfuzz, deaths of workers and the like during the test. row: what
    the store keeps of the test. suspected: the run that looks like a hang, if there is one: the row
    of the test counts it as one, whatever is decided later.
    """

    test: TestId
    epoch: int
    result: Result | None = None
    failed: NotProduced | None = None
    status: str = "run"
    events: tuple[EventRow, ...] = ()
    row: TestRow | None = None
    suspected: HangRow | None = None

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


def items_of(graph: GraphView, variables: Mapping[str, Sequence[int]]) -> tuple[str, ...]:
    """See nnfuzz.records.rows.TestRow. variables: see nnfuzz.feedback.support.signature_keys."""
    own = signature_keys(graph, variables)
    return (*sorted(own), *edge_keys(graph), *properties(graph)) if graph else ()


def with_row(evidence: Evidence, variables: Mapping[str, Sequence[int]]) -> Evidence:
    """The evidence with the row that the store keeps of a test of a campaign."""
    if not isinstance(evidence.test, Numbered):
        return evidence
    made, result = evidence.made, evidence.result
    graph = made.graph if made else NO_GRAPH
    if isinstance(made, TestCase) and is_called(made.exporter):
        graph = of_call(graph, 0)
    outcomes: dict[str, dict[str, Brief]] = {}
    for outcome in evidence.outcomes:
        outcomes.setdefault(outcome.backend, {})[outcome.level] = Brief.of(outcome)
    row = TestRow(
        evidence.test.index,
        evidence.status,
        evidence.epoch,
        outcomes,
        {phase: round(seconds, 6) for phase, seconds in evidence.seconds.items()},
        dumps(as_json(features(graph))) if graph else "",
        made.digest() if made else "",
        made.generated_for if made else "",
        result.case.variations if result else (),
        items_of(graph, variables),
        {failure.signature.hash: kind_of(failure) for failure in evidence.confirmed},
    )
    return replace(evidence, row=row)


def kind_of(failure: Failure) -> str:
    """ "BACKEND KIND STAGE"."""
    return f"{failure.backend} {failure.kind.value} {failure.stage.value}"


# -- tests without a result -----------------------------------------------------------------------


def lost(test: TestId, event: Trouble, epoch: int) -> Evidence:
    """A lane failed or died: a fault of nnfuzz, never an outcome. If PyTorch died of the inputs (an
    integer division raises SIGFPE), the test has no reference, and nobody is at fault.
    """
    if isinstance(event, Death) and event.stage == REFERENCE and _own(event):
        end = EventRow(test, DEATH, "", REFERENCE, event.signal, event_line(event), event.captured)
        return Evidence(test, epoch, status=REFERENCE, events=(end,))
    stage = event.stage if isinstance(event, Death) else "produce"
    signal = event.signal if isinstance(event, Death) else ""
    details = event.traceback if isinstance(event, WorkerFault) else event.captured
    return fault(test, epoch, stage or "start", event_line(event), details, signal)


def fault(
    test: TestId, epoch: int, stage: str, message: str, details: str = "", signal: str = ""
) -> Evidence:
    """A fault of nnfuzz or of an adapter took the result of a test."""
    row = EventRow(test, FAULT, "", stage, signal, message, details)
    return Evidence(test, epoch, status=FAULT, events=(row,))


def defect(test: TestId, epoch: int, stage: str, error: Exception) -> Evidence:
    """An error of nnfuzz itself ends the test that has brought it to light."""
    text = described_error(error)
    return fault(test, epoch, stage, f"{text['error_type']}: {text['message']}", text["traceback"])


def _own(death: Death) -> bool:
    """Whether a process died of its own computation."""
    return death.kind in (DeathKind.CRASH, DeathKind.MEMORY) and not death.from_outside


def not_produced(test: TestId, failed: NotProduced, epoch: int) -> Evidence:
    """Generation, input search or the exporter gave up, or nnfuzz itself failed."""
    row = EventRow(test, FAULT, "", "produce", "", failed.message, failed.traceback)
    events = (row,) if failed.stage == FAULT else ()
    return Evidence(test, epoch, failed=failed, status=failed.stage, events=events)
