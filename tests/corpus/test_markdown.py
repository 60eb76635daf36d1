"""The summary of results as a page of Markdown."""

from nnfuzz.corpus.known import KnownTestFailures, parse
from nnfuzz.corpus.markdown import results_page
from nnfuzz.corpus.verify import LevelResult, Status

FAILED = LevelResult("test_a1", "tvm", "O3", Status.FAILED, "y[0] is 1", kind="mismatch")


PASSED = LevelResult("test_a2", "tvm", "O3", Status.PASSED)


SKIPPED = LevelResult("test_b", "tvm", "O3", Status.SKIPPED, "unsupported: Pad|x")


def test_the_summary_shows_what_matters_and_nothing_breaks_it():
    hostile = LevelResult("t`|<b>", "tvm", "O0", Status.FAILED, "a | b\n<script>", kind="mismatch")
    known = KnownTestFailures(parse("*", "known.txt")).judge(FAILED)
    text = results_page([hostile, PASSED, SKIPPED, known], "models: tvm", ["expired: x"])
    assert "| tvm | O0 | 0 | 1 | 0 | 0 |" in text and "<script>" not in text
    failures = text.partition("### Failures")[2].partition("<details>")[0]
    assert all(line.count(" | ") == 3 for line in failures.splitlines() if line.startswith("| "))
    assert "1 known" in text and "1 skipped" in text and text.endswith("- expired: x\n")


def test_the_summary_of_many_failures_is_short():
    many = [LevelResult(f"t{i}", "tvm", "O0", Status.FAILED, "x" * 9999) for i in range(5000)]
    text = results_page(many, "models")
    assert len(text) < 60_000 and "... and 4950 more" in text
