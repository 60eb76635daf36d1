"""After which time a run looks like a hang.

The limit follows from the times of earlier runs of the same compiler, so that a hang holds up a
lane for seconds. It decides nothing: a suspected hang is confirmed with the whole time limit.
"""

from __future__ import annotations

FEW = 20  # fewer runs do not show how long a run usually takes
TIMES = 20.0  # the multiple of the slowest run so far that every run gets


class Pace:
    """How long the runs of one compiler take.

    ceiling: its time limit for one level, in seconds. least: seconds that every run gets.
    """

    def __init__(self, ceiling: float, least: float) -> None:
        self.ceiling, self._least = ceiling, least
        self._slowest, self._runs = 0.0, 0

    def expect(self, seconds: float) -> None:
        """Notes how long the slowest elementary model took, where that is known."""
        if seconds:
            self._slowest, self._runs = max(self._slowest, seconds), FEW

    def add(self, seconds: float) -> None:
        """Notes the seconds of a level that has ended by itself."""
        self._slowest, self._runs = max(self._slowest, seconds), self._runs + 1

    @property
    def limit(self) -> float:
        """The seconds after which a level looks like a hang."""
        if self._runs < FEW:
            return self.ceiling
        return min(self.ceiling, max(self._least, TIMES * self._slowest))
