"""Whose fault it is that a test has no model."""

from __future__ import annotations

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.sandbox.events import Death, DeathKind, WorkerFault
from nnfuzz.store.evidence import lost, not_produced
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Numbered

TEST = Numbered(1, 7)


def failed(stage, **more):
    return NotProduced(
        TEST, stage, "no", "ValueError", "trace", generated_for="torchscript", **more
    )


def test_a_producers_end_is_a_fault_and_no_outcome():
    fault = WorkerFault("KeyError", "x", "trace", "", starting=False)
    for event in (fault, Death(DeathKind.TIMEOUT, "inputs", "", None, "last words", 1.0)):
        evidence = lost(TEST, event, epoch=3)
        assert (evidence.test, evidence.epoch, evidence.status) == (TEST, 3, "fault")
        assert [row.kind for row in evidence.events] == ["fault"]
        assert not evidence.outcomes and not evidence.confirmed


def test_an_exporters_error_is_a_failure_unless_it_says_unsupported():
    evidence = not_produced(TEST, failed("export"), epoch=1)
    assert [failure.backend for failure in evidence.confirmed] == ["torchscript"]
    assert evidence.outcomes[0].kind is OutcomeKind.EXCEPTION
    evidence = not_produced(TEST, failed("export", unsupported=True), epoch=1)
    assert not evidence.confirmed
    assert evidence.outcomes[0].kind is OutcomeKind.UNSUPPORTED


def test_no_valid_inputs_are_nobodys_fault():
    evidence = not_produced(TEST, failed("inputs"), epoch=1)
    assert evidence.status == "inputs"
    assert not evidence.confirmed and not evidence.events
