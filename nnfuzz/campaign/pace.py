"""How long a backend usually takes, and from when on a run is no longer waited for.

Neither limit decides what comes of a run, since both follow the clock: that is for the time limit
of the backend alone. They decide who waits for it. Only in a campaign that the clock ends anyway a
hang is decided sooner, by how long others take (`Pace.hopeless`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from nnfuzz.backend.stage import Stage
from nnfuzz.testcase.identity import TestId

LATEST = 200  # levels that are remembered, so that the pace follows the load of the machine
TAIL = 0.95
"""Nineteen of twenty levels are faster: the slow end of what is usual, as far as 200 show it."""
UNUSUAL, SUSPICIOUS = 1.5, 20.0
"""Times the tail: what takes that long makes way; what takes that long looks like a hang. A tail is
about three times the mean: where one test in sixty hangs, waiting for twice that costs a tenth."""
LEAST_UNUSUAL, LEAST_SUSPICIOUS = 0.025, 1.0
"""Seconds. Making way costs next to nothing where the answer comes, since its worker is then the
next to take over, and a fork, some 20 ms, where none comes. A busy machine seldom keeps a process
from running for a second, and what is suspected wrongly is only told too early."""
HOPELESS, LEAST_HOPELESS = 100.0, 10.0
"""Times the tail, and seconds, that a hang gets where the clock ends the campaign."""
UNKNOWN = 1.0  # seconds to begin with, for a tail that nothing has shown yet
FEW = 20  # levels that do not show a tail
STEP = 8  # levels after which it is looked at again
LARGER = 4.0  # times as long as an elementary model of the survey a usual one may take


@dataclass(frozen=True)
class Waiting:
    """A run that is waited for: the level and stage that it is in, and for how many seconds."""

    test: TestId
    backend: str
    level: str
    stage: Stage
    seconds: float

    def __str__(self) -> str:
        return f"{self.stage} of {self.test} by {self.backend} {self.level}, {self.seconds:.0f} s"


class Pace:
    """What the levels of one backend took lately. ceiling: its time limit in seconds.

    Levels are told apart: one may interpret what another compiles, a thousand times as slowly.
    """

    def __init__(self, ceiling: float) -> None:
        self.ceiling = ceiling
        self._seconds: dict[str, deque[float]] = {}
        self._expected: dict[str, float] = {}
        self._tail: float | None = None
        self._meanwhile: float | None = None
        self._noted = 0

    def expect(self, elementary: float, level: str = "") -> None:
        """Takes the longest time of an elementary model at a level, to begin with."""
        self._expected[level] = LARGER * elementary
        self._tail = self._meanwhile = None

    def add(self, seconds: float, level: str = "") -> None:
        """Notes what a level took that has come to an end."""
        latest = self._seconds.setdefault(level, deque(maxlen=LATEST))
        latest.append(seconds)
        self._noted += 1
        if len(latest) < FEW or self._noted % STEP == 0:
            self._tail = self._meanwhile = None

    @property
    def tail(self) -> float:
        """What only one in twenty exceeds, at the slowest level."""
        if self._tail is None:
            levels = self._seconds.keys() | self._expected.keys()
            self._tail = max(map(self._tail_of, levels), default=UNKNOWN)
        return self._tail

    def _tail_of(self, level: str) -> float:
        ordered = sorted(self._seconds.get(level, ()))
        shown = ordered[int(TAIL * len(ordered))] if ordered else 0.0
        if len(ordered) >= FEW:
            return shown
        others = max(self._expected.values(), default=UNKNOWN)  # of one that nobody asked
        return max(shown, self._expected.get(level, others))

    @property
    def meanwhile(self) -> float:
        """Levels that usually end until one makes way."""
        if self._meanwhile is None:
            latest = [seconds for level in self._seconds.values() for seconds in level]
            self._meanwhile = self.unusual * len(latest) / max(sum(latest), 1e-9)
        return self._meanwhile

    @property
    def unusual(self) -> float:
        """Seconds after which a level makes way for other tests, and goes on beside them."""
        return min(self.ceiling, max(LEAST_UNUSUAL, UNUSUAL * self.tail))

    @property
    def suspicious(self) -> float:
        """Seconds after which a level is taken to hang until it answers."""
        return min(self.ceiling, max(LEAST_SUSPICIOUS, SUSPICIOUS * self.tail))

    @property
    def hopeless(self) -> float:
        """Seconds after which a level hangs, in a campaign that the clock ends."""
        return min(self.ceiling, max(LEAST_HOPELESS, HOPELESS * self.tail))
