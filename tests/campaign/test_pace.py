"""After which time a run looks like a hang."""

from __future__ import annotations

from nnfuzz.campaign.lane_service import FEW, TIMES, Pace


def pace(seconds, ceiling=60.0):
    made = Pace(ceiling, least=5.0)
    for each in seconds:
        made.add(each)
    return made


def test_fast_compilers_get_the_least():
    assert pace([0.001] * FEW).limit == 5.0


def test_slow_compilers_get_more_but_never_more_than_the_time_limit():
    assert pace([2.0] * FEW).limit == TIMES * 2.0
    assert pace([0.1] * FEW + [1.0]).limit == TIMES * 1.0
    assert pace([2.0] * FEW, ceiling=30.0).limit == 30.0
    assert pace([0.001] * FEW, ceiling=2.0).limit == 2.0


def test_before_anything_is_known_the_time_limit_holds():
    assert pace([0.001] * (FEW - 1)).limit == 60.0


def test_elementary_models_show_what_is_usual():
    made = pace([])
    made.expect(0.0)
    assert made.limit == 60.0
    made.expect(0.5)
    assert made.limit == TIMES * 0.5
