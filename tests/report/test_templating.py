"""Templates of pages."""

from nnfuzz.report.templating import seconds


def test_durations_are_for_people():
    assert [seconds(s) for s in (1.5, 600, 9000)] == ["1.5 s", "10 min", "2 h 30 min"]
