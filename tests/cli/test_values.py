"""Values of options, as they are typed."""

from __future__ import annotations

import pytest

from nnfuzz.cli.errors import UsageError
from nnfuzz.cli.values import duration, listed, spoken


@pytest.mark.parametrize(
    "text, seconds", [("90s", 90), ("4h", 14400), ("1h30m", 5400), ("0.5m", 30)]
)
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "5", "4 parsecs", "-3s", "0s", "1h-2m"])
def test_bad_durations(text):
    with pytest.raises(UsageError, match="write 90s, 10m, 4h or 1h30m"):
        duration(text)


def test_spoken_durations():
    assert [spoken(s) for s in (9.4, 185, 3725)] == ["9s", "3m05s", "1h02m"]


def test_lists_may_be_repeated_or_have_commas():
    assert listed(["Add,Mul", " Conv "]) == ("Add", "Mul", "Conv")
    assert listed(None) == ()
