"""What producers work on next: the indexes of a campaign, and probes in between."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from nnfuzz.campaign.probe import Prober
from nnfuzz.campaign.producer_pool import Job
from nnfuzz.execute.events import Death, Fault, Reply
from nnfuzz.shard import Shard
from nnfuzz.testcase.service import produce_job, produced_as
from nnfuzz.testcase.test_id import Numbered, TestId

Produced = Callable[[TestId, Reply | Fault | Death, int, float], None]
"""What takes the end of a job: what was to be made, event, epoch and seconds."""


class JobSource:
    """Jobs for producers, made when one is idle.

    end: the first index that must not be handed out yet. next_index: the first one that was neither
    handed out nor done earlier.
    """

    def __init__(
        self,
        seed: int,
        limit: int | None,
        done: Collection[int],
        prober: Prober,
        produced: Produced,
        part: Shard = Shard(),  # noqa: B008 (frozen)
    ) -> None:
        """limit: tests of the campaign; None: no end. done: the indexes of earlier sessions. part:
        of the indexes, beyond which there are none.
        """
        self.end = 0
        self._part = part
        self._seed = seed
        self._limit = limit
        self._done = done
        self._prober = prober
        self._produced = produced
        self._turn = False
        self.next_index = -1
        self._take()

    @property
    def left(self) -> bool:
        """Whether some index was not asked for yet."""
        return self._limit is None or self.next_index < self._limit

    @property
    def waits(self) -> bool:
        """Whether there is no test to hand out at present."""
        return not self.left or self.next_index >= self.end

    def test(self) -> Job | None:
        """The next test case, or every other time a probe while there are any."""
        self._turn = not self._turn
        if (self._turn or self.waits) and len(self._prober):
            return self.probe()
        if self.waits:
            return None
        job = self.job(Numbered(self._seed, self.next_index))
        self._take()
        return job

    def probe(self) -> Job | None:
        probe = self._prober.next()
        return None if probe is None else self.job(probe)

    def job(self, test: TestId) -> Job:
        done = partial(self._produced, test)
        return Job(produce_job(test), done, reading=produced_as(test))

    def _take(self) -> None:
        self.next_index += 1
        while self.next_index in self._done or not self._part.owns(self.next_index):
            self.next_index += 1
