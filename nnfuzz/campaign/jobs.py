"""What producers work on next: the indices of a campaign, and probes in between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from nnfuzz.campaign.pools import Job
from nnfuzz.campaign.probe import Probe, Prober
from nnfuzz.execute.events import Death, Fault, Reply

Produced = Callable[[dict[str, Any], Probe | None, Reply | Fault | Death, int, float], None]
"""What takes the end of a job: header, the probe if it is one, event, epoch and seconds."""


class JobSource:
    """Jobs for producers, made when one is idle."""

    def __init__(
        self, limit: int | None, done: Collection[int], prober: Prober, produced: Produced
    ) -> None:
        """limit: tests of the campaign; None: no end. done: the indices of earlier sessions."""
        self._limit = limit
        self._done = done
        self._prober = prober
        self._produced = produced
        self._indexes = self._remaining()
        self._asked = 0
        self._turn = False

    @property
    def left(self) -> bool:
        """Whether some index was not asked for yet."""
        return self._limit is None or len(self._done) + self._asked < self._limit

    def test(self) -> Job | None:
        """The next test case, or every other time a probe while there are any."""
        self._turn = not self._turn
        if self._turn and len(self._prober):
            return self.probe()
        index = next(self._indexes, None)
        if index is None:
            return None
        self._asked += 1
        header = {"do": "produce", "index": index}
        return Job(header, partial(self._produced, header, None))

    def probe(self) -> Job | None:
        probe = self._prober.next()
        if probe is None:
            return None
        header = probe.job()
        return Job(header, partial(self._produced, header, probe))

    def _remaining(self) -> Iterator[int]:
        index = 0
        while self._limit is None or index < self._limit:
            if index not in self._done:
                yield index
            index += 1
