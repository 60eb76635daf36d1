"""The order in which findings are listed."""

from dataclasses import replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.suspicions import by_value
from nnfuzz.testcase.identity import Numbered

ROW = FindingRow("s", Numbered(0, 0), "mismatch", "compare", "toy", "O3", "a title", "findings/s")
REDUCED = replace(ROW, nodes=(9, 2))


def names(*rows):
    return [row.signature for row in by_value(rows)]


def of_kind(kind, row=REDUCED, **more):
    severity = {"crash": "memory", "mismatch": "wrong"}.get(kind.value, "fails")
    more = {"severity": severity, **more}
    return replace(row, signature=f"{kind}{len(row.nodes)}", kind=kind.value, **more)


def test_reduced_findings_come_first_and_wrong_results_of_the_others_last():
    kinds = (OutcomeKind.EXCEPTION, OutcomeKind.CRASH, OutcomeKind.MISMATCH)
    rows = [of_kind(kind, row) for row in (ROW, REDUCED) for kind in kinds]
    reduced, others = ["crash2", "mismatch2", "exception2"], ["crash0", "exception0", "mismatch0"]
    assert names(*rows) == [*reduced, *others]


def test_of_one_kind_the_most_frequent_comes_first_then_the_smallest():
    often = replace(REDUCED, signature="often", occurrences=5, nodes=(9, 4))
    small = replace(REDUCED, signature="small", nodes=(9, 1))
    assert names(REDUCED, small, often) == ["often", "small", "s"]
