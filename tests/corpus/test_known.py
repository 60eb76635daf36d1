"""Known failures, baselines and summaries: what counts, what does not, and what can go."""

import json

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.corpus.known import KnownError, KnownTestFailures, baseline, parse, to_json
from nnfuzz.corpus.verify import LevelResult, Status

FAILED = LevelResult("test_a1", "tvm", "O3", Status.FAILED, "y[0] is 1", kind="mismatch")
PASSED = LevelResult("test_a2", "tvm", "O3", Status.PASSED)
SKIPPED = LevelResult("test_b", "tvm", "O3", Status.SKIPPED, "unsupported: Pad|x")


def judged(text, result=FAILED, earlier=None):
    return KnownTestFailures(parse(text, "known.txt"), earlier).judge(result)


@pytest.mark.parametrize(
    "line",
    [
        "test_a1",
        "test_a*",
        "* backend=tvm",
        "test_?? level=O*",
        "* kind=mismatch",
        "# nothing\n\ntest_a1 # issue 12",
    ],
)
def test_what_is_known_does_not_count(line):
    found = judged(line)
    assert found.status is Status.KNOWN and found.message.endswith("y[0] is 1")


@pytest.mark.parametrize(
    "line", ["test_b", "test_a1 backend=ort", "* level=O0", "* kind=crash", "TEST_A1", ""]
)
def test_what_is_not_meant_counts(line):
    assert judged(line) == FAILED


def test_only_failures_are_known():
    assert judged("*", PASSED) == PASSED and judged("*", SKIPPED) == SKIPPED


@pytest.mark.parametrize(
    "text, message",
    [
        ("backend=tvm", "line 1: a line begins with the name of a test"),
        ("a\nb colour=red", "line 2: 'colour=red' is none of backend=..., level=..., kind=..."),
        ("a level=", "'level=' is none of"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(KnownError) as error:
        parse(text, "known.txt")
    assert message in str(error.value)


def test_a_baseline_excuses_the_same_failure_only(tmp_path):
    file = tmp_path / "results.json"
    file.write_text(json.dumps(to_json([FAILED, PASSED], {"backend": "tvm"})))
    earlier = baseline(file)
    assert judged("", FAILED, earlier).status is Status.KNOWN
    crash = LevelResult("test_a1", "tvm", "O3", Status.FAILED, "crash", kind="crash")
    elsewhere = LevelResult("test_a1", "tvm", "O0", Status.FAILED, "", kind="mismatch")
    for other in (crash, elsewhere):
        assert judged("", other, earlier) == other


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"schema": 1, "results": [{"test": 3}]}'])
def test_a_baseline_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(Unreadable, match=r"results\.json"):
        baseline(tmp_path / "results.json")


def test_what_can_go_is_told():
    known = KnownTestFailures(
        parse("test_a1\ntest_a2 # fixed?\ntest_zzz", "f"),
        {("test_a2", "tvm", "O3"): "crash", ("test_b", "tvm", "O3"): "crash"},
    )
    assert known.notes([known.judge(r) for r in (FAILED, PASSED, SKIPPED)]) == [
        "known, but did not fail: test_a2 # fixed?",
        "fixed since the baseline: test_a2 tvm O3",
    ]
