"""bug.toml: written, read strictly, and what a bug is recognised by."""

from dataclasses import replace

import pytest

from nnfuzz.bugs.bug import Bug, BugError, ScriptResult, bug_text, newer, read_bug
from nnfuzz.triage.keys import Key
from tests.bugs.conftest import BUG, TODAY

LEAST = 'title = "a"\nsystem = "b"\n'


def test_a_bug_is_read_back(tmp_path):
    bug = BUG.noted("filed by hand\nand twice", TODAY)
    (tmp_path / "bug.toml").write_text(bug_text(bug))
    assert read_bug(tmp_path / "bug.toml") == bug
    assert bug.notes == ("2026-11-23 filed by hand and twice",)


def test_lists_of_several_have_a_line_for_each(tmp_path):
    text = bug_text(replace(BUG, operators=("Add", "Pow"), title='"\\ \x1b'))
    assert 'operators = [\n    "Add",\n    "Pow",\n]\n' in text and "\x1b" not in text
    (tmp_path / "bug.toml").write_text(text)
    assert read_bug(tmp_path / "bug.toml").operators == ("Add", "Pow")


def test_what_is_written_by_hand_may_be_short(tmp_path):
    (tmp_path / "bug.toml").write_text(LEAST + "first_seen = 2026-11-23 # not quoted\n")
    assert read_bug(tmp_path / "bug.toml") == Bug("a", "b", first_seen="2026-11-23")


@pytest.mark.parametrize(
    "text, message",
    [
        ("titel = 'a'", "there is no field 'titel'; did you mean 'title'"),
        ("system = 'b'", "title is missing"),
        (LEAST + "state = 'nw'", "state: 'nw' is none of new, filed, confirmed, fixed"),
        (LEAST + "keys = 'x'", "keys should be list, not 'x'"),
        (LEAST + "right_release = 'master'", "'master' is no release such as 1.31.1"),
        (LEAST + "signatures = ['Pow']", "'Pow' is neither a signature"),
        (LEAST + "state = 'duplicate'", "state duplicate and duplicate_of go together"),
        (LEAST + "upstream = '7'", "upstream '7' is no address such as https://"),
        (LEAST + "first_seen = 'May'", "first_seen 'May' is no day such as 2026-11-23"),
        (LEAST + "[releases]\n'1.0' = 'bad'", "releases.1.0: 'bad' is none of reproduces"),
        (LEAST + "schema = 2", "has the schema 2, this nnfuzz reads 1"),
        ("title = [", "is no TOML"),
        ("title = ''\nsystem = 'b'", "title is empty"),
    ],
)
def test_a_mistake_is_one_line_with_the_file(tmp_path, text, message):
    (tmp_path / "bug.toml").write_text(text)
    with pytest.raises(BugError) as error:
        read_bug(tmp_path / "bug.toml")
    assert message in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "bug.toml"))


def test_a_bug_has_a_finding_by_signature_or_keys():
    key = Key.parse("cause:c29550a8d898")
    assert BUG.is_of(["c29550a8d898"], [])
    assert BUG.is_of([], [key])
    assert not BUG.is_of(["0" * 12], [Key.parse("cause:0")])
    assert not replace(BUG, keys=()).is_of([], [key])


def test_a_bug_is_known_in_the_ways_in_which_it_failed():
    crash = replace(BUG, kind="crash", keys=("cause:1", "operators:Pow"))
    both = BUG.recognised_as(crash)
    assert both.failure_kinds == {"crash", "mismatch"}
    assert both.keys == ("cause:c29550a8d898", "cause:1", "failure:crash", "failure:mismatch")
    for bug, kinds in ((BUG, ["mismatch"]), (both, ["crash", "mismatch"])):
        known, keys = bug.known(), Key.parse_all(BUG.keys)
        assert [k for k in ("crash", "exception", "mismatch") if known.has(keys, k)] == kinds
    assert replace(BUG, kind="").known().has(Key.parse_all(BUG.keys), "crash")


def test_releases_are_compared_as_versions():
    assert newer("1.10", "1.9") and not newer("1.9", "1.9") and not newer("", "1.9")
    bug = BUG.failing_in("0.9").failing_in("10.0").failing_in("")
    assert (bug.first_bad_release, bug.last_bad_release) == ("0.9", "10.0")
    assert bug.releases["10.0"] is ScriptResult.REPRODUCES
