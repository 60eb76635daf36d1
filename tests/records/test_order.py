"""The order in which findings are listed."""

from dataclasses import replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.order import by_value
from nnfuzz.records.rows import FindingRow
from nnfuzz.testcase.identity import Numbered

ROW = FindingRow("s", Numbered(0, 0), "mismatch", "compare", "toy", "O3", "a title", "findings/s")
REDUCED = replace(ROW, nodes=(9, 2))


def names(*rows):
    return [row.signature for row in by_value(rows)]


def of_kind(kind, row=REDUCED, **more):
    return replace(row, signature=f"{kind}{len(row.nodes)}", kind=kind.value, **more)


def test_reduced_findings_come_first_and_wrong_results_of_the_others_last():
    kinds = (OutcomeKind.EXCEPTION, OutcomeKind.CRASH, OutcomeKind.MISMATCH)
    rows = [of_kind(kind, row) for row in (ROW, REDUCED) for kind in kinds]
    reduced, others = ["mismatch2", "crash2", "exception2"], ["crash0", "exception0", "mismatch0"]
    assert names(*rows) == [*reduced, *others]


def test_of_one_kind_the_most_frequent_comes_first_then_the_smallest():
    often = replace(REDUCED, signature="often", occurrences=5, nodes=(9, 4))
    small = replace(REDUCED, signature="small", nodes=(9, 1))
    assert names(REDUCED, small, often) == ["often", "small", "s"]


def test_errors_lose_the_words_that_most_of_them_share():
    texts = [f"Compilation failed: {word} is bad" for word in ("shape", "dtype", "axis", "rank")]
    rows = [of_kind(OutcomeKind.EXCEPTION, title=text) for text in texts]
    listed = {row.title for row in by_value(replace(r, signature=r.title) for r in rows)}
    assert len(listed) == len(texts) and all(len(title) <= len(texts[0]) for title in listed)
