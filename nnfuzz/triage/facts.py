"""What a failing test case tells of its cause, beside the failure and the graph."""

from __future__ import annotations

from nnfuzz.compare.mismatch import Verdict
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.general import branches_added, sole_operator, written_types
from nnfuzz.triage.operands import wide_operands
from nnfuzz.triage.refine import TriageFacts
from nnfuzz.triage.signature import Failure


def facts_of(case: TestCase, failure: Failure, verdict: Verdict | None) -> TriageFacts:
    """The facts that take neither a localisation nor a reduction."""
    model, graph = case.model, case.graph
    return TriageFacts(
        verdict=verdict,
        operator=sole_operator(model, graph) if model else "",
        operands=wide_operands(case, failure, verdict),
        branches=bool(model) and branches_added(model, graph),
        types=written_types(model, graph) if model else {},
    )
