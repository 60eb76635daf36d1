"""What is recorded of a test that has no model: its producer died, or no graph or file came out."""

from __future__ import annotations

from typing import Any

from nnfuzz.campaign.probe import Probe
from nnfuzz.campaign.recorder import Evidence
from nnfuzz.campaign.rows import EventRow
from nnfuzz.campaign.testrun import FAULT, TEST
from nnfuzz.execute.events import Death, Fault, described
from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.execute.target import Target
from nnfuzz.testcase.case import NotProduced
from nnfuzz.triage.signature import export_failure


def lost(header: dict[str, Any], probe: Probe | None, event: Fault | Death, epoch: int) -> Evidence:
    """A producer failed or died: a fault of nnfuzz, never an outcome."""
    stage = event.stage if isinstance(event, Death) else str(header["do"])
    signal = event.signal if isinstance(event, Death) else ""
    details = event.traceback if isinstance(event, Fault) else event.captured
    index = header.get("index", -1)
    row = EventRow(index, FAULT, "", stage or "start", signal, described(event), details)
    return _evidence(header, probe, epoch, status=FAULT, events=(row,))


def not_produced(
    header: dict[str, Any], probe: Probe | None, failed: NotProduced, epoch: int
) -> Evidence:
    """Generation, input search or the exporter gave up; the exporter's errors are failures."""
    fields: dict[str, Any] = {"status": failed.stage, "failed": failed}
    if failed.stage == "export":
        if not failed.unsupported:
            found = failed.error_type, failed.message, failed.traceback
            fields["confirmed"] = (export_failure(failed.generated_for, *found),)
        fields["outcomes"] = (_export_outcome(failed),)
    elif failed.stage == FAULT:
        row = EventRow(failed.index, FAULT, "", "produce", "", failed.message, failed.traceback)
        fields["events"] = (row,)
    return _evidence(header, probe, epoch, seconds=failed.seconds, **fields)


def _evidence(header: dict[str, Any], probe: Probe | None, epoch: int, **fields: Any) -> Evidence:
    return Evidence(header.get("index", -1), str(probe or TEST), epoch, job=header, **fields)


def _export_outcome(failed: NotProduced) -> Outcome:
    return Outcome(
        OutcomeKind.UNSUPPORTED if failed.unsupported else OutcomeKind.EXCEPTION,
        Stage.EXPORT,
        Target(failed.generated_for, pipeline="export"),
        failed.error_type,
        failed.message,
        failed.traceback,
        seconds={"export": failed.seconds.get("export", 0.0)},
    )
