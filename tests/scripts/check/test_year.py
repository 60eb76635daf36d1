"""The walk of a year: what a bug is before it, and what counts as a disagreement after it."""

from __future__ import annotations

import json
from dataclasses import replace

from nnfuzz.bugs.bug import BugState, ScriptResult
from scripts.check.year import disagreements, forgotten, twice, walked
from tests.bugs.conftest import BUG

BAD, RIGHT, OTHER = ScriptResult.REPRODUCES, ScriptResult.RIGHT, ScriptResult.OTHERWISE
RESULTS = {"1.0": RIGHT, "1.9": BAD, "1.10": BAD, "1.11": OTHER, "1.12": RIGHT}
LIVED = replace(
    BUG,
    state=BugState.FIXED,
    first_bad_release="1.9",
    last_bad_release="1.10",
    right_release="1.12",
    releases=RESULTS,
)


def test_a_bug_is_forgotten_back_to_its_oldest_bad_release():
    bug = forgotten(LIVED, RESULTS)
    assert (bug.state, bug.releases, bug.right_release) == (BugState.NEW, {"1.9": BAD}, "")
    assert forgotten(LIVED, {"1.0": RIGHT, "1.1": OTHER}) is None


def test_what_follows_from_the_results_agrees():
    assert list(disagreements(LIVED, RESULTS)) == []


def test_every_field_that_says_otherwise_is_a_line():
    wrong = replace(
        LIVED,
        state=BugState.NEW,
        last_bad_release="1.9",
        right_release="",
        releases={**RESULTS, "1.10": RIGHT},
    )
    assert list(disagreements(wrong, RESULTS)) == [
        "1.10: right, by hand reproduces",
        "last bad release: 1.9, by hand 1.10",
        "right release: none, by hand 1.12",
        "fixed: none, by hand True",
    ]


def test_what_a_campaign_has_observed_counts_where_the_script_cannot_run():
    earlier = replace(LIVED, first_bad_release="1.8", releases={**RESULTS, "1.8": BAD})
    assert list(disagreements(earlier, {**RESULTS, "1.8": OTHER})) == []
    assert list(disagreements(earlier, {**RESULTS, "1.8": RIGHT})) != []


def test_each_nth_release_is_walked_and_the_newest():
    listed = ["1.15.1", "1.16.0", "1.16.1", "1.17.0", "1.18.0"]
    assert walked(listed, "1.16.0", 2) == ["1.16.0", "1.17.0", "1.18.0"]
    assert walked(listed, "1.16.0", 3) == ["1.16.0", "1.18.0"]


def test_an_event_that_is_announced_twice_is_a_line(tmp_path):
    assert twice(tmp_path) == []
    event = {"bug": "numpy/pow", "text": "fixed in 2.0"}
    line = json.dumps({"schema": 1, "events": [event, {**event, "text": "other"}]})
    (tmp_path / "news.jsonl").write_text(f"{line}\n\n{json.dumps({'events': [event]})}\n")
    assert twice(tmp_path) == ["announced 2 times: numpy/pow: fixed in 2.0"]
