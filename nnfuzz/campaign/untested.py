"""The evidence of tests that have no result."""

from __future__ import annotations

from nnfuzz.experiment.result import DEATH, FAULT
from nnfuzz.records.rows import EventRow
from nnfuzz.sandbox.events import (
    Death,
    DeathKind,
    Trouble,
    WorkerFault,
    described_error,
    event_line,
)
from nnfuzz.store.evidence import Evidence
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import TestId

REFERENCE = "inputs"
"""The stage in which PyTorch computes the expected outputs."""


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
