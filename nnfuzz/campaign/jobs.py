"""The next jobs of producers: the indexes of a campaign, and probes in between."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from nnfuzz.base.shard import Shard
from nnfuzz.campaign.producer_pool import ProducerOrder
from nnfuzz.feedback.probe import Prober
from nnfuzz.sandbox.events import Death, Reply, Trouble
from nnfuzz.sandbox.pool import Ended
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered, TestId
from nnfuzz.testcase.jobs import Produce

MOST_RETURNS = 3
"""Each after MOST_KILLS of nnfuzz.sandbox.sandbox."""
Produced = Callable[[TestId, Reply[TestCase | NotProduced] | Trouble, int], None]
"""A function that takes the end of a job: the test or probe, event and epoch."""


class Indexes:
    """The indexes of a campaign, or of one of its parts, from the lowest on.

    limit: of the indexes; None: no end. done: whether an earlier session has run one. part: beyond
    which there are none. next: the first one that was neither handed out nor done earlier.
    """

    def __init__(
        self,
        limit: int | None,
        done: Callable[[int], bool],
        part: Shard = Shard(),  # noqa: B008
    ) -> None:
        self._limit = limit
        self._done = done
        self._part = part
        self.next = -1
        self.take()

    @property
    def left(self) -> bool:
        """Whether there is a further index."""
        return self._limit is None or self.next < self._limit

    def take(self) -> int:
        """Hands out the next index, which there has to be."""
        taken = self.next
        self.next += 1
        while self._done(self.next) or not self._part.owns(self.next):
            self.next += 1
        return taken


class JobSource:
    """Jobs for producers, made when one is idle.

    end: the first index that must not be handed out yet.
    """

    def __init__(
        self,
        seed: int,
        indexes: Indexes,
        prober: Prober,
        produced: Produced,
        room: Callable[[], bool] = lambda: True,
    ) -> None:
        """room: whether another probe may be handed out, beside those that are under way."""
        self.end = 0
        self._room = room
        self._seed = seed
        self._indexes = indexes
        self._prober = prober
        self._produced = produced
        self._turn = False
        self._returned: deque[Produce] = deque()
        self._returns: Counter[TestId] = Counter()

    @property
    def next_index(self) -> float:
        """The first one that was not handed out; infinite if none is known."""
        return self._indexes.next if self._indexes.left else math.inf

    @property
    def left(self) -> bool:
        """Whether some index was not handed out yet."""
        return bool(self._returned) or self._indexes.left

    def put_back(self, job: Produce) -> bool:
        """Has a job done again whose worker was killed from outside; False if that was done
        MOST_RETURNS times: then the job itself may make somebody kill its workers.
        """
        self._returns[job.test] += 1
        if self._returns[job.test] > MOST_RETURNS:
            return False
        self._returned.append(job)
        return True

    @property
    def waits(self) -> bool:
        """Whether there is no test to hand out at present."""
        return self.next_index >= self.end

    def test(self) -> ProducerOrder | None:
        """The next test case, or every other time a probe while there are any."""
        if self._returned:
            return self._order(self._returned.popleft())
        self._turn = not self._turn
        if (self._turn or self.waits) and len(self._prober) and self._room():
            return self.probe()
        if self.waits:
            return None
        return self.job(Numbered(self._seed, self._indexes.take()))

    def probe(self) -> ProducerOrder | None:
        if self._returned:
            return self._order(self._returned.popleft())
        probe = self._prober.next()
        return None if probe is None else self.job(probe)

    def job(self, test: TestId) -> ProducerOrder:
        return self._order(Produce(test))

    def _order(self, job: Produce) -> ProducerOrder:
        return ProducerOrder(job, partial(self._ended, job))

    def _ended(self, job: Produce, event: Ended, epoch: int, seconds: float) -> None:
        killed = isinstance(event, Death) and event.from_outside
        if without_exporter := job.after(event):
            self._returned.append(without_exporter)
        elif not (killed and self.put_back(job)):
            self._produced(job.test, event, epoch)
