"""How long a backend usually takes, and after which time nothing waits for a run any more.

These limits follow the clock, so they do not decide the outcome of a run: only the backend's time
limit does. They decide which tests wait for the run. The exception is a campaign that ends by the
clock: there a hang is decided sooner, by how long other runs take (`Pace.hopeless`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from nnfuzz.backend.stage import Stage
from nnfuzz.testcase.identity import TestId

LATEST = 200  # levels that count, so that the pace follows the load of the machine
TAIL = 0.95
"""Quantile of the times that is taken for the slow end of usual runs."""
UNUSUAL, SUSPICIOUS = 1.5, 20.0
"""Multiples of the tail after which a run makes way for others, and after which it looks like a
hang. A tail is about three times the mean: if one test in sixty hangs, waiting for twice the tail
costs a tenth of the time."""
LEAST_UNUSUAL, LEAST_SUSPICIOUS = 0.025, 1.0
"""Lower limits of both, in seconds. Making way costs next to nothing if the answer comes, since its
worker is then the next to take over, and otherwise a fork (some 20 ms). A busy machine seldom keeps
a process from running for a second, and a wrong suspicion is only reported too early."""
HOPELESS, LEAST_HOPELESS = 100.0, 10.0
"""Multiple of the tail, and seconds, after which a run hangs if the clock ends the campaign."""
UNKNOWN = 1.0  # seconds: the tail before any level has ended
FEW = 20  # levels that are too few for a tail
STEP = 8  # levels after which the tail is computed again
LARGER = 4.0  # times the seconds of an elementary model that a usual one may take


@dataclass(frozen=True)
class Waiting:
    """A run without an answer: its level and stage, and the seconds that it has taken so far."""

    test: TestId
    backend: str
    level: str
    stage: Stage
    seconds: float

    def __str__(self) -> str:
        return f"{self.stage} of {self.test} by {self.backend} {self.level}, {self.seconds:.0f} s"


class Pace:
    """The latest times of one backend by level. ceiling: the backend's time limit in seconds.

    Each level has times of its own: one may interpret a model that another compiles, and take a
    thousand times as long.
    """

    def __init__(self, ceiling: float) -> None:
        self.ceiling = ceiling
        self._seconds: dict[str, deque[float]] = {}
        self._expected: dict[str, float] = {}
        self._tail: float | None = None
        self._meanwhile: float | None = None
        self._noted = 0

    def expect(self, elementary: float, level: str = "") -> None:
        """Sets the expectation for a level: the longest time of an elementary model, in seconds."""
        self._expected[level] = LARGER * elementary
        self._tail = self._meanwhile = None

    def add(self, seconds: float, level: str = "") -> None:
        """Records the seconds of a level that has ended."""
        latest = self._seconds.setdefault(level, deque(maxlen=LATEST))
        latest.append(seconds)
        self._noted += 1
        if len(latest) < FEW or self._noted % STEP == 0:
            self._tail = self._meanwhile = None

    @property
    def tail(self) -> float:
        """The seconds that one run in twenty exceeds at the slowest level."""
        if self._tail is None:
            levels = self._seconds.keys() | self._expected.keys()
            self._tail = max(map(self._tail_of, levels), default=UNKNOWN)
        return self._tail

    def _tail_of(self, level: str) -> float:
        ordered = sorted(self._seconds.get(level, ()))
        observed = ordered[int(TAIL * len(ordered))] if ordered else 0.0
        if len(ordered) >= FEW:
            return observed
        others = max(self._expected.values(), default=UNKNOWN)  # for a level without expectation
        return max(observed, self._expected.get(level, others))

    @property
    def meanwhile(self) -> float:
        """The number of levels that usually end until one makes way."""
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
        """Seconds after which a level counts as a hang if the clock ends the campaign."""
        return min(self.ceiling, max(LEAST_HOPELESS, HOPELESS * self.tail))
