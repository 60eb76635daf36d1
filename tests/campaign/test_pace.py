"""When a run is out of the usual, and when it looks like a hang."""

from __future__ import annotations

import pytest

from nnfuzz.campaign.pace import (
    FEW,
    LARGER,
    LATEST,
    LEAST_SUSPICIOUS,
    LEAST_UNUSUAL,
    UNUSUAL,
    Pace,
)


def pace(seconds, ceiling=60.0):
    made = Pace(ceiling)
    for each in seconds:
        made.add(each)
    return made


def test_fast_compilers_get_the_least():
    quick = pace([0.001] * 50)
    assert (quick.unusual, quick.suspicious) == (LEAST_UNUSUAL, LEAST_SUSPICIOUS)


def test_slow_compilers_get_more_but_never_more_than_the_time_limit():
    slow = pace([2.0] * 50)
    assert (slow.unusual, slow.suspicious) == (3.0, 40.0)
    assert pace([2.0] * 50, ceiling=2.5).unusual == 2.5
    assert pace([2.0] * 50, ceiling=30.0).suspicious == 30.0


def test_the_tail_counts_and_rare_exceptions_do_not():
    assert pace([0.1] * 90 + [1.0] * 10).tail == 1.0
    assert pace([0.1] * 97 + [1.0] * 3).tail == 0.1


def test_what_ends_meanwhile():
    assert pace([]).meanwhile == 0.0
    assert pace([0.01] * 50).meanwhile == pytest.approx(LEAST_UNUSUAL / 0.01)
    assert pace([2.0] * 50).meanwhile == pytest.approx(UNUSUAL)


def test_what_was_long_ago_is_forgotten():
    assert pace([9.0] * 50 + [1.0] * LATEST).tail == 1.0


def test_before_anything_is_known_nothing_is_waited_for_to_the_limit():
    assert LEAST_UNUSUAL < pace([]).unusual < pace([]).suspicious < 60.0


def test_elementary_models_show_what_to_expect_until_others_do():
    made = pace([])
    made.expect(0.5)
    made.add(0.01)
    assert made.tail == pytest.approx(LARGER * 0.5)
    made.add(3.0)
    assert made.tail == pytest.approx(3.0)
    for _ in range(FEW * 2):
        made.add(0.01)
    assert made.tail == pytest.approx(0.01)


def test_the_slowest_level_counts_however_often_others_run():
    made = pace([0.01] * LATEST)
    made.expect(1.0, "O3")
    assert made.tail == pytest.approx(LARGER)
    for _ in range(FEW):
        made.add(0.5, "O3")
    assert made.tail == pytest.approx(0.5)


def test_a_level_that_nobody_asked_is_taken_to_be_like_the_others():
    made = pace([])
    made.expect(0.01, "O0")
    made.add(0.02, "O1")
    assert made.tail == pytest.approx(LARGER * 0.01)
