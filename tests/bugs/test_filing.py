"""A second filing is refused, other findings are not, and a flood is held back."""

import json
from dataclasses import replace

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.bugs.bug import BugState, ScriptResult
from nnfuzz.bugs.filing import Filing, read_dump, releases_sentence
from nnfuzz.triage.keys import Key
from tests.bugs.conftest import BUG

FILED = replace(BUG, state=BugState.FILED, upstream="https://example.org/7")
SAME = Filing("numpy", frozenset(["c29550a8d898"]), frozenset(), ["Pow", "bfloat16"])
OTHER = Filing("numpy", frozenset(["0" * 12]), frozenset([Key.parse("cause:0")]), ["Pow"])


@pytest.mark.parametrize("number", range(30))
def test_of_two_findings_of_one_cause_the_second_is_refused_and_others_are_not(number):
    digest = f"{number:012x}"
    bug = replace(FILED, signatures=(digest,), keys=(f"cause:{digest}",))
    by_hash = Filing("numpy", frozenset([digest]), frozenset())
    by_key = Filing("numpy", frozenset(["f" * 12]), frozenset([Key.parse(f"cause:{digest}")]))
    for filing in (by_hash, by_key):
        assert "is filed already https://example.org/7" in filing.refusal({"a": bug}, (), 0)
    assert not OTHER.refusal({"a": replace(bug, signatures=("1" * 12,), keys=())}, (), 0)


def test_a_new_bug_is_not_filed_yet():
    assert not SAME.refusal({"a": BUG}, (), 0) and SAME.bug_in({"a": BUG}) == "a"
    assert (
        SAME.refusal({"a": replace(BUG, state=BugState.WONTFIX)}, (), 0) == "a is wontfix already"
    )
    assert not SAME.refusal({"a": replace(FILED, system="tvm")}, (), 0)


def test_a_duplicate_counts_for_its_leader():
    gone = replace(BUG, state=BugState.DUPLICATE, duplicate_of="b")
    bugs = {"a": gone, "b": replace(FILED, signatures=(), keys=())}
    assert SAME.refusal(bugs, (), 0) == "b is filed already https://example.org/7"


def test_a_flood_is_held_back():
    bugs = {str(i): replace(FILED, signatures=(), keys=()) for i in range(3)}
    assert "3 issues of numpy are open, and --max-open is 3" in OTHER.refusal(bugs, (), 3)
    assert not OTHER.refusal(bugs, (), 4)


def test_a_dump_is_searched(tmp_path):
    rows = [
        {"title": "Pow", "url": "u1", "body": "of BFloat16"},
        {"title": "x", "url": "", "body": None},
    ]
    (tmp_path / "dump.json").write_text(json.dumps(rows))
    assert [i.url for i in SAME.similar(read_dump(tmp_path / "dump.json"))] == ["u1"]
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "1.md").write_text("A title\n\nsignature c29550a8d898")
    issues = read_dump(folder)
    assert issues[0].title == "A title" and "has its signature" in SAME.refusal({}, issues, 0)
    (tmp_path / "dump.json").write_text('[{"title": 1}]')
    with pytest.raises(Unreadable, match="write it by gh issue list"):
        read_dump(tmp_path / "dump.json")


def test_releases_are_told_in_a_sentence():
    releases = {
        "0.9": ScriptResult.RIGHT,
        "2.0": ScriptResult.REPRODUCES,
        "3.0": ScriptResult.RIGHT,
    }
    told = releases_sentence(replace(BUG, releases=releases, right_release="3.0"))
    assert told == (
        "Releases: it fails in 1.0 to 2.0; it is right in 0.9; it is right again in 3.0; the "
        "newest that was tried is 3.0 (right)."
    )
