"""Events by day, and what each release fixed and broke."""

from dataclasses import replace

from nnfuzz.bugs.bug import BugState, ScriptResult
from nnfuzz.bugs.history import changes_of, events, release_changes
from tests.bugs.conftest import BUG

RIGHT, WRONG = ScriptResult.RIGHT, ScriptResult.REPRODUCES
OTHERWISE = ScriptResult.OTHERWISE


def test_events_come_in_the_order_of_days_and_keep_their_identity():
    bug = replace(BUG, first_seen="2026-02-01", notes=("2026-03-01 fixed in 3.0", "by hand"))
    older = replace(BUG, title="older", first_seen="2026-01-01")
    found = events({"numpy/b": bug, "numpy/a": older})
    assert [e.line for e in found] == [
        "numpy/a: new: older",
        "numpy/b: new: Pow of bfloat16",
        "numpy/b: by hand",
        "numpy/b: fixed in 3.0",
    ]
    assert [e.id for e in found] == [e.id for e in events({"numpy/a": older, "numpy/b": bug})]
    assert len({e.id for e in found}) == 4


def test_a_release_is_named_for_what_it_fixed_and_what_it_broke():
    results = {"1.0": RIGHT, "1.9": WRONG, "1.10": OTHERWISE, "2.0": WRONG, "3.0": RIGHT}
    bug = replace(BUG, releases=results)
    assert changes_of(bug) == {"1.9": WRONG, "3.0": RIGHT}
    assert changes_of(replace(BUG, right_release="2.1")) == {"2.1": RIGHT}
    gone = replace(bug, state=BugState.DUPLICATE, duplicate_of="numpy/a")
    found = release_changes({"numpy/a": bug, "numpy/b": replace(bug, releases={}), "numpy/c": gone})
    assert list(found["numpy"]) == ["3.0", "1.9"]
    assert found["numpy"]["3.0"].fixed == ["numpy/a"] == found["numpy"]["1.9"].broke
