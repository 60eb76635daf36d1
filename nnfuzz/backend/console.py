"""Reasons that a compiler prints and does not raise: `Backend.console` finds them.

The worker's output goes to the campaign in any case, in parts that belong to one outcome each. It
is read there and not in the worker, so that nothing is put in the way of a crash handler and of
what a dying process says last.
"""

from __future__ import annotations

from dataclasses import replace

from nnfuzz.backend.complaint import CompilerError, ComplaintKind
from nnfuzz.backend.contract import Backend
from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.base.text import visible
from nnfuzz.sandbox.events import shortened

_RAISED = (OutcomeKind.EXCEPTION, OutcomeKind.UNSUPPORTED)


def heard(backend: type[Backend], outcome: Outcome, printed: str) -> Outcome:
    """The outcome of an exception with what the compiler has printed as its message, and the
    complaint that this makes. Any other outcome, or of a backend that finds no reason in `printed`,
    stays as it is.
    """
    if outcome.kind not in _RAISED or not (reason := backend.console(printed)):
        return outcome
    message = shortened(visible(reason))
    error = CompilerError(outcome.stage, outcome.error_type, message, outcome.traceback)
    complaint, kind = backend.complaint(error), outcome.kind
    if kind is OutcomeKind.UNSUPPORTED:
        complaint = complaint.of_kind(ComplaintKind.UNSUPPORTED)
    elif complaint.kind is ComplaintKind.UNSUPPORTED:
        kind = OutcomeKind.UNSUPPORTED
    return replace(outcome, kind=kind, message=message, complaint=complaint)
