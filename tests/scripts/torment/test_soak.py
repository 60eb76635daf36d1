"""What grows is told with how sure that is, over the last half of the readings."""

from __future__ import annotations

import random

import pytest

from scripts.torment.soak import ROLES, Reading, grown, report_growth


def readings(parent):
    return [
        Reading(1, 1000 * i, 20.0 * i, dict.fromkeys(ROLES, 200.0) | {"parent": parent(i)},
                dict.fromkeys(ROLES, 7), 3, 2.0 * i, 3.0 * i)
        for i in range(1, 41)
    ]  # fmt: skip


def test_a_leak_is_told_apart_from_noise():
    rng = random.Random(0)
    noisy = readings(lambda i: 100 + rng.uniform(-5, 5))
    slope, error = grown(noisy, lambda reading: reading.memory["parent"])
    assert abs(slope) < 3 * error
    leaky = readings(lambda i: 100 + 0.8 * i + rng.uniform(-5, 5))
    slope, error = grown(leaky, lambda reading: reading.memory["parent"])
    assert slope > 5 * error and slope == pytest.approx(0.8, abs=3 * error)


def test_what_is_told_is_the_slope_of_the_last_half(capsys):
    assert report_growth(readings(lambda i: 100 + min(i, 20))) == pytest.approx(0.0, abs=1e-9)
    text = capsys.readouterr().out
    assert "tests 21000 to 40000" in text and "database +2.00 MB, campaign +3.00 MB" in text
