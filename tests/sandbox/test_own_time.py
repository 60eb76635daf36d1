"""Time that counts only while its owner can use it."""

from __future__ import annotations

from nnfuzz.sandbox import own_time
from nnfuzz.sandbox.own_time import OwnTime


class Clock:
    """Of a machine of which a test says how it is."""

    def __init__(self, monkeypatch) -> None:
        self.now = self.waited = 0.0
        monkeypatch.setattr(own_time.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(own_time, "core_wait", lambda pid: self.waited)

    def go_on(self, clock: OwnTime, seconds: float, share: float = 1.0) -> float:
        """Looks every tenth of a second; a process has a core for that share. When 10 s are over,
        or infinity.
        """
        for step in range(round(10 * seconds)):
            self.now += 0.1
            self.waited += 0.1 * (1 - share)
            if clock.exceeds(10.0, 1):
                return step / 10
        return float("inf")


def test_waiting_for_a_core_does_not_count(monkeypatch):
    machine = Clock(monkeypatch)
    assert 9.9 < machine.go_on(OwnTime(), 60) < 10.2
    assert 90 < machine.go_on(OwnTime(), 200, share=0.1) < 101


def test_time_in_which_nobody_looked_does_not_count(monkeypatch):
    machine = Clock(monkeypatch)
    clock = OwnTime()
    machine.now += 3600.0
    assert not clock.exceeds(10.0, 1) and clock.seconds <= own_time.LOOK_SECONDS
    assert 8.0 < machine.go_on(clock, 60) < 10.0
