"""A binary search over releases asks as few as it can, and says what it saw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.experiment.bisection import BisectionStep, ReleaseAnswer, came, went

RELEASES = [f"1.{n}" for n in range(35)]


def asked(answers):
    """A compiler that answers for releases as a list says, and counts how often."""
    calls = []

    def ask(release):
        calls.append(release)
        return BisectionStep(release, answers[RELEASES.index(release)])

    return ask, calls


@given(st.integers(1, 34))
def test_the_first_release_that_fails_is_found_in_six(first):
    ask, calls = asked([ReleaseAnswer.RIGHT] * first + [ReleaseAnswer.FAILS] * (35 - first))
    found = came("c", RELEASES, ask)
    assert found.release == f"1.{first}"
    assert found.result == f"fails since 1.{first}; 1.{first - 1} is right"
    assert len(calls) <= 6
    assert [step.release for step in found.steps] == calls


@given(st.integers(1, 34))
def test_the_first_release_that_is_right_again_is_found_in_six(first):
    ask, calls = asked([ReleaseAnswer.FAILS] * first + [ReleaseAnswer.RIGHT] * (35 - first))
    found = went("c", RELEASES, ask)
    assert found.release == f"1.{first}"
    assert found.result == f"1.{first} is right; it fails up to 1.{first - 1}"
    assert len(calls) <= 6


@given(st.integers(1, 34), st.sets(st.integers(0, 34)))
def test_what_cannot_be_installed_is_skipped(first, missing):
    answers = [ReleaseAnswer.RIGHT] * first + [ReleaseAnswer.FAILS] * (35 - first)
    for i in missing - {34}:
        answers[i] = ReleaseAnswer.SKIPPED
    ask, _ = asked(answers)
    found = came("c", RELEASES, ask)
    there = [i for i in range(35) if answers[i] is not ReleaseAnswer.SKIPPED]
    least = min(i for i in there if i >= first)
    before = [i for i in there if i < first]
    assert found.release == (f"1.{least}" if before else "")
    if before and least - max(before) > 1:
        assert "cannot be installed)" in found.result


def test_ends_that_are_known_are_not_asked():
    ask, calls = asked([ReleaseAnswer.RIGHT] * 34 + [ReleaseAnswer.FAILS])
    assert came("c", ["1.33", "1.34"], ask, right=True).release == "1.34"
    ask, calls = asked([ReleaseAnswer.FAILS] + [ReleaseAnswer.RIGHT] * 34)
    assert went("c", ["1.0", "1.1"], ask, right=True).release == "1.1"
    assert calls == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ReleaseAnswer.UNSUPPORTED, "fails since 1.34; 1.33 does not support the model"),
        (ReleaseAnswer.DIFFERENT, "fails since 1.34; 1.33 fails differently"),
        (ReleaseAnswer.FAILS, "fails in 1.0 already, the oldest that was asked"),
    ],
)
def test_what_comes_before_is_told(answer, told):
    ask, _ = asked([answer] * 34 + [ReleaseAnswer.FAILS])
    assert came("c", RELEASES, ask).result == told


def test_what_fails_in_another_way_is_not_fixed():
    ask, _ = asked(
        [ReleaseAnswer.FAILS] * 3 + [ReleaseAnswer.DIFFERENT] * 20 + [ReleaseAnswer.RIGHT] * 12
    )
    assert went("c", RELEASES, ask).release == "1.23"


def test_a_failure_may_never_go():
    ask, _ = asked([ReleaseAnswer.FAILS] * 35)
    found = went("c", RELEASES, ask)
    assert (found.result, found.release) == ("still fails in 1.34", "")
