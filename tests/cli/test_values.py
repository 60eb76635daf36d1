"""Values of options, as they are typed."""

from __future__ import annotations

import pytest

from nnfuzz.base.setting import DURATION
from nnfuzz.cli.errors import listed, spoken
from nnfuzz.cli.options import PART, SIZE


@pytest.mark.parametrize(
    "kind, text, value",
    [
        (DURATION, "90s", 90),
        (DURATION, "4h", 14400),
        (DURATION, "1h30m", 5400),
        (DURATION, "0.5m", 30),
        (SIZE, "1000", 1000),
        (SIZE, "512k", 512_000),
        (SIZE, "1.5 MB", 1_500_000),
        (SIZE, "1G", 10**9),
    ],
)
def test_values(kind, text, value):
    assert kind.read(text) == value


@pytest.mark.parametrize(
    "kind, texts, message",
    [
        (DURATION, ["", "h", "5", "4 parsecs", "-3s", "0s", "1h-2m"], "write 90s, 10m, 4h or"),
        (SIZE, ["", "k", "0", "1 mile", "-1k"], "write 4000, 64k, 20M or 1G"),
        (PART, ["", "3", "01/2", "0/3", "4/3", "1/0", "a/b", "1/2/3"], "write 2/8"),
    ],
)
def test_bad_values(kind, texts, message):
    for text in texts:
        with pytest.raises(ValueError, match=message):
            kind.read(text)


def test_spoken_durations():
    assert [spoken(s) for s in (9.4, 185, 3725)] == ["9s", "3m05s", "1h02m"]


def test_lists_may_be_repeated_or_have_commas():
    assert listed(["Add,Mul", " Conv "]) == ("Add", "Mul", "Conv")
    assert listed(None) == ()
